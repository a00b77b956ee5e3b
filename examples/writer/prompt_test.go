package main

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bottest"
)

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat := talk(t, nil)
	kit.Model.Says(strings.NewReplacer("TOPIC", "rain", "LANGUAGE", "Italian").Replace(xmlPlan), "Rain.", "Pioggia.")
	chat.Say("a poem about rain, in Italian")
	chat.Expect("Pioggia.")
	bottest.GoldenPrompt(t, "testdata/prompts.txt", kit.Model.Calls()...)
}
