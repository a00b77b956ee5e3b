package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// TestMain collects garbage less often: it was a third of what these tests cost.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// bundle is a bot with all its real parts, between a fake connector and a fake model, on a Redis
// that the test can stop and look into. All of it is connected in memory, so that a test runs in a
// bubble of testing/synctest: nothing takes time but what computes.
type bundle struct {
	*testing.T
	planner   string // its name
	bot       *bot.Bot
	connector *channel
	model     *fakemodel.Server
	redis     *miniredis.Miniredis
	toRedis   *pipe.Cable
	inbox     *inbox.Inbox // see openInbox
	actions   *actions.Registry
	log       *logBuffer
	url       string
	ids       atomic.Int64
}

// inBubble runs a test beside others, in virtual time, with the bot that setup makes for it.
func inBubble[B any](t *testing.T, setup func(*testing.T, ...func(*bot.Config)) B, test func(t *testing.T, b B)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, setup(t)) })
}

func setup(t *testing.T, change ...func(*bot.Config)) *bundle {
	t.Helper()
	return setupPlanner(t, "sequence", change...)
}

// setupPlanner is setup with the planner of that name.
func setupPlanner(t *testing.T, name string, change ...func(*bot.Config)) *bundle {
	t.Helper()
	if time.Now().Year() == bubbleYear {
		t.Cleanup(func() { time.Sleep(linger) })
	}
	b := &bundle{
		T: t, planner: name, connector: newConnector(t), model: fakemodel.Serve(t, wires.Listen()), redis: miniredis.NewMiniRedis(),
		actions: actions.New(), log: &logBuffer{},
	}
	first, err := b.redis.Dial() // starts it without a port
	b.must(err)
	b.must(first.Close())
	server := b.redis.Server()
	t.Cleanup(b.redis.Close)
	b.toRedis = pipe.NewCable(func(context.Context, string, string) (net.Conn, error) {
		client, end := pipe.New()
		server.ServeConn(end)
		return client, nil
	}, nil)
	lists.Register(b.actions)
	reminders.Register(b.actions)
	b.bot = b.wire(b.openStore(b.toRedis), change...)
	b.url = serve(t, b.bot).URL
	return b
}

// linger gives goroutines of libraries time to notice that they can end: once the function of a
// bubble has returned, time no longer passes.
const linger = time.Minute

// bubbleYear is when bubbles begin. Few tests run in real time, and need not linger.
const bubbleYear = 2000

// wires connects what this package's tests serve. No two tests share an address.
var wires pipe.Network

// overWires reaches what is served there. It keeps no connection, so that bubbles share none.
var overWires http.RoundTripper = &http.Transport{DialContext: wires.Dial, DisableKeepAlives: true}

// serve serves h until the test ends.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	server := &httptest.Server{Listener: wires.Listen(), Config: &http.Server{Handler: h}} //nolint:gosec // the test's own
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// openStore opens the bundle's Redis over a cable.
func (b *bundle) openStore(over *pipe.Cable) *state.Store {
	b.Helper()
	// More connections than anyone needs: who waits for one takes a timer from a pool that go-redis
	// shares across the program, and a timer must not cross bubbles.
	store, err := state.Open(b.Context(), "redis://in-this-process?pool_size=10000", state.Config{Dial: over.Dial})
	b.must(err)
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// wire makes another bot on the same parts, as a second replica would be.
func (b *bundle) wire(store *state.Store, change ...func(*bot.Config)) *bot.Bot {
	b.Helper()
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: b.model.URL, Model: "fake", Timeout: 5 * time.Second, Transport: overWires})
	b.must(err)
	chain := &models.Chain{Models: []models.Model{model}, Retries: -1}
	library, err := prompts.Load("")
	b.must(err)
	guard, client := local(b.T)
	cfg := bot.Config{Actions: b.actions, Planner: b.newPlanner(planner.Config{Model: chain, Prompts: library, Actions: b.actions}), Store: store, Channel: client, Authenticator: guard, Log: zerolog.New(b.log), AckTimeout: 10 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	made, err := bot.New(cfg)
	b.must(err)
	b.Cleanup(func() { _ = made.Drain(b.Context()) })
	return made
}

// newPlanner makes the planner.
func (b *bundle) newPlanner(cfg planner.Config) turn.Planner {
	b.Helper()
	var made turn.Planner
	var err error
	switch b.planner {
	case "sequential":
		made, err = planner.NewSequential(b.Context(), cfg)
	case "tools":
		made, err = planner.NewTools(b.Context(), cfg)
	default:
		made, err = planner.NewSequence(b.Context(), cfg)
	}
	b.must(err)
	return made
}

