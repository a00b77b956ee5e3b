package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Feature is a part of a bot outside of the core, such as its audit or its metrics. What comes with
// Planbot and what you write are equals. All functions are optional. They are asked in the order of the
// list, and a function that wraps another is outside of those that come after it. Concurrent turns call
// them at the same time. After a crash, what is repeated calls them again.
//
// Where a function returns an error, one of [Stop] ends the turn with that text; any other error fails
// the turn.
type Feature struct {
	// Name is unique in a bot, and is the name of the feature's [Slot], if it has one.
	Name string
	// Hides sees what comes in before it is stored or logged, and may take a secret out of the activity, see [Hide].
	// stored says that a turn is about to be stored for what is first answered at once.
	Hides func(t *Turn, stored bool)
	// Accept is called before a turn is stored, and may change its activity and its text. An error refuses the request.
	Accept func(ctx context.Context, t *Turn) error
	// Begin is called before a turn plans for the first time, and again if it runs again.
	Begin func(ctx context.Context, t *Turn) error
	// Plan wraps the planner. next makes the plan; its error is the planner's, such as a
	// [*models.Error]. Return the plan to run, or another one in its place. It is validated again.
	Plan func(ctx context.Context, t *Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error)
	// Call wraps each call of an action; next makes it. You may pass other entities to next, which
	// are checked again; return another result than next's; or not call next. An error of [Refuse]
	// fails the call, and the model learns why. If you change nothing, return next's result itself,
	// so that it stays [actions.Unchanged] if it was. Actions marked as Parallel are called at the
	// same time: leave slots alone here.
	Call func(ctx context.Context, t *Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error)
	// Ready sees each call before it is made, and returns what the turn waits for first; nil: nothing. It may be
	// called any number of times, and for calls that do not come next, so it changes nothing. An error of [Refuse]
	// fails the call. A call that needs an approval is refused if no feature returns a pause or grants it.
	Ready func(ctx context.Context, t *Turn, c *Pending) (Pause, error)
	// Called sees what came of each call, before that is saved, and returns why it failed; nil: it did not.
	Called func(ctx context.Context, t *Turn, a *actions.Action, err error) error
	// Unmade sees that the turn ends without its next call: the person rejected it or, if expired, did not decide in time.
	Unmade func(t *Turn, expired bool)
	// Token is [actions.Turn.UserToken]. A call of an action that needs a token is refused if no feature has it.
	Token func(ctx context.Context, t *Turn, connection string) (connector.UserToken, error)
	// Asks returns the pause in which a person is asked what a call wants to know, see [actions.Ask].
	Asks func(t *Turn, q Question) Pause
	// Pauses makes the pauses of each kind, to be decoded. The record keeps them as members with these names.
	Pauses map[string]func() Pause
	// Reads returns what an activity answers to a pause of the feature; nil: nothing.
	Reads func(a *activity.Activity, text string) *Reply
	// Offer keeps a file for the turn's person and returns the message that offers it. The same key keeps it once. An error
	// of [Refuse] says why it cannot be sent here.
	Offer func(ctx context.Context, t *Turn, f actions.File, key string) (*activity.Activity, error)
	// Over sees that a record of [SubmitWait] goes: somebody drops it, or its time is up. It may be repeated.
	Over func(ctx context.Context, t *Turn, w *Waiting) error
	// Noted sees what the next save is going to keep. What it puts into a slot is saved in the same
	// step: both, or neither.
	Noted func(t *Turn, n *Note)
	// Judge sees texts and pictures before they are used: what a person says and actions read, before a model or the history
	// gets it; a plan, before its first command runs; what variables fill in, before it is said or an action gets it; and,
	// where people read answers while they are written, each sentence. It returns a [*Flagged] for what must not be used. After
	// any other error the turn fails. What all features have passed is not asked about again. It is also called beside the
	// turn, so it leaves slots alone, and notes nothing about drafts.
	Judge func(ctx context.Context, t *Turn, j Judging) error
	// Say sees each text of a plan and returns what to say. A blank text is not said.
	Say func(ctx context.Context, t *Turn, text string) (string, error)
	// Send sees each message of [Turn.Say] before it is saved to be sent. It may add what only the bot
	// knows: a sensitivity label, suggestions, citations beyond those of [actions.Turn.Cite].
	Send func(ctx context.Context, t *Turn, m *activity.Activity)
	// Failed sees the failure of a turn and returns what to tell the person; "" leaves that to the
	// features after it, and then to the bot. The failure may be a [*models.Error], a [*plan.Fault], a
	// [*LimitError] or an [*actions.BudgetError], or wrap [moderation.ErrUnjudged].
	Failed func(ctx context.Context, t *Turn, failure error) string
	// Left is called each time before a turn ends, waits, is handed back or becomes a dead letter, in the
	// reverse order of the list, and once more after what [Go] runs. It may be repeated, also after a crash. After an error that wraps
	// [state.ErrUnavailable] the turn ends later.
	Left func(ctx context.Context, t *Turn) error
	// Ended sees that a turn is over, waits or became a dead letter: its changes are saved, its messages
	// are sent, and nothing of it is repeated. It can no longer change anything, has a few seconds, and a
	// crash may skip it.
	Ended func(ctx context.Context, t *Turn, e Ended)
	// Event sees everything that turns do. It gets copies, must not block, and a crash may skip it.
	Event func(e Event)
	// Step is called when a part of a turn begins: one of the steps below, or another name. It returns a
	// context for that part, and what to call when it ends, or nil. err is why the part failed.
	Step func(ctx context.Context, t *Turn, name string) (within context.Context, end func(err error))
	// Handle runs the turns of records that the feature submits for itself, see [Submit].
	Handle Handler
	// Forget deletes what the feature keeps of the turn's person outside of state and records. It may be
	// repeated.
	Forget func(ctx context.Context, t *Turn) error
	// Values are what the feature keeps in the state of conversations.
	Values []Value
	// Keeps is a sentence for people who ask what the bot keeps about them. "": nothing besides their
	// state.
	Keeps texts.Text
}

