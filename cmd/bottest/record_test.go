package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// patience is how long a test waits for a process.
const patience = 30 * time.Second

// recordedBot is the built bot, which is recorded in a folder that others may share.
type recordedBot struct {
	*testing.T
	dir         string
	connector   *bottest.Connector
	model       *fakemodel.Server
	environment []string

	process *exec.Cmd
	url     string
	ids     int
}

func newRecordedBot(t *testing.T, environment ...string) *recordedBot {
	t.Helper()
	b := &recordedBot{T: t, dir: filepath.Join(t.TempDir(), "recorded"), connector: bottest.NewConnector(t), model: fakemodel.New(t)}
	b.environment = append(environment, "OPENAI_BASE_URL="+b.model.URL, "PORT=0", "BOT_LOG_FORMAT=json", "BOT_DRAIN_TIMEOUT=2s", "REDIS_URL=redis://"+miniredis.RunT(t).Addr())
	b.start()
	return b
}

// start begins a process of it.
func (b *recordedBot) start() {
	b.Helper()
	path, err := built.Path()
	if err != nil {
		b.Fatal(err)
	}
	b.process = exec.CommandContext(context.WithoutCancel(b.Context()), path, "serve", "--record", b.dir)
	b.process.Env = b.environment
	logs, err := b.process.StderrPipe()
	if err == nil {
		err = b.process.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	process := b.process
	b.Cleanup(func() { _ = process.Process.Kill() }) // it may have ended
	lines := bufio.NewScanner(logs)
	var listening struct{ Message, URL string }
	for listening.Message != "listening" && lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &listening) // another line says something else
	}
	if b.url = listening.URL; b.url == "" {
		b.Fatal("the bot does not listen")
	}
	go func() {
		for lines.Scan() { // so that it can write
		}
	}()
}

// end ends it as a signal does. Turns that hang are cut off.
func (b *recordedBot) end() {
	b.Helper()
	if err := b.process.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = b.process.Process.Kill() })
	defer timer.Stop()
	if err := b.process.Wait(); err != nil {
		b.Error(err)
	}
}

// deliver posts an activity of that person to the group.
func (b *recordedBot) deliver(who string, a map[string]any) (answer string) {
	b.Helper()
	b.ids++
	full := map[string]any{
		"id": fmt.Sprint("activity", b.ids), "channelId": "msteams", "serviceUrl": b.connector.URL, "type": "message",
		"from": map[string]any{"id": "29:" + who, "name": who}, "recipient": map[string]any{"id": "28:me", "name": "Planbot"},
		"conversation": map[string]any{"id": "19:group@thread.v2", "conversationType": "groupChat"},
		"entities":     []any{map[string]any{"type": "mention", "text": "<at>Planbot</at>", "mentioned": map[string]any{"id": "28:me"}}},
	}
	for name, value := range a {
		full[name] = value
	}
	raw, err := json.Marshal(full)
	if err != nil {
		b.Fatal(err)
	}
	status, answer := b.post(raw)
	if status != http.StatusOK {
		b.Fatal(status, answer)
	}
	return answer
}

func (b *recordedBot) post(raw []byte) (status int, answer string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url, bytes.NewReader(raw))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, body.String()
}

// say mentions the bot and returns what it says to that.
func (b *recordedBot) say(who, text string) bottest.Sent {
	b.Helper()
	b.deliver(who, map[string]any{"text": "<at>Planbot</at> " + text})
	return b.connector.Next()
}

// press presses the first button of a card, which approves.
func (b *recordedBot) press(who string, card bottest.Sent) (answer string) {
	b.Helper()
	buttons := card.Buttons()
	if len(buttons) == 0 {
		b.Fatal(card.JSON)
	}
	return b.deliver(who, map[string]any{
		"type": "invoke", "name": "adaptiveCard/action", "entities": nil, "replyToId": card.ID,
		"value": map[string]any{"action": buttons[0]},
	})
}

// recorded are the scenarios, or all files.
func (b *recordedBot) recorded(pattern string) (all string, files []string) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, cmp.Or(pattern, "*.scenario.yaml")))
	if err != nil || len(files) == 0 {
		b.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		all += string(raw)
	}
	return all, files
}

// plays plays what was recorded, and returns it.
func (b *recordedBot) plays() string {
	b.Helper()
	all, _ := b.recorded("")
	if code, shown, errs := execute(b.T, "", "run", b.dir); code != 0 || !strings.Contains(shown, " passed, 0 failed\n") {
		b.Errorf("code %d: %s%s\n%s", code, shown, errs, all)
	}
	return all
}

const deletingPlan = `{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"party"}},{"type":"DO","action":"deleteList","entities":{"list":"party"}},{"type":"SAY","response":"The party is over."}]}`

