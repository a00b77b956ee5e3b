package bottest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
)

// notRecorded is the code of the error with which a call fails that is not in the file.
const notRecorded = "not_recorded"

// Record is a model that answers what is in the file, a cassette, and costs nothing: for a
// test with what a real model said once. A call whose request is not in the file fails the
// test and shows what has changed in the prompt; so does a call that was not made.
//
// When files are written anew, see [Updating], the model is asked and the file written, once
// the test has ended without a failure. A model that is nil cannot be asked: then the
// answers in the file stay, in their order, and only the prompts are written anew. An answer
// of [models.Offline], which [models.FromEnv] gives where no model is set up, fails the test
// then, and nothing is written, unless the answers in the file are of that model, too.
//
// The file holds prompts as text, without the time of the turn, and no secrets as far as
// they look like some. Call it before the kit is made, so that it ends after the bot. In a
// bubble no real model can be asked: record with [New].
func Record(t TB, file string, model models.Model) models.Model {
	t.Helper()
	p, err := openTape(t, file, golden.HowTo(), golden.Updating())
	r := &recorded{tape: p, model: model}
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.update && model != nil:
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("there is no %s yet; %s and with a model, writes it", file, golden.HowTo())
	case err != nil:
		t.Fatalf("%v", err)
	}
	r.offline = slices.ContainsFunc(r.calls, func(c cassette.Call) bool { return c.Answer != nil && c.Answer.Model == models.OfflineName })
	t.Cleanup(r.end)
	return r
}

// Updating reports whether files that tests compare with are to be written anew: with
// BOTTEST_UPDATE=1 in the environment or, where the test binary has such a flag, -update.
func Updating() bool { return golden.Updating() }

type recorded struct {
	*tape
	model models.Model
	// offline says that the file is a recording of the offline model.
	offline bool
}

func (r *recorded) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	if !r.update {
		return answerOf(r.find(r.asked(req), whole))
	}
	if r.model == nil {
		return answerOf(r.keep(r.asked(req)))
	}
	answer, err := r.model.Complete(ctx, req)
	if answer != nil && answer.Model == models.OfflineName && !r.offline {
		r.t.Errorf("%s is to be what a real model says, and there is the offline one only: set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT; nothing is written", r.file)
		return answerOf(nil)
	}
	r.add(req, answer, err)
	return answer, err
}

func whole(asked string) string { return asked }

// answerOf is what came of the call; nil: it is not in the file.
func answerOf(call *cassette.Call) (*models.Response, error) {
	if call == nil {
		return nil, &models.Error{Kind: models.BadRequest, Code: notRecorded}
	}
	return call.Response()
}

// Golden compares a text with a file, and shows the difference as a failure of the test.
// When files are written anew, see [Updating], the file gets that text.
func Golden(t TB, file, text string) {
	t.Helper()
	golden.Compare(t, file, text)
}

// GoldenPrompt is [Golden] for what the model was asked: the messages and the tools,
// without the time of the turn. There has to be a call. Keep the files with the code, and
// a changed prompt is seen before it is shipped.
func GoldenPrompt(t TB, file string, calls ...ModelCall) {
	t.Helper()
	if len(calls) == 0 {
		t.Fatalf("the model was not asked, so there is no prompt for %s: a bot has to answer before its calls are known", file)
	}
	text := ""
	for i, c := range calls {
		if len(calls) > 1 {
			text += fmt.Sprintf("##### call %d\n\n", i+1)
		}
		text += golden.Prompt(&models.Request{Messages: c.Messages, Tools: c.Tools})
		if i < len(calls)-1 {
			text += "\n"
		}
	}
	golden.Compare(t, file, text)
}
