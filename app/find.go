package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

type turnsFindCmd struct {
	Turn []string `arg:"" placeholder:"ID" help:"id of the turn, or the bot's message that has it"`
	JSON bool     `name:"json" help:"print JSON"`
}

// Help explains the outcome.
func (turnsFindCmd) Help() string {
	return "Bots write this down while BOT_TURNS_KEEP is set, and delete it after that time or when the person says /forget. " +
		"OUTCOME is ok, failed, waiting or dead_letter, with the kind of failure or what the turn waits for. " +
		"Nothing that people or models wrote is kept."
}

// Run prints the head of a turn.
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
		if c.JSON {
			return cli.PrintJSON(std.Out, head)
		}
		return printHead(std.Out, head)
	})
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
