package record

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// object is JSON in the making.
type object map[string]any

// Schema is the JSON Schema of a file of scenarios, for editors and other programs. It
// says what [Read] takes, but for what no schema can say, such as ids that there are not.
func Schema() []byte {
	definitions := object{}
	one := schemaOf(reflect.TypeFor[Scenario](), definitions)
	list := object{"type": "array", "items": one}
	file := object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Scenarios of Planbot",
		"description": "Conversations with a bot, for bottest run: what people do, what the model writes, and what the bot has to do then.",
		"oneOf": []any{one, list, object{
			"type": "object", "additionalProperties": false, "required": []string{"scenarios"},
			"properties": object{"about": object{"type": "string"}, "count": object{"type": "integer"}, "scenarios": list},
		}},
		"$defs": definitions,
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(file); err != nil {
		panic(err) // it is made of texts and numbers
	}
	return out.Bytes()
}

// schemaOf is the schema of the type. Those of structs go to the definitions.
func schemaOf(t reflect.Type, definitions object) object {
	switch t {
	case reflect.TypeFor[Answer]():
		return object{"oneOf": []any{object{"type": "string", "description": "what it writes"}, reference(t, definitions)}}
	case reflect.TypeFor[Within]():
		ms := object{"type": "integer", "minimum": 0}
		return object{"oneOf": []any{ms, object{"type": "object", "additionalProperties": ms}}}
	case reflect.TypeFor[Order]():
		return object{"oneOf": []any{object{"const": "either"}, object{"type": "array", "items": object{"type": "string"}}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), definitions)
	case reflect.Struct:
		return reference(t, definitions)
	case reflect.Slice:
		items := schemaOf(t.Elem(), definitions)
		if t.Elem() == reflect.TypeFor[map[string]any]() { // parts of activities
			items["type"] = []string{"object", "null"}
		}
		return object{"type": "array", "items": items}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), definitions)}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	}
	return object{} // any value
}

// reference leads to the definition of a struct, which it makes if there is none.
func reference(t reflect.Type, definitions object) object {
	name := strings.ToLower(t.Name())
	if _, there := definitions[name]; !there {
		definitions[name] = object{} // for those that lead back to it
		definitions[name] = definitionOf(t, definitions)
	}
	return object{"$ref": "#/$defs/" + name}
}

func definitionOf(t reflect.Type, definitions object) object {
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(t) {
		name := f.Tag.Get("json")
		property := schemaOf(f.Type, definitions)
		property["description"] = f.Tag.Get("doc")
		if words := f.Tag.Get("enum"); words != "" {
			property["enum"] = strings.Split(words, ",")
		}
		if f.Type == reflect.TypeFor[*string]() { // as in error: null
			property["type"] = []string{"string", "null"}
		}
		for tag, keyword := range map[string]string{"min": "minimum", "max": "maximum"} {
			if n, err := strconv.Atoi(f.Tag.Get(tag)); err == nil {
				property[keyword] = n
			}
		}
		properties[name] = property
		if f.Tag.Get("need") == "true" {
			required = append(required, name)
		}
	}
	out := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// Placeholder and CallsFrom are for tests.
var (
	Placeholder = placeholder
	CallsFrom   = readCalls
)
