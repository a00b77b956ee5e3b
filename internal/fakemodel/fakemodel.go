// Package fakemodel is an OpenAI-compatible server for tests that answers what
// it is told to, in order, and remembers what it was asked.
package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Message is one message of a prompt.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
}

// Call is one request to the model.
type Call struct {
	Model             string    `json:"model"`
	Messages          []Message `json:"messages"`
	Tools             []Tool    `json:"tools"`
	ToolChoice        any       `json:"tool_choice"`
	ParallelToolCalls *bool     `json:"parallel_tool_calls"`
	Stream            bool      `json:"stream"`
	StreamOptions     struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Text is all of the prompt, for searching.
func (c Call) Text() string {
	var s strings.Builder
	for _, m := range c.Messages {
		s.WriteString(m.Role + ": " + m.Content + "\n")
		for _, call := range m.ToolCalls {
			s.WriteString(m.Role + " calls " + call.Name + ": " + call.Arguments + "\n")
		}
	}
	return s.String()
}

// Last is the content of the last message of the role.
func (c Call) Last(role string) string {
	last := ""
	for _, m := range c.Messages {
		if m.Role == role {
			last = m.Content
		}
	}
	return last
}

// Server is a running fake. It is safe for concurrent use.
type Server struct {
	// URL is the base URL of the API, with /v1.
	URL string

	t       testing.TB
	mu      sync.Mutex
	answers []answer
	calls   []Call
}

// New starts a server that ends with the test. A call that was not scripted
// fails the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

// answer writes what was scripted for a call.
type answer func(w http.ResponseWriter, r *http.Request, c Call)

// Says scripts answers with these texts.
func (s *Server) Says(texts ...string) {
	for _, text := range texts {
		s.CallsTools(text)
	}
}

// CallsTools scripts one answer with calls of tools, and a text beside them, which
// may be empty. It comes as a stream when it is asked for as one.
func (s *Server) CallsTools(text string, calls ...ToolCall) {
	s.add(func(w http.ResponseWriter, _ *http.Request, c Call) {
		c.Answer(w, Completion{Text: text, Calls: calls})
	})
}

// CutsOff scripts an answer like that of CallsTools whose connection breaks before
// its end.
func (s *Server) CutsOff(text string, calls ...ToolCall) {
	s.add(func(w http.ResponseWriter, _ *http.Request, c Call) {
		c.CutOff(w, Completion{Text: text, Calls: calls})
	})
}

// Fails scripts an answer with an HTTP status and an error code.
func (s *Server) Fails(status int, code string) {
	s.Answers(func(w http.ResponseWriter, _ *http.Request) { Fail(w, status, code) })
}

// Answers scripts an answer of any kind.
func (s *Server) Answers(h http.HandlerFunc) {
	s.add(func(w http.ResponseWriter, r *http.Request, _ Call) { h(w, r) })
}

// Waits scripts an answer that never comes. The channel is closed when it is asked for.
func (s *Server) Waits() (asked <-chan struct{}) {
	called := make(chan struct{})
	s.Answers(func(_ http.ResponseWriter, r *http.Request) {
		close(called)
		<-r.Context().Done()
	})
	return called
}

// Echoes scripts an answer that says what the user wrote last.
func (s *Server) Echoes() {
	s.add(func(w http.ResponseWriter, _ *http.Request, c Call) {
		text, _ := json.Marshal(c.Last("user"))
		w.Header().Set("Content-Type", "application/json")
		write(w, Completion{Text: `{"type":"plan","commands":[{"type":"SAY","response":` + string(text) + `}]}`}.whole())
	})
}

func (s *Server) add(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
}

// Calls returns what was asked so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var call Call
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		s.t.Errorf("model request: %v", err)
	}
	answer := s.next(call)
	if answer == nil {
		s.t.Errorf("unexpected model call:\n%s", call.Text())
		http.Error(w, `{"error":{"message":"not scripted"}}`, http.StatusBadRequest)
		return
	}
	answer(w, r, call)
}

func (s *Server) next(call Call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if len(s.answers) == 0 {
		return nil
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer
}

// ToolCall is one call of a tool.
type ToolCall struct{ ID, Name, Arguments string }

type wireCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// UnmarshalJSON reads the form that calls have in a message.
func (c *ToolCall) UnmarshalJSON(raw []byte) error {
	var wire wireCall
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("tool call: %w", err)
	}
	*c = ToolCall{wire.ID, wire.Function.Name, wire.Function.Arguments}
	return nil
}

// MarshalJSON writes the form that calls have in a message.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	wire := wireCall{ID: c.ID, Type: "function"}
	wire.Function.Name, wire.Function.Arguments = c.Name, c.Arguments
	return json.Marshal(wire)
}

