package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestPageOfABot looks at what the page says of a whole bot, over HTTP.
func TestPageOfABot(t *testing.T) {
	t.Parallel()
	folder := filesIn(t, map[string]string{
		"prompts/sequence/prompt.txt": "I am Hedda, in JSON.\n{{actions}}", "skills/vacation/SKILL.md": "---\nname: vacation\ndescription: How to take a vacation\n---\nAsk.",
		"skills/vacation/count.py": "print(1)",
	})
	s, b, err := env{
		"port": "0", "bot-prompts-dir": filepath.Join(folder, "prompts"), "bot-skills-dir": filepath.Join(folder, "skills"), "bot-skills-sandbox": "none",
		"bot-moderation-key": "", "bot-token-keys": "",
	}.readAll()
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
	server := httptest.NewUnstartedServer(nil)
	if err := p.serveFeatures(t.Context(), server.Listener.Addr()); err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = p.handler()
	server.Start()
	t.Cleanup(server.Close)
	request := func(method, path, token string) (status int, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Planbot-Token", token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(raw)
	}
	for path, want := range map[string][]string{
		"/dev/actions":          {"/dev/actions/addItem", "/dev/actions/load_skill", "/dev/actions/remindMe"},
		"/dev/prompts":          {`data-prompt="sequence"`, "of the planner", "built in"},
		"/dev/prompts/sequence": {"I am Hedda, in JSON."},
		"/dev/skills":           {`data-skill="vacation"`, "cannot run: there is no sandbox", "BOT_SKILLS_SANDBOX is none"},
		"/dev/settings":         {`data-setting="BOT_PROMPTS_DIR" data-set`, `data-setting="OPENAI_API_KEY"`},
		"/dev/evals":            {"<code>evals</code>"},
		"/dev/parked":           {"<h1>Parked</h1>"},
		"/dev/numbers":          {"<h1>Numbers</h1>"},
	} {
		status, body := request("GET", path, "")
		for _, one := range want {
			if status != http.StatusOK || !strings.Contains(body, one) {
				t.Errorf("%s: %d, lacks %q", path, status, one)
			}
		}
		if strings.Contains(body, filepath.Join(folder, "prompts")) {
			t.Errorf("%s shows the value of a setting", path)
		}
	}
	_, help := request("GET", "/dev/help", "")
	token := regexp.MustCompile(`name="planbot-token" content="([^"]+)"`).FindStringSubmatch(help)[1]
	connected := p.Connected
	status, body := request("POST", "/dev/settings/doctor", token)
	var said struct {
		Doctor struct {
			Checks []struct{ Name, Status string }
			Fault  string
		}
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil || status != http.StatusOK || said.Doctor.Fault != "" {
		t.Fatal(err, status, body)
	}
	names := []string{}
	for _, c := range said.Doctor.Checks {
		names = append(names, c.Name)
	}
	if !slices.Contains(names, "model") || !slices.Contains(names, "skills") || slices.Contains(names, "address") {
		t.Errorf("the doctor has examined %v", names)
	}
	if len(p.Connected) != len(connected) {
		t.Error("the doctor has changed what the running bot has")
	}
}
