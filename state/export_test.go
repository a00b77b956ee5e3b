package state

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// AddHook lets a test watch, count or break what goes to the server.
func (s *Store) AddHook(h redis.Hook) { s.Client().AddHook(h) }

// Client is the client below s, for tests that put foreign data into Redis.
func (s *Store) Client() redis.UniversalClient { return rdb.ClientOf(s.db) }

// HeaderBytes is an internal under test.
const HeaderBytes = headerBytes

// EncodeScope makes the document of a scope that change filled.
func EncodeScope(tb testing.TB, change func(*Scope)) string {
	tb.Helper()
	s := NewScope()
	change(s)
	doc, _, err := s.encode(newVersion(), 1)
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// CycleScope is what Load and Save do to one scope, without the network.
func CycleScope(tb testing.TB, doc string, change func(*Scope)) {
	tb.Helper()
	s := &Scope{key: ConversationKey("c", "b", "i")}
	if err := s.read(doc, 1<<20); err != nil {
		tb.Fatal(err)
	}
	change(s)
	r := Store{cfg: Config{}.withDefaults()}
	if _, _, err := r.Batches([]*Scope{s}); err != nil {
		tb.Fatal(err)
	}
}

// RaceScope rebases s on what somebody else made of the same document.
func RaceScope(tb testing.TB, s *Scope, doc string, change func(*Scope)) {
	tb.Helper()
	theirs := &Scope{key: s.key}
	if err := theirs.read(doc, 1<<20); err != nil {
		tb.Fatal(err)
	}
	change(theirs)
	changed, _, err := theirs.encode(newVersion(), 1)
	if err != nil {
		tb.Fatal(err)
	}
	fresh := &Scope{key: s.key}
	if err := fresh.read(changed, 1<<20); err != nil {
		tb.Fatal(err)
	}
	if err := s.Rebase(fresh); err != nil {
		tb.Fatal(err)
	}
}
