package bot_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// TestAnActionThatDoesNotEnd costs its turn: the conversation goes on, with nothing of
// what the action still does.
func TestAnActionThatDoesNotEnd(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		goOn, ended := make(chan struct{}), make(chan struct{})
		actions.Add(b.actions, "deaf", "Does not listen", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			defer close(ended)
			*state.At[int](turn.User, "touched") = 1
			<-goOn
			*state.At[int](turn.User, "touched") = 2
			*state.At[int](turn.Conversation, "touched") = 2
			return actions.Done, nil
		})
		r := b.addReplica(func(c *bot.Config) { c.TurnTimeout, c.MaxTurns = time.Second, 1 })
		b.model.Says(plan(do("deaf", `{}`), say("Done.")))
		r.say("do it")
		b.expectFault("I could not stop it. Somebody has to look at it. I cannot tell whether this was done: Deaf.")
		b.model.Says(plan(do("createList", `{"list":"home"}`), say("Still here.")))
		r.say("are you there?")
		close(goOn)
		b.expect("Still here.")
		<-ended
		b.must(r.bot.Drain(t.Context()))
		if got := b.kept(); strings.Contains(got, "touched") || !strings.Contains(got, "home") {
			t.Errorf("kept %s", got)
		}
		if got := b.log.String(); !strings.Contains(got, "an action did not end when the turn's time was over: deaf") {
			t.Errorf("log %s", got)
		}
	})
}

// TestDrainWaitsForAnActionThatWasLeft, as long as it waits for anything.
func TestDrainWaitsForAnActionThatWasLeft(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		goOn := make(chan struct{})
		t.Cleanup(func() { close(goOn) })
		actions.Add(b.actions, "deaf", "Does not listen", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			<-goOn
			return actions.Done, nil
		}, actions.Parallel)
		r := b.addReplica(func(c *bot.Config) { c.TurnTimeout = time.Second })
		b.model.Says(plan(do("deaf", `{}`), do("deaf", `{}`), say("Done.")))
		r.say("do it")
		b.expectFault("Deaf, Deaf")
		drained, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.bot.Drain(drained); err == nil || !strings.Contains(err.Error(), "do not end") {
			t.Errorf("drained with %v", err)
		}
	})
}
