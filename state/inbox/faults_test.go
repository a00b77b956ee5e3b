package inbox_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// wire watches what goes to the server, and may lose answers.
type wire struct {
	mu    sync.Mutex
	trips int
	sent  []string                     // names of the commands
	lose  func(run func() error) error // runs what is sent, or not, and says what comes back
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "hello" || name == "cluster" {
			return next(ctx, cmd)
		}
		return w.run(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return w.run(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (w *wire) run(run func() error, cmds ...redis.Cmder) error {
	w.mu.Lock()
	w.trips++
	for _, cmd := range cmds {
		w.sent = append(w.sent, cmd.Name())
	}
	lose := w.lose
	w.mu.Unlock()
	if lose == nil {
		return run()
	}
	err := lose(run)
	if err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return err
}

// loseNext loses the next answer, or the question when it does not arrive.
func (w *wire) loseNext(arrives bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = func(run func() error) error {
		w.mu.Lock()
		w.lose = nil
		w.mu.Unlock()
		if arrives {
			if err := run(); err != nil {
				return err
			}
		}
		return io.ErrUnexpectedEOF
	}
}

// did checks what was sent since the last call.
func (w *wire) did(t *testing.T, doing string, trips int, commands string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.sent, " "); w.trips != trips || got != commands {
		t.Errorf("%s: %d round trips with %q, want %d with %q", doing, w.trips, got, trips, commands)
	}
	w.trips, w.sent = 0, nil
}

// What one message costs on the wire.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		inbox.LoadScripts(t, b.store)
		if err := b.store.Join(t.Context(), b.person().Under("notes", "places"), "there"); err != nil {
			t.Fatal(err)
		}
		w := &wire{}
		hook(b.store, w)
		e := b.entry("hello")
		e.Duplicates = []inbox.Duplicate{{ID: e.ID}}
		e.Load = []state.Key{b.q, b.person()}
		e.Set, e.Member = b.person().Under("notes", "places"), "here"
		receipt := b.accept(e)
		if !receipt.Joined {
			t.Error("not joined")
		}
		w.did(t, "accept", 1, "evalsha getrange getrange hset pexpire")
		l, scopes := receipt.Lease, receipt.Scopes
		save := func() {
			t.Helper()
			if err := l.Save(t.Context(), []byte("planned"), false, scopes...); err != nil {
				t.Fatal(err)
			}
		}
		*number(scopes[0])++
		save()
		w.did(t, "save", 1, "evalsha")
		save()
		w.did(t, "save of nothing", 0, "")
		*number(scopes[0])++
		*number(scopes[1])++
		save()
		w.did(t, "save of a person's document, too", 2, "evalsha evalsha")
		b.finish(l, false)
		w.did(t, "finish", 1, "evalsha del")
	})
}

// Each call meets a server that knows no script, as after a failover.
func TestScriptsAreMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		flush := func() {
			if err := b.client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		b.put(b.q, 1)
		e := b.entry("hello")
		e.Load = []state.Key{b.q, b.person()}
		receipt := b.accept(e)
		if n := *number(receipt.Scopes[0]); n != 1 {
			t.Errorf("n = %d", n)
		}
		flush()
		*number(receipt.Scopes[0]), *number(receipt.Scopes[1]) = 2, 2
		if err := receipt.Lease.Save(t.Context(), []byte("planned"), true, receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
		flush()
		if err := receipt.Lease.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		flush()
		l := b.claim(b.in)
		b.wantRecord(l, "planned", 0)
		flush()
		b.finish(l, false)
	})
}

