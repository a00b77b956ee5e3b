package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// recordedBot is a bot that serves and is recorded, in a folder that others may share.
type recordedBot struct {
	*testing.T
	dir       string
	connector *fakeconnector.Connector
	model     *fakemodel.Server
	settings  settings

	app    *program
	server *httptest.Server
	stop   func()
	ids    int
}

func newRecordedBot(t *testing.T, s settings) *recordedBot {
	t.Helper()
	b := &recordedBot{T: t, dir: filepath.Join(t.TempDir(), "recorded"), connector: fakeconnector.New(t), model: fakemodel.New(t)}
	s.OpenAIBaseURL, s.Port, s.RedisURL = b.model.URL, "0", "redis://"+miniredis.RunT(t).Addr()
	b.settings = s
	b.start()
	return b
}

// start begins a process of it.
func (b *recordedBot) start() {
	b.Helper()
	c, err := b.settings.check()
	if err != nil {
		b.Fatal(err)
	}
	log := zerolog.New(io.Discard)
	if b.stop, err = c.record(b.dir, io.Discard, &log); err != nil {
		b.Fatal(err)
	}
	if b.app, err = assemble(b.Context(), c, log); err != nil {
		b.Fatal(err)
	}
	b.server = httptest.NewServer(b.app.handler())
	b.app.bot.Start()
}

// end ends it as a signal does. When ctx is over, turns are cut off.
func (b *recordedBot) end(ctx context.Context) {
	b.Helper()
	if err := b.app.bot.Drain(ctx); err != nil && ctx.Err() == nil {
		b.Fatal(err)
	}
	b.server.Close()
	b.stop()
	b.app.close()
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
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.server.URL+"/api/messages", bytes.NewReader(raw))
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
	if _, err := body.ReadFrom(res.Body); err != nil || res.StatusCode != http.StatusOK {
		b.Fatal(res.Status, err)
	}
	return body.String()
}

// say mentions the bot and returns what it says to that.
func (b *recordedBot) say(who, text string) fakeconnector.Sent {
	b.Helper()
	b.deliver(who, map[string]any{"text": "<at>Planbot</at> " + text})
	return b.connector.Next(b)
}

