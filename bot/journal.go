package bot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// journalVersion is the form of [journal].
const journalVersion = 1

const unreadableJournal = "its journal cannot be read"

// journal is what a turn has written down of itself, so that another process can go
// on where this one was. It is written in the step that saves the turn's state:
// before a command that does something outside of that state, and before a message
// leaves. Numbers of plans are kept as they were written, hence encoding/json.
type journal struct {
	Version int `json:"v"`
	// Activity is what the turn answers, and Text what was asked, where that is not
	// what came in: it follows a decision.
	Activity jsontext.Value `json:"activity,omitempty"`
	Text     string         `json:"text,omitempty"`

	// With neither, only the end of the turn is left.
	Run      *progress        `json:"run,omitempty"`  // the plan at work; none: it is over
	Outbox   *outbox          `json:"send,omitempty"` // what is being sent
	Sent     []string         `json:"sent,omitempty"`
	Replies  []jsontext.Value `json:"replies,omitempty"` // of a turn whose replies are its answer
	Answer   *answer          `json:"answer,omitempty"`  // what else it answers
	Recorded bool             `json:"recorded,omitempty"`
	// Survived is how many processes the turn had lost when it last got further.
	Survived int `json:"survived,omitempty"`

	// User is what the turn has changed in the person's state. That lies elsewhere and
	// is saved beside this, not in one step with it.
	User state.Delta `json:"user,omitzero"`
}

// progress is how far a plan was run.
type progress struct {
	Execution *plan.Progress    `json:"execution,omitempty"` // none: the next plan is to be made
	InFlight  int               `json:"in_flight,omitempty"` // how many of the next commands have begun
	Steps     int               `json:"steps,omitempty"`
	Executed  []plan.Command    `json:"executed,omitempty"`
	Rounds    []actions.Round   `json:"rounds,omitempty"`
	Kept      []actions.Outcome `json:"kept,omitempty"`
	Usage     actions.Usage     `json:"usage"`
	Same      map[string]int    `json:"same,omitempty"`
	Noted     string            `json:"noted,omitempty"`
	Approved  string            `json:"approved,omitempty"`
	Temp      state.Delta       `json:"temp,omitzero"`
}

// journal writes down where the turn is.
func (t *Turn) journal() ([]byte, error) {
	j := journal{Version: journalVersion, Outbox: t.outbox, Sent: t.Sent, Recorded: t.recorded, Survived: t.survived}
	var faults [6]error
	if t.resumes != "" {
		j.Activity, faults[0] = t.Activity.Encode()
		j.Text = t.Text
	}
	if t.run != nil {
		j.Run, faults[1] = t.run.progress()
	}
	if t.replies != nil {
		j.Replies, faults[2] = encodeAll(*t.replies)
	}
	if t.scopes != nil { // else nothing of it is saved
		j.User, faults[3] = t.User.MarkChanges()
	}
	if t.awaited {
		j.Answer, faults[5] = t.given()
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	faults[4] = enc.Encode(&j)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	return out.Bytes(), nil
}

// before returns the journal that another process left of the turn, if it did.
func (t *Turn) before() (*journal, error) {
	of := t.hold.Item()
	if of.Tries > 0 {
		t.log().Warn().Int("times", of.Tries).Bool("journal", len(of.Journal) > 0).Msg("turn taken over")
	}
	j, err := (*journal)(nil), error(nil)
	if len(of.Journal) > 0 {
		j, err = readJournal(of.Journal)
	}
	if n := lost(of); n >= maxTakeovers {
		return nil, t.putAside(j, lostTooOften(n), nil)
	}
	if err != nil {
		return nil, t.putAside(nil, err.Error(), nil)
	}
	return j, nil
}

// lost is how many processes the turn has lost since it last got further.
func lost(of state.Item) int {
	var j struct {
		Survived int `json:"survived"`
	}
	if of.Tries > 0 && json.Unmarshal(of.Journal, &j) != nil {
		return of.Tries
	}
	return of.Tries - j.Survived
}

// putAside ends the work on the turn until an operator decides about it. What its
// journal tells of it is for the person; nil: it tells nothing.
func (t *Turn) putAside(j *journal, reason string, err error) error {
	if j != nil && j.Run != nil {
		t.kept = j.Run.Kept
		for i := range j.Run.InFlight {
			t.uncertain = append(t.uncertain, j.Run.Execution.Plan.Commands[j.Run.Execution.Next+i].Action)
		}
	}
	return &parkError{reason: reason, err: err}
}

// gotFurther notes that a plan was made, a command done or a message sent: the
// processes that were lost before that are not the fault of what comes now.
func (t *Turn) gotFurther() { t.survived = t.hold.Item().Tries }

// readJournal reads what journal wrote. Its error says nothing of what is in it.
func readJournal(raw []byte) (*journal, error) {
	var form struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, errors.New(unreadableJournal + ": no JSON object with a version")
	}
	if form.Version != journalVersion {
		return nil, fmt.Errorf("its journal has version %d, this program knows %d", form.Version, journalVersion)
	}
	var j journal
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&j); err != nil {
		return nil, fmt.Errorf("%s: %w", unreadableJournal, err)
	}
	if err := j.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", unreadableJournal, err)
	}
	return &j, nil
}

