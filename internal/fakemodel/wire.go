package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

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
