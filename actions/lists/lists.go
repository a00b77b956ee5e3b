// Package lists is what the default bot can do: shopping lists, to-do lists and
// the like, for a person or a whole group chat.
//
// A personal chat's lists belong to the person, any other conversation's to the
// conversation, threads included. Every action may run twice with the same
// effect as once, since a retried command may do so: creating what exists succeeds and says
// so, and removing what is gone is [actions.Unchanged]. Names are one line of what can be
// seen: white space of any kind is one space, control characters and marks that
// change the direction of writing are dropped. They match without regard to case.
package lists

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// Caps on what one owner may keep. They keep lists readable; long names meet the
// store's own cap on a document first, by default 1 MiB, and the save fails.
const (
	maxLists     = 100
	maxItems     = 500
	maxNameRunes = 200
)

// Register adds the list actions to r.
func Register(r *actions.Registry) {
	actions.Add(r, "createList", "Creates a list, with items if given", createList, actions.StateOnly,
		actions.Example("create a list {list}", "create a list {list} with {items}", "create a {list} list",
			"create a {list} list with {items}", "make a list {list}", "make a {list} list"))
	actions.Add(r, "deleteList", "Deletes a list and its items", deleteList, actions.StateOnly, actions.Destructive,
		actions.Example("delete the {list} list", "delete the list {list}"))
	actions.Add(r, "addItem", "Adds an item to a list; creates the list if there is none", addItem, actions.StateOnly,
		actions.Example("add {item...} to {list}", "put {item...} on {list}"))
	actions.Add(r, "removeItem", "Removes an item from a list", removeItem, actions.StateOnly,
		actions.Example("remove {item...} from {list}", "take {item...} off {list}"))
	actions.Add(r, "checkItem", "Marks an item of a list as done", checkItem, actions.StateOnly,
		actions.Example("check off {item...} on {list}", "mark {item...} on {list} as done"))
	actions.Add(r, "renameList", "Gives a list a new name", renameList, actions.StateOnly,
		actions.Example("rename {list} to {name}"))
	actions.Add(r, "findItem", "Finds the lists that hold an item", findItem, actions.StateOnly, actions.ReturnsData,
		actions.Example("find {item}", "where is {item}?", "which list has {item}?"))
	actions.Add(r, "summarizeLists", "Returns all lists and their items as text", summarizeLists, actions.StateOnly,
		actions.ReturnsData, actions.Example("what is on my lists?", "show my lists", "what lists do I have?"))
}

// Lists is the value in turn state.
type Lists struct {
	All []List `json:"all,omitempty"`
}

// List is one named list; items keep the order in which they were added.
type List struct {
	Name  string `json:"name"`
	Items []Item `json:"items,omitempty"`
}

// Item is one entry of a list.
type Item struct {
	Name string `json:"name"`
	Done bool   `json:"done,omitzero"`
}

// Of returns the lists of whoever the turn is with.
func Of(turn *actions.Turn) *Lists { return state.Of[Lists](turn.Personal()) }

// find returns the index of the list with that name, or -1.
func (l *Lists) find(name string) int {
	return slices.IndexFunc(l.All, func(list List) bool { return same(list.Name, name) })
}

func (l *List) find(item string) int {
	return slices.IndexFunc(l.Items, func(i Item) bool { return same(i.Name, item) })
}

func same(a, b string) bool {
	return strings.EqualFold(a, b) || strings.EqualFold(clean(a), clean(b))
}

// clean is a name as it is kept. Cleaning it again changes nothing.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d': // joiners are part of words and emoji
			return -1
		}
		return r
	}, name)
	if !strings.Contains(name, "  ") {
		return strings.TrimSpace(name)
	}
	return strings.Join(strings.Fields(name), " ")
}

// ensure returns the list with that name, created if there is none. The
// sentence says why there can be none, else it is "".
func (l *Lists) ensure(name string) (list *List, created bool, fault string) {
	if i := l.find(name); i >= 0 {
		return &l.All[i], false, ""
	}
	name = clean(name)
	if fault := checkName(name); fault != "" {
		return nil, false, fault
	}
	if len(l.All) >= maxLists {
		return nil, false, fmt.Sprintf("there are already %d lists, which is the most I keep", maxLists)
	}
	l.All = append(l.All, List{Name: name})
	return &l.All[len(l.All)-1], true, ""
}

// put adds the item unless it is there.
func (l *List) put(item string) (added bool, fault string) {
	item = clean(item)
	if l.find(item) >= 0 {
		return false, ""
	}
	if fault := checkName(item); fault != "" {
		return false, fault
	}
	if len(l.Items) >= maxItems {
		return false, fmt.Sprintf("the list %s already has %d items, which is the most I keep", l.Name, maxItems)
	}
	l.Items = append(l.Items, Item{Name: item})
	return true, ""
}

// checkName says what is wrong with a clean name, else "".
func checkName(name string) string {
	if name == "" {
		return "a name needs at least one character that can be seen"
	}
	if utf8.RuneCountInString(name) > maxNameRunes {
		return fmt.Sprintf("a name may have at most %d characters", maxNameRunes)
	}
	return ""
}

// String is the lists as markdown text.
func (l *Lists) String() string {
	if len(l.All) == 0 {
		return "There are no lists yet."
	}
	var b strings.Builder
	for i, list := range l.All {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "**%s**", list.Name)
		for _, item := range list.Items {
			b.WriteString("\n- " + item.String())
		}
		if len(list.Items) == 0 {
			b.WriteString("\n- (nothing on it)")
		}
	}
	return b.String()
}

// String is the item's name, and whether it is done.
func (i Item) String() string {
	if i.Done {
		return i.Name + " (done)"
	}
	return i.Name
}
