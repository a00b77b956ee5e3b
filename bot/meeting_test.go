package bot_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/connector"
)

// inMeeting is a part of an activity from the chat of a meeting.
func inMeeting(over event) event {
	a := event{
		"conversation": event{"id": "19:meeting_m1@thread.v2", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"},
		"channelData":  event{"tenant": event{"id": "t1"}, "meeting": event{"id": "MCMx/+=="}},
	}
	for name, value := range over {
		a[name] = value
	}
	return a
}

func TestEventsOfTeams(t *testing.T) {
	t.Parallel()
	const name = "application/vnd.microsoft."
	meeting := func(what string) func(context.Context, *bot.Turn, connector.Meeting) error {
		return func(ctx context.Context, t *bot.Turn, m connector.Meeting) error {
			return t.Tell(ctx, fmt.Sprintf("%s %s %s %s %v %v", what, m.ID, m.Title, m.Type, m.Start.Unix(), m.End.IsZero()))
		}
	}
	people := func(what string) func(context.Context, *bot.Turn, []connector.Participant) error {
		return func(ctx context.Context, t *bot.Turn, all []connector.Participant) error {
			for _, p := range all {
				what += fmt.Sprintf(" %s/%s/%s/%v/%s", p.User.ID, p.User.AadObjectID, p.User.Name, p.InMeeting, p.Role)
			}
			return t.Tell(ctx, what)
		}
	}
	events := teams.Events{
		MeetingStarted: meeting("started"), MeetingEnded: meeting("ended"), MeetingJoined: people("joined"), MeetingLeft: people("left"),
		Read: func(ctx context.Context, t *bot.Turn, r teams.ReadReceipt) error {
			return t.Tell(ctx, fmt.Sprint("read ", r.MessageID, r.Covers("999"), r.Covers("1000"), r.Covers("1001"), r.Covers("x")))
		},
	}
	tests := []struct {
		name  string
		over  event
		want  string // "": nothing
		quiet bool
	}{
		{"start", inMeeting(event{"name": name + "meetingStart", "value": event{"Id": "M1", "MeetingType": "Scheduled", "Title": "Stand-up", "JoinUrl": "https://teams", "StartTime": "2026-08-01T09:00:00.0000000Z"}}), "started M1 Stand-up Scheduled 1785574800 true", false},
		{"end, in the other case", inMeeting(event{"name": name + "meetingEnd", "value": event{"id": "M1", "meetingType": "Recurring", "title": "Stand-up", "endTime": "2026-08-01T09:00:00Z"}}), "ended M1 Stand-up Recurring -62135596800 false", false},
		{"joined", inMeeting(event{"name": name + "meetingParticipantJoin", "value": event{"members": []any{
			event{"user": event{"aadObjectId": "aad-mia", "name": "Mia"}, "meeting": event{"inMeeting": true, "role": "Organizer"}},
			event{"User": event{"id": "29:ben"}, "Meeting": event{"InMeeting": true}},
		}}}), "joined /aad-mia/Mia/true/Organizer 29:ben///true/", false},
		{"left", inMeeting(event{"name": name + "meetingParticipantLeave", "value": event{"members": []any{event{"user": event{"id": "29:ben"}, "meeting": event{"inMeeting": false}}}}}), "left 29:ben///false/", false},
		{"plural", inMeeting(event{"name": name + "meetingParticipantsJoin", "value": event{"members": []any{event{}}}}), "", false},
		{"read", event{"name": name + "readReceipt", "value": event{"lastReadMessageId": "1000"}}, "read 1000true true false false", false},
		{"read nothing", event{"name": name + "readReceipt", "value": event{}}, "", false},
		{"a list as value", event{"name": name + "readReceipt", "value": []any{1}}, "", false},
		{"a number as id", event{"name": name + "readReceipt", "value": event{"lastReadMessageId": 7}}, "", false},
		{"nobody", inMeeting(event{"name": name + "meetingParticipantJoin", "value": event{"members": []any{}}}), "", false},
		{"unknown", event{"name": name + "somethingNew", "value": event{"a": 1}}, "", false},
		{"without a handler", inMeeting(event{"name": name + "meetingStart", "value": event{"Id": "M1"}}), "", true},
		{"a message of that name", event{"type": "message", "text": "", "name": name + "meetingStart", "value": nil}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, func(c *bot.Config) {
					if !tt.quiet {
						c.Teams.Events = events
					}
				})
				if tt.over["type"] == nil {
					tt.over["type"] = "event"
				}
				if got := b.deliver(tt.over); got.status != http.StatusOK {
					t.Errorf("answered with %d %s", got.status, got.body)
				}
				if tt.over["type"] == "message" {
					return
				}
				if tt.want != "" {
					b.expect(tt.want)
				}
				b.connector.None(t)
			})
		})
	}
}

