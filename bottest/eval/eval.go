// Package eval measures how well a model plans: it gives a planner utterances of which
// is known what should be done, and counts what it gets right, what it does that nobody
// asked for, and what that takes. Nothing that is planned is run, so it needs actions but
// no bot, and a prompt, a planner or a model can be judged, alone or beside another, before
// it ships.
//
// [Read] reads the utterances from YAML:
//
//	cases:
//	  - name: add milk                      # unique
//	    lang: en
//	    say: Add milk to the groceries.
//	    want:                               # the actions, in this order
//	      - addItem: {list: [groceries, grocery], item: milk}
//	  - name: small talk
//	    lang: en
//	    say: You are a great help.
//	    want: say                           # no action
//	  - name: and eggs
//	    lang: en
//	    history:                            # what came before, the oldest first
//	      - say: Add milk to the groceries.
//	        did: [{addItem: {list: groceries, item: milk}}]
//	        reply: Added milk.
//	    lists: {groceries: [milk]}          # the lists that are there
//	    say: And eggs!
//	    want:
//	      - addItem: {list: groceries, item: eggs}
//	    or:                                 # other plans that are as right
//	      - - findItem: {item: eggs}
//	        - addItem: {list: groceries, item: eggs}
//	    unwanted: [createList, deleteList]  # none: every action that is not wanted
//
// Entities are compared as values: texts without regard to case and to the white space
// around them, numbers as numbers. A * in a text stands for anything, and a list, where the
// action does not take one, for any of its values. An entity that is not wanted has to be
// left out, empty or its default. Where the action takes a time, beside RFC 3339 there are
// "today 18:30" and "tomorrow 09:00", in UTC, and "in 10m", give or take two minutes.
package eval

import (
	"context"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Planner makes the plans: those of package planner are such.
type Planner interface {
	Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
}

// Case is an utterance and what should be planned for it.
type Case struct {
	Name, Lang string
	History    []Exchange
	Lists      []lists.List // that are there
	Say        string
	// Want are the plans that are right, each as the calls in it. One without calls is
	// one that only says something.
	Want [][]Call
	// Unwanted are the actions that do harm here. None: all that are not wanted.
	Unwanted []string
}

// Call is an action with its entities: text, json.Number, bool, []any, map[string]any or nil.
type Call struct {
	Action   string
	Entities map[string]any
}

// Exchange is a turn before the one that is judged.
type Exchange struct {
	Say   string
	Did   []Call
	Reply string // "": nothing was said
}

// turn is what the planner gets: a message in a personal chat.
func (c *Case) turn() *actions.Turn {
	conversation := state.NewScope()
	turn := &actions.Turn{
		ID: "eval", Text: c.Say, Conversation: conversation, Thread: conversation, User: state.NewScope(), Temp: state.NewScope(),
		Activity: &activity.Activity{Type: activity.Message, ChannelID: "eval", Text: c.Say, Locale: c.Lang},
	}
	if len(c.Lists) > 0 {
		lists.Of(turn).All = c.Lists
	}
	history := state.Of[prompts.History](conversation)
	for _, e := range c.History {
		history.Append(e.turn(), 0)
	}
	return turn
}

// turn is the exchange as a bot keeps it.
func (e *Exchange) turn() prompts.Turn {
	var commands []plan.Command
	for _, call := range e.Did {
		commands = append(commands, plan.Command{Kind: plan.Do, Action: call.Action, Entities: call.Entities})
	}
	if e.Reply != "" {
		commands = append(commands, plan.Command{Kind: plan.Say, Response: e.Reply})
	}
	messages := []prompts.Message{{Role: prompts.User, Text: e.Say}}
	if len(commands) > 0 {
		messages = append(messages, prompts.Message{Role: prompts.Assistant, Text: plan.Transcript(commands)})
	}
	return prompts.Turn{Messages: messages}
}
