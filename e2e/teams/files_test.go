package teams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
)

// offerCommand makes the bot of a case offer a file: its name and its size follow.
const offerCommand = "/offer-a-file"

func offerRoute(m *making) {
	m.on = append(m.on, func(b *bot.Bot) {
		b.OnCommand(offerCommand, func(ctx context.Context, t *bot.Turn) error {
			var f actions.File
			size := 0
			if _, err := fmt.Sscanf(t.Text, "%s %d", &f.Name, &size); err != nil {
				return err
			}
			f.Content = bytes.Repeat([]byte("x"), size)
			return t.SendFile(ctx, f)
		})
	})
}

// offerFiles has the people of the case get offers of files.
func offerFiles(p *played, kit *bottest.Kit, _ given, raw json.RawMessage) {
	var files map[string]struct {
		Person, Conversation, Name string
		Size                       int
	}
	_ = json.Unmarshal(raw, &files) // without files, nothing stands for their ids
	for id, f := range files {
		post(kit, map[string]any{
			"type": "message", "id": "offer:" + id, "channelId": "msteams", "serviceUrl": "https://smba.trafficmanager.net/emea/",
			"from": map[string]any{"id": f.Person}, "recipient": map[string]any{"id": "28:bot"},
			"conversation": map[string]any{"id": f.Conversation, "conversationType": "personal", "tenantId": "t-1"},
			"channelData":  map[string]any{"tenant": map[string]any{"id": "t-1"}},
			"text":         fmt.Sprintf("%s %s %d", offerCommand, f.Name, f.Size),
		})
		kit.Settle()
		for _, s := range kit.Connector.Sent() {
			for _, at := range s.Activity.Attachments {
				var offer struct {
					AcceptContext struct{ F string } `json:"acceptContext"`
				}
				if json.Unmarshal(at.Content, &offer) == nil && offer.AcceptContext.F != "" {
					p.stands[id] = offer.AcceptContext.F // the last one is the newest
				}
			}
		}
	}
}

// attachmentRoute answers a message with a file.
func attachmentRoute(m *making, _ string, h *handler) {
	m.on = append(m.on, func(b *bot.Bot) {
		b.OnMessage(func(t *bot.Turn) bool { return len(t.Activity.Attachments) > 0 }, func(ctx context.Context, t *bot.Turn) error {
			given := map[string]any{"files": len(t.Files)}
			if h.Download {
				for _, f := range t.Files {
					content, mediaType, err := f.Open(ctx)
					if err != nil {
						return err
					}
					given["name"], given["type"], given["size"] = f.Name, mediaType, content.Size()
				}
			}
			if err := h.called(ctx, given); err != nil || h.Note || h.Text == "" {
				return err
			}
			return t.Send(ctx, t.Message(h.Text))
		})
	})
}

// meetingRoute is about the begin (start) or the end (end) of a meeting.
func meetingRoute(end bool) func(m *making, _ string, h *handler) {
	return func(m *making, _ string, h *handler) {
		route := func(ctx context.Context, t *bot.Turn, in connector.Meeting) error {
			at := in.Start
			if end {
				at = in.End
			}
			if err := h.called(ctx, map[string]any{"id": in.ID, "title": in.Title, "type": in.Type, "url": in.JoinURL, "time": at.UTC().Format(time.RFC3339)}); err != nil || h.Text == "" {
				return err
			}
			return t.Send(ctx, t.Message(h.Text))
		}
		if end {
			m.cfg.Teams.Events.MeetingEnded = route
		} else {
			m.cfg.Teams.Events.MeetingStarted = route
		}
	}
}

// peopleRoute is about people who join or leave a meeting.
func peopleRoute(on func(e *teams.Events) *func(context.Context, *bot.Turn, []connector.Participant) error) func(m *making, _ string, h *handler) {
	return func(m *making, _ string, h *handler) {
		*on(&m.cfg.Teams.Events) = func(ctx context.Context, t *bot.Turn, people []connector.Participant) error {
			var all []map[string]any
			for _, p := range people {
				all = append(all, map[string]any{"id": p.User.ID, "name": p.User.Name, "aadObjectId": p.User.AadObjectID, "inMeeting": p.InMeeting, "role": p.Role})
			}
			if err := h.called(ctx, map[string]any{"members": all, "participants": all, "count": len(all)}); err != nil || h.Text == "" {
				return err
			}
			return t.Send(ctx, t.Message(h.Text))
		}
	}
}

func joined(e *teams.Events) *func(context.Context, *bot.Turn, []connector.Participant) error {
	return &e.MeetingJoined
}

func left(e *teams.Events) *func(context.Context, *bot.Turn, []connector.Participant) error {
	return &e.MeetingLeft
}

func receiptRoute(m *making, _ string, h *handler) {
	m.cfg.Teams.Events.Read = func(ctx context.Context, _ *bot.Turn, r teams.ReadReceipt) error {
		return h.called(ctx, map[string]any{"message": r.MessageID})
	}
}

// inMeeting makes the calls about a meeting that a handler stands for, and returns its text with what
// came of them.
func (h *handler) inMeeting(ctx context.Context, t *bot.Turn) (string, error) {
	text := h.Text
	if n := h.NotifyMeeting; n != nil {
		failed, err := teams.NotifyMeeting(ctx, t, connector.MeetingNotification{Recipients: n.Recipients, URL: n.URL})
		if err != nil {
			return "", err
		}
		var who []string
		for _, f := range failed {
			who = append(who, f.Recipient)
		}
		text = strings.ReplaceAll(text, "{failed}", strings.Join(who, ", "))
	}
	if h.MeetingInfo {
		m, err := teams.Meeting(ctx, t)
		if err != nil {
			return "", err
		}
		text = strings.NewReplacer("{title}", m.Title, "{type}", m.Type, "{id}", m.ID, "{url}", m.JoinURL, "{organizer}", m.Organizer.Name,
			"{start}", m.Start.UTC().Format(time.RFC3339), "{end}", m.End.UTC().Format(time.RFC3339)).Replace(text)
	}
	return text, nil
}
