package connector_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// newTokenService is a token service, and a client of it.
func newTokenService(t *testing.T, answer http.HandlerFunc) (*rest, *connector.Client) {
	t.Helper()
	r := newRest(t, answer)
	cfg := withApp(nil)
	cfg.TokenURL = r.URL + "/"
	return r, newClient(t, cfg, fixedToken("secret-token"))
}

func TestUserTokenCalls(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/api/usertoken/GetToken":            `{"ConnectionName":"graph","TOKEN":"tok-1","expiration":"2026-01-02T03:04:05Z"}`,
		"/api/usertoken/exchange":            `{"token":"tok-2"}`,
		"/api/botsignin/GetSignInResource":   `{"signInLink":"https://token.botframework.com/x?a=b","tokenExchangeResource":{"Id":"e","Uri":"api://x","ProviderId":null},"tokenPostResource":null}`,
		"DELETE /api/usertoken/SignOut":      ``,
		"/api/usertoken/GetToken code 12345": ``,
	}
	r, c := newTokenService(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, answers[q.URL.Path]) })
	ref := reference("https://smba.trafficmanager.net/emea/")
	ref.ChannelID = "msteams:COPILOT"
	ctx := t.Context()
	token, err := c.UserToken(ctx, ref, "graph", "")
	if err != nil || token.Secret() != "tok-1" || token.Expires.Year() != 2026 {
		t.Errorf("%v, %q", err, token.Secret())
	}
	if token, err = c.UserToken(ctx, ref, "graph", "123456"); err != nil || token.Secret() != "tok-1" {
		t.Errorf("%v, %q", err, token.Secret())
	}
	if token, err = c.ExchangeToken(ctx, ref, "graph", "sso"); err != nil || token.Secret() != "tok-2" {
		t.Errorf("%v, %q", err, token.Secret())
	}
	resource, err := c.SignInResource(ctx, ref, "graph")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SignOutUser(ctx, ref, "graph"); err != nil {
		t.Error(err)
	}
	state, err := url.Parse(r.calls[3].URI)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(state.Query().Get("state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []string{`"connectionName":"graph"`, `"msAppId":"` + appID + `"`, `"channelId":"msteams"`, `"user":{"id":"29:mia"`, `"bot":{"id":"28:bot"`} {
		if !strings.Contains(string(raw), has) {
			t.Errorf("the state is %s, without %s", raw, has)
		}
	}
	r.calls[3].URI = state.Path
	const who = "channelId=msteams&connectionName=graph&userId=29%3Amia"
	r.want(
		t,
		sent{"GET", "/api/usertoken/GetToken?" + who, "Bearer secret-token", ""},
		sent{"GET", "/api/usertoken/GetToken?channelId=msteams&code=123456&connectionName=graph&userId=29%3Amia", "Bearer secret-token", ""},
		sent{"POST", "/api/usertoken/exchange?" + who, "Bearer secret-token", `{"token":"sso"}`},
		sent{"GET", "/api/botsignin/GetSignInResource", "Bearer secret-token", ""},
		sent{"DELETE", "/api/usertoken/SignOut?" + who, "Bearer secret-token", ""},
	)
	for silent, want := range map[bool]string{
		true:  `{"buttons":[{"title":"Go","type":"signin","value":"https://token.botframework.com/x?a=b"}],"connectionName":"graph","text":"Hi","tokenExchangeResource":{"id":"e","uri":"api://x"}}`,
		false: `{"buttons":[{"title":"Go","type":"signin","value":"https://token.botframework.com/x?a=b"}],"connectionName":"graph","text":"Hi"}`,
	} {
		if card := resource.Card("graph", "Hi", "Go", silent); !sameJSON(card.Content, []byte(want)) || card.ContentType != connector.OAuthCardType {
			t.Errorf("card %s, want %s", card.Content, want)
		}
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// TestUserTokenFaults: no error has a secret, 404 is that there is none, and trouble is tried twice.
func TestUserTokenFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		body   string
		tries  int
		none   bool
	}{
		"none":          {404, "", 1, true},
		"no token":      {200, `{}`, 1, true},
		"consent":       {412, `{"error":{"code":"x","message":"987654 sso-secret"}}`, 1, false},
		"trouble":       {500, `987654 sso-secret`, 2, false},
		"throttled":     {429, ``, 2, false},
		"token refused": {401, ``, 2, false},
		"no JSON":       {200, `{"token":["987654 sso-secret"]}`, 1, false},
		"redirect":      {302, ``, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, c := newTokenService(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			})
			_, err := c.UserToken(t.Context(), reference(""), "graph", "987654")
			if err == nil || errors.Is(err, connector.ErrNoUserToken) != tt.none || strings.Contains(err.Error(), "987654") || strings.Contains(err.Error(), "sso-secret") {
				t.Errorf("error %v", err)
			}
			if len(r.calls) != tt.tries {
				t.Errorf("%d tries, want %d", len(r.calls), tt.tries)
			}
			if _, err := c.ExchangeToken(t.Context(), reference(""), "graph", "sso-secret"); err == nil || strings.Contains(err.Error(), "sso-secret") {
				t.Errorf("error %v", err)
			}
		})
	}
	r, c := newTokenService(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r.Server.Close()
	if _, err := c.UserToken(t.Context(), reference(""), "graph", "987654"); err == nil || strings.Contains(err.Error(), "987654") {
		t.Errorf("error %v", err)
	}
}