// TestRecordingWithStandIns: nobody's name, id or key is in what is recorded.
func TestRecordingWithStandIns(t *testing.T) {
	t.Parallel()
	const skills = "../../examples/skills"
	b := newRecordedBot(t, "OPENAI_API_KEY=my-very-own-key", "BOT_APPROVAL_ACTIONS=deleteList", "BOT_SKILLS_DIR="+skills, "PATH="+os.Getenv("PATH"))
	personal := func(a map[string]any) map[string]any {
		a["conversation"] = map[string]any{"id": "a:1bbbbbbbbbbbbbbbbbbbbbbbb", "conversationType": "personal"}
		a["from"] = map[string]any{"id": "29:1aaaaaaaaaaaaaaaaaaaa", "name": "Mia"}
		a["entities"] = nil
		return a
	}
	say := func(id, text string) { b.deliver("Mia", personal(map[string]any{"id": id, "text": text})) }
	b.model.Says(`{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"shop","item":"tea"}},{"type":"SAY","response":"Tea is on it, Mia."}]}`)
	say("1", "tea, says Mia, my-very-own-key")
	b.connector.Next()
	say("1", "tea, says Mia, my-very-own-key") // once more
	if status, _ := b.post([]byte(`{"type":"message"}`)); status != http.StatusBadRequest {
		t.Errorf("what is no activity: %d", status)
	}
	b.model.Says(`{"type":"plan","commands":[{"type":"DO","action":"deleteList","entities":{"list":"shop"}},{"type":"SAY","response":"Gone."}]}`)
	say("2", "delete it")
	card := b.connector.Next().JSON
	var data map[string]any
	if err := json.Unmarshal([]byte(regexp.MustCompile(`"data":({[^}]*"planbot/approve"})`).FindStringSubmatch(card)[1]), &data); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"3", "4"} {
		b.deliver("Mia", personal(map[string]any{
			"id": id, "type": "invoke", "name": "adaptiveCard/action",
			"value": map[string]any{"action": map[string]any{"type": "Action.Execute", "verb": "planbot/approve", "data": data}},
		}))
		for id == "3" && b.connector.Next().Activity.Text != "Gone." {
		}
	}
	b.model.Says(`{"type":"plan","commands":[{"type":"DO","action":"load_skill","entities":{"skillName":"translator"}}]}`, "I know it.")
	say("5", "what about poems")
	b.connector.Next()
	b.end()
	all, files := b.recorded("*.yaml")
	if len(files) != 2 || strings.Contains(all, "Mia") || strings.Contains(all, "very-own-key") || strings.Contains(all, "aaaaaaaa") || strings.Count(strings.ReplaceAll(all, `"`, ""), "event:") != 5 ||
		!strings.Contains(all, "<already_done>") || !strings.Contains(strings.ReplaceAll(all, `"`, ""), "approval: [deleteList]") {
		t.Errorf("files %q:\n%s", files, all)
	}
	code, shown, errs := execute(t, "", "run", "--bot-skills-dir="+skills, files[1])
	if code != 0 || errs != "" || !strings.HasSuffix(shown, "1 passed, 0 failed\n") {
		t.Errorf("code %d: %s%s", code, shown, errs)
	}
}

// TestRecordingOfDecisions: who may not decide does nothing, who decides does it.
func TestRecordingOfDecisions(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t, "BOT_APPROVAL_ACTIONS=deleteList")
	b.model.Says(deletingPlan)
	card := b.say("Mia", "delete the party")
	if answer := b.press("Otto", card); !strings.Contains(answer, "You can't decide this") {
		t.Fatal(answer)
	}
	b.press("Mia", card)
	b.connector.Next()
	if answer := b.press("Mia", card); !strings.Contains(answer, "already decided") {
		t.Fatal(answer)
	}
	b.end()
	all := b.plays()
	steps := strings.Split(all, "- event:")
	if len(steps) != 5 || strings.Contains(strings.ReplaceAll(all, `"`, ""), "note:") {
		t.Fatalf("%d steps:\n%s", len(steps), all)
	}
	for i, want := range []string{"<approval_card Delete a list>", `replies: [<not_allowed>]`, "action: deleteList", `replies: [<already_done>]`} {
		if !strings.Contains(strings.ReplaceAll(steps[i+1], `"`, ""), want) {
			t.Errorf("no %s in %s", want, steps[i+1])
		}
	}
	file := filepath.Join(t.TempDir(), "changed.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(all, "The party is over.\"]", "It goes on.\"]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, shown, _ := execute(t, "", "run", file); code != cli.ExitFailed || !strings.Contains(shown, "It goes on.") {
		t.Errorf("another answer passes: %d, %s", code, shown)
	}
}

