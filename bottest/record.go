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

// Record is a model that answers what is in the file, a cassette, and costs nothing: for a
// test with what a real model said once. A call whose request is not in the file fails the
// test and shows what has changed in the prompt; so does a call that was not made.
//
// With BOTTEST_UPDATE=1 in the environment the model is asked and the file written, once the
// test has ended without a failure. A model that is nil cannot be asked: then the answers in the file stay, in their
// order, and only the prompts are written anew. An answer of [models.Offline], which
// [models.FromEnv] gives where no model is set up, fails the test then, and nothing is
// written, unless the answers in the file are of that model, too.
//
// The file holds prompts as text, without the time of the turn, and no secrets as far as
// they look like some. Call it before the kit is made, so that it ends after the bot. In a
// bubble no real model can be asked: record with [New].
func Record(t testing.TB, file string, model models.Model) models.Model {
	t.Helper()
	update := golden.Updating()
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && (!update || model == nil) {
		t.Fatalf("there is no %s yet; %s and with a model, writes it", file, golden.HowTo)
	}
	return cassette.Open(t, file, golden.HowTo, update).Answers(model)
}