// Value is a value of state that a feature keeps.
type Value struct {
	Name string
	Says texts.Text // what people call it
	// Forget deletes what it has of a person in a conversation; "": all.
	Forget func(conversation *state.Scope, person string)
	// Stays returns what puts back what others need, after all of a conversation was deleted. nil: nothing does.
	Stays func(conversation *state.Scope) (put func())
	// Of is what it has of a person; nil: nothing.
	Of func(conversation *state.Scope, person string) any
}

// Names of steps, see [Feature].Step.
const (
	StepReceive = "receive" // an activity comes in
	StepSubmit  = "submit"  // a turn makes the record of another turn
	StepTurn    = "turn"    // all that this process does for a turn in one go
	StepPlan    = "plan"
	StepSend    = "send"
	StepQuiet   = "quiet"         // nothing but messages is to show from now on that the bot is at work; it has no end
	StepCall    = "execute_tool " // with the action's name
	StepJudge   = "moderate"
)

// Note is something about a turn that its next save keeps.
type Note struct {
	What    string // "call", "approval", or a word of a feature's own
	Outcome string
	Action  string
	ID      string
	Of      any      // what it is about, such as a call's entities
	Asked   []string // who is asked, each an id with a word that says why
	By      string   // the program that asked on the person's behalf, see [actions.Request]; "": the person asked

	rec *Record
}

func (n *Note) record() *Record { return n.rec }

// Turn is the id of the turn that the note is about: this one, or the one that this one wakes.
func (n *Note) Turn() string { return n.rec.ID }

