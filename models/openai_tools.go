package models

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// wireTools writes the tools and how they may be called. Without tools none of it
// is sent: servers refuse the rest alone.
func wireTools(out *openai.ChatCompletionRequest, req *Request, not toolRule) {
	if len(req.Tools) == 0 || not.noChoice && req.Choice == ChoiceNone {
		return
	}
	out.Tools = make([]openai.Tool, len(req.Tools))
	for i, t := range req.Tools {
		out.Tools[i] = openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.Name, Description: t.Description, Strict: t.Strict && !not.noStrict, Parameters: toolSchema(t.Schema),
		}}
	}
	if req.Choice != ChoiceAuto && !not.noChoice {
		out.ToolChoice = string(req.Choice)
	}
	if req.OneCallAtMost && !not.noParallel {
		out.ParallelToolCalls = false
	}
	if not.noReasoning {
		out.ReasoningEffort = openai.ReasoningEffortNone
	}
}

func toolSchema(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return schema
}

func (m *Message) isEmpty() bool { return m.Text == "" && len(m.Calls) == 0 && m.Role != ToolRole }

const (
	maxNameBytes = 64 // of a function, says OpenAI
	maxIDBytes   = 40 // of a call, says OpenAI; vLLM's own are longer
)

// wireName makes the name of an earlier call one that servers take back: models
// call what they like, but OpenAI refuses a history with other characters in it.
func wireName(name string) string {
	legal := strings.Map(func(r rune) rune {
		if isLetterOrDigit(r) || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if legal == "" {
		return "_"
	}
	return legal[:min(len(legal), maxNameBytes)]
}

// wireArguments makes the arguments of an earlier call the JSON of an object:
// many servers and chat templates read them, and fail on anything else.
func wireArguments(text string) string {
	if !isObject(text) {
		return "{}"
	}
	return text
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

// wireID is the id of a call as the server takes it. Models of a chain do not make
// the same kind: Mistral wants nine letters or digits, OpenAI takes none that is
// long. Calls and answers have the same ids after it if they had before.
func wireID(id string, nineLetters bool) string {
	nine := len(id) == 9 && !strings.ContainsFunc(id, func(r rune) bool { return !isLetterOrDigit(r) })
	if nine || !nineLetters && len(id) <= maxIDBytes {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	short := fmt.Sprintf("%09s", strconv.FormatUint(h.Sum64(), 36))
	return short[len(short)-9:]
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// calls are the tools that the model called, in its order.
func calls(m *openai.ChatCompletionMessage) []Call {
	var out []Call
	for _, c := range m.ToolCalls {
		out = append(out, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if f := m.FunctionCall; f != nil && f.Name != "" && len(out) == 0 { // before there were tools
		out = append(out, Call{Name: f.Name, Arguments: f.Arguments})
	}
	return out
}

// identify gives an id to each call that has none, or that of an earlier one. The
// numbers go on behind the calls of the request, so that such ids are unique in a
// conversation as well.
func identify(calls []Call, req *Request) {
	taken := map[string]bool{"": true}
	n := 0
	for _, m := range req.Messages {
		n += len(m.Calls)
	}
	for i := range calls {
		if taken[calls[i].ID] {
			calls[i].ID = ""
		}
		taken[calls[i].ID] = true
	}
	for i := range calls {
		for calls[i].ID == "" {
			n++
			if id := "call_" + strconv.Itoa(n); !taken[id] {
				calls[i].ID = id
			}
		}
	}
}
