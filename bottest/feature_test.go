package bottest_test

import (
	"context"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner/plan"
)

// TestHooksMaySpeak: what a hook says leaves at once, and nothing runs twice for it.
func TestHooksMaySpeak(t *testing.T) {
	t.Parallel()
	poured := 0
	config := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		parts.Bot.Features = append(parts.Bot.Features, bot.Feature{Plan: func(ctx context.Context, t *bot.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
			if err := t.Tell(ctx, "One moment."); err != nil {
				return plan.Plan{}, err
			}
			return next(ctx)
		}})
		parts.Bot.Features = append(parts.Bot.Features, bot.Feature{Call: func(ctx context.Context, t *bot.Turn, call actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error) {
			poured++
			result, err := next(ctx, call)
			if err == nil {
				err = t.Tell(ctx, "The kettle is on.")
			}
			return result, err
		}})
		return app.New(ctx, barbot, parts.Model, parts.Bot)
	}}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("pourTea"), bottest.Say("Enjoy.")))
		chat.Say("tea")
		chat.Expect("One moment.")
		chat.Expect("The kettle is on.")
		chat.Expect("Enjoy.")
		chat.ExpectNothing()
		if poured != 1 {
			t.Errorf("poured %d times", poured)
		}
	})
}
