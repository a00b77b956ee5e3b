// Package titles says what people read in place of the names and values that programs use.
package titles

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/internal/texts"
)

// LabelsKey is the keyword of a schema that has the labels of its enum, in the same order.
const LabelsKey = "enumNames"

// Words writes a name as words: "closeTicket" becomes "Close ticket".
func Words(name string) string {
	return Capital(strings.Join(strings.Fields(strings.ToLower(wordEnd.ReplaceAllString(name, "$1 $2"))), " "))
}

// wordEnd matches a word's end in a name.
var wordEnd = regexp.MustCompile(`([a-z0-9])([A-Z])|[_.-]`)

// Capital begins a text with a capital letter.
func Capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 || first == utf8.RuneError {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// Code formats a text as code, so that no markdown in it takes effect.
func Code(text string) string { return "`" + strings.ReplaceAll(text, "`", "\\u0060") + "`" }

// Of is the title of a parameter with that name and schema, which may be nil.
func Of(schema *jsonschema.Schema, name string) string {
	if schema == nil {
		return Words(name)
	}
	return cmp.Or(schema.Title, Words(name))
}

// Order is the order of an object's properties: that of the Go fields or, for a schema read from a file,
// the required ones first and then the others by name.
func Order(schema *jsonschema.Schema) []string {
	if len(schema.PropertyOrder) > 0 {
		return schema.PropertyOrder
	}
	order := slices.DeleteFunc(slices.Clone(schema.Required), func(name string) bool { return schema.Properties[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

// Label is the label of a value, "" if it has none: from [LabelsKey], or from options with a const
// and a title.
func Label(schema *jsonschema.Schema, value any) string {
	if schema == nil {
		return ""
	}
	same := func(option any) bool { return fmt.Sprint(option) == fmt.Sprint(value) }
	for _, option := range slices.Concat(schema.OneOf, schema.AnyOf) {
		if option.Const != nil && same(*option.Const) {
			return option.Title
		}
	}
	i := slices.IndexFunc(schema.Enum, same)
	switch labels := schema.Extra[LabelsKey].(type) {
	case []string:
		if i >= 0 && i < len(labels) {
			return labels[i]
		}
	case []any: // from JSON
		if i >= 0 && i < len(labels) {
			text, _ := labels[i].(string)
			return text
		}
	}
	return ""
}

// noValue stands for what is empty, and cleared for null, with which a value is taken away.
const (
	noValue            = "–"
	cleared texts.Text = "cleared"
)

// View shows values to one person: in their language and time zone.
type View struct {
	Say  func(sentence texts.Text, args ...any) string
	Zone *time.Location
}

// Clock writes a time.
func (v View) Clock(at time.Time) string { return at.In(v.Zone).Format(v.Say("2006-01-02 15:04 MST")) }

// Value writes a value that came from JSON, with labels. schema may be nil. Two different texts
// never look the same: one that is not plain is written as JSON. A text that holds a list or an
// object is written as that if the schema allows anything: some models write arguments so.
func (v View) Value(schema *jsonschema.Schema, value any) string {
	if schema == nil {
		schema = &jsonschema.Schema{}
	} else if schema.Type == "" && schema.Types == nil {
		value = unpacked(value)
	}
	switch value := value.(type) {
	case []any:
		return joined(len(value), func(i int) string { return v.within(schema.Items, value[i]) })
	case map[string]any:
		names := slices.Sorted(maps.Keys(value))
		return joined(len(names), func(i int) string {
			property, name := schema.Properties[names[i]], quoteAmong(names[i])
			if property != nil {
				name = v.Say(texts.Text(Of(property, names[i])))
			}
			return name + ": " + v.within(property, value[names[i]])
		})
	}
	if label := Label(schema, value); label != "" {
		return v.Say(texts.Text(label))
	}
	switch value := value.(type) {
	case nil:
		return v.Say(cleared)
	case bool:
		if value {
			return v.Say("yes")
		}
		return v.Say("no")
	case string:
		if at, ok := minuteOf(value); ok && schema.Format == "date-time" {
			return v.Clock(at)
		}
		if Visible(value) != value || strings.TrimSpace(value) != value || strings.Trim(value, noValue) == "" || value[0] == '"' || value == v.Say(cleared) {
			return quote(value)
		}
		return value
	default:
		return fmt.Sprint(value)
	}
}

// within is a value within a list or an object.
func (v View) within(schema *jsonschema.Schema, value any) string {
	said := v.Value(schema, value)
	switch value := value.(type) {
	case []any, map[string]any:
		return "(" + said + ")"
	case string:
		if said == value {
			return quoteAmong(value)
		}
	}
	return said
}

func joined(n int, part func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = part(i)
	}
	if n == 0 {
		return noValue
	}
	return strings.Join(parts, ", ")
}

// quoteAmong is a text among others, quoted if it could pass for several.
func quoteAmong(text string) string {
	if strings.ContainsAny(text, `,:()"\`) || Visible(text) != text || text == "" {
		return quote(text)
	}
	return text
}

// quote is a text as JSON, with every character visible.
func quote(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, text) // what is no UTF-8 becomes U+FFFD
	return Visible(string(quoted))
}

// minuteOf reads a time that is a whole minute: the clock shows no more.
func minuteOf(text string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && at.Equal(at.Truncate(time.Minute))
}

// unpacked is the list or object in a text, or else the value itself.
func unpacked(value any) any {
	text, _ := value.(string)
	if text = strings.TrimSpace(text); text == "" || text[0] != '[' && text[0] != '{' || !json.Valid([]byte(text)) {
		return value
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var inner any
	_ = dec.Decode(&inner) // it is valid
	return inner
}

// Visible escapes invisible characters, such as marks that change the direction of writing.
func Visible(text string) string {
	var s strings.Builder
	for _, r := range text {
		if r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r) || slices.Contains(blank, r) || unicode.Is(unicode.Variation_Selector, r)) {
			s.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		s.WriteRune(r)
	}
	return s.String()
}

var blank = []rune{0x115f, 0x1160, 0x2800, 0x3164, 0xffa0} // letters and symbols that render as nothing
