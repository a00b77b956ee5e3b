package state_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/state"
)

// testStore checks the contract on the stores that open makes, with the limits of
// the zero [state.Config]. Every test uses random keys of its own: the store
// may be one that others use at the same time.
func testStore(t *testing.T, open func(t *testing.T) *state.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *bundle){
		"ping":                               testPing,
		"a new scope is empty":               testEmpty,
		"values come back":                   testRoundTrip,
		"scopes come in the order of keys":   testOrder,
		"names and ids are kept apart":       testNames,
		"untouched scopes are not written":   testUntouched,
		"values only looked at are not kept": testLookedAt,
		"untouched values survive a save":    testUntouchedValues,
		"a second save of one turn":          testSecondSave,
		"removing a value":                   testRemove,
		"deleting a scope":                   testDelete,
		"delete, then write":                 testDeleteThenWrite,
		"the later of two turns loses":       testConflict,
		"two first turns":                    testConflictOnNew,
		"delete and make again (ABA)":        testConflictABA,
		"a delete can lose":                  testConflictDelete,
		"deleting twice":                     testDeleteTwice,
		"a lost race is made up for":         testRebase,
		"one partition, all or nothing":      testPartitionIsAtomic,
		"what was saved beside a conflict":   testPartlySaved,
		"values that do not decode":          testDecodeFault,
		"values that do not encode":          testEncodeFault,
		"too large to save":                  testTooLarge,
		"keys that cannot be":                testBadKeys,
		"scopes that cannot be saved":        testUnsavable,
		"a context that ended":               testContext,
		"many writers lose nothing":          testManyWriters,
		"updates outside of turns":           testUpdate,
		"sets have no races":                 testSets,
		"a set is drained":                   testDrain,
		"a drain that ends early":            testDrainThatEnds,
		"a member that comes back":           testComesBack,
		"counters add up":                    testCount,
		"a log is in order":                  testLog,
		"a log that many write":              testLogOfMany,
		"rows of a table":                    testRows,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBundle(t, open(t)))
		})
	}
}

// bundle is a store and keys that no other test uses.
type bundle struct {
	*state.Store
	t         *testing.T
	namespace string
}

func newBundle(t *testing.T, s *state.Store) *bundle {
	t.Helper()
	return &bundle{Store: s, t: t, namespace: "test-" + rand.Text()}
}

// conversation is the key of a conversation of this test; the same id twice
// is the same key.
func (b *bundle) conversation(id string) state.Key {
	return state.ConversationKey("test", b.namespace, id)
}

func (b *bundle) user(id string) state.Key { return state.UserKey("test", b.namespace, id) }

// load loads what must load.
func (b *bundle) load(keys ...state.Key) []*state.Scope {
	b.t.Helper()
	scopes, err := b.Load(b.t.Context(), keys...)
	if err != nil {
		b.t.Fatalf("load %v: %v", keys, err)
	}
	return scopes
}

// one loads one scope.
func (b *bundle) one(key state.Key) *state.Scope {
	b.t.Helper()
	return b.load(key)[0]
}

// save saves what must save.
func (b *bundle) save(scopes ...*state.Scope) {
	b.t.Helper()
	if err := b.Save(b.t.Context(), scopes...); err != nil {
		b.t.Fatalf("save: %v", err)
	}
}

// put stores one number under the name n.
func (b *bundle) put(key state.Key, n int) {
	b.t.Helper()
	s := b.one(key)
	*state.At[int](s, "n") = n
	b.save(s)
}

// want checks the number stored under the name n.
func (b *bundle) want(key state.Key, n int) {
	b.t.Helper()
	if got := *state.At[int](b.one(key), "n"); got != n {
		b.t.Errorf("%s has n = %d, want %d", key, got, n)
	}
}

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
	for what, err := range map[string]error{"Err": s.Err(), "Save": b.Save(b.t.Context(), s)} {
		if !errors.Is(err, state.ErrValue) || !strings.Contains(err.Error(), key.String()) || !strings.Contains(err.Error(), `value "n"`) {
			t.Errorf("%s: %v, want an ErrValue for n", what, err)
		}
	}
}

