package bot_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/state"
)

// replica is a bot of its own on the shared Redis, which can be killed: it then
// reaches Redis no more, and what it still does is nobody's.
type replica struct {
	*bundle
	url   string
	bot   *bot.Bot
	cable *pipe.Cable
}

func (r *replica) kill() { r.cable.Cut(true) }

func (r *replica) say(text string) {
	r.Helper()
	if got := r.post(r.url, r.activity(event{"text": text})); got.status != http.StatusOK {
		r.Fatalf("%q was answered with %d %s", text, got.status, got.body)
	}
}

// shortLease is how long a killed replica's conversations wait in tests.
const shortLease = 300 * time.Millisecond

// addReplica starts a bot that acknowledges at once.
func (b *bundle) addReplica(change ...func(*bot.Config)) *replica {
	b.Helper()
	return b.addRouted(func(*bot.Bot) {}, change...)
}

// addRouted is addReplica of a bot with routes of its own.
func (b *bundle) addRouted(routes func(*bot.Bot), change ...func(*bot.Config)) *replica {
	b.Helper()
	cable := pipe.NewCable(b.toRedis.Dial, nil)
	made := b.wire(b.openStore(cable), append([]func(*bot.Config){func(c *bot.Config) {
		c.Lease, c.AckTimeout = shortLease, 0
	}}, change...)...)
	routes(made)
	made.Start()
	return &replica{bundle: b, url: serve(b.T, made).URL, bot: made, cable: cable}
}

// gate is an action that waits in its first call until it is let go, and notes what
// it was told of each.
type gate struct {
	mu       sync.Mutex
	attempts []actions.Attempt
	entered  chan struct{}
	open     chan struct{}
}

func addGate(b *bundle, name string, opts ...actions.Option) *gate {
	g := &gate{entered: make(chan struct{}, 8), open: make(chan struct{})}
	b.Cleanup(func() { close(g.open) })
	actions.Add(b.actions, name, "Waits", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		if g.note(actions.AttemptOf(ctx)) > 1 {
			return actions.Done, nil
		}
		g.entered <- struct{}{}
		<-g.open
		return actions.Done, nil
	}, opts...)
	return g
}

func (g *gate) note(a actions.Attempt) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attempts = append(g.attempts, a)
	return len(g.attempts)
}

func (g *gate) all() []actions.Attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]actions.Attempt{}, g.attempts...)
}

// addCount registers an action that counts its calls.
func addCount(b *bundle, name string, opts ...actions.Option) *atomic.Int64 {
	calls := &atomic.Int64{}
	actions.Add(b.actions, name, "Counts", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Text("%d", calls.Add(1)), nil
	}, opts...)
	return calls
}

func TestAPlanGoesOnWhereItsProcessWasKilled(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		before, after, slow := addCount(b, "before"), addCount(b, "after"), addGate(b, "slow")
		first := b.addReplica()
		b.model.Says(plan(do("createList", `{"list":"Groceries"}`), do("before", `{}`), do("slow", `{}`), do("after", `{}`), say("All done.")))
		first.say("go")
		<-slow.entered
		first.kill()
		second := b.addReplica()
		b.expect("All done.")
		if n := len(b.model.Calls()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
		if before.Load() != 1 || after.Load() != 1 {
			t.Errorf("calls: before %d, after %d", before.Load(), after.Load())
		}
		got := slow.all()
		if len(got) != 2 || got[0].Key == "" || got[0].Key != got[1].Key || got[0].Again || !got[1].Again {
			t.Errorf("attempts %+v", got)
		}
		b.model.Says(plan(do("summarizeLists", `{}`)), plan(say("One list.")))
		second.say("what is there?")
		b.expect("One list.")
		if got := b.model.Calls()[2].Text(); !strings.Contains(got, "Groceries") || !strings.Contains(got, "All done.") {
			t.Errorf("state or history of the turn is not there:\n%s", got)
		}
	})
}

func TestATurnWhoseProcessIsKilledBeforeItsPlanAsksTheModelAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		asked := b.model.Waits()
		first := b.addReplica()
		first.say("hello")
		<-asked
		first.kill()
		b.model.Says(plan(say("Hello!")))
		b.addReplica()
		b.expect("Hello!")
		b.connector.None(t)
	})
}

