package bot_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// place is where a process dies: before or after its n-th step that others can see, which is
// a script that writes to its conversation or a note of that, a call of the model, or a message that is sent.
type place struct {
	step  int // from 0
	after bool
}

func (p place) String() string {
	if p.after {
		return fmt.Sprint("after step ", p.step)
	}
	return fmt.Sprint("before step ", p.step)
}

// places are all places of the first steps, in order.
func places(steps int) []place {
	var all []place
	for i := range steps {
		all = append(all, place{i, false}, place{i, true})
	}
	return all
}

// world is what sort of bot it is.
type world struct {
	shares bool // book changes state of the whole bot, the person and the conversation
	bare   bool // no feature is in the bot
	stops  bool // the person stops it while book runs
	later  bool // book goes on beside the conversation
}

// crashes is a person who sends one message to a bot whose processes die, one after another,
// each at its own place. The next process begins where one has died.
type crashes struct {
	t      *testing.T
	server *state.Store
	world
	deaths []place
	acts   func(*actions.Registry)   // adds actions; nil: none
	body   string                    // the message; "": "go"
	every  bool                      // every write of a document or a set is a step, too
	thinks func(asked []byte) string // the model's answer, from the request; nil: the plan with book

	mu    sync.Mutex
	died  int
	sent  []string // the texts that the channel took
	steps []string // what the first process did
	next  chan struct{}
	log   logBuffer // of all processes

	stopped atomic.Bool // a process took the stop
}

// mortal is one process. Nothing that it still does after its death reaches anybody.
type mortal struct {
	*crashes
	bot   *bot.Bot
	first bool

	steps int
	dead  bool
	conns []net.Conn
}

var errDead = errors.New("this process is dead")

// step does what others can see, unless the process dies before it. The second error is that
// of a process that dies after it.
func (m *mortal) step(what string, do func() error) error {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return errDead
	}
	here := m.steps
	m.steps++
	if m.first {
		m.crashes.steps = append(m.crashes.steps, what)
	}
	var at place
	mortal := m.died < len(m.deaths)
	if mortal {
		at = m.deaths[m.died]
	}
	m.mu.Unlock()
	if mortal && at == (place{here, false}) {
		m.die()
		return errDead
	}
	err := do()
	if mortal && at == (place{here, true}) {
		m.die()
		return errDead
	}
	return err
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return
	}
	m.dead = true
	m.died++
	for _, c := range m.conns {
		_ = c.Close() // it is broken either way
	}
	m.next <- struct{}{}
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead { // asked under the lock, or a connection would outlive it
		return nil, errDead
	}
	conn, err := m.server.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	m.conns = append(m.conns, conn)
	return pipe.Stepwise(conn, m.what, m.step), nil
}

// what names a request to Redis that is a step: a script that writes to the conversation.
func (m *mortal) what(p []byte) string {
	switch has := func(part string) bool { return bytes.Contains(p, []byte(part)) }; {
	case has("evalsha") && (has("/records") || has("/queue")):
		return "script"
	case m.shares && has("evalsha") && has("}/notes/"):
		return "note"
	case m.every && (has("/users/") && (has("evalsha") || has("hdel")) || has("evalsha") && has("/conversations/")):
		return "script"
	}
	return ""
}

// RoundTrip is the way of the process to channel and model.
func (m *mortal) RoundTrip(r *http.Request) (res *http.Response, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := func(status int, body string) {
		res = &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1, ProtoMinor: 1,
		}
	}
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		err = m.step("model", func() error {
			if m.thinks != nil {
				said, err := json.Marshal(m.thinks(body))
				answer(http.StatusOK, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":`+string(said)+`}}]}`)
				return err
			}
			said, err := json.Marshal(plan(do("book", `{}`), say("Booked."), do("createList", `{"list":"Trip"}`), say("Noted."), say("All done.")))
			answer(http.StatusOK, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":`+string(said)+`}}]}`)
			return err
		})
		return res, err
	}
	var sent struct{ Type, Text string }
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	if sent.Type != "message" {
		if m.isDead() {
			return nil, errDead
		}
		answer(http.StatusCreated, `{}`)
		return res, nil
	}
	err = m.step("send "+sent.Text, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sent = append(m.sent, sent.Text)
		answer(http.StatusCreated, `{"id":"1"}`)
		return nil
	})
	return res, err
}

