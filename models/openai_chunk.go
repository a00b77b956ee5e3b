package models

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sashabaranov/go-openai"
)

// chunk is what counts of an answer, or of a part of one.
type chunk struct {
	Model   string        `json:"model"`
	Usage   *openai.Usage `json:"usage"`
	Choices []chunkChoice `json:"choices"`
}

type chunkChoice struct {
	Index        int                 `json:"index"`
	FinishReason openai.FinishReason `json:"finish_reason"`
	Delta        chunkMessage        `json:"delta"`
	Message      chunkMessage        `json:"message"`
	Text         string              `json:"text"` // of the older API
}

type chunkMessage struct {
	Content      string             `json:"content"`
	Refusal      string             `json:"refusal"`
	ToolCalls    []chunkCall        `json:"tool_calls"`
	FunctionCall *chunkCallFunction `json:"function_call"` // of the older API
}

func (m *chunkMessage) empty() bool {
	return m.Content == "" && m.Refusal == "" && len(m.ToolCalls) == 0 && m.FunctionCall == nil
}

type chunkCall struct {
	Index    *int              `json:"index"`
	ID       string            `json:"id"`
	Function chunkCallFunction `json:"function"`
}

type chunkCallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// said is the message of a choice, or its part.
func (c *chunkChoice) said() (m chunkMessage) {
	m = c.Delta
	if m.empty() {
		m = c.Message
	}
	if m.empty() {
		m.Content = c.Text
	}
	if m.FunctionCall != nil && len(m.ToolCalls) == 0 {
		m.ToolCalls = []chunkCall{{Function: *m.FunctionCall}}
	}
	return m
}

// read reads an answer or a part of one, in the place of the one before. Nearly every server writes OpenAI's types; what it
// writes otherwise is read member by member. Members that are not used may be anything. The error is an [*Error]
// that names the member which cannot be read, or [io.ErrUnexpectedEOF].
func (c *chunk) read(raw []byte) error {
	*c = chunk{Choices: c.Choices[:0]}
	err := jsonv2.Unmarshal(raw, c, asLenient)
	_, shape := errors.AsType[*jsonv2.SemanticError](err)
	switch {
	case err == nil && len(c.Choices) == 0:
		if within := wrapped(raw); within != nil {
			return c.read(within)
		}
		return nil
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case !shape || !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)):
		return errMalformed
	}
	r := irregular{}
	*c = r.chunk(raw)
	return r.err()
}

// wrapped is the answer in one that has it in a member, as gateways write {"data":{"choices":…},"success":true}; nil:
// there is none.
func wrapped(raw []byte) jsontext.Value {
	var members map[string]jsontext.Value
	if !bytes.Contains(raw, []byte(`"choices"`)) || jsonv2.Unmarshal(raw, &members, asLenient) != nil || members["choices"] != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var within map[string]jsontext.Value
		if members[name].Kind() == '{' && jsonv2.Unmarshal(members[name], &within, asLenient) == nil && within["choices"].Kind() == '[' {
			return members[name]
		}
	}
	return nil
}

// irregular reads values of other types than OpenAI's, and notes the first that it cannot read.
type irregular struct{ fault string }

func (r *irregular) err() error {
	if r.fault == "" {
		return nil
	}
	return &Error{
		Kind: Unavailable, Status: http.StatusOK, Code: codeMalformed,
		Err: fmt.Errorf("the answer is not the JSON of a completion: %s", r.fault),
	}
}

// object returns the members of an object; none for null.
func (r *irregular) object(name string, raw jsontext.Value) (members map[string]jsontext.Value) {
	switch raw.Kind() {
	case '{':
		_ = jsonv2.Unmarshal(raw, &members, asLenient) // it is an object
	case 'n', 0:
	default:
		r.wrong(name, raw, "an object")
	}
	return members
}

// list returns the elements of an array, one for an object, none for null.
func (r *irregular) list(name string, raw jsontext.Value) (all []jsontext.Value) {
	switch raw.Kind() {
	case '[':
		_ = jsonv2.Unmarshal(raw, &all, asLenient)
	case 'n', 0:
	default:
		r.wrong(name, raw, "an array")
	}
	return all
}

func (r *irregular) wrong(name string, raw jsontext.Value, want string) {
	if r.fault == "" {
		r.fault = fmt.Sprintf("%s is a JSON %s, not %s", name, raw.Kind(), want)
	}
}

