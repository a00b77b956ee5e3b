package state_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/state"
)

// testUpdate has many change one value, with a type that does not merge.
func testUpdate(t *testing.T, b *bundle) {
	key := state.BotKey().Under("tests", rand.Text())
	var at sync.WaitGroup
	const writers, each = 8, 5
	for range writers {
		at.Go(func() {
			for range each {
				err := b.Update(t.Context(), key, func(s *state.Scope) error {
					state.Of[Counter](s).N++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	at.Wait()
	if n := state.Of[Counter](load(t, b.Store, key)).N; n != writers*each {
		t.Errorf("n = %d, want %d", n, writers*each)
	}
}

// What the change refuses is not saved, and its error comes as it is, also one that would be tried
// again if it were Redis's.
func TestUpdateThatRefuses(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	put(t, r, key, 1)
	for _, want := range []error{errors.New("sold out"), state.ErrConflict, state.ErrUnavailable} {
		calls := 0
		err := r.Update(t.Context(), key, func(s *state.Scope) error {
			calls++
			state.Of[Counter](s).N = 7
			return want
		})
		if err != want || calls != 1 { //nolint:errorlint // as it is
			t.Errorf("%v after %d calls, want %v", err, calls, want)
		}
	}
	if n := state.Of[Counter](load(t, r, key)).N; n != 1 {
		t.Errorf("n = %d", n)
	}
}

// Others who always save first are no reason to go on for ever.
func TestUpdateThatAlwaysLoses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := state.Open(t.Context(), "", state.Config{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer closeRedis(t, r)
		calls, start := 0, time.Now()
		err = r.Update(t.Context(), key, func(s *state.Scope) error {
			calls++
			put(t, r, key, calls)
			state.Of[Counter](s).N = -1
			return nil
		})
		if took := time.Since(start); !errors.Is(err, state.ErrConflict) || took > 2*time.Second || calls < 3 {
			t.Errorf("%v after %d calls in %v", err, calls, took)
		}
		if n := state.Of[Counter](load(t, r, key)).N; n != calls {
			t.Errorf("n = %d after %d calls", n, calls)
		}
	})
}

// A save whose answer got lost is asked again, and counts once.
func TestUpdateWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprint("arrives ", arrives), func(t *testing.T) {
			t.Parallel()
			r := openEmbedded(t, state.Config{})
			put(t, r, key, 1)
			w, calls := &wire{}, 0
			r.AddHook(w)
			err := r.Update(t.Context(), key, func(s *state.Scope) error {
				calls++
				state.Of[Counter](s).N++
				w.lose = func(run func() error) error {
					w.lose = nil
					if !arrives {
						return io.ErrUnexpectedEOF
					}
					return errors.Join(run(), io.ErrUnexpectedEOF)
				}
				return nil
			})
			if n := state.Of[Counter](load(t, r, key)).N; err != nil || n != 2 || calls != 1 || w.lose != nil {
				t.Errorf("%v, n = %d after %d calls", err, n, calls)
			}
		})
	}
}

// What cannot be loaded is not changed.
func TestUpdateOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	r, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	never := func(*state.Scope) error {
		t.Error("it was called")
		return nil
	}
	if err := r.Client().Set(t.Context(), key.String(), "not ours", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Update(t.Context(), key, never); !errors.Is(err, state.ErrValue) {
		t.Error(err)
	}
	if err := r.Update(t.Context(), state.UserKey("", "", ""), never); !errors.Is(err, state.ErrKey) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Update(ended, key, never); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	closeRedis(t, r)
	start := time.Now()
	if err := r.Update(t.Context(), key, never); !errors.Is(err, state.ErrUnavailable) || time.Since(start) > 3*time.Second {
		t.Error(err, time.Since(start))
	}
}
