package state

import (
	"bytes"
	"testing"
)

// Merge is the merge of JSON values, "" for none.
func Merge(was, ours, theirs string, certain bool) string {
	return string(merge(orNone(was), orNone(ours), orNone(theirs), certain))
}

// Unanswered saves s and lets it believe that no answer came.
func Unanswered(tb testing.TB, r *Redis, s *Scope) {
	tb.Helper()
	before := *s
	if err := r.Save(tb.Context(), s); err != nil {
		tb.Fatal(err)
	}
	before.unsure = []string{s.version}
	*s = before
}

// RaceScope rebases s, loaded from doc, on what change made of doc.
func RaceScope(tb testing.TB, s *Scope, doc string, change func(*Scope)) {
	tb.Helper()
	theirs, fresh := &Scope{key: s.key}, &Scope{key: s.key}
	if err := theirs.read(doc, 1<<20); err != nil {
		tb.Fatal(err)
	}
	change(theirs)
	var buf bytes.Buffer
	if _, err := theirs.encode(&buf, newVersion(), 1); err != nil {
		tb.Fatal(err)
	}
	if err := fresh.read(buf.String(), 1<<20); err != nil {
		tb.Fatal(err)
	}
	if err := s.Rebase(fresh); err != nil {
		tb.Fatal(err)
	}
}
