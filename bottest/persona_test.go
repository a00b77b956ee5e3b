package bottest_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// Ada talks to a bot with lists.
func ExampleSimulate() {
	personas, err := bottest.ReadPersonas("ada.yaml", []byte(`
personas:
  - name: Ada
    says: [{say: add milk to groceries}, {say: add bread to groceries}]
    want: {lists: {groceries: [milk]}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	acts := actions.New()
	lists.Register(acts)
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		made := parts.Bot
		made.Actions = acts
		var err error
		made.Planner, err = parts.Planner(ctx, "sequence", planner.Config{Model: models.Offline{}, Actions: acts})
		if err != nil {
			return nil, err
		}
		return bot.New(made)
	}}
	talk, err := bottest.Simulate(context.Background(), personas[0], cfg, nil)
	fmt.Println(talk.Turns, talk.Faults, err)
	// Output: 2 [the lists are map[groceries:[bread milk]], not map[groceries:[milk]]] <nil>
}
