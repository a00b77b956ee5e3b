package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
)

// recordVersion is the format of [Record]. Raise it when an older program must not continue what a
// newer one wrote.
const recordVersion = 1

// ErrRecord says that a record cannot be read by this version of the program.
var ErrRecord = errors.New("the record cannot be read")

// Record is a turn as Redis stores it: what came in, how far it got, what it waits for. The inbox
// has one for each turn that is not over.
type Record struct {
	Version  int       `json:"v"`
	ID       string    `json:"id"`
	Accepted time.Time `json:"accepted"`
	// Trace is the W3C traceparent of what started the turn. "": not traced.
	Trace string `json:"trace,omitempty"`

	// Activity is what the turn answers. For a notice it stands for the conversation.
	Activity jsontext.Value `json:"activity"`
	Caller   caller         `json:"caller,omitzero"`
	// Text is what to plan for if the activity does not say it: a person clicked a button of the
	// help, or named a skill.
	Text string `json:"text,omitempty"`

	Phase  phase          `json:"phase"`
	Run    *Run           `json:"run,omitempty"`    // only if the turn plans
	Outbox []outgoing     `json:"outbox,omitempty"` // to be sent, in order
	Sent   []string       `json:"sent,omitempty"`   // the channel's ids of what was sent; "" where it gave none
	Wait   *Wait          `json:"wait,omitempty"`
	Notice *pendingNotice `json:"notice,omitempty"` // only if the turn is a notice

	// Awaited says that an HTTP request waits for Answer.
	Awaited bool    `json:"awaited,omitzero"`
	Answer  *Answer `json:"answer,omitempty"`
	// Remembered says that the turn is in the conversation's history.
	Remembered bool `json:"remembered,omitzero"`
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
	InFlight int                       `json:"in_flight,omitempty"`
	Steps    int                       `json:"steps,omitempty"`    // action calls so far
	Executed []plan.Command            `json:"executed,omitempty"` // what ran and what was said, for the history
	Rounds   []actions.Round           `json:"rounds,omitempty"`   // each plan and its outcomes
	Usage    actions.Usage             `json:"usage"`
	Asked    int                       `json:"asked,omitempty"`    // approvals asked for so far
	Same     map[string]int            `json:"same,omitempty"`     // how often each call was made, by its hash
	Decided  *decidedCall              `json:"decided,omitempty"`  // the last call that a person decided
	Approved string                    `json:"approved,omitempty"` // hash of the next call, if a person approved it
	Temp     map[string]jsontext.Value `json:"temp,omitempty"`     // values of the turn's temporary state
}

// decidedCall is a call that a person approved or rejected.
type decidedCall struct {
	Action   string `json:"action"`
	Approved bool   `json:"approved,omitzero"`
}

// outgoing is one message in the outbox.
type outgoing struct {
	Activity jsontext.Value `json:"activity"`
	// Unanswered is how often the whole message was written and got no answer. Only a completed
	// attempt counts: a killed process cannot say what it sent.
	Unanswered int       `json:"unanswered,omitempty"`
	Away       time.Time `json:"away,omitzero"` // since when the channel has not accepted it

	decoded *activity.Activity // Activity decoded, if this process made it
}

// Wait says what a record waits for.
type Wait struct {
	For   waitKind  `json:"for"`
	Until time.Time `json:"until,omitzero"` // when it continues by itself; zero: never
	Then  phase     `json:"then"`           // the phase it continues with
	// Reason says why an operator has to look at a dead letter.
	Reason   string    `json:"reason,omitempty"`
	Approval *Approval `json:"approval,omitempty"`
}

// waitKind is what a record waits for.
type waitKind string

// What a record may wait for. Only a record that waits for the channel keeps its place in the
// queue, so that replies stay in order.
const (
	forApproval waitKind = "approval"
	forTime     waitKind = "time"
	forChannel  waitKind = "channel"
	forOperator waitKind = "operator" // a dead letter
)

// Approval is a call that a person has to approve, and the decision.
type Approval struct {
	ID        string         `json:"id"`
	Action    string         `json:"action"`
	Entities  jsontext.Value `json:"entities,omitempty"` // as the action will get them
	Hash      string         `json:"hash"`               // of the call
	Reason    string         `json:"reason,omitempty"`
	Approvers []string       `json:"approvers,omitempty"` // ids; none: the person who asked
	Standing  bool           `json:"standing,omitzero"`   // may be approved for good
	Expires   time.Time      `json:"expires"`
	CardID    string         `json:"card,omitempty"` // id of the message that asks
	Decision  *Decision      `json:"decision,omitempty"`
}

