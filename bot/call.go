package bot

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// overstay is how long a call may go on after the turn's time, or twice that time where
// that is less, before the turn ends without it.
const overstay = 10 * time.Second

// call is one call of an action, with its variables filled in and its entities
// checked, and then with what came of it.
type call struct {
	command plan.Command
	action  *actions.Action
	result  actions.Result
	granted bool  // a person approved it, now or for good
	err     error // what went wrong before or in the action
	took    time.Duration
}

// invoke makes the calls, at the same time when there are several, and reports whether
// they ended. Else they and what actions get of the turn are not touched any more: they
// belong to the calls for as long as those go on. Nobody can stop them.
func (r *run) invoke(ctx context.Context, calls []call) bool {
	ended := make(chan struct{})
	r.turn.bot.workers.work.Go(func() {
		defer close(ended)
		var running sync.WaitGroup
		for i := range calls[1:] {
			running.Go(func() { calls[i+1].make(r.attempt(ctx, i+1), r.turn.Turn) })
		}
		calls[0].make(r.attempt(ctx, 0), r.turn.Turn)
		running.Wait()
	})
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return wait(context.WithoutCancel(ctx), min(overstay, r.turn.bot.cfg.TurnTimeout), ended)
	}
}

// abandon ends the turn while its calls still go on. What they do is not known and what
// they change in state is not saved, so it is for an operator to look.
func (r *run) abandon(calls []call) error {
	var list []string
	for i := range calls {
		list = append(list, calls[i].command.Action)
	}
	if err := cmp.Or(r.turn.hold.Err(), r.turn.lane.Err()); err != nil && !r.turn.bot.embedded {
		return err // who goes on knows from the journal that they have begun
	}
	r.turn.uncertain = append(r.turn.uncertain, list...)
	return &parkError{
		reason: "an action did not end when the turn's time was over: " + strings.Join(list, ", "),
		say:    "Sorry, this took too long, and I could not stop it. I put it aside for whoever runs me.",
	}
}

// attempt tells the i-th of the next calls which one it is in the turn, whoever runs it.
func (r *run) attempt(ctx context.Context, i int) context.Context {
	return actions.WithAttempt(ctx, actions.Attempt{Key: fmt.Sprintf("%s.%d", r.turn.ID, r.steps+i), Again: i < r.again})
}

func (c *call) make(ctx context.Context, t *actions.Turn) {
	if c.err != nil {
		return
	}
	ctx, s := command(ctx, c.action)
	began := time.Now()
	c.result, c.err = c.action.Call(ctx, t, c.command.Entities)
	c.took = time.Since(began)
	if c.err == nil && c.result.Failed() {
		s.failed("refused")
	}
	s.end(c.err)
}
