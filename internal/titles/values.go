package titles

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/internal/texts"
)

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

// blank are letters and symbols that render as nothing.
var blank = []rune{0x115f, 0x1160, 0x2800, 0x3164, 0xffa0}
