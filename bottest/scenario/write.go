package scenario

import (
	"reflect"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// Write writes scenarios as YAML that [Read] reads: one alone as it is, several as a list.
// What is not set is left out.
func Write(list []Scenario) ([]byte, error) {
	if len(list) == 1 {
		return yamltext.Write(treeOf(reflect.ValueOf(list[0])))
	}
	return yamltext.Write(yamltext.Object{{Name: "scenarios", Value: treeOf(reflect.ValueOf(list))}})
}

// treeOf is a part of a scenario as it is written.
func treeOf(v reflect.Value) any {
	switch own := v.Interface().(type) {
	case Answer:
		if own.Text != nil {
			return *own.Text
		}
	case Within:
		if own.All != nil {
			return *own.All
		}
		return treeOf(reflect.ValueOf(own.ByID))
	case Order:
		if own.Either {
			return "either"
		}
		return treeOf(reflect.ValueOf(own.IDs))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return treeOf(v.Elem())
	case reflect.Struct:
		return fieldsTree(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = treeOf(v.Index(i))
		}
		return list
	case reflect.Map:
		if values, ok := v.Interface().(map[string]any); ok && values != nil {
			return values
		}
		if v.IsNil() {
			return nil
		}
		var o yamltext.Object
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			o = append(o, yamltext.Field{Name: name.String(), Value: treeOf(v.MapIndex(name))})
		}
		return o
	}
	return v.Interface()
}

// fieldsTree has the fields that are set, in their order.
func fieldsTree(v reflect.Value) yamltext.Object {
	o := yamltext.Object{}
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if isUnset(field) {
			continue
		}
		o = append(o, yamltext.Field{Name: f.Tag.Get("json"), Value: treeOf(field)})
	}
	return o
}

// isUnset reports whether nothing is said by the field: an empty list says something.
func isUnset(v reflect.Value) bool {
	if v.Kind() == reflect.Struct {
		return v.IsZero() || len(fieldsOf(v.Type())) > 0 && len(fieldsTree(v)) == 0
	}
	return v.IsZero()
}

// Placeholder is <…> with the name of what the text is one of, of the bot's own texts, and ""
// of any other text.
func Placeholder(text string) string {
	const last = "fallback" // which others look like
	for _, name := range append(slices.DeleteFunc(placeholderNames(), func(name string) bool { return name == last }), last) {
		if form := sayings[name]; form != nil && form.MatchString(text) {
			return "<" + name + ">"
		}
	}
	return ""
}

// IsPlaceholder reports whether a reply is one or, unless the scenario writes it somewhere,
// would be taken for one that is misspelt.
func IsPlaceholder(reply string) bool { return wordOf(reply) != "" }
