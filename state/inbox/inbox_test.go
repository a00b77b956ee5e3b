package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := serve(t)(state.Config{})
		for name, cfg := range map[string]inbox.Config{
			"Lease": {Lease: 1}, "Patience": {Patience: -1}, "DuplicateFor": {DuplicateFor: 1},
			"MaxWaiting": {MaxWaiting: -1}, "MaxWaitingPerQueue": {MaxWaitingPerQueue: -1},
		} {
			if _, err := inbox.Open(store, cfg); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A message from begin to end.
func TestMessage(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		key, user := b.q, b.person()
		b.put(key, 1)
		e := b.entry("hello")
		e.Load = []state.Key{key, user}
		receipt := b.accept(e)
		l := receipt.Lease
		if l == nil || len(receipt.Scopes) != 2 || receipt.ID != e.ID || receipt.Duplicate || l.ID() != e.ID || l.Queue() != b.q {
			t.Fatalf("receipt %+v", receipt)
		}
		b.wantRecord(l, "hello", 0)
		*number(receipt.Scopes[0])++
		*number(receipt.Scopes[1]) = 7
		if err := l.Save(t.Context(), []byte("planned"), true, receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
		b.want(key, 2)
		b.want(user, 7)
		*number(receipt.Scopes[0])++
		more, err := l.Finish(t.Context(), []byte("bye"), receipt.Scopes...)
		if more || err != nil {
			t.Fatalf("finish: %v, %v", more, err)
		}
		b.want(key, 3)
		if answer, err := b.in.Answer(t.Context(), b.q, e.ID); string(answer) != "bye" || err != nil {
			t.Errorf("answer %q, %v", answer, err)
		}
		if again := b.claim(b.in); again != nil {
			t.Errorf("an idle queue was claimed, with %q", again.Record())
		}
		if err := l.Err(); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("a lease that is over says %v", err)
		}
	})
}

func TestOrder(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		l := b.take(b.entry("0"))
		for _, record := range []string{"1", "2"} {
			if receipt := b.accept(b.entry(record)); receipt.Lease != nil || receipt.Duplicate {
				t.Fatalf("%+v", receipt)
			}
		}
		if n, err := b.in.Queued(t.Context(), b.q); n != 3 || err != nil {
			t.Errorf("%d queued, %v", n, err)
		}
		if b.claim(b.in) != nil {
			t.Fatal("a queue that is held was claimed")
		}
		for _, record := range []string{"0", "1", "2"} {
			b.wantRecord(l, record, 0)
			if err := l.Save(t.Context(), []byte(record+", further"), true); err != nil {
				t.Fatal(err)
			}
			b.wantRecord(l, record+", further", 0)
			l = b.reclaim(l)
			b.wantRecord(l, record+", further", 0)
			b.finish(l, record != "2")
		}
	})
}

// TestRecords: those that wait, too, each as it was last saved.
func TestRecords(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		first, second, later := b.entry("first"), b.entry("second"), b.waiting("later", inbox.Wait{Until: time.Now().Add(time.Hour)})
		l := b.take(first)
		b.accept(second)
		b.accept(later)
		if err := l.Save(t.Context(), []byte("first, further"), true); err != nil {
			t.Fatal(err)
		}
		for _, want := range []map[string]string{
			{first.ID: "first, further", second.ID: "second", later.ID: "later"},
			{second.ID: "second", later.ID: "later"},
		} {
			all, err := b.in.Records(t.Context(), b.q)
			got := map[string]string{}
			for id, record := range all {
				got[id] = string(record)
			}
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
			if first.ID == l.ID() {
				b.finish(l, true)
			}
		}
	})
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		first := b.entry("hello")
		first.Duplicates = []inbox.Duplicate{{ID: "activity 1"}, {ID: "click 1", For: time.Minute}}
		l := b.take(first)
		second := b.entry("hello again")
		second.Duplicates = []inbox.Duplicate{{ID: "activity 2"}, {ID: "click 1"}}
		for _, answer := range [][]byte{nil, []byte("{}")} {
			receipt := b.accept(second)
			if !receipt.Duplicate || receipt.ID != first.ID || receipt.Lease != nil {
				t.Errorf("%+v, want a duplicate of %s", receipt, first.ID)
			}
			if got, err := b.in.Answer(t.Context(), b.q, receipt.ID); !bytes.Equal(got, answer) || err != nil {
				t.Errorf("answer %q, %v, want %q", got, err, answer)
			}
			if answer == nil {
				if more, err := l.Finish(t.Context(), []byte("{}")); more || err != nil {
					t.Fatal(more, err)
				}
			}
		}
		if n := b.in.Stats().Duplicates; n != 2 {
			t.Errorf("%d duplicates", n)
		}
	})
}

