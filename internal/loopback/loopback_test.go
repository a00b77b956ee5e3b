package loopback_test

import (
	"testing"

	"github.com/planbot-go/planbot/internal/loopback"
)

func TestIsHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.com": false, "x.localhost": false,
		"localhost:80": false, "[::1]": false, "127.1": false, "::1%lo": false, "2130706433": false, "127.0.0.1.nip.io": false,
	} {
		if got := loopback.IsHost(host); got != want {
			t.Errorf("%q: got %t", host, got)
		}
	}
}
