package connector_test

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/infracloudio/msbotbuilder-go/core"
	library "github.com/infracloudio/msbotbuilder-go/core/activity"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/connector"
)

var _ core.Adapter = (*core.BotFrameworkAdapter)(nil)

// TestAdapter has the library read, route and answer a request, with our guard
// before it and our client behind it.
func TestAdapter(t *testing.T) {
	t.Parallel()
	d, r := newDoor(t), newRest(t, answer(201, `{"id":"1"}`))
	bot := connector.Adapter(d.Guard, r.Client)
	echo := library.HandlerFuncs{OnMessageFunc: func(turn *library.TurnContext) (schema.Activity, error) {
		return turn.SendActivity(library.MsgOptionText("echo: " + turn.Activity.Text))
	}}
	in := schema.Activity{
		Type: schema.Message, ID: "in/1", ChannelID: "msteams", ServiceURL: r.URL + "/amer", Text: "hi",
		From: schema.ChannelAccount{ID: "29:mia"}, Recipient: schema.ChannelAccount{ID: "28:bot"},
		Conversation: schema.ConversationAccount{ID: "../../evil"},
	}
	if err := bot.ProcessActivity(t.Context(), in, echo); err != nil {
		t.Fatal(err)
	}
	ref := library.GetCoversationReference(in)
	if err := bot.ProactiveMessage(t.Context(), ref, echo); err != nil {
		t.Fatal(err)
	}
	in.ReplyToID = ""
	if err := bot.UpdateActivity(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := bot.DeleteActivity(t.Context(), "a/b", ref); err != nil {
		t.Fatal(err)
	}
	const (
		token = "Bearer secret-token"
		path  = "/amer/v3/conversations/..%2F..%2Fevil/activities"
		body  = `{"type":"message","channelId":"msteams","from":{"id":"28:bot"},"conversation":{"id":"../../evil"},"replyToId":"in/1","text":"echo: `
	)
	r.want(t,
		sent{"POST", path + "/in%2F1", token, body + `hi"}`},
		sent{"POST", path + "/in%2F1", token, body + `"}`},
		sent{"PUT", path + "/in%2F1", token, `{"type":"message","channelId":"msteams","from":{"id":"29:mia"},"conversation":{"id":"../../evil"},"text":"hi"}`},
		sent{"DELETE", path + "/a%2Fb", token, ""},
	)
}

func TestAdapterNeverCallsForbiddenHosts(t *testing.T) {
	t.Parallel()
	d, r := newDoor(t), newRest(t, answer(201, `{}`))
	a := schema.Activity{Type: schema.Message, ID: "1", ServiceURL: "http://169.254.169.254/", Conversation: schema.ConversationAccount{ID: "c"}}
	err := connector.Adapter(d.Guard, r.Client).UpdateActivity(t.Context(), a)
	if err == nil || !strings.Contains(err.Error(), connector.ErrHostNotAllowed.Error()) {
		t.Errorf("err = %v, want ErrHostNotAllowed", err)
	}
}

func TestAdapterRefusesAnEmptyActivity(t *testing.T) {
	t.Parallel()
	d, r := newDoor(t), newRest(t, answer(201, `{}`))
	a := schema.Activity{ServiceURL: r.URL, Conversation: schema.ConversationAccount{ID: "c"}}
	if err := connector.Adapter(d.Guard, r.Client).UpdateActivity(t.Context(), a); err == nil {
		t.Error("no error")
	}
	r.want(t)
}

func TestAdapterReadsRequests(t *testing.T) {
	t.Parallel()
	d, r := newDoor(t), newRest(t, answer(201, `{}`))
	bot := connector.Adapter(d.Guard, r.Client)
	good := sign(t, goodClaims(time.Now()), nil)
	body := `{"type":"message","channelId":"msteams","serviceUrl":"` + serviceURL + `","conversation":{"id":"c"}}`
	for _, tt := range []struct {
		name, header, body string
		ok                 bool
	}{
		{"as it should be", "Bearer " + good, body, true},
		{"raw token", good, body, false},
		{"garbage", "x", body, false},
		{"forged service url", "Bearer " + good, strings.Replace(body, "emea", "amer", 1), false},
		{"other channel", "Bearer " + good, strings.Replace(body, "msteams", "foo", 1), false},
		{"not our app", "Bearer " + sign(t, goodClaims(time.Now().Add(-3*time.Hour)), nil), body, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := httptest.NewRequest("POST", "/api/messages", io.NopCloser(strings.NewReader(tt.body)))
			q.Header.Set("Authorization", tt.header)
			if _, err := bot.ParseRequest(t.Context(), q); (err == nil) != tt.ok {
				t.Errorf("err = %v, want ok %t", err, tt.ok)
			}
		})
	}
}

func TestAdapterIdentity(t *testing.T) {
	t.Parallel()
	d, r := newDoor(t), newRest(t, answer(201, `{}`))
	bot := connector.Adapter(d.Guard, r.Client)
	a := schema.Activity{Type: schema.Message, ChannelID: "msteams", ServiceURL: serviceURL}
	id, err := bot.AuthenticateRequest(t.Context(), a, "Bearer "+sign(t, goodClaims(time.Now()), nil), nil, "")
	if err != nil || !id.IsAuthenticated() {
		t.Fatalf("id %v, err %v", id, err)
	}
	got := []string{id.GetClaimValue("aud"), id.GetClaimValue("serviceurl"), id.GetClaimValue("nothing")}
	if diff := cmp.Diff([]string{appID, serviceURL, ""}, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	p := bot.CredentialProvider
	if p.GetAppPassword() != "" || p.IsAuthenticationDisabled() || p.GetAppID() != appID || !p.IsValidAppID(appID) || p.IsValidAppID("") {
		t.Errorf("credentials %+v", p)
	}
	id, err = bot.AuthenticateRequest(t.Context(), a, "x", nil, "")
	var refusal *connector.AuthError
	if id != nil || !errors.As(err, &refusal) || refusal.Status != 401 {
		t.Errorf("id %v, err %v; want a 401", id, err)
	}
}
