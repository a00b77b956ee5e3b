package bot_test

import (
	"context"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

const takesLong = "This is taking a while. I'll message you when it's done."

// TestAnActionThatTakesLong: people read so once a turn, in whatever conversation, and not about short ones.
func TestAnActionThatTakesLong(t *testing.T) {
	registry := actions.New()
	actions.Add(registry, "backUp", "Backs up", func(ctx context.Context, _ *actions.Turn, in struct {
		Seconds int `json:"seconds"`
	},
	) (actions.Result, error) {
		select {
		case <-time.After(time.Duration(in.Seconds) * time.Second):
			return actions.Done, nil
		case <-ctx.Done():
			return actions.Result{}, ctx.Err()
		}
	})
	backUp := func(seconds string) string { return do("backUp", `{"seconds":`+seconds+`}`) }
	for name, tt := range map[string]struct {
		plan string
		says bool
	}{
		"short":       {plan(backUp("19"), backUp("19"), say("Saved.")), false},
		"long":        {plan(backUp("25"), say("Saved.")), true},
		"long, twice": {plan(backUp("25"), backUp("25"), say("Saved.")), true},
	} {
		for place, chat := range map[string]func(kit *bottest.Kit) *bottest.Chat{
			"a personal chat": func(kit *bottest.Kit) *bottest.Chat { return kit.Personal("Mia") },
			"a group":         func(kit *bottest.Kit) *bottest.Chat { return kit.Group("team", "Mia") },
			"a channel": func(kit *bottest.Kit) *bottest.Chat {
				return kit.Conversation("19:General;messageid=1", "channel", "Mia")
			},
		} {
			t.Run(name+" in "+place, func(t *testing.T) {
				t.Parallel()
				bottest.Test(t, bottest.Config{Actions: registry, Change: func(c *bot.Config) { c.TurnTimeout = 2 * time.Minute }}, func(t *testing.T, kit *bottest.Kit) {
					mia := chat(kit)
					kit.Model.Says(tt.plan)
					said := mia.Mention("save it")
					if tt.says {
						if got := mia.Expect(takesLong); got.ReplyTo != said.ID {
							t.Errorf("it replies to %q, want %q", got.ReplyTo, said.ID)
						}
					}
					mia.Expect("Saved.")
					mia.ExpectNothing()
				})
			})
		}
	}
}
