package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// world stands in for Graph, the login service and the company's service.
type world struct {
	t      *testing.T
	tokens func() (graph, own string)
}

func (w world) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	graph, own := w.tokens()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.URL.Host == "graph.example" && bearer == graph:
		fmt.Fprint(answer, `{"value":[{"subject":"Stand-up","start":{"dateTime":"2026-01-02T09:00:00"}}]}`)
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		root := "https://login.microsoftonline.com/tenant-1/"
		fmt.Fprintf(answer, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, root+"v2.0", root+"oauth2/v2.0/authorize", root+"oauth2/v2.0/token")
	case strings.HasSuffix(r.URL.Path, "/instance"):
		fmt.Fprint(answer, `{"tenant_discovery_endpoint":"https://login.microsoftonline.com/tenant-1/v2.0/.well-known/openid-configuration","metadata":[]}`)
	case strings.HasSuffix(r.URL.Path, "/token"):
		raw, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(raw))
		if form.Get("assertion") != own || form.Get("requested_token_use") != "on_behalf_of" {
			w.t.Errorf("asked for a token with %v", form)
		}
		fmt.Fprint(answer, `{"token_type":"Bearer","expires_in":3600,"access_token":"for-staff"}`)
	case r.URL.Host == "staff.example" && bearer == "for-staff":
		fmt.Fprint(answer, `{"days":12}`)
	default:
		answer.WriteHeader(http.StatusUnauthorized)
	}
	res := answer.Result()
	res.Request = r
	return res, nil
}

func TestProfile(t *testing.T) {
	t.Parallel()
	var tokens *bottest.TokenService
	s := services{
		client: &http.Client{Transport: world{t, func() (string, string) { return tokens.Token("Mia", graph), tokens.Token("Mia", own) }}},
		graph:  "https://graph.example/v1.0", staff: "https://staff.example", scope: "api://staff/.default", appID: "app", secret: "secret",
		notBeforeToday: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
	}
	bottest.Test(t, bottest.Config{Name: "Profile", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, assistant(s), parts.Model, parts.Bot)
	}}, func(t *testing.T, kit *bottest.Kit) {
		tokens = kit.Tokens
		chat := kit.Personal("Mia")
		read := func(action string) {
			do := bottest.Do(action)
			do.SaveAs = "IT"
			kit.Model.Says(bottest.Plan(do, bottest.Say("$IT")))
		}
		read("readCalendar")
		chat.Say("what is in my calendar")
		chat.Next().SignIn()
		chat.Expect("2026-01-02T09:00:00 Stand-up")
		read("readDaysOff")
		chat.Say("how many days off do I have")
		chat.Next().SignIn()
		chat.Expect("12 days")
		chat.Say("/signout")
		chat.Expect("I've signed you out.")
	})
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, assistant(services{}), "scenarios.yaml")
}
