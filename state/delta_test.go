package state_test

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/state"
)

// shared is a store with one document that several turns have in hand.
type shared struct {
	*state.Redis
	t   *testing.T
	key state.Key
}

func newShared(t *testing.T) *shared {
	t.Helper()
	store, err := state.OpenEmbedded(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &shared{store, t, state.UserKey("test", "bot", "mia")}
}

func (b *shared) load() *state.Scope {
	b.t.Helper()
	scopes, err := b.Load(b.t.Context(), b.key)
	if err != nil {
		b.t.Fatal(err)
	}
	return scopes[0]
}

func (b *shared) save(s *state.Scope) {
	b.t.Helper()
	if err := b.Save(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

// change loads, changes and saves, as another turn does.
func (b *shared) change(change func(s *state.Scope)) {
	b.t.Helper()
	s := b.load()
	change(s)
	b.save(s)
}

// unwritten saves s, which has to find nothing that is to be written.
func (b *shared) unwritten(s *state.Scope) {
	b.t.Helper()
	other := b.load()
	b.save(s)
	*state.At[int](other, "other")++
	b.save(other) // no conflict
}

// lose saves s, which has to lose the race, and rebases it.
func (b *shared) lose(s *state.Scope) {
	b.t.Helper()
	if err := b.Save(b.t.Context(), s); !errors.Is(err, state.ErrConflict) {
		b.t.Fatalf("%v, want a conflict", err)
	}
	if err := s.Rebase(b.load()); err != nil {
		b.t.Fatal(err)
	}
}

// want checks the stored values, as JSON.
func (b *shared) want(values map[string]string) {
	b.t.Helper()
	s, got := b.load(), map[string]string{}
	for _, name := range []string{"person", "notes", "n", "place", "tags", "gone", "new"} {
		raw, err := s.JSON(name)
		if err != nil {
			b.t.Fatal(err)
		}
		if raw != nil {
			got[name] = string(raw)
		}
	}
	if diff := cmp.Diff(values, got); diff != "" {
		b.t.Error(diff)
	}
}

type Person struct {
	Name   string            `json:"name,omitzero"`
	Likes  []string          `json:"likes,omitzero"`
	Facts  map[string]string `json:"facts,omitzero"`
	cached string
}

// Place writes itself as an array.
type Place struct{ lat, long float64 }

func (p Place) MarshalJSON() ([]byte, error) { return json.Marshal([2]float64{p.lat, p.long}) }

func (p *Place) UnmarshalJSON(raw []byte) error {
	var pair [2]float64
	if err := json.Unmarshal(raw, &pair); err != nil {
		return err
	}
	p.lat, p.long = pair[0], pair[1]
	return nil
}

func TestRebase(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) {
		*state.Of[Person](s) = Person{Name: "Mia", Likes: []string{"tea", "jam"}, Facts: map[string]string{"city": "Rome"}}
		*state.At[map[string]string](s, "notes") = map[string]string{"a": "1", "b": "1"}
		*state.At[int](s, "n") = 5
		*state.Of[Place](s) = Place{41.9, 12.5}
		*state.At[string](s, "gone") = "x"
		*state.At[string](s, "theirs") = "x"
	})
	s := b.load()
	person, notes, n, place := state.Of[Person](s), state.At[map[string]string](s, "notes"), state.At[int](s, "n"), state.Of[Place](s)
	tags, looked := state.At[[]string](s, "tags"), state.At[string](s, "new")
	person.cached = "not kept"
	person.Likes = []string{"jam", "figs"}
	person.Facts["age"] = "7"
	(*notes)["a"] = "2"
	*n++
	*place = Place{48.8, 2.3}
	*tags = append(*tags, "mine")
	s.Remove("gone")
	state.At[string](s, "gone")
	b.change(func(s *state.Scope) {
		s.Remove("theirs")
		p := state.Of[Person](s)
		p.Name, p.Likes, p.Facts["city"] = "Mia B.", append(p.Likes, "nuts"), "Paris"
		delete(*state.At[map[string]string](s, "notes"), "b")
		*state.At[int](s, "n")++
		*state.At[[]string](s, "tags") = []string{"theirs"}
		*state.At[string](s, "new") = "theirs"
		*state.Of[Place](s) = Place{52.5, 13.4}
	})
	b.lose(s)

	want := Person{Name: "Mia B.", Likes: []string{"jam", "nuts", "figs"}, Facts: map[string]string{"city": "Paris", "age": "7"}}
	if diff := cmp.Diff(want, *person, cmp.AllowUnexported(Person{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "2"}, *notes); diff != "" {
		t.Error(diff)
	}
	if *n != 7 || *place != (Place{48.8, 2.3}) || *looked != "theirs" || !cmp.Equal(*tags, []string{"theirs", "mine"}) {
		t.Error(*n, *place, *looked, *tags)
	}
	if *state.At[string](s, "theirs") != "" || s.Err() != nil {
		t.Error("what they removed is still there", s.Err())
	}
	if state.Of[Person](s) != person || state.At[int](s, "n") != n {
		t.Error("a pointer is not live any more")
	}
	*n++ // the turn goes on with what it has in hand
	b.save(s)
	b.want(map[string]string{
		"person": `{"name":"Mia B.","likes":["jam","nuts","figs"],"facts":{"age":"7","city":"Paris"}}`,
		"notes":  `{"a":"2"}`, "n": `8`, "place": `[48.8,2.3]`, "tags": `["theirs","mine"]`, "new": `"theirs"`,
	})
}

func TestRebaseOnADeletedDocument(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) {
		*state.Of[Person](s) = Person{Name: "Mia", Likes: []string{"tea"}}
		*state.At[int](s, "n") = 5
	})
	s := b.load()
	person, n := state.Of[Person](s), state.At[int](s, "n")
	person.Likes = append(person.Likes, "figs")
	b.change(func(s *state.Scope) { s.Delete() })
	b.lose(s)
	b.save(s)
	b.want(map[string]string{"person": `{"likes":["figs"]}`})
	if *n != 0 || person.Name != "" {
		t.Error("the turn still sees what was deleted", *n, person)
	}
}

