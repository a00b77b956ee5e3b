package state_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/state"
)

var lane = key.Lane("")

func openInbox(t testing.TB, r *state.Redis, cfg state.InboxConfig) *state.Inbox {
	t.Helper()
	in, err := r.Inbox(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in
}

// runInbox runs in until the test ends, or leave is called.
func runInbox(t testing.TB, in *state.Inbox, ready func(state.Lane)) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx, ready) }()
	leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(leave)
	return leave
}

// claims runs in and sends what it claims.
func claims(t testing.TB, in *state.Inbox) <-chan *state.Hold {
	t.Helper()
	claimed, _ := claimsUntil(t, in)
	return claimed
}

func claimsUntil(t testing.TB, in *state.Inbox) (_ <-chan *state.Hold, leave func()) {
	t.Helper()
	claimed := make(chan *state.Hold, 100)
	leave = runInbox(t, in, func(lane state.Lane) {
		h, err := in.Claim(context.Background(), lane)
		if err != nil {
			t.Errorf("claim: %v", err)
		}
		if h != nil {
			claimed <- h
		}
	})
	return claimed, leave
}

func entry(body string) state.Entry {
	return state.Entry{Lane: lane, Turn: rand.Text(), Body: []byte(body), Take: true}
}

func accept(t testing.TB, in *state.Inbox, e state.Entry) state.Receipt {
	t.Helper()
	receipt, err := in.Accept(t.Context(), e)
	if err != nil {
		t.Fatalf("accept %s: %v", e.Body, err)
	}
	return receipt
}

func claim(t testing.TB, in *state.Inbox) *state.Hold {
	t.Helper()
	h, err := in.Claim(t.Context(), lane)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return h
}

func finish(t testing.TB, h *state.Hold, want bool) {
	t.Helper()
	if more, err := h.Finish(t.Context(), nil); more != want || err != nil {
		t.Fatalf("finish: %v, %v, want %v", more, err, want)
	}
}

func wantBody(t testing.TB, h *state.Hold, body string) {
	t.Helper()
	if h == nil || string(h.Item().Body) != body {
		t.Fatalf("no hold, or another item than %q: %+v", body, h)
	}
}

