package turn

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
)

// Hooks see what a plan does, and may change or stop it. A nil hook does nothing. An error of
// [Stop] ends the turn with that text; any other error fails the turn. What is repeated after a
// crash calls its hooks again. Concurrent turns call the hooks at the same time.
type Hooks struct {
	// Plan wraps the planner. next makes the plan; its error is the planner's, such as a
	// [*models.Error]. Return the plan to run, or another one in its place. It is validated again.
	Plan func(ctx context.Context, t *Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error)
	// Call wraps each call of an action; next makes it. You may pass other entities to next, which
	// are checked again; return another result than next's; or not call next. An error of [Refuse]
	// fails the call, and the model learns why. If you change nothing, return next's result itself,
	// so that it stays [actions.Unchanged] if it was. Actions marked as Parallel are called at the
	// same time.
	Call func(ctx context.Context, t *Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error)
	// BeforeSay sees each text of a plan and returns what to say. A blank text is not said.
	BeforeSay func(ctx context.Context, t *Turn, text string) (string, error)
	// BeforeSend sees each message of [Turn.Say] before it is saved to be sent. It may add what
	// only the bot knows: citations ([activity.Activity.Cite]) of sources that an action left in
	// the turn's Temp, a sensitivity label, suggestions.
	BeforeSend func(ctx context.Context, t *Turn, m *activity.Activity)
	// Failed sees the failure of a turn and returns what to tell the person; "" leaves that to the
	// bot. The failure may be a [*models.Error], a [*plan.Fault], a [*LimitError] or an
	// [*actions.BudgetError].
	Failed func(ctx context.Context, t *Turn, failure error) string
	// TurnEnded sees that a turn is over: its changes are saved, its messages are sent, and nothing
	// of it is repeated. failure is why it failed, if it did. A turn that waits, or that is left to
	// another process, is not over. TurnEnded can no longer change anything.
	TurnEnded func(ctx context.Context, t *Turn, failure error)
}

// stopError ends a turn because a hook asked for it.
type stopError struct{ say string }

func (e *stopError) Error() string { return "stopped by a hook" }

// Stop returns an error with which a hook ends the turn. The person reads only text; "" is silence.
// What ran before stays done.
func Stop(text string) error { return &stopError{text} }

// refusal says that a call is not allowed.
type refusal struct{ reason string }

func (e *refusal) Error() string { return e.reason }

// Reason is what the model and the person may read.
func (e *refusal) Reason() string { return e.reason }

// Refuse returns an error with which [Hooks.Call] fails a call. The model and the person may read
// the reason.
func Refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }
