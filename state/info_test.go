package state_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/state"
)

func TestWhatTheServerSaysOfItself(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	r := openURL(t, "redis://"+server.Addr(), state.Config{})
	if text, err := r.Info(t.Context()); err != nil || !strings.Contains(text, "connected_clients") {
		t.Errorf("info %q, %v", text, err)
	}
	if _, err := r.Setting(t.Context(), "save"); err == nil || errors.Is(err, state.ErrUnavailable) {
		t.Errorf("a server that refuses to tell its settings: %v", err)
	}
	server.Close()
	if _, err := r.Info(t.Context()); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("info without a server: %v", err)
	}
	if _, err := r.Setting(t.Context(), "save"); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("setting without a server: %v", err)
	}
}
