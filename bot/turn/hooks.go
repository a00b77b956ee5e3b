package turn

import (
	"cmp"
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
	// only the bot knows: a sensitivity label, suggestions, citations beyond those of
	// [actions.Turn.Cite].
	BeforeSend func(ctx context.Context, t *Turn, m *activity.Activity)
	// Failed sees the failure of a turn and returns what to tell the person; "" leaves that to the
	// bot. The failure may be a [*models.Error], a [*plan.Fault], a [*LimitError] or an
	// [*actions.BudgetError], or wrap [moderation.ErrUnjudged].
	Failed func(ctx context.Context, t *Turn, failure error) string
	// TurnEnded sees that a turn is over: its changes are saved, its messages are sent, and nothing
	// of it is repeated. failure is why it failed, if it did. A turn that waits, or that is left to
	// another process, is not over. TurnEnded can no longer change anything.
	TurnEnded func(ctx context.Context, t *Turn, failure error)
}

// Around returns hooks that run h around inner, which is closer to what happens: inner sees a call
// as h passes it on, and h sees plans, results, texts and messages as inner leaves them. For a
// failure, what h says counts before what inner says.
func (h Hooks) Around(inner Hooks) Hooks {
	both := h
	switch {
	case h.Plan == nil:
		both.Plan = inner.Plan
	case inner.Plan != nil:
		both.Plan = func(ctx context.Context, t *Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
			return h.Plan(ctx, t, func(ctx context.Context) (plan.Plan, error) { return inner.Plan(ctx, t, next) })
		}
	}
	switch {
	case h.Call == nil:
		both.Call = inner.Call
	case inner.Call != nil:
		both.Call = func(ctx context.Context, t *Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error) {
			return h.Call(ctx, t, c, func(ctx context.Context, c actions.Call) (actions.Result, error) { return inner.Call(ctx, t, c, next) })
		}
	}
	switch {
	case h.BeforeSay == nil:
		both.BeforeSay = inner.BeforeSay
	case inner.BeforeSay != nil:
		both.BeforeSay = func(ctx context.Context, t *Turn, text string) (string, error) {
			text, err := inner.BeforeSay(ctx, t, text)
			if err != nil {
				return text, err
			}
			return h.BeforeSay(ctx, t, text)
		}
	}
	switch {
	case h.BeforeSend == nil:
		both.BeforeSend = inner.BeforeSend
	case inner.BeforeSend != nil:
		both.BeforeSend = func(ctx context.Context, t *Turn, m *activity.Activity) {
			inner.BeforeSend(ctx, t, m)
			h.BeforeSend(ctx, t, m)
		}
	}
	switch {
	case h.Failed == nil:
		both.Failed = inner.Failed
	case inner.Failed != nil:
		both.Failed = func(ctx context.Context, t *Turn, failure error) string {
			return cmp.Or(h.Failed(ctx, t, failure), inner.Failed(ctx, t, failure))
		}
	}
	switch {
	case h.TurnEnded == nil:
		both.TurnEnded = inner.TurnEnded
	case inner.TurnEnded != nil:
		both.TurnEnded = func(ctx context.Context, t *Turn, failure error) {
			inner.TurnEnded(ctx, t, failure)
			h.TurnEnded(ctx, t, failure)
		}
	}
	return both
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
