package turn

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// nobody stands in keys for what a channel left out.
const nobody = "-"

// Turn is one activity being handled, for the handlers of routes. It belongs to the turn
// and is not safe for concurrent use.
type Turn struct {
	*actions.Turn

	engine *Engine
	rec    Record
	lease  *inbox.Lease
	held   context.Context // ends when the lease is lost, or a moment after the turn was cancelled; sends outlive the turn's own time

	scopes    []*state.Scope
	home      *state.Scope   // which of the person's conversations is their own; nil: this one is not
	snapshots []*state.Scope // what actions may change, to roll back to
	fault     error          // why state cannot be read

	typing  *typing
	aside   bool // it leaves the conversation's state alone
	listed  bool // the conversation is one of the person's places
	unsaved bool // the loop has to save before it goes on
	clean   bool // everything is saved, and nothing changed since
	spoke   bool // something was sent since the last save

	texts     []string // what is being sent of a plan
	base      []byte   // the record to begin at again; nil: the one that was saved last
	calls     []call   // announced, and to be made next
	begun     int      // how many of the next commands a process began that is gone
	further   bool     // the turn got further since the last save
	outside   bool     // something was done outside of state that is not saved
	resumed   bool     // it goes on after an approval
	hushed    bool     // a hook took back what was to be said
	granted   bool     // a person approved the call at work
	kept      []string // actions that were done for good
	fresh     []string // actions that changed state which is not saved
	uncertain []string // actions of which nobody knows whether they were done
	instead   string   // what a hook says of the failure in place of the bot
	saveFault error    // what it changed is not to be saved any more
}

// idLen is how long the id of a record is. Those of its approvals begin with it.
const idLen = 12

// NewTurn makes a turn of an activity that came in. raw is the activity as it came.
func (e *Engine) NewTurn(a *activity.Activity, raw []byte, trusted, awaited bool) *Turn {
	t := e.newTurn(a)
	rec := Record{
		ID: strings.ToLower(crand.Text()[:idLen]), Accepted: time.Now().UTC(), Phase: Planning,
		Activity: raw, Caller: Caller{ID: a.CallerID, Trusted: trusted}, Awaited: awaited,
	}
	if a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke {
		rec.Awaited, rec.Answer = true, &Answer{Activities: []jsontext.Value{}}
	}
	t.use(rec)
	return t
}

func (e *Engine) newTurn(a *activity.Activity) *Turn {
	t := &Turn{engine: e, Turn: &actions.Turn{Activity: a, Budget: e.cfg.Budget}}
	t.Notifier = t
	return t
}

// use makes the record the turn's: all that the turn knew of another one is gone.
func (t *Turn) use(rec Record) {
	*t = Turn{Turn: t.Turn, engine: t.engine, lease: t.lease, held: t.held, typing: t.typing, aside: t.aside, listed: t.listed, rec: rec}
	t.ID, t.Temp, t.Rounds, t.Usage = rec.ID, state.NewScope(), nil, actions.Usage{}
	if t.Text = rec.Text; t.Text == "" {
		t.Text = said(t.Activity)
	}
	if run := rec.Run; run != nil {
		t.Rounds, t.Usage, t.begun, t.kept = run.Rounds, run.Usage, run.InFlight, rec.Completed()
		t.Temp = state.ScopeOf(run.Temp)
	}
	if !rec.Caller.Trusted && t.Activity.ServiceURL != "" && t.engine.cfg.Channel.Identified() {
		t.log().Warn().Msg("nobody vouches for the serviceUrl: nothing is sent there")
		t.Activity.ServiceURL = ""
	}
}

// said is what the person wrote or, of a message that only carries files, what those are,
// so that the model is never asked about nothing.
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

// IsMessage reports whether the turn answers a message.
func (t *Turn) IsMessage() bool { return t.Activity.Type == activity.Message }

// Awaited reports whether an HTTP request waits for the turn's answer.
func (t *Turn) Awaited() bool { return t.rec.Awaited }

// Sent are the ids that the channel gave to what the turn has sent, in order; "" where it
// gave none.
func (t *Turn) Sent() []string { return t.rec.Sent }

// Answer is what the turn answers to the HTTP request that waits for it.
func (t *Turn) Answer(a Answer) {
	if t.rec.Answer != nil {
		a.Activities = t.rec.Answer.Activities
	}
	t.rec.Answer = &a
}

// LeaveState has the turn leave the conversation's state alone. It is for a
// [Config.Handler] whose handler needs none.
func (t *Turn) LeaveState() { t.aside = true }

