package plan

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// strictSchema writes the schema of an action's entities in the subset that
// OpenAI calls strict, with the descriptions: every property is required, an
// optional one may be null, which counts as absent. It is false when the schema
// has no such form: it holds an object with names of its own, a value of any type
// or a circle, or is too large.
func strictSchema(schema *jsonschema.Schema) (json.RawMessage, bool) {
	f := former{root: schema, describe: true}
	strict := f.entities()
	if f.loose || !fits(strict) {
		return nil, false
	}
	raw, err := json.Marshal(strict)
	return raw, err == nil
}

// former writes the schema of one action as a form. What no form says, such as
// limits, patterns and formats, is left out: [actions.Action.Check] knows it.
type former struct {
	root     *jsonschema.Schema
	describe bool
	loose    bool                 // something in it has no strict form
	open     []*jsonschema.Schema // what is being written, against circles
}

// entities is the form of the entities. Unlike within them, null is never a value
// but says that an entity is absent.
func (f *former) entities() *form {
	out := f.object(f.root)
	for i, p := range out.Properties {
		if isRequired(f.root, p.name) {
			out.Properties[i].form = p.form.withoutNull()
		}
	}
	return out
}

// isRequired reports whether a property has to be there: a default makes up for it.
func isRequired(schema *jsonschema.Schema, name string) bool {
	p := schema.Properties[name]
	return slices.Contains(schema.Required, name) && (p == nil || p.Default == nil)
}

func (f *former) value(schema *jsonschema.Schema) *form {
	schema = f.resolve(schema)
	if schema == nil || slices.Contains(f.open, schema) {
		return f.free(&form{})
	}
	f.open = append(f.open, schema)
	defer func() { f.open = f.open[:len(f.open)-1] }()
	out := f.shape(schema)
	if f.describe {
		out.Description = describe(schema)
	}
	return out
}

// free is out, which is not strict.
func (f *former) free(out *form) *form {
	f.loose = true
	return out
}

// resolve follows references within the schema; nil where they lead nowhere.
func (f *former) resolve(schema *jsonschema.Schema) *jsonschema.Schema {
	const most = 100 // against references that only lead to each other
	for range most {
		if schema == nil || schema.Ref == "" {
			return schema
		}
		if name, ok := strings.CutPrefix(schema.Ref, "#/$defs/"); ok {
			schema = f.root.Defs[name]
		} else {
			schema = f.root.Definitions[strings.TrimPrefix(schema.Ref, "#/definitions/")]
		}
	}
	return nil
}

// shape is the form of a schema that is no reference. Of what a schema says in
// two ways the plainer one is taken: the other only narrows it.
func (f *former) shape(schema *jsonschema.Schema) *form {
	types := slices.Clone(schema.Types)
	if schema.Type != "" {
		types = []string{schema.Type}
	}
	switch {
	case schema.Const != nil:
		return f.options(*schema.Const)
	case schema.Enum != nil:
		return f.options(schema.Enum...)
	case types != nil:
		return f.types(schema, types)
	case schema.Properties != nil:
		return f.object(schema)
	case schema.AnyOf != nil:
		return f.branches(schema.AnyOf)
	case schema.OneOf != nil:
		return f.branches(schema.OneOf)
	case len(schema.AllOf) == 1:
		return f.value(schema.AllOf[0])
	default:
		return f.free(&form{})
	}
}

func (f *former) options(values ...any) *form {
	out := options(values...)
	if slices.Contains(out.Types, "object") || slices.Contains(out.Types, "array") {
		return f.free(out)
	}
	return out
}

func (f *former) branches(schemas []*jsonschema.Schema) *form {
	var out []*form
	for _, schema := range schemas {
		out = append(out, f.value(schema))
	}
	return choice(out...)
}

// types is the form of a value that has one of the types: a list of their names,
// but objects and arrays say more than that.
func (f *former) types(schema *jsonschema.Schema, types []string) *form {
	var plain typeNames
	var out []*form
	for _, name := range types {
		switch name {
		case "object":
			out = append(out, f.object(schema))
		case "array":
			out = append(out, f.array(schema))
		default:
			plain = append(plain, name)
		}
	}
	if slices.Equal(plain, typeNames{"null"}) && len(out) == 1 {
		return out[0].orNull()
	}
	if plain != nil {
		out = append(out, &form{Types: plain})
	}
	return choice(out...)
}

func (f *former) array(schema *jsonschema.Schema) *form {
	out := ofType("array")
	if schema.Items == nil {
		return f.free(out)
	}
	out.Items = f.value(schema.Items)
	return out
}

// object is the form of an object. One whose schema names properties has no
// others, unless the schema says that it may.
func (f *former) object(schema *jsonschema.Schema) *form {
	var of []property
	for _, name := range propertyOrder(schema) {
		p := property{name, f.value(schema.Properties[name])}
		if !isRequired(schema, name) {
			p.form = p.form.orNull()
		}
		of = append(of, p)
	}
	out := object(of...)
	others := schema.AdditionalProperties
	switch {
	case others == nil && (len(of) > 0 || schema == f.root):
	case others == nil:
		out.Others = true
	case others.Not == nil:
		out.Others = f.value(others)
	}
	if out.Others == false {
		return out
	}
	if len(of) == 0 {
		out.Properties, out.Required = nil, nil
	}
	return f.free(out)
}

// describe is what a schema says in words, with what its form leaves out.
func describe(schema *jsonschema.Schema) string {
	parts := []string{schema.Description}
	if schema.Format != "" {
		parts = append(parts, "format "+schema.Format)
	}
	if schema.Default != nil {
		parts = append(parts, "default "+string(schema.Default))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}
