package botfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/agentskills"
	"github.com/planbot-go/planbot/app/botfile"
	"github.com/planbot-go/planbot/internal/settings"
)

// applied are settings with the bot of a file in them.
func applied(t *testing.T, s *settings.Settings, dir string) error {
	t.Helper()
	f, err := botfile.Read(filepath.Join(dir, "bot.yaml"), new(settings.Settings))
	if err != nil {
		t.Fatal(err)
	}
	return f.Apply(s)
}

const document = `openapi: 3.1.0
info: {title: Shop, version: 1.0.0}
paths:
  /items:
    get:
      operationId: list
      parameters: [{name: X-Trace, in: header, schema: {type: string}}]
      responses: {"200": {description: all, content: {application/json: {schema: {type: object}}}}}
    post:
      operationId: add
      responses: {"204": {description: added}}
    delete:
      operationId: clear
      responses: {"204": {description: cleared}}
`

// TestConnections: what a file says of a connection is what its requests and actions have.
func TestConnections(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]string{} // by the path of the server
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved/items" {
			http.Redirect(w, r, "/there?trace="+r.Header.Get("X-Trace"), http.StatusFound)
			return
		}
		if r.URL.Path == "/token" {
			id, secret, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":"of %s %s","token_type":"Bearer","expires_in":3600}`, id, secret)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path] = r.Header.Get("Authorization") + "|" + r.Header.Get("X-Key") + r.Header.Get("Notion-Version") + "|" + r.URL.RawQuery
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[{"id":1,"secret":2}],"more":true}`))
	}))
	defer shop.Close()
	file := head + "connections:\n"
	add := func(key, more string) {
		file += fmt.Sprintf("  %s: {openapi: shop.yaml, server: '%s/%s', private: [127.0.0.0/8]%s}\n", key, shop.URL, key, more)
	}
	add("none", "")
	add("bearer", ", auth: {bearer: {file: token}}")
	add("basic", ", auth: {basic: {user: me, password: {file: token}}}")
	add("header", ", auth: {header: x-key, value: {file: token}}")
	add("fixed", ", auth: {bearer: {file: token}}, header: {Notion-Version: '2022-06-28'}")
	add("query", ", auth: {query: key, value: {file: token}}")
	add("rules", ", allow: [list, add, DELETE], approve: [list], unapproved: [add], answers: {list: {data: /items, fields: [id]}}")
	add("plugin", ", plugin: plugin.json")
	add("client", ", auth: {client_credentials: {token_url: '"+shop.URL+"/token', client_id: me, client_secret: {file: token}}}")
	add("moved", ", follow_redirects: true, headers: [X-Trace]")
	dir := folder(t, map[string]string{"bot.yaml": file, "shop.yaml": document, "token": "s3cret\n", "plugin.json": `{"schema_version":"v2.1",
		"functions":[{"name":"list","capabilities":{"confirmation":{"type":"AdaptiveCard"}}},{"name":"add"}],"runtimes":[{"type":"OpenApi","run_for_functions":["list","add"]}],"logo_url":"x"}`})
	s := &settings.Settings{}
	if err := applied(t, s, dir); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Secrets(), []string{"s3cret", "s3cret", "s3cret", "s3cret", "s3cret", "s3cret"}) {
		t.Errorf("the secrets are %q", s.Secrets())
	}
	if notes := strings.Join(s.Notes, "\n"); !strings.HasPrefix(notes, filepath.Join(dir, "bot.yaml")+":11: connections.plugin.plugin: ") || !strings.Contains(notes, "logo_url") {
		t.Errorf("the notes are %q", notes)
	}
	closeAll, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	approved := map[string]bool{}
	for _, c := range s.Connected {
		for _, a := range c.Actions().All() {
			approved[a.Name] = a.Approval
			if a.Source.Remote != "list" {
				continue
			}
			entities := map[string]any{}
			if c.Key() == "moved" {
				entities["X-Trace"] = "7"
			}
			result, err := a.Call(t.Context(), settings.Turn(""), entities)
			if err != nil {
				t.Fatal(err)
			}
			value, err := result.Value()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(value)
			if want := map[bool]string{true: `[{"id":1}]`, false: `{"items":[{"id":1,"secret":2}],"more":true}`}[c.Key() == "rules"]; err != nil || string(raw) != want {
				t.Errorf("%s answers %s, want %s: %v", c.Key(), raw, want, err)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for path, want := range map[string]string{
		"/none/items": "||", "/bearer/items": "Bearer s3cret||", "/basic/items": "Basic bWU6czNjcmV0||", "/header/items": "|s3cret|", "/fixed/items": "Bearer s3cret|2022-06-28|", "/query/items": "||key=s3cret", "/rules/items": "||", "/there": "||trace=7", "/client/items": "Bearer of me s3cret||",
	} {
		if asked[path] != want {
			t.Errorf("%s was asked with %q, want %q", path, asked[path], want)
		}
	}
	want := map[string]bool{
		"none_list": false, "bearer_list": false, "basic_list": false, "header_list": false, "fixed_list": false, "query_list": false,
		"rules_list": true, "rules_add": false, "rules_clear": true, "plugin_add": true, "plugin_list": true, "moved_list": false, "client_list": false,
	}
	if fmt.Sprint(approved) != fmt.Sprint(want) {
		t.Errorf("approval is asked as %v, want %v", approved, want)
	}
}

// TestFaultsOfServices: what shows up only in a document or a lock has the line of its connection, too, and
// nothing stays open.
func TestFaultsOfServices(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"bot.yaml": head + "connections:\n  good: {openapi: shop.yaml, server: https://shop.example}\n  bad: {openapi: bad.yaml}\n  worse:\n    mcp: http://mcp.example.com/\n  slow: {mcp: https://mcp.example.com, timeout: 11m}\n  slower: {mcp: https://mcp.example.com, timeouts: {a: 11m}}\n", "shop.yaml": document, "bad.yaml": "a: b",
	})
	s := &settings.Settings{}
	if err := applied(t, s, dir); err != nil {
		t.Fatal(err)
	}
	_, err := s.Connect(t.Context())
	for _, want := range []string{"bot.yaml:5: connections.bad: ", "bot.yaml:6: connections.worse: ", "bot.yaml:8: connections.slow: ", "bot.yaml:9: connections.slower: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not have %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "connections.good") || s.Connected != nil {
		t.Error(err)
	}
	dir = folder(t, map[string]string{"bot.yaml": head + "connections: {good: {openapi: shop.yaml, server: 'https://shop.example'}}\n", "shop.yaml": document, connections.LockName: "{"})
	s = &settings.Settings{}
	if err := applied(t, s, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), connections.LockName) {
		t.Errorf("with a broken lock: %v", err)
	}
}

// TestASecretOfTheOperator: a variable may say where a secret's file is, anywhere.
func TestASecretOfTheOperator(t *testing.T) {
	t.Setenv("PLANBOT_TOKEN_FILE", filepath.Join(folder(t, map[string]string{"token": "s3cret"}), "token"))
	dir := folder(t, map[string]string{"bot.yaml": head + "connections: {a: {openapi: shop.yaml, auth: {bearer: {file: '${PLANBOT_TOKEN_FILE}'}}}}\n", "shop.yaml": document})
	s := &settings.Settings{}
	if err := applied(t, s, dir); err != nil || !slices.Equal(s.Secrets(), []string{"s3cret"}) {
		t.Errorf("the secrets are %q: %v", s.Secrets(), err)
	}
}

// TestAKeyInAnAddress: a key that a variable puts into the query of an address is not shown.
func TestAKeyInAnAddress(t *testing.T) {
	t.Setenv("PLANBOT_KEY", "s3cret")
	dir := folder(t, map[string]string{"bot.yaml": head + "connections: {a: {mcp: 'https://a.example/mcp?tenant=1&api_key=${PLANBOT_KEY}'}}\n"})
	s := &settings.Settings{}
	if err := applied(t, s, dir); err != nil || !slices.Equal(s.Secrets(), []string{"s3cret"}) {
		t.Errorf("the secrets are %q: %v", s.Secrets(), err)
	}
}

// TestApply: the settings get the bot of the file, and keep what flags and the environment say.
func TestApply(t *testing.T) {
	t.Parallel()
	own := settings.Bot{
		Name: "Own", Examples: []string{"an example"}, Register: func(r *actions.Registry) {
			for _, name := range []string{"walk", "run"} {
				actions.Add(r, name, "Moves", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
			}
		},
		Connections: func(context.Context, func(metric, label string)) ([]actions.Connection, error) { return nil, nil },
	}
	dir := folder(t, map[string]string{
		"bot.yaml": head + "instructions: {file: who.md}\nexamples: [Go!]\nactions: [RUN]\nplanner: tools\nskills: [s, t]\ntests: [who.md]\n" +
			"settings: {BOT_MAX_STEPS: 7, BOT_HISTORY_TURNS: 3, BOT_DATA_DIR: data, PORT: 4000}\napprovals: {actions: [run], approvers: [a, b], timeout: 90m}\n",
		"who.md": "You ${RUN}.\n", "s/x": "", "t/x": "",
	})
	s := app.Settings(app.Bot{}, agentskills.Feature(agentskills.Config{}))
	s.Bot = own
	if err := s.Read("--port=4001"); err != nil {
		t.Fatal(err)
	}
	if err := applied(t, s, dir); err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, a := range s.Actions().All() {
		names += a.Name
	}
	got := fmt.Sprintln(s.Bot.Name, s.Bot.Instructions, s.Bot.Examples, s.Bot.Planner, names, s.MaxSteps, s.HistoryTurns, s.Port, s.ApprovalActions, s.Approvers, s.ApprovalTimeout, s.Bot.Connections == nil)
	if want := "Desk You ${RUN}.\n [Go!] tools run 7 3 4001 [run] [a b] 1h30m0s true"; strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	folders := filepath.Join(dir, "s") + string(filepath.ListSeparator) + filepath.Join(dir, "t")
	if s.DataDir != filepath.Join(dir, "data") || s.Text("BOT_SKILLS_DIR") != folders || s.LockFile != filepath.Join(dir, "actions.lock") {
		t.Errorf("paths are %s, %s, %s", s.DataDir, s.Text("BOT_SKILLS_DIR"), s.LockFile)
	}
	f, err := botfile.Read(filepath.Join(dir, "bot.yaml"), new(settings.Settings))
	if err != nil || !slices.Equal(f.Tests(), []string{filepath.Join(dir, "who.md")}) {
		t.Errorf("the tests are %s: %v", f.Tests(), err)
	}
	if f.Services() == nil || len(f.Services()) > 0 {
		t.Errorf("people sign in to %v", f.Services())
	}
	if err := f.Apply(&settings.Settings{}); err == nil || !strings.Contains(err.Error(), `bot.yaml:5: actions: this program has no action "RUN"`) {
		t.Errorf("in another program: %v", err)
	}
}

// TestSignIn: people sign in to the services that a file says.
func TestSignIn(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"bot.yaml": head + "connections:\n  a: {mcp: https://a.example/mcp, auth: {oauth: {}}}\n  b: {openapi: shop.yaml, server: https://b.example/v1, private: [10.1.0.0/16], auth: {oauth: {issuer: 'https://login.example', hosts: ['login.example:8443'], client_id: me, client_secret: {file: token}, scopes: [x]}}}\n" +
			"  c: {openapi: shop.yaml, server: https://c.example, auth: {sign_in: Graph}}\n", "shop.yaml": document, "token": "s3cret",
	})
	s := &settings.Settings{}
	if err := applied(t, s, dir); err != nil {
		t.Fatal(err)
	}
	f, err := botfile.Read(filepath.Join(dir, "bot.yaml"), new(settings.Settings))
	if err != nil {
		t.Fatal(err)
	}
	want := "map[a:{https://a.example/mcp  []   [] []} b:{https://b.example/v1 https://login.example [login.example:8443] me s3cret [x] [10.1.0.0/16]}]"
	if got := fmt.Sprint(f.Services()); got != want || !s.SignsIn {
		t.Errorf("people sign in to %s, %v", got, s.SignsIn)
	}
	closeAll, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	for i, want := range []string{"b", "Graph"} {
		if got := s.Connected[i+1].Actions().Connections(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s needs tokens of %s", s.Connected[i+1].Key(), got)
		}
	}
}

// serveTool is an MCP server without sessions that has the tool send.
func serveTool(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Arguments       struct{ Text string }
		}
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var result any
	switch asked.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": asked.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "tools", "version": "1"},
		}
	case "tools/list":
		result = map[string]any{"tools": []any{map[string]any{"name": "send", "inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}, "required": []any{"text"},
		}}}}
	case "tools/call":
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "sent " + asked.Params.Arguments.Text}}}
	default: // a notification
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": asked.ID, "result": result})
}

// TestARevokedToken: a token of the bot that a service no longer takes is replaced, and the call made once
// more. A service that takes none gets one new token for a call.
func TestARevokedToken(t *testing.T) {
	t.Parallel()
	var given, good atomic.Int64 // tokens so far, and the only one that counts; 0: none does
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":"%d","token_type":"Bearer","expires_in":3600}`, given.Add(1))
		case r.Header.Get("Authorization") != fmt.Sprintf("Bearer %d", good.Load()):
			http.Error(w, "revoked", http.StatusUnauthorized)
		case r.URL.Path == "/mcp":
			serveTool(w, r)
		default:
			fmt.Fprint(w, "here")
		}
	}))
	t.Cleanup(server.Close)
	auth := ", auth: {client_credentials: {token_url: '" + server.URL + "/token', client_id: me, client_secret: {file: token}}}}\n"
	for kind, c := range map[string]struct {
		connection, action string
		entities           map[string]any
		want               string
	}{
		"openapi": {"openapi: shop.yaml, server: '" + server.URL + "', private: [127.0.0.0/8]", "a_list", nil, "here"},
		"mcp":     {"mcp: '" + server.URL + "/mcp', unapproved: [send]", "a_send", map[string]any{"text": "hello"}, "sent hello"},
	} {
		dir := folder(t, map[string]string{"bot.yaml": head + "connections:\n  a: {" + c.connection + auth, "shop.yaml": document, "token": "s3cret"})
		s := &settings.Settings{}
		if err := applied(t, s, dir); err != nil {
			t.Fatal(err)
		}
		closeAll, err := s.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(closeAll)
		call := func(what string) (actions.Result, int64) {
			before := given.Load()
			if _, note := s.Connected[0].Offer(t.Context(), settings.Turn("")); note != "" {
				t.Errorf("%s, %s: %s", kind, what, note)
			}
			a, ok := s.Connected[0].Actions().Lookup(c.action)
			if !ok {
				t.Fatalf("%s, %s: no action", kind, what)
			}
			result, err := a.Call(t.Context(), settings.Turn(""), c.entities)
			if err != nil {
				t.Errorf("%s, %s: %v", kind, what, err)
			}
			return result, given.Load() - before
		}
		for _, what := range []string{"the first token", "a token that was revoked"} {
			good.Store(given.Load() + 1)
			if result, n := call(what); result.Text() != c.want || n != 1 {
				t.Errorf("%s, %s: got %q after %d tokens", kind, what, result.Text(), n)
			}
		}
		good.Store(0)
		if result, n := call("no token is good"); !result.Failed() || !strings.Contains(result.Text(), "does not allow this") || n != 1 {
			t.Errorf("%s takes no token: got %q after %d more", kind, result.Text(), n)
		}
	}
}

