package bottest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"

	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
)

// tape is a cassette that a test plays, or writes anew at its end.
type tape struct {
	t      TB
	file   string
	how    string // it is written anew
	update bool
	scrub  *scrub.Scrubber

	mu    sync.Mutex
	calls []cassette.Call
	used  []bool
	made  []cassette.Call // when the file is written anew
}

// openTape reads the file. The test ends with what was not asked as a failure.
func openTape(t TB, file, how string, update bool) (*tape, error) {
	p := &tape{t: t, file: file, how: how, update: update, scrub: scrub.New()}
	var err error
	p.calls, err = cassette.ReadFile(file)
	p.used = make([]bool, len(p.calls))
	return p, err
}

func (p *tape) asked(req *models.Request) string { return cassette.Asked(req, p.scrub) }

// find is the first call in the file that was not used yet and asked the same, as far as part
// takes of it: of several at the same time nobody knows the order. Where there is none the test
// fails, and it is nil.
func (p *tape) find(asked string, part func(asked string) string) *cassette.Call {
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
func (p *tape) keep(asked string) *cassette.Call {
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
	if call, ok := cassette.New(req, answer, err, p.scrub); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.made = append(p.made, call)
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
	raw, err := cassette.Write(p.made)
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

func sameAnswer(a, b cassette.Call) bool {
	if a.Answer == nil || b.Answer == nil {
		return a.Answer == b.Answer
	}
	return a.Answer.Text == b.Answer.Text
}
