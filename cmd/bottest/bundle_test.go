package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/internal/builtbot"
	"github.com/planbot-go/planbot/internal/cli"
)

var built = builtbot.New("../..")

// execute runs one command line with text on standard input.
func execute(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	in, err := os.Create(filepath.Join(t.TempDir(), "stdin"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := in.WriteString(stdin); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &cli.Streams{In: in, Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// defaultActions are those of the bot of cmd/bot.
func defaultActions() *actions.Registry {
	registry := actions.New()
	lists.Register(registry)
	reminders.Register(registry)
	return registry
}