// checkFeatures finds what makes a list of features impossible.
func checkFeatures(all []Feature) error {
	var faults []error
	seen := map[string]bool{}
	for _, f := range all {
		if f.Name != "" && seen[f.Name] {
			faults = append(faults, fmt.Errorf("two features are called %q", f.Name))
		}
		seen[f.Name] = true
		for _, kind := range slices.Sorted(maps.Keys(f.Pauses)) {
			if kind == "" || f.Pauses[kind] == nil {
				faults = append(faults, fmt.Errorf("feature %q: Pauses: %q has no name or no function", f.Name, kind))
			}
		}
	}
	return errors.Join(faults...)
}

// planWithin calls plan inside the features' Plan.
func planWithin(ctx context.Context, t *Turn, make func(context.Context) (plan.Plan, error)) (p plan.Plan, err error) {
	wrapped := false
	for _, f := range slices.Backward(t.engine.cfg.Features) {
		if f.Plan == nil {
			continue
		}
		next := make
		wrapped = true
		make = func(ctx context.Context) (plan.Plan, error) { return f.Plan(ctx, t, next) }
	}
	p, err = make(ctx)
	if !wrapped || err != nil || len(p.Commands) == 0 {
		return p, err
	}
	p, err = p.Validate(t.engine.cfg.Actions)
	if err != nil {
		return p, fmt.Errorf("a feature's plan: %w", err)
	}
	return p, nil
}

// callWithin calls make inside the features' Call.
func callWithin(
	ctx context.Context, t *Turn, c actions.Call, make func(context.Context, actions.Call) (actions.Result, error),
) (actions.Result, error) {
	for _, f := range slices.Backward(t.engine.cfg.Features) {
		if f.Call == nil {
			continue
		}
		next := make
		make = func(ctx context.Context, c actions.Call) (actions.Result, error) { return f.Call(ctx, t, c, next) }
	}
	return make(ctx, c)
}

// leave tells the features that the turn ends, waits or is left. All of them hear of it; the error is the
// first one's.
func leave(ctx context.Context, t *Turn) (err error) {
	for _, f := range slices.Backward(t.engine.cfg.Features) {
		if f.Left == nil {
			continue
		}
		failure := safely(t, func() error { return f.Left(ctx, t) })
		if failure != nil && err == nil {
			err = fmt.Errorf("feature %s: %w", f.Name, failure)
		}
	}
	err = cmp.Or(err, t.rec.fault)
	return err
}

// tellEnded tells the features that the turn is over, waits or is a dead letter.
func tellEnded(ctx context.Context, t *Turn, e Ended) {
	ctx, cancel := t.engine.workers.outlive(ctx, settleWithin)
	defer cancel()
	for _, f := range t.engine.cfg.Features {
		if f.Ended == nil {
			continue
		}
		err := safely(t, func() error {
			f.Ended(ctx, t, e)
			return nil
		})
		if err != nil { // the turn is over all the same
			zerolog.Ctx(ctx).Error().Err(err).Str("feature", f.Name).Msg("a feature panicked at the end of a turn")
		}
	}
}

// stopError ends a turn because a feature asked for it.
type stopError struct{ say string }

func (e *stopError) Error() string { return "stopped by a feature" }

// Stop returns an error with which a [Feature] ends the turn. The person reads only text; "" is silence.
// What ran before stays done.
func Stop(text string) error { return &stopError{text} }

// refusal says that a call is not allowed.
type refusal struct {
	reason  string
	counted bool // a reply that is refused has counted before, see [Reply].Counted
}

func (e *refusal) Error() string { return e.reason }

// Reason is what the model and the person may read.
func (e *refusal) Reason() string { return e.reason }

// Refuse returns an error with which [Feature].Call fails a call. The model and the person may read
// the reason.
func Refuse(format string, args ...any) error { return &refusal{reason: fmt.Sprintf(format, args...)} }

// Slot is what a feature keeps in the record of a turn: a JSON value that is saved in the same step as
// the rest of the turn. A turn that runs again gets the slot of its last save; taking back what a failed
// call changed in state leaves slots alone. A value that cannot be decoded makes the turn a dead letter,
// and so is never overwritten. What an absent feature kept stays as it is.
type Slot[T any] struct {
	name string
	in   func(*Record) *kept // the part of a record that has it, nil if that part is not there; nil: the record itself
}

