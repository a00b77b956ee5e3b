package bottest_test

import (
	"context"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/manifest"
)

// What docs/how-to.md shows; internal/docs checks that it is the same.

// remind is the bot's Routes. Somebody writes "/weekly" in the channel that is to be reminded.
func remind(b *bot.Bot) {
	b.OnCommand("/weekly", func(ctx context.Context, t *bot.Turn) error {
		reminder := actions.Notice{
			To: actions.ToChannel(t.Activity), Key: "weekly", Every: "0 9 * * MON", Zone: "Europe/Berlin",
			Text: "Please write your weekly report.",
		}
		if _, err := t.Notifier.Notify(ctx, reminder); err != nil {
			return err
		}
		return t.Tell(ctx, "I'll remind this channel on Mondays at 9:00.")
	})
}

func TestWeeklyReminder(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "weeks pass")
	config := bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, app.Bot{Name: "Reminder", Routes: remind}, p.Model, p.Bot)
	}}
	bottest.Test(t, config, func(_ *testing.T, kit *bottest.Kit) {
		team := kit.Channel("team", "Mia")
		team.Mention("/weekly")
		team.Expect("I'll remind this channel on Mondays at 9:00.")
		posts := kit.Conversation("19:team@thread.tacv2", "channel", "Mia")
		time.Sleep(7 * 24 * time.Hour)
		posts.Expect("Please write your weekly report.")
	})
}

// managersApprove is the bot's Setup. It names the managers by their object ids in Entra.
func managersApprove(cfg *bot.Config) error {
	others := cfg.Policy
	cfg.Policy = func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if call.Action.Name != "orderLaptop" {
			return others(ctx, turn, call)
		}
		managers := []string{"aad-Otto", "aad-Rosa"}
		return actions.Approval{Required: true, Approvers: managers, Reason: "laptops cost money", Within: 24 * time.Hour}, nil
	}
	return nil
}

func TestManagersApprove(t *testing.T) {
	t.Parallel()
	shop := app.Bot{Name: "Shop", Setup: managersApprove, Register: func(r *actions.Registry) {
		actions.Add(r, "orderLaptop", "Orders a laptop", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			return actions.Done, nil
		})
	}}
	config := bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, shop, p.Model, p.Bot)
	}}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		team := kit.Group("team", "Mia", "Otto")
		kit.Model.Says(bottest.Plan(bottest.Do("orderLaptop"), bottest.Say("Ordered.")))
		team.Mention("order a laptop")
		card := team.ExpectCard("laptops cost money")
		if shown := card.Press("Approve").Shown(); shown != "You can't decide this. Nothing was done." {
			t.Errorf("Mia reads %q", shown)
		}
		card.As("Otto").Press("Approve")
		team.Expect("Ordered.")
	})
}

// kantine is a bot in German: what the model reads, what people read, and the app in Teams.
var kantine = app.Bot{
	Name:         "Kantine",
	Instructions: "Antworte immer auf Deutsch, kurz und freundlich.",
	Welcome:      "Hallo, ich bestelle dir etwas zu essen.",
	Register: func(r *actions.Registry) {
		actions.Add(r, "orderMeal", "Orders a meal", orderMeal, actions.Title("Essen bestellen"), actions.Example("bestelle {gericht}"))
	},
	Texts: map[string]map[string]string{"de": {"Ordered: %s": "Bestellt: %s"}},
	Manifest: manifest.Config{
		Language: "de", Summary: "Bestellt dein Mittagessen.", Details: "Sag, was du essen möchtest, und ich bestelle es.",
	},
}

type meal struct {
	Dish string `json:"gericht" title:"Gericht"`
}

func orderMeal(_ context.Context, turn *actions.Turn, in meal) (actions.Result, error) {
	return actions.Text("%s", turn.Translate("Ordered: %s", in.Dish)), nil
}

func TestBotInGerman(t *testing.T) {
	t.Parallel()
	config := bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, kantine, p.Model, p.Bot)
	}}
	bottest.Test(t, config, func(_ *testing.T, kit *bottest.Kit) {
		order := bottest.Do("orderMeal", "gericht", "Suppe")
		order.SaveAs = "MEAL"
		kit.Model.Says(bottest.Plan(order, bottest.Say("$MEAL")))
		chat := kit.Personal("Mia")
		chat.Deliver(map[string]any{"type": "message", "text": "bestelle Suppe", "locale": "de-DE"})
		chat.Expect("Bestellt: Suppe")
	})
}
