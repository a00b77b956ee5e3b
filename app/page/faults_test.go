package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/models"
)

// wired is a page that is served, with a webhook that notes what it gets and answers nothing.
type wired struct {
	*testing.T
	page *page.Page
	url  string
	got  chan []byte // activities
}

func wire(t *testing.T, of page.Parts) *wired {
	t.Helper()
	return wireWith(t, page.Config{}, of)
}

func wireWith(t *testing.T, cfg page.Config, of page.Parts) *wired {
	t.Helper()
	cfg.Name, cfg.Secrets = "Hedda", []string{`correct "horse"`}
	p, err := page.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w := &wired{T: t, page: p, got: make(chan []byte, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/messages", func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		w.got <- raw
	})
	server := httptest.NewUnstartedServer(mux)
	h, err := p.Handler(server.Listener.Addr(), of)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/", h)
	server.Start()
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// do makes a request, and returns the status and the body. fields: it is a form of a browser, with the
// page's token unless there is one.
func (w *wired) do(method, path string, fields url.Values) (int, string) {
	w.Helper()
	if fields != nil && !fields.Has("token") {
		_, body := w.do(http.MethodGet, "/dev/help", nil)
		fields.Set("token", regexp.MustCompile(`planbot-token" content="([^"]+)`).FindStringSubmatch(body)[1])
	}
	req, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(fields.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if fields != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// post sends a form, which must lead to a view.
func (w *wired) post(path string, pairs ...string) {
	w.Helper()
	fields := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		fields.Set(pairs[i], pairs[i+1])
	}
	if status, body := w.do(http.MethodPost, path, fields); status != http.StatusSeeOther {
		w.Fatalf("POST %s %v: %d %s", path, fields, status, body)
	}
}

// said is a model that says always the same.
type said models.Response

func (s said) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	if req.Stream != nil {
		req.Stream()(s.Text)
	}
	r := models.Response(s)
	return &r, nil
}

// TestFaultsOfTheModel sets each fault for two calls: the third one is answered.
func TestFaultsOfTheModel(t *testing.T) {
	t.Parallel()
	const plan = `{"type":"plan","commands":[{"type":"SAY","response":"hi"}]}`
	for kind, want := range map[string]string{
		"429": models.Throttled, "500": models.Unavailable, "timeout": models.Timeout, "filtered": models.Filtered, "empty": models.Empty, "cut": "", "nonsense": "",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := wire(t, page.Parts{})
			model := w.page.Model(said{Text: plan, Finish: "stop"})
			w.post("/dev/faults", "of", "model", "fault", kind, "n", "2")
			for range 2 {
				if _, body := w.do(http.MethodGet, "/dev/", nil); !strings.Contains(body, "<strong>Faults are set.</strong>") {
					t.Error("there is no bar of the faults")
				}
				res, err := model.Complete(t.Context(), &models.Request{Stream: func() func(string) { t.Error("a fault is streamed"); return func(string) {} }})
				fault, isFault := errors.AsType[*models.Error](err)
				switch {
				case want != "" && (!isFault || fault.Kind != want):
					t.Errorf("got %v, want %s", err, want)
				case want == "" && (err != nil || res.Text == plan || res.Text == ""):
					t.Errorf("got %+v, %v", res, err)
				case kind == "cut" && (res.Finish != "length" || !strings.HasPrefix(plan, res.Text)):
					t.Errorf("got %+v", res)
				case kind == "429" && fault.RetryAfter == 0:
					t.Error("there is no Retry-After")
				}
			}
			if res, err := model.Complete(t.Context(), &models.Request{}); err != nil || res.Text != plan {
				t.Errorf("after the faults: %+v, %v", res, err)
			}
			if _, body := w.do(http.MethodGet, "/dev/", nil); strings.Contains(body, "<strong>Faults are set.</strong>") {
				t.Error("the bar of the faults stays")
			}
		})
	}
}

// A model that calls tools gets a call of one that there is not, and half of a call.
func TestFaultsOfTools(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	model := w.page.Model(said{Calls: []models.Call{{Name: "addItem", Arguments: `{"item":"milk"}`}}, Finish: "tool_calls"})
	ask := &models.Request{Tools: []models.Tool{{Name: "addItem"}}}
	w.post("/dev/faults", "of", "model", "fault", "nonsense", "n", "1")
	if res, err := model.Complete(t.Context(), ask); err != nil || len(res.Calls) != 1 || res.Calls[0].Name == "addItem" {
		t.Errorf("nonsense: %+v, %v", res, err)
	}
	w.post("/dev/faults", "of", "model", "fault", "cut", "n", "1")
	if res, err := model.Complete(t.Context(), ask); err != nil || res.Finish != "length" || json.Valid([]byte(res.Calls[0].Arguments)) {
		t.Errorf("cut: %+v, %v", res, err)
	}
}

