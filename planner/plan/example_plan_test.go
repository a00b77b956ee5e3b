package plan_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// A plan that was kept is an action of other plans, and is run with other inputs
// each time.
func ExamplePlan_AddAction() {
	type text struct {
		Input string `json:"input"`
	}
	reg := actions.New()
	actions.Add(reg, "upper", "Makes a text large", func(_ context.Context, _ *actions.Turn, in text) (actions.Result, error) {
		return actions.Text("%s", strings.ToUpper(in.Input)), nil
	})
	greet, err := plan.Load([]byte(`<plan><function.upper input="hello $INPUT"/></plan>`), reg)
	if err != nil {
		fmt.Println(err)
	}
	if _, err := greet.AddAction(reg, "greet", "Greets somebody"); err != nil {
		fmt.Println(err)
	}
	both, err := plan.Load([]byte(`<plan><function.greet input="$A" setContextVariable="G"/><say>$G! And $B.</say></plan>`), reg)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(both)
	result, err := both.Start(map[string]any{"A": "Mia", "B": "you"}).Run(context.Background(), &actions.Turn{}, reg)
	fmt.Println(result.Text(), err)
	// Output:
	// - greet INPUT="$A" => G
	// - SAY "$G! And $B."
	// HELLO MIA! And you. <nil>
}
