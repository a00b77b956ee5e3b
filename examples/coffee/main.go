// Command coffee is a bot that collects what a team wants to drink and orders it at a
// shop. It is what docs/testing.md tests; its tests are beside it.
//
//	go run ./examples/coffee
//
// Without a key it plans with the offline model, which takes "addDrink drink=tea".
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/state"
)

// round is what a conversation wants to drink, and has not ordered yet.
type round struct{ Drinks []string }

type add struct {
	Drink string `json:"drink" jsonschema:"what to drink, such as flat white"`
}

// shop takes orders. One with the key of another is the same order once more.
type shop func(ctx context.Context, key string, drinks []string) error

func register(r *actions.Registry, order shop) {
	actions.Add(r, "addDrink", "Adds a drink to the next order",
		func(_ context.Context, turn *actions.Turn, in add) (actions.Result, error) {
			all := state.Of[round](turn.Conversation)
			all.Drinks = append(all.Drinks, in.Drink)
			return actions.Done, nil
		})
	actions.Add(r, "orderRound", "Orders all drinks that were added",
		func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			all := state.Of[round](turn.Conversation)
			if len(all.Drinks) == 0 {
				return actions.Fail("nobody wants a drink"), nil
			}
			if err := order(ctx, actions.AttemptOf(ctx).Key, all.Drinks); err != nil {
				return actions.Result{}, err
			}
			text := actions.Text("ordered %s", strings.Join(all.Drinks, ", "))
			all.Drinks = nil
			return text, nil
		}, actions.NeedsApproval, actions.ReturnsData)
}

// barista is the bot, with the shop that it orders at: a real one, or that of a test.
func barista(order shop) app.Bot {
	return app.Bot{Name: "Barista", Register: func(r *actions.Registry) { register(r, order) }}
}

func main() { app.Main(barista(printOrder), full.Features()...) }

// printOrder stands in for a real shop.
func printOrder(_ context.Context, key string, drinks []string) error {
	fmt.Printf("order %s: %s\n", key, strings.Join(drinks, ", "))
	return nil
}
