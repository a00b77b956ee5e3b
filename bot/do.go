package bot

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// do runs the next DO, or as many of the next ones as may run at the same time.
// Whatever goes wrong in an action is a failed outcome, which the model sees in
// words that are safe to repeat; only the end of the turn's time, and what the
// hooks of the bot say, is an error.
func (r *run) do(ctx context.Context) (end, error) {
	calls, approval, err := r.prepare(ctx)
	if err != nil {
		return over, err
	}
	if approval.Required {
		return r.pause(ctx, &calls[0], approval)
	}
	if err := r.beforeDo(ctx, calls); err != nil {
		return over, err
	}
	if err := r.announce(ctx, calls); err != nil {
		return over, err
	}
	if r.changed || r.turn.bot.cfg.Hooks.BeforeDo != nil {
		r.turn.secure()
	}
	if !r.invoke(ctx, calls) {
		return over, r.abandon(calls)
	}
	r.turn.gotFurther()
	r.changed, r.again, r.inFlight, r.approved = true, 0, 0, ""
	how, err := r.settle(ctx, calls)
	if err != nil {
		r.noteLate(ctx, how)
	}
	return how, err
}

// noteLate writes down what was done by calls that ended although the turn was cut off
// at the end of its process: whoever goes on does not do it again.
func (r *run) noteLate(ctx context.Context, how end) {
	if r.turn.bot.workers.ctx.Err() == nil || len(r.turn.uncertain) > 0 {
		return
	}
	if how == replan {
		r.execution = nil
	}
	late, cancel := r.turn.bot.workers.outlive(ctx, settleWithin)
	defer cancel()
	if err := r.note(late); err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("what was done in the end is not written down")
	}
}

// announce writes down that the calls are about to be made, if any of them does
// something outside of state: then whoever goes on knows that it may be done. What
// comes before is written down in the same step.
func (r *run) announce(ctx context.Context, calls []call) error {
	outside := false
	for i := range calls {
		outside = outside || calls[i].err == nil && !calls[i].action.StateOnly
	}
	if !outside {
		return r.note(ctx)
	}
	if err := r.writeDown(ctx, len(calls)); err != nil {
		return err
	}
	r.unnoted = true
	return nil
}

// prepare checks the next calls, as many as may be made at the same time: at
// least one, and one alone when it is wrong, or was or has to be approved, since what
// a person granted is for that call and for no other.
func (r *run) prepare(ctx context.Context) ([]call, actions.Approval, error) {
	r.granted = false
	calls := make([]call, 0, 1)
	for i := range r.execution.Together(r.parallel) {
		c := r.check(r.execution.Next + i)
		approval := actions.Approval{}
		if c.err == nil {
			approved := ""
			if i == 0 {
				approved = r.approved
			}
			var err error
			if approval, err = r.approval(ctx, &c, approved); err != nil {
				return nil, approval, err
			}
		}
		alone := c.err != nil || approval.Required || c.granted
		if alone && i > 0 {
			break // it is the first, next time
		}
		calls = append(calls, c)
		if alone {
			r.granted = c.granted
			return calls, approval, nil
		}
	}
	return calls, actions.Approval{}, nil
}

// parallel reports whether the DO may run beside others of its plan.
func (r *run) parallel(c plan.Command) bool {
	action, ok := r.turn.bot.cfg.Actions.Lookup(c.Action)
	return ok && action.Parallel
}

// check makes a call of the DO at that index, with its variables filled in.
func (r *run) check(index int) call {
	c, err := r.execution.Command(index)
	if err != nil {
		return call{command: c, err: &refusal{err.Error()}}
	}
	action, ok := r.turn.bot.cfg.Actions.Lookup(c.Action)
	if !ok {
		return call{command: c, err: fmt.Errorf("no action %s", c.Action)}
	}
	entities, err := action.Check(c.Entities)
	if err == nil {
		c.Entities = entities
	}
	return call{command: c, action: action, err: err}
}

