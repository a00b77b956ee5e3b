package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/bottest"
)

// TestKilledBetweenCallAndAnswer: nobody knows whether a ticket was opened when the bot died in the middle of
// the call. It does not call again, and the person reads just that.
func TestKilledBetweenCallAndAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t)
	called, calls := make(chan struct{}, 4), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Name") == "open_ticket" {
			calls++
			e.desk.ServeHTTP(httptest.NewRecorder(), r) // it was opened
			called <- struct{}{}
			<-r.Context().Done()
			return
		}
		e.desk.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	channel := bottest.NewConnector(t)
	environment := []string{
		"BOT_FILE=" + filepath.Join(e.dir, "bot.yaml"), "DESK_URL=" + server.URL, "DESK_TOKEN=demo",
		"PORT=0", "BOT_LOG_FORMAT=json", "BOT_LEASE=2s", "REDIS_URL=redis://" + miniredis.RunT(t).Addr(),
	}
	first, url := e.serves(environment)
	body, err := json.Marshal(map[string]any{
		"id": "1", "type": "message", "channelId": "msteams", "serviceUrl": channel.URL, "text": "tickets_open_ticket title=\"No coffee\"",
		"from": map[string]any{"id": "29:mia", "name": "Mia"}, "recipient": map[string]any{"id": "28:me", "name": "Desk"},
		"conversation": map[string]any{"id": "a:mia", "conversationType": "personal"},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // it may be answered only once the bot is gone
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	}()
	select {
	case <-called:
	case <-time.After(time.Minute):
		t.Fatal("the service was not called")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	e.serves(environment)
	said := channel.Next()
	for said.Activity.Text == "" { // typing
		said = channel.Next()
	}
	if !strings.Contains(said.Activity.Text, "I cannot tell whether this was done: Tickets open ticket") || calls != 1 {
		t.Errorf("after %d calls it says %q", calls, said.Activity.Text)
	}
}

// serves starts the bot, and returns where it listens.
func (e *example) serves(environment []string) (process *exec.Cmd, url string) {
	e.Helper()
	program, err := built.Path()
	if err != nil {
		e.Fatal(err)
	}
	process = exec.CommandContext(e.Context(), program, "serve")
	process.Env = environment
	logs, err := process.StderrPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = process.Process.Kill() }) // it may have ended
	lines := bufio.NewScanner(logs)
	var line struct{ Message, URL string }
	for line.Message != "listening" && lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &line) // another line says something else
	}
	if line.URL == "" {
		e.Fatal("the bot does not listen")
	}
	go func() {
		for lines.Scan() { // so that it can write
		}
	}()
	return process, line.URL
}
