package bottest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/planner/plan"
)

// Call is one call of an action by a plan.
type Call struct {
	Of
	Seq      int // its place among all that happened in the kit
	Replica  int
	Action   string
	Entities map[string]any
	// Result is what came of it. Ended is false of a call that is under way, was cut off
	// or ended in a Go error or a panic.
	Result actions.Result
	Ended  bool
}

// Calls returns the calls of actions so far, as far as they were seen: see [Parts].Bot.
func (k *Kit) Calls() []Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Call(nil), k.calls...)
}

// hooks watch what the process does, and freeze it once it is dead.
func (p *process) hooks() bot.Hooks {
	return bot.Hooks{
		PlanReady: func(_ context.Context, t *bot.Turn, made plan.Plan) (plan.Plan, error) {
			p.kit.hooked.Store(true)
			raw, err := json.Marshal(made.Commands)
			p.kit.note(entry{Of: ofTurn(t), kind: "plan", text: string(raw)})
			return made, err
		},
		BeforeDo: func(ctx context.Context, t *bot.Turn, c actions.Call) error {
			if err := p.freeze(ctx); err != nil {
				return err
			}
			p.kit.calling(p, ofTurn(t), c)
			return nil
		},
		AfterDo: func(ctx context.Context, t *bot.Turn, c actions.Call, result actions.Result) (actions.Result, error) {
			p.kit.called(p, ofTurn(t), c, result)
			return result, p.freeze(ctx)
		},
	}
}

// freeze holds a dead process where it died.
func (p *process) freeze(ctx context.Context) error {
	if !p.dead.Load() {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("the process is dead: %w", ctx.Err())
}

func ofTurn(t *bot.Turn) Of {
	return Of{t.ID, t.Activity.Conversation.ID, t.Activity.ID}
}

func (k *Kit) calling(p *process, of Of, c actions.Call) {
	seq := k.note(entry{Of: of, kind: "calls", text: describeCall(c)})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, Call{Of: of, Seq: seq, Replica: p.replica, Action: c.Action.Name, Entities: c.Entities})
}

// called notes the end of a call, and has the process die if it was the one for that.
func (k *Kit) called(p *process, of Of, c actions.Call, result actions.Result) {
	text := result.Text()
	if result.Failed() {
		text = "failed: " + text
	}
	k.note(entry{Of: of, kind: "result", text: c.Action.Name + " " + text})
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.calls {
		if one := &k.calls[i]; !one.Ended && one.Turn == of.Turn && one.Replica == p.replica && one.Action == c.Action.Name {
			one.Result, one.Ended = result, true
			break
		}
	}
	if k.crashAt > 0 && len(k.finished()) >= k.crashAt {
		k.crashAt = 0
		k.note(entry{kind: "killed", text: fmt.Sprint("replica ", p.replica)})
		p.kill()
	}
}

// finished are the calls that ended. k.mu is held.
func (k *Kit) finished() []Call {
	var ended []Call
	for _, c := range k.calls {
		if c.Ended {
			ended = append(ended, c)
		}
	}
	return ended
}

func describeCall(c actions.Call) string {
	raw, err := json.Marshal(c.Entities)
	if err != nil {
		return c.Action.Name
	}
	return c.Action.Name + " " + string(raw)
}