func TestRebaseOfADeletion(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) {
		*state.Of[Person](s) = Person{Name: "Mia", Likes: []string{"tea"}}
		*state.At[int](s, "n") = 5
	})
	s := b.load()
	s.Delete()
	b.change(func(s *state.Scope) { p := state.Of[Person](s); p.Likes = append(p.Likes, "figs") })
	b.lose(s)
	b.save(s)
	b.want(map[string]string{"person": `{"likes":["figs"]}`})
}

func TestRestoreAfterRebase(t *testing.T) {
	t.Parallel()
	for name, saved := range map[string]bool{"before the race": false, "saved, then raced": true} {
		b := newShared(t)
		b.change(func(s *state.Scope) {
			*state.Of[Person](s) = Person{Name: "Mia", Likes: []string{"tea"}}
			*state.At[int](s, "n") = 5
		})
		s := b.load()
		state.Of[Person](s).Facts = map[string]string{"before": "1"}
		secured := s.Checkpoint()
		state.Of[Person](s).Likes = []string{"undone"}
		*state.At[int](s, "n") += 10
		*state.At[string](s, "new") = "undone"
		if saved {
			b.save(s)
		}
		b.change(func(s *state.Scope) {
			p := state.Of[Person](s)
			p.Name, p.Likes = "Mia B.", append(p.Likes, "theirs")
			*state.At[int](s, "n")++
		})
		*state.At[string](s, "tags") = "undone"
		b.lose(s)
		s.Restore(secured)
		if got := *state.At[int](s, "n"); got != 6 {
			t.Errorf("%s: n is %d", name, got)
		}
		b.save(s)
		b.want(map[string]string{"person": `{"name":"Mia B.","likes":["tea","theirs"],"facts":{"before":"1"}}`, "n": `6`})
	}
}

func TestRebaseOfWhatWasSavedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	s, before := b.load(), b.load()
	*state.At[int](s, "n") = 1
	state.Unanswered(b.t, b.Redis, s)
	if s.Rebase(before) != nil || *state.At[int](s, "n") != 1 {
		t.Error("a rebase on the same document changed something")
	}
	b.save(s) // is no conflict with what arrived late
	*state.At[int](s, "n") = 7
	state.Unanswered(b.t, b.Redis, s)
	*state.At[int](s, "n") = 2
	if err := s.Rebase(b.load()); err != nil || *state.At[int](s, "n") != 2 {
		t.Error("an own write was taken for another's", err, *state.At[int](s, "n"))
	}
	b.save(s)
	b.want(map[string]string{"n": `2`})
}

