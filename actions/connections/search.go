package connections

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/actions"
)

const (
	maxWords       = 32  // of a query
	maxDescription = 400 // characters of a description that are searched
	nameWeight     = 3
)

// documents are texts that can be ranked by the words of a query with BM25. They never change.
type documents struct {
	lengths []int
	average float64
	by      map[string][]posting
}

// posting is a document that has a word, and how often.
type posting struct{ document, times int }

// hit is a document that was found.
type hit struct {
	document int
	score    float64
}

// newDocuments makes documents of their words.
func newDocuments(texts [][]string) *documents {
	d := &documents{lengths: make([]int, len(texts)), by: map[string][]posting{}}
	total := 0
	for i, words := range texts {
		d.lengths[i] = len(words)
		total += len(words)
		for _, word := range words {
			all := d.by[word]
			if n := len(all); n > 0 && all[n-1].document == i {
				all[n-1].times++
			} else {
				d.by[word] = append(all, posting{i, 1})
			}
		}
	}
	d.average = float64(total) / float64(max(len(texts), 1))
	return d
}

// rank returns the documents that have any of the words, best first, among those for which among returns
// true. It returns none if none of these has the rarest word of those that any document has: what they
// have in common with the query is then only what many have.
func (d *documents) rank(words []string, among func(document int) bool) []hit {
	const k1, b = 1.2, 0.75
	words = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(words))), func(word string) bool { return d.by[word] == nil })
	if len(words) == 0 {
		return nil
	}
	rarest := slices.MinFunc(words, func(a, b string) int { return cmp.Compare(len(d.by[a]), len(d.by[b])) })
	if !slices.ContainsFunc(d.by[rarest], func(p posting) bool { return among(p.document) }) {
		return nil
	}
	scores := map[int]float64{}
	for _, word := range words {
		has := float64(len(d.by[word]))
		weight := math.Log(1 + (float64(len(d.lengths))-has+0.5)/(has+0.5))
		for _, p := range d.by[word] {
			if among(p.document) {
				times := float64(p.times)
				scores[p.document] += weight * times * (k1 + 1) / (times + k1*(1-b+b*float64(d.lengths[p.document])/d.average))
			}
		}
	}
	hits := make([]hit, 0, len(scores))
	for document, score := range scores {
		hits = append(hits, hit{document, score})
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.document, b.document))
	})
	return hits
}

// wordsOf splits a text into words in lower case, at everything but letters and digits. A word in camel
// case counts as a whole and as its parts.
func wordsOf(text string) (words []string) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		if parts := camelCase(word); len(parts) > 1 {
			words = append(words, parts...)
		}
		words = append(words, strings.ToLower(word))
	}
	return words
}

// camelCase splits a word before each capital letter that follows a small one or a digit, or that a small
// one follows: getHTTPStatus is get, http and status.
func camelCase(word string) (parts []string) {
	runes, start := []rune(word), 0
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			parts = append(parts, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return append(parts, strings.ToLower(string(runes[start:])))
}

// documentOf is what an action of a connection is found by.
func documentOf(key string, a *actions.Action) []string {
	name := wordsOf(cmp.Or(a.Source.Remote, strings.TrimPrefix(a.Name, key+"_")))
	words := slices.Repeat(name, nameWeight)
	words = append(words, key)
	description := []rune(a.Description)
	words = append(words, wordsOf(string(description[:min(len(description), maxDescription)]))...)
	for _, parameter := range slices.Sorted(maps.Keys(a.Schema.Properties)) {
		words = append(words, wordsOf(parameter)...)
	}
	return words
}
