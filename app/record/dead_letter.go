package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state/inbox"
)

// ErrNothingAsked is the error of a record that answers nobody, such as a notice.
var ErrNothingAsked = errors.New("the turn answers no activity")

// unknown is what the model says in a scenario where nobody knows what it said.
const unknown = "(Nobody knows what the model said here.)"

// DeadLetter makes a test of a dead letter: what came in, what the model planned as far as
// the record knows, and what the bot has to do when all of that goes well. Names, ids and
// these secrets have stand-ins. The notes in it say what is not known: what the bot kept
// before, what models answered word by word, and what would have come next. The error is
// [ErrNothingAsked], or that of a record which cannot be read.
func DeadLetter(w inbox.Waiting, secrets ...string) (Scenario, error) {
	rec, err := turn.Decode(w.Record)
	a, fault := rec.Read()
	switch {
	case rec.Notice != nil:
		return Scenario{}, fmt.Errorf("turn %.80q: %w", w.ID, ErrNothingAsked)
	case a == nil:
		return Scenario{}, fmt.Errorf("turn %.80q: %w", w.ID, errors.Join(err, fault))
	}
	d := &deadLetter{activity: a, text: cmp.Or(rec.Text, a.Said()), sent: len(rec.Sent), scrub: scrub.New(secrets...)}
	d.begun = rec.Run != nil || len(rec.Outbox) > 0 || len(rec.Sent) > 0
	if run := rec.Run; run != nil {
		d.rounds, d.progress, d.inFlight = run.Rounds, run.Progress, run.InFlight
	}
	d.decided, d.approved = decisionOf(&rec)
	for _, m := range rec.Outbox {
		if message, err := activity.Decode(m.Activity); err == nil {
			d.sending = append(d.sending, message.Text)
		}
	}
	learn(metIn(a), d.scrub)
	if err != nil {
		d.note("Some of the turn cannot be read: %v.", err)
	}
	return Scenario{
		Name: "turn " + w.ID, Why: d.scrub.Text(fmt.Sprintf("An operator had to look at it: %s.", turn.Reason(w))),
		Options: d.options(), Steps: d.steps(),
	}, nil
}

// decisionOf is the action that a person decided about last, and how; "" if nobody did.
func decisionOf(rec *turn.Record) (action string, approved bool) {
	if w := rec.Wait; w != nil && w.Approval != nil && w.Approval.Decision != nil {
		return w.Approval.Action, w.Approval.Decision.Approved
	}
	if rec.Run != nil && rec.Run.Decided != nil {
		return rec.Run.Decided.Action, rec.Run.Decided.Approved
	}
	return "", false
}

// deadLetter is a turn that a scenario is made of.
type deadLetter struct {
	activity *activity.Activity
	text     string
	begun    bool            // the record knows more than what came in
	rounds   []actions.Round // of all plans; the last is that of progress, if there is one
	progress *plan.Progress  // the plan at work; nil: it was over, or not made yet
	inFlight int             // commands that have begun, and nobody knows whether they were done
	decided  string          // the action that a person decided about last; "": none
	approved bool            // how
	sending  []string        // texts that were to be sent
	sent     int             // messages that the channel took
	scrub    *scrub.Scrubber
	notes    []string
}

func (w *deadLetter) note(format string, args ...any) {
	w.notes = append(w.notes, w.scrub.Text(fmt.Sprintf(format, args...)))
}

func (w *deadLetter) options() (o Options) {
	if w.decided != "" {
		o.Approval = []string{w.decided}
	}
	return o
}

// steps are the message with what the model planned and, where a person decided about a
// call, the click.
func (w *deadLetter) steps() []Step {
	var ask Step
	ask.Event = eventOf(w.activity, w.scrub)
	if ask.Event.Text == nil && w.text != "" { // of a message that waited for an approval only that is kept
		text := w.scrub.Text(w.text)
		if !w.activity.Conversation.Personal() {
			text = mentioned + " " + text
		}
		ask.Event.Text = &text
	}
	ask.Model = w.answers()
	all := []Step{ask}
	if w.decided != "" {
		var click Step
		click.Event = &Event{
			Type: string(activity.Invoke), Conversation: ask.Event.Conversation, Kind: ask.Event.Kind, From: ask.Event.From,
			Value: map[string]any{"approve": w.approved},
		}
		last := len(ask.Model) - 1 // the question that was not asked yet comes behind the click
		all[0].Model, click.Model = ask.Model[:last], ask.Model[last:]
		all = append(all, click)
		w.note("That who asked decided is a guess, and what is expected of it is left to you.")
	} else {
		all[0].Expect.Actions, all[0].Expect.Replies = w.actions(), w.replies()
	}
	w.note("What the bot kept before is not known: write a seed if it matters.")
	all[len(all)-1].Expect.Note = strings.Join(w.notes, " ")
	return all
}

func (w *deadLetter) outcomes() (all []actions.Outcome) {
	for _, r := range w.rounds {
		all = append(all, r.Outcomes...)
	}
	return all
}