// Decision is a person's decision about a call.
type Decision struct {
	Approved bool      `json:"approved,omitzero"`
	Always   bool      `json:"always,omitzero"` // never ask about the same call again
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
	Click    string    `json:"click,omitempty"` // the activity that decided
}

// pendingNotice is a notice that is not sent yet.
type pendingNotice struct {
	Messages []jsontext.Value `json:"messages"`
	// Known is the conversation as it was known when the notice was saved: its state may be gone
	// when the notice is due.
	Known reference `json:"known"`
	Due   time.Time `json:"due,omitzero"`   // in the time zone that people read it in
	Keyed bool      `json:"keyed,omitzero"` // the record's id is made from the notice's key
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
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Decode reads what Encode wrote. Its errors wrap [ErrRecord]. With an error, the record has at
// most its version, id, activity and caller, and whether a request waits for it.
func Decode(raw []byte) (Record, error) {
	var r Record
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // plans keep numbers as they were written
	err := dec.Decode(&r)
	if err == nil && r.Version == recordVersion {
		err = r.check()
	}
	if err == nil && r.Version == recordVersion {
		return r, nil
	}
	var head struct {
		Version  int            `json:"v"`
		ID       string         `json:"id"`
		Accepted time.Time      `json:"accepted"`
		Activity jsontext.Value `json:"activity"`
		Caller   caller         `json:"caller"`
		Awaited  bool           `json:"awaited"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return Record{}, fmt.Errorf("%w: it is no JSON object", ErrRecord)
	}
	if head.Version != recordVersion {
		err = fmt.Errorf("it has version %d, this program knows %d", head.Version, recordVersion)
	}
	return Record{
		Version: head.Version, ID: head.ID, Accepted: head.Accepted, Activity: head.Activity,
		Caller: head.Caller, Awaited: head.Awaited, Phase: failed,
	}, fmt.Errorf("%w: %w", ErrRecord, err)
}

// check finds what makes a record impossible to continue.
func (r *Record) check() error {
	switch r.Phase {
	case planning, running, sending, waiting, done, failed:
	default:
		return fmt.Errorf("phase %.20q", r.Phase)
	}
	if r.Phase == waiting && r.Wait == nil {
		return errors.New("it waits for nothing")
	}
	run := r.Run
	switch {
	case run == nil:
		if r.Phase == running {
			return errors.New("it runs no plan")
		}
	case run.Progress == nil:
		if run.InFlight != 0 || r.Phase == running {
			return errors.New("it runs no plan")
		}
	case len(run.Rounds) == 0 || run.InFlight < 0 || run.InFlight > len(run.Progress.Plan.Commands)-run.Progress.Next:
		return fmt.Errorf("a plan of %d commands is at command %d, with %d begun, in round %d",
			len(run.Progress.Plan.Commands), run.Progress.Next, run.InFlight, len(run.Rounds))
	}
	return nil
}

// atPlan returns a copy of the record with its plan at the beginning.
func (r *Record) atPlan() *Record {
	rec, run := *r, *r.Run
	run.Progress = run.Progress.Plan.Start(nil)
	run.Rounds, run.Executed, run.Same = slices.Clone(run.Rounds), slices.Clip(run.Executed), maps.Clone(run.Same)
	rec.Run = &run
	return &rec
}

// Read returns the activity that the turn answers, with its caller.
func (r *Record) Read() (*activity.Activity, error) {
	a, err := activity.Decode(r.Activity)
	if a != nil {
		a.CallerID = r.Caller.ID
		if r.Caller.ServiceURL != "" {
			a.ServiceURL = r.Caller.ServiceURL
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return a, err
}

// Completed lists the actions that are done for good.
func (r *Record) Completed() []string {
	var names []string
	if r.Run == nil {
		return nil
	}
	for _, round := range r.Run.Rounds {
		for _, o := range round.Outcomes {
			if !o.Failed && !o.Unchanged && o.Action != plan.Say {
				names = append(names, o.Action)
			}
		}
	}
	return names
}
