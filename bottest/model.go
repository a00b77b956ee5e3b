package bottest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Model stands in for a model's server. It gives scripted answers, in order, in OpenAI's wire
// format, as a stream if the request asks for one. An unscripted call fails the test and shows its
// prompt. It is safe for concurrent use.
type Model struct {
	// URL is the base URL of the API, for bots that make their own client.
	URL string

	t     testing.TB
	story *story

	mu     sync.Mutex
	script []scripted
	decide func(ModelCall) (Answer, bool)
	calls  []ModelCall
}

// scripted is an answer, and a channel to close when it is requested, if not nil.
type scripted struct {
	Answer
	asked chan struct{}
}

// Answers appends these answers to the script.
func (m *Model) Answers(answers ...Answer) {
	for _, a := range answers {
		m.add(scripted{Answer: a})
	}
}

func (m *Model) add(s scripted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script, s)
}

// Says scripts answers with these texts; [Plan] writes one with a plan.
func (m *Model) Says(texts ...string) {
	for _, text := range texts {
		m.Answers(Answer{Text: text})
	}
}

// CallsTools scripts one answer with tool calls.
func (m *Model) CallsTools(calls ...models.Call) { m.Answers(Answer{Calls: calls}) }

// Fails scripts a failure with an HTTP status and an error code, which may be "".
func (m *Model) Fails(status int, code string) { m.Answers(Answer{Status: status, Code: code}) }

// Throttles scripts a 429 with that Retry-After.
func (m *Model) Throttles(after time.Duration) {
	m.Answers(Answer{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", RetryAfter: after})
}

// Hangs scripts an answer that never comes; the connection breaks after that time. The channel is
// closed when the call arrives.
func (m *Model) Hangs(d time.Duration) (asked <-chan struct{}) {
	called := make(chan struct{})
	m.add(scripted{Answer{Takes: d, Hangs: true}, called})
	return called
}

// Decides lets f answer unscripted calls; false means that the call was not expected. f may be
// called concurrently, and may use the kit; the call is already among Calls.
func (m *Model) Decides(f func(ModelCall) (Answer, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decide = f
}

// Calls returns the calls so far.
func (m *Model) Calls() []ModelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// LastCall is the newest of Calls. There must be one.
func (m *Model) LastCall() ModelCall {
	m.t.Helper()
	calls := m.Calls()
	if len(calls) == 0 {
		m.t.Fatalf("the model was not asked")
	}
	return calls[len(calls)-1]
}

// left is how many scripted answers were not used.
func (m *Model) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.script)
}

func (m *Model) complete(w http.ResponseWriter, r *http.Request) {
	wire, err := fakemodel.Read(r.Body)
	if err != nil {
		m.t.Errorf("bottest: %v", err)
	}
	n, a := m.answer(ModelCall{Of: ofHeader(r.Header), Model: wire.Model, Messages: wire.Messages, Tools: wire.Tools, Stream: wire.Stream})
	left := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls[n-1].Cancelled = true
	}
	var pieces []fakemodel.Piece
	for _, p := range a.Pieces {
		pieces = append(pieces, fakemodel.Piece(p))
	}
	fakemodel.Answer{
		Text: a.Text, Calls: a.Calls, Finish: a.Finish, Usage: a.Usage, Status: a.Status, Code: a.Code, RetryAfter: a.RetryAfter,
		Body: a.Body, Takes: a.Takes, Hangs: a.Hangs, CutOff: a.CutOff, Pieces: pieces, Left: left,
	}.Write(w, r, wire)
}

// answer returns the number of a call, from 1, and the answer to it. An unscripted call fails the test.
func (m *Model) answer(call ModelCall) (int, Answer) {
	n, next, decide := m.enter(&call)
	ok := decide == nil
	if !ok {
		next, ok = decide(call) // without the lock: it may take time and ask for the calls so far
	}
	if !ok {
		m.t.Errorf("call %d of the model was not expected; it was asked:\n%s", n, indent(call.told()))
		next = Answer{Status: http.StatusBadRequest, Code: "not_scripted"}
	}
	if next.Model != "" && next.Model != call.Model {
		m.t.Errorf("call %d was to go to the model %s and went to %s", n, next.Model, call.Model)
	}
	m.mu.Lock()
	m.calls[n-1].Answer = next
	m.mu.Unlock()
	m.story.note(call.Of, "model answers", next.String())
	return n, next
}

