package bot

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// nobody stands in keys for what a channel left out.
const nobody = "-"

// Turn is one activity being handled, for the handlers of routes. It belongs to
// the turn and is not safe for concurrent use.
type Turn struct {
	*actions.Turn
	// Sent are the ids that the channel gave to what the turn has sent, in
	// order; "" where it gave none.
	Sent []string

	bot     *Bot
	hold    *state.Hold     // of the lane that the turn is the head of
	lane    context.Context // ends when the lane is lost, or a moment after the bot was cut off; sends outlive the turn's own time
	scopes  []*state.Scope
	home    *state.Scope       // which of the person's conversations is their own; nil: this one is not
	secured []state.Checkpoint // what actions may change, see undo

	trace    string // traceparent of what brought it in
	after    string // and of the turn that left it for later
	awaited  bool   // somebody waits for its answer
	answer   InvokeResponse
	replies  *replies // set when the replies travel in the HTTP response
	typing   *typing
	detached bool    // it leaves the conversation's state alone
	signed   bool    // its channel vouches for the address that replies go to
	notice   *notice // what it sends, of a turn that answers nothing

	resumes string             // the approval whose decision it follows
	click   *activity.Activity // which decided that
	begun   bool               // it is the one that follows it
	pending *pending           // what was decided
	follows string             // the turn that follows the decision it took; "": none does

	run        *run              // the plan at work, for the journal; nil: there is none, or it is over
	outbox     *outbox           // what is being sent
	unsaved    []actions.Outcome // what changed state that is not saved yet
	kept       []actions.Outcome // what was done for good
	uncertain  []string          // the actions that were cut off
	survived   int               // how many processes it had lost when it last got further
	recorded   bool              // it is part of the conversation's history
	remembered bool              // and that was saved
	listed     bool              // the conversation is one of the person's places
	saveFailed bool              // what it changed is not to be saved any more
	done       bool              // everything is saved, and nothing changed since
	unreadable error             // why state cannot be read
	instead    string            // what a hook says of the failure in place of the bot
}

