package bot

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// maxReplays is how often a turn starts over because another replica changed
// the same state first.
const maxReplays = 6

// nobody stands in keys for what a channel left out.
const nobody = "-"

// Turn is one activity being handled, for the handlers of routes. It belongs to
// the turn and is not safe for concurrent use.
type Turn struct {
	*actions.Turn
	// Sent are the ids that the channel gave to what the turn has sent, in
	// order; "" where it gave none.
	Sent []string

	bot      *Bot
	scopes   []*state.Scope
	secured  []state.Checkpoint // what actions may change, see undo
	replies  *replies           // set when the replies travel in the HTTP response
	answer   InvokeResponse
	typing   *typing
	dropped  bool            // it left nothing behind, not even a word, because the bot is shut down
	resumes  string          // the approval that it goes on after
	begun    bool            // what it goes on with is its own
	follows  <-chan struct{} // closed when what follows a decision is over; nil: nothing follows
	detached bool            // it leaves the conversation's state alone

	unsaved    []actions.Outcome // what changed state that is not saved yet
	kept       []actions.Outcome // what was done for good
	acted      bool              // an action was called that must not be called again for this turn
	uncertain  []string          // the actions that were cut off
	saveFailed bool              // parts of the turn may be saved all the same
	again      bool              // parts of an earlier attempt are saved
	done       bool              // everything is saved, and nothing changed since
	forget     bool              // leave no trace of this turn in state
	unreadable error             // why state cannot be read
	instead    string            // what a hook says of the failure in place of the bot
}

func (b *Bot) newTurn(a *activity.Activity) *Turn {
	t := &Turn{bot: b, Turn: &actions.Turn{ID: newTurnID(), Activity: a, Text: said(a), Temp: state.NewScope(), Budget: b.cfg.Budget}}
	if a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke {
		t.replies = &replies{}
	}
	return t
}

