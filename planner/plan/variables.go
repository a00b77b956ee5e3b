package plan

import (
	"encoding/json"
	"strings"
)

// Variables are the results that a plan has saved so far, by their names in
// lower case: names are matched without regard to case. Values are JSON values
// as encoding/json makes them, with json.Number for numbers. The zero value reads
// as empty; make one to set in it.
//
// Expand only in a plan that saves something, see [Plan.Saves]. At each $ the
// name is the longest run of name characters behind it. A name that is not set
// stays as it is, $$ is one dollar sign, and a value that was filled in is never
// looked at again.
type Variables map[string]any

// Set keeps value under name.
func (v Variables) Set(name string, value any) { v[strings.ToLower(name)] = value }

// ExpandText fills the variables into a text: strings as they are, other values
// as JSON.
func (v Variables) ExpandText(text string) string {
	at := strings.IndexByte(text, '$')
	if at < 0 {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	var key []byte
	for at >= 0 {
		out.WriteString(text[:at])
		text = text[at+1:]
		size := nameSize(text)
		key = appendFolded(key[:0], text[:size])
		value, set := v[string(key)]
		switch {
		case strings.HasPrefix(text, "$"):
			out.WriteByte('$')
			size = 1
		case size > 0 && set:
			out.WriteString(textOf(value))
		default:
			out.WriteByte('$')
			out.WriteString(text[:size])
		}
		text = text[size:]
		at = strings.IndexByte(text, '$')
	}
	out.WriteString(text)
	return out.String()
}

// size is how many bytes ExpandText fills in, at least where they are many.
func (v Variables) size(text string) int {
	total := 0
	for name := range references(text) {
		switch value := v[strings.ToLower(name)].(type) {
		case nil:
		case string:
			total += len(value)
		default:
			total += len(textOf(value))
		}
		if total > MaxExpanded {
			break
		}
	}
	return total
}

// ExpandEntities fills the variables into all strings of entities, and returns a
// copy; names of entities are left alone. A string that is exactly $NAME becomes
// the value of the variable, whatever its type.
func (v Variables) ExpandEntities(entities map[string]any) map[string]any {
	if entities == nil {
		return nil
	}
	expanded := make(map[string]any, len(entities))
	for name, value := range entities {
		expanded[name] = v.expand(value)
	}
	return expanded
}

func (v Variables) expand(value any) any {
	switch value := value.(type) {
	case string:
		if name, ok := strings.CutPrefix(value, "$"); ok && name != "" && nameSize(name) == len(name) {
			if saved, set := v[strings.ToLower(name)]; set {
				return saved
			}
		}
		return v.ExpandText(value)
	case map[string]any:
		return v.ExpandEntities(value)
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = v.expand(item)
		}
		return list
	default:
		return value
	}
}

// textOf writes a value into a text.
func textOf(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case json.Number:
		return value.String()
	default:
		var out strings.Builder
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return "" // no JSON value: nothing that a result can be
		}
		return strings.TrimSuffix(out.String(), "\n")
	}
}

// references yields the names of the variables that text refers to, as they are
// written there.
func references(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for {
			at := strings.IndexByte(text, '$')
			if at < 0 {
				return
			}
			text = text[at+1:]
			if strings.HasPrefix(text, "$") {
				text = text[1:]
				continue
			}
			size := nameSize(text)
			if size > 0 && !yield(text[:size]) {
				return
			}
			text = text[size:]
		}
	}
}

// appendFolded appends a name in lower case, as a key for a map of names. Only
// ASCII is in names.
func appendFolded(key []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		key = append(key, c)
	}
	return key
}

// nameSize is the size of the name of a variable that text begins with; 0 for
// none. A name is made of letters, digits and _, and begins with no digit.
func nameSize(text string) int {
	n := 0
	for n < len(text) && isNameByte(text[n], n) {
		n++
	}
	return n
}

func isNameByte(c byte, at int) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || at > 0 && '0' <= c && c <= '9'
}
