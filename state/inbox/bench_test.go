package inbox_test

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// BenchmarkTurn is what one message costs: accepted with its documents, saved once,
// finished.
func BenchmarkTurn(b *testing.B) {
	open := serve(b)
	if url := os.Getenv("PLANBOT_TEST_REDIS_URL"); url != "" {
		open = func(cfg state.Config) *state.Store { return openURL(b, url, cfg) }
	}
	bundle := newBundle(b, open)
	key, user := bundle.q, bundle.person()
	record, planned := []byte(strings.Repeat("b", 1500)), []byte(strings.Repeat("j", 2000))
	document := strings.Repeat("word ", 300)
	for i := 0; b.Loop(); i++ {
		id := rand.Text()
		receipt, err := bundle.in.Accept(b.Context(), inbox.Entry{
			Queue: bundle.q, ID: id, Record: record, Take: true,
			Duplicates: []inbox.Duplicate{{ID: id}}, Load: []state.Key{key, user},
		})
		if err != nil {
			b.Fatal(err)
		}
		*number(receipt.Scopes[0])++
		*state.At[string](receipt.Scopes[0], "text") = document
		if err := receipt.Lease.Save(b.Context(), planned, true, receipt.Scopes...); err != nil {
			b.Fatal(err)
		}
		if more, err := receipt.Lease.Finish(b.Context(), nil, receipt.Scopes...); more || err != nil {
			b.Fatal(more, err)
		}
	}
}
