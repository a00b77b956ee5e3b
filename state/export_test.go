package state

import (
	"bytes"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// AddHook lets a test watch, count or break what goes to the server.
func (r *Redis) AddHook(h redis.Hook) { r.client.AddHook(h) }

// Client is the client below r, for tests that put foreign data into Redis.
func (r *Redis) Client() redis.UniversalClient { return r.client }

// NewPipe, HeaderBytes and Partitions are internals under test.
var NewPipe = newPipe

const (
	HeaderBytes = headerBytes
	Partitions  = partitions
	TripsAtOnce = tripsAtOnce
)

// EncodeScope makes the document of a scope that change filled.
func EncodeScope(tb testing.TB, change func(*Scope)) string {
	tb.Helper()
	var buf bytes.Buffer
	s := NewScope()
	change(s)
	if _, err := s.encode(&buf, newVersion(), 1); err != nil {
		tb.Fatal(err)
	}
	return buf.String()
}

// CycleScope is what Load and Save do to one scope, without the network.
func CycleScope(tb testing.TB, doc string, change func(*Scope)) {
	tb.Helper()
	s := &Scope{key: ConversationKey("c", "b", "i")}
	if err := s.read(doc, 1<<20); err != nil {
		tb.Fatal(err)
	}
	change(s)
	r := Redis{cfg: Config{}.withDefaults()}
	if _, err := r.prepare([]*Scope{s}, time.Now()); err != nil {
		tb.Fatal(err)
	}
}
