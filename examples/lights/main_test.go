package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		return app.New(ctx, lightbot, model, p.Bot)
	}})
	return kit, kit.Personal("Mia")
}

func TestBlinkRunsInOrder(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	const pause = `{"type":"DO","action":"Pause","entities":{"time":1}}`
	blink := strings.Repeat(`{"type":"DO","action":"LightsOn"},`+pause+`,{"type":"DO","action":"LightsOff"},`+pause+`,`, 3)
	kit.Model.Says(
		`{"type":"plan","commands":[`+blink+`{"type":"DO","action":"LightStatus"}]}`, // ends in a DO: the model sees the results
		`{"type":"plan","commands":[{"type":"SAY","response":"I blinked three times."}]}`,
	)
	chat.Say("blink 3 times")
	chat.Expect("I blinked three times.")

	// Any other order would find the lights on or off already.
	once := "- LightsOn: the lights are now on\n- Pause: done pausing for 1 ms\n- LightsOff: the lights are now off\n- Pause: done pausing for 1 ms\n"
	want := strings.Repeat(once, 3) + "- LightStatus: the lights are off"
	if prompt := kit.Model.Calls()[1].Prompt(); !strings.Contains(prompt, want) {
		t.Errorf("the results are not those of blinking: %s", prompt)
	}
}

func TestThePromptShowsTheLights(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	for _, step := range []struct{ action, before string }{{"LightsOn", "off"}, {"LightsOff", "on"}, {"LightsOff", "off"}} {
		kit.Model.Says(fmt.Sprintf(`{"type":"plan","commands":[{"type":"DO","action":%q},{"type":"SAY","response":"As you wish."}]}`, step.action))
		chat.Say(step.action + ", please")
		chat.Expect("As you wish.")
		calls := kit.Model.Calls()
		if prompt := calls[len(calls)-1].Messages[0].Text; !strings.Contains(prompt, "The lights are "+step.before+" now.") || !strings.Contains(prompt, "Pause(time)") {
			t.Errorf("prompt %s", prompt)
		}
	}
}

func TestPauseIsCapped(t *testing.T) {
	t.Parallel()
	for asked, want := range map[int]int64{0: 0, 300: 300, 3_600_000: longestPause, 1 << 62: longestPause} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			result, err := pause(t.Context(), nil, pauseFor{asked})
			if took := time.Since(began).Milliseconds(); err != nil || took != want || result.Text() != fmt.Sprintf("done pausing for %d ms", want) {
				t.Errorf("%d: %d ms, %q, %v", asked, took, result.Text(), err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pause(ctx, nil, pauseFor{1000}); !errors.Is(err, context.Canceled) {
		t.Errorf("a turn that has ended: %v", err)
	}
	if result, _ := pause(ctx, nil, pauseFor{-1}); !result.Failed() {
		t.Error("a pause into the past")
	}
}

func TestLightsWithoutAKey(t *testing.T) {
	t.Parallel()
	_, chat := talk(t, models.Offline{})
	chat.Say("LightsOn")
	chat.Expect("the lights are now on")
}

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says(
		bottest.Plan(bottest.Do("LightsOn"), bottest.Do("LightsOn")), // the second one has something to say
		bottest.Plan(bottest.Say("They are on.")),
	)
	chat.Say("turn the lights on")
	chat.Expect("They are on.")
	kit.GoldenPrompt("testdata/prompts.txt")
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, lightbot, "scenarios.yaml")
}
