package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	miniredisserver "github.com/alicebob/miniredis/v2/server"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/cli"
)

// execute runs one command line of the default bot with text on standard input.
func execute(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	return executeFor(t, defaultBot(), stdin, args...)
}

func executeFor(t *testing.T, b Bot, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	in, err := os.Create(filepath.Join(t.TempDir(), "stdin"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := in.WriteString(stdin); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = runAll(t.Context(), b, args, &cli.Streams{In: in, Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	registry := filepath.Join(t.TempDir(), "actions.json")
	if err := os.WriteFile(registry, []byte(`[{"name":"lightsOn"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	envFile := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(envFile, []byte("BOT_PLANNER=sequential\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	const inPlan = `<plan><function.lightsOn why="$INPUT"/><say>ok</say></plan>`
	const lightsOn = `{"type":"plan","commands":[{"type":"DO","action":"lightsOn"}]}`
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		out   string // in standard output
		err   string // in standard error
	}{
		"version":            {"", []string{"version"}, 0, "bot ", ""},
		"help":               {"", []string{"--help"}, 0, "doctor ", ""},
		"help of a command":  {"", []string{"serve", "--help"}, 0, "BOT_ADDR", ""},
		"unknown command":    {"", []string{"fly"}, cli.ExitUsage, "", "fly"},
		"bad settings":       {"", []string{"serve", "--port=x", "--bot-turn-timeout=y"}, cli.ExitUsage, "", "BOT_TURN_TIMEOUT"},
		"bad settings JSON":  {"", []string{"serve", "--port=x", "--bot-log-format=json"}, cli.ExitUsage, "", `{"level":"error","mistakes":[`},
		"unknown flag JSON":  {"", []string{"--nope=1", "--bot-log-format=json"}, cli.ExitUsage, "", `{"level":"error","mistakes":["unknown flag --nope`},
		"unknown flag apart": {"", []string{"--nope", "--bot-log-format", "JSON"}, cli.ExitUsage, "", `{"level":"error","mistakes":[`},
		"port taken":         {"", []string{"serve", "--bot-addr=" + taken.Addr().String()}, cli.ExitFailed, "", "BOT_ADDR"},
		"bad Redis URL":      {"", []string{"serve", "--redis-url=nonsense", "--port=0"}, cli.ExitUsage, "", "REDIS_URL"},
		"plan":               {"", []string{"plan", "add milk to my shopping list"}, 0, `"action": "addItem"`, ""},
		"plan sequential":    {"", []string{"plan", "--bot-planner=sequential", "add milk to my shopping list"}, 0, `"action": "addItem"`, ""},
		"plan by XML":        {"", []string{"plan", "--bot-planner=sequential", "hello"}, 0, "Functions:\naddItem:\n  description: Adds an item", ""},
		"call by name":       {"", []string{"plan", "--bot-planner=sequential", "summarizeLists"}, 0, `"action": "summarizeLists"`, ""},
		"decode":             {lightsOn, []string{"plan", "decode", "--actions", registry}, 0, `{"commands":[{"type":"DO","action":"lightsOn","entities":{}}],"repairs":[]}` + "\n", ""},
		"decode prose":       {"Hello!", []string{"plan", "decode"}, 0, `{"say":"Hello!"}` + "\n", ""},
		"decode a fault":     {lightsOn, []string{"plan", "decode"}, 0, `{"error":"unknown_action","detail":`, ""},
		"decode nothing":     {"", []string{"plan", "decode"}, 0, `{"error":"no_plan"`, ""},
		"decode lines":       {`{"name":"a","output":"Hi","more":1}` + "\n\n" + `{"name":"b","output":"{"}`, []string{"plan", "decode", "--jsonl"}, 0, `{"name":"a","say":"Hi"}` + "\n" + `{"name":"b","error":"truncated"`, ""},
		"decode no JSON":     {"Hi", []string{"plan", "decode", "--jsonl"}, cli.ExitUsage, "", "line 1"},
		"decode no output":   {`{"name":"a"}`, []string{"plan", "decode", "--jsonl"}, cli.ExitUsage, "", "line 1"},
		"decode broken JSON": {`0000000{"` + "\n" + `" ""`, []string{"plan", "decode"}, 0, `{"say":"0000000{\"\n\" \"\""}` + "\n", ""},
		"decode a quote":     {`{"response":"You wrote: "#{` + "\n" + `"commands":[{"type":"DO","action":"lightsOn"}]` + "\n" + `}0"}`, []string{"plan", "decode", "--actions", registry}, 0, `{"error":"invalid_plan"`, ""},
		"decode XML":         {inPlan, []string{"plan", "decode", "--format=xml", "--goal=on", "--actions", registry}, 0, `{"commands":[{"type":"DO","action":"lightsOn","entities":{"why":"on"}},{"type":"SAY","response":"ok"}],"repairs":[]}` + "\n", ""},
		"decode XML as JSON": {inPlan, []string{"plan", "decode", "--actions", registry}, 0, `{"error":"invalid_plan"`, ""},
		"decode XML lines":   {`{"name":"a","output":"<plan/>"}`, []string{"plan", "decode", "--format=xml", "--jsonl"}, 0, `{"name":"a","error":"no_plan"`, ""},
		"decode YAML":        {"", []string{"plan", "decode", "--format=yaml"}, cli.ExitUsage, "", "--format"},
		"print":              {lightsOn, []string{"plan", "print", "--actions", registry, "-"}, 0, "- lightsOn\n", ""},
		"print XML":          {inPlan, []string{"plan", "print", "--actions", registry, "-"}, 0, "- lightsOn why=\"$INPUT\"\n- SAY \"ok\"\n", ""},
		"print an outline":   {inPlan, []string{"plan", "print", "--outline", "--actions", registry, "-"}, 0, "- lightsOn\n- SAY\n", ""},
		"print as JSON":      {inPlan, []string{"plan", "print", "--as=json", "--actions", registry, "-"}, 0, "{\n  \"commands\": [", ""},
		"print a fault":      {lightsOn, []string{"plan", "print", "-"}, cli.ExitFailed, "", "unknown_action"},
		"print no file":      {"", []string{"plan", "print", "/nowhere"}, cli.ExitUsage, "", "/nowhere"},
		"no such registry":   {"", []string{"plan", "decode", "--actions", "/nowhere"}, cli.ExitUsage, "", "/nowhere"},
		"no domain":          {"", []string{"manifest", "build", "--app-id", "x"}, cli.ExitUsage, "", "domain"},
		"no health":          {"", []string{"healthcheck", "--bot-addr=127.0.0.1:1"}, cli.ExitFailed, "", "healthcheck"},
		"doctor":             {"", []string{"doctor", "--port=0"}, 0, "All is well.", ""},
		"doctor warns":       {"", []string{"doctor", "--port=0", "--microsoft-app-id=your-app-id", "--microsoft-app-password=p", "--microsoft-app-tenant-id=" + guid, "--bot-model=offline", "--bot-state=embedded", "--bot-login-url=http://127.0.0.1:1", "--bot-openid-metadata-url=http://127.0.0.1:1", "--json"}, cli.ExitFailed, `"status": "warn",` + "\n    " + `"detail": "MICROSOFT_APP_ID: it is not a GUID`, ""},
		"doctor explains":    {"", []string{"doctor", "--microsoft-app-id=" + guid, "--microsoft-app-password=xyzzy", "--microsoft-app-tenant-id=" + guid}, cli.ExitFailed, "or set BOT_MODEL=offline for a bot that answers fixed phrases only", ""},
		"serve wants words":  {"", []string{"serve", "--microsoft-app-id=" + guid, "--microsoft-app-password=p", "--microsoft-app-tenant-id=" + guid, "--bot-model=offline"}, cli.ExitUsage, "", "or set BOT_STATE=embedded for a bot that forgets everything at exit"},
		"env file":           {"", []string{"plan", "--env-file", envFile, "hello"}, 0, "Functions:\naddItem:", ""},
		"no env file":        {"", []string{"--env-file=/nowhere/.env"}, cli.ExitUsage, "", "--env-file: open /nowhere/.env"},
		"doctor finds":       {"", []string{"doctor", "--port=x", "--json"}, cli.ExitFailed, `"status": "fail"`, ""},
		"chat":               {"create a list Home and add milk to it\nwhat is on my lists?\n", []string{"chat"}, 0, "**Home**\n- milk", ""},
		"chat, sequential":   {"create a list Home and add milk to it\nwhat is on my lists?\n", []string{"chat", "--bot-planner=sequential"}, 0, "**Home**\n- milk", ""},
		"chat, tools":        {"create a list Home and add milk to it\nwhat is on my lists?\n", []string{"chat", "--bot-planner=tools"}, 0, "**Home**\n- milk", ""},
		"chat is local":      {"", []string{"chat", "--microsoft-app-id=a", "--microsoft-app-password=b"}, cli.ExitUsage, "", "unset MICROSOFT_APP_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, c.stdin, c.args...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, c.code, out, errs)
			}
		})
	}
}

func TestManifestBuildsWhatItValidates(t *testing.T) {
	t.Parallel()
	zip := filepath.Join(t.TempDir(), "app.zip")
	if code, _, errs := execute(t, "", "manifest", "build", "--app-id", "11111111-2222-3333-4444-555555555555", "--domain", "bot.example.com", "--out", zip); code != 0 {
		t.Fatalf("build: %d %s", code, errs)
	}
	if code, out, errs := execute(t, "", "manifest", "validate", zip); code != 0 {
		t.Errorf("validate: %d %s %s", code, out, errs)
	}
}

// TestServe starts the bot as a new user does and talks to it.
func TestServe(t *testing.T) {
	t.Parallel()
	connector := newConnector(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines, logs := io.Pipe()
	var served sync.WaitGroup
	code := -1
	served.Go(func() {
		defer func() { _ = logs.Close() }()
		code = runAll(ctx, defaultBot(), []string{"--port=0", "--bot-log-format=json"}, &cli.Streams{Out: io.Discard, Err: logs})
	})
	log := bufio.NewScanner(lines)
	var listening struct{ URL, State, Model, Identity, Next string }
	for listening.URL == "" && log.Scan() {
		if err := json.Unmarshal(log.Bytes(), &listening); err != nil {
			t.Fatalf("log line %q: %v", log.Text(), err)
		}
	}
	served.Go(func() {
		for log.Scan() {
			if !json.Valid(log.Bytes()) {
				t.Errorf("log line %q is not JSON", log.Text())
			}
		}
	})
	for what, text := range map[string]string{"embedded": listening.State, "offline": listening.Model, "local": listening.Identity, "chat": listening.Next} {
		if !strings.Contains(text, what) {
			t.Errorf("the first line does not speak of %s: %+v", what, listening)
		}
	}
	body := `{"type":"message","id":"1","channelId":"emulator","serviceUrl":"` + connector.URL + `","from":{"id":"u"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"create a list Home and add milk to it"}`
	resp, err := http.Post(listening.URL, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := connector.next(t); !strings.Contains(got, "Home") {
		t.Errorf("reply %q", got)
	}
	root := strings.TrimSuffix(listening.URL, "/api/messages")
	for _, path := range []string{"/healthz", "/readyz"} {
		resp, err := http.Get(root + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if code, _, errs := execute(t, "", "healthcheck", "--bot-addr="+strings.TrimPrefix(root, "http://")); code != 0 {
		t.Errorf("healthcheck: %d %s", code, errs)
	}
	stop()
	served.Wait()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Every probe is answered, but only a change of the store is news.
func TestReadiness(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	a := assembled(t, env{"redis-url": "redis://" + server.Addr(), "port": "0"}, io.Discard)
	var logs bytes.Buffer
	log := zerolog.New(&logs)
	for _, step := range []struct {
		change func()
		path   string
		code   int
		level  string
	}{
		{func() {}, "/readyz", http.StatusOK, "debug"},
		{func() { server.SetError("LOADING") }, "/readyz", http.StatusServiceUnavailable, "warn"},
		{func() {}, "/readyz", http.StatusServiceUnavailable, "debug"},
		{func() {}, "/healthz", http.StatusOK, ""},
		{func() { server.SetError("") }, "/readyz", http.StatusOK, "warn"},
		{func() { server.Server().SetPreHook(full) }, "/readyz", http.StatusServiceUnavailable, "warn"},
		{func() { server.Server().SetPreHook(nil) }, "/readyz", http.StatusOK, "warn"},
		{func() { _ = a.bot.Drain(t.Context()) }, "/readyz", http.StatusServiceUnavailable, "debug"},
	} {
		step.change()
		logs.Reset()
		w := httptest.NewRecorder()
		req, err := http.NewRequestWithContext(log.WithContext(t.Context()), http.MethodGet, step.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		a.handler().ServeHTTP(w, req)
		var line logLine
		_ = json.Unmarshal(logs.Bytes(), &line) // none: no level
		if w.Code != step.code || line.Level != step.level {
			t.Errorf("%s: %d, want %d with level %q: %s", step.path, w.Code, step.code, step.level, logs.String())
		}
	}
}

// full answers as a Redis that has no room for more.
func full(c *miniredisserver.Peer, cmd string, _ ...string) bool {
	if cmd != "SET" {
		return false
	}
	c.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
	return true
}

func TestServeWithRedisDownIsNotReady(t *testing.T) {
	t.Parallel()
	a := assembled(t, env{"redis-url": "redis://127.0.0.1:1/0", "port": "0"}, io.Discard)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		a.handler().ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestHelpIsShort: the commands fit on a screen, and settings are shown with each of them.
func TestHelpIsShort(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}} {
		if code, out, _ := execute(t, "", args...); code != 0 || strings.Count(out, "\n") > 40 || strings.Contains(out, "BOT_ADDR") {
			t.Errorf("bot %s: %d\n%s", args, code, out)
		}
	}
	_, out, _ := execute(t, "", "turns", "export", "--help")
	own, settings, port := strings.Index(out, "--out FILE"), strings.Index(out, "Settings, also"), strings.Index(out, "--port int")
	if own < 0 || own > settings || settings > port {
		t.Errorf("bot turns export --help:\n%.1500s", out)
	}
}

// TestChatWithARunningBot talks to one that was started with nothing set.
func TestChatWithARunningBot(t *testing.T) {
	t.Parallel()
	bot := startBot(t)
	var listening struct{ URL, Next string }
	if err := json.Unmarshal([]byte(bot.listening), &listening); err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSuffix(listening.URL, "/api/messages")
	if !strings.Contains(listening.Next, "chat --url "+url) {
		t.Errorf("next: %s", listening.Next)
	}
	code, out, errs := execute(t, "create a list Home and add milk to it\nwhat is on my lists?\n", "chat", "--url", url)
	if code != 0 || !strings.Contains(out, "**Home**\n- milk") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	if code, _, errs := execute(t, "", "chat", "--url=here"); code != cli.ExitUsage || !strings.Contains(errs, "--url") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, out, _ := execute(t, "hello\n", "chat", "--url=http://127.0.0.1:1"); code != cli.ExitFailed || !strings.Contains(out, "cannot be reached") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// TestActions: what bot actions --json writes is a registry with its prompts.
func TestActions(t *testing.T) {
	t.Parallel()
	if code, out, _ := execute(t, "", "actions"); code != 0 || !strings.Contains(out, "addItem ") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	dir := filesIn(t, map[string]string{"sequence/prompt.txt": "{{actions}}"})
	code, out, _ := execute(t, "", "actions", "--json", "--bot-prompts-dir="+dir)
	file := filepath.Join(filesIn(t, map[string]string{"actions.json": out}), "actions.json")
	s, err := env{}.read()
	if err != nil || code != 0 {
		t.Fatal(code, err)
	}
	registry, err := s.ReadActions(file)
	if err != nil || s.PromptsDir != dir {
		t.Fatalf("%v, prompts in %s", err, s.PromptsDir)
	}
	for _, a := range s.Actions().All() {
		if read, ok := registry.Lookup(a.Name); !ok || read.Description != a.Description || len(read.Schema.Properties) != len(a.Schema.Properties) || read.Destructive != a.Destructive ||
			read.Approval != a.Approval || read.ReturnsData != a.ReturnsData || !slices.Equal(read.Examples, a.Examples) {
			t.Errorf("%s: %+v", a.Name, read)
		}
	}
}
