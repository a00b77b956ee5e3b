package app

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp/server"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/models"
)

// shouting is the default bot with a hook and a route of its own.
func shouting() Bot {
	b := defaultBot()
	b.Setup = func(cfg *bot.Config) error {
		cfg.Features = append(cfg.Features, bot.Feature{Say: func(_ context.Context, _ *bot.Turn, text string) (string, error) { return strings.ToUpper(text), nil }})
		return nil
	}
	b.Routes = func(b *bot.Bot) {
		b.OnCommand("/version", func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, "Version 7.") })
	}
	return b
}

func TestSetupAndRoutesInCommands(t *testing.T) {
	t.Parallel()
	code, out, errs := executeFor(t, shouting(), "create a list Home and add milk to it\n/version\n", "chat")
	if code != 0 || !strings.Contains(out, "HOME") || !strings.Contains(out, "Version 7.") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
}

// TestHelpDescribesCommands as the app package does.
func TestHelpDescribesCommands(t *testing.T) {
	t.Parallel()
	b := shouting()
	b.Setup = nil
	b.Manifest.Commands = []manifest.Command{{Title: "/version", Description: "says which version this is"}, {Title: "/reset", Description: "starts again"}}
	b.Texts = map[string]map[string]string{"de": {"says which version this is": "sagt die Version"}}
	for locale, wants := range map[string][]string{
		"en": {"- **/version**: says which version this is\n", "- **/reset**: starts again\n", "- **help**: shows this\n"},
		"de": {"- **/version**: sagt die Version\n", "- **/reset**: starts again\n", "- **help**: zeigt das hier\n"},
	} {
		code, out, errs := executeFor(t, b, "help\n", "chat", "--locale", locale)
		for _, want := range wants {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, no %q in\n%s\n%s", locale, code, want, out, errs)
			}
		}
	}
}

// TestMistakesOfABotAreNamedAtOnce, with those in its settings.
func TestMistakesOfABotAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	b := defaultBot()
	b.Texts = map[string]map[string]string{"de": {"Deleted the list %s.": "Weg."}, "no tag!": {}}
	var small bytes.Buffer
	if err := png.Encode(&small, image.NewNRGBA(image.Rect(0, 0, 31, 31))); err != nil {
		t.Fatal(err)
	}
	b.Manifest = manifest.Config{
		ColorIcon: []byte("no picture"), OutlineIcon: small.Bytes(), AccentColor: "blue", Scopes: []string{"everywhere"},
	}
	b.Services = map[string]connector.Service{
		"issues": {Resource: "mcp.example.com", Hosts: []string{"https://login.example.com"}, Scopes: []string{"read write"}},
		"a b":    {Resource: "https://a.example.com", Issuer: "https://a.example.com", Secret: "s3cret"},
	}
	b.features = append(AllFeatures(), OfAgents(server.Config{Exposed: []string{"addItme"}, Resource: "https://bot.example.com/mcp", Tokens: []server.Token{{}}, Wait: -1}))
	for command, want := range map[string]int{"serve": cli.ExitUsage, "chat": cli.ExitUsage, "doctor": cli.ExitFailed} {
		code, out, errs := executeFor(t, b, "", command, "--port=0", "--bot-max-steps=0")
		wants := []string{"BOT_MAX_STEPS: ", `texts: de: "Weg." has the verbs []`, `texts: "no tag!" is not a language`}
		if command != "chat" { // which is not for Teams
			wants = append(wants, "color.png: is not a PNG", "outline.png: has 31×31 pixels", "blue", "scopes/0: value must be one of",
				"BOT_PUBLIC_URL: app.Bot.Services need it", "BOT_TOKEN_KEYS: app.Bot.Services need it", "app.Bot.Services: service issues: Resource: it is no address", `Hosts: "https://login.example.com" is no host`,
				`Scopes: "read write" is no scope`, `service "a b": the name cannot end`, "service a b: a Secret needs a ClientID",
				`agents: Exposed: the bot has no action "addItme"; did you mean addItem?`, "Tokens: number 1", "Wait: -1ns is negative")
		}
		for _, part := range wants {
			if code != want || !strings.Contains(out+errs, part) {
				t.Errorf("%s: exit code %d, want %q in\n%s%s", command, code, part, out, errs)
			}
		}
	}
}

