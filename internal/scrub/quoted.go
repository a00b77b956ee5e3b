package scrub

import (
	"bytes"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
)

// maxPasses bounds how often a text is looked at: what was replaced may let something else
// be seen.
const maxPasses = 8

// text is the text with stand-ins, in which nothing is left to be replaced.
func (s *Scrubber) text(text string) string {
	for range maxPasses {
		was := text
		if text = s.pass(text); text == was {
			break
		}
	}
	return text
}

// pass is the text, in which there may be strings of JSON, looked at once.
func (s *Scrubber) pass(text string) string {
	if !strings.Contains(text, `"`) {
		return s.plain(text)
	}
	isDocument := isDocument(text)
	between := func(gap string) string {
		if isDocument { // no more than signs, and words and numbers of JSON
			return gap
		}
		return s.plain(gap)
	}
	var out strings.Builder
	from, secret := 0, false
	for start, end := range literals(text) {
		gap := text[from:start]
		value := secret && strings.TrimSpace(gap) == ":" || !isDocument && endsInName(gap)
		out.WriteString(between(withoutNumber(gap, secret)) + s.literal(text[start:end], value))
		secret = secretName.MatchString(unquoted(text[start:end]))
		from = end
	}
	return out.String() + between(withoutNumber(text[from:], secret))
}

// endsInName reports whether the text ends in the name of a secret, whose value comes next.
func endsInName(text string) bool {
	const enough = 100
	return nameAtEnd.MatchString(text[max(0, len(text)-enough):])
}

// isDocument reports whether the text is JSON, all of it.
func isDocument(text string) bool {
	start := strings.TrimSpace(text)
	return strings.ContainsAny(start[:min(1, len(start))], `{["`) && json.Valid([]byte(text))
}

// withoutNumber is what stands behind a string: if that names a secret, and this is the
// number which is meant, it is another number.
func withoutNumber(gap string, secret bool) string {
	if !secret {
		return gap
	}
	return numberBehind.ReplaceAllString(gap, "${1}0")
}

var numberBehind = regexp.MustCompile(`^(\s*:\s*)-?\d[\d.eE+-]{3,}`)

// literal is a string of JSON as it was, unless something in what it means is replaced, or
// all of it is the value of a secret.
func (s *Scrubber) literal(raw string, isSecret bool) string {
	was := unquoted(raw)
	is := was
	switch {
	case isSecret && was != "":
		s.learn(was)
		is = Secret
	case !isSecret:
		is = s.text(was)
	}
	if is == was {
		return raw
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(is) // a string
	return strings.TrimSuffix(out.String(), "\n")
}

func unquoted(literal string) (text string) {
	_ = json.Unmarshal([]byte(literal), &text) // that it is one was seen
	return text
}

// literals are where strings of JSON begin and end in the text, with their quotes. In what
// is no JSON these are such as stand where one can.
func literals(text string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for at := 0; ; {
			next := strings.IndexByte(text[at:], '"')
			if next < 0 {
				return
			}
			start := at + next
			at = start + 1
			if !opens(text, start) {
				continue
			}
			if end := literalEnd(text, start); end > 0 {
				if !yield(start, end) {
					return
				}
				at = end
			}
		}
	}
}

// opens reports whether a string can begin at that quote.
func opens(text string, quote int) bool {
	for i := quote - 1; i >= 0; i-- {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
		default:
			return strings.IndexByte("{[(,:=", text[i]) >= 0
		}
	}
	return true
}

var escape = regexp.MustCompile(`^\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})`)

// literalEnd is behind the quote that ends the string; 0: it is none.
func literalEnd(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c == '\\':
			n := len(escape.FindString(text[i:min(len(text), i+len(`\u00fc`))]))
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// Value is a tree of maps, lists and texts, as JSON is read, with stand-ins: the same as
// [Scrubber.Text] puts into that JSON. A nil scrubber changes nothing.
func (s *Scrubber) Value(tree any) any {
	if s == nil {
		return tree
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value(tree)
}

func (s *Scrubber) value(tree any) any {
	switch tree := tree.(type) {
	case string:
		return s.text(tree)
	case []any:
		out := make([]any, len(tree))
		for i, one := range tree {
			out[i] = s.value(one)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, one := range tree {
			out[s.text(name)] = s.member(name, one)
		}
		return out
	}
	return tree
}

// member is the value of that name.
func (s *Scrubber) member(name string, value any) any {
	if !secretName.MatchString(name) {
		return s.value(value)
	}
	switch value := value.(type) {
	case string:
		if value != "" {
			s.learn(value)
			return Secret
		}
	case json.Number, float64, int, int64:
		if raw, err := json.Marshal(value); err == nil && numberBehind.MatchString(":"+string(raw)) {
			return json.Number("0")
		}
	case []any, map[string]any:
		return s.value(value)
	}
	return value
}
