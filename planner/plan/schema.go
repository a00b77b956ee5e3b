package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/titles"
)

// Schema is the JSON Schema of the plans that the registered actions allow, including what is known
// of each entity. Every key is required; an optional entity and saveAs may be null, which counts as
// absent. Only an entity for which null is a value ([actions.Action.NullIsValue]) is not required. A plan
// that follows the schema decodes without repair.
//
// It lists the actions, and each form of entities once: one command per action would double its
// size. The prompt says which entities an action has.
//
// It is strict if OpenAI's strict mode accepts it. It is not strict if an action has an entity of
// any type, an object with arbitrary keys, a circular type, or an optional value of which null is a
// value too; then that part is open and the rest is not.
//
// An entity that is neither text nor a list of texts may be a text instead, to name a variable: a
// model bound to the schema need not invent a value that it does not know yet. If it is one of some
// options, three names of variables are options, too.
//
// A schema cannot express all that [Plan.Validate] checks: that a required text is not blank,
// limits and patterns, and that a variable is saved before it is used.
//
// With declared the model first says whether its plan is an answer, which has no DO, so that a
// [Draft] can be read. Otherwise the type of every plan is "plan".
//
// The grammar is the schema plus what only a grammar can enforce: a plan has at least one command,
// an answer has no DO, and a text to say is not empty. Small models need a grammar that leaves them little choice, so in
// it results are saved under one of three names.
func Schema(registry *actions.Registry, declared bool) (schema, grammar json.RawMessage, strict bool, err error) {
	plan, strict := planForm(registry, declared, false)
	held, _ := planForm(registry, declared, true)
	schema, err = json.Marshal(plan)
	grammar, err2 := json.Marshal(held)
	return schema, grammar, strict, errors.Join(err, err2)
}

func planForm(registry *actions.Registry, declared, grammar bool) (plan *form, strict bool) {
	f := former{grammar: grammar}
	response, list := ofType("string"), ofType("array")
	if grammar {
		response.MinLength, list.MinItems = 1, 1
	}
	commands := []*form{f.closed(property{name: "type", form: f.options(Say)}, property{name: "response", form: response})}
	for _, b := range f.branches(registry, true) {
		saveAs := ofType("string")
		if grammar {
			saveAs = f.options(variableNames("")...)
		}
		commands = append(commands, f.closed(
			property{name: "type", form: f.options(Do)}, property{name: "action", form: f.options(b.names...)},
			property{name: "entities", form: choice(b.shapes...)}, property{name: "saveAs", form: saveAs, optional: true},
		))
	}
	typed := func(commands []*form, types ...any) *form {
		of := *list
		of.Items = choice(commands...)
		return f.closed(property{name: "type", form: f.options(types...)}, property{name: "commands", form: &of})
	}
	switch {
	case declared && grammar:
		plan = choice(typed(commands[:1], answerType), typed(commands, planType))
	case declared:
		plan = typed(commands, answerType, planType)
	default:
		plan = typed(commands, planType)
	}
	return plan, !f.loose
}

// branch is a form of a call: some actions, with the forms of their entities.
type branch struct {
	names  []any // of actions
	shapes []*form
}

// branches are the forms of calls. A grammar has a branch for each shape. OpenAI's models need only one,
// and each costs 200 bytes.
func (f *former) branches(registry *actions.Registry, variables bool) (branches []branch) {
	for _, action := range registry.All() {
		f.of(action)
		entities := f.object(f.root)
		if variables {
			f.orVariable(entities)
		}
		same := func(shape *form) bool { return reflect.DeepEqual(shape, entities) }
		at := slices.IndexFunc(branches, func(b branch) bool { return !f.grammar || same(b.shapes[0]) })
		if at < 0 {
			at, branches = len(branches), append(branches, branch{})
		}
		b := &branches[at]
		b.names = append(b.names, action.Name)
		if !slices.ContainsFunc(b.shapes, same) {
			b.shapes = append(b.shapes, entities)
		}
	}
	return branches
}

