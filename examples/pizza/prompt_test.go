package main

import (
	"testing"

	"github.com/planbot-go/planbot/bottest"
)

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat, _ := setup(t)
	kit.Model.CallsTools(call("add_pizza_to_cart", `{"size":"Small"}`))
	kit.Model.Says("It is in the cart.")
	chat.Say("a small one")
	chat.Expect("It is in the cart.")
	bottest.GoldenPrompt(t, "testdata/prompts.txt", kit.Model.Calls()...)
}
