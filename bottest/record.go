package bottest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
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
	c := openCassette(t, file, golden.HowTo, update)
	offline := slices.ContainsFunc(c.calls, func(c record.Call) bool { return c.Answer != nil && c.Answer.Model == (models.Offline{}).Name() })
	return recorded{c, model, offline}
}

type recorded struct {
	*cassette
	model   models.Model
	offline bool // what is in the file is of the offline model
}

func (r recorded) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	asked := record.Asked(req, r.scrub)
	var call *record.Call
	switch {
	case !r.update:
		call = r.find(asked, func(asked string) string { return asked })
	case r.model == nil:
		call = r.keep(asked)
	default:
		answer, err := r.model.Complete(ctx, req)
		if r.offline || answer == nil || answer.Model != (models.Offline{}).Name() {
			r.add(req, answer, err)
			return answer, err
		}
		r.t.Errorf("%s is to be what a real model says, and there is the offline one only: set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT; nothing is written", r.file)
	}
	if call == nil {
		return nil, &models.Error{Kind: models.BadRequest, Code: "not_recorded"}
	}
	return call.Response()
}

// compared is a model whose prompts are compared with those in a file, whatever it answers:
// the messages and the tools, and not the settings, which depend on the model.
type compared struct {
	models.Model
	cassette *cassette
}

func (c compared) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	answer, err := c.Model.Complete(ctx, req)
	switch {
	case errors.Is(err, context.Canceled): // it is in no recording
	case c.cassette.update:
		c.cassette.renew(req, answer, err)
	default:
		c.cassette.find(golden.PromptOf(record.Asked(req, c.cassette.scrub)), golden.PromptOf)
	}
	return answer, err
}

// GoldenPrompt compares what the model was asked with a file, and shows the difference as a
// failure of the test: the messages and the tools, without the time of the turn. There has to
// be a call. Keep the files with the code, and a changed prompt is seen before it is shipped.
// See [Record] for how files are written anew.
func GoldenPrompt(t testing.TB, file string, calls ...ModelCall) {
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

// cassette is a file of calls that a test plays, or writes anew at its end.
type cassette struct {
	t      testing.TB
	file   string
	how    string // it is written anew
	update bool
	scrub  *scrub.Scrubber

	mu    sync.Mutex
	calls []record.Call
	used  []bool
	made  []record.Call // when the file is written anew
}

// openCassette reads the file. The test ends with what was not asked as a failure.
func openCassette(t testing.TB, file, how string, update bool) *cassette {
	t.Helper()
	c := &cassette{t: t, file: file, how: how, update: update, scrub: scrub.New()}
	var err error
	if c.calls, err = record.ReadCalls(file); err != nil && !(update && errors.Is(err, fs.ErrNotExist)) {
		t.Fatalf("%v", err)
	}
	c.used = make([]bool, len(c.calls))
	t.Cleanup(c.end)
	return c
}

// find is the first call in the file that was not used yet and asked the same, as far as part
// takes of it: of several at the same time nobody knows the order. Where there is none the test
// fails, and it is nil.
func (c *cassette) find(asked string, part func(asked string) string) *record.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := -1
	for i := range c.calls {
		if c.used[i] {
			continue
		}
		if part(c.calls[i].Asked) == asked {
			c.used[i] = true
			return &c.calls[i]
		}
		if next < 0 {
			next = i
		}
	}
	if next < 0 {
		c.t.Errorf("%s has %d calls of the model, and one more was made; it was asked:\n%s", c.file, len(c.calls), indent(asked))
		return nil
	}
	c.used[next] = true // so that the calls behind it are told by themselves
	c.t.Errorf("call %d of %s was asked something else; if this is meant, %s, takes it (-file +now):\n%s",
		next+1, c.file, c.how, indent(golden.Diff(part(c.calls[next].Asked), asked)))
	return nil
}

// keep takes the next answer in the file for the answer to this.
func (c *cassette) keep(asked string) *record.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == len(c.calls) {
		c.t.Errorf("%s has no answer to call %d, and there is no model to ask; it was asked:\n%s", c.file, len(c.made)+1, indent(asked))
		return nil
	}
	call := c.calls[len(c.made)]
	call.Asked = asked
	c.made = append(c.made, call)
	return &call
}

// add has the file say what was asked and answered.
func (c *cassette) add(req *models.Request, answer *models.Response, err error) {
	if call, ok := record.NewCall(req, answer, err, c.scrub); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made = append(c.made, call)
	}
}

// end reports what was not asked, or writes the file.
func (c *cassette) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.t.Failed() {
		return
	}
	if !c.update {
		left := 0
		for _, used := range c.used {
			if !used {
				left++
			}
		}
		if left > 0 {
			c.t.Errorf("%d of the %d calls in %s were not made", left, len(c.calls), c.file)
		}
		return
	}
	raw, err := record.WriteCalls(c.made)
	if err == nil {
		err = golden.Write(c.file, append(headOf(c.file), raw...))
	}
	if err != nil {
		c.t.Errorf("write %s: %v", c.file, err)
	}
}

// headOf are the comments with which a file begins.
func headOf(file string) (head []byte) {
	raw, _ := os.ReadFile(file) // a file that is not there has none
	for bytes.HasPrefix(raw, []byte("#")) {
		line, rest, _ := bytes.Cut(raw, []byte("\n"))
		head, raw = append(append(head, line...), '\n'), rest
	}
	return head
}

// renew is add, with the settings and what else the file knows of the call as it is.
func (c *cassette) renew(req *models.Request, answer *models.Response, err error) {
	c.add(req, answer, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.made) - 1
	if last < 0 || last >= len(c.calls) {
		return
	}
	was := c.calls[last]
	was.Asked = golden.PromptOf(c.made[last].Asked) + was.Asked[len(golden.PromptOf(was.Asked)):]
	if sameAnswer(was, c.made[last]) {
		c.made[last] = was
	}
}

func sameAnswer(a, b record.Call) bool {
	if a.Answer == nil || b.Answer == nil {
		return a.Answer == b.Answer
	}
	return a.Answer.Text == b.Answer.Text
}
