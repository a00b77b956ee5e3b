package inbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// outage breaks everything that a client sends while it lasts.
type outage struct {
	lasts atomic.Bool
	tries atomic.Int64 // that it broke
	err   error        // nil: the connection breaks
}

func (o *outage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return o.hook(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (o *outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return o.hook(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (o *outage) hook(run func() error, cmds ...redis.Cmder) error {
	if !o.lasts.Load() {
		return run()
	}
	o.tries.Add(1)
	err := cmp.Or(o.err, io.ErrUnexpectedEOF)
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// A replica that is gone is followed within ten seconds, one that is there never.
func TestTakeoverInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		first, _ := b.replica(inbox.Config{})
		second, _ := b.replica(inbox.Config{})
		claimed, leave := b.claimsOf(second)
		b.in = first
		l := b.take(b.entry("hello"))
		select {
		case <-claimed:
			t.Fatal("taken over although its holder is well")
		case <-time.After(time.Minute):
		}
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		first.Close()
		died := time.Now()
		next := <-claimed
		if took := time.Since(died); took > 10*time.Second {
			t.Errorf("taken over after %v", took)
		}
		b.wantRecord(next, "hello", 1)
		if stats := second.Stats(); stats.Takeovers != 1 || stats.Held != 1 {
			t.Errorf("%+v", stats)
		}
		if err := l.Err(); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("the lease of the one that is gone: %v", err)
		}
		// A queue that is taken over a second time has two tries, the next record none.
		b.in = second
		b.accept(b.entry("bye"))
		leave()
		second.Close()
		third, _ := b.replica(inbox.Config{})
		claimed, _ = b.claimsOf(third)
		l = <-claimed
		b.wantRecord(l, "hello", 2)
		// A queue that was given up is not taken over.
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		l = <-claimed
		b.wantRecord(l, "hello", 2)
		if n := third.Stats().Takeovers; n != 1 {
			t.Errorf("%d takeovers", n)
		}
		b.finish(l, true)
		b.wantRecord(l, "bye", 0)
		b.finish(l, false)
	})
}

// A replica that was cut off learns that it lost its queue, and another that its
// lease ran out before anybody else may have taken it.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		first, down := b.replica(inbox.Config{})
		second, _ := b.replica(inbox.Config{})
		b.in = first
		l := b.take(b.entry("hello"))
		lost := make(chan struct{})
		l.OnLost(func() { close(lost) })
		down.lasts.Store(true)
		claimed, _ := b.claimsOf(second)
		next := <-claimed
		if err := l.Err(); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("the queue is another's and the lease says %v", err)
		}
		select {
		case <-lost:
			t.Error("who told it?")
		default:
		}
		down.lasts.Store(false)
		<-lost
		if n := first.Stats().Lost; n != 1 {
			t.Errorf("%d lost", n)
		}
		if err := l.Save(t.Context(), []byte("planned"), true); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("save: %v", err)
		}
		b.finish(next, false)
	})
}

// After Redis was away for longer than a lease, those who hold queues get a moment to
// renew, and have them again within two seconds.
func TestRedisWasAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		first, down := b.replica(inbox.Config{})
		downs := []*outage{down}
		for range 4 {
			other, down := b.replica(inbox.Config{})
			downs = append(downs, down)
			b.run(other, func(q state.Key) {
				if l, err := other.Claim(context.Background(), q); l != nil || err != nil {
					t.Errorf("%s was taken: %v", q, err)
				}
			})
		}
		b.in = first
		l := b.take(b.entry("hello"))
		time.Sleep(50 * time.Millisecond)
		for _, down := range downs {
			down.lasts.Store(true)
		}
		time.Sleep(20 * time.Second)
		if err := l.Err(); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("not renewed for so long, and the lease says %v", err)
		}
		for _, down := range downs {
			down.lasts.Store(false)
		}
		time.Sleep(2 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("Redis is back, and the lease says %v", err)
		}
		time.Sleep(20 * time.Second)
		b.finish(l, false)
	})
}

// cable is a way to a server that can be cut: everything on it is lost.
type cable struct {
	server *state.Store
	cut    atomic.Bool
	conns  atomic.Pointer[[]net.Conn]
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.cut.Load() {
		return nil, io.ErrUnexpectedEOF
	}
	conn, err := c.server.Dial(ctx, network, addr)
	if err == nil {
		for {
			was := c.conns.Load()
			var conns []net.Conn
			if was != nil {
				conns = append(conns, *was...)
			}
			conns = append(conns, conn)
			if c.conns.CompareAndSwap(was, &conns) {
				break
			}
		}
	}
	return conn, err
}

func (c *cable) breaks(d time.Duration) {
	c.cut.Store(true)
	for _, conn := range *c.conns.Swap(&[]net.Conn{}) {
		_ = conn.Close()
	}
	time.Sleep(d)
	c.cut.Store(false)
}

