package turn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bot/turn/internal/stream"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cite"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Turn is one activity being handled, as the handlers of routes see it. Use it only during the
// turn. It is not safe for concurrent use.
type Turn struct {
	*actions.Turn

	engine *Engine
	lease  *inbox.Lease
	owned  context.Context // ends when the lease is lost or soon after a cancel; sends outlive the turn timeout
	stream *stream.Stream
	listed bool   // the conversation is one of the person's places
	secret string // see [Hide]
	queued bool   // it stood in the queue before this process began with it
	halt   halt

	localsMu sync.Mutex
	locals   []local // what features keep of it in this process

	attempt
}

// attempt is what begins anew when a turn runs again.
type attempt struct {
	rec  Record
	docs documents
	exec *execution // runs its plans

	beside  string // the queue beside the conversation's that it belongs to; "": it belongs to the conversation's
	unread  bool   // it runs even if its state cannot be read
	moved   bool   // how to reach the conversation has changed
	resumed bool   // continues after an approval

	unsaved   unsaved
	saved     int                  // how many outcomes are saved
	saveFault error                // a failed save; state changes may not be saved after it
	uncertain []string             // actions that may or may not have run
	stopped   string               // what the person reads because a feature ended it
	withheld  string               // a note for the history: the answer was flagged
	amended   bool                 // the author edited or deleted the message while the turn waited
	deleted   bool                 // they deleted it, so the history must not have it
	follows   string               // the record of the edit or the deletion that it has followed in its queue
	burst     []*activity.Activity // the messages that it answers as one question; nil: it answers one activity
	words     []string             // what each of these says by now
	instead   string               // what a feature says about the failure, in place of the bot
}

// unsaved is what has happened in a turn since its record was last saved.
type unsaved struct {
	progressed bool    // the turn got further
	outside    bool    // something was done outside of state
	spoke      bool    // something was sent
	base       *Record // what a rerun in this process starts from; nil: the saved record
}

const (
	// maxReruns is how often what follows a save runs again because another conversation changed the same value
	// meanwhile.
	maxReruns = 8
	// rerunAfter is the longest wait before the first rerun; it doubles each time. It is random, so that
	// many conversations that change the same value of the bot's do not meet again.
	rerunAfter = 40 * time.Millisecond
	// finishWithin is how long to keep trying to finish a turn whose replies were sent.
	finishWithin = 2 * time.Minute
	// afterOutage is when to retry a turn that Redis could not save.
	afterOutage = time.Second
)

// run moves the turn as far as it goes now and tells the person of a failure. It leaves the record
// done, waiting, or for another process. It reports whether the queue has a next record.
func (t *Turn) run(ctx context.Context) (more bool) {
	began := time.Now()
	if t.rec.Phase == planning && t.rec.Run == nil && t.lease.Tries() == 0 {
		t.engine.countFor(t.ID, CountWaits, "", max(time.Since(t.rec.Accepted), 0)) // the clocks of replicas differ
	}
	defer unwatchHalt(t)
	ctx, end := t.step(ctx, StepTurn)
	tries := t.lease.Tries() // the lease moves on
	more, err := t.try(ctx)
	failure := err
	if err != nil && !PutsOff(t, err) {
		err = safely(t, func() (err error) {
			more, err = t.fail(ctx, failure)
			return err
		})
	}
	t.stream.Close()
	defer func() { end(failure) }()
	if err != nil {
		failure = err
		more = putOff(ctx, t, err)
		ended := endedNow(t, err, began, tries)
		switch {
		case is[*deadLetter](err):
			ended.Outcome = parkedTurn
		case errors.Is(err, errLater):
			ended.Outcome = waitingTurn
		default:
			ended.Outcome = leftTurn
		}
		seeEnded(t, ended)
		return more
	}
	ended := endedNow(t, failure, began, tries)
	seeEnded(t, ended)
	if ended.Over() && !ended.Own {
		reportEnd(ctx, t, failure, ended.Took)
	}
	tellEnded(ctx, t, ended)
	return more
}

// try moves the turn and finishes it, within the turn timeout. If another conversation changed the
// same value meanwhile, it starts over from the last save on fresh state. Commands whose outcome is
// saved do not run again.
func (t *Turn) try(ctx context.Context) (more bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, timeoutOf(t))
	defer cancel()
	saved := t.lease.Record()
	for reruns := 0; ; reruns++ {
		err = safely(t, func() (err error) {
			if err = t.begin(bounded); err == nil {
				more, err = t.end(ctx)
			}
			return err
		})
		if !bytes.Equal(saved, t.lease.Record()) {
			saved, reruns = t.lease.Record(), 0
		}
		joined := errors.Is(err, errJoined)
		if !joined && (!errors.Is(err, state.ErrConflict) || reruns == maxReruns || t.unsaved.spoke) {
			return more, err
		}
		if !joined {
			zerolog.Ctx(ctx).Info().Err(err).Int("attempt", reruns+1).Msg("another conversation changed the same value, running again")
			wait(bounded, mathrand.N(rerunAfter<<reruns), nil)
		}
		if err := reloadTurn(bounded, t); err != nil {
			return false, err
		}
	}
}

// timeoutOf is how long a process may work on the turn.
func timeoutOf(t *Turn) time.Duration {
	limit := t.engine.cfg.TurnTimeout
	if !IsAlone(t) || t.rec.Run.Progress == nil {
		return limit
	}
	for _, c := range t.rec.Run.Progress.Plan.Commands {
		action, known := t.engine.cfg.Actions.Lookup(c.Action)
		if known {
			limit += action.Later
		}
	}
	return limit
}

// errPanic is a panic in a handler, a feature or an action.
var errPanic = errors.New("the handler panicked")

func safely(t *Turn, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return f()
}