// settle records what came of the calls, in their order, and says how the plan
// goes on.
func (r *run) settle(ctx context.Context, calls []call) (end, error) {
	how := onward
	var stop error
	for i := range calls {
		c := &calls[i]
		r.steps++
		if c.err != nil && ctx.Err() != nil {
			r.turn.uncertain = append(r.turn.uncertain, c.command.Action)
			r.turn.bot.meter.action(c, "cut_off")
			continue
		}
		stop = cmp.Or(stop, r.finish(ctx, c))
		if c.result.Failed() {
			how = replan
			if len(calls) == 1 { // those that run together change no state
				r.turn.undo()
			}
		}
		r.record(c)
		if how != onward {
			continue
		}
		if err := r.execution.Advance(c.result); err != nil {
			return over, err
		}
		if c.result.Stops(c.command.Named()) && !r.execution.Plan.Observe {
			how = replan
		}
	}
	if how == replan {
		r.leaveOut()
	}
	return how, cmp.Or(ctx.Err(), stop, r.circles(calls))
}

// finish turns whatever went wrong in a call into a result. The error is of a
// hook, and ends the turn.
func (r *run) finish(ctx context.Context, c *call) (stop error) {
	if c.err == nil {
		c.result, stop = r.afterDo(ctx, c)
	}
	for _, scope := range r.turn.scopes {
		if err := scope.Err(); err != nil && c.err == nil {
			c.err = fmt.Errorf("read state: %w", err)
		}
	}
	if _, err := c.result.Value(); err != nil && c.err == nil {
		c.err = fmt.Errorf("read result: %w", err)
	}
	log := zerolog.Ctx(ctx).Debug()
	if c.err != nil {
		log = zerolog.Ctx(ctx).Error().Str("error", cause(c.err))
		c.result = actions.Fail("%s", safeReason(c.err))
	}
	log.Str("action", c.command.Action).Bool("failed", c.result.Failed()).Dur("took", c.took).Msg("action ran")
	r.turn.bot.meter.action(c, okOrFailed(c.result.Failed()))
	return stop
}

// record keeps what happened for the model, the history and the person.
func (r *run) record(c *call) {
	outcome := actions.Outcome{
		Action: c.command.Action, Entities: c.command.Entities, CallID: c.command.CallID,
		Text: shown(c.result.Text()), Failed: c.result.Failed(), Unchanged: c.result.Unchanged(),
	}
	r.report(outcome)
	r.turn.shorten()
	if outcome.Failed {
		return
	}
	done := c.command
	outcome.Text = cut(outcome.Text, maxExecuted)
	done.Result = outcome.Text
	r.executed = append(r.executed, done)
	switch {
	case outcome.Unchanged: // nothing was done
	case c.action.StateOnly:
		r.turn.unsaved = append(r.turn.unsaved, outcome)
	default:
		r.turn.kept = append(r.turn.kept, outcome)
	}
}

const (
	// maxResult is how many bytes of a result the model is shown: a page of a skill's
	// resource with what is said about it.
	maxResult = 66 << 10
	// maxExecuted is how many of them are kept for the history, which shortens them further.
	maxExecuted = 2 << 10
	// maxResults is how many bytes the results of one turn may have together: they are
	// written down with each step. Beyond it the oldest long ones are cut to maxOld.
	maxResults = 320 << 10
	maxOld     = 1 << 10
)

// shorten cuts old results, so that a turn with many long ones still comes to its end.
func (t *Turn) shorten() {
	total := 0
	for _, o := range t.Outcomes() {
		total += len(o.Text)
	}
	for i := range t.Rounds {
		outcomes := t.Rounds[i].Outcomes
		for j := range outcomes {
			if total <= maxResults {
				return
			}
			short := cut(outcomes[j].Text, maxOld)
			total -= len(outcomes[j].Text) - len(short)
			outcomes[j].Text = short
		}
	}
}

// shown is what the model sees of a result; its end is marked when it is cut.
func shown(text string) string { return cut(text, maxResult) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " […]"
}

// leaveOut answers the calls of the model that come after one that failed: each
// of them waits for an answer.
func (r *run) leaveOut() {
	e := r.execution
	for i := e.Next; i < len(e.Plan.Commands); i++ {
		c := e.Plan.Commands[i]
		if c.CallID == "" || r.answered(c.CallID) {
			continue
		}
		r.report(actions.Outcome{
			Action: c.Action, Entities: c.Entities, CallID: c.CallID, Failed: true,
			Text: "not run, because an earlier call failed",
		})
	}
}

func (r *run) answered(callID string) bool {
	for _, o := range r.turn.Rounds[len(r.turn.Rounds)-1].Outcomes {
		if o.CallID == callID {
			return true
		}
	}
	return false
}
