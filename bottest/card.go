package bottest

import (
	"fmt"
	"maps"
)

// ID is the id of the message with the card.
func (c *Card) ID() string { return c.message.ID }

// Buttons are the actions of the card, as they are in its JSON.
func (c *Card) Buttons() []map[string]any { return c.actions }

// Click is the activity of a click on one of the card's buttons: an invoke or, for an
// Action.Submit, a message. The error is that of inputs which are no names with values.
func (c *Card) Click(button map[string]any, inputs ...any) (Activity, error) {
	data := map[string]any{}
	if of, ok := button["data"].(map[string]any); ok {
		maps.Copy(data, of)
	}
	for i := 0; i < len(inputs); i += 2 {
		id, ok := inputs[i].(string)
		if !ok || i+1 == len(inputs) {
			return nil, fmt.Errorf("inputs of a card are ids with values, not %v", inputs)
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
