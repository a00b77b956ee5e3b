package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// savedBy begins what a scenario says about itself.
const savedBy = "Saved from the page of the bot. What depends on the time or on chance has to be taken out of what is expected."

// FromTurns writes turns of one conversation, as a log has seen them, as the text of a file with scenarios
// that [Read] reads: with what the model said, and with the state that they found. Dir of cfg is not used.
// open says, for people, which steps expect nothing, and why. The error says for people why there is no
// such file; it wraps no other.
func FromTurns(ctx context.Context, cfg Config, name string, turns []turnlog.Record) (file []byte, open []string, err error) {
	r := &Recorder{cfg: cfg, scrub: scrub.New(cfg.Secrets...), by: savedBy}
	c := &conversation{}
	var all []parts
	for _, rec := range slices.SortedFunc(slices.Values(turns), func(a, b turnlog.Record) int { return a.At.Compare(b.At) }) {
		if rec.Outcome == turnlog.Duplicate {
			continue
		}
		s, err := c.add(rec, all)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, parts{rec: rec, step: s})
	}
	for i, p := range all {
		for _, later := range all[i+1:] {
			if later.rec.Parent == p.rec.ID {
				p.clicks = append(p.clicks, later)
			}
		}
		p.fill()
	}
	if len(c.steps) == 0 {
		return nil, nil, errors.New("no turn was chosen")
	}
	for _, s := range c.steps {
		learn(s.activity, r.scrub)
	}
	var list []Scenario
	for version := -1; version != r.scrub.Version(); { // what is learned at the end counts for the beginning, too
		version = r.scrub.Version()
		list, _ = r.scenarios(ctx, name, c)
	}
	n := 0
	for i := range list {
		for _, s := range list[i].Steps {
			if n++; s.Expect.Note != "" {
				open = append(open, fmt.Sprintf("step %d: %s", n, s.Expect.Note))
			}
		}
	}
	raw, err := Write(list)
	if err != nil {
		return nil, nil, errors.New("it cannot be written as YAML")
	}
	if _, err := Read(name+".yaml", raw); err != nil {
		return nil, nil, fmt.Errorf("it could not be played: %s", err.Error())
	}
	return append([]byte(head), raw...), open, nil
}

// isCut reports whether a log has left out a text because it is too large.
func isCut(text string) bool { return strings.HasPrefix(strings.Trim(text, `"`), "[left out: ") }

// add adds the step of a turn, without what the bot did in it. before are the turns before it.
func (c *conversation) add(rec turnlog.Record, before []parts) (*step, error) {
	a, err := activity.Decode(rec.Received.Activity)
	switch {
	case len(rec.Received.Activity) == 0:
		return nil, fmt.Errorf("turn %s answers no message: the bot began it by itself", rec.ID)
	case err != nil:
		return nil, fmt.Errorf("what came in turn %s is too large to be kept", rec.ID)
	case len(c.steps) > 0 && c.steps[0].activity.Conversation.BaseID() != a.Conversation.BaseID():
		return nil, errors.New("the turns are of different conversations")
	}
	s := &step{activity: a, decision: decisionIn(a), turns: map[string]bool{rec.ID: rec.Outcome != turnlog.Running}, found: rec.Before, seed: listsIn(a, rec.Before)}
	if rec.Outcome == turnlog.Ignored {
		s.turns = map[string]bool{}
	}
	if rec.Incomplete {
		s.cannot = "Some of its turn was not seen."
	}
	if a.Type == activity.Message && len(a.Attachments) > 0 && strings.TrimSpace(a.Said()) == "" && len(a.Value) == 0 {
		s.cannot = "It came with an attachment and no text. A scenario has no attachments that a model is shown."
	}
	for scope, values := range rec.Before {
		for name, raw := range values {
			if !ownNames[name] && isCut(string(raw)) {
				return nil, fmt.Errorf("the value %s.%s before turn %s is too large to be kept", scope, name, rec.ID)
			}
			if scope == "thread" && !ownNames[name] {
				s.cannot = "It found a value in the state of its thread. A scenario cannot say that."
			}
		}
	}
	asker := slices.IndexFunc(before, func(p parts) bool { return p.rec.ID == rec.Parent })
	left := func(one turn.State) bool { return same(one, rec.Before) }
	s.apart = len(c.steps) > 0 && rec.Before != nil && asker < 0 && !slices.ContainsFunc(c.left, left)
	if c.left = []turn.State{rec.After}; asker >= 0 {
		c.left = append(c.left, before[asker].rec.After)
	} else if slices.ContainsFunc(rec.Journal, func(j turnlog.Save) bool { return j.Phase == "waiting" }) {
		c.left = append(c.left, rec.Before) // what comes next may come before what it did after its wait
	}
	var answer turn.Answer
	if len(rec.Received.Answer) > 0 && json.Unmarshal(rec.Received.Answer, &answer) == nil {
		body := []byte(answer.Body)
		if len(body) == 0 {
			body, _ = json.Marshal(map[string]any{"activities": answer.Activities}) // it was JSON
		}
		said := saidIn(a, body)
		s.answered, s.refused, s.replies = true, len(said) > 0, said
	}
	c.steps = append(c.steps, s)
	return s, nil
}

