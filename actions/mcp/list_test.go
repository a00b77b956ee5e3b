package mcp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
)

func TestTheToolsOfAServerAreActions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			f := newFake(t, tool("send"), tool("create.issue"))
			f.legacy = legacy
			c, _ := connectTo(t, f.URL)
			if got := f.count("server/discover"); got != 0 {
				t.Errorf("it has connected before anybody needs it")
			}
			if names := offered(t, c); !slices.Equal(names, []string{connections.Name("svc", "create.issue"), "svc_send"}) {
				t.Errorf("legacy %v: offered %v", legacy, names)
			}
			result, err := run(t.Context(), t, c, "svc_send", map[string]any{"to": "x"})
			if err != nil || result.Text() != "ok" || result.Failed() {
				t.Errorf("legacy %v: got %+v, %v", legacy, result, err)
			}
			if f.count("tools/list") != 1 || f.count("tools/call") != 1 {
				t.Errorf("legacy %v: %d lists, %d calls", legacy, f.count("tools/list"), f.count("tools/call"))
			}
		}
	})
}

func TestAListWithACursorThatComesTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.list = func(string) string { return `{"tools":[` + tool("send") + `],"nextCursor":"x"}` }
		c, log := connectTo(t, f.URL)
		names, note := c.Offer(t.Context(), turnOf(t, "ada"))
		if len(names) != 0 || !strings.Contains(note, "away") {
			t.Errorf("offered %v, said %q", names, note)
		}
		if n := f.count("tools/list"); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "broken list") {
			t.Errorf("operators read %v", err)
		}
		if !strings.Contains(log.String(), "broken list") {
			t.Error("the log does not say that the list is broken")
		}
	})
}

func TestAListThatIsTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.list = func(cursor string) string {
			var tools []string
			for i := range 300 {
				tools = append(tools, tool(fmt.Sprintf("t%s%d", cursor, i)))
			}
			return `{"tools":[` + strings.Join(tools, ",") + `],"nextCursor":"` + map[string]string{"": "2"}[cursor] + `"}`
		}
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); len(names) != 0 {
			t.Errorf("offered %d actions", len(names))
		}
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "600") {
			t.Errorf("got %v, want the count", err)
		}
		pages := 0
		f.set(func() {
			f.list = func(string) string { pages++; return fmt.Sprintf(`{"tools":[],"nextCursor":"p%d"}`, pages) }
		})
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 20 pages") || pages != 20 {
			t.Errorf("got %v after %d pages", err, pages)
		}
	})
}

func TestAllPagesAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.list = func(cursor string) string {
			next := map[string]string{"": "b", "b": "c"}[cursor]
			return `{"tools":[` + tool("t"+cursor) + `],"nextCursor":"` + next + `"}`
		}
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); !slices.Equal(names, []string{"svc_t", "svc_tb", "svc_tc"}) {
			t.Errorf("offered %v", names)
		}
	})
}

func TestToolsThatAreWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		again := `{"name":"ok","inputSchema":{"type":"object","properties":{"other":{"type":"string"}}}}`
		f := newFake(t, tool("ok"), again, tool(""), `{"name":"text","inputSchema":"text"}`, "null", tool("good"))
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); !slices.Equal(names, []string{"svc_good"}) {
			t.Errorf("offered %v", names)
		}
		tools, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var faults []string
		for _, tool := range tools {
			if tool.LeftOut != "" {
				faults = append(faults, tool.Remote+": "+tool.LeftOut)
			}
		}
		if len(faults) != 4 {
			t.Errorf("%d faults, want 4: %q", len(faults), faults)
		}
	})
}

func TestDefinitionsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		schema := func(s string) string { return `{"name":"x","inputSchema":` + s + `}` }
		deep := strings.Repeat(`{"type":"object","properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
		for definition, want := range map[string]string{
			schema(`{"type":"object","properties":{"a":{"$ref":"file:///etc/hostname"}}}`):       "inputSchema",
			schema(`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`): "inputSchema",
			schema(`{"type":"string"}`): "object",
			schema(`true`):              "object",
			`{"name":"x"}`:              "there is none",
			`{"name":1,"inputSchema":{"type":"object"}}`:                                        "no name",
			`{"name":"x","description":7,"inputSchema":{"type":"object"}}`:                      "description",
			`{"name":"x","name":"x","inputSchema":{"type":"object"}}`:                           "duplicate",
			`{"name":"x","description":"\ud800","inputSchema":{"type":"object"}}`:               "surrogate",
			`{"name":"x","description":"` + strings.Repeat("a", 65<<10) + `","inputSchema":{}}`: "bytes",
			schema(deep): "levels",
			schema(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}`):         "x-mcp-header",
			`{"name":"x","inputSchema":{"type":"object"},"outputSchema":{"$ref":"file:///etc/passwd"}}`: "outputSchema",
			`{"name":"x","annotations":{"readOnlyHint":"yes"},"inputSchema":{"type":"object"}}`:         "annotations",
		} {
			f := newFake(t, definition, tool("good"))
			c, _ := connectTo(t, f.URL)
			if names := offered(t, c); !slices.Equal(names, []string{"svc_good"}) {
				t.Errorf("%.80s: offered %v", definition, names)
			}
			tools, err := c.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(tools, func(one actions.Listed) bool { return one.LeftOut != "" })
			if at < 0 || !strings.Contains(tools[at].LeftOut, want) {
				t.Errorf("%.80s: got %+v, want %q", definition, tools, want)
			}
		}
	})
}

func TestAPageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.front = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Mcp-Method") != "tools/list" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			for range 3 << 10 {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1<<10)); err != nil {
					break
				}
			}
			return true
		}
		c, _ := connectTo(t, f.URL)
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 2097152 bytes") {
			t.Errorf("got %v", err)
		}
	})
}

// Servers and proxies end the stream of changes whenever they like, in the middle of an event, too.
func TestTheStreamOfChangesBreaksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.legacy = true
		gets := 0
		f.front = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet {
				return false
			}
			if gets++; gets > 1 {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonr")
			return true
		}
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		eventually(t, "it listens again", func() bool { return f.count("GET") == 2 })
		f.change(tool("send"), tool("new"))
		eventually(t, "the change is seen", func() bool { return len(offered(t, c)) == 2 })
		if n := f.count("initialize"); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// An argument that a schema wants in a header, too, is there, even after the list was read again.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		send := `{"name":"send","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"Recipient"}}}}`
		f := newFake(t, send)
		c, _ := connectTo(t, f.URL)
		for range 2 {
			if result, err := call(t, c); err != nil || result.Text() != "ok" {
				t.Fatalf("got %+v, %v", result, err)
			}
			f.mu.Lock()
			last := f.headers[len(f.headers)-1]
			f.mu.Unlock()
			if last.Get("Mcp-Param-Recipient") != "x" || last.Get("Mcp-Name") != "send" || last.Get("Mcp-Method") != "tools/call" || last.Get("Mcp-Protocol-Version") != "2026-07-28" {
				t.Errorf("the headers are %v", last)
			}
			f.change(send, tool("more"))
			eventually(t, "the change is seen", func() bool { return len(offered(t, c)) == 2 })
		}
		a, _ := c.Actions().Lookup("svc_send")
		if a.Told.Properties["to"].Extra["x-mcp-header"] != nil {
			t.Error("models are told of headers")
		}
	})
}

func TestAVersionThatNobodyKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.front = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Mcp-Method") == "server/discover" {
				http.NotFound(w, r)
				return true
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"1999-12-31","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)
			return true
		}
		c, _ := connectTo(t, f.URL)
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "1999-12-31") {
			t.Errorf("got %v", err)
		}
	})
}

// A server's word must not get anywhere near a log or an error.
func TestWhatIsNotInErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.front = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "<html>body-of-the-answer</html>")
			return true
		}
		c, log := connectTo(t, f.URL+"/mcp?key=s3cret-query", func(cfg *mcp.Config) { cfg.Header = http.Header{"X-Key": {"s3cret-header"}} })
		_, err := c.List(t.Context())
		if err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("got %v", err)
		}
		f.stop()
		_, gone := c.List(t.Context())
		if gone == nil {
			t.Error("a server that is gone has tools")
		}
		for _, text := range []string{fmt.Sprint(err), fmt.Sprint(gone), log.String()} {
			if strings.Contains(text, "s3cret") || strings.Contains(text, "body-of") {
				t.Errorf("it says too much: %s", text)
			}
		}
	})
}
