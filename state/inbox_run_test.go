package state_test

import (
	"cmp"
	"context"
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

// replica is a process with a client of its own.
func replica(t *testing.T, r *state.Redis, cfg state.InboxConfig) (*state.Inbox, *outage) {
	t.Helper()
	twin, down := r.Twin(t), &outage{}
	twin.AddHook(down)
	return openInbox(t, twin, cfg), down
}

// A replica that is gone is followed within ten seconds, one that is there never.
func TestTakeoverInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		first, _ := replica(t, r, state.InboxConfig{})
		second, _ := replica(t, r, state.InboxConfig{})
		claimed, leave := claimsUntil(t, second)
		h := accept(t, first, entry("hello")).Hold
		select {
		case <-claimed:
			t.Fatal("taken over although its holder is well")
		case <-time.After(time.Minute):
		}
		if err := h.Err(); err != nil {
			t.Fatal(err)
		}
		first.Close()
		died := time.Now()
		next := <-claimed
		if took := time.Since(died); took > 10*time.Second {
			t.Errorf("taken over after %v", took)
		}
		if next.Item().Tries != 1 || second.Stats().Takeovers != 1 || second.Stats().Held != 1 {
			t.Errorf("%+v and %+v", next.Item(), second.Stats())
		}
		if err := h.Err(); !errors.Is(err, state.ErrLost) {
			t.Errorf("the hold of the one that is gone: %v", err)
		}
		// A lane that is taken over a second time has two tries, the next item none.
		accept(t, second, entry("bye"))
		leave()
		second.Close()
		third, _ := replica(t, r, state.InboxConfig{})
		claimed = claims(t, third)
		h = <-claimed
		if h == nil || h.Item().Tries != 2 {
			t.Fatalf("%+v", h)
		}
		// A lane that was given up is not taken over.
		if err := h.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if h = <-claimed; h.Item().Tries != 2 || third.Stats().Takeovers != 1 {
			t.Errorf("%+v and %+v", h.Item(), third.Stats())
		}
		finish(t, h, true)
		if h.Item().Tries != 0 {
			t.Errorf("%+v", h.Item())
		}
		finish(t, h, false)
	})
}

// A replica that was cut off learns that it lost its lane, and another that its
// lease ran out before anybody else may have taken it.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		first, down := replica(t, r, state.InboxConfig{})
		second, _ := replica(t, r, state.InboxConfig{})
		h := accept(t, first, entry("hello")).Hold
		lost := make(chan struct{})
		h.OnLost(func() { close(lost) })
		down.lasts.Store(true)
		claimed := claims(t, second)
		next := <-claimed
		if err := h.Err(); !errors.Is(err, state.ErrLost) {
			t.Errorf("the lane is another's and the hold says %v", err)
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
		if err := h.Save(t.Context(), []byte("journal")); !errors.Is(err, state.ErrLost) {
			t.Errorf("save: %v", err)
		}
		finish(t, next, false)
	})
}

// After Redis was away for longer than a lease, holders get a moment to renew.
func TestRedisWasAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		first, down := replica(t, r, state.InboxConfig{})
		downs := []*outage{down}
		for range 4 {
			other, down := replica(t, r, state.InboxConfig{})
			downs = append(downs, down)
			runInbox(t, other, func(lane state.Lane) {
				if h, err := other.Claim(context.Background(), lane); h != nil || err != nil {
					t.Errorf("%s was taken: %v", lane, err)
				}
			})
		}
		h := accept(t, first, entry("hello")).Hold
		time.Sleep(50 * time.Millisecond)
		for _, down := range downs {
			down.lasts.Store(true)
		}
		time.Sleep(20 * time.Second)
		if err := h.Err(); !errors.Is(err, state.ErrLost) {
			t.Errorf("not renewed for so long, and the hold says %v", err)
		}
		for _, down := range downs {
			down.lasts.Store(false)
		}
		time.Sleep(20 * time.Second)
		if err := h.Err(); err != nil {
			t.Errorf("Redis is back, and the hold says %v", err)
		}
		finish(t, h, false)
	})
}

