// Command lists is a bot that keeps lists for a conversation: five actions, and a
// model that plans with all of them at once. See README.md beside it.
package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/state"
)

var listbot = app.Bot{
	Name:     "Listbot",
	Examples: []string{"Create a grocery list and add milk and eggs to it.", "What is on my lists?"},
	Register: register,
}

func main() { app.Main(listbot, full.Features()...) }

// lists are the items of each list of a conversation, by the list's name.
type lists map[string][]string

// of returns the lists of the conversation. What changes in them is saved with
// the turn.
func of(turn *actions.Turn) lists {
	all := state.Of[lists](turn.Conversation)
	if *all == nil {
		*all = lists{}
	}
	return *all
}

// register adds the actions. Each may run twice with the effect of once, and
// changes nothing but state, so after a crash a turn just does them again.
func register(r *actions.Registry) {
	actions.Add(r, "createList", "Creates a list, with items if given", createList, actions.StateOnly,
		actions.Example("create a {list} list", "create a {list} list with {items}"))
	actions.Add(r, "addItem", "Adds an item to a list; creates the list if there is none", addItem, actions.StateOnly,
		actions.Example("add {item...} to {list}"))
	actions.Add(r, "removeItem", "Removes an item from a list", removeItem, actions.StateOnly,
		actions.Example("remove {item...} from {list}"))
	actions.Add(r, "deleteList", "Deletes a list and its items", deleteList, actions.StateOnly, actions.Destructive,
		actions.Example("delete the {list} list"))
	actions.Add(r, "summarizeLists", "Returns all lists and their items", summarizeLists, actions.StateOnly, actions.ReturnsData,
		actions.Example("what is on my lists?"))
}

type newList struct {
	List  string   `json:"list" jsonschema:"name of the new list"`
	Items []string `json:"items,omitempty" jsonschema:"first items"`
}

func createList(_ context.Context, turn *actions.Turn, in newList) (actions.Result, error) {
	of(turn).add(in.List, in.Items...)
	return actions.Done, nil
}

type entry struct {
	List string `json:"list" jsonschema:"name of the list"`
	Item string `json:"item" jsonschema:"the item"`
}

func addItem(_ context.Context, turn *actions.Turn, in entry) (actions.Result, error) {
	of(turn).add(in.List, in.Item)
	return actions.Done, nil
}

func removeItem(_ context.Context, turn *actions.Turn, in entry) (actions.Result, error) {
	all, name := of(turn), nameOf(in.List)
	items, ok := all[name]
	if !ok {
		return actions.Fail("there is no list %s", name), nil // the plan stops, and the model learns why
	}
	all[name] = slices.DeleteFunc(items, func(item string) bool { return strings.EqualFold(item, in.Item) })
	return actions.Text("%s is not on the list %s any more", in.Item, name), nil
}

type list struct {
	List string `json:"list" jsonschema:"name of the list"`
}

func deleteList(_ context.Context, turn *actions.Turn, in list) (actions.Result, error) {
	name := nameOf(in.List)
	delete(of(turn), name)
	return actions.Text("there is no list %s any more", name), nil
}

func summarizeLists(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	all := of(turn)
	if len(all) == 0 {
		return actions.Text("There are no lists."), nil
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, "- "+name+": "+strings.Join(all[name], ", "))
	}
	return actions.Text("%s", strings.Join(lines, "\n")), nil
}

// add puts the items on the list that are not on it yet.
func (l lists) add(list string, items ...string) {
	name := nameOf(list)
	on := l[name]
	for _, item := range items {
		if !slices.ContainsFunc(on, func(other string) bool { return strings.EqualFold(other, item) }) {
			on = append(on, item)
		}
	}
	l[name] = on
}

// nameOf is the name that a list is kept under: people and models do not mind
// the case.
func nameOf(list string) string { return strings.ToLower(strings.TrimSpace(list)) }
