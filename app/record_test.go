package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// TestRecording: what is recorded of a bot that serves is played by bot test.
func TestRecording(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "recorded")
	connector, model := fakeconnector.New(t), fakemodel.New(t)
	c, err := settings{bot: defaultBot(), OpenAIBaseURL: model.URL, OpenAIKey: "my-very-own-key", Port: "0", ApprovalActions: "deleteList", LogFormat: "console", SkillsDir: "../examples/skills"}.check()
	if err != nil {
		t.Fatal(err)
	}
	var out, logged bytes.Buffer
	log := zerolog.New(&logged).Level(zerolog.Disabled)
	stop, err := c.record(dir, &out, &log)
	if err != nil || !strings.Contains(out.String(), "RECORDING: what people say to this bot") {
		t.Fatal(err, out.String())
	}
	a, err := assemble(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	server := httptest.NewServer(a.handler())
	t.Cleanup(server.Close)
	deliver := func(body string) {
		t.Helper()
		body = strings.NewReplacer("URL", connector.URL, "WHO", `"id":"29:1aaaaaaaaaaaaaaaaaaaa","name":"Mia"`).Replace(body)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	say := func(id, text string) {
		t.Helper()
		deliver(`{"type":"message","id":"` + id + `","channelId":"msteams","serviceUrl":"URL","from":{WHO},"recipient":{"id":"28:me"},
			"conversation":{"id":"a:1bbbbbbbbbbbbbbbbbbbbbbbb","conversationType":"personal"},"text":"` + text + `"}`)
	}
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"shop","item":"tea"}},{"type":"SAY","response":"Tea is on it, Mia."}]}`)
	say("1", "tea, says Mia, my-very-own-key")
	connector.Next(t)
	say("1", "tea, says Mia, my-very-own-key") // once more
	deliver(`{"type":"message"}`)              // which is no activity
	deliver(`{"type":"invoke","name":"some/thing","id":"9","channelId":"msteams","serviceUrl":"URL","from":{WHO},"recipient":{"id":"28:me"},
		"conversation":{"id":"a:1bbbbbbbbbbbbbbbbbbbbbbbb","conversationType":"personal"}}`) // which nobody answers
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"deleteList","entities":{"list":"shop"}},{"type":"SAY","response":"Gone."}]}`)
	say("2", "delete it")
	card, err := json.Marshal(connector.Next(t).Body)
	if err != nil {
		t.Fatal(err)
	}
	data := regexp.MustCompile(`"data":({[^}]*"planbot/approve"})`).FindSubmatch(card)
	for _, id := range []string{"3", "4"} {
		deliver(`{"type":"invoke","name":"adaptiveCard/action","id":"` + id + `","channelId":"msteams","serviceUrl":"URL","from":{WHO},"recipient":{"id":"28:me"},
			"conversation":{"id":"a:1bbbbbbbbbbbbbbbbbbbbbbbb","conversationType":"personal"},"value":{"action":{"type":"Action.Execute","verb":"planbot/approve","data":` + string(data[1]) + `}}}`)
		for id == "3" && connector.Next(t).Text() != "Gone." {
		}
	}
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"load_skill","entities":{"skillName":"translator"}}]}`, "I know it.")
	say("5", "what about poems")
	connector.Next(t)
	if err := a.bot.Drain(withPatience(t)); err != nil { // as serve does: nothing is left to be seen
		t.Fatal(err)
	}
	stop()

	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != 2 || !strings.HasSuffix(files[1], "-conversation-1.scenario.yaml") {
		t.Fatal(files, err)
	}
	all := ""
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(raw)
	}
	if strings.Contains(all, "Mia") || strings.Contains(all, "very-own-key") || strings.Contains(all, "aaaaaaaa") || strings.Count(all, "event:") != 5 ||
		!strings.Contains(all, "<already_done>") || !strings.Contains(all, "approval: [deleteList]") {
		t.Errorf("files:\n%s", all)
	}
	code, shown, errs := run(t, "", "test", "--bot-skills-dir=../examples/skills", files[1])
	if code != 0 || errs != "" || !strings.HasSuffix(shown, "1 passed, 0 failed\n") {
		t.Errorf("code %d: %s%s", code, shown, errs)
	}
}

func TestRecordingWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "", "serve", "--record", file, "--port=0"); code != exitUsage || !strings.Contains(errs, "--record: ") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	c := config{settings: settings{bot: defaultBot(), AppPassword: "one", RedisURL: "rediss://me:two@host:1/0", OTelHeaders: "authorization=three,x=four", AzureKey: "five"}}
	for _, want := range []string{"one", "two", "three", "four", "five"} {
		if !slices.Contains(c.secrets(), want) {
			t.Errorf("%s is not among %q", want, c.secrets())
		}
	}
}

func TestUnsaid(t *testing.T) {
	t.Parallel()
	s := settings{bot: defaultBot(), Approvers: "a", TurnTimeout: "1m", ApprovalActions: "deleteList", OpenAIModel: "x"}
	if got := s.unsaid(); !slices.Equal(got, []string{"BOT_APPROVERS", "BOT_TURN_TIMEOUT"}) {
		t.Errorf("unsaid: %q", got)
	}
}
