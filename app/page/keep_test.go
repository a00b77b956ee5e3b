package page_test

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/bot/turn"
)

// shows waits until a view shows a text, or no longer does.
func (w *wired) shows(path, text string, is bool) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); ; <-tick.C {
		_, body := w.do(http.MethodGet, path, nil)
		if strings.Contains(body, text) == is {
			return
		}
		select {
		case <-end:
			w.Fatalf("%s shows %q: %t", path, text, !is)
		default:
		}
	}
}

// hello is how the page's stream begins.
func (w *wired) hello() string {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.url+"/dev/stream", nil)
	if err != nil {
		w.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // it has no end
	line := ""
	for in := bufio.NewScanner(res.Body); !strings.HasPrefix(line, "data:") && in.Scan(); {
		line = in.Text()
	}
	return line
}

// TestKept: chat and turns are there for the process that comes next, also what the last one has still
// seen after that began. What happens there is not replaced.
func TestKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := page.Config{Keep: dir}
	turnOf := func(w *wired, id, text string) {
		raw := `{"type":"message","id":"` + id + `","from":{"id":"u","name":"Mia"},"conversation":{"id":"c"},"text":"` + text + `"}`
		w.page.WatchTurn(turn.Event{Turn: id, Received: &turn.Received{Activity: []byte(raw), Text: text}})
	}
	first := wireWith(t, cfg, page.Parts{})
	if body := first.hello(); !strings.Contains(body, `"keeps":true`) {
		t.Errorf("the stream says %s", body)
	}
	if _, body := first.do(http.MethodGet, "/dev/turns/none", nil); strings.Contains(body, "as long as the bot runs") {
		t.Errorf("of no turn: %s", body)
	}
	first.post("/dev/chat/person", "name", "Bo Berg")
	first.post("/dev/chat/room", "name", "Plans")
	first.post("/dev/chat/rename", "room", "otto", "name", "Tests")
	first.post("/dev/chat/say", "room", "mia", "text", "said before")
	turnOf(first, "turn-1", "asked before")
	second := wireWith(t, cfg, page.Parts{})
	_, body := first.do(http.MethodGet, "/dev/", nil)
	token := regexp.MustCompile(`name="planbot-token" content="(\w{26})"`).FindStringSubmatch(body)
	if token == nil {
		t.Fatal(body)
	}
	second.shows("/dev/", token[1], true) // a form of a page of before can still be sent
	wire(t, page.Parts{}).shows("/dev/", token[1], false)
	second.shows("/dev/?room=mia", "said before", true)
	second.shows("/dev/?room=lunch", "Bo Berg", true)
	second.shows("/dev/?room=lunch", ">Plans<", true)
	second.shows("/dev/?room=lunch", ">Tests<", true)
	second.shows("/dev/turns", "asked before", true)

	second.post("/dev/chat/say", "room", "mia", "text", "said after")
	turnOf(first, "turn-2", "asked late")
	first.page.WatchTurn(turn.Event{Turn: "turn-1", Ended: &turn.Ended{Outcome: turnlog.OK}})
	turnOf(second, "turn-3", "asked after")
	second.page.WatchTurn(turn.Event{Turn: "turn-3", Ended: &turn.Ended{Outcome: turnlog.Failed, Err: "torn"}})
	first.page.Close()
	second.shows("/dev/turns", "asked late", true)
	second.shows("/dev/turns/turn-1.json", `"outcome": "ok"`, true)
	second.page.Close()
	third := wireWith(t, cfg, page.Parts{})
	for path, texts := range map[string][]string{"/dev/?room=mia": {"said before", "said after"}, "/dev/turns": {"asked before", "asked late", "asked after"}, "/dev/turns/turn-3": {"torn"}} {
		_, body := third.do(http.MethodGet, path, nil)
		for _, text := range texts {
			if strings.Count(body, text) == 0 {
				t.Errorf("%s does not show %q", path, text)
			}
		}
	}
	third.page.Close()
	if files, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestKeptIsDamaged: the page begins with nothing.
func TestKeptIsDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.kept.json": "{", "b.kept.json": `{"version":99,"turns":[{"id":"turn-1"}]}`, "c.kept.json": `{"version":1,"rooms":[{"key":"x"}],"turns":[{"id":"turn-2"}]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := wireWith(t, page.Config{Keep: dir}, page.Parts{})
	_, body := w.do(http.MethodGet, "/dev/turns.json", nil)
	if strings.Contains(body, "turn-1") || !strings.Contains(body, "turn-2") {
		t.Error(body)
	}
	w.post("/dev/chat/say", "room", "mia", "text", "hello")
	w.next()
}

// TestBuildFault: every view says that the last build failed, until one does not.
func TestBuildFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := wireWith(t, page.Config{Keep: dir}, page.Parts{})
	says := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, page.BuildFault), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says("main.go:7: undefined: <b>two")
	w.shows("/dev/turns", "main.go:7: undefined: &lt;b&gt;two", true)
	says("")
	w.shows("/dev/turns", "The last build failed", false)
}
