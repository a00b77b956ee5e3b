// Command first is a whole bot with one action of its own, rollDice. It needs no
// account, no key and no server:
//
//	go run ./examples/first
//
// It listens on 127.0.0.1:3978. Without a key it plans with the offline model, which takes
// "rollDice sides=20"; with OPENAI_API_KEY any words will do.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

const addr = "127.0.0.1:3978" // loopback: without an app id nobody is checked

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
	actions.Add(r, "rollDice", "Rolls a die and returns what it shows", rollDice, actions.ReturnsData)
}

func main() {
	b, err := newBot(context.Background(), os.Getenv("OPENAI_API_KEY"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.Handle("/api/messages", b)
	server := &http.Server{Addr: addr, ReadTimeout: 20 * time.Second}
	fmt.Println("listening on http://" + addr + "/api/messages")
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// newBot wires the parts: what plans, what remembers, who may come in and how
// replies go out.
func newBot(ctx context.Context, key string) (*bot.Bot, error) {
	acts := actions.New()
	register(acts)
	var model models.Model = models.Offline{}
	if key != "" {
		openai, err := models.NewOpenAI(models.OpenAIConfig{Key: key})
		if err != nil {
			return nil, err
		}
		model = openai
	}
	library, err := prompts.Load("")
	if err != nil {
		return nil, err
	}
	sequence, err := planner.NewSequence(ctx, planner.SequenceConfig{Model: model, Prompts: library, Actions: acts})
	if err != nil {
		return nil, err
	}
	store, err := state.OpenEmbedded(state.Config{})
	if err != nil {
		return nil, err
	}
	door, channel, err := local()
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{Actions: acts, Planner: sequence, Store: store, Channel: channel, Door: door, Name: "Dicebot"})
}

// local is the door and the way out of a bot without an app id, which talks
// with this machine only.
func local() (bot.Door, *connector.Client, error) {
	cloud, err := connector.CloudNamed("public")
	if err != nil {
		return nil, nil, err
	}
	hosts, err := connector.NewServiceHosts(cloud, nil, true)
	if err != nil {
		return nil, nil, err
	}
	guard, err := connector.NewGuard(connector.GuardConfig{Cloud: cloud, Hosts: hosts})
	if err != nil {
		return nil, nil, err
	}
	client, err := connector.New(connector.Config{Hosts: hosts})
	return bot.Guarded(guard), client, err
}
