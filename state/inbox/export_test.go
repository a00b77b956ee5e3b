package inbox

import (
	"testing"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/internal/rdb"
)

// LoadScripts makes the server of a store know all scripts.
func LoadScripts(tb testing.TB, store *state.Store) {
	tb.Helper()
	for _, s := range []*rdb.Script{
		acceptScript, claimScript, saveScript, noteScript, finishScript, releaseScript, renewScript,
		wakeScript, dropScript, sweepScript, nudgeScript, fireScript, forgetScript,
	} {
		if err := store.DB().Client.ScriptLoad(tb.Context(), s.Text()).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

// Fire does what a sweep does for records of q that it found due.
func (i *Inbox) Fire(tb testing.TB, q Queue, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		i.db.Exec(tb.Context(), fireCall(q, id))
	}
}

// At and Shared are keys of a queue.
func (q Queue) At(name string) string     { return q.at(name) }
func (q Queue) Shared(name string) string { return q.shared(name) }
