package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/app/internal/turnlog"
)

// TestCrashOnPurpose sets a crash on the page. The next process goes on with the turn, and its answer
// comes to the page.
func TestCrashOnPurpose(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	environment := []string{"BOT_ADDR=" + addr, "BOT_LOG_FORMAT=json", "REDIS_URL=" + redisServer(t), "BOT_PAGE_KEEP=" + t.TempDir()}
	start := func() *process {
		return startProcess(t, botProcess(context.WithoutCancel(t.Context()), environment))
	}
	try := func(method, path string, fields url.Values) (int, string, error) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(fields.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		return res.StatusCode, string(body), err
	}
	ask := func(method, path string, fields url.Values) (int, string) {
		t.Helper()
		status, body, err := try(method, path, fields)
		if err != nil {
			t.Fatal(err)
		}
		return status, body
	}
	first := start()
	_, help := ask(http.MethodGet, "/dev/help", nil)
	token := regexp.MustCompile(`planbot-token" content="([^"]+)`).FindStringSubmatch(help)[1]
	if status, body := ask(http.MethodPost, "/dev/faults", url.Values{"token": {token}, "of": {"crash"}, "fault": {"called"}, "n": {"1"}}); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	// It may crash before it answers.
	if status, body, _ := try(http.MethodPost, "/dev/chat/say", url.Values{"room": {"mia"}, "text": {"create a list Home and add milk to it"}}); status >= http.StatusBadRequest {
		t.Fatalf("%d %s", status, body)
	}
	select {
	case <-first.ended:
	case <-withPatience(t).Done():
		t.Fatal("it does not crash")
	}
	if exit, ok := errors.AsType[*exec.ExitError](first.err); !ok || exit.ExitCode() != 86 {
		t.Fatalf("it ended with %v", first.err)
	}
	second := start()
	second.until("turn ended")
	var is struct{ Turns []turnlog.Head }
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx := withPatience(t); len(is.Turns) != 1 || is.Turns[0].Outcome != turnlog.OK; <-tick.C {
		if ctx.Err() != nil {
			t.Fatalf("%+v", is)
		}
		_, body := ask(http.MethodGet, "/dev/turns.json", nil)
		if err := json.Unmarshal([]byte(body), &is); err != nil {
			t.Fatal(err, body)
		}
	}
	if h := is.Turns[0]; h.Tries != 1 || strings.Join(h.Actions, " ") != "createList addItem" {
		t.Errorf("%+v", h)
	}
	_, shown := ask(http.MethodGet, "/dev/turns/"+is.Turns[0].ID, nil)
	if strings.Count(shown, `data-command="createList" data-result="lost"`) != 1 || strings.Count(shown, `data-command="createList" data-result="ok"`) != 1 {
		t.Errorf("the plan does not tell the attempt that was lost:\n%s", shown)
	}
	_, body := ask(http.MethodGet, "/dev/parts/messages?room=mia", nil)
	for _, text := range []string{"create a list Home and add milk to it", "Added milk to the list Home."} {
		if !strings.Contains(body, text) {
			t.Errorf("%q is not on the page:\n%s", text, body)
		}
	}
	second.stop()
}
