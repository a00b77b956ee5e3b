package scenario

import (
	"encoding/json"
	"strings"
)

// wanted is what <approval_card ACTION NAME=VALUE …> says of a card: nothing, an action, or
// an action and some of its values.
type wanted struct{ action, values string }

// wantedOf reads the placeholder.
func wantedOf(reply string) wanted {
	inside := strings.TrimSuffix(strings.TrimPrefix(reply, "<approval_card"), ">")
	action, values, _ := strings.Cut(strings.TrimLeft(inside, ": \t\n"), " ")
	return wanted{strings.TrimSpace(action), strings.TrimSpace(values)}
}

// by reports whether the call is one of those.
func (w wanted) by(q *question) bool {
	return q != nil && (w.action == "" || w.action == q.action) && q.has(w.values)
}

// question is a call that a card asks for the approval of, with its values as the card
// shows them.
type question struct {
	action string
	values map[string]string
}

// questionOf reads a card; nil: it asks for no approval.
func questionOf(card string) *question {
	var tree struct {
		Body []struct {
			Text    string `json:"text"`
			Inlines []struct {
				Text   string `json:"text"`
				Weight string `json:"weight"`
			} `json:"inlines"`
		} `json:"body"`
	}
	if json.Unmarshal([]byte(card), &tree) != nil || len(tree.Body) == 0 || tree.Body[0].Text != "May I do this?" {
		return nil
	}
	q := &question{values: map[string]string{}}
	for _, row := range tree.Body {
		switch parts := row.Inlines; {
		case len(parts) == 1 && parts[0].Weight == "bolder" && q.action == "":
			q.action = parts[0].Text
		case len(parts) == 2 && strings.HasSuffix(parts[0].Text, ": "):
			name := strings.TrimSuffix(strings.TrimSuffix(parts[0].Text, ": "), " (not used)")
			q.values[name] = parts[1].Text
		}
	}
	return q
}

// valueOf is a value of the call, which a card that asks for nothing does not have.
func (q *question) valueOf(name string) (value string, there bool) {
	if q != nil {
		value, there = q.values[name]
	}
	return value, there
}

// has reports whether the values are among those of the call. They are separated by spaces,
// by commas or by both. One that can be read as JSON is JSON, another is a text that ends
// where the next name of the call begins.
func (q *question) has(values string) bool {
	for values != "" {
		name, rest, found := q.name(values)
		if !found {
			return false
		}
		value, next := q.value(rest)
		if !sameValue(value, q.values[name]) {
			return false
		}
		values = next
	}
	return true
}

// name is the name of the call's with which the text begins, and what follows its "=".
func (q *question) name(text string) (name, rest string, found bool) {
	for name := range q.values {
		if rest, found := strings.CutPrefix(text, name+"="); found {
			return name, rest, true
		}
	}
	return "", "", false
}

// value is what the text begins with, and the name and value behind that.
func (q *question) value(text string) (value, next string) {
	const between = ", \t\n"
	d := json.NewDecoder(strings.NewReader(text))
	var whole json.RawMessage
	if d.Decode(&whole) == nil {
		rest := text[d.InputOffset():]
		next := strings.TrimLeft(rest, between)
		if _, _, found := q.name(next); next == "" || found && next != rest {
			return string(whole), next
		}
	}
	for i := range text {
		if _, _, found := q.name(text[i:]); found && i > 0 && strings.ContainsRune(between, rune(text[i-1])) {
			return strings.TrimRight(text[:i], between), text[i:]
		}
	}
	return text, ""
}

// sameValue compares a value with that of a card, which is JSON: as JSON, or as the text
// that this holds.
func sameValue(want, shown string) bool {
	have, ok := parseValue(shown)
	if !ok {
		return want == shown // with an escape that JSON does not have
	}
	if have == want {
		return true
	}
	wanted, ok := parseValue(want)
	return ok && equalJSON(wanted, have)
}

func parseValue(text string) (v any, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil && int(d.InputOffset()) == len(strings.TrimRight(text, " \t\r\n"))
}