func (r *irregular) chunk(raw jsontext.Value) (c chunk) {
	o := r.object("the answer", raw)
	c.Model = wordOf(o["model"])
	if o["usage"].Kind() == '{' {
		c.Usage = usageOf(o["usage"])
	}
	for i, raw := range r.list("choices", o["choices"]) {
		name := "choices[" + strconv.Itoa(i) + "]"
		o := r.object(name, raw)
		choice := chunkChoice{Index: numberOf(o["index"]), FinishReason: openai.FinishReason(wordOf(o["finish_reason"])), Text: textIn(o["text"])}
		for _, key := range [...]string{"message", "delta"} {
			if kind := o[key].Kind(); kind == 0 || kind == 'n' {
				continue
			}
			choice.Delta = r.message(name+"."+key, o[key])
		}
		c.Choices = append(c.Choices, choice)
	}
	return c
}

func (r *irregular) message(name string, raw jsontext.Value) (m chunkMessage) {
	if raw.Kind() == '"' {
		return chunkMessage{Content: wordOf(raw)}
	}
	o := r.object(name, raw)
	m.Content, m.Refusal = textIn(o["content"]), textIn(o["refusal"])
	calls := o["tool_calls"]
	if calls.Kind() == '{' {
		calls = jsontext.Value("[" + string(calls) + "]")
	}
	for i, raw := range r.list(name+".tool_calls", calls) {
		at := name + ".tool_calls[" + strconv.Itoa(i) + "]"
		o := r.object(at, raw)
		call := chunkCall{ID: wordOf(o["id"])}
		if kind := o["index"].Kind(); kind == '0' || kind == '"' {
			n := numberOf(o["index"])
			call.Index = &n
		}
		if f := o["function"]; f.Kind() == '{' {
			o = r.object(at+".function", f)
		} else if f.Kind() == '"' {
			call.Function.Name = wordOf(f)
		}
		if call.Function.Name == "" {
			call.Function.Name = wordOf(o["name"])
		}
		call.Function.Arguments = argumentsOf(o["arguments"])
		m.ToolCalls = append(m.ToolCalls, call)
	}
	if f := o["function_call"]; f.Kind() == '{' {
		o := r.object(name, f)
		m.FunctionCall = &chunkCallFunction{Name: wordOf(o["name"]), Arguments: argumentsOf(o["arguments"])}
	}
	return m
}

// usageOf leaves out what it cannot read.
func usageOf(raw jsontext.Value) *openai.Usage {
	r := irregular{}
	o := r.object("usage", raw)
	in, out := o["prompt_tokens_details"], o["completion_tokens_details"]
	used := &openai.Usage{PromptTokens: numberOf(o["prompt_tokens"]), CompletionTokens: numberOf(o["completion_tokens"]), TotalTokens: numberOf(o["total_tokens"])}
	if in.Kind() == '{' {
		used.PromptTokensDetails = &openai.PromptTokensDetails{CachedTokens: numberOf(r.object("", in)["cached_tokens"])}
	}
	if out.Kind() == '{' {
		used.CompletionTokensDetails = &openai.CompletionTokensDetails{ReasoningTokens: numberOf(r.object("", out)["reasoning_tokens"])}
	}
	return used
}

// numberOf reads a count in any form, as a number or in a text; 0: it is none.
func numberOf(raw jsontext.Value) int {
	f, err := strconv.ParseFloat(strings.TrimSpace(wordOf(raw)), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > math.MaxInt32 {
		return 0
	}
	return int(math.Round(f))
}

// wordOf is a text or a number as text; "" for anything else.
func wordOf(raw jsontext.Value) (text string) {
	switch raw.Kind() {
	case '"':
		_ = jsonv2.Unmarshal(raw, &text, asLenient)
	case '0':
		text = string(raw)
	}
	return text
}

// textIn is what is said in a value: a text, parts of which some are text, or an object that is itself the
// answer. Thinking is in parts of another type.
func textIn(raw jsontext.Value) string {
	switch raw.Kind() {
	case '"', '0':
		return wordOf(raw)
	case 't', 'f':
		return string(raw)
	case '[':
		var parts []jsontext.Value
		_ = jsonv2.Unmarshal(raw, &parts, asLenient)
		var out strings.Builder
		for _, part := range parts {
			if part.Kind() == '{' || part.Kind() == '"' {
				out.WriteString(textIn(part))
			}
		}
		return out.String()
	case '{':
		r := irregular{}
		o := r.object("", raw)
		kind, typed := o["type"]
		part := wordOf(kind)
		switch text := o["text"]; {
		case part == "text" || part == "output_text" || !typed && text != nil && len(o) == 1:
			if value := r.object("", text)["value"]; value != nil {
				text = value
			}
			return textIn(text)
		case typed && (o["commands"] == nil && part != "DO" && part != "SAY"):
			return "" // a part of another type
		}
		return string(bytes.TrimSpace(raw))
	}
	return ""
}

// argumentsOf are the arguments of a call: a text, or the object itself.
func argumentsOf(raw jsontext.Value) string {
	switch raw.Kind() {
	case '"':
		return wordOf(raw)
	case 'n', 0:
		return ""
	}
	return string(raw)
}