func (b *Bot) newTurn(a *activity.Activity) *Turn {
	t := &Turn{bot: b, Turn: &actions.Turn{ID: newTurnID(), Activity: a, Text: said(a), Temp: state.NewScope(), Budget: b.cfg.Budget}}
	t.Notifier = t
	t.awaited = b.awaits(a)
	if a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke {
		t.replies, t.awaited = &replies{}, true
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

// log is the bot's, with what names the turn.
func (t *Turn) log() *zerolog.Logger {
	with := t.bot.cfg.Log.With().
		Str("turn", t.ID).
		Str("conversation", t.Activity.Conversation.ID).
		Str("activity", t.Activity.ID).
		Str("type", string(t.Activity.Type))
	if app := t.Activity.CallerApp(); app != "" {
		with = with.Str("caller", app)
	}
	log := with.Logger()
	return &log
}

// run is a turn from its first step to its last: handle the activity, own up to a
// failure, and end it, or leave it to be gone on with. It reports whether the lane
// has another one.
func (b *Bot) run(ctx context.Context, t *Turn) (more bool) {
	began := time.Now()
	ctx, s := b.attempt(ctx, t)
	failure := b.handle(ctx, t)
	defer func() { s.end(failure) }()
	defer func() {
		if p := recover(); p != nil { // in what writes its state, say: the process has other turns, too
			failure = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
			more = b.leave(ctx, t, &parkError{reason: "it panicked while it was ended", err: failure})
		}
	}()
	err := failure
	if err == nil {
		more, err = t.finish(ctx)
		failure, t.saveFailed = err, err != nil
	}
	if err != nil && !b.leaves(t, err) {
		if err = b.ownUp(ctx, t, failure); err == nil {
			more, err = t.finish(ctx)
		}
	}
	if err != nil {
		failure = err
		return b.leave(ctx, t, err)
	}
	b.ended(ctx, t, failure, time.Since(began))
	return more
}

// attempt tells metrics and traces that the turn begins, or goes on.
func (b *Bot) attempt(ctx context.Context, t *Turn) (context.Context, span) {
	of := t.hold.Item()
	if of.Tries == 0 && len(of.Journal) == 0 {
		b.meter.waited(time.Since(of.Accepted))
	}
	ctx, s := b.traces.turn(ctx, t.trace)
	s.about(t)
	s.number("planbot.turn.takeovers", of.Tries)
	linkTo(ctx, t.after)
	return ctx, s
}

// ended tells the log, the metrics and the hook.
func (b *Bot) ended(ctx context.Context, t *Turn, failure error, took time.Duration) {
	line := zerolog.Ctx(ctx).Info()
	if failure != nil {
		line = zerolog.Ctx(ctx).Error().Str("error", cause(failure))
		zerolog.Ctx(ctx).Debug().Err(failure).Msg("cause of the failure")
	}
	b.meter.turn(failure, took)
	t.report(line).Dur("took", took).Msg("turn ended")
	b.cfg.Hooks.ended(ctx, t, failure)
}

// report says in one line what the turn did.
func (t *Turn) report(line *zerolog.Event) *zerolog.Event {
	if outcomes := t.Outcomes(); len(outcomes) > 0 {
		did := zerolog.Arr()
		for _, o := range outcomes {
			switch {
			case o.Failed:
				did.Str(o.Action + " failed")
			case o.Unchanged:
				did.Str(o.Action + " unchanged")
			default:
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
func unwanted(a *activity.Activity) string {
	if a.Type == activity.Message && a.FromBot() {
		return "sent by a bot"
	}
	if a.Type == activity.Message && a.ChannelID == activity.Teams && !a.Conversation.Personal() && !isSubmit(a) && !a.Addressed() {
		return "not addressed to the bot"
	}
	return ""
}

// handle does what the activity asks for, within the turn's time. A turn that was
// begun by another process goes on where that one was.
func (b *Bot) handle(ctx context.Context, t *Turn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.TurnTimeout)
	defer cancel()
	before, err := t.before()
	if err != nil {
		return err
	}
	handler := b.handler(t)
	if handler == nil && before == nil {
		return nil // as when it was accepted, or this version of the bot has no such route
	}
	if err = b.begin(ctx, t, before); err == nil && t.done {
		return nil
	}
	if err == nil {
		t.typing = startTyping(ctx, t)
		defer t.typing.stop()
		if before != nil {
			err = b.goOn(ctx, t, before)
		} else {
			err = handler(ctx, t)
		}
	}
	if err != nil && !b.leaves(t, err) {
		t.instead = b.cfg.Hooks.instead(ctx, t, err)
	}
	return err
}

// begin makes the turn the one that it goes on with, if it does, and loads its state.
func (b *Bot) begin(ctx context.Context, t *Turn, before *journal) error {
	if t.resumes != "" {
		if err := b.become(ctx, t, before); err != nil || t.done {
			return err
		}
	}
	if t.detached {
		return nil
	}
	if t.scopes == nil {
		if err := t.load(ctx); err != nil {
			return err
		}
	}
	if t.unreadable != nil && !isCommand("/forget")(t) {
		return t.unreadable
	}
	if t.notice != nil {
		t.done = !t.find(ctx)
		return nil
	}
	t.noteReference()
	return nil
}

// handler returns what answers the activity, or nil when nothing does.
func (b *Bot) handler(t *Turn) Handler {
	if t.resumes != "" {
		return b.follow
	}
	if t.notice != nil {
		return sendNotice
	}
	if b.bars(t.Activity) != "" {
		t.detached = true
		return turnAway
	}
	if d, ok := decisionIn(t); ok {
		t.detached = true
		return func(ctx context.Context, t *Turn) error { return b.decide(ctx, t, d) }
	}
	return b.routes.handler(t)
}

func (t *Turn) isMessage() bool { return t.Activity.Type == activity.Message }

// seconds formats a duration for Retry-After, rounded up.
func seconds(d time.Duration) string {
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}
