package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions/mcp/server"
	"github.com/planbot-go/planbot/internal/cli"
)

// TestAgents: other agents reach a bot only if its program says so, and only with a token.
func TestAgents(t *testing.T) {
	t.Parallel()
	agents := server.Config{Resource: "https://bot.example/mcp", Exposed: []string{"createList"}, Tokens: []server.Token{
		{Name: "Coder", SHA256: strings.Repeat("0", 64), Tenant: "tenant-1", Person: "aad-mia"},
	}}
	for path, want := range map[string]int{"/mcp": http.StatusUnauthorized, "/.well-known/oauth-protected-resource/mcp": http.StatusOK} {
		for on, want := range map[bool]int{true: want, false: http.StatusNotFound} {
			e := env{}
			s, err := e.read()
			if err != nil {
				t.Fatal(err)
			}
			p := &program{Settings: s, own: defaultBot()}
			if on {
				p.own.features = append(p.own.features, OfAgents(agents))
			}
			if err := p.assemble(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.close)
			for _, f := range p.own.features {
				if f.Name == "agents" {
					if err := f.Serve(t.Context(), p.program()); err != nil {
						t.Fatal(err)
					}
				}
			}
			w, method := httptest.NewRecorder(), http.MethodGet
			if path == "/mcp" {
				method = http.MethodPost
			}
			p.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
			if w.Code != want {
				t.Errorf("%s with agents %t: %d %s, want %d", path, on, w.Code, w.Body, want)
			}
		}
	}
}

func TestWrongAgents(t *testing.T) {
	t.Parallel()
	b := defaultBot()
	b.features = append(b.features, OfAgents(server.Config{Resource: "https://bot.example/mcp", Exposed: []string{"gone"}}))
	code, _, errs := executeFor(t, b, "", "serve", "--port=0")
	if code != cli.ExitUsage || !strings.Contains(errs, `"gone"`) || !strings.Contains(errs, "nobody could call") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