// answers are the plans of the turn as a model writes them, and behind them one for a
// question that was not asked yet.
func (w *deadLetter) answers() []Answer {
	var plans [][]plan.Command
	rounds := w.rounds
	if w.progress != nil {
		rounds = rounds[:len(rounds)-1]
	}
	for _, r := range rounds {
		plans = append(plans, commandsOf(r.Outcomes))
	}
	if len(rounds) > 0 {
		w.note("Of the plans before the last only what was done is known.")
	}
	switch {
	case w.progress != nil:
		plans = append(plans, w.progress.Plan.Commands)
	case w.begun && len(w.rounds) == 0 && len(w.sending) > 0:
		plans = append(plans, saying(w.sending))
		w.note("Its plan was over and is not known: the model says here what was being sent.")
	case !w.begun:
		w.note("The turn had not begun.")
	}
	plans = append(plans, saying([]string{unknown}))
	var all []Answer
	for _, commands := range plans {
		text := w.scrub.Text(planText(commands))
		all = append(all, Answer{Text: &text})
	}
	return all
}

// saying is a plan that says these texts.
func saying(texts []string) (commands []plan.Command) {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			commands = append(commands, plan.Command{Kind: plan.Say, Response: text})
		}
	}
	return commands
}

// commandsOf is what was done of a plan.
func commandsOf(outcomes []actions.Outcome) (commands []plan.Command) {
	for _, o := range outcomes {
		if o.Action == string(plan.Say) {
			commands = append(commands, plan.Command{Kind: plan.Say, Response: o.Text})
			continue
		}
		commands = append(commands, plan.Command{Kind: plan.Do, Action: o.Action, Entities: o.Entities})
	}
	return commands
}

// actions are the calls that were made, and those that the plan at work has left; nil: they
// are not known.
func (w *deadLetter) actions() []Action {
	if len(w.rounds) == 0 {
		return nil
	}
	all := []Action{}
	for _, r := range w.rounds {
		failed := false
		for _, o := range r.Outcomes {
			if o.Action != string(plan.Say) && !(failed && o.Failed) { // else it was left out
				all = append(all, w.action(o))
			}
			failed = failed || o.Failed
		}
	}
	if w.inFlight > 0 {
		w.note("Nobody knows whether %d of the calls, which had begun, came to their end.", w.inFlight)
	}
	left, known := w.left()
	if !known {
		w.note("What the calls that are left are made with is not known; made were: %s.", made(all))
		return nil
	}
	for _, c := range left {
		if c.Kind == plan.Do {
			all = append(all, w.action(actions.Outcome{Action: c.Action, Entities: c.Entities}))
		}
	}
	return all
}

func made(calls []Action) string {
	var names []string
	for _, c := range calls {
		names = append(names, c.Action)
	}
	return strings.Join(append(names, "no others"), ", ")
}

func (w *deadLetter) action(o actions.Outcome) Action {
	entities := o.Entities
	if entities == nil {
		entities = map[string]any{}
	}
	a := Action{Action: o.Action, Entities: w.scrub.Value(entities).(map[string]any)}
	switch text := w.scrub.Text(o.Text); {
	case o.Failed:
		a.Error = &text
	case o.Unchanged:
		a.Unchanged = &text
	case json.Valid([]byte(o.Text)) && strings.ContainsAny(o.Text[:1], "{["):
		a.Result = w.scrub.Value(jsonTree([]byte(o.Text)))
	case text != "":
		a.Result = text
	}
	return a
}

// left are the commands that the plan at work has left, as they are run; false: they need
// results that are not known yet.
func (w *deadLetter) left() (commands []plan.Command, known bool) {
	e := w.progress
	if e == nil {
		return nil, true
	}
	for i := e.Next; i < len(e.Plan.Commands); i++ {
		c, err := e.Command(i)
		raw, fault := json.Marshal(c.Entities)
		if err != nil || fault != nil || e.Plan.Saves() && strings.Contains(string(raw)+c.Response, "$") {
			return nil, false
		}
		commands = append(commands, c)
	}
	return commands, true
}

// replies are what was said, and what the plan at work has left to say; nil: they are not
// known.
func (w *deadLetter) replies() []string {
	all := []string{}
	for _, o := range w.outcomes() {
		if o.Action == string(plan.Say) {
			all = append(all, w.scrub.Text(o.Text))
		}
	}
	if w.progress == nil && len(w.sending) > 0 {
		for _, c := range saying(w.sending) {
			all = append(all, w.scrub.Text(c.Response))
		}
		w.note("%d of the messages that were being sent had been taken by the channel.", w.sent)
		return all
	}
	left, known := w.left()
	if !known || w.progress == nil || w.progress.Plan.LastDo() == len(w.progress.Plan.Commands)-1 {
		w.note("What had to be said in the end is not known; said was: %q.", all)
		return nil
	}
	for _, c := range left {
		if c.Kind == plan.Say {
			all = append(all, w.scrub.Text(c.Response))
		}
	}
	return all
}
