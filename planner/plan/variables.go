package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// variables are the results that a plan has saved so far, by their names in lower case:
// names are matched without regard to case. Values are JSON values as encoding/json makes
// them, with json.Number for numbers. The zero value reads as empty; make one to set in it.
//
// Expand only in a plan that saves something, see [Plan.Saves]. A name that is not set
// stays as it is, $$ is one dollar sign, and a value that was filled in is never looked at
// again.
type variables map[string]any

func (v variables) set(name string, value any) { v[strings.ToLower(name)] = value }

// reference matches a $ with the name of a variable, which is as long as it can be, or with
// the dollar sign that it escapes.
var reference = regexp.MustCompile(`\$(?:\$|[A-Za-z_]\w*)`)

// references are the names of the variables that text refers to, as they are written there.
func references(text string) (names []string) {
	for _, found := range reference.FindAllString(text, -1) {
		if found != "$$" {
			names = append(names, found[1:])
		}
	}
	return names
}

// isName reports whether a variable may have that name.
func isName(name string) bool {
	return name != "" && reference.FindString("$"+name) == "$"+name && name != "$"
}

// expandText fills the variables into a text: strings as they are, other values as JSON.
func (v variables) expandText(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		value, set := v[strings.ToLower(found[1:])]
		switch {
		case found == "$$":
			return "$"
		case !set:
			return found
		}
		return textOf(value)
	})
}

// expand fills the variables into all strings of a value, and returns a copy; names are
// left alone. A string that is exactly $NAME becomes the value of the variable, whatever
// its type.
func (v variables) expand(value any) any {
	return mapTexts(value, func(text string) any {
		if value, set := v[strings.ToLower(strings.TrimPrefix(text, "$"))]; set && text[0] == '$' {
			return value
		}
		return v.expandText(text)
	})
}

// expandCommand fills the variables into a command.
func (v variables) expandCommand(c Command) Command {
	c.Entities, _ = v.expand(c.Entities).(map[string]any)
	c.Response = v.expandText(c.Response)
	return c
}

// mapTexts returns a copy of a value in which each string is replaced by what of makes of
// it, in the order of the names.
func mapTexts(value any, of func(string) any) any {
	switch value := value.(type) {
	case string:
		return of(value)
	case map[string]any:
		object := maps.Clone(value)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			object[name] = mapTexts(value[name], of)
		}
		return object
	case []any:
		list := slices.Clone(value)
		for i := range list {
			list[i] = mapTexts(list[i], of)
		}
		return list
	}
	return value
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
	}
	raw, err := encode(value)
	if err != nil {
		return "" // no JSON value: nothing that a result can be
	}
	return string(raw)
}

// encode writes JSON for models and people: without escapes for HTML.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// decodeStrictly reads one JSON value that has nothing in it which v does not know.
func decodeStrictly(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("there is more behind it")
	}
	return nil
}
