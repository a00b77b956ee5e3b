package bot

import (
	"errors"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// ErrAnswersNothing is the error of a turn that nobody asked for, such as a notice.
var ErrAnswersNothing = errors.New("the turn answers no activity")

// Trail is what a parked turn has left behind it, as far as that can be read: what came
// in, what was planned and what came of it. It holds all that people, models and actions
// wrote. What models answered is not kept as it was: of the last plan there are its
// commands, of those before it what was done.
type Trail struct {
	// Activity is what the turn answers, and Text what was asked. The Click, of a turn that
	// follows one, approved a call of Execution; then Activity may not be known.
	Activity, Click *activity.Activity
	Text            string

	Begun     bool            // it has a journal, which the rest is from
	Rounds    []actions.Round // of all plans; the last is that of Execution, if there is one
	Execution *plan.Progress  // the plan at work; nil: it was over, or not made yet
	InFlight  int             // commands that have begun, and nobody knows whether they were done
	Answered  int             // messages that the channel took
	Sending   []string        // texts of the messages that were being sent
	Sent      int             // how many of these the channel took
}

// ReadTrail reads it off the turn. With an error the trail holds what could be read.
func ReadTrail(p state.Parked) (Trail, error) {
	i, a, err := readItem(p.Body)
	t := Trail{Activity: a, Begun: len(p.Journal) > 0}
	switch {
	case i.Notice != nil:
		return t, ErrAnswersNothing
	case a == nil:
		return t, err
	case i.Approval != "":
		t.Activity, t.Click = nil, a
	default:
		t.Text = said(a)
	}
	if !t.Begun {
		return t, err
	}
	j, fault := readJournal(p.Journal)
	if fault == nil {
		fault = t.follow(j)
	}
	return t, errors.Join(err, fault)
}

// follow adds what the journal tells.
func (t *Trail) follow(j *journal) error {
	t.Answered = len(j.Sent)
	if j.Run != nil {
		t.Rounds, t.Execution, t.InFlight = j.Run.Rounds, j.Run.Execution, j.Run.InFlight
	}
	if j.Outbox != nil {
		list, err := decodeAll(j.Outbox.Messages)
		if err != nil {
			return err
		}
		for _, m := range list {
			t.Sending = append(t.Sending, m.Text)
		}
		t.Sent = j.Outbox.Next
	}
	if len(j.Activity) == 0 {
		return nil
	}
	a, err := activity.Decode(j.Activity)
	if err != nil {
		return err
	}
	t.Activity, t.Text = a, j.Text
	return nil
}
