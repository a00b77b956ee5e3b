// Command first is a whole bot with one action of its own, rollDice. It needs no
// account, no key and no server:
//
//	go run ./examples/first
//
// It listens on 127.0.0.1:3978. Without a key it plans with the offline model, which takes
// "roll a die with 20 sides" or "rollDice sides=20"; with OPENAI_API_KEY any words will do.
package main

import (
	"context"
	"math/rand/v2"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
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

var dicebot = app.Bot{Name: "Dicebot", Register: register}

func main() { app.Main(dicebot) }