// begin loads state and enters the loop.
func (t *Turn) begin(ctx context.Context) error {
	if w := t.rec.Wait; t.rec.Phase == waiting && (w.Every != "" || w.Replaces != "") {
		err := scheduleNext(Lasting(ctx, t), t)
		if err == nil || errors.Is(err, state.ErrUnavailable) || t.owned.Err() != nil {
			return err
		}
		return &deadLetter{reason: "its next time could not be scheduled", err: err}
	}
	if t.rec.Phase == planning && t.rec.Run == nil && handlerOf(t) == nil {
		t.rec.Phase = done // this version of the bot has no such route
		return nil
	}
	if !t.rec.Stateless && t.docs.scopes == nil {
		if err := t.docs.load(ctx, keysOfTurn(t)); err != nil {
			return err
		}
	}
	if t.docs.fault != nil && !t.unread {
		return t.docs.fault
	}
	followAuthor(t)
	if t.rec.Phase == planning && t.rec.Run == nil {
		_, err := followQueue(ctx, t)
		if err != nil {
			return err
		}
		if t.deleted {
			t.rec.Phase = done
			return nil
		}
	}
	if err := cmp.Or(noteTargetedClick(ctx, t), watchHalt(ctx, t)); err != nil {
		return err
	}
	switch {
	case t.rec.Own != "":
		useReference(t)
	case !t.rec.Stateless && t.rec.Notice == nil && !forgotten.Peek(t):
		noteReference(t)
	}
	if watched(t) {
		began := &Began{Activity: t.rec.newest(), Text: t.Text, Phase: string(t.rec.Phase), Again: len(t.Rounds) > 0, Tries: t.lease.Tries()}
		if t.rec.Notice != nil {
			began.Cause = t.rec.Notice.Cause
		}
		t.engine.see(Event{Turn: t.ID, Began: began, State: func() State { return scopesOf(t) }})
	}
	if t.stream == nil {
		t.stream = newStream(t)
		t.stream.Start(Lasting(ctx, t))
	}
	come := goOnTo(t.rec.Phase)
	if t.rec.Phase == waiting {
		var err error
		come, err = resumeWait(ctx, t)
		if err != nil {
			return err
		}
	}
	if err := checkPlan(t); err != nil {
		return err
	}
	err := t.move(ctx, come)
	if err == nil || PutsOff(t, err) || errors.Is(err, state.ErrConflict) || errors.Is(err, errJoined) {
		return err
	}
	for _, f := range t.engine.cfg.Features {
		if t.instead == "" && f.Failed != nil {
			t.instead = f.Failed(ctx, t, err)
		}
	}
	return err
}

// commandOff reports whether the bot does not have that built-in command.
func commandOff(t *Turn, command string) bool {
	return slices.Contains(t.engine.cfg.CommandsOff, command)
}

func handlerOf(t *Turn) Handler {
	switch {
	case t.rec.Notice != nil:
		return sendNotice
	case t.rec.Own == "":
		return t.engine.cfg.Handler(t)
	}
	return ownHandler(t)
}

// ownHandler handles a record that a feature submitted.
func ownHandler(t *Turn) Handler {
	name := cmp.Or(t.rec.Own, t.rec.Notice.runBy())
	for _, f := range t.engine.cfg.Features {
		if f.Name == name && f.Handle != nil {
			return f.Handle
		}
	}
	return func(context.Context, *Turn) error {
		return &deadLetter{reason: fmt.Sprintf("this bot has no feature %.40q, whose record it is", name)}
	}
}

// Next is what a phase returns: which phase comes, and whether the record is saved before it begins. So the record
// is saved before what may happen twice, see takeover.go.
type Next struct {
	phase     phase
	saveFirst bool
}

// goOnTo goes on to a phase as things are, and saveThen saves first.
func goOnTo(p phase) Next   { return Next{phase: p} }
func saveThen(p phase) Next { return Next{phase: p, saveFirst: true} }

// move is the loop of a turn: it moves the record from phase to phase, of which the first is given, until it ends or
// waits. [Turn.Plan] enters it again, within the handler.
func (t *Turn) move(ctx context.Context, come Next) error {
	for {
		saving := ctx
		if t.rec.Phase == sending { // the turn timeout holds up no message once the first is on its way
			saving = Lasting(ctx, t)
		}
		t.rec.Phase = come.phase
		err := t.rec.fault
		if err == nil && come.saveFirst {
			err = t.Save(saving)
		}
		if err == nil && !slices.Contains([]phase{planning, running, sending}, come.phase) {
			return nil
		}
		if err == nil {
			come, err = doPhase(ctx, t)
		}
		if stop, ok := errors.AsType[*stopError](err); ok {
			come, err = stopPlan(ctx, t, stop)
		}
		if errors.Is(err, stream.ErrStopped) {
			come, err = haltTurn(Lasting(ctx, t), t)
		}
		if err != nil {
			return err
		}
	}
}

// doPhase does the phase that the record is in.
func doPhase(ctx context.Context, t *Turn) (Next, error) {
	switch {
	case t.rec.Phase == running:
		return t.exec.runCommands(ctx)
	case t.rec.Phase == sending:
		return sendPhase(ctx, t)
	case t.rec.Run != nil:
		return t.exec.makePlan(ctx)
	}
	err := handlerOf(t)(ctx, t)
	if t.rec.Phase == waiting { // for a person, after its plan has asked
		return goOnTo(waiting), err
	}
	return goOnTo(done), err // the handler has said everything
}

// resumeWait continues a record that waited.
func resumeWait(ctx context.Context, t *Turn) (Next, error) {
	w, p := t.rec.Wait, pauseOf(t)
	if !t.engine.Resumes(&t.rec) {
		return Next{}, &deadLetter{reason: fmt.Sprintf("this bot has no feature that waits for %.40q", w.For)}
	}
	t.rec.Wait = nil
	switch {
	case w.isAlone():
		return goOnTo(done), tellOver(ctx, t, waitingOf(t, &t.rec, t.Activity))
	case !w.overForPerson(): // what asks may still have to be sent
		if p != nil {
			t.rec.Wait = waitFor(t.engine, p)
		}
		return goOnTo(w.Then), nil
	}
	t.resumed = true
	return p.Resume(ctx, t)
}

// stopPlan ends the plan as a feature asked.
func stopPlan(ctx context.Context, t *Turn, stop *stopError) (Next, error) {
	if commands, _ := executedCommands(t); t.rec.Run != nil && len(commands) > 0 { // else the model need not know
		remember(t)
	}
	t.rec.Run, t.stopped = nil, stop.say
	if stop.say == "" {
		return goOnTo(done), nil
	}
	return goOnTo(done), t.Tell(ctx, stop.say)
}