// begin starts a process, once what those before it have written has arrived.
func (c *crashes) begin() *mortal {
	c.t.Helper()
	synctest.Wait()
	m := &mortal{crashes: c, first: c.died == 0}
	store, err := state.Open(c.t.Context(), "redis://in-this-process?pool_size=10000", state.Config{Dial: m.dial, Server: c.server})
	must(c.t, err)
	c.t.Cleanup(func() { _ = store.Close() }) // it may be dead
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: "http://model/v1", Model: "fake", Transport: m})
	must(c.t, err)
	acts := actions.New()
	lists.Register(acts)
	actions.Add(acts, "book", "Books", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		if c.stops && m.first {
			c.stopped.Store(c.send(m, stopBody))
			time.Sleep(3 * time.Second)
		}
		if c.later {
			time.Sleep(time.Second)
		}
		if !c.shares {
			return actions.Done, nil
		}
		shared, err := turn.Bot(ctx)
		if err != nil {
			return actions.Done, err
		}
		for _, scope := range []*state.Scope{shared, turn.User, turn.Conversation} {
			state.Of[tally](scope).N++
		}
		return actions.Done, nil
	}, func(a *actions.Action) {
		if c.later {
			actions.Later(time.Minute)(a)
		}
	})
	if c.acts != nil {
		c.acts(acts)
	}
	library, err := prompts.Load("")
	must(c.t, err)
	planned, err := planner.NewSequence(c.t.Context(), planner.Config{Model: model, Actions: acts, Prompts: library})
	must(c.t, err)
	door, _ := local(c.t)
	cfg := bot.Config{Actions: acts, Planner: planned, Store: store, Channel: hasty(c.t, m), Authenticator: door, Log: zerolog.New(&c.log).Level(zerolog.InfoLevel).With().Timestamp().Logger()}
	if !c.bare {
		cfg.AuditKeep = time.Hour
	}
	m.bot, err = bot.New(cfg)
	must(c.t, err)
	c.t.Cleanup(func() {
		m.die()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.bot.Drain(ended) // it is dead
	})
	m.bot.Start()
	return m
}

// audited are the entries of the audit.
func (c *crashes) audited() (entries []audit.Entry) {
	must(c.t, audit.Read(c.t.Context(), c.server, time.Time{}, func(e audit.Entry) error {
		entries = append(entries, e)
		return nil
	}))
	return entries
}

// fromMia is what Mia says in her chat.
func fromMia(id, text string) string {
	return `{"type":"message","id":"` + id + `","channelId":"msteams","serviceUrl":"http://127.0.0.1:1/","text":"` + text + `",` +
		`"from":{"id":"29:mia"},"recipient":{"id":"28:bot"},"conversation":{"id":"a:mia","conversationType":"personal","tenantId":"t1"}}`
}

var goBody, stopBody = fromMia("activity-1", "go"), fromMia("activity-2", "/stop")

// deliver is one delivery of the message, and whether it was acknowledged.
func (c *crashes) deliver(to *mortal) bool { return c.send(to, cmp.Or(c.body, goBody)) }

func (c *crashes) send(to *mortal, body string) bool {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:3978/api/messages", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(context.WithValue(c.t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3978})))
	w := httptest.NewRecorder()
	to.bot.ServeHTTP(w, r)
	return w.Code == http.StatusOK && !to.isDead()
}

// live lets one message meet these deaths. It returns what was sent, how many processes died,
// and the steps of the first.
func live(t *testing.T, deaths ...place) (sent []string, died int, steps []string) {
	t.Helper()
	return liveWith(t, world{}, deaths...)
}