// TestRebaseAfterNoAnswer: a count that may be in what others built on is not added again.
func TestRebaseThatLeavesNothingToSave(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) { *state.At[string](s, "gone") = "x"; *state.At[string](s, "new") = "x" })
	s := b.load()
	both := func(s *state.Scope) { s.Remove("gone"); *state.At[string](s, "new") = "y" }
	both(s)
	b.change(both)
	b.lose(s)
	b.unwritten(s)
}

func TestRebaseAfterNoAnswer(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	s := b.load()
	*state.At[int](s, "n") = 1
	state.Unanswered(t, b.Redis, s)
	b.change(func(s *state.Scope) { *state.At[string](s, "new") = "theirs" })
	b.lose(s)
	b.save(s)
	b.want(map[string]string{"n": `1`, "new": `"theirs"`})
}

func TestRebaseOfWhatDoesNotFitTogether(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) { *state.At[[2]string](s, "place") = [2]string{"a", "b"} })
	s := b.load()
	*state.At[[2]string](s, "place") = [2]string{"c", "d"}
	b.change(func(s *state.Scope) { *state.At[[2]string](s, "place") = [2]string{"e", "f"} })
	b.lose(s) // four words do not fit
	b.save(s)
	b.want(map[string]string{"place": `["c","d"]`})
}

// TestCountsOfManyTurns: turns of one person in many conversations, each of
// which counts, adds and looks, as often as it takes.
func TestCountsOfManyTurns(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	const turns = 8
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() {
			s, err := b.Load(t.Context(), b.key)
			if err != nil {
				t.Error(err)
				return
			}
			state.Of[Person](s[0]).Likes = append(state.Of[Person](s[0]).Likes, fmt.Sprint(i))
			*state.At[int](s[0], "n")++
			for err = b.Save(t.Context(), s[0]); errors.Is(err, state.ErrConflict); err = b.Save(t.Context(), s[0]) {
				fresh, err := b.Load(t.Context(), b.key)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s[0].Rebase(fresh[0]); err != nil {
					t.Error(err)
					return
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := b.load()
	likes := state.Of[Person](s).Likes
	slices.Sort(likes)
	if n := *state.At[int](s, "n"); n != turns || len(slices.Compact(likes)) != turns {
		t.Errorf("%d turns made %d and %v", turns, n, likes)
	}
}

func TestRebaseRefuses(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) { *state.At[int](s, "n") = 5; *state.At[string](s, "gone") = "x" })
	s := b.load()
	state.At[int](s, "n")
	s.Remove("gone")
	*state.At[string](s, "new") = "mine"
	b.change(func(s *state.Scope) { s.Remove("n"); *state.At[string](s, "n") = "other" })
	if err := s.Rebase(b.load()); !errors.Is(err, state.ErrValue) || *state.At[int](s, "n") != 5 {
		t.Errorf("a value of another type: %v", err)
	}
	if err := b.Save(t.Context(), s); !errors.Is(err, state.ErrConflict) {
		t.Errorf("a refused rebase left something behind: %v", err)
	}
	if d, err := s.Changes(); err != nil || len(d.Values) != 2 {
		t.Errorf("a refused rebase forgot a change: %v, %v", d, err)
	}
	if err := s.Rebase(state.NewScope()); err == nil {
		t.Error("another document was taken")
	}
	faulty := b.load()
	state.At[int](faulty, "n")
	if err := s.Rebase(faulty); !errors.Is(err, state.ErrValue) {
		t.Errorf("a faulty one was taken: %v", err)
	}
	if err := faulty.Rebase(s); !errors.Is(err, state.ErrValue) {
		t.Errorf("a faulty one was rebased: %v", err)
	}
	if _, err := faulty.Changes(); !errors.Is(err, state.ErrValue) {
		t.Errorf("changes of a faulty one: %v", err)
	}
	if err := faulty.Apply(state.Delta{}); !errors.Is(err, state.ErrValue) {
		t.Errorf("applied to a faulty one: %v", err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	want := func(s *state.Scope, want string) {
		t.Helper()
		d, err := s.Changes()
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(d, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("changed: %s\n   want: %s", got, want)
		}
	}
	s := b.load()
	want(s, `{}`)
	*state.At[map[string]int](s, "notes") = map[string]int{}
	state.At[int](s, "n")
	want(s, `{}`) // only looked at
	*state.At[int](s, "n") = 5
	*state.At[string](s, "gone") = "x"
	want(s, `{"values":{"gone":{"to":"x"},"n":{"to":5}}}`)
	b.save(s)
	want(s, `{}`)
	state.At[*int](s, "new")
	s.Remove("gone")
	want(s, `{"values":{"gone":{"from":"x"}}}`)
	s.Delete()
	*state.At[int](s, "n") = 6
	want(s, `{"values":{"gone":{"from":"x"},"n":{"from":5,"to":6}}}`)
	b.save(s)
	want(s, `{}`)
	*state.At[any](s, "bad") = func() {}
	if _, err := s.Changes(); !errors.Is(err, state.ErrValue) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("a value that JSON cannot hold: %v", err)
	}
}

// TestMarkedChangesAreAppliedOnce: whether a delta was saved is known, also when
// others built on it.
func TestMarkedChangesAreAppliedOnce(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) { *state.At[int](s, "n") = 5 })
	for _, saved := range []bool{true, false} {
		s := b.load()
		if d, err := s.MarkChanges(); err != nil || len(d.Values) != 0 {
			t.Fatal("no change was marked", d, err)
		}
		*state.At[int](s, "n") = 6
		var d state.Delta
		for range 2 { // the first time, nothing could be written
			var err error
			if d, err = s.MarkChanges(); err != nil {
				t.Fatal(err)
			}
		}
		if saved {
			b.save(s)
		}
		for range 20 {
			b.change(func(s *state.Scope) { *state.At[int](s, "n") += 10 })
		}
		for range 2 {
			taken := b.load()
			if err := taken.Apply(d); err != nil {
				t.Fatal(err)
			}
			b.save(taken)
		}
		b.want(map[string]string{"n": "206"})
		b.change(func(s *state.Scope) { *state.At[int](s, "n") = 5 })
	}
}

