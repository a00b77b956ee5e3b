// Package fakemodel is an OpenAI-compatible server for tests that answers what
// it is told to, in order, and remembers what it was asked.
package fakemodel

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
