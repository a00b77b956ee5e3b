package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// errUnknown is the error of a turn of which it is not known what it answers.
var errUnknown = errors.New("what it answers cannot be read")

// unknown is what the model says in a scenario where nobody knows what it said.
const unknown = "(Nobody knows what the model said here.)"

// Parked makes a test of a parked turn: what came in, what the model planned as far as the
// turn's journal knows, and what the bot has to do when all of that goes well. Names, ids
// and these secrets have stand-ins. The notes in it say what is not known: what the bot kept
// before, what models answered word by word, and what would have come next. The error is
// that of a turn that answers nothing, or of which that cannot be read.
func Parked(p state.Parked, secrets ...string) (Scenario, error) {
	trail, err := bot.ReadTrail(p)
	switch {
	case errors.Is(err, bot.ErrAnswersNothing):
		return Scenario{}, fmt.Errorf("turn %.80q: %w", p.Turn, err)
	case trail.Activity == nil:
		return Scenario{}, fmt.Errorf("turn %.80q: %w", p.Turn, cmp.Or(err, errUnknown))
	}
	w := &parked{Trail: trail, scrub: scrub.New(secrets...)}
	learn(metIn(trail.Activity), w.scrub)
	if trail.Click != nil {
		learn(metIn(trail.Click), w.scrub)
	}
	if err != nil {
		w.note("Some of the turn cannot be read: %v.", err)
	}
	return Scenario{
		Name: "turn " + p.Turn, Why: w.scrub.Text(fmt.Sprintf("It was parked: %s.", p.Reason)),
		Options: Options{Approval: w.approval()}, Steps: w.steps(),
	}, nil
}

// parked is a turn that a scenario is made of.
type parked struct {
	bot.Trail
	scrub *scrub.Scrubber
	notes []string
}

func (w *parked) note(format string, args ...any) {
	w.notes = append(w.notes, w.scrub.Text(fmt.Sprintf(format, args...)))
}

// steps are the message with what the model planned and, where a call was approved, the
// click.
func (w *parked) steps() []Step {
	var ask Step
	ask.Event = eventOf(w.Activity, w.scrub)
	if ask.Event.Text == nil && w.Text != "" { // of a message that waited for an approval only that is kept
		text := w.scrub.Text(w.Text)
		if !w.Activity.Conversation.Personal() {
			text = mentioned + " " + text
		}
		ask.Event.Text = &text
	}
	ask.Model = w.answers()
	all := []Step{ask}
	if w.Click != nil {
		var click Step
		click.Event = eventOf(w.Click, w.scrub)
		all = append(all, click)
	} else {
		all[0].Expect.Actions, all[0].Expect.Replies = w.actions(), w.replies()
	}
	w.note("What the bot kept before is not known: write a seed if it matters.")
	all[len(all)-1].Expect.Note = strings.Join(w.notes, " ")
	return all
}

// approval guesses which call was approved: the one at work or, where there is none, the
// last one that was made.
func (w *parked) approval() []string {
	if w.Click == nil {
		return nil
	}
	w.note("Which call was approved is a guess, and what is expected of it is left to you.")
	if e := w.Execution; e != nil && !e.Done() && e.Plan.Commands[e.Next].Kind == planner.Do {
		return []string{e.Plan.Commands[e.Next].Action}
	}
	for _, o := range slices.Backward(w.outcomes()) {
		if o.Action != string(planner.Say) {
			return []string{o.Action}
		}
	}
	return nil
}

func (w *parked) outcomes() (all []actions.Outcome) {
	for _, r := range w.Rounds {
		all = append(all, r.Outcomes...)
	}
	return all
}

// answers are the plans of the turn as a model writes them, and behind them one for a
// question that was not asked yet.
func (w *parked) answers() []Answer {
	var plans [][]planner.Command
	rounds := w.Rounds
	if w.Execution != nil {
		rounds = rounds[:len(rounds)-1]
	}
	for _, r := range rounds {
		plans = append(plans, commandsOf(r.Outcomes))
	}
	if len(rounds) > 0 {
		w.note("Of the plans before the last only what was done is known.")
	}
	switch {
	case w.Execution != nil:
		plans = append(plans, w.Execution.Plan.Commands)
	case w.Begun && len(w.Rounds) == 0 && len(w.Sending) > 0:
		plans = append(plans, saying(w.Sending))
		w.note("Its plan was over and is not known: the model says here what was being sent.")
	case !w.Begun:
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
func saying(texts []string) (commands []planner.Command) {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			commands = append(commands, planner.Command{Kind: planner.Say, Response: text})
		}
	}
	return commands
}

// commandsOf is what was done of a plan.
func commandsOf(outcomes []actions.Outcome) (commands []planner.Command) {
	for _, o := range outcomes {
		if o.Action == string(planner.Say) {
			commands = append(commands, planner.Command{Kind: planner.Say, Response: o.Text})
			continue
		}
		commands = append(commands, planner.Command{Kind: planner.Do, Action: o.Action, Entities: o.Entities})
	}
	return commands
}

// actions are the calls that were made, and those that the plan at work has left; nil: they
// are not known.
func (w *parked) actions() []Action {
	if len(w.Rounds) == 0 {
		return nil
	}
	all := []Action{}
	for _, r := range w.Rounds {
		failed := false
		for _, o := range r.Outcomes {
			if o.Action != string(planner.Say) && !(failed && o.Failed) { // else it was left out
				all = append(all, w.action(o))
			}
			failed = failed || o.Failed
		}
	}
	if w.InFlight > 0 {
		w.note("Nobody knows whether %d of the calls, which had begun, came to their end.", w.InFlight)
	}
	left, known := w.left()
	if !known {
		w.note("What the calls that are left are made with is not known; made were: %s.", made(all))
		return nil
	}
	for _, c := range left {
		if c.Kind == planner.Do {
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

func (w *parked) action(o actions.Outcome) Action {
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
func (w *parked) left() (commands []planner.Command, known bool) {
	e := w.Execution
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
func (w *parked) replies() []string {
	all := []string{}
	for _, o := range w.outcomes() {
		if o.Action == string(planner.Say) {
			all = append(all, w.scrub.Text(o.Text))
		}
	}
	if w.Execution == nil && len(w.Sending) > 0 {
		for _, c := range saying(w.Sending) {
			all = append(all, w.scrub.Text(c.Response))
		}
		w.note("%d of the messages that were being sent had been taken by the channel.", w.Sent)
		return all
	}
	left, known := w.left()
	if !known || w.Execution == nil || w.Execution.Plan.LastDo() == len(w.Execution.Plan.Commands)-1 {
		w.note("What had to be said in the end is not known; said was: %q.", all)
		return nil
	}
	for _, c := range left {
		if c.Kind == planner.Say {
			all = append(all, w.scrub.Text(c.Response))
		}
	}
	return all
}
