package plan

import (
	"encoding/json"
	"errors"
	"regexp"

	"github.com/planbot-go/planbot/actions"
)

// maxThoughts limits the bytes of the thoughts that go back to the model.
const maxThoughts = 4 << 10

// DecodeMonologue is [Decode] for the monologue of Teams AI, in which the model takes one action at a
// time and sees its result before it takes the next:
//
//	{"thoughts":{"thought":"…","reasoning":"…","plan":"- …"},"action":{"name":"createList","parameters":{"list":"a"}}}
//
// The plan has that one command. The action SAY is a SAY of its parameter text. After a DO the model
// waits for the result ([Plan.Observe]), and its thoughts are the Preface. What Decode says of plans
// holds for this form, and a plan in Decode's own form is read as well.
func DecodeMonologue(text string) (Plan, error) { return decode(text, false, true) }

var errNoAction = InvalidPlan.Faultf(`there are thoughts and no action; to answer the person, take the action SAY: {"name":"SAY","parameters":{"text":"…"}}`)

// monologueKey matches what a broken monologue has.
var monologueKey = regexp.MustCompile(`(?i)["'“]?(?:thoughts?|action)["'”]?\s*[:：]`)

// firstOf is the first of the values that is there.
func firstOf(f map[string]any, keys ...string) any {
	for _, key := range keys {
		if f[key] != nil {
			return f[key]
		}
	}
	return nil
}

// MonologueSchema is [Schema] for the answers that [DecodeMonologue] reads. There are no variables.
func MonologueSchema(registry *actions.Registry) (schema, grammar json.RawMessage, strict bool, err error) {
	whole, strict := monologueForm(registry, false)
	held, _ := monologueForm(registry, true)
	schema, err = json.Marshal(whole)
	grammar, err2 := json.Marshal(held)
	return schema, grammar, strict, errors.Join(err, err2)
}

func monologueForm(registry *actions.Registry, grammar bool) (whole *form, strict bool) {
	f := former{grammar: grammar}
	text := ofType("string")
	if grammar {
		text.MinLength = 1
	}
	thoughts := f.closed(
		property{name: "thought", form: ofType("string")}, property{name: "reasoning", form: ofType("string")}, property{name: "plan", form: ofType("string")},
	)
	taken := []*form{f.closed(property{name: "name", form: f.options(Say)}, property{name: "parameters", form: f.closed(property{name: "text", form: text})})}
	for _, b := range f.branches(registry, false) {
		taken = append(taken, f.closed(property{name: "name", form: f.options(b.names...)}, property{name: "parameters", form: choice(b.shapes...)}))
	}
	return f.closed(property{name: "thoughts", form: thoughts}, property{name: "action", form: choice(taken...)}), !f.loose
}