// A call whose first answer gets lost, after it arrived or before, has the same effect.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, b *bundle, lose func()){
		"accept and take": func(t *testing.T, b *bundle, lose func()) {
			e := b.entry("1")
			e.Load = []state.Key{b.q}
			lose()
			receipt := b.accept(e)
			if len(receipt.Scopes) != 1 {
				t.Errorf("%+v", receipt)
			}
			b.finish(receipt.Lease, false)
		},
		"accept": func(t *testing.T, b *bundle, lose func()) {
			l := b.take(b.entry("1"))
			e := b.entry("2")
			e.Duplicates = []inbox.Duplicate{{ID: "a"}, {ID: "b"}}
			lose()
			if receipt := b.accept(e); receipt.Duplicate || receipt.Lease != nil {
				t.Errorf("%+v", receipt)
			}
			b.finish(l, true)
			b.finish(l, false)
		},
		"claim": func(_ *testing.T, b *bundle, lose func()) {
			b.accept(b.queued("1"))
			lose()
			b.finish(b.claim(b.in), false)
		},
		"save": lostSave,
		"release": func(t *testing.T, b *bundle, lose func()) {
			l := b.take(b.entry("1"))
			lose()
			if err := l.Release(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			l = b.claim(b.in)
			b.wantRecord(l, "1", 0)
			b.finish(l, false)
		},
		"finish": func(t *testing.T, b *bundle, lose func()) {
			l := b.take(b.entry("1"))
			lose()
			if more, err := l.Finish(t.Context(), []byte("answer")); more || err != nil {
				t.Error(more, err)
			}
			if answer, err := b.in.Answer(t.Context(), b.q, l.ID()); string(answer) != "answer" || err != nil {
				t.Errorf("%q, %v", answer, err)
			}
		},
		"finish, and there is more": func(_ *testing.T, b *bundle, lose func()) {
			l := b.take(b.entry("1"))
			b.accept(b.entry("2"))
			b.accept(b.entry("3"))
			lose()
			b.finish(l, true)
			b.wantRecord(l, "2", 0)
			b.finish(l, true)
			b.wantRecord(l, "3", 0)
			b.finish(l, false)
		},
		"join": func(t *testing.T, b *bundle, lose func()) {
			l := b.take(b.entry("1"))
			second, third := b.entry("2"), b.entry("3")
			b.accept(second)
			b.accept(third)
			lose()
			if joined, err := l.Join(t.Context(), []byte("1 and 2"), []string{second.ID}); !joined || err != nil {
				t.Fatal(joined, err)
			}
			b.wantRecord(l, "1 and 2", 0)
			b.finish(l, true)
			b.wantRecord(l, "3", 0)
			b.finish(l, false)
		},
		"wait, replace, wake and drop": lostWake,
	} {
		for kind, arrives := range map[string]bool{"answer": true, "question": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := newBundle(t, serve(t))
					inbox.LoadScripts(t, b.store)
					w := &wire{}
					hook(b.store, w)
					test(t, b, func() { w.loseNext(arrives) })
					if w.lose != nil {
						t.Error("no answer got lost")
					}
					if stats := b.in.Stats(); stats.Lost > 0 || stats.Takeovers > 0 || stats.Held > 0 {
						t.Errorf("%+v", stats)
					}
				})
			})
		}
	}
}

func lostSave(t *testing.T, b *bundle, lose func()) {
	e := b.entry("1")
	e.Load = []state.Key{b.q, b.person()}
	receipt := b.accept(e)
	for n := range 2 {
		for _, s := range receipt.Scopes {
			*number(s)++
		}
		lose()
		if err := receipt.Lease.Save(t.Context(), []byte(fmt.Sprint(n)), true, receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
	}
	*number(receipt.Scopes[0])++
	lose()
	if more, err := receipt.Lease.Finish(t.Context(), nil, receipt.Scopes...); more || err != nil {
		t.Fatal(more, err)
	}
	b.want(b.q, 3)
	b.want(b.person(), 2)
}

func lostWake(t *testing.T, b *bundle, lose func()) {
	l := b.take(b.entry("1"))
	id := l.ID()
	b.accept(b.entry("2"))
	lose()
	if more, err := l.Wait(t.Context(), nil, inbox.Wait{}, nil); !more || err != nil {
		t.Fatal(more, err)
	}
	b.wantRecord(l, "2", 0)
	w := b.find(id)
	lose()
	if err := b.in.Wake(t.Context(), w, []byte("woken")); err != nil {
		t.Fatal(err)
	}
	b.finish(l, true)
	b.wantRecord(l, "woken", 0)
	b.finish(l, false)
	e := b.waiting("x", inbox.Wait{})
	lose()
	b.accept(e)
	lose()
	for _, want := range []bool{true, false} {
		if was, err := b.in.Drop(t.Context(), b.q, e.ID); was != want || err != nil {
			t.Fatal(was, err)
		}
	}
}

// The answer to a finish gets lost, and before it is asked again another replica
// takes the queue for the next message: that is no lost queue.
func TestFinishedAndTakenByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		inbox.LoadScripts(t, b.store)
		other := b.inbox(inbox.Config{})
		l := b.take(b.entry("1"))
		var next *inbox.Lease
		w := &wire{}
		w.lose = func(run func() error) error {
			w.lose = nil
			if err := run(); err != nil {
				return err
			}
			receipt, err := other.Accept(context.Background(), b.entry("2"))
			if err != nil {
				return err
			}
			next = receipt.Lease
			return io.ErrUnexpectedEOF
		}
		hook(b.store, w)
		b.finish(l, false)
		b.wantRecord(next, "2", 0)
		b.finish(next, false)
		if n := b.in.Stats().Lost; n > 0 {
			t.Errorf("%d lost", n)
		}
	})
}

