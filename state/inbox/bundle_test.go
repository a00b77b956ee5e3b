package inbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
	"github.com/planbot-go/planbot/state/internal/rdb"
)

// TestMain fails when a test leaves a goroutine behind. Collecting garbage was a third of what these tests cost.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// setup runs a test on the Redis in this process, in a bubble, and, where the environment names one,
// on a real server and on a cluster.
func setup(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	for _, kind := range []struct{ name, variable string }{
		{"embedded", ""}, {"server", "PLANBOT_TEST_REDIS_URL"}, {"cluster", "PLANBOT_TEST_REDIS_CLUSTER_URL"},
	} {
		url := os.Getenv(kind.variable)
		if kind.variable != "" && url == "" {
			continue // see TestServers
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			if kind.variable == "" {
				synctest.Test(t, func(t *testing.T) { test(t, newBundle(t, serve(t))) })
				return
			}
			test(t, newBundle(t, func(cfg state.Config) *state.Store { return openURL(t, url, cfg) }))
		})
	}
}

// TestServers says on which servers the tests of this package did not run.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"PLANBOT_TEST_REDIS_URL", "PLANBOT_TEST_REDIS_CLUSTER_URL"} {
		if os.Getenv(variable) == "" {
			t.Skipf("%s is unset: set it to the URL of a Redis to run these tests on it, too", variable)
		}
	}
}

// serve starts a Redis in this process and returns what opens another client of it.
func serve(t testing.TB) func(state.Config) *state.Store {
	t.Helper()
	return serveAs(t, "redis")
}

// serveAs has its clients take the server for one of this kind: redis+cluster is a cluster of one node.
func serveAs(t testing.TB, kind string) func(state.Config) *state.Store {
	t.Helper()
	t.Cleanup(func() { time.Sleep(linger) })
	server, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return func(cfg state.Config) *state.Store {
		cfg.Dial = server.Dial
		// Who waits for a connection takes a timer that go-redis shares across the program, and a timer
		// must not cross bubbles.
		return openURL(t, kind+"://here?pool_size=10000", cfg)
	}
}

// linger gives goroutines of libraries time to notice that they can end: once the function of a
// bubble has returned, time no longer passes.
const linger = time.Second

