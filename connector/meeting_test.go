package connector_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/planbot-go/planbot/connector"
)

func TestANotificationThatTeamsWouldRefuse(t *testing.T) {
	t.Parallel()
	c := newClient(t, withApp(unreachable(t)), fixedToken("t"))
	for name, n := range map[string]connector.MeetingNotification{
		"for nobody":         {URL: "https://contoso.com"},
		"for an id of Entra": {URL: "https://contoso.com", Recipients: []string{"29:mia", "00000000-0000-0000-0000-00000000000a"}},
		"for a name":         {URL: "https://contoso.com", Recipients: []string{"mia@contoso.com"}},
		"of nothing":         {Recipients: []string{"29:mia"}},
		"of plain http":      {URL: "http://contoso.com", Recipients: []string{"29:mia"}},
		"of a script":        {URL: "javascript:alert(1)", Recipients: []string{"29:mia"}},
	} {
		if _, err := c.NotifyMeeting(t.Context(), reference(serviceURL), "m", n); !errors.Is(err, connector.ErrBadCall) {
			t.Errorf("%s: err %v", name, err)
		}
	}
	if _, err := c.Meeting(t.Context(), reference(serviceURL), ".."); !errors.Is(err, connector.ErrBadCall) {
		t.Errorf("the id ..: err %v", err)
	}
	if _, err := c.Meeting(t.Context(), reference("https://evil.example"), "m"); !errors.Is(err, connector.ErrHostNotAllowed) {
		t.Errorf("another host: err %v", err)
	}
}

func TestMeetingsThatAreNotThere(t *testing.T) {
	t.Parallel()
	r := newRest(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, err := r.Meeting(t.Context(), r.ref, "MQ==")
	if refused, _ := errors.AsType[*connector.Error](err); refused == nil || refused.Status != http.StatusForbidden {
		t.Errorf("err %v", err)
	}
	r.want(t, sent{"GET", "/amer/v1/meetings/MQ%3D%3D", "Bearer secret-token", ""})
}

func TestANotificationThatAllGot(t *testing.T) {
	t.Parallel()
	r := newRest(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	failed, err := r.NotifyMeeting(t.Context(), r.ref, "m/1", connector.MeetingNotification{Recipients: []string{"29:mia"}, TabEntityID: "tab"})
	if err != nil || len(failed) > 0 {
		t.Errorf("failed %v, err %v", failed, err)
	}
	r.want(t, sent{
		"POST", "/amer/v1/meetings/m%2F1/notification", "Bearer secret-token",
		`{"type":"targetedMeetingNotification","value":{"recipients":["29:mia"],"surfaces":[{"surface":"meetingTabIcon","tabEntityId":"tab"}]}}`,
	})
}
