package bottest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ID is the id of the message with the card.
func (c *Card) ID() string { return c.message.ID }

// Buttons are the actions of the card, as they are in its JSON: those of its bar and then
// those in its body, with what lies in containers, action sets and cards that a button shows.
func (c *Card) Buttons() (buttons []map[string]any) {
	walk(c.content, func(part map[string]any) {
		if kind, _ := part["type"].(string); strings.HasPrefix(kind, "Action.") {
			buttons = append(buttons, part)
		}
	})
	return buttons
}

// Click is the activity of a click on one of the card's buttons: an invoke or, for an
// Action.Submit, a message. The error is that of a button which sends nothing to the bot, and
// of inputs which are no ids of the card's with values.
func (c *Card) Click(button map[string]any, inputs ...any) (Activity, error) {
	if kind := button["type"]; kind != "Action.Execute" && kind != "Action.Submit" {
		return nil, fmt.Errorf("the button %q is of type %v, which sends nothing to the bot: want Action.Execute or Action.Submit", button["title"], kind)
	}
	data := map[string]any{}
	if of, ok := button["data"].(map[string]any); ok {
		maps.Copy(data, of)
	}
	for i := 0; i < len(inputs); i += 2 {
		id, ok := inputs[i].(string)
		if !ok || i+1 == len(inputs) {
			return nil, fmt.Errorf("inputs of a card are ids with values, not %v", inputs)
		}
		if known := c.inputs(); !slices.Contains(known, id) {
			return nil, fmt.Errorf("the card has no input %q, it has %q", id, known)
		}
		data[id] = inputs[i+1]
	}
	if button["type"] == "Action.Submit" {
		return Activity{"type": "message", "replyToId": c.message.ID, "value": data}, nil
	}
	return Activity{
		"type": "invoke", "name": "adaptiveCard/action", "replyToId": c.message.ID,
		"value": Activity{"action": Activity{"type": button["type"], "verb": button["verb"], "id": button["id"], "data": data}, "trigger": "manual"},
	}, nil
}

// inputs are the ids of the card's inputs.
func (c *Card) inputs() (ids []string) {
	walk(c.content, func(part map[string]any) {
		kind, _ := part["type"].(string)
		if id, ok := part["id"].(string); ok && strings.HasPrefix(kind, "Input.") {
			ids = append(ids, id)
		}
	})
	return ids
}

// notSeen are the fields of a card in which nothing is for people to see: what a button sends,
// what takes the place of an element that is not understood, and what a card renews itself with.
var notSeen = []string{"data", "fallback", "refresh"}

// walk visits all objects in a part of a card that people see, the outer ones first.
func walk(part any, visit func(map[string]any)) {
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			walk(p, visit)
		}
	case map[string]any:
		visit(part)
		for _, name := range slices.Sorted(maps.Keys(part)) {
			if !slices.Contains(notSeen, name) {
				walk(part[name], visit)
			}
		}
	}
}