// end finishes the record, or leaves it waiting.
func (t *Turn) end(ctx context.Context) (more bool, err error) {
	ctx, end := t.step(ctx, "finish")
	defer func() { end(err) }()
	ctx, cancel := t.engine.workers.outlive(ctx, finishWithin)
	defer cancel()
	if t.stream != nil {
		t.stream.Leave(ctx)
		noteBarred(t)
	}
	answer := encodeAnswer(t)
	if t.rec.Phase != waiting && t.amended && t.docs.writable() {
		for _, m := range messagesIn(t) {
			state.Of[prompts.History](t.Thread).Settle(m.ID) // nobody needs its words any more
		}
	}
	scopes := t.docs.toSave()
	if t.saveFault != nil {
		scopes = nil
	}
	for _, scope := range scopes { // the step that ends the turn saves what belongs to the conversation
		if scope != t.docs.bot && scope != t.User {
			continue
		}
		changed, err := scope.Changed()
		if err == nil && changed {
			err = t.Save(ctx)
		}
		if err != nil {
			return false, err
		}
	}
	keepHome(ctx, t)
	id := t.rec.ID
	for again := true; again; {
		if err = listPlace(ctx, t); err == nil {
			err = leave(ctx, t)
		}
		if err == nil {
			began := time.Now()
			err = mergingSave(ctx, t, func() (err error) {
				if t.rec.Phase != waiting {
					more, err = t.lease.Finish(ctx, answer, scopes...)
					seeSaved(t, nil, began, err)
					return err
				}
				t.rec.Awaited, t.rec.Answer = false, nil // the request that waits gets it now
				if t.rec.Wait.For != forTime {
					t.rec.Wait.Owner = personOf(t.Activity)
				}
				raw, err := encodeRecord(t)
				if err == nil {
					more, err = t.lease.Wait(ctx, raw, t.rec.Wait.listed(), answer, scopes...)
					seeSaved(t, raw, began, err)
				}
				return err
			})
		}
		again = errors.Is(err, state.ErrUnavailable) && len(t.rec.Sent) > 0 && ctx.Err() == nil
	}
	if err != nil {
		t.saveFault = err
		return more, err
	}
	t.engine.tell(id, answer)
	return more, nil
}

// encodeAnswer returns nil when no request waits.
func encodeAnswer(t *Turn) []byte {
	if !t.rec.Awaited {
		return nil
	}
	raw, err := json.Marshal(cmp.Or(t.rec.Answer, &Answer{}))
	if err != nil {
		return []byte(`{"status":500}`) // a handler's answer is no JSON
	}
	return raw
}

// PutsOff reports whether the error does not end the turn: it goes on later, in another process, or
// when an operator asks for it.
func PutsOff(t *Turn, err error) bool {
	return errors.Is(err, errLater) || is[*deadLetter](err) || errors.Is(err, state.ErrUnavailable) ||
		errors.Is(err, errNewer) && t.engine.newer.mayCome(t.rec.ID, t.engine.cfg.Lease) ||
		errors.Is(err, inbox.ErrLost) || errors.Is(t.lease.Err(), inbox.ErrLost) ||
		t.engine.workers.ctx.Err() != nil && !t.engine.cfg.Store.Embedded() // cut off by shutdown
}

// putOff releases the queue with the turn still in it, or makes it a dead letter. What the turn saved is
// not lost: whoever moves it next starts from there.
func putOff(ctx context.Context, t *Turn, err error) (more bool) {
	e, log := t.engine, zerolog.Ctx(ctx)
	if !errors.Is(err, state.ErrUnavailable) {
		settleAccounts(ctx, t)
	}
	dead, isDead := errors.AsType[*deadLetter](err)
	switch {
	case isDead && t.lease.Err() == nil: // else the process that has the queue tells the person
		return buryRecord(ctx, e, t.lease, dead.Error(), tellDeadLetter(ctx, t, dead))
	case errors.Is(err, errLater):
		after := time.Until(t.rec.Wait.Until)
		log.Warn().Str("error", Cause(err)).Dur("after", after).Msg("turn is tried again later")
		releaseQueue(e, t.lease, after)
	case errors.Is(err, errNewer):
		leaveToNewer(e, t.lease)
	case errors.Is(t.lease.Err(), inbox.ErrLost), errors.Is(err, inbox.ErrLost):
		t.Count(CountLeasesLost, "")
		log.Warn().Str("error", Cause(err)).Msg("turn left: another process has its queue, or may have")
		releaseQueue(e, t.lease, 0) // in case it has not
	case errors.Is(err, state.ErrUnavailable):
		log.Error().Str("error", Cause(err)).Msg("turn left until redis is back")
		releaseQueue(e, t.lease, afterOutage)
	case e.workers.ctx.Err() != nil:
		t.Count(CountTurns, "handed_back")
		log.Warn().Msg("turn handed back at shutdown")
		releaseQueue(e, t.lease, 0)
	default: // a retry would end the same way
		return putOff(ctx, t, &deadLetter{reason: "it could not be ended", err: err})
	}
	return false
}

const (
	// reactWithin limits a reaction, or the update of a card: what comes next waits for it.
	reactWithin = 5 * time.Second
	// tellWithin limits the one sentence about a failure, which may go out after the turn timeout.
	tellWithin = 20 * time.Second
	// settleWithin limits a save at shutdown.
	settleWithin = 5 * time.Second
)

// settleAccounts has the features leave the turn, as far as that is possible when it is left to another
// process or an operator: what the record keeps is settled again.
func settleAccounts(ctx context.Context, t *Turn) {
	ctx, cancel := t.engine.workers.outlive(ctx, settleWithin)
	defer cancel()
	err := leave(ctx, t)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", Cause(err)).Msg("what features do when a turn is left is done when it goes on")
	}
}

// fail tells the person of a failure and makes state agree with that. It keeps what was done for
// good and what was noted about it, and nothing else. A turn that did nothing stays out of the
// history. fail reports whether the queue has a next record. Its error is that of a step that has
// to be done elsewhere or later.
func (t *Turn) fail(ctx context.Context, failure error) (more bool, err error) {
	ctx, cancel := t.engine.workers.outlive(ctx, tellWithin)
	defer cancel()
	keep, saved := len(doneForGood(t)) > 0, t.saved
	if p := pauseOf(t); p != nil && t.saveFault == nil {
		t.exec.replaceNote(p, p.Failed(t))
		keep = true
	}
	switch {
	case t.docs.scopes == nil || t.rec.Stateless: // there is no state to save
	case t.saveFault != nil || t.docs.fault != nil:
		t.docs.scopes = nil // it cannot be saved
	case keep: // what was done, and that is in the history
		t.saved = len(t.Outcomes())
	case t.rec.Remembered: // a save put the turn into the history, which must not have it
		takeBack(t)
	case !t.resumed: // nothing: no scopes, no save
		t.docs.scopes = nil
	}
	why := explain(t, failure)
	said := cmp.Or(t.instead, t.Translate(why))
	if why == filteredText {
		said = cmp.Or(t.instead, t.engine.cfg.FilteredText, said)
	}
	sorry := said
	said = accountOf(t, sorry)
	if t.Activity.Type == activity.Invoke {
		t.Answer(t.engine.cfg.OwnAnswer(t, said))
	}
	t.rec.Run, t.rec.Outbox, t.rec.Wait = nil, nil, nil
	tells := t.IsMessage() && reachable(failure) || t.engine.cfg.Unread(t)
	matters := len(doneForGood(t))+len(t.uncertain) > 0 // also to a person who pressed Stop
	if t.stream.Stopped() {
		tells = tells && matters
		speakAgain(t)
	}
	if tells {
		tell := t.Tell
		if t.Activity.Type == activity.Invoke { // nobody else sees the answer of an invoke
			tell = t.TellAlone
		}
		err := tell(ctx, said)
		if errors.Is(err, stream.ErrStopped) {
			t.rec.Outbox, err = nil, nil
			speakAgain(t)
			if matters {
				err = tell(ctx, said)
			}
		}
		if errors.Is(err, state.ErrConflict) { // another conversation was faster, so what was to be kept is not done
			t.docs.scopes, t.saved = nil, saved
			err = tell(ctx, accountOf(t, sorry))
		}
		if err != nil && PutsOff(t, err) {
			return false, err
		}
		if err != nil {
			zerolog.Ctx(ctx).Error().Str("error", Cause(err)).Msg("the person was not told of the failure")
		}
	}
	t.rec.Phase = failed
	return t.end(ctx)
}