// A process dies between the two steps of a save. Whoever takes the queue then has what
// the second one would have written, or what is left of it.
func TestRecover(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(t *testing.T, b *bundle)
		recovered bool
		own, user int
	}{
		"at once":                                {func(*testing.T, *bundle) {}, true, 2, 2},
		"somebody changes the person's document": {func(_ *testing.T, b *bundle) { b.put(b.person(), 9) }, true, 2, 9},
		"somebody changes the conversation's":    {func(_ *testing.T, b *bundle) { b.put(b.q, 9) }, true, 9, 2},
		"the record went on": {func(t *testing.T, b *bundle) {
			if err := b.client().HSet(t.Context(), inbox.At(b.q, "records"), "id", "another").Err(); err != nil {
				t.Fatal(err)
			}
		}, false, 0, 2},
		"the note is gone": {func(t *testing.T, b *bundle) {
			for _, key := range b.client().Keys(t.Context(), "*/notes/*").Val() {
				b.client().Del(t.Context(), key)
			}
		}, false, 0, 2},
	} {
		for _, kind := range []string{"redis", "redis+cluster"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					testRecover(t, newBundle(t, serveAs(t, kind)), tt.meanwhile, tt.recovered, tt.own, tt.user)
				})
			})
		}
	}
}

func testRecover(t *testing.T, b *bundle, meanwhile func(t *testing.T, b *bundle), recovered bool, own, user int) {
	net := &split{}
	dying := b.open(state.Config{})
	hook(dying, net)
	in := openInbox(t, dying, inbox.Config{Lease: shortLease, Patience: time.Second})
	e := b.entry("1")
	e.ID = "id"
	e.Load = []state.Key{b.q, b.conversation("a;messageid=1"), b.person()}
	receipt, err := in.Accept(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range receipt.Scopes {
		*number(s) = 2
	}
	net.cut(partOf(b.q))
	if err := receipt.Lease.Save(t.Context(), []byte("1, planned"), true, receipt.Scopes...); !errors.Is(err, state.ErrUnavailable) {
		t.Fatalf("save: %v", err)
	}
	in.Close()
	b.want(b.person(), 2)
	b.want(b.q, 0)
	meanwhile(t, b)

	var l *inbox.Lease
	until(t, "the end of the lease", func() bool { l = b.claim(b.in); return l != nil })
	if l.Tries() != 1 {
		t.Errorf("%d tries", l.Tries())
	}
	if got, err := l.Recover(t.Context(), b.person()); got != recovered || err != nil {
		t.Fatalf("recovered %v, %v", got, err)
	}
	if recovered {
		b.wantRecord(l, "1, planned", 0)
	}
	b.want(b.q, own)
	b.want(b.person(), user)
	if recovered {
		b.want(b.conversation("a;messageid=1"), 2)
		if again, err := l.Recover(t.Context(), b.person()); again || err != nil {
			t.Errorf("recovered twice: %v, %v", again, err)
		}
		b.wantRecord(b.reclaim(l), "1, planned", 0)
		l = b.claim(b.in)
	}
	if l == nil { // reclaim took it
		return
	}
	b.finish(l, false)
	if left := b.client().Keys(t.Context(), "*/notes/*").Val(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A save whose second step loses a race in a living process goes on from there.
func TestSecondStepLosesARace(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		e := b.entry("1")
		e.Load = []state.Key{b.q, b.person()}
		receipt := b.accept(e)
		l, scopes := receipt.Lease, receipt.Scopes
		*state.At[state.Counter](scopes[0], "count") += 2
		*state.At[state.Counter](scopes[1], "count") += 2
		other := b.load(b.q)[0]
		*state.At[state.Counter](other, "count")++
		if err := b.store.Save(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		save := func() error { return l.Save(t.Context(), []byte("1, planned"), true, scopes...) }
		wantConflict(t, save(), []state.Key{b.q}, []state.Key{b.person()})
		if err := scopes[0].Rebase(b.load(b.q)[0]); err != nil {
			t.Fatal(err)
		}
		if err := save(); err != nil {
			t.Fatal(err)
		}
		for i, s := range b.load(b.q, b.person()) {
			if n := *state.At[state.Counter](s, "count"); n != state.Counter(3-i) {
				t.Errorf("%s counts %d", s.Key(), n)
			}
		}
		b.wantRecord(l, "1, planned", 0)
		if again, err := l.Recover(t.Context(), b.person()); again || err != nil {
			t.Errorf("the note is not stale: %v, %v", again, err)
		}
		b.finish(l, false)
	})
}

// split is a network of which a part of the keys is cut off.
type split struct {
	behind atomic.Pointer[string] // part of their names
}

func (s *split) cut(part string) { s.behind.Store(&part) }

func (s *split) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *split) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.run([]redis.Cmder{cmd}, func([]redis.Cmder) error { return next(ctx, cmd) })
	}
}

