package plan

import (
	"bytes"
	"encoding/json"
	"slices"
)

// form is a JSON Schema in words that the strict structured output of OpenAI and
// the grammars of llama.cpp, vLLM and Ollama all take: types, enums, objects that
// are closed and whose properties have an order, arrays, anyOf. An empty form
// takes any value; it and an object that is not closed are not strict.
type form struct {
	Description string     `json:"description,omitempty"`
	Types       typeNames  `json:"type,omitempty"`
	Enum        []any      `json:"enum,omitempty"`
	Properties  properties `json:"properties,omitzero"`
	Required    []string   `json:"required,omitzero"`
	Others      any        `json:"additionalProperties,omitempty"` // false, or the form of each
	Items       *form      `json:"items,omitempty"`
	MinItems    int        `json:"minItems,omitempty"`
	MinLength   int        `json:"minLength,omitempty"`
	AnyOf       []*form    `json:"anyOf,omitempty"`
}

// property is one property of an object.
type property struct {
	name string
	form *form
}

type (
	typeNames  []string
	properties []property
)

// MarshalJSON writes one name as a string.
func (t typeNames) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// MarshalJSON keeps the order: grammars hold the model to it.
func (p properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	separator := byte('{')
	for _, one := range p {
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.form)
		if err != nil {
			return nil, err
		}
		out.WriteByte(separator)
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
		separator = ','
	}
	if len(p) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func ofType(name string) *form { return &form{Types: typeNames{name}} }

// choice is one of the branches.
func choice(branches ...*form) *form {
	if len(branches) == 1 {
		return branches[0]
	}
	return &form{AnyOf: branches}
}

// object is an object that has these properties, all of them, and no others.
func object(of ...property) *form {
	f := &form{Types: typeNames{"object"}, Properties: properties{}, Required: []string{}, Others: false}
	for _, p := range of {
		f.Properties = append(f.Properties, p)
		f.Required = append(f.Required, p.name)
	}
	return f
}

// options is one of the values. A single one is an enum too: const is not taken
// everywhere.
func options(values ...any) *form {
	f := &form{Enum: slices.Clone(values)}
	for _, value := range values {
		if name := typeOf(value); !slices.Contains(f.Types, name) {
			f.Types = append(f.Types, name)
		}
	}
	return f
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "number"
	}
}

func (f *form) isFree() bool { return f.Types == nil && f.AnyOf == nil }

func (f *form) takesNull() bool {
	return slices.Contains(f.Types, "null") || slices.ContainsFunc(f.AnyOf, (*form).takesNull)
}

// takesText reports whether f takes any text.
func (f *form) takesText() bool {
	return f.Enum == nil && slices.Contains(f.Types, "string") || slices.ContainsFunc(f.AnyOf, (*form).takesText)
}

// orNull is f, or null in its place.
func (f *form) orNull() *form {
	switch {
	case f.isFree() || f.takesNull():
	case f.AnyOf != nil:
		f.AnyOf = append(f.AnyOf, ofType("null"))
	case f.Enum != nil || f.Properties != nil:
		return choice(f, ofType("null"))
	default:
		f.Types = append(f.Types, "null")
	}
	return f
}

// split writes a form of several types, of which one says more than its name, as one
// of several forms: llama-cpp-python drops what stands beside a list of types.
func (f *form) split() {
	if len(f.Types) > 1 && (f.Enum != nil || f.Items != nil || f.Properties != nil || f.Others != nil || f.MinLength > 0) {
		whole := *f
		*f = form{Description: f.Description}
		for _, name := range whole.Types {
			f.AnyOf = append(f.AnyOf, whole.only(name))
		}
	}
	for _, p := range f.Properties {
		p.form.split()
	}
	for _, branch := range f.AnyOf {
		branch.split()
	}
	if f.Items != nil {
		f.Items.split()
	}
}

// only is what f says of values of that type.
func (f form) only(name string) *form {
	out := ofType(name)
	for _, value := range f.Enum {
		if typeOf(value) == name && value != nil {
			out.Enum = append(out.Enum, value)
		}
	}
	switch name {
	case "array":
		out.Items, out.MinItems = f.Items, f.MinItems
	case "object":
		out.Properties, out.Required, out.Others = f.Properties, f.Required, f.Others
	case "string":
		out.MinLength = f.MinLength
	}
	return out
}

// withoutNull is f without null, if it takes anything else.
func (f *form) withoutNull() *form {
	var left []*form
	for _, branch := range f.AnyOf {
		if branch = branch.withoutNull(); !slices.Equal(branch.Types, typeNames{"null"}) {
			left = append(left, branch)
		}
	}
	if f.AnyOf = left; len(left) == 1 {
		return left[0]
	}
	if len(f.Types) > 1 {
		f.Types = slices.DeleteFunc(f.Types, func(name string) bool { return name == "null" })
		f.Enum = slices.DeleteFunc(f.Enum, func(value any) bool { return value == nil })
	}
	return f
}