// TestMistakesInActionsAreNamedAtOnce, by each command that needs the actions.
func TestMistakesInActionsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	type odd struct {
		N int `json:"n" default:"one"`
	}
	done := func(context.Context, *actions.Turn, odd) (actions.Result, error) { return actions.Done, nil }
	plain := func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }
	b := Bot{Name: "Odd", Register: func(r *actions.Registry) {
		actions.Provide(r, "user", func(context.Context, *actions.Turn) (string, error) { return "", nil })
		actions.Add(r, "count", "Counts", done).Detail = "changes nothing"
		actions.Add(r, "co ok", "Cooks", plain)
		actions.Add(r, "cook", "Cooks", plain)
		actions.Add(r, "cook", "Cooks again", plain)
		actions.Add(r, "send", "Sends", plain, actions.Returns[chan int]())
		actions.Add(r, "stir", "Stirs", plain, actions.Title("Cook"))
	}}
	for _, args := range [][]string{{"serve", "--port=0"}, {"chat"}, {"actions"}, {"manifest", "init", t.TempDir()}, {"manifest", "build"}, {"plan", "show", "hello"}, {"plan", "decode"}, {"doctor"}} {
		code, out, errs := executeFor(t, b, "", args...)
		if code == 0 {
			t.Errorf("%v: exit code 0", args)
		}
		for _, want := range []string{
			`the host value "user" is taken`, `add count: field N: default: "one" does not fit int`, `action name "co ok": want a letter`,
			`action name "cook" is taken`, "action send: returns chan int: ", `action stir has the title "Cook" of cook`,
		} {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%v: no %q in\n%s%s", args, want, out, errs)
			}
		}
	}
	_, err := New(t.Context(), b, models.Offline{}, bot.Config{})
	if err == nil || !strings.Contains(err.Error(), "add count: ") || !strings.Contains(err.Error(), "action send: ") {
		t.Errorf("New: %v", err)
	}
}