// tellDeadLetter tells the person if it can, and returns the answer for a request that waits.
func tellDeadLetter(ctx context.Context, t *Turn, dead *deadLetter) []byte {
	said := accountOf(t, t.Translate(cmp.Or(dead.say, "Sorry, I could not finish this. Somebody has to look at it.")))
	if t.Activity.Type == activity.Invoke {
		t.Answer(t.engine.cfg.OwnAnswer(t, said))
	}
	invoked := t.Activity.Type == activity.Invoke
	if (t.IsMessage() || invoked && t.engine.cfg.Unread(t)) && t.lease.Err() == nil && !errors.Is(dead, errUnsent) {
		if t.stream == nil { // a lost process may have left something open
			t.stream = newStream(t)
		} else if t.stream.Stopped() {
			speakAgain(t)
		}
		m := t.Message(said)
		if invoked { // nobody else sees the answer of an invoke
			targetPerson(t, m)
		}
		messages, err := endStream(t, []*activity.Activity{m})
		for _, m := range messages {
			sent := deliver(ctx, t, targetedMessage(t, m))
			if is[*connector.Error](sent) && t.rec.Stream.Concerns(m) { // it was open for too long, or the person pressed Stop
				sent = deliver(ctx, t, targetedMessage(t, t.Message(said)))
			}
			err = errors.Join(err, sent)
		}
		if err != nil {
			zerolog.Ctx(ctx).Error().Str("error", Cause(err)).Msg("the person was not told of the dead letter")
		}
	}
	return encodeAnswer(t)
}

// doneForGood lists the actions whose effects stay: those whose changes of state are saved, and those
// that do something outside of state.
func doneForGood(t *Turn) []string {
	outcomes := t.Outcomes()
	unsaved := slices.DeleteFunc(slices.Clone(outcomes[t.saved:]), func(o actions.Outcome) bool { return stateOnly(t, o) })
	return titlesOf(t, completed(append(outcomes[:t.saved], unsaved...)))
}

// stateOnly reports whether the outcome is that of an action that changes only state.
func stateOnly(t *Turn, o actions.Outcome) bool {
	action, known := t.engine.cfg.Actions.Lookup(o.Action)
	return known && action.StateOnly
}

// titlesOf returns what people call the actions.
func titlesOf(t *Turn, names []string) []string {
	for i, name := range names {
		names[i] = Title(t, name)
	}
	return names
}

// Title returns what people call the action.
func Title(t *Turn, name string) string {
	action, ok := t.engine.cfg.Actions.Lookup(name)
	if !ok {
		return titles.Words(name)
	}
	return t.Translate(texts.Text(action.Title))
}

// accountOf adds to a sentence what was done before, and the turn's id for an operator. It never
// includes an error's own text.
func accountOf(t *Turn, said string) string {
	if untold := t.exec.untold(); untold != "" && unjudged(t.exec) { // else nobody may have judged it
		said += " " + untold
	} else if done := doneForGood(t); len(done) > 0 {
		said += " " + t.Translate("Before that I did: %s.", strings.Join(done, ", "))
	}
	if failed := failedAction(t); failed != "" {
		said += " " + t.Translate("This failed: %s.", failed)
	}
	if len(t.uncertain) > 0 {
		said += " " + t.Translate("I cannot tell whether this was done: %s.", strings.Join(titlesOf(t, t.uncertain), ", "))
	}
	return t.Translate("%s (turn %s)", said, t.ID)
}

// maxReason is how many bytes of an action's own reason the person reads with a failure.
const maxReason = 200

// failedAction names the action that failed last, with its reason, unless a later plan could have told
// the person.
func failedAction(t *Turn) string {
	if len(t.Rounds) == 0 {
		return ""
	}
	for _, o := range t.Rounds[len(t.Rounds)-1].Outcomes {
		if !o.Failed {
			continue
		}
		if !unjudged(t.exec) { // nobody has judged the reason
			return Title(t, o.Action)
		}
		reason := cut(strings.Join(strings.Fields(o.Text), " "), maxReason)
		return Title(t, o.Action) + ", " + cmp.Or(strings.TrimRight(reason, "."), "for no reason given")
	}
	return ""
}

// reportEnd tells the log that the turn is over.
func reportEnd(ctx context.Context, t *Turn, failure error, took time.Duration) {
	line := zerolog.Ctx(ctx).Info()
	if failure != nil {
		line = zerolog.Ctx(ctx).Error().Str("error", Cause(failure))
		if of := t.engine.cfg.TurnURL; of != nil && of(t.ID) != "" {
			line = line.Str("see", of(t.ID))
		}
		zerolog.Ctx(ctx).Debug().Err(failure).Msg("cause of the failure")
	}
	t.engine.countFor(t.ID, CountTurns, okOrFailed(failure != nil), took)
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
}

// Lasting is ctx without the turn timeout: it ends when the lease is lost or the turn is cancelled.
func Lasting(ctx context.Context, t *Turn) context.Context {
	return lastingContext{t.owned, ctx}
}

// lastingContext ends with a turn's process, and has the values of another context.
type lastingContext struct {
	context.Context
	values context.Context
}

// Value prefers the values of what ends it: package context looks for that there.
func (c lastingContext) Value(key any) any {
	if value := c.Context.Value(key); value != nil {
		return value
	}
	return c.values.Value(key)
}

