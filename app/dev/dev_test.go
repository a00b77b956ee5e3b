package dev

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/settings"
)

func TestTunnelHint(t *testing.T) {
	t.Parallel()
	const id = "7a7b7c7d-1111-2222-3333-444455556666"
	has := func(names ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, n := range names {
				if n == name {
					return n, nil
				}
			}
			return "", exec.ErrNotFound
		}
	}
	for _, c := range []struct {
		app  string
		look func(string) (string, error)
		want string
	}{
		{"", has("ngrok"), "no tunnel: without MICROSOFT_APP_ID"},
		{id, has("ngrok"), "ngrok http 3978"},
		{id, has("cloudflared", "ngrok"), "cloudflared tunnel --url http://127.0.0.1:3978"},
		{id, has("ngrok", "devtunnel"), "devtunnel host --port-numbers 3978"},
		{id, has(), "install devtunnel"},
	} {
		if got := tunnelHint(&settings.Settings{AppID: c.app}, "127.0.0.1:3978", c.look); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
