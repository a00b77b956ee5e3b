package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

var errNoCommands = errors.New("the planner made an empty plan")

// nothingToTell is said when a plan has nothing but empty results to say.
const nothingToTell = "Done."

// planned is the default route: let the planner plan, run the plan, and plan
// again as long as the last plan ended in something that the model has to see.
func planned(ctx context.Context, t *Turn) error {
	t.secure()
	state.Of[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	t.run = &run{turn: t}
	return t.run.carryOn(ctx)
}

// run is the work on one message: plan after plan, until one comes to its end.
type run struct {
	turn      *Turn
	execution *plan.Progress // of the plan at work; nil: plan first
	steps     int            // calls of all plans that were made so far
	executed  []plan.Command // as they were run and said, for the history
	noted     string         // what it says of the turn beside that; may be ""
	same      map[string]int // how often each call was made
	approved  string         // hash of the next call, which a person approved
	again     int            // how many of the next calls were begun by a process that is gone
	inFlight  int            // how many are begun by this one
	unnoted   bool           // something was done outside of state that the journal does not have
	hushed    bool           // a hook took back what was to be said
	granted   bool           // the call at work was approved by a person
	changed   bool           // state may have changed since it was secured
}

// end says how far a plan was run.
type end int

const (
	onward  end = iota // to the next command
	replan             // the model has to see what happened before anything else
	over               // to its end
	waiting            // until a person approves the next command
	owing              // to its end, but its SAYs do not tell all there is to tell
)

// carryOn plans and runs until a plan is over or waits, or a hook stops the turn.
func (r *run) carryOn(ctx context.Context) error {
	r.turn.Gate = r.gate
	err := r.loop(ctx)
	stop, ok := errors.AsType[*stopError](err)
	if !ok {
		return err
	}
	if len(r.executed) > 0 { // else the model need not know
		r.remember()
	}
	r.turn.run = nil
	if stop.say == "" {
		return nil
	}
	return r.turn.Tell(ctx, stop.say)
}

func (r *run) loop(ctx context.Context) error {
	for {
		if r.execution == nil {
			if err := r.makePlan(ctx); err != nil {
				if !r.owes(ctx, err) {
					return err
				}
				zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("asking the model again failed, sending the actions' own results instead")
				return r.tellUnchanged(ctx)
			}
		}
		end, err := r.execute(ctx)
		if err != nil || end == waiting {
			return err
		}
		if end == over {
			r.remember()
			r.turn.run = nil
			return nil
		}
		limit := r.steps >= r.turn.bot.cfg.MaxSteps
		switch {
		case end == owing && (limit || !r.withhold()):
			return r.tellUnchanged(ctx)
		case limit:
			return &LimitError{Limit: LimitSteps}
		}
		r.execution = nil
		if err := r.note(ctx); err != nil {
			return err
		}
	}
}

// withhold notes that the last plan left something untold, so that the model is asked for
// it. It is false when that was done in this turn before.
func (r *run) withhold() bool {
	rounds := r.turn.Rounds
	if slices.ContainsFunc(rounds, func(o actions.Round) bool { return o.Withheld }) {
		return false
	}
	rounds[len(rounds)-1].Withheld = true
	return true
}

// owes reports whether the person has to read what came of the last plan, although err keeps
// the model from saying it.
func (r *run) owes(ctx context.Context, err error) bool {
	_, stopped := errors.AsType[*stopError](err)
	return r.turn.untold() != "" && !stopped && ctx.Err() == nil && !r.turn.bot.leaves(r.turn, err)
}

// tellUnchanged says in the actions' own words what found nothing to act on, and what was
// done beside it.
func (r *run) tellUnchanged(ctx context.Context) error {
	r.turn.Rounds[len(r.turn.Rounds)-1].Withheld = true
	text, err := r.beforeSay(ctx, r.turn.untold())
	if err != nil {
		return err
	}
	r.executed = append(r.executed, plan.Command{Kind: plan.Say, Response: text})
	r.remember()
	r.turn.run = nil
	if strings.TrimSpace(text) == "" {
		return nil // as a hook wants it
	}
	if err := r.turn.Tell(ctx, text); err != nil {
		return err
	}
	r.turn.done = true
	r.afterSay(ctx, []string{text})
	return nil
}

// untold is what the commands of the turn's last plans have said that found nothing to act
// on, and what those plans have done, when the model was to tell it and did not.
func (t *Turn) untold() string {
	if len(t.Rounds) == 0 || !t.Rounds[len(t.Rounds)-1].Withheld {
		return ""
	}
	var texts, did []string
	for _, round := range t.Rounds[slices.IndexFunc(t.Rounds, func(o actions.Round) bool { return o.Withheld }):] {
		for _, o := range round.Outcomes {
			switch {
			case o.Unchanged && !slices.Contains(texts, o.Text):
				texts = append(texts, o.Text)
			case !o.Unchanged && !o.Failed && o.Action != string(plan.Say):
				did = append(did, o.Action)
			}
		}
	}
	text := strings.Join(texts, " ")
	if len(did) > 0 {
		text += " I did this: " + strings.Join(did, ", ") + "."
	}
	return text
}

// note writes down what was done since the last write, if that was anything outside
// of state: it is not to be done again by whoever goes on.
func (r *run) note(ctx context.Context) error {
	if !r.unnoted {
		return nil
	}
	return r.writeDown(ctx, 0)
}

// writeDown saves state and journal in one step, with the next calls as begun.
func (r *run) writeDown(ctx context.Context, inFlight int) error {
	r.inFlight = inFlight
	err := r.turn.save(ctx)
	r.unnoted = r.unnoted && err != nil
	return err
}

// makePlan asks the planner for the next plan. One that goes over the limit of
// steps is not begun.
func (r *run) makePlan(ctx context.Context) error {
	if r.turn.Usage.Messages >= r.turn.Budget.Messages {
		return &LimitError{Limit: LimitSays} // nothing that the model writes could be sent
	}
	p, err := r.ask(ctx)
	if err != nil {
		r.turn.bot.meter.noPlan(err)
		return fmt.Errorf("plan: %w", err)
	}
	r.turn.bot.meter.plan(p)
	if p, err = r.planReady(ctx, p); err != nil {
		return err
	}
	if len(p.Commands) == 0 {
		return fmt.Errorf("plan: %w", errNoCommands)
	}
	if r.steps+p.Calls() > r.turn.bot.cfg.MaxSteps {
		return &LimitError{Limit: LimitSteps}
	}
	if r.turn.Usage.Messages+p.Says() > r.turn.Budget.Messages { // a planner of its own, or a hook
		return &LimitError{Limit: LimitSays}
	}
	r.execution = plan.NewProgress(p, nil)
	r.turn.gotFurther()
	r.turn.Rounds = append(r.turn.Rounds, actions.Round{Preface: p.Preface})
	return nil
}

// ask lets the planner make a plan.
func (r *run) ask(ctx context.Context) (p plan.Plan, err error) {
	ctx, s := step(ctx, "plan")
	defer func() { s.end(err) }()
	s.text("gen_ai.operation.name", "plan")
	p, err = r.turn.bot.cfg.Planner.Plan(ctx, r.turn.Turn)
	s.number("planbot.plan.commands", len(p.Commands))
	return p, err
}

// execute runs the commands that are left, in order. The model has to see what
// happened when an action failed, when it asked for it, or when the last command
// put out something that nothing came after.
func (r *run) execute(ctx context.Context) (end, error) {
	e := r.execution
	lastDo := e.Plan.LastDo()
	for !e.Done() {
		if e.Plan.Commands[e.Next].Kind == plan.Do {
			if end, err := r.do(ctx); err != nil || end != onward {
				return end, err
			}
			continue
		}
		if e.Next > lastDo && !e.Owes() {
			return over, r.sayLast(ctx)
		}
		if err := r.say(ctx); err != nil {
			return over, err
		}
	}
	if e.Owes() && !e.Plan.Observe {
		return owing, nil
	}
	if e.Plan.Observe || r.lastOutcome().Text != "" {
		return replan, nil
	}
	return over, nil
}

// say sends a SAY that other commands follow.
func (r *run) say(ctx context.Context) error {
	c, err := r.nextText(ctx)
	if err != nil || c.Response == "" {
		return err // or its variables are results with nothing to tell
	}
	r.executed = append(r.executed, c)
	r.report(actions.Outcome{Action: string(plan.Say), Text: c.Response})
	return r.speak(ctx, c.Response)
}

// sayLast sends the SAYs that end a plan. The turn's place in the history is
// written first, so that one save keeps all of the turn. Where all that was to be
// said are results with nothing to tell, it is said that they are done: no plan
// comes this far when anything failed.
func (r *run) sayLast(ctx context.Context) error {
	var texts []string
	for !r.execution.Done() {
		c, err := r.nextText(ctx)
		if err != nil {
			return err
		}
		if c.Response == "" {
			continue
		}
		r.executed = append(r.executed, c)
		texts = append(texts, c.Response)
	}
	if len(texts) == 0 && !r.hushed {
		texts = []string{nothingToTell}
		r.executed = append(r.executed, plan.Command{Kind: plan.Say, Response: nothingToTell})
	}
	r.remember()
	r.turn.run = nil // what is left is in the outbox
	if len(texts) == 0 {
		return nil
	}
	err := r.speak(ctx, texts...)
	r.turn.done = err == nil
	return err
}

// nextText takes the next command, a SAY, as it is to be said: with "" when there
// is nothing to say.
func (r *run) nextText(ctx context.Context) (plan.Command, error) {
	if r.execution.Withheld(r.execution.Next) {
		zerolog.Ctx(ctx).Info().Msg("SAY withheld: an earlier command found nothing to act on")
		return plan.Command{}, r.execution.Advance(actions.Done)
	}
	c, err := r.execution.Command(r.execution.Next)
	if err != nil {
		return c, &LimitError{Limit: LimitText}
	}
	if err := r.execution.Advance(actions.Done); err != nil {
		return c, err
	}
	if strings.TrimSpace(c.Response) == "" {
		c.Response = ""
		return c, nil
	}
	r.turn.Usage.Messages++
	text, err := r.beforeSay(ctx, c.Response)
	c.Response = text
	return c, err
}

// speak sends the texts. The write before that notes what was done until then.
func (r *run) speak(ctx context.Context, texts ...string) error {
	r.inFlight, r.unnoted = 0, false
	if err := r.turn.Say(ctx, texts...); err != nil {
		return err
	}
	r.changed = true // by the hooks, and it was saved
	r.afterSay(ctx, texts)
	return nil
}

// report adds to what the planner gets to see.
func (r *run) report(o actions.Outcome) {
	round := &r.turn.Rounds[len(r.turn.Rounds)-1]
	round.Outcomes = append(round.Outcomes, o)
}

// lastOutcome is the newest of this plan.
func (r *run) lastOutcome() actions.Outcome {
	outcomes := r.turn.Rounds[len(r.turn.Rounds)-1].Outcomes
	if len(outcomes) == 0 {
		return actions.Outcome{}
	}
	return outcomes[len(outcomes)-1]
}

// remember adds the turn to the conversation's history, once.
func (r *run) remember() {
	if r.turn.recorded {
		return
	}
	r.turn.remember(plan.Transcript(r.executed), r.noted)
}

// remember adds what was asked and answered to the conversation's history, and a
// note of the bot itself; "" stands for no answer and no note.
func (t *Turn) remember(answer, note string) {
	said := prompts.Turn{From: t.Activity.From.ID, Messages: []prompts.Message{{Role: prompts.User, Text: t.Text}}}
	if !t.Activity.Conversation.Personal() {
		said.Name = t.Activity.From.Name
	}
	if answer != "" {
		said.Messages = append(said.Messages, prompts.Message{Role: prompts.Assistant, Text: answer})
	}
	if note != "" {
		said.Messages = append(said.Messages, prompts.Message{Role: prompts.System, Text: note})
	}
	state.Of[prompts.History](t.Thread).Append(said, prompts.Limits{})
	t.recorded = true
}