// maxSlot is how many bytes of JSON a slot may have.
const maxSlot = 64 << 10

// ownSlots are the names of the slots of this package.
var ownSlots = []string{"forgotten", "open", "targeted"}

// NewSlot returns the slot with that name, which has to be the feature's. The record keeps it as a member of
// that name. NewSlot panics if the record has such a member of its own.
func NewSlot[T any](name string) *Slot[T] {
	if name == "" || slices.Contains(ownSlots, strings.ToLower(name)) || recordHas(reflect.TypeFor[Record](), name) {
		panic(fmt.Sprintf("a slot cannot be called %q", name))
	}
	return &Slot[T]{name: name}
}

// NewPlanSlot returns a slot that is kept for as long as the turn plans. It has a member of that name in the record's
// run.
func NewPlanSlot[T any](name string) *Slot[T] {
	if recordHas(reflect.TypeFor[Run](), name) {
		panic(fmt.Sprintf("a slot of a plan cannot be called %q", name))
	}
	return &Slot[T]{name: name, in: func(r *Record) *kept {
		if r.Run == nil {
			return nil
		}
		return &r.Run.kept
	}}
}

// NewRunSlot returns a slot of the records of [Engine.SubmitRun], and of no others. It has a member of that name in the
// record's notice.
func NewRunSlot[T any](name string) *Slot[T] {
	if recordHas(reflect.TypeFor[pendingNotice](), name) {
		panic(fmt.Sprintf("a slot of a notice cannot be called %q", name))
	}
	return &Slot[T]{name: name, in: func(r *Record) *kept {
		if r.Notice == nil {
			return nil
		}
		return &r.Notice.kept
	}}
}

// recordHas reports whether a record has a member of that name.
func recordHas(record reflect.Type, name string) bool {
	for field := range record.Fields() {
		member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if strings.EqualFold(member, name) || field.Anonymous && recordHas(field.Type, name) {
			return true
		}
	}
	return false
}

func (r *Record) record() *Record { return r }

// Holder is what has slots: a turn, its record, or what a note is about.
type Holder interface{ record() *Record }

// Of returns the value of the slot, to be read and changed. It is a zero T if nothing was kept.
func (s *Slot[T]) Of(h Holder) *T {
	all := s.keptIn(h)
	if all == nil {
		all = &kept{}
	}
	for _, open := range all.open {
		if open.name == s.name {
			return open.value.(*T)
		}
	}
	value := new(T)
	if raw := all.Slots[s.name]; raw != nil {
		if err := json.Unmarshal(raw, value); err != nil {
			h.record().fault = &deadLetter{reason: "what the feature " + s.name + " kept cannot be decoded", err: err}
			value = new(T)
		}
	}
	all.open = append(all.open, openSlot{s.name, value})
	return value
}

// keptIn is where the slot is kept; nil if that part of the record is not there.
func (s *Slot[T]) keptIn(h Holder) *kept {
	if s.in != nil {
		return s.in(h.record())
	}
	return &h.record().kept
}

// Local is what a feature keeps of a turn in this process. It outlives a rerun, and is lost with the process.
type Local[T any] struct{ _ byte } // not empty, so that each has an address of its own

// NewLocal returns a Local of its own.
func NewLocal[T any]() *Local[T] { return new(Local[T]) }

// Of returns the value for the turn, to be read and changed: a zero T at first.
func (l *Local[T]) Of(t *Turn) *T {
	t.localsMu.Lock()
	defer t.localsMu.Unlock()
	for _, known := range t.locals {
		if known.of == l {
			return known.value.(*T)
		}
	}
	value := new(T)
	t.locals = append(t.locals, local{l, value})
	return value
}

type local struct{ of, value any }