func (t *Turn) detached() bool { return t.aside }

// Log is the bot's, with what names the turn.
func (t *Turn) Log() *zerolog.Logger { return t.log() }

func (t *Turn) log() *zerolog.Logger {
	id := t.Activity.ID
	if w := t.rec.Wait; w != nil && w.Approval != nil && w.Approval.Decision != nil {
		id = cmp.Or(w.Approval.Decision.Click, id)
	}
	with := t.engine.cfg.Log.With().
		Str("turn", t.ID).
		Str("conversation", t.Activity.Conversation.ID).
		Str("activity", id).
		Str("type", string(t.Activity.Type))
	if app := t.Activity.CallerApp(); app != "" {
		with = with.Str("caller", app)
	}
	log := with.Logger()
	return &log
}

const (
	// maxReruns is how often a phase runs again because another conversation changed the
	// same value meanwhile.
	maxReruns = 5
	// finishWithin is how long the end of a turn is tried, whose replies have left.
	finishWithin = 2 * time.Minute
	// afterOutage is when a turn that Redis could not keep is tried again.
	afterOutage = time.Second
)

// run moves the turn as far as it goes now, tells the person of a failure, and leaves the
// record done, waiting, or for another process. It reports whether the queue has a next
// record.
func (t *Turn) run(ctx context.Context) (more bool) {
	began := time.Now()
	if t.rec.Phase == Planning && t.rec.Run == nil && t.lease.Tries() == 0 {
		t.engine.meter.waited(time.Since(t.rec.Accepted))
	}
	parent, linked := t.rec.Trace, ""
	if t.rec.Notice != nil && !t.rec.Notice.Due.IsZero() { // it was left for later by another turn
		parent, linked = linked, parent
	}
	ctx, s := t.engine.traces.turn(ctx, parent)
	linkTo(ctx, linked)
	s.about(t)
	s.number("planbot.turn.takeovers", t.lease.Tries())
	t.typing = startTyping(ctx, t)
	more, err := t.try(ctx)
	failure := err
	if err != nil && !t.leaves(err) {
		err = t.safely(func() (err error) {
			more, err = t.fail(ctx, failure)
			return err
		})
	}
	t.typing.stop()
	defer func() { s.end(failure) }()
	if err != nil {
		failure = err
		return t.leave(ctx, err)
	}
	if t.rec.Phase != Waiting {
		t.report(ctx, failure, time.Since(began))
	}
	return more
}

// try moves the turn and ends its work, within the turn's time. Where another
// conversation changed the same value meanwhile, it begins again on fresh state at the last
// save; commands with an outcome are not repeated.
func (t *Turn) try(ctx context.Context) (more bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, t.engine.cfg.TurnTimeout)
	defer cancel()
	for reruns := 0; ; reruns++ {
		err = t.safely(func() error { return t.begin(bounded) })
		if err == nil {
			err = t.safely(func() (err error) {
				more, err = t.end(ctx)
				return err
			})
		}
		if !errors.Is(err, state.ErrConflict) || reruns == maxReruns || t.spoke {
			return more, err
		}
		zerolog.Ctx(ctx).Info().Int("attempt", reruns+1).Msg("another conversation changed the same value, running again")
		if err := t.reload(bounded); err != nil {
			return false, err
		}
	}
}

// errPanic is a panic in a handler, a hook or an action.
var errPanic = errors.New("the handler panicked")

func (t *Turn) safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return f()
}

// begin loads state and enters the loop.
func (t *Turn) begin(ctx context.Context) error {
	var handler Handler
	if t.rec.Phase == Planning && t.rec.Run == nil {
		if handler = t.handler(); handler == nil {
			t.rec.Phase, t.clean = Done, true // this version of the bot has no such route
			return nil
		}
	}
	if !t.aside && t.scopes == nil {
		if err := t.load(ctx); err != nil {
			return err
		}
	}
	if t.fault != nil && !strings.EqualFold(t.Text, "/forget") {
		return t.fault
	}
	if !t.aside && t.rec.Notice == nil {
		t.noteReference()
	}
	if t.rec.Phase == Waiting {
		if err := t.resume(ctx); err != nil {
			return err
		}
		if t.rec.Phase == Planning && t.rec.Run == nil {
			handler = t.handler()
		}
	}
	if err := t.checkPlan(); err != nil {
		return err
	}
	t.Gate = t.gate
	err := t.move(ctx, handler)
	if err != nil && !t.leaves(err) && !errors.Is(err, state.ErrConflict) {
		t.instead = t.engine.cfg.Hooks.failed(ctx, t, err)
	}
	return err
}

