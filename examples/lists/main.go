// Command lists is a bot that keeps lists for a conversation: five actions, and a
// model that plans with all of them at once. See README.md beside it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// newBot wires the actions of lists.go with a planner that asks for a whole plan.
func newBot(ctx context.Context, model models.Model) (*bot.Bot, error) {
	registry := actions.New()
	register(registry)
	sequence, err := planner.NewSequence(ctx, planner.SequenceConfig{Model: model, Actions: registry})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{
		Name: "Listbot", Actions: registry, Planner: sequence, Log: *zerolog.Ctx(ctx),
		Examples: []string{"Create a grocery list and add milk and eggs to it.", "What is on my lists?"},
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
