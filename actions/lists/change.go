package lists

import (
	"context"
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
)

type createIn struct {
	List  string   `json:"list" jsonschema:"name of the new list"`
	Items []string `json:"items,omitempty" jsonschema:"first items"`
}

func createList(_ context.Context, turn *actions.Turn, in createIn) (actions.Result, error) {
	lists := Of(turn)
	before := len(lists.All)
	list, created, fault := lists.ensure(in.List)
	if fault != "" {
		return actions.Fail("%s", fault), nil
	}
	kept := slices.Clone(list.Items)
	for _, item := range in.Items {
		if clean(item) == "" {
			continue
		}
		if _, fault := list.put(item); fault != "" {
			list.Items, lists.All = kept, lists.All[:before] // all of it or nothing
			return actions.Fail("%s", fault), nil
		}
	}
	if created {
		return actions.Text("Created the list %s.", list.Name), nil
	}
	return actions.Text("The list %s was there already; %s.", list.Name, added(len(list.Items)-len(kept))), nil
}

func added(items int) string {
	switch items {
	case 0:
		return "nothing new"
	case 1:
		return "added 1 item"
	default:
		return fmt.Sprintf("added %d items", items)
	}
}

type listIn struct {
	List string `json:"list" jsonschema:"name of the list"`
}

func deleteList(_ context.Context, turn *actions.Turn, in listIn) (actions.Result, error) {
	lists := Of(turn)
	i := lists.find(in.List)
	if i < 0 {
		return actions.Unchanged("There is no list %s.", clean(in.List)), nil
	}
	name := lists.All[i].Name
	lists.All = slices.Delete(lists.All, i, i+1)
	return actions.Text("Deleted the list %s.", name), nil
}

type itemIn struct {
	List string `json:"list" jsonschema:"name of the list"`
	Item string `json:"item" jsonschema:"the item"`
}

func addItem(_ context.Context, turn *actions.Turn, in itemIn) (actions.Result, error) {
	lists := Of(turn)
	before := len(lists.All)
	list, _, fault := lists.ensure(in.List)
	if fault != "" {
		return actions.Fail("%s", fault), nil
	}
	isNew, fault := list.put(in.Item)
	if fault != "" {
		lists.All = lists.All[:before]
		return actions.Fail("%s", fault), nil
	}
	if !isNew {
		return actions.Text("%s is on the list %s already.", clean(in.Item), list.Name), nil
	}
	return actions.Text("Added %s to the list %s.", clean(in.Item), list.Name), nil
}

func removeItem(_ context.Context, turn *actions.Turn, in itemIn) (actions.Result, error) {
	list, at, missing := locate(Of(turn), in)
	if missing != "" {
		return actions.Unchanged("%s", missing), nil
	}
	list.Items = slices.Delete(list.Items, at, at+1)
	return actions.Text("Removed %s from the list %s.", clean(in.Item), list.Name), nil
}

func checkItem(_ context.Context, turn *actions.Turn, in itemIn) (actions.Result, error) {
	list, at, missing := locate(Of(turn), in)
	if missing != "" {
		return actions.Unchanged("%s", missing), nil
	}
	list.Items[at].Done = true
	return actions.Text("Marked %s on the list %s as done.", clean(in.Item), list.Name), nil
}

// locate finds the item, or says what is not there.
func locate(lists *Lists, in itemIn) (list *List, at int, missing string) {
	i := lists.find(in.List)
	if i < 0 {
		return nil, 0, "There is no list " + clean(in.List) + "."
	}
	list = &lists.All[i]
	if at = list.find(in.Item); at < 0 {
		return nil, 0, clean(in.Item) + " is not on the list " + list.Name + "."
	}
	return list, at, ""
}

type renameIn struct {
	List string `json:"list" jsonschema:"present name of the list"`
	Name string `json:"name" jsonschema:"new name"`
}

func renameList(_ context.Context, turn *actions.Turn, in renameIn) (actions.Result, error) {
	lists := Of(turn)
	in.List, in.Name = clean(in.List), clean(in.Name)
	from, to := lists.find(in.List), lists.find(in.Name)
	fault := checkName(in.Name)
	switch {
	case from < 0 && to >= 0:
		return actions.Unchanged("There is no list %s, and a list %s is there already.", in.List, lists.All[to].Name), nil
	case from < 0:
		return actions.Unchanged("There is no list %s.", in.List), nil
	case to >= 0 && to != from:
		return actions.Fail("there is another list named %s", lists.All[to].Name), nil
	case fault != "":
		return actions.Fail("%s", fault), nil
	}
	old := lists.All[from].Name
	lists.All[from].Name = in.Name
	return actions.Text("Renamed the list %s to %s.", old, lists.All[from].Name), nil
}
