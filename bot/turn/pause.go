package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// What this file is about: a turn asks a person with a message, and its record then waits outside of its queue, so that
// the conversation continues. The reply is a turn of its own, in a queue beside the conversation's, so that it is
// answered at once. It puts the answer into the record and the record back into its queue, in one step that works only
// once. The turn then goes on with the call that waited, or without it.

// Pause is a wait for a person before the next call of a plan, such as for its approval. A feature makes it in
// [Feature].Ready or Asks. The record keeps it as JSON.
type Pause interface {
	// Kind is what the record waits for.
	Kind() string
	// Ask returns the message that asks. id is the pause's own, and begins with that of the turn. An error of [Refuse]
	// fails the call, or leaves the question unanswered; one of [Stop] ends the turn.
	Ask(ctx context.Context, t *Turn, id string) (*activity.Activity, error)
	// Until is when the turn goes on without an answer.
	Until() time.Time
	// Note is what the history says while the turn waits.
	Note() string
	// Failed is called if nobody could be asked. It returns what the history says then.
	Failed(t *Turn) (note string)
	// Shown tells the id of the message that asks; "": the channel gave it none.
	Shown(message string)
	// Answered reports whether there is an answer, and which activity brought it.
	Answered() (activity string, ok bool)
	// Resume is called in the turn that waited, with the answer or when the time is up. It returns [Approved], [Rejected],
	// [Expired] or [Answered].
	Resume(ctx context.Context, t *Turn) (Next, error)
	// Data is what people read about it who ask what the bot keeps about them.
	Data(t *Turn) map[string]any
}

// Pending is a call that is about to be made, as [Feature].Ready sees it: checked, and allowed by the policy.
type Pending struct {
	actions.Call
	Approval actions.Approval // what the policy wants
	// Granted says that a person has approved the call. Ready may set it.
	Granted bool
	Begun   bool // an earlier process may have made it

	exec *execution
	call *call
}

// Hash identifies everything that the call will do. Two calls with the same hash do the same.
func (p *Pending) Hash(ctx context.Context) (string, error) {
	var err error
	if p.call.hash == "" {
		p.call.hash, err = CallHash(ctx, p.exec.Turn.Turn, p.Call, p.Approval.Bind)
	}
	return p.call.hash, err
}

// policyWithin is how long a policy has, and [actions.Approval].Find.
const policyWithin = 8 * time.Second

// errPolicyHangs does not end the turn as its own end of time would.
var errPolicyHangs = fmt.Errorf("no answer within %s", policyWithin)

// inTime calls what others wrote and may never end, or panic: both are errors.
func inTime[T any](ctx context.Context, t *Turn, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	within, cancel := context.WithTimeout(ctx, policyWithin)
	defer cancel()
	done := make(chan answer, 1)
	go func() { // it ends with within, or nobody waits for it any more
		var a answer
		a.err = safely(t, func() (err error) {
			a.value, err = f(within)
			return err
		})
		done <- a
	}()
	var a answer
	select {
	case a = <-done:
	case <-within.Done():
		a.err = within.Err()
	}
	if a.err != nil && within.Err() != nil {
		a.err = cmp.Or(ctx.Err(), errPolicyHangs)
	}
	return a.value, a.err
}

// Find calls [actions.Approval].Find. One that does not end in time, or panics, is an error.
func (p *Pending) Find(ctx context.Context) ([]string, error) {
	if p.Approval.Find == nil {
		return nil, nil
	}
	return inTime(ctx, p.exec.Turn, func(ctx context.Context) ([]string, error) {
		return p.Approval.Find(ctx, p.exec.Turn.Turn, p.Call)
	})
}

// Question is what a call asks the person, see [actions.Ask], and what came of it. Records store it as JSON.
// What the person typed is in there until the call was made, and in no log.
type Question struct {
	Action string       `json:"action"`
	Form   actions.Form `json:"form"`
	State  []byte       `json:"state,omitempty"`
	// Asked is how many questions the call has asked, with this one.
	Asked int    `json:"asked"`
	Given *Given `json:"answer,omitempty"` // nil: no answer yet
}

