package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/internal/builtbot"
)

const root = "../../.."

var built = builtbot.New(root)

// example is a copy of the example, whose services run here.
type example struct {
	*testing.T
	dir  string
	desk *desk
	url  string
}

func setup(t *testing.T) *example {
	t.Helper()
	e := &example{T: t, dir: t.TempDir(), desk: newDesk("demo")}
	if err := os.CopyFS(e.dir, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e.desk)
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// runs runs a program on the example's bot, and returns what it prints.
func (e *example) runs(program string, code int, args ...string) string {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(args, "--file="+filepath.Join(e.dir, "bot.yaml"))...)
	cmd.Env = append(os.Environ(), "DESK_URL="+e.url, "DESK_TOKEN=demo", "BOT_LOG_FORMAT=json")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		e.Errorf("%s: %v\n%s", args, err, out)
	}
	return string(out)
}

// bot runs a command of the bot.
func (e *example) bot(code int, args ...string) string {
	e.Helper()
	program, err := built.Path()
	if err != nil {
		e.Fatal(err)
	}
	return e.runs(program, code, args...)
}

// TestScenarios plays the tests that the file names, on both services.
func TestScenarios(t *testing.T) {
	t.Parallel()
	e := setup(t)
	bottest, err := builtbot.Build(root, "bottest")
	if err != nil {
		t.Fatal(err)
	}
	if out := e.runs(bottest, 0, "run"); !strings.HasSuffix(out, "6 passed, 0 failed\n") {
		t.Error(out)
	}
	e.desk.mu.Lock()
	defer e.desk.mu.Unlock()
	if !e.desk.tickets[1].Closed || e.desk.stock[0].Left != 1_000_000-5 {
		t.Errorf("after it there are %v and %v", e.desk.tickets, e.desk.stock)
	}
}

// TestCommands: the commands that show a bot show this one.
func TestCommands(t *testing.T) {
	t.Parallel()
	e := setup(t)
	const all = "stock_listItems stock_placeOrder tickets_close_ticket tickets_lend_laptop tickets_open_ticket tickets_search_tickets"
	listed := e.bot(0, "actions")
	checked := e.bot(0, "doctor", "--port=0")
	prompt := e.bot(0, "plan", "hi")
	for name := range strings.FieldsSeq(all) {
		if !strings.Contains(listed, name) || !strings.Contains(checked, name) || !strings.Contains(prompt, name+"(") {
			t.Errorf("%s is missing in\n%s\n%s\n%s", name, listed, checked, prompt)
		}
	}
	if strings.Contains(listed+prompt, "delete_everything") || !strings.Contains(checked, "its rules leave out delete_everything") || !strings.Contains(checked, "All is well.") {
		t.Errorf("%s\n%s", listed, checked)
	}
	if to := filepath.Join(t.TempDir(), "app"); !strings.Contains(e.bot(0, "manifest", "init", to), to) {
		t.Error("no files of the app package")
	}
	e.url = "http://127.0.0.1:1"
	if out := e.bot(0, "doctor", "--port=0"); !strings.Contains(out, "warn  tickets   the service cannot be asked") {
		t.Error(out)
	}
	if out := e.bot(0, "plan", "hi"); !strings.Contains(out, "tickets is away at the moment") || !strings.Contains(out, "stock_listItems(") {
		t.Error(out)
	}
}

// TestCommand: the bot starts a server that the file names, in the file's folder.
func TestCommand(t *testing.T) {
	t.Parallel()
	e := setup(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(e.dir, "bin", "desk"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const file = "version: 1\nname: Desk\nconnections:\n  desk: {command: [bin/desk, stdio], env: {LEVEL: debug}, allow: [open_ticket]}\n"
	if err := os.WriteFile(filepath.Join(e.dir, "bot.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := e.bot(0, "actions"); !strings.HasPrefix(out, "desk_open_ticket  Opens a ticket\n") {
		t.Error(out)
	}
}

// TestPins: with an app id the bot offers what an operator has accepted, and only as long as it stays so.
func TestPins(t *testing.T) {
	t.Parallel()
	e := setup(t)
	production := []string{
		"plan", "hi", "--microsoft-app-id=7a7b7c7d-1111-2222-3333-444455556666", "--microsoft-app-password=p", "--microsoft-app-tenant-id=t", "--bot-model=offline", "--bot-state=embedded",
	}
	if out := e.bot(0, production...); strings.Contains(out, "tickets_open_ticket(") {
		t.Errorf("nobody has accepted this: %s", out)
	}
	if out := e.bot(0, "actions", "--pin"); !strings.Contains(out, "added tickets open_ticket ") {
		t.Error(out)
	}
	if out := e.bot(0, production...); !strings.Contains(out, "tickets_open_ticket(") {
		t.Errorf("after it was accepted: %s", out)
	}
	mcp.AddTool(e.desk.mcp, &mcp.Tool{Name: "open_ticket", Description: "Opens a ticket, and tells everybody"},
		func(context.Context, *mcp.CallToolRequest, opening) (*mcp.CallToolResult, ticket, error) {
			return nil, ticket{}, nil
		})
	if out := e.bot(0, production...); strings.Contains(out, "tickets_open_ticket(") || !strings.Contains(out, "tickets_close_ticket(") {
		t.Errorf("it has changed since: %s", out)
	}
	if out := e.bot(0, "doctor", "--port=0"); !strings.Contains(out, "open_ticket is not offered: quarantined: it has changed since it was accepted") {
		t.Error(out)
	}
	if out := e.bot(0, "actions", "--pin"); !strings.Contains(out, `+   "description": "Opens a ticket, and tells everybody",`) || !strings.Contains(out, ": 1. The bot uses") {
		t.Error(out)
	}
	if out := e.bot(0, production...); !strings.Contains(out, "tickets_open_ticket(") {
		t.Errorf("after it was accepted anew: %s", out)
	}
}
