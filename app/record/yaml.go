package record

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// writeYAML writes a value as YAML for people to read and change: fields in their order,
// texts of several lines as they are, what is short on one line. Whatever YAML could bend
// is written as JSON has it, which no encoder of YAML does for all texts.
func writeYAML(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return []byte(blockOf(raw, "")), nil
}

// maxLine is how long an object or list on one line may be.
const maxLine = 110

// part is a field of an object, or one of a list.
type part struct {
	name  string // with the mark behind it: "name:", or "-"
	value jsontext.Value
}

func partsOf(v jsontext.Value) (all []part) {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	open, _ := d.ReadToken() // it was written as JSON just now
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		p := part{name: "-"}
		if open.Kind() == '{' {
			name, _ := d.ReadToken()
			p.name = scalarOf(name.String()) + ":"
		}
		raw, _ := d.ReadValue()
		p.value = raw.Clone()
		all = append(all, p)
	}
	return all
}

// blockOf writes an object or a list, one part a line.
func blockOf(v jsontext.Value, in string) string {
	var out strings.Builder
	for _, p := range partsOf(v) {
		line, ok := lineOf(p.value)
		k := p.value.Kind()
		switch {
		case ok && (len(in)+len(line) <= maxLine || k != '{' && k != '['):
			out.WriteString(in + p.name + " " + line + "\n")
		case k == '"':
			out.WriteString(in + p.name + " " + textBlock(textOf(p.value), in+"  "))
		case k == '{' && p.name == "-": // the first field stands behind the dash
			out.WriteString(in + "- " + blockOf(p.value, in+"  ")[len(in)+2:])
		default:
			out.WriteString(in + p.name + "\n" + blockOf(p.value, in+"  "))
		}
	}
	return out.String()
}

// lineOf writes a value on one line, if it can be.
func lineOf(v jsontext.Value) (line string, ok bool) {
	switch v.Kind() {
	case '"':
		text := textOf(v)
		return scalarOf(text), !isBlock(text)
	case '{', '[':
		var lines []string
		for _, p := range partsOf(v) {
			one, ok := lineOf(p.value)
			if !ok {
				return "", false
			}
			if v.Kind() == '{' {
				one = p.name + " " + one
			}
			lines = append(lines, one)
		}
		line = strings.Join(lines, ", ")
		if v.Kind() == '{' {
			return "{" + line + "}", true
		}
		return "[" + line + "]", true
	}
	return string(v), true
}

func textOf(v jsontext.Value) (text string) {
	_ = json.Unmarshal(v, &text) // it was written as JSON just now
	return text
}

// isBlock reports whether a text may be written as it is, over several lines.
func isBlock(text string) bool {
	body := strings.TrimSuffix(text, "\n")
	lines := strings.Split(body, "\n")
	blank := func(line string) bool { return line != "" && strings.TrimSpace(line) == "" }
	return strings.Contains(text, "\n") && isPrintable(text) && strings.TrimSpace(lines[0]) == strings.TrimRight(lines[0], " ") &&
		lines[0] != "" && strings.TrimRight(body, " \n") == body && !slices.ContainsFunc(lines, blank)
}

func textBlock(text, in string) string {
	body, head := strings.CutSuffix(text, "\n")
	mark := map[bool]string{true: "|\n", false: "|-\n"}[head]
	body = in + strings.ReplaceAll(body, "\n", "\n"+in) + "\n"
	return mark + strings.ReplaceAll(body, "\n"+in+"\n", "\n\n")
}

// isPrintable reports whether YAML has all of the text as it is.
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// plain are the texts that need no quotes, and that every reader takes for texts.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

var noTexts = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// scalarOf writes a text on one line.
func scalarOf(text string) string {
	switch {
	case plain.MatchString(text) && !slices.Contains(noTexts, strings.ToLower(text)):
		return text
	case isPrintable(text) && !strings.Contains(text, "\n") && strings.ContainsAny(text, `"\`):
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return asJSON(text)
}