// Tool is a tool that the model was offered.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// UnmarshalJSON reads the form that tools have in a request.
func (t *Tool) UnmarshalJSON(raw []byte) error {
	type plain Tool
	var wire struct {
		Function plain `json:"function"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("tool: %w", err)
	}
	*t = Tool(wire.Function)
	return nil
}

// object is JSON in the making.
type object map[string]any

// Completion is an answer of a model.
type Completion struct {
	Text   string
	Calls  []ToolCall
	Finish string // why it ended; "": stop or, with calls, tool_calls
	Usage  Usage
}

// Usage is what an answer took of tokens. The zero value: 10 for the prompt and 5 for the
// answer.
type Usage struct{ Prompt, Completion, Cached, Reasoning int }

func (u Usage) object() object {
	if u == (Usage{}) {
		u.Prompt, u.Completion = 10, 5
	}
	out := object{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion}
	if u.Cached > 0 {
		out["prompt_tokens_details"] = object{"cached_tokens": u.Cached}
	}
	if u.Reasoning > 0 {
		out["completion_tokens_details"] = object{"reasoning_tokens": u.Reasoning}
	}
	return out
}

func (a Completion) finish() string {
	switch {
	case a.Finish != "":
		return a.Finish
	case len(a.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// whole is the answer in one piece.
func (a Completion) whole() string {
	message := object{"role": "assistant", "content": a.Text}
	if len(a.Calls) > 0 {
		message["tool_calls"] = a.Calls
	}
	choice := object{"index": 0, "finish_reason": a.finish(), "message": message}
	return encode(object{"id": "c", "object": "chat.completion", "model": "fake", "choices": []object{choice}, "usage": a.Usage.object()})
}

// piece is how many characters of a text or of arguments stand in one chunk.
const piece = 8

func pieces(text string) []string {
	var out []string
	for rest := []rune(text); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
		out = append(out, string(rest[:min(piece, len(rest))]))
	}
	return out
}

// chunks is the answer in deltas, up to and without its end. The calls come
// interleaved, as nothing forbids.
func (a Completion) chunks() []object {
	out := []object{{"role": "assistant", "content": ""}}
	for _, part := range pieces(a.Text) {
		out = append(out, object{"content": part})
	}
	arguments := make([][]string, len(a.Calls))
	for i, c := range a.Calls {
		head := wireCall{Index: &i, ID: c.ID, Type: "function"}
		head.Function.Name = c.Name
		out = append(out, object{"tool_calls": []wireCall{head}})
		arguments[i] = pieces(c.Arguments)
	}
	for more := true; more; {
		more = false
		for i, rest := range arguments {
			if len(rest) == 0 {
				continue
			}
			part := wireCall{Index: &i}
			part.Function.Arguments = rest[0]
			out = append(out, object{"tool_calls": []wireCall{part}})
			arguments[i], more = rest[1:], true
		}
	}
	return out
}

// Answer writes a completion: as a stream if it was asked for as one.
func (c Call) Answer(w http.ResponseWriter, a Completion) {
	if c.Stream {
		stream(w, c, a)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, a.whole())
}

// CutOff begins to write such an answer and breaks the connection.
func (c Call) CutOff(w http.ResponseWriter, a Completion) {
	if c.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		writeChunks(w, a.chunks())
	} else {
		write(w, a.whole()[:20])
	}
	_ = http.NewResponseController(w).Flush() // nobody reads: as good as sent
	panic(http.ErrAbortHandler)
}

// Raw writes a body as it is, as what it looks like: a page, events or JSON, and if it looks
// like nothing as what was asked for.
func (c Call) Raw(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", c.typeOf(strings.TrimSpace(body)))
	w.WriteHeader(status)
	write(w, body)
}

func (c Call) typeOf(body string) string {
	begins := func(with ...string) bool {
		return slices.ContainsFunc(with, func(p string) bool { return strings.HasPrefix(body, p) })
	}
	switch {
	case begins("<"):
		return "text/html; charset=utf-8"
	case begins("data:", "event:", ":"), c.Stream && !begins("{", "["):
		return "text/event-stream"
	default:
		return "application/json"
	}
}

// Fail writes an error as servers do.
func Fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	write(w, encode(object{"error": object{"message": "the fake fails", "type": "fake", "code": code}}))
}

func stream(w http.ResponseWriter, c Call, a Completion) {
	w.Header().Set("Content-Type", "text/event-stream")
	writeChunks(w, a.chunks())
	event(w, object{"choices": []object{{"index": 0, "delta": object{}, "finish_reason": a.finish()}}})
	if c.StreamOptions.IncludeUsage {
		event(w, object{"choices": []object{}, "usage": a.Usage.object()})
	}
	write(w, "data: [DONE]\n\n")
}

func writeChunks(w http.ResponseWriter, deltas []object) {
	for _, delta := range deltas {
		event(w, object{"choices": []object{{"index": 0, "delta": delta, "finish_reason": nil}}})
		_ = http.NewResponseController(w).Flush() // nobody reads: as good as sent
	}
}

func event(w io.Writer, chunk object) {
	chunk["id"], chunk["object"], chunk["model"] = "c", "chat.completion.chunk", "fake"
	write(w, "data: "+encode(chunk)+"\n\n")
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always are JSON
	}
	return string(raw)
}

func write(w io.Writer, text string) {
	_, _ = io.WriteString(w, text) // to a client that may be gone
}
