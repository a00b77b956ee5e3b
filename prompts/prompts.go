// Package prompts holds what the model is told: prompt folders with a small template language, the
// history of a conversation, and the token counts that limit it.
//
// Prompts are plain text files. This package embeds its own; [Load] overrides them with an
// operator's folder.
//
// A person's text never becomes part of a template: values are inserted unchanged and never parsed
// again, and the text of the turn is a separate message.
package prompts

import "github.com/go-json-experiment/json/jsontext"

// Message is one message to the model. It is this package's own small type; callers convert it to
// their model's type.
type Message struct {
	Role string `json:"role"` // system, user or assistant
	Text string `json:"text"`
}

// Prompt is one prompt: its text, and the config.json and actions.json of its folder. It is
// immutable and safe for concurrent use.
type Prompt struct {
	*template
	Config Config
	// Actions are the actions that the prompt offers, in order. nil: there is no actions.json, and
	// all registered ones are offered.
	Actions []offer
}

// offer is an action that a prompt offers.
type offer struct {
	Name        string         `json:"name"`
	Description string         `json:"description"` // shown to the model; "": the registered one
	Parameters  jsontext.Value `json:"parameters"`  // JSON Schema, checked against the registered one; nil: none
}

// Config is the config.json of a prompt. A zero field is not set.
type Config struct {
	Description  string  `json:"-"`
	Augmentation string  `json:"-"` // how the model plans: none, monologue, sequence, sequential or tools
	Input        []Input `json:"-"` // parameters of a prompt action; nil: not an action

	// DataSources are searched with what the person says before the model is asked: how many tokens what is
	// found may have, by the name of the source.
	DataSources map[string]int `json:"-"`

	MaxTokens      int    `json:"max_tokens"`       // of the answer
	MaxInputTokens int    `json:"max_input_tokens"` // of everything sent to the model
	Model          string `json:"model"`

	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	Stop             []string `json:"stop_sequences"`

	IncludeHistory *bool `json:"include_history"` // earlier turns
	IncludeInput   *bool `json:"include_input"`   // the person's text, as a separate message
	IncludeImages  bool  `json:"include_images"`  // pictures of the person's message, for a model that sees

	ToolChoice    string `json:"tool_choice"`         // auto, required or none
	ParallelCalls *bool  `json:"parallel_tool_calls"` // more than one tool call at a time
}

// Input is one parameter of a prompt action. Its value is a text.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"defaultValue"`
	Required    bool   `json:"-"`
}
