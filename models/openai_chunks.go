package models

import (
	"encoding/json"
	"strings"
)

// chunk is a piece of a stream, as far as it is read: reasoning, whatever a server
// calls it, is in fields of its own.
type chunk struct {
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Usage   json.RawMessage `json:"usage"`
	Choices []struct {
		Index  int    `json:"index"`
		Finish string `json:"finish_reason"`
		Delta  delta  `json:"delta"`
	} `json:"choices"`
}

type delta struct {
	Content      json.RawMessage `json:"content"` // a text or parts
	Refusal      string          `json:"refusal"`
	Calls        []callPiece     `json:"tool_calls"`
	FunctionCall *callFunction   `json:"function_call"`
}

type callPiece struct {
	Index    *int         `json:"index"`
	ID       string       `json:"id"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a text; of some servers an object
}

func (f *callFunction) arguments() string {
	if len(f.Arguments) > 0 && f.Arguments[0] == '{' {
		return string(f.Arguments)
	}
	return jsonString(f.Arguments)
}

// folded is the answer of a stream up to here.
type folded struct {
	left          int64 // how many bytes more it may have
	model         string
	finish        string
	begun         bool // there is a choice
	text, refusal strings.Builder
	calls         callPieces
	function      *callDraft // in the form from before there were tools
	usage         json.RawMessage
}

// bytesPerCall is what a call counts beside its texts, so that their number is
// bounded too.
const bytesPerCall = 128

func (f *folded) add(c *chunk) error {
	if c.Model != "" && f.model == "" {
		f.model = c.Model
		f.left -= int64(len(c.Model))
	}
	if len(c.Usage) > 0 && string(c.Usage) != "null" {
		f.usage = c.Usage // some servers send it with each chunk, as it grows
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 { // only one was asked for
			continue
		}
		f.begun = true
		said := f.addDelta(&choice.Delta)
		switch {
		case choice.Finish != "" && choice.Finish != "null":
			f.finish = choice.Finish
		case said: // what goes on has not ended
			f.finish = ""
		}
	}
	if f.left < 0 {
		return errTooLarge
	}
	return nil
}

// addDelta reports whether there was anything in it.
func (f *folded) addDelta(d *delta) bool {
	text := contentText(d.Content)
	f.write(&f.text, text)
	f.write(&f.refusal, d.Refusal)
	for i := range d.Calls {
		f.addCall(&d.Calls[i])
	}
	if d.FunctionCall != nil {
		if f.function == nil {
			f.function = &callDraft{}
		}
		f.left -= f.function.add(&callPiece{Function: *d.FunctionCall})
	}
	return text != "" || d.Refusal != "" || len(d.Calls) > 0 || d.FunctionCall != nil
}

func (f *folded) write(b *strings.Builder, text string) {
	b.WriteString(text)
	f.left -= int64(len(text))
}

func (f *folded) addCall(p *callPiece) {
	before := len(f.calls.drafts)
	draft := f.calls.of(p)
	f.left -= draft.add(p) + bytesPerCall*int64(len(f.calls.drafts)-before)
}

// contentText is the text of a delta: a text, or the parts of it that are text.
func contentText(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '[' {
		return jsonString(raw)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // what does not fit stays empty
	var b strings.Builder
	for _, p := range parts {
		if isTextPart(p.Type) {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// body writes the answer as the completion that the server would have sent.
func (f *folded) body() ([]byte, error) {
	type choice struct {
		Message struct {
			Role         string    `json:"role"`
			Content      string    `json:"content"`
			Refusal      string    `json:"refusal,omitempty"`
			Calls        []rawCall `json:"tool_calls,omitempty"`
			FunctionCall *rawText  `json:"function_call,omitempty"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	}
	out := struct {
		Model   string          `json:"model,omitempty"`
		Choices []choice        `json:"choices"`
		Usage   json.RawMessage `json:"usage,omitempty"`
	}{Model: f.model, Usage: f.usage}
	if f.begun {
		var c choice
		c.Finish, c.Message.Role = f.finish, "assistant"
		c.Message.Content, c.Message.Refusal = f.text.String(), f.refusal.String()
		for _, d := range f.calls.drafts {
			c.Message.Calls = append(c.Message.Calls, rawCall{d.id, "function", d.raw()})
		}
		if f.function != nil {
			raw := f.function.raw()
			c.Message.FunctionCall = &raw
		}
		out.Choices = append(out.Choices, c)
	}
	return json.Marshal(out)
}