// A delivery and its answer are remembered for a while, each thing that tells it
// from others for its own time.
func TestDuplicatesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := openInbox(t, openEmbedded(t, state.Config{}), state.InboxConfig{})
		e := entry("hello")
		e.Duplicates = []state.Duplicate{{ID: "activity"}, {ID: "click", For: time.Minute}}
		h := accept(t, in, e).Hold
		if more, err := h.Finish(t.Context(), []byte("answer")); more || err != nil {
			t.Fatal(more, err)
		}
		again := func(id string) bool {
			t.Helper()
			e := entry("hello")
			e.Duplicates = []state.Duplicate{{ID: id, For: time.Second}}
			receipt := accept(t, in, e)
			if receipt.Hold != nil {
				finish(t, receipt.Hold, false)
			} else if string(receipt.Answer) != "answer" {
				t.Errorf("answer %q", receipt.Answer)
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
		if answer, err := in.Answer(t.Context(), lane, e.Turn); answer != nil || err != nil {
			t.Errorf("its answer is kept for ever: %q, %v", answer, err)
		}
	})
}

// Calls wait for a Redis that comes back, whatever it says meanwhile.
func TestInboxWaits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"MOVED 1 127.0.0.1:7001", "CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing",
		"MASTERDOWN Link with MASTER is down",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := openEmbedded(t, state.Config{})
			in, down := replica(t, r, state.InboxConfig{})
			if text != "" {
				down.err = answers{text}
			}
			down.lasts.Store(true)
			time.AfterFunc(7*time.Second, func() { down.lasts.Store(false) })
			start := time.Now()
			h := accept(t, in, entry("hello")).Hold
			if took := time.Since(start); took < 7*time.Second || took > 8*time.Second {
				t.Errorf("%q: accepted after %v", text, took)
			}
			finish(t, h, false)
			down.lasts.Store(true)
			start = time.Now()
			_, err := in.Accept(t.Context(), entry("hello"))
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
func TestInboxDoesNotWaitForNothing(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in, down := replica(t, r, state.InboxConfig{})
	down.err = answers{"ERR Error running script"}
	h := accept(t, in, entry("hello")).Hold
	down.lasts.Store(true)
	_, acceptErr := in.Accept(t.Context(), entry("hello"))
	_, claimErr := in.Claim(t.Context(), lane)
	_, finishErr := h.Finish(t.Context(), nil)
	_, timersErr := in.Timers(t.Context(), lane)
	_, parkedErr := in.Parked(t.Context())
	for what, err := range map[string]error{
		"accept": acceptErr, "claim": claimErr, "save": h.Save(t.Context(), []byte("x")), "finish": finishErr,
		"release": h.Release(t.Context(), 0), "timers": timersErr, "parked": parkedErr,
		"schedule": in.Schedule(t.Context(), state.Timer{Lane: lane, ID: "x"}),
	} {
		if err == nil || errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), "ERR Error running script") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := down.tries.Load(); n != 8 {
		t.Errorf("%d tries of 8 calls", n)
	}
}

// A caller's ctx and Close end the wait.
func TestInboxStopsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		in, down := replica(t, r, state.InboxConfig{})
		down.lasts.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := in.Accept(ctx, entry("hello"))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, state.ErrUnavailable) || took != time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		time.AfterFunc(time.Second, in.Close)
		start = time.Now()
		_, err = in.Accept(t.Context(), entry("hello"))
		if took := time.Since(start); !errors.Is(err, state.ErrUnavailable) || took != time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// While ready has no room, others read; and what it had read comes back.
func TestReadyWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		full, _ := replica(t, r, state.InboxConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		runInbox(t, full, func(state.Lane) { <-ctx.Done() })
		const lanes = 600
		for i := range lanes {
			e := entry("hello")
			e.Lane, e.Take = state.ConversationKey("test", "bot", fmt.Sprint(i)).Lane(""), false
			accept(t, full, e)
		}
		synctest.Wait()
		free, _ := replica(t, r, state.InboxConfig{})
		start := time.Now()
		claimed := claims(t, free)
		for range lanes {
			finish(t, <-claimed, false)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("claimed after %v", took)
		}
		cancel()
	})
}