// Go runs f beside the next turns of the conversation. Call it once the turn is over, in [Feature].Ended. It reports
// whether f runs: it does not if as many turns run as may, or if the engine drains. f has that long, but ends as
// soon as the engine drains; nobody else waits for it. Its error is logged.
func Go(t *Turn, within time.Duration, f func(context.Context) error) bool {
	w := t.engine.workers
	if !w.tryEnter() {
		return false
	}
	go func() {
		defer w.leave()
		ctx, cancel := context.WithTimeout(w.spare, within)
		defer cancel()
		ctx = contextOf(connector.ForCaller(ctx, t.Activity.CallerApp()), t)
		err := safely(t, func() error { return f(ctx) })
		if err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", Cause(err)).Msg("what was to be done after a turn is not done")
		}
		settleAccounts(ctx, t)
	}()
	return true
}

// Submit puts a record of the feature's own into the queue of the turn's conversation; fill sets its slot. Its turn
// runs the feature's Handle with the state of the conversation and the thread, in order with the other turns, on any
// replica. Nothing can be sent in it. In a bot without the feature, the record becomes a dead letter. Submit may also
// be called when the turn is over.
func Submit(ctx context.Context, t *Turn, feature string, fill func(Holder)) error {
	a := state.Peek[reference](t.Conversation).in(actions.To(t.Activity))
	a.Name, a.ServiceURL = feature, ""
	if targetedAt(t) != "" { // for its thread
		a.From, a.Recipient = t.Activity.From, t.Activity.Recipient
	}
	raw, err := a.Encode()
	if err != nil {
		return err
	}
	s := t.engine.NewTurn(a, raw, t.rec.Caller.Trusted, false)
	s.rec.Own = feature
	fill(s)
	_, _, err = t.engine.submit(ctx, s, inbox.Entry{Queue: queueFor(s), Load: keysOfTurn(s)})
	return err
}

// WaitID is the id that [SubmitWait] gives a record in the turn's conversation whose key is that.
func WaitID(t *Turn, key string) string { return idOf(conversationKey(t), key) }

// SubmitWait puts a record with the id of [WaitID] beside the turn's conversation, or in the place of the one that is there.
// It does nothing but wait, for something of that kind, until that time, and belongs to the turn's person; fill sets its
// slot. See [FindWait], [DropWait] and [Feature].Over.
func SubmitWait(ctx context.Context, t *Turn, kind, id string, until time.Time, fill func(Holder)) (*Waiting, error) {
	rec := Record{
		head:  head{ID: id, Accepted: time.Now().UTC(), Activity: t.rec.newest(), Caller: t.rec.Caller},
		Phase: waiting,
		Wait:  &Wait{For: waitKind(kind), Until: until.UTC(), Then: done, Owner: personOf(t.Activity)},
	}
	fill(&rec)
	raw, err := rec.Encode()
	if err != nil {
		return nil, err
	}
	w, listed := waitingOf(t, &rec, t.Activity), rec.Wait.listed()
	_, err = t.engine.inbox.Accept(ctx, inbox.Entry{Queue: w.queue, ID: id, Record: raw, Wait: &listed})
	return w, err
}

// SubmitCall puts a call of the turn's plan, which the feature's Call does not make then, into a record of the feature's
// own. It is made in a queue beside the conversation's, on any replica; [IsAlone] says so there. Once it has an outcome,
// Handle is called. A call that is made again is submitted once. queued is false if the call cannot be made later: the
// turn answers no message, or answers in the HTTP response, or another action makes the call.
func SubmitCall(ctx context.Context, t *Turn, feature string, c actions.Call) (queued bool, err error) {
	attempt := actions.AttemptOf(ctx)
	nested := strings.Count(attempt.Key, ".") > 1
	if !t.IsMessage() || t.rec.Notice != nil || RepliesInResponse(t) || nested {
		return false, nil
	}
	p := plan.Plan{Commands: []plan.Command{{Kind: plan.Do, Action: c.Action.Name, Entities: c.Entities}}, Observe: true, Salvaged: c.Salvaged}
	run := &Run{Progress: p.Start(nil), Rounds: []actions.Round{{}}, Alone: true, Distrust: t.Distrusted()}
	if attempt.Approved {
		approval, err := t.exec.policy(ctx, c)
		if err != nil {
			return false, err
		}
		run.Approved, err = CallHash(ctx, t.Turn, c, approval.Bind)
		if err != nil {
			return false, err
		}
	}
	s, err := onBehalf(t, feature, attempt.Key, run)
	if err != nil {
		return false, err
	}
	s.rec.Phase, s.rec.Text = running, t.Text
	queue := inbox.ThreadQueue(conversationKey(t), feature+"\n"+s.rec.ID)
	return true, submitOnce(ctx, s, queue)
}

