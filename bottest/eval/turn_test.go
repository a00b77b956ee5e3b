package eval_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// planFunc is a planner.
type planFunc func(ctx context.Context, turn *actions.Turn) (plan.Plan, error)

func (f planFunc) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	return f(ctx, turn)
}

// TestTurn: each plan is for a turn of its own, and knows what all have spent.
func TestTurn(t *testing.T) {
	t.Parallel()
	cases := []eval.Case{
		{Name: "1", Lang: "en", Say: "Hi", Lists: []lists.List{{Name: "home", Items: []lists.Item{{Name: "milk"}}}}, Want: [][]plan.Command{nil}},
		{Name: "2", Lang: "de", Say: "Hallo", Want: [][]plan.Command{nil}},
	}
	var seen []string
	p := planFunc(func(_ context.Context, turn *actions.Turn) (plan.Plan, error) {
		before := turn.Afford()
		turn.Usage = actions.Usage{ModelCalls: 1, PromptTokens: 30, CompletionTokens: 10, Cost: 0.5}
		seen = append(seen, fmt.Sprint(turn.Text, " ", turn.Activity.Locale, " ", lists.Of(turn).All, " ", before, ", ", turn.Afford()))
		return plan.Plan{Commands: []plan.Command{say("Hi")}}, nil
	})
	cfg := eval.Config{Cases: cases, Sides: []eval.Side{{Planner: p, Actions: registry()}}, Limit: actions.Budget{Tokens: 80, Cost: 2}}
	if _, err := eval.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	want := []string{"Hi en [{home [milk]}] <nil>, <nil>", "Hallo de [] <nil>, the turn's budget of tokens is used up"}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
}

// TestRefusalEndsOtherCalls: what the others are asked for would be of no use.
func TestRefusalEndsOtherCalls(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*models.Error{
		"key":   {Kind: models.Auth},
		"money": {Kind: models.Quota},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cases, waits := slowCases(time.Hour, time.Second)
				p := planFunc(func(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
					if turn.Text == "1" {
						return plan.Plan{}, fault
					}
					return waits.Plan(ctx, turn)
				})
				began := time.Now()
				report, err := eval.Run(t.Context(), eval.Config{
					Cases: cases, Sides: []eval.Side{{Planner: p, Actions: registry()}}, Concurrency: 2, Timeout: time.Hour,
				})
				if err == nil || report.Stop != "refused" || report.Asked != 0 || time.Since(began) > time.Minute {
					t.Errorf("%+v, %v after %s", report, err, time.Since(began))
				}
			})
		})
	}
}