func (s *split) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return s.run(cmds, func(some []redis.Cmder) error { return next(ctx, some) })
	}
}

func (s *split) run(cmds []redis.Cmder, next func([]redis.Cmder) error) error {
	var here, there []redis.Cmder
	for _, cmd := range cmds {
		// Only by its first key: a note of a save names others.
		if at := s.behind.Load(); at != nil && len(cmd.Args()) > 3 && strings.Contains(fmt.Sprint(cmd.Args()[3]), *at) {
			there = append(there, cmd)
		} else {
			here = append(here, cmd)
		}
	}
	var err error
	if len(here) > 0 {
		err = next(here)
	}
	for _, cmd := range there {
		err = io.ErrUnexpectedEOF
		cmd.SetErr(err)
	}
	return err
}

// A process that has no way to the conversation's partition writes nothing there, and may
// save again.
func TestSaveWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		net := &split{}
		hook(b.store, net)
		b.in = b.inbox(inbox.Config{Patience: 2 * time.Second}) // on a busy machine, too
		e := b.entry("hello")
		e.Load = []state.Key{b.q, b.person()}
		receipt := b.accept(e)
		for _, part := range []string{partOf(b.person()), partOf(b.q)} {
			for _, s := range receipt.Scopes {
				*number(s)++
			}
			net.cut(part)
			save := func() error { return receipt.Lease.Save(t.Context(), []byte("at "+part), true, receipt.Scopes...) }
			if err := save(); !errors.Is(err, state.ErrUnavailable) {
				t.Fatalf("save: %v", err)
			}
			net.cut("nothing")
			if err := save(); err != nil {
				t.Fatal(err)
			}
			b.wantRecord(receipt.Lease, "at "+part, 0)
		}
		b.want(b.q, 2)
		b.want(b.person(), 2)
		b.finish(receipt.Lease, false)
	})
}

// answers breaks everything with an answer of the server.
type answers struct{ text string }

func (a answers) Error() string { return a.text }
func (a answers) RedisError()   {}

// Calls wait for a Redis that comes back, whatever it says meanwhile.
func TestCallsWait(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"MOVED 1 127.0.0.1:7001", "CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing",
		"MASTERDOWN Link with MASTER is down",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBundle(t, serve(t))
			in, down := b.replica(inbox.Config{})
			b.in = in
			if text != "" {
				down.err = answers{text}
			}
			down.lasts.Store(true)
			time.AfterFunc(7*time.Second, func() { down.lasts.Store(false) })
			start := time.Now()
			l := b.take(b.entry("hello"))
			if took := time.Since(start); took < 7*time.Second || took > 8*time.Second {
				t.Errorf("%q: accepted after %v", text, took)
			}
			b.finish(l, false)
			down.lasts.Store(true)
			start = time.Now()
			_, err := in.Accept(t.Context(), b.entry("hello"))
			if took := time.Since(start); !errors.Is(err, state.ErrUnavailable) || took > 8500*time.Millisecond || took < 7*time.Second {
				t.Errorf("%q: after %v: %v", text, took, err)
			}
			if tries := down.tries.Load(); tries > 100 {
				t.Errorf("%q: %d tries", text, tries)
			}
		})
	}
}

