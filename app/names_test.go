package app

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/manifest"
)

type openIn struct {
	Subject  string `json:"subject" title:"Subject"`
	Priority string `json:"priority,omitempty" title:"Priority" enum:"p1,p2" labels:"Urgent,Not urgent"`
}

// desk is a bot of one's own with examples, and more as the test wants.
func desk(more func(*actions.Registry)) Bot {
	open := func(_ context.Context, _ *actions.Turn, in openIn) (actions.Result, error) {
		return actions.Text("Opened %s, %s.", in.Subject, in.Priority), nil
	}
	return Bot{Name: "Desk", Register: func(r *actions.Registry) {
		actions.Add(r, "openTicket", "Opens a ticket", open, actions.Title("Open a ticket"),
			actions.Example("open a ticket about {subject}", "open a {priority} ticket about {subject}"))
		actions.Add(r, "listTickets", "Lists the tickets", open, actions.Title("List the tickets"), actions.Example("what is open?"))
		if more != nil {
			more(r)
		}
	}}
}

// TestChatExplains what a bot of one's own needs, without a key.
func TestChatExplains(t *testing.T) {
	t.Parallel()
	code, out, errs := executeFor(t, desk(nil), "open a not urgent ticket about VPN\nopen a bad ticket about VPN\nOpen a ticket\nhelp\n", "chat")
	for _, want := range []string{
		"Opened VPN, p2.", "I understood “Open a ticket”, but not “bad” as its Priority. It takes Subject; Priority (Urgent or Not urgent, optional).",
		"but not its Subject.", "“open a ticket about {Subject}”", "What is open?",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if code != 0 || strings.Contains(out, "openTicket") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
}

// TestWrongActionsAreRefused at the start, together with wrong settings.
func TestWrongActionsAreRefused(t *testing.T) {
	t.Parallel()
	wrong := desk(func(r *actions.Registry) {
		actions.Add(r, "open", "Opens", func(context.Context, *actions.Turn, openIn) (actions.Result, error) { return actions.Done, nil },
			actions.Title("Open a ticket"), actions.Example("open {ticket}"))
	})
	code, _, errs := executeFor(t, wrong, "", "serve", "--bot-history-turns=x", "--bot-history-summary")
	for _, want := range []string{
		`actions: action open has the title "Open a ticket" of openTicket`, `actions: action open: the example "open {ticket}" has a slot {ticket}, which is no entity`,
		"BOT_HISTORY_TURNS: ", "BOT_HISTORY_SUMMARY: needs OPENAI_API_KEY or OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT",
	} {
		if code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, want %q in\n%s", code, want, errs)
		}
	}
}

// TestStarters: examples that can be sent as they are come first, then titles, which an example explains.
func TestStarters(t *testing.T) {
	t.Parallel()
	long := desk(func(r *actions.Registry) {
		actions.Add(r, "closeAllOfTheTickets", strings.Repeat("closes ", 30), func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil },
			actions.Title("Close all of the tickets that are open"), actions.Example("close each and every ticket that is still open"))
	})
	file := filepath.Join(t.TempDir(), "app.zip")
	if code, _, errs := executeFor(t, long, "", "manifest", "build", "--app-id", testAppID, "--domain", "bot.example.com", "--out", file); code != 0 {
		t.Fatal(errs)
	}
	want := []manifest.Command{
		{Title: "What is open?", Description: "List the tickets"},
		{Title: "Close all of the tickets", Description: "Close each and every ticket that is still open"},
		{Title: "Open a ticket", Description: "Open a ticket about …"},
	}
	var got packed
	if err := json.Unmarshal(open(t, file, "manifest.json"), &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range want {
		if !slices.Contains(got.Bots[0].CommandLists[0].Commands, c) {
			t.Errorf("no starter %+v in %+v", c, got.Bots[0].CommandLists[0].Commands)
		}
	}
}

// TestHistorySummary: the setting reaches the bot.
func TestHistorySummary(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]bool{"true": true, "false": false} {
		s, err := env{"port": "0", "bot-history-summary": setting, "openai-base-url": "http://127.0.0.1:1/v1"}.read()
		if err != nil {
			t.Fatal(err)
		}
		p := &program{Settings: s, own: desk(nil)}
		t.Cleanup(p.close)
		p.own.Setup = func(cfg *bot.Config) error {
			if got := cfg.Summarize != nil; got != want {
				t.Errorf("%s: a summary is kept: %v", setting, got)
			}
			return nil
		}
		if err := p.assemble(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
