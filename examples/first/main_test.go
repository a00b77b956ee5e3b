package main

import (
	"context"
	"regexp"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// talk is a chat of Mia with the bot, on that model; nil: on a scripted one.
func talk(t *testing.T, model models.Model) (*bottest.Kit, *bottest.Chat) {
	t.Helper()
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		if model == nil {
			model = p.Model
		}
		return app.New(ctx, dicebot, model, p.Bot)
	}})
	return kit, kit.Personal("Mia")
}

func TestFirst(t *testing.T) {
	t.Parallel()
	_, chat := talk(t, models.Offline{})
	for _, step := range []struct{ say, want string }{
		{"rollDice sides=20", `roll 1 is a (1?\d|20)\b`},
		{"Roll a die with 6 sides.", `roll 2 is a [1-6]\b`},
		{"rollDice", `roll 3 is a [1-6]\b`},
		{"rollDice sides=1", `at least 2 sides`},
	} {
		chat.Say(step.say)
		if got := chat.Next().Activity.Text; !regexp.MustCompile(step.want).MatchString(got) {
			t.Errorf("%q: got %q, want %s", step.say, got, step.want)
		}
	}
}

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says(
		bottest.Plan(bottest.Do("rollDice", "sides", 1)), // which fails: the model sees why
		bottest.Plan(bottest.Say("There is no such die.")),
	)
	chat.Say("roll a die with one side")
	chat.Expect("There is no such die.")
	kit.GoldenPrompt("testdata/prompts.txt")
}

// TestScenarios plays scenarios.yaml on this bot. "bottest run --actions" plays it on the answers that it names.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, dicebot, "scenarios.yaml")
}
