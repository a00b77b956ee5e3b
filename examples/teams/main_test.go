package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// TestTeams goes through everything that the bot answers.
func TestTeams(t *testing.T) {
	t.Parallel()
	cfg := bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, desky, models.Offline{}, p.Bot)
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Say("open a ticket VPN is down")
		chat.ExpectCard("Ticket 1", "VPN is down")
		if closed := chat.Press("Close it"); !bytes.Contains(closed.Body, []byte("Closed")) {
			t.Errorf("the closed ticket: %s", closed.Body)
		}
		for _, step := range []struct{ name, value, want string }{
			{"task/fetch", `{"data":{"verb":"newTicket"}}`, `"title":"New ticket"`},
			{"task/submit", `{"data":{"verb":"newTicket","title":"Printer jams"}}`, "Ticket 2 is open."},
			{"composeExtension/query", `{"commandId":"find","parameters":[{"name":"words","value":"PRINT"}],"queryOptions":{"skip":0,"count":25}}`, "Printer jams"},
			{"composeExtension/query", `{"commandId":"find","parameters":[{"name":"initialRun","value":"true"}],"queryOptions":{"skip":1,"count":1}}`, "Ticket 2"},
			{"composeExtension/fetchTask", `{"commandId":"create","messagePayload":{"from":{"user":{"displayName":"Otto"}}}}`, "About a message of Otto"},
			{"composeExtension/submitAction", `{"commandId":"create","data":{"title":"No paper"}}`, "Ticket 3"},
			{"composeExtension/queryLink", `{"url":"https://desk.example.com/tickets/3"}`, "No paper"},
			{"composeExtension/queryLink", `{"url":"https://desk.example.com/tickets/99"}`, `"attachments":[]`},
			{"composeExtension/anonymousQueryLink", `{"url":"https://desk.example.com/tickets/3"}`, "A ticket of the help desk"},
			{"application/search", `{"queryText":"paper","dataset":"tickets"}`, `"value":"3"`},
			{"config/fetch", `{}`, "Help desk"},
			{"config/submit", `{"data":{"team":"West"}}`, "Saved."},
			{"message/fetchTask", `{"actionName":"feedback","actionValue":{"reaction":"dislike"}}`, "What went wrong?"},
		} {
			if got := chat.Invoke(step.name, json.RawMessage(step.value)); got.Status != 200 || !strings.Contains(string(got.Body), step.want) {
				t.Errorf("%s: %d %s, want %s", step.name, got.Status, got.Body, step.want)
			}
		}
		chat.Invoke("suggestedActions/submit", json.RawMessage(`{"yes":true}`))
		chat.Expect("Noted.")
		chat.Say("/new")
		chat.ExpectCard("Is it like one of these?", "task/fetch")
		if got := kit.Personal("Otto").Invoke("composeExtension/queryLink", json.RawMessage(`{"url":"https://desk.example.com/tickets/1"}`)); bytes.Contains(got.Body, []byte("VPN")) {
			t.Errorf("another person sees the ticket: %s", got.Body)
		}
	})
}

// TestGroup: in a group a ticket's button works for its person, and nobody else sees what comes of it. The
// settings are those of the group, and whoever made them changes them.
func TestGroup(t *testing.T) {
	t.Parallel()
	cfg := bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, desky, models.Offline{}, p.Bot)
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		own := kit.Personal("Ben")
		own.Say("open a ticket my salary dispute")
		own.ExpectCard("Ticket 1")
		ann := kit.Group("office", "Ann")
		ann.Mention("open a ticket Printer on fire")
		card := ann.ExpectCard("Ticket 1", "Printer on fire")
		if got := card.As("Ben").Press("Close it"); !bytes.Contains(got.Body, []byte("This is for somebody else.")) {
			t.Errorf("Ben closed %s", got.Body)
		}
		if got := card.Press("Close it"); !bytes.Contains(got.Body, []byte("Closed")) {
			t.Errorf("Ann closed %s", got.Body)
		}
		ann.ExpectNothing()
		for _, sent := range kit.Connector.Sent() {
			if sent.To != "a:Ben" && strings.Contains(sent.JSON, "salary") || sent.Method == "PUT" {
				t.Errorf("the group sees %s", sent.JSON)
			}
		}
		for _, step := range []struct{ person, team, want string }{
			{"Ann", "West", "Saved."}, {"Ben", "East", "Only who set me up here may change this."}, {"Ann", strings.Repeat("W", 101), "at most 100"}, {"Ann", "North", "Saved."},
		} {
			value := map[string]any{"data": map[string]any{"team": step.team}}
			if got := ann.As(step.person).Invoke("config/submit", value); !strings.Contains(string(got.Body), step.want) {
				t.Errorf("%v: %s", step, got.Body)
			}
		}
	})
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, desky, "scenarios.yaml")
}
