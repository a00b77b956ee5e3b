package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/internal/spelling"
)

// entities makes the entities of a function from its attributes, then from what
// is there without being written: INPUT, and variables of an entity's name.
func (w *weaver) entities(step *xmlStep, schema *jsonschema.Schema) (map[string]any, *Fault) {
	if w.written == nil {
		w.written = make(map[string]string, 8)
	}
	clear(w.written)
	entities := make(map[string]any, len(step.attributes))
	chains := false
	for _, a := range step.attributes {
		if outputOf(a.name) != noOutput {
			continue
		}
		name := propertyName(schema, a.name)
		if err := w.once(step, schema, name, a.value); err != nil {
			return nil, err
		}
		if a.value == "" && strings.EqualFold(name, inputVariable) {
			chains = true
			continue
		}
		if err := w.entity(entities, name, schema.Properties[name], a.value); err != nil {
			return nil, err
		}
	}
	for name, property := range schema.Properties {
		if _, given := entities[name]; given {
			continue
		}
		if err := w.ambient(entities, name, property, chains); err != nil {
			return nil, err
		}
	}
	return entities, nil
}

// once notes an attribute, of which there may be two when they say the same.
func (w *weaver) once(step *xmlStep, schema *jsonschema.Schema, name, value string) *Fault {
	key := name
	if schema.Properties[name] == nil {
		key = strings.ToLower(name)
	}
	if before, twice := w.written[key]; !twice {
		w.written[key] = value
	} else if before != value {
		return Faultf(InvalidPlan, "function %s has the attribute %s twice", spelling.Clip(step.function), spelling.Clip(name))
	}
	return nil
}

// entity sets an entity to what an attribute says.
func (w *weaver) entity(entities map[string]any, name string, property *jsonschema.Schema, text string) (err *Fault) {
	if value := typed(property, text); value != nil {
		entities[name], err = w.value(value)
		return err
	}
	if text, err = w.expand(text); err == nil {
		entities[name] = text
	}
	return err
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
// text; nil where value is a text.
func typed(property *jsonschema.Schema, text string) any {
	if property == nil || !wantsJSON(property) || !isJSON(text) {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

// wantsJSON reports whether a property is a list or an object, and no text.
func wantsJSON(property *jsonschema.Schema) bool {
	if property.Type != "" {
		return property.Type == "array" || property.Type == "object"
	}
	has := func(name string) bool { return slices.Contains(property.Types, name) }
	return !has("string") && (has("array") || has("object"))
}

// ambient sets an entity that was not written to the variable of its name, if
// there is one. An input takes the output before, unless it has a default;
// chains says that it was written as empty, so that it does all the same.
func (w *weaver) ambient(entities map[string]any, name string, property *jsonschema.Schema, chains bool) *Fault {
	if strings.EqualFold(name, inputVariable) {
		if property.Default != nil && !chains {
			return nil
		}
		text, err := w.input()
		entities[name] = text
		return err
	}
	w.fold(name)
	if saved, set := w.variables[string(w.key)]; set {
		entities[name] = "$" + saved
	}
	return nil
}

// value renames the variables in all strings of a value.
func (w *weaver) value(value any) (any, *Fault) {
	var err *Fault
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
func (w *weaver) expand(text string) (string, *Fault) {
	before, rest, found := strings.Cut(text, "$")
	if !found {
		return text, nil
	}
	var out strings.Builder
	out.Grow(len(text) + len("OUTPUT_1"))
	for ; found; before, rest, found = strings.Cut(rest, "$") {
		out.WriteString(before)
		size := nameSize(rest)
		if strings.HasPrefix(rest, "$") {
			size = 1
			w.dollars = true
			out.WriteString("$$")
		} else if err := w.reference(&out, rest[:size]); err != nil {
			return "", err
		}
		rest = rest[size:]
	}
	out.WriteString(before)
	return out.String(), nil
}

// reference writes what $name means now.
func (w *weaver) reference(out *strings.Builder, name string) *Fault {
	w.fold(name)
	if string(w.key) == inputVariable {
		input, err := w.input()
		out.WriteString(input)
		return err
	}
	saved, set := w.variables[string(w.key)]
	if function, lost := w.lost[string(w.key)]; lost && !set && name != "" {
		return Faultf(UnknownAction, "there is no function %q, whose output $%s is used", spelling.Clip(function), spelling.Clip(name))
	}
	out.WriteByte('$')
	out.WriteString(cmp.Or(saved, name))
	return nil
}

// input is $INPUT: the output of the last function, at first the goal.
func (w *weaver) input() (string, *Fault) {
	if w.last >= 0 {
		return "$" + w.saved(w.last), nil
	}
	if w.d.KeepInput {
		return "$INPUT", nil
	}
	if w.inlined += len(w.goal); w.inlined > maxBytes {
		return "", Faultf(InvalidPlan, "the plan repeats the goal too often")
	}
	return w.goal, nil
}
