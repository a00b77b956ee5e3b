package app

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state/inbox"
)

type turnsCmd struct {
	List   turnsListCmd   `default:"true" help:"List the dead letters: turns that an operator has to look at."`
	Find   turnsFindCmd   `help:"Say when any turn was, for whom and how it ended, even if it ended well; needs BOT_TURNS_KEEP."`
	Show   turnsShowCmd   `help:"Show everything known about a dead letter."`
	Retry  turnsRetryCmd  `help:"Put dead letters back into the queue: a running bot goes on where they stopped."`
	Drop   turnsDropCmd   `help:"Forget dead letters for good, or with --old what an older version left."`
	Export turnsExportCmd `help:"Turn dead letters into scenarios for bottest run."`
}

// turnsPatience is how long whoever looks at turns waits for an unreachable Redis.
const turnsPatience = 3 * time.Second

// withInbox opens the inbox of the running bots.
func withInbox(ctx context.Context, s *settings.Settings, std *cli.Streams, use func(*inbox.Inbox) error) error {
	return withStore(ctx, s, std, func(p *program) error {
		in, err := p.openInbox(p.store)
		if err != nil {
			return err
		}
		return use(in)
	})
}

// withStore opens the store of the running bots.
func withStore(ctx context.Context, s *settings.Settings, std *cli.Streams, use func(*program) error) error {
	if err := cli.Check(s); err != nil {
		return err
	}
	if s.RedisURL == "" && s.DataDir == "" {
		return cli.Usage(errors.New("REDIS_URL or BOT_DATA_DIR must be set: other processes cannot see into an embedded Redis"))
	}
	p := &program{Settings: s, log: cli.Logger(std.Err, s, zerolog.WarnLevel)}
	defer p.close()
	if err := p.openStore(ctx); err != nil {
		return err
	}
	if s.DataDir != "" {
		if err := p.store.Ping(ctx); err != nil {
			return fmt.Errorf("no bot runs with BOT_DATA_DIR=%s: %w", s.DataDir, err)
		}
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
		fmt.Fprintf(std.Out, "%s, %s at work or waiting\n", turnview.Count(len(list), "dead letter"), turnview.Count(waiting, "turn"))
		return nil
	})
}

type turnsShowCmd struct {
	Turn    string `arg:"" placeholder:"ID" help:"id of the turn, as in the bot's message about it"`
	JSON    bool   `name:"json" help:"print JSON"`
	Content bool   `help:"also what people and models wrote: the text that came in, and the plan with all values"`
}

// Run prints one turn.
func (c turnsShowCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(in *inbox.Inbox) error {
		found, err := findDead(ctx, in, []string{c.Turn})
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

// findDead finds the dead letters with these ids, in this order; without ids, all of them. The
// error lists missing ids; the others are still returned.
func findDead(ctx context.Context, in *inbox.Inbox, ids []string) (found []inbox.Waiting, err error) {
	dead, err := in.Dead(ctx)
	if len(ids) == 0 || err != nil {
		return dead, err
	}
	var missing []error
	for _, id := range ids {
		at := slices.IndexFunc(dead, func(w inbox.Waiting) bool { return w.ID == id })
		if at < 0 {
			missing = append(missing, fmt.Errorf("no such dead letter: %.80q", id))
			continue
		}
		found = append(found, dead[at])
	}
	return found, errors.Join(missing...)
}

// turnsNamed selects the turns for a command.
type turnsNamed struct {
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns"`
	All   bool     `help:"all dead letters"`
}

// find finds the dead letters; with --all, oldest first. Errors are those of findDead.
func (n turnsNamed) find(ctx context.Context, in *inbox.Inbox) ([]inbox.Waiting, error) {
	if n.All == (len(n.Turns) > 0) {
		return nil, cli.Usage(errors.New("which turns? Give their ids, or --all"))
	}
	return findDead(ctx, in, n.Turns)
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

// Run puts the turns back in their queues.
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

// Run deletes the turns.
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

// dropOld deletes what an older version left.
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

type turnsExportCmd struct {
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns; none: all dead letters"`
	Raw   bool     `help:"one JSON line per turn with everything known about it, ids and names unchanged"`
	Out   string   `short:"o" type:"path" placeholder:"FILE" help:"new file; without it standard output"`
}

// Help explains the outcome.
func (turnsExportCmd) Help() string {
	return "Writes scenarios that bottest run plays: what came in, what the model planned, and what had to be done. " +
		"Names, ids and secrets have stand-ins, as far as they are found. Look before you share it."
}

// Run writes the turns. The error also covers those left out.
func (c turnsExportCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(in *inbox.Inbox) error {
		dead, err := findDead(ctx, in, c.Turns)
		if err != nil {
			return fmt.Errorf("export a turn: %w", err)
		}
		if len(dead) == 0 {
			fmt.Fprintln(std.Err, "there are no dead letters, so there is nothing to export")
		}
		data, left := c.render(dead, s)
		if len(data) == 0 {
			return left
		}
		if c.Out == "" {
			_, err := std.Out.Write(data)
			return errors.Join(err, left)
		}
		file, err := c.create()
		if err != nil {
			return cli.Usage(err)
		}
		_, err = file.Write(data)
		return errors.Join(err, file.Close(), left)
	})
}

// create creates the file, readable only by the operator because it contains what people wrote.
func (c turnsExportCmd) create() (*os.File, error) {
	if !c.Raw && strings.EqualFold(filepath.Ext(c.Out), ".json") {
		return nil, fmt.Errorf("--out: %s: scenarios are written as YAML, and bottest run would read this as JSON", c.Out)
	}
	return os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// exportedTurn is a complete dead letter, with JSON as JSON.
type exportedTurn struct {
	Turn   string    `json:"turn"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Queue  string    `json:"queue"`
	Record any       `json:"record"`
}

// render writes the turns, raw or as scenarios.
func (c turnsExportCmd) render(dead []inbox.Waiting, s *settings.Settings) (data []byte, left error) {
	var out bytes.Buffer
	var all []record.Scenario
	var faults []error
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, w := range dead {
		if c.Raw {
			faults = append(faults, lines.Encode(exportedTurn{w.ID, turn.Reason(w), w.Since, w.Queue.String(), asJSON(w.Record)}))
			continue
		}
		one, err := record.DeadLetter(w, s.Secrets()...)
		if err != nil {
			faults = append(faults, fmt.Errorf("cannot make a test of this (--raw shows it): %w", err))
			continue
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		text, err := record.Write(all)
		out.Write(text)
		faults = append(faults, err)
	}
	return out.Bytes(), errors.Join(faults...)
}

// asJSON returns raw as JSON, or as a text if it is not JSON.
func asJSON(raw []byte) any {
	if json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return string(raw)
}
