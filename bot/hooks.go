package bot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Hooks see, and may change or stop, what a plan does. A nil hook does nothing.
// An error of [Stop] ends the turn with that text; any other error is a failure
// of the turn. What is done again after a crash calls its hooks
// again. Turns call them at the same time.
type Hooks struct {
	// PlanReady sees each plan that was validated, before its first command, and
	// returns the plan to run. That one is validated again.
	PlanReady func(ctx context.Context, t *Turn, p plan.Plan) (plan.Plan, error)
	// BeforeDo sees each call just before it is made. With an error of [Refuse]
	// the call fails, and the model learns why.
	BeforeDo func(ctx context.Context, t *Turn, c actions.Call) error
	// AfterDo sees the result of each call that had no error, and returns the one
	// that counts: return the one it got where nothing is to change, so that it stays
	// [actions.Unchanged] if it was.
	AfterDo func(ctx context.Context, t *Turn, c actions.Call, result actions.Result) (actions.Result, error)
	// BeforeSay sees each text of a plan and returns what is said; a blank text is
	// not said.
	BeforeSay func(ctx context.Context, t *Turn, text string) (string, error)
	// BeforeSend sees each message that [Turn.Say] makes, before it is kept to be sent,
	// and may add to it what only the bot knows: citations ([activity.Activity.Cite]) of
	// sources that an action left in the turn's Temp, a sensitivity label, suggestions.
	BeforeSend func(ctx context.Context, t *Turn, m *activity.Activity)
	// AfterSay sees each text of a plan that was sent.
	AfterSay func(ctx context.Context, t *Turn, text string)

	// TurnEnded sees that a turn is over: what it changed is saved, what it said was sent,
	// and nothing of it is done again. failure is why it failed, if it did. A turn that is
	// parked, or left to another process, is not over. Where an approval was decided, that and
	// what followed it are a turn each. It can change nothing any more.
	TurnEnded func(ctx context.Context, t *Turn, failure error)

	// The next three are called when a turn ends in this failure, and return what
	// the person is told; "" leaves that to the bot.

	// UnknownAction: the model kept planning actions that there are not.
	UnknownAction func(ctx context.Context, t *Turn, fault *plan.Fault) string
	// ModelError: the model did not answer.
	ModelError func(ctx context.Context, t *Turn, fault *models.Error) string
	// TooManySteps: a limit was reached; fault is a [*LimitError] or an
	// [*actions.BudgetError].
	TooManySteps func(ctx context.Context, t *Turn, fault error) string
}

// stopError ends a turn as the bot's own code wants it.
type stopError struct{ say string }

func (e *stopError) Error() string { return "stopped by a hook" }

// Stop returns an error with which a hook ends the turn: text is all that the
// person is told, "" is silence. What ran before stays done.
func Stop(text string) error { return &stopError{text} }

// refusal is a call that a hook does not allow.
type refusal struct{ reason string }

func (e *refusal) Error() string { return e.reason }

// Reason is what the model and the person may read.
func (e *refusal) Reason() string { return e.reason }

// Refuse returns an error with which [Hooks.BeforeDo] makes a call fail, for a
// reason that the model and the person may read.
func Refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

func (r *run) planReady(ctx context.Context, p plan.Plan) (plan.Plan, error) {
	hook := r.turn.bot.cfg.Hooks.PlanReady
	if hook == nil || len(p.Commands) == 0 {
		return p, nil
	}
	r.changed = true
	p, err := hook(ctx, r.turn, p)
	if err != nil {
		return p, fmt.Errorf("hook PlanReady: %w", err)
	}
	if p, err = plan.Validate(p, r.turn.bot.cfg.Actions); err != nil {
		return p, fmt.Errorf("hook PlanReady: %w", err)
	}
	return p, nil
}