// variableNames are the variable names of a grammar.
func variableNames(mark string) []any {
	return []any{mark + "A", mark + "B", mark + "C"}
}

// orVariable lets each entity without text be a variable.
func (f *former) orVariable(entities *form) {
	for i, p := range entities.Properties {
		if p.form.isFree() || p.form.takesText() || p.form.Items != nil && p.form.Items.takesText() {
			continue
		}
		branches := p.form.AnyOf
		if branches == nil {
			branches = []*form{p.form}
		}
		variable := ofType("string")
		if f.grammar || slices.ContainsFunc(branches, func(b *form) bool { return b.Enum != nil }) {
			variable = f.options(variableNames("$")...)
		}
		entities.Properties[i].form = &form{AnyOf: append(slices.Clone(branches), variable)}
	}
}

// former turns the schema of one action into a form. It leaves out what a form cannot express, such
// as limits, patterns and formats: [actions.Action.Check] checks those.
//
// In a grammar it also leaves out what a grammar does not need: descriptions, that an object is
// closed, the types of an enum, and a null that means absent, because what is optional may be absent.
type former struct {
	root    *jsonschema.Schema
	nulls   bool // null is a value, where the schema allows it
	foreign bool // also of a required entity
	grammar bool
	loose   bool                 // part of it has no strict form
	open    []*jsonschema.Schema // the schemas being written, to stop at cycles
}

// of prepares the form of an action's entities.
func (f *former) of(action *actions.Action) {
	f.root = action.ForModels()
	f.nulls = action.NullIsValue()
	f.foreign = action.Source.Connection != ""
}

// excludesNull reports whether no null fits a schema. It looks at each way to say so: what is not known to
// exclude null may have it as a value.
func (f *former) excludesNull(schema *jsonschema.Schema, depth int) bool {
	const deepest = 50 // stops at cycles
	schema = f.resolve(schema)
	if schema == nil || depth > deepest {
		return false
	}
	types := schema.Types
	if schema.Type != "" {
		types = []string{schema.Type}
	}
	excludes := func(part *jsonschema.Schema) bool { return f.excludesNull(part, depth+1) }
	all := func(parts []*jsonschema.Schema) bool {
		return parts != nil && !slices.ContainsFunc(parts, func(part *jsonschema.Schema) bool { return !excludes(part) })
	}
	return types != nil && !slices.Contains(types, "null") ||
		schema.Const != nil && *schema.Const != nil ||
		schema.Enum != nil && !hasNull(schema.Enum) ||
		slices.ContainsFunc(schema.AllOf, excludes) || all(schema.AnyOf) || all(schema.OneOf)
}

func hasNull(values []any) bool {
	return slices.ContainsFunc(values, func(value any) bool { return value == nil })
}

// isRequired reports whether a property must be present: one with a default need not be.
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
	if !f.grammar {
		out.Description = describe(schema)
	}
	return out
}

// free returns out and marks the form as not strict.
func (f *former) free(out *form) *form {
	f.loose = true
	return out
}

// resolve follows references within the schema; nil if they lead nowhere.
func (f *former) resolve(schema *jsonschema.Schema) *jsonschema.Schema {
	const most = 100 // stops references that only lead to each other
	for range most {
		if schema == nil || schema.Ref == "" {
			return schema
		}
		name := strings.TrimPrefix(strings.TrimPrefix(schema.Ref, "#/$defs/"), "#/definitions/")
		schema = cmp.Or(f.root.Defs[name], f.root.Definitions[name])
	}
	return nil
}

// shape is the form of a schema without a reference. If a schema restricts a value in two ways,
// shape uses the simpler one: the other only narrows it.
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
	case schema.AnyOf != nil || schema.OneOf != nil:
		var branches []*form
		for _, branch := range slices.Concat(schema.AnyOf, schema.OneOf) {
			branches = append(branches, f.value(branch))
		}
		return choice(branches...)
	case len(schema.AllOf) == 1:
		return f.value(schema.AllOf[0])
	default:
		return f.free(&form{})
	}
}