// Redis is away for a moment, while a living replica does this and that: all goes on
// within two seconds.
func TestShortOutage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, b *bundle, outage func()){
		"a release": func(t *testing.T, b *bundle, outage func()) {
			l := b.take(b.entry("x"))
			go outage()
			time.Sleep(100 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := l.Release(ctx, 0); err == nil {
				t.Error("released without Redis")
			}
		},
		"a claim that nobody waits for": func(t *testing.T, b *bundle, outage func()) {
			b.accept(b.queued("x"))
			store := b.open(state.Config{})
			hook(store, &wire{lose: func(run func() error) error { return cmp.Or(run(), io.ErrUnexpectedEOF) }})
			deaf := openInbox(t, store, inbox.Config{Patience: time.Millisecond})
			if l, err := deaf.Claim(t.Context(), b.q); l != nil || err == nil {
				t.Errorf("claimed unheard: %v, %v", l, err)
			}
			outage()
		},
		"a name on the list of ready ones that gets lost": func(t *testing.T, b *bundle, outage func()) {
			// It is read by somebody whose connection breaks.
			q := b.q
			b.q = b.conversation("another")
			for range 64 {
				b.accept(b.queued("y"))
			}
			b.q = q
			b.accept(b.queued("x"))
			if err := b.client().Del(t.Context(), inbox.Shared(b.q, "wake")).Err(); err != nil {
				t.Fatal(err)
			}
			outage()
		},
		"a message that comes meanwhile": func(_ *testing.T, b *bundle, outage func()) {
			go outage()
			time.Sleep(100 * time.Millisecond)
			b.accept(b.queued("x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, err := state.Open(t.Context(), "", state.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = server.Close() })
				way := &cable{server: server}
				b := newBundle(t, func(cfg state.Config) *state.Store {
					cfg.Dial = way.dial
					return openURL(t, "redis://here", cfg)
				})
				inbox.LoadScripts(t, b.store)
				claimed := make(chan state.Key, 1000)
				var away atomic.Bool
				var back time.Time
				b.run(b.in, func(q state.Key) {
					if q != b.q || away.Load() {
						return
					}
					l, err := b.in.Claim(context.Background(), q)
					if err != nil {
						t.Errorf("claim: %v", err)
					}
					if l != nil {
						b.finish(l, false)
						claimed <- q
					}
				})
				time.Sleep(10 * time.Second) // of the start nothing is left
				away.Store(true)
				ended := make(chan struct{})
				test(t, b, func() {
					way.breaks(500 * time.Millisecond)
					back = time.Now()
					away.Store(false)
					close(ended)
				})
				<-ended
				<-claimed
				if took := time.Since(back); took > 2*time.Second {
					t.Errorf("went on after %v", took)
				}
			})
		})
	}
}

