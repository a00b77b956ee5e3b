package prompts

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// asYAML writes compact JSON as YAML, in the order in which it is: lists and
// objects a line for each element, set in by two spaces, everything else as in
// JSON but for texts that need no quotes. It is nil for what is no JSON, and for
// what would become several times as long.
func asYAML(value jsontext.Value) []byte {
	y := yamlWriter{limit: 64 + 4*len(value), in: jsontext.NewDecoder(bytes.NewReader(value))}
	y.value(0, false)
	if y.err != nil {
		return nil
	}
	return bytes.TrimSuffix(y.out, []byte("\n"))
}

type yamlWriter struct {
	out   []byte
	limit int
	in    *jsontext.Decoder
	err   error
}

// value writes the next value and ends the line. Behind a key, a list or an
// object starts on a line of its own; behind a dash it goes on in the same one.
func (y *yamlWriter) value(indent int, behindKey bool) {
	switch kind := y.in.PeekKind(); kind {
	case '{', '[':
		y.collection(kind, indent, behindKey)
	default:
		y.scalar(behindKey)
		y.out = append(y.out, '\n')
	}
}

func (y *yamlWriter) collection(kind jsontext.Kind, indent int, behindKey bool) {
	y.token()
	end := kind + 2 // } and ]
	if y.in.PeekKind() == end {
		y.token()
		if behindKey {
			y.out = append(y.out, ' ')
		}
		y.out = append(y.out, byte(kind), byte(end), '\n')
		return
	}
	if behindKey {
		y.out = append(y.out, '\n')
	}
	for first := !behindKey; y.err == nil && y.in.PeekKind() != end; first = false {
		if len(y.out) > y.limit {
			y.err = ErrTooLarge
			return
		}
		if !first {
			y.out = append(y.out, strings.Repeat(" ", indent)...)
		}
		if kind == '[' {
			y.out = append(y.out, "- "...)
			y.value(indent+2, false)
			continue
		}
		y.scalar(false)
		y.out = append(y.out, ':')
		deeper := indent + 2
		if y.in.PeekKind() == '[' {
			deeper = indent // a dash is indent enough
		}
		y.value(deeper, true)
	}
	y.token()
}

// scalar writes the next text, number or word.
func (y *yamlWriter) scalar(behindKey bool) {
	raw, err := y.in.ReadValue()
	if err != nil {
		y.err = err
		return
	}
	if behindKey {
		y.out = append(y.out, ' ')
	}
	if plain := raw[1:max(1, len(raw)-1)]; raw.Kind() == '"' && isPlain(plain) {
		raw = plain
	}
	y.out = append(y.out, raw...)
}

func (y *yamlWriter) token() {
	if _, err := y.in.ReadToken(); err != nil {
		y.err = err
	}
}

// isPlain says whether a text, as it is in JSON, means itself in YAML without
// quotes: words of letters, digits and a few marks, which begin with a letter and
// are none of YAML's own.
func isPlain(text []byte) bool {
	if len(text) == 0 || !isLetter(text[0]) || text[len(text)-1] == ' ' {
		return false
	}
	for _, c := range text {
		if !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune(" _-./()+@,;!?'", rune(c)) {
			return false
		}
	}
	return len(text) > 5 || !yamlWord(strings.ToLower(string(text)))
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80 }

func yamlWord(word string) bool {
	switch word {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