// A click counts again once it is forgotten, while each delivery of the one before stays
// known.
func TestForget(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		click := func(id string) inbox.Entry {
			e := b.entry(id)
			e.Duplicates = []inbox.Duplicate{{ID: id}, {ID: "click", For: time.Minute}}
			return e
		}
		first := click("activity 1")
		b.take(first)
		forget := func(id string) {
			t.Helper()
			if err := b.in.Forget(t.Context(), b.q, "click", id); err != nil {
				t.Error(err)
			}
		}
		forget("another")
		if receipt := b.accept(click("activity 2")); receipt.ID != first.ID {
			t.Errorf("forgotten for another record: %+v", receipt)
		}
		forget(first.ID)
		for _, known := range []string{"activity 1", "activity 2"} {
			if receipt := b.accept(click(known)); receipt.ID != first.ID {
				t.Errorf("%s: %+v", known, receipt)
			}
		}
		if receipt := b.accept(click("activity 3")); receipt.Duplicate {
			t.Errorf("not forgotten: %+v", receipt)
		}
		forget(first.ID) // the click is another's by now
		if receipt := b.accept(click("activity 4")); !receipt.Duplicate || receipt.ID == first.ID {
			t.Errorf("forgotten for the record before: %+v", receipt)
		}
	})
}

// The same entry again is kept once, and the queue is given to one call only, also
// when both are of one process.
func TestAcceptedAgain(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		taken := b.entry("taken")
		l := b.take(taken)
		if receipt := b.accept(taken); receipt.Duplicate || receipt.Lease != nil || receipt.ID != taken.ID {
			t.Errorf("an entry at work, again: %+v", receipt)
		}
		queued := b.entry("queued")
		queued.Duplicates = []inbox.Duplicate{{ID: "activity"}}
		for range 2 {
			if receipt := b.accept(queued); receipt.Duplicate || receipt.Lease != nil {
				t.Errorf("%+v", receipt)
			}
		}
		b.finish(l, true)
		b.wantRecord(l, "queued", 0)
		b.finish(l, false)
		if receipt := b.accept(taken); receipt.Duplicate || receipt.Lease != nil {
			t.Errorf("an entry that is done with, again: %+v", receipt)
		}
		if b.claim(b.in) != nil {
			t.Error("an entry that is done with came back")
		}
	})
}

// Who has more queues than it can work on lets others at those that they wanted, once
// for what they took in.
func TestWantedQueue(t *testing.T) {
	t.Parallel()
	setup(t, func(_ *testing.T, b *bundle) {
		mine, others := b.in, b.inbox(inbox.Config{})
		l := b.take(b.entry("1"))
		b.accept(b.entry("2"))
		b.finish(l, true)
		b.in = others
		b.accept(b.entry("3"))
		b.in = mine
		b.accept(b.entry("4"))
		b.finish(l, false)
		claimed := <-b.claims(others)
		b.wantRecord(claimed, "3", 0)
		b.finish(claimed, true)
		b.wantRecord(claimed, "4", 0)
		b.finish(claimed, false)
	})
}

func TestRead(t *testing.T) {
	t.Parallel()
	setup(t, func(_ *testing.T, b *bundle) {
		claimed := b.claims(b.in)
		b.accept(b.queued("hello"))
		l := <-claimed
		b.wantRecord(l, "hello", 0)
		b.finish(l, false)
	})
}

func TestBadEntries(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		for name, tt := range map[string]struct {
			change func(*inbox.Entry)
			want   error
		}{
			"zero queue":     {func(e *inbox.Entry) { e.Queue = state.Key{} }, state.ErrKey},
			"bad queue":      {func(e *inbox.Entry) { e.Queue = state.ConversationKey("", "", "") }, state.ErrKey},
			"no id":          {func(e *inbox.Entry) { e.ID = "" }, state.ErrKey},
			"an id of words": {func(e *inbox.Entry) { e.ID = "two words" }, state.ErrKey},
			"bad document":   {func(e *inbox.Entry) { e.Load = []state.Key{{}} }, state.ErrKey},
			"large":          {func(e *inbox.Entry) { e.Record = make([]byte, 3<<19+1) }, state.ErrTooLarge},
		} {
			e := b.entry("hello")
			tt.change(&e)
			if receipt, err := b.in.Accept(t.Context(), e); !errors.Is(err, tt.want) {
				t.Errorf("%s: %+v, %v, want %v", name, receipt, err, tt.want)
			}
		}
		if b.claim(b.in) != nil {
			t.Error("an entry that was refused was taken in")
		}
		l := b.take(b.entry(strings.Repeat("x", 3<<19))) // just fits
		if err := l.Save(t.Context(), make([]byte, 3<<20+1), true); !errors.Is(err, state.ErrTooLarge) {
			t.Errorf("a large record: %v", err)
		}
		if err := l.Save(t.Context(), make([]byte, 3<<20), true); err != nil {
			t.Errorf("a record that just fits: %v", err)
		}
		if _, err := l.Finish(t.Context(), make([]byte, 3<<19+1)); !errors.Is(err, state.ErrTooLarge) {
			t.Errorf("a large answer: %v", err)
		}
		b.finish(l, false)
	})
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		b.in = b.inbox(inbox.Config{MaxWaitingPerQueue: 2})
		first := b.entry("1")
		first.Duplicates = []inbox.Duplicate{{ID: "activity"}}
		l := b.take(first)
		b.accept(b.entry("2"))
		refused := b.entry("3")
		if _, err := b.in.Accept(t.Context(), refused); !errors.Is(err, inbox.ErrFull) {
			t.Errorf("a third of two: %v", err)
		}
		again := b.entry("1 again")
		again.Duplicates = first.Duplicates
		if receipt := b.accept(again); !receipt.Duplicate {
			t.Error("a full queue does not know a duplicate")
		}
		follows := b.entry("follows")
		follows.Unbounded = true
		b.accept(follows)
		b.finish(l, true)
		b.finish(l, true)
		b.wantRecord(l, "follows", 0)
		b.accept(refused) // it was not remembered as a delivery
		b.finish(l, true)
		b.finish(l, false)
	})
}

