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

// variables are the results that a plan has saved so far, by lower-case name: names ignore case.
// Values are JSON values of encoding/json, with json.Number for numbers. The zero value reads as
// empty; make one before you set a value.
//
// Expand only in a plan that saves something, see [Plan.Saves]. An unset name stays as it is, $$ is
// one dollar sign, and filled-in values are never expanded again.
type variables map[string]any

func (v variables) set(name string, value any) { v[strings.ToLower(name)] = value }

// reference matches a $ with the longest possible variable name, or with the dollar sign that it
// escapes.
var reference = regexp.MustCompile(`\$(?:\$|[A-Za-z_]\w*)`)

// references returns the variable names in text, as written.
func references(text string) (names []string) {
	for _, found := range reference.FindAllString(text, -1) {
		if found != "$$" {
			names = append(names, found[1:])
		}
	}
	return names
}

// isName reports whether the name is valid for a variable.
func isName(name string) bool {
	return name != "" && reference.FindString("$"+name) == "$"+name && name != "$"
}

// expandText fills variables into a text: strings unchanged, other values as JSON.
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

// expand returns a copy of a value with the variables filled into all strings, but not into names.
// A string that is exactly $NAME becomes the variable's value, of whatever type.
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

// mapTexts returns a copy of a value with of applied to each string, in the order of the names.
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

// textOf formats a value for use in a text.
func textOf(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	return quoted(value)
}

// encode writes JSON for models and people: without HTML escapes.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// decodeStrictly reads one JSON value and rejects fields unknown to v.
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
