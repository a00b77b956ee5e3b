// Package prompts holds what the model is told: prompt folders with a small
// template language, the history of a conversation, and the token counts that
// keep it bounded.
//
// The texts are files that read as text. Those of this package are embedded;
// [Load] lays a folder of the operator's over them.
//
// What a person wrote never becomes part of a template: values are put in as
// they are and never read again, and the text of the turn travels in a message
// of its own.
package prompts

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/planbot-go/planbot/internal/spelling"
)

// Message is one message to the model. It is this package's own small type;
// callers convert it to the one of their model.
type Message struct {
	Role string `json:"role"` // system, user or assistant
	Text string `json:"text"`
}

// Prompt is one prompt: its text, and what the config.json and the actions.json
// of its folder say. It does not change and is safe for concurrent use.
type Prompt struct {
	*template
	Config Config
	// Actions are the actions that the prompt offers, in their order. nil: there
	// is no actions.json, and all registered ones are offered.
	Actions []offer

	unclear bool // config.json has faults
}

// offer is an action that a prompt offers.
type offer struct {
	Name        string         `json:"name"`
	Description string         `json:"description"` // what the model is told of it; "": what is registered
	Parameters  jsontext.Value `json:"parameters"`  // their JSON Schema, as a check of the registered one; nil: none
}

// Config is what the config.json of a prompt says. The zero value of a field
// means that it is not given.
type Config struct {
	Description  string  `json:"-"`
	Augmentation string  `json:"-"` // how the model is to plan: none, sequence, sequential or tools
	Input        []Input `json:"-"` // parameters of a prompt that is an action; nil: it is none

	MaxTokens      int    `json:"max_tokens"`       // of the answer
	MaxInputTokens int    `json:"max_input_tokens"` // of all that the model is told
	Model          string `json:"model"`

	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	Stop             []string `json:"stop_sequences"`

	IncludeHistory *bool `json:"include_history"` // what was said before
	IncludeInput   *bool `json:"include_input"`   // the person's text, as a message of its own

	ToolChoice    string `json:"tool_choice"`         // auto, required or none
	ParallelCalls *bool  `json:"parallel_tool_calls"` // more than one call of a tool at a time
}

// Input is one parameter of a prompt that is an action. Its value is a text.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"defaultValue"`
	Required    bool   `json:"-"`
}

// messageTokens is what a message costs beyond its text: the marks that a model server puts
// around it.
const messageTokens = 4

// chunkBytes is how much text is counted at a time, which bounds the memory of counting: the
// tokenizer spreads a text over four bytes a character.
const chunkBytes = 64 << 10

// vocabulary is that of OpenAI's models since GPT-4o; for other models its counts are close.
// Loading it takes some 20 ms and 13 MB.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Tokens is how many tokens a message with these texts has, as a model server counts it. Marks such
// as <|endoftext|> count as the ordinary text that they are in a message. Of a text over 64 KiB it
// counts piece by piece, which may come to a few tokens more. It is safe for concurrent use.
func Tokens(texts ...string) int {
	total := messageTokens
	for _, text := range texts {
		for len(text) > chunkBytes {
			chunk := spelling.Shorten(text, chunkBytes)
			total += count(chunk)
			text = text[len(chunk):]
		}
		total += count(text)
	}
	return total
}

// count falls back to the upper bound: too high a count only shortens a prompt. The
// tokenizer's one error is a time limit that is not set.
func count(text string) int {
	n, err := vocabulary().Count(text)
	if err != nil {
		return len(text)
	}
	return n
}