func TestAllFull(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		l := b.take(b.entry("1"))
		b.in = b.inbox(inbox.Config{MaxWaiting: 1})
		b.claims(b.in)
		until(t, "the count of what waits", func() bool { return b.in.Stats().Waiting > 0 })
		e := b.entry("2")
		e.Queue = b.conversation("another")
		if _, err := b.in.Accept(t.Context(), e); !errors.Is(err, inbox.ErrFull) {
			t.Errorf("a second of one: %v", err)
		}
		e.Unbounded = true
		receipt := b.accept(e)
		b.finish(receipt.Lease, false)
		b.finish(l, false)
	})
}

// A process hangs, another takes its queue, and then it goes on.
func TestTakeover(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		b.in = b.inbox(inbox.Config{Lease: shortLease})
		scope := b.load(b.q)[0]
		l := b.take(b.entry("hello"))
		*number(scope) = 1
		if err := l.Save(t.Context(), []byte("planned"), true, scope); err != nil {
			t.Fatal(err)
		}
		b.in.Close() // as if the process hung
		taken := <-b.claims(b.inbox(inbox.Config{Lease: shortLease}))
		b.wantRecord(taken, "planned", 1)
		*number(scope) = 2
		person := b.load(b.person())[0]
		*number(person) = 2
		for _, late := range [][]*state.Scope{{scope}, {scope, person}} {
			if err := l.Save(t.Context(), []byte("late"), true, late...); !errors.Is(err, inbox.ErrLost) {
				t.Errorf("a late save: %v", err)
			}
		}
		b.want(b.q, 1)
		b.want(b.person(), 0)
		known := false
		if l.OnLost(func() { known = true }); !known {
			t.Error("the lease does not know that it is lost")
		}
		if more, err := l.Finish(t.Context(), nil); more || !errors.Is(err, inbox.ErrLost) {
			t.Errorf("a late finish: %v, %v", more, err)
		}
		if err := l.Release(t.Context(), 0); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("a late release: %v", err)
		}
		b.wantRecord(taken, "planned", 1)
		if err := taken.Save(t.Context(), []byte("planned"), false); err != nil { // nothing new
			t.Error(err)
		}
		b.wantRecord(taken, "planned", 1)
		if err := taken.Save(t.Context(), nil, true); err != nil {
			t.Error(err)
		}
		b.wantRecord(taken, "planned", 0)
		b.finish(taken, false)
	})
}

// The lease ran out, since this replica was paused, and nobody took the queue.
func TestLateButAlone(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		b.in = b.inbox(inbox.Config{Lease: 50 * time.Millisecond})
		l := b.take(b.entry("hello"))
		b.in.Close()
		until(t, "the end of a lease", func() bool { return errors.Is(l.Err(), inbox.ErrLost) })
		l.OnLost(func() { t.Error("nobody has the queue, and it is said to be lost") })
		scopes := b.load(b.q, b.person())
		*number(scopes[0]), *number(scopes[1]) = 1, 1
		if err := l.Save(t.Context(), []byte("planned"), true, scopes...); err != nil {
			t.Fatal(err)
		}
		b.finish(l, false)
	})
}

func TestRelease(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		claimed := b.claims(b.in)
		l := b.take(b.entry("hello"))
		for range 2 {
			if err := l.Release(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(l.Err(), inbox.ErrLost) {
				t.Error("a queue that was released is still held")
			}
			l = <-claimed
			b.wantRecord(l, "hello", 0)
		}
		b.finish(l, false)
	})
}

func TestReleaseForAWhile(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		b.in = b.inbox(inbox.Config{Lease: shortLease})
		l := b.take(b.entry("1"))
		before := time.Now()
		const after = 400 * time.Millisecond
		if err := l.Release(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		if receipt := b.accept(b.entry("2")); receipt.Lease != nil || b.claim(b.in) != nil {
			t.Error("a queue that waits was taken")
		}
		l = <-b.claims(b.in)
		if took := time.Since(before); took < after-10*time.Millisecond {
			t.Errorf("claimed after %v", took)
		}
		b.wantRecord(l, "1", 0)
		b.finish(l, true)
		b.finish(l, false)
	})
}

