package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state"
)

// defaultBot is the bot of cmd/bot.
func defaultBot() Bot {
	return Bot{Name: "Planbot", Examples: []string{"What is on my lists?"}, Register: func(r *actions.Registry) {
		lists.Register(r)
		reminders.Register(r)
	}, features: AllFeatures()}
}

// env are settings of the default bot by their flags.
type env map[string]string

// read parses and checks them.
func (e env) read() (*settings.Settings, error) {
	s, _, err := e.readAll()
	return s, err
}

// readAll also returns the default bot, whose features have these settings.
func (e env) readAll() (*settings.Settings, Bot, error) {
	var args []string
	for flag, value := range e {
		args = append(args, "--"+flag+"="+value)
	}
	b := defaultBot()
	s := Settings(b, b.features...)
	return s, b, s.Read(args...)
}

// assembled is the default bot with these settings, which ends with the test.
func assembled(t testing.TB, e env, log io.Writer) *program {
	t.Helper()
	p, err := e.assemble(t.Context(), nil, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// assemble makes it on that store; nil: one of its own.
func (e env) assemble(ctx context.Context, store *state.Store, log io.Writer) (*program, error) {
	s, own, err := e.readAll()
	if err != nil {
		return nil, err
	}
	p := &program{Settings: s, own: own, store: store, log: zerolog.New(log)}
	if err := p.assemble(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

const guid = "7a7b7c7d-1111-2222-3333-444455556666"

// filesIn is a folder with these files.
func filesIn(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
