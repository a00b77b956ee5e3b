// Package prompts holds what the model is told: prompt folders with a small template language, the
// history of a conversation, and the token counts that limit it.
//
// Prompts are plain text files. This package embeds its own; [Load] overrides them with an
// operator's folder.
//
// A person's text never becomes part of a template: values are inserted unchanged and never parsed
// again, and the text of the turn is a separate message.
package prompts

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

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

	builtin bool // it is embedded
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

// Part is a message of a prompt.
type Part struct {
	Role string // system, user or assistant
	*Prompt
}

// Chat returns the messages of a text in Semantic Kernel's chat markup, <message role="user">…</message>. Only the
// text itself can have it: a value is never read as markup. What stands before the first message is the system's, and
// behind it the user's. nil: the text has no such markup. The error lists what is wrong with it.
func (p *Prompt) Chat() (parts []Part, err error) {
	part, open, found := Part{Role: "system", Prompt: p.empty()}, false, false
	var faults []error
	next := func(role string) {
		if !part.blank() {
			parts = append(parts, part)
		}
		part = Part{Role: role, Prompt: p.empty()}
	}
	for _, n := range p.nodes {
		text := n.text
		if n.name != "" {
			part.nodes = append(part.nodes, n)
		}
		for n.name == "" && text != "" {
			tag := messageTag.FindStringSubmatchIndex(text)
			before, behind := len(text), len(text)
			if tag != nil {
				before, behind = tag[0], tag[1]
			}
			isTag, opens := tag != nil, tag != nil && tag[2] >= 0
			if isTag && !opens && !open { // what it ends has no role, so it is text
				isTag, before = false, behind
			}
			if before > 0 && open {
				part.nodes = append(part.nodes, node{text: html.UnescapeString(text[:before])})
			} else if before > 0 {
				part.nodes = append(part.nodes, node{text: text[:before]})
			}
			switch {
			case !isTag:
			case opens && open:
				faults = append(faults, fmt.Errorf("%s: a <message> stands within a <message>", p.Name()))
			default:
				next("user")
				if open = opens; open {
					found = true
					part.Role = strings.ToLower(text[tag[2]:tag[3]])
				}
			}
			text = text[behind:]
		}
	}
	next("")
	if !found {
		return nil, nil
	}
	if open {
		faults = append(faults, fmt.Errorf("%s: a <message> is never closed by </message>", p.Name()))
	}
	return parts, errors.Join(faults...)
}

// messageTag matches a tag of chat markup: the beginning of a message, with its role, or the end of one.
var messageTag = regexp.MustCompile(`\s*(?:<message\s[^<>]*\brole\s*=\s*["'](?i:(system|user|assistant))["'][^<>]*>|</message>)\s*`)

// empty is the prompt without its text.
func (p *Prompt) empty() *Prompt {
	return &Prompt{template: &template{name: p.Name()}, Config: p.Config}
}
