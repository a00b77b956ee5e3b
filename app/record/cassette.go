package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
)

// Call is one call of a model. It has an Answer or a Fault.
type Call struct {
	Conversation string      `json:"conversation,omitempty"` // that it was for, where that is known
	Activity     string      `json:"activity,omitempty"`     // that was being answered
	Planner      string      `json:"planner,omitempty"`      // that asked; "": sequence, or it is not known
	Foreign      bool        `json:"foreign,omitempty"`      // the prompt may have what is not in the scenario beside the cassette
	Asked        string      `json:"asked"`                  // the request as text
	Answer       *callAnswer `json:"answer,omitempty"`
	Fault        *callFault  `json:"fault,omitempty"`
}

// callAnswer is what a model wrote.
type callAnswer struct {
	Text   string     `json:"text,omitempty"`
	Tools  []callTool `json:"calls,omitempty"`
	Finish string     `json:"finish,omitempty"`
	Model  string     `json:"model,omitempty"`
	Tokens [4]int     `json:"tokens,omitzero"` // of the prompt and the answer, cached and of reasoning
	Cost   float64    `json:"cost,omitempty"`
}

// callTool is a call of a tool.
type callTool struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

// callFault is why there was no answer.
type callFault struct {
	Kind       string `json:"kind"`
	Status     int    `json:"status,omitempty"`
	Code       string `json:"code,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

// NewCall is the call with what came of it. It is false of a call that was given up before
// there was an answer.
func NewCall(req *models.Request, answer *models.Response, err error) (Call, bool) {
	c := Call{Asked: strings.ToValidUTF8(golden.Prompt(req), "\ufffd")} // as it is read back
	fault, failed := errors.AsType[*models.Error](err)
	switch {
	case failed:
		c.Fault = &callFault{Kind: fault.Kind, Status: fault.Status, Code: fault.Code}
		if fault.RetryAfter > 0 {
			c.Fault.RetryAfter = fault.RetryAfter.String()
		}
	case err != nil || answer == nil:
		return c, false
	default:
		u := answer.Usage
		c.Answer = &callAnswer{
			Text: answer.Text, Finish: answer.Finish, Model: answer.Model,
			Tokens: [4]int{u.Prompt, u.Completion, u.Cached, u.Reasoning}, Cost: u.Cost,
		}
		for _, tool := range answer.Calls {
			c.Answer.Tools = append(c.Answer.Tools, callTool(tool))
		}
	}
	return c, true
}

// Scrub is the call with stand-ins.
func (c Call) Scrub(s *scrub.Scrubber) Call {
	c.Conversation, c.Activity = s.ID(scrub.Conversation, c.Conversation), s.ID(scrub.Activity, c.Activity)
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
	models.Throttled, models.TooLong, models.Filtered, models.Auth,
	models.Timeout, models.Unavailable, models.BadRequest, models.Empty,
}

// WriteCalls writes the calls as YAML.
func WriteCalls(calls []Call) ([]byte, error) {
	return writeYAML(map[string][]Call{"calls": calls})
}

// ReadCalls reads a file that [WriteCalls] wrote.
func ReadCalls(name string) ([]Call, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file struct {
		Calls []Call `json:"calls"`
	}
	tree, err := treeOf(raw, filepath.Ext(name))
	if err == nil {
		err = strict.Unmarshal([]byte(asJSON(tree)), &file, strict.RejectUnknownMembers(true))
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
