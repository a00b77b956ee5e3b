package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections/oauth"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/planner"
)

// issueTracker stands in for a service that gives tokens itself.
func issueTracker(t *testing.T) string {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"access_token": "tracker-token", "token_type": "Bearer"}
		switch {
		case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
			answer = map[string]any{"resource": server.URL, "authorization_servers": []string{server.URL}}
		case strings.HasPrefix(r.URL.Path, "/.well-known/"):
			answer = map[string]any{
				"issuer": server.URL, "authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token",
				"code_challenge_methods_supported": []string{"S256"}, "client_id_metadata_document_supported": true,
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestSignInToAService: a person in a group signs in in a browser, sends the code of the page, and the plan
// goes on once, in another process. Nobody else sees the link.
func TestSignInToAService(t *testing.T) {
	t.Parallel()
	address := issueTracker(t)
	var mu sync.Mutex
	var page *oauth.SignIn
	var used []string
	var log, redis logBuffer
	acts := actions.New()
	actions.Add(acts, "openIssue", "Opens an issue", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		token, err := turn.UserToken(ctx, "tracker")
		if err != nil {
			return actions.Done, err
		}
		mu.Lock()
		defer mu.Unlock()
		used = append(used, token.Secret())
		return actions.Text("Issue 7"), nil
	}, actions.NeedsToken("tracker"))
	kit := bottest.New(t, bottest.Config{Log: &log, ToRedis: &redis, New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		c := parts.Bot
		c.Actions = acts
		var err error
		if c.Planner, err = parts.Planner(ctx, "", planner.Config{Actions: acts}); err != nil {
			return nil, err
		}
		in, err := oauth.New(oauth.Config{
			Store: c.Store, Keys: [][]byte{make([]byte, 32)}, Address: "https://bot.example.com", Others: c.Tokens,
			Services: map[string]connector.Service{"tracker": {Resource: address}},
		})
		if err != nil {
			return nil, err
		}
		mu.Lock()
		page, c.Tokens = in, in
		mu.Unlock()
		return bot.New(c)
	}})
	comesBack := func(sent bottest.Sent) string {
		t.Helper()
		var card struct {
			Buttons []struct{ Type, Value string }
		}
		if a := sent.Activity.Attachments; len(a) != 1 || a[0].ContentType != "application/vnd.microsoft.card.signin" || json.Unmarshal(a[0].Content, &card) != nil || len(card.Buttons) != 1 || !sent.Targeted {
			t.Fatalf("sent %s", sent.JSON)
		}
		link, err := url.Parse(card.Buttons[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		in := page
		mu.Unlock()
		w := httptest.NewRecorder()
		in.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/oauth/callback/tracker?code=c&state="+link.Query().Get("state"), http.NoBody))
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()[:6]
	}
	group := kit.Group("team", "Mia", "Ben")
	opens := `{"type":"plan","commands":[{"type":"DO","action":"openIssue","entities":{},"saveAs":"I"},{"type":"SAY","response":"$I is open."}]}`
	kit.Model.Says(opens)
	group.Mention("open an issue")
	card := group.Next()
	kit.Restart()
	code := comesBack(card)
	group.Mention(code)
	group.Expect("Issue 7 is open.")
	kit.Model.Says(opens)
	group.Mention("and another one")
	group.Expect("Issue 7 is open.")
	kit.Model.Says(opens)
	group.As("Ben").Mention("one for me")
	if sent := group.Next(); sent.Activity.Recipient.ID == card.Activity.Recipient.ID || !sent.Targeted {
		t.Errorf("Ben is asked by %s", sent.JSON)
	}
	group.Mention("/signout")
	group.Next()
	kit.Model.Says(opens)
	group.Mention("and a third")
	comesBack(group.Next())
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(used) != "[tracker-token tracker-token]" {
		t.Errorf("called with %q", used)
	}
	for what, text := range map[string]string{"the log": log.String(), "what was stored": redis.String()} {
		if strings.Contains(text, "tracker-token") || strings.Contains(text, `"`+code+`"`) {
			t.Errorf("%s has a secret", what)
		}
	}
}
