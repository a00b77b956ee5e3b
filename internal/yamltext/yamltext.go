// Package yamltext reads YAML within bounds, see [Parse] and [JSON], and writes it for people
// to read and change: fields in the order that they were given, texts of several lines as they are, what is short on one line. Texts that YAML
// would bend are written as JSON has them, so that they are read back exactly; see [Clean].
package yamltext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Object is an object whose fields keep their order.
type Object []Field

// Field is one of an [Object].
type Field struct {
	Name  string
	Value any
}

// Write writes objects, maps with texts as keys, lists of any kind, texts, and whatever JSON
// has no parts of. Other values are written as JSON. The error is that of a value that
// JSON does not have.
func Write(v any) ([]byte, error) {
	w := &writer{}
	if v = w.normal(v); w.err != nil {
		return nil, w.err
	}
	w.value(v, "", false)
	return w.out.Bytes(), nil
}

type writer struct {
	out bytes.Buffer
	err error
}

// normal makes of a value an [Object], []any, string, or text of YAML.
func (w *writer) normal(v any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for i, f := range v {
			out[i] = Field{Clean(f.Name), w.normal(f.Value)}
		}
		return out
	case map[string]any:
		out := Object{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, Field{Clean(name), w.normal(v[name])})
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = w.normal(one)
		}
		return out
	case string:
		return Clean(v)
	case literal:
		return v
	}
	raw, err := asJSON(v)
	if err != nil {
		w.err = fmt.Errorf("write YAML: %w", err)
		return nil
	}
	if raw[0] == '{' || raw[0] == '[' || raw[0] == '"' {
		return w.normal(treeOf(raw))
	}
	return literal(raw)
}

// Clean is the text with U+FFFD for what is no UTF-8, for control characters other than tabs
// and the ends of lines, and for what cannot be seen above U+FFFF: not every reader takes
// these, whatever they are written as.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) || r > 0xFFFF && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// literal is text of YAML.
type literal string

func treeOf(raw []byte) (tree any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&tree) // it was written as JSON just now
	return tree
}

func asJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// maxLine is how long an object or list on one line may be.
const maxLine = 110

// value writes behind a name or a dash, if it is behind one.
func (w *writer) value(v any, in string, behind bool) {
	if line, ok := inLine(v); ok && (behind || !hasParts(v)) && len(in)+len(line) <= maxLine || !hasParts(v) && !isBlock(v) {
		w.behind(behind)
		w.out.WriteString(line + "\n")
		return
	}
	switch v := v.(type) {
	case string:
		w.behind(behind)
		w.block(v, in)
	case Object:
		w.object(v, in, behind)
	case []any:
		w.list(v, in, behind)
	}
}

func (w *writer) behind(yes bool) {
	if yes {
		w.out.WriteByte(' ')
	}
}

func (w *writer) object(o Object, in string, behind bool) {
	if behind {
		w.out.WriteByte('\n')
	}
	for _, f := range o {
		w.out.WriteString(in + scalar(f.Name) + ":")
		w.value(f.Value, in+"  ", true)
	}
}

func (w *writer) list(l []any, in string, behind bool) {
	if behind {
		w.out.WriteByte('\n')
	}
	for _, one := range l {
		w.out.WriteString(in + "-")
		line, ok := inLine(one)
		o, isObject := one.(Object)
		if !isObject || len(o) == 0 || ok && len(in)+len(line) <= maxLine {
			w.value(one, in+"  ", true)
			continue
		}
		for i, f := range o { // the first field stands behind the dash
			if i == 0 {
				w.out.WriteString(" " + scalar(f.Name) + ":")
			} else {
				w.out.WriteString(in + "  " + scalar(f.Name) + ":")
			}
			w.value(f.Value, in+"    ", true)
		}
	}
}

// block writes a text of several lines.
func (w *writer) block(text, in string) {
	if in == "" {
		in = "  "
	}
	head, body := "|-\n", text
	if strings.HasSuffix(text, "\n") {
		head, body = "|\n", text[:len(text)-1]
	}
	w.out.WriteString(head)
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			w.out.WriteString(in + line)
		}
		w.out.WriteByte('\n')
	}
}

// hasParts reports whether v is an object or a list with anything in it.
func hasParts(v any) bool {
	switch v := v.(type) {
	case Object:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// isBlock reports whether v is a text that may be written as it is, over several lines.
func isBlock(v any) bool {
	text, ok := v.(string)
	if !ok || !strings.Contains(text, "\n") || strings.HasSuffix(text, "\n\n") || !isPrintable(text) {
		return false
	}
	if last := strings.TrimSuffix(text, "\n"); strings.TrimRight(last, " \t") != last {
		return false
	}
	for i, line := range strings.Split(text, "\n") {
		blank := strings.TrimSpace(line) == ""
		if i == 0 && (blank || line[0] == ' ' || line[0] == '\t') || blank && line != "" {
			return false
		}
	}
	return true
}

// isPrintable reports whether YAML has all of the text as it is.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r)
	})
}

// inLine writes v on one line, if it can be.
func inLine(v any) (string, bool) {
	switch v := v.(type) {
	case literal:
		return string(v), true
	case string:
		return scalar(v), !isBlock(v)
	case []any:
		var parts []string
		for _, one := range v {
			part, ok := inLine(one)
			if !ok {
				return "", false
			}
			parts = append(parts, part)
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	case Object:
		var parts []string
		for _, f := range v {
			part, ok := inLine(f.Value)
			if !ok {
				return "", false
			}
			parts = append(parts, scalar(f.Name)+": "+part)
		}
		return "{" + strings.Join(parts, ", ") + "}", true
	}
	return "null", true
}

// plain are the texts that need no quotes, and that every reader takes for texts.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// scalar writes a text on one line.
func scalar(text string) string {
	switch {
	case plain.MatchString(text) && !slices.Contains(words, strings.ToLower(text)):
		return text
	case isPrintable(text) && !strings.ContainsAny(text, "\n\t") && strings.ContainsAny(text, `"\`):
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	raw, err := asJSON(text)
	if err != nil {
		return `""` // texts are always JSON
	}
	return string(raw)
}
