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
// one dollar sign, and filled-in values are never expanded again. With fields, $NAME.field is a
// field of an object; behind any other value, and where there is no such field, .field is text.
type variables map[string]any

func (v variables) set(name string, value any) { v[strings.ToLower(name)] = value }

// reference matches a $ with the longest possible variable name, or with the dollar sign that it
// escapes. referenceWithFields also matches the fields behind the name.
var (
	reference           = regexp.MustCompile(`\$(?:\$|[A-Za-z_]\w*)`)
	referenceWithFields = regexp.MustCompile(`\$(?:\$|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`)
)

// indexed matches a reference with an index behind it, as into a list.
var indexed = regexp.MustCompile(`\$([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)*\[`)

// indexedIn returns the first variable in a text that has an index behind it and is set; "": none.
func indexedIn(text string, isSet func(name string) bool) string {
	if !strings.Contains(text, "[") {
		return ""
	}
	for _, found := range indexed.FindAllStringSubmatchIndex(text, -1) {
		name := text[found[2]:found[3]]
		dollars := len(text[:found[0]]) - len(strings.TrimRight(text[:found[0]], "$"))
		if dollars%2 == 0 && isSet(name) { // $$ is a dollar sign
			return name
		}
	}
	return ""
}

func pattern(fields bool) *regexp.Regexp {
	if fields {
		return referenceWithFields
	}
	return reference
}

// references returns the variable names in text, as written, with their fields if fields is set.
func references(text string, fields bool) (names []string) {
	if !strings.Contains(text, "$") {
		return nil
	}
	for _, found := range pattern(fields).FindAllString(text, -1) {
		if found != "$$" {
			names = append(names, found[1:])
		}
	}
	return names
}

// resolve follows a reference, NAME or NAME.field, as far as there are such fields. rest is what
// remains of it, such as .field.
func (v variables) resolve(reference string) (value any, rest string, set bool) {
	name, fields, _ := strings.Cut(reference, ".")
	value, set = v[strings.ToLower(name)]
	for fields != "" {
		field, more, _ := strings.Cut(fields, ".")
		object, _ := value.(map[string]any)
		inner, has := object[field]
		if !has {
			return value, "." + fields, set
		}
		value, fields = inner, more
	}
	return value, "", set
}

// isName reports whether the name is valid for a variable.
func isName(name string) bool {
	return name != "" && reference.FindString("$"+name) == "$"+name && name != "$"
}

// expandText fills variables into a text: strings unchanged, other values as JSON.
func (v variables) expandText(text string, fields bool) string {
	return pattern(fields).ReplaceAllStringFunc(text, func(found string) string {
		value, rest, set := v.resolve(found[1:])
		switch {
		case found == "$$":
			return "$"
		case !set:
			return found
		}
		return textOf(value) + rest
	})
}

// expand returns a copy of a value with the variables filled into all strings, but not into names.
// A string that is exactly $NAME or $NAME.field becomes that value, of whatever type.
func (v variables) expand(value any, fields bool) any {
	return mapTexts(value, func(text string) any {
		if found := pattern(fields).FindString(text); found == text && text != "" {
			if value, rest, set := v.resolve(text[1:]); set && rest == "" {
				return value
			}
		}
		return v.expandText(text, fields)
	})
}

func (v variables) expandCommand(c Command, fields bool) Command {
	c.Entities, _ = v.expand(c.Entities, fields).(map[string]any)
	c.Response = v.expandText(c.Response, fields)
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

func textOf(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	return quoted(value)
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