// SubmitOutcomes puts a record of the feature's own into the queue of the turn's thread. In it the planner answers text,
// and knows what this turn has done. What is submitted again in the same turn is submitted once.
func SubmitOutcomes(ctx context.Context, t *Turn, feature, text string) error {
	rounds := slices.Clone(t.Rounds)
	rounds[len(rounds)-1].Withheld = true // nobody was told
	s, err := onBehalf(t, feature, t.ID, &Run{Rounds: rounds, Distrust: t.Distrusted()})
	if err != nil {
		return err
	}
	s.rec.Text = text
	return submitOnce(ctx, s, queueFor(s))
}

// IsAlone reports whether the turn makes nothing but a call that [SubmitCall] submitted.
func IsAlone(t *Turn) bool { return t.rec.Run != nil && t.rec.Run.Alone }

// onBehalf makes the turn of a record of a feature's own, which goes on with what the person asked for in this one. Their
// message has no id there, since it is not answered twice.
func onBehalf(t *Turn, feature, key string, run *Run) (*Turn, error) {
	a := *t.Activity
	a.ID = ""
	raw, err := a.Encode()
	if err != nil {
		return nil, err
	}
	s := t.engine.NewTurn(&a, raw, t.rec.Caller.Trusted, false)
	s.rec.ID = idOf(conversationKey(t), feature+"\n"+key)
	s.rec.Own, s.rec.Run, s.rec.Caller = feature, run, t.rec.Caller
	return s, nil
}

func submitOnce(ctx context.Context, t *Turn, queue state.Key) error {
	once := []inbox.Duplicate{{ID: "own\n" + t.rec.ID, For: sameNotice}}
	useRecord(t, t.rec)
	_, _, err := t.engine.submit(ctx, t, inbox.Entry{Queue: queue, Load: keysOfTurn(t), Duplicates: once})
	return err
}

// RunCall runs a plan of one call, in a turn of [Engine.SubmitRun], as the person with that id in Microsoft Entra. It may
// wait for people. After it the turn is over: no card of its result is shown, and the planner is not asked.
func RunCall(ctx context.Context, t *Turn, person, action string, entities map[string]any) error {
	p := plan.Plan{Commands: []plan.Command{{Kind: plan.Do, Action: action, Entities: entities}}, Observe: true}
	p, err := p.Validate(t.engine.cfg.Actions)
	if err != nil {
		return err
	}
	t.Activity.From.AadObjectID = person
	t.rec.Run = &Run{Progress: p.Start(nil)}
	t.unsaved.progressed = true
	t.Rounds = append(t.Rounds, actions.Round{})
	return t.move(ctx, goOnTo(running))
}

// Stopped is what the person reads if a feature has ended the turn with [Stop]. "": none has, or the process that did has
// died since.
func Stopped(t *Turn) string { return t.stopped }

// Ending says in [Feature].Left how the turn ends, as [Ended].Outcome does, and which actions may or may not have been
// done. "": it does not end yet.
func Ending(t *Turn) (outcome string, uncertain []string) {
	switch t.rec.Phase {
	case done:
		return okTurn, t.uncertain
	case failed:
		return failedTurn, t.uncertain
	}
	return "", nil
}

// ownRun marks the records of [SubmitTo], for releases that know none: they make it a dead letter.
const ownRun = "planbot/own"

