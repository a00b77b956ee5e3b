package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

func usage() object {
	return object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
}

func finish(calls []ToolCall) string {
	if len(calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// completion is a whole answer.
func completion(text string, calls []ToolCall) string {
	message := object{"role": "assistant", "content": text}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	choice := object{"index": 0, "finish_reason": finish(calls), "message": message}
	return encode(object{"id": "c", "object": "chat.completion", "model": "fake", "choices": []object{choice}, "usage": usage()})
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

// chunks is an answer in deltas, up to and without its end. The calls come
// interleaved, as nothing forbids.
func chunks(text string, calls []ToolCall) []object {
	out := []object{{"role": "assistant", "content": ""}}
	for _, part := range pieces(text) {
		out = append(out, object{"content": part})
	}
	arguments := make([][]string, len(calls))
	for i, c := range calls {
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

// Answer writes a completion with calls of tools, and a text beside them: as a stream if
// it was asked for as one.
func (c Call) Answer(w http.ResponseWriter, text string, calls ...ToolCall) {
	if c.Stream {
		stream(w, c, text, calls)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, completion(text, calls))
}

// CutOff begins to write such an answer and breaks the connection.
func (c Call) CutOff(w http.ResponseWriter, text string, calls ...ToolCall) {
	if c.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		writeChunks(w, chunks(text, calls))
	} else {
		write(w, completion(text, calls)[:20])
	}
	_ = http.NewResponseController(w).Flush() // nobody reads: as good as sent
	panic(http.ErrAbortHandler)
}

// Fail writes an error as servers do.
func Fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	write(w, encode(object{"error": object{"message": "the fake fails", "type": "fake", "code": code}}))
}

func stream(w http.ResponseWriter, c Call, text string, calls []ToolCall) {
	w.Header().Set("Content-Type", "text/event-stream")
	writeChunks(w, chunks(text, calls))
	event(w, object{"choices": []object{{"index": 0, "delta": object{}, "finish_reason": finish(calls)}}})
	if c.StreamOptions.IncludeUsage {
		event(w, object{"choices": []object{}, "usage": usage()})
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
