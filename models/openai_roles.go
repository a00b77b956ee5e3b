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

// arrange writes messages as the rule wants them, neighbours of one role as one.
func arrange(messages []Message, rule roleRule) []Message {
	if rule == anyOrder {
		return messages
	}
	out := make([]Message, 0, len(messages))
	for _, m := range messages {
		if m.Text == "" {
			continue
		}
		last := len(out) - 1
		m = fold(m, rule == leadingSystem && (last < 0 || out[last].Role == System))
		if last >= 0 && out[last].Role == m.Role {
			out[last].Text += "\n\n" + m.Text
			continue
		}
		out = append(out, m)
	}
	return out
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
