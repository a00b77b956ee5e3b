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
