package turn_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/planner/plan"
)

// A feature that counts what people say keeps its count in the record of the turn, saved in the same step.
func ExampleNewSlot() {
	said := turn.NewSlot[int]("said")
	counting := turn.Feature{
		Name: "said",
		Begin: func(_ context.Context, t *turn.Turn) error {
			*said.Of(t) = len(strings.Fields(t.Text))
			return nil
		},
		Ended: func(_ context.Context, t *turn.Turn, e turn.Ended) {
			if e.Over() {
				fmt.Println(*said.Of(t), "words")
			}
		},
	}
	fmt.Println(counting.Name, "is for bot.Config.Features")
	// Output: said is for bot.Config.Features
}

// A feature that says how often a turn planned in this process needs no place in the record.
func ExampleNewLocal() {
	plans := turn.NewLocal[int]()
	counting := turn.Feature{
		Name: "plans",
		Plan: func(ctx context.Context, t *turn.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
			*plans.Of(t)++
			return next(ctx)
		},
		Ended: func(_ context.Context, t *turn.Turn, _ turn.Ended) { fmt.Println(*plans.Of(t), "plans") },
	}
	fmt.Println(counting.Name, "is for bot.Config.Features")
	// Output: plans is for bot.Config.Features
}