// useRecord makes rec the turn's record and drops what came of an earlier one.
func useRecord(t *Turn, rec Record) {
	rec.Stateless = rec.Stateless || t.rec.Stateless
	if rec.Own == "" {
		rec.Own = submitter(t.engine.cfg.Features, &rec, t.Activity)
	}
	t.attempt = attempt{
		rec:     rec,
		docs:    documents{store: t.engine.cfg.Store, turn: t.Turn, step: t.step},
		exec:    &execution{Turn: t},
		unsaved: unsaved{base: t.unsaved.base},
		burst:   rec.burst(),
	}
	t.Gate = t.exec.allowNested
	t.Reads = func(ctx context.Context, text string) error {
		return judgeTexts(ctx, t.exec, moderation.Document, text)
	}
	t.Screen = func(ctx context.Context, list []string, write func(may []bool) string) (string, error) {
		return screenTexts(ctx, t.exec, list, write)
	}
	t.ID, t.Temp, t.Rounds, t.Usage = rec.ID, state.NewScope(), nil, actions.Usage{}
	t.Text = cmp.Or(rec.Text, files.Said(t.Activity))
	if t.burst != nil {
		t.words = wordsOf(t, nil)
		t.Text = cmp.Or(rec.Text, strings.Join(t.words, "\n"))
	}
	if t.Activity.Strangers() {
		t.Distrust()
	}
	if run := rec.Run; run != nil {
		t.Rounds, t.Usage, t.exec.mayHaveStarted = run.Rounds, run.Usage, run.InFlight
		t.Temp, t.saved = state.ScopeOf(run.Temp), len(t.Outcomes())
		if run.Distrust {
			t.Distrust()
		}
	}
	if !rec.Caller.Trusted && t.Activity.ServiceURL != "" && t.engine.cfg.Channel.Identified() {
		t.Log().Warn().Msg("no signed token names this serviceUrl, so nothing is sent there")
		t.Activity.ServiceURL = ""
	}
}

// nobody stands in keys for an id that the channel left out.
const nobody = "-"

// IsMessage reports whether the turn answers a message.
func (t *Turn) IsMessage() bool { return t.Activity.Type == activity.Message }

// IsSubmit reports whether the turn answers a click on an Action.Submit of a card.
func (t *Turn) IsSubmit() bool {
	a := t.Activity
	return t.IsMessage() && a.Text == "" && len(a.Value) > 0 && a.Value.Kind() != 'n'
}

// IsExecute reports whether the turn answers a click on an Action.Execute of a card.
func (t *Turn) IsExecute() bool {
	return t.Activity.Type == activity.Invoke && t.Activity.Name == "adaptiveCard/action"
}

// ShowsCards reports whether the channel renders Adaptive Cards.
func (t *Turn) ShowsCards() bool { return t.Activity.ShowsCards() }

// ReadOnly reports whether the turn saves and sends nothing, because it answers an invoke beside the
// conversation's other turns. It may read state.
func (t *Turn) ReadOnly() bool { return t.lease == nil }

// Accepted is when the bot took the activity.
func (t *Turn) Accepted() time.Time { return t.rec.Accepted }

// Tries is how many processes have lost the turn, at the place where it is.
func (t *Turn) Tries() int {
	if t.lease == nil {
		return 0
	}
	return t.lease.Tries()
}

// Unasked reports whether the turn is a notice: nobody said anything.
func (t *Turn) Unasked() bool { return t.rec.Notice != nil }

// Scheduled reports whether the turn is a notice that another turn wanted at a later time.
func (t *Turn) Scheduled() bool { return t.rec.Notice != nil && !t.rec.Notice.Due.IsZero() }

// Proved returns the person's aadObjectId and tenant; "" where the channel does not prove them, see
// [bot.Access].
func (t *Turn) Proved() (user, tenant string) {
	if t.Activity.ChannelID != activity.Teams && t.engine.cfg.Channel.Identified() {
		return "", ""
	}
	tenant, _ = t.Activity.Tenant()
	return t.Activity.From.AadObjectID, tenant
}

// Awaited reports whether an HTTP request waits for the turn's answer.
func Awaited(t *Turn) bool { return t.rec.Awaited }

// Sent returns the channel's ids of what the turn has sent, in order; "" where the channel gave
// none. See [Turn.Send] for how to change or delete it.
func (t *Turn) Sent() []string { return t.rec.Sent }

// Answer sets what the turn answers to the HTTP request that waits for it.
func (t *Turn) Answer(a Answer) {
	if t.rec.Answer != nil {
		a.Activities = t.rec.Answer.Activities
	}
	t.rec.Answer = &a
}

// Decision returns the handler of an activity that replies to a pause; it needs no state of the
// conversation. nil: the activity decides nothing.
func Decision(t *Turn) Handler {
	r := replyIn(t)
	if r == nil {
		return nil
	}
	LeaveState(t)
	if r.Handle != nil {
		return r.Handle
	}
	return r.deliver
}

// LeaveState makes the turn leave the conversation's state alone. It is for a [Config.Handler]
// whose handler needs no state.
func LeaveState(t *Turn) { t.rec.Stateless = true }

// NeedsNoState makes the turn run even if its state cannot be read. It is for a [Config.Handler].
func NeedsNoState(t *Turn) { t.unread = true }

// Beside is LeaveState for a turn that must not wait for the conversation's others, nor hold them up:
// it runs in a queue of that name beside theirs. It is for a [Config.Handler].
func Beside(t *Turn, queue string) { t.rec.Stateless, t.beside = true, queue }