// options is one of the values. A single one is also an enum: not every server accepts const.
func (f *former) options(values ...any) *form {
	out := &form{}
	for _, value := range values {
		name := typeOf(value)
		f.loose = f.loose || name == "object" || name == "array"
		if f.grammar && value == nil && !f.nulls {
			continue
		}
		out.Enum = append(out.Enum, value)
		if !f.grammar && !slices.Contains(out.Types, name) {
			out.Types = append(out.Types, name)
		}
	}
	return out
}

// types is the form of a value with one of the types: a list of their names, but objects and arrays
// say more than that.
func (f *former) types(schema *jsonschema.Schema, types []string) *form {
	var plain typeNames
	var out []*form
	for _, name := range types {
		switch name {
		case "object":
			out = append(out, f.object(schema))
		case "array":
			list := ofType("array")
			if f.loose = f.loose || schema.Items == nil; schema.Items != nil {
				list.Items = f.value(schema.Items)
			}
			out = append(out, list)
		default:
			plain = append(plain, name)
		}
	}
	if slices.Equal(plain, typeNames{"null"}) && len(out) == 1 && !f.grammar { // llama-cpp-python drops whatever is beside a list of types
		return out[0].orNull()
	}
	if plain != nil {
		out = append(out, &form{Types: plain})
	}
	return choice(out...)
}

// object is the form of an object. If its schema names properties, no others are allowed unless the
// schema says so. A required entity of our own is never null: null marks an absent one.
func (f *former) object(schema *jsonschema.Schema) *form {
	var of []property
	for _, name := range titles.Order(schema) {
		inner := schema.Properties[name]
		p := property{name: name, form: f.value(inner), optional: !isRequired(schema, name)}
		p.nullable = f.nulls && !f.excludesNull(inner, 0)
		if schema == f.root && !p.optional && !f.foreign {
			p.nullable, p.form = false, p.form.withoutNull()
			if f.grammar && p.form.Enum == nil && slices.Equal(p.form.Types, typeNames{"string"}) {
				p.form.MinLength = 1 // an empty text counts as missing
			}
		}
		of = append(of, p)
	}
	out := f.closed(of...)
	others := schema.AdditionalProperties
	if len(schema.PatternProperties) > 0 { // no form has them
		others = &jsonschema.Schema{}
	}
	switch {
	case others != nil && others.Not != nil, others == nil && (len(of) > 0 || schema == f.root):
		return out
	case others == nil:
		out.Others = true
	default:
		out.Others = f.value(others)
	}
	if len(of) == 0 {
		out.Properties, out.Required = nil, nil
	}
	return f.free(out)
}

// closed is an object with exactly these properties. Each is required, and null if it has no value, as
// OpenAI's strict mode wants it. Where null is a value itself, only an absent property can say that.
func (f *former) closed(of ...property) *form {
	out := &form{Types: typeNames{"object"}, Properties: properties{}, Required: []string{}, Others: false}
	for _, p := range of {
		switch {
		case p.nullable:
			if !p.form.isFree() && !p.form.takesNull() {
				p.form = choice(p.form, ofType("null"))
			}
			if f.loose = f.loose || p.optional; !p.optional {
				out.Required = append(out.Required, p.name)
			}
		case f.grammar && (p.optional || p.form.takesNull()):
			p.form = p.form.withoutNull()
		case p.optional:
			p.form = p.form.orNull()
			fallthrough
		default:
			out.Required = append(out.Required, p.name)
		}
		out.Properties = append(out.Properties, p)
	}
	switch {
	case f.grammar && len(of) == 0:
		return ofType("object")
	case f.grammar:
		out.Types, out.Others = nil, nil
	}
	return out
}

// describe is the schema's description, plus what its form leaves out.
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