// A save is all or nothing, a person's document apart: that is saved before.
func TestSaveIsAtomic(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		channel, thread, user := b.q, b.conversation("a;messageid=1"), b.person()
		l := b.take(b.entry("hello"))
		mine := b.load(channel, thread, user)
		b.put(thread, 1)
		for _, s := range mine {
			*number(s) = 2
		}
		save := func() error { return l.Save(t.Context(), []byte("planned"), true, mine...) }
		wantConflict(t, save(), []state.Key{channel, thread}, []state.Key{user})
		b.want(channel, 0)
		b.want(thread, 1)
		b.want(user, 2)
		b.wantRecord(l, "hello", 0)
		mine[1] = b.load(thread)[0]
		*number(mine[1]) = 2
		if err := save(); err != nil {
			t.Fatal(err)
		}
		b.want(channel, 2)
		b.want(thread, 2)
		l = b.reclaim(l)
		b.wantRecord(l, "planned", 0)

		mine = b.load(channel, user)
		b.put(user, 3)
		*number(mine[0]), *number(mine[1]) = 4, 4
		wantConflict(t, l.Save(t.Context(), []byte("further"), true, mine...), []state.Key{user}, nil)
		b.want(channel, 2)
		b.want(user, 3)
		b.wantRecord(b.reclaim(l), "planned", 0)
	})
}

// TestJoin: what follows the head directly leaves the queue in one step, or nothing does.
func TestJoin(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		all := []inbox.Entry{b.entry("1"), b.entry("2"), b.entry("3"), b.entry("4")}
		l := b.take(all[0])
		if following, err := l.Following(t.Context(), 9, false); len(following) > 0 || err != nil {
			t.Errorf("%+v follow, %v", following, err)
		}
		for _, e := range all[1:] {
			b.accept(e)
		}
		following, err := l.Following(t.Context(), 2, false)
		if err != nil || len(following) != 2 || following[0].ID != all[1].ID || string(following[1].Record) != "3" {
			t.Errorf("%+v follow, %v", following, err)
		}
		join := func(l *inbox.Lease, entries ...inbox.Entry) (bool, error) {
			var ids []string
			for _, e := range entries {
				ids = append(ids, e.ID)
			}
			return l.Join(t.Context(), []byte("joined"), ids)
		}
		for _, wrong := range [][]inbox.Entry{{all[2]}, {all[2], all[1]}, append(slices.Clone(all[1:]), b.entry("5"))} {
			if joined, err := join(l, wrong...); joined || err != nil {
				t.Errorf("%v joined: %v, %v", wrong, joined, err)
			}
		}
		b.wantRecord(l, "1", 0)
		if joined, err := join(l, all[1:3]...); !joined || err != nil {
			t.Errorf("%v, %v", joined, err)
		}
		if n := b.in.Stats().Waiting; n != 2 {
			t.Errorf("%d records wait", n)
		}
		if again := b.accept(all[1]); again.Lease != nil { // a late repetition of its delivery
			t.Errorf("%+v", again)
		}
		l = b.reclaim(l)
		b.wantRecord(l, "joined", 0)
		b.finish(l, true)
		b.wantRecord(l, "4", 0)
		b.finish(l, false)
		if joined, err := join(l, all[3]); joined || !errors.Is(err, inbox.ErrLost) {
			t.Errorf("without the queue: %v, %v", joined, err)
		}
		if n, err := b.in.Queued(t.Context(), all[0].Queue); n != 0 || err != nil {
			t.Errorf("%d records, %v", n, err)
		}
	})
}

func TestFinishConflict(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		key, user := b.q, b.person()
		l := b.take(b.entry("hello"))
		mine := b.load(key, user)
		b.put(key, 1)
		*number(mine[0]) = 2
		more, err := l.Finish(t.Context(), []byte("answer"), mine...)
		wantConflict(t, err, []state.Key{key}, nil)
		if more || l.Err() != nil {
			t.Errorf("after a lost race: %v, %v", more, l.Err())
		}
		if answer, err := b.in.Answer(t.Context(), b.q, l.ID()); answer != nil || err != nil {
			t.Errorf("answer %q, %v", answer, err)
		}
		mine[0] = b.load(key)[0]
		*number(mine[0]), *number(mine[1]) = 3, 3
		if _, err := l.Finish(t.Context(), nil, mine...); err == nil {
			t.Error("finished with a changed document of another partition")
		}
		if more, err := l.Finish(t.Context(), []byte{}, mine[0]); more || err != nil {
			t.Error(more, err)
		}
		b.want(key, 3)
		b.want(user, 0)
		if answer, err := b.in.Answer(t.Context(), b.q, l.ID()); answer == nil || len(answer) > 0 || err != nil {
			t.Errorf("answer %q, %v, want an empty one", answer, err)
		}
	})
}