func (t *Turn) handler() Handler {
	if t.rec.Notice != nil {
		return sendNotice
	}
	return t.engine.cfg.Handler(t)
}

// move is the loop of a turn: it moves the record from phase to phase, until it is over or
// waits. Each phase does one thing and says whether to save before the next one. handler
// answers the activity of a turn that does not plan yet.
func (t *Turn) move(ctx context.Context, handler Handler) error {
	for {
		var err error
		switch t.rec.Phase {
		case Planning:
			if t.rec.Run != nil {
				err = t.makePlan(ctx)
			} else if err = handler(ctx, t); t.rec.Run == nil || t.rec.Phase == Sending {
				t.rec.Phase = Done // it said what it had to
			}
		case Running:
			err = t.runCommands(ctx)
		case Sending:
			err = t.sendOutbox(ctx)
		case Waiting, Done, Failed:
			return nil
		}
		if err == nil && t.unsaved {
			err = t.save(ctx)
		}
		if stop, ok := errors.AsType[*stopError](err); ok {
			err = t.stop(ctx, stop)
		}
		if err != nil {
			return err
		}
	}
}

// Plan has the planner answer the turn: it makes plans and runs them, until one comes to
// its end, waits for an approval, or fails.
func (t *Turn) Plan(ctx context.Context) error {
	if err := t.needHistory(); err != nil {
		return err
	}
	t.snapshot()
	if t.Text != said(t.Activity) {
		t.rec.Text = t.Text
	}
	t.rec.Run, t.rec.Phase = &Run{}, Planning
	return t.move(ctx, nil)
}

// stop ends the plan as a hook wants it.
func (t *Turn) stop(ctx context.Context, stop *stopError) error {
	if t.rec.Run != nil && len(t.rec.Run.Executed) > 0 { // else the model need not know
		t.remember()
	}
	t.rec.Run, t.rec.Phase = nil, Done
	if stop.say == "" {
		return nil
	}
	err := t.Tell(ctx, stop.say)
	t.rec.Phase = Done
	return err
}

// end leaves the record as it is now: done, or waiting.
func (t *Turn) end(ctx context.Context) (more bool, err error) {
	ctx, s := step(ctx, "finish")
	defer func() { s.end(err) }()
	ctx, cancel := t.engine.workers.outlive(ctx, finishWithin)
	defer cancel()
	answer, err := t.encodeAnswer()
	if err != nil {
		return false, err
	}
	scopes := t.scopes
	if t.clean || t.saveFault != nil {
		scopes = nil
	} else if err := t.savePerson(ctx); err != nil {
		return false, err
	}
	t.keepHome(ctx)
	id := t.rec.ID
	for again := true; again; {
		if err = t.listPlace(ctx); err == nil {
			err = t.merging(ctx, func() (err error) {
				if t.rec.Phase != Waiting {
					more, err = t.lease.Finish(ctx, answer, scopes...)
					return err
				}
				t.rec.Awaited, t.rec.Answer = false, nil // who waits has it now
				raw, w, err := t.waitFor()
				if err == nil {
					more, err = t.lease.Wait(ctx, raw, w, answer, scopes...)
				}
				return err
			})
		}
		again = errors.Is(err, state.ErrUnavailable) && len(t.rec.Sent) > 0 && ctx.Err() == nil
	}
	if err != nil {
		t.saveFault = err
	} else if answer != nil {
		t.engine.answers.tell(id, answer)
	}
	return more, err
}

// savePerson saves the person's state, which cannot be saved in the step that ends the
// turn.
func (t *Turn) savePerson(ctx context.Context) error {
	if t.scopes == nil || t.User == nil {
		return nil
	}
	changed, err := t.User.Changed()
	if err != nil || !changed {
		return err
	}
	return t.save(ctx)
}

// laterError ends the work on a turn for now: it is tried again after a time, and keeps
// its place in the queue.
type laterError struct {
	after time.Duration
	err   error
}

func (e *laterError) Error() string {
	return fmt.Sprintf("to be tried again in %v: %v", e.after, e.err)
}
func (e *laterError) Unwrap() error { return e.err }

// deadLetter ends the work on a turn until an operator has looked at it.
type deadLetter struct {
	reason string // for the operator
	err    error  // may be nil
	say    string // for the person; "": that it could not be finished
}

