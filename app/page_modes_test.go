package app

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state/inbox"
)

// pageHost is where the page of a test says that it is.
const pageHost = "127.0.0.1:3978"

// shown is the handler of a bot with these settings as it is served there, with its page if it has one.
type shown struct {
	*testing.T
	*program
	handler http.Handler
}

func show(t *testing.T, e env) *shown {
	t.Helper()
	s, b, err := e.readAll()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Settings: s, own: b, log: zerolog.Nop()}
	t.Cleanup(p.close)
	if err := p.open(io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := p.assemble(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.bot.Drain(context.Background()) })
	if err := p.serveFeatures(t.Context(), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3978}); err != nil {
		t.Fatal(err)
	}
	return &shown{t, p, p.handler()}
}

// get returns the status and the body.
func (s *shown) get(path string) (int, string) {
	s.Helper()
	return s.serve(httptest.NewRequestWithContext(s.Context(), http.MethodGet, path, http.NoBody))
}

func (s *shown) serve(r *http.Request) (int, string) {
	r.Host = pageHost
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// post sends a form with the page's token.
func (s *shown) post(path string, form url.Values) (int, string) {
	s.Helper()
	_, body := s.get("/dev/help")
	token := regexp.MustCompile(`planbot-token" content="([^"]+)`).FindStringSubmatch(body)[1]
	r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, path, strings.NewReader(form.Encode()+"&token="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.serve(r)
}

// TestPageIsForLocalModeOnly asks for the page in each mode: its routes do not exist but in one.
func TestPageIsForLocalModeOnly(t *testing.T) {
	t.Parallel()
	_, help := show(t, env{"port": "0"}).get("/dev/help")
	asset := regexp.MustCompile(`/dev/assets/[^"]+/page.css`).FindString(help)
	if asset == "" {
		t.Fatalf("the help has no asset:\n%s", help)
	}
	for name, c := range map[string]struct {
		env  env
		page bool
	}{
		"local":           {env{"port": "0"}, true},
		"app id":          {env{"port": "0", "microsoft-app-id": guid, "microsoft-app-password": "p", "microsoft-app-tenant-id": guid, "bot-model": "offline", "bot-state": "embedded"}, false},
		"no auth":         {env{"bot-dangerously-no-auth": "true", "bot-addr": "0.0.0.0:0"}, false},
		"no auth, here":   {env{"bot-dangerously-no-auth": "true", "bot-addr": "127.0.0.1:0"}, false},
		"switched off":    {env{"port": "0", "bot-page": "false"}, false},
		"another address": {env{"bot-dangerously-no-auth": "true", "bot-addr": ":0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := show(t, c.env)
			for _, path := range []string{"/", "/dev/", "/dev/help", "/dev/turns.json", "/dev/faults", "/dev/parked", "/dev/numbers", asset} {
				got, _ := s.get(path)
				if is := got != http.StatusNotFound; is != c.page {
					t.Errorf("%s: %d", path, got)
				}
			}
			ended, stop := context.WithCancel(t.Context())
			stop() // the stream ends with its request
			got, _ := s.serve(httptest.NewRequestWithContext(ended, http.MethodGet, "/dev/stream", http.NoBody))
			if is := got != http.StatusNotFound; is != c.page {
				t.Errorf("the stream: %d", got)
			}
			if got, _ := s.get("/healthz"); got != http.StatusOK {
				t.Errorf("the bot itself: %d", got)
			}
		})
	}
}

// TestPageKeeps: the folder that the page writes is made, and what cannot be one is a mistake in the settings.
func TestPageKeeps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "page")
	show(t, env{"port": "0", "bot-page-keep": dir})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{file: strconv.Quote(file) + " is not a folder", filepath.Join(file, "below"): "stat "} {
		if _, _, err := (env{"port": "0", "bot-page-keep": path}).readAll(); err == nil || !strings.Contains(err.Error(), "BOT_PAGE_KEEP: "+want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestParked shows what is parked, in the Redis of this process and in another one.
func TestParked(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]env{"embedded": {"port": "0"}, "server": {"port": "0", "redis-url": "redis://" + miniredis.RunT(t).Addr()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := show(t, e)
			in, err := inbox.Open(s.bot.Store(), inbox.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(in.Close)
			l := &letters{T: t, inbox: in}
			l.bury("first", secretRecord, "its plan <b>does not fit")
			l.bury("second", strings.ReplaceAll(secretRecord, `"first"`, `"second"`), "why")
			at := time.Now().Add(time.Hour)
			for id, wait := range map[string]string{
				"approve": `"for":"approval","approval":{"id":"x","action":"deleteList","hash":"x","expires":"2026-01-02T03:04:05Z",` +
					`"sent":[{"to":"aad-ben","name":"Ben","conversation":"a:ben","at":"2026-01-02T03:00:00Z","rule":"policy"}]}`,
				"answer": `"for":"answer","question":{"action":"book","form":{}}`,
				"sign":   `"for":"sign_in","sign_in":{}`,
				"every":  `"for":"time","every":"0 9 * * 1","zone":"Europe/Berlin"`,
			} {
				record := strings.NewReplacer(`"first"`, `"`+id+`"`, `"phase":"planning"`, `"phase":"waiting","wait":{`+wait+`}`).Replace(secretNew)
				if _, err := in.Accept(t.Context(), inbox.Entry{Queue: theQueue(), ID: id, Record: []byte(record), Wait: &inbox.Wait{Until: at}}); err != nil {
					t.Fatal(err)
				}
			}
			waits := strings.Replace(secretNew, `"phase":"planning"`, `"phase":"waiting","wait":{"for":"time","memo":"call mum","topic":"reminders"}`, 1)
			entry := inbox.Entry{Queue: theQueue(), ID: "third", Record: []byte(strings.Replace(waits, `"first"`, `"third"`, 1)), Wait: &inbox.Wait{Until: at}}
			if _, err := in.Accept(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
			_, body := s.get("/dev/parked")
			for _, want := range []string{
				`data-dead="first"`, "its plan &lt;b&gt;does not fit", "createList", "my secret", `data-waiting="third" data-for="time"`, "a notice of reminders: call mum",
				`data-waiting="approve" data-for="approval"><td class="words">approval of deleteList`, "2026-01-02 03:00:00 UTC: asked Ben aad-ben (policy)", `datetime="2026-01-02T03:04:05Z"`, "an answer for book", "a person to sign in", "a notice at 0 9 * * 1 Europe/Berlin",
			} {
				if !strings.Contains(body, want) {
					t.Errorf("no %q in\n%s", want, body)
				}
			}
			_, body = s.get("/dev/parked.json")
			var twin struct {
				Version int
				Dead    []struct {
					ID    string
					About struct{ Done []string }
				}
				Waiting []struct{ ID, About string }
			}
			if err := json.Unmarshal([]byte(body), &twin); err != nil || twin.Version != 1 || len(twin.Dead) != 2 || len(twin.Dead[0].About.Done) == 0 || len(twin.Waiting) != 5 {
				t.Errorf("%v: %s", err, body)
			}
			if got, body := s.get("/dev/parked/first/export"); got != http.StatusOK || !strings.Contains(body, "name: turn first") {
				t.Errorf("export: %d %s", got, body)
			}
			if got, body := s.get("/dev/parked/first"); got != http.StatusOK || !strings.Contains(body, "createList") || !strings.Contains(body, "my secret") {
				t.Errorf("a lost turn: %d %s", got, body)
			}
			if got, _ := s.get("/dev/turns/first"); got != http.StatusSeeOther { // the page has not seen it
				t.Errorf("the address that the bot names: %d", got)
			}
			drop := url.Values{"do": {"drop"}, "turn": {"first"}, "reason": {"nobody waits"}}
			if got, body := s.post("/dev/parked", drop); got != http.StatusOK || !strings.Contains(body, "Drop 1 turn?") || !strings.Contains(body, "nobody waits") {
				t.Errorf("the question: %d %s", got, body)
			}
			if got, _ := s.serve(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/dev/parked", http.NoBody)); got != http.StatusForbidden {
				t.Errorf("without the token: %d", got)
			}
			drop.Set("sure", "1")
			for _, form := range []url.Values{drop, {"do": {"retry"}, "turn": {"first", "second"}}} {
				if got, body := s.post("/dev/parked", form); got != http.StatusSeeOther {
					t.Errorf("%v: %d %s", form, got, body)
				}
				if got, _ := s.post("/dev/parked", form); got != http.StatusNotFound {
					t.Errorf("%v again: %d", form, got)
				}
			}
			if dead, err := in.Dead(t.Context()); err != nil || len(dead) != 0 {
				t.Errorf("%+v, %v", dead, err)
			}
			left, err := in.Records(t.Context(), theQueue())
			if rec, fault := turn.Decode(left["second"]); cmp.Or(err, fault) != nil || rec.ID != "second" || len(left) != 6 {
				t.Errorf("the turn to try again: %v, %v: %v", err, fault, left)
			}
		})
	}
}

// TestPageBehindDev says where browsers reach the page when bot dev is in front of it.
func TestPageBehindDev(t *testing.T) {
	t.Parallel()
	s := show(t, env{"port": "0", "bot-page-addr": "127.0.0.1:4000", "bot-log-format": "console"})
	var said strings.Builder
	s.announce(&said)
	if got := said.String(); !strings.Contains(got, "http://127.0.0.1:4000/ to talk to it") || strings.Contains(got, "3978") {
		t.Errorf("it says:\n%s", got)
	}
}