// Plan has the planner answer the turn. It makes and runs plans until one completes, waits for an
// approval, or fails.
func (t *Turn) Plan(ctx context.Context) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	state.Peek[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if t.Text != files.Said(t.Activity) {
		t.rec.Text = t.Text
	}
	for _, f := range t.engine.cfg.Features {
		if f.Begin == nil || t.halt.before {
			continue
		}
		if err := f.Begin(ctx, t); err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	t.rec.Run = &Run{}
	return t.move(ctx, goOnTo(planning))
}

// Call calls an action outside of any plan, such as one of [actions.Registry.Clicks]. Neither policy nor
// hooks are asked, and nobody is told. If it fails, what it changed in state is taken back. The error
// is an [*actions.EntityError] if the entities are wrong. If a feature flags them, the action does not
// run and the result is a failure that says so.
func (t *Turn) Call(ctx context.Context, a *actions.Action, entities map[string]any) (actions.Result, error) {
	entities, err := a.Check(entities)
	if err != nil {
		return actions.Result{}, err
	}
	if !t.ReadOnly() {
		err := judgeTyped(ctx, t.exec, entities)
		if flagged, ok := errors.AsType[*stopError](err); ok {
			return actions.Fail("%s", flagged.say), nil
		}
		if err != nil {
			return actions.Result{}, err
		}
	}
	t.docs.snapshot()
	result, err := a.Call(actions.Attempt{Key: t.ID, Again: t.Tries() > 0}.Context(ctx), t.Turn, entities)
	if err != nil || result.Failed() {
		t.docs.rollback()
	}
	return result, err
}

// Say sends texts to the conversation, each as its own message, labelled as generated by AI. Long
// texts are split. Say saves the turn's state changes first, so that nothing is reported as done
// and then lost.
func (t *Turn) Say(ctx context.Context, texts ...string) error {
	return t.Send(ctx, spokenMessages(ctx, t, texts)...)
}

// Tell sends texts of the bot itself. They have no AI label, because no model wrote it. Otherwise it
// is like [Turn.Say].
func (t *Turn) Tell(ctx context.Context, texts ...string) error {
	return t.Send(ctx, messagesOf(t, texts...)...)
}

// TellAlone is [Turn.Tell] for what only the turn's person may read, see [Turn.SendAlone].
func (t *Turn) TellAlone(ctx context.Context, texts ...string) error {
	return t.SendAlone(ctx, messagesOf(t, texts...)...)
}

// SendAlone is [Turn.Send] for messages that only the turn's person may read, such as the answer to an
// invoke that they no longer wait for: nobody else in a group or channel of Teams sees them. If the bot is
// not in the chat, as that of a message extension, they go to the person's own chat with the bot.
func (t *Turn) SendAlone(ctx context.Context, messages ...*activity.Activity) error {
	for _, m := range messages {
		targetPerson(t, m)
	}
	return sendMessages(ctx, t, messages, true)
}

// targetPerson makes a message one that only the turn's person sees, where others would see it.
func targetPerson(t *Turn, m *activity.Activity) {
	if a := t.Activity; a.ChannelID == activity.Teams && !a.Conversation.Personal() && a.From.ID != "" {
		m.Target(a.From.ID)
		m.ReplyToID = ""
	}
}

// Show sends cards, each as its own message: the text of its Fallback if the channel renders no
// cards, or if the card is too large for a message. Otherwise it is like [Turn.Send].
func (t *Turn) Show(ctx context.Context, cards ...activity.Card) error {
	return t.Send(ctx, cardMessages(ctx, t, cards)...)
}

// maxCardSummary is how many characters of a card's text clients show in a notification.
const maxCardSummary = 100

// cardMessages returns the messages that show the cards.
func cardMessages(ctx context.Context, t *Turn, cards []activity.Card) (all []*activity.Activity) {
	for _, card := range cards {
		if t.ShowsCards() {
			m := t.Message("")
			m.Summary = markdown.Tame(spelling.OneLine(card.Fallback, maxCardSummary), nil)
			m.Attachments = []activity.Attachment{card.Attachment()}
			if _, err := m.Fit().EncodeToSend(); err == nil {
				all = append(all, m)
				continue
			}
			zerolog.Ctx(ctx).Error().Msg("a card is too large, sending its text instead")
		}
		all = append(all, messagesOf(t, card.Fallback)...)
	}
	return all
}

// Send saves the turn's state changes and then sends the activities, in order. It is for cards and
// the like; [Turn.Say] and [Turn.Tell] are for texts. If the process is killed meanwhile, another
// one sends the rest and does not run the calling handler again: change state before you speak.
// Once the first activity is on its way, the end of ctx does not stop the rest.
//
// An activity of the type [activity.MessageUpdate] replaces the bot's message with its ID, which
// [Turn.Sent] returned, and one of the type [activity.MessageDelete] deletes it. If that message is
// gone, nothing happens.
func (t *Turn) Send(ctx context.Context, activities ...*activity.Activity) error {
	return sendMessages(ctx, t, activities, false)
}

func sendMessages(ctx context.Context, t *Turn, activities []*activity.Activity, alone bool) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	come, err := t.put(activities)
	for i := range t.rec.Outbox {
		t.rec.Outbox[i].Alone = alone
	}
	saving := ctx
	for err == nil {
		t.rec.Phase = come.phase
		if come.saveFirst {
			err = t.Save(saving)
		}
		if err != nil || come.phase != sending {
			break
		}
		saving = Lasting(ctx, t)
		come, err = sendPhase(ctx, t)
	}
	return err
}

// SendFile offers a file to the person, as [actions.Result.WithFile] does: with a card that asks
// whether they want it. Otherwise it is like [Turn.Send]. Its error for a file that cannot be sent
// says why, in words for the person.
func (t *Turn) SendFile(ctx context.Context, f actions.File) error {
	checked := actions.Done.WithFile(f)
	if checked.Failed() {
		return &refusal{reason: checked.Text()}
	}
	card, err := offerFile(ctx, t, checked.Files()[0], Hash(t.ID, len(t.rec.Sent)))
	if err != nil {
		return err
	}
	return t.Send(ctx, card)
}

// offerFile has a feature keep a file, and returns the message that offers it.
func offerFile(ctx context.Context, t *Turn, f actions.File, key string) (*activity.Activity, error) {
	for _, feature := range t.engine.cfg.Features {
		if feature.Offer != nil {
			return feature.Offer(ctx, t, f, key)
		}
	}
	return nil, Refuse("this bot cannot send files")
}

// React adds the bot's reaction to the message that the turn answers, or with add unset takes it
// away. It is a receipt where no typing indicator shows. See [connector.Client.React] for the
// reactions. Only Teams has them, and not on a private question. A reaction need not arrive: a
// failure is only logged, and a crash may lose or repeat it.
func (t *Turn) React(ctx context.Context, reaction string, add bool) {
	a := t.Activity
	if a.ChannelID != activity.Teams || a.ID == "" || targetedAt(t) != "" || !t.IsMessage() || RepliesInResponse(t) || t.lease.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reactWithin)
	defer cancel()
	ctx, end := t.step(ctx, "react")
	err := t.engine.cfg.Channel.React(ctx, a.Reference(), a.ID, reaction, add)
	end(err)
	if err != nil {
		zerolog.Ctx(ctx).Info().Str("error", Cause(err)).Msg("reaction not sent")
	}
}

// put puts the messages into the outbox, to be sent once they are saved.
func (t *Turn) put(messages []*activity.Activity) (Next, error) {
	messages, err := endStream(t, messages)
	if err != nil {
		return Next{}, err
	}
	t.rec.Outbox = make([]outgoing, len(messages))
	for i, m := range messages {
		if m.Amends() { // it may be nothing but an id
			m = into(t.Activity, m)
		}
		m = targetedMessage(t, m)
		out, err := outgoingOf(m)
		if err == nil && m.Amends() && m.ID == "" {
			err = fmt.Errorf("a %s has no id of the message", m.Type)
		}
		if err != nil {
			t.rec.Outbox = nil
			return Next{}, fmt.Errorf("send: %w", err)
		}
		t.rec.Outbox[i] = out
	}
	if run := t.rec.Run; run != nil {
		run.InFlight = 0
		if pauseOf(t) != nil {
			run.Cards += len(messages)
		}
	}
	return saveThen(sending), nil
}

