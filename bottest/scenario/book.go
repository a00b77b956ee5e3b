package scenario

import (
	"context"
	"strings"
	"sync"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest"
)

// book has the calls of actions that were made, and what the scenario says of them. It
// stands for the services behind the actions: it outlives the bot's processes and knows a
// call that is made again by its key.
type book struct {
	run *run

	mu      sync.Mutex
	calls   []made
	outcome map[string]scripted // by the key of the call
	tickets map[string]bool
}

// made is a call that was made.
type made struct {
	bottest.Of
	action   string
	entities map[string]any
	result   string
	failed   bool
}

// scripted is what an action gives back.
type scripted struct {
	result    any
	fails     string  // why; "": it does not
	unchanged *string // what it says when it finds nothing to act on
}

// registry is the bot's, with the actions doing what the scenario says.
func (b *book) registry(of *actions.Registry, replica int) (*actions.Registry, error) {
	out := actions.New()
	builtin := actions.New()
	lists.Register(builtin)
	for _, a := range of.All() {
		one := &act{book: b, replica: replica, name: a.Name}
		one.effect, _ = builtin.Lookup(a.Name)
		added, err := actions.AddSchema(out, a.Name, a.Description, a.Schema, one.call)
		if err != nil {
			return nil, err
		}
		added.Destructive, added.Approval, added.ReturnsData = a.Destructive, a.Approval, a.ReturnsData
	}
	return out, nil
}

// act is an action in one process of the bot.
type act struct {
	book    *book
	replica int
	name    string
	effect  *actions.Action // on lists; nil: it has none
}

// call makes one call. One that was made before, by a process that is dead now, is not
// made again: it has the same result.
func (a *act) call(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	script, nth := a.book.enter(bottest.OfContext(ctx), actions.AttemptOf(ctx).Key, a.name, entities)
	if s := a.book.run.stage.Load(); s.crash > 0 && nth == s.calls+s.crash {
		defer a.book.run.kit.Kill(a.replica) // nothing of the call is written down
	}
	if why, ok := strings.CutPrefix(script.fails, "panic"); ok {
		panic(strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(why, ":")), " "))
	}
	if script.fails != "" {
		return actions.Fail("%s", script.fails), nil
	}
	if a.effect != nil {
		own := &actions.Turn{ID: turn.ID, Activity: turn.Activity, Text: turn.Text, Conversation: turn.Conversation, Thread: turn.Thread, User: turn.Conversation, Temp: turn.Temp}
		if _, err := a.effect.Call(ctx, own, entities); err != nil {
			return actions.Result{}, err
		}
	}
	if script.unchanged != nil {
		return actions.Unchanged("%s", *script.unchanged), nil
	}
	switch result := script.result.(type) {
	case nil:
		return actions.Done, nil
	case string:
		return actions.Text("%s", result), nil
	default:
		return actions.JSON(result), nil
	}
}

// enter finds what the call gives back, and notes it unless it is known. nth is which call
// it is of those that were made; 0: it was made before.
func (b *book) enter(of bottest.Of, key, name string, entities map[string]any) (script scripted, nth int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, again := b.outcome[key]; again {
		return known, 0
	}
	if b.outcome == nil {
		b.outcome, b.tickets = map[string]scripted{}, map[string]bool{}
	}
	script = b.run.stage.Load().scriptOf(of, name, entities)
	b.outcome[key] = script
	b.calls = append(b.calls, made{of, name, entities, textOf(script.result), script.fails != ""})
	if name == "createTicket" && script.fails == "" {
		b.tickets[key] = true
	}
	return script, len(b.calls)
}

// all are the calls so far.
func (b *book) all() []made {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]made(nil), b.calls...)
}

func (b *book) opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tickets)
}

// calls are those that were made so far: of scripted actions, or as the kit saw them.
func (r *run) calls() []made {
	if r.cfg.Scripted {
		return r.book.all()
	}
	var all []made
	for _, c := range r.kit.Calls() {
		all = append(all, made{c.Of, c.Action, c.Entities, c.Result.Text(), !c.Ended || c.Result.Failed()})
	}
	return all
}

// textOf is a scripted result in words.
func textOf(result any) string {
	switch result := result.(type) {
	case nil:
		return ""
	case string:
		return result
	}
	return asJSON(result)
}
