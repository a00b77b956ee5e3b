// Command lights is a bot that turns lights on and off and makes them blink: a
// plan runs in order, and the bot's own prompt shows what state the lights are in.
// See README.md beside it.
package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// files hold the prompt, so that the program is one file wherever it runs.
//
//go:embed prompts
var files embed.FS

// newBot wires the actions of lights.go with a planner that has its own prompt.
func newBot(ctx context.Context, model models.Model) (*bot.Bot, error) {
	registry := actions.New()
	register(registry)
	library, err := prompts.LoadFS(files, "prompts")
	if err != nil {
		return nil, err
	}
	sequence, err := planner.NewSequence(ctx, planner.SequenceConfig{
		Model: model, Actions: registry, Prompts: library, Prompt: "lights",
		Functions: map[string]planner.Function{"getLightStatus": getLightStatus},
	})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{
		Name: "Lightbot", Actions: registry, Planner: sequence, Log: *zerolog.Ctx(ctx),
		Examples: []string{"Turn the lights on.", "Blink 3 times."},
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	if err := run(log.WithContext(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	model, err := models.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	b, err := newBot(ctx, model)
	if err != nil {
		return err
	}
	return b.ListenAndServe(ctx, cmp.Or(os.Getenv("BOT_ADDR"), "127.0.0.1:3978"))
}