func TestMarksStayFewAndGo(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	mark := func(s *state.Scope) {
		if _, err := s.MarkChanges(); err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		b.change(func(s *state.Scope) { *state.At[int](s, "n")++; mark(s); mark(s) })
	}
	if n := len(*state.At[[]string](b.load(), "state.marks")); n != 16 {
		t.Errorf("%d marks are kept", n)
	}
	s := b.load()
	s.Delete()
	state.Of[Person](s)
	mark(s)
	b.save(s)
	if b.load().Has("state.marks") {
		t.Error("a mark outlived its document")
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	b := newShared(t)
	b.change(func(s *state.Scope) {
		*state.Of[Person](s) = Person{Name: "Mia", Likes: []string{"tea"}}
		*state.At[string](s, "gone") = "x"
	})
	s := b.load()
	state.Of[Person](s).Likes = []string{"tea", "figs"}
	*state.At[int](s, "n") = 5
	s.Remove("gone")
	d, err := s.Changes()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := stdjson.Marshal(d) // as a journal may be written
	if err != nil {
		t.Fatal(err)
	}
	// The process dies here. Another conversation writes, then the turn is taken over, twice.
	b.change(func(s *state.Scope) { p := state.Of[Person](s); p.Likes = append(p.Likes, "nuts") })
	for round := range 2 {
		var d state.Delta
		if err := stdjson.Unmarshal(kept, &d); err != nil {
			t.Fatal(err)
		}
		s := b.load()
		n := state.At[int](s, "n") // live before, as after a load by someone else
		if err := s.Apply(d); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			b.unwritten(s)
		}
		if *n != 5 || !cmp.Equal(state.Of[Person](s).Likes, []string{"tea", "nuts", "figs"}) {
			t.Error(*n, state.Of[Person](s))
		}
		b.save(s)
		b.want(map[string]string{"person": `{"name":"Mia","likes":["tea","nuts","figs"]}`, "n": "5"})
	}
	b.change(func(s *state.Scope) { *state.Of[Person](s) = Person{Name: "Mia"} })
	undecided := b.load()
	bad := state.Delta{Values: map[string]state.Change{"n": {To: []byte("{\n")}}}
	if err := undecided.Apply(bad); !errors.Is(err, state.ErrValue) {
		t.Errorf("what is no JSON was applied: %v", err)
	}
}
