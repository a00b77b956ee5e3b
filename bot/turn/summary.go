package turn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// A summary replaces the oldest turns of a history. The model writes it after a reply, beside the
// next turns of the conversation, which never wait for it. The result is a record in the
// conversation's queue, so the history changes between two turns and not during one. If the model
// fails or the process is killed, a later turn tries again, until the history forgets its oldest
// turns.

const (
	// summaryRoom is how many times as many turns the history keeps while it waits for a summary.
	summaryRoom = 3
	// summarizeWithin limits the writing of a summary.
	summarizeWithin = time.Minute
	// maxSummary is how many bytes a summary may have.
	maxSummary = 4 << 10
)

// pendingSummary is a summary that is not in the history yet.
type pendingSummary struct {
	Text string `json:"text"`
	Of   int    `json:"of"`   // how many of the oldest turns it sums up
	Hash string `json:"hash"` // of them and of the summary before
}

// summarizer has a summary written after its turn.
type summarizer struct{ *Turn }

// start starts to write a summary if the history needs one. The turn is over.
func (t summarizer) start() {
	w := t.engine.workers
	if t.engine.cfg.Summarize == nil || !t.rec.Remembered || t.rec.Phase != done {
		return
	}
	thread := t.Thread.Key()
	if _, writing := t.engine.sums.LoadOrStore(thread, true); writing {
		return
	}
	if !w.tryEnter() {
		t.engine.sums.Delete(thread)
		return
	}
	go func() {
		defer w.leave()
		defer t.engine.sums.Delete(thread)
		ctx, cancel := context.WithTimeout(w.spare, summarizeWithin)
		defer cancel()
		ctx = t.context(connector.ForCaller(ctx, t.Activity.CallerApp()))
		err := t.safely(func() error { return t.write(ctx) })
		if err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("no summary of the oldest turns, a later turn tries again")
		}
		last, cancel := w.outlive(ctx, settleWithin)
		defer cancel()
		quotas(t).spend(last)
	}()
}

func (t summarizer) write(ctx context.Context) error {
	e, h, before := t.engine, state.Of[prompts.History](t.Thread), tokens(t.Usage)
	text, of, err := e.cfg.Summarize(ctx, t.Turn.Turn, e.cfg.HistoryTurns)
	if err != nil || of == 0 {
		return err
	}
	if text = cut(strings.ToValidUTF8(strings.TrimSpace(text), "\ufffd"), maxSummary); text == "" || of < 0 || of > len(h.Turns) {
		return fmt.Errorf("a summary of %d bytes, of %d of %d turns", len(text), of, len(h.Turns))
	}
	a := state.Of[reference](t.Conversation).in(actions.To(t.Activity))
	a.Name, a.ServiceURL = "summary", "" // nothing is sent
	if t.targetedAt() != "" {            // for its thread
		a.From, a.Recipient = t.Activity.From, t.Activity.Recipient
	}
	raw, err := a.Encode()
	if err != nil {
		return err
	}
	s := e.NewTurn(a, raw, t.rec.Caller.Trusted, false)
	s.rec.Summary = &pendingSummary{Text: text, Of: of, Hash: hashOf(h.Summary, h.Turns[:of])}
	zerolog.Ctx(ctx).Info().Int("turns", of).Int("tokens", tokens(t.Usage)-before).Msg("summary of the oldest turns written")
	_, _, err = e.submit(ctx, s, inbox.Entry{Queue: s.queue(), Load: s.keys()})
	return err
}

// keepSummary is the handler of a summary. It does nothing if what was summed up has changed, as
// after /reset and /forget.
func keepSummary(_ context.Context, t *Turn) error {
	s, h := t.rec.Summary, state.Of[prompts.History](t.Thread)
	if s.Of <= len(h.Turns) && hashOf(h.Summary, h.Turns[:s.Of]) == s.Hash {
		h.Summarize(s.Text, s.Of)
	}
	return nil
}
