package page_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// hostile is what nobody should write into a name: markup, a mark that turns the direction of a text,
// and a line that does not end.
const hostile = `</p><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202egnp.exe\u0007"

// bundle is a page with a bot, which is reached over HTTP.
type bundle struct {
	t     *testing.T
	page  *page.Page
	bot   *bot.Bot
	url   string
	token string
}

// set is what a test has of a bot and a page.
type set struct {
	register func(*actions.Registry)
	parts    page.Parts
	secrets  []string
}

// setup serves a page with the bot of s on the offline model.
func setup(t *testing.T, s set) *bundle {
	t.Helper()
	p, err := page.New(page.Config{Name: "Hedda", Secrets: s.secrets})
	if err != nil {
		t.Fatal(err)
	}
	registry := actions.New()
	if s.register != nil {
		s.register(registry)
	}
	maker, err := planner.NewSequence(t.Context(), planner.Config{Model: models.Offline{}, Actions: registry, Watch: p.Turns().WatchPlanner})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bot.New(bot.Config{Actions: registry, Planner: maker, Features: []bot.Feature{{Event: p.Turns().WatchTurn}}})
	if err != nil {
		t.Fatal(err)
	}
	s.parts.Bot = b
	server := httptest.NewUnstartedServer(nil)
	shown, err := p.Handler(server.Listener.Addr(), s.parts)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/messages", b)
	mux.Handle("/dev/", shown)
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(func() {
		_ = b.Drain(context.WithoutCancel(t.Context()))
		p.Close()
		server.Close()
	})
	c := &bundle{t: t, page: p, bot: b, url: server.URL}
	c.token = regexp.MustCompile(`name="planbot-token" content="([^"]+)"`).FindStringSubmatch(c.get("/dev/help"))[1]
	return c
}

// do makes a request and returns the answer, which is read.
func (c *bundle) do(method, path string, form url.Values, header ...string) (status int, body, location string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(raw), res.Header.Get("Location")
}

func (c *bundle) get(path string) string {
	c.t.Helper()
	status, body, _ := c.do("GET", path, nil)
	if status != http.StatusOK {
		c.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	return body
}

// post sends a form as a script does, with the token, and decodes the answer.
func (c *bundle) post(path string, form url.Values, into any) (status int) {
	c.t.Helper()
	status, body, _ := c.do("POST", path, form, "X-Planbot-Token", c.token)
	if into != nil {
		if err := json.Unmarshal([]byte(body), into); err != nil {
			c.t.Fatalf("POST %s: %d %v in %s", path, status, err, body)
		}
	}
	return status
}

// submit sends a form as a browser does, and returns the view that it leads to.
func (c *bundle) submit(path string, form url.Values) string {
	c.t.Helper()
	form.Set("token", c.token)
	status, body, to := c.do("POST", path, form, "Accept", "text/html")
	if status != http.StatusSeeOther {
		c.t.Fatalf("POST %s: %d %s", path, status, body)
	}
	to, _, _ = strings.Cut(to, "#")
	return c.get(to)
}

// say has a person say something, and waits until the turn is over. It returns the turn's id.
func (c *bundle) say(room, text string) string {
	c.t.Helper()
	before := len(c.page.Turns().Turns())
	if status := c.post("/dev/chat/say", url.Values{"room": {room}, "as": {room}, "text": {text}}, nil); status != http.StatusNoContent {
		c.t.Fatalf("say: %d", status)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		all := c.page.Turns().Turns()
		if len(all) > before && all[0].Outcome != "running" {
			return all[0].ID
		}
	}
	c.t.Fatal("no turn ended")
	return ""
}

// noScript fails if a view has markup that came from a text, or a character that hides.
func noScript(t *testing.T, body string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img", "\u202e", "\u0007", " style="} {
		if strings.Contains(body, bad) {
			t.Errorf("the view has %q: %q", bad, body[max(0, strings.Index(body, bad)-150):strings.Index(body, bad)+20])
		}
	}
	if len(body) > 1<<20 {
		t.Errorf("the view has %d bytes", len(body))
	}
}

// TestViewsOfNothing looks at every view of a page that knows nothing of its bot.
func TestViewsOfNothing(t *testing.T) {
	t.Parallel()
	p, err := page.New(page.Config{Name: hostile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	h, err := p.Handler(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3978}, page.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"actions", "prompts", "prompts/sequence", "skills", "settings", "evals"} {
		for _, end := range []string{"", ".json"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/dev/"+path+end, nil)
			r.Host = "127.0.0.1:3978"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			kind := w.Header().Get("Content-Type")
			if w.Code != http.StatusOK || end != "" && (kind != "application/json" || !strings.Contains(w.Body.String(), `"version": 1`)) {
				t.Errorf("%s%s: %d %s %s", path, end, w.Code, kind, w.Body)
			}
			if end == "" && !strings.Contains(w.Body.String(), `aria-current="page"`) {
				t.Errorf("%s: no tab is the current one", path)
			}
		}
	}
	for _, path := range []string{"actions/x", "prompts/x", "prompts/sequence", "settings/doctor"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/dev/"+path, nil)
		r.Host = "127.0.0.1:3978"
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("POST %s without the token: %d", path, w.Code)
		}
	}
}

// TestKeysAreListed compares the keys of the script with the help.
func TestKeysAreListed(t *testing.T) {
	t.Parallel()
	c := setup(t, set{})
	help := c.get("/dev/help")
	script := c.get(regexp.MustCompile(`src="([^"]+/keys.js)"`).FindStringSubmatch(help)[1])
	places := regexp.MustCompile(`const places = \{([^}]*)\}`).FindStringSubmatch(script)[1]
	for _, place := range regexp.MustCompile(`(\w): '([^']+)'`).FindAllStringSubmatch(places, -1) {
		if !strings.Contains(help, "<kbd>g</kbd> <kbd>"+place[1]+"</kbd>") {
			t.Errorf("the help does not list g %s", place[1])
		}
		if !strings.Contains(help, `<a href="`+place[2]+`"`) {
			t.Errorf("g %s leads to %s, which is no tab", place[1], place[2])
		}
	}
}
