package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/cli"
)

// TestABotOfAFile: the commands of the program are about the bot in the file.
func TestABotOfAFile(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{
		"who.md": "You count stock.",
		"bot.yaml": "version: 1\nname: Stock\ninstructions: {file: who.md}\nwelcome: Hi there!\nplanner: tools\nexamples: [what is left?]\nactions: [addItem]\n" +
			"prompts: prompts\nsettings: {BOT_MAX_STEPS: 7, BOT_HISTORY_TURNS: 3}\napprovals: {actions: [addItem, Poem]}\nmanifest: {summary: Counts what is left., version: 2.0.0}\n",
		"prompts/Poem/prompt.txt":  "Write a poem about {{$about}}.",
		"prompts/Poem/config.json": `{"schema":1,"description":"Writes a poem","input":{"parameters":[{"name":"about","description":"of what"}]}}`,
		"wrong.yaml":               "version: 1\nname: Stock\nactions:\n- addItem\n- addItems\n",
		"broken.yaml":              "version: 1\nnames: Stock\n",
	})
	file := "--file=" + filepath.Join(dir, "bot.yaml")
	for name, c := range map[string]struct {
		args     []string
		code     int
		out, err string
		not      string
	}{
		"actions":        {[]string{"actions", file}, 0, "addItem  Adds an item", "", "removeItem"},
		"plan":           {[]string{"plan", file, "--bot-planner=sequence", "hi"}, 0, "You count stock.", "", "createList"},
		"flags win":      {[]string{"plan", file, "--bot-instructions-file=" + filepath.Join(dir, "broken.yaml"), "--bot-planner=sequence", "hi"}, 0, "names: Stock", "", "You count stock."},
		"prompts":        {[]string{"plan", file, "--bot-planner=sequence", "hi"}, 0, "Writes a poem", "", ""},
		"doctor":         {[]string{"doctor", file, "--port=0"}, 0, "All is well.", "", ""},
		"a bad flag":     {[]string{"doctor", file, "--port=0", "--bot-max-steps=x"}, cli.ExitFailed, "BOT_MAX_STEPS", "", ""},
		"chat":           {[]string{"chat", file}, 0, "Stock, model: ", "", ""},
		"no action":      {[]string{"actions", "--file=" + filepath.Join(dir, "wrong.yaml")}, cli.ExitUsage, "", `wrong.yaml:5: actions: this program has no action "addItems"`, ""},
		"broken":         {[]string{"serve", "--file=" + filepath.Join(dir, "broken.yaml")}, cli.ExitUsage, "", `broken.yaml:2: there is no key "names"; did you mean name?`, ""},
		"no file":        {[]string{"serve", "--file=" + filepath.Join(dir, "none.yaml")}, cli.ExitUsage, "", "none.yaml does not exist", ""},
		"wrong elswhere": {[]string{"serve", file, "--bot-response-format=text"}, cli.ExitUsage, "", "BOT_RESPONSE_FORMAT: is for the planner sequence, not tools", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, "", c.args...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) || c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("exit code %d\n%s\n%s", code, out, errs)
			}
		})
	}
	t.Run("manifest", func(t *testing.T) {
		t.Parallel()
		to := filepath.Join(t.TempDir(), "app")
		if code, out, errs := execute(t, "", "manifest", "init", file, to); code != 0 {
			t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
		}
		raw, err := os.ReadFile(filepath.Join(to, "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"short": "Stock"`, "Counts what is left.", `"version": "2.0.0"`} {
			if !bytes.Contains(raw, []byte(want)) {
				t.Errorf("no %s in %s", want, raw)
			}
		}
	})
}

// fakeService is a service whose list a test says.
type fakeService struct {
	key  string
	all  *actions.Registry
	has  []actions.Listed
	err  error
	note string
}

func (f *fakeService) Key() string                { return f.key }
func (f *fakeService) Summary() string            { return "" }
func (f *fakeService) Actions() *actions.Registry { return f.all }
func (f *fakeService) Close()                     {}

func (f *fakeService) Offer(context.Context, *actions.Turn) (names []string, note string) {
	for _, a := range f.all.All() {
		names = append(names, a.Name)
	}
	return names, f.note
}

func (f *fakeService) List(context.Context) ([]actions.Listed, error) { return f.has, f.err }

