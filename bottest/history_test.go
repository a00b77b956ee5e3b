package bottest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// TestHistoryTurns: the model sees as many earlier turns as the bot keeps.
func TestHistoryTurns(t *testing.T) {
	t.Parallel()
	config := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		parts.Bot.HistoryTurns = 2
		return app.New(ctx, barbot, parts.Model, parts.Bot)
	}}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		for _, text := range []string{"one", "two", "three", "four"} {
			kit.Model.Says(bottest.Plan(bottest.Say("I heard " + text + ".")))
			chat.Say(text)
			chat.Expect("I heard " + text + ".")
		}
		last := fmt.Sprint(kit.Model.LastCall().Messages)
		if strings.Contains(last, "I heard one.") || !strings.Contains(last, "I heard two.") || !strings.Contains(last, "I heard three.") {
			t.Errorf("the prompt is\n%s", last)
		}
	})
}
