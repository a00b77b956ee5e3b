package state

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Merge is the merge of JSON values, "" for none.
func Merge(was, ours, theirs string, certain bool) string {
	return string(merge(orNil(was), orNil(ours), orNil(theirs), certain))
}

func orNil(s string) jsontext.Value {
	if s == "" {
		return nil
	}
	return jsontext.Value(s)
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