var (
	answersOpenly   = &Slot[bool]{name: "open"}     // everybody may read the answers to a private question
	clickIsTargeted = &Slot[bool]{name: "targeted"} // the turn answers a click on a card that only one person sees
)

// PrivateTo is the person who alone reads what the turn says: they asked where nobody else reads it.
// "": everybody in the conversation may.
func PrivateTo(t *Turn) string {
	if answersOpenly.Peek(t) {
		return ""
	}
	return targetedAt(t)
}

// noteTargetedClick makes a click on a private card a private question, with the thread of one, though Teams
// does not say so.
func noteTargetedClick(ctx context.Context, t *Turn) error {
	clicked := t.IsSubmit() || t.Activity.Type == activity.Invoke
	if t.rec.Stateless || clickIsTargeted.Peek(t) || targetedAt(t) != "" || !clicked || !isTargetedCard(t, t.Activity.ReplyToID) {
		return nil
	}
	*clickIsTargeted.Of(t) = true
	t.listed = false       // it has another thread
	t.step(ctx, StepQuiet) // others would see it
	return t.docs.load(ctx, keysOfTurn(t))
}

// isTargetedCard reports whether the message with that id is a private card.
func isTargetedCard(t *Turn, id string) bool {
	return id != "" && t.Conversation != nil && slices.Contains(state.Peek[targetedCards](t.Conversation).IDs, id)
}

// maxTargeted is how many private cards a conversation remembers.
const maxTargeted = 50

// targetedCards are the ids of the last messages with cards that only one person sees. They are part of the
// conversation's state.
type targetedCards struct {
	IDs []string `json:"ids,omitempty"`
}

// targetedAt is the person of a turn that answers a private question, or is a notice they asked for in
// one. "": the turn is no such.
func targetedAt(t *Turn) string {
	switch a := t.Activity; {
	case a.Conversation.Personal() || a.ChannelID != activity.Teams:
		return ""
	case t.rec.Notice != nil:
		return t.rec.Notice.Person
	case a.Targeted(), clickIsTargeted.Peek(t):
		return a.From.ID
	}
	return ""
}

// AnswerOpenly lets everybody in the conversation read what the turn says from here on, though its
// question was private: one that Teams shows to nobody but the bot. Without it such a turn speaks to
// its person alone, with all its messages, cards, notices and failures. Ask the person first. In any
// other turn it does nothing.
func (t *Turn) AnswerOpenly() { *answersOpenly.Of(t) = true }

// targetedMessage returns the message as one for the person of a private turn, or as what answers a private
// question openly.
func targetedMessage(t *Turn, m *activity.Activity) *activity.Activity {
	person, out := PrivateTo(t), *m
	switch {
	case m.Targeted():
	case m.Amends() && isTargetedCard(t, m.ID):
		out.Target(t.Activity.From.ID)
	case m.Amends() && !slices.Contains(t.rec.Sent, m.ID):
	case person != "": // no reply: after a day the question is gone
		out.Target(person)
		out.ReplyToID = ""
	case answersOpenly.Peek(t) && t.rec.Notice == nil && targetedAt(t) != "" && m.Type == activity.Message:
		question, _ := json.Marshal(map[string]string{"type": "targetedMessageInfo", "messageId": t.Activity.ID}) // texts always encode
		out.Entities = append(slices.Clip(m.Entities), question)
	}
	return &out
}

// spokenMessages returns the messages of texts that a model wrote.
func spokenMessages(ctx context.Context, t *Turn, texts []string) []*activity.Activity {
	var all []*activity.Activity
	for _, text := range texts {
		text, sources := citeText(t, text)
		if t.Activity.ChannelID != activity.Teams {
			text += sourceList(t, sources)
		}
		for _, m := range messagesOf(t, text) {
			m.LabelAI()
			if len(sources) > 0 && t.Activity.ChannelID == activity.Teams { // each part of a long text has its own numbers
				part, used := cite.Text(m.Text, sources)
				m.Text = part
				m.Cite(used...)
			} else if len(sources) > 0 {
				m.Cite(sources...)
			}
			all = append(all, m)
		}
		if form := t.engine.cfg.Feedback; form != "" {
			all[len(all)-1].AskFeedback(form)
		}
	}
	for _, f := range t.engine.cfg.Features {
		for _, m := range all {
			if f.Send != nil {
				f.Send(ctx, t, m)
			}
		}
	}
	return all
}

// messagesOf returns the messages of texts. A long text is split.
func messagesOf(t *Turn, texts ...string) (all []*activity.Activity) {
	for _, text := range texts {
		for _, part := range partsOf(text, t.Activity.ChannelID, t.engine.cfg.PictureHosts) {
			all = append(all, t.Message(part))
		}
	}
	return all
}

// partsOf returns the markdown as the channel can show it, in parts that are not too long for a message.
func partsOf(text, channelID string, pictureHosts []string) []string {
	if channelID == activity.Teams {
		text = markdown.Fit(text)
	}
	return markdown.Split(markdown.Tame(text, pictureHosts), stream.MaxUnits)
}

// Message returns a markdown reply to the turn's activity, to be sent with [Turn.Send].
func (t *Turn) Message(text string) *activity.Activity { return message(t.Activity, text) }

func message(about *activity.Activity, text string) *activity.Activity {
	m := about.Reply(text)
	m.TextFormat = "markdown"
	m.Locale = about.Locale
	return m
}

// RepliesInResponse reports whether the turn's replies travel in the HTTP response.
func RepliesInResponse(t *Turn) bool { return t.rec.Answer != nil && t.rec.Answer.Activities != nil }

// contextOf is ctx for what is done for the turn: with its log and its ids.
func contextOf(ctx context.Context, t *Turn) context.Context {
	return turnid.With(t.Log().WithContext(ctx), idsOf(t))
}

// idsOf has the turn's ids. The activity is the one that it answers now.
func idsOf(t *Turn) turnid.Of {
	id := t.Activity.ID
	if p := pauseOf(t); p != nil {
		reply, _ := p.Answered()
		id = cmp.Or(reply, id)
	}
	return turnid.Of{Turn: t.ID, Conversation: t.Activity.Conversation.ID, Activity: id}
}

// Log is the bot's log with the ids of the turn.
func (t *Turn) Log() *zerolog.Logger {
	of := idsOf(t)
	with := t.engine.cfg.Log.With().
		Str("turn", of.Turn).
		Str("conversation", of.Conversation).
		Str("activity", of.Activity).
		Str("type", string(t.Activity.Type))
	if app := t.Activity.CallerApp(); app != "" {
		with = with.Str("caller", app)
	}
	log := with.Logger()
	return &log
}

