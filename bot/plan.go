package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

var (
	// errTooManySteps ends a turn whose plans never come to an end.
	errTooManySteps = errors.New("too many steps in one turn")
	errNoCommands   = errors.New("the planner made an empty plan")
)

// planned is the default route: let the planner plan, run the plan, and plan
// again as long as the last plan ended in something that the model has to see.
func planned(ctx context.Context, t *Turn) error {
	state.Of[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	r := &run{turn: t}
	for {
		plan, err := t.bot.cfg.Planner.Plan(ctx, t.Turn)
		if err == nil && len(plan.Commands) == 0 {
			err = errNoCommands
		}
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		again, err := r.plan(ctx, plan)
		if err != nil {
			return err
		}
		if !again {
			r.remember()
			return nil
		}
		if r.steps >= t.bot.cfg.MaxSteps {
			return errTooManySteps
		}
	}
}

// nothingToTell is said when a plan has nothing but empty results to say.
const nothingToTell = "Done."

// run is the state of a plan being run.
type run struct {
	turn      *Turn
	variables planner.Variables // of the plan that is run; nil when it saves nothing
	steps     int
	executed  []planner.Command // as they were run and said, for the history
	recorded  bool
}

// plan runs the commands in order. It returns true when the model has to see
// what happened before anything else is done: an action failed, asked for it,
// or put out something that nothing came after.
func (r *run) plan(ctx context.Context, p planner.Plan) (again bool, err error) {
	r.turn.Rounds = append(r.turn.Rounds, actions.Round{Preface: p.Preface})
	if r.steps += len(p.Commands); r.steps > r.turn.bot.cfg.MaxSteps {
		return false, errTooManySteps // and none of them runs
	}
	r.variables = nil
	if p.Saves() {
		r.variables = planner.Variables{}
	}
	lastDo := p.LastDo()
	for i, command := range p.Commands {
		if command.Kind == planner.Say {
			if i > lastDo {
				return false, r.sayLast(ctx, p.Commands[i:])
			}
			if err := r.say(ctx, command); err != nil {
				return false, err
			}
			continue
		}
		result, err := r.do(ctx, command)
		if err != nil {
			return false, err
		}
		if result.Failed() || result.Observe() {
			return true, nil
		}
		again = result.Text() != "" && i == len(p.Commands)-1
	}
	return again, nil
}

// do runs one action. Whatever goes wrong in it is a failed outcome, which the
// model sees in words that are safe to repeat; only the end of the turn's time
// is an error.
func (r *run) do(ctx context.Context, c planner.Command) (actions.Result, error) {
	began := time.Now()
	result, err := r.call(ctx, &c)
	if err != nil && ctx.Err() != nil {
		r.turn.uncertain = c.Action
		return result, ctx.Err()
	}
	log := zerolog.Ctx(ctx).Debug()
	if err != nil {
		log = zerolog.Ctx(ctx).Error().Str("error", cause(err))
		result = actions.Fail("%s", safeReason(err))
	}
	log.Str("action", c.Action).Bool("failed", result.Failed()).Dur("took", time.Since(began)).Msg("action ran")
	r.record(c, result)
	return result, ctx.Err()
}

// call fills in the variables, checks the entities and calls the action.
func (r *run) call(ctx context.Context, c *planner.Command) (actions.Result, error) {
	action, ok := r.turn.bot.cfg.Actions.Lookup(c.Action)
	if !ok {
		return actions.Result{}, fmt.Errorf("no action %s", c.Action)
	}
	if action.Approval {
		return actions.Fail("it needs the approval of a person, which this bot cannot ask for"), nil
	}
	if r.variables != nil {
		c.Entities = r.variables.ExpandEntities(c.Entities)
	}
	entities, err := action.Check(c.Entities)
	if err != nil {
		return actions.Result{}, err
	}
	c.Entities = entities
	result, err := action.Call(ctx, r.turn.Turn, entities)
	if err != nil {
		return actions.Result{}, err
	}
	for _, scope := range r.turn.scopes {
		if err := scope.Err(); err != nil {
			return actions.Result{}, fmt.Errorf("read state: %w", err)
		}
	}
	if c.SaveAs == "" || result.Failed() {
		return result, nil
	}
	value, err := result.Value()
	if err != nil {
		return actions.Result{}, fmt.Errorf("save result as %s: %w", c.SaveAs, err)
	}
	r.variables.Set(c.SaveAs, value)
	return result, nil
}

// record keeps what happened for the model, the history and the person.
func (r *run) record(c planner.Command, result actions.Result) {
	outcome := actions.Outcome{Action: c.Action, Entities: c.Entities, Text: result.Text(), Failed: result.Failed(), CallID: c.CallID}
	r.report(outcome)
	if outcome.Failed {
		return
	}
	r.executed = append(r.executed, c)
	if action, ok := r.turn.bot.cfg.Actions.Lookup(c.Action); ok && action.StateOnly {
		r.turn.unsaved = append(r.turn.unsaved, outcome)
	} else {
		r.turn.kept = append(r.turn.kept, outcome)
	}
}

// report adds to what the planner gets to see.
func (r *run) report(o actions.Outcome) {
	round := &r.turn.Rounds[len(r.turn.Rounds)-1]
	round.Outcomes = append(round.Outcomes, o)
}

// say sends a SAY that other commands follow.
func (r *run) say(ctx context.Context, c planner.Command) error {
	c.Response = r.expand(c.Response)
	if strings.TrimSpace(c.Response) == "" {
		return nil // its variables are results with nothing to tell
	}
	r.executed = append(r.executed, c)
	r.report(actions.Outcome{Action: string(planner.Say), Text: c.Response})
	return r.turn.Say(ctx, c.Response)
}

// sayLast sends the SAYs that end a plan. The turn's place in the history is
// written first, so that one save keeps all of the turn. Where all that was to be
// said are results with nothing to tell, it is said that they are done: no plan
// comes this far when anything failed.
func (r *run) sayLast(ctx context.Context, commands []planner.Command) error {
	var texts []string
	for _, c := range commands {
		c.Response = r.expand(c.Response)
		if strings.TrimSpace(c.Response) == "" {
			continue
		}
		r.executed = append(r.executed, c)
		texts = append(texts, c.Response)
	}
	if len(texts) == 0 {
		texts = []string{nothingToTell}
		r.executed = append(r.executed, planner.Command{Kind: planner.Say, Response: nothingToTell})
	}
	r.remember()
	err := r.turn.Say(ctx, texts...)
	r.turn.done = err == nil
	return err
}

// expand fills in the variables, in a plan that has any.
func (r *run) expand(text string) string {
	if r.variables == nil {
		return text
	}
	return r.variables.ExpandText(text)
}

// remember adds the turn to the conversation's history, once.
func (r *run) remember() {
	if r.recorded {
		return
	}
	r.recorded = true
	said := prompts.Turn{From: r.turn.Activity.From.ID, Messages: []prompts.Message{{Role: prompts.User, Text: r.turn.Text}}}
	if !r.turn.Activity.Conversation.Personal() {
		said.Name = r.turn.Activity.From.Name
	}
	if answer := planner.Transcript(r.executed); answer != "" {
		said.Messages = append(said.Messages, prompts.Message{Role: prompts.Assistant, Text: answer})
	}
	r.turn.rememberPlace()
	history := state.Of[prompts.History](r.turn.Thread)
	if last := len(history.Turns) - 1; last >= 0 && r.turn.again && history.Turns[last].From == said.From {
		history.Turns = history.Turns[:last] // by the attempt before this one
	}
	history.Append(said, prompts.Limits{})
}

// takeBack removes from the history what an attempt of this turn left there,
// though the turn failed.
func (t *Turn) takeBack() {
	history := state.Of[prompts.History](t.Thread)
	if last := len(history.Turns) - 1; last >= 0 && history.Turns[last].From == t.Activity.From.ID {
		history.Turns = history.Turns[:last]
	}
}