// TestUserTokenOfWhom: whoever can claim to be another would get their token.
func TestUserTokenOfWhom(t *testing.T) {
	t.Parallel()
	r, c := newTokenService(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token":"t"}`) })
	ref := reference("")
	ref.ChannelID = "directline"
	if _, err := c.UserToken(t.Context(), ref, "graph", ""); !errors.Is(err, connector.ErrNoTokenService) {
		t.Errorf("somebody of Direct Line: %v", err)
	}
	ref.User.ID = "dl_mia"
	if _, err := c.UserToken(t.Context(), ref, "graph", ""); err != nil {
		t.Errorf("somebody whom Direct Line knows: %v", err)
	}
	ref = reference("")
	if _, err := c.UserToken(connector.ForCaller(t.Context(), "another-bot"), ref, "graph", ""); !errors.Is(err, connector.ErrNoTokenService) {
		t.Errorf("somebody of another bot: %v", err)
	}
	ref.User.ID = ""
	if _, err := c.UserToken(t.Context(), ref, "graph", ""); !errors.Is(err, connector.ErrNoTokenService) {
		t.Errorf("nobody: %v", err)
	}
	if len(r.calls) != 1 {
		t.Errorf("%d calls", len(r.calls))
	}
	if _, err := newClient(t, connector.Config{}, nil).UserToken(t.Context(), reference(""), "graph", ""); !errors.Is(err, connector.ErrNoTokenService) {
		t.Errorf("local mode: %v", err)
	}
}

func TestUserTokenShowsNothing(t *testing.T) {
	t.Parallel()
	_, c := newTokenService(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token":"tok-secret"}`) })
	token, err := c.UserToken(t.Context(), reference(""), "graph", "")
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	hidden := struct{ inner connector.UserToken }{token}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&shown, verb+verb+verb+"\n", token, &token, hidden)
	}
	log := zerolog.New(&shown)
	log.Info().Object("a", token).Interface("b", token).Any("c", hidden).Stringer("d", token).Msg("")
	for _, v := range []any{token, &token, map[string]any{"a": token}, hidden} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		shown.Write(raw)
	}
	if token.Secret() != "tok-secret" || strings.Contains(shown.String(), "tok-secret") || (connector.UserToken{}).Secret() != "" {
		t.Errorf("shown: %s", shown.String())
	}
}

func TestTokenURLs(t *testing.T) {
	t.Parallel()
	for cloud, want := range map[string]string{
		"": "token.botframework.com", "gcch": "tokengcch.botframework.azure.us", "dod": "apidod.botframework.azure.us", "china": "token.botframework.azure.cn",
	} {
		script := &asked{}
		cfg := withApp(script)
		cfg.Cloud = cloud
		_, _ = newClient(t, cfg, fixedToken("t")).UserToken(t.Context(), reference(""), "graph", "") // it is not answered
		if len(script.hosts) == 0 || script.hosts[0] != want {
			t.Errorf("cloud %q: asked %q, want %s", cloud, script.hosts, want)
		}
	}
	for _, bad := range []string{"http://token.example", "token.example", "https://a@token.example", "https://token.example?x"} {
		cfg := withApp(nil)
		cfg.TokenURL = bad
		if _, _, err := connector.New(cfg); err == nil || !strings.Contains(err.Error(), "token URL") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// asked is a transport that notes which hosts it is for.
type asked struct{ hosts []string }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.hosts = append(a.hosts, r.URL.Host)
	return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}, nil
}

// TestSignInCardsKeepTheirRecipient: without it Teams does not begin to sign in.
func TestSignInCardsKeepTheirRecipient(t *testing.T) {
	t.Parallel()
	r := newRest(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"1"}`) })
	m := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams}
	m.Recipient.ID = "29:mia"
	m.Attachments = []activity.Attachment{connector.SignInResource{Link: "https://token.botframework.com/x"}.Card("graph", "Hi", "Go", true)}
	if _, err := r.Send(t.Context(), r.ref, m); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.calls[0].Body, `"recipient":{"id":"29:mia"}`) || strings.Contains(r.calls[0].Body, "null") {
		t.Errorf("sent %s", r.calls[0].Body)
	}
}
