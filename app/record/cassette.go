package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/yamltext"
	"github.com/planbot-go/planbot/models"
)

// maxCassetteBytes is the cap on a file.
const maxCassetteBytes = 16 << 20

// Call is one call of a model. It has an Answer or a Fault.
type Call struct {
	Conversation string      `json:"conversation,omitempty"` // that it was for, where that is known
	Activity     string      `json:"activity,omitempty"`     // that was being answered
	Planner      string      `json:"planner,omitempty"`      // that asked; "": sequence, or it is not known
	Foreign      bool        `json:"foreign,omitempty"`      // the prompt may have what is not in the scenario beside the cassette
	Asked        string      `json:"asked"`                  // the request as text
	Answer       *CallAnswer `json:"answer,omitempty"`
	Fault        *CallFault  `json:"fault,omitempty"`
}

// CallAnswer is what a model wrote.
type CallAnswer struct {
	Text   string     `json:"text,omitempty"`
	Tools  []CallTool `json:"calls,omitempty"`
	Finish string     `json:"finish,omitempty"`
	Model  string     `json:"model,omitempty"`
	Tokens [4]int     `json:"tokens,omitzero"` // of the prompt and the answer, cached and of reasoning
	Cost   *float64   `json:"cost,omitempty"`
}

// CallTool is a call of a tool.
type CallTool struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