// A script that cannot run is not tried again.
func TestCallsDoNotWaitForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		in, down := b.replica(inbox.Config{})
		b.in = in
		down.err = answers{"ERR Error running script"}
		l := b.take(b.entry("hello"))
		w := inbox.Waiting{Queue: b.q, ID: "id", Record: []byte("x")}
		in.Close() // no renewals
		down.lasts.Store(true)
		ctx := t.Context()
		_, acceptErr := in.Accept(ctx, b.entry("hello"))
		_, claimErr := in.Claim(ctx, b.q)
		_, finishErr := l.Finish(ctx, nil)
		_, waitingErr := in.Waiting(ctx, b.q)
		_, deadErr := in.Dead(ctx)
		_, findErr := in.Find(ctx, b.q, "id")
		_, dropErr := in.Drop(ctx, b.q, "id")
		_, depthErr := in.Depth(ctx)
		_, queuedErr := in.Queued(ctx, b.q)
		_, recordsErr := in.Records(ctx, b.q)
		_, recoverErr := l.Recover(ctx, b.person())
		errs := map[string]error{
			"accept": acceptErr, "claim": claimErr, "save": l.Save(ctx, []byte("x"), true), "finish": finishErr,
			"waiting": waitingErr, "dead": deadErr, "find": findErr, "drop": dropErr, "depth": depthErr, "queued": queuedErr, "records": recordsErr,
			"wake": in.Wake(ctx, w, nil), "recover": recoverErr,
			"release": l.Release(ctx, 0), "forget": in.Forget(ctx, b.q, "x", "id"),
		}
		for what, err := range errs {
			if err == nil || errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), "ERR Error running script") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := down.tries.Load(); n != int64(len(errs)) {
			t.Errorf("%d tries of %d calls", n, len(errs))
		}
	})
}

// A caller's ctx and Close end the wait.
func TestCallsStopWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		in, down := b.replica(inbox.Config{})
		down.lasts.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := in.Accept(ctx, b.entry("hello"))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, state.ErrUnavailable) || took != time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		time.AfterFunc(time.Second, in.Close)
		start = time.Now()
		_, err = in.Accept(t.Context(), b.entry("hello"))
		if took := time.Since(start); !errors.Is(err, state.ErrUnavailable) || took != time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// What is lost of a Redis that was emptied is lost; the inbox goes on.
func TestAfterFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		claimed, _ := b.claimsOf(b.in)
		e := b.queued("1")
		for range 3 {
			b.accept(e)
			b.finish(<-claimed, false)
			if err := b.client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		l := b.take(b.entry("2"))
		if err := b.client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := l.Save(t.Context(), []byte("planned"), true); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("save: %v", err)
		}
		b.finish(b.take(b.entry("3")), false)
	})
}