// said is what the person wrote or, of a message that only carries files, what
// those are, so that the model is never asked about nothing.
func said(a *activity.Activity) string {
	text := a.Said()
	if text != "" || a.Type != activity.Message {
		return text
	}
	var kinds []string
	for _, at := range a.Attachments {
		if !strings.HasPrefix(at.ContentType, "text/html") { // a copy of the text
			kinds = append(kinds, at.ContentType)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return "[sent without text: " + strings.Join(kinds, ", ") + "]"
}

// newTurnID returns a short name that no other turn has.
func newTurnID() string { return strings.ToLower(crand.Text()[:12]) }

func (b *Bot) turnLog(t *Turn) zerolog.Logger {
	return b.cfg.Log.With().
		Str("turn", t.ID).
		Str("conversation", t.Activity.Conversation.ID).
		Str("activity", t.Activity.ID).
		Str("type", string(t.Activity.Type)).
		Logger()
}

// run is a turn from its first step to its last: handle the activity, and when
// that fails tell the person and the operator.
func (b *Bot) run(ctx context.Context, t *Turn) {
	log := zerolog.Ctx(ctx)
	if t.dropped = ctx.Err() != nil; t.dropped {
		log.Warn().Msg("turn dropped at shutdown")
		return
	}
	if reason := b.unwanted(t); reason != "" {
		log.Info().Str("reason", reason).Msg("activity ignored")
		b.meter.ignored()
		return
	}
	if d, ok := decisionIn(t); ok {
		t.detached = true
		b.work(ctx, t, func(*Turn) Handler {
			return func(ctx context.Context, t *Turn) error { return b.decide(ctx, t, d) }
		})
		return
	}
	b.work(ctx, t, b.routes.handler)
}

// work runs the handler that route finds, with the turn's deadline, and does what
// follows a failure.
func (b *Bot) work(ctx context.Context, t *Turn, route func(*Turn) Handler) {
	began := time.Now()
	log := zerolog.Ctx(ctx)
	ctx, cancel := context.WithTimeout(ctx, b.cfg.TurnTimeout)
	defer cancel()
	err := b.handle(ctx, t, route)
	line := log.Info()
	if err != nil {
		line = log.Error().Str("error", cause(err))
		log.Debug().Err(err).Msg("cause of the failure")
		b.afterFailure(ctx, t, err)
		t.dropped = b.lanes.ctx.Err() != nil && t.replayable() && !t.saveFailed
	}
	if t.resumes == "" && (err == nil || len(t.Sent) > 0) {
		b.recent.add(t)
	}
	b.meter.turn(err, time.Since(began))
	t.report(line).Dur("took", time.Since(began)).Msg("turn ended")
}

// report says in one line what the turn did.
func (t *Turn) report(line *zerolog.Event) *zerolog.Event {
	if outcomes := t.Outcomes(); len(outcomes) > 0 {
		did := zerolog.Arr()
		for _, o := range outcomes {
			if o.Failed {
				did.Str(o.Action + " failed")
			} else {
				did.Str(o.Action)
			}
		}
		line = line.Array("commands", did)
	}
	if u := t.Usage; u.ModelCalls > 0 {
		line = line.Int("model_calls", u.ModelCalls).Int("prompt_tokens", u.PromptTokens).Int("completion_tokens", u.CompletionTokens)
		if u.Cost > 0 {
			line = line.Float64("cost", u.Cost)
		}
	}
	return line.Int("sent", len(t.Sent))
}

// unwanted says why the activity is not to be handled at all, or "".
func (b *Bot) unwanted(t *Turn) string {
	a := t.Activity
	if _, ok := a.Tenant(); !ok {
		return "channelData and conversation name different tenants"
	}
	if a.Type == activity.Message && a.FromBot() {
		return "sent by a bot"
	}
	if a.Type == activity.Message && a.ChannelID == activity.Teams && !a.Conversation.Personal() && !isSubmit(a) && !a.Addressed() {
		return "not addressed to the bot"
	}
	if before, known := b.recent.find(a); known {
		t.repeat(before)
		return "handled before"
	}
	return ""
}

// repeat answers as before.
func (t *Turn) repeat(before *answered) {
	if before == nil {
		return
	}
	t.answer = before.invoke
	if t.replies != nil {
		t.replies.add(before.replies...)
	}
}

// handle runs the activity's route, again from the start when the state that it
// changed was changed by somebody else meanwhile and nothing has left yet.
func (b *Bot) handle(ctx context.Context, t *Turn, route func(*Turn) Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	handler := route(t)
	if handler == nil {
		if t.Activity.Type == activity.Invoke {
			t.answer.Status = http.StatusNotImplemented
		}
		zerolog.Ctx(ctx).Debug().Msg("no route")
		return nil
	}
	t.typing = startTyping(ctx, t)
	defer t.typing.stop()
	for attempt := 0; ; attempt++ {
		err := b.once(ctx, t, handler)
		if !errors.Is(err, state.ErrConflict) || attempt == maxReplays || !t.replayable() {
			if err != nil {
				t.instead = b.cfg.Hooks.instead(ctx, t, err)
			}
			return err
		}
		zerolog.Ctx(ctx).Info().Int("attempt", attempt+1).Msg("state changed meanwhile, starting over")
		t.startOver()
		wait(ctx, rand.N(10*time.Millisecond<<attempt), nil) // so that rivals do not meet again
	}
}

// once is one attempt at the turn.
func (b *Bot) once(ctx context.Context, t *Turn, handler Handler) error {
	if t.detached {
		return handler(ctx, t)
	}
	if err := t.load(ctx); err != nil {
		return err
	}
	if t.unreadable != nil && !isCommand("/forget")(t) {
		return t.unreadable
	}
	if t.seenBefore() {
		zerolog.Ctx(ctx).Info().Msg("duplicate dropped")
		return nil
	}
	t.again = t.savedBefore()
	if err := handler(ctx, t); err != nil || t.done {
		return err
	}
	return t.save(ctx)
}

// replayable reports whether the turn may start over: nothing has been said,
// and nothing was done that starting over would do twice.
func (t *Turn) replayable() bool { return len(t.Sent) == 0 && len(t.kept) == 0 && !t.acted }

func (t *Turn) isMessage() bool { return t.Activity.Type == activity.Message }

// seconds formats a duration for Retry-After, rounded up.
func seconds(d time.Duration) string {
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}
