package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/prompts"
)

// Describe turns the registry into what a prompt lists, in the order of
// registration.
func Describe(registry *actions.Registry) []prompts.Action {
	var list []prompts.Action
	for _, a := range registry.All() {
		action := prompts.Action{Name: a.Name, Description: a.Description}
		schema := a.ForModels()
		for _, name := range propertyOrder(schema) {
			action.Parameters = append(action.Parameters, describeParameter(schema, name))
		}
		list = append(list, action)
	}
	return list
}

func describeParameter(schema *jsonschema.Schema, name string) prompts.Parameter {
	property := schema.Properties[name]
	p := prompts.Parameter{
		Name:        name,
		Type:        TypeText(property),
		Description: property.Description,
		Required:    slices.Contains(schema.Required, name),
		Default:     string(property.Default),
	}
	allowed := property
	if property.Items != nil {
		allowed = property.Items
	}
	for _, v := range allowed.Enum {
		p.Enum = append(p.Enum, fmt.Sprint(v))
	}
	return p
}

// TypeText names a type as programmers write it: "string", "string[]",
// "{street: string, kind?: string}".
func TypeText(s *jsonschema.Schema) string {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	switch {
	case len(types) != 1:
		return cmp.Or(strings.Join(types, "|"), "any")
	case types[0] == "array" && s.Items != nil:
		return TypeText(s.Items) + "[]"
	case types[0] == "object" && len(s.Properties) > 0:
		return objectText(s)
	}
	return types[0]
}

func objectText(s *jsonschema.Schema) string {
	var fields []string
	for _, name := range propertyOrder(s) {
		mark := "?: "
		if slices.Contains(s.Required, name) {
			mark = ": "
		}
		fields = append(fields, name+mark+TypeText(s.Properties[name]))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// propertyOrder is the order of the Go fields or, of a schema that was read from
// a file, the required properties first and then the others by name.
func propertyOrder(s *jsonschema.Schema) []string {
	if len(s.PropertyOrder) > 0 {
		return s.PropertyOrder
	}
	order := slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool { return s.Properties[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}
