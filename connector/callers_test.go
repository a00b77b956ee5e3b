package connector_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// TestAdapterKnowsNoCallers: it would answer them with the channels' token.
func TestAdapterKnowsNoCallers(t *testing.T) {
	t.Parallel()
	d, _ := newOpenDoor(t, everybody())
	bot := connector.Adapter(d.Guard, newRest(t, answer(201, `{}`)).Client)
	a := schema.Activity{Type: schema.Message, ChannelID: "msteams", ServiceURL: skillURL}
	id, err := bot.AuthenticateRequest(t.Context(), a, bySkill(t, callerClaims(callerID))[0], nil, "")
	if id != nil || status(t, err) != 401 {
		t.Errorf("id %v, err %v; want a 401", id, err)
	}
}

// TestDownloadForCaller takes a caller's token to listed hosts only.
func TestDownloadForCaller(t *testing.T) {
	t.Parallel()
	script := &script{steps: []func(*http.Request) (*http.Response, error){says(200), says(200), says(200)}}
	client, err := connector.New(connector.Config{Hosts: hosts(t, false, "caller.example"), Tokens: fixedToken("t"), Transport: script})
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{serviceURL + "v3/attachments/1", skillURL + "v3/attachments/1"} {
		if _, err := client.Download(connector.ForCaller(t.Context(), callerID), activity.Attachment{ContentURL: from}, 0); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.Download(t.Context(), activity.Attachment{ContentURL: serviceURL + "v3/attachments/1"}, 0); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"", "Bearer t", "Bearer t"}, script.auth); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// TestSendForCaller: a caller gets a token of its own, and only where the operator
// said.
func TestSendForCaller(t *testing.T) {
	t.Parallel()
	tokens := tokensOf(t, connector.Credentials{
		Password: secret, Callers: connector.Callers{Tenant: tenantID, Bots: []string{callerID}},
	}, &login{answer: grants(3600)})
	script := &script{steps: []func(*http.Request) (*http.Response, error){says(200), says(401), says(200)}}
	client, err := connector.New(connector.Config{Hosts: hosts(t, false, "caller.example"), Tokens: tokens, Transport: script})
	if err != nil {
		t.Fatal(err)
	}
	ctx := connector.ForCaller(t.Context(), callerID)
	for _, where := range []string{serviceURL, "https://other.example/"} {
		if _, err := client.Send(ctx, reference(where), message()); !errors.Is(err, connector.ErrHostNotAllowed) {
			t.Errorf("for a caller to %s: %v", where, err)
		}
	}
	if _, err := client.Send(t.Context(), reference(serviceURL), message()); err != nil {
		t.Error(err)
	}
	if _, err := client.Send(ctx, reference(skillURL), message()); err != nil {
		t.Error(err)
	}
	if _, err := client.Send(connector.ForCaller(ctx, tenantID), reference(skillURL), message()); !errors.Is(err, connector.ErrUnknownCaller) {
		t.Errorf("for a stranger: %v", err)
	}
	if diff := cmp.Diff([]string{"Bearer token-1", "Bearer token-2", "Bearer token-3"}, script.auth); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}
