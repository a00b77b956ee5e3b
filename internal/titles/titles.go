// Package titles says what people read in place of the names and values that programs use.
package titles

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
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
