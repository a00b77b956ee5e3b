package main

import (
	"testing"

	"github.com/planbot-go/planbot/bottest"
)

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat, _ := setup(t)
	kit.Model.Says(summarizeAndSend, "A report.")
	chat.Say("summarize this and send it to Ann: A very long report.")
	chat.ExpectCard()
	bottest.GoldenPrompt(t, "testdata/prompts.txt", kit.Model.Calls()...)
}