// enter records the n-th call and takes the answer scripted for it; otherwise decide answers.
func (m *Model) enter(call *ModelCall) (n int, next Answer, decide func(ModelCall) (Answer, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	call.Seq = m.story.note(call.Of, "asked", "model "+call.Model)
	m.calls = append(m.calls, *call)
	switch {
	case len(m.script) > 0:
		next = m.script[0].Answer
		if asked := m.script[0].asked; asked != nil {
			close(asked)
		}
		m.script = m.script[1:]
	case m.decide != nil:
		decide = m.decide
	default:
		decide = func(ModelCall) (Answer, bool) { return Answer{}, false }
	}
	return len(m.calls), next, decide
}

// ModelCall is one call of a model.
type ModelCall struct {
	turnid.Of
	Seq      int // its place among all events of the kit
	Model    string
	Messages []models.Message
	Tools    []models.Tool
	Stream   bool
	Answer   Answer
	// Cancelled says that the bot left before the answer had come to its end.
	Cancelled bool
}

// Piece is a part of an [Answer]: a text, or a call of a tool, at a time after the model was asked.
type Piece struct {
	At   time.Duration
	Text string
	Call *models.Call // a whole one; nil: none
}

// Prompt is the text of all messages, for searching.
func (c ModelCall) Prompt() string { return fakemodel.Call{Messages: c.Messages}.Text() }

// Last is the text of the last message with that role.
func (c ModelCall) Last(role string) string {
	return fakemodel.Call{Messages: c.Messages}.Last(role)
}

// told is the prompt for people: with tool names, and a long system prompt cut.
func (c ModelCall) told() string {
	var s strings.Builder
	for i, m := range c.Messages {
		text := m.Text
		if i == 0 && m.Role == "system" && len(text) > 2*maxLine {
			text = strings.ToValidUTF8(text[:maxLine], "") + "\n[…]\n" + strings.ToValidUTF8(text[len(text)-maxLine:], "")
		}
		fmt.Fprintf(&s, "%s: %s\n", m.Role, text)
	}
	for i, t := range c.Tools {
		if i == 0 {
			s.WriteString("tools: ")
		} else {
			s.WriteString(", ")
		}
		s.WriteString(t.Name)
	}
	return s.String()
}

// Answer is what the model does with a call, or how the connector fails. The zero value is an empty
// answer, and accepts a message.
type Answer struct {
	Text  string        // what it writes
	Calls []models.Call // the tools that it calls

	// Pieces are what it writes when, in place of Text, Calls and Takes. A request that does not ask
	// for a stream gets them all with the last one. nil: the whole answer comes at once.
	Pieces []Piece

	// Status makes the call fail with that HTTP status, and Code with that error code, such as
	// content_filter or context_length_exceeded. RetryAfter says when to try again.
	Status     int
	Code       string
	RetryAfter time.Duration

	// Finish is the finish_reason, such as length or content_filter. "": stop or, with Calls,
	// tool_calls. Usage is the reported token usage; servers never report its Cost. Zero: 10 for
	// the prompt and 5 for the answer.
	Finish string
	Usage  models.Usage

	// Body is sent unchanged instead of all that, with Status or, if that is 0, with 200: a proxy's
	// page, invalid JSON, an invalid stream. Its content type is what it looks like, or else what
	// the request asked for. CutOff does not cut it. "": none.
	Body string

	// Takes is how long the answer takes, plus a moment: a timeout of exactly that time fires
	// first. Then, with Hangs, the connection breaks without an answer, and with CutOff in the
	// middle of it.
	Takes  time.Duration
	Hangs  bool
	CutOff bool

	// Model is the only one of Config.Models that may get this answer. "": any.
	Model string
}

// String describes the answer in one line.
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
	for _, p := range a.Pieces {
		parts = append(parts, fmt.Sprintf("[%v] %s", p.At, p.Text))
		if p.Call != nil {
			parts = append(parts, "calls "+p.Call.Name+" "+p.Call.Arguments)
		}
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

// Plan is the text of a model that plans these commands, for [Model.Says].
func Plan(commands ...plan.Command) string {
	text, err := plainjson.Marshal(struct {
		Type     string         `json:"type"`
		Commands []plan.Command `json:"commands"`
	}{"plan", commands})
	if err != nil {
		panic(fmt.Sprintf("bottest: this is no plan: %v", err)) // a mistake in the test
	}
	return string(text)
}

// Do is a command that calls the action with these entities: a name, its value, a name… It panics
// if a value is missing or a name is not a string: that is a mistake in the test.
func Do(action string, entities ...any) plan.Command {
	c := plan.Command{Kind: plan.Do, Action: action, Entities: map[string]any{}}
	for pair := range slices.Chunk(entities, 2) {
		c.Entities[pair[0].(string)] = pair[1]
	}
	return c
}

// Say is a command that says the text.
func Say(text string) plan.Command { return plan.Command{Kind: plan.Say, Response: text} }

// Record is a model that answers from a file, a cassette, at no cost: for a test with real model
// answers. A call whose request is not in the file fails the test and shows how the prompt changed;
// so does a recorded call that was not made.
//
// With BOTTEST_UPDATE=1 in the environment, Record asks the model and writes the file if the test
// ends without a failure. With a nil model, the answers in the file stay in order and only the
// prompts are rewritten. During an update, an answer of [models.Offline], which [models.FromEnv]
// returns if no model is configured, fails the test and nothing is written, unless the answers in
// the file are also from that model.
//
// The file contains prompts as text, without the time of the turn, and without anything that looks
// like a secret. Call Record before you make the kit, so it ends after the bot. A real model cannot
// be asked in a bubble: record with [New].
func Record(t testing.TB, file string, model models.Model) models.Model {
	t.Helper()
	update := golden.Updating()
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && (!update || model == nil) {
		t.Fatalf("there is no %s yet; %s and with a model, writes it", file, golden.HowTo)
	}
	return cassette.Open(t, file, golden.HowTo, update).Answers(model)
}
