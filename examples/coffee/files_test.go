package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/state"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/models"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("scenarios.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := record.Read("scenarios.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	acts := actions.New()
	register(acts, func(context.Context, string, []string) error { return nil })
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if r := scenario.Run(&s, scenario.Config{Actions: acts}); !r.Passed {
				t.Errorf("%s\n%s", strings.Join(r.Failures, "\n"), r.Story)
			}
		})
	}
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	real, err := models.FromEnv(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	model := bottest.Record(t, "testdata/tea.cassette.yaml", real)
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, barista(printOrder), model, parts.Bot)
	}})
	chat := kit.Personal("Mia")
	chat.Say("addDrink drink=tea") // also the offline model takes it
	chat.Next()
	if got := state.Of[round](chat.Conversation()).Drinks; !slices.Equal(got, []string{"tea"}) {
		t.Errorf("kept %v", got)
	}
}
