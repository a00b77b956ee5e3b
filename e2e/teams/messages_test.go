package teams_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

func init() { preparers["welcomed"] = welcomed }

// welcomed adds the bot to conversations.
func welcomed(p *played, kit *bottest.Kit, g given, state json.RawMessage) {
	var ids []string
	if err := json.Unmarshal(state, &ids); err != nil {
		p.faults = append(p.faults, "given.state.welcomed: "+err.Error())
	}
	kind := map[string]string{"": "personal", "group": "groupChat", "meeting": "groupChat"}
	for i, id := range ids {
		_, name, _ := strings.Cut(id, ":")
		post(kit, map[string]any{
			"type": "installationUpdate", "action": "add", "id": fmt.Sprint("welcome-", i), "channelId": "msteams", "serviceUrl": "https://smba.trafficmanager.net/emea/",
			"from": map[string]any{"id": "29:" + name}, "recipient": map[string]any{"id": "28:bot", "name": "Planbot"},
			"conversation": map[string]any{"id": id, "conversationType": cmp.Or(kind[g.Scope], g.Scope), "tenantId": "t-1"},
			"channelData":  map[string]any{"tenant": map[string]any{"id": "t-1"}},
		})
	}
}

// forgotten notes that the bot deletes what it keeps about a person.
func (p *played) forgotten(context.Context, *actions.Turn) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.purged = true
	return "", nil
}

// quoted notes what a handler sees of quotations.
func (p *played) quoted(a *activity.Activity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range a.Quotes() {
		p.quotes = append(p.quotes, map[string]any{
			"messageId": q.ID, "senderId": q.From.ID, "senderName": q.From.Name, "preview": q.Text,
			"id": q.ID, "sender": q.From.Name, "name": q.From.Name, "text": q.Text,
		})
	}
}

// says does what the handler says about messages and reactions.
func (h *handler) says(ctx context.Context, t *bot.Turn, g given) error {
	if h.React != "" {
		t.React(ctx, h.React, true)
	}
	if h.Unreact != "" {
		t.React(ctx, h.Unreact, false)
	}
	if h.Text == "" && h.Attachments == nil {
		return nil
	}
	m, err := h.message(t, g, h.Text)
	if err == nil {
		err = t.Send(ctx, m)
	}
	if err != nil || h.ThenUpdate == "" {
		return err
	}
	if m, err = h.message(t, g, h.ThenUpdate); err != nil {
		return err
	}
	sent := t.Sent()
	m.Type, m.ID = activity.MessageUpdate, sent[len(sent)-1]
	return t.Send(ctx, m)
}

// message makes the handler's message.
func (h *handler) message(t *bot.Turn, g given, text string) (*activity.Activity, error) {
	m := t.Message(text)
	if h.AI {
		m.LabelAI()
	}
	if h.Sensitivity != nil {
		m.Label(h.Sensitivity.label())
	}
	next := 1
	for _, c := range h.Citations {
		for ; next < c.Position; next++ { // a number that the case leaves out
			m.Cite(activity.Citation{})
		}
		next++
		m.Cite(activity.Citation{Title: c.Title, URL: c.URL, Abstract: c.Abstract, Keywords: c.Keywords, Sensitivity: cmp.Or(c.Sensitivity, c.Label).label()})
	}
	for _, raw := range h.Suggestions {
		if err := suggest(m, raw); err != nil {
			return nil, err
		}
	}
	for _, raw := range h.Attachments {
		var a activity.Attachment
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, err
		}
		m.Attachments = append(m.Attachments, a)
	}
	if g.Options.Feedback != "" {
		m.AskFeedback(g.Options.Feedback)
	}
	return m, nil
}

// suggest adds a suggestion of any kind.
func suggest(m *activity.Activity, raw json.RawMessage) error {
	var s struct {
		Type, Title string
		Value       any
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	switch text, _ := s.Value.(string); {
	case s.Type == "Action.Submit":
		m.SuggestSubmit(s.Title, s.Value)
	case s.Type == "imBack" && text == s.Title:
		m.Suggest(text)
	default:
		if m.SuggestedActions == nil {
			m.SuggestedActions = &activity.SuggestedActions{}
		}
		m.SuggestedActions.Actions = append(m.SuggestedActions.Actions, jsontext.Value(raw))
	}
	return nil
}
