package turn

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
)

// Hooks see, and may change or stop, what a plan does. A nil hook does nothing. An error
// of [Stop] ends the turn with that text; any other error is a failure of the turn. What is
// done again after a crash calls its hooks again. Turns call them at the same time.
type Hooks struct {
	// Plan stands around the planner: next makes the plan, and its error is that of the
	// planner, such as a [*models.Error]. Return the plan to run, which is validated
	// again, or another one that answers in its place.
	Plan func(ctx context.Context, t *Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error)
	// Call stands around each call of an action: next makes it. Change the entities that
	// you hand to next, which are checked again; return another result than next's; or do
	// not call next. With an error of [Refuse] the call fails, and the model learns why.
	// Return the result that you got where nothing is to change, so that it stays
	// [actions.Unchanged] if it was. Calls of actions that are marked as Parallel come at
	// the same time.
	Call func(ctx context.Context, t *Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error)
	// BeforeSay sees each text of a plan and returns what is said; a blank text is not
	// said.
	BeforeSay func(ctx context.Context, t *Turn, text string) (string, error)
	// BeforeSend sees each message that [Turn.Say] makes, before it is kept to be sent, and
	// may add to it what only the bot knows: citations ([activity.Activity.Cite]) of
	// sources that an action left in the turn's Temp, a sensitivity label, suggestions.
	BeforeSend func(ctx context.Context, t *Turn, m *activity.Activity)
	// AfterSay sees each text of a plan that was sent.
	AfterSay func(ctx context.Context, t *Turn, text string)
	// Failed sees the failure of a turn and returns what the person is told; "" leaves
	// that to the bot. The failure may be a [*models.Error], a [*plan.Fault], a
	// [*LimitError] or an [*actions.BudgetError].
	Failed func(ctx context.Context, t *Turn, failure error) string
	// TurnEnded sees that a turn is over: what it changed is saved, what it said was sent,
	// and nothing of it is done again. failure is why it failed, if it did. A turn that
	// waits, or that is left to another process, is not over. It can change nothing any
	// more.
	TurnEnded func(ctx context.Context, t *Turn, failure error)
}

// stopError ends a turn as the bot's own code wants it.
type stopError struct{ say string }

func (e *stopError) Error() string { return "stopped by a hook" }

// Stop returns an error with which a hook ends the turn: text is all that the person is
// told, "" is silence. What ran before stays done.
func Stop(text string) error { return &stopError{text} }

// refusal is a call that a hook does not allow.
type refusal struct{ reason string }

func (e *refusal) Error() string { return e.reason }

// Reason is what the model and the person may read.
func (e *refusal) Reason() string { return e.reason }

// Refuse returns an error with which [Hooks.Call] makes a call fail, for a reason that the
// model and the person may read.
func Refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// failed is what a hook wants the person to be told of the failure, or "".
func (h *Hooks) failed(ctx context.Context, t *Turn, failure error) string {
	if h.Failed == nil {
		return ""
	}
	return h.Failed(ctx, t, failure)
}

// ended tells the hook. Whatever it does, the turn is over, and the next one at the head of
// its queue.
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
