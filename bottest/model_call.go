package bottest

import (
	"strings"

	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

// ModelCall is one call of a model.
type ModelCall struct {
	Of
	Seq      int // its place among all that happened in the kit
	Model    string
	Messages []models.Message
	Tools    []models.Tool
	Stream   bool
	Answer   Answer
}

// Prompt is all of the messages, for searching.
func (c ModelCall) Prompt() string {
	var s strings.Builder
	for _, m := range c.Messages {
		s.WriteString(string(m.Role) + ": " + m.Text + "\n")
		for _, call := range m.Calls {
			s.WriteString(string(m.Role) + " calls " + call.Name + ": " + call.Arguments + "\n")
		}
	}
	return s.String()
}

// tools are the names of the tools that were offered.
func (c ModelCall) tools() string {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// told is the prompt with the names of the tools.
func (c ModelCall) told() string {
	if len(c.Tools) == 0 {
		return c.Prompt()
	}
	return c.Prompt() + "tools: " + c.tools() + "\n"
}

// Last is the text of the last message of the role.
func (c ModelCall) Last(role models.Role) string {
	last := ""
	for _, m := range c.Messages {
		if m.Role == role {
			last = m.Text
		}
	}
	return last
}

// readCall writes the request in the words of package models.
func readCall(wire fakemodel.Call) ModelCall {
	call := ModelCall{Model: wire.Model, Stream: wire.Stream}
	for _, m := range wire.Messages {
		message := models.Message{Role: models.Role(m.Role), Text: m.Content, CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.Calls = append(message.Calls, models.Call(c))
		}
		call.Messages = append(call.Messages, message)
	}
	for _, t := range wire.Tools {
		call.Tools = append(call.Tools, models.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters, Strict: t.Strict})
	}
	return call
}
