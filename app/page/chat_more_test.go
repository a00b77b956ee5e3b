package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/planner/plan"
)

// next is the activity that the bot got next.
func (w *wired) next() *activity.Activity {
	w.Helper()
	a, err := activity.Decode(<-w.got)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// TestPasted sends JSON from the message box.
func TestPasted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string // want: of the activity
	}{
		"text":             {"hello {", `"text":"hello {"`},
		"JSON of somebody": {`{"a":1}`, `"text":"{\"a\":1}"`},
		"card":             {`{"type":"AdaptiveCard","version":"1.5","body":[]}`, `"content":{"body":[],"type":"AdaptiveCard","version":"1.5"}`},
		"activity":         {`{"type":"event","name":"x","value":{"n":1},"entities":"none","channelData":7}`, `"name":"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wire(t, page.Parts{})
			w.post("/dev/chat/say", "room", "mia", "text", c.text)
			if raw := string(<-w.got); !strings.Contains(raw, c.want) {
				t.Errorf("no %s in %s", c.want, raw)
			}
		})
	}
	w := wire(t, page.Parts{})
	w.post("/dev/chat/say", "room", "lunch", "text", `{"type":"event","name":"x","id":"me","serviceUrl":"https://example.invalid/","from":{"id":"me"},"conversation":{"id":"me"},"recipient":{"id":"me"},"channelId":"me"}`)
	raw := string(<-w.got)
	if strings.Contains(raw, `"me"`) || strings.Contains(raw, "invalid") || !strings.Contains(raw, `"name":"Mia Meyer"`) {
		t.Errorf("an activity of somebody else: %s", raw)
	}
	if _, body := w.do(http.MethodGet, "/dev/?room=lunch", nil); !strings.Contains(body, "sent as an activity of the type event") {
		t.Error("the page does not say what it sent")
	}
}

// TestFieldsOfMessages looks for fields of text, for each of which a browser lays out the page anew: they are
// made when they are needed, or there for who has no script.
func TestFieldsOfMessages(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	w.post("/dev/chat/say", "room", "mia", "text", "a</noscript>b")
	w.next()
	_, body := w.do(http.MethodGet, "/dev/parts/messages?room=mia", nil)
	late := regexp.MustCompile(`<noscript>(.*?)</noscript>`)
	made := late.FindAllStringSubmatch(body, -1)
	if len(made) != 1 || !strings.Contains(made[0][1], `value="a&lt;/noscript&gt;b"`) {
		t.Errorf("made when they are needed: %q", made)
	}
	for _, field := range regexp.MustCompile(`<input[^>]*>`).FindAllString(late.ReplaceAllString(body, ""), -1) {
		if !strings.Contains(field, `type="hidden"`) {
			t.Errorf("there at once: %s", field)
		}
	}
}

// TestNewPeople adds somebody, who is then in groups and in a chat of their own, and a group.
func TestNewPeople(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	w.post("/dev/chat/person", "name", "  Bo <b>  Berg ")
	w.post("/dev/chat/room", "name", "Plans")
	_, body := w.do(http.MethodGet, "/dev/?room=lunch", nil)
	key := regexp.MustCompile(`<option value="([^"]+)">Bo &lt;b&gt; Berg</option>`).FindStringSubmatch(body)
	group := regexp.MustCompile(`room=(group[^"]+)"[^>]*>Plans<`).FindStringSubmatch(body)
	if key == nil || group == nil {
		t.Fatalf("no new person or no new group in\n%s", body)
	}
	w.post("/dev/chat/say", "room", group[1], "as", key[1], "text", "@Hedda hi")
	a := w.next()
	if a.From.Name != "Bo <b> Berg" || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a.From.AadObjectID) || a.Conversation.ConversationType != "groupChat" {
		t.Errorf("%+v", a)
	}
	w.post("/dev/chat/say", "room", key[1], "text", "hi")
	if own := w.next(); own.From.ID != a.From.ID || own.Conversation.ConversationType != "personal" {
		t.Errorf("%+v", own)
	}
	for _, name := range []string{"", " ", strings.Repeat("x", 61), "a\u202eb"} {
		if status, _ := w.do(http.MethodPost, "/dev/chat/person", url.Values{"name": {name}}); status != http.StatusBadRequest {
			t.Errorf("the name %q: %d", name, status)
		}
	}
	for i := range 100 {
		status, _ := w.do(http.MethodPost, "/dev/chat/room", url.Values{"name": {fmt.Sprint(i)}})
		if status == http.StatusBadRequest && i > 40 {
			return
		}
	}
	t.Error("there is no end of conversations")
}

