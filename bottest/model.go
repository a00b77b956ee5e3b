package bottest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Model stands in for a model's server: it answers what was scripted, in order, in the
// wire format of OpenAI, as a stream where it is asked for one. A call that was not
// scripted fails the test and shows its prompt. It is safe for concurrent use.
type Model struct {
	// URL is the base URL of the API, for bots that make their own client.
	URL string

	kit    *Kit
	mu     sync.Mutex
	script []Answer
	decide func(ModelCall) (Answer, bool)
	calls  []ModelCall
	asked  map[chan<- struct{}]bool // of answers, those that are closed
}

func newModel(k *Kit) *Model {
	m := &Model{kit: k, asked: map[chan<- struct{}]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.complete)
	m.URL = k.serve(mux) + "/v1"
	return m
}

// serve opens an address for h until the kit ends.
func (k *Kit) serve(h http.Handler) (url string) {
	k.t.Helper()
	listener, err := k.wires.listen(k.t.Context())
	if err != nil {
		k.t.Fatalf("bottest: listen: %v", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // it ends when it is closed
	k.t.Cleanup(func() {
		_ = server.Close() // nobody is left to be told
		served.Wait()
	})
	return "http://" + listener.Addr().String()
}

// Answers scripts these answers, behind those that were scripted before.
func (m *Model) Answers(answers ...Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script, answers...)
}

// Says scripts answers with these texts; [Plan] writes one with a plan.
func (m *Model) Says(texts ...string) {
	for _, text := range texts {
		m.Answers(Answer{Text: text})
	}
}

// CallsTools scripts one answer with calls of tools.
func (m *Model) CallsTools(calls ...models.Call) { m.Answers(Answer{Calls: calls}) }

// Fails scripts a failure with a status of HTTP and an error code, which may be "".
func (m *Model) Fails(status int, code string) { m.Answers(Answer{Status: status, Code: code}) }

// Throttles scripts an answer 429 that asks to come back after that time.
func (m *Model) Throttles(after time.Duration) {
	m.Answers(Answer{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", RetryAfter: after})
}

// CutsOff scripts an answer whose connection breaks in the middle.
func (m *Model) CutsOff(text string) { m.Answers(Answer{Text: text, CutOff: true}) }

// Hangs scripts an answer that does not come, until the connection breaks after that time.
// The channel is closed when it is asked for. If it is not, the test fails at its end or, so
// that it does not wait for ever, after two minutes; in a bubble after a week.
func (m *Model) Hangs(d time.Duration) (asked <-chan struct{}) {
	called := make(chan struct{})
	m.Answers(Answer{Takes: d, Hangs: true, Asked: called})
	m.kit.giveUp(func(after time.Duration) string {
		if !m.tell(called) {
			return ""
		}
		return fmt.Sprintf("the model was not asked in %v for the answer of Model.Hangs", after)
	})
	return called
}

// tell closes the channel of an answer, once.
func (m *Model) tell(asked chan<- struct{}) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if asked == nil || m.asked[asked] {
		return false
	}
	m.asked[asked] = true
	close(asked)
	return true
}

// Decides has f answer the calls for which nothing is scripted; false: it was not to be
// asked. It may be called for several at the same time, and may use the kit, where the call
// is among Calls already.
func (m *Model) Decides(f func(ModelCall) (Answer, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decide = f
}

// Calls returns what was asked so far.
func (m *Model) Calls() []ModelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]ModelCall(nil), m.calls...)
}

// LastCall is the newest of Calls. There has to be one.
func (m *Model) LastCall() ModelCall {
	m.kit.t.Helper()
	calls := m.Calls()
	if len(calls) == 0 {
		m.kit.fatal(nil, "the model was not asked")
	}
	return calls[len(calls)-1]
}

func (m *Model) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.script)
}

// complete answers one call. It does not read on after that, so a fault in the request
// is a fault of the test.
func (m *Model) complete(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var wire fakemodel.Call
	if err == nil {
		err = json.Unmarshal(raw, &wire)
	}
	if err != nil {
		m.kit.t.Errorf("bottest: the request to the model: %v", err)
		fakemodel.Fail(w, http.StatusBadRequest, "no_request")
		return
	}
	call := readCall(wire)
	call.Of = labelOf(r.Header)
	answer, ok := m.next(call)
	if !ok {
		fakemodel.Fail(w, http.StatusBadRequest, "not_scripted")
		return
	}
	m.tell(answer.Asked)
	if !wait(r, answer.Takes) {
		return // nobody is there any more
	}
	m.write(w, wire, answer)
}