// Two replicas work on many conversations, and Redis is away for half a second: whatever
// they were at, all goes on within two seconds.
func TestOutageUnderLoad(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { outageUnderLoad(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func outageUnderLoad(t *testing.T, random *rand.Rand) {
	server, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	way := &cable{server: server}
	b := newBundle(t, func(cfg state.Config) *state.Store {
		cfg.Dial = way.dial
		return openURL(t, "redis://here", cfg)
	})
	inbox.LoadScripts(t, b.store)
	var turns sync.WaitGroup
	var done sync.Map // id of a record to the time when it was finished
	work := func(l *inbox.Lease) {
		for more := true; more; {
			time.Sleep(20 * time.Millisecond)
			id := l.ID()
			err := l.Save(context.Background(), append(l.Record(), '.'), true)
			if err == nil {
				time.Sleep(20 * time.Millisecond)
				more, err = l.Finish(context.Background(), nil)
			}
			if err != nil {
				_ = l.Release(context.Background(), 0)
				return
			}
			done.Store(id, time.Now())
		}
	}
	// One tries long, the other gives up and leaves the rest to whoever takes the queue.
	patient, _ := b.replica(inbox.Config{})
	hasty, _ := b.replica(inbox.Config{Patience: 100 * time.Millisecond})
	replicas := []*inbox.Inbox{patient, hasty}
	for _, in := range replicas {
		b.run(in, func(q state.Key) {
			if l, _ := in.Claim(context.Background(), q); l != nil {
				turns.Go(func() { work(l) })
			}
		})
	}
	time.Sleep(10 * time.Second)
	started := time.Now()
	accepted := map[string]time.Time{}
	var mu sync.Mutex
	var senders sync.WaitGroup
	for n := range 27 {
		pauses := make([]time.Duration, 30)
		for i := range pauses {
			pauses[i] = time.Duration(random.IntN(200)) * time.Millisecond
		}
		in, take := replicas[n%2], random.IntN(2) == 0
		senders.Go(func() {
			for _, pause := range pauses {
				time.Sleep(pause)
				e := b.entry("x")
				e.Queue, e.Take = b.conversation(fmt.Sprint(n)), take
				receipt, err := in.Accept(context.Background(), e)
				if err != nil {
					continue
				}
				mu.Lock()
				accepted[e.ID] = time.Now()
				mu.Unlock()
				if receipt.Lease != nil {
					turns.Go(func() { work(receipt.Lease) })
				}
			}
		})
	}
	time.Sleep(time.Duration(500+random.IntN(1000)) * time.Millisecond)
	way.breaks(500 * time.Millisecond)
	back := time.Now()
	senders.Wait()
	time.Sleep(20 * time.Second)
	turns.Wait()
	for id, at := range accepted {
		if at.Before(back) {
			at = back
		}
		end, ok := done.Load(id)
		if !ok {
			t.Errorf("%s was never finished", id)
			continue
		}
		if took := end.(time.Time).Sub(at); took > 2*time.Second {
			t.Errorf("%s, of %v, went on after %v", id, at.Sub(started), took)
		}
	}
}

// A delivery and its answer are remembered for a while, each thing that tells it
// from others for its own time.
func TestDuplicatesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		e := b.entry("hello")
		e.Duplicates = []inbox.Duplicate{{ID: "activity"}, {ID: "click", For: time.Minute}}
		l := b.take(e)
		if more, err := l.Finish(t.Context(), []byte("answer")); more || err != nil {
			t.Fatal(more, err)
		}
		again := func(id string) bool {
			t.Helper()
			e := b.entry("hello")
			e.Duplicates = []inbox.Duplicate{{ID: id, For: time.Second}}
			receipt := b.accept(e)
			if receipt.Lease != nil {
				b.finish(receipt.Lease, false)
			} else if answer, err := b.in.Answer(t.Context(), b.q, receipt.ID); string(answer) != "answer" || err != nil {
				t.Errorf("answer %q, %v", answer, err)
			}
			return receipt.Duplicate
		}
		time.Sleep(55 * time.Second)
		if !again("activity") || !again("click") {
			t.Error("forgotten within a minute")
		}
		time.Sleep(10 * time.Second)
		if !again("activity") || again("click") {
			t.Error("a click is not the same after a minute, an activity is")
		}
		time.Sleep(28 * time.Minute)
		if !again("activity") {
			t.Error("forgotten within half an hour")
		}
		time.Sleep(2 * time.Minute)
		if again("activity") {
			t.Error("remembered for ever")
		}
		if answer, err := b.in.Answer(t.Context(), b.q, e.ID); answer != nil || err != nil {
			t.Errorf("its answer is kept for ever: %q, %v", answer, err)
		}
	})
}

// While ready has no room, others read; and what it had read comes back.
func TestReadyWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		full, _ := b.replica(inbox.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		b.run(full, func(state.Key) { <-ctx.Done() })
		const queues = 600
		for i := range queues {
			e := b.queued("hello")
			e.Queue = b.conversation(fmt.Sprint(i))
			b.accept(e)
		}
		synctest.Wait()
		free, _ := b.replica(inbox.Config{})
		start := time.Now()
		claimed, _ := b.claimsOf(free)
		for range queues {
			b.finish(<-claimed, false)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("claimed after %v", took)
		}
		cancel()
	})
}

// counted counts what is written to a connection.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// Nobody looks into a server of this process while nothing happens there, and all the same
// nothing is late: not what another replica puts there, nor what it leaves behind.
func TestSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := state.Open(t.Context(), "", state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		var writes atomic.Int64
		b := newBundle(t, func(cfg state.Config) *state.Store {
			cfg.Server = server
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := server.Dial(ctx, network, addr)
				return counted{conn, &writes}, err
			}
			return openURL(t, "redis://here", cfg)
		})
		in, _ := b.replica(inbox.Config{})
		claimed, _ := b.claimsOf(in)
		quiet := func() {
			t.Helper()
			time.Sleep(time.Minute)
			before := writes.Load()
			time.Sleep(24 * time.Hour)
			if n := writes.Load() - before; n > 500 {
				t.Errorf("%d writes in a day in which nothing happened", n)
			}
		}
		within := func(d time.Duration) *inbox.Lease {
			t.Helper()
			select {
			case l := <-claimed:
				return l
			case <-time.After(d):
				t.Fatalf("nothing after %v", d)
				return nil
			}
		}
		quiet()
		for _, after := range []time.Duration{90 * time.Minute, 0} {
			b.accept(b.waiting("tea", inbox.Wait{Until: time.Now().Add(after)}))
			b.finish(within(after+3*time.Second), false)
			quiet()
		}
		b.take(b.entry("hello"))
		b.in.Close() // and it is gone
		b.finish(within(10*time.Second), false)
		quiet()
	})
}
