// Package prompts holds what the model is told: prompt folders with a small
// template language, the list of actions, the history of a conversation and
// the token counts that keep it bounded.
//
// The texts are files that read as text. Those of this package are embedded;
// [Load] lays a folder of the operator's over them. What is stable comes first
// in every request (instructions, actions), then history, then what is new, so
// that the prompt caches of model servers hit.
//
// What a person wrote never becomes part of a template: values are put in as
// they are and never read again, and the text of the turn travels in a message
// of its own.
package prompts

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Roles of a [Message].
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
)

// Message is one message to the model. It is this package's own small type;
// callers convert it to the one of their model.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// Prompt is one prompt: its text, and what the config.json and the actions.json
// of its folder say. It does not change and is safe for concurrent use.
type Prompt struct {
	*template
	Config Config
	// Actions are the actions that the prompt offers, in their order. nil: there
	// is no actions.json, and all registered ones are offered.
	Actions []Offer

	unclear bool // config.json has faults
}

// Offer is an action that a prompt offers.
type Offer struct {
	Name        string
	Description string         // what the model is told of it; "": what is registered
	Parameters  jsontext.Value // their JSON Schema, as a check of the registered one; nil: none
}

// Config is what the config.json of a prompt says. The zero value of a field
// means that it is not given.
type Config struct {
	Description  string
	Completion   Completion
	Augmentation string  // how the model is to plan, such as [AugmentSequence]
	Input        []Input // parameters of a prompt that is an action; nil: it is none
}

// The values of augmentation.augmentation_type in a config.json.
const (
	AugmentNone       = "none"       // the answer is text
	AugmentSequence   = "sequence"   // a plan of DO and SAY commands
	AugmentSequential = "sequential" // an XML plan
	AugmentTools      = "tools"      // calls of tools
)

// Completion is how the model is asked.
type Completion struct {
	MaxTokens      int // of the answer
	MaxInputTokens int // of all that the model is told
	Model          string

	Temperature      *float64
	TopP             *float64
	PresencePenalty  *float64
	FrequencyPenalty *float64
	Stop             []string

	IncludeHistory *bool // what was said before
	IncludeInput   *bool // the person's text, as a message of its own

	ToolChoice    string // auto, required or none
	ParallelCalls *bool  // more than one call of a tool at a time
}

// Input is one parameter of a prompt that is an action. Its value is a text.
type Input struct {
	Name        string
	Description string
	Default     string
	Required    bool
}
