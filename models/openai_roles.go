package models

import "strings"

// roleRule says which messages a server takes.
type roleRule uint8

const (
	anyOrder      roleRule = iota
	leadingSystem          // system first and once; then user and assistant in turn
	noSystem               // user and assistant in turn
)

// Marks of instructions that a server forces into the person's role. Without the
// role there is no wall between the two; the marks at least cannot be forged.
const (
	markOpen  = "[instructions]"
	markClose = "[end of instructions]"
)

var unmark = strings.NewReplacer(markOpen, "(instructions)", markClose, "(end of instructions)")

// noAnswer stands where a model was never asked for its words about the answers to
// its calls: templates that want user and assistant in turn want them there too.
const noAnswer = "(no answer)"

// arrange writes messages as the rule wants them, neighbours of one role as one.
// Answers to calls stay as they are, right behind the calls.
func arrange(messages []Message, rule roleRule) []Message {
	if rule == anyOrder {
		return messages
	}
	out := make([]Message, 0, len(messages))
	for _, m := range messages {
		if m.isEmpty() {
			continue
		}
		last := len(out) - 1
		m = fold(m, rule == leadingSystem && (last < 0 || out[last].Role == System))
		switch {
		case last >= 0 && out[last].joins(&m):
			out[last].Text, out[last].Calls = joined(out[last].Text, m.Text), m.Calls
		case last >= 0 && out[last].Role == ToolRole && m.Role == User:
			out = append(out, Message{Role: Assistant, Text: noAnswer}, m)
		default:
			out = append(out, m)
		}
	}
	return out
}

// joins reports whether next can become a part of m.
func (m *Message) joins(next *Message) bool {
	return m.Role == next.Role && m.Role != ToolRole && len(m.Calls) == 0
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// fold gives the instructions to the user's role, unless they may stay.
func fold(m Message, mayStay bool) Message {
	switch {
	case m.Role != System:
		m.Text = unmark.Replace(m.Text)
	case !mayStay:
		m.Role, m.Text = User, markOpen+"\n"+unmark.Replace(m.Text)+"\n"+markClose
	}
	return m
}