// A server goes away and comes back with what it had: calls under way get
// through, queues are read again, and it is said once that they were not.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	b := newBundle(t, func(cfg state.Config) *state.Store { return openURL(t, "redis://"+server.Addr(), cfg) })
	var log safeLog
	b.in = b.inbox(inbox.Config{Log: zerolog.New(&log)})
	claimed, _ := b.claimsOf(b.in)
	first := b.take(b.entry("1"))
	w := &wire{}
	hook(b.store, w)
	server.Close()
	until(t, "a line in the log", func() bool { return strings.Contains(log.String(), "cannot be read now") })
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := first.Save(t.Context(), []byte("planned"), true); err != nil {
			t.Errorf("save: %v", err)
		}
		if more, err := first.Finish(t.Context(), nil); more || err != nil {
			t.Errorf("finish: %v, %v", more, err)
		}
	})
	other := b.queued("2")
	other.Queue = b.conversation("other")
	wg.Go(func() {
		if _, err := b.in.Accept(t.Context(), other); err != nil {
			t.Errorf("accept: %v", err)
		}
	})
	until(t, "tries of both", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Count(strings.Join(w.sent, " "), "evalsha") > 5
	})
	server.Ctx, server.CtxCancel = context.WithCancel(context.Background()) // Close ended it, and with it all that blocks
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	l := <-claimed
	b.wantRecord(l, "2", 0)
	wg.Wait()
	b.finish(l, false)
	until(t, "a line in the log", func() bool { return strings.Contains(log.String(), "read again") })
	if n := strings.Count(log.String(), "cannot be read now"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// safeLog is a log that may be read while it is written.
type safeLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Redis takes an entry in and all its answers get lost, so that the channel hears
// 503: the entry is kept all the same, is done soon, and the channel's next try is known.
func TestAcceptedUnheard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		inbox.LoadScripts(t, b.store)
		deaf := b.open(state.Config{})
		hook(deaf, &wire{lose: func(run func() error) error { return cmp.Or(run(), io.ErrUnexpectedEOF) }})
		first := openInbox(t, deaf, inbox.Config{})
		e := b.entry("hello")
		e.Duplicates = []inbox.Duplicate{{ID: "activity"}}
		if receipt, err := first.Accept(t.Context(), e); !errors.Is(err, state.ErrUnavailable) || receipt.Lease != nil {
			t.Fatalf("%+v, %v", receipt, err)
		}
		again := b.entry("hello")
		again.Duplicates = e.Duplicates
		if receipt := b.accept(again); !receipt.Duplicate || receipt.ID != e.ID {
			t.Errorf("the second delivery: %+v", receipt)
		}
		start := time.Now()
		claimed, _ := b.claimsOf(b.in)
		l := <-claimed
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("taken up after %v", took)
		}
		b.wantRecord(l, "hello", 0)
		if more, err := l.Finish(t.Context(), []byte("answer")); more || err != nil {
			t.Fatal(more, err)
		}
		if receipt := b.accept(again); !receipt.Duplicate || receipt.ID != l.ID() {
			t.Errorf("the third delivery: %+v", receipt)
		}
	})
}

// hang is a cluster of which one node takes what it is sent and answers nothing:
// a trip that goes there ends with its ctx, and then no command of it has a reply.
type hang struct{ at atomic.Pointer[string] } // part of the names of its keys

func (h *hang) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hang) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.wait(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (h *hang) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := h.wait(ctx, cmds...); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

func (h *hang) wait(ctx context.Context, cmds ...redis.Cmder) error {
	at := h.at.Load()
	if at == nil || !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return names(cmd, *at) }) {
		return nil
	}
	<-ctx.Done()
	for _, cmd := range cmds {
		cmd.SetErr(ctx.Err())
	}
	return ctx.Err()
}

// One node of a cluster hangs: the leases of the queues elsewhere go on.
func TestRenewalBesideANodeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serveAs(t, "redis+cluster"))
		node := &hang{}
		hook(b.store, node)
		b.in = b.inbox(inbox.Config{Lease: 2 * time.Second, Patience: time.Second})
		e := b.entry("elsewhere")
		e.Queue = b.person()
		here, there := b.take(b.entry("here")), b.take(e)
		part := partOf(b.person())
		node.at.Store(&part)
		for there.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if err := here.Err(); err != nil {
			t.Errorf("the queue of a node that is well: %v", err)
		}
		node.at.Store(nil)
		b.finish(here, false)
	})
}

// One node of a cluster hangs: queues elsewhere are taken over all the same.
func TestTakeoverBesideANodeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serveAs(t, "redis+cluster"))
		b.in = b.inbox(inbox.Config{Lease: 300 * time.Millisecond})
		store, node, part := b.open(state.Config{Timeout: 100 * time.Millisecond}), &hang{}, partOf(b.person())
		hook(store, node)
		node.at.Store(&part)
		b.take(b.entry("hello"))
		b.in.Close()
		claimed, _ := b.claimsOf(openInbox(t, store, inbox.Config{Lease: 300 * time.Millisecond}))
		select {
		case l := <-claimed:
			b.finish(l, false)
		case <-time.After(time.Minute):
			t.Error("not taken over")
		}
	})
}

