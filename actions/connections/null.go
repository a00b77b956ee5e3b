package connections

import (
	"maps"
	"slices"
)

// annotations are the keywords of a schema that say nothing about which values fit.
var annotations = []string{"title", "description", "default", "deprecated", "example", "examples"}

// unions are the keywords of a schema beside which another type would be of no use.
var unions = []string{"$ref", "allOf", "anyOf", "oneOf", "not", "const", "if"}

// AllowNull makes a schema take null besides what it takes, as nullable: true means it, also beside a
// reference or a union. It changes the schema in place.
func AllowNull(schema map[string]any) {
	if slices.ContainsFunc(unions, func(keyword string) bool { return schema[keyword] != nil }) {
		rest := maps.Clone(schema)
		for _, keyword := range annotations {
			delete(rest, keyword)
		}
		for keyword := range rest {
			delete(schema, keyword)
		}
		schema["anyOf"] = []any{rest, map[string]any{"type": "null"}}
		return
	}
	switch kind := schema["type"].(type) {
	case string:
		schema["type"] = withNull([]any{kind}, "null")
	case []any:
		schema["type"] = withNull(kind, "null")
	}
	if values, isList := schema["enum"].([]any); isList {
		schema["enum"] = withNull(values, nil)
	}
}

func withNull(values []any, null any) []any {
	if slices.ContainsFunc(values, func(value any) bool { return value == null }) {
		return values
	}
	return append(slices.Clone(values), null)
}

// TakesNull reports whether a schema says that it takes null.
func TakesNull(schema any) bool {
	object, _ := schema.(map[string]any)
	null := func(value any) bool { return value == nil || value == "null" }
	for _, keyword := range []string{"type", "enum"} {
		switch value := object[keyword].(type) {
		case string:
			return value == "null"
		case []any:
			return slices.ContainsFunc(value, null)
		}
	}
	anyOf, _ := object["anyOf"].([]any)
	oneOf, _ := object["oneOf"].([]any)
	return slices.ContainsFunc(slices.Concat(anyOf, oneOf), TakesNull)
}

// ForbidNull takes null out of a schema that says that it takes null among others. It changes the schema in
// place.
func ForbidNull(schema map[string]any) {
	for keyword, null := range map[string]any{"type": "null", "enum": nil} {
		values, isList := schema[keyword].([]any)
		if !isList {
			continue
		}
		values = slices.DeleteFunc(slices.Clone(values), func(value any) bool { return value == null })
		if len(values) > 0 {
			schema[keyword] = values
		}
		if keyword == "type" && len(values) == 1 {
			schema[keyword] = values[0]
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		options, _ := schema[keyword].([]any)
		var left []any
		for _, option := range options {
			object, isObject := option.(map[string]any)
			if isObject && object["type"] == "null" {
				continue
			}
			if isObject {
				ForbidNull(object)
			}
			left = append(left, option)
		}
		if len(left) > 0 {
			schema[keyword] = left
		}
	}
}
