package bottest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/planbot-go/planbot/planner/plan"
)

// Plan is what a model writes that plans these commands: for [Model.Says].
func Plan(commands ...plan.Command) string {
	p := struct {
		Type     string         `json:"type"`
		Commands []plan.Command `json:"commands"`
	}{"plan", commands}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		panic(fmt.Sprintf("bottest: this is no plan: %v", err)) // a mistake in the test
	}
	return string(bytes.TrimSpace(text.Bytes()))
}

// Do is a command that calls the action with these entities: a name, its value, a name….
// It panics when a value is missing or a name is no string: that is a mistake in the test.
func Do(action string, entities ...any) plan.Command {
	c := plan.Command{Kind: plan.Do, Action: action, Entities: map[string]any{}}
	if len(entities)%2 != 0 {
		panic("bottest: entities of " + action + " are names with values")
	}
	for i := 0; i < len(entities); i += 2 {
		c.Entities[entities[i].(string)] = entities[i+1]
	}
	return c
}

// DoAs is [Do] whose result later commands of the plan can use as $name.
func DoAs(name, action string, entities ...any) plan.Command {
	c := Do(action, entities...)
	c.SaveAs = name
	return c
}

// Say is a command that says the text.
func Say(text string) plan.Command { return plan.Command{Kind: plan.Say, Response: text} }