// TestFile sends a file, which the bot gets as from Teams, also from the process that comes next.
func TestFile(t *testing.T) {
	t.Parallel()
	cfg := page.Config{Keep: t.TempDir(), Secret: "secret"}
	w := wireWith(t, cfg, page.Parts{})
	send := func(room string) int {
		var form bytes.Buffer
		out := multipart.NewWriter(&form)
		part, err := out.CreateFormFile("file", "a report.txt")
		if err == nil {
			_, err = io.WriteString(part, "all is well")
		}
		for name, value := range map[string]string{"room": room, "as": "mia", "text": "look"} {
			if err == nil {
				err = out.WriteField(name, value)
			}
		}
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(w.url+"/dev/chat/file", out.FormDataContentType(), &form)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if status := send("lunch"); status != http.StatusBadRequest {
		t.Errorf("a file in a group: %d", status)
	}
	if status := send("mia"); status != http.StatusNoContent {
		t.Fatal(status)
	}
	a := w.next()
	if a.Text != "look" || len(a.Attachments) != 1 || a.Attachments[0].Name != "a report.txt" || a.Attachments[0].ContentType != "application/vnd.microsoft.teams.file.download.info" {
		t.Fatalf("%+v", a)
	}
	var info struct{ DownloadURL, FileType string }
	if err := json.Unmarshal(a.Attachments[0].Content, &info); err != nil || info.FileType != "txt" {
		t.Fatal(err, info)
	}
	path := strings.TrimPrefix(info.DownloadURL, w.url)
	if status, body := w.do(http.MethodGet, path, nil); status != http.StatusOK || body != "all is well" {
		t.Errorf("%d %s", status, body)
	}
	for _, wrong := range []string{path + "x", regexp.MustCompile(`channel/[^/]+`).ReplaceAllString(path, "channel/x")} {
		if status, _ := w.do(http.MethodGet, wrong, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", wrong, status)
		}
	}
	w.page.Close()
	next := wireWith(t, cfg, page.Parts{})
	if status, body := next.do(http.MethodGet, path, nil); status != http.StatusOK || body != "all is well" {
		t.Errorf("after a build: %d %s", status, body)
	}
	for range 10 { // as many as are kept
		if send("mia"); w.next() == nil {
			t.Fatal("not sent")
		}
	}
	if status, _ := next.do(http.MethodGet, path, nil); status != http.StatusNotFound {
		t.Errorf("an old file is still there: %d", status)
	}
}

// TestCompareAndPin looks at two turns side by side, and pins one.
func TestCompareAndPin(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	for _, id := range []string{"one", "two"} {
		raw := `{"type":"message","id":"` + id + `","from":{"id":"u","name":"Mia"},"conversation":{"id":"c"},"text":"hello <b>"}`
		w.page.WatchTurn(turn.Event{Turn: id, Received: &turn.Received{Activity: []byte(raw), Text: "hello <b>"}})
		w.page.WatchTurn(turn.Event{Turn: id, Planned: &plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: "I am " + id}}}})
		w.page.WatchTurn(turn.Event{Turn: id, Ended: &turn.Ended{Outcome: turnlog.OK}})
	}
	if err := w.page.Turns().Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, body := w.do(http.MethodGet, "/dev/turns/compare?turn=one&turn=two", nil)
	for _, want := range []string{"SAY I am one</td>", "SAY I am two</td>", "hello &lt;b&gt;", `<tr data-same="true"><th scope="row">received`, `<tr data-same="false"><th scope="row">plan 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	_, body = w.do(http.MethodGet, "/dev/turns/compare.json?turn=one&turn=two", nil)
	var twin struct {
		Version int
		Parts   []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(body), &twin); err != nil || twin.Version != 1 || len(twin.Parts) != 4 || twin.Parts[3].Name != "Plan" {
		t.Errorf("%v: %s", err, body)
	}
	for _, ids := range []string{"", "turn=one", "turn=one&turn=two&turn=one"} {
		status, _ := w.do(http.MethodGet, "/dev/turns/compare?"+ids, nil)
		if status != http.StatusSeeOther {
			t.Errorf("of %q: %d", ids, status)
		}
	}
	if _, body := w.do(http.MethodGet, "/dev/turns?ticked=one&ticked=", nil); !strings.Contains(body, "Tick two turns") || strings.Count(body, " checked") != 1 {
		t.Errorf("one was ticked: %s", body)
	}
	if status, _ := w.do(http.MethodGet, "/dev/turns/compare?turn=one&turn=three", nil); status != http.StatusNotFound {
		t.Errorf("a turn that there is not: %d", status)
	}
	pinned := func() bool {
		rec, _ := w.page.Turns().Turn("one")
		return rec.Pinned
	}
	if status, _ := w.do(http.MethodPost, "/dev/turns/one/pin", url.Values{"token": {"x"}, "pinned": {"1"}}); status != http.StatusForbidden || pinned() {
		t.Errorf("without the token: %d", status)
	}
	w.post("/dev/turns/one/pin", "pinned", "1")
	if _, body := w.do(http.MethodGet, "/dev/turns", nil); !pinned() || !strings.Contains(body, ">Unpin<") {
		t.Error("it is not pinned")
	}
	w.post("/dev/turns/one/pin")
	if pinned() {
		t.Error("it is still pinned")
	}
}

// botSays sends an activity of the bot to the conversation of a.
func (w *wired) botSays(a *activity.Activity, raw string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, a.ServiceURL+"v3/conversations/"+a.Conversation.ID+"/activities", strings.NewReader(raw))
	if err != nil {
		w.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	_ = res.Body.Close() // nothing is read
}

// TestTurnOfMessage: a message leads to the turn that sent it, not to another one that also answers nothing.
func TestTurnOfMessage(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	w.post("/dev/chat/say", "room", "mia", "text", "hello")
	a := w.next()
	w.botSays(a, `{"type":"message","text":"a notice"}`)
	said := func() (id, of string) {
		_, twin := w.do(http.MethodGet, "/dev/.json?room=mia", nil)
		var chat struct {
			Messages []struct{ ID, Turn, From string }
		}
		if err := json.Unmarshal([]byte(twin), &chat); err != nil || len(chat.Messages) != 2 || chat.Messages[1].From != "bot" {
			t.Fatalf("%v: %s", err, twin)
		}
		return chat.Messages[1].ID, chat.Messages[1].Turn
	}
	id, _ := said()
	for _, one := range []string{"another", "mine", "last"} {
		raw := `{"type":"event","name":"notice","from":{"id":"u"},"conversation":{"id":"` + a.Conversation.ID + `"}}`
		w.page.WatchTurn(turn.Event{Turn: one, Received: &turn.Received{Activity: []byte(raw)}})
	}
	to := a.Reference()
	if _, err := w.page.Turns().Channel(answers{id: id}).Send(turnid.With(t.Context(), turnid.Of{Turn: "mine"}), to, &activity.Activity{Type: activity.Message}); err != nil {
		t.Fatal(err)
	}
	if err := w.page.Turns().Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, of := said(); of != "mine" {
		t.Errorf("it leads to %q", of)
	}
}

// answers is a channel that gives each message that id.
type answers struct {
	turn.Channel
	id string
}

func (c answers) Send(context.Context, activity.Reference, *activity.Activity) (string, error) {
	return c.id, nil
}

// TestChatHidesSecrets says a secret, and has the bot say it: the bot gets it as it is, and the page does not keep it.
func TestChatHidesSecrets(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	const secret = `correct "horse"`
	w.post("/dev/chat/say", "room", "mia", "text", "it is "+secret)
	a := w.next()
	if a.Text != "it is "+secret {
		t.Errorf("the bot got %q", a.Text)
	}
	for _, said := range []map[string]any{
		{"type": "message", "text": "no, " + secret},
		{"type": "message", "attachments": []any{map[string]any{"contentType": activity.CardContentType, "content": map[string]any{"type": "AdaptiveCard", "fallbackText": secret}}}},
	} {
		raw, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		w.botSays(a, string(raw))
	}
	_, twin := w.do(http.MethodGet, "/dev/.json", nil)
	var chat struct {
		Version  int
		Rooms    []struct{ Key, Conversation string }
		Messages []struct {
			From     string
			Activity struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(twin), &chat); err != nil || chat.Version != 1 || chat.Rooms[0].Conversation != a.Conversation.ID || len(chat.Messages) != 3 || chat.Messages[1].From != "bot" || chat.Messages[1].Activity.Text != "no, [secret]" {
		t.Errorf("%v: %s", err, twin)
	}
	if _, body := w.do(http.MethodGet, "/dev/", nil); strings.Contains(body, "horse") || !strings.Contains(body, "no, [secret]<") || !strings.Contains(body, "it is [secret]<") {
		t.Errorf("the chat has the secret, or nothing instead:\n%s", body)
	}
}

// TestUnknownFields of what the bot says are kept, and what only one person sees is marked.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	w.post("/dev/chat/say", "room", "mia", "text", "hi")
	a := w.next()
	w.botSays(a, `{"type":"message","text":"for you","recipient":{"id":"`+a.From.ID+`","isTargeted":true},"unheard":"of"}`)
	w.shows("/dev/?room=mia", "only one person sees this", true)
	w.shows("/dev/.json?room=mia", `"unheard"`, true)
}

// TestLastMessages: a view has the last messages until somebody asks for all, and a part has only what is new in it.
func TestLastMessages(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	for i := range 60 {
		w.post("/dev/chat/say", "room", "lunch", "text", fmt.Sprintf("number %d.", i)) // which the bot does not hear
	}
	_, first := w.do(http.MethodGet, "/dev/?room=lunch", nil)
	if strings.Contains(first, "number 39.") || !strings.Contains(first, "number 40.") || !strings.Contains(first, "Show 40 earlier messages") {
		t.Errorf("the first view is %s", first)
	}
	if _, all := w.do(http.MethodGet, "/dev/?room=lunch&messages=all", nil); !strings.Contains(all, "number 0.") {
		t.Errorf("all messages are %s", all)
	}
	var have []string
	for _, one := range regexp.MustCompile(`data-is="([^"]+)"`).FindAllStringSubmatch(first, -1) {
		have = append(have, one[1])
	}
	w.post("/dev/chat/say", "room", "lunch", "text", "number 60.")
	_, part := w.do(http.MethodGet, "/dev/parts/messages?room=lunch&have="+strings.Join(have, "+"), nil)
	if strings.Count(part, "<article") != 20 || strings.Count(part, "number ") != strings.Count(part, "number 60.") {
		t.Errorf("what is new is %s", part)
	}
}

