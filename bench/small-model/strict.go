package main

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/planbot-go/planbot/planner/plan"
)

// unexpected are the DOs of plan that a strict reading of the model's text does
// not contain. The reading is that of encoding/json, which repairs nothing.
func unexpected(p plan.Plan, text string) []plan.Command {
	var written []plan.Command
	for _, value := range jsonValues(text) {
		written = append(written, commandsIn(value)...)
	}
	var out []plan.Command
	for _, c := range p.Commands {
		if c.Kind == plan.Do && !contains(written, c) {
			out = append(out, c)
		}
	}
	return out
}

func contains(written []plan.Command, c plan.Command) bool {
	for _, w := range written {
		if strings.EqualFold(w.Action, c.Action) && equal(w.Entities, c.Entities) {
			return true
		}
	}
	return false
}

func equal(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// jsonValues are the objects that stand in text, one behind the other.
func jsonValues(text string) []any {
	var values []any
	for {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			return values
		}
		text = text[at:]
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			text = text[1:]
			continue
		}
		values = append(values, v)
		text = text[dec.InputOffset():]
	}
}

// commandsIn are the DOs in value, at any depth.
func commandsIn(value any) []plan.Command {
	var out []plan.Command
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			out = append(out, commandsIn(v)...)
		}
	case map[string]any:
		kind, _ := value["type"].(string)
		action, _ := value["action"].(string)
		if strings.EqualFold(kind, "DO") && action != "" {
			out = append(out, plan.Command{Kind: plan.Do, Action: action, Entities: entitiesOf(value)})
		}
		for v := range maps.Values(value) {
			out = append(out, commandsIn(v)...)
		}
	}
	return out
}

func entitiesOf(command map[string]any) map[string]any {
	for _, name := range []string{"entities", "parameters", "arguments"} {
		if e, ok := command[name].(map[string]any); ok {
			return e
		}
	}
	return nil
}
