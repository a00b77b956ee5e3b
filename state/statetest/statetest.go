// Package statetest is the contract of a state store, as tests: what the turn
// of a bot relies on, whatever Redis is behind it.
package statetest

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// Store is what a turn needs of a store. [state.Redis] is one.
type Store interface {
	Load(ctx context.Context, keys ...state.Key) ([]*state.Scope, error)
	Save(ctx context.Context, scopes ...*state.Scope) error
	Ping(ctx context.Context) error
}

// Run checks the contract on the stores that open makes, with the limits of
// the zero [state.Config]. Every test uses random keys of its own: the store
// may be one that others use at the same time.
func Run(t *testing.T, open func(t *testing.T) Store) {
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBundle(t, open(t)))
		})
	}
}

// bundle is a store and keys that no other test uses.
type bundle struct {
	Store
	t         *testing.T
	namespace string
}

func newBundle(t *testing.T, s Store) *bundle {
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
