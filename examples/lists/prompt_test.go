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
		bottest.Plan(bottest.Do("createList", "list", "groceries", "items", []string{"milk"}), bottest.Say("There it is.")),
		bottest.Plan(bottest.Say("Milk.")),
	)
	chat.Say("a grocery list with milk")
	chat.Expect("There it is.")
	chat.Say("what do I need?")
	chat.Expect("Milk.")
	bottest.GoldenPrompt(t, "testdata/prompts.txt", kit.Model.Calls()...)
}
