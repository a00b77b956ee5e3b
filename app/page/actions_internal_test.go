package page

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/planner/plan"
)

// TestRunThatDoesNotReturn is about actions that ignore the end of their context. It is an internal test
// since the time that a run has is no setting.
func TestRunThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Name: "Hedda"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	let := make(chan struct{})
	registry := actions.New()
	hang := actions.Add(registry, "hang", "Hangs", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		<-let
		return actions.Text("at last"), nil
	}, actions.StateOnly)
	wait := actions.Add(registry, "wait", "Waits", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		<-ctx.Done()
		return actions.Result{}, ctx.Err()
	}, actions.StateOnly)
	p.of.Bot, err = bot.New(bot.Config{Actions: registry, Planner: bot.PlannerFunc(func(context.Context, *actions.Turn) (plan.Plan, error) {
		return plan.Plan{}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.of.Bot.Drain(context.WithoutCancel(t.Context())) })
	v := newActionViews(p)
	v.within, v.grace = time.Millisecond, 10*time.Second
	keep := url.Values{"throw": {"asked"}}
	if got := v.try(t.Context(), wait, keep); got.Result != "failed" || !strings.Contains(got.Error, "deadline") || got.Saved {
		t.Errorf("an action that ends with its context: %+v", got)
	}
	v.grace = time.Millisecond
	for range maxAtWork {
		if got := v.try(t.Context(), hang, keep); got.Result != "lost" || got.Saved || !strings.Contains(got.Error, "Nobody knows") {
			t.Errorf("an action that does not return: %+v", got)
		}
	}
	if got := v.try(t.Context(), hang, keep); !strings.Contains(got.Fault, "not returned yet") {
		t.Errorf("one more than may run: %+v", got)
	}
	close(let)
	v.within = 10 * time.Second
	for end := time.Now().Add(10 * time.Second); ; {
		got := v.try(t.Context(), hang, keep)
		if got.Text == "at last" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("when they have returned: %+v", got)
		}
	}
}

func TestKept(t *testing.T) {
	t.Parallel()
	var k kept[int]
	if _, ok := k.get(""); ok {
		t.Error("it has something from the beginning")
	}
	for i := range maxKept + 1 {
		k.put(string(rune('a'+i)), i)
	}
	_, first := k.get("a")
	second, ok := k.get("b")
	if first || !ok || second != 1 || len(k.all) != maxKept {
		t.Errorf("it has %d: %v", len(k.all), k.ids)
	}
}