func testEncodeFault(t *testing.T, b *bundle) {
	key, user := b.conversation("a"), b.user("u")
	scopes := b.load(user, key)
	*state.At[int](scopes[0], "n") = 1
	*state.At[any](scopes[1], "n") = make(chan int)
	err := b.Save(b.t.Context(), scopes...)
	if !errors.Is(err, state.ErrValue) || !strings.Contains(err.Error(), key.String()) || !strings.Contains(err.Error(), `value "n"`) {
		t.Errorf("%v, want an ErrValue for n", err)
	}
	if b.one(user).Has("n") {
		t.Error("another scope was saved although one could not be")
	}
}

// wantConflict checks that err is a conflict over exactly these keys.
func wantConflict(t *testing.T, err error, lost, saved []state.Key) {
	t.Helper()
	var conflict *state.ConflictError
	if !errors.Is(err, state.ErrConflict) || !errors.As(err, &conflict) {
		t.Fatalf("%v, want a conflict", err)
	}
	if !slices.Equal(conflict.Conflicted, lost) || !slices.Equal(conflict.Saved, saved) {
		t.Errorf("conflicted %v and saved %v, want %v and %v", conflict.Conflicted, conflict.Saved, lost, saved)
	}
}

func testConflict(t *testing.T, b *bundle) {
	key := b.conversation("a")
	b.put(key, 1)
	first, second := b.one(key), b.one(key)
	*state.At[int](first, "n") = 2
	*state.At[int](second, "n") = 3
	b.save(first)
	wantConflict(t, b.Save(b.t.Context(), second), []state.Key{key}, nil)
	wantConflict(t, b.Save(b.t.Context(), second), []state.Key{key}, nil) // and stays one
	b.want(key, 2)
	*state.At[int](first, "n") = 4
	b.save(first)
	b.want(key, 4)
}

func testConflictOnNew(t *testing.T, b *bundle) {
	key := b.conversation("a")
	first, second := b.one(key), b.one(key)
	*state.At[int](first, "n") = 1
	*state.At[int](second, "n") = 1 // the same document, and still another turn
	b.save(first)
	wantConflict(t, b.Save(b.t.Context(), second), []state.Key{key}, nil)
}

func testConflictABA(t *testing.T, b *bundle) {
	key := b.conversation("a")
	b.put(key, 1)
	old := b.one(key)
	s := b.one(key)
	s.Delete()
	b.save(s)
	b.put(key, 1) // as it was, and not the same
	*state.At[int](old, "n") = 5
	wantConflict(t, b.Save(b.t.Context(), old), []state.Key{key}, nil)
	b.want(key, 1)
}

func testConflictDelete(t *testing.T, b *bundle) {
	key := b.conversation("a")
	b.put(key, 1)
	s := b.one(key)
	b.put(key, 2)
	s.Delete()
	wantConflict(t, b.Save(b.t.Context(), s), []state.Key{key}, nil)
	b.want(key, 2)
}

func testRebase(t *testing.T, b *bundle) {
	key := b.conversation("a")
	s := b.one(key)
	*state.At[state.Counter](s, "count") = 1
	*state.At[int](s, "n") = 1
	b.save(s)
	first, second := b.one(key), b.one(key)
	*state.At[state.Counter](first, "count") += 2
	*state.At[int](first, "n") = 2
	count := state.At[state.Counter](second, "count")
	*count += 3
	n := state.At[int](second, "n")
	b.save(first)
	wantConflict(t, b.Save(b.t.Context(), second), []state.Key{key}, nil)
	if err := second.Rebase(b.one(key)); err != nil || *count != 6 || *n != 2 {
		t.Fatalf("rebased to %d and %d: %v", *count, *n, err)
	}
	b.save(second)
	if s := b.one(key); *state.At[state.Counter](s, "count") != 6 {
		t.Errorf("stored %d", *state.At[state.Counter](s, "count"))
	}
	b.want(key, 2)
}

