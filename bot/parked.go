package bot

import (
	"strings"
	"time"

	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// ParkedTurn is a parked turn as an operator sees it, see [ReadParked]. What came
// in is empty where it cannot be read.
type ParkedTurn struct {
	Turn      string    `json:"turn"`
	Reason    string    `json:"reason"`
	Parked    time.Time `json:"parked"`
	Accepted  time.Time `json:"accepted"`
	Takeovers int       `json:"takeovers"` // how often its process was lost
	Lane      string    `json:"lane"`

	Type         string `json:"type,omitempty"` // of the activity
	Channel      string `json:"channel,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	From         string `json:"from,omitempty"`
	Approval     string `json:"approval,omitempty"` // whose decision it follows
	Text         string `json:"text,omitempty"`     // only with content

	Begun  bool         `json:"begun"`            // it has a journal
	Done   []string     `json:"done,omitempty"`   // the actions that were done for good
	Plan   []ParkedStep `json:"plan,omitempty"`   // what it was at; none: no plan, or it was over
	Sent   []string     `json:"sent,omitempty"`   // the ids that the channel gave to its messages
	Unsent int          `json:"unsent,omitempty"` // messages that were to be sent next
	Unread string       `json:"unread,omitempty"` // why some of this is missing
}

// ParkedStep is a command of a plan, and how far it is: "done", "begun" (it is not
// known whether it was done), or "" where it has not begun.
type ParkedStep struct {
	Command string `json:"command"`
	State   string `json:"state,omitempty"`
}

// ReadParked tells what is known of a parked turn. Only with content it holds what
// people, models and actions wrote: the text that came in, and the commands with their
// entities. It never fails: Unread says what it could not read.
func ReadParked(p state.Parked, content bool) ParkedTurn {
	t := ParkedTurn{
		Turn: p.Turn, Reason: p.Reason, Parked: p.At, Accepted: p.Accepted, Takeovers: p.Tries,
		Lane: p.Lane.String(), Begun: len(p.Journal) > 0,
	}
	var unread []string
	i, a, err := readItem(p.Body)
	if err != nil {
		unread = append(unread, err.Error())
	}
	t.Approval = i.Approval
	if a != nil {
		t.Type, t.Channel, t.Conversation = string(a.Type), a.ChannelID, a.Conversation.ID
		t.From = strings.TrimSpace(a.From.Name + " " + a.From.ID)
		if content {
			t.Text = said(a)
		}
	}
	if i.Notice != nil {
		t.Unsent = len(i.Notice.Messages)
	}
	if t.Begun {
		j, err := readJournal(p.Journal)
		if err != nil {
			unread = append(unread, err.Error())
		} else {
			t.read(j, content)
		}
	}
	t.Unread = strings.Join(unread, "; ")
	return t
}

func (t *ParkedTurn) read(j *journal, content bool) {
	t.Sent = j.Sent
	if content && j.Text != "" {
		t.Text = j.Text
	}
	if j.Outbox != nil {
		t.Unsent = len(j.Outbox.Messages) - j.Outbox.Next
	}
	if j.Run == nil {
		return
	}
	for _, o := range j.Run.Kept {
		t.Done = append(t.Done, o.Action)
	}
	if e := j.Run.Execution; e != nil {
		t.Plan = steps(e, j.Run.InFlight, content)
	}
}

func steps(e *plan.Progress, inFlight int, content bool) []ParkedStep {
	lines := strings.Split(e.Plan.Outline(), "\n")
	if content {
		lines = strings.Split(e.Plan.String(), "\n") // it quotes line feeds
	}
	list := make([]ParkedStep, len(lines))
	for i, line := range lines {
		list[i].Command = strings.TrimPrefix(line, "- ")
		switch {
		case i < e.Next:
			list[i].State = "done"
		case i < e.Next+inFlight:
			list[i].State = "begun"
		}
	}
	return list
}
