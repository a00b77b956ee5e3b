package models

import (
	"strconv"
	"strings"
)

// maxDeeds bounds one plan; nobody means more at once.
const maxDeeds = 25

// deed is one thing to do: an action of the default bot with its entities.
type deed struct {
	action   string
	list     string
	item     string
	name     string   // renameList
	items    []string // createList
	followUp bool     // same action and list as the deed before

	given map[string]any // the entities of an action that was called by its name, never nil then
	plain bool           // what the action puts out says it all
}

// Actions of the default bot.
const (
	createList     = "createList"
	deleteList     = "deleteList"
	addItem        = "addItem"
	removeItem     = "removeItem"
	checkItem      = "checkItem"
	renameList     = "renameList"
	findItem       = "findItem"
	summarizeLists = "summarizeLists"
)

func (d *deed) entities() map[string]any {
	if d.given != nil {
		return d.given
	}
	out := map[string]any{}
	for key, value := range map[string]string{"list": d.list, "item": d.item, "name": d.name} {
		if value != "" {
			out[key] = value
		}
	}
	if len(d.items) > 0 {
		out["items"] = d.items
	}
	return out
}

// variable names where the result of the deed is kept, "" when the reply does
// not need it.
func (d *deed) variable() string {
	switch {
	case d.given != nil:
		return "RESULT"
	case d.action == summarizeLists:
		return "LISTS"
	}
	switch d.action {
	case deleteList, removeItem, findItem, checkItem, renameList:
		return "RESULT"
	default:
		return ""
	}
}

// planOf writes the deeds and one SAY about them. What the SAY claims holds
// whether or not the action had anything left to do; where only the result
// knows, the SAY is the result.
func planOf(deeds []deed) []planCommand {
	saves := false
	for i := range deeds {
		saves = saves || deeds[i].variable() != ""
	}
	out := make([]planCommand, 0, len(deeds)+1)
	var say sentences
	for i := range deeds {
		d := &deeds[i]
		c := planCommand{Type: "DO", Action: d.action, Entities: d.entities(), SaveAs: d.variable()}
		if c.SaveAs != "" && i > 0 {
			c.SaveAs += strconv.Itoa(i + 1)
		}
		text := describe(deeds, i)
		if saves {
			c.Entities, text = escapeValue(c.Entities).(map[string]any), escapeDollars(text)
		}
		say.add(text, c.SaveAs)
		out = append(out, c)
	}
	return append(out, planCommand{Type: "SAY", Response: say.String()})
}

// sentences is the text of a SAY as it grows.
type sentences struct {
	strings.Builder
	paragraph bool // the last one is a result, which may be long
}

func (s *sentences) add(text, variable string) {
	if variable != "" {
		text += "$" + variable
	}
	if text == "" {
		return
	}
	switch {
	case s.Len() == 0:
	case s.paragraph || variable != "":
		s.WriteString("\n\n")
	default:
		s.WriteString(" ")
	}
	s.WriteString(text)
	s.paragraph = variable != ""
}

// describe is the sentence about deeds[i], for a result what stands before it.
// The first of several deeds of a kind speaks for all.
func describe(deeds []deed, i int) string {
	d := deeds[i]
	switch {
	case d.followUp, d.plain:
		return ""
	case d.given != nil:
		return "Ran " + d.action + ". "
	}
	switch d.action {
	case createList:
		text := "The " + d.list + " list is ready."
		if len(d.items) > 0 {
			text += " It has " + enumerate(d.items) + "."
		}
		return text
	case addItem:
		whose := "The " + d.list + " list"
		if i > 0 && deeds[i-1].list == d.list && deeds[i-1].variable() == "" {
			whose = "It"
		}
		return whose + " now has " + enumerate(sameKind(deeds[i:])) + "."
	case summarizeLists:
		return "Here are your lists:\n\n"
	default:
		return ""
	}
}

// sameKind are the items of the first deed and of those that follow it up.
func sameKind(deeds []deed) []string {
	items := []string{deeds[0].item}
	for _, d := range deeds[1:] {
		if !d.followUp {
			break
		}
		items = append(items, d.item)
	}
	return items
}

func enumerate(items []string) string {
	last := len(items) - 1
	if last < 1 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