func (b *bundle) list() []inbox.Waiting {
	b.t.Helper()
	all, err := b.in.Waiting(b.t.Context(), b.q)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// dead lists the dead letters of b's queue.
func (b *bundle) dead() []inbox.Waiting {
	b.t.Helper()
	all, err := b.in.Dead(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(w inbox.Waiting) bool { return w.Queue != b.q })
}

func (b *bundle) find(id string) inbox.Waiting {
	b.t.Helper()
	w, err := b.in.Find(b.t.Context(), b.q, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// A record waits for somebody, who wakes it with what was decided.
func TestWaitAndWake(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		l := b.take(b.entry("1"))
		id := l.ID()
		b.accept(b.entry("2"))
		scope := b.load(b.q)[0]
		*number(scope) = 1
		about := []byte(`{"what":"approval"}` + "\nand more")
		more, err := l.Wait(t.Context(), []byte("1, asked"), inbox.Wait{About: about}, []byte("sorry"), scope)
		if !more || err != nil {
			t.Fatal(more, err)
		}
		b.want(b.q, 1)
		b.wantRecord(l, "2", 0)
		if answer, err := b.in.Answer(t.Context(), b.q, id); string(answer) != "sorry" || err != nil {
			t.Errorf("answer %q, %v", answer, err)
		}
		listed := b.list()
		if len(listed) != 1 || listed[0].ID != id || !bytes.Equal(listed[0].About, about) || listed[0].Record != nil ||
			!listed[0].Until.IsZero() || listed[0].Operator || time.Since(listed[0].Since).Abs() > time.Minute {
			t.Fatalf("waiting %+v", listed)
		}
		if len(b.dead()) > 0 {
			t.Error("it is listed as a dead letter")
		}
		w := b.find(id)
		if string(w.Record) != "1, asked" {
			t.Errorf("found %+v", w)
		}
		stale := w
		stale.Record = []byte("1")
		*number(scope) = 2
		if err := b.in.Wake(t.Context(), stale, []byte("no")); !errors.Is(err, inbox.ErrNoRecord) {
			t.Errorf("another record was kept: %v", err)
		}
		if !bytes.Equal(w.About, about) {
			t.Errorf("found %+v", w)
		}
		if err := b.in.Wake(t.Context(), w, []byte("1, approved")); err != nil {
			t.Fatal(err)
		}
		if err := b.in.Wake(t.Context(), w, []byte("1, rejected")); !errors.Is(err, inbox.ErrNoRecord) {
			t.Errorf("decided twice: %v", err)
		}
		if len(b.list()) > 0 {
			t.Error("it still waits")
		}
		b.finish(l, true)
		b.wantRecord(l, "1, approved", 0)
		if l.ID() != id {
			t.Errorf("%s came back as %s", id, l.ID())
		}
		b.finish(l, false)
	})
}

// Whoever asks again whether a wake happened, since there was no answer, hears that it did.
func TestWokenAgain(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		e := b.waiting("1", inbox.Wait{})
		b.accept(e)
		w := b.find(e.ID)
		for range 2 {
			if err := b.in.Wake(t.Context(), w, []byte("woken")); err != nil {
				t.Fatal(err)
			}
		}
		l := b.claim(b.in)
		b.wantRecord(l, "woken", 0)
		// It waits again, as it was: that is another wake.
		if more, err := l.Wait(t.Context(), []byte("1"), inbox.Wait{}, nil); more || err != nil {
			t.Fatal(more, err)
		}
		if err := b.in.Wake(t.Context(), b.find(e.ID), []byte("woken")); err != nil {
			t.Fatal(err)
		}
		b.finish(b.claim(b.in), false)
	})
}

// Dead letters are listed with all that is known of them, and come back as they were.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		var ids []string
		for _, record := range []string{"1", "2"} {
			l := b.take(b.entry(record))
			ids = append(ids, l.ID())
			if more, err := l.Wait(t.Context(), nil, inbox.Wait{Operator: true, About: []byte("it hangs")}, nil); more || err != nil {
				t.Fatal(more, err)
			}
			time.Sleep(2 * time.Millisecond) // the time of their order
		}
		dead := b.dead()
		if len(dead) != 2 || dead[0].ID != ids[0] || string(dead[0].Record) != "1" || dead[1].ID != ids[1] ||
			!dead[0].Operator || string(dead[0].About) != "it hangs" {
			t.Fatalf("%+v", dead)
		}
		listed := b.list()[0]
		if err := b.in.Wake(t.Context(), listed, nil); err != nil { // whatever it is
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			if was, err := b.in.Drop(t.Context(), b.q, dead[1].ID); was != want && listed.ID != dead[1].ID || err != nil {
				t.Errorf("drop: %v, %v, want %v", was, err, want)
			}
		}
		if dead := b.dead(); len(dead) > 0 {
			t.Errorf("%+v", dead)
		}
		if _, err := b.in.Find(t.Context(), b.q, ids[1]); !errors.Is(err, inbox.ErrNoRecord) {
			t.Errorf("found what was dropped: %v", err)
		}
		l := b.claim(b.in)
		b.wantRecord(l, "1", 0)
		b.finish(l, false)
	})
}

