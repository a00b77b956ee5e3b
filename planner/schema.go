package planner

import (
	"encoding/json"

	"github.com/planbot-go/planbot/actions"
)

// PlanSchema is the JSON Schema of the plans that the registered actions allow:
// one kind of command for SAY and one for each action, with that action's
// entities. What follows it decodes without repair. Every key is required; an
// optional entity and saveAs may be null, which counts as absent.
//
// It is strict when it lies within what OpenAI takes as such. It is not when an
// action has an entity of any type, an object with names of its own, or a
// circle, or when it is too large; then that part is open and the rest is not.
//
// A schema cannot say all that [Validate] checks: that a required text is not
// blank, limits and patterns, and that a variable is saved before it is used. Nor
// may a variable stand where the schema wants no text.
func PlanSchema(registry *actions.Registry) (schema json.RawMessage, strict bool, err error) {
	commands := []*form{object(
		property{"type", options(string(Say))},
		property{"response", ofType("string")},
	)}
	strict = true
	for _, action := range registry.All() {
		f := former{root: action.Schema}
		commands = append(commands, object(
			property{"type", options(string(Do))},
			property{"action", options(action.Name)},
			property{"entities", f.entities()},
			property{"saveAs", ofType("string").orNull()},
		))
		strict = strict && !f.loose
	}
	plan := object(
		property{"type", options("plan")},
		property{"commands", &form{Types: typeNames{"array"}, Items: choice(commands...)}},
	)
	schema, err = json.Marshal(plan)
	return schema, strict && fits(plan), err
}
