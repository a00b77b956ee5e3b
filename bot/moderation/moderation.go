// Package moderation has a moderator judge what people say and what the bot is about to say and do. A message is judged
// before the planner or the history gets it, a plan as a whole before its first command runs, and a text with variables when
// they are filled in. What is flagged ends the turn with one sentence and is kept nowhere. Where people see answers while they
// are written, each sentence is held back until it has passed.
package moderation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/models/moderation"
)

// Config says who judges.
type Config struct {
	Moderator moderation.Moderator // nil: nobody judges
	// FailOpen lets through what could not be judged. false: the turn fails with an error that wraps
	// [moderation.ErrUnjudged].
	FailOpen bool
}

// Counted is what is counted of each verdict: passed, flagged, failed or let_through. It is also what the audit calls it.
const Counted = "moderation"

// within limits one verdict, if the moderator has no limit of its own.
const within = 10 * time.Second

// What people read, unless the bot has a FilteredText.
const (
	flaggedSaid     texts.Text = "Sorry, I can't help with that message. Please try other words."
	flaggedAnswer   texts.Text = "Sorry, my answer did not pass a content check, so I held it back. Please try other words."
	flaggedDocument texts.Text = "Sorry, something that I read for this did not pass a content check, so I stopped."
)

// New returns the feature. The person reads filteredText when something is flagged; "": a sentence that says what was.
func New(cfg Config, filteredText string) turn.Feature {
	j := &judge{cfg, filteredText}
	return turn.Feature{Name: Counted, Judge: j.judge, Failed: failed}
}

type judge struct {
	cfg          Config
	filteredText string
}

func failed(_ context.Context, t *turn.Turn, failure error) string {
	if errors.Is(failure, moderation.ErrUnjudged) {
		return t.Translate("Sorry, I can't check messages right now, so I stopped. Please try again in a minute.")
	}
	return ""
}

func (m *judge) judge(ctx context.Context, t *turn.Turn, j turn.Judging) error {
	if j.Drafted != nil {
		tell(ctx, t, j, j.Drafted.Verdict)
		return j.Drafted
	}
	verdict, err := m.ask(ctx, j.Pieces)
	switch {
	case err != nil && (j.Draft || ctx.Err() != nil):
		return err
	case err != nil && !m.cfg.FailOpen:
		t.Count(Counted, "failed")
		return err
	case err != nil:
		t.Count(Counted, "let_through")
		zerolog.Ctx(ctx).Error().Str("error", turn.Cause(err)).Msg("a text could not be judged and is let through")
		return nil
	case verdict.Flagged() && !j.Draft:
		tell(ctx, t, j, verdict)
	case !j.Draft:
		t.Count(Counted, "passed")
	}
	if !verdict.Flagged() {
		return nil
	}
	say := flaggedAnswer
	switch j.Pieces[0].Kind {
	case moderation.Said, moderation.Image:
		say = flaggedSaid
	case moderation.Document:
		say = flaggedDocument
	}
	return &turn.Flagged{Verdict: verdict, Say: cmp.Or(m.filteredText, t.Translate(say))}
}

func (m *judge) ask(ctx context.Context, all []moderation.Piece) (verdict moderation.Verdict, err error) {
	defer func() {
		if p := recover(); p != nil { // the moderator is third-party code
			err = fmt.Errorf("the moderator panicked: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return m.cfg.Moderator.Judge(ctx, all)
}

// tell tells the operator what was flagged, and the audit if that ends the turn.
func tell(ctx context.Context, t *turn.Turn, j turn.Judging, verdict moderation.Verdict) {
	t.Count(Counted, "flagged")
	var kinds []string
	for _, p := range j.Pieces {
		kinds = append(kinds, string(p.Kind))
	}
	kinds = slices.Compact(kinds)
	line := zerolog.Ctx(ctx).Warn().Strs("kinds", kinds).Strs("categories", verdict.Categories).Str("hash", turn.Hash(j.Of))
	if j.Parts {
		line.Msg("left out by moderation")
		return
	}
	line.Msg("flagged by moderation")
	turn.NoteFor(t, t, turn.Note{
		What: Counted, Outcome: "flagged", Action: strings.Join(verdict.Categories, ","), Of: j.Of, ID: strings.Join(kinds, ","),
	})
}