func (e *deadLetter) Error() string {
	if e.err == nil {
		return e.reason
	}
	return e.reason + ": " + cause(e.err)
}

func (e *deadLetter) Unwrap() error { return e.err }

// leaves reports whether the turn is not at its end with that error: it is tried again
// later, elsewhere, or when an operator says so.
func (t *Turn) leaves(err error) bool {
	var later *laterError
	var dead *deadLetter
	switch {
	case errors.Is(err, inbox.ErrLost), errors.Is(err, state.ErrUnavailable), errors.As(err, &later), errors.As(err, &dead):
		return true
	case errors.Is(t.lease.Err(), inbox.ErrLost):
		return true
	}
	return t.engine.workers.ctx.Err() != nil && !t.engine.cfg.Store.Embedded() // cut off by the end of the process
}

// leave gives the queue up with the turn in it. What the turn has saved is not lost:
// whoever goes on begins there.
func (t *Turn) leave(ctx context.Context, err error) (more bool) {
	e, log := t.engine, zerolog.Ctx(ctx)
	var later *laterError
	var dead *deadLetter
	switch {
	case errors.As(err, &dead):
		answer := t.tellDeadLetter(ctx, dead)
		if rec, fault := Decode(t.lease.Record()); fault == nil {
			return e.bury(ctx, t.lease, &rec, dead.Error(), answer)
		}
		return e.bury(ctx, t.lease, nil, dead.Error(), answer)
	case errors.As(err, &later):
		log.Warn().Str("error", cause(err)).Dur("after", later.after).Msg("turn is tried again later")
		e.release(t.lease, later.after)
	case errors.Is(t.lease.Err(), inbox.ErrLost), errors.Is(err, inbox.ErrLost):
		e.meter.leaseLost()
		log.Warn().Msg("turn left: another process has its queue, or may have")
		e.release(t.lease, 0) // if it has not
	case errors.Is(err, state.ErrUnavailable):
		log.Error().Str("error", cause(err)).Msg("turn left until redis is back")
		e.release(t.lease, afterOutage)
	case e.workers.ctx.Err() != nil:
		e.meter.handedBack()
		log.Warn().Msg("turn handed back at shutdown")
		e.release(t.lease, 0)
	default: // it would come to the same end again
		return t.leave(ctx, &deadLetter{reason: "it could not be ended", err: err})
	}
	return false
}

// report tells the log, the metrics and the hook that the turn is over.
func (t *Turn) report(ctx context.Context, failure error, took time.Duration) {
	line := zerolog.Ctx(ctx).Info()
	if failure != nil {
		line = zerolog.Ctx(ctx).Error().Str("error", cause(failure))
		zerolog.Ctx(ctx).Debug().Err(failure).Msg("cause of the failure")
	}
	t.engine.meter.turn(failure, took)
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
	line.Int("sent", len(t.rec.Sent)).Dur("took", took).Msg("turn ended")
	t.engine.cfg.Hooks.ended(ctx, t, failure)
}

// lasting is ctx without the end of the turn's time: it ends when the lease is lost or the
// turn is cancelled.
func (t *Turn) lasting(ctx context.Context) context.Context {
	lasting := zerolog.Ctx(ctx).WithContext(t.held)
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		lasting = trace.ContextWithSpan(lasting, s)
	}
	return lasting
}

// checkPlan validates a plan that another process made: this may be another version of the
// bot.
func (t *Turn) checkPlan() error {
	if t.rec.Run == nil || t.rec.Run.Progress == nil || t.rec.Run.Progress.Done() {
		return nil
	}
	p := t.rec.Run.Progress
	valid, err := plan.Validate(p.Plan, t.engine.cfg.Actions)
	if err == nil {
		p.Plan = valid
		t.snapshot()
		return nil
	}
	if t.rec.Run.Approved != "" {
		return &deadLetter{
			reason: "the approved plan does not fit this version of the bot", err: err,
			say: "Sorry, things have changed since I asked for approval, so I did not do it. Somebody has to look at it.",
		}
	}
	t.noteInFlight()
	return &deadLetter{reason: "its plan does not fit this version of the bot", err: err}
}

// noteInFlight has the person told of the commands that had begun.
func (t *Turn) noteInFlight() {
	if run := t.rec.Run; run != nil && run.Progress != nil {
		for _, c := range run.Progress.Plan.Commands[run.Progress.Next:][:run.InFlight] {
			t.uncertain = append(t.uncertain, c.Action)
		}
	}
}
