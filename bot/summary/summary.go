// Package summary replaces the oldest turns of a history by a summary. The model writes it after a reply,
// beside the next turns of the conversation, which never wait for it. The result is a record in the
// conversation's queue, so the history changes between two turns and not during one. If the model fails or
// the process is killed, a later turn tries again, until the history forgets its oldest turns.
package summary

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

const (
	featureName = "summary"
	// Room is how many times as many turns the history keeps while it waits for a summary.
	Room     = 3
	within   = time.Minute // limits the writing of a summary
	maxBytes = 4 << 10     // how many bytes a summary may have
)

// New returns the feature that has sumUp sum up what is more than keep turns, see [bot.Config].
func New(sumUp func(ctx context.Context, t *actions.Turn, keep int) (summary string, of int, err error), keep int) turn.Feature {
	s := &summaries{write: sumUp, keep: keep}
	return turn.Feature{Name: featureName, Ended: s.ended, Handle: put}
}

type summaries struct {
	write func(ctx context.Context, t *actions.Turn, keep int) (summary string, of int, err error)
	keep  int
	now   sync.Map // keys of the threads for which this process has a summary written
}

// written is a summary that is not in the history yet.
type written struct {
	Text string `json:"text"`
	Of   int    `json:"of"`   // how many of the oldest turns it sums up
	Hash string `json:"hash"` // of them and of the summary before
}

var slot = turn.NewSlot[written](featureName)

// ended starts to write a summary if the history may need one.
func (s *summaries) ended(_ context.Context, t *turn.Turn, e turn.Ended) {
	if !e.Remembered || e.Outcome != "ok" {
		return
	}
	thread := t.Thread.Key()
	if _, writing := s.now.LoadOrStore(thread, true); writing {
		return
	}
	began := turn.Go(t, within, func(ctx context.Context) error {
		defer s.now.Delete(thread)
		return s.sumUp(ctx, t)
	})
	if !began {
		s.now.Delete(thread)
	}
}

func (s *summaries) sumUp(ctx context.Context, t *turn.Turn) error {
	history := state.Peek[prompts.History](t.Thread)
	before := t.Usage
	text, of, err := s.write(ctx, t.Turn, s.keep)
	if err != nil || of == 0 {
		return err
	}
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\ufffd")
	if len(text) > maxBytes {
		text = strings.ToValidUTF8(text[:maxBytes], "") + " […]"
	}
	if text == "" || of < 0 || of > len(history.Turns) {
		return fmt.Errorf("a summary of %d bytes, of %d of %d turns", len(text), of, len(history.Turns))
	}
	tokens := t.Usage.PromptTokens + t.Usage.CompletionTokens - before.PromptTokens - before.CompletionTokens
	zerolog.Ctx(ctx).Info().Int("turns", of).Int("tokens", tokens).Msg("summary of the oldest turns written")
	return turn.Submit(ctx, t, featureName, func(h turn.Holder) {
		*slot.Of(h) = written{Text: text, Of: of, Hash: turn.Hash(history.Summary, history.Turns[:of])}
	})
}

// put puts a summary into the history. It does nothing if what was summed up has changed, as after /reset and
// /forget.
func put(_ context.Context, t *turn.Turn) error {
	s, history := slot.Of(t), state.Of[prompts.History](t.Thread)
	if s.Of <= len(history.Turns) && turn.Hash(history.Summary, history.Turns[:s.Of]) == s.Hash {
		history.Summarize(s.Text, s.Of)
	}
	return nil
}
