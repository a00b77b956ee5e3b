package state_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/state"
)

// wire watches what goes to the server, and may lose answers.
type wire struct {
	mu    sync.Mutex
	trips int                          // round trips
	sent  []string                     // names of the commands
	asked int                          // bytes, by the last getrange
	lose  func(run func() error) error // runs what is sent, or not, and says what comes back

	unanswered int // place in the pipeline, from 0, of a command whose answer gets lost; 0: none
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "hello" || name == "cluster" {
			return next(ctx, cmd)
		}
		w.note(cmd)
		if w.lose == nil {
			return next(ctx, cmd)
		}
		err := w.lose(func() error { return next(ctx, cmd) })
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.note(cmds...)
		if w.lose == nil {
			err := next(ctx, cmds)
			if w.unanswered > 0 {
				cmds[w.unanswered].SetErr(io.ErrUnexpectedEOF)
			}
			return err
		}
		err := w.lose(func() error { return next(ctx, cmds) })
		if err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (w *wire) note(cmds ...redis.Cmder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trips++
	for _, cmd := range cmds {
		w.sent = append(w.sent, cmd.Name())
		if cmd.Name() == "getrange" {
			w.asked = cmd.Args()[3].(int) + 1
		}
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

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); countTrips(t, openEmbedded(t, state.Config{})) })
	if url := os.Getenv("PLANBOT_TEST_REDIS_URL"); url != "" { // TestContractServer says that it is unset
		t.Run("server", func(t *testing.T) { t.Parallel(); countTrips(t, openURL(t, url, state.Config{})) })
	}
}

func countTrips(t *testing.T, r *state.Store) {
	namespace := t.Name() + time.Now().Format(time.RFC3339Nano)
	keys := []state.Key{
		state.ConversationKey("test", namespace, "a"),
		state.ConversationKey("test", namespace, "a;messageid=1"),
		state.UserKey("test", namespace, "uu"), // another partition
	}
	warm := load(t, r, keys[0])
	*state.At[int](warm, "warm") = 1
	if err := r.Save(t.Context(), warm); err != nil { // the script is known from now on
		t.Fatal(err)
	}
	w := &wire{}
	r.AddHook(w)
	scopes, err := r.Load(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	w.did(t, "load of three", 1, "getrange getrange getrange")
	save := func() {
		t.Helper()
		if err := r.Save(t.Context(), scopes...); err != nil {
			t.Fatal(err)
		}
	}
	save()
	w.did(t, "save of nothing", 0, "")
	for _, s := range scopes {
		state.Of[Counter](s).N++
	}
	save()
	w.did(t, "save of three in two partitions", 1, "evalsha evalsha")
	state.Of[Counter](scopes[2]).N++
	save()
	w.did(t, "save of one", 1, "evalsha")
	save()
	w.did(t, "save of what is saved", 0, "")
	scopes[0].Remove("counter")
	scopes[1].Delete()
	save()
	w.did(t, "a removal and a delete in one partition", 1, "evalsha")
	save()
	w.did(t, "save of what is gone", 0, "")
}

func TestScriptIsLoadedWhereItIsMissing(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	w := &wire{}
	r.AddHook(w)
	put(t, r, key, 1)
	w.did(t, "a first save", 3, "getrange evalsha eval")
	put(t, r, key, 2)
	w.did(t, "a second save", 2, "getrange evalsha")
	if err := r.Client().ScriptFlush(t.Context()).Err(); err != nil { // as a failover does
		t.Fatal(err)
	}
	put(t, r, key, 3)
	if got := state.Of[Counter](load(t, r, key)).N; got != 3 {
		t.Errorf("n = %d", got)
	}
}

// The answer to a save gets lost on the way, or the save itself does: what the
// caller tries again arrives, and is no conflict with itself.
func TestSaveWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"arrived": true, "lost": false} {
		for _, change := range []string{"again", "changed", "changed back", "deleted", "written after delete"} {
			t.Run(name+" and "+change, func(t *testing.T) {
				t.Parallel()
				r := openEmbedded(t, state.Config{})
				put(t, r, key, 1)
				s := load(t, r, key)
				saveUnanswered(t, r, s, change, arrives)
				want := retry(t, s, change)
				if err := r.Save(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				if got := state.Of[Counter](load(t, r, key)).N; got != want {
					t.Errorf("n = %d, want %d", got, want)
				}
			})
		}
	}
}

func saveUnanswered(t *testing.T, r *state.Store, s *state.Scope, change string, arrives bool) {
	t.Helper()
	state.Of[Counter](s).N = 2
	if change == "written after delete" {
		s.Delete()
	}
	w := &wire{}
	w.lose = func(run func() error) error {
		w.lose = nil
		if arrives {
			if err := run(); err != nil {
				return err
			}
		}
		return io.ErrUnexpectedEOF
	}
	r.AddHook(w)
	if err := r.Save(t.Context(), s); !errors.Is(err, state.ErrUnavailable) {
		t.Fatalf("save without an answer: %v", err)
	}
}

// retry changes s for the second try and returns the n that it should leave.
func retry(t *testing.T, s *state.Scope, change string) int {
	t.Helper()
	switch change {
	case "again":
		return 2
	case "changed", "written after delete":
		state.Of[Counter](s).N = 3
		return 3
	case "changed back":
		state.Of[Counter](s).N = 1
		return 1
	case "deleted":
		s.Delete()
		return 0
	}
	t.Fatalf("unknown change %q", change)
	return 0
}

