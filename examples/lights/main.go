// Command lights is a bot that turns lights on and off and makes them blink: a
// plan runs in order, and the bot's own prompt shows what state the lights are in.
// See README.md beside it.
package main

import (
	"context"
	"embed"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/state"
)

// files hold the prompt, so that the program is one file wherever it runs.
//
//go:embed prompts
var files embed.FS

var lightbot = app.Bot{
	Name:      "Lightbot",
	Examples:  []string{"Turn the lights on.", "Blink 3 times."},
	Register:  register,
	Prompts:   files,
	Functions: map[string]func(context.Context, *actions.Turn, []string) (any, error){"getLightStatus": getLightStatus},
}

func main() { app.Main(lightbot, full.Features()...) }

// longestPause is how long a person waits in silence without complaint, in
// milliseconds.
const longestPause = 10_000

// register adds the actions. They run one after the other, in the order of the
// plan, since none is marked as [actions.Parallel]: blinking depends on it.
func register(r *actions.Registry) {
	actions.Add(r, "LightsOn", "Turns the lights on", turnLights(true), actions.StateOnly)
	actions.Add(r, "LightsOff", "Turns the lights off", turnLights(false), actions.StateOnly)
	actions.Add(r, "LightStatus", "Says whether the lights are on or off", lightStatus, actions.StateOnly, actions.ReturnsData)
	actions.Add(r, "Pause", "Waits before the next action", pause)
}

// lit says whether the lights of the conversation are on.
func lit(turn *actions.Turn) *bool { return state.At[bool](turn.Conversation, "lightsOn") }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func turnLights(on bool) func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
	return func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		lights := lit(turn)
		if *lights == on {
			return actions.Text("the lights were already %s", onOff(on)), nil
		}
		*lights = on
		return actions.Text("the lights are now %s", onOff(on)), nil
	}
}

func lightStatus(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	return actions.Text("the lights are %s", onOff(*lit(turn))), nil
}

// getLightStatus is {{getLightStatus}} in the prompt.
func getLightStatus(_ context.Context, turn *actions.Turn, _ []string) (any, error) {
	return onOff(*lit(turn)), nil
}

type pauseFor struct {
	Time int `json:"time" jsonschema:"how long, in milliseconds"`
}

func pause(ctx context.Context, _ *actions.Turn, in pauseFor) (actions.Result, error) {
	if in.Time < 0 {
		return actions.Fail("a pause can't be shorter than 0 ms"), nil
	}
	in.Time = min(in.Time, longestPause)
	select {
	case <-time.After(time.Duration(in.Time) * time.Millisecond):
		return actions.Text("done pausing for %d ms", in.Time), nil
	case <-ctx.Done(): // the turn has no more time, or the bot ends
		return actions.Result{}, ctx.Err()
	}
}
