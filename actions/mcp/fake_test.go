package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/state"
)

// TestMain is also the server that tests run on stdio.
func TestMain(m *testing.M) {
	if kind := os.Getenv("STDIO_SERVER"); kind != "" {
		serveStdio(kind)
		return
	}
	goleak.VerifyTestMain(m)
}

// message is a request to the fake server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Cursor    string          `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      map[string]any  `json:"_meta"`
		Answers   json.RawMessage `json:"inputResponses"`
		State     string          `json:"requestState"`
		Can       json.RawMessage `json:"capabilities"`
	} `json:"params"`
}

// fake is an MCP server written by hand: it does what a test wants, however wrong.
type fake struct {
	*httptest.Server
	legacy bool // it speaks the protocol before 2026-07-28, with sessions

	mu       sync.Mutex
	tools    []string // as JSON
	ttl      int      // of lists, in ms
	list     func(cursor string) string
	call     func(w http.ResponseWriter, r *http.Request, m message)
	front    func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
	seen     []message
	headers  []http.Header
	sessions int
	changed  chan struct{} // tells listeners
	gone     chan struct{}
	once     sync.Once
}

func newFake(t testing.TB, tools ...string) *fake {
	t.Helper()
	t.Cleanup(func() { time.Sleep(linger) })
	f := &fake{tools: tools, ttl: 3_600_000, changed: make(chan struct{}), gone: make(chan struct{})}
	f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
		f.result(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
	}
	f.Server = serve(f)
	t.Cleanup(f.stop)
	return f
}

// linger gives goroutines time to notice that they can end: once the function of a bubble has
// returned, time no longer passes.
const linger = 10 * time.Millisecond

// stop makes the server go away.
func (f *fake) stop() {
	f.once.Do(func() { close(f.gone); f.CloseClientConnections(); f.Close() })
}

// wires connects connections and servers in memory, so that a test may run in a bubble.
var wires pipe.Network

// serve serves h. Who calls it closes it.
func serve(h http.Handler) *httptest.Server {
	server := &httptest.Server{Listener: wires.Listen(), Config: &http.Server{Handler: h}} //nolint:gosec // the test's own
	server.Start()
	return server
}

const modern = `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}`

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m message
	_ = json.Unmarshal(body, &m)
	if r.Method == http.MethodGet {
		m.Method = "GET"
	}
	if r.Method == http.MethodDelete {
		m.Method = "DELETE"
	}
	f.mu.Lock()
	f.seen, f.headers = append(f.seen, m), append(f.headers, r.Header.Clone())
	front, call, list, changed := f.front, f.call, f.list, f.changed
	listed := strings.Join(f.tools, ",")
	ttl := f.ttl
	f.mu.Unlock()
	if front != nil && front(w, r) {
		return
	}
	switch {
	case m.Method == "server/discover" && f.legacy:
		http.Error(w, "Bad Request: no session", http.StatusBadRequest)
	case m.Method == "server/discover":
		f.result(w, m, `{`+modern+`}`)
	case m.Method == "initialize":
		f.mu.Lock()
		f.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", f.sessions))
		f.mu.Unlock()
		f.result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}`)
	case m.Method == "subscriptions/listen", m.Method == "GET" && f.legacy:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-f.gone:
			}
		case <-r.Context().Done():
		case <-f.gone:
		}
	case m.Method == "tools/list" && list != nil:
		f.result(w, m, list(m.Params.Cursor))
	case m.Method == "tools/list":
		f.result(w, m, fmt.Sprintf(`{"tools":[%s],"ttlMs":%d,"cacheScope":"private"}`, listed, ttl))
	case m.Method == "tools/call":
		call(w, r, m)
	case strings.HasPrefix(m.Method, "notifications/"):
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// result answers a request.
func (*fake) result(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// refuse answers a request with an error of JSON-RPC.
func (*fake) refuse(w http.ResponseWriter, m message, status, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

// count is how many requests of that method came.
func (f *fake) count(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.seen {
		if m.Method == method {
			n++
		}
	}
	return n
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// change changes the tools and tells those who listen.
func (f *fake) change(tools ...string) {
	f.set(func() {
		f.tools = tools
		close(f.changed)
		f.changed = make(chan struct{})
	})
}

// saying makes calls answer with a result.
func (f *fake) saying(result string) {
	f.set(func() {
		f.call = func(w http.ResponseWriter, _ *http.Request, m message) { f.result(w, m, result) }
	})
}

// tool is the definition of a tool with an entity.
func tool(name string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"description":"Does %s","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}}%s}`, name, name, strings.Join(more, ""))
}

// logs is a log that tests read.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// connectTo makes a connection with the key svc.
func connectTo(t testing.TB, url string, change ...func(*mcp.Config)) (*mcp.Connection, *logs) {
	t.Helper()
	log := &logs{}
	lock := connections.NewLock()
	lock.FirstUse = true
	cfg := mcp.Config{Key: "svc", URL: url, Lock: lock, Log: zerolog.New(log)}
	for _, f := range change {
		f(&cfg)
	}
	c, err := mcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.DialWith(wires.Dial)
	t.Cleanup(c.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return c, log
}

// turnOf is a turn of a person.
func turnOf(t testing.TB, who string) *actions.Turn {
	t.Helper()
	a := &activity.Activity{}
	if err := json.Unmarshal(fmt.Appendf(nil, `{"type":"message","channelId":"msteams","from":{"id":"29:%s","aadObjectId":%q},"conversation":{"id":"c","tenantId":"t"}}`, who, who), a); err != nil {
		t.Fatal(err)
	}
	return &actions.Turn{ID: "turn", Activity: a, Temp: &state.Scope{}}
}

// offered are the names that a turn may plan. It waits until the server was asked.
func offered(t *testing.T, c *mcp.Connection) []string {
	t.Helper()
	names, _ := c.Offer(t.Context(), turnOf(t, "ada"))
	return names
}

// run calls an action as the bot does, with its check.
func run(ctx context.Context, t *testing.T, c *mcp.Connection, name string, entities map[string]any) (actions.Result, error) {
	t.Helper()
	a, ok := c.Actions().Lookup(name)
	if !ok {
		t.Fatalf("no action %s", name)
	}
	checked, err := a.Check(entities)
	if err != nil {
		t.Fatal(err)
	}
	return a.Call(ctx, turnOf(t, "ada"), checked)
}

// call offers, then calls svc_send.
func call(t *testing.T, c *mcp.Connection) (actions.Result, error) {
	t.Helper()
	if names := offered(t, c); !slices.Contains(names, "svc_send") {
		t.Fatalf("offered %v", names)
	}
	return run(t.Context(), t, c, "svc_send", map[string]any{"to": "x"})
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("waited in vain: " + what)
		}
	}
}