// What waits for a time is listed over all queues, the next one first.
func TestTimed(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		for record, w := range map[string]inbox.Wait{"later": {Until: at.Add(time.Hour)}, "first": {Until: at, About: []byte("Mia")}, "never": {}, "dead": {Operator: true}} {
			b.accept(b.waiting(record, w))
		}
		all, err := b.in.Timed(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(w inbox.Waiting) bool { return w.Queue != b.q })
		if len(all) != 2 || string(all[0].Record) != "first" || !all[0].Until.Equal(at) || string(all[0].About) != "Mia" || string(all[1].Record) != "later" {
			t.Fatalf("%+v", all)
		}
		if one, err := b.in.Timed(t.Context(), 1); err != nil || len(one) != 1 {
			t.Errorf("%+v, %v", one, err)
		}
		if none, err := b.in.Timed(t.Context(), 0); err != nil || len(none) != 0 {
			t.Errorf("%+v, %v", none, err)
		}
	})
}

// A record that waits comes back when it is due, and one that replaces it at its time.
func TestTimers(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		b.in = b.inbox(inbox.Config{Lease: shortLease})
		b.claims(b.inbox(inbox.Config{Lease: shortLease})) // a second sweeper
		claimed := b.claims(b.in)
		in := func(d time.Duration) inbox.Wait {
			return inbox.Wait{Until: time.Now().Add(d).Truncate(time.Millisecond), About: []byte("Mia Müller")}
		}
		put := b.waiting("put off", in(200*time.Millisecond))
		b.accept(put)
		again := b.waiting("put off", in(time.Hour))
		again.ID = put.ID
		b.accept(again)
		never := b.waiting("never", inbox.Wait{})
		b.accept(never)
		soon := b.waiting("soon", in(400*time.Millisecond))
		b.accept(soon)
		listed := b.list()
		if len(listed) != 3 || listed[0].ID != soon.ID || listed[1].ID != put.ID || listed[2].ID != never.ID {
			t.Fatalf("waiting %+v", listed)
		}
		if w := listed[0]; w.Queue != b.q || !w.Until.Equal(soon.Wait.Until) || string(w.About) != "Mia Müller" {
			t.Errorf("waiting %+v", w)
		}
		l := <-claimed // and not what was put off
		b.wantRecord(l, "soon", 0)
		if l.ID() != soon.ID {
			t.Errorf("id %s", l.ID())
		}
		b.accept(soon) // it is at work
		if more, err := l.Wait(t.Context(), []byte("sooner"), in(100*time.Millisecond), nil); more || err != nil {
			t.Fatal(more, err)
		}
		l = <-claimed
		b.wantRecord(l, "sooner", 0)
		b.finish(l, false)
		if listed := b.list(); len(listed) != 2 {
			t.Errorf("%+v", listed)
		}
	})
}

func TestTooManyWait(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		e := b.waiting("x", inbox.Wait{Until: time.Now().Add(time.Hour)})
		for i := range 100 {
			e.ID = strconv.Itoa(i)
			b.accept(e)
			if i < 3 { // dead letters do not count
				b.accept(b.waiting("dead "+e.ID, inbox.Wait{Operator: true}))
			}
		}
		e.ID = "100"
		if _, err := b.in.Accept(t.Context(), e); !errors.Is(err, inbox.ErrFull) {
			t.Errorf("a hundred and first: %v", err)
		}
		e.Unbounded = true
		b.accept(e)
		e.ID, e.Unbounded = "99", false // replaced
		b.accept(e)
		l := b.take(b.entry("what is at work may wait"))
		if more, err := l.Wait(t.Context(), nil, *e.Wait, nil); more || err != nil {
			t.Fatal(more, err)
		}
		if n := len(b.list()); n != 105 {
			t.Errorf("%d wait", n)
		}
	})
}

// A timer that was found due, and was put off before it was fired, stays; one that
// another replica fired is not fired again.
func TestTimersFireOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		later, due := b.waiting("later", inbox.Wait{Until: time.Now().Add(time.Hour)}), b.waiting("due", inbox.Wait{Until: time.Now()})
		b.accept(later)
		b.accept(due)
		b.in.Fire(t, b.q, later.ID, due.ID, due.ID)
		b.in.Fire(t, b.q, due.ID)
		l := b.claim(b.in)
		b.wantRecord(l, "due", 0)
		b.finish(l, false)
		if listed := b.list(); len(listed) != 1 || listed[0].ID != later.ID {
			t.Errorf("%+v", listed)
		}
	})
}

func TestQueueInJSON(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "a/b", "19:x@thread.tacv2;messageid=1"} {
		q := state.ConversationKey("lanes", "lanes", id)
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var again state.Key
		if err := json.Unmarshal(text, &again); err != nil || again != q {
			t.Errorf("%s came back as %s, %v", q, again, err)
		}
	}
	var q state.Key
	for _, bad := range []string{"", "x", "planbot/{64}/a", "planbot/{-1}/a", "planbot/{x}/a", "other/{1}/a"} {
		if err := q.UnmarshalText([]byte(bad)); !errors.Is(err, state.ErrKey) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := json.Marshal(q); err == nil {
		t.Error("the zero queue has a text")
	}
}

// An id in the queue whose record is gone stops nobody.
func TestIDWithoutARecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		push := func() {
			t.Helper()
			if err := b.client().RPush(t.Context(), inbox.At(b.q, "queue"), "nothing").Err(); err != nil {
				t.Fatal(err)
			}
		}
		push() // at the head
		b.accept(b.entry("1"))
		l := b.claim(b.in)
		b.wantRecord(l, "1", 0)
		push() // behind another
		b.accept(b.entry("2"))
		b.finish(l, true)
		b.wantRecord(l, "2", 0)
		push() // and last
		b.finish(l, false)
		if b.claim(b.in) != nil {
			t.Error("there is more")
		}
	})
}

