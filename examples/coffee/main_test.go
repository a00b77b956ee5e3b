package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

// orders are those that the shop got, by their keys.
type orders map[string][]string

// served is the bot, with a shop that keeps its orders.
func served(shop orders) bottest.Config {
	return bottest.Config{Name: "Barista", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, barista(func(_ context.Context, key string, drinks []string) error {
			shop[key] = slices.Clone(drinks)
			return nil
		}), parts.Model, parts.Bot)
	}}
}

func TestRound(t *testing.T) {
	t.Parallel()
	shop := orders{}
	bottest.Test(t, served(shop), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		kit.Model.Says(
			bottest.Plan(bottest.Do("addDrink", "drink", "flat white"), bottest.Say("A flat white.")),
			bottest.Plan(bottest.Do("addDrink", "drink", "tea"), bottest.Say("And a tea.")),
		)
		chat.Mention("a flat white, please")
		chat.Expect("A flat white.")
		chat.As("Otto").Mention("tea for me")
		chat.Expect("And a tea.")
		chat.Say("what a day")
		chat.ExpectNothing() // that was not for the bot

		if got := state.Of[round](chat.Conversation()).Drinks; len(got) != 2 {
			t.Errorf("kept %v", got)
		}
		kit.GoldenPrompt("testdata/prompts.txt")
	})
}

func TestOrder(t *testing.T) {
	t.Parallel()
	shop := orders{}
	bottest.Test(t, served(shop), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		order := bottest.Do("orderRound")
		order.SaveAs = "ORDER"
		kit.Model.Says(bottest.Plan(bottest.Do("addDrink", "drink", "tea"), order, bottest.Say("I $ORDER.")))
		chat.Mention("a tea, and order it")
		card := chat.ExpectCard("Order round")
		card.As("Otto").Press("Approve") // did not ask for it
		if len(shop) != 0 {
			t.Error("it was ordered before Mia approved it")
		}

		kit.CrashAfter(1) // when the shop has the order, before the bot wrote that down
		card.Press("Approve")
		chat.ExpectNothing() // the process is dead
		kit.Restart()
		chat.Expect("I ordered tea.")
		if len(shop) != 1 {
			t.Errorf("the shop got %v", shop)
		}
		if left := state.Of[round](chat.Conversation()).Drinks; len(left) != 0 {
			t.Errorf("%v are ordered again the next time", left)
		}
	})
}

func TestModelIsBusy(t *testing.T) {
	t.Parallel()
	bottest.Test(t, served(orders{}), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Throttles(15 * time.Second)
		kit.Model.Says(bottest.Plan(bottest.Say("Hello.")))
		chat.Say("hi")
		chat.Expect("Hello.") // after 15 seconds, of which none pass here

		kit.Model.Hangs(time.Hour)
		chat.Say("hi")
		chat.ExpectMatch("did not answer in time")
	})
}
