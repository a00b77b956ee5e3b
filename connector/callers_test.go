package connector_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/connector"
)

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
