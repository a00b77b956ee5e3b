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
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state"
)

type turnsCmd struct {
	List   turnsListCmd   `cmd:"" default:"withargs" help:"List the turns that were parked, the oldest first."`
	Show   turnsShowCmd   `cmd:"" help:"Show what is known of a parked turn."`
	Retry  turnsRetryCmd  `cmd:"" help:"Put parked turns back: a running bot goes on where they were."`
	Drop   turnsDropCmd   `cmd:"" help:"Forget parked turns for good."`
	Export turnsExportCmd `cmd:"" help:"Make tests of parked turns: scenarios for bottest run. They hold what people wrote."`
}

// turnsPatience is how long the operator waits for a Redis that is away.
const turnsPatience = 3 * time.Second

// withInbox opens the inbox that the running bots work on, without taking part.
func withInbox(ctx context.Context, s *settings.Settings, std *cli.Streams, use func(*state.Inbox) error) error {
	if err := cli.Check(s); err != nil {
		return err
	}
	if s.RedisURL == "" {
		return cli.Usage(errors.New("REDIS_URL: is not set, and the turns of a bot with the embedded Redis are in that bot's process only: " +
			"nothing of them can be seen from here, and they are gone when it ends"))
	}
	log := cli.Logger(std.Err, s)
	p := &program{Settings: s, log: log.Level(max(log.GetLevel(), zerolog.WarnLevel))}
	defer p.close()
	if err := p.openStore(ctx); err != nil {
		return err
	}
	inbox, err := p.store.Inbox(state.InboxConfig{Patience: turnsPatience, Log: p.log})
	if err != nil {
		return err
	}
	defer inbox.Close()
	return use(inbox)
}

type turnsListCmd struct {
	JSON bool `name:"json" help:"print JSON: a list of what show --json prints"`
}

// Run prints the parked turns without anything that people wrote.
func (c turnsListCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(inbox *state.Inbox) error {
		parked, err := inbox.Parked(ctx)
		if err != nil {
			return err
		}
		waiting, err := inbox.Waiting(ctx)
		if err != nil {
			return err
		}
		list := make([]bot.ParkedTurn, len(parked))
		for i, p := range parked {
			list[i] = bot.ReadParked(p, false)
		}
		if c.JSON {
			return cli.PrintJSON(std.Out, list)
		}
		table := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
		if len(list) > 0 {
			fmt.Fprintln(table, "TURN\tPARKED\tTAKEOVERS\tREASON\tCONVERSATION")
		}
		for _, t := range list {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", cli.Printable(t.Turn), moment(t.Parked), t.Takeovers,
				cli.Printable(t.Reason), cli.Printable(cmp.Or(t.Conversation, t.Lane)))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(std.Out, "%s parked, %s at work or waiting\n", turns(len(list)), turns(waiting))
		return nil
	})
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprint(n, " turns")
}

// moment is empty for a time that is not known.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

type turnsShowCmd struct {
	Turn    string `arg:"" placeholder:"ID" help:"id of the turn, as in the bot's message about it"`
	JSON    bool   `name:"json" help:"print JSON"`
	Content bool   `help:"also what people and models wrote: the text that came in, and the plan with all values"`
}

// Run prints one turn.
func (c turnsShowCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(inbox *state.Inbox) error {
		found, err := parkedTurns(ctx, inbox, []string{c.Turn})
		if err != nil {
			return fmt.Errorf("show a turn: %w", err)
		}
		t := bot.ReadParked(found[0], c.Content)
		if c.JSON {
			return cli.PrintJSON(std.Out, t)
		}
		return printTurn(std.Out, t)
	})
}

// parkedTurns finds the parked turns with these ids, in their order; without ids all of them.
func parkedTurns(ctx context.Context, inbox *state.Inbox, ids []string) (found []state.Parked, err error) {
	parked, err := inbox.Parked(ctx)
	if len(ids) == 0 || err != nil {
		return parked, err
	}
	for _, id := range ids {
		at := slices.IndexFunc(parked, func(p state.Parked) bool { return p.Turn == id })
		if at < 0 {
			return nil, fmt.Errorf("%w: %.80q", state.ErrNoTurn, id)
		}
		found = append(found, parked[at])
	}
	return found, nil
}

// printTurn prints what is known of one turn, leaving out what is not.
func printTurn(out io.Writer, t bot.ParkedTurn) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, cli.Printable(value))
		}
	}
	line("turn", t.Turn)
	line("reason", t.Reason)
	line("parked", moment(t.Parked))
	line("accepted", moment(t.Accepted))
	line("takeovers", fmt.Sprint(t.Takeovers))
	line("type", t.Type)
	line("channel", t.Channel)
	line("conversation", t.Conversation)
	line("from", t.From)
	line("follows approval", t.Approval)
	if t.Text != "" {
		line("text", strconv.QuoteToGraphic(t.Text))
	}
	if !t.Begun {
		line("journal", "none: it begins anew")
	}
	line("done", strings.Join(t.Done, ", "))
	for _, step := range t.Plan {
		switch step.State {
		case "":
			line("plan", step.Command)
		case "begun":
			line("plan", step.Command+" - begun, nobody knows whether it was done")
		default:
			line("plan", step.Command+" - "+step.State)
		}
	}
	line("sent", strings.Join(t.Sent, ", "))
	if t.Unsent > 0 {
		line("to be sent", fmt.Sprint(t.Unsent))
	}
	line("not read", t.Unread)
	line("lane", t.Lane)
	return table.Flush()
}

