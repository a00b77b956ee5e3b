package main

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	b := barista(func(context.Context, string, []string) error { return nil })
	bottest.RunScenarios(t, b, "scenarios.yaml", "own.yaml")
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
