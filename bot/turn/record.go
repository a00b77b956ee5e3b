package turn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bot/turn/internal/stream"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// recordVersion is the format of a [Record] with Parts; one without is written as the version before, which older
// releases read. Raise it by two when an older release must not continue what a newer one wrote. [Decode] has to read
// all older versions. A test finds this line and raises it.
const recordVersion = 3

// ErrRecord says that a record cannot be read by this version of the program.
var ErrRecord = errors.New("the record cannot be read")

// errNewer says so of a record that a newer version wrote.
var errNewer = fmt.Errorf("%w here", ErrRecord)

// Record is a turn as Redis stores it: what came in, how far it got, what it waits for. The inbox
// has one for each turn that is not over.
type Record struct {
	head

	// Text is what to plan for if the activity does not say it: the person clicked a button of the
	// help, or named a skill.
	Text string `json:"text,omitempty"`

	// Parts are the messages that joined the one of the record, see [joinBurst], in order. The turn answers all of them
	// as one question.
	Parts []part `json:"parts,omitempty"`

	Phase  phase      `json:"phase"`
	Run    *Run       `json:"run,omitempty"`    // only if the turn plans
	Outbox []outgoing `json:"outbox,omitempty"` // to be sent, in order
	Sent   []string   `json:"sent,omitempty"`   // the channel's ids of what was sent; "" where it gave none
	Wait   *Wait      `json:"wait,omitempty"`
	// Stream is the last growing message that the outbox ends or ended. One that is open is saved
	// beside the record.
	Stream *stream.Message `json:"stream,omitempty"`
	Notice *pendingNotice  `json:"notice,omitempty"` // only if the turn is a notice
	// Own is the feature that submitted the record for itself, see [Submit]. "": none did.
	Own string `json:"own,omitempty"`

	Answer *Answer `json:"answer,omitempty"`
	// Stateless says that the turn leaves the conversation's state alone.
	Stateless bool `json:"stateless,omitzero"`
	// Remembered says that the turn is in the conversation's history.
	Remembered bool `json:"remembered,omitzero"`
	kept
}

// head is the part of a record that any version of the program can read.
type head struct {
	Version  int       `json:"v"`
	ID       string    `json:"id"`
	Accepted time.Time `json:"accepted"`
	// Activity is what the turn answers. For a notice it stands for the conversation.
	Activity jsontext.Value `json:"activity"`
	Caller   caller         `json:"caller,omitzero"`
	// Awaited says that an HTTP request waits for the answer.
	Awaited bool `json:"awaited,omitzero"`
}

// part is a message that had a record of its own before it joined another.
type part struct {
	ID       string         `json:"id"` // of that record
	Accepted time.Time      `json:"accepted"`
	Activity jsontext.Value `json:"activity"`
}

// phase says how far a record has got.
type phase string

// The phases. A new record is planning; one that is done or failed leaves the inbox.
const (
	planning phase = "planning" // the route's handler, by default the planner, decides what to do
	running  phase = "running"  // runs the commands of a plan
	sending  phase = "sending"  // sends the outbox
	waiting  phase = "waiting"  // see Wait
	done     phase = "done"
	failed   phase = "failed"
)

// caller is who delivered the activity.
type caller struct {
	// ID is as in [activity.Activity.CallerID]; "": the channel.
	ID string `json:"id,omitempty"`
	// Trusted says that the caller has proved the activity's serviceUrl, so the bot's token may go
	// there.
	Trusted bool `json:"trusted,omitzero"`
	// ServiceURL is where replies go if that is not where the activity came from: the click on an
	// approval brings a newer address.
	ServiceURL string `json:"url,omitempty"`
}

// Run is the work of a turn that plans, over all of its plans.
type Run struct {
	// Progress is the current plan; nil: the next one has to be made.
	Progress *plan.Progress `json:"progress,omitempty"`
	// InFlight is how many of the next commands were about to be called when the record was saved.
	// After a crash nobody knows whether they started or what they did.
	InFlight int             `json:"in_flight,omitempty"`
	Steps    int             `json:"steps,omitempty"`  // action calls so far
	Rounds   []actions.Round `json:"rounds,omitempty"` // each plan and its outcomes
	Usage    actions.Usage   `json:"usage"`
	Asked    int             `json:"asked,omitempty"`    // approvals and answers asked for so far
	Cards    int             `json:"cards,omitempty"`    // sent messages that ask the person something
	Decided  *decidedCall    `json:"decided,omitempty"`  // the last call that a person decided
	Approved string          `json:"approved,omitempty"` // hash of the next call, if a person approved it
	// Question is what the next call asked the person, with the answer once that is there. Asking are the
	// keys of the next calls, of which each has asked.
	Question *Question                 `json:"question,omitempty"`
	Asking   []string                  `json:"asking,omitempty"`
	Judged   []string                  `json:"judged,omitempty"`   // hashes of what has passed moderation
	Attached *files.Taken              `json:"attached,omitempty"` // what was taken of what came with the message; nil: nothing yet
	Temp     map[string]jsontext.Value `json:"temp,omitempty"`     // values of the turn's temporary state
	Distrust bool                      `json:"distrust,omitempty"` // see [actions.Turn.Distrust]
	Alone    bool                      `json:"alone,omitzero"`     // the plan is one call that another turn submitted, see [SubmitCall]
	kept
}

