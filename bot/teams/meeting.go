package teams

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
)

// Events are handlers of what happens in Teams besides messages. Nobody asked, so nobody is told of an
// error: it goes to the log. Teams may send an event twice, and also before the bot has seen the
// conversation or after it was removed. A nil handler ignores its event. [Meeting] and its like
// say more about a meeting.
type Events struct {
	// MeetingStarted and MeetingEnded are about meetings that somebody scheduled, and need the
	// permission OnlineMeeting.ReadBasic.Chat, or ChannelMeeting.ReadBasic.Group. m has ID, Type,
	// Title, JoinURL and Start or End.
	MeetingStarted, MeetingEnded func(ctx context.Context, t *turn.Turn, m connector.Meeting) error
	// MeetingJoined and MeetingLeft get everybody whom one event names. They need the permission
	// OnlineMeetingParticipant.Read.Chat.
	MeetingJoined, MeetingLeft func(ctx context.Context, t *turn.Turn, people []connector.Participant) error
	// Read says that the person has read the bot's messages in their personal chat up to one. It
	// needs the permission ChatMessageReadReceipt.Read.Chat, and people or their organization may
	// have switched it off.
	Read func(ctx context.Context, t *turn.Turn, r ReadReceipt) error
}

// ReadReceipt says up to which message a person has read.
type ReadReceipt struct {
	MessageID string `json:"lastReadMessageId"`
}

// Covers reports whether the person has read the message with that id, as [turn.Turn.Sent] returns
// it.
func (r ReadReceipt) Covers(id string) bool {
	read, other := strings.TrimLeft(r.MessageID, "0"), strings.TrimLeft(id, "0")
	return digits(read) && digits(other) && cmp.Or(cmp.Compare(len(other), len(read)), strings.Compare(other, read)) <= 0
}

// digits reports whether the id is a number, as those of Teams are.
func digits(id string) bool { return id != "" && strings.Trim(id, "0123456789") == "" }

const microsoft = "application/vnd.microsoft."

// Handler returns the handler of an activity; nil: it is no event of these. It is for package bot.
func (e *Events) Handler(a *activity.Activity) turn.Handler {
	if a.Type != activity.Event {
		return nil
	}
	switch strings.TrimPrefix(a.Name, microsoft) {
	case "meetingStart":
		return event(e.MeetingStarted, readMeeting)
	case "meetingEnd":
		return event(e.MeetingEnded, readMeeting)
	case "meetingParticipantJoin":
		return event(e.MeetingJoined, readPeople)
	case "meetingParticipantLeave":
		return event(e.MeetingLeft, readPeople)
	case "readReceipt":
		return event(e.Read, readReceipt)
	}
	return nil
}

// event returns the handler of an event. One whose value is of another form is ignored.
func event[In any](h func(context.Context, *turn.Turn, In) error, read func(*activity.Activity) (In, bool)) turn.Handler {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, t *turn.Turn) error {
		in, ok := read(t.Activity)
		if !ok {
			zerolog.Ctx(ctx).Warn().Str("event", t.Activity.Name).Msg("event ignored: its value is of another form")
			return nil
		}
		return h(ctx, t, in)
	}
}

// decode reads the value of an event, whose members Teams writes in either case.
func decode(a *activity.Activity, into any) bool {
	return a.Value.Kind() == '{' && json.Unmarshal(a.Value, into, json.MatchCaseInsensitiveNames(true)) == nil
}

func readMeeting(a *activity.Activity) (connector.Meeting, bool) {
	var wire struct {
		ID      string `json:"id"`
		Type    string `json:"meetingType"`
		Title   string `json:"title"`
		JoinURL string `json:"joinUrl"`
		Start   string `json:"startTime"`
		End     string `json:"endTime"`
	}
	if !decode(a, &wire) {
		return connector.Meeting{}, false
	}
	m := connector.Meeting{ID: wire.ID, Type: wire.Type, Title: wire.Title, JoinURL: wire.JoinURL, Conversation: a.Conversation.ID}
	m.Start, _ = time.Parse(time.RFC3339, wire.Start) // zero if there is none
	m.End, _ = time.Parse(time.RFC3339, wire.End)
	return m, true
}

func readPeople(a *activity.Activity) ([]connector.Participant, bool) {
	var wire struct {
		Members []connector.Participant `json:"members"`
	}
	ok := decode(a, &wire)
	return wire.Members, ok && len(wire.Members) > 0
}

func readReceipt(a *activity.Activity) (r ReadReceipt, ok bool) {
	ok = decode(a, &r)
	return r, ok && r.MessageID != ""
}

// inMeeting calls f with the id of the meeting that the turn's activity comes from.
func inMeeting[T any](t *turn.Turn, f func(c turn.Channel, id string) (T, error)) (none T, err error) {
	id := t.Activity.MeetingID()
	if id == "" {
		return none, errors.New("the activity comes from no meeting")
	}
	return f(turn.ChannelOf(t), id)
}

// The calls below are made at once, see [turn.ChannelOf]. Their errors are those of [connector.Client], but for a turn
// whose activity comes from no meeting.

// Meeting returns the details of the meeting that the turn's activity comes from, see [connector.Client.Meeting].
func Meeting(ctx context.Context, t *turn.Turn) (connector.Meeting, error) {
	return inMeeting(t, func(c turn.Channel, id string) (connector.Meeting, error) {
		return c.Meeting(ctx, t.Activity.Reference(), id)
	})
}

// MeetingParticipant returns a person of that meeting by their id in Microsoft Entra, such as
// Activity.From.AadObjectID, see [connector.Client.Participant].
func MeetingParticipant(ctx context.Context, t *turn.Turn, user string) (connector.Participant, error) {
	return inMeeting(t, func(c turn.Channel, id string) (connector.Participant, error) {
		return c.Participant(ctx, t.Activity.Reference(), id, user)
	})
}

// NotifyMeeting shows something to people in that meeting and returns those who are not shown it, see
// [connector.Client.NotifyMeeting].
func NotifyMeeting(ctx context.Context, t *turn.Turn, n connector.MeetingNotification) ([]connector.MeetingNotificationFailure, error) {
	return inMeeting(t, func(c turn.Channel, id string) ([]connector.MeetingNotificationFailure, error) {
		return c.NotifyMeeting(ctx, t.Activity.Reference(), id, n)
	})
}
