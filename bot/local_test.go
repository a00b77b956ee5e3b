package bot_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
)

// local returns door and channel of a bot without an app id.
func local(t *testing.T) (bot.Authenticator, *connector.Client) {
	t.Helper()
	guard, client, err := connector.New(connector.Config{Transport: overWires})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	t.Cleanup(client.Close)
	return bot.Guarded(guard), client
}

// TestPassedOn: on a loopback address what a proxy or tunnel passed on is of a stranger;
// on others the operator has said that nobody is checked.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	door, _ := local(t)
	for name, c := range map[string]struct {
		to     net.IP
		header string
		in     bool
	}{
		"of this machine":    {net.IPv4(127, 0, 0, 1), "X-Other", true},
		"by a tunnel":        {net.IPv4(127, 0, 0, 1), "X-Forwarded-For", false},
		"by a tunnel, IPv6":  {net.IPv6loopback, "X-Forwarded-Host", false},
		"by Cloudflare":      {net.IPv4(127, 0, 0, 1), "Cf-Connecting-Ip", false},
		"by a dev tunnel":    {net.IPv4(127, 0, 0, 1), "X-Original-Host", false},
		"in closed networks": {net.IPv4(172, 17, 0, 2), "X-Forwarded-For", true},
	} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: c.to, Port: 3978}))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost:3978/api/messages", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, "203.0.113.9")
		if _, err := door.Authenticate(req); (err == nil) != c.in {
			t.Errorf("%s: %v", name, err)
		}
	}
}
