package bottest

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
)

// Record is a model that answers from a file, a cassette, at no cost: for a test with real model
// answers. A call whose request is not in the file fails the test and shows how the prompt changed;
// so does a recorded call that was not made.
//
// With BOTTEST_UPDATE=1 in the environment, Record asks the model and writes the file if the test
// ends without a failure. With a nil model, the answers in the file stay in order and only the
// prompts are rewritten. During an update, an answer of [models.Offline], which [models.FromEnv]
// returns if no model is configured, fails the test and nothing is written, unless the answers in
// the file are also from that model.
//
// The file contains prompts as text, without the time of the turn, and without anything that looks
// like a secret. Call Record before you make the kit, so it ends after the bot. A real model cannot
// be asked in a bubble: record with [New].
func Record(t testing.TB, file string, model models.Model) models.Model {
	t.Helper()
	update := golden.Updating()
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && (!update || model == nil) {
		t.Fatalf("there is no %s yet; %s and with a model, writes it", file, golden.HowTo)
	}
	return cassette.Open(t, file, golden.HowTo, update).Answers(model)
}
