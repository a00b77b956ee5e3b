package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
)

const recordedBy = "Recorded by bot serve --record. What depends on the time or on chance has to be taken out of what is expected."

// writer makes scenarios of conversations.
type writer struct {
	cfg   *Config
	scrub *scrub.Scrubber
	added bool // the scenarios have, or lack, what the bot's prompts did not
}

// scenarios are the conversation with stand-ins: one, or more where something in the middle
// cannot be played. They end where ctx does.
func (w *writer) scenarios(ctx context.Context, name string, c *conversation) (all []scenario.Scenario) {
	var part *scenario.Scenario
	verdicts := c.verdicts(w.cfg)
	for i, s := range c.steps {
		if ctx.Err() != nil {
			break
		}
		w.added = w.added || i > 0 && c.begins(i, verdicts) || verdicts[i] != ""
		if c.begins(i, verdicts) {
			all = append(all, scenario.Scenario{Name: name, Why: w.why(c), Options: w.cfg.Options})
			part = &all[len(all)-1]
			if len(all) > 1 {
				part.Name = fmt.Sprintf("%s, part %d", name, len(all))
			}
			w.seed(part, c.steps[i:])
		}
		part.Steps = append(part.Steps, w.step(s, verdicts[i]))
	}
	return all
}

func (w *writer) why(c *conversation) string {
	why := recordedBy
	if len(w.cfg.Same) > 0 {
		why += " Play it with these settings as they were: " + strings.Join(w.cfg.Same, ", ") + "."
	}
	if len(w.cfg.Settings) > 0 {
		why += " The bot had settings that a scenario does not have: " + strings.Join(w.cfg.Settings, ", ") + "."
	}
	if c.full {
		why += " What came after it is not recorded, since there is a limit to each conversation."
	}
	return why
}

// step is one, of which nothing is expected if it cannot be: then it is written down as far
// as it is known, in a form that can be played all the same.
func (w *writer) step(s *step, cannot string) scenario.Step {
	var out scenario.Step
	out.Event = eventOf(s.activity, w.scrub)
	faults := false
	for _, a := range s.answers {
		out.Model = append(out.Model, w.answers(&a)...)
		faults = faults || a.fault != nil
	}
	if cannot != "" {
		if s.decision != nil && len(s.activity.Value) > 0 { // there may be no card
			out.Event.Value = w.scrub.Value(treeOf(s.activity.Value))
		}
		text := w.scrub.Text(planText(saying([]string{unknown})))
		out.Model = append(out.Model, scenario.Answer{Text: &text})
		out.Expect.Note = cannot
		return out
	}
	if n := len(s.answers); !faults {
		out.Expect.ModelCalls = &n
	}
	out.Expect.Actions = []scenario.Action{}
	for _, d := range s.done {
		a := w.action(d)
		if s.tellsTime(d.result.Text()) {
			a.Result = nil
		}
		out.Expect.Actions = append(out.Expect.Actions, a)
	}
	w.replies(s, &out.Expect)
	out.Expect.Connector = sendings(s.sends)
	return out
}

// sendings are how the connector answers, up to the last refusal.
func sendings(statuses []int) (all []scenario.Sending) {
	refused := func(status int) bool { return status >= http.StatusBadRequest }
	for slices.ContainsFunc(statuses, refused) {
		all = append(all, scenario.Sending{HTTP: statuses[0]})
		statuses = statuses[1:]
	}
	return all
}

// replies names the bot's own texts by their kind.
func (w *writer) replies(s *step, e *scenario.Expect) {
	replies, odd := []string{}, false
	for _, r := range s.replies {
		text := w.scrub.Text(r.text)
		switch own := w.placeholder(r.text); {
		case r.card == anotherCard:
			e.Note = "A card was sent, which replies cannot name."
			return
		case r.card != "":
			text = "<approval_card " + r.card + ">"
		case own != "" && !s.said(r.text):
			text = own
		case s.tellsTime(r.text):
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

// placeholder is that of a text of the bot's own, "" of any other.
func (w *writer) placeholder(text string) string {
	if own := w.cfg.FilteredText; own != "" && strings.HasPrefix(text, own) {
		return "<filtered>"
	}
	return scenario.Placeholder(text)
}

// clock is a time of day, as in what an action says that deals with time.
var clock = regexp.MustCompile(`\b\d{1,2}:\d\d\b`)

// tellsTime reports whether there is a time of day in the text that neither the person nor
// a model wrote.
func (s *step) tellsTime(text string) bool {
	return slices.ContainsFunc(clock.FindAllString(text, -1), func(at string) bool {
		return !strings.Contains(s.activity.Text, at) && !s.said(at)
	})
}

// said reports whether a model wrote the text.
func (s *step) said(text string) bool {
	quoted, err := json.Marshal(text)
	return slices.ContainsFunc(s.answers, func(a answer) bool {
		return strings.Contains(a.text, text) || err == nil && strings.Contains(a.text, string(quoted))
	})
}

// answers are the answer as the scripted model gives it. One that was tried for again comes
// as often as it may be asked for.
func (w *writer) answers(a *answer) []scenario.Answer {
	if a.fault == nil {
		text := w.scrub.Text(a.text)
		return []scenario.Answer{{Text: &text}}
	}
	f := scenario.Answer{HTTP: a.fault.Status, Code: w.scrub.Text(a.fault.Code)}
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
	const tries = 4 // of a [models.Chain]
	return slices.Repeat([]scenario.Answer{f}, tries)
}

func (w *writer) action(d *done) scenario.Action {
	entities := d.entities
	if entities == nil {
		entities = map[string]any{}
	}
	a := scenario.Action{Action: d.action, Entities: w.scrub.Value(entities).(map[string]any)}
	if !d.ended || d.result.Failed() {
		why := ""
		if d.ended {
			why = w.scrub.Text(d.result.Text())
		}
		a.Error = &why
		return a
	}
	if d.result.Unchanged() {
		text := w.scrub.Text(d.result.Text())
		a.Unchanged = &text
		return a
	}
	value, err := d.result.Value()
	if err == nil && value != nil && value != "" {
		a.Result = w.scrub.Value(value)
	}
	return a
}