// TestLongList: of a long list, the beginning is there at once. The rest is there as well, but laid out later.
func TestLongList(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	for i := range 33 {
		w.page.Turns().WatchTurn(turn.Event{Turn: fmt.Sprint("turn-", i), Received: &turn.Received{Text: "hi"}})
	}
	if err := w.page.Turns().Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := regexp.MustCompile(`<noscript><table>.*?</noscript>`)
	for path, want := range map[string][2]int{
		"/dev/turns": {20, 0}, "/dev/turns?turns=all": {20, 13}, "/dev/parts/turns?turns=all&have=x": {33, 0},
	} {
		_, body := w.do(http.MethodGet, path, nil)
		rest := strings.Count(late.FindString(body), "<tr data-key=")
		if got := [2]int{strings.Count(body, `data-turn="`) - rest, rest}; got != want {
			t.Errorf("%s has %d rows at once and later, want %d", path, got, want)
		}
	}
}

// TestTooLong: a message that is too long is refused with the reason.
func TestTooLong(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{})
	status, body := w.do(http.MethodPost, "/dev/chat/say", url.Values{"room": {"mia"}, "text": {strings.Repeat("long ", 1<<20)}})
	if status != http.StatusBadRequest || !strings.Contains(body, "more than 4 MB") {
		t.Errorf("%d %s", status, body)
	}
}

