package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest/recording"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/state"
)

type turnsCmd struct {
	List   turnsListCmd   `cmd:"" default:"withargs" help:"List the turns that were parked, the oldest first."`
	Show   turnsShowCmd   `cmd:"" help:"Show what is known of a parked turn."`
	Retry  turnsRetryCmd  `cmd:"" help:"Put parked turns back: a running bot goes on where they were."`
	Drop   turnsDropCmd   `cmd:"" help:"Forget parked turns for good."`
	Export turnsExportCmd `cmd:"" help:"Make tests of parked turns: scenarios for bot test. They hold what people wrote."`
}

// errEmbedded is the mistake of asking for turns that no other process can see.
var errEmbedded = errors.New("REDIS_URL: is not set, and the turns of a bot with the embedded Redis are in that bot's process only: " +
	"nothing of them can be seen from here, and they are gone when it ends")

// turnsPatience is how long the operator waits for a Redis that is away.
const turnsPatience = 3 * time.Second

// withInbox opens the inbox that the running bots work on, without taking part.
func (s *settings) withInbox(ctx context.Context, std *streams, use func(*state.Inbox) error) error {
	c, err := s.checked()
	if err != nil {
		return err
	}
	if c.RedisURL == "" {
		return usageError{errEmbedded}
	}
	a := &program{config: c, log: logger(std.err, c).Level(max(c.logLevel, zerolog.WarnLevel))}
	defer a.close()
	if err := a.openStore(ctx); err != nil {
		return err
	}
	inbox, err := a.store.Inbox(state.InboxConfig{Patience: turnsPatience, Log: a.log})
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
func (c turnsListCmd) Run(ctx context.Context, s *settings, std *streams) error {
	return s.withInbox(ctx, std, func(inbox *state.Inbox) error {
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
			return printJSON(std.out, list)
		}
		return printTurns(std.out, list, waiting)
	})
}

type turnsShowCmd struct {
	Turn    string `arg:"" placeholder:"ID" help:"id of the turn, as in the bot's message about it"`
	JSON    bool   `name:"json" help:"print JSON"`
	Content bool   `help:"also what people and models wrote: the text that came in, and the plan with all values"`
}