// TestRecordingOfTwoProcesses: one is cut off while the model thinks, when another message
// and what was decided wait behind that. Another goes on.
func TestRecordingOfTwoProcesses(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t, "BOT_APPROVAL_ACTIONS=deleteList")
	b.model.Says(deletingPlan)
	card := b.say("Mia", "delete the party")
	asked := b.model.Waits()
	b.deliver("Mia", map[string]any{"text": "<at>Planbot</at> and now?"})
	<-asked
	b.press("Mia", card)
	b.deliver("Mia", map[string]any{"text": "<at>Planbot</at> hello?"})
	b.deliver("Otto", map[string]any{"text": "he does not hear you", "entities": nil})
	b.end()
	b.model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"I was away."}]}`, `{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`)
	b.start()
	for range 3 {
		b.connector.Next()
	}
	b.press("Mia", card)
	b.end()
	all := strings.ReplaceAll(b.plays(), `"`, "")
	for want, n := range map[string]int{
		"replies: [<approval_card Delete a list>]": 1, "was not over when this was written": 2, "It decides another card than the newest.": 2,
		"actions: [], replies: [], model_calls: 0": 1,
	} {
		if strings.Count(all, want) != n {
			t.Errorf("not %d times %s in\n%s", n, want, all)
		}
	}
	if strings.Contains(all, "I was away") || strings.Contains(all, "action: deleteList") {
		t.Errorf("it expects what nobody can play:\n%s", all)
	}
}

// TestRecordingOfTwoReplicas: one takes the click and ends, the other one, which is at work
// in the conversation, does what was decided.
func TestRecordingOfTwoReplicas(t *testing.T) {
	t.Parallel()
	one := newRecordedBot(t, "BOT_APPROVAL_ACTIONS=deleteList")
	other := *one
	two := &other
	two.start()
	two.ids = 100
	one.model.Says(deletingPlan)
	var said struct {
		Activities []*activity.Activity `json:"activities"`
	}
	answer := two.deliver("Mia", map[string]any{"text": "<at>Planbot</at> delete the party", "deliveryMode": "expectReplies"}) // when the turn is over
	if err := json.Unmarshal([]byte(answer), &said); err != nil || len(said.Activities) != 1 {
		t.Fatal(answer, err)
	}
	asked, release := make(chan struct{}), make(chan struct{})
	one.model.Answers(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fakemodel.Answer{Status: http.StatusUnauthorized, Code: "invalid_api_key"}.Write(w, r, fakemodel.Call{})
	})
	one.deliver("Mia", map[string]any{"text": "<at>Planbot</at> well?"})
	<-asked
	two.press("Mia", bottest.Sent{Activity: said.Activities[0]})
	two.end()
	close(release)
	for range 2 {
		one.connector.Next()
	}
	one.end()
	all := one.plays()
	if strings.Count(all, "or another process did it") != 1 || strings.Contains(all, "party is over.]") {
		t.Errorf("files:\n%s", all)
	}
}

// TestRecordingWithSettings that a scenario does not have.
func TestRecordingWithSettings(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t, "BOT_APPROVAL_ACTIONS=deleteList", "BOT_APPROVERS=29:Otto", "BOT_FILTERED_TEXT=Not here.")
	b.model.Says(deletingPlan)
	card := b.say("Mia", "delete the party")
	b.press("Mia", card)
	b.press("Otto", card)
	b.connector.Next()
	b.model.Fails(http.StatusBadRequest, "content_filter")
	b.say("Mia", "bad words")
	b.end()
	all := b.plays()
	for _, want := range []string{
		"a scenario does not have: BOT_APPROVERS.", "may come of these settings, which a scenario does not have: BOT_APPROVERS",
		"It decides another card than the newest.", "<filtered>",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
}

// TestRecordingOfWhatWasBefore: the model is told what was said before the recording began,
// and who plays it cannot ask like that.
func TestRecordingOfWhatWasBefore(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t)
	say := func(text string) {
		t.Helper()
		b.model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"` + text + `"}]}`)
		b.say("Mia", "say "+text)
	}
	say("one")
	say("two")
	b.end()
	b.dir += "-later"
	b.start()
	say("three")
	b.end()
	for dir, want := range map[string]string{strings.TrimSuffix(b.dir, "-later"): "", b.dir: "they may have what is not in the scenario"} {
		code, shown, errs := execute(t, "", "run", dir)
		if code != 0 || !strings.HasSuffix(shown, "1 passed, 0 failed\n") || strings.Contains(shown+errs, "not compared") != (want != "") || !strings.Contains(shown+errs, want) {
			t.Errorf("%s: code %d, %s%s", dir, code, shown, errs)
		}
	}
}
