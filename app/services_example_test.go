package app_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/connections/oauth"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/internal/settings"
)

// desk plans over the tools of an MCP server.
var desk = app.Bot{
	Name: "Desk",
	Connections: func(ctx context.Context, count func(metric, label string)) ([]connections.Connection, error) {
		lock, err := connections.ReadLock("actions.lock")
		if err != nil {
			return nil, err
		}
		issues, err := mcp.New(mcp.Config{
			Key: "issues", Summary: "bugs and wishes of the warehouse software",
			URL: "https://mcp.example.com/", Header: http.Header{"Authorization": {"Bearer " + os.Getenv("ISSUES_TOKEN")}},
			Rules: connections.Rules{Allow: []string{"create_issue"}, Unapproved: []string{"search_issues"}},
			Lock:  lock, Count: count, Log: *zerolog.Ctx(ctx),
		})
		return []connections.Connection{issues}, err
	},
}

// services are where people of a bot sign in.
var services = map[string]oauth.Service{"issues": {Resource: "https://mcp.example.com/"}}

// A bot whose people have accounts of their own at a service.
func ExampleBot_services() {
	b := desk
	b.Services = services
	fmt.Println(b.Name, "signs people in to", len(b.Services), "service")
	// Output: Desk signs people in to 1 service
}

// TestServicesOfGo: a Go bot has the protection of bot.yaml. Its example starts before anybody has pinned
// anything, and what the service shows first is accepted in local mode only.
func TestServicesOfGo(t *testing.T) {
	t.Parallel()
	for appID, accepts := range map[string]bool{"": true, "00000000-0000-0000-0000-000000000001": false} {
		s := settings.Settings{Bot: settings.BotOf(desk), AppID: appID}
		done, err := s.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(done)
		if lock := s.Connected[0].(*mcp.Connection).Lock(); lock.FirstUse != accepts {
			t.Errorf("with the app id %q it accepts what is shown first: %v", appID, lock.FirstUse)
		}
	}
}