// What the layout before this one left is found, and nothing else.
func TestOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		ctx := t.Context()
		old := []string{
			b.q.String() + "/queue", b.q.String() + "/lease", b.q.String() + "/journal", b.q.String() + "/timers",
			b.q.String() + "/lanes/notices/queue", "planbot/{3}/parked", "planbot/{3}/timers", "planbot/{3}/leases",
		}
		rest := []string{"planbot/{3}/ready", "planbot/{3}/depth", "planbot/{3}/fence", "planbot/{3}/seen/x", "planbot/{3}/answers/y"}
		for _, key := range slices.Concat(old, rest, []string{"another/{3}/program"}) {
			if err := b.client().Set(ctx, key, "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		b.put(b.q, 1)
		b.put(b.q.Under("lanes", "queue"), 1)
		b.put(b.person(), 1)
		l := b.take(b.entry("hello"))
		b.accept(b.waiting("later", inbox.Wait{Until: time.Now().Add(time.Hour), Operator: true}))
		if n, err := b.in.Old(ctx); n != len(old) || err != nil {
			t.Errorf("%d old keys, %v, want %d", n, err, len(old))
		}
		if n, err := b.in.DropOld(ctx); n != len(old)+len(rest) || err != nil {
			t.Errorf("%d dropped, %v, want %d", n, err, len(old)+len(rest))
		}
		if n, err := b.in.Old(ctx); n != 0 || err != nil {
			t.Errorf("%d old keys, %v", n, err)
		}
		b.want(b.q, 1)
		b.want(b.q.Under("lanes", "queue"), 1)
		b.want(b.person(), 1)
		b.finish(l, false)
		if len(b.dead()) != 1 {
			t.Error("a dead letter is gone")
		}
		if n := b.client().Exists(ctx, "another/{3}/program").Val(); n != 1 {
			t.Error("what is not ours is gone")
		}
	})
}

// Two replicas take in and work on the records of some queues; now and then one lets go of
// a queue, or forgets it as a crash does. Every record is finished once, in the order in
// which its queue took it in.
func TestReplicas(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		const queues, records = 4, 12
		w := &work{b: b, done: map[state.Key][]string{}, ended: make(chan struct{}), left: queues * records}
		var accepts sync.WaitGroup
		replicas := []*inbox.Inbox{
			b.inbox(inbox.Config{Lease: shortLease, Name: "same"}), b.inbox(inbox.Config{Lease: shortLease, Name: "same"}),
		}
		for _, in := range replicas {
			b.run(in, hand)
		}
		for n := range queues {
			q := b.conversation(fmt.Sprint(n))
			desk.Store(q, func() { w.ready(replicas[rand.IntN(2)], q) })
			accepts.Go(func() {
				for i := range records {
					w.accept(replicas[i%2], q, fmt.Sprint(i))
				}
			})
		}
		accepts.Wait()
		<-w.ended
		w.turns.Wait()
		if len(w.done) != queues {
			t.Fatalf("%d queues were worked on", len(w.done))
		}
		for q, done := range w.done {
			w.lost -= len(done)
			done = slices.Compact(done)
			for i := range records {
				if len(done) != records || done[i] != fmt.Sprint(i) {
					t.Fatalf("%s was worked on in the order %v", q, done)
				}
			}
		}
		if w.lost != -queues*records {
			t.Errorf("%d records were worked on twice", -queues*records-w.lost)
		}
	})
}

type work struct {
	b     *bundle
	turns sync.WaitGroup
	ended chan struct{}

	mu   sync.Mutex
	done map[state.Key][]string
	left int // records to be finished
	lost int // records that were worked on twice
}

func (w *work) accept(in *inbox.Inbox, q state.Key, record string) {
	e := w.b.entry(record)
	e.Queue, e.Take = q, rand.IntN(4) > 0
	e.Duplicates = []inbox.Duplicate{{ID: record}}
	for range 3 { // a channel that sends thrice
		receipt, err := in.Accept(w.b.t.Context(), e)
		if err != nil {
			w.b.t.Errorf("accept: %v", err)
			return
		}
		if l := receipt.Lease; l != nil {
			w.turns.Go(func() { w.work(l) })
		}
		e.ID += "x"
	}
}

func (w *work) ready(in *inbox.Inbox, q state.Key) {
	select {
	case <-w.ended: // another test's reader is late
		return
	default:
	}
	l, err := in.Claim(context.Background(), q)
	if err != nil {
		w.b.t.Errorf("claim: %v", err)
	}
	if l != nil {
		w.turns.Go(func() { w.work(l) })
	}
}

