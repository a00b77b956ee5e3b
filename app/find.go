package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/planbot-go/planbot/bot/turn"
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
	id, err := turnID(strings.Join(c.Turn, " "))
	if err != nil {
		return cli.Usage(err)
	}
	return withStore(ctx, s, std, func(p *program) error {
		head, err := turn.ReadHead(ctx, p.store, id)
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

// maxTurnID limits what may be an id.
const maxTurnID = 64

// turnID is the id of a turn in what somebody copied: the id alone, "(turn ID)", or all that the bot
// said, in any of its languages. The id comes last there.
func turnID(text string) (string, error) {
	letter := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '-' || r == '_'
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !letter(r) })
	if len(words) == 0 {
		return "", errors.New("which turn? Its id is at the end of what the bot said, such as (turn 3d7rq2mzk4ab)")
	}
	id := words[len(words)-1]
	if last := strings.TrimSpace(text); len(words) == 2 && strings.HasSuffix(last, words[0]+"."+words[1]) {
		id = words[0] // the key of a call is ID.NUMBER
	}
	if len(id) > maxTurnID {
		return "", fmt.Errorf("%.80q is not the id of a turn", id)
	}
	return strings.ToLower(id), nil
}

// printHead prints what is known about one turn.
func printHead(out io.Writer, h turn.Head) error {
	if err := cli.PrintFields(out, headRows(h)); err != nil {
		return err
	}
	if h.Outcome == "dead_letter" {
		fmt.Fprintf(out, "What it did so far: bot turns show %s\n", cli.Printable(h.Turn))
	}
	return nil
}

// headRows are names and values of what is known; values may be empty.
func headRows(h turn.Head) [][2]string {
	outcome := h.Outcome
	if h.Reason != "" {
		outcome += " (" + h.Reason + ")"
	}
	conversation := h.Conversation
	if h.Kind != "" {
		conversation += " (" + h.Kind + ")"
	}
	person := cmp.Or(h.User, h.Account)
	if h.Tenant != "" {
		person += " of tenant " + h.Tenant
	}
	rows := [][2]string{
		{"turn", h.Turn},
		{"outcome", outcome},
		{"accepted", moment(h.Accepted)},
		{"waited", seconds(h.WaitedMS)},
		{"took", seconds(h.TookMS)},
		{"tries", strconv.Itoa(h.Tries)},
		{"type", h.Type},
		{"channel", h.Channel},
		{"conversation", conversation},
		{"person", person},
	}
	if h.ModelCalls > 0 {
		rows = append(rows, [2]string{"model", fmt.Sprintf("%s, %d + %d tokens", count(h.ModelCalls, "call"), h.PromptTokens, h.CompletionTokens)})
	}
	if h.Cost > 0 {
		rows = append(rows, [2]string{"cost", strconv.FormatFloat(h.Cost, 'f', -1, 64)})
	}
	return append(rows, [2]string{"sent", count(h.Sent, "message")}, [2]string{"trace", h.Trace})
}

func seconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