// crowd accepts n entries at once, each in a queue of its own, and returns the leases of
// those that were taken.
func (b *bundle) crowd(in *inbox.Inbox, n int) []*inbox.Lease {
	b.t.Helper()
	var mu sync.Mutex
	var leases []*inbox.Lease
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			e := b.entry("x")
			e.Queue = b.conversation(rand.Text())
			receipt, err := in.Accept(b.t.Context(), e)
			if err != nil && !errors.Is(err, inbox.ErrFull) {
				b.t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				leases = append(leases, receipt.Lease)
			}
		})
	}
	all.Wait()
	return leases
}

// MaxWaiting is exact for one inbox, whatever comes at once and however often it is
// counted meanwhile.
func TestMaxWaitingIsExactForOneInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		in := b.inbox(inbox.Config{MaxWaiting: 12, Lease: 240 * time.Millisecond, Patience: time.Minute})
		b.run(in, func(state.Key) {})
		leases := b.crowd(in, 80)
		if len(leases) != 12 {
			t.Fatalf("%d of 80 were taken", len(leases))
		}
		for range 60 {
			if got := in.Stats().Waiting; got != 12 {
				t.Errorf("%d wait", got)
			}
			var ending sync.WaitGroup
			for _, l := range leases[:5] {
				ending.Go(func() { b.finish(l, false) })
			}
			ending.Wait()
			more := b.crowd(in, 20)
			if len(more) != 5 {
				t.Fatalf("%d were taken into the room for 5", len(more))
			}
			leases = append(leases[5:], more...)
		}
	})
}

func TestWhatOthersDoIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		in, other := b.inbox(inbox.Config{MaxWaiting: 3}), b.inbox(inbox.Config{})
		b.run(in, func(state.Key) {})
		mine, theirs := b.crowd(in, 1), b.crowd(other, 2)
		until(t, "the count", func() bool { return in.Stats().Waiting == 3 })
		if more := b.crowd(in, 5); len(more) > 0 {
			t.Errorf("%d more were taken", len(more))
		}
		for _, l := range append(theirs, mine...) {
			b.finish(l, false)
		}
		until(t, "the count", func() bool { return in.Stats().Waiting == 0 })
		if more := b.crowd(in, 5); len(more) != 3 {
			t.Errorf("%d were taken", len(more))
		}
	})
}

