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
	"testing/fstest"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// turnOfMia is a turn with a history and a variable.
func turnOfMia() *actions.Turn {
	a := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "and eggs"}
	a.Conversation.ConversationType, a.From.Name = "personal", "Mia"
	turn := &actions.Turn{ID: "t1", Activity: a, Text: "and eggs", Conversation: state.NewScope(), User: state.NewScope(), Temp: state.NewScope()}
	turn.Thread = turn.Conversation
	state.Of[prompts.History](turn.Thread).Append(prompts.Turn{Messages: []prompts.Message{{Role: "user", Text: "add milk"}, {Role: "assistant", Text: "Added milk."}}}, 5)
	*state.At[string](turn.Conversation, "mood") = "sunny"
	return turn
}

// TestPreview renders prompts for a turn with a model that must not be asked.
func TestPreview(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a preview asks the model") }))
	t.Cleanup(model.Close)
	s, err := env{"openai-base-url": model.URL, "openai-model": "m"}.read()
	if err != nil {
		t.Fatal(err)
	}
	own := fstest.MapFS{
		"prompts/sequence/prompt.txt":   {Data: []byte("You are {{$conversation.mood}}. Plan in JSON.\n{{actions}}")},
		"prompts/tools/prompt.txt":      {Data: []byte("Call what you need, said {{$temp.input}}.")},
		"prompts/Translate/prompt.txt":  {Data: []byte("Translate {{$text}} to {{$language}}.")},
		"prompts/Translate/config.json": {Data: []byte(`{"description":"Translates","input":{"parameters":[{"name":"text"},{"name":"language"}]}}`)},
		"prompts/idle/prompt.txt":       {Data: []byte("Nobody needs me.")},
	}
	for name, want := range map[string][]string{
		"sequence":   {"prompt: You are sunny. Plan in JSON.\n", "addItem(", "history: add milk", "person: and eggs"},
		"tools":      {"prompt: Call what you need, said and eggs.", "person: and eggs"},
		"sequential": {"prompt: ", "addItem"},
		"Translate":  {"Translate [text] to [language]."},
	} {
		asked, err := previewPrompt(t.Context(), *s, turnOfMia(), own, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := ""
		for _, section := range asked.Sections {
			text += section.Name + ": " + section.Text + "\n"
		}
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("%s lacks %q:\n%s", name, one, text)
			}
		}
	}
	for name, want := range map[string]string{"idle": "nothing uses the prompt idle", "nothing": "nothing uses the prompt nothing"} {
		if _, err := previewPrompt(t.Context(), *s, turnOfMia(), own, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	own["prompts/sequence/prompt.txt"] = &fstest.MapFile{Data: []byte("{{nothing}}")}
	if _, err := previewPrompt(t.Context(), *s, turnOfMia(), own, "sequence"); err == nil || !strings.Contains(err.Error(), `no function "nothing"`) {
		t.Errorf("a draft with a fault: %v", err)
	}
	if s.Planner != "sequence" || s.Bot.Prompts != nil {
		t.Error("a preview has changed the settings of the bot")
	}
}

// TestPageOfABot looks at what the page says of a whole bot, over HTTP.
func TestPageOfABot(t *testing.T) {
	t.Parallel()
	folder := filesIn(t, map[string]string{
		"prompts/sequence/prompt.txt": "I am Hedda, in JSON.\n{{actions}}", "skills/vacation/SKILL.md": "---\nname: vacation\ndescription: How to take a vacation\n---\nAsk.",
		"skills/vacation/count.py": "print(1)",
	})
	s, err := env{
		"port": "0", "bot-prompts-dir": filepath.Join(folder, "prompts"), "bot-skills-dir": filepath.Join(folder, "skills"), "bot-skills-sandbox": "none",
		"bot-moderation-key": "", "bot-token-keys": "",
	}.read()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Settings: s, own: defaultBot(), log: zerolog.Nop()}
	t.Cleanup(p.close)
	if err := p.openPage(io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := p.assemble(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	if server.Config.Handler, err = p.withPage(server.Listener.Addr()); err != nil {
		t.Fatal(err)
	}
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
	connected, index := p.Connected, p.Metrics
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
	if len(p.Connected) != len(connected) || p.Metrics != index {
		t.Error("the doctor has changed what the running bot has")
	}
}
