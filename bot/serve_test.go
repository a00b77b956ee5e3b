package bot_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	plans "github.com/planbot-go/planbot/planner/plan"
)

// small is a bot with nothing but what it needs, whose planner says hello.
func small(t *testing.T, think func()) *bot.Bot {
	t.Helper()
	b, err := bot.New(bot.Config{Actions: actions.New(), Planner: bot.PlannerFunc(func(context.Context, *actions.Turn) (plans.Plan, error) {
		think()
		return plans.Plan{Commands: []plans.Command{{Kind: plans.Say, Response: "Hello."}}}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestServeEndsWhenTheTurnAtWorkHasEnded(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	b := small(t, func() { close(began); <-goOn })
	ctx, end := context.WithCancel(t.Context())
	listener := listen(t)
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, listener) }()

	connector := &channel{Connector: bottest.NewConnector(t)}
	posted := make(chan error, 1)
	go func() {
		body := `{"type":"message","id":"1","channelId":"test","serviceUrl":"` + connector.URL + `","text":"hi","from":{"id":"mia"},"recipient":{"id":"bot"},"conversation":{"id":"c"}}`
		resp, err := http.Post("http://"+listener.Addr().String()+"/api/messages", "application/json", strings.NewReader(body))
		if err == nil {
			resp.Body.Close()
		}
		posted <- err
	}()
	<-began
	end()
	for !b.Draining() {
		runtime.Gosched()
	}
	close(goOn)
	if err := <-served; err != nil {
		t.Errorf("served: %v", err)
	}
	if err := <-posted; err != nil {
		t.Errorf("posted: %v", err)
	}
	if got := connector.Next(t).Text(); got != "Hello." {
		t.Errorf("said %q", got)
	}
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

// everywhere is a listener that says to be on all interfaces.
type everywhere struct{ net.Listener }

func (everywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 3978} }

func TestBotWithoutADoorIsForThisMachine(t *testing.T) {
	t.Parallel()
	b := small(t, func() {})
	t.Cleanup(func() { _ = b.Drain(context.Background()) })
	if err := b.Serve(t.Context(), everywhere{listen(t)}); err == nil || !strings.Contains(err.Error(), "0.0.0.0:3978") {
		t.Errorf("served on all interfaces: %v", err)
	}
	here := &net.TCPAddr{IP: net.IPv6loopback}
	for _, c := range []struct {
		at   net.Addr
		want int
	}{{here, http.StatusBadRequest}, {&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, http.StatusForbidden}, {nil, http.StatusForbidden}} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/messages", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		if c.at != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.at))
		}
		answer := httptest.NewRecorder()
		b.ServeHTTP(answer, r)
		if answer.Code != c.want {
			t.Errorf("at %v: status %d, want %d", c.at, answer.Code, c.want)
		}
	}
}

func TestListenAndServeNamesTheAddress(t *testing.T) {
	t.Parallel()
	b := small(t, func() {})
	t.Cleanup(func() { _ = b.Drain(context.Background()) })
	if err := b.ListenAndServe(t.Context(), "127.0.0.1:none"); err == nil || !strings.Contains(err.Error(), "listen on 127.0.0.1:none") {
		t.Errorf("got %v", err)
	}
}