// Given is what came of a question.
type Given struct {
	Values     map[string]any `json:"values,omitempty"`
	Declined   bool           `json:"declined,omitzero"`
	Unanswered bool           `json:"unanswered,omitzero"` // nobody declined it, but there is no answer
	At         time.Time      `json:"at,omitzero"`
	Click      string         `json:"click,omitempty"` // the activity that answered
}

// Reply is what an activity answers to a pause, see [Feature].Reads.
type Reply struct {
	// Queue is that of its turn, beside the conversation's; "": that of decisions.
	Queue string
	// Handle is the handler of its turn, if the feature finds the turn that waits, and wakes it. nil: the fields below say
	// how.
	Handle Handler

	Pause string // its id
	Alone bool   // only the person of the reply reads why it does not count
	// Elsewhere returns the conversation in which the turn waits, from the state of the reply's; nil or "": the same.
	Elsewhere func(here *state.Scope) (conversation string)
	// Take puts the reply into the pause. ours is false if the turn waits for something else. If the reply does not
	// count, nothing changes, and refusal says why.
	Take func(ctx context.Context, t *Turn, w *Waiting) (ours bool, refusal string)
	// Taken returns a card that shows what became of it, once the turn that waited goes on.
	Taken func(ctx context.Context, t *Turn, w *Waiting) activity.Card
	// Late says what became of a pause that nobody waits for any more, from the state of the conversation.
	Late func(t *Turn, conversation *state.Scope) (said string, known bool)
	// Counted reports whether this very reply decided a pause that is over, and has come again since. nil: it is not known.
	Counted func(conversation *state.Scope) bool
	// End ends the card of a reply that is too late, if its id was lost.
	End func(ctx context.Context, t *Turn, conversation *state.Scope, said string)
}

// Waiting is a turn that waits, as another turn finds it. A reply finds no For and no times.
type Waiting struct {
	Turn         string // its id
	Owner        string // who was asked
	For          string
	Since, Until time.Time
	Pause        Pause              // nil: it waits for no answer, or no feature of this bot has its kind
	Asked        *activity.Activity // what it answers
	Record       *Record

	queue state.Key
}

func (w *Waiting) record() *Record { return w.Record }

// Key is that of the conversation in which the turn waits, for what lies beside it.
func (w *Waiting) Key() state.Key { return w.queue }

// waitingOf is the turn of a record that answers asked. Pause is there also if it waits for something else just now.
func waitingOf(t *Turn, rec *Record, asked *activity.Activity) *Waiting {
	w := &Waiting{Turn: rec.ID, Asked: asked, Record: rec, queue: conversationKey(t)}
	if asked != nil {
		w.Owner = asked.From.ID
	}
	if rec.Wait != nil {
		w.Pause = rec.Wait.open(t.engine.pauses)
	}
	return w
}

// Pending is the call before which the turn waits, as the policy decides about it now, in the turn t of a reply. nil: it
// would not be made any more.
func (w *Waiting) Pending(ctx context.Context, t *Turn) (*Pending, error) {
	if run := w.Record.Run; run == nil || run.Progress == nil || run.Progress.Done() {
		return nil, nil
	}
	asked := *w.Asked
	waits := t.engine.newTurn(&asked)
	useRecord(waits, w.Record.clone())
	if err := waits.docs.load(ctx, keysOfTurn(waits)); err != nil {
		return nil, err
	}
	c := waits.exec.check(waits.rec.Run.Progress.Next)
	if c.err != nil {
		return nil, nil
	}
	p := &Pending{Call: waits.exec.describe(&c), exec: waits.exec, call: &c}
	var err error
	p.Approval, err = waits.exec.policy(ctx, p.Call)
	if is[*refusal](err) {
		return nil, nil
	}
	return p, err
}

// Own is the turn itself as another turn would find it while it waited.
func Own(t *Turn) *Waiting { return waitingOf(t, &t.rec, t.Activity) }

// Change gives the call before which the turn waits these entities in place of those with the same names. It returns the
// call as [Waiting.Pending] does. An [actions.EntityError] says what does not fit.
func (w *Waiting) Change(ctx context.Context, t *Turn, entities map[string]any) (*Pending, error) {
	p := w.Record.Run.Progress
	p.Change(entities)
	c, err := p.Command(p.Next)
	if err != nil {
		return nil, err
	}
	if action, ok := t.engine.cfg.Actions.Lookup(c.Action); ok {
		if _, err := action.Check(c.Entities); err != nil {
			return nil, err
		}
	}
	return w.Pending(ctx, t)
}

