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
		bottest.Plan(bottest.Do("rollDice", "sides", 1)), // which fails: the model sees why
		bottest.Plan(bottest.Say("There is no such die.")),
	)
	chat.Say("roll a die with one side")
	chat.Expect("There is no such die.")
	bottest.GoldenPrompt(t, "testdata/prompts.txt", kit.Model.Calls()...)
}
