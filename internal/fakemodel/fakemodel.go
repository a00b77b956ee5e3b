// Package fakemodel is an OpenAI-compatible server for tests that answers what
// it is told to, in order, and remembers what it was asked.
package fakemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/models"
)

// Call is one request to the model.
type Call struct {
	Model             string
	Messages          []models.Message
	Tools             []models.Tool
	ToolChoice        any
	ParallelToolCalls *bool
	Stream, WithUsage bool
}

// Read reads a call off the wire.
func Read(r io.Reader) (Call, error) {
	var wire struct {
		Model    string `json:"model"`
		Messages []struct {
			Role       string `json:"role"`
			Content    string `json:"content"`
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string      `json:"id"`
				Function models.Call `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				models.Tool
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		ToolChoice        any   `json:"tool_choice"`
		ParallelToolCalls *bool `json:"parallel_tool_calls"`
		Stream            bool  `json:"stream"`
		StreamOptions     struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.NewDecoder(r).Decode(&wire); err != nil {
		return Call{}, fmt.Errorf("read a model call: %w", err)
	}
	c := Call{Model: wire.Model, ToolChoice: wire.ToolChoice, ParallelToolCalls: wire.ParallelToolCalls, Stream: wire.Stream, WithUsage: wire.StreamOptions.IncludeUsage}
	for _, m := range wire.Messages {
		message := models.Message{Role: m.Role, Text: m.Content, CallID: m.ToolCallID}
		for _, call := range m.ToolCalls {
			call.Function.ID = call.ID
			message.Calls = append(message.Calls, call.Function)
		}
		c.Messages = append(c.Messages, message)
	}
	for _, t := range wire.Tools {
		t.Function.Schema = t.Function.Parameters
		c.Tools = append(c.Tools, t.Function.Tool)
	}
	return c, nil
}

// Text is all of the prompt, for searching.
func (c Call) Text() string {
	var s strings.Builder
	for _, m := range c.Messages {
		fmt.Fprintf(&s, "%s: %s\n", m.Role, m.Text)
		for _, call := range m.Calls {
			fmt.Fprintf(&s, "%s calls %s: %s\n", m.Role, call.Name, call.Arguments)
		}
	}
	return s.String()
}

// Last is the text of the last message of the role.
func (c Call) Last(role string) string {
	for _, m := range slices.Backward(c.Messages) {
		if m.Role == role {
			return m.Text
		}
	}
	return ""
}

// Answer is what the model does when it is asked.
type Answer struct {
	Text   string
	Calls  []models.Call
	Finish string       // "": stop or, with calls, tool_calls
	Usage  models.Usage // zero: 10 tokens for the prompt and 5 for the answer

	Status     int    // from 400 on the call fails with it
	Code       string // of that error
	RetryAfter time.Duration

	Pieces []Piece // what it writes when, in place of Text and Calls
	Left   func()  // called if the caller leaves before the end; may be nil

	Body   string        // sent as it is in place of all that; "": not
	Takes  time.Duration // before anything is written
	Hangs  bool          // then the connection breaks without an answer
	CutOff bool          // then it breaks in the middle of it
}

// Piece is a part of an answer.
type Piece struct {
	At   time.Duration // after the call
	Text string
	Call *models.Call // a whole call of a tool; may be nil
}

// tick makes an answer come a moment later than it says: chance would decide which of two
// things at the same time is first.
const tick = time.Microsecond

// wait waits until that time after the call, and reports whether the caller is still there.
func (a Answer) wait(r *http.Request, called time.Time, at time.Duration) bool {
	select {
	case <-time.After(time.Until(called.Add(at + tick))):
		return true
	case <-r.Context().Done():
		if a.Left != nil {
			a.Left()
		}
		return false
	}
}

// Write answers the call: with a stream if it asks for one.
func (a Answer) Write(w http.ResponseWriter, r *http.Request, c Call) {
	called := time.Now()
	if !c.Stream {
		a = a.inOne()
	}
	if !a.wait(r, called, a.Takes) {
		return
	}
	if a.RetryAfter > 0 && a.Status >= http.StatusBadRequest {
		w.Header().Set("Retry-After", strconv.FormatFloat(a.RetryAfter.Seconds(), 'f', -1, 64))
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case a.Hangs:
		panic(http.ErrAbortHandler)
	case a.Body != "":
		w.Header().Set("Content-Type", contentType(strings.TrimSpace(a.Body), c.Stream))
		w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
		fmt.Fprint(w, a.Body)
	case a.Status >= http.StatusBadRequest:
		w.WriteHeader(a.Status)
		fmt.Fprint(w, encode(object{"error": object{"message": "the fake fails", "type": "fake", "code": a.Code}}))
	case c.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		a.stream(w, r, called, c.WithUsage)
	case a.CutOff:
		fmt.Fprint(w, a.whole()[:20])
		_ = http.NewResponseController(w).Flush() // nobody reads: as good as sent
		panic(http.ErrAbortHandler)
	default:
		fmt.Fprint(w, a.whole())
	}
}

// contentType is that of what the body looks like, or else of what was asked for.
func contentType(body string, stream bool) string {
	begins := func(with ...string) bool {
		return slices.ContainsFunc(with, func(p string) bool { return strings.HasPrefix(body, p) })
	}
	switch {
	case begins("<"):
		return "text/html; charset=utf-8"
	case begins("data:", "event:", ":"), stream && !begins("{", "["):
		return "text/event-stream"
	}
	return "application/json"
}

type object map[string]any

func encode(v object) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always are JSON
	}
	return string(raw)
}

// inOne is the answer without pieces, at the time of its last one.
func (a Answer) inOne() Answer {
	for _, p := range a.Pieces {
		a.Takes = max(a.Takes, p.At)
		a.Text += p.Text
		if p.Call != nil {
			a.Calls = append(a.Calls, *p.Call)
		}
	}
	a.Pieces = nil
	return a
}

func (a Answer) whole() string {
	message := object{"role": "assistant", "content": a.Text}
	if len(a.Calls) > 0 {
		var calls []object
		for _, c := range a.Calls {
			calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		}
		message["tool_calls"] = calls
	}
	choice := object{"index": 0, "finish_reason": a.finish(), "message": message}
	return encode(object{"id": "c", "object": "chat.completion", "model": "fake", "choices": []object{choice}, "usage": a.usage()})
}

func (a Answer) finish() string {
	if a.Finish == "" && len(a.Calls) > 0 {
		return "tool_calls"
	}
	return cmp.Or(a.Finish, "stop")
}

func (a Answer) usage() object {
	u := a.Usage
	if u == (models.Usage{}) {
		u.Prompt, u.Completion = 10, 5
	}
	return object{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details": object{"cached_tokens": u.Cached}, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (a Answer) stream(w http.ResponseWriter, r *http.Request, called time.Time, withUsage bool) {
	event := func(chunk object) {
		chunk["id"], chunk["object"], chunk["model"] = "c", "chat.completion.chunk", "fake"
		fmt.Fprintf(w, "data: %s\n\n", encode(chunk))
		_ = http.NewResponseController(w).Flush() // nobody reads: as good as sent
	}
	delta := func(d object) { event(object{"choices": []object{{"index": 0, "delta": d, "finish_reason": nil}}}) }
	for _, d := range a.deltas() {
		delta(d)
	}
	for _, p := range a.Pieces {
		if !a.wait(r, called, p.At) {
			return
		}
		if p.Text != "" {
			delta(object{"content": p.Text})
		}
		if p.Call != nil {
			delta(toolCall(len(a.Calls), *p.Call, p.Call.Arguments))
			a.Calls = append(a.Calls, *p.Call)
		}
	}
	if a.CutOff {
		panic(http.ErrAbortHandler)
	}
	event(object{"choices": []object{{"index": 0, "delta": object{}, "finish_reason": a.finish()}}})
	if withUsage {
		event(object{"choices": []object{}, "usage": a.usage()})
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

const piece = 8 // how many characters of a text or of arguments stand in one event

// deltas are the pieces of the answer. The calls come interleaved, as nothing forbids.
func (a Answer) deltas() []object {
	out := []object{{"role": "assistant", "content": ""}}
	for part := range slices.Chunk([]rune(a.Text), piece) {
		out = append(out, object{"content": string(part)})
	}
	for i, c := range a.Calls {
		out = append(out, toolCall(i, c, ""))
	}
	for from, more := 0, true; more; from += piece {
		more = false
		for i, c := range a.Calls {
			if arguments := []rune(c.Arguments); from < len(arguments) {
				part := string(arguments[from:min(from+piece, len(arguments))])
				out = append(out, object{"tool_calls": []object{{"index": i, "function": object{"arguments": part}}}})
				more = true
			}
		}
	}
	return out
}

// toolCall begins the call with that number.
func toolCall(i int, c models.Call, arguments string) object {
	return object{"tool_calls": []object{{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": arguments}}}}
}

// Server is a running fake. It is safe for concurrent use.
type Server struct {
	// URL is the base URL of the API, with /v1.
	URL string

	t      testing.TB
	mu     sync.Mutex
	script []answer
	calls  []Call
}

// answer writes what was scripted for a call.
type answer func(w http.ResponseWriter, r *http.Request, c Call)

// New starts a server on loopback that ends with the test. A call that was not scripted fails the
// test.
func New(t testing.TB) *Server {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, listener)
}

// Serve is New on a listener of the test, such as one in memory.
func Serve(t testing.TB, on net.Listener) *Server {
	t.Helper()
	s := &Server{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	server := &httptest.Server{Listener: on, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

// Says scripts answers with these texts.
func (s *Server) Says(texts ...string) {
	for _, text := range texts {
		s.CallsTools(text)
	}
}

// CallsTools scripts one answer with calls of tools, and a text beside them, which
// may be empty.
func (s *Server) CallsTools(text string, calls ...models.Call) {
	s.add(Answer{Text: text, Calls: calls}.Write)
}

// CutsOff scripts an answer whose connection breaks before its end.
func (s *Server) CutsOff(text string, calls ...models.Call) {
	s.add(Answer{Text: text, Calls: calls, CutOff: true}.Write)
}

// Fails scripts an answer with an HTTP status and an error code.
func (s *Server) Fails(status int, code string) { s.add(Answer{Status: status, Code: code}.Write) }

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
	s.add(func(w http.ResponseWriter, r *http.Request, c Call) {
		text := encode(object{"type": "plan", "commands": []object{{"type": "SAY", "response": c.Last("user")}}})
		Answer{Text: text}.Write(w, r, c)
	})
}

func (s *Server) add(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, a)
}

// Calls returns what was asked so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	call, err := Read(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.next(call)(w, r, call)
}

func (s *Server) next(call Call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if len(s.script) == 0 {
		s.t.Errorf("unexpected model call:\n%s", call.Text())
		return Answer{Status: http.StatusBadRequest, Code: "not_scripted"}.Write
	}
	next := s.script[0]
	s.script = s.script[1:]
	return next
}
