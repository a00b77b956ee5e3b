package app_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/settings"
)

// desk plans over the tools of an MCP server.
var desk = app.Bot{
	Name: "Desk",
	Connections: func(ctx context.Context, count func(metric, label string)) ([]actions.Connection, error) {
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
		return []actions.Connection{issues}, err
	},
}

// services are where people of a bot sign in.
var services = map[string]connector.Service{"issues": {Resource: "https://mcp.example.com/"}}

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
		all, err := desk.Connections(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		issues := &shown{Connection: all[0].(*mcp.Connection)}
		b := app.Bot{Connections: func(context.Context, func(metric, label string)) ([]actions.Connection, error) {
			return []actions.Connection{issues}, nil
		}}
		s := settings.Settings{Bot: settings.BotOf(b), AppID: appID}
		done, err := s.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(done)
		if issues.first != accepts {
			t.Errorf("with the app id %q it accepts what is shown first: %v", appID, issues.first)
		}
	}
}

// shown notes that it is to accept what its server shows first.
type shown struct {
	*mcp.Connection

	first bool
}

func (s *shown) AcceptFirst() { s.first = true }

// TestServicesNeedTheirFeature: a bot that plans over services and lacks the feature does not start.
func TestServicesNeedTheirFeature(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]app.Bot{"connections": desk, "people": {Name: "Desk", Services: services}} {
		if _, err := app.New(t.Context(), b, nil, bot.Config{}); err == nil || !strings.Contains(err.Error(), "app/services") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