// TestFaultsOfSends answers a bot as the connector, and looks at what people see.
func TestFaultsOfSends(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		status int // 0: the connection breaks
		shown  bool
	}{"429": {429, false}, "502": {502, true}, "403": {403, false}, "lost": {0, false}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := wire(t, page.Parts{})
			w.post("/dev/chat/say", "room", "mia", "as", "mia", "text", "hello")
			var a struct {
				ServiceURL   string
				Conversation struct{ ID string }
			}
			if err := json.Unmarshal(<-w.got, &a); err != nil {
				t.Fatal(err)
			}
			to := a.ServiceURL + "v3/conversations/" + a.Conversation.ID + "/activities"
			send := func(text string) (int, http.Header) {
				res, err := http.Post(to, "application/json", strings.NewReader(text))
				if err != nil {
					return 0, nil
				}
				defer func() { _ = res.Body.Close() }()
				return res.StatusCode, res.Header
			}
			w.post("/dev/faults", "of", "sends", "fault", kind, "n", "1", "room", "mia")
			if got, _ := send(`{"type":"typing"}`); got != http.StatusAccepted {
				t.Errorf("a typing indicator: %d", got)
			}
			got, header := send(`{"type":"message","text":"first answer"}`)
			if got != c.status || (header.Get("Retry-After") != "") != (kind == "429") {
				t.Errorf("got %d %v, want %d", got, header, c.status)
			}
			if got, _ := send(`{"type":"message","text":"second answer"}`); got != http.StatusCreated {
				t.Errorf("after the fault: %d", got)
			}
			_, body := w.do(http.MethodGet, "/dev/?room=mia", nil)
			if strings.Contains(body, "first answer") != c.shown || !strings.Contains(body, "second answer") {
				t.Errorf("the first answer must be shown: %v", c.shown)
			}
		})
	}
}

// TestCrash ends the process at the moment that was set, in the turn that gets that far.
func TestCrash(t *testing.T) {
	t.Parallel()
	called := func(id string) turn.Event { return turn.Event{Turn: id, Called: &turn.Called{}} }
	saved := func(id, err string) turn.Event { return turn.Event{Turn: id, Saved: &turn.Saved{Err: err}} }
	for when, want := range map[string]int{"called": 4, "saved": 7} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			crashes := 0
			w := wire(t, page.Parts{Crash: func() { crashes++ }})
			w.post("/dev/faults", "of", "crash", "fault", when, "n", "2")
			for i, e := range []turn.Event{
				called("a"), called("b"), saved("a", ""), called("a"), saved("b", ""), saved("a", "redis is away"), saved("a", ""),
			} {
				w.page.WatchTurn(e)
				if (crashes > 0) != (i+1 >= want) {
					t.Fatalf("%d crashes after event %d, want the first at %d", crashes, i+1, want)
				}
			}
			crashes = 0
			w.post("/dev/faults/clear")
			w.page.WatchTurn(called("a"))
			w.page.WatchTurn(saved("a", ""))
			if crashes > 0 {
				t.Error("it crashes although that was cleared")
			}
		})
	}
}

// TestFaultsAreGuarded sends what sets no fault.
func TestFaultsAreGuarded(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	for name, c := range map[string]struct {
		fields url.Values
		want   int
	}{
		"no token":           {url.Values{"of": {"model"}, "fault": {"500"}, "n": {"1"}, "token": {"x"}}, 403},
		"unknown":            {url.Values{"of": {"model"}, "fault": {"fire"}, "n": {"1"}}, 400},
		"never":              {url.Values{"of": {"model"}, "fault": {"500"}, "n": {"0"}}, 400},
		"too many":           {url.Values{"of": {"sends"}, "fault": {"403"}, "n": {"1000"}}, 400},
		"crash of the state": {url.Values{"of": {"crash"}, "fault": {"saved"}, "n": {"1"}}, 400},
	} {
		if status, body := w.do(http.MethodPost, "/dev/faults", c.fields); status != c.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	_, body := w.do(http.MethodGet, "/dev/faults.json", nil)
	var is struct {
		Version      int
		Model, Sends struct{ Left int }
	}
	if err := json.Unmarshal([]byte(body), &is); err != nil || is.Version != 1 || is.Model.Left+is.Sends.Left > 0 {
		t.Errorf("%v: %s", err, body)
	}
	w.post("/dev/faults", "of", "model", "fault", "500", "n", "1")
	for _, path := range []string{"/dev/", "/dev/turns", "/dev/help", "/dev/faults", "/dev/nothing", "/dev/turns/x"} {
		if _, body := w.do(http.MethodGet, path, nil); !strings.Contains(body, "next model calls (1): 500") || !strings.Contains(body, "Clear all faults") {
			t.Errorf("%s has no bar of the faults", path)
		}
	}
	w.post("/dev/faults/clear", "back", "https://example.invalid/")
	if _, body := w.do(http.MethodGet, "/dev/", nil); strings.Contains(body, "next model calls") {
		t.Error("the faults are not cleared")
	}
}