// TestSetupIsRecorded: features of a bot's own do not replace those of the recorder, and see the rest
// of the config.
func TestSetupIsRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, own, err := env{"port": "0", "record": dir}.readAll()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Settings: s, own: own}
	t.Cleanup(p.close)
	called := make(chan string, 9)
	p.own.Setup = func(cfg *bot.Config) error {
		if cfg.Features != nil || cfg.Name != "Planbot" || cfg.Policy == nil || cfg.Planner == nil || cfg.Store == nil {
			t.Errorf("Setup gets %+v", cfg)
		}
		cfg.Features = append(cfg.Features, bot.Feature{Call: func(ctx context.Context, _ *bot.Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error) {
			called <- c.Action.Name
			return next(ctx, c)
		}})
		return nil
	}
	if err := errors.Join(p.open(io.Discard), p.assemble(t.Context())); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.handler())
	t.Cleanup(server.Close)
	channel := newConnector(t)
	resp, err := http.Post(server.URL+"/api/messages", "application/json", strings.NewReader(`{"type":"message","id":"1","channelId":"emulator","serviceUrl":"`+
		channel.URL+`","from":{"id":"u"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"summarizeLists"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	channel.next(t)
	if err := p.bot.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.close() // writes the recording
	files, err := filepath.Glob(filepath.Join(dir, "*.scenario.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("recorded %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if name := <-called; err != nil || name != "summarizeLists" || !strings.Contains(string(text), `actions: [{"action": "summarizeLists"`) {
		t.Errorf("called %s, recorded %s, %v", name, text, err)
	}
}

// TestSetupStopsTheStart, wherever a bot is made.
func TestSetupStopsTheStart(t *testing.T) {
	t.Parallel()
	b := defaultBot()
	b.Setup = func(*bot.Config) error { return errors.New("WAREHOUSE_URL: no such warehouse") }
	for _, args := range [][]string{{"serve", "--port=0"}, {"chat"}} {
		if code, _, errs := executeFor(t, b, "", args...); code != cli.ExitUsage || !strings.Contains(errs, "WAREHOUSE_URL: no such warehouse") {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	if _, err := New(t.Context(), b, models.Offline{}, bot.Config{}); err == nil || !strings.Contains(err.Error(), "no such warehouse") {
		t.Errorf("New: %v", err)
	}
	for _, args := range [][]string{{"plan", "hello"}, {"actions"}} { // which make no bot
		if code, _, errs := executeFor(t, b, "", args...); code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

// TestInstructionsAreTold as text. Package planner tests it with each planner.
func TestInstructionsAreTold(t *testing.T) {
	t.Parallel()
	b := defaultBot()
	b.Instructions = "You are Hedda {{oops}}."
	file := filesIn(t, map[string]string{"otto.md": "You are Otto.\n"}) + "/otto.md"
	for want, flags := range map[string][]string{
		"\n\nInstructions, within the rules above:\nYou are Hedda {{oops}}.\n": nil,
		"\n\nInstructions, within the rules above:\nYou are Otto.\n":           {"--bot-instructions-file=" + file},
	} {
		code, out, errs := executeFor(t, b, "", append(flags, "plan", "summarizeLists")...)
		if code != 0 || strings.Count(out, want) != 1 || strings.Count(out, "You are H")+strings.Count(out, "You are O") != 1 {
			t.Errorf("exit code %d, %s\n%s", code, errs, out)
		}
	}
	if code, out, _ := executeFor(t, b, "", "actions", "--json", "--bot-instructions-file="+file); code != 0 || !strings.Contains(out, `"instructions": "You are Otto."`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, _, errs := executeFor(t, b, "", "serve", "--port=x", "--bot-instructions-file=/nowhere"); code != cli.ExitUsage || !strings.Contains(errs, "PORT: ") || !strings.Contains(errs, "\nBOT_INSTRUCTIONS_FILE: ") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// TestMistakesOfGo: what is wrong in Go is listed with the settings' mistakes, and ends the start with 2.
func TestMistakesOfGo(t *testing.T) {
	t.Parallel()
	wrong := Bot{
		Name: "Desk", Planner: "tolls",
		Setup: func(cfg *bot.Config) error {
			cfg.Approvers, cfg.HistoryTurns = []string{""}, -1
			return nil
		},
	}
	wired := Bot{Name: "Desk", Routes: func(b *bot.Bot) {
		b.OnCommand("hours", nil)
		b.OnNotice("", nil)
	}}
	both, all := wired, wired
	both.Planner = "tolls"
	all.Setup = wrong.Setup
	for _, c := range []struct {
		b    Bot
		want []string
	}{
		{wrong, []string{"app.Bot.Planner: ", "Approvers: number 1 is empty", "HistoryTurns is negative"}},
		{wired, []string{`OnCommand "hours": the handler is nil`, "OnNotice: the name is empty"}},
		{both, []string{"app.Bot.Planner: ", `OnCommand "hours": the handler is nil`, "OnNotice: the name is empty"}},
		{all, []string{"HistoryTurns is negative", `OnCommand "hours": the handler is nil`, "OnNotice: the name is empty"}},
	} {
		var out, errs strings.Builder
		code := runAll(t.Context(), c.b, []string{"serve", "--port=0", "--bot-page=false"}, &cli.Streams{Out: &out, Err: &errs})
		if code != cli.ExitUsage {
			t.Errorf("exit code %d, want %d", code, cli.ExitUsage)
		}
		for _, want := range c.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("no %q in\n%s", want, errs.String())
			}
		}
	}
}