// TestASayThatWasOnItsWayIsSentOnceMore and the parts behind it follow, in order.
func TestASayThatWasOnItsWayIsSentOnceMore(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		first := b.addReplica()
		b.model.Says(plan(say("One."), say("Two."), say("Three.")))
		taken, release := b.connector.Holds("Two.")
		first.say("count")
		b.expect("One.")
		<-taken
		first.kill()
		close(release)
		b.addReplica()
		b.expect("Two.")
		b.expect("Two.")
		b.expect("Three.")
		b.connector.None(t)
		if n := len(b.model.Calls()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

func TestATurnThatKillsItsProcessesIsParked(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		entered := make(chan struct{}, 8)
		open := make(chan struct{})
		t.Cleanup(func() { close(open) })
		actions.Add(b.actions, "poison", "Kills", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			entered <- struct{}{}
			<-open
			return actions.Done, nil
		})
		b.model.Says(plan(do("poison", `{}`), say("Fine.")))
		r := b.addReplica()
		r.say("drink")
		for range 3 {
			<-entered
			r.kill()
			r = b.addReplica()
		}
		b.expectFault("Somebody has to look at it")
		b.model.Says(plan(say("Still here.")))
		r.say("are you there?")
		b.expect("Still here.")
		dead := b.deadLetters(1)
		if rec := readRecord(t, dead[0].Record); !strings.Contains(rec.Wait.Reason, "lost 3 times") || !strings.Contains(string(dead[0].Record), "poison") {
			t.Errorf("dead letter %s", dead[0].Record)
		}
	})
}

func TestATurnThatGetsFurtherIsNotParked(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		var commands []string
		var gates []*gate
		for _, name := range []string{"one", "two", "three", "four"} {
			gates = append(gates, addGate(b, name))
			commands = append(commands, do(name, `{}`))
		}
		b.model.Says(plan(append(commands, say("All four."))...))
		r := b.addReplica()
		r.say("go")
		for _, slow := range gates {
			select {
			case <-slow.entered:
			case <-time.After(20 * time.Second):
				t.Fatal("the turn does not go on")
			}
			r.kill()
			r = b.addReplica()
		}
		b.expect("All four.")
		b.connector.None(t)
	})
}

// explosive is state that cannot be written.
type explosive struct{ Armed bool }

func (e explosive) MarshalJSON() ([]byte, error) {
	if e.Armed {
		panic("boom")
	}
	return []byte(`{}`), nil
}

// TestPanicBehindTheRoute costs the turn, and not the process with all others.
func TestPanicBehindTheRoute(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "arm", "Arms", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			state.Of[explosive](turn.Conversation).Armed = true
			return actions.Done, nil
		}, actions.StateOnly)
		r := b.addReplica()
		b.model.Says(plan(do("arm", `{}`)))
		r.say("arm it")
		b.expectFault("Somebody has to look at it")
		b.model.Says(plan(say("Still here.")))
		r.say("are you there?")
		b.expect("Still here.")
	})
}

// TestDrainHandsBackWhatDoesNotEnd to another replica, without waiting for its lease.
func TestDrainHandsBackWhatDoesNotEnd(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		asked := b.model.Waits()
		first := b.addReplica(func(c *bot.Config) { c.Lease = time.Minute })
		first.say("go")
		<-asked
		b.model.Says(plan(say("Done after all.")))
		drained, cancel := context.WithCancel(t.Context())
		cancel()
		if err := first.bot.Drain(drained); err == nil {
			t.Error("no error of a drain that had to cancel a turn")
		}
		b.addReplica()
		b.expect("Done after all.")
		b.connector.None(t)
	})
}

// TestWhatEndsAsItIsCutOffIsNotDoneAgain by the replica that goes on.
func TestWhatEndsAsItIsCutOffIsNotDoneAgain(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		entered := make(chan struct{}, 8)
		calls := atomic.Int64{}
		actions.Add(b.actions, "book", "Books", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			calls.Add(1)
			entered <- struct{}{}
			<-ctx.Done()
			*state.At[int](turn.User, "booked")++
			return actions.Done, nil
		})
		first := b.addReplica(func(c *bot.Config) { c.Lease = time.Minute })
		b.model.Says(plan(do("book", `{}`), say("Booked.")))
		first.say("go")
		<-entered
		drained, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.bot.Drain(drained)
		b.addReplica(func(c *bot.Config) { c.TurnTimeout = 3 * time.Second })
		b.expect("Booked.")
		b.connector.None(t)
		if n := calls.Load(); n != 1 || len(b.model.Calls()) != 1 || !strings.Contains(b.kept(), `booked 1`) {
			t.Errorf("%d calls, the model was asked %d times, kept:\n%s", n, len(b.model.Calls()), b.kept())
		}
	})
}

