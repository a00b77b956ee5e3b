package connections

import "strings"

// Ranked is a document that was found, by its number from 1.
type Ranked struct {
	Document int
	Score    float64
}

// Rank ranks documents of plain words.
func Rank(texts []string, query string) (ranked []Ranked) {
	var documents [][]string
	for _, text := range texts {
		documents = append(documents, strings.Fields(text))
	}
	for _, h := range newDocuments(documents).rank(strings.Fields(query), func(int) bool { return true }) {
		ranked = append(ranked, Ranked{h.document + 1, h.score})
	}
	return ranked
}

// WordsOf splits a text.
var WordsOf = wordsOf
