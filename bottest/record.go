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

	"github.com/planbot-go/planbot/app/record"
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
	p, err := openTape(t, file, golden.HowTo(), golden.Updating())
	r := &recorded{tape: p, model: model}
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.update && model != nil:
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("there is no %s yet; %s and with a model, writes it", file, golden.HowTo())
	case err != nil:
		t.Fatalf("%v", err)
	}
	r.offline = slices.ContainsFunc(r.calls, func(c record.Call) bool { return c.Answer != nil && c.Answer.Model == models.OfflineName })
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
func answerOf(call *record.Call) (*models.Response, error) {
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

// tape is a cassette that a test plays, or writes anew at its end.
type tape struct {
	t      TB
	file   string
	how    string // it is written anew
	update bool
	scrub  *scrub.Scrubber

	mu    sync.Mutex
	calls []record.Call
	used  []bool
	made  []record.Call // when the file is written anew
}

// openTape reads the file. The test ends with what was not asked as a failure.
func openTape(t TB, file, how string, update bool) (*tape, error) {
	p := &tape{t: t, file: file, how: how, update: update, scrub: scrub.New()}
	var err error
	p.calls, err = record.ReadCalls(file)
	p.used = make([]bool, len(p.calls))
	return p, err
}

// asked is the request as text.
func (p *tape) asked(req *models.Request) string {
	call, _ := record.NewCall(req, nil, nil)
	return call.Scrub(p.scrub).Asked
}

// find is the first call in the file that was not used yet and asked the same, as far as part
// takes of it: of several at the same time nobody knows the order. Where there is none the test
// fails, and it is nil.
func (p *tape) find(asked string, part func(asked string) string) *record.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := -1
	for i := range p.calls {
		if p.used[i] {
			continue
		}
		if part(p.calls[i].Asked) == asked {
			p.used[i] = true
			return &p.calls[i]
		}
		if next < 0 {
			next = i
		}
	}
	if next < 0 {
		p.t.Errorf("%s has %d calls of the model, and one more was made; it was asked:\n%s", p.file, len(p.calls), indent(asked))
		return nil
	}
	p.used[next] = true // so that the calls behind it are told by themselves
	p.t.Errorf("call %d of %s was asked something else; if this is meant, %s, takes it (-file +now):\n%s",
		next+1, p.file, p.how, indent(golden.Diff(part(p.calls[next].Asked), asked)))
	return nil
}

// keep takes the next answer in the file for the answer to this.
func (p *tape) keep(asked string) *record.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.made) == len(p.calls) {
		p.t.Errorf("%s has no answer to call %d, and there is no model to ask; it was asked:\n%s", p.file, len(p.made)+1, indent(asked))
		return nil
	}
	call := p.calls[len(p.made)]
	call.Asked = asked
	p.made = append(p.made, call)
	return &call
}

// add has the file say what was asked and answered.
func (p *tape) add(req *models.Request, answer *models.Response, err error) {
	if call, ok := record.NewCall(req, answer, err); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.made = append(p.made, call.Scrub(p.scrub))
	}
}

// end reports what was not asked, or writes the file.
func (p *tape) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.t.Failed() {
		return
	}
	if !p.update {
		left := 0
		for _, used := range p.used {
			if !used {
				left++
			}
		}
		if left > 0 {
			p.t.Errorf("%d of the %d calls in %s were not made", left, len(p.calls), p.file)
		}
		return
	}
	raw, err := record.WriteCalls(p.made)
	if err == nil {
		err = golden.Write(p.file, append(headOf(p.file), raw...))
	}
	if err != nil {
		p.t.Errorf("write %s: %v", p.file, err)
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

// Prompts holds what a bot asks its model to the prompts in a file, a cassette, whatever the
// model answers: the messages and the tools, and not the settings, which depend on the model. A
// call that asks something else fails the test and shows what has changed; so does one that is
// not made. It is safe for concurrent use.
type Prompts struct{ tape *tape }

// ComparePrompts reads the file. With update the prompts in it are written anew once the test
// has ended without a failure; how says how people ask for that. Call it before the kit is made.
func ComparePrompts(t TB, file, how string, update bool) *Prompts {
	t.Helper()
	p, err := openTape(t, file, how, update)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.end)
	return &Prompts{p}
}

// Model is the model, whose prompts are compared.
func (p *Prompts) Model(m models.Model) models.Model { return compared{m, p.tape} }

type compared struct {
	models.Model
	tape *tape
}

func (c compared) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	answer, err := c.Model.Complete(ctx, req)
	switch {
	case errors.Is(err, context.Canceled): // it is in no recording
	case c.tape.update:
		c.tape.renew(req, answer, err)
	default:
		c.tape.find(golden.PromptOf(c.tape.asked(req)), golden.PromptOf)
	}
	return answer, err
}

// renew is add, with the settings and what else the file knows of the call as it is.
func (p *tape) renew(req *models.Request, answer *models.Response, err error) {
	p.add(req, answer, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.made) - 1
	if last < 0 || last >= len(p.calls) {
		return
	}
	was := p.calls[last]
	was.Asked = golden.PromptOf(p.made[last].Asked) + was.Asked[len(golden.PromptOf(was.Asked)):]
	if sameAnswer(was, p.made[last]) {
		p.made[last] = was
	}
}

func sameAnswer(a, b record.Call) bool {
	if a.Answer == nil || b.Answer == nil {
		return a.Answer == b.Answer
	}
	return a.Answer.Text == b.Answer.Text
}