// Run prints one turn.
func (c turnsShowCmd) Run(ctx context.Context, s *settings, std *streams) error {
	return s.withInbox(ctx, std, func(inbox *state.Inbox) error {
		parked, err := inbox.Parked(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(parked, func(p state.Parked) bool { return p.Turn == c.Turn })
		if at < 0 {
			return fmt.Errorf("show a turn: %w: %.80q", state.ErrNoTurn, c.Turn)
		}
		t := bot.ReadParked(parked[at], c.Content)
		if c.JSON {
			return printJSON(std.out, t)
		}
		return printTurn(std.out, t)
	})
}

// turnsNamed says which turns a command is for.
type turnsNamed struct {
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns"`
	All   bool     `help:"all that are parked"`
}

// names lists the turns. Each is named once, the one that was parked first goes first with --all.
func (n turnsNamed) names(ctx context.Context, inbox *state.Inbox) ([]string, error) {
	if n.All == (len(n.Turns) > 0) {
		return nil, usageError{errors.New("which turns? Give their ids, or --all")}
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

// eachTurn does something with each of the turns, and says so. The error lists
// those that it could not be done with.
func eachTurn(out io.Writer, names []string, said string, do func(turn string) error) error {
	var faults []error
	for _, name := range names {
		if err := do(name); err != nil {
			faults = append(faults, err)
			continue
		}
		fmt.Fprintln(out, printable(name), said)
	}
	return errors.Join(faults...)
}

type turnsRetryCmd struct{ turnsNamed }

// Run puts the turns back.
func (c turnsRetryCmd) Run(ctx context.Context, s *settings, std *streams) error {
	return s.withInbox(ctx, std, func(inbox *state.Inbox) error {
		names, err := c.names(ctx, inbox)
		if err != nil {
			return err
		}
		return eachTurn(std.out, names, "was put back", func(turn string) error { return inbox.Unpark(ctx, turn) })
	})
}

type turnsDropCmd struct {
	turnsNamed
	Yes bool `short:"y" help:"do not ask; needed where nobody can be asked"`
}

// Run forgets the turns.
func (c turnsDropCmd) Run(ctx context.Context, s *settings, std *streams) error {
	return s.withInbox(ctx, std, func(inbox *state.Inbox) error {
		names, err := c.names(ctx, inbox)
		if err != nil {
			return err
		}
		if len(names) > 0 && !c.Yes {
			if err := confirm(std, fmt.Sprintf("Forget %s for good? bot turns export --raw keeps a copy.", turns(len(names)))); err != nil {
				return err
			}
		}
		return eachTurn(std.out, names, "is forgotten", func(turn string) error { return inbox.Drop(ctx, turn) })
	})
}

// confirm asks the person at the terminal. Where there is none, nobody said yes.
func confirm(std *streams, question string) error {
	if !isTerminal(std.in) {
		return usageError{errors.New("nobody can be asked here whether to forget them: say --yes")}
	}
	fmt.Fprint(std.out, question, " [y/N] ")
	answer, err := bufio.NewReader(io.LimitReader(std.in, 100)).ReadString('\n')
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
	return "Writes scenarios that bot test plays: what came in, what the model planned, and what had to be done. " +
		"Names, ids and secrets have stand-ins, as far as they are found; notes say what nobody knows. Look before you share it."
}

// Run writes the turns.
func (c turnsExportCmd) Run(ctx context.Context, s *settings, std *streams) error {
	return s.withInbox(ctx, std, func(inbox *state.Inbox) error {
		parked, err := inbox.Parked(ctx)
		if err != nil {
			return err
		}
		if parked, err = c.choose(parked); err != nil {
			return err
		}
		if len(parked) == 0 {
			fmt.Fprintln(std.err, "no turn is parked: there is nothing to export")
		}
		data, left := c.render(parked, s)
		if len(data) == 0 {
			return left
		}
		if c.Out == "" {
			_, err := std.out.Write(data)
			return errors.Join(err, left)
		}
		file, err := c.create()
		if err != nil {
			return usageError{err}
		}
		_, err = file.Write(data)
		return errors.Join(err, file.Close(), left)
	})
}

// create makes the file. What people wrote is to be in it, so it is for the operator alone.
func (c turnsExportCmd) create() (*os.File, error) {
	if !c.Raw && strings.EqualFold(filepath.Ext(c.Out), ".json") {
		return nil, fmt.Errorf("--out: %s: scenarios are written as YAML, and bot test would read this as JSON", c.Out)
	}
	if info, err := os.Stat(c.Out); err == nil && info.IsDir() {
		return nil, fmt.Errorf("--out: %s is a folder", c.Out)
	}
	return os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// choose finds the turns that were named, in that order.
func (c turnsExportCmd) choose(parked []state.Parked) ([]state.Parked, error) {
	if len(c.Turns) == 0 {
		return parked, nil
	}
	var chosen []state.Parked
	for _, name := range c.Turns {
		at := slices.IndexFunc(parked, func(p state.Parked) bool { return p.Turn == name })
		if at < 0 {
			return nil, fmt.Errorf("export a turn: %w: %.80q", state.ErrNoTurn, name)
		}
		chosen = append(chosen, parked[at])
	}
	return chosen, nil
}

// render writes the turns, raw or as scenarios. The error is about those that are left out.
func (c turnsExportCmd) render(parked []state.Parked, s *settings) (data []byte, left error) {
	var out bytes.Buffer
	if c.Raw {
		left = export(&out, parked)
		return out.Bytes(), left
	}
	var all []scenario.Scenario
	var faults []error
	for _, p := range parked {
		one, err := recording.Parked(p, s.secrets()...)
		if err != nil {
			faults = append(faults, fmt.Errorf("no test is to be made of this; --raw shows it: %w", err))
			continue
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		var err error
		data, err = scenario.Write(all)
		faults = append(faults, err)
	}
	return data, errors.Join(faults...)
}

func export(out io.Writer, parked []state.Parked) error {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for _, p := range parked {
		if err := lines.Encode(exported(p)); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return nil
}
