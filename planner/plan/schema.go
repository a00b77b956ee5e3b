package plan

import (
	"encoding/json"
	"slices"

	"github.com/planbot-go/planbot/actions"
)

// Schema is the JSON Schema of the plans that the registered actions allow:
// one kind of command for SAY and one for each action, with that action's
// entities. What follows it decodes without repair. Every key is required; an
// optional entity and saveAs may be null, which counts as absent.
//
// It is strict when it lies within what OpenAI takes as such. It is not when an
// action has an entity of any type, an object with names of its own, or a
// circle, or when it is too large; then that part is open and the rest is not.
//
// An entity that is no text, nor a list of texts, may be a variable in its place, lest a model that is
// held to the schema has to make up a value that it does not know yet. A schema
// can only list such variables, so that in a registry with such an entity results
// are saved under one of four names.
//
// A schema cannot say all that [Validate] checks: that a required text is not
// blank, limits and patterns, and that a variable is saved before it is used.
func Schema(registry *actions.Registry) (schema json.RawMessage, strict bool, err error) {
	plan, strict := planForm(registry, false)
	schema, err = json.Marshal(plan)
	return schema, strict && fits(plan), err
}

// Grammar is [Schema] with what a grammar can hold a model to beside: a
// plan has a command, what has to be said is not empty, and results are saved under
// one of the names that a schema lists.
func Grammar(registry *actions.Registry) (json.RawMessage, error) {
	plan, _ := planForm(registry, true)
	plan.split()
	return json.Marshal(plan)
}

func planForm(registry *actions.Registry, grammar bool) (plan *form, strict bool) {
	response, saveAs := ofType("string"), ofType("string").orNull()
	names := options(append(variableNames(""), nil)...)
	list := ofType("array")
	if grammar {
		response.MinLength, list.MinItems, saveAs = 1, 1, names
	}
	commands := []*form{object(
		property{"type", options(string(Say))},
		property{"response", response},
	)}
	strict = true
	for _, action := range registry.All() {
		f := former{root: action.ForModels()}
		entities := f.entities()
		if grammar {
			notEmpty(entities)
		}
		if orVariable(entities) {
			*saveAs = *names
		}
		commands = append(commands, object(
			property{"type", options(string(Do))},
			property{"action", options(action.Name)},
			property{"entities", entities},
			property{"saveAs", saveAs},
		))
		strict = strict && !f.loose
	}
	list.Items = choice(commands...)
	return object(property{"type", options("plan")}, property{"commands", list}), strict
}

// notEmpty asks for a character in each entity that is a text and has to be there.
func notEmpty(entities *form) {
	for _, p := range entities.Properties {
		if p.form.Enum == nil && slices.Equal(p.form.Types, typeNames{"string"}) {
			p.form.MinLength = 1
		}
	}
}

// variableNames are the names of the variables in a schema that has to list them.
func variableNames(mark string) []any {
	return []any{mark + "A", mark + "B", mark + "C", mark + "D"}
}

// orVariable lets each of the entities in which no text stands be a variable. It
// reports whether there was one.
func orVariable(entities *form) bool {
	found := false
	for i, p := range entities.Properties {
		if p.form.isFree() || p.form.takesText() || p.form.Items != nil && p.form.Items.takesText() {
			continue
		}
		found = true
		branches := p.form.AnyOf
		if branches == nil {
			branches = []*form{p.form}
		}
		entities.Properties[i].form = &form{AnyOf: append(slices.Clone(branches), options(variableNames("$")...))}
	}
	return found
}