func testDeleteTwice(_ *testing.T, b *bundle) {
	key := b.conversation("a")
	b.put(key, 1)
	first, second := b.one(key), b.one(key)
	first.Delete()
	second.Delete()
	b.save(first)
	b.save(second) // gone is what it wanted
	never := b.one(b.conversation("never there"))
	never.Delete()
	b.save(never)
}

func testPartitionIsAtomic(t *testing.T, b *bundle) {
	channel, thread := b.conversation("a"), b.conversation("a;messageid=1")
	mine := b.load(channel, thread)
	b.put(channel, 1)
	*state.At[int](mine[0], "n") = 2
	*state.At[int](mine[1], "n") = 2
	wantConflict(t, b.Save(b.t.Context(), mine...), []state.Key{channel, thread}, nil)
	b.want(channel, 1)
	b.want(thread, 0)
}

// otherPartition finds a user whose key is in another partition than key.
func (b *bundle) otherPartition(key state.Key) state.Key {
	tag, _, _ := strings.Cut(key.String(), "}")
	for id := "u"; ; id += "u" {
		if user := b.user(id); !strings.HasPrefix(user.String(), tag+"}") {
			return user
		}
	}
}

func testPartlySaved(t *testing.T, b *bundle) {
	key := b.conversation("a")
	user := b.otherPartition(key)
	mine := b.load(key, user)
	b.put(key, 1)
	*state.At[int](mine[0], "n") = 2
	*state.At[int](mine[1], "n") = 2
	wantConflict(t, b.Save(b.t.Context(), mine...), []state.Key{key}, []state.Key{user})
	b.want(user, 2)
	*state.At[int](mine[1], "n") = 3 // the saved one goes on from there
	b.save(mine[1])
	b.want(user, 3)
}

func testTooLarge(t *testing.T, b *bundle) {
	key, user := b.conversation("a"), b.user("u")
	scopes := b.load(user, key)
	*state.At[int](scopes[0], "n") = 1
	text := state.At[string](scopes[1], "text")
	*text = strings.Repeat("x", 1<<20)
	err := b.Save(b.t.Context(), scopes...)
	if !errors.Is(err, state.ErrTooLarge) || !strings.Contains(err.Error(), key.String()) || !strings.Contains(err.Error(), "the limit is 1048576") {
		t.Errorf("%v, want an ErrTooLarge for %s", err, key)
	}
	if b.one(user).Has("n") {
		t.Error("another scope was saved although one was too large")
	}
	*text = (*text)[:1<<20-100]
	b.save(scopes...)
	if got := *state.At[string](b.one(key), "text"); got != *text {
		t.Errorf("a scope that just fits came back with %d bytes", len(got))
	}
}

func testBadKeys(t *testing.T, b *bundle) {
	for name, key := range map[string]state.Key{
		"zero":       {},
		"no channel": state.ConversationKey("", "b", "c"),
		"no bot":     state.UserKey("c", "", "u"),
		"no id":      state.UserKey("c", "b", ""),
		"long id":    state.ConversationKey("c", "b", strings.Repeat("x", 1025)),
	} {
		if scopes, err := b.Load(b.t.Context(), b.user("u"), key); !errors.Is(err, state.ErrKey) || scopes != nil {
			t.Errorf("%s: %v, want ErrKey", name, err)
		}
	}
}

