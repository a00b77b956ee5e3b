package statetest

import (
	"errors"
	"testing"
	"time"

	"github.com/planbot-go/planbot/state"
)

// until waits for something that happens elsewhere.
func (b *inboxBundle) until(what string, is func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			b.t.Fatalf("in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// reclaim lets go of a lane and takes it again, to see what is kept of it.
func (b *inboxBundle) reclaim(h *state.Hold) *state.Hold {
	b.t.Helper()
	if err := h.Release(b.t.Context(), 0); err != nil {
		b.t.Fatalf("release: %v", err)
	}
	again := b.claim(b.in)
	if again == nil {
		b.t.Fatal("a lane that was released cannot be claimed")
	}
	return again
}

func testSaveIsAtomic(t *testing.T, b *inboxBundle) {
	channel, thread := b.conversation("a"), b.conversation("a;messageid=1")
	user := b.otherPartition(channel)
	h := b.take(b.entry("hello"))
	mine := b.load(channel, thread, user)
	b.put(thread, 1)
	for _, s := range mine {
		*state.At[int](s, "n") = 2
	}
	wantConflict(t, h.Save(t.Context(), []byte("journal"), mine...), []state.Key{channel, thread}, nil)
	b.want(channel, 0)
	b.want(thread, 1)
	b.want(user, 0) // it waits for what goes with it
	h = b.reclaim(h)
	b.wantItem(h, "hello", "", 0) // no journal
	if err := h.Save(t.Context(), []byte("journal")); err != nil {
		t.Fatal(err)
	}
	b.wantItem(h, "hello", "journal", 0)
	if err := h.Save(t.Context(), nil, b.one(user)); err != nil { // nothing changed, the journal stays
		t.Fatal(err)
	}
	h = b.reclaim(h)
	b.wantItem(h, "hello", "journal", 0)
	if err := h.Save(t.Context(), []byte{}); err != nil {
		t.Fatal(err)
	}
	h = b.reclaim(h)
	b.wantItem(h, "hello", "", 0)
	b.finish(h, false)
}

func testFinishConflict(t *testing.T, b *inboxBundle) {
	key := b.conversation("a")
	user := b.otherPartition(key)
	h := b.take(b.entry("hello"))
	mine := b.load(key, user)
	b.put(key, 1)
	*state.At[int](mine[0], "n") = 2
	more, err := h.Finish(t.Context(), []byte("answer"), mine...)
	wantConflict(t, err, []state.Key{key}, nil)
	if more || h.Err() != nil {
		t.Errorf("after a lost race: %v, %v", more, h.Err())
	}
	if answer, err := b.in.Answer(t.Context(), b.lane, h.Item().Turn); answer != nil || err != nil {
		t.Errorf("answer %q, %v", answer, err)
	}
	// In another partition it does not stop the step.
	b.put(user, 1)
	mine[0] = b.one(key)
	*state.At[int](mine[0], "n") = 3
	*state.At[int](mine[1], "n") = 2
	if more, err = h.Finish(t.Context(), []byte{}, mine...); err != nil {
		t.Error(err)
	}
	if more || b.claim(b.in) != nil {
		t.Error("the item is still there")
	}
	b.want(key, 3)
	b.want(user, 1)
	if answer, err := b.in.Answer(t.Context(), b.lane, h.Item().Turn); answer == nil || len(answer) > 0 || err != nil {
		t.Errorf("answer %q, %v, want an empty one", answer, err)
	}
}

// Who has more lanes than it can work on lets others at those that they wanted, once
// for what they took in.
func testWantedLane(t *testing.T, b *inboxBundle) {
	mine, others := b.in, b.inbox(state.InboxConfig{})
	h := b.take(b.entry("1"))
	b.accept(b.entry("2"))
	b.finish(h, true)
	b.in = others
	b.accept(b.entry("3"))
	b.in = mine
	b.accept(b.entry("4"))
	b.finish(h, false)
	claimed := <-b.claimAll(others)
	b.wantItem(claimed, "3", "", 0)
	b.finish(claimed, true)
	b.wantItem(claimed, "4", "", 0)
	b.finish(claimed, false)
}

// The lease ran out, since this replica was paused, and nobody took the lane.
func testLateButAlone(t *testing.T, b *inboxBundle) {
	b.in = b.inbox(state.InboxConfig{Lease: 50 * time.Millisecond})
	h := b.take(b.entry("hello"))
	b.in.Close()
	b.until("the end of a lease", func() bool { return errors.Is(h.Err(), state.ErrLost) })
	h.OnLost(func() { t.Error("nobody has the lane, and it is said to be lost") })
	*state.At[int](b.one(b.lane.Key()), "n") = 1
	if err := h.Save(t.Context(), []byte("journal")); err != nil {
		t.Fatal(err)
	}
	b.finish(h, false)
}

func testRelease(t *testing.T, b *inboxBundle) {
	claimed := b.claimAll(b.in)
	h := b.take(b.entry("hello"))
	for range 2 {
		if err := h.Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(h.Err(), state.ErrLost) {
			t.Error("a lane that was released is still held")
		}
		h = <-claimed
		b.wantItem(h, "hello", "", 0)
	}
	b.finish(h, false)
}

func testReleaseForAWhile(t *testing.T, b *inboxBundle) {
	b.in = b.inbox(state.InboxConfig{Lease: shortLease})
	h := b.take(b.entry("1"))
	before := time.Now()
	const after = 400 * time.Millisecond
	if err := h.Release(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if receipt := b.accept(b.entry("2")); receipt.Hold != nil || b.claim(b.in) != nil {
		t.Error("a lane that waits was taken")
	}
	h = <-b.claimAll(b.in)
	if took := time.Since(before); took < after-10*time.Millisecond {
		t.Errorf("claimed after %v", took)
	}
	b.wantItem(h, "1", "", 0)
	b.finish(h, true)
	b.finish(h, false)
}

func (b *inboxBundle) parked() []state.Parked {
	b.t.Helper()
	all, err := b.in.Parked(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var mine []state.Parked
	for _, p := range all {
		if p.Lane == b.lane {
			mine = append(mine, p)
		}
	}
	return mine
}

func testPark(t *testing.T, b *inboxBundle) {
	h := b.take(b.entry("1"))
	b.accept(b.entry("2"))
	if err := h.Save(t.Context(), []byte("journal")); err != nil {
		t.Fatal(err)
	}
	first := h.Item()
	if more, err := h.Park(t.Context(), "it hangs", []byte("sorry")); !more || err != nil {
		t.Fatal(more, err)
	}
	b.wantItem(h, "2", "", 0)
	if answer, err := b.in.Answer(t.Context(), b.lane, first.Turn); string(answer) != "sorry" || err != nil {
		t.Errorf("answer %q, %v", answer, err)
	}
	parked := b.parked()
	if len(parked) != 1 {
		t.Fatalf("%d parked turns", len(parked))
	}
	p := parked[0]
	if p.Turn != first.Turn || string(p.Body) != "1" || string(p.Journal) != "journal" || p.Reason != "it hangs" ||
		!p.Accepted.Equal(first.Accepted) || time.Since(p.At).Abs() > time.Minute {
		t.Errorf("parked %+v", p)
	}
	if err := b.in.Unpark(t.Context(), first.Turn); err != nil {
		t.Fatal(err)
	}
	if err := b.in.Unpark(t.Context(), first.Turn); !errors.Is(err, state.ErrNoTurn) {
		t.Errorf("put back twice: %v", err)
	}
	b.finish(h, true)
	b.wantItem(h, "1", "journal", 0)
	if got := h.Item(); got.Turn != first.Turn || !got.Accepted.Equal(first.Accepted) {
		t.Errorf("%+v came back as %+v", first, got)
	}
	if err := h.Save(t.Context(), []byte("more")); err != nil {
		t.Fatal(err)
	}
	h = b.reclaim(h)
	b.wantItem(h, "1", "more", 0)
	b.finish(h, false)
	if len(b.parked()) != 0 {
		t.Error("still parked")
	}
}

func testDropParked(t *testing.T, b *inboxBundle) {
	h := b.take(b.entry("1"))
	turn := h.Item().Turn
	if more, err := h.Park(t.Context(), "", nil); more || err != nil {
		t.Fatal(more, err)
	}
	if err := b.in.Drop(t.Context(), turn); err != nil {
		t.Error(err)
	}
	if err := b.in.Drop(t.Context(), turn); !errors.Is(err, state.ErrNoTurn) {
		t.Errorf("dropped twice: %v", err)
	}
	if len(b.parked()) != 0 || b.claim(b.in) != nil {
		t.Error("it is still there")
	}
}
