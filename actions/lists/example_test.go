package lists_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// The actions of lists beside your own, which read the same lists.
func ExampleRegister() {
	registry := actions.New()
	lists.Register(registry)
	count := actions.Add(registry, "countItems", "Counts the items on all lists",
		func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			n := 0
			for _, list := range lists.Of(turn).All {
				n += len(list.Items)
			}
			return actions.Text("%d items", n), nil
		}, actions.StateOnly)

	turn := &actions.Turn{Activity: &activity.Activity{}, User: state.NewScope()}
	add, _ := registry.Lookup("addItem")
	_, err := add.Call(context.Background(), turn, map[string]any{"list": "groceries", "item": "milk"})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := count.Call(context.Background(), turn, nil)
	fmt.Println(result.Text(), err)
	// Output: 1 items <nil>
}
