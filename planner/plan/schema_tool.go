package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
)

// ToolSchema is the schema of an action's entities as servers take it for a tool. It is
// strict where that is wished for and the schema can be said in what OpenAI calls strict.
// OpenAI refuses one without properties. Null counts as absent, so a required entity may
// not be null: the schema of a Go slice or pointer says that it may.
func ToolSchema(a *actions.Action, wantStrict bool) (raw json.RawMessage, strict bool, err error) {
	schema := a.ForModels()
	if wantStrict {
		if raw, strict = strictSchema(schema); strict {
			return raw, true, nil
		}
	}
	raw, err = toolSchema(schema)
	return raw, false, err
}

func toolSchema(schema *jsonschema.Schema) (json.RawMessage, error) {
	if len(schema.Properties) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	told := *schema
	told.Properties = maps.Clone(schema.Properties)
	for name, property := range schema.Properties {
		if isRequired(schema, name) {
			told.Properties[name] = (&former{root: schema}).withoutNull(property)
		}
	}
	return json.Marshal(&told)
}

// withoutNull is the schema without null, if it takes anything else.
func (f *former) withoutNull(schema *jsonschema.Schema) *jsonschema.Schema {
	resolved := f.resolve(schema)
	if !(&former{root: f.root}).value(schema).takesNull() || slices.Contains(f.open, resolved) {
		return schema
	}
	f.open = append(f.open, resolved)
	defer func() { f.open = f.open[:len(f.open)-1] }()
	out := *resolved
	out.Description = cmp.Or(schema.Description, out.Description)
	if len(out.Types) > 1 {
		out.Types = slices.DeleteFunc(slices.Clone(out.Types), func(name string) bool { return name == "null" })
		out.Enum = slices.DeleteFunc(slices.Clone(out.Enum), func(value any) bool { return value == nil })
	}
	if len(out.Types) == 1 {
		out.Type, out.Types = out.Types[0], nil
	}
	for _, branches := range []*[]*jsonschema.Schema{&out.AnyOf, &out.OneOf} {
		var left []*jsonschema.Schema
		for _, branch := range *branches {
			if branch = f.withoutNull(branch); branch.Type != "null" {
				left = append(left, branch)
			}
		}
		*branches = left
	}
	return &out
}