// check finds what would make no sense to go on with.
func (j *journal) check() error {
	o, p := j.Outbox, j.Run
	switch {
	case o != nil && (o.Next < 0 || o.Next > len(o.Messages)):
		return fmt.Errorf("message %d of %d is on its way", o.Next, len(o.Messages))
	case p != nil && p.Execution == nil && p.InFlight != 0:
		return errors.New("a command has begun, of no plan")
	case p != nil && p.Execution != nil && (len(p.Rounds) == 0 || p.InFlight < 0 || p.InFlight > len(p.Execution.Plan.Commands)-p.Execution.Next):
		return fmt.Errorf("a plan of %d commands is at its command %d, with %d begun, in round %d",
			len(p.Execution.Plan.Commands), p.Execution.Next, p.InFlight, len(p.Rounds))
	}
	return nil
}

// goOn does what the journal says is left: the messages that were being sent, and
// then the rest of the plan, without asking the model again. A route that is no plan has
// said with its first message what it had to; it is not run again.
func (b *Bot) goOn(ctx context.Context, t *Turn, j *journal) error {
	if err := t.restore(j); err != nil {
		return err
	}
	if j.Run != nil {
		if err := t.adopt(j); err != nil {
			return err
		}
	}
	zerolog.Ctx(ctx).Info().Bool("plan", j.Run != nil).Msg("going on where the turn was")
	if err := t.flush(ctx); err != nil {
		return err
	}
	if t.run == nil {
		return nil
	}
	return t.run.carryOn(ctx)
}

// restore brings back what the turn had sent and changed.
func (t *Turn) restore(j *journal) error {
	if t.User != nil {
		if err := t.User.Apply(j.User); err != nil {
			return t.putAside(j, unreadableJournal, err)
		}
	}
	t.Sent, t.recorded, t.outbox, t.survived = j.Sent, j.Recorded, j.Outbox, j.Survived
	if j.Answer != nil {
		t.give(j.Answer)
	}
	if t.replies != nil {
		list, err := decodeAll(j.Replies)
		if err != nil {
			return t.putAside(j, unreadableJournal, err)
		}
		*t.replies = list
	}
	if t.outbox == nil {
		return nil
	}
	var err error
	if t.outbox.list, err = decodeAll(t.outbox.Messages); err != nil {
		return t.putAside(j, unreadableJournal, err)
	}
	return nil
}

// adopt makes the run that the journal tells of the turn's own. Its plan is checked
// once more: this may be another version of the bot than the one that made it.
func (t *Turn) adopt(j *journal) error {
	p := j.Run
	if p.Execution != nil && !p.Execution.Done() {
		made, err := plan.Validate(p.Execution.Plan, t.bot.cfg.Actions)
		if err != nil {
			return t.putAside(j, "its plan does not fit this version of the bot", err)
		}
		p.Execution.Plan = made
	}
	if err := t.Temp.Apply(p.Temp); err != nil {
		return t.putAside(j, unreadableJournal, err)
	}
	t.Rounds, t.Usage, t.kept = p.Rounds, p.Usage, p.Kept
	t.secure()
	t.run = &run{
		turn: t, execution: p.Execution, again: p.InFlight, steps: p.Steps, executed: p.Executed,
		same: p.Same, noted: p.Noted, approved: p.Approved,
	}
	return nil
}

// progress writes down how far the run is.
func (r *run) progress() (*progress, error) {
	p := &progress{
		Execution: r.execution, InFlight: r.inFlight, Steps: r.steps, Executed: r.executed, Rounds: r.turn.Rounds,
		Kept:  append(r.turn.kept[:len(r.turn.kept):len(r.turn.kept)], r.turn.unsaved...),
		Usage: r.turn.Usage, Same: r.same, Noted: r.noted, Approved: r.approved,
	}
	var err error
	p.Temp, err = r.turn.Temp.Changes()
	return p, err
}

func encodeAll(list []*activity.Activity) ([]jsontext.Value, error) {
	all := make([]jsontext.Value, len(list))
	for i, a := range list {
		raw, err := a.Encode()
		if err != nil {
			return nil, err
		}
		all[i] = raw
	}
	return all, nil
}

func decodeAll(list []jsontext.Value) ([]*activity.Activity, error) {
	all := make([]*activity.Activity, len(list))
	for i, raw := range list {
		a, err := activity.Decode(raw)
		if err != nil {
			return nil, err
		}
		all[i] = a
	}
	return all, nil
}