// next is the answer to the call. It is false when there is none, of which the test was
// told.
func (m *Model) next(call ModelCall) (Answer, bool) {
	number, answer, decide := m.enter(&call)
	ok := decide == nil
	if !ok {
		answer, ok = decide(call)
	}
	m.mu.Lock()
	m.calls[number-1].Answer = answer
	m.mu.Unlock()
	if !ok {
		m.kit.t.Errorf("call %d of the model was not expected; it was asked:\n%s", number, indent(call.told()))
	}
	if answer.Model != "" && answer.Model != call.Model {
		m.kit.t.Errorf("call %d was to go to the model %s and went to %s", number, answer.Model, call.Model)
	}
	m.kit.note(entry{Of: call.Of, kind: "answers", text: answer.String()})
	return answer, ok
}

// enter notes a call and takes the answer that is scripted for it; else decide has it, which
// is called without the lock: it may take its time and ask for the calls so far.
func (m *Model) enter(call *ModelCall) (number int, scripted Answer, decide func(ModelCall) (Answer, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	call.Seq = m.kit.note(entry{Of: call.Of, kind: "asked", text: "model " + call.Model})
	m.calls = append(m.calls, *call)
	switch {
	case len(m.script) > 0:
		scripted, m.script = m.script[0], m.script[1:]
	case m.decide != nil:
		decide = m.decide
	default:
		decide = func(ModelCall) (Answer, bool) { return Answer{}, false }
	}
	return len(m.calls), scripted, decide
}

func (m *Model) write(w http.ResponseWriter, wire fakemodel.Call, a Answer) {
	if a.RetryAfter > 0 && a.Status >= http.StatusBadRequest {
		w.Header().Set("Retry-After", seconds(a.RetryAfter))
	}
	switch {
	case a.Hangs:
		panic(http.ErrAbortHandler)
	case a.Body != "":
		wire.Raw(w, cmp.Or(a.Status, http.StatusOK), a.Body)
	case a.CutOff:
		wire.CutOff(w, a.completion())
	case a.Status >= http.StatusBadRequest:
		fakemodel.Fail(w, a.Status, a.Code)
	default:
		wire.Answer(w, a.completion())
	}
}

// tick is the moment by which an answer comes later than it says: of two things at the
// same time chance decides which is first.
const tick = time.Microsecond

// wait is false when the request ends first.
func wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d + tick)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// ModelCall is one call of a model.
type ModelCall struct {
	Of
	Seq      int // its place among all that happened in the kit
	Model    string
	Messages []models.Message
	Tools    []models.Tool
	Stream   bool
	Answer   Answer
}

// Prompt is all of the messages, for searching.
func (c ModelCall) Prompt() string {
	var s strings.Builder
	for _, m := range c.Messages {
		s.WriteString(m.Role + ": " + m.Text + "\n")
		for _, call := range m.Calls {
			s.WriteString(m.Role + " calls " + call.Name + ": " + call.Arguments + "\n")
		}
	}
	return s.String()
}

// tools are the names of the tools that were offered.
func (c ModelCall) tools() string {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// told is the prompt with the names of the tools.
func (c ModelCall) told() string {
	if len(c.Tools) == 0 {
		return c.Prompt()
	}
	return c.Prompt() + "tools: " + c.tools() + "\n"
}

// Last is the text of the last message of the role.
func (c ModelCall) Last(role string) string {
	last := ""
	for _, m := range c.Messages {
		if m.Role == role {
			last = m.Text
		}
	}
	return last
}

// readCall writes the request in the words of package models.
func readCall(wire fakemodel.Call) ModelCall {
	call := ModelCall{Model: wire.Model, Stream: wire.Stream}
	for _, m := range wire.Messages {
		message := models.Message{Role: m.Role, Text: m.Content, CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.Calls = append(message.Calls, models.Call(c))
		}
		call.Messages = append(call.Messages, message)
	}
	for _, t := range wire.Tools {
		call.Tools = append(call.Tools, models.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters, Strict: t.Strict})
	}
	return call
}

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

// Plan is what a model writes that plans these commands: for [Model.Says].
func Plan(commands ...plan.Command) string {
	plan := struct {
		Type     string         `json:"type"`
		Commands []plan.Command `json:"commands"`
	}{"plan", commands}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(plan); err != nil {
		panic(fmt.Sprintf("bottest: this is no plan: %v", err)) // a mistake in the test
	}
	return string(bytes.TrimSpace(text.Bytes()))
}

// Do is a command that calls the action with these entities: a name, its value, a name….
// It panics when a value is missing or a name is no string: that is a mistake in the test.
func Do(action string, entities ...any) plan.Command {
	c := plan.Command{Kind: plan.Do, Action: action, Entities: map[string]any{}}
	if len(entities)%2 != 0 {
		panic("bottest: entities of " + action + " are names with values")
	}
	for i := 0; i < len(entities); i += 2 {
		c.Entities[entities[i].(string)] = entities[i+1]
	}
	return c
}

// DoAs is [Do] whose result later commands of the plan can use as $name.
func DoAs(name, action string, entities ...any) plan.Command {
	c := Do(action, entities...)
	c.SaveAs = name
	return c
}

// Say is a command that says the text.
func Say(text string) plan.Command { return plan.Command{Kind: plan.Say, Response: text} }
