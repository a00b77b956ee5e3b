package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// conversation is what was seen of one.
type conversation struct {
	seed  map[string][]string // lists before the first plan; nil: there was none yet
	steps []*step
	calls []cassette.Call // not scrubbed yet: who is who may be learned later
	turns map[string]*step
	bytes int
	full  bool // nothing more is kept
	dirty bool

	scrubbed *scrubbedCalls
}

// clone is the conversation as it is now.
func (c *conversation) clone() *conversation {
	own := &conversation{seed: c.seed, calls: c.calls, scrubbed: c.scrubbed}
	for _, s := range c.steps {
		copied := *s
		copied.answers, copied.replies, copied.done = slices.Clone(s.answers), slices.Clone(s.replies), nil
		for _, d := range s.done {
			call := *d
			copied.done = append(copied.done, &call)
		}
		own.steps = append(own.steps, &copied)
	}
	return own
}

// step is an activity that was taken, and what the bot did for it.
type step struct {
	activity *activity.Activity
	answers  []answer
	done     []*done
	replies  []reply
	begun    bool // a turn works on it, or did
	followed bool // and another one, on what it approved
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
}

// reply is a message of the bot. A card is the action that it asks the approval of, or
// another.
type reply struct{ text, card string }

// anotherCard is a card that scenarios have no word for.
const anotherCard = "(another)"

// clock is a time of day, as in what an action says that deals with time.
var clock = regexp.MustCompile(`\b\d{1,2}:\d\d\b`)

// ofTurn is the step that a turn belongs to. One that follows an approval answers an
// activity that another turn has answered before: it belongs to the first click that none
// followed yet.
func (c *conversation) ofTurn(turn, id string) *step {
	if known := c.turns[turn]; known != nil || len(c.steps) == 0 {
		return known
	}
	i := slices.IndexFunc(c.steps, func(s *step) bool { return s.activity.ID == id })
	if i < 0 || turn == "" {
		return nil // such as a notice, which answers nothing
	}
	found := c.steps[i]
	if found.begun {
		found = c.clicked(i)
	}
	found.begun = true
	c.turns[turn] = found
	return found
}

// clicked is the first click behind the i-th step that no turn follows yet; where there is
// none, the newest step.
func (c *conversation) clicked(i int) *step {
	for _, s := range c.steps[i:] {
		if _, click := decisionIn(s.activity); click && !s.followed {
			s.followed = true
			return s
		}
	}
	return c.steps[len(c.steps)-1]
}

// scenario is the conversation as one, with stand-ins.
func (c *conversation) scenario(name string, o scenario.Options, s *scrub.Scrubber) scenario.Scenario {
	out := scenario.Scenario{
		Name: name, Why: "Recorded by bot serve --record. What depends on the time or on chance has to be taken out of what is expected.", Options: o,
	}
	for list, items := range c.seed {
		if out.Seed.Lists == nil {
			out.Seed.Lists = map[string][]string{}
		}
		scrubbed := []string{}
		for _, item := range items {
			scrubbed = append(scrubbed, s.Text(item))
		}
		out.Seed.Lists[s.Text(list)] = scrubbed
	}
	for _, step := range c.steps {
		out.Steps = append(out.Steps, step.scenario(s))
	}
	return out
}

func (p *step) scenario(s *scrub.Scrubber) scenario.Step {
	var out scenario.Step
	out.Event = eventOf(p.activity, s)
	faults := 0
	for _, a := range p.answers {
		out.Model = append(out.Model, a.scenario(s)...)
		if a.fault != nil {
			faults++
		}
	}
	if n := len(p.answers); faults == 0 {
		out.Expect.ModelCalls = &n
	}
	out.Expect.Actions = []scenario.Action{}
	for _, d := range p.done {
		a := d.scenario(s)
		if p.tellsTime(d.result.Text()) {
			a.Result = nil
		}
		out.Expect.Actions = append(out.Expect.Actions, a)
	}
	p.expectReplies(&out.Expect, s)
	return out
}