// ToolSchema is the schema of an action's entities in the form that servers accept for a tool. It
// is strict if wantStrict is set and OpenAI's strict mode can express the schema: every property is
// required, an optional one may be null, which counts as absent. So it is not strict where null is a value
// of an optional property. A required entity of our own may not be null, although the schema of a Go slice
// or pointer allows it.
func ToolSchema(a *actions.Action, wantStrict bool) (raw json.RawMessage, strict bool, err error) {
	var f former
	f.of(a)
	schema := f.root
	if form := f.object(schema); wantStrict && !f.loose {
		raw, err = json.Marshal(form)
		return raw, true, err
	}
	told := forModels(schema)
	if len(schema.Properties) == 0 { // OpenAI rejects a schema without them
		told.Type = "object"
		told.Properties = map[string]*jsonschema.Schema{}
	}
	told.AnyOf, told.OneOf, told.AllOf, told.Enum = nil, nil, nil, nil // OpenAI refuses them here, and [actions.Action.Check] knows them
	for name, property := range schema.Properties {
		out := told.Properties[name]
		if !f.foreign && isRequired(schema, name) && len(property.Types) > 1 {
			out.Types = withoutNull(out.Types)
			if len(out.Types) == 1 {
				out.Type, out.Types = out.Types[0], nil
			}
		}
	}
	raw, err = json.Marshal(told)
	return bytes.ReplaceAll(raw, []byte(`"items":true`), []byte(`"items":{}`)), false, err
}

// forModels is a schema without what is for people only, and in keywords that all servers take:
// [actions.Action.Check] knows the others. Labels and titles cost tokens.
func forModels(schema *jsonschema.Schema) *jsonschema.Schema {
	if schema == nil || schema.Not != nil { // false
		return schema
	}
	out := &jsonschema.Schema{
		Type: schema.Type, Types: schema.Types, Description: schema.Description, Default: schema.Default, Enum: schema.Enum, Format: schema.Format,
		Ref: schema.Ref, Defs: eachForModels(schema.Defs), Definitions: eachForModels(schema.Definitions),
		Properties: eachForModels(schema.Properties), PropertyOrder: schema.PropertyOrder, Required: schema.Required,
		AdditionalProperties: forModels(schema.AdditionalProperties), PatternProperties: eachForModels(schema.PatternProperties),
		MinProperties: schema.MinProperties, MaxProperties: schema.MaxProperties,
		Items: forModels(schema.Items), MinItems: schema.MinItems, MaxItems: schema.MaxItems, UniqueItems: schema.UniqueItems,
		MinLength: schema.MinLength, MaxLength: schema.MaxLength, Pattern: schema.Pattern,
		Minimum: schema.Minimum, Maximum: schema.Maximum, MultipleOf: schema.MultipleOf,
		AnyOf: allForModels(slices.Concat(schema.AnyOf, schema.OneOf)), AllOf: allForModels(schema.AllOf),
	}
	if schema.Const != nil {
		out.Enum = []any{*schema.Const}
	}
	if out.Items == nil && (out.Type == "array" || slices.Contains(out.Types, "array")) {
		out.Items = &jsonschema.Schema{} // OpenAI wants to see it
	}
	if least := schema.ExclusiveMinimum; least != nil {
		out.Description = strings.TrimPrefix(out.Description+"; ", "; ") + fmt.Sprint("more than ", *least)
	}
	if most := schema.ExclusiveMaximum; most != nil {
		out.Description = strings.TrimPrefix(out.Description+"; ", "; ") + fmt.Sprint("less than ", *most)
	}
	return out
}

func eachForModels(schemas map[string]*jsonschema.Schema) map[string]*jsonschema.Schema {
	if schemas == nil {
		return nil
	}
	out := make(map[string]*jsonschema.Schema, len(schemas))
	for name, schema := range schemas {
		out[name] = forModels(schema)
	}
	return out
}

func allForModels(schemas []*jsonschema.Schema) (out []*jsonschema.Schema) {
	for _, schema := range schemas {
		out = append(out, forModels(schema))
	}
	return out
}

func withoutNull(types []string) []string {
	return slices.DeleteFunc(slices.Clone(types), func(name string) bool { return name == "null" })
}

