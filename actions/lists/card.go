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
)

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

// refreshed shows the lists as they are now.
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

// rows returns the lines of what is shown.
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