func openURL(t testing.TB, url string, cfg state.Config) *state.Store {
	t.Helper()
	store, err := state.Open(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// bundle is an inbox and a queue that no other test uses.
type bundle struct {
	t         testing.TB
	open      func(state.Config) *state.Store // another client
	store     *state.Store
	in        *inbox.Inbox
	q         state.Key
	namespace string
}

const shortLease = 300 * time.Millisecond

func newBundle(t testing.TB, open func(state.Config) *state.Store) *bundle {
	t.Helper()
	b := &bundle{t: t, open: open, store: open(state.Config{}), namespace: "test-" + rand.Text()}
	b.in = b.inbox(inbox.Config{})
	b.q = b.conversation("a")
	return b
}

// inbox is another replica's, on the same client.
func (b *bundle) inbox(cfg inbox.Config) *inbox.Inbox {
	b.t.Helper()
	return openInbox(b.t, b.store, cfg)
}

func openInbox(t testing.TB, store *state.Store, cfg inbox.Config) *inbox.Inbox {
	t.Helper()
	in, err := inbox.Open(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in
}

// replica is another process, whose way to Redis may break.
func (b *bundle) replica(cfg inbox.Config) (*inbox.Inbox, *outage) {
	b.t.Helper()
	store, down := b.open(state.Config{}), &outage{}
	hook(store, down)
	return openInbox(b.t, store, cfg), down
}

func hook(store *state.Store, h redis.Hook) { rdb.ClientOf(store.DB()).AddHook(h) }

func (b *bundle) client() redis.UniversalClient { return rdb.ClientOf(b.store.DB()) }

func (b *bundle) conversation(id string) state.Key {
	return state.ConversationKey("test", b.namespace, id)
}

// person is a user whose key is in another partition than the queue.
func (b *bundle) person() state.Key {
	for id := "u"; ; id += "u" {
		if user := state.UserKey("test", b.namespace, id); user.Partition() != b.q.Partition() {
			return user
		}
	}
}

func (b *bundle) entry(record string) inbox.Entry {
	return inbox.Entry{Queue: b.q, ID: rand.Text(), Record: []byte(record), Take: true}
}

// queued is an entry that does not take the queue.
func (b *bundle) queued(record string) inbox.Entry {
	e := b.entry(record)
	e.Take = false
	return e
}

func (b *bundle) waiting(record string, w inbox.Wait) inbox.Entry {
	e := b.queued(record)
	e.Wait = &w
	return e
}

func (b *bundle) accept(e inbox.Entry) inbox.Receipt {
	b.t.Helper()
	receipt, err := b.in.Accept(b.t.Context(), e)
	if err != nil {
		b.t.Fatalf("accept %s: %v", e.Record, err)
	}
	return receipt
}

// take accepts an entry that takes the queue.
func (b *bundle) take(e inbox.Entry) *inbox.Lease {
	b.t.Helper()
	receipt := b.accept(e)
	if receipt.Lease == nil {
		b.t.Fatalf("accept %s: no lease", e.Record)
	}
	return receipt.Lease
}

func (b *bundle) claim(in *inbox.Inbox) *inbox.Lease {
	b.t.Helper()
	l, err := in.Claim(b.t.Context(), b.q)
	if err != nil {
		b.t.Fatalf("claim: %v", err)
	}
	return l
}

// reclaim lets go of a queue and takes it again, to see what is kept of it.
func (b *bundle) reclaim(l *inbox.Lease) *inbox.Lease {
	b.t.Helper()
	if err := l.Release(b.t.Context(), 0); err != nil {
		b.t.Fatalf("release: %v", err)
	}
	again := b.claim(b.in)
	if again == nil {
		b.t.Fatal("a queue that was released cannot be claimed")
	}
	return again
}

func (b *bundle) finish(l *inbox.Lease, want bool) {
	b.t.Helper()
	if more, err := l.Finish(b.t.Context(), nil); err != nil || more != want {
		b.t.Fatalf("finish: %v, %v, want %v", more, err, want)
	}
}

func (b *bundle) wantRecord(l *inbox.Lease, record string, tries int) {
	b.t.Helper()
	if l == nil {
		b.t.Fatalf("no lease, want %q", record)
	}
	if string(l.Record()) != record || l.Tries() != tries {
		b.t.Errorf("record %q with %d tries, want %q and %d", l.Record(), l.Tries(), record, tries)
	}
}

// run runs in until the test ends, or leave is called.
func (b *bundle) run(in *inbox.Inbox, ready func(state.Key)) (leave func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		in.Run(ctx, ready)
		close(ended)
	}()
	leave = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	b.t.Cleanup(leave)
	return leave
}

// desk hands a queue that one test read to the test that it belongs to: on one server, a
// queue that is ready is told to one reader only.
var desk sync.Map // state.Key to func()

// claims runs in, and sends b's queue whenever it could be claimed.
func (b *bundle) claims(in *inbox.Inbox) <-chan *inbox.Lease {
	b.t.Helper()
	claimed := make(chan *inbox.Lease, 100)
	ctx := context.WithoutCancel(b.t.Context())
	var ending sync.RWMutex // other tests' readers may be at it when this test ends
	desk.Store(b.q, func() {
		ending.RLock()
		defer ending.RUnlock()
		if b.t.Context().Err() != nil {
			return
		}
		l, err := in.Claim(ctx, b.q)
		if err != nil {
			b.t.Errorf("claim: %v", err)
		}
		if l != nil {
			claimed <- l
		}
	})
	b.t.Cleanup(func() {
		ending.Lock()
		desk.Delete(b.q)
		ending.Unlock()
	})
	b.run(in, hand)
	return claimed
}

func hand(q state.Key) {
	if ready, ok := desk.Load(q); ok {
		ready.(func())()
	}
}

// claimsOf runs in, which claims whatever it reads. It is for a Redis of the test's own.
func (b *bundle) claimsOf(in *inbox.Inbox) (_ <-chan *inbox.Lease, leave func()) {
	b.t.Helper()
	claimed := make(chan *inbox.Lease, 1000)
	leave = b.run(in, func(q state.Key) {
		l, err := in.Claim(context.Background(), q)
		if err != nil {
			b.t.Errorf("claim: %v", err)
		}
		if l != nil {
			claimed <- l
		}
	})
	return claimed, leave
}

func (b *bundle) load(keys ...state.Key) []*state.Scope {
	b.t.Helper()
	scopes, err := b.store.Load(b.t.Context(), keys...)
	if err != nil {
		b.t.Fatal(err)
	}
	return scopes
}

// put stores a number.
func (b *bundle) put(key state.Key, n int) {
	b.t.Helper()
	s := b.load(key)[0]
	*number(s) = n
	if err := b.store.Save(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) want(key state.Key, n int) {
	b.t.Helper()
	if got := *number(b.load(key)[0]); got != n {
		b.t.Errorf("%s has n = %d, want %d", key, got, n)
	}
}

func number(s *state.Scope) *int { return state.At[int](s, "n") }

// until waits for something that happens elsewhere.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// wantConflict checks that err is a conflict over exactly these keys.
func wantConflict(t testing.TB, err error, lost, saved []state.Key) {
	t.Helper()
	var conflict *state.ConflictError
	if !errors.Is(err, state.ErrConflict) || !errors.As(err, &conflict) {
		t.Fatalf("%v, want a conflict", err)
	}
	if !slices.Equal(conflict.Conflicted, lost) || !slices.Equal(conflict.Saved, saved) {
		t.Errorf("conflicted %v and saved %v, want %v and %v", conflict.Conflicted, conflict.Saved, lost, saved)
	}
}

// names reports whether a command has a key with that part.
func names(cmd redis.Cmder, part string) bool {
	return slices.ContainsFunc(cmd.Args(), func(arg any) bool {
		text, _ := arg.(string)
		return strings.HasPrefix(text, "planbot/") && strings.Contains(text, part)
	})
}

// partOf is the part of a key that all keys of its partition share.
func partOf(key state.Key) string {
	name := key.String()
	return name[strings.Index(name, "{") : strings.Index(name, "}")+1]
}