// press presses the first button of a card, which approves.
func (b *recordedBot) press(who string, card fakeconnector.Sent) (answer string) {
	b.Helper()
	raw, err := json.Marshal(card.Body["attachments"])
	var attachments []struct {
		Content struct {
			Actions []map[string]any `json:"actions"`
		} `json:"content"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &attachments)
	}
	if err != nil || len(attachments) != 1 {
		b.Fatal(err, string(raw))
	}
	return b.deliver(who, map[string]any{
		"type": "invoke", "name": "adaptiveCard/action", "entities": nil, "replyToId": card.ID,
		"value": map[string]any{"action": attachments[0].Content.Actions[0]},
	})
}

// plays plays what was recorded, and returns it.
func (b *recordedBot) plays() string {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "*.scenario.yaml"))
	if err != nil || len(files) == 0 {
		b.Fatal(files, err)
	}
	all := ""
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		all += string(raw)
	}
	if code, shown, errs := run(b.T, "", "test", b.dir); code != 0 || !strings.Contains(shown, " passed, 0 failed\n") {
		b.Errorf("code %d: %s%s\n%s", code, shown, errs, all)
	}
	return all
}

const deletingPlan = `{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"party"}},{"type":"DO","action":"deleteList","entities":{"list":"party"}},{"type":"SAY","response":"The party is over."}]}`

// TestRecordingOfDecisions: who may not decide does nothing, who decides does it.
func TestRecordingOfDecisions(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t, settings{bot: defaultBot(), ApprovalActions: "deleteList"})
	b.model.Says(deletingPlan)
	card := b.say("Mia", "delete the party")
	if answer := b.press("Otto", card); !strings.Contains(answer, "You may not decide this") {
		t.Fatal(answer)
	}
	b.press("Mia", card)
	b.connector.Next(t)
	if answer := b.press("Mia", card); !strings.Contains(answer, "decided already") {
		t.Fatal(answer)
	}
	b.end(withPatience(t))
	all := b.plays()
	steps := strings.Split(all, "- event:")
	if len(steps) != 5 || strings.Contains(all, "note:") {
		t.Fatalf("%d steps:\n%s", len(steps), all)
	}
	for i, want := range []string{"<approval_card deleteList>", `actions: [], replies: ["<not_allowed>"]`, "action: deleteList", `actions: [], replies: ["<already_done>"]`} {
		if !strings.Contains(steps[i+1], want) {
			t.Errorf("no %s in %s", want, steps[i+1])
		}
	}
	file := filepath.Join(t.TempDir(), "changed.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(all, "The party is over.]", "It goes on.]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, shown, _ := run(t, "", "test", file); code != exitFailed || !strings.Contains(shown, "It goes on.") {
		t.Errorf("another answer passes: %d, %s", code, shown)
	}
}

// TestRecordingOfTwoProcesses: one is cut off while the model thinks, when another message
// and what was decided wait behind that. Another goes on.
func TestRecordingOfTwoProcesses(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t, settings{bot: defaultBot(), ApprovalActions: "deleteList"})
	b.model.Says(deletingPlan)
	card := b.say("Mia", "delete the party")
	asked := b.model.Waits()
	b.deliver("Mia", map[string]any{"text": "<at>Planbot</at> and now?"})
	<-asked
	b.press("Mia", card)
	b.deliver("Mia", map[string]any{"text": "<at>Planbot</at> hello?"})
	b.deliver("Otto", map[string]any{"text": "he does not hear you", "entities": nil})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	b.end(over)
	b.model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"I was away."}]}`, `{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`)
	b.start()
	for range 3 {
		b.connector.Next(t)
	}
	b.press("Mia", card)
	b.end(withPatience(t))
	all := b.plays()
	for want, n := range map[string]int{
		"replies: [\"<approval_card deleteList>\"]": 1, "was not over when this was written": 2, "It decides a card of before this scenario.": 2,
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
	one := newRecordedBot(t, settings{bot: defaultBot(), ApprovalActions: "deleteList"})
	other := *one
	two := &other
	two.start()
	two.ids = 100
	one.model.Says(deletingPlan)
	var said struct {
		Activities []map[string]any `json:"activities"`
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
		fakemodel.Fail(w, http.StatusUnauthorized, "invalid_api_key")
	})
	one.deliver("Mia", map[string]any{"text": "<at>Planbot</at> well?"})
	<-asked
	two.press("Mia", fakeconnector.Sent{Body: said.Activities[0]})
	two.end(withPatience(t))
	close(release)
	for range 2 {
		one.connector.Next(t)
	}
	one.end(withPatience(t))
	all := one.plays()
	if strings.Count(all, "or another process did it") != 1 || strings.Contains(all, "party is over.]") {
		t.Errorf("files:\n%s", all)
	}
}

// TestRecordingWithSettings that a scenario does not have.
func TestRecordingWithSettings(t *testing.T) {
	t.Parallel()
	b := newRecordedBot(t, settings{bot: defaultBot(), ApprovalActions: "deleteList", Approvers: "29:Otto", FilteredText: "Not here."})
	b.model.Says(deletingPlan)
	card := b.say("Mia", "delete the party")
	b.press("Mia", card)
	b.press("Otto", card)
	b.connector.Next(t)
	b.model.Fails(http.StatusBadRequest, "content_filter")
	b.say("Mia", "bad words")
	b.end(withPatience(t))
	all := b.plays()
	for _, want := range []string{
		"a scenario does not have: BOT_APPROVERS.", "may come of these settings, which a scenario does not have: BOT_APPROVERS",
		"It decides a card of before this scenario.", "<filtered>",
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
	b := newRecordedBot(t, settings{bot: defaultBot()})
	say := func(text string) {
		t.Helper()
		b.model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"` + text + `"}]}`)
		b.say("Mia", "say "+text)
	}
	say("one")
	say("two")
	b.end(withPatience(t))
	b.dir += "-later"
	b.start()
	say("three")
	b.end(withPatience(t))
	for dir, want := range map[string]string{strings.TrimSuffix(b.dir, "-later"): "", b.dir: "they may have what is not in the scenario"} {
		code, shown, errs := run(t, "", "test", dir)
		if code != 0 || !strings.HasSuffix(shown, "1 passed, 0 failed\n") || strings.Contains(shown+errs, "not compared") != (want != "") || !strings.Contains(shown+errs, want) {
			t.Errorf("%s: code %d, %s%s", dir, code, shown, errs)
		}
	}
}