func TestMessagesWaitInTheOrderOfTheirAcknowledgement(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		replicas := []*replica{b.addReplica(), b.addReplica(), b.addReplica()}
		const n = 20
		for range n {
			b.model.Echoes()
		}
		for i := range n {
			replicas[i%3].say(fmt.Sprint("message ", i))
		}
		for i := range n {
			b.expect(fmt.Sprint("message ", i))
		}
	})
}

func TestThreefoldDeliveryIsOneTurn(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		replicas := []*replica{b.addReplica(), b.addReplica(), b.addReplica()}
		b.model.Says(plan(say("Once.")))
		message := b.activity(event{"text": "hi"})
		var posts sync.WaitGroup
		for _, r := range replicas {
			posts.Go(func() {
				if got := b.post(r.url, message); got.status != http.StatusOK {
					t.Errorf("status %d", got.status)
				}
			})
		}
		posts.Wait()
		b.expect("Once.")
		b.connector.None(t)
	})
}

// TestAChannelThatIsAwayGetsItsRepliesLater and in order.
func TestAChannelThatIsAwayGetsItsRepliesLater(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		r := b.addReplica(func(c *bot.Config) { c.Channel = hasty(t) })
		b.connector.Fails(0, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusBadGateway)
		b.model.Says(plan(say("First.")), plan(say("Second.")))
		r.say("one")
		r.say("two")
		b.expect("First.")
		b.expect("Second.")
		b.connector.None(t)
	})
}

// TestAReplyWaitsAsLongAsTheChannelAsks, which is longer than it would wait by itself.
func TestAReplyWaitsAsLongAsTheChannelAsks(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		r := b.addReplica(func(c *bot.Config) { c.Channel = hasty(t) })
		b.connector.Fails(4*time.Second, http.StatusTooManyRequests)
		b.model.Says(plan(say("First.")))
		began := time.Now()
		r.say("one")
		b.expect("First.")
		if took := time.Since(began); took < 4*time.Second {
			t.Errorf("sent again within %v, want four seconds", took)
		}
	})
}

// TestAReplyWaitsForAChannelThatCannotBeReached: it has certainly not arrived.
func TestAReplyWaitsForAChannelThatCannotBeReached(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		dead := &deadLine{left: 2}
		r := b.addReplica(func(c *bot.Config) { c.Channel = hasty(t, dead) })
		b.model.Says(plan(say("At last.")))
		r.say("one")
		b.expect("At last.")
		b.connector.None(t)
	})
}

// TestARefusedLoginLosesNoReply: a secret that ran out is renewed, and a page in the
// place of the login server goes away.
func TestARefusedLoginLosesNoReply(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]http.HandlerFunc{
		"refusal": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"AADSTS7000222"}`)
		},
		"page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>back soon") },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				r := b.addReplica(loggedIn(t, connector.Callers{}, &brokenLogin{refuse: refuse}))
				b.model.Says(plan(say("First.")), plan(say("Second.")))
				r.say("one")
				r.say("two")
				b.expect("First.")
				b.expect("Second.")
				b.connector.None(t)
			})
		})
	}
}

// brokenLogin gives no token for two seconds after it was first asked.
type brokenLogin struct {
	mu     sync.Mutex
	first  time.Time
	refuse http.HandlerFunc
}

func (l *brokenLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first.IsZero() {
		l.first = time.Now()
	}
	if time.Since(l.first) > 2*time.Second {
		return loginServer{}.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	l.refuse(w, r)
	return w.Result(), nil
}

// deadLine refuses the first connections.
type deadLine struct {
	mu   sync.Mutex
	left int
}

func (d *deadLine) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/v3/") && d.left > 0 {
		d.left--
		return nil, syscall.ECONNREFUSED
	}
	return overWires.RoundTrip(r)
}

// hasty is a way out that tries once, over a transport of the test or its own.
func hasty(t *testing.T, over ...http.RoundTripper) *connector.Client {
	t.Helper()
	cfg := connector.Config{Tries: 1, Transport: overWires}
	if len(over) > 0 {
		cfg.Transport = over[0]
	}
	_, client, err := connector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
