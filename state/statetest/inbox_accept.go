package statetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/state"
)

func testLanes(t *testing.T, b *inboxBundle) {
	own, other := b.lane, b.lane.Key().Lane("decisions")
	if own == other || own != b.conversation("a").Lane("") || other.Key() != own.Key() || !strings.HasPrefix(other.String(), own.String()) {
		t.Fatalf("lanes %q and %q", own, other)
	}
	first := b.take(b.entry("message"))
	b.lane = other
	second := b.take(b.entry("click"))
	b.finish(second, false)
	b.finish(first, false)
}

// The same entry again is kept once, and the lane is given to one call only, also
// when both are of one process.
func testAcceptedAgain(t *testing.T, b *inboxBundle) {
	taken := b.entry("taken")
	h := b.take(taken)
	if receipt := b.accept(taken); receipt.Duplicate || receipt.Hold != nil || receipt.Turn != taken.Turn {
		t.Errorf("an entry at work, again: %+v", receipt)
	}
	queued := b.entry("queued")
	queued.Duplicates = []state.Duplicate{{ID: "activity"}}
	for range 2 {
		if receipt := b.accept(queued); receipt.Duplicate || receipt.Hold != nil {
			t.Errorf("%+v", receipt)
		}
	}
	b.finish(h, true)
	b.wantItem(h, "queued", "", 0)
	b.finish(h, false)
	if receipt := b.accept(taken); receipt.Duplicate || receipt.Hold != nil {
		t.Errorf("an entry that is done with, again: %+v", receipt)
	}
	if b.claim(b.in) != nil {
		t.Error("an entry that is done with came back")
	}
}

func testRead(_ *testing.T, b *inboxBundle) {
	claimed := b.claimAll(b.in)
	e := b.entry("hello")
	e.Take = false
	b.accept(e)
	h := <-claimed
	b.wantItem(h, "hello", "", 0)
	b.finish(h, false)
}

// claimAll runs in, which claims b's lane whenever it is ready.
func (b *inboxBundle) claimAll(in *state.Inbox) <-chan *state.Hold {
	claimed := make(chan *state.Hold, 8)
	ctx := context.WithoutCancel(b.t.Context())
	b.desk.put(b.lane, func() {
		h, err := in.Claim(ctx, b.lane)
		if err != nil {
			b.t.Errorf("claim: %v", err)
		}
		if h != nil {
			claimed <- h
		}
	})
	b.t.Cleanup(func() { b.desk.put(b.lane, nil) })
	b.run(in)
	return claimed
}

func testAcceptSaves(t *testing.T, b *inboxBundle) {
	key := b.lane.Key()
	mine, stale := b.one(key), b.one(key)
	e := b.entry("hello")
	*state.At[int](mine, "n") = 1
	e.Save = []*state.Scope{mine}
	h := b.take(e)
	b.want(key, 1)
	b.finish(h, false)

	e = b.entry("hello")
	*state.At[int](stale, "n") = 2
	e.Save = []*state.Scope{stale}
	_, err := b.in.Accept(t.Context(), e)
	wantConflict(t, err, []state.Key{key}, nil)
	if b.claim(b.in) != nil {
		t.Error("an entry whose documents lost a race was taken in")
	}
	b.want(key, 1)
	*state.At[int](mine, "n") = 3 // what was saved with the first entry is known to be
	b.save(mine)
}

func testBadEntries(t *testing.T, b *inboxBundle) {
	user := b.one(b.otherPartition(b.lane.Key()))
	*state.At[int](user, "n") = 1
	for name, tt := range map[string]struct {
		change func(*state.Entry)
		want   error
	}{
		"zero lane":         {func(e *state.Entry) { e.Lane = state.Lane{} }, state.ErrKey},
		"bad lane":          {func(e *state.Entry) { e.Lane = state.ConversationKey("", "", "").Lane("x") }, state.ErrKey},
		"no turn":           {func(e *state.Entry) { e.Turn = "" }, state.ErrKey},
		"a turn of words":   {func(e *state.Entry) { e.Turn = "two words" }, state.ErrKey},
		"bad document":      {func(e *state.Entry) { e.Load = []state.Key{{}} }, state.ErrKey},
		"large":             {func(e *state.Entry) { e.Body = make([]byte, 3<<19+1) }, state.ErrTooLarge},
		"another partition": {func(e *state.Entry) { e.Save = []*state.Scope{user} }, nil},
	} {
		e := b.entry("hello")
		tt.change(&e)
		if receipt, err := b.in.Accept(t.Context(), e); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %+v, %v, want %v", name, receipt, err, tt.want)
		}
	}
	if b.claim(b.in) != nil {
		t.Error("an entry that was refused was taken in")
	}
	h := b.take(b.entry(strings.Repeat("x", 3<<19))) // just fits
	if err := h.Save(t.Context(), make([]byte, 2<<20+1)); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("a large journal: %v", err)
	}
	if err := h.Save(t.Context(), make([]byte, 2<<20)); err != nil {
		t.Errorf("a journal that just fits: %v", err)
	}
	if _, err := h.Finish(t.Context(), make([]byte, 3<<19+1)); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("a large answer: %v", err)
	}
	b.finish(h, false)
}

func testLaneFull(t *testing.T, b *inboxBundle) {
	b.in = b.inbox(state.InboxConfig{MaxWaitingPerLane: 2})
	first := b.entry("1")
	first.Duplicates = []state.Duplicate{{ID: "activity"}}
	h := b.take(first)
	b.accept(b.entry("2"))
	refused := b.entry("3")
	if _, err := b.in.Accept(t.Context(), refused); !errors.Is(err, state.ErrFull) {
		t.Errorf("a third of two: %v", err)
	}
	again := b.entry("1 again")
	again.Duplicates = first.Duplicates
	if receipt := b.accept(again); !receipt.Duplicate {
		t.Error("a full lane does not know a duplicate")
	}
	follows := b.entry("follows")
	follows.Unbounded = true
	b.accept(follows)
	b.finish(h, true)
	b.finish(h, true)
	b.wantItem(h, "follows", "", 0)
	b.accept(refused) // it was not remembered as a delivery
	b.finish(h, true)
	b.finish(h, false)
}

func testAllFull(t *testing.T, b *inboxBundle) {
	h := b.take(b.entry("1"))
	b.in = b.inbox(state.InboxConfig{MaxWaiting: 1})
	b.claimAll(b.in)
	b.until("the count of what waits", func() bool { return b.in.Stats().Waiting > 0 })
	e := b.entry("2")
	e.Lane = b.conversation("another").Lane("")
	if _, err := b.in.Accept(t.Context(), e); !errors.Is(err, state.ErrFull) {
		t.Errorf("a second of one: %v", err)
	}
	e.Unbounded = true
	receipt := b.accept(e)
	b.finish(receipt.Hold, false)
	b.finish(h, false)
}
