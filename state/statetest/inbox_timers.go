package statetest

import (
	"crypto/rand"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/planbot-go/planbot/state"
)

func (b *inboxBundle) timer(body string, in time.Duration) state.Timer {
	return state.Timer{
		Lane: b.lane, ID: rand.Text(), Owner: "Mia Müller", Body: []byte(body),
		At: time.Now().Add(in).Truncate(time.Millisecond),
	}
}

func (b *inboxBundle) schedule(t state.Timer) {
	b.t.Helper()
	if err := b.in.Schedule(b.t.Context(), t); err != nil {
		b.t.Fatal(err)
	}
}

func (b *inboxBundle) timers() []state.Timer {
	b.t.Helper()
	timers, err := b.in.Timers(b.t.Context(), b.lane)
	if err != nil {
		b.t.Fatal(err)
	}
	return timers
}

func testTimers(t *testing.T, b *inboxBundle) {
	b.in = b.inbox(state.InboxConfig{Lease: shortLease})
	later, soon := b.timer("later", time.Hour), b.timer("a\nbody\n", 300*time.Millisecond)
	b.schedule(later)
	b.schedule(soon)
	timers := b.timers()
	if len(timers) != 2 || timers[0].ID != soon.ID || timers[1].ID != later.ID {
		t.Fatalf("timers %+v", timers)
	}
	if got := timers[0]; string(got.Body) != string(soon.Body) || got.Owner != soon.Owner || !got.At.Equal(soon.At) || got.Lane != b.lane {
		t.Errorf("timer %+v, want %+v", got, soon)
	}
	b.claimAll(b.inbox(state.InboxConfig{Lease: shortLease})) // a second sweeper
	h := <-b.claimAll(b.in)
	if h.Item().Turn != soon.ID || h.Item().Accepted.Before(soon.At) {
		t.Errorf("item %+v of timer %+v", h.Item(), soon)
	}
	b.wantItem(h, string(soon.Body), "", 0)
	b.finish(h, false)
	if timers := b.timers(); len(timers) != 1 {
		t.Errorf("%d timers are left", len(timers))
	}
}

func testCancel(t *testing.T, b *inboxBundle) {
	b.in = b.inbox(state.InboxConfig{Lease: shortLease})
	claimed := b.claimAll(b.in)
	timer := b.timer("first", 200*time.Millisecond)
	b.schedule(timer)
	timer.Body, timer.At = []byte("second"), timer.At.Add(time.Hour)
	b.schedule(timer)
	if timers := b.timers(); len(timers) != 1 || string(timers[0].Body) != "second" {
		t.Errorf("timers %+v", timers)
	}
	last := b.timer("last", 400*time.Millisecond)
	b.schedule(last)
	h := <-claimed // and not what was put off
	b.wantItem(h, "last", "", 0)
	b.finish(h, false)
	for _, want := range []bool{true, false} {
		if was, err := b.in.Cancel(t.Context(), b.lane, timer.ID); was != want || err != nil {
			t.Errorf("cancel: %v, %v, want %v", was, err, want)
		}
	}
	if timers := b.timers(); len(timers) != 0 {
		t.Errorf("timers %+v", timers)
	}
}

func testTooManyTimers(t *testing.T, b *inboxBundle) {
	timer := b.timer("x", time.Hour)
	for i := range 100 {
		timer.ID = strconv.Itoa(i)
		b.schedule(timer)
	}
	timer.ID = "100"
	if err := b.in.Schedule(t.Context(), timer); !errors.Is(err, state.ErrFull) {
		t.Errorf("a hundred and first: %v", err)
	}
	timer.ID = "99" // replaced
	b.schedule(timer)
	for name, change := range map[string]func(*state.Timer){
		"no id":         func(t *state.Timer) { t.ID = "" },
		"a bad owner":   func(t *state.Timer) { t.Owner = "a\nb" },
		"the zero lane": func(t *state.Timer) { t.Lane = state.Lane{} },
	} {
		bad := timer
		change(&bad)
		if err := b.in.Schedule(t.Context(), bad); !errors.Is(err, state.ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range 100 {
		if was, err := b.in.Cancel(t.Context(), b.lane, strconv.Itoa(i)); !was || err != nil {
			t.Fatal(was, err)
		}
	}
}