// sentBeside counts the sent messages that are no answer: those that ask something, and what was left out of
// attachments.
func (r *Run) sentBeside() int {
	if r.Attached != nil {
		return r.Cards + r.Attached.Sent
	}
	return r.Cards
}

// decidedCall is a call that a person approved or rejected.
type decidedCall struct {
	Action   string `json:"action"`
	Approved bool   `json:"approved,omitzero"`
	Changed  string `json:"changed,omitempty"` // what a person changed in it, until it was made
}

// outgoing is one message in the outbox.
type outgoing struct {
	Activity jsontext.Value `json:"activity"`
	// Ends is the growing message that it ends. An older program sends it as a message of its own.
	Ends string `json:"ends,omitempty"`
	// Unanswered is how often the whole message was written and got no answer. Only a completed
	// attempt counts: a killed process cannot say what it sent.
	Unanswered int       `json:"unanswered,omitempty"`
	Away       time.Time `json:"away,omitzero"`  // since when the channel has not accepted it
	Alone      bool      `json:"alone,omitzero"` // see [Turn.SendAlone]

	decoded *activity.Activity // Activity decoded, if this process made it
}

// outgoingOf writes a message for the outbox.
func outgoingOf(m *activity.Activity) (g outgoing, err error) {
	kept := *m
	if info := m.Stream(); info.Type == activity.StreamFinal {
		g.Ends = info.ID
		kept.SetStream(activity.StreamInfo{})
	}
	g.decoded = m
	g.Activity, err = kept.Encode()
	return g, err
}

func (g *outgoing) read() (*activity.Activity, error) {
	if g.decoded != nil {
		return g.decoded, nil
	}
	m, err := activity.Decode(g.Activity)
	if err == nil && g.Ends != "" {
		m.SetStream(activity.StreamInfo{ID: g.Ends, Type: activity.StreamFinal})
	}
	return m, err
}