// expectReplies names the bot's own texts by their kind.
func (p *step) expectReplies(e *scenario.Expect, s *scrub.Scrubber) {
	replies, odd := []string{}, false
	for _, r := range p.replies {
		text := s.Text(r.text)
		switch own := scenario.Placeholder(r.text); {
		case r.card == anotherCard:
			e.Note = "A card was sent, which replies cannot name."
			return
		case r.card != "":
			text = "<approval_card " + r.card + ">"
		case own != "" && !p.said(r.text):
			text = own
		case p.tellsTime(r.text):
			e.Note = "What was said has a time in it, which is another one whenever this is played."
			return
		case scenario.IsPlaceholder(text):
			odd = true
		}
		replies = append(replies, text)
	}
	if odd {
		joined := strings.Join(replies, "")
		e.JoinedReplyEquals = &joined
		return
	}
	e.Replies = replies
}

// tellsTime reports whether there is a time of day in the text that neither the person nor
// a model wrote.
func (p *step) tellsTime(text string) bool {
	return slices.ContainsFunc(clock.FindAllString(text, -1), func(at string) bool {
		return !strings.Contains(p.activity.Text, at) && !p.said(at)
	})
}

// said reports whether a model wrote the text.
func (p *step) said(text string) bool {
	quoted, err := json.Marshal(text)
	return slices.ContainsFunc(p.answers, func(a answer) bool {
		return strings.Contains(a.text, text) || err == nil && strings.Contains(a.text, string(quoted))
	})
}

// scenario is the answer as the scripted model gives it. One that was tried for again comes
// as often as it may be asked for.
func (a *answer) scenario(s *scrub.Scrubber) []scenario.Answer {
	if a.fault == nil {
		text := s.Text(a.text)
		return []scenario.Answer{{Text: &text}}
	}
	f := scenario.Answer{HTTP: a.fault.Status, Code: s.Text(a.fault.Code)}
	switch a.fault.Kind {
	case models.FilteredInput, models.FilteredOutput:
		return []scenario.Answer{{HTTP: http.StatusBadRequest, Code: "content_filter"}}
	case models.TooLong:
		return []scenario.Answer{{HTTP: http.StatusBadRequest, Code: "context_length_exceeded"}}
	case models.Empty:
		return []scenario.Answer{{Text: new(string)}}
	case models.Throttled:
		f.HTTP = cmp.Or(f.HTTP, http.StatusTooManyRequests)
	case models.Timeout, models.Unavailable:
		f.HTTP = max(f.HTTP, http.StatusServiceUnavailable)
	default:
		f.HTTP = max(f.HTTP, http.StatusBadRequest)
		return []scenario.Answer{f}
	}
	return slices.Repeat([]scenario.Answer{f}, models.DefaultRetries+1)
}

// planned replaces the newest answer by its plan, where scenarios have no such answer: calls
// of tools, and XML.
func (p *step) planned(plan planner.Plan) {
	last := len(p.answers) - 1
	if last < 0 || len(p.answers[last].tools) == 0 && !strings.Contains(p.answers[last].text, "<plan") {
		return
	}
	p.answers[last] = answer{text: planText(plan.Commands)}
}

// planText is the plan as a model writes it.
func planText(commands []planner.Command) string {
	plain := slices.Clone(commands)
	for i := range plain {
		plain[i].CallID, plain[i].Result = "", ""
	}
	return planner.Transcript(plain)
}

func (d *done) scenario(s *scrub.Scrubber) scenario.Action {
	entities := d.entities
	if entities == nil {
		entities = map[string]any{}
	}
	a := scenario.Action{Action: d.action, Entities: s.Value(entities).(map[string]any)}
	if !d.ended || d.result.Failed() {
		why := ""
		if d.ended {
			why = s.Text(d.result.Text())
		}
		a.Error = &why
		return a
	}
	value, err := d.result.Value()
	if err == nil && value != nil && value != "" {
		a.Result = s.Value(value)
	}
	return a
}

// errorOf is a fault of a model as one.
func errorOf(err error) *models.Error {
	if fault, ok := errors.AsType[*models.Error](err); ok {
		return fault
	}
	return &models.Error{Kind: models.Unavailable}
}
