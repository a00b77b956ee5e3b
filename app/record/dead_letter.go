package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// unknown is what the model says in a scenario if its real answer is unknown.
const unknown = "(Nobody knows what the model said here.)"

// DeadLetter makes a test from a dead letter: the activity, the model's plan as far as the record
// has it, and the calls that the bot must make if all goes well. Names, ids and secrets are
// replaced by stand-ins. The notes in the scenario list what is unknown: earlier state, the exact
// model answers, and what would have come next. It returns an error for a turn that answers no
// activity, and for an unreadable record.
func DeadLetter(w inbox.Waiting, secrets ...string) (Scenario, error) {
	rec, err := turn.Decode(w.Record)
	a, fault := rec.Read()
	switch {
	case rec.Notice != nil:
		return Scenario{}, fmt.Errorf("turn %.80q answers no activity", w.ID)
	case a == nil:
		return Scenario{}, fmt.Errorf("turn %.80q: %w", w.ID, errors.Join(err, fault))
	}
	d := &deadLetter{run: cmp.Or(rec.Run, &turn.Run{}), scrub: scrub.New(secrets...)}
	learn(a, d.scrub)
	if err != nil {
		d.note("Some of the turn cannot be read: %v.", err)
	}
	s := Scenario{Name: "turn " + w.ID, Why: d.scrub.Text(fmt.Sprintf("An operator had to look at it: %s.", turn.Reason(w)))}
	ask := Step{Event: eventOf(a, d.scrub), Model: d.answers(&rec)}
	// For a message that waited for an approval, only the text is stored.
	if text := cmp.Or(rec.Text, a.Said()); text != "" && (ask.Event.Text == nil || len(rec.Parts) > 0) {
		text = d.scrub.Text(text)
		if !a.Conversation.Personal() {
			text = mentioned + " " + text
		}
		ask.Event.Text = &text
	}
	s.Steps = []Step{ask}
	if action, approved := decisionOf(&rec); action == "" {
		s.Steps[0].Expect.Actions = d.actions()
	} else {
		last := len(ask.Model) - 1 // the question that was not asked yet follows the click
		s.Options.Approval, s.Steps[0].Model = []string{action}, ask.Model[:last]
		s.Steps = append(s.Steps, Step{Model: ask.Model[last:], Event: &Event{
			Type: string(activity.Invoke), Conversation: ask.Event.Conversation, Kind: ask.Event.Kind, From: ask.Event.From,
			Value: map[string]any{"approve": approved},
		}})
		d.note("That who asked decided is a guess, and what is expected of it is left to you.")
	}
	d.note("What the bot kept before is not known: write a seed if it matters.")
	s.Steps[len(s.Steps)-1].Expect.Note = strings.Join(d.notes, " ")
	return s, nil
}

// decisionOf returns the action that a person decided about last, and the decision; "" if there was
// none.
func decisionOf(rec *turn.Record) (action string, approved bool) {
	if action, approved = approvals.Decided(rec); action != "" {
		return action, approved
	}
	if rec.Run != nil && rec.Run.Decided != nil {
		return rec.Run.Decided.Action, rec.Run.Decided.Approved
	}
	return "", false
}

// deadLetter is a turn that becomes a scenario.
type deadLetter struct {
	run   *turn.Run
	scrub *scrub.Scrubber
	notes []string
}

func (d *deadLetter) note(format string, args ...any) {
	d.notes = append(d.notes, d.scrub.Text(fmt.Sprintf(format, args...)))
}

// answers returns the plans of the turn as a model writes them, then one for a question that was
// not asked yet.
func (d *deadLetter) answers(rec *turn.Record) (all []answer) {
	add := func(commands []plan.Command) { all = append(all, answer{Text: new(d.scrub.Text(planText(commands)))}) }
	rounds := d.run.Rounds
	if d.run.Progress != nil {
		rounds = rounds[:len(rounds)-1] // the last one belongs to the current plan
	}
	for _, r := range rounds {
		add(commandsOf(r.Outcomes))
	}
	if len(rounds) > 0 {
		d.note("Of the plans before the last only what was done is known.")
	}
	switch {
	case d.run.Progress != nil:
		add(d.run.Progress.Plan.Commands)
	case rec.Run == nil && len(rec.Outbox)+len(rec.Sent) == 0:
		d.note("The turn had not begun.")
	case len(rounds) == 0 && len(rec.Outbox) > 0:
		var sending []string
		for _, m := range rec.Outbox {
			if message, err := activity.Decode(m.Activity); err == nil {
				sending = append(sending, message.Text)
			}
		}
		add(saying(sending))
		d.note("Its plan was over and is not known: the model says here what was being sent, of which the channel had taken %d.", len(rec.Sent))
	}
	add(saying([]string{unknown}))
	return all
}

func saying(texts []string) (commands []plan.Command) {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			commands = append(commands, plan.Command{Kind: plan.Say, Response: text})
		}
	}
	return commands
}

func commandsOf(outcomes []actions.Outcome) (commands []plan.Command) {
	for _, o := range outcomes {
		if o.Action == plan.Say {
			commands = append(commands, plan.Command{Kind: plan.Say, Response: o.Text})
			continue
		}
		commands = append(commands, plan.Command{Kind: plan.Do, Action: o.Action, Entities: o.Entities})
	}
	return commands
}

// actions returns the calls that were made, and the remaining ones of the current plan; nil if they
// are unknown.
func (d *deadLetter) actions() []Action {
	if len(d.run.Rounds) == 0 {
		return nil
	}
	all, made := []Action{}, []string{}
	for _, r := range d.run.Rounds {
		failed := false
		for _, o := range r.Outcomes {
			if o.Action != plan.Say && !(failed && o.Failed) { // otherwise it was left out
				all, made = append(all, d.action(o)), append(made, o.Action)
			}
			failed = failed || o.Failed
		}
	}
	if d.run.InFlight > 0 {
		d.note("Nobody knows whether %d of the calls, which may have begun, came to their end.", d.run.InFlight)
	}
	p := d.run.Progress
	for i := 0; p != nil && i < len(p.Plan.Commands)-p.Next; i++ {
		c, err := p.Command(p.Next + i)
		if err != nil || p.Plan.Saves() && strings.Contains(plainjson.Text(c.Entities), "$") {
			d.note("What the calls that are left are made with is not known; made were: %s.", strings.Join(append(made, "no others"), ", "))
			return nil
		}
		if c.Kind == plan.Do {
			all = append(all, d.action(actions.Outcome{Action: c.Action, Entities: c.Entities}))
		}
	}
	return all
}

func (d *deadLetter) action(o actions.Outcome) Action {
	a := Action{Action: o.Action, Entities: o.Entities}
	switch {
	case o.Failed:
		a.Error = &o.Text
	case o.Unchanged:
		a.Unchanged = &o.Text
	case json.Valid([]byte(o.Text)) && strings.ContainsAny(o.Text[:1], "{["):
		a.Result = jsonTree([]byte(o.Text))
	case o.Text != "":
		a.Result = o.Text
	}
	return a.scrub(d.scrub)
}
