package statetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/state"
)

// RunInbox checks the contract of the inbox on the Redis that open makes, which
// may be one that others use at the same time.
func RunInbox(t *testing.T, open func(t *testing.T) *state.Redis) {
	t.Helper()
	desk := &desk{ready: map[state.Lane]func(){}}
	for name, test := range map[string]func(*testing.T, *inboxBundle){
		"a message from begin to end":           testMessage,
		"a lane is worked in order":             testInboxOrder,
		"lanes of a conversation":               testLanes,
		"a delivery counts once":                testDuplicates,
		"a delivery that is forgotten":          testForget,
		"an entry accepted again":               testAcceptedAgain,
		"a lane that another replica wants":     testWantedLane,
		"a lane nobody takes is read":           testRead,
		"documents saved with an entry":         testAcceptSaves,
		"entries that cannot be":                testBadEntries,
		"a lane may be full":                    testLaneFull,
		"all lanes may be full":                 testAllFull,
		"a save is all or nothing":              testSaveIsAtomic,
		"a finish can lose a race":              testFinishConflict,
		"a lane that is left is taken over":     testTakeover,
		"a lease that nobody took goes on":      testLateButAlone,
		"a release is no takeover":              testRelease,
		"a release for a while":                 testReleaseForAWhile,
		"parked turns come back":                testPark,
		"parked turns are dropped":              testDropParked,
		"timers become items":                   testTimers,
		"timers are replaced and cancelled":     testCancel,
		"too many timers":                       testTooManyTimers,
		"sets have no races":                    testSets,
		"a set is drained":                      testDrain,
		"a drain that ends early":               testDrainThatEnds,
		"two replicas, each item once in order": testReplicas,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newInboxBundle(t, open(t), desk))
		})
	}
}

// inboxBundle is an inbox and a lane that no other test uses.
type inboxBundle struct {
	*bundle
	r    *state.Redis
	in   *state.Inbox
	lane state.Lane
	desk *desk
}

// desk hands a lane that one test read to the test that it belongs to: on one
// server, a lane that is ready is told to one reader only.
type desk struct {
	mu    sync.Mutex
	ready map[state.Lane]func()
}

func (d *desk) put(lane state.Lane, ready func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready[lane] = ready
}

func (d *desk) hand(lane state.Lane) {
	d.mu.Lock()
	ready := d.ready[lane]
	d.mu.Unlock()
	if ready != nil {
		ready()
	}
}

const shortLease = 300 * time.Millisecond

func newInboxBundle(t *testing.T, r *state.Redis, desk *desk) *inboxBundle {
	t.Helper()
	b := &inboxBundle{bundle: newBundle(t, r), r: r, desk: desk}
	b.in = b.inbox(state.InboxConfig{})
	b.lane = b.conversation("a").Lane("")
	return b
}

// inbox is another replica's.
func (b *inboxBundle) inbox(cfg state.InboxConfig) *state.Inbox {
	b.t.Helper()
	in, err := b.r.Inbox(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(in.Close)
	return in
}

// run runs in until the test ends.
func (b *inboxBundle) run(in *state.Inbox) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx, b.desk.hand) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

func (b *inboxBundle) entry(body string) state.Entry {
	return state.Entry{Lane: b.lane, Turn: rand.Text(), Body: []byte(body), Take: true}
}

func (b *inboxBundle) accept(e state.Entry) state.Receipt {
	b.t.Helper()
	receipt, err := b.in.Accept(b.t.Context(), e)
	if err != nil {
		b.t.Fatalf("accept %s: %v", e.Body, err)
	}
	return receipt
}

// take accepts an entry that takes the lane.
func (b *inboxBundle) take(e state.Entry) *state.Hold {
	b.t.Helper()
	receipt := b.accept(e)
	if receipt.Hold == nil {
		b.t.Fatalf("accept %s: no hold", e.Body)
	}
	return receipt.Hold
}

func (b *inboxBundle) claim(in *state.Inbox) *state.Hold {
	b.t.Helper()
	hold, err := in.Claim(b.t.Context(), b.lane)
	if err != nil {
		b.t.Fatalf("claim: %v", err)
	}
	return hold
}

func (b *inboxBundle) finish(h *state.Hold, want bool) {
	b.t.Helper()
	more, err := h.Finish(b.t.Context(), nil)
	if err != nil || more != want {
		b.t.Fatalf("finish: %v, %v, want %v", more, err, want)
	}
}

func (b *inboxBundle) wantItem(h *state.Hold, body, journal string, tries int) {
	b.t.Helper()
	item := h.Item()
	if string(item.Body) != body || string(item.Journal) != journal || item.Tries != tries {
		b.t.Errorf("item %q with journal %q and %d tries, want %q, %q and %d", item.Body, item.Journal, item.Tries, body, journal, tries)
	}
}

