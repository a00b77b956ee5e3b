package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

type turnsCmd struct {
	List  turnsListCmd  `default:"true" help:"List the dead letters: turns that an operator has to look at."`
	Find  turnsFindCmd  `help:"Say when any turn was, for whom and how it ended, even if it ended well; needs BOT_TURNS_KEEP."`
	Show  turnsShowCmd  `help:"Show everything known about a dead letter."`
	Retry turnsRetryCmd `help:"Put dead letters back into the queue: a running bot goes on where they stopped."`
	Drop  turnsDropCmd  `help:"Forget dead letters for good, or with --old what an older version left."`
}

const turnsPatience = 3 * time.Second // how long whoever looks at turns waits for an unreachable Redis

func withInbox(ctx context.Context, s *settings.Settings, std *cli.Streams, use func(*inbox.Inbox) error) error {
	return withStore(ctx, s, std, func(p *program) error {
		in, err := p.openInbox(p.store)
		if err != nil {
			return err
		}
		return use(in)
	})
}

func withStore(ctx context.Context, s *settings.Settings, std *cli.Streams, use func(*program) error) error {
	p := &program{Settings: s, log: cli.Logger(std.Err, s, zerolog.WarnLevel)}
	defer p.close()
	if err := p.openRunning(ctx); err != nil {
		return err
	}
	return use(p)
}

type turnsListCmd struct {
	JSON bool `name:"json" help:"print JSON: a list of what show --json prints"`
}

// Run prints the dead letters without anything that people wrote.
func (c turnsListCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(in *inbox.Inbox) error {
		dead, err := in.Dead(ctx)
		if err != nil {
			return err
		}
		waiting, err := in.Depth(ctx)
		if err != nil {
			return err
		}
		timed, err := in.CountTimed(ctx)
		if err != nil {
			return err
		}
		list := make([]turnview.Dead, len(dead))
		for i, w := range dead {
			list[i] = turnview.ReadDead(w, false)
		}
		if c.JSON {
			return cli.PrintJSON(std.Out, list)
		}
		table := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
		if len(list) > 0 {
			fmt.Fprintln(table, "TURN\tSINCE\tREASON\tCONVERSATION")
		}
		for _, t := range list {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", cli.Printable(t.Turn), turnview.Moment(t.Since),
				cli.Printable(t.Reason), cli.Printable(cmp.Or(t.Conversation, t.Queue)))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		later := ""
		if timed > 0 {
			later = fmt.Sprintf(", %d more until somebody answers or a time comes", timed)
		}
		fmt.Fprintf(std.Out, "%s, %s at work or waiting%s\n", turnview.Count(len(list), "dead letter"), turnview.Count(waiting, "turn"), later)
		return nil
	})
}

type turnsShowCmd struct {
	Turn    string `arg:"" placeholder:"ID" help:"id of the turn, as in the bot's message about it"`
	JSON    bool   `name:"json" help:"print JSON"`
	Content bool   `help:"also what people and models wrote: the text that came in, and the plan with all values"`
}

func (c turnsShowCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(in *inbox.Inbox) error {
		found, err := turnview.FindDead(ctx, in, []string{c.Turn})
		if err != nil {
			return fmt.Errorf("show a turn: %w", err)
		}
		t := turnview.ReadDead(found[0], c.Content)
		if c.JSON {
			return cli.PrintJSON(std.Out, t)
		}
		return cli.PrintFields(std.Out, t.Rows())
	})
}

// turnsNamed selects the turns for a command.
type turnsNamed struct {
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns"`
	All   bool     `help:"all dead letters"`
}

// find finds the dead letters; with --all, oldest first. Errors are those of [turnview.FindDead].
func (n turnsNamed) find(ctx context.Context, in *inbox.Inbox) ([]inbox.Waiting, error) {
	if n.All == (len(n.Turns) > 0) {
		return nil, cli.Usage(errors.New("which turns? Give their ids, or --all"))
	}
	return turnview.FindDead(ctx, in, n.Turns)
}

// eachTurn calls do for each turn and prints said. The error lists the turns for which it failed.
func eachTurn(out io.Writer, turns []inbox.Waiting, said string, do func(inbox.Waiting) error) error {
	var faults []error
	for _, w := range turns {
		if err := do(w); err != nil {
			faults = append(faults, err)
			continue
		}
		fmt.Fprintln(out, cli.Printable(w.ID), said)
	}
	return errors.Join(faults...)
}

type turnsRetryCmd struct{ turnsNamed }

func (c turnsRetryCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(in *inbox.Inbox) error {
		dead, missing := c.find(ctx, in)
		faults := eachTurn(std.Out, dead, "was put back", func(w inbox.Waiting) error { return in.Wake(ctx, w, nil) })
		return errors.Join(missing, faults)
	})
}

type turnsDropCmd struct {
	turnsNamed
	Old bool `help:"everything that a version with another Redis layout left and this one cannot read"`
	Yes bool `short:"y" help:"do not ask; needed where nobody can be asked"`
}

