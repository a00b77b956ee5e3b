package main

import (
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// earlier is what was said before, in the cells with a history, and the plans of
// it as a bot keeps them. A small model learns the format from it.
var earlier = []struct {
	said string
	plan []plan.Command
}{
	{"good morning", []plan.Command{
		{Kind: plan.Say, Response: "Good morning! What shall I write down?"},
	}},
	{"put soap on the bathroom list", []plan.Command{
		{Kind: plan.Do, Action: "addItem", Entities: map[string]any{"list": "bathroom", "item": "soap"}},
		{Kind: plan.Say, Response: "Soap is on the bathroom list."},
	}},
	{"make a list called garden", []plan.Command{
		{Kind: plan.Do, Action: "createList", Entities: map[string]any{"list": "garden"}},
		{Kind: plan.Say, Response: "There is a list garden now."},
	}},
	{"the soap is bought, take it off again", []plan.Command{
		{Kind: plan.Do, Action: "removeItem", Entities: map[string]any{"list": "bathroom", "item": "soap"}},
		{Kind: plan.Say, Response: "Soap is off the bathroom list."},
	}},
}

// turnOf is the turn in which a person says this, with an empty state or, in a
// cell with a history, behind the earlier turns.
func turnOf(said string, c *cell) *actions.Turn {
	scope := state.NewScope()
	t := &actions.Turn{
		Activity: &activity.Activity{Text: said}, Text: said,
		Conversation: scope, Thread: scope, User: state.NewScope(), Temp: state.NewScope(),
	}
	t.Activity.Conversation.ConversationType = "personal"
	if !c.history {
		return t
	}
	for _, e := range earlier {
		p := plan.Transcript(e.plan)
		if c.teams {
			p = strings.ReplaceAll(p, `"entities":`, `"parameters":`)
		}
		state.Of[prompts.History](scope).Append(prompts.Turn{From: "mia", Messages: []prompts.Message{
			{Role: prompts.User, Text: e.said}, {Role: prompts.Assistant, Text: p},
		}}, prompts.Limits{})
	}
	return t
}