// beforeDo asks the hook about each of the calls; what it refuses has failed.
func (r *run) beforeDo(ctx context.Context, calls []call) error {
	hook := r.turn.bot.cfg.Hooks.BeforeDo
	if hook == nil {
		return nil
	}
	for i := range calls {
		if calls[i].err != nil {
			continue
		}
		err := hook(ctx, r.turn, r.describe(&calls[i]))
		if _, refused := errors.AsType[*refusal](err); refused {
			calls[i].err = err
		} else if err != nil {
			return fmt.Errorf("hook BeforeDo: %w", err)
		}
	}
	return nil
}

// gate is asked before each call that an action makes, such as a plan that is an
// action. Nobody can be asked for an approval there, but what was approved as a
// whole was approved with these calls on the card. What a call is bound to beside its
// entities was not on it, so a call that has such a thing is approved by itself only.
func (r *run) gate(ctx context.Context, c actions.Call) error {
	approval, err := r.turn.bot.cfg.Policy(ctx, r.turn.Turn, c)
	switch {
	case err != nil:
		return fmt.Errorf("approval policy: %w", err)
	case approval.Denied != "":
		return Refuse("%s", approval.Denied)
	case approval.Required && (!r.granted || approval.Bind != ""):
		return Refuse("%s needs the approval of a person, who cannot be asked within a plan", c.Action.Name)
	}
	if hook := r.turn.bot.cfg.Hooks.BeforeDo; hook != nil {
		return hook(ctx, r.turn, c)
	}
	return nil
}

func (r *run) afterDo(ctx context.Context, c *call) (actions.Result, error) {
	hook := r.turn.bot.cfg.Hooks.AfterDo
	if hook == nil {
		return c.result, nil
	}
	result, err := hook(ctx, r.turn, r.describe(c), c.result)
	if err != nil {
		return c.result, fmt.Errorf("hook AfterDo: %w", err) // the action ran all the same
	}
	return result, nil
}

// describe is the call as hooks and policies see it.
func (r *run) describe(c *call) actions.Call {
	return actions.Call{Action: c.action, Entities: maps.Clone(c.command.Entities), Salvaged: r.execution.Plan.Salvaged}
}

func (r *run) beforeSay(ctx context.Context, text string) (string, error) {
	hook := r.turn.bot.cfg.Hooks.BeforeSay
	if hook == nil {
		return text, nil
	}
	text, err := hook(ctx, r.turn, text)
	if err != nil {
		return "", fmt.Errorf("hook BeforeSay: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		r.hushed = true
		return "", nil
	}
	return text, nil
}

func (r *run) afterSay(ctx context.Context, texts []string) {
	if hook := r.turn.bot.cfg.Hooks.AfterSay; hook != nil {
		for _, text := range texts {
			hook(ctx, r.turn, text)
		}
	}
}

// ended tells the hook. Whatever it does, the turn is over, and the next one at the head of
// its lane.
func (h *Hooks) ended(ctx context.Context, t *Turn, failure error) {
	defer func() {
		if p := recover(); p != nil {
			zerolog.Ctx(ctx).Error().Str("error", fmt.Sprint(p)).Msg("the hook TurnEnded panicked")
		}
	}()
	if h.TurnEnded != nil {
		h.TurnEnded(ctx, t, failure)
	}
}

// instead is what a hook wants the person to be told of the failure, or "".
func (h *Hooks) instead(ctx context.Context, t *Turn, failure error) string {
	var fromModel *models.Error
	var noPlan *plan.Fault
	var limit *LimitError
	var budget *actions.BudgetError
	switch {
	case h.ModelError != nil && errors.As(failure, &fromModel):
		return h.ModelError(ctx, t, fromModel)
	case h.UnknownAction != nil && errors.As(failure, &noPlan) && noPlan.Kind == plan.UnknownAction:
		return h.UnknownAction(ctx, t, noPlan)
	case h.TooManySteps != nil && (errors.As(failure, &limit) || errors.As(failure, &budget)):
		return h.TooManySteps(ctx, t, failure)
	}
	return ""
}
