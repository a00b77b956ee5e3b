package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/internal/rdb"
)

// LoadScripts makes the server of a store know all scripts.
func LoadScripts(tb testing.TB, store *state.Store) {
	tb.Helper()
	for _, s := range []*rdb.Script{
		acceptScript, claimScript, saveScript, noteScript, finishScript, releaseScript,
		besideScript, wakeScript, dropScript, sweepScript, nudgeScript, fireScript, forgetScript,
	} {
		if err := rdb.ClientOf(store.DB()).ScriptLoad(tb.Context(), s.Text()).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

// Fire does what a sweep does for records of q that it found due.
func (i *Inbox) Fire(tb testing.TB, q state.Key, ids ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for _, id := range ids {
		i.db.Exec(ctx, call(fireScript, q).Add(id))
	}
}

// At and Shared are keys of a queue.
func At(q state.Key, name string) string     { return at(q, name) }
func Shared(q state.Key, name string) string { return shared(q.Partition(), name) }