func liveWith(t *testing.T, in world, deaths ...place) (sent []string, died int, steps []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(aLongTime) }) // what is cut off finds out
		server, err := state.Open(t.Context(), "", state.Config{})
		must(t, err)
		t.Cleanup(func() { _ = server.Close() })
		warm(t, server, in)
		c := &crashes{t: t, server: server, world: in, deaths: deaths, next: make(chan struct{}, 100)}
		if in.later {
			c.thinks = tellsLater
		}
		m := c.begin()
		taken := c.deliver(m)
		for quiet := false; !quiet || !taken; {
			select {
			case <-c.next:
				m = c.begin()
			case <-time.After(aLongTime):
				quiet = true
			}
			if !taken {
				taken, quiet = c.deliver(m), false // as the channel does; a turn may only begin now
			}
			if c.stops && !c.stopped.Load() {
				c.stopped.Store(c.send(m, stopBody))
				quiet = false
			}
		}
		entries := c.audited()
		chain, err := audit.Verify(t.Context(), server, nil, time.Time{})
		must(t, err)
		kept, err := server.Load(t.Context(), state.BotKey(), state.UserKey("msteams", "28:bot", "29:mia"), state.ConversationKey("msteams", "28:bot", "a:mia"))
		must(t, err)
		c.mu.Lock()
		sent, died, steps = append(sent, c.sent...), c.died, c.steps
		c.mu.Unlock()
		for _, scope := range kept {
			if n := state.Of[tally](scope).N; in.shares && n != 1 && died < 3 {
				t.Errorf("with deaths %v: %s counts %d", deaths, scope.Key(), n)
			}
		}
		if !in.bare && !in.stops && died < 3 && (len(entries) != 1 || entries[0].Action != "book" || entries[0].Outcome != "ok") {
			time.Sleep(10 * time.Minute) // tells what is late from what is lost
			t.Errorf("with deaths %v the audit is %+v, ten minutes later %+v\n%s", deaths, entries, c.audited(), c.log.String())
		}
		if chain != (audit.Chain{Entries: len(entries), Written: len(entries)}) {
			t.Errorf("with deaths %v the chain of %d entries is %+v", deaths, len(entries), chain)
		}
	})
	return sent, died, steps
}

// tellsLater plans book, and tells the person once it has begun, and once it is over.
func tellsLater(asked []byte) string {
	switch {
	case bytes.Contains(asked, []byte("has ended")):
		return plan(say("All done."))
	case bytes.Contains(asked, []byte("I've started this")):
		return plan(say("It has begun."))
	}
	return plan(do("book", `{}`), say("Booked."))
}

// TestLaterAtEveryCrash: processes die at each place of a turn and of the call that goes on beside it. The call is told
// of once it is over, and is in the audit once, see liveWith.
func TestLaterAtEveryCrash(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of two turns")
	in := world{later: true, shares: true}
	_, _, steps := liveWith(t, in)
	for _, at := range places(len(steps)) {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			sent, died, _ := liveWith(t, in, at)
			said := slices.Compact(slices.Clone(sent))
			if !slices.Equal(said, []string{"It has begun.", "All done."}) || len(sent)-len(said) > died {
				t.Errorf("they read %q", sent)
			}
		})
	}
}

// warm has Redis learn the scripts, with a turn of somebody else: one that it does not know comes twice, and a death
// after its first request would be one before it.
func warm(t *testing.T, server *state.Store, in world) {
	t.Helper()
	in.bare, in.stops, in.later = true, false, false
	c := &crashes{t: t, server: server, world: in, next: make(chan struct{}, 100), body: `{"type":"message","id":"activity-0","channelId":"msteams",` +
		`"serviceUrl":"http://127.0.0.1:1/","text":"go","from":{"id":"29:otto"},"recipient":{"id":"28:bot"},"conversation":{"id":"a:otto","conversationType":"personal","tenantId":"t1"}}`}
	m := c.begin()
	if !c.deliver(m) {
		t.Fatal("the first message was not taken")
	}
	time.Sleep(aLongTime)
	m.die()
	must(t, server.Update(t.Context(), state.BotKey(), func(bot *state.Scope) error {
		state.Of[tally](bot).N = 0
		return nil
	}))
}

// aLongTime is more than any turn waits for anything after a crash.
const aLongTime = 20 * time.Second

var replies = []string{"Booked.", "Noted.", "All done."}

