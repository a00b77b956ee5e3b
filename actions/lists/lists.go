// Package lists provides the actions of the default bot: shopping lists, to-do lists and the like,
// for a person or a whole group chat. Where the channel shows cards, people check items off there.
//
// In a personal chat the lists belong to the person, elsewhere to the conversation, including its
// threads. Every action can run twice with the same effect as once, because a command may be
// retried: creating something that exists succeeds and says so, and removing something that is gone
// is [actions.Unchanged]. Names are one line of visible text of at most 200 characters, and match
// without regard to case.
package lists

import (
	"context"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

// maxName is how many characters a name keeps.
const maxName = 200

// Register adds the list actions to r.
func Register(r *actions.Registry) {
	actions.Add(r, "createList", "Creates a list, with items if given", createList, actions.StateOnly, actions.Title("Create a list"),
		actions.Alias("list", "name"),
		actions.Example("create a list {list}", "create a list {list} with {items}", "create a {list} list",
			"create a {list} list with {items}", "make a list {list}", "make a {list} list"))
	actions.Add(r, "deleteList", "Deletes a list and its items", deleteList,
		actions.StateOnly, actions.Destructive, actions.Ends("list"), actions.Title("Delete a list"),
		actions.Example("delete the {list} list", "delete the list {list}"))
	actions.Add(r, "addItem", "Adds an item to a list; creates the list if there is none", addItem, actions.StateOnly, actions.Title("Add to a list"),
		actions.Alias("item", "name"), actions.Inherit("list"),
		actions.Example("add {item...} to {list}", "put {item...} on {list}"))
	actions.Add(r, "removeItem", "Removes an item from a list", removeItem, actions.StateOnly, actions.Title("Remove from a list"),
		actions.Example("remove {item...} from {list}", "take {item...} off {list}"))
	actions.Add(r, "checkItem", "Marks an item as done", checkItem, actions.StateOnly, actions.Title("Check off an item"),
		actions.Example("check off {item...} on {list}", "mark {item...} on {list} as done"))
	actions.Add(r, "renameList", "Gives a list a new name", renameList,
		actions.StateOnly, actions.Ends("list"), actions.Title("Rename a list"),
		actions.Example("rename {list} to {name}"))
	actions.Add(r, "findItem", "Finds the lists that hold an item", findItem, actions.StateOnly, actions.ReturnsData, actions.Title("Find an item"),
		actions.Example("find {item}", "where is {item}?", "which list has {item}?"))
	actions.Add(r, "showLists", "Shows a list, or all", showLists, actions.StateOnly,
		actions.Title("Show the lists"), actions.Example("show the {list} list", "show the list {list}", "what is on the {list} list?"))
	actions.Add(r, "summarizeLists", "Returns all lists and items as text", summarizeLists, actions.StateOnly,
		actions.ReturnsData, actions.Title("Summarize the lists"), actions.Example("what is on my lists?", "show my lists", "what lists do I have?", "summarize my lists"))
	actions.OnClick(r, checkVerb, clicked)
	actions.OnRefresh(r, refreshVerb, refreshed)
}

// Lists is the value in turn state.
type Lists struct {
	All []List `json:"all,omitempty"`
}

// List is one named list. Items are in the order in which they were added.
type List struct {
	Name  string `json:"name"`
	Items []Item `json:"items,omitempty"`
}

// Item is one entry of a list.
type Item struct {
	Name string `json:"name"`
	Done bool   `json:"done,omitzero"`
}

// Of returns the lists of the person or conversation that the turn belongs to.
func Of(turn *actions.Turn) *Lists { return state.Of[Lists](turn.Personal()) }

// find returns the index of the list with that name, or -1.
func (l *Lists) find(name string) int {
	name = clean(name)
	return slices.IndexFunc(l.All, func(list List) bool { return strings.EqualFold(list.Name, name) })
}

func (l *List) find(item string) int {
	item = clean(item)
	return slices.IndexFunc(l.Items, func(i Item) bool { return strings.EqualFold(i.Name, item) })
}

// clean returns a name as it is stored. Cleaning it again changes nothing.
func clean(name string) string { return spelling.OneLine(name, maxName) }

const _ texts.Text = "lists" // what people call the value in state

// noName is the fault of a name that is empty when it is clean.
const noName texts.Text = "a name needs at least one visible character"

// ensure returns the list with that name and creates it if needed. fault says why it cannot be
// created, or is "".
func (l *Lists) ensure(name string) (list *List, created bool, fault texts.Text) {
	if i := l.find(name); i >= 0 {
		return &l.All[i], false, ""
	}
	name = clean(name)
	if name == "" {
		return nil, false, noName
	}
	l.All = append(l.All, List{Name: name})
	return &l.All[len(l.All)-1], true, ""
}

// put adds the item unless the list already has it.
func (l *List) put(item string) (added bool, fault texts.Text) {
	item = clean(item)
	switch {
	case item == "":
		return false, noName
	case l.find(item) >= 0:
		return false, ""
	}
	l.Items = append(l.Items, Item{Name: item})
	return true, ""
}

// markdown shows the lists.
func (l *Lists) markdown(turn *actions.Turn) string {
	if len(l.All) == 0 {
		return turn.Translate("There are no lists yet.")
	}
	var all []string
	for _, list := range l.All {
		text := "**" + list.Name + "**"
		for _, item := range list.Items {
			text += "\n- " + item.in(turn)
		}
		if len(list.Items) == 0 {
			text += "\n- " + turn.Translate("(nothing on it)")
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n\n")
}

// String returns the item's name and whether it is done, in English.
func (i Item) String() string { return i.in(&actions.Turn{}) }

// in returns the item's name and whether it is done.
func (i Item) in(turn *actions.Turn) string {
	if i.Done {
		return turn.Translate("%s (done)", i.Name)
	}
	return i.Name
}

type createIn struct {
	List  string   `json:"list"`
	Items []string `json:"items,omitempty"`
}

func createList(_ context.Context, turn *actions.Turn, in createIn) (actions.Result, error) {
	list, created, fault := Of(turn).ensure(in.List)
	if fault != "" {
		return actions.Fail("%s", turn.Translate(fault)), nil
	}
	for _, item := range in.Items {
		_, _ = list.put(item) // a blank one is left out
	}
	if created {
		return actions.Text("%s", turn.Translate("Created the list %s.", list.Name)), nil
	}
	return actions.Text("%s", turn.Translate("The list %s already exists; items on it: %d.", list.Name, len(list.Items))), nil
}

type listIn struct {
	List string `json:"list"`
}

func deleteList(_ context.Context, turn *actions.Turn, in listIn) (actions.Result, error) {
	lists := Of(turn)
	i := lists.find(in.List)
	if i < 0 {
		return actions.Unchanged("%s", turn.Translate("There is no list %s.", clean(in.List))), nil
	}
	name := lists.All[i].Name
	lists.All = slices.Delete(lists.All, i, i+1)
	return actions.Text("%s", turn.Translate("Deleted the list %s.", name)), nil
}

type itemIn struct {
	List string `json:"list"`
	Item string `json:"item"`
}

func addItem(_ context.Context, turn *actions.Turn, in itemIn) (actions.Result, error) {
	list, _, fault := Of(turn).ensure(in.List)
	isNew := false
	if fault == "" {
		isNew, fault = list.put(in.Item)
	}
	switch {
	case fault != "":
		return actions.Fail("%s", turn.Translate(fault)), nil
	case !isNew:
		return actions.Text("%s", turn.Translate("%s is already on the list %s.", clean(in.Item), list.Name)), nil
	}
	return actions.Text("%s", turn.Translate("Added %s to the list %s.", clean(in.Item), list.Name)), nil
}

func removeItem(_ context.Context, turn *actions.Turn, in itemIn) (actions.Result, error) {
	list, at, missing := locate(turn, in)
	if missing != "" {
		return actions.Unchanged("%s", missing), nil
	}
	list.Items = slices.Delete(list.Items, at, at+1)
	return actions.Text("%s", turn.Translate("Removed %s from the list %s.", clean(in.Item), list.Name)), nil
}

func checkItem(_ context.Context, turn *actions.Turn, in itemIn) (actions.Result, error) {
	list, at, missing := locate(turn, in)
	if missing != "" {
		return actions.Unchanged("%s", missing), nil
	}
	list.Items[at].Done = true
	return actions.Text("%s", turn.Translate("Marked %s on the list %s as done.", clean(in.Item), list.Name)), nil
}

// locate finds the item, or says what is missing.
func locate(turn *actions.Turn, in itemIn) (list *List, at int, missing string) {
	lists := Of(turn)
	i := lists.find(in.List)
	if i < 0 {
		return nil, 0, turn.Translate("There is no list %s.", clean(in.List))
	}
	list = &lists.All[i]
	if at = list.find(in.Item); at < 0 {
		return nil, 0, turn.Translate("%s is not on the list %s.", clean(in.Item), list.Name)
	}
	return list, at, ""
}

type renameIn struct {
	List string `json:"list"`
	Name string `json:"name" title:"New name" jsonschema:"new name"`
}

func renameList(_ context.Context, turn *actions.Turn, in renameIn) (actions.Result, error) {
	lists := Of(turn)
	in.List, in.Name = clean(in.List), clean(in.Name)
	from, to := lists.find(in.List), lists.find(in.Name)
	switch {
	case from < 0 && to >= 0:
		return actions.Unchanged("%s", turn.Translate("There is no list %s, and there already is a list %s.", in.List, lists.All[to].Name)), nil
	case from < 0:
		return actions.Unchanged("%s", turn.Translate("There is no list %s.", in.List)), nil
	case to >= 0 && to != from:
		return actions.Fail("%s", turn.Translate("there is another list named %s", lists.All[to].Name)), nil
	case in.Name == "":
		return actions.Fail("%s", turn.Translate(noName)), nil
	}
	old := lists.All[from].Name
	lists.All[from].Name = in.Name
	return actions.Text("%s", turn.Translate("Renamed the list %s to %s.", old, lists.All[from].Name)), nil
}

type findIn struct {
	Item string `json:"item"`
}

func findItem(_ context.Context, turn *actions.Turn, in findIn) (actions.Result, error) {
	in.Item = clean(in.Item)
	if in.Item == "" {
		return actions.Fail("%s", turn.Translate(noName)), nil
	}
	var found []string
	wanted := strings.ToLower(in.Item)
	for _, list := range Of(turn).All {
		for _, item := range list.Items {
			if strings.Contains(strings.ToLower(item.Name), wanted) {
				found = append(found, turn.Translate("%s is on the list %s.", item.in(turn), list.Name))
			}
		}
	}
	if len(found) == 0 {
		return actions.Text("%s", turn.Translate("%s is not on any list.", in.Item)), nil
	}
	return actions.Text("%s", strings.Join(found, "\n")), nil
}

func summarizeLists(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	return actions.Text("%s", Of(turn).markdown(turn)), nil
}
