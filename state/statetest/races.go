package statetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/state"
)

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
	b.put(key, 1)
	first, second := b.one(key), b.one(key)
	*state.At[int](first, "n") += 2
	n := state.At[int](second, "n")
	*n += 3
	b.save(first)
	wantConflict(t, b.Save(b.t.Context(), second), []state.Key{key}, nil)
	if err := second.Rebase(b.one(key)); err != nil || *n != 6 {
		t.Fatalf("rebased to %d: %v", *n, err)
	}
	b.save(second)
	b.want(key, 6)
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
	var large *state.TooLargeError
	if !errors.Is(err, state.ErrTooLarge) || !errors.As(err, &large) || large.Key != key || large.Limit != 1<<20 || large.Size <= 1<<20 {
		t.Errorf("%v, want a TooLargeError for %s", err, key)
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
