// Command first is a whole bot with one action of its own, rollDice. It needs no
// account, no key and no server:
//
//	go run ./examples/first
//
// It listens on 127.0.0.1:3978. Without a key it plans with the offline model, which takes
// "roll a die with 20 sides" or "rollDice sides=20"; with OPENAI_API_KEY any words will do.
package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

type roll struct {
	Sides int `json:"sides,omitempty" jsonschema:"how many sides the die has" default:"6"`
}

func rollDice(_ context.Context, turn *actions.Turn, in roll) (actions.Result, error) {
	if in.Sides < 2 {
		return actions.Fail("a die has at least 2 sides"), nil
	}
	rolls := state.At[int](turn.Personal(), "rolls") // saved with the turn
	*rolls++
	return actions.Text("roll %d is a %d", *rolls, 1+rand.IntN(in.Sides)), nil
}

func register(r *actions.Registry) {
	actions.Add(r, "rollDice", "Rolls a die and returns what it shows", rollDice, actions.ReturnsData,
		actions.Example("roll a die", "roll a die with {sides} sides"))
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

// newBot wires what acts and what plans. State stays in the process.
func newBot(ctx context.Context, model models.Model) (*bot.Bot, error) {
	acts := actions.New()
	register(acts)
	sequence, err := planner.NewSequence(ctx, planner.Config{Model: model, Actions: acts})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{Actions: acts, Planner: sequence, Name: "Dicebot", Log: *zerolog.Ctx(ctx)})
}