func testUnsavable(t *testing.T, b *bundle) {
	if err := b.Save(b.t.Context(), state.NewScope()); !errors.Is(err, state.ErrKey) {
		t.Errorf("a detached scope: %v", err)
	}
	key := b.conversation("a")
	twins := b.load(key, key)
	*state.At[int](twins[0], "n") = 1
	*state.At[int](twins[1], "n") = 2
	if err := b.Save(b.t.Context(), twins...); err == nil {
		t.Error("two changed scopes of one key were saved")
	}
	if b.one(key).Has("n") {
		t.Error("one of two scopes of one key was saved")
	}
	b.save(twins[0], twins[0])
	b.want(key, 1)
}

func testContext(t *testing.T, b *bundle) {
	ended, cancel := context.WithCancel(b.t.Context())
	cancel()
	key := b.conversation("a")
	if _, err := b.Load(ended, key); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v", err)
	}
	s := b.one(key)
	*state.At[int](s, "n") = 1
	if err := b.Save(ended, s); !errors.Is(err, context.Canceled) {
		t.Errorf("save: %v", err)
	}
	if err := b.Ping(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ping: %v", err)
	}
	b.save(s) // and again, with a better context
	b.want(key, 1)
}

func testManyWriters(_ *testing.T, b *bundle) {
	const writers, rounds = 4, 5
	key := b.conversation("a")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for try, done := 0, 0; done < rounds; try++ {
				if try > 1000 {
					b.t.Error("a thousand conflicts in a row")
					return
				}
				s := b.one(key)
				*state.At[int](s, "n")++
				err := b.Save(b.t.Context(), s)
				if err == nil {
					done++
				} else if !errors.Is(err, state.ErrConflict) {
					b.t.Errorf("save: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.want(key, writers*rounds)
}

// set is the key of a set of this test.
func (b *bundle) set() state.Key { return b.user("Mia").Under("notes", "places") }

func (b *bundle) join(members ...string) {
	b.t.Helper()
	for _, member := range members {
		if err := b.Join(b.t.Context(), b.set(), member); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bundle) wantMembers(want ...string) {
	b.t.Helper()
	var got []string
	err := b.Members(b.t.Context(), b.set(), func(members []string) error {
		got = append(got, members...)
		return nil
	})
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); err != nil || !slices.Equal(got, want) {
		b.t.Errorf("members %q, want %q, error %v", got, want, err)
	}
}

// testSets: what many put in at the same time is there, and leaves.
func testSets(t *testing.T, b *bundle) {
	b.wantMembers()
	var want []string
	var joining sync.WaitGroup
	for n := range 250 {
		member := fmt.Sprint("a place ", n)
		want = append(want, member)
		joining.Go(func() { b.join(member, "everywhere") })
	}
	joining.Wait()
	b.wantMembers(append(want, "everywhere")...)
	for range 2 {
		if err := b.Leave(t.Context(), b.set(), "everywhere"); err != nil {
			t.Error(err)
		}
	}
	b.wantMembers(want...)
	if err := b.Join(t.Context(), state.Key{}, "x"); !errors.Is(err, state.ErrKey) {
		t.Errorf("join of the zero key: %v", err)
	}
}

// testDrain: each member is handed out, and those that are not done or come back stay.
func testDrain(t *testing.T, b *bundle) {
	for n := range 250 {
		b.join(fmt.Sprint(n))
	}
	handed := map[string]int{}
	err := b.Drain(t.Context(), b.set(), func(members []string) ([]string, error) {
		var done []string
		for _, member := range members {
			handed[member]++
			switch {
			case member == "7" && handed[member] == 1:
				b.join(member)
				done = append(done, member)
			case member != "8":
				done = append(done, member)
			}
		}
		return done, nil
	})
	if err != nil || len(handed) != 250 {
		t.Errorf("%d members, error %v", len(handed), err)
	}
	b.wantMembers("7", "8")
}

// testComesBack: a member that left and joined again since it was read is in the set.
func testComesBack(t *testing.T, b *bundle) {
	b.join("a")
	err := b.Drain(t.Context(), b.set(), func(members []string) ([]string, error) {
		return members, errors.Join(b.Leave(t.Context(), b.set(), "a"), b.Join(t.Context(), b.set(), "a"))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.wantMembers("a")
}

// testDrainThatEnds loses no member.
func testDrainThatEnds(t *testing.T, b *bundle) {
	b.join("a", "b")
	failure := errors.New("as told")
	if err := b.Drain(t.Context(), b.set(), func([]string) ([]string, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("drain: %v", err)
	}
	b.wantMembers("a", "b")
	var handed []string
	if err := b.Drain(t.Context(), b.set(), func(members []string) ([]string, error) {
		handed = append(handed, members...)
		return members, nil
	}); err != nil || len(handed) != 2 {
		t.Errorf("handed out %q, error %v", handed, err)
	}
	b.wantMembers()
}

func testCount(t *testing.T, b *bundle) {
	mine, yours := b.user("a").Under("test", "n"), b.user("b").Under("test", "n")
	for i, c := range []struct {
		add  []int
		want []int
	}{{[]int{0, 0}, []int{0, 0}}, {[]int{2, 0}, []int{2, 0}}, {[]int{3, 1}, []int{5, 1}}, {[]int{0, 0}, []int{5, 1}}} {
		got, err := b.Count(t.Context(), state.Tally{Key: mine, Add: c.add[0], Window: time.Minute}, state.Tally{Key: yours, Add: c.add[1], Window: time.Minute})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	if _, err := b.Count(t.Context(), state.Tally{}); !errors.Is(err, state.ErrKey) {
		t.Errorf("the zero key: %v", err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := b.Count(t.Context(), state.Tally{Key: mine, Add: 1, Window: time.Minute}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := b.Count(t.Context(), state.Tally{Key: mine, Window: time.Minute}); err != nil || got[0] != 25 {
		t.Errorf("%v, %v after 20 at once", got, err)
	}
}

func testLog(t *testing.T, b *bundle) {
	log, now := b.namespace, time.Now()
	at := func(after time.Duration, text string) state.Line { return state.Line{At: now.Add(after), Text: text} }
	appended := func(lines ...state.Line) {
		t.Helper()
		if full, err := b.Append(t.Context(), log, time.Hour, 3000, nil, lines...); err != nil || full {
			t.Fatalf("full %v, %v", full, err)
		}
	}
	appended(at(-2*time.Hour, "too old"), at(-2*time.Minute, "first"))
	appended(at(-time.Minute, "second"), at(-2*time.Minute, "first"))
	appended(at(-3*time.Minute, "late"), at(9999*time.Hour, "from a clock that is ahead"))
	read := func(since time.Time) (lines []string) {
		t.Helper()
		broken := false
		if err := b.Lines(t.Context(), log, since, func(line state.Line) error {
			lines, broken = append(lines, line.Text), broken || line.Broken || len(line.Before) != 64
			return nil
		}); err != nil || broken {
			t.Fatalf("broken %v, %v", broken, err)
		}
		return lines
	}
	if got := read(time.Time{}); !slices.Equal(got, []string{"first", "second", "late", "from a clock that is ahead"}) {
		t.Errorf("lines %q", got)
	}
	if got := read(now.Add(-time.Minute)); !slices.Equal(got, []string{"second", "late", "from a clock that is ahead"}) {
		t.Errorf("lines of the last minute %q", got)
	}
	var many []state.Line
	for i := range 2500 { // more than are read at a time
		many = append(many, at(0, fmt.Sprintf("%04d", i)))
	}
	appended(many...)
	if got := read(time.Time{}); len(got) != 2504 || got[4] != "0000" || got[2503] != "2499" {
		t.Errorf("%d lines", len(got))
	}
	early := 0
	if err := b.Lines(t.Context(), log, time.Time{}, func(line state.Line) error {
		if line.Broken {
			t.Fatalf("%q is broken", line.Text)
		}
		early++
		if early == 1000 { // of these, half go while they are read
			_, err := b.Append(t.Context(), log, time.Hour, 2000, nil, at(0, "meanwhile"))
			return err
		}
		return nil
	}); err != nil || early != 2505 {
		t.Errorf("%d lines, %v", early, err)
	}
	full, err := b.Append(t.Context(), log, time.Hour, 2, nil, at(time.Minute, "last"))
	if got := read(time.Time{}); err != nil || !full || !slices.Equal(got, []string{"meanwhile", "last"}) {
		t.Errorf("full %v, %v: %q", full, err, got)
	}
	stop := errors.New("enough")
	if err := b.Lines(t.Context(), log, now, func(state.Line) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// testLogOfMany: all write one chain, and each line is in it once.
func testLogOfMany(t *testing.T, b *bundle) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				own := state.Line{At: time.Now(), Text: fmt.Sprint("own ", i, " ", n)}
				everybodys := state.Line{At: time.Now(), Text: fmt.Sprint("everybody's ", n)}
				if _, err := b.Append(t.Context(), b.namespace, time.Hour, 3000, nil, own, everybodys); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	if err := b.Lines(t.Context(), b.namespace, time.Time{}, func(line state.Line) error {
		if line.Broken || seen[line.Text] {
			t.Errorf("%+v", line)
		}
		seen[line.Text] = true
		return nil
	}); err != nil || len(seen) != 180 {
		t.Errorf("%d lines, %v", len(seen), err)
	}
}

func testRows(t *testing.T, b *bundle) {
	table, now := b.namespace, time.Now()
	put := func(most int, rows ...state.Row) {
		t.Helper()
		for _, r := range rows {
			if err := b.PutRow(t.Context(), table, most, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	find := func(id, want string) {
		t.Helper()
		r, err := b.FindRow(t.Context(), table, id)
		if got := r.Owner + ": " + r.Text; err == nil && got != want || err != nil && (want != "" || !errors.Is(err, state.ErrNoRow)) {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	find("1", "")
	hour := now.Add(time.Hour)
	put(6400, state.Row{ID: "1", Owner: "mia", Text: "one\ntwo", Until: hour}, state.Row{ID: "2", Owner: "mia", Until: hour},
		state.Row{ID: "3", Owner: "otto", Text: "o", Until: hour}, state.Row{ID: "4", Owner: "otto", Text: "gone", Until: now.Add(-time.Second)},
		state.Row{ID: "5", Text: "mia", Until: hour})
	find("1", "mia: one\ntwo")
	find("4", "")
	put(6400, state.Row{ID: "1", Owner: "mia", Text: "other", Until: hour})
	find("1", "mia: other")
	if err := errors.Join(b.DropRow(t.Context(), table, "1"), b.DropRow(t.Context(), table, "unknown")); err != nil {
		t.Error(err)
	}
	find("1", "")
	find("2", "mia: ")
	if err := b.DropRows(t.Context(), table, "mia"); err != nil {
		t.Error(err)
	}
	find("2", "")
	find("3", "otto: o")
	find("5", ": mia")
	const most = 128 // two in each part
	for i := range 1000 {
		put(most, state.Row{ID: fmt.Sprint("many", i), Owner: "many", Until: hour.Add(time.Duration(i) * time.Second)})
	}
	left := 0
	for i := range 1000 {
		if _, err := b.FindRow(t.Context(), table, fmt.Sprint("many", i)); err == nil {
			left++
		}
	}
	if left != most {
		t.Errorf("%d rows are left, want %d", left, most)
	}
	find("many999", "many: ")
	for _, bad := range []state.Row{{Until: hour}, {ID: strings.Repeat("x", 2000), Until: hour}, {ID: "1", Owner: "a\nb", Until: hour}} {
		if err := b.PutRow(t.Context(), table, most, bad); !errors.Is(err, state.ErrKey) {
			t.Errorf("%.20q: %v", bad.ID, err)
		}
	}
}
