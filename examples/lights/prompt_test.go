package main

import (
	"testing"

	"github.com/planbot-go/planbot/bottest"
)

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
	bottest.GoldenPrompt(t, "testdata/prompts.txt", kit.Model.Calls()...)
}
