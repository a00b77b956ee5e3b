package console_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/console"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to come.
const patience = 20 * time.Second

// bundle is a bot at the wire, and the two ends of a pipe into a console.
type bundle struct {
	*testing.T
	server *httptest.Server
	typed  *os.File
	cfg    console.Config
	out    *output

	mu  sync.Mutex
	got []*activity.Activity
}

// setup starts a bot whose turns are turn; nil: it takes everything silently.
func setup(t *testing.T, turn func(b *bundle, a *activity.Activity) int) *bundle {
	t.Helper()
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{T: t, typed: typed, out: newOutput()}
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a, err := activity.Decode(body)
		if err != nil {
			t.Errorf("the console sent what is no activity: %v\n%s", err, body)
			return
		}
		b.mu.Lock()
		b.got = append(b.got, a)
		b.mu.Unlock()
		status := http.StatusOK
		if turn != nil {
			status = turn(b, a)
		}
		w.WriteHeader(status)
	}))
	b.cfg = console.Config{BotURL: b.server.URL, In: in, Out: b.out}
	t.Cleanup(func() {
		b.server.Close()
		_ = in.Close()
		_ = typed.Close()
	})
	return b
}

// run types the text, ends the input and holds the conversation.
func (b *bundle) run(text string) error {
	b.Helper()
	go func() {
		_, _ = io.WriteString(b.typed, text)
		_ = b.typed.Close()
	}()
	return console.Run(b.Context(), b.cfg)
}

func (b *bundle) texts() (texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.got {
		texts = append(texts, a.Text)
	}
	return texts
}

// call sends a request to the connector of the conversation of a.
func (b *bundle) call(method string, a *activity.Activity, path, body string) (status int, answer string) {
	url := a.ServiceURL + "v3/conversations/" + a.Conversation.ID + "/activities" + path
	// A turn may outlast the test, which ends when it has seen enough.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return 0, ""
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Error(err)
	}
	return resp.StatusCode, string(data)
}

// reply sends members of an activity as an answer to a.
func (b *bundle) reply(a *activity.Activity, members string) {
	body := `{"conversation":{"id":"` + a.Conversation.ID + `"},` + members + `}`
	if status, answer := b.call(http.MethodPost, a, "/"+a.ID, body); status != http.StatusOK || !strings.Contains(answer, `"id":`) {
		b.Errorf("reply: got %d %s", status, answer)
	}
}

func (b *bundle) say(a *activity.Activity, text string) {
	b.reply(a, fmt.Sprintf(`"type":"message","text":%q`, text))
}

// wait blocks a turn until the test goes on, or is over.
func (b *bundle) wait(on <-chan struct{}) {
	select {
	case <-on:
	case <-b.Context().Done():
	}
}

// output is what a console shows; it can be waited for.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown *sync.Cond
}

func newOutput() *output {
	o := new(output)
	o.grown = sync.NewCond(&o.mu)
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.grown.Broadcast()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func TestPipe(t *testing.T) {
	t.Parallel()
	b := setup(t, func(b *bundle, a *activity.Activity) int {
		b.reply(a, `"type":"typing"`)
		if a.Type == activity.ConversationUpdate {
			b.say(a, "Welcome.")
			return http.StatusOK
		}
		b.say(a, "You said: "+a.Text)
		b.say(a, "Done.")
		return http.StatusCreated
	})
	if err := b.run("create a list\n\n   \nadd milk\r\nbroken \xff text"); err != nil {
		t.Fatal(err)
	}
	want := "Welcome.\nYou said: create a list\nDone.\nYou said: add milk\nDone.\nYou said: broken \ufffd text\nDone.\n"
	if got := b.out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestActivities(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	if err := b.run("hello\nagain\n"); err != nil {
		t.Fatal(err)
	}
	if len(b.got) != 3 {
		t.Fatalf("the bot got %d activities", len(b.got))
	}
	hello, message, again := b.got[0], b.got[1], b.got[2]
	if hello.Type != activity.ConversationUpdate || len(hello.MembersAdded) != 1 || hello.MembersAdded[0].ID != hello.Recipient.ID {
		t.Errorf("the first activity does not add the bot: %+v", hello)
	}
	if message.Type != activity.Message || message.Text != "hello" || message.ChannelID != "console" ||
		message.From.ID != "console-user" || message.From.Name != "Terminal user" || message.Recipient.ID != "bot" {
		t.Errorf("message %+v", message)
	}
	if !message.Conversation.Personal() || message.Conversation.ID != hello.Conversation.ID {
		t.Errorf("conversation %+v", message.Conversation)
	}
	if message.ID == "" || message.ID == again.ID {
		t.Errorf("ids %q and %q: the bot would drop the second as a duplicate", message.ID, again.ID)
	}
	if !strings.HasPrefix(message.ServiceURL, "http://127.0.0.1:") || !strings.Contains(string(message.Extra), `"timestamp"`) {
		t.Errorf("serviceUrl %q, extra %s", message.ServiceURL, message.Extra)
	}
}

func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, func(b *bundle, a *activity.Activity) int {
		if a.Text == "two" {
			return http.StatusServiceUnavailable
		}
		b.say(a, "taken")
		return http.StatusOK
	})
	err := b.run("one\ntwo\nthree\n")
	if err == nil || !strings.Contains(err.Error(), "1 of 4") {
		t.Errorf("got error %v", err)
	}
	if got := b.out.String(); strings.Count(got, "taken") != 3 || !strings.Contains(got, "503 Service Unavailable") {
		t.Errorf("shown:\n%s", got)
	}
}

func TestUnreachableBot(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.server.Close()
	if err := b.run("one\n"); err == nil || !strings.Contains(b.out.String(), "cannot be reached") {
		t.Errorf("got error %v, shown:\n%s", err, b.out)
	}
}

func TestSlowBot(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	b := setup(t, func(b *bundle, _ *activity.Activity) int {
		b.wait(over)
		return http.StatusOK
	})
	b.cfg.Timeout = time.Millisecond
	err := b.run("one\n")
	close(over)
	if err == nil || !strings.Contains(b.out.String(), "did not finish within 1ms") {
		t.Errorf("got error %v, shown:\n%s", err, b.out)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]activity.Type{
		"while it waits for input": activity.ConversationUpdate,
		"in the middle of a turn":  activity.Message,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			b := setup(t, func(b *bundle, a *activity.Activity) int {
				if a.Type == during {
					cancel()
				}
				if a.Type == activity.Message {
					b.wait(over)
				}
				return http.StatusOK
			})
			if during == activity.Message {
				_, _ = io.WriteString(b.typed, "a message\n")
			}
			if err := console.Run(ctx, b.cfg); err != nil {
				t.Error(err)
			}
			close(over)
		})
	}
}

func TestLineTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	if err := b.run(strings.Repeat("x", 300<<10) + "\n"); err == nil || !strings.Contains(err.Error(), "longer than 256 KiB") {
		t.Errorf("got error %v", err)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	out := newOutput()
	b := setup(t, nil)
	b.cfg.Logs = &console.Logs{Out: out}
	if err := b.run(""); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(b.cfg.Logs, "line\n")
	b.cfg.Logs.Mute()
	_, _ = io.WriteString(b.cfg.Logs, "late\n")
	if out.String() != "line\n" || b.out.String() != "" {
		t.Errorf("log %q, conversation %q", out, b.out)
	}
}