// CallFault is why there was no answer.
type CallFault struct {
	Kind       string `json:"kind"`
	Status     int    `json:"status,omitempty"`
	Code       string `json:"code,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

// NewCall is the call with what came of it, scrubbed; a nil scrubber changes nothing. It is false of a call that was given up
// before there was an answer.
func NewCall(req *models.Request, answer *models.Response, err error, s *scrub.Scrubber) (Call, bool) {
	c := Call{Asked: Asked(req, s)}
	fault, failed := errors.AsType[*models.Error](err)
	switch {
	case failed:
		c.Fault = &CallFault{Kind: fault.Kind.String(), Status: fault.Status, Code: s.Text(fault.Code)}
		if fault.RetryAfter > 0 {
			c.Fault.RetryAfter = fault.RetryAfter.String()
		}
	case err != nil || answer == nil:
		return c, false
	default:
		c.Answer = newAnswer(answer, s)
	}
	return c, true
}

// Asked is the request as text, scrubbed.
func Asked(req *models.Request, s *scrub.Scrubber) string {
	return yamltext.Clean(s.Text(golden.Prompt(req)))
}

func newAnswer(from *models.Response, s *scrub.Scrubber) *CallAnswer {
	a := &CallAnswer{Text: s.Text(from.Text), Finish: from.Finish, Model: from.Model}
	u := from.Usage
	a.Tokens = [4]int{u.Prompt, u.Completion, u.Cached, u.Reasoning}
	if u.Cost > 0 {
		a.Cost = &u.Cost
	}
	for _, c := range from.Calls {
		a.Tools = append(a.Tools, CallTool{c.ID, c.Name, s.Text(c.Arguments)})
	}
	return a
}

// scrubbedAll are the calls with stand-ins, of conversations and activities as well.
func scrubbedAll(calls []Call, s *scrub.Scrubber) []Call {
	out := make([]Call, len(calls))
	for i, c := range calls {
		c.Conversation, c.Activity = s.ID(scrub.Conversation, c.Conversation), s.ID(scrub.Activity, c.Activity)
		c.Asked = s.Text(c.Asked)
		if c.Answer != nil {
			a := *c.Answer
			a.Text, a.Tools = s.Text(a.Text), nil
			for _, t := range c.Answer.Tools {
				t.Arguments = s.Text(t.Arguments)
				a.Tools = append(a.Tools, t)
			}
			c.Answer = &a
		}
		if c.Fault != nil {
			f := *c.Fault
			f.Code = s.Text(f.Code)
			c.Fault = &f
		}
		out[i] = c
	}
	return out
}

// Response is what came of the call, as a model gives it.
func (c *Call) Response() (*models.Response, error) {
	if c.Fault != nil {
		return nil, c.Fault.err()
	}
	a := c.Answer
	if a == nil {
		return nil, &models.Error{Kind: models.Empty}
	}
	r := &models.Response{Text: a.Text, Finish: a.Finish, Model: a.Model}
	r.Usage = models.Usage{Prompt: a.Tokens[0], Completion: a.Tokens[1], Cached: a.Tokens[2], Reasoning: a.Tokens[3]}
	if a.Cost != nil {
		r.Usage.Cost = *a.Cost
	}
	for _, t := range a.Tools {
		r.Calls = append(r.Calls, models.Call(t))
	}
	return r, nil
}

// err is the error that the model gave.
func (f *CallFault) err() *models.Error {
	e := &models.Error{Kind: kindNamed(f.Kind), Status: f.Status, Code: f.Code}
	e.RetryAfter, _ = time.ParseDuration(f.RetryAfter) // it was read before
	return e
}

// kindNamed is the kind of that name, 0 if there is none.
func kindNamed(name string) models.Kind {
	none := models.Kind(0).String()
	for k := models.Kind(1); k.String() != none; k++ {
		if k.String() == name {
			return k
		}
	}
	return 0
}

// WriteCalls writes the calls. The error is that of more than can be read again.
func WriteCalls(calls []Call) ([]byte, error) {
	list := make([]any, len(calls))
	for i, c := range calls {
		list[i] = c.tree()
	}
	raw, err := yamltext.Write(yamltext.Object{{Name: "calls", Value: list}})
	if err == nil && len(raw) > maxCassetteBytes {
		err = fmt.Errorf("write a cassette: %d bytes, at most %d", len(raw), maxCassetteBytes)
	}
	return raw, err
}

// tree has the parts of the call that there are, in their order.
func (c *Call) tree() yamltext.Object {
	var o yamltext.Object
	add := func(o *yamltext.Object, name string, value any, there bool) {
		if there {
			*o = append(*o, yamltext.Field{Name: name, Value: value})
		}
	}
	add(&o, "conversation", c.Conversation, c.Conversation != "")
	add(&o, "activity", c.Activity, c.Activity != "")
	add(&o, "planner", c.Planner, c.Planner != "")
	add(&o, "foreign", c.Foreign, c.Foreign)
	add(&o, "asked", c.Asked, true)
	if a := c.Answer; a != nil {
		var of yamltext.Object
		add(&of, "text", a.Text, a.Text != "")
		var tools []any
		for _, t := range a.Tools {
			tools = append(tools, yamltext.Object{{Name: "id", Value: t.ID}, {Name: "name", Value: t.Name}, {Name: "arguments", Value: t.Arguments}})
		}
		add(&of, "calls", tools, len(tools) > 0)
		add(&of, "finish", a.Finish, a.Finish != "")
		add(&of, "model", a.Model, a.Model != "")
		add(&of, "tokens", a.Tokens, a.Tokens != [4]int{})
		add(&of, "cost", a.Cost, a.Cost != nil)
		add(&o, "answer", of, true)
	}
	add(&o, "fault", c.Fault, c.Fault != nil)
	return o
}

// ReadCalls reads what [WriteCalls] wrote.
func ReadCalls(name string) ([]Call, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only
	return readCalls(file, name)
}

func readCalls(from io.Reader, name string) ([]Call, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxCassetteBytes+1))
	if err == nil && len(raw) > maxCassetteBytes {
		err = fmt.Errorf("more than %d bytes", maxCassetteBytes)
	}
	if err == nil {
		raw, err = yamltext.JSON(raw)
	}
	var file struct {
		Calls []Call `json:"calls"`
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(&file)
	}
	for i := 0; err == nil && i < len(file.Calls); i++ {
		if fault := file.Calls[i].check(); fault != nil {
			err = fmt.Errorf("call %d: %w", i+1, fault)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read cassette %s: %w", name, err)
	}
	return file.Calls, nil
}

func (c *Call) check() error {
	switch f := c.Fault; {
	case (c.Answer == nil) == (f == nil):
		return errors.New("want an answer or a fault")
	case f != nil && kindNamed(f.Kind) == 0:
		return fmt.Errorf("fault: there is no kind %q", f.Kind)
	case f != nil && f.RetryAfter != "":
		_, err := time.ParseDuration(f.RetryAfter)
		return err
	}
	return nil
}