// TestTurnsCallTeamsAboutMeetings.
func TestTurnsCallTeamsAboutMeetings(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var asked []string
		answers := map[string]string{
			"GET /v1/meetings/MCMx%2F%2B%3D%3D": `{"details":{"id":"M1","msGraphResourceId":"G1","title":"Stand-up","type":"Recurring","scheduledStartTime":"2026-08-01T09:00:00Z","joinUrl":"https://teams"},
			"conversation":{"id":"19:meeting_m1@thread.v2","isGroup":true},"organizer":{"id":"29:mia","name":"Mia"}}`,
			"GET /v1/meetings/MCMx%2F%2B%3D%3D/participants/aad-mia?tenantId=t1": `{"user":{"id":"29:mia","name":"Mia"},"meeting":{"role":"Presenter","inMeeting":true}}`,
			"POST /v1/meetings/MCMx%2F%2B%3D%3D/notification":                    `{"recipientsFailureInfo":[{"recipientMri":"29:ben","errorCode":"MemberNotFound","failureReason":"not there"}]}`,
		}
		service := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			what := r.Method + " " + r.RequestURI
			asked = append(asked, what+string(body))
			if answers[what] == "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusMultiStatus)
			}
			_, _ = io.WriteString(w, answers[what])
		}))

		told := make(chan string, 1)
		b.bot.OnMessage(nil, func(ctx context.Context, t *bot.Turn) error {
			m, err := teams.Meeting(ctx, t)
			if err != nil {
				told <- err.Error()
				return nil
			}
			p, err := teams.MeetingParticipant(ctx, t, t.Activity.From.AadObjectID)
			if err != nil {
				return err
			}
			failed, err := teams.NotifyMeeting(ctx, t, connector.MeetingNotification{Recipients: []string{"29:mia", "29:ben"}, URL: "https://contoso.com/p", Title: "Look", Height: 200, TabEntityID: "tab"})
			told <- fmt.Sprint(m.ID, m.GraphID, m.Title, m.Type, m.Start.Unix(), m.End.IsZero(), m.Organizer.Name, m.Conversation, p.User.Name, p.InMeeting, p.Role, failed, err)
			return nil
		})
		b.deliver(inMeeting(event{"serviceUrl": service.URL, "text": "<at>Planbot</at> look", "entities": []any{event{
			"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot", "name": "Planbot"},
		}}}))
		want := "M1 G1 Stand-up Recurring 1785574800 true Mia 19:meeting_m1@thread.v2 Mia true Presenter [{29:ben MemberNotFound not there}] <nil>"
		if got := <-told; strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
			t.Errorf("told\n%s\nwant\n%s", got, want)
		}
		const post = `POST /v1/meetings/MCMx%2F%2B%3D%3D/notification{"type":"targetedMeetingNotification","value":{"recipients":["29:mia","29:ben"],` +
			`"surfaces":[{"content":{"value":{"height":200,"title":"Look","url":"https://contoso.com/p"}},"contentType":"task","surface":"meetingStage"},{"surface":"meetingTabIcon","tabEntityId":"tab"}]}}`
		if len(asked) != 3 || asked[2] != post {
			t.Errorf("asked %q", asked)
		}
		b.deliver(event{"text": "no meeting"})
		if got := <-told; got != "the activity comes from no meeting" {
			t.Errorf("told %s", got)
		}
	})
}
