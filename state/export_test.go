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

// HeaderBytes, Partitions and TripsAtOnce are internals under test.
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

// Twin is another client of the server that r talks to.
func (r *Redis) Twin(tb testing.TB) *Redis {
	tb.Helper()
	client, ok := r.client.(*redis.Client)
	if !ok {
		tb.Fatal("a twin of a cluster")
	}
	c := clientsOf(client.Options(), r.name)
	tb.Cleanup(func() { _ = c.main.Close() })
	return newRedis(c, r.cfg)
}

// LoadScripts makes the server of r know all scripts.
func LoadScripts(tb testing.TB, r *Redis) {
	tb.Helper()
	for _, s := range []*script{
		saveScript, acceptScript, claimScript, saveHeldScript, finishScript, releaseScript,
		renewScript, sweepScript, scheduleScript, cancelScript, fireScript, unparkScript,
	} {
		text, _ := s.text.(string)
		if err := r.client.ScriptLoad(tb.Context(), text).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

// Fire does what a sweep does for the timers that it found due.
func (i *Inbox) Fire(tb testing.TB, timers ...Timer) {
	tb.Helper()
	due := make([]string, len(timers))
	for j, t := range timers {
		due[j] = timerName(t.Lane, t.ID)
	}
	i.fire(tb.Context(), due)
}