// form is a JSON Schema limited to what OpenAI's strict structured output and the grammars of
// llama.cpp, vLLM and Ollama all accept: types, enums, closed objects with ordered properties,
// arrays, anyOf. An empty form accepts any value; it and an open object are not strict.
type form struct {
	Description string     `json:"description,omitempty"`
	Types       typeNames  `json:"type,omitempty"`
	Enum        []any      `json:"enum,omitempty"`
	Properties  properties `json:"properties,omitzero"`
	Required    []string   `json:"required,omitzero"`
	Others      any        `json:"additionalProperties,omitempty"` // false, or the form of each other property
	Items       *form      `json:"items,omitempty"`
	MinItems    int        `json:"minItems,omitempty"`
	MinLength   int        `json:"minLength,omitempty"`
	AnyOf       []*form    `json:"anyOf,omitempty"`
}

// property is one property of an object.
type property struct {
	name     string
	form     *form
	optional bool
	nullable bool // null is a value of it
}

type (
	typeNames  []string
	properties []property
)

func (t typeNames) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// MarshalJSON keeps the order: grammars enforce it.
func (p properties) MarshalJSON() ([]byte, error) {
	members := make([]string, len(p))
	for i, one := range p {
		raw, err := json.Marshal(map[string]*form{one.name: one.form})
		if err != nil {
			return nil, err
		}
		members[i] = string(raw[1 : len(raw)-1])
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

func ofType(name string) *form { return &form{Types: typeNames{name}} }

// choice is any one of the branches.
func choice(branches ...*form) *form {
	if len(branches) == 1 {
		return branches[0]
	}
	return &form{AnyOf: branches}
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

func (f *form) isFree() bool {
	return f.Types == nil && f.AnyOf == nil && f.Enum == nil && f.Properties == nil
}

func (f *form) takesNull() bool {
	return slices.Contains(f.Types, "null") || hasNull(f.Enum) || slices.ContainsFunc(f.AnyOf, (*form).takesNull)
}

// takesText reports whether f takes any text.
func (f *form) takesText() bool {
	return f.Enum == nil && slices.Contains(f.Types, "string") || slices.ContainsFunc(f.AnyOf, (*form).takesText)
}

// orNull is f or null.
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

// withoutNull is f without null, if it accepts anything else.
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
		f.Types = withoutNull(f.Types)
		f.Enum = slices.DeleteFunc(f.Enum, func(value any) bool { return value == nil })
	}
	return f
}

// typeText writes a type as programmers do: "string", "string[]", "{street: string, kind?:
// string}". It names null only where nulls says that null is a value.
func typeText(s *jsonschema.Schema, nulls bool) string {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	var all []string
	add := func(text string) {
		if text != "" && text != "null" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, name := range types {
		switch {
		case name == "array" && s.Items != nil:
			add(arrayText(typeText(s.Items, nulls)))
		case name == "object" && len(s.Properties) > 0:
			add(objectText(s, nulls))
		default:
			add(name)
		}
	}
	if types == nil {
		for _, branch := range slices.Concat(s.AnyOf, s.OneOf) {
			add(strings.TrimSuffix(typeText(branch, nulls), orNull))
		}
	}
	text := cmp.Or(strings.Join(all, "|"), "any")
	if nulls && namesNull(s) {
		text += orNull
	}
	return text
}

const orNull = "|null"

// namesNull reports whether a schema says that null is a value.
func namesNull(s *jsonschema.Schema) bool {
	return slices.Contains(s.Types, "null") || s.Type == "null" || hasNull(s.Enum) || slices.ContainsFunc(slices.Concat(s.AnyOf, s.OneOf), namesNull)
}

func arrayText(items string) string {
	if strings.Contains(items, "|") && !strings.HasPrefix(items, "{") {
		return "(" + items + ")[]"
	}
	return items + "[]"
}

func objectText(s *jsonschema.Schema, nulls bool) string {
	var fields []string
	for _, name := range titles.Order(s) {
		mark := "?: "
		if slices.Contains(s.Required, name) {
			mark = ": "
		}
		fields = append(fields, name+mark+typeText(s.Properties[name], nulls))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
