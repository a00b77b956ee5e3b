// Package cassette keeps what models were asked and answered in files, which tests play.
package cassette

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/yamltext"
	"github.com/planbot-go/planbot/models"
)

// Call is one call of a model. It has an Answer or a Fault.
type Call struct {
	Planner string  `json:"planner,omitempty"` // that asked; "": sequence, or it is not known
	Foreign bool    `json:"foreign,omitempty"` // the prompt may have what is not in the scenario beside the cassette
	Asked   string  `json:"asked"`             // the request as text
	Answer  *answer `json:"answer,omitempty"`
	Fault   *fault  `json:"fault,omitempty"`
}

// answer is what a model wrote.
type answer struct {
	Text   string  `json:"text,omitempty"`
	Tools  []tool  `json:"calls,omitempty"`
	Finish string  `json:"finish,omitempty"`
	Model  string  `json:"model,omitempty"`
	Tokens [4]int  `json:"tokens,omitzero"` // of the prompt and the answer, cached and of reasoning
	Cost   float64 `json:"cost,omitempty"`
}

type tool struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

// fault is why there was no answer.
type fault struct {
	Kind       string `json:"kind"`
	Status     int    `json:"status,omitempty"`
	Code       string `json:"code,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

// New is the call with what came of it. It is false of a call that was given up before there
// was an answer.
func New(req *models.Request, response *models.Response, err error) (Call, bool) {
	c := Call{Asked: strings.ToValidUTF8(golden.Prompt(req), "\ufffd")} // as it is read back
	failed, isFault := errors.AsType[*models.Error](err)
	switch {
	case isFault:
		c.Fault = &fault{Kind: failed.Kind, Status: failed.Status, Code: failed.Code}
		if failed.RetryAfter > 0 {
			c.Fault.RetryAfter = failed.RetryAfter.String()
		}
	case err != nil || response == nil:
		return c, false
	default:
		u := response.Usage
		c.Answer = &answer{
			Text: response.Text, Finish: response.Finish, Model: response.Model,
			Tokens: [4]int{u.Prompt, u.Completion, u.Cached, u.Reasoning}, Cost: u.Cost,
		}
		for _, call := range response.Calls {
			c.Answer.Tools = append(c.Answer.Tools, tool(call))
		}
	}
	return c, true
}

// Scrub is the call with stand-ins.
func (c Call) Scrub(s *scrub.Scrubber) Call {
	c.Asked = s.Text(c.Asked)
	if c.Answer != nil {
		a := *c.Answer
		a.Text, a.Tools = s.Text(a.Text), slices.Clone(a.Tools)
		for i := range a.Tools {
			a.Tools[i].Arguments = s.Text(a.Tools[i].Arguments)
		}
		c.Answer = &a
	}
	if c.Fault != nil {
		f := *c.Fault
		f.Code = s.Text(f.Code)
		c.Fault = &f
	}
	return c
}

// Response is what came of the call, as a model gives it.
func (c *Call) Response() (*models.Response, error) {
	if f := c.Fault; f != nil {
		wait, _ := time.ParseDuration(f.RetryAfter) // 0 where there is none
		return nil, &models.Error{Kind: f.Kind, Status: f.Status, Code: f.Code, RetryAfter: wait}
	}
	a := c.Answer
	r := &models.Response{Text: a.Text, Finish: a.Finish, Model: a.Model}
	r.Usage = models.Usage{Prompt: a.Tokens[0], Completion: a.Tokens[1], Cached: a.Tokens[2], Reasoning: a.Tokens[3], Cost: a.Cost}
	for _, t := range a.Tools {
		r.Calls = append(r.Calls, models.Call(t))
	}
	return r, nil
}

var kinds = []string{
	models.Throttled, models.Quota, models.TooLong, models.Filtered, models.Auth,
	models.Timeout, models.Unavailable, models.BadRequest, models.Empty,
}

// Write writes the calls as YAML.
func Write(calls []Call) ([]byte, error) {
	return yamltext.Write(map[string][]Call{"calls": calls})
}

// Read reads a file that [Write] wrote.
func Read(name string) ([]Call, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file struct {
		Calls []Call `json:"calls"`
	}
	if raw, err = yamltext.JSON(raw); err == nil {
		err = strict.Unmarshal(raw, &file, strict.RejectUnknownMembers(true))
	}
	for i := 0; err == nil && i < len(file.Calls); i++ {
		if c := &file.Calls[i]; (c.Answer == nil) == (c.Fault == nil) {
			err = fmt.Errorf("call %d: want an answer or a fault", i+1)
		} else if c.Fault != nil && !slices.Contains(kinds, c.Fault.Kind) {
			err = fmt.Errorf("call %d: there is no kind %q of fault", i+1, c.Fault.Kind)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read cassette %s: %w", name, err)
	}
	return file.Calls, nil
}

// T is what is needed of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(f func())
}

// Player plays a cassette in a test, or writes it anew at its end. It is safe for concurrent
// use.
type Player struct {
	t      T
	file   string
	how    string // it is written anew
	update bool
	scrub  *scrub.Scrubber

	mu    sync.Mutex
	calls []Call
	used  []bool
	made  []Call // when the file is written anew
}

// Open reads the file. The test ends with what was not asked as a failure.
func Open(t T, file, how string, update bool) *Player {
	t.Helper()
	p := &Player{t: t, file: file, how: how, update: update, scrub: scrub.New()}
	var err error
	if p.calls, err = Read(file); err != nil && !(update && errors.Is(err, fs.ErrNotExist)) {
		t.Fatalf("%v", err)
	}
	p.used = make([]bool, len(p.calls))
	t.Cleanup(p.end)
	return p
}

// Answers is a model that answers what is in the file. To write it anew it asks the other model
// or, where that is nil, leaves the answers as they are.
func (p *Player) Answers(model models.Model) models.Model { return answers{p, model} }

type answers struct {
	*Player
	model models.Model
}

func (a answers) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	var call *Call
	switch {
	case !a.update:
		call = a.find(a.asked(req), func(asked string) string { return asked })
	case a.model == nil:
		call = a.keep(a.asked(req), false)
	default:
		answer, err := a.model.Complete(ctx, req)
		if answer != nil && answer.Model == offline && !slices.ContainsFunc(a.calls, func(c Call) bool { return c.Answer != nil && c.Answer.Model == offline }) {
			a.t.Errorf("%s is to be what a real model says, and there is the offline one only: set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT; nothing is written", a.file)
		} else if one, ok := New(req, answer, err); ok {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.made = append(a.made, one.Scrub(a.scrub))
			return answer, err
		}
	}
	if call == nil {
		return nil, &models.Error{Kind: models.BadRequest, Code: "not_recorded"}
	}
	return call.Response()
}

var offline = models.Offline{}.Name()

// Compared is the model, whose prompts are compared with those in the file, whatever it
// answers: the messages and the tools, and not the settings, which depend on the model.
func (p *Player) Compared(model models.Model) models.Model { return compared{model, p} }

type compared struct {
	models.Model
	with *Player
}

func (c compared) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	answer, err := c.Model.Complete(ctx, req)
	asked := golden.PromptOf(c.with.asked(req))
	switch {
	case errors.Is(err, context.Canceled): // it is in no recording
	case c.with.update:
		c.with.keep(asked, true)
	default:
		c.with.find(asked, golden.PromptOf)
	}
	return answer, err
}

func (p *Player) asked(req *models.Request) string {
	call, _ := New(req, nil, nil)
	return call.Scrub(p.scrub).Asked
}

// find is the first call in the file that was not used yet and asked the same, as far as part
// takes of it: of several at the same time nobody knows the order. Where there is none the test
// fails, and it is nil.
func (p *Player) find(asked string, part func(asked string) string) *Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := slices.Index(p.used, false)
	if next < 0 {
		p.t.Errorf("%s has %d calls of the model, and one more was made; it was asked:\n%s", p.file, len(p.calls), inset(asked))
		return nil
	}
	for i := range p.calls {
		if !p.used[i] && part(p.calls[i].Asked) == asked {
			p.used[i] = true
			return &p.calls[i]
		}
	}
	p.used[next] = true // so that the calls behind it are told by themselves
	p.t.Errorf("call %d of %s was asked something else; if this is meant, %s, takes it (-file +now):\n%s",
		next+1, p.file, p.how, inset(golden.Diff(part(p.calls[next].Asked), asked)))
	return nil
}

func inset(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// keep takes the next answer in the file for the answer to this. Where only a part of what is
// asked counts, the rest stays as it is in the file.
func (p *Player) keep(asked string, isPart bool) *Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.made) == len(p.calls) {
		p.t.Errorf("%s has no answer to call %d, and there is no model to ask; it was asked:\n%s", p.file, len(p.made)+1, inset(asked))
		return nil
	}
	call := p.calls[len(p.made)]
	if isPart {
		asked += strings.TrimPrefix(call.Asked, golden.PromptOf(call.Asked))
	}
	call.Asked = asked
	p.made = append(p.made, call)
	return &call
}

// end reports what was not asked, or writes the file.
func (p *Player) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.t.Failed():
	case p.update:
		raw, err := Write(p.made)
		if err == nil {
			err = golden.Write(p.file, append(headOf(p.file), raw...))
		}
		if err != nil {
			p.t.Errorf("write %s: %v", p.file, err)
		}
	case slices.Contains(p.used, false):
		left := slices.DeleteFunc(slices.Clone(p.used), func(used bool) bool { return used })
		p.t.Errorf("%d of the %d calls in %s were not made", len(left), len(p.calls), p.file)
	}
}

// headOf are the comments with which a file begins.
func headOf(file string) (head []byte) {
	raw, _ := os.ReadFile(file) // a file that is not there has none
	for line := range bytes.Lines(raw) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		head = append(head, line...)
	}
	return head
}
