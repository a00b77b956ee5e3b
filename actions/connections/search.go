package connections

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/bm25"
)

const (
	maxWords       = 32  // of a query
	maxDescription = 400 // characters of a description that are searched
	nameWeight     = 3
)

// rank returns the texts that have any of the words, each of which counts once, best first, among those for which among returns
// true. It returns none if none of these has the rarest word of those that any text has: what they
// have in common with the query is then only what many have.
func rank(index *bm25.Index, words []string, among func(text int) bool) []bm25.Hit {
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	var rarest []int
	for _, word := range words {
		if having := index.Having(word); len(having) > 0 && (rarest == nil || len(having) < len(rarest)) {
			rarest = having
		}
	}
	if !slices.ContainsFunc(rarest, among) {
		return nil
	}
	return index.Rank(words, among, 0)
}

// wordsOf splits a text into words in lower case, at everything but letters and digits. A word in camel
// case counts as a whole and as its parts.
func wordsOf(text string) (words []string) {
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }
	for _, word := range strings.FieldsFunc(text, between) {
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
