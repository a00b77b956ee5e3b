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

// met is somebody or something that an activity names. A name stands for who has it; the
// bot keeps its own stand-in.
type met struct{ kind, id, name string }

const theBot = "bot"

// metIn are who and where an activity is of.
func metIn(a *activity.Activity) []met {
	all := []met{{theBot, a.Recipient.ID, ""}}
	person := func(who activity.Account) {
		if who.ID != a.Recipient.ID {
			all = append(all, met{scrub.Person, who.ID, who.Name})
		}
	}
	person(a.From)
	for _, who := range a.MembersAdded {
		person(who)
	}
	for _, m := range a.Mentions() {
		person(m.Mentioned)
	}
	all = append(all, met{scrub.Conversation, a.Conversation.BaseID(), ""}, met{scrub.Activity, a.ID, ""})
	if tenant, ok := a.Tenant(); ok {
		all = append(all, met{scrub.Tenant, tenant, ""})
	}
	return all
}

// learn tells the scrubber of them.
func learn(all []met, s *scrub.Scrubber) {
	for _, m := range all {
		switch {
		case m.kind == theBot && m.id != "":
			s.Keep(m.id, bottest.BotID)
		case m.kind == scrub.Person:
			s.Name(m.id, m.name)
		case m.kind != theBot:
			s.ID(m.kind, m.id)
		}
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
	if d, ok := decisionIn(a); ok {
		e.Value, e.Text, e.Name = map[string]any{"approve": d.approve}, nil, ""
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
	if installed(a) { // the other form of the same, as a scenario has it
		e.Type, e.MembersAdded = string(activity.ConversationUpdate), []map[string]any{{"id": bottest.BotID}}
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

// decision is what a person says to an approval.
type decision struct {
	approve  bool
	approval string // which; "" where that is not said
}

// decisionIn reads the click on a card that asks for an approval, or what stands for one.
func decisionIn(a *activity.Activity) (d decision, ok bool) {
	if words := strings.Fields(a.Said()); a.Type == activity.Message && len(words) > 1 && len(words) < 4 {
		approves := strings.EqualFold(words[0], "/approve")
		if approves || strings.EqualFold(words[0], "/reject") {
			return decision{approves, words[1]}, true
		}
	}
	var value struct {
		Verb     string `json:"verb"`
		Approval string `json:"approval"`
		Action   struct {
			Verb string `json:"verb"`
			Data struct {
				Approval string `json:"approval"`
			} `json:"data"`
		} `json:"action"`
	}
	if json.Unmarshal(a.Value, &value) != nil {
		return decision{}, false
	}
	d.approval = value.Approval + value.Action.Data.Approval
	switch value.Verb + value.Action.Verb {
	case "planbot/approve", "planbot/approve-always":
		d.approve = true
		return d, true
	case "planbot/reject":
		return d, true
	}
	return decision{}, false
}

// treeOf is JSON as maps, lists and texts.
func treeOf(raw []byte) (tree any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&tree) // it is what came over the wire as JSON
	return tree
}
