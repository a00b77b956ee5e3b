package bottest

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

// Answer is what the model does when it is asked. The zero value says nothing.
type Answer struct {
	Text  string        // what it writes
	Calls []models.Call // the tools that it calls

	// Status makes the call fail with that status of HTTP and Code as the error's code,
	// such as content_filter or context_length_exceeded. RetryAfter is when to come back.
	Status     int
	Code       string
	RetryAfter time.Duration

	// Finish is the finish_reason of the answer, such as length or content_filter. "": stop
	// or, with Calls, tool_calls. Usage is what it says that it took of tokens; of its Cost no
	// server tells. Zero: 10 for the prompt and 5 for the answer.
	Finish string
	Usage  models.Usage

	// Body is sent as it is in place of all that, with Status or, where that is 0, with 200:
	// the page of a proxy, JSON that is none, a stream that is none. Its content type is what
	// it looks like, or else what was asked for, and CutOff does not cut it. "": there is none.
	Body string

	// Takes is how long the answer takes, and a moment: a limit of just that time is over
	// first. Then, with Hangs, the connection breaks without one, and with CutOff in the
	// middle of it.
	Takes  time.Duration
	Hangs  bool
	CutOff bool

	// Asked is closed, if it is not nil, when the call is there.
	Asked chan<- struct{} `json:"-"`
	// Model is the only one of Config.Models that may get it. "": any.
	Model string
}

// completion is the answer as the wire has it.
func (a Answer) completion() fakemodel.Completion {
	out := fakemodel.Completion{Text: a.Text, Finish: a.Finish}
	for _, c := range a.Calls {
		out.Calls = append(out.Calls, fakemodel.ToolCall(c))
	}
	u := a.Usage
	out.Usage = fakemodel.Usage{Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached, Reasoning: u.Reasoning}
	return out
}

// seconds is a time as Retry-After has it.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// String says in a line what the answer is.
func (a Answer) String() string {
	var parts []string
	switch {
	case a.Hangs:
		parts = append(parts, "never")
	case a.Body != "":
		parts = append(parts, fmt.Sprint(cmp.Or(a.Status, http.StatusOK), " with the body ", a.Body))
	case a.Status >= http.StatusBadRequest:
		parts = append(parts, strings.TrimSpace(fmt.Sprint(a.Status, " ", a.Code)))
	default:
		parts = append(parts, a.Text)
	}
	for _, c := range a.Calls {
		parts = append(parts, "calls "+c.Name+" "+c.Arguments)
	}
	if a.Finish != "" {
		parts = append(parts, "(finish "+a.Finish+")")
	}
	if a.CutOff {
		parts = append(parts, "(cut off)")
	}
	if a.Takes > 0 {
		parts = append(parts, "after "+a.Takes.String())
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}