func testMessage(t *testing.T, b *inboxBundle) {
	b.put(b.lane.Key(), 1)
	e := b.entry("hello")
	e.Load = []state.Key{b.lane.Key(), b.user("u")}
	receipt := b.accept(e)
	h := receipt.Hold
	if h == nil || len(receipt.Scopes) != 2 || receipt.Turn != e.Turn || receipt.Duplicate {
		t.Fatalf("receipt %+v", receipt)
	}
	b.wantItem(h, "hello", "", 0)
	if since := time.Since(h.Item().Accepted); since < -time.Minute || since > time.Minute {
		t.Errorf("accepted %v ago", since)
	}
	*state.At[int](receipt.Scopes[0], "n")++
	*state.At[int](receipt.Scopes[1], "n") = 7
	if err := h.Save(t.Context(), []byte("plan"), receipt.Scopes...); err != nil {
		t.Fatal(err)
	}
	b.want(b.lane.Key(), 2)
	b.want(b.user("u"), 7)
	*state.At[int](receipt.Scopes[0], "n")++
	more, err := h.Finish(t.Context(), []byte("bye"), receipt.Scopes...)
	if more || err != nil {
		t.Fatalf("finish: %v, %v", more, err)
	}
	b.want(b.lane.Key(), 3)
	if answer, err := b.in.Answer(t.Context(), b.lane, e.Turn); string(answer) != "bye" || err != nil {
		t.Errorf("answer %q, %v", answer, err)
	}
	if again := b.claim(b.in); again != nil {
		t.Errorf("an idle lane was claimed, with %q", again.Item().Body)
	}
	if err := h.Err(); !errors.Is(err, state.ErrLost) {
		t.Errorf("a hold that is over says %v", err)
	}
}

func testInboxOrder(t *testing.T, b *inboxBundle) {
	h := b.take(b.entry("0"))
	for _, body := range []string{"1", "2"} {
		if receipt := b.accept(b.entry(body)); receipt.Hold != nil || receipt.Duplicate {
			t.Fatalf("%+v", receipt)
		}
	}
	if other := b.claim(b.in); other != nil {
		t.Fatal("a lane that is held was claimed")
	}
	for _, body := range []string{"0", "1", "2"} {
		b.wantItem(h, body, "", 0)
		h = b.reclaim(h) // nothing of the one before is kept
		b.wantItem(h, body, "", 0)
		if err := h.Save(t.Context(), []byte("journal of "+body)); err != nil {
			t.Fatal(err)
		}
		b.finish(h, body != "2")
	}
}

func testDuplicates(t *testing.T, b *inboxBundle) {
	first := b.entry("hello")
	first.Duplicates = []state.Duplicate{{ID: "activity 1"}, {ID: "click 1", For: time.Minute}}
	h := b.take(first)
	second := b.entry("hello again")
	second.Duplicates = []state.Duplicate{{ID: "activity 2"}, {ID: "click 1"}}
	for _, answer := range [][]byte{nil, []byte("{}")} {
		receipt := b.accept(second)
		if !receipt.Duplicate || receipt.Turn != first.Turn || receipt.Hold != nil || !bytes.Equal(receipt.Answer, answer) {
			t.Errorf("%+v, want a duplicate of %s answered %q", receipt, first.Turn, answer)
		}
		if answer == nil {
			if more, err := h.Finish(t.Context(), []byte("{}")); more || err != nil {
				t.Fatal(more, err)
			}
		}
	}
	if n := b.in.Stats().Duplicates; n != 2 {
		t.Errorf("%d duplicates", n)
	}
}

// testForget has a click count again once it is forgotten, while each delivery of the one
// before stays known.
func testForget(t *testing.T, b *inboxBundle) {
	click := func(id string) state.Entry {
		e := b.entry(id)
		e.Duplicates = []state.Duplicate{{ID: id}, {ID: "click", For: time.Minute}}
		return e
	}
	first := click("activity 1")
	b.take(first)
	forget := func(turn string) {
		t.Helper()
		if err := b.in.Forget(t.Context(), b.lane, "click", turn); err != nil {
			t.Error(err)
		}
	}
	forget("another")
	if receipt := b.accept(click("activity 2")); receipt.Turn != first.Turn {
		t.Errorf("forgotten for another turn: %+v", receipt)
	}
	forget(first.Turn)
	for _, known := range []string{"activity 1", "activity 2"} {
		if receipt := b.accept(click(known)); receipt.Turn != first.Turn {
			t.Errorf("%s: %+v", known, receipt)
		}
	}
	if receipt := b.accept(click("activity 3")); receipt.Duplicate {
		t.Errorf("not forgotten: %+v", receipt)
	}
	forget(first.Turn) // the click is another's by now
	if receipt := b.accept(click("activity 4")); !receipt.Duplicate || receipt.Turn == first.Turn {
		t.Errorf("forgotten for the turn before: %+v", receipt)
	}
}

func testTakeover(t *testing.T, b *inboxBundle) {
	b.in = b.inbox(state.InboxConfig{Lease: shortLease})
	scope := b.one(b.lane.Key())
	h := b.take(b.entry("hello"))
	*state.At[int](scope, "n") = 1
	if err := h.Save(t.Context(), []byte("plan"), scope); err != nil {
		t.Fatal(err)
	}
	b.in.Close() // as if the process hung
	other := b.inbox(state.InboxConfig{Lease: shortLease})
	taken := <-b.claimAll(other)
	b.wantItem(taken, "hello", "plan", 1)
	*state.At[int](scope, "n") = 2
	if err := h.Save(t.Context(), []byte("late"), scope); !errors.Is(err, state.ErrLost) {
		t.Errorf("a late save: %v", err)
	}
	b.want(b.lane.Key(), 1)
	known := false
	if h.OnLost(func() { known = true }); !known {
		t.Error("the hold does not know that it is lost")
	}
	if more, err := h.Finish(t.Context(), nil); more || !errors.Is(err, state.ErrLost) {
		t.Errorf("a late finish: %v, %v", more, err)
	}
	if err := h.Release(t.Context(), 0); !errors.Is(err, state.ErrLost) {
		t.Errorf("a late release: %v", err)
	}
	b.finish(taken, false)
}