func TestInboxConfig(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	for name, cfg := range map[string]state.InboxConfig{
		"Lease": {Lease: 1}, "Patience": {Patience: -1}, "DuplicateFor": {DuplicateFor: 1},
		"MaxWaiting": {MaxWaiting: -1}, "MaxWaitingPerLane": {MaxWaitingPerLane: -1},
	} {
		if _, err := r.Inbox(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What one message costs on the wire.
func TestInboxRoundTrips(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in := openInbox(t, r, state.InboxConfig{})
	user := state.UserKey("test", "bot", "another partition")
	w := &wire{}
	for _, warm := range []bool{true, false} {
		if !warm {
			r.AddHook(w)
		}
		e := entry("hello")
		e.Duplicates = []state.Duplicate{{ID: e.Turn}}
		e.Load = []state.Key{key, user}
		receipt := accept(t, in, e)
		w.did(t, "accept", btoi(!warm), ifElse(warm, "", "evalsha getrange getrange"))
		for _, s := range receipt.Scopes {
			state.Of[Counter](s).N++
		}
		if err := receipt.Hold.Save(t.Context(), []byte("journal"), receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
		w.did(t, "save", 2*btoi(!warm), ifElse(warm, "", "evalsha evalsha"))
		if err := receipt.Hold.Save(t.Context(), nil, receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
		w.did(t, "save of nothing", 0, "")
		finish(t, receipt.Hold, false)
		w.did(t, "finish", btoi(!warm), ifElse(warm, "", "evalsha"))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ifElse(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// Each call meets a server that knows no script, as after a failover.
func TestInboxScriptsAreMissing(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in := openInbox(t, r, state.InboxConfig{})
	flush := func() {
		if err := r.Client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, r, key, 1)
	e := entry("hello")
	e.Load = []state.Key{key}
	receipt := accept(t, in, e)
	if n := state.Of[Counter](receipt.Scopes[0]).N; n != 1 {
		t.Errorf("n = %d", n)
	}
	flush()
	state.Of[Counter](receipt.Scopes[0]).N = 2
	if err := receipt.Hold.Save(t.Context(), []byte("journal"), receipt.Scopes...); err != nil {
		t.Fatal(err)
	}
	flush()
	if err := receipt.Hold.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	flush()
	h := claim(t, in)
	wantBody(t, h, "hello")
	flush()
	finish(t, h, false)
}

// lost runs a test of what a call does whose first answer gets lost, after it
// arrived or before.
func lost(t *testing.T, test func(t *testing.T, in *state.Inbox, lose func())) {
	t.Helper()
	for name, arrives := range map[string]bool{"answer": true, "question": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openEmbedded(t, state.Config{})
			state.LoadScripts(t, r)
			in := openInbox(t, r, state.InboxConfig{})
			w := &wire{}
			r.AddHook(w)
			test(t, in, func() {
				w.lose = func(run func() error) error {
					w.lose = nil
					if arrives {
						if err := run(); err != nil {
							return err
						}
					}
					return io.ErrUnexpectedEOF
				}
			})
			if w.lose != nil {
				t.Error("no answer got lost")
			}
			if stats := in.Stats(); stats.Lost > 0 || stats.Takeovers > 0 || stats.Held > 0 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

func TestInboxLosesAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *state.Inbox, func()){
		"accept and take": func(t *testing.T, in *state.Inbox, lose func()) {
			e := entry("1")
			e.Load = []state.Key{key}
			lose()
			receipt := accept(t, in, e)
			if len(receipt.Scopes) != 1 {
				t.Errorf("%+v", receipt)
			}
			finish(t, receipt.Hold, false)
		},
		"accept": func(t *testing.T, in *state.Inbox, lose func()) {
			h := accept(t, in, entry("1")).Hold
			e := entry("2")
			e.Duplicates = []state.Duplicate{{ID: "a"}, {ID: "b"}}
			lose()
			if receipt := accept(t, in, e); receipt.Duplicate || receipt.Hold != nil {
				t.Errorf("%+v", receipt)
			}
			finish(t, h, true)
			finish(t, h, false)
		},
		"claim": func(t *testing.T, in *state.Inbox, lose func()) {
			e := entry("1")
			e.Take = false
			accept(t, in, e)
			lose()
			finish(t, claim(t, in), false)
		},
		"save":    lostSave,
		"release": lostRelease,
		"finish": func(t *testing.T, in *state.Inbox, lose func()) {
			h := accept(t, in, entry("1")).Hold
			lose()
			if more, err := h.Finish(t.Context(), []byte("answer")); more || err != nil {
				t.Error(more, err)
			}
			if answer, err := in.Answer(t.Context(), lane, h.Item().Turn); string(answer) != "answer" || err != nil {
				t.Errorf("%q, %v", answer, err)
			}
		},
		"finish, and there is more": func(t *testing.T, in *state.Inbox, lose func()) {
			h := accept(t, in, entry("1")).Hold
			accept(t, in, entry("2"))
			accept(t, in, entry("3"))
			lose()
			finish(t, h, true)
			wantBody(t, h, "2")
			finish(t, h, true)
			wantBody(t, h, "3")
			finish(t, h, false)
		},
		"park and put back": lostPark,
		"drop": func(t *testing.T, in *state.Inbox, lose func()) {
			h := accept(t, in, entry("1")).Hold
			if more, err := h.Park(t.Context(), "x", nil); more || err != nil {
				t.Fatal(more, err)
			}
			lose()
			if err := in.Drop(t.Context(), h.Item().Turn); err != nil {
				t.Error(err)
			}
		},
		"timers": lostTimers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost(t, test)
		})
	}
}

func lostSave(t *testing.T, in *state.Inbox, lose func()) {
	e := entry("1")
	user := state.UserKey("test", "bot", "another partition")
	e.Load = []state.Key{key, user}
	receipt := accept(t, in, e)
	for range 2 {
		for _, s := range receipt.Scopes {
			state.Of[Counter](s).N++
		}
		lose()
		if err := receipt.Hold.Save(t.Context(), []byte("journal"), receipt.Scopes...); err != nil {
			t.Fatal(err)
		}
	}
	state.Of[Counter](receipt.Scopes[0]).N++
	lose()
	if more, err := receipt.Hold.Finish(t.Context(), nil, receipt.Scopes...); more || err != nil {
		t.Fatal(more, err)
	}
	e.Turn = rand.Text()
	receipt = accept(t, in, e)
	if a, b := state.Of[Counter](receipt.Scopes[0]).N, state.Of[Counter](receipt.Scopes[1]).N; a != 3 || b != 2 {
		t.Errorf("n = %d and %d", a, b)
	}
	finish(t, receipt.Hold, false)
}

func lostRelease(t *testing.T, in *state.Inbox, lose func()) {
	h := accept(t, in, entry("1")).Hold
	lose()
	if err := h.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	h = claim(t, in)
	wantBody(t, h, "1")
	finish(t, h, false)
}

func lostPark(t *testing.T, in *state.Inbox, lose func()) {
	h := accept(t, in, entry("1")).Hold
	turn := h.Item().Turn
	accept(t, in, entry("2"))
	lose()
	if more, err := h.Park(t.Context(), "x", nil); !more || err != nil {
		t.Fatal(more, err)
	}
	wantBody(t, h, "2")
	for _, want := range []error{nil, state.ErrNoTurn} {
		if want == nil {
			lose() // of the search, and the search goes on
		}
		if err := in.Unpark(t.Context(), turn); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	finish(t, h, true)
	wantBody(t, h, "1")
	finish(t, h, false)
}

func lostTimers(t *testing.T, in *state.Inbox, lose func()) {
	timer := state.Timer{Lane: lane, ID: "t", Body: []byte("x")}
	timer.At = timer.At.AddDate(9998, 0, 0)
	lose()
	if err := in.Schedule(t.Context(), timer); err != nil {
		t.Fatal(err)
	}
	if timers, err := in.Timers(t.Context(), lane); len(timers) != 1 || err != nil {
		t.Fatal(timers, err)
	}
	lose()
	if was, err := in.Cancel(t.Context(), lane, "t"); !was || err != nil {
		t.Fatal(was, err)
	}
	if was, err := in.Cancel(t.Context(), lane, "t"); was || err != nil {
		t.Fatal(was, err)
	}
}

// The answer to a finish gets lost, and before it is asked again another replica
// takes the lane for the next message: that is no lost lane.
func TestFinishedAndTakenByAnother(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	state.LoadScripts(t, r)
	in, other := openInbox(t, r, state.InboxConfig{}), openInbox(t, r, state.InboxConfig{})
	h := accept(t, in, entry("1")).Hold
	var next *state.Hold
	w := &wire{}
	w.lose = func(run func() error) error {
		w.lose = nil
		if err := run(); err != nil {
			return err
		}
		next = accept(t, other, entry("2")).Hold
		return io.ErrUnexpectedEOF
	}
	r.AddHook(w)
	finish(t, h, false)
	wantBody(t, next, "2")
	finish(t, next, false)
	if n := in.Stats().Lost; n > 0 {
		t.Errorf("%d lost", n)
	}
}

// Items that this program cannot read are put aside as they are, and no reason to stop.
func TestUnreadableItems(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"2 turn-x 17 whatever a newer program\nwrites", "garbage", "", "1 turn-x\n", "1 turn-x soon\n{}", "1 turn-x 1 99\n{}", "1 turn-x 1 x\n{}",
	} {
		r := openEmbedded(t, state.Config{})
		in := openInbox(t, r, state.InboxConfig{})
		push := func() {
			t.Helper()
			if err := r.Client().RPush(t.Context(), lane.String()+"/queue", raw).Err(); err != nil {
				t.Fatal(err)
			}
		}
		push() // at the head of a lane
		accept(t, in, entry("1"))
		h := claim(t, in)
		wantBody(t, h, "1")
		parked, err := in.Parked(t.Context())
		if err != nil || len(parked) != 1 || !parked[0].Raw || string(parked[0].Body) != raw || parked[0].Reason == "" {
			t.Fatalf("%q was parked as %+v, %v", raw, parked, err)
		}
		if err := in.Unpark(t.Context(), parked[0].Turn); err != nil { // and behind another item
			t.Fatal(err)
		}
		if back := r.Client().LIndex(t.Context(), lane.String()+"/queue", -1).Val(); back != raw {
			t.Errorf("%q was put back as %q", raw, back)
		}
		accept(t, in, entry("2"))
		finish(t, h, true)
		wantBody(t, h, "2")
		push() // and is the last
		finish(t, h, false)
		if claim(t, in) != nil {
			t.Error("there is more")
		}
	}
}

// What lies among the parked turns and cannot be read is shown as it is.
func TestUnreadableParked(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	in := openInbox(t, r, state.InboxConfig{})
	for turn, text := range map[string]string{"a": "garbage", "b": `{"format":2,"news":1}`} {
		if err := r.Client().HSet(t.Context(), "planbot/{7}/parked", turn, text).Err(); err != nil {
			t.Fatal(err)
		}
		parked, err := in.Parked(t.Context())
		if err != nil || len(parked) != 1 || parked[0].Turn != turn || string(parked[0].Body) != text || parked[0].Reason == "" {
			t.Errorf("%+v, %v", parked, err)
		}
		if err := in.Unpark(t.Context(), turn); err == nil || !strings.Contains(err.Error(), parked[0].Reason) {
			t.Errorf("put back: %v", err)
		}
		if err := in.Drop(t.Context(), turn); err != nil {
			t.Error(err)
		}
	}
}
