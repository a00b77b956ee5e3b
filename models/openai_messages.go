package models

import (
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
)

// messagesSize is about how many bytes appendMessages writes.
func messagesSize(messages []Message) int {
	const frame, escapes = 64, 16 // of a message, and of how many bytes one is escaped
	size := 0
	for i := range messages {
		size += frame + len(messages[i].Text) + len(messages[i].Text)/escapes
		for _, c := range messages[i].Calls {
			size += 2*frame + len(c.Name) + len(c.Arguments) + len(c.Arguments)/escapes
		}
	}
	return size
}

// appendMessages writes messages one after another, the first of them behind a comma
// if others are before it. It leaves out those that servers refuse because there is
// nothing in them. Each has a content, if need be an empty one: OpenAI wants one in
// an answer to a call, and chat templates that are older than tools fail without one
// in a message with calls.
func appendMessages(dst []byte, messages []Message, comma, nineLetters bool) []byte {
	for i := range messages {
		if messages[i].isEmpty() {
			continue
		}
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = appendMessage(dst, &messages[i], nineLetters)
	}
	return dst
}

// prelude is the JSON of the system's message that stood first in the last request.
// It is as good as always the bot's prompt, and the same in the next one. Its zero
// value is ready, and safe for concurrent use.
type prelude struct{ last atomic.Pointer[encoded] }

type encoded struct {
	text string
	json []byte
}

func (o *prelude) of(m *Message) []byte {
	last := o.last.Load()
	if last == nil || last.text != m.Text {
		last = &encoded{m.Text, appendMessage(nil, m, false)}
		o.last.Store(last)
	}
	return last.json
}

func appendMessage(dst []byte, m *Message, nineLetters bool) []byte {
	dst = appendText(append(dst, `{"role":`...), string(m.Role))
	dst = appendText(append(dst, `,"content":`...), m.Text)
	for i, c := range m.Calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"id":`...), wireID(c.ID, nineLetters))
		dst = appendText(append(dst, `,"type":"function","function":{"name":`...), wireName(c.Name))
		dst = appendText(append(dst, `,"arguments":`...), wireArguments(c.Arguments))
		dst = append(dst, "}}"...)
	}
	if len(m.Calls) > 0 {
		dst = append(dst, ']')
	}
	if m.Role == ToolRole {
		dst = appendText(append(dst, `,"tool_call_id":`...), wireID(m.CallID, nineLetters))
	}
	return append(dst, '}')
}

// appendText writes a JSON string. What is no UTF-8 in it becomes U+FFFD, as it does
// everywhere, so that there is no error to tell.
func appendText(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}