// errChanged ends an approved turn if the bot has changed meanwhile and would do something else
// than the person saw.
var errChanged = errors.New("the approved call is not the one that would be made now")

// allow asks the policy about a call, and the features whether it has to wait for a person. An approved call is made
// if it is exactly the one that the person saw and the policy still allows it.
func (x *execution) allow(ctx context.Context, c *call, approved string) error {
	if c.err != nil {
		return nil
	}
	p := &Pending{Call: x.describe(c), Begun: x.mayHaveStarted > 0, exec: x, call: c}
	var err error
	p.Approval, err = x.policy(ctx, p.Call)
	if is[*refusal](err) {
		zerolog.Ctx(ctx).Info().Str("action", c.action.Name).Msg("the policy denies the call")
		if x.mayHaveStarted > 0 {
			return x.notApproved()
		}
		c.err = err
		return nil
	}
	if err == nil && approved != "" {
		_, err = p.Hash(ctx)
		p.Granted = c.hash == approved
	}
	if err != nil {
		return err
	}
	if approved != "" && !p.Granted {
		return x.notApproved()
	}
	for _, f := range x.engine.cfg.Features {
		if f.Ready == nil || c.pause != nil {
			continue
		}
		c.pause, err = f.Ready(ctx, x.Turn, p)
		if is[*refusal](err) {
			c.err = err
			return nil
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	c.granted = p.Granted
	if c.action.Connection != "" && !p.Begun && !x.engine.has(func(f *Feature) bool { return f.Token != nil }) {
		zerolog.Ctx(ctx).Error().Str("action", c.action.Name).Msg("a call is refused: no feature of this bot signs people in")
		c.err = Refuse("%s needs a sign-in, and this bot cannot sign people in", c.action.Name)
		return nil
	}
	if c.pause == nil && (c.granted || !p.Approval.Required) {
		return nil
	}
	if x.mayHaveStarted > 0 {
		return x.notApproved()
	}
	if c.pause == nil {
		zerolog.Ctx(ctx).Error().Str("action", c.action.Name).Msg("a call is refused: no feature of this bot asks for the approval that it needs")
		c.err = Refuse("%s needs the approval of a person, and this bot cannot ask for one", c.action.Name)
	}
	return nil
}

// policy asks the policy about a call. A call that it denies is a refusal.
func (x *execution) policy(ctx context.Context, c actions.Call) (actions.Approval, error) {
	c.Salvaged = c.Salvaged || x.Distrusted() || c.Action.Doubtful(c.Entities)
	approval, err := inTime(ctx, x.Turn, func(ctx context.Context) (actions.Approval, error) {
		return x.engine.cfg.Policy(ctx, x.Turn.Turn, c)
	})
	switch {
	case err != nil:
		return approval, fmt.Errorf("approval policy: %w", err)
	case approval.Denied != "":
		return actions.Approval{}, &refusal{reason: approval.Denied}
	}
	return approval, nil
}

// notApproved says that the call may not be made any more, or differs from the approved one. If a
// dead process had started it, it may have been made: then nobody is told that it was not, and an
// operator has to look at it.
func (x *execution) notApproved() error {
	if x.mayHaveStarted == 0 {
		return errChanged
	}
	return &deadLetter{reason: "a call that had begun may not be made any more, or is not the one that was approved"}
}

// CallHash identifies everything that a call in a turn would do: the action, what it consists of and where it
// comes from, its entities, what the bot fills in, and what the policy binds it to. An approval is of a call with
// its hash.
func CallHash(ctx context.Context, t *actions.Turn, c actions.Call, bind string) (string, error) {
	bound, err := c.Action.Bound(ctx, t)
	if err != nil {
		return "", err
	}
	parts := []any{c.Action.Name, c.Action.Detail, c.Entities, bound}
	if bind != "" {
		parts = append(parts, bind)
	}
	if c.Action.Source != (actions.Source{}) {
		parts = append(parts, c.Action.Source)
	}
	return Hash(parts...), nil
}

// ask has a person asked, for the next call. Once the message is sent, the record waits.
func (x *execution) ask(ctx context.Context, p Pause) (Next, error) {
	run := x.rec.Run
	id := x.ID
	if run.Asked > 0 {
		id += strconv.Itoa(run.Asked + 1)
	}
	if err := x.Save(ctx); err != nil { // it may ask elsewhere: after a crash the same plan asks the same
		return Next{}, err
	}
	m, err := p.Ask(ctx, x.Turn, id)
	if err != nil {
		return Next{}, err
	}
	run.Asked++ // not before: after a crash it has the same id
	x.rec.Wait = waitFor(x.engine, p)
	remember(x.Turn)
	return x.put([]*activity.Activity{m})
}

// BeforeThat is a sentence about what the turn has done, after another sentence. "": nothing.
func BeforeThat(t *Turn) string {
	did := titlesOf(t, completed(t.Outcomes()))
	if len(did) == 0 {
		return ""
	}
	return " " + t.Translate("Before that I did: %s.", strings.Join(did, ", "))
}

// NoteFor passes a note on to the features, about the turn itself or the one that it wakes.
func NoteFor(t *Turn, about Holder, n Note) {
	n.rec = about.record()
	for _, f := range t.engine.cfg.Features {
		if f.Noted != nil {
			f.Noted(t, &n)
		}
	}
}

// replaceNote replaces the history's note of a turn that waits. With "" it removes the turn, which is
// written again when it ends.
func (x *execution) replaceNote(p Pause, note string) {
	x.rec.Remembered = note != ""
	waiting := p.Note()
	history := state.Of[prompts.History](x.Thread)
	history.Turns = slices.DeleteFunc(history.Turns, func(turn prompts.Turn) bool {
		at := slices.IndexFunc(turn.Messages, func(m prompts.Message) bool { return m.Role == "system" && m.Text == waiting })
		if at >= 0 && note != "" {
			turn.Messages[at].Text = note
		}
		return at >= 0 && note == ""
	})
}

// Approved makes the call that the pause was about, if that has still this hash.
func Approved(t *Turn, p Pause, action, hash string) Next {
	t.exec.replaceNote(p, "")
	t.rec.Run.Approved, t.rec.Run.Decided = hash, &decidedCall{Action: action, Approved: true}
	t.unsaved.progressed = true
	return goOnTo(running)
}

// ApprovedChanged is [Approved] for a call that a person has changed before. The plan ends with it: the model reads what
// was changed, and the result, and plans again.
func ApprovedChanged(t *Turn, p Pause, action, hash, changed string) Next {
	come := Approved(t, p, action, hash)
	t.rec.Run.Decided.Changed = changed
	return come
}

// Rejected does not make the call, and tells the person if there is nothing else to tell.
func Rejected(t *Turn, p Pause, action string) (Next, error) {
	t.rec.Run.Decided = &decidedCall{Action: action}
	return Without(t, p, action, rejected, func(said string) []*activity.Activity { return messagesOf(t, said) })
}

// Without is [Rejected] for a call that is not made because of why. say makes the messages from what there is to tell.
func Without(t *Turn, asks Pause, action, why string, say func(said string) []*activity.Activity) (Next, error) {
	x := t.exec
	p := x.rec.Run.Progress
	owes := p.Owes() || p.Plan.Observe && slices.ContainsFunc(x.round().Outcomes, func(o actions.Outcome) bool {
		return o.Action != plan.Say && !o.Failed && o.Text != ""
	})
	if owes { // there is more to tell: the planner plans again, with what was done before, and why this call is not made
		run := x.rec.Run
		x.replaceNote(asks, "")
		run.Steps++
		c := x.check(run.Progress.Next)
		c.result = actions.Fail("%s", why)
		x.record(&c)
		x.leaveOut()
		run.Progress = nil
		x.unsaved.progressed = true
		return saveThen(planning), nil
	}
	tellUnmade(t, false)
	said := x.wontDo(action)
	x.replaceNote(asks, "["+said+"]")
	t.rec.Run = nil
	return t.put(say(said))
}

// WaitOn waits on for p, and first sends the messages.
func WaitOn(t *Turn, p Pause, messages ...*activity.Activity) (Next, error) {
	t.rec.Wait = waitFor(t.engine, p)
	if len(messages) == 0 {
		return goOnTo(waiting), nil
	}
	return t.put(messages)
}

// Expired ends the turn without a word. The history says note.
func Expired(t *Turn, p Pause, note string) Next {
	tellUnmade(t, true)
	t.exec.replaceNote(p, note)
	t.rec.Run = nil
	return goOnTo(done)
}

// tellUnmade tells the features that the turn ends without its next call.
func tellUnmade(t *Turn, expired bool) {
	for _, f := range t.engine.cfg.Features {
		if f.Unmade != nil {
			f.Unmade(t, expired)
		}
	}
}

// Answered makes the call that waited. If it asked q, it gets what was given.
func Answered(t *Turn, p Pause, q *Question) Next {
	t.exec.replaceNote(p, "")
	t.rec.Run.Question = cmp.Or(q, t.rec.Run.Question)
	t.unsaved.progressed = true
	return goOnTo(running)
}

// wontDo says that the next call, and what was to follow, is not made.
func (x *execution) wontDo(action string) string {
	var rest []string
	p := x.rec.Run.Progress
	for _, c := range p.Plan.Commands[p.Next+1:] {
		if c.Kind == plan.Do {
			rest = append(rest, Title(x.Turn, c.Action))
		}
	}
	if len(rest) > 0 {
		return x.Translate("OK, I won't do this: %s. I also won't do what came after it: %s.", Title(x.Turn, action), strings.Join(rest, ", "))
	}
	return x.Translate("OK, I won't do this: %s.", Title(x.Turn, action))
}

// Redraw replaces the message that asked with what it shows afterwards. A failure is harmless.
func Redraw(ctx context.Context, t *Turn, message string, m *activity.Activity) {
	if message == "" || RepliesInResponse(t) {
		return
	}
	m.ReplyToID = ""
	ctx, cancel := context.WithTimeout(ctx, reactWithin)
	defer cancel()
	if err := t.engine.cfg.Channel.Update(ctx, t.Activity.Reference(), message, m); err != nil {
		zerolog.Ctx(ctx).Info().Str("error", Cause(err)).Msg("the message that asked was not updated")
	}
}

// OwnVerbs is the prefix of the verbs of the bot's own buttons, those of its features among them.
const OwnVerbs = "planbot/"

// decideWithin is how long a reply looks for a record that is about to wait.
const decideWithin = 12 * time.Second

// errNotYet says that no record waits for a reply, but a turn is running that may be about to ask.
var errNotYet = errors.New("nothing is waiting yet")

// replyIn is what the turn's activity answers to a pause; nil: it answers none.
func replyIn(t *Turn) *Reply {
	for _, f := range t.engine.cfg.Features {
		if f.Reads == nil {
			continue
		}
		if r := f.Reads(t.Activity, t.Text); r != nil {
			return r
		}
	}
	return nil
}

// deliver is the handler of a reply. It stores the reply in the record that waits for it and puts that
// record back into its queue, in one step. So the reply is answered at once and is not lost. One that
// does not count changes nothing, and the person reads why.
func (r *Reply) deliver(ctx context.Context, t *Turn) error {
	until, tell := time.Now().Add(decideWithin), t.Tell
	if r.Alone {
		tell = t.TellAlone
	}
	queue, err := r.queue(ctx, t)
	if err != nil {
		return err
	}
	err = r.deliverOnce(ctx, t, queue)
	for errors.Is(err, errNotYet) {
		if time.Now().Before(until) {
			wait(ctx, 100*time.Millisecond, nil)
			err = r.deliverOnce(ctx, t, queue)
			continue
		}
		err, until = r.queued(ctx, t, queue), time.Now().Add(decideWithin)
	}
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		return err
	case t.Activity.Type != activity.Invoke && refused.counted:
		return nil
	case t.Activity.Type != activity.Invoke:
		return tell(ctx, refused.reason)
	}
	t.Answer(t.engine.cfg.Clicked(nil, refused.reason)) // only the person who clicked reads it
	if t.engine.cfg.Unread(t) && !refused.counted {     // they were told that it was noted
		return t.TellAlone(ctx, refused.reason)
	}
	return nil
}

// queue is that of the conversation in which the turn waits.
func (r *Reply) queue(ctx context.Context, t *Turn) (state.Key, error) {
	here := conversationKey(t)
	if r.Elsewhere == nil {
		return here, nil
	}
	docs, err := t.engine.cfg.Store.Load(ctx, here)
	if err != nil {
		return here, err
	}
	if conversation := r.Elsewhere(docs[0]); conversation != "" {
		return queueOf(elsewhereOf(t, conversation)), nil
	}
	return here, nil
}

// queued refuses a reply with what another one has decided, whose record is still in its queue. If that is to wait on,
// as after a vote that does not decide, the error is errNotYet.
func (r *Reply) queued(ctx context.Context, t *Turn, queue state.Key) error {
	var found error
	err := eachRecord(ctx, t, queue, "", func(rec *Record, asked *activity.Activity) {
		w := waitingOf(t, rec, asked)
		waitsOn := w.Pause != nil && r.Elsewhere != nil
		if found != nil || !waitsOn && !isAnswered(w.Pause) {
			return
		}
		ours, refusal := r.Take(ctx, t, w)
		switch {
		case ours && refusal == "": // what it takes here is not saved
			found = errNotYet
		case ours:
			found = Refuse("%s", refusal)
		}
	})
	if err = cmp.Or(err, found); err != nil {
		return err
	}
	return r.past(ctx, t, queue, false)
}

func (r *Reply) deliverOnce(ctx context.Context, t *Turn, queue state.Key) error {
	e, own := t.engine, t.Activity.Locale
	running, err := e.inbox.Queued(ctx, queue) // ask before the record is looked for: it may begin to wait in between
	if err != nil {
		return err
	}
	w := &Waiting{Turn: r.Pause[:min(len(r.Pause), idLen)], queue: queue}
	answer, here, ours, refusal := Answer{}, queue == conversationKey(t), false, ""
	found, err := wake(ctx, t, w, here, func() bool { // the click just proved its address
		t.Activity.Locale = cmp.Or(own, w.Asked.Locale)
		ours, refusal = r.Take(ctx, t, w)
		if here && RepliesInResponse(t) {
			w.Record.Awaited, w.Record.Answer, answer.Follows = true, &Answer{Activities: t.rec.Answer.Activities}, w.Turn
		}
		return ours && refusal == ""
	})
	switch {
	case errors.Is(err, inbox.ErrNoRecord) && found:
		return errNotYet
	case errors.Is(err, inbox.ErrNoRecord):
		all, err := e.inbox.Records(ctx, queue)
		if err != nil {
			return err
		}
		_, there := all[w.Turn] // somebody else may have woken it just now, and it will wait again
		return r.past(ctx, t, queue, running > 0 || there)
	case err != nil:
		return err
	case !ours:
		t.Activity.Locale = own
		return r.past(ctx, t, queue, false)
	case refusal != "":
		return Refuse("%s", refusal)
	}
	card := r.Taken(ctx, t, w)
	if t.Activity.Type == activity.Invoke {
		answer = e.cfg.Clicked(&card, "")
	}
	t.Answer(answer)
	return nil
}

// past says what became of a pause that nobody waits for.
func (r *Reply) past(ctx context.Context, t *Turn, queue state.Key, running bool) error {
	scopes, err := t.engine.cfg.Store.Load(ctx, queue)
	if err != nil {
		return err
	}
	t.Activity.Locale = cmp.Or(t.Activity.Locale, state.Of[reference](scopes[0]).Locale)
	said, known := r.Late(t, scopes[0])
	if known {
		t.Count(CountDuplicates, "click")
	} else if running {
		return errNotYet
	}
	if r.End != nil {
		r.End(ctx, t, scopes[0], said)
	}
	return &refusal{said, r.Counted != nil && r.Counted(scopes[0])}
}

// Waits lists the pauses of that kind in the turn's conversation: of those that have a method Listed, Pause is there.
func Waits(ctx context.Context, t *Turn, kind string) (all []*Waiting, err error) {
	listed, err := waitsOf(ctx, t, conversationKey(t), "", isOne(waitKind(kind)))
	for _, one := range listed {
		w := readWait(one)
		all = append(all, &Waiting{Turn: one.ID, Owner: w.Owner, For: kind, Until: w.Until, Pause: w.open(t.engine.pauses), queue: one.Queue})
	}
	return all, err
}

// Await is [Waits] once that is enough, nothing runs that may be about to wait, or the time is up. Then the pauses of
// the turn's person that do not wait just now are among them: what asks is about to be sent, or the answer is being
// told. They cannot be woken.
func Await(ctx context.Context, t *Turn, kind string, within time.Duration, enough func([]*Waiting) bool) ([]*Waiting, error) {
	queue := conversationKey(t)
	for until := time.Now().Add(within); ; {
		running, err := t.engine.inbox.Queued(ctx, queue) // before the list: it may begin to wait in between
		if err != nil {
			return nil, err
		}
		all, err := Waits(ctx, t, kind)
		if err != nil || enough(all) || running == 0 || ctx.Err() != nil {
			return all, cmp.Or(err, ctx.Err())
		}
		if !time.Now().Before(until) {
			err := eachRecord(ctx, t, queue, "", func(rec *Record, asked *activity.Activity) {
				w := waitingOf(t, rec, asked)
				if w.Pause != nil && w.Pause.Kind() == kind && w.Owner == t.Activity.From.ID {
					all = append(all, w)
				}
			})
			return all, err
		}
		wait(ctx, 50*time.Millisecond, nil)
	}
}

// Wake changes a pause that waits and puts its record back into its queue, in one step. proved says that the turn brings
// a proved address of the person. woken reports whether the record still waited, and gone that there is none any more.
func Wake(ctx context.Context, t *Turn, w *Waiting, proved bool, change func(Pause)) (woken, gone bool, err error) {
	const most = 5 // others may do so at the same time
	kind := w.For
	for range most {
		found := false
		woken = false
		found, err = wake(ctx, t, w, proved, func() bool {
			woken = w.Pause.Kind() == kind
			if woken {
				change(w.Pause)
			}
			return woken
		})
		if !found || !errors.Is(err, inbox.ErrNoRecord) {
			break
		}
	}
	if err == nil && woken || err != nil && !errors.Is(err, inbox.ErrNoRecord) {
		return err == nil, false, err
	}
	all, err := t.engine.inbox.Records(ctx, w.queue)
	_, there := all[w.Turn]
	return false, err == nil && !there, err
}

// wake finds the record of w that waits for a person, applies change to it, and puts it back into its queue, in one step.
// found reports whether it waited; it does not any more with the error [inbox.ErrNoRecord]. If change returns false,
// nothing changes.
func wake(ctx context.Context, t *Turn, w *Waiting, proved bool, change func() bool) (found bool, err error) {
	waits, err := t.engine.inbox.Find(ctx, w.queue, w.Turn)
	if err != nil {
		return false, err
	}
	rec, err := Decode(waits.Record)
	if err != nil {
		return true, err
	}
	asked, err := rec.Read()
	if err != nil {
		return true, err
	}
	queue := w.queue
	*w = *waitingOf(t, &rec, asked)
	w.queue, w.For = queue, string(rec.Wait.For)
	if proved { // the address of the person
		rec.Caller = t.rec.Caller
		rec.Caller.ServiceURL = t.Activity.ServiceURL
	}
	rec.Awaited, rec.Answer = false, nil
	if w.Pause == nil || w.For != w.Pause.Kind() || !change() {
		return true, nil
	}
	raw, err := rec.Encode()
	if err == nil {
		err = t.engine.inbox.Wake(ctx, waits, raw)
	}
	return true, err
}

// ForPerson is a message that only the person of the turn sees, where the channel can do that.
func ForPerson(t *Turn, text string) *activity.Activity {
	m := t.Message(text)
	m.Recipient = t.Activity.From // a client that signs in silently wants it
	m.Recipient.Extra = nil
	if t.Activity.ChannelID == activity.Teams && !t.Activity.Conversation.Personal() {
		m.ReplyToID, m.Recipient.Extra = "", jsontext.Value(`{"isTargeted":true}`)
	}
	return m
}