// SubmitTo is [Submit] for another conversation of the turn's channel, such as a person's own chat with the bot, which
// begins if need be. Its turn can send messages. A record with the same key in the same conversation is submitted once
// in 24 hours. It returns the id of the conversation. Errors: those of [Engine.Notify].
func SubmitTo(ctx context.Context, t *Turn, to actions.Recipient, feature, key string, fill func(Holder)) (conversation string, err error) {
	p := postTo(t, to)
	p.Key, p.Run, p.feature, p.fill = feature+"\n"+key, ownRun, feature, fill
	_, err = t.engine.notify(ctx, p)
	return p.To.Conversation, err
}

// Reach finds the conversation of [SubmitTo], and submits nothing.
func Reach(ctx context.Context, t *Turn, to actions.Recipient) (conversation string, err error) {
	p := postTo(t, to)
	err = t.engine.address(ctx, p)
	return p.To.Conversation, err
}

// postTo begins what goes to another conversation of the turn's channel.
func postTo(t *Turn, to actions.Recipient) *post {
	here := actions.To(t.Activity)
	to.Channel, to.Bot, to.Caller, to.Via = here.Channel, here.Bot, here.Caller, here.Conversation
	p := &post{Notice: actions.Notice{To: to}}
	p.lead(t)
	return p
}

// MemberOf returns a member of one of the bot's conversations on the turn's channel; "": the turn's. id is that of their
// account, or their aadObjectId.
func MemberOf(ctx context.Context, t *Turn, conversation, id string) (activity.Account, error) {
	there := t.Activity.Reference()
	there.ActivityID, there.Conversation.ID = "", cmp.Or(conversation, t.Activity.Conversation.BaseID())
	ctx, cancel := context.WithTimeout(ctx, reactWithin)
	defer cancel()
	return t.engine.cfg.Channel.Member(ctx, there, id)
}

// submitter is the feature that submitted a record of a release that did not write down which: the activity has
// its name, and the record has its slot. "": none did.
func submitter(features []Feature, rec *Record, a *activity.Activity) string {
	if a.Type != activity.Event || len(rec.Slots) == 0 {
		return ""
	}
	for _, f := range features {
		if f.Handle != nil && f.Name == a.Name && rec.Slots[f.Name] != nil {
			return f.Name
		}
	}
	return ""
}

// Peek returns the value of the slot, to be read and not changed: a zero T if nothing was kept.
func (s *Slot[T]) Peek(h Holder) (value T) {
	all := s.keptIn(h)
	if all == nil {
		return value
	}
	if all.Slots[s.name] != nil || slices.ContainsFunc(all.open, func(open openSlot) bool { return open.name == s.name }) {
		return *s.Of(h)
	}
	return value
}

// kept is what features keep, by name, each a member of the record. Those of absent features are among them.
type kept struct {
	Slots map[string]jsontext.Value `json:",embed"`
	open  []openSlot                // in use
	fault error                     // one cannot be decoded: the record must not be saved
}

type openSlot struct {
	name  string
	value any
}

// closeSlots encodes the slots that are in use.
func (r *Record) closeSlots() error {
	err := cmp.Or(r.fault, r.close())
	if err == nil && r.Run != nil {
		err = r.Run.close()
	}
	if err == nil && r.Notice != nil {
		err = r.Notice.close()
	}
	return err
}

func (r *kept) close() error {
	for _, open := range r.open {
		raw, err := plainjson.Marshal(open.value)
		switch {
		case err != nil:
			return fmt.Errorf("write what the feature %s keeps: %w", open.name, err)
		case len(raw) > maxSlot:
			return fmt.Errorf("the feature %s keeps %d bytes: %w", open.name, len(raw), state.ErrTooLarge)
		case slices.Contains([]string{"null", "{}", "[]", `""`, "0", "false"}, string(raw)):
			delete(r.Slots, open.name)
			continue
		}
		if r.Slots == nil {
			r.Slots = map[string]jsontext.Value{}
		}
		r.Slots[open.name] = raw
	}
	return nil
}
