// Command pizza is a bot that takes orders for pizza: the model calls functions,
// round by round, and a person approves what is paid. See README.md beside it.
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

// newBot wires the actions of actions.go with a planner that lets the model call
// them.
func newBot(ctx context.Context, model models.Model, s *shop) (*bot.Bot, error) {
	registry := actions.New()
	register(registry, s)
	tools, err := planner.NewTools(ctx, planner.ToolsConfig{
		SequenceConfig: planner.SequenceConfig{Model: model, Actions: registry},
	})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{
		Name: "Pizzabot", Actions: registry, Planner: tools, Log: *zerolog.Ctx(ctx),
		Examples: []string{"What pizzas do you have?", "Two large ones with mushrooms, please."},
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
	b, err := newBot(ctx, model, newShop())
	if err != nil {
		return err
	}
	return b.ListenAndServe(ctx, cmp.Or(os.Getenv("BOT_ADDR"), "127.0.0.1:3978"))
}
