package planner_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner"
)

// A plan that was kept is an action of other plans, and is run with other inputs
// each time.
func ExampleAddPlan() {
	type text struct {
		Input string `json:"input"`
	}
	reg := actions.New()
	actions.Add(reg, "upper", "Makes a text large", func(_ context.Context, _ *actions.Turn, in text) (actions.Result, error) {
		return actions.Text("%s", strings.ToUpper(in.Input)), nil
	})
	greet, err := planner.LoadPlan([]byte(`<plan><function.upper input="hello $INPUT"/></plan>`), reg)
	if err != nil {
		fmt.Println(err)
	}
	if _, err := planner.AddPlan(reg, "greet", "Greets somebody", greet); err != nil {
		fmt.Println(err)
	}
	both, err := planner.LoadPlan([]byte(`<plan><function.greet input="$A" setContextVariable="G"/><say>$G! And $B.</say></plan>`), reg)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(both)
	runner := planner.Runner{Actions: reg}
	result, err := runner.Run(context.Background(), &actions.Turn{}, planner.NewExecution(both, map[string]any{"A": "Mia", "B": "you"}))
	fmt.Println(result.Text(), err)
	// Output:
	// - greet INPUT="$A" => G
	// - SAY "$G! And $B."
	// HELLO MIA! And you. <nil>
}
