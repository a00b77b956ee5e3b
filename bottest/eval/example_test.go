package eval_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

const cases = `
cases:
  - name: milk
    lang: en
    say: Add milk to my groceries list.
    want:
      - addItem: {list: groceries, item: milk}
  - name: thanks
    lang: en
    say: Thank you!
    want: say
`

// The model is the offline one here; with models.FromEnv it is the one that the environment
// names.
func ExampleRun() {
	ctx, acts := context.Background(), registry()
	utterances, err := eval.Read("lists.yaml", []byte(cases), acts)
	if err != nil {
		fmt.Println(err)
		return
	}
	plans, err := planner.NewSequence(ctx, planner.Config{Model: models.Offline{}, Actions: acts})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := eval.Run(ctx, eval.Config{
		Cases: utterances,
		Sides: []eval.Side{{Name: "a", About: "offline", Planner: plans, Actions: acts}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f%% of %d plans are right\n", 100*report.Score(), report.Asked)
	// Output: 100% of 2 plans are right
}