// A process dies between the steps of a save in three partitions, wherever it is.
func TestRecoverOfThreePartitions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cut            func(b *bundle) state.Key // to whose partition the process has no way
		meanwhile      func(b *bundle)
		record         string
		bot, user, own int
	}{
		"before the first":             {func(*bundle) state.Key { return state.BotKey() }, nil, "1", 0, 0, 0},
		"before the second":            {(*bundle).person, nil, "2", 2, 2, 2},
		"before the last":              {func(b *bundle) state.Key { return b.q }, nil, "2", 2, 2, 2},
		"somebody changes the second":  {(*bundle).person, func(b *bundle) { b.put(b.person(), 9) }, "2", 2, 9, 2},
		"somebody changes what it did": {func(b *bundle) state.Key { return b.q }, func(b *bundle) { b.put(state.BotKey(), 9); b.put(b.person(), 8) }, "2", 9, 8, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, serve(t))
				net, dying := &split{}, b.open(state.Config{})
				hook(dying, net)
				in := openInbox(t, dying, inbox.Config{Lease: shortLease, Patience: 200 * time.Millisecond})
				e := b.entry("1")
				e.Load = []state.Key{state.BotKey(), b.q, b.person()}
				receipt, err := in.Accept(t.Context(), e)
				if err != nil {
					t.Fatal(err)
				}
				save := func(n int, record string) error {
					for _, s := range receipt.Scopes {
						*number(s) = n
					}
					return receipt.Lease.Save(t.Context(), []byte(record), true, receipt.Scopes...)
				}
				if err := save(-1, "1"); err != nil { // its notes do no harm, though the record is the same
					t.Fatal(err)
				}
				for _, s := range receipt.Scopes {
					b.put(s.Key(), 0)
				}
				receipt.Scopes = b.load(e.Load...)
				net.cut(partOf(tt.cut(b)))
				if err := save(2, "2"); !errors.Is(err, state.ErrUnavailable) {
					t.Fatalf("save: %v", err)
				}
				in.Close()
				if tt.meanwhile != nil {
					tt.meanwhile(b)
				}
				var l *inbox.Lease
				until(t, "the end of the lease", func() bool { l = b.claim(b.in); return l != nil })
				if recovered, err := l.Recover(t.Context(), b.person(), state.BotKey()); !recovered || err != nil {
					t.Fatalf("recovered %v, %v", recovered, err)
				}
				b.wantRecord(l, tt.record, 0)
				b.want(state.BotKey(), tt.bot)
				b.want(b.person(), tt.user)
				b.want(b.q, tt.own)
				b.finish(l, false)
				if left := b.client().Keys(t.Context(), "*/notes/*").Val(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

// A save in three partitions finds all conflicts before it writes anything, if they are there already.
func TestThreePartitionsAreCompared(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		shared := state.BotKey().Under("tests", rand.Text())
		e := b.entry("1")
		e.Load = []state.Key{shared, b.person(), b.q}
		receipt := b.accept(e)
		save := func() error { return receipt.Lease.Save(t.Context(), []byte("2"), true, receipt.Scopes...) }
		for _, lost := range [][]state.Key{{b.q}, {b.person(), b.q}, {shared}} {
			for _, s := range receipt.Scopes {
				*state.At[state.Counter](s, "count")++
			}
			for _, key := range lost {
				other := b.load(key)[0]
				*state.At[state.Counter](other, "count") += 10
				if err := b.store.Save(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			wantConflict(t, save(), lost, nil)
			for i, s := range b.load(e.Load...) {
				if err := receipt.Scopes[i].Rebase(s); err != nil {
					t.Fatal(err)
				}
			}
			if err := save(); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range b.load(e.Load...) {
			if n := *state.At[state.Counter](s, "count"); n != []state.Counter{13, 13, 23}[i] {
				t.Errorf("%s counts %d", s.Key(), n)
			}
		}
		b.finish(receipt.Lease, false)
	})
}

// TestLostAnswerOfANote: the person's state was saved, nobody heard of it, and somebody else has saved it since.
// That is no conflict: a turn that ran again would do twice what it did.
func TestLostAnswerOfANote(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		inbox.LoadScripts(t, b.store)
		net := &wire{}
		store := b.open(state.Config{})
		hook(store, net)
		in := openInbox(t, store, inbox.Config{})
		e := b.entry("1")
		e.Load = []state.Key{b.q, b.person()}
		receipt, err := in.Accept(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range receipt.Scopes {
			*number(s) = 1
		}
		net.mu.Lock()
		net.lose = func(run func() error) error {
			net.mu.Lock()
			net.lose = nil
			net.mu.Unlock()
			if err := run(); err != nil {
				return err
			}
			b.want(b.person(), 1)
			b.put(b.person(), 5)
			return io.ErrUnexpectedEOF
		}
		net.mu.Unlock()
		if err := receipt.Lease.Save(t.Context(), []byte("1, planned"), true, receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
		b.want(b.q, 1)
		b.want(b.person(), 5)
		if _, err := receipt.Lease.Finish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDeadUnder lists the dead letters of the queues under one, and no others.
func TestDeadUnder(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		for _, one := range []struct {
			queue state.Key
			dead  bool
		}{{b.q, true}, {b.q.Under("queues", "decisions"), true}, {b.q.Under("queues", "signin 1"), false}, {b.conversation("other").Under("queues", "decisions"), true}} {
			e := b.waiting(one.queue.String(), inbox.Wait{Operator: one.dead})
			e.Queue = one.queue
			b.accept(e)
		}
		all, err := b.in.DeadUnder(t.Context(), b.q)
		if err != nil || len(all) != 1 || all[0].Queue != b.q.Under("queues", "decisions") {
			t.Errorf("%+v, %v", all, err)
		}
		if none, err := b.in.DeadUnder(t.Context(), b.conversation("quiet")); err != nil || len(none) != 0 {
			t.Errorf("%+v, %v", none, err)
		}
	})
}