// turnsNamed says which turns a command is for.
type turnsNamed struct {
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns"`
	All   bool     `help:"all that are parked"`
}

// names lists the turns, with --all the one first that was parked first.
func (n turnsNamed) names(ctx context.Context, inbox *state.Inbox) ([]string, error) {
	if n.All == (len(n.Turns) > 0) {
		return nil, cli.Usage(errors.New("which turns? Give their ids, or --all"))
	}
	if !n.All {
		return n.Turns, nil
	}
	parked, err := inbox.Parked(ctx)
	names := make([]string, len(parked))
	for i, p := range parked {
		names[i] = p.Turn
	}
	return names, err
}

// eachTurn does something with each of the turns, and says so. The error lists those that it
// could not be done with.
func eachTurn(out io.Writer, names []string, said string, do func(turn string) error) error {
	var faults []error
	for _, name := range names {
		if err := do(name); err != nil {
			faults = append(faults, err)
			continue
		}
		fmt.Fprintln(out, cli.Printable(name), said)
	}
	return errors.Join(faults...)
}

type turnsRetryCmd struct{ turnsNamed }

// Run puts the turns back.
func (c turnsRetryCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(inbox *state.Inbox) error {
		names, err := c.names(ctx, inbox)
		if err != nil {
			return err
		}
		return eachTurn(std.Out, names, "was put back", func(turn string) error { return inbox.Unpark(ctx, turn) })
	})
}

type turnsDropCmd struct {
	turnsNamed
	Yes bool `short:"y" help:"do not ask; needed where nobody can be asked"`
}

// Run forgets the turns.
func (c turnsDropCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(inbox *state.Inbox) error {
		names, err := c.names(ctx, inbox)
		if err != nil {
			return err
		}
		if len(names) > 0 && !c.Yes {
			if err := confirm(std, fmt.Sprintf("Forget %s for good? bot turns export --raw keeps a copy.", turns(len(names)))); err != nil {
				return err
			}
		}
		return eachTurn(std.Out, names, "is forgotten", func(turn string) error { return inbox.Drop(ctx, turn) })
	})
}

// confirm asks the person at the terminal. Where there is none, nobody said yes.
func confirm(std *cli.Streams, question string) error {
	if !cli.IsTerminal(std.In) {
		return cli.Usage(errors.New("nobody can be asked here whether to forget them: say --yes"))
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
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns; none: all that are parked"`
	Raw   bool     `help:"a JSON line for each turn with all that is known of it, ids and names as they are"`
	Out   string   `short:"o" type:"path" placeholder:"FILE" help:"file to write, which must not exist; without it standard output"`
}

// Help says what comes of it.
func (turnsExportCmd) Help() string {
	return "Writes scenarios that bottest run plays: what came in, what the model planned, and what had to be done. " +
		"Names, ids and secrets have stand-ins, as far as they are found; notes say what nobody knows. Look before you share it."
}

// Run writes the turns. The error is about those that are left out, too.
func (c turnsExportCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	return withInbox(ctx, s, std, func(inbox *state.Inbox) error {
		parked, err := parkedTurns(ctx, inbox, c.Turns)
		if err != nil {
			return fmt.Errorf("export a turn: %w", err)
		}
		if len(parked) == 0 {
			fmt.Fprintln(std.Err, "no turn is parked: there is nothing to export")
		}
		data, left := c.render(parked, s)
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

// create makes the file. What people wrote is to be in it, so it is for the operator alone.
func (c turnsExportCmd) create() (*os.File, error) {
	if !c.Raw && strings.EqualFold(filepath.Ext(c.Out), ".json") {
		return nil, fmt.Errorf("--out: %s: scenarios are written as YAML, and bottest run would read this as JSON", c.Out)
	}
	if info, err := os.Stat(c.Out); err == nil && info.IsDir() {
		return nil, fmt.Errorf("--out: %s is a folder", c.Out)
	}
	return os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// exportedTurn is all of a parked turn, as JSON where it is that.
type exportedTurn struct {
	Turn      string    `json:"turn"`
	Reason    string    `json:"reason"`
	Parked    time.Time `json:"parked"`
	Accepted  time.Time `json:"accepted"`
	Takeovers int       `json:"takeovers"`
	Lane      string    `json:"lane"`
	Item      any       `json:"item"`
	Journal   any       `json:"journal,omitempty"`
}

// render writes the turns, raw or as scenarios.
func (c turnsExportCmd) render(parked []state.Parked, s *settings.Settings) (data []byte, left error) {
	var out bytes.Buffer
	var all []record.Scenario
	var faults []error
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, p := range parked {
		if c.Raw {
			t := exportedTurn{p.Turn, p.Reason, p.At, p.Accepted, p.Tries, p.Lane.String(), asJSON(p.Body), nil}
			if len(p.Journal) > 0 {
				t.Journal = asJSON(p.Journal)
			}
			faults = append(faults, lines.Encode(t))
			continue
		}
		one, err := record.Parked(p, s.Secrets()...)
		if err != nil {
			faults = append(faults, fmt.Errorf("no test is to be made of this; --raw shows it: %w", err))
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

// asJSON is the value itself or, of what is no JSON, a text of it.
func asJSON(raw []byte) any {
	if json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return string(raw)
}
