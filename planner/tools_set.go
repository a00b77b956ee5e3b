package planner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
)

// maxToolDescription is how many bytes servers take of a description.
const maxToolDescription = 1024

// toolset is the actions that a model may call.
type toolset struct {
	offered *actions.Registry
	tools   []models.Tool
}

func newToolset(offered *actions.Registry, strict bool) (toolset, error) {
	s := toolset{offered: offered}
	for _, a := range offered.All() {
		tool := models.Tool{Name: a.Name, Description: a.Description, Examples: a.Examples}
		if len(tool.Description) > maxToolDescription {
			tool.Description = shorten(tool.Description, maxToolDescription)
		}
		if strict {
			tool.Schema, tool.Strict = strictSchema(a.ForModels())
		}
		if !tool.Strict {
			var err error
			if tool.Schema, err = toolSchema(a); err != nil {
				return toolset{}, fmt.Errorf("schema of action %s: %w", a.Name, err)
			}
		}
		s.tools = append(s.tools, tool)
	}
	return s, nil
}

// toolSchema is the schema of an action's entities. OpenAI refuses one without
// properties. Null counts as absent, so a required entity may not be null, as in
// [former.entities]: the schema of a Go slice or pointer says that it may.
func toolSchema(a *actions.Action) (json.RawMessage, error) {
	schema := a.ForModels()
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

// find finds the action that a model means by name. Models write the marks of a
// plugin's function in other ways (Lists.add, lists_add for Lists-add), leave the
// plugin out, or put functions before it; where that may mean several actions, it
// means none.
func (s *toolset) find(name string) (*actions.Action, *DecodeError) {
	bare := strings.TrimPrefix(strings.TrimSpace(name), "functions.")
	for _, means := range [...]func(*actions.Action) bool{
		func(a *actions.Action) bool { return a.Name == bare },
		func(a *actions.Action) bool { return strings.EqualFold(a.Name, bare) },
		func(a *actions.Action) bool { return joined(a.Name) == joined(bare) },
		func(a *actions.Action) bool {
			_, function := splitPlugin(a.Name)
			return joined(function) == joined(bare)
		},
	} {
		var found []*actions.Action
		for _, a := range s.offered.All() {
			if means(a) {
				found = append(found, a)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, fail(UnknownAction, "%q may mean %s; use the whole name", clip(name), names(found))
		}
	}
	return nil, fail(UnknownAction, "there is no function %q%s", clip(name), suggest(bare, s.offered))
}

// joined is a name with one mark for all between its words, in lower case.
func joined(name string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToLower(name))
}

func names(list []*actions.Action) string {
	out := make([]string, min(len(list), spelling.Most))
	for i := range out {
		out[i] = list[i].Name
	}
	return strings.Join(out, ", ")
}
