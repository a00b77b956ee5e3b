// Package background makes the calls of actions that take long beside the conversation, see [actions.Later].
package background

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot/turn"
)

const (
	name = "background"
	// most is how many calls of a person may be under way at once in a thread.
	most = 5
	// ended comes before the message for which the call was made. The model reads it.
	ended = "[What you started for this message has ended. Tell the person how it went.]\n"
)

// New returns the feature.
func New() turn.Feature {
	return turn.Feature{
		Name: name,
		Call: call,
		Handle: func(ctx context.Context, t *turn.Turn) error {
			return turn.SubmitOutcomes(ctx, t, name, ended+t.Text)
		},
	}
}

// call puts a call that may take long into a record of its own, and makes it there.
func call(
	ctx context.Context, t *turn.Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error),
) (actions.Result, error) {
	switch {
	case c.Action.Later == 0:
		return next(ctx, c)
	case turn.IsAlone(t):
		return makeNow(ctx, t, c, next)
	}
	all, err := turn.Unfinished(ctx, t)
	if err != nil {
		return actions.Result{}, err
	}
	underWay := 0
	for _, w := range all {
		if w.Record.Run != nil && w.Record.Run.Alone {
			underWay++
		}
	}
	if underWay >= most {
		return actions.Result{}, turn.Refuse("%d calls that take long are under way here already, so another one has to wait", underWay)
	}
	queued, err := turn.SubmitCall(ctx, t, name, c)
	if err != nil {
		return actions.Result{}, err
	}
	if !queued {
		return next(ctx, c)
	}
	return actions.Unchanged("%s", t.Translate("I've started this: %s. I'll tell you when it's done.", turn.Title(t, c.Action.Name))), nil
}

// makeNow makes the call, until its time is up or the person stops it. If it fails then, nobody knows what it did.
func makeNow(
	ctx context.Context, t *turn.Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error),
) (actions.Result, error) {
	bounded, cancel := context.WithTimeout(ctx, c.Action.Later)
	defer cancel()
	within, release := turn.UntilStopped(bounded, t)
	defer release()
	result, err := next(within, c)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return result, fmt.Errorf("%w: %w: %w", actions.ErrUncertain, context.Cause(within), err)
	}
	return result, err
}