func (w *work) work(l *inbox.Lease) {
	for more := true; more; {
		switch rand.IntN(12) {
		case 0:
			if err := l.Release(context.Background(), 0); err != nil {
				w.b.t.Errorf("release: %v", err)
			}
			return
		case 1:
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = l.Release(ended, 0) // nobody is told, for now
			return
		}
		w.mu.Lock()
		w.done[l.Queue()] = append(w.done[l.Queue()], string(l.Record()))
		w.mu.Unlock()
		var err error
		if more, err = l.Finish(context.Background(), nil); err != nil {
			w.failed(err)
			return
		}
		w.mu.Lock()
		if w.left--; w.left == 0 {
			close(w.ended)
		}
		w.mu.Unlock()
	}
}

// failed: on a machine that is slow a lease may run out.
func (w *work) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost++
	if !errors.Is(err, inbox.ErrLost) {
		w.b.t.Errorf("finish: %v", err)
	}
}

// What is done with leaves nothing behind but that it was delivered, and its answer.
func TestIdleQueuesCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		l := b.take(b.entry("1"))
		b.accept(b.entry("2"))
		scopes := b.load(b.person())
		for _, more := range []bool{true, false} {
			*number(scopes[0])++
			if err := l.Save(t.Context(), []byte("planned"), true, scopes...); err != nil {
				t.Fatal(err)
			}
			b.finish(l, more)
		}
		dropped := b.waiting("dropped", inbox.Wait{Operator: true, Until: time.Now().Add(time.Hour)})
		b.accept(dropped)
		if was, err := b.in.Drop(t.Context(), b.q, dropped.ID); !was || err != nil {
			t.Fatal(was, err)
		}
		due := b.waiting("due", inbox.Wait{Operator: true, Until: time.Now()})
		b.accept(due)
		b.in.Fire(t, b.q, due.ID)
		b.finish(b.claim(b.in), false)
		woken := b.waiting("woken", inbox.Wait{Operator: true})
		b.accept(woken)
		if err := b.in.Wake(t.Context(), b.find(woken.ID), nil); err != nil {
			t.Fatal(err)
		}
		b.finish(b.claim(b.in), false)
		for _, key := range b.client().Keys(t.Context(), "*").Val() {
			ttl := b.client().TTL(t.Context(), key).Val()
			name := key[strings.LastIndexByte(key, '/')+1:]
			if ttl <= 0 && name != "fence" && name != "depth" && name != "wake" || strings.Contains(key, "/notes/") {
				t.Errorf("%s is left", key)
			}
		}
		if depth := b.client().Get(t.Context(), inbox.Shared(b.q, "depth")).Val(); depth != "0" {
			t.Errorf("depth %q", depth)
		}
		if n, err := b.in.Depth(t.Context()); n != 0 || err != nil {
			t.Errorf("depth %d, %v", n, err)
		}
	})
}

// Foreign entries are left behind.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, serve(t))
		b.in = b.inbox(inbox.Config{Lease: 200 * time.Millisecond})
		ctx := t.Context()
		for _, value := range []string{"garbage", "planbot/{64}/a/b/conversations/c", "planbot/{x}/a"} {
			b.client().RPush(ctx, "planbot/2/{3}/wake", value)
			for _, set := range []string{"timers", "leases", "dead"} {
				b.client().ZAdd(ctx, "planbot/2/{3}/"+set, redis.Z{Score: 1, Member: value + "\nid"})
			}
		}
		claimed := b.claims(b.in)
		b.accept(b.queued("hello"))
		b.finish(<-claimed, false)
		b.accept(b.waiting("timer", inbox.Wait{Until: time.Unix(1, 0)})) // due long ago
		l := <-claimed
		b.wantRecord(l, "timer", 0)
		b.finish(l, false)
		if dead := b.dead(); len(dead) > 0 {
			t.Errorf("%+v", dead)
		}
		until(t, "an empty list", func() bool { return b.client().LLen(ctx, "planbot/2/{3}/wake").Val() == 0 })
	})
}

// TestBeside: what is saved beside a record is there for the process that takes it over, and for no
// other record.
func TestBeside(t *testing.T) {
	t.Parallel()
	setup(t, func(t *testing.T, b *bundle) {
		l := b.take(b.entry("hello"))
		b.accept(b.queued("next"))
		for _, beside := range []string{"first", "second"} {
			if err := l.SaveBeside(t.Context(), []byte(beside)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.SaveBeside(t.Context(), make([]byte, 1<<24)); !errors.Is(err, state.ErrTooLarge) {
			t.Errorf("a large one: %v", err)
		}
		late := l
		l = b.reclaim(l)
		b.wantRecord(l, "hello", 0)
		if got := string(l.Beside()); got != "second" {
			t.Errorf("beside the record is %q", got)
		}
		if err := late.SaveBeside(t.Context(), []byte("late")); !errors.Is(err, inbox.ErrLost) {
			t.Errorf("a late one: %v", err)
		}
		b.finish(l, true)
		b.wantRecord(l, "next", 0)
		if got := l.Beside(); got != nil {
			t.Errorf("beside the next record is %q", got)
		}
		if l = b.reclaim(l); l.Beside() != nil {
			t.Errorf("beside the next record is %q for the next process", l.Beside())
		}
		b.finish(l, false)
	})
}
