package bottest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
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
	r := &recorded{t: t, file: file, model: model, update: golden.Updating(), scrub: scrub.New()}
	var err error
	r.calls, err = cassette.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.update && model != nil:
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("there is no %s yet; %s and with a model, writes it", file, golden.HowTo())
	case err != nil:
		t.Fatalf("%v", err)
	}
	r.used = make([]bool, len(r.calls))
	r.offline = slices.ContainsFunc(r.calls, func(c cassette.Call) bool { return c.Answer != nil && c.Answer.Model == models.OfflineName })
	t.Cleanup(r.end)
	return r
}

// Updating reports whether files that tests compare with are to be written anew: with
// BOTTEST_UPDATE=1 in the environment or, where the test binary has such a flag, -update.
func Updating() bool { return golden.Updating() }

type recorded struct {
	t      TB
	file   string
	model  models.Model
	update bool
	// offline says that the file is a recording of the offline model.
	offline bool
	scrub   *scrub.Scrubber

	mu    sync.Mutex
	calls []cassette.Call
	used  []bool
	made  []cassette.Call // when the file is written anew
}

func (r *recorded) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	if !r.update {
		return r.replay(cassette.Asked(req, r.scrub))
	}
	if r.model == nil {
		return r.keep(cassette.Asked(req, r.scrub))
	}
	answer, err := r.model.Complete(ctx, req)
	if answer != nil && answer.Model == models.OfflineName && !r.offline {
		r.t.Errorf("%s is to be what a real model says, and there is the offline one only: set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT; nothing is written", r.file)
		return nil, &models.Error{Kind: models.BadRequest, Code: notRecorded}
	}
	if call, ok := cassette.New(req, answer, err, r.scrub); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.made = append(r.made, call)
	}
	return answer, err
}

// replay answers with the first call in the file that was not used yet and asked the same:
// of several at the same time nobody knows the order.
func (r *recorded) replay(asked string) (*models.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := -1
	for i := range r.calls {
		if r.used[i] {
			continue
		}
		if r.calls[i].Asked == asked {
			r.used[i] = true
			return r.calls[i].Response()
		}
		if next < 0 {
			next = i
		}
	}
	if next < 0 {
		r.t.Errorf("%s has %d calls of the model, and one more was made; it was asked:\n%s", r.file, len(r.calls), indent(asked))
		return nil, &models.Error{Kind: models.BadRequest, Code: notRecorded}
	}
	r.used[next] = true // so that the calls behind it are told by themselves
	r.t.Errorf("call %d of %s was asked something else; if this is meant, %s, takes it (-file +now):\n%s",
		next+1, r.file, golden.HowTo(), indent(golden.Diff(r.calls[next].Asked, asked)))
	return nil, &models.Error{Kind: models.BadRequest, Code: notRecorded}
}

// keep takes the next answer in the file for the answer to this.
func (r *recorded) keep(asked string) (*models.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.made) == len(r.calls) {
		r.t.Errorf("%s has no answer to call %d, and there is no model to ask; it was asked:\n%s", r.file, len(r.made)+1, indent(asked))
		return nil, &models.Error{Kind: models.BadRequest, Code: notRecorded}
	}
	call := r.calls[len(r.made)]
	call.Asked = asked
	r.made = append(r.made, call)
	return call.Response()
}

// end reports what was not asked, or writes the file.
func (r *recorded) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.t.Failed() {
		return
	}
	if !r.update {
		left := 0
		for _, used := range r.used {
			if !used {
				left++
			}
		}
		if left > 0 {
			r.t.Errorf("%d of the %d calls in %s were not made", left, len(r.calls), r.file)
		}
		return
	}
	raw, err := cassette.Write(r.made)
	if err == nil {
		err = golden.Write(r.file, raw)
	}
	if err != nil {
		r.t.Errorf("write %s: %v", r.file, err)
	}
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