// ownNames are values that the bot keeps for itself. A scenario does not have them.
var ownNames = map[string]bool{"history": true, "reference": true, "home": true, "approvals": true, "sentnotices": true, "targetedcards": true}

// same reports whether the conversation was as it had been left, apart from the bot's own values.
func same(left, found turn.State) bool {
	for _, scope := range []string{"conversation", "thread", "user", "bot"} {
		if (scope == "bot" || scope == "thread") && (left[scope] == nil || found[scope] == nil) {
			continue // it was not looked at
		}
		for _, values := range []map[string]jsontext.Value{left[scope], found[scope]} {
			for name := range values {
				if !ownNames[name] && !bytes.Equal(left[scope][name], found[scope][name]) {
					return false
				}
			}
		}
	}
	return true
}

// parts are a turn and its step.
type parts struct {
	rec    turnlog.Record
	step   *step
	clicks []parts // turns of clicks on its cards, oldest first
}

// fill adds what the bot did.
func (p parts) fill() {
	p.rounds()
	p.commands()
	p.sent()
}

// at returns the step in which the turn did something at that time: that of its activity or, once it has
// waited, that of the newest click. It is nil if what ended the wait is not among the steps.
func (p parts) at(t time.Time) *step {
	s, from := p.step, p.rec.At
	for _, click := range p.clicks {
		if !t.Before(click.rec.At) {
			s, from = click.step, click.rec.At
		}
	}
	over := p.rec.Outcome != turnlog.Running
	if slices.ContainsFunc(p.rec.Journal, func(j turnlog.Save) bool { return j.Phase == "waiting" && !j.At.Before(from) && j.At.Before(t) }) {
		s, over = nil, true
	}
	if s != nil && s != p.step {
		s.asker, s.turns[p.rec.ID] = p.step.activity.From.ID, over
	}
	return s
}

func (p parts) rounds() {
	for _, r := range p.rec.Rounds {
		s := p.at(r.At)
		switch {
		case s == nil:
		case r.Answer == nil:
			s.cannot = "The model has not answered yet."
		case r.Answer.Error != "":
			s.cannot = "A call of the model failed. How is not known in the form that a scenario needs."
			s.answers, s.failed = append(s.answers, failures(&models.Error{Kind: models.Unavailable})...), true
		case isCut(r.Answer.Text):
			s.cannot = "An answer of the model is too large to be kept."
		case r.Plan != nil && (len(r.Answer.Calls) > 0 || strings.Contains(r.Answer.Text, "<plan")):
			var commands []plan.Command
			for _, c := range r.Plan.Commands {
				one := plan.Command{Kind: c.Kind, Action: c.Action, SaveAs: c.SaveAs, Response: c.Response}
				if c.Kind == plan.Do {
					one.Entities, _ = jsonTree([]byte(c.Entities)).(map[string]any)
				}
				commands = append(commands, one)
			}
			s.answers = append(s.answers, answer{Text: new(planText(commands))})
		default:
			s.answers = append(s.answers, answer{Text: new(r.Answer.Text)})
		}
	}
}

func (p parts) commands() {
	for _, c := range p.rec.Commands {
		s := p.at(c.At)
		if s == nil {
			continue
		}
		d := &done{Action: Action{Action: c.Action}}
		d.Entities, _ = jsonTree([]byte(c.Resolved)).(map[string]any)
		switch {
		case isCut(c.Resolved), isCut(c.Text), isCut(c.Data):
			s.cannot = "A call of " + c.Action + " is too large to be kept."
		case c.Error != "":
			d.Error = new("")
		case c.Result == "failed":
			d.Error = new(c.Text)
		case c.Result == "unchanged":
			d.Unchanged = new(c.Text)
		case c.Data != "":
			d.Result = jsonTree([]byte(c.Data))
		case c.Text != "":
			d.Result = c.Text
		}
		d.unasked = c.Approved && s.asker == ""
		s.done = append(s.done, d)
	}
}

func (p parts) sent() {
	for _, sent := range p.rec.Sent {
		if sent.Kind != "send" && sent.Kind != "reply" || sent.Activity == nil {
			continue
		}
		s := p.at(sent.At)
		if s == nil {
			continue
		}
		m, err := activity.Decode(sent.Activity)
		if err != nil {
			s.cannot = "A message of the bot is too large to be kept."
			continue
		}
		if m.Type != activity.Message || slices.Contains(notFinal, sent.Status) {
			continue
		}
		s.sends = append(s.sends, sent.Status)
		if sent.Error == "" {
			said := replyOf(m)
			s.replies = append(s.replies, said)
			s.turns[p.rec.ID] = s.turns[p.rec.ID] || said.asks() // a waiting turn is over for this step
		}
	}
}

// listsIn are the lists that a turn found.
func listsIn(a *activity.Activity, found turn.State) jsontext.Value {
	scope := "conversation"
	if a.Conversation.Personal() {
		scope = "user"
	}
	if raw := found[scope][listsName]; len(raw) > 0 {
		return raw
	}
	return jsontext.Value("{}")
}