// Wait says what a record waits for.
type Wait struct {
	For   waitKind  `json:"for"`
	Until time.Time `json:"until,omitzero"` // when it continues by itself; zero: never
	Then  phase     `json:"then,omitempty"` // the phase it continues with
	// Reason says why an operator has to look at a dead letter.
	Reason string `json:"reason,omitempty"`
	asked
	// Owner is who may withdraw it. Topic, Memo and Conversation are those of a notice.
	Owner        string `json:"owner,omitempty"`
	Topic        string `json:"topic,omitempty"`
	Memo         string `json:"memo,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	// Private says that only one person may read it.
	Private bool `json:"private,omitzero"`
	// Every and Zone are those of a recurring notice. Its record waits for ever, and puts a record of
	// its own into the queue each time that it is due.
	Every string `json:"every,omitempty"`
	Zone  string `json:"zone,omitempty"`
	// Replaces is the record of a recurring notice that this record replaces when its turn comes.
	Replaces string `json:"replaces,omitempty"`
}

// asked is the pause of a turn, if it has one. It stays with the record while that waits for something else, too.
type asked struct {
	Pauses map[string]jsontext.Value `json:",embed"` // those of absent features, too
	name   string                    // of the member that keeps it
	pause  Pause                     // decoded
}

// open decodes the pause. nil: there is none, or no feature of this bot has its kind.
func (a *asked) open(kinds map[string]func() Pause) Pause {
	for name, kind := range kinds {
		if a.pause != nil || a.Pauses[name] == nil {
			continue
		}
		p := kind()
		if jsonv2.Unmarshal(a.Pauses[name], p, reading) == nil {
			a.name, a.pause = name, p
		}
	}
	return a.pause
}

// waitFor is the wait for the person who was asked.
func waitFor(e *Engine, p Pause) *Wait {
	w := &Wait{For: waitKind(p.Kind()), Until: p.Until(), Then: running, asked: asked{pause: p}}
	for name, kind := range e.pauses {
		if kind().Kind() == p.Kind() {
			w.name = name
		}
	}
	return w
}

// pauseOf is what the turn waits for, or is about to; nil: nothing.
func pauseOf(t *Turn) Pause {
	if t.rec.Wait == nil {
		return nil
	}
	return t.rec.Wait.open(t.engine.pauses)
}

// isAnswered reports whether a person has answered. p may be nil.
func isAnswered(p Pause) bool {
	if p == nil {
		return false
	}
	_, answered := p.Answered()
	return answered
}

// close encodes the pause.
func (a *asked) close() (err error) {
	if a.pause == nil {
		return nil
	}
	a.Pauses = maps.Clone(a.Pauses)
	if a.Pauses == nil {
		a.Pauses = map[string]jsontext.Value{}
	}
	a.Pauses[a.name], err = jsonv2.Marshal(a.pause, writing)
	return err
}

// listed is the wait as the inbox lists it: without what people were asked, unless that is to be found there.
func (w Wait) listed() inbox.Wait {
	if _, found := w.pause.(interface{ Listed() }); !found || !w.isPause() {
		w.asked = asked{}
	}
	about, err := jsonv2.Marshal(w, writing)
	if err != nil {
		panic(err) // texts and times always encode
	}
	return inbox.Wait{Until: w.Until, Operator: w.For == forOperator, About: about}
}

// readWait reads what listed wrote. It leaves empty what it cannot read.
func readWait(listed inbox.Waiting) (w Wait) {
	_ = jsonv2.Unmarshal(listed.About, &w, reading)
	return w
}

// Reason says why an operator has to look at a dead letter.
func Reason(w inbox.Waiting) string { return readWait(w).Reason }

// waitKind is what a record waits for.
type waitKind string

// What a record may wait for, besides the pauses of features. Only a record that waits for the channel keeps its place in the
// queue, so that replies stay in order.
const (
	forTime     waitKind = "time"
	forChannel  waitKind = "channel"
	forOperator waitKind = "operator" // a dead letter
)

// ofFeature reports whether it is a feature's kind of wait.
func (w *Wait) ofFeature() bool {
	return !slices.Contains([]waitKind{forTime, forChannel, forOperator}, w.For)
}

// isPause reports whether it is a wait for a person before a call.
func (w *Wait) isPause() bool { return w.ofFeature() && w.Then != done }

// isAlone reports whether it is the wait of a record that is nothing else, see [SubmitWait].
func (w *Wait) isAlone() bool { return w.ofFeature() && w.Then == done }

// overForPerson reports whether the wait that ends is the one for the person who was asked, whether they
// answered or their time is up. If not, what asks them may still have to be sent. A dead letter
// goes on with what it waited for before.
func (w *Wait) overForPerson() bool { return w.isPause() || w.Then == waiting }

// pendingNotice is a notice that is not sent yet.
type pendingNotice struct {
	Messages []jsontext.Value `json:"messages"`
	// Known is the conversation as it was known when the notice was saved: its state may be gone
	// when the notice is due.
	Known reference `json:"known"`
	Due   time.Time `json:"due,omitzero"`   // in the time zone that people read it in
	Keyed bool      `json:"keyed,omitzero"` // the record's id is made from the notice's key
	Run   string    `json:"run,omitempty"`  // the handler that runs instead of sending Messages
	// Person is who alone may read it, because they asked for it in private.
	Person string `json:"person,omitempty"`
	Cause  string `json:"cause,omitempty"` // the turn that made it
	kept
}

// runBy is the feature whose Handle runs instead, see [Engine.SubmitRun]; "": none does. n may be nil.
func (n *pendingNotice) runBy() string {
	if n == nil || n.Run == ownRun {
		return ""
	}
	feature, own := strings.CutPrefix(n.Run, OwnVerbs)
	if !own {
		return ""
	}
	return feature
}

// Answer is what a turn answers to the HTTP request that brought it, and to the same request when
// it comes again.
type Answer struct {
	Status     int              `json:"status,omitempty"`
	Body       jsontext.Value   `json:"body,omitempty"`
	Activities []jsontext.Value `json:"activities,omitzero"` // the replies, if they go out in the response
	// Follows is the record whose replies belong to the answer, if a click was a decision.
	Follows string `json:"follows,omitempty"`
}

// Encode returns the record as JSON.
func (r *Record) Encode() ([]byte, error) {
	r.Version = recordVersion
	if len(r.Parts) == 0 {
		r.Version--
	}
	err := r.closeSlots()
	if err == nil && r.Wait != nil {
		err = r.Wait.close()
	}
	if err != nil {
		return nil, err
	}
	raw, err := jsonv2.Marshal(r, writing)
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return raw, nil
}

// writing writes what encoding/json writes, but leaves <, > and & as they are.
var writing = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsonv2.WithMarshalers(
	jsonv2.MarshalToFunc(func(out *jsontext.Encoder, n json.Number) error {
		return out.WriteValue(jsontext.Value(cmp.Or(n, "0")))
	})))

// clone copies a record whose plan has not begun: what the turn does later does not change the copy.
// Its slots were encoded.
func (r *Record) clone() Record {
	c := *r
	c.kept = kept{Slots: maps.Clone(r.Slots)}
	if r.Answer != nil {
		answer := *r.Answer
		answer.Activities = slices.Clip(answer.Activities)
		c.Answer = &answer
	}
	if r.Run != nil {
		run, progress := *r.Run, *r.Run.Progress
		progress.Variables = maps.Clone(progress.Variables)
		run.Rounds, run.Progress, run.kept = slices.Clone(run.Rounds), &progress, kept{Slots: maps.Clone(run.Slots)}
		c.Run = &run
	}
	if r.Stream != nil {
		stream := *r.Stream
		c.Stream = &stream
	}
	c.Sent = slices.Clip(c.Sent)
	return c
}

// reading reads in half the time of encoding/json what that wrote. Plans keep numbers as they were
// written.
var reading = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv2.WithUnmarshalers(
	jsonv2.UnmarshalFromFunc(func(in *jsontext.Decoder, v *any) error {
		if in.PeekKind() != '0' {
			return errors.ErrUnsupported // read it as usual
		}
		n, err := in.ReadValue()
		*v = json.Number(n)
		return err
	})))

// Decode reads what Encode wrote. Its errors wrap [ErrRecord]. With an error, the record has at
// most its version, id, activity and caller, and whether a request waits for it.
func Decode(raw []byte) (Record, error) {
	var r Record
	err := jsonv2.Unmarshal(raw, &r, reading)
	if err == nil {
		err = r.check()
	}
	if err == nil {
		return r, nil
	}
	r = Record{Phase: failed}
	if json.Unmarshal(raw, &r.head) != nil {
		return Record{}, fmt.Errorf("%w: it is no JSON object", ErrRecord)
	}
	if r.Version > recordVersion {
		return r, fmt.Errorf("%w: it has version %d, this program knows %d", errNewer, r.Version, recordVersion)
	}
	return r, fmt.Errorf("%w: %w", ErrRecord, err)
}

// check finds what makes a record impossible to continue.
func (r *Record) check() error {
	run, plans := r.Run, r.Run != nil && r.Run.Progress != nil
	switch {
	case r.Version < 1 || r.Version > recordVersion:
		return fmt.Errorf("it has version %d", r.Version)
	case !slices.Contains([]phase{planning, running, sending, waiting, done, failed}, r.Phase):
		return fmt.Errorf("phase %.20q", r.Phase)
	case r.Phase == waiting && r.Wait == nil:
		return errors.New("it waits for nothing")
	case !plans && (r.Phase == running || run != nil && run.InFlight != 0):
		return errors.New("it runs no plan")
	case plans && (len(run.Rounds) == 0 || run.InFlight < 0 || run.InFlight > len(run.Progress.Plan.Commands)-run.Progress.Next):
		return fmt.Errorf("a plan of %d commands is at command %d, with %d begun, in round %d",
			len(run.Progress.Plan.Commands), run.Progress.Next, run.InFlight, len(run.Rounds))
	}
	return nil
}

// Read returns the activity that the turn answers, with its caller: the last one of a burst.
func (r *Record) Read() (*activity.Activity, error) {
	a, err := activity.Decode(r.newest())
	if a != nil {
		a.CallerID = r.Caller.ID
		a.ServiceURL = cmp.Or(r.Caller.ServiceURL, a.ServiceURL)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return a, err
}

func (r *Record) newest() jsontext.Value {
	if n := len(r.Parts); n > 0 {
		return r.Parts[n-1].Activity
	}
	return r.Activity
}

// burst returns the messages that the turn answers as one question, in order. nil: it answers one activity.
func (r *Record) burst() (all []*activity.Activity) {
	if len(r.Parts) == 0 {
		return nil
	}
	for _, p := range append([]part{{Activity: r.Activity}}, r.Parts...) {
		if a, err := activity.Decode(p.Activity); err == nil { // they were read before they joined
			all = append(all, a)
		}
	}
	return all
}

// Completed lists the actions that are done for good.
func (r *Record) Completed() []string {
	if r.Run == nil {
		return nil
	}
	return completed((&actions.Turn{Rounds: r.Run.Rounds}).Outcomes())
}

// completed lists the actions that did something.
func completed(outcomes []actions.Outcome) (names []string) {
	for _, o := range outcomes {
		if !o.Failed && !o.Unchanged && o.Action != plan.Say {
			names = append(names, o.Action)
		}
	}
	return names
}
