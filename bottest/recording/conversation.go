package recording

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// conversation is what was seen of one.
type conversation struct {
	steps []*step
	calls []cassette.Call // not scrubbed yet: who is who may be learned later
	turns map[string]*step
	heard map[string][]string // what turns were asked last, by the conversation with its thread
	bytes int
	dirty bool
	apart bool   // something happened that is in no step
	asked string // the turn that asked a model last

	full, tooLong bool // nothing more is kept; that this is for its own length

	scrubbed *scrubbedCalls
}

// clone is the conversation as it is now.
func (c *conversation) clone() *conversation {
	own := &conversation{calls: c.calls, full: c.full, tooLong: c.tooLong, scrubbed: c.scrubbed}
	for _, s := range c.steps {
		own.steps = append(own.steps, s.clone())
	}
	return own
}

// step is an activity that was taken, and what the bot did for it.
type step struct {
	activity *activity.Activity
	decision *decision       // what it says to an approval; nil: it says nothing to one
	turns    map[string]bool // those that work on it: whether they are over
	answers  []answer
	done     []*done
	replies  []reply
	sends    []int        // how the channel answered its messages
	seed     []lists.List // before its plan; nil: it does not matter
	apart    bool         // something happened before it that is in no step

	answered, refused bool   // the request that brought it; that it said why the click does not count
	asker             string // whose call was decided with it; "": none was
}

func newStep(a *activity.Activity) *step {
	s := &step{activity: a, turns: map[string]bool{}}
	if d, ok := decisionIn(a); ok {
		s.decision = &d
	}
	return s
}

func (s *step) clone() *step {
	own := *s
	own.turns, own.answers, own.replies, own.sends, own.done = maps.Clone(s.turns), slices.Clone(s.answers), slices.Clone(s.replies), slices.Clone(s.sends), nil
	for _, d := range s.done {
		call := *d
		own.done = append(own.done, &call)
	}
	return &own
}

// answer is what came of one call of a model.
type answer struct {
	text  string
	tools []models.Call
	fault *models.Error
}

// done is a call of an action.
type done struct {
	turn, action string
	entities     map[string]any
	result       actions.Result
	ended        bool
	unasked      bool // although a person has to approve such calls
}

// reply is a message of the bot. A card is the action that it asks the approval of, with
// the name of that, or another.
type reply struct{ text, card, approval string }

// anotherCard is a card that scenarios have no word for.
const anotherCard = "(another)"

var (
	// approvalIn is the name of an approval in the buttons of its card.
	approvalIn = regexp.MustCompile(`"approval":"([^"\\]+)"`)
	// inWords is the card for a channel that draws none.
	inWords = regexp.MustCompile(`(?s)^May I do this\? \*\*([^*]+)\*\*.*/approve ([^ *]+)`)
)

func replyOf(a *activity.Activity) reply {
	said := reply{text: a.Text}
	if m := inWords.FindStringSubmatch(a.Text); m != nil {
		said.card, said.approval = m[1], m[2]
	}
	action, asks := strings.CutPrefix(a.Summary, "Approval needed: ")
	switch {
	case len(a.Attachments) == 0:
	case asks:
		said.card = action
		if raw, err := a.Encode(); err == nil {
			if m := approvalIn.FindSubmatch(raw); m != nil {
				said.approval = string(m[1])
			}
		}
	default:
		said.card = anotherCard
	}
	return said
}

// ofTurn is the step that a turn belongs to, which answers the activity with that id: the
// first such that no turn works on. A turn that follows a decision belongs to the click as
// the one that takes it does.
func (c *conversation) ofTurn(turn, id string) *step {
	if known := c.turns[turn]; known != nil || turn == "" {
		return known
	}
	var found *step
	for _, s := range c.steps {
		if s.activity.ID != id || id == "" && len(s.turns) > 0 { // such as a notice, which answers nothing
			continue
		}
		found = s
		if len(s.turns) == 0 {
			break // an edited message has the id of the one before it
		}
	}
	if found == nil {
		return nil
	}
	found.turns[turn] = false
	c.turns[turn] = found
	return found
}

// isForeign reports whether the first prompt of a turn has somebody say before it what is not
// in the recording: before that began, or to another process.
func (c *conversation) isForeign(of bottest.Of, req *models.Request) bool {
	const most = 8 // of which the bot remembers five
	if of.Turn == c.asked {
		return false
	}
	c.asked = of.Turn
	var said []string
	for _, m := range req.Messages {
		if m.Role == models.User {
			said = append(said, m.Text)
		}
	}
	if len(said) == 0 {
		return false
	}
	heard := c.heard[of.Conversation]
	before, now := said[:len(said)-1], said[len(said)-1]
	c.heard[of.Conversation] = append(heard[max(0, len(heard)+1-most):], now)
	return len(before) > 0 && !slices.Contains(heard, before[len(before)-1])
}

// planned replaces the newest answer by its plan, where scenarios have no such answer: calls
// of tools, and XML.
func (s *step) planned(p plan.Plan) {
	last := len(s.answers) - 1
	if last < 0 || len(s.answers[last].tools) == 0 && !strings.Contains(s.answers[last].text, "<plan") {
		return
	}
	s.answers[last] = answer{text: planText(p.Commands)}
}

// planText is the plan as a model writes it.
func planText(commands []plan.Command) string {
	plain := slices.Clone(commands)
	for i := range plain {
		plain[i].CallID, plain[i].Result = "", ""
	}
	return plan.Transcript(plain)
}

// errorOf is a fault of a model as one.
func errorOf(err error) *models.Error {
	if fault, ok := errors.AsType[*models.Error](err); ok {
		return fault
	}
	return &models.Error{Kind: models.Unavailable}
}