// replica starts another process, as far as a test can, and returns its address.
func (b *bundle) replica() string {
	b.Helper()
	return serve(b.T, b.wire(b.openStore(b.toRedis))).URL
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// documents are the keys of what is kept about conversations and people.
func (b *bundle) documents() []string {
	return slices.DeleteFunc(b.redis.Keys(), func(key string) bool {
		return !strings.Contains(key, "/conversations/") && !strings.Contains(key, "/users/")
	})
}

// kept is what those documents hold.
func (b *bundle) kept() string {
	b.Helper()
	var all strings.Builder
	for _, key := range b.documents() {
		if doc, err := b.redis.Get(key); err == nil { // else it is no document
			all.WriteString(doc + "\n")
		}
	}
	return all.String()
}

// everything is all keys of Redis with their values, without the audit.
func (b *bundle) everything() string {
	b.Helper()
	var all strings.Builder
	for _, key := range b.redis.Keys() {
		var value any
		var err error
		switch kind := b.redis.Type(key); {
		case strings.Contains(key, "audit"):
			continue
		case kind == "string":
			value, err = b.redis.Get(key)
		case kind == "hash":
			fields, failed := b.redis.HKeys(key)
			values := map[string]string{}
			for _, field := range fields {
				values[field] = b.redis.HGet(key, field)
			}
			value, err = values, failed
		case kind == "list":
			value, err = b.redis.List(key)
		case kind == "set":
			value, err = b.redis.SMembers(key)
		case kind == "zset":
			value, err = b.redis.SortedSet(key)
		case kind == "stream":
			value, err = b.redis.Stream(key)
		}
		b.must(err)
		fmt.Fprintln(&all, key, value)
	}
	return all.String()
}

// event is an activity's fields over the defaults of a personal chat in Teams.
type event map[string]any

func (b *bundle) activity(over event) []byte {
	b.Helper()
	a := event{
		"type":         "message",
		"id":           fmt.Sprint("activity-", b.ids.Add(1)),
		"channelId":    "msteams",
		"serviceUrl":   b.connector.URL,
		"from":         event{"id": "29:mia", "name": "Mia", "aadObjectId": "aad-mia"},
		"recipient":    event{"id": "28:bot", "name": "Planbot"},
		"conversation": event{"id": "a:mia", "conversationType": "personal", "tenantId": "t1"},
		"channelData":  event{"tenant": event{"id": "t1"}},
	}
	maps.Copy(a, over)
	maps.DeleteFunc(a, func(_ string, v any) bool { return v == nil })
	raw, err := json.Marshal(a)
	b.must(err)
	return raw
}

// answer is what the bot's door answered.
type answer struct {
	status int
	body   string
	header http.Header
}

// deliver posts the activity as the channel does.
func (b *bundle) deliver(over event) answer {
	b.Helper()
	return b.post(b.url, b.activity(over))
}

func (b *bundle) post(url string, body []byte) answer {
	b.Helper()
	time.Sleep(time.Millisecond) // in a bubble all would happen at the same time, and have no order
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	b.must(err)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := (&http.Client{Transport: overWires}).Do(req)
	b.must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	b.must(err)
	return answer{resp.StatusCode, string(raw), resp.Header}
}

// say delivers a text and expects that it is taken.
func (b *bundle) say(text string) {
	b.Helper()
	if got := b.deliver(event{"text": text}); got.status != http.StatusOK {
		b.Fatalf("%q was answered with %d %s", text, got.status, got.body)
	}
}

// expect takes the next message and compares its text.
func (b *bundle) expect(want string) {
	b.Helper()
	if got := b.connector.Next(b).Text(); got != want {
		b.Errorf("reply %q, want %q", got, want)
	}
}

// until waits for what is seen in Redis only.
func (b *bundle) until(what string, is func() bool) {
	b.Helper()
	each := time.NewTicker(time.Millisecond)
	defer each.Stop()
	for deadline := time.Now().Add(20 * time.Second); !is(); <-each.C {
		if time.Now().After(deadline) {
			b.Fatalf("in vain: %s\n%s", what, b.log)
		}
	}
}

// gone waits until nothing waits for its time.
func (b *bundle) gone() {
	b.Helper()
	b.until("that no timer is left", func() bool { return len(b.waiting()) == 0 })
}

// record finds a record with these words in it: the key of its hash and its id.
func (b *bundle) record(words string) (key, id, record string) {
	b.Helper()
	for _, key := range b.redis.Keys() {
		if !strings.HasSuffix(key, "/records") {
			continue
		}
		ids, err := b.redis.HKeys(key)
		b.must(err)
		for _, id := range ids {
			if record := b.redis.HGet(key, id); strings.Contains(record, words) {
				return key, id, record
			}
		}
	}
	return "", "", ""
}

// openInbox opens the inbox, once, as an operator does.
func (b *bundle) openInbox() *inbox.Inbox {
	b.Helper()
	if b.inbox == nil {
		in, err := inbox.Open(b.openStore(b.toRedis), inbox.Config{})
		b.must(err)
		b.Cleanup(in.Close)
		b.inbox = in
	}
	return b.inbox
}

// deadLetters waits until there are so many.
func (b *bundle) deadLetters(n int) []inbox.Waiting {
	b.Helper()
	in := b.openInbox()
	var all []inbox.Waiting
	b.until(fmt.Sprintf("%d dead letters", n), func() bool {
		var err error
		all, err = in.Dead(b.Context())
		b.must(err)
		return len(all) == n
	})
	return all
}

// retry has a dead letter tried again, as an operator does.
func (b *bundle) retry(w inbox.Waiting) {
	b.Helper()
	b.must(b.openInbox().Wake(b.Context(), w, nil))
}

func readRecord(t *testing.T, raw []byte) turn.Record {
	t.Helper()
	rec, err := turn.Decode(raw)
	must(t, err)
	return rec
}

// expectFault takes the next message: one sentence with these words and a turn id.
func (b *bundle) expectFault(words string) {
	b.Helper()
	got := b.connector.Next(b).Text()
	if !strings.Contains(got, words) || !strings.Contains(got, "(turn ") {
		b.Errorf("reply %q, want one with %q and the turn's id", got, words)
	}
}

// plan writes a plan of these commands, each a JSON object.
func plan(commands ...string) string {
	return `{"type":"plan","commands":[` + strings.Join(commands, ",") + `]}`
}

func do(action, entities string) string {
	return `{"type":"DO","action":"` + action + `","entities":` + entities + `}`
}

func say(text string) string {
	raw, _ := json.Marshal(text)
	return `{"type":"SAY","response":` + string(raw) + `}`
}

// logBuffer keeps the log of a test for looking at.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// channel is where the bot's messages arrive. Tests take them one after another.
type channel struct {
	*bottest.Connector
	taken atomic.Int64
}

// sent is a request of the bot with its JSON decoded.
type sent struct {
	bottest.Sent
	Body map[string]any
}

func (s sent) Text() string { return s.Activity.Text }

func (s sent) Type() string { return string(s.Activity.Type) }

func read(one bottest.Sent) sent {
	s := sent{Sent: one}
	_ = json.Unmarshal([]byte(one.JSON), &s.Body) // the connector has read it
	return s
}

func newConnector(t *testing.T) *channel {
	t.Helper()
	return &channel{Connector: bottest.ServeConnector(t, wires.Listen())}
}

// Fails makes the next messages fail with these statuses.
func (c *channel) Fails(retryAfter time.Duration, statuses ...int) {
	for _, status := range statuses {
		c.Connector.Fails(bottest.Answer{Status: status, RetryAfter: retryAfter})
	}
}

// All are all requests so far, those that failed included.
func (c *channel) All() (all []sent) {
	for _, one := range c.Sent() {
		all = append(all, read(one))
	}
	return all
}

// Next waits for the next message.
func (c *channel) Next(t testing.TB) sent {
	t.Helper()
	c.taken.Add(1)
	return read(c.Connector.Next())
}

// None fails the test if there is a message that Next did not take.
func (c *channel) None(t testing.TB) {
	t.Helper()
	messages := 0
	for _, s := range c.All() {
		if s.Message() {
			messages++
		}
		if messages > int(c.taken.Load()) {
			t.Errorf("unexpected message %v", s.Body)
			return
		}
	}
}

// await waits for a request of that kind.
func (c *channel) await(t testing.TB, kind string, is func(sent) bool) sent {
	t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if all := c.All(); slices.ContainsFunc(all, is) {
			return all[slices.IndexFunc(all, is)]
		}
	}
	t.Fatalf("no %s came; the connector got %v", kind, c.All())
	return sent{}
}

func (c *channel) NextUpdate(t testing.TB) sent {
	t.Helper()
	return c.await(t, "update", func(s sent) bool { return s.Method == http.MethodPut })
}

func (c *channel) AwaitTyping(t testing.TB) {
	t.Helper()
	c.await(t, "typing indicator", func(s sent) bool { return s.Type() == "typing" })
}
