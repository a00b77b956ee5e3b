//go:build linux

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onPage is the page of a bot, for a test.
type onPage struct {
	*testing.T
	url, token string
}

func pageOf(t *testing.T, bot *process) *onPage {
	t.Helper()
	var at struct{ URL string }
	if err := json.Unmarshal([]byte(bot.listening), &at); err != nil {
		t.Fatal(err)
	}
	p := &onPage{T: t, url: strings.TrimSuffix(at.URL, "/api/messages")}
	_, body := p.do(http.MethodGet, "/dev/", nil)
	p.token = regexp.MustCompile(`planbot-token" content="([^"]+)"`).FindStringSubmatch(body)[1]
	return p
}

// do makes a request as a form does, and follows where that leads.
func (p *onPage) do(method, path string, form url.Values) (status int, body string) {
	p.Helper()
	if form != nil {
		form.Set("token", p.token)
	}
	req, err := http.NewRequestWithContext(withPatience(p.T), method, p.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// say says something to the bot and returns the turn once it is over.
func (p *onPage) say(text string) (turn string) {
	p.Helper()
	p.do(http.MethodPost, "/dev/chat/say", url.Values{"room": {"mia"}, "as": {"mia"}, "text": {text}})
	for deadline := time.Now().Add(processPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var all struct {
			Turns []struct{ ID, Text, Outcome string }
		}
		_, body := p.do(http.MethodGet, "/dev/turns.json", nil)
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			p.Fatal(err)
		}
		if len(all.Turns) > 0 && all.Turns[0].Text == text && all.Turns[0].Outcome != "running" {
			return all.Turns[0].ID
		}
	}
	p.Fatalf("%q was not answered", text)
	return ""
}

// TestPageTriesAgain: a what-if takes the bot's own planners, prompts, actions and policy.
func TestPageTriesAgain(t *testing.T) {
	t.Parallel()
	_, bot := startOnDisk(t, "4m")
	defer bot.stop() // a server outlives a killed bot
	p := pageOf(t, bot)
	id := p.say("add milk to groceries")
	try := func(fields ...string) string {
		form := url.Values{"text": {"delete the list groceries"}, "state": {`{"user":{"lists":{"all":[{"name":"groceries","items":[]}]}}}`}, "told": {"0"}}
		for i := 0; i < len(fields); i += 2 {
			form.Add(fields[i], fields[i+1])
		}
		_, body := p.do(http.MethodPost, "/dev/turns/"+id+"/what-if", form)
		return body
	}
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{nil, "would run; fits the schema; needs no approval"},
		{[]string{"planner", "tools"}, "would run; fits the schema; needs no approval"},
		{[]string{"planner", "nonsense"}, "BOT_PLANNER"},
		{[]string{"prompts", "/nowhere"}, "BOT_PROMPTS_DIR"},
		{[]string{"model", "gpt-5"}, "the bot has no model server"},
	} {
		if got := try(c.fields...); !strings.Contains(got, c.want) {
			t.Errorf("%q: no %q in %s", c.fields, c.want, got)
		}
	}
	if got := try("choose", "1", "action", "addItem"); strings.Contains(got, `data-would="deleteList"`) || !strings.Contains(got, "Both plans") {
		t.Errorf("deleteList is offered: %s", got)
	}
	if said := p.say("what is on my lists?"); said == "" {
		t.Error("the bot does not go on")
	}
}

// TestPageOnAFullDisk: a test that does not fit is not saved, and leaves nothing behind.
func TestPageOnAFullDisk(t *testing.T) {
	t.Parallel()
	folder, bot := startOnDisk(t, "1m")
	defer bot.stop() // a server outlives a killed bot
	p := pageOf(t, bot)
	disk := fmt.Sprintf("/proc/%d/root%s", bot.cmd.Process.Pid, folder) // as the bot sees it
	id := p.say("add milk to groceries")
	save := func(name string) (int, string) {
		return p.do(http.MethodPost, "/dev/turns/save", url.Values{"turn": {id}, "name": {name}})
	}
	if status, body := save("one.yaml"); status != http.StatusOK {
		t.Fatalf("got %d %s", status, body)
	}
	filler, err := os.Create(filepath.Join(disk, "filler")) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(filler, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if status, body := save("two.yaml"); status != http.StatusInsufficientStorage || !strings.Contains(body, "is full, so nothing was saved") {
		t.Errorf("got %d %s", status, body)
	}
	if _, err := os.Stat(filepath.Join(disk, "scenarios", "two.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	if status, body := save("two.yaml"); status != http.StatusOK {
		t.Errorf("got %d %s", status, body)
	}
}
