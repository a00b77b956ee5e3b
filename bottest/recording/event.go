package recording

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/internal/scrub"
)

// mentioned is how scenarios mention the bot.
const mentioned = "<at>ListBot</at>"

// learn tells the scrubber who and where an activity is of.
func learn(a *activity.Activity, s *scrub.Scrubber) {
	if a.Recipient.ID != "" {
		s.Keep(a.Recipient.ID, bottest.BotID)
	}
	for _, who := range append([]activity.Account{a.From}, a.MembersAdded...) {
		if who.ID != a.Recipient.ID {
			s.Name(who.ID, who.Name)
		}
	}
	for _, m := range a.Mentions() {
		if m.Mentioned.ID != a.Recipient.ID {
			s.Name(m.Mentioned.ID, m.Mentioned.Name)
		}
	}
	s.ID(scrub.Conversation, a.Conversation.BaseID())
	s.ID(scrub.Activity, a.ID)
	if tenant, ok := a.Tenant(); ok {
		s.ID(scrub.Tenant, tenant)
	}
}

// eventOf is the activity as a scenario has it, with stand-ins for people and places. What
// a bot does not look at is left out.
func eventOf(a *activity.Activity, s *scrub.Scrubber) *scenario.Event {
	e := &scenario.Event{
		Type: string(a.Type), Name: s.Text(a.Name), Conversation: placeOf(a, s), Kind: kindOf(a),
		From: s.ID(scrub.Person, a.From.ID),
	}
	text, entities := textOf(a, s)
	if a.Text != "" {
		e.Text = &text
	}
	e.Entities = entities
	if approve, ok := decisionIn(a); ok {
		e.Value, e.Text, e.Name = map[string]any{"approve": approve}, nil, ""
	} else if len(a.Value) > 0 {
		e.Value = s.Value(treeOf(a.Value))
	}
	var data struct {
		EventType string `json:"eventType"`
	}
	if json.Unmarshal(a.ChannelData, &data) == nil && data.EventType != "" {
		e.ChannelData = map[string]any{"eventType": data.EventType}
	}
	for _, who := range a.MembersAdded {
		id := bottest.BotID
		if who.ID != a.Recipient.ID {
			id = "29:" + s.ID(scrub.Person, who.ID)
		}
		e.MembersAdded = append(e.MembersAdded, map[string]any{"id": id})
	}
	for _, at := range a.Attachments {
		if !strings.HasPrefix(at.ContentType, "text/html") { // a copy of the text
			e.Attachments = append(e.Attachments, map[string]any{"contentType": at.ContentType})
		}
	}
	return e
}

// placeOf is the stand-in of the conversation, with a thread if it is one.
func placeOf(a *activity.Activity, s *scrub.Scrubber) string {
	base, thread, inThread := strings.Cut(a.Conversation.ID, ";messageid=")
	place := s.ID(scrub.Conversation, base)
	if inThread {
		place += ";messageid=" + s.ID(scrub.Activity, thread)
	}
	return place
}

func kindOf(a *activity.Activity) string {
	switch {
	case a.Conversation.Personal():
		return "" // the default
	case a.Conversation.ConversationType == "channel":
		return "channel"
	}
	return "groupChat"
}

// textOf is what was written, with the mention of the bot as scenarios have it, and the
// mentions in it if there are other ones.
func textOf(a *activity.Activity, s *scrub.Scrubber) (text string, entities []map[string]any) {
	text = a.Text
	others := false
	var all []map[string]any
	for _, m := range a.Mentions() {
		standIn, id, name := mentioned, bottest.BotID, "ListBot"
		if m.Mentioned.ID != a.Recipient.ID {
			name = s.ID(scrub.Person, m.Mentioned.ID)
			standIn, id, others = "<at>"+name+"</at>", "29:"+name, true
		}
		if m.Text != "" {
			text = strings.ReplaceAll(text, m.Text, standIn)
		}
		all = append(all, map[string]any{"type": "mention", "text": standIn, "mentioned": map[string]any{"id": id, "name": name}})
	}
	if !others {
		all = nil // the runner adds that of the bot
	}
	if a.Type == activity.Message && a.ChannelID != activity.Teams && !a.Conversation.Personal() && !a.Addressed() {
		text = mentioned + " " + text // Teams, which scenarios play in, would not tell the bot otherwise
	}
	return s.Text(text), all
}

// decisionIn reads the click on a card that asks for an approval, or what stands for one.
func decisionIn(a *activity.Activity) (approve, ok bool) {
	if words := strings.Fields(strings.ToLower(a.Said())); a.Type == activity.Message && len(words) > 1 && len(words) < 4 {
		if approve = words[0] == "/approve"; approve || words[0] == "/reject" {
			return approve, true
		}
	}
	var value struct {
		Verb   string `json:"verb"`
		Action struct {
			Verb string `json:"verb"`
		} `json:"action"`
	}
	if json.Unmarshal(a.Value, &value) != nil {
		return false, false
	}
	switch value.Verb + value.Action.Verb {
	case "planbot/approve", "planbot/approve-always":
		return true, true
	case "planbot/reject":
		return false, true
	}
	return false, false
}

// treeOf is JSON as maps, lists and texts.
func treeOf(raw []byte) (tree any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&tree) // it is what came over the wire as JSON
	return tree
}
