package planner_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// unruly is a model whose first answer cannot be used.
type unruly struct{ asked []string }

func (m *unruly) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	m.asked = append(m.asked, golden.Prompt(req))
	switch {
	case len(m.asked) > 1:
		return &models.Response{Text: "Sorry.", Finish: "stop"}, nil
	case len(req.Tools) > 0:
		return &models.Response{Calls: []models.Call{{ID: "c9", Name: "addItem", Arguments: `{"list":"shop"}`}}, Finish: "tool_calls"}, nil
	}
	return &models.Response{Text: `{"type":"plan","commands":[{"type":"DO","action":"adItem"}]} <plan><function.adItem/></plan>`, Finish: "stop"}, nil
}

// goldenTurn is the second round of a turn in a group, with a turn before it.
func goldenTurn() *actions.Turn {
	a := &activity.Activity{Type: activity.Message, Text: "and now the eggs"}
	a.From.Name, a.Conversation.ConversationType = "Otto", "groupChat"
	scope := state.NewScope()
	state.Of[prompts.History](scope).Append(prompts.Turn{From: "u", Name: "Mia", Messages: []prompts.Message{
		{Role: "user", Text: "milk to shop, please"},
		{Role: "assistant", Text: plan.Plan{Commands: []plan.Command{
			{Kind: plan.Do, Action: "addItem", Entities: map[string]any{"list": "shop", "item": "milk"}, CallID: "c1", Result: "added"},
			{Kind: plan.Say, Response: "There is milk\non it now."},
		}}.Transcript(0)},
	}}, 0)
	turn := &actions.Turn{Activity: a, Text: a.Text, Conversation: scope, Thread: scope, User: scope, Temp: state.NewScope()}
	turn.Rounds = []actions.Round{{Preface: "I look first.", Outcomes: []actions.Outcome{
		{Action: "findItem", Entities: map[string]any{"item": "eggs"}, Text: "on no list", CallID: "c2"},
		{Action: "addItem", Entities: map[string]any{"list": "shop", "item": "eggs"}, Text: "the list is full\nof milk", Failed: true, CallID: "c3"},
	}}}
	return turn
}

// TestPrompts holds what each planner asks a model to testdata: with history, results, and
// an answer that cannot be used.
func TestPrompts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		model := &unruly{}
		_, _ = planned(t, name, planner.Config{Model: model, Actions: goldenActions(t)}, goldenTurn()) // whatever it makes of the answers
		golden.Compare(t, filepath.Join("testdata", "prompts", name+".txt"), strings.Join(model.asked, "\n##### and then\n\n"))
	}
}

// goldenActions have parameters of every kind.
func goldenActions(t *testing.T) *actions.Registry {
	t.Helper()
	reg, err := actions.Read(strings.NewReader(`[
		{"name":"addItem","description":"Adds an item to a list","parameters":{"type":"object","properties":{"list":{"type":"string","description":"its name"},"item":{"type":"string"},"count":{"type":"integer","default":1}},"required":["list","item"]}},
		{"name":"findItem","description":"Finds an item","parameters":{"type":"object","properties":{"item":{"type":"string"},"on":{"type":"array","items":{"type":"string","enum":["open","closed"]}}},"required":["item"]}},
		{"name":"Mail-send","description":"Sends all lists by mail"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	return reg
}