func service1(t *testing.T, remotes ...string) *fakeService {
	t.Helper()
	f := &fakeService{key: "crm", all: actions.New()}
	for _, remote := range remotes {
		definition := jsontext.Value(`{"name":"` + remote + `","description":"Does it\u202e"}`)
		a, err := actions.AddSchema(f.all, "crm_"+remote, "Does it", &jsonschema.Schema{Type: "object"}, func(context.Context, *actions.Turn, map[string]any) (actions.Result, error) {
			return actions.Done, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		a.Source = actions.Source{Connection: "crm", Remote: remote}
		f.has = append(f.has, actions.Listed{Remote: remote, Name: "crm_" + remote, Definition: definition})
	}
	return f
}

// withServices is the default bot with these.
func withServices(all ...actions.Connection) Bot {
	b := defaultBot()
	b.Connections = func(context.Context, func(metric, label string)) ([]actions.Connection, error) { return all, nil }
	return b
}

// TestActionsOfServices: bot actions lists them with what their service says in full, and says what is left
// out and which service does not answer.
func TestActionsOfServices(t *testing.T) {
	t.Parallel()
	crm := service1(t, "send", "read")
	crm.has[1].LeftOut = "its definition has changed"
	away := &fakeService{key: "away", all: actions.New(), err: errors.New("no answer")}
	code, out, errs := executeFor(t, withServices(crm, away), "", "actions")
	if code != cli.ExitFailed || !strings.Contains(out, `Does it\u202e`) || strings.Contains(out, "crm_read") ||
		!strings.Contains(errs, "crm: read: its definition has changed\n") || !strings.Contains(errs, "away: no answer\n") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	code, out, _ = executeFor(t, withServices(crm), "", "actions", "--json")
	var declared struct{ Actions []struct{ Name string } }
	if err := json.Unmarshal([]byte(out), &declared); err != nil || code != 0 || declared.Actions[len(declared.Actions)-1].Name != "crm_send" {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	code, out, errs = executeFor(t, withServices(crm, away), "", "doctor", "--port=0")
	if code != 0 || !strings.Contains(out, "offers 1 action: crm_send\n") || !strings.Contains(out, "read is not offered: its definition has changed") ||
		!strings.Contains(out, "warn  away      the service cannot be asked, so none of its actions is offered: no answer") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	broken := defaultBot()
	broken.Connections = func(context.Context, func(metric, label string)) ([]actions.Connection, error) {
		return nil, errors.New("crm: no URL")
	}
	for _, command := range []string{"serve", "plan hi", "actions"} {
		if code, out, errs := executeFor(t, broken, "", append(strings.Fields(command), "--port=0")...); code != cli.ExitUsage || !strings.Contains(errs, "crm: no URL") {
			t.Errorf("%s: exit code %d\n%s\n%s", command, code, out, errs)
		}
	}
	if code, out, _ := executeFor(t, broken, "", "doctor", "--port=0"); code != cli.ExitFailed || !strings.Contains(out, "fail  services  crm: no URL") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestPin: bot actions --pin accepts what services have now, and shows the difference.
func TestPin(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{"bot.yaml": "version: 1\nname: Stock\n"})
	pinned := func(want string, code int, all ...actions.Connection) {
		t.Helper()
		b := withServices(all...)
		b.features = append(b.features, Feature{Name: "lock", Describe: func(p *Program, _ *Bot) error {
			p.Settings().LockFile = filepath.Join(dir, "actions.lock")
			return nil
		}})
		got, out, errs := executeFor(t, b, "", "actions", "--pin")
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("exit code %d, want %d and %q in\n%s%s", got, code, want, out, errs)
		}
	}
	pinned("added crm send ", 0, service1(t, "send"))
	pinned(`\u202e`, 0, service1(t, "send", "read"))
	pinned(": 0. The bot uses", 0, service1(t, "send", "read"))
	away := service1(t)
	away.err = errors.New("no answer")
	pinned("crm: nothing new was accepted: no answer\n", cli.ExitFailed, away)
	lock, err := connections.ReadLock(filepath.Join(dir, "actions.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if pins, _ := lock.Pins("crm"); len(pins) != 2 {
		t.Errorf("the pins of a service that is away are %v", pins)
	}
	changed := service1(t, "send", "read")
	changed.has[0].Definition = jsontext.Value(`{"name":"send","description":"Does more"}`)
	pinned(`  +   "description": "Does more",`, 0, changed)
	gone := service1(t, "send", "read")
	gone.has[0].Definition, gone.has[0].LeftOut = nil, "the server no longer has it"
	pinned("removed crm send ", 0, gone)
	pinned("removed crm read ", 0)
	if err := os.WriteFile(filepath.Join(dir, "actions.lock"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	pinned("actions.lock", cli.ExitUsage)
}

// TestTheActionsOfAServiceArePlanned from the first turn on, in the program.
func TestTheActionsOfAServiceArePlanned(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"{\"type\":\"plan\",\"commands\":[{\"type\":\"DO\",\"action\":\"crm_send\",\"entities\":{}}]}"},"finish_reason":"stop"}]}`))
	}))
	defer model.Close()
	code, out, errs := executeFor(t, withServices(service1(t, "send")), "", "plan", "--openai-base-url="+model.URL, "send it")
	if code != 0 || !strings.Contains(out, `"action": "crm_send"`) || !strings.Contains(out, "crm_send() - Does it") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
}