// One partition lost the race, and of another it is not known: both are said,
// and trying again with what was not lost is no conflict.
func TestConflictBesideNoAnswer(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	user := state.UserKey("test", "bot", "another partition")
	scopes, err := r.Load(t.Context(), key, user)
	if err != nil {
		t.Fatal(err)
	}
	put(t, r, key, 1)
	state.Of[Counter](scopes[0]).N = 2
	state.Of[Counter](scopes[1]).N = 2
	w := &wire{unanswered: 1}
	r.AddHook(w)
	err = r.Save(t.Context(), scopes...)
	var conflict *state.ConflictError
	if !errors.Is(err, state.ErrUnavailable) || !errors.As(err, &conflict) ||
		len(conflict.Conflicted) != 1 || conflict.Conflicted[0] != key || len(conflict.Saved) != 0 {
		t.Fatalf("%v, want a conflict of %s and no answer", err, key)
	}
	w.unanswered = 0
	if err := r.Save(t.Context(), scopes[1]); err != nil {
		t.Error(err)
	}
}

// The client itself repeats a command whose answer got lost: the script knows
// its own version again.
func TestScriptMayRunTwice(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	put(t, r, key, 1)
	w := &wire{lose: func(run func() error) error { return errors.Join(run(), run()) }}
	r.AddHook(w)
	put(t, r, key, 2)
	s := load(t, r, key)
	s.Delete()
	if err := r.Save(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// Documents live on while they are in use, and end when they are not.
func TestTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{TTL: 100 * time.Second})
		w := &wire{}
		r.AddHook(w)
		use := func(change bool) bool {
			s := load(t, r, key)
			found := s.Has("counter")
			if change {
				state.Of[Counter](s).N++
			}
			if err := r.Save(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			return found
		}
		use(true)
		time.Sleep(90 * time.Second)
		if !use(true) {
			t.Error("gone before its time")
		}
		time.Sleep(90 * time.Second)
		if !use(false) {
			t.Error("a save did not renew the TTL")
		}
		time.Sleep(90 * time.Second)
		if !use(false) {
			t.Error("a use without a change did not renew the TTL")
		}
		time.Sleep(102 * time.Second)
		if use(false) {
			t.Error("still there after its time")
		}
	})
}

// A use without a change costs a command only when a tenth of the TTL has passed since the last write
// or renewal, whoever renewed it.
func TestRecentlyRenewedIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{TTL: 100 * time.Second})
		put(t, r, key, 1)
		w := &wire{}
		r.AddHook(w)
		save := func(s *state.Scope) {
			t.Helper()
			if err := r.Save(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(9 * time.Second)
		s := load(t, r, key)
		save(s)
		w.did(t, "a use soon after", 1, "getrange")
		for i := range 30 { // long after it was written
			time.Sleep(12 * time.Second)
			save(s)
			if i == 0 {
				w.did(t, "a use later", 2, "evalsha eval") // the server does not know the script yet
			} else {
				w.did(t, "a use later", 1, "evalsha")
			}
			save(s)
			w.did(t, "another use of the same", 0, "")
			time.Sleep(9 * time.Second)
			s = load(t, r, key)
			save(s)
			w.did(t, "a use soon after it was renewed", 1, "getrange")
		}
		if got := state.Of[Counter](load(t, r, key)).N; got != 1 {
			t.Errorf("the renewed document has %d, want 1", got)
		}
	})
}

// A renewal is no change: it loses to whoever wrote or deleted the document meanwhile, and whoever read
// the document before it saves without a conflict.
func TestRenewalIsNoChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{TTL: 100 * time.Second})
		put(t, r, key, 1)
		time.Sleep(20 * time.Second)
		idle, busy := load(t, r, key), load(t, r, key)
		if err := r.Save(t.Context(), idle); err != nil {
			t.Fatal(err)
		}
		state.Of[Counter](busy).N = 2
		if err := r.Save(t.Context(), busy); err != nil {
			t.Errorf("a change of what was read before the renewal: %v", err)
		}
		time.Sleep(20 * time.Second)
		late, gone := load(t, r, key), load(t, r, key)
		gone.Delete()
		for _, s := range []*state.Scope{gone, late} {
			if err := r.Save(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if left := load(t, r, key); left.Has("counter") || left.Err() != nil {
			t.Errorf("the renewal brought a deleted document back: %v", left.Err())
		}
	})
}

// A counter ends with its window, which later numbers do not extend.
func TestCounterWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := openEmbedded(t, state.Config{})
		count := func(add int) int {
			one := state.Tally{Key: key.Under("test", "n"), Add: add, Window: time.Minute}
			sums, err := r.Count(t.Context(), one, one)
			if err != nil {
				t.Fatal(err)
			}
			return sums[1]
		}
		count(0) // does not begin the window; the script is known from now on
		w := &wire{}
		r.AddHook(w)
		count(0)
		w.did(t, "two counters", 1, "evalsha evalsha")
		time.Sleep(30 * time.Second)
		for i, want := range []int{2, 4, 2} {
			if got := count(1); got != want {
				t.Errorf("%d: %d, want %d", i, got, want)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

// TestMain fails when a test leaves a goroutine behind: Close ends them all.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClose(t *testing.T) {
	t.Parallel()
	r, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Embedded() || !strings.Contains(r.String(), "embedded") {
		t.Errorf("%q does not say that it is embedded", r)
	}
	put(t, r, key, 1)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Load(t.Context(), key); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("load after Close: %v", err)
	}
}
