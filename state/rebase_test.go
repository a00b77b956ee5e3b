package state_test

import (
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// race loads a document twice, changes both, saves theirs, and rebases ours on that.
func race(t *testing.T, start, theirs, ours func(*state.Scope)) (*state.Store, *state.Scope, error) {
	t.Helper()
	r := openEmbedded(t, state.Config{})
	change := func(f func(*state.Scope)) {
		s := load(t, r, key)
		f(s)
		if err := r.Save(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	change(start)
	s := load(t, r, key)
	change(theirs)
	ours(s)
	return r, s, s.Rebase(load(t, r, key))
}

func set(name string, text string) func(*state.Scope) {
	return func(s *state.Scope) { *state.At[string](s, name) = text }
}

// A value that only one side changed is as that side left it.
func TestRebaseOfDifferentValues(t *testing.T) {
	t.Parallel()
	both := func(s *state.Scope) {
		set("a", "1")(s)
		set("b", "1")(s)
		set("c", "1")(s)
		set("d", "1")(s)
		set("e", "1")(s)
	}
	var live *string
	r, s, err := race(t, both, func(s *state.Scope) {
		set("a", "theirs")(s)
		s.Remove("b")
		set("new", "theirs")(s)
		s.Remove("e")
	}, func(s *state.Scope) {
		live = state.At[string](s, "a") // looked at only
		state.At[string](s, "b")
		set("c", "ours")(s)
		s.Remove("d")
		s.Remove("e")
	})
	if err != nil {
		t.Fatal(err)
	}
	if *live != "theirs" {
		t.Errorf("the live value is %q", *live)
	}
	for range 2 {
		for name, want := range map[string]string{"a": "theirs", "b": "", "c": "ours", "d": "", "e": "", "new": "theirs"} {
			if got := *state.At[string](s, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if err := r.Save(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		s = load(t, r, key)
	}
}

// A value that both changed is nobody's to merge: the scope stays as it was.
func TestRebaseConflicts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		theirs, ours func(*state.Scope)
		value        string // that the error names
	}{
		"both changed":     {set("a", "theirs"), set("a", "ours"), "a"},
		"both counted up":  {set("a", "2"), set("a", "2"), "a"},
		"removed and not":  {set("a", "theirs"), func(s *state.Scope) { s.Remove("a") }, "a"},
		"not and removed":  {func(s *state.Scope) { s.Remove("a") }, set("a", "ours"), "a"},
		"both added":       {set("b", "theirs"), set("b", "ours"), "b"},
		"removed for both": {set("a", "theirs"), func(s *state.Scope) { s.Remove("a"); set("a", "ours")(s) }, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s, err := race(t, set("a", "1"), tt.theirs, tt.ours)
			var conflict *state.ConflictError
			if !errors.Is(err, state.ErrConflict) || !errors.As(err, &conflict) || conflict.Conflicted[0] != key || conflict.Value != tt.value || !strings.Contains(err.Error(), "value "+tt.value) {
				t.Fatalf("%v, want a conflict", err)
			}
			if s.Err() != nil {
				t.Error(s.Err())
			}
			wantConflict(t, r.Save(t.Context(), s), []state.Key{key}, nil) // as it was
		})
	}
}

// What a handler writes into a scope after it emptied it is all that the scope holds.
func TestRebaseOfADeletedScope(t *testing.T) {
	t.Parallel()
	r, s, err := race(t, set("a", "1"), func(s *state.Scope) {
		set("a", "theirs")(s)
		set("b", "theirs")(s)
		set("c", "theirs")(s)
	}, func(s *state.Scope) {
		s.Delete()
		set("c", "ours")(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s = load(t, r, key)
	if s.Has("a") || s.Has("b") || *state.At[string](s, "c") != "ours" {
		t.Errorf("left: %v", s.Names())
	}
}

// Counters and sets merge, also where one side has none yet.
func TestRebaseMerges(t *testing.T) {
	t.Parallel()
	r, s, err := race(t, func(s *state.Scope) {
		*state.At[state.Counter](s, "count") = 30
		*state.At[state.Set](s, "names") = state.Set{"gone": true, "gone too": true, "stays": true}
	}, func(s *state.Scope) {
		*state.At[state.Counter](s, "count") += 10
		*state.At[state.Counter](s, "new") += 2
		*state.At[state.Counter](s, "same")++
		names := *state.At[state.Set](s, "names")
		delete(names, "gone")
		names["theirs"] = true
		*state.At[state.Set](s, "more") = state.Set{"theirs": true}
	}, func(s *state.Scope) {
		*state.At[state.Counter](s, "count")++
		*state.At[state.Counter](s, "new") += 3
		*state.At[state.Counter](s, "same")++
		names := *state.At[state.Set](s, "names")
		names["gone too"] = false
		names["ours"] = true
		*state.At[state.Set](s, "more") = state.Set{"ours": true}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s = load(t, r, key)
	for name, want := range map[string]state.Counter{"count": 41, "new": 5, "same": 2} {
		if got := *state.At[state.Counter](s, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]state.Set{"names": {"stays": true, "theirs": true, "ours": true}, "more": {"theirs": true, "ours": true}} {
		got := *state.At[state.Set](s, name)
		maps.DeleteFunc(got, func(_ string, in bool) bool { return !in })
		if !maps.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// longest is a type of the caller's that merges.
type longest struct{ Text string }

func (l *longest) Merge(_, theirs *longest) {
	if len(theirs.Text) > len(l.Text) {
		l.Text = theirs.Text
	}
}

func TestRebaseMergesATypeOfTheCallers(t *testing.T) {
	t.Parallel()
	write := func(text string) func(*state.Scope) {
		return func(s *state.Scope) { state.Of[longest](s).Text = text }
	}
	_, s, err := race(t, write("1"), write("theirs, long"), write("ours"))
	if got := state.Of[longest](s).Text; err != nil || got != "theirs, long" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRebaseRefuses(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	s, other := load(t, r, key), load(t, r, state.UserKey("test", "bot", "u"))
	if err := s.Rebase(other); !errors.Is(err, state.ErrKey) {
		t.Errorf("another document: %v", err)
	}
	put(t, r, key, 1)
	if err := s.Rebase(load(t, r, key)); err != nil {
		t.Error(err)
	}
	fresh := load(t, r, key)
	state.At[string](fresh, "counter")
	if err := s.Rebase(fresh); !errors.Is(err, state.ErrValue) {
		t.Errorf("a fresh one with a fault: %v", err)
	}
	late := load(t, r, key)
	state.At[string](s, "counter")
	if err := s.Rebase(late); !errors.Is(err, state.ErrValue) {
		t.Errorf("a fault: %v", err)
	}
}

// A value whose type does not fit what others stored is a fault, and the scope as it was.
func TestRebaseOnAnotherType(t *testing.T) {
	t.Parallel()
	_, s, err := race(t, set("other", "1"), func(s *state.Scope) { *state.At[string](s, "counter") = "x" },
		func(s *state.Scope) { state.Of[Counter](s) })
	if !errors.Is(err, state.ErrValue) || !strings.Contains(err.Error(), `value "counter"`) || s.Err() != nil {
		t.Errorf("%v, and %v", err, s.Err())
	}
}

// An own save that got no answer is no conflict with itself.
func TestRebaseOnAnOwnWrite(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	put(t, r, key, 1)
	s := load(t, r, key)
	saveUnanswered(t, r, s, "again", true)
	state.Of[Counter](s).N = 3
	if err := s.Rebase(load(t, r, key)); err != nil {
		t.Fatal(err)
	}
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := state.Of[Counter](load(t, r, key)).N; got != 3 {
		t.Errorf("n = %d", got)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	put(t, r, key, 1)
	s := load(t, r, key)
	want := func(what string, want bool) {
		t.Helper()
		if got, err := s.Changed(); got != want || err != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	want("loaded", false)
	n := &state.Of[Counter](s).N
	want("looked at", false)
	*n = 2
	want("changed", true)
	*n = 1
	want("changed back", false)
	s.Delete()
	want("deleted", true)
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want("gone", false)
	s.Delete()
	want("deleted again", false)
	*state.At[any](s, "bad") = make(chan int)
	if _, err := s.Changed(); !errors.Is(err, state.ErrValue) {
		t.Errorf("a value that does not encode: %v", err)
	}
}

// A checkpoint brings values back, whatever was saved since, and the next save knows it.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(t *testing.T, r *state.Store, s *state.Scope){
		"nothing": func(*testing.T, *state.Store, *state.Scope) {},
		"a save": func(t *testing.T, r *state.Store, s *state.Scope) {
			if err := r.Save(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		},
		"a delete and a save": func(t *testing.T, r *state.Store, s *state.Scope) {
			s.Delete()
			if err := r.Save(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		},
		"a save without an answer": func(t *testing.T, r *state.Store, s *state.Scope) {
			w := &wire{}
			w.lose = func(run func() error) error {
				w.lose = nil
				return errors.Join(run(), io.ErrUnexpectedEOF)
			}
			r.AddHook(w)
			if err := r.Save(t.Context(), s); !errors.Is(err, state.ErrUnavailable) {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openEmbedded(t, state.Config{})
			start := load(t, r, key)
			set("untouched", "1")(start)
			set("removed", "1")(start)
			state.Of[Counter](start).N = 1
			if err := r.Save(t.Context(), start); err != nil {
				t.Fatal(err)
			}
			s := load(t, r, key)
			state.Of[Counter](s).N = 2
			c := s.Checkpoint()
			state.Of[Counter](s).N = 3
			s.Remove("removed")
			set("new", "x")(s)
			between(t, r, s)
			s.Restore(c)
			if err := r.Save(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			s = load(t, r, key)
			if n := state.Of[Counter](s).N; n != 2 || s.Has("new") || *state.At[string](s, "removed") != "1" || *state.At[string](s, "untouched") != "1" {
				t.Errorf("n = %d, values %v", n, s.Names())
			}
		})
	}
}

// What others did since a checkpoint is not undone in silence.
func TestRestoreAfterARebase(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{})
	put(t, r, key, 1)
	s := load(t, r, key)
	c := s.Checkpoint()
	put(t, r, key, 2)
	if err := s.Rebase(load(t, r, key)); err != nil {
		t.Fatal(err)
	}
	s.Restore(c)
	if err := r.Save(t.Context(), s); !errors.Is(err, state.ErrConflict) {
		t.Errorf("save: %v", err)
	}
}
