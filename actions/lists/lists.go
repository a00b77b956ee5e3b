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
	"encoding/json"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

const maxName = 200 // how many characters a name keeps

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

// A card shows one list or all of them, each item with a toggle. A click changes the list of the
// conversation where it comes from and gives everybody there the card anew. Lists that are too long
// for one card go on in the next one.

const (
	checkVerb, refreshVerb = "lists/check", "lists/refresh"
	// maxCard is how many bytes the rows of a card may have, with their text: Teams takes 28 KB of a
	// card. maxCards limits the cards of one answer.
	maxCard, maxCards = 23 << 10, 8
	maxTitle          = 60 // characters of what a screen reader says about a toggle
)

// shown says what a card shows, and which toggle of it was clicked.
type shown struct {
	List string `json:"list,omitzero"` // of the item, or the one that the card shows
	Item string `json:"item,omitzero"` // "": none was clicked
	Done bool   `json:"done,omitzero"` // what the item is to become
	Only bool   `json:"only,omitzero"` // the card shows only List
	Skip int    `json:"skip,omitzero"` // how many rows come on earlier cards
}

type showIn struct {
	List string `json:"list"` // "all", unless that is the name of one: all of them
}

func showLists(_ context.Context, turn *actions.Turn, in showIn) (actions.Result, error) {
	lists := Of(turn)
	of := shown{List: clean(in.List), Only: !strings.EqualFold(clean(in.List), "all") || lists.find(in.List) >= 0}
	switch {
	case of.Only && lists.find(of.List) < 0:
		return actions.Unchanged("%s", turn.Translate("There is no list %s.", of.List)), nil
	case len(lists.All) == 0:
		return actions.Text("%s", lists.markdown(turn)), nil
	}
	var cards []activity.Card
	var parts []string
	for more := true; more && len(cards) < maxCards; {
		var card activity.Card
		card, more = lists.card(turn, &of)
		if more && len(cards) == maxCards-1 {
			note := turn.Translate("There is more than I can show here.")
			card.Body, card.Fallback = append(card.Body, activity.TextBlock{Text: note, Subtle: true}), card.Fallback+"\n\n"+note
		}
		cards, parts = append(cards, card), append(parts, card.Fallback)
	}
	result := actions.Text("%s", strings.Join(parts, "\n"))
	for _, card := range cards {
		result = result.WithCard(card)
	}
	return result, nil
}

// clicked changes the item to what the person saw as the toggle's effect, so that a click on a card
// that is out of date, or two at once, do not undo each other.
func clicked(ctx context.Context, turn *actions.Turn, in shown) (actions.Result, error) {
	missing := ""
	if in.Item != "" {
		var list *List
		var at int
		if list, at, missing = locate(turn, itemIn{in.List, in.Item}); missing == "" {
			list.Items[at].Done = in.Done
		}
	}
	result, err := refreshed(ctx, turn, in)
	if missing != "" {
		return actions.Unchanged("%s", missing).WithCard(result.Cards()[0]), nil
	}
	return result, err
}

func refreshed(_ context.Context, turn *actions.Turn, in shown) (actions.Result, error) {
	of := shown{Only: in.Only, Skip: max(in.Skip, 0)}
	if in.Only {
		of.List = in.List
	}
	card, _ := Of(turn).card(turn, &of)
	return actions.Card(card, ""), nil
}

// row is a line of a card: a list's name, one of its items, or that it has none.
type row struct {
	list    *List // for its name, which the next card repeats; nil: this row is the name
	element any
	text    string
}

func (l *Lists) rows(turn *actions.Turn, of *shown) (all []row) {
	for i := range l.All {
		list := &l.All[i]
		if of.Only && i != l.find(of.List) {
			continue
		}
		all = append(all, list.name())
		if len(list.Items) == 0 {
			empty := turn.Translate("(nothing on it)")
			all = append(all, row{list, activity.TextBlock{Text: empty, Subtle: true}, "\n- " + empty})
		}
		for _, item := range list.Items {
			all = append(all, row{list, item.toggle(turn, list, of), "\n- " + item.in(turn)})
		}
	}
	return all
}

func (l *List) name() row {
	return row{nil, activity.RichText{{Text: l.Name, Weight: "bolder", Size: "medium"}}, "\n\n**" + l.Name + "**"}
}

// card shows as many rows as fit, and moves of to what comes on the next card, if there is more.
func (l *Lists) card(turn *actions.Turn, of *shown) (card activity.Card, more bool) {
	card.Refresh = &activity.Button{Verb: refreshVerb, Data: *of}
	all := l.rows(turn, of)
	rows := all[min(of.Skip, len(all)):]
	switch {
	case len(all) == 0 && of.Only:
		card.Fallback = turn.Translate("There is no list %s.", clean(of.List))
	case len(all) == 0:
		card.Fallback = turn.Translate("There are no lists yet.")
	case len(rows) == 0: // they have become shorter
		card.Fallback = turn.Translate("(nothing on it)")
	}
	if card.Fallback != "" {
		card.Body = []any{activity.RichText{{Text: card.Fallback}}}
		return card, false
	}
	took := len(rows)
	if rows[0].list != nil {
		rows = slices.Insert(slices.Clone(rows), 0, rows[0].list.name())
	}
	size, repeated := 0, len(rows)-took
	for i, r := range rows {
		raw, _ := json.Marshal(r.element) // texts
		if size += len(raw) + len(r.text); size > maxCard && i > repeated {
			took = i - repeated
			break
		}
		card.Body = append(card.Body, r.element)
		card.Fallback += r.text
	}
	card.Fallback = strings.TrimLeft(card.Fallback, "\n")
	more = of.Skip+took < len(all)
	of.Skip += took
	return card, more
}

// element is a part of a card.
type element = map[string]any

// toggle shows the item. A click on it makes it the opposite of what it is now.
func (i Item) toggle(turn *actions.Turn, on *List, of *shown) element {
	box, does := "☐ ", texts.Text("Check off %s")
	if i.Done {
		box, does = "☑ ", "Uncheck %s"
	}
	return element{
		"type": "Container", "spacing": "small",
		"items": []any{activity.RichText{{Text: box + i.Name, Subtle: i.Done}}},
		"selectAction": element{
			"type": "Action.Execute", "verb": checkVerb, "title": turn.Translate(does, spelling.OneLine(i.Name, maxTitle)),
			"data": shown{List: on.Name, Item: i.Name, Done: !i.Done, Only: of.Only, Skip: of.Skip},
		},
	}
}
