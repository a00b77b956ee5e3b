package planner_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// xmlActions are actions with an input, without one, with defaults, lists and
// a plugin in their names.
func xmlActions(t testing.TB) *actions.Registry {
	t.Helper()
	reg, err := actions.Read(strings.NewReader(`[
		{"name":"summarize","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}},
		{"name":"Writer-Translate","parameters":{"type":"object","properties":{"input":{"type":"string"},"language":{"type":"string"}},"required":["input","language"]}},
		{"name":"sendEmail","parameters":{"type":"object","properties":{"input":{"type":"string"},"email_address":{"type":"string"}},"required":["input","email_address"]}},
		{"name":"getEmail","parameters":{"type":"object","properties":{"input":{"type":"string","default":"nobody"}}}},
		{"name":"addItem","parameters":{"type":"object","properties":{"list":{"type":"string"},"item":{"type":"string"},"quantity":{"type":"integer"},"urgent":{"type":"boolean"}},"required":["list","item"]}},
		{"name":"createList","parameters":{"type":"object","properties":{"list":{"type":"string"},"items":{"type":"array","items":{"type":"string"}}},"required":["list"]}},
		{"name":"Tool-clean"}, {"name":"Tool_clean"}, {"name":"Tool_wash"},
		{"name":"wipe"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// unclocked is a prompt without its last line, which says what day it is.
func unclocked(system string) string {
	text, _, _ := strings.Cut(system, "\n\nToday: ")
	return text
}

func do(action string, entities map[string]any) plan.Command {
	return plan.Command{Kind: plan.Do, Action: action, Entities: entities}
}

func say(text string) plan.Command { return plan.Command{Kind: plan.Say, Response: text} }

func commands(list ...plan.Command) []plan.Command { return list }

func inPlan(steps ...string) string { return "<plan>" + strings.Join(steps, "\n") + "</plan>" }
