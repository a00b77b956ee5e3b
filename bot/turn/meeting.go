package turn

import (
	"context"
	"errors"

	"github.com/planbot-go/planbot/connector"
)

// errNoMeeting says that a turn is about no meeting.
var errNoMeeting = errors.New("the activity comes from no meeting")

// The calls below are made at once, not with what the turn sends. So a handler that runs again makes
// them again. Their errors are those of [connector.Client], but for a turn whose activity comes from
// no meeting.

// Meeting returns the details of the meeting that the turn's activity comes from, see
// [connector.Client.Meeting].
func (t *Turn) Meeting(ctx context.Context) (connector.Meeting, error) {
	id := t.Activity.MeetingID()
	if id == "" {
		return connector.Meeting{}, errNoMeeting
	}
	return t.engine.cfg.Channel.Meeting(ctx, t.Activity.Reference(), id)
}

// MeetingParticipant returns a person of that meeting by their id in Microsoft Entra, such as
// Activity.From.AadObjectID, see [connector.Client.Participant].
func (t *Turn) MeetingParticipant(ctx context.Context, user string) (connector.Participant, error) {
	id := t.Activity.MeetingID()
	if id == "" {
		return connector.Participant{}, errNoMeeting
	}
	return t.engine.cfg.Channel.Participant(ctx, t.Activity.Reference(), id, user)
}

// NotifyMeeting shows something to people in that meeting and returns those who are not shown it, see
// [connector.Client.NotifyMeeting].
func (t *Turn) NotifyMeeting(ctx context.Context, n connector.MeetingNotification) (failed []connector.MeetingNotificationFailure, err error) {
	id := t.Activity.MeetingID()
	if id == "" {
		return nil, errNoMeeting
	}
	return t.engine.cfg.Channel.NotifyMeeting(ctx, t.Activity.Reference(), id, n)
}
