package memory_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/memory"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// A fact of somebody in a personal chat.
func ExampleRegister() {
	registry := actions.New()
	memory.Register(registry)

	turn := &actions.Turn{Activity: &activity.Activity{}, User: state.NewScope()}
	turn.Activity.From.AadObjectID, turn.Activity.Conversation.TenantID = "mia", "contoso"
	remember, _ := registry.Lookup("rememberFact")
	_, err := remember.Call(context.Background(), turn, map[string]any{"fact": "is vegetarian"})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := memory.Of(turn)
	fmt.Println(len(all), all[0].Text, err)
	// Output: 1 is vegetarian <nil>
}