func (c turnsDropCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(in *inbox.Inbox) error {
		if c.Old {
			return c.dropOld(ctx, std, in)
		}
		dead, missing := c.find(ctx, in)
		if len(dead) > 0 && !c.Yes {
			if err := confirm(std, fmt.Sprintf("Forget %s for good? bot turns export --raw keeps a copy.", turnview.Count(len(dead), "turn"))); err != nil {
				return errors.Join(missing, err)
			}
		}
		faults := eachTurn(std.Out, dead, "is forgotten", func(w inbox.Waiting) error {
			dropped, err := in.Drop(ctx, w.Queue, w.ID)
			if err == nil && !dropped { // someone else was faster, maybe to put it back
				err = fmt.Errorf("no such dead letter: %.80q", w.ID)
			}
			return err
		})
		return errors.Join(missing, faults)
	})
}

func (c turnsDropCmd) dropOld(ctx context.Context, std *cli.Streams, in *inbox.Inbox) error {
	n, err := in.Old(ctx)
	if err != nil {
		return err
	}
	if n > 0 && !c.Yes {
		if err := confirm(std, fmt.Sprintf("Forget %d keys of an older version, and the turns in them, for good?", n)); err != nil {
			return err
		}
	}
	n, err = in.DropOld(ctx)
	fmt.Fprintf(std.Out, "deleted %d keys of an older version\n", n)
	return err
}

// confirm asks the person at the terminal. Without a terminal the answer is no.
func confirm(std *cli.Streams, question string) error {
	if !cli.IsTerminal(std.In) {
		return cli.Usage(errors.New("cannot ask for confirmation here: add --yes"))
	}
	fmt.Fprint(std.Out, question, " [y/N] ")
	answer, err := bufio.NewReader(io.LimitReader(std.In, 100)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was forgotten")
	}
	return nil
}

type turnsFindCmd struct {
	Turn []string `arg:"" placeholder:"ID" help:"id of the turn, or the bot's message that has it"`
	JSON bool     `name:"json" help:"print JSON"`
}

func (turnsFindCmd) Help() string {
	return "Bots write this down while BOT_TURNS_KEEP is set, and delete it after that time or when the person says /forget. " +
		"OUTCOME is ok, failed, waiting or dead_letter, with the kind of failure or what the turn waits for. " +
		"Nothing that people or models wrote is kept."
}

func (c turnsFindCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	id, err := turnview.ID(strings.Join(c.Turn, " "))
	if err != nil {
		return cli.Usage(err)
	}
	return withStore(ctx, s, std, func(p *program) error {
		head, err := heads.Read(ctx, p.store, id)
		if errors.Is(err, state.ErrNoRow) {
			return c.missing(ctx, p, id)
		}
		if err != nil {
			return fmt.Errorf("find a turn: %w", err)
		}
		chain, err := approvalsOf(ctx, p, id)
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(std.Out, struct {
				heads.Head
				Approvals []string `json:"approvals,omitempty"`
			}{head, chain})
		}
		if err := printHead(std.Out, head); err != nil || len(chain) == 0 {
			return err
		}
		fmt.Fprintln(std.Out, "approvals:")
		for _, line := range chain {
			fmt.Fprintln(std.Out, "  "+cli.Printable(line))
		}
		return nil
	})
}

// maxWaits limits the waiting turns among which one is found.
const maxWaits = 100_000

// approvalsOf says whom a turn asked for approvals when, by which rule, and who decided: from what waits, else from the audit.
func approvalsOf(ctx context.Context, p *program, id string) (lines []string, err error) {
	in, err := p.openInbox(p.store)
	if err != nil {
		return nil, err
	}
	waiting, err := in.Timed(ctx, maxWaits)
	if err != nil {
		return nil, err
	}
	for _, one := range waiting {
		if one.ID != id {
			continue
		}
		rec, err := turn.Decode(one.Record)
		if err != nil {
			return nil, fmt.Errorf("read a turn: %w", err)
		}
		if lines = approvals.Chain(&rec); len(lines) > 0 {
			return lines, nil
		}
	}
	err = audit.Read(ctx, p.store, time.Time{}, func(e audit.Entry) error {
		if e.Turn != id || e.What != "approval" && e.What != "delegation" {
			return nil
		}
		line := fmt.Sprintf("%s: %s %s by %s", turnview.Moment(e.At), e.Action, e.Outcome, cmp.Or(e.User, e.Account, "nobody"))
		if e.Asked != "" {
			line += ", of " + e.Asked
		}
		if e.What == "delegation" {
			line += " for " + e.ID
		}
		lines = append(lines, line)
		return nil
	})
	return lines, err
}

// missing says why there may be no head, and what else there is.
func (c turnsFindCmd) missing(ctx context.Context, p *program, id string) error {
	in, err := p.openInbox(p.store)
	if err != nil {
		return err
	}
	dead, err := in.Dead(ctx)
	if slices.ContainsFunc(dead, func(w inbox.Waiting) bool { return w.ID == id }) {
		return fmt.Errorf("nothing is kept about turn %s, but it is a dead letter: bot turns show %s", id, id)
	}
	return errors.Join(fmt.Errorf("nothing is kept about turn %s: it is not over, or longer ago than BOT_TURNS_KEEP, "+
		"or that was not set for the bot, or the person said /forget", id), err)
}

// printHead prints what is known about one turn.
func printHead(out io.Writer, h heads.Head) error {
	if err := cli.PrintFields(out, turnview.HeadRows(h)); err != nil {
		return err
	}
	if h.Outcome == "dead_letter" {
		fmt.Fprintf(out, "What it did so far: bot turns show %s\n", cli.Printable(h.Turn))
	}
	return nil
}