// What is lost of a Redis that was emptied is lost; the inbox goes on.
func TestInboxAfterFlush(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in := openInbox(t, r, state.InboxConfig{})
	claimed := claims(t, in)
	e := entry("1")
	e.Take = false
	for range 3 {
		accept(t, in, e)
		finish(t, <-claimed, false)
		if err := r.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	h := accept(t, in, entry("2")).Hold
	if err := r.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := h.Save(t.Context(), []byte("journal")); !errors.Is(err, state.ErrLost) {
		t.Errorf("save: %v", err)
	}
	finish(t, accept(t, in, entry("3")).Hold, false)
}

// What is done with leaves nothing behind but that it was delivered, and its answer.
func TestIdleLanesCostNothing(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in := openInbox(t, r, state.InboxConfig{})
	h := accept(t, in, entry("1")).Hold
	accept(t, in, entry("2"))
	for _, more := range []bool{true, false} {
		if err := h.Save(t.Context(), []byte("journal")); err != nil {
			t.Fatal(err)
		}
		finish(t, h, more)
	}
	if err := in.Schedule(t.Context(), state.Timer{Lane: lane, ID: "t"}); err != nil {
		t.Fatal(err)
	}
	if was, err := in.Cancel(t.Context(), lane, "t"); !was || err != nil {
		t.Fatal(was, err)
	}
	due := state.Timer{Lane: lane, ID: "due", At: time.Now()}
	if err := in.Schedule(t.Context(), due); err != nil {
		t.Fatal(err)
	}
	in.Fire(t, due, due)
	finish(t, claim(t, in), false)
	for _, key := range r.Client().Keys(t.Context(), "*").Val() {
		ttl := r.Client().TTL(t.Context(), key).Val()
		name := key[strings.LastIndexByte(key, '/')+1:]
		if ttl <= 0 && name != "fence" && name != "depth" && name != "ready" {
			t.Errorf("%s is left", key)
		}
	}
	if depth := r.Client().Get(t.Context(), "planbot/{62}/depth").Val(); depth != "0" {
		t.Errorf("depth %q", depth)
	}
}

// A timer that was found due, and was put off before it was fired, stays; one that
// another replica fired is not fired again.
func TestTimersFireOnce(t *testing.T) {
	t.Parallel()
	in := openInbox(t, openEmbedded(t, state.Config{}), state.InboxConfig{})
	later := state.Timer{Lane: lane, ID: "later", At: time.Now().Add(time.Hour)}
	due := state.Timer{Lane: lane, ID: "due", At: time.Now()}
	for _, timer := range []state.Timer{later, due} {
		if err := in.Schedule(t.Context(), timer); err != nil {
			t.Fatal(err)
		}
	}
	in.Fire(t, later, due, due)
	in.Fire(t, due)
	h := claim(t, in)
	if h == nil || h.Item().Turn != "due" {
		t.Fatalf("%+v", h)
	}
	finish(t, h, false)
	if timers, err := in.Timers(t.Context(), lane); len(timers) != 1 || timers[0].ID != "later" || err != nil {
		t.Errorf("%+v, %v", timers, err)
	}
}

// Foreign entries are left behind.
func TestForeignReadyLanes(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in := openInbox(t, r, state.InboxConfig{Lease: 200 * time.Millisecond})
	ctx := t.Context()
	for _, value := range []string{"garbage", "planbot/{64}/a/b/conversations/c", "planbot/{x}/a"} {
		r.Client().XAdd(ctx, &redis.XAddArgs{Stream: "planbot/{3}/ready", Values: []string{"lane", value}})
		r.Client().ZAdd(ctx, "planbot/{3}/timers", redis.Z{Score: 1, Member: value + "\nid"})
	}
	r.Client().XAdd(ctx, &redis.XAddArgs{Stream: "planbot/{3}/ready", Values: []string{"other", "x"}})
	claimed := claims(t, in)
	e := entry("hello")
	e.Take = false
	accept(t, in, e)
	finish(t, <-claimed, false)
	timer := state.Timer{Lane: lane, ID: "t", Body: []byte("timer")}
	if err := in.Schedule(ctx, timer); err != nil { // due long ago
		t.Fatal(err)
	}
	h := <-claimed
	wantBody(t, h, "timer")
	finish(t, h, false)
	pollUntil(t, "an empty stream", func() bool { return r.Client().XLen(ctx, "planbot/{3}/ready").Val() == 0 })
}

func pollUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// A server goes away and comes back with what it had: calls under way get
// through, lanes are read again, and it is said once that they were not.
func TestInboxAndRestart(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	r := openURL(t, "redis://"+server.Addr(), state.Config{})
	var log safeLog
	in := openInbox(t, r, state.InboxConfig{Log: zerolog.New(&log)})
	claimed := claims(t, in)
	first := accept(t, in, entry("1")).Hold
	w := &wire{}
	r.AddHook(w)
	server.Close()
	pollUntil(t, "a line in the log", func() bool { return strings.Contains(log.String(), "cannot be read now") })
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := first.Save(t.Context(), []byte("journal")); err != nil {
			t.Errorf("save: %v", err)
		}
		if more, err := first.Finish(t.Context(), nil); more || err != nil {
			t.Errorf("finish: %v, %v", more, err)
		}
	})
	other := entry("2")
	other.Take, other.Lane = false, key.Lane("other")
	wg.Go(func() {
		if _, err := in.Accept(t.Context(), other); err != nil {
			t.Errorf("accept: %v", err)
		}
	})
	pollUntil(t, "tries of both", func() bool {
		sent := w.names()
		return strings.Count(sent, "evalsha") > 5
	})
	server.Ctx, server.CtxCancel = context.WithCancel(context.Background()) // Close ended it, and with it all that blocks
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	h := <-claimed
	wantBody(t, h, "2")
	wg.Wait()
	finish(t, h, false)
	pollUntil(t, "a line in the log", func() bool { return strings.Contains(log.String(), "read again") })
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
// 503: the entry is kept all the same, is done, and the channel's next try is known.
func TestAcceptedUnheard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		state.LoadScripts(t, r)
		deaf, other := r.Twin(t), r.Twin(t)
		w := &wire{lose: func(run func() error) error { return cmp.Or(run(), io.ErrUnexpectedEOF) }}
		deaf.AddHook(w)
		first, second := openInbox(t, deaf, state.InboxConfig{}), openInbox(t, other, state.InboxConfig{})
		e := entry("hello")
		e.Duplicates = []state.Duplicate{{ID: "activity"}}
		if receipt, err := first.Accept(t.Context(), e); !errors.Is(err, state.ErrUnavailable) || receipt.Hold != nil {
			t.Fatalf("%+v, %v", receipt, err)
		}
		again := entry("hello")
		again.Duplicates = e.Duplicates
		if receipt := accept(t, second, again); !receipt.Duplicate || receipt.Turn != e.Turn {
			t.Errorf("the second delivery: %+v", receipt)
		}
		start := time.Now()
		h := <-claims(t, second)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("taken up after %v", took)
		}
		wantBody(t, h, "hello")
		if more, err := h.Finish(t.Context(), []byte("answer")); more || err != nil {
			t.Fatal(more, err)
		}
		if receipt := accept(t, second, again); !receipt.Duplicate || string(receipt.Answer) != "answer" {
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

// One node of a cluster hangs: the leases of the lanes elsewhere go on.
func TestRenewalBesideANodeThatHangs(t *testing.T) {
	t.Parallel()
	r := openURL(t, "redis+cluster://"+miniredis.RunT(t).Addr(), state.Config{})
	node := &hang{}
	r.AddHook(node)
	in := openInbox(t, r, state.InboxConfig{Lease: 2 * time.Second, Patience: time.Second})
	e := entry("elsewhere")
	e.Lane = person.Lane("")
	here, there := accept(t, in, entry("here")).Hold, accept(t, in, e).Hold
	part := partOf(person)
	node.at.Store(&part)
	for there.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Second)
	if err := here.Err(); err != nil {
		t.Errorf("the lane of a node that is well: %v", err)
	}
	node.at.Store(nil)
	finish(t, here, false)
}

// One node of a cluster hangs: lanes elsewhere are taken over all the same.
func TestTakeoverBesideANodeThatHangs(t *testing.T) {
	t.Parallel()
	url := "redis+cluster://" + miniredis.RunT(t).Addr()
	gone := openInbox(t, openURL(t, url, state.Config{}), state.InboxConfig{Lease: 300 * time.Millisecond})
	r, node, part := openURL(t, url, state.Config{Timeout: 100 * time.Millisecond}), &hang{}, partOf(person)
	r.AddHook(node)
	node.at.Store(&part)
	accept(t, gone, entry("hello"))
	gone.Close()
	select {
	case h := <-claims(t, openInbox(t, r, state.InboxConfig{Lease: 300 * time.Millisecond})):
		finish(t, h, false)
	case <-time.After(10 * time.Second):
		t.Error("not taken over")
	}
}
