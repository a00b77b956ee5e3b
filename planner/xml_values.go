package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// entities makes the entities of a function from its attributes, then from what
// is there without being written: INPUT, and variables of an entity's name.
func (w *weaver) entities(step xmlStep, schema *jsonschema.Schema) (map[string]any, *DecodeError) {
	written := make(map[string]string, len(step.attributes))
	entities := make(map[string]any, len(step.attributes))
	for _, a := range step.attributes {
		if isOutput(a.name) {
			continue
		}
		name := propertyName(schema, a.name)
		key := name
		if schema.Properties[name] == nil {
			key = strings.ToLower(name)
		}
		if before, twice := written[key]; twice && before != a.value {
			return nil, fail(InvalidPlan, "function %s has the attribute %s twice", clip(step.function), clip(a.name))
		}
		written[key] = a.value
		if a.value == "" && strings.EqualFold(name, inputVariable) {
			continue // so that it chains
		}
		value, err := w.value(typed(schema.Properties[name], a.value))
		if err != nil {
			return nil, err
		}
		entities[name] = value
	}
	for name, property := range schema.Properties {
		if _, given := entities[name]; given {
			continue
		}
		if value, ok, err := w.ambient(name, property); err != nil {
			return nil, err
		} else if ok {
			entities[name] = value
		}
	}
	return entities, nil
}

// propertyName is the name of the schema's property that an attribute means.
func propertyName(schema *jsonschema.Schema, name string) string {
	if schema.Properties[name] != nil {
		return name
	}
	same := ""
	for property := range schema.Properties {
		if strings.EqualFold(property, name) {
			if same != "" {
				return name
			}
			same = property
		}
	}
	return cmp.Or(same, name)
}

// typed reads the JSON of a list or an object, where the schema wants one and no
// text.
func typed(property *jsonschema.Schema, value string) any {
	if property == nil || !isJSON(value) {
		return value
	}
	types := append([]string{property.Type}, property.Types...)
	if slices.Contains(types, "string") || !slices.Contains(types, "array") && !slices.Contains(types, "object") {
		return value
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(value)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return value
	}
	return v
}

// ambient is the value of an entity that was not written.
func (w *weaver) ambient(name string, property *jsonschema.Schema) (any, bool, *DecodeError) {
	if strings.EqualFold(name, inputVariable) {
		if property.Default != nil {
			return nil, false, nil
		}
		text, err := w.input()
		return text, err == nil, err
	}
	saved, ok := w.variables[strings.ToLower(name)]
	return "$" + saved, ok, nil
}

// value renames the variables in all strings of a value.
func (w *weaver) value(value any) (any, *DecodeError) {
	var err *DecodeError
	switch value := value.(type) {
	case string:
		return w.expand(value)
	case []any:
		for i := range value {
			if value[i], err = w.value(value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range value {
			if value[name], err = w.value(value[name]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// expand renames the variables in a text to the names that hold them now.
func (w *weaver) expand(text string) (string, *DecodeError) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		size := nameSize(rest)
		name := strings.ToLower(rest[:size])
		saved, set := w.variables[name]
		switch {
		case strings.HasPrefix(rest, "$"):
			size = 1
			out.WriteString("$$")
		case name == inputVariable:
			input, err := w.input()
			if err != nil {
				return "", err
			}
			out.WriteString(input)
		case set:
			out.WriteString("$" + saved)
		default:
			out.WriteString("$" + rest[:size])
		}
		text = rest[size:]
	}
}

// input is $INPUT: the output of the last function, at first the goal.
func (w *weaver) input() (string, *DecodeError) {
	if w.last >= 0 {
		return "$" + w.saved(w.last), nil
	}
	if w.inlined += len(w.goal); w.inlined > maxBytes {
		return "", fail(InvalidPlan, "the plan repeats the goal too often")
	}
	return w.goal, nil
}