// TestRooms renames and deletes conversations, and shows in which the bot has said something new.
func TestRooms(t *testing.T) {
	t.Parallel()
	w := wire(t, page.Parts{Commands: []string{"/help", "/reset", "/forget"}})
	w.post("/dev/chat/rename", "room", "otto", "name", " My  test ")
	w.post("/dev/chat/say", "room", "otto", "text", "hi")
	a := w.next()
	_, body := w.do(http.MethodGet, "/dev/?room=mia", nil)
	if strings.Contains(body, `class="unread"`) || !strings.Contains(body, `data-room="otto">My test</a>`) {
		t.Errorf("before the bot answers: %s", body)
	}
	w.botSays(a, `{"type":"message","text":"hello"}`)
	unread := `data-room="otto">My test</a><span class="unread">new</span>`
	for _, part := range []string{"/dev/?room=mia", "/dev/parts/rooms?room=mia"} {
		if _, body := w.do(http.MethodGet, part, nil); !strings.Contains(body, unread) {
			t.Errorf("%s: nothing new in %s", part, body)
		}
	}
	for _, other := range []string{"/dev/skills", "/dev/.json?room=otto", "/dev/parts/turns?room=otto"} {
		w.do(http.MethodGet, other, nil)
	}
	if _, body := w.do(http.MethodGet, "/dev/?room=mia", nil); !strings.Contains(body, unread) {
		t.Error("what shows no messages counts as reading them")
	}
	w.do(http.MethodGet, "/dev/?room=otto", nil)
	if _, body := w.do(http.MethodGet, "/dev/?room=mia", nil); strings.Contains(body, `class="unread"`) {
		t.Error("it is new after it was read")
	}

	_, body = w.do(http.MethodGet, "/dev/?room=lunch", nil)
	for _, text := range []string{`value="@Hedda /reset"`, `value="@Hedda /forget"`} {
		if !strings.Contains(body, text) {
			t.Errorf("no %s in %s", text, body)
		}
	}
	if _, body := w.do(http.MethodGet, "/dev/?room=general", nil); strings.Contains(body, "/dev/chat/delete") {
		t.Error("a conversation that the page began with can be deleted")
	}
	w.post("/dev/chat/room", "name", "Plans")
	_, body = w.do(http.MethodGet, "/dev/?room=mia", nil)
	group := regexp.MustCompile(`data-room="(group[^"]+)"`).FindStringSubmatch(body)[1]
	if _, body := w.do(http.MethodGet, "/dev/?room="+group, nil); !strings.Contains(body, "/dev/chat/delete") {
		t.Error("a group that was added cannot be deleted")
	}
	w.post("/dev/chat/delete", "room", group)
	if _, body := w.do(http.MethodGet, "/dev/?room="+group, nil); strings.Contains(body, "Plans") || !strings.Contains(body, `data-room="mia" aria-current="true"`) {
		t.Errorf("after it was deleted: %s", body)
	}
	if status, _ := w.do(http.MethodGet, "/dev/parts/messages?room="+group, nil); status != http.StatusNotFound {
		t.Errorf("messages of a deleted conversation: %d", status)
	}
	for path, fields := range map[string]url.Values{
		"/dev/chat/delete": {"room": {"general"}}, "/dev/chat/rename": {"room": {group}, "name": {"x"}}, "/dev/chat/say": {"room": {group}, "text": {"x"}},
	} {
		if status, _ := w.do(http.MethodPost, path, fields); status != http.StatusBadRequest {
			t.Errorf("%s %v: %d", path, fields, status)
		}
	}
	if status, _ := w.do(http.MethodPost, "/dev/chat/rename", url.Values{"room": {"general"}, "name": {" "}}); status != http.StatusBadRequest {
		t.Errorf("a name without a letter: %d", status)
	}
}