// ChannelOf is the channel of the bot, for what is done at once, not with what the turn sends: so a handler that runs
// again does it again.
func ChannelOf(t *Turn) Channel { return t.engine.cfg.Channel }

// citeText is [cite.Text] for a text of the turn's model, where marks are those of sources.
func citeText(t *Turn, text string) (string, []activity.Citation) {
	if !citesSources(t) {
		return text, nil
	}
	return cite.Text(text, t.Sources())
}

// sourceList is what people read below a text where the channel shows no citations.
func sourceList(t *Turn, sources []activity.Citation) string {
	if len(sources) == 0 {
		return ""
	}
	list := "\n\n" + t.Translate("Sources:") + "\n"
	for i, s := range sources {
		list += fmt.Sprintf("\n- [%d] %s", i+1, titles.Code(spelling.OneLine(s.Title, maxSourceTitle)))
		if u, err := url.Parse(s.URL); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil {
			list += " " + u.String()
		}
	}
	return list
}

// maxSourceTitle is how many characters of a title people read, as in Teams.
const maxSourceTitle = 80

// citesSources reports whether marks in what a model writes are marks of sources: whatever mark a bot writes
// that can look things up, it means a source.
func citesSources(t *Turn) bool {
	return len(t.Sources()) > 0 || t.engine.cfg.Actions.Finds()
}

// Dropped tells the features that no turn runs for the activity, and why.
func Dropped(t *Turn, why string) { seeReceived(t)("", why) }

// ForgetDuplicate is [Ticket.Forget] from within a turn: the next delivery with this duplicate id counts as a
// new one.
func ForgetDuplicate(ctx context.Context, t *Turn, duplicate string) error {
	return t.engine.inbox.Forget(ctx, queueFor(t), duplicate, t.ID)
}

// Count is [Engine.Count] for the turn.
func (t *Turn) Count(what, how string) { t.engine.Count(t.ID, what, how) }

// CountTook is [Turn.Count] of something that took a while.
func CountTook(t *Turn, what, how string, took time.Duration) {
	t.engine.countFor(t.ID, what, how, took)
}

// step tells the features that a part of the turn begins. end tells them that it ended.
func (t *Turn) step(ctx context.Context, name string) (within context.Context, end func(error)) {
	end = func(error) {}
	for _, f := range t.engine.cfg.Features {
		if f.Step == nil {
			continue
		}
		var over func(error)
		ctx, over = f.Step(ctx, t, name)
		if over != nil {
			others := end
			end = func(err error) {
				over(err)
				others(err)
			}
		}
	}
	return ctx, end
}

func (t *Turn) record() *Record { return &t.rec }

// Again returns another turn of the same invoke, to be stored: its record has no secret.
func Again(t *Turn) *Turn {
	a := *t.Activity
	again := t.engine.NewTurn(&a, t.rec.Activity, t.rec.Caller.Trusted, false)
	hideSecrets(again, true)
	again.secret = cmp.Or(again.secret, t.secret)
	return again
}

// hideSecrets has the features take secrets out of what came in.
func hideSecrets(t *Turn, stored bool) {
	for _, f := range t.engine.cfg.Features {
		if f.Hides != nil {
			f.Hides(t, stored)
		}
	}
}

// Hide keeps a secret that a feature took out of the turn's activity, such as a token. It is stored nowhere.
func Hide(t *Turn, secret string) {
	raw, err := t.Activity.Encode()
	if err != nil { // it was decoded
		raw = []byte(`{}`)
	}
	t.secret, t.Text, t.rec.Activity = secret, files.Said(t.Activity), raw
}

// Secret is what [Hide] keeps; "": there is none, or the process that took the activity has died.
func Secret(t *Turn) string { return t.secret }

// Progress notes that the turn gets further with its next [Turn.Save]: how often processes died at the place before it does not
// count any more.
func Progress(t *Turn) { t.unsaved.progressed = true }

// Save writes the record and the state changes as if in one step: [inbox.Lease.Recover] completes
// one that a killed process left half done. From then on what was done in state counts as done. If
// another conversation changed the same value meanwhile, Save returns [state.ErrConflict] and
// nothing was saved. Handlers that say nothing may call it: sending saves first anyway.
func (t *Turn) Save(ctx context.Context) (err error) {
	if t.ReadOnly() {
		return errReadOnly
	}
	ctx, end := t.step(ctx, "save")
	defer func() { end(err) }()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	ctx = Lasting(ctx, t) // the turn timeout does not cut off a save
	if err = listPlace(ctx, t); err == nil {
		began := time.Now()
		err = mergingSave(ctx, t, func() error {
			raw, err := encodeRecord(t)
			if err != nil {
				return err
			}
			err = t.lease.Save(ctx, raw, t.unsaved.progressed, t.docs.toSave()...)
			seeSaved(t, raw, began, err)
			return err
		})
	}
	if err != nil {
		t.saveFault = err
		return err
	}
	t.saved, t.unsaved = len(t.Outcomes()), unsaved{}
	return nil
}

// Removed notes that the bot was removed from the conversation, and drops the notices that wait
// there. Nothing can be sent there until an activity comes from there.
func (t *Turn) Removed(ctx context.Context) error {
	state.Of[reference](t.Conversation).die("the bot was taken out")
	return dropWaits(ctx, t, t.Activity.Conversation.ID, "", func(w *Wait) bool { return w.For == forTime || w.isAlone() })
}

// Amend makes the history follow what the author of a message did with it: one that was deleted leaves the
// history, and so do a summary of it and the texts of its files; an edited one stands in its new words, which are judged
// first. A message of somebody else, or one that the history does not have, changes nothing.
func (t *Turn) Amend(ctx context.Context) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	a := t.Activity
	if a.Type == activity.MessageDelete {
		if err := t.engine.files.ForgetMessage(ctx, conversationKey(t), t.Conversation, a.From.ID, a.ID); err != nil {
			return err
		}
	}
	waits, err := waitsForMessage(ctx, t, a)
	if err != nil {
		return err
	}
	thread, err := threadWith(ctx, t, a, waits)
	switch {
	case err != nil || thread == "":
		return err
	case thread != a.Conversation.ID:
		return passOn(ctx, t, thread)
	}
	text := ""
	if a.Type == activity.MessageUpdate {
		m := *a
		m.Type = activity.Message
		if text, err = judgeEdited(ctx, t.exec, files.Said(&m)); err != nil {
			return err
		}
	}
	history := state.Of[prompts.History](t.Thread)
	history.Edit(a.From.ID, a.ID, text)
	if waits != "" {
		history.Amend(a.From.ID, a.ID, text)
	}
	zerolog.Ctx(ctx).Info().Bool("deleted", text == "").Bool("waits", waits != "").Msg("the history follows what the author of a message did with it")
	return nil
}
