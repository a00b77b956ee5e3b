package connections

import (
	"net/netip"
	"strings"

	"github.com/planbot-go/planbot/internal/bm25"
)

// Ranked is a document that was found, by its number from 1.
type Ranked struct {
	Document int
	Score    float64
}

// Rank ranks documents of plain words.
func Rank(texts []string, query string) (ranked []Ranked) {
	index := bm25.New(len(texts), func(i int) []string { return strings.Fields(texts[i]) })
	for _, h := range rank(index, strings.Fields(query), func(int) bool { return true }) {
		ranked = append(ranked, Ranked{h.Text + 1, h.Score})
	}
	return ranked
}

// WordsOf splits a text.
var WordsOf = wordsOf

// Allows asks a dialer whether it would connect to an address.
func Allows(d Dialer, address netip.Addr) error { return d.allows(address) }