// TestWhereTokensAreFetched: on the internet, in a network of the operator's or, with http, on this machine.
func TestWhereTokensAreFetched(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"a","token_type":"Bearer"}`))
	}))
	t.Cleanup(tokens.Close)
	for _, tt := range []struct {
		address string
		private []netip.Prefix
		refused bool
	}{
		{tokens.URL, nil, false},
		{"https" + strings.TrimPrefix(tokens.URL, "http"), nil, true},
		{"https://localhost" + tokens.URL[strings.LastIndex(tokens.URL, ":"):], nil, true},
		{"https" + strings.TrimPrefix(tokens.URL, "http"), connections.ThisMachine(), false}, // and then TLS fails
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tokens.URL, http.NoBody)
		resp, err := botfile.WithAccount(tt.address, tt.private).RoundTrip(req)
		if errors.Is(err, connections.ErrAddress) != tt.refused {
			t.Errorf("%s: %v", tt.address, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	if asked.Load() != 2 { // a token, and what it is for
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestLinks: no link beside the file leads out of its folder.
func TestLinks(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), folder(t, map[string]string{"bot.yaml": head + "instructions: {file: in.md}\nskills: [s]\n", "real.md": "Be kind."})
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(to, from string) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, from))
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Skip("no symbolic links: ", err)
		}
	}
	link(filepath.Join(outside, "secret"), "in.md")
	link(outside, "s")
	_, err := botfile.Read(filepath.Join(dir, "bot.yaml"), new(settings.Settings))
	if err == nil || strings.Count(err.Error(), "a link that leads out of the folder") != 2 {
		t.Errorf("links that lead out: %v", err)
	}
	link("real.md", "in.md")
	_ = os.Remove(filepath.Join(dir, "s"))
	if err := os.Mkdir(filepath.Join(dir, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := botfile.Read(filepath.Join(dir, "bot.yaml"), new(settings.Settings)); err != nil {
		t.Errorf("a link within: %v", err)
	}
}