// TestEveryCrash has processes die at every place, one after another. After one or two deaths
// all replies arrive, in order. After three at the same place the person at least reads the
// sentence that names the turn, even if those that tell it die as well. A death repeats one
// message at most. The audit has the call of book once, see live. go test has one, two and three
// deaths at the same place; .ci/run has all pairs of places, and deaths of those that tell the person.
func TestEveryCrash(t *testing.T) {
	t.Parallel()
	_, _, steps := live(t)
	if got, want := strings.Join(steps, ", "), "script, model, script, script, send Booked., script, send Noted., script, send All done., script"; got != want {
		t.Fatalf("the steps of a turn are %s\nwant %s", got, want)
	}
	all := places(len(steps))
	check := func(t *testing.T, deaths ...place) (died int) {
		t.Helper()
		sent, died, _ := live(t, deaths...)
		if fault := faultOf(sent, died); fault != "" {
			t.Errorf("with deaths %v: %s: %q", deaths[:died], fault, sent)
		}
		return died
	}
	whole := ci.Runs() && !ci.UnderRace // the detector makes it five times as slow: .ci/run runs it without
	for _, first := range all {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			check(t, first)
			for _, next := range all {
				if !whole && next != first {
					continue
				}
				if check(t, first, next) < 2 {
					break // this far no second process comes
				}
				if first.after && first != next { // it leaves what a death before the next step leaves
					continue
				}
				if check(t, first, next, next) < 3 || first != next || !whole {
					continue
				}
				for _, telling := range places(3) {
					check(t, first, next, next, telling, telling, telling)
				}
			}
		})
	}
}

// TestEveryCrashOfABareBot is the same for a bot that has no feature at all: the core keeps its promises alone.
func TestEveryCrashOfABareBot(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a turn")
	_, _, steps := liveWith(t, world{bare: true})
	for _, first := range places(len(steps)) {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			for _, deaths := range [][]place{{first}, {first, first}, {first, first, first}} {
				sent, died, _ := liveWith(t, world{bare: true}, deaths...)
				if fault := faultOf(sent, died); fault != "" {
					t.Errorf("with deaths %v: %s: %q", deaths[:died], fault, sent)
				}
				if died < len(deaths) {
					break // this far no other process comes
				}
			}
		})
	}
}

// TestEveryCrashWithSharedState is the same for a turn that changes three documents in three partitions,
// for one death everywhere and two around their saves. Each document has the change once, see live.
func TestEveryCrashWithSharedState(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a turn")
	_, _, steps := liveWith(t, world{shares: true})
	if got, want := strings.Join(steps, ", "), "script, model, script, note, note, script, send Booked., note, script, send Noted., script, send All done., script"; got != want {
		t.Fatalf("the steps of a turn are %s\nwant %s", got, want)
	}
	all := places(len(steps))
	check := func(t *testing.T, deaths ...place) (died int) {
		t.Helper()
		sent, died, _ := liveWith(t, world{shares: true}, deaths...)
		if fault := faultOf(sent, died); fault != "" {
			t.Errorf("with deaths %v: %s: %q", deaths[:died], fault, sent)
		}
		return died
	}
	for _, first := range all {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			check(t, first)
			for _, next := range all[:10] { // no other process comes as far as the next save
				if steps[first.step] != "note" || check(t, first, next) < 2 {
					break
				}
			}
		})
	}
}

// faultOf says what is wrong with what was sent, or nothing.
func faultOf(sent []string, died int) string {
	var said []string
	told, again := false, 0
	for i, text := range sent {
		switch {
		case i > 0 && text == sent[i-1]:
			again++
		case strings.Contains(text, "Somebody has to look at it") && strings.Contains(text, "(turn "):
			told = true
		default:
			said = append(said, text)
		}
	}
	switch whole := slices.Equal(said, replies); {
	case whole && !told && again <= died:
		return ""
	case again > died:
		return fmt.Sprintf("%d repeats", again)
	case died < 3:
		return "not every reply arrived, once and in order"
	case !told:
		return "the person does not know what became of it"
	case len(said) > len(replies) || !slices.Equal(said, replies[:len(said)]):
		return "replies out of order"
	}
	return ""
}
