package page_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/page"
)

// TestGuard sends what the page must refuse, whatever it asks for.
func TestGuard(t *testing.T) {
	t.Parallel()
	p, err := page.New(page.Config{Name: "Hedda"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	h, err := p.Handler(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: 3978}, page.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Handler(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 3978}, page.Parts{}); err == nil {
		t.Error("the page is served to the network")
	}
	const own = "127.0.0.1:3978"
	for name, c := range map[string]struct {
		method, host, path, header, value string
		want                              int
	}{
		"itself":              {"GET", own, "/dev/", "", "", 200},
		"its own address":     {"GET", "127.0.0.2:3978", "/dev/", "", "", 200},
		"root":                {"GET", own, "/", "", "", 303},
		"help":                {"GET", own, "/dev/help", "", "", 200},
		"unknown":             {"GET", own, "/dev/x", "", "", 404},
		"rebound name":        {"GET", "evil.example:3978", "/dev/", "", "", 403},
		"another port":        {"GET", "127.0.0.1:80", "/dev/assets/x/page.css", "", "", 403},
		"proxy":               {"GET", own, "/dev/stream", "X-Forwarded-For", "10.0.0.1", 403},
		"its own prefix":      {"GET", own, "/dev/", "X-Forwarded-Prefix", "/x", 403},
		"Cloudflare":          {"GET", own, "/", "Cf-Connecting-Ip", "192.0.2.1", 403},
		"dev tunnel":          {"GET", own, "/dev/assets/x/page.css", "X-Original-Host", "x.example", 403},
		"read of another one": {"GET", own, "/dev/turns.json", "Origin", "http://127.0.0.1:9", 403},
		"read by a sandbox":   {"GET", own, "/dev/stream", "Origin", "null", 403},
		"read by a site":      {"GET", own, "/dev/turns.json", "Sec-Fetch-Site", "same-site", 403},
		"post by a site":      {"POST", own, "/dev/chat/say", "Sec-Fetch-Site", "cross-site", 403},
		"post of nobody":      {"POST", own, "/dev/chat/say", "", "", 400},
		"own form":            {"POST", own, "/dev/chat/say", "Sec-Fetch-Site", "same-origin", 400},
		"get has no effect":   {"GET", own, "/dev/chat/say", "", "", 404},
		"wrong secret":        {"POST", own, "/dev/channel/x/v3/conversations", "", "", 404},
		"post of another one": {"POST", own, "/dev/chat/say", "Origin", "http://127.0.0.1:9", 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
			r.Host = c.host
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			if name == "own form" {
				r.Header.Set("Origin", "null")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("got %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "require-trusted-types-for 'script'") || w.Code == http.StatusOK && strings.Contains(w.Body.String(), "style=") {
				t.Errorf("policy %q, or a style in the view", policy)
			}
		})
	}
}
