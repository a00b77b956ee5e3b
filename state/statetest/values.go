package statetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/state"
)

// notes is a typical value: a struct with a map and a slice.
type notes struct {
	Title string              `json:"title"`
	Lists map[string][]string `json:"lists"`
	Seen  int64               `json:"seen"`
}

func testPing(t *testing.T, b *bundle) {
	if err := b.Ping(b.t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testEmpty(t *testing.T, b *bundle) {
	s := b.one(b.conversation("a"))
	if s.Has("notes") || s.Err() != nil {
		t.Errorf("a new scope has notes or an error: %v", s.Err())
	}
	if got := *state.Of[notes](s); got.Title != "" || got.Lists != nil {
		t.Errorf("a new value is %+v", got)
	}
	if scopes := b.load(); len(scopes) != 0 {
		t.Errorf("loading nothing gave %d scopes", len(scopes))
	}
}

func testRoundTrip(t *testing.T, b *bundle) {
	key := b.conversation("a")
	want := notes{
		Title: "line\nbreak, {brace}, ünïcode \x00 and \u2028",
		Lists: map[string][]string{"groceries": {"milk", "eggs"}, "": nil, "b": {}},
		Seen:  1<<62 + 1,
	}
	s := b.one(key)
	*state.Of[notes](s) = want
	b.save(s)
	want.Lists[""] = []string{} // JSON has one kind of empty list
	s = b.one(key)
	if !s.Has("notes") {
		t.Error("the stored value is missing")
	}
	if diff := cmp.Diff(want, *state.Of[notes](s)); diff != "" {
		t.Error(diff)
	}
}

func testOrder(_ *testing.T, b *bundle) {
	keys := []state.Key{b.conversation("c"), b.user("u"), b.conversation("c;messageid=1"), b.user("c")}
	scopes := b.load(keys...)
	for i, s := range scopes {
		*state.At[int](s, "n") = i + 1
	}
	b.save(scopes[2], scopes[0], scopes[3], scopes[1])
	for i, s := range b.load(keys...) {
		if got := *state.At[int](s, "n"); got != i+1 || s.Key() != keys[i] {
			b.t.Errorf("scope %d is %s with n = %d", i, s.Key(), got)
		}
	}
}

func testNames(t *testing.T, b *bundle) {
	ids := []string{"a", "A", "a/b", "a%2Fb", "a b", "{1}", "}", "a;messageid=1", "..", "a\nb", "\xff", "ü", strings.Repeat("x", 1024)}
	for i, id := range ids {
		s := b.one(b.conversation(id))
		for j, name := range ids {
			*state.At[int](s, name) = 1 + 100*i + j
		}
		b.save(s)
	}
	for i, id := range ids {
		s := b.one(b.conversation(id))
		for j, name := range ids {
			if got := *state.At[int](s, name); got != 1+100*i+j {
				t.Errorf("value %q of %q is %d", name, id, got)
			}
		}
	}
}

func testUntouched(t *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	m := map[int]int{}
	for i := range 20 { // the order of a map differs from walk to walk
		m[i] = i
	}
	*state.At[map[int]int](s, "map") = m
	b.save(s)
	mine := b.one(key)
	_ = *state.At[map[int]int](mine, "map") // looked at only
	b.put(key, 2)
	if err := b.Save(b.t.Context(), mine); err != nil {
		t.Errorf("saving what did not change: %v", err)
	}
	b.want(key, 2)
}

func testLookedAt(_ *testing.T, b *bundle) {
	key := b.conversation("a")
	mine, theirs := b.one(key), b.one(key)
	state.Of[notes](mine)
	*state.At[map[string]int](mine, "m") = map[string]int{}
	*state.At[int](theirs, "n") = 2
	b.save(theirs)
	b.save(mine) // would be a conflict if it wrote
	s := b.one(key)
	if s.Has("notes") || s.Has("m") {
		b.t.Error("values that were only looked at were stored")
	}
	b.want(key, 2)
}

func testUntouchedValues(t *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	*state.At[string](s, "kept") = "as it is"
	*state.At[int](s, "n") = 1
	b.save(s)
	b.put(key, 2)
	s = b.one(key)
	if raw, err := s.JSON("kept"); err != nil || string(raw) != `"as it is"` {
		t.Errorf("the untouched value is stored as %s, %v", raw, err)
	}
	if got := *state.At[string](s, "kept"); got != "as it is" {
		t.Errorf("the untouched value is %q", got)
	}
}

func testSecondSave(_ *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	n := state.At[int](s, "n")
	for *n < 3 {
		*n++
		b.save(s)
	}
	b.want(key, 3)
}

func testRemove(t *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	*state.At[string](s, "gone") = "x"
	*state.At[int](s, "n") = 1
	b.save(s)
	s = b.one(key)
	s.Remove("gone")
	s.Remove("never there")
	if s.Has("gone") {
		t.Error("the removed value is still there")
	}
	b.save(s)
	if b.one(key).Has("gone") {
		t.Error("the removed value came back")
	}
	b.want(key, 1)
}

func testDelete(t *testing.T, b *bundle) {
	key := b.conversation("a")
	b.put(key, 1)
	s := b.one(key)
	s.Delete()
	b.save(s)
	if b.one(key).Has("n") {
		t.Error("the deleted scope has a value")
	}
	*state.At[int](s, "n") = 2 // the same scope, later in the turn
	b.save(s)
	b.want(key, 2)
}

func testDeleteThenWrite(t *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	*state.At[string](s, "old") = "x"
	*state.At[int](s, "n") = 1
	b.save(s)
	s = b.one(key)
	dead := state.At[int](s, "n")
	s.Delete()
	*dead = 7
	if got := *state.At[int](s, "n"); got != 0 {
		t.Errorf("after Delete a value starts as %d", got)
	}
	*state.At[int](s, "n") = 2
	b.save(s)
	if b.one(key).Has("old") {
		t.Error("a deleted value came back")
	}
	b.want(key, 2)
}

func testDecodeFault(t *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	*state.At[string](s, "n") = "not a number"
	b.save(s)
	s = b.one(key)
	if got := state.At[int](s, "n"); got == nil || *got != 0 {
		t.Errorf("a value that does not decode is %v", got)
	}
	*state.At[int](s, "other") = 1
	wantValueFault(t, b, s, key)
	if again := b.one(key); again.Has("other") || *state.At[string](again, "n") != "not a number" {
		t.Error("a scope with a fault was saved")
	}
	s.Remove("n")
	b.save(s)
	if again := b.one(key); !again.Has("other") || again.Has("n") {
		t.Error("removing the faulty value does not heal the scope")
	}
}

func wantValueFault(t *testing.T, b *bundle, s *state.Scope, key state.Key) {
	t.Helper()
	var fault *state.ValueError
	for what, err := range map[string]error{"Err": s.Err(), "Save": b.Save(b.t.Context(), s)} {
		if !errors.Is(err, state.ErrValue) || !errors.As(err, &fault) || fault.Key != key || fault.Name != "n" {
			t.Errorf("%s: %v, want a ValueError for n", what, err)
		}
	}
}

func testEncodeFault(t *testing.T, b *bundle) {
	key, user := b.conversation("a"), b.user("u")
	scopes := b.load(user, key)
	*state.At[int](scopes[0], "n") = 1
	*state.At[any](scopes[1], "n") = make(chan int)
	err := b.Save(b.t.Context(), scopes...)
	var fault *state.ValueError
	if !errors.As(err, &fault) || fault.Key != key || fault.Name != "n" {
		t.Errorf("%v, want a ValueError for n", err)
	}
	if b.one(user).Has("n") {
		t.Error("another scope was saved although one could not be")
	}
}
