// Package bm25 ranks texts by the words of a query with BM25 (k1 1.2, b 0.75).
package bm25

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
)

// Index is texts that can be ranked, numbered from 0. It never changes, so any number of goroutines may
// use it. The zero value has no texts.
type Index struct {
	lengths  []int32
	postings []posting // those of a word lie together, in the order of texts
	words    map[string]span
}

// posting is a text that has a word, and how often.
type posting struct{ text, times int32 }

// span is where the postings of a word lie.
type span struct{ from, to int32 }

// Hit is a text that was found.
type Hit struct {
	Text  int
	Score float64
}

// New makes an index of n texts. words returns the words of one; it is called once for each, in order.
func New(n int, words func(text int) []string) *Index {
	x := &Index{lengths: make([]int32, n), words: map[string]span{}}
	by, postings := map[string][]posting{}, 0
	for i := range n {
		all := words(i)
		x.lengths[i] = int32(len(all))
		for _, word := range all {
			list := by[word]
			if last := len(list) - 1; last >= 0 && list[last].text == int32(i) {
				list[last].times++
			} else {
				by[word] = append(list, posting{int32(i), 1})
				postings++
			}
		}
	}
	x.postings = make([]posting, 0, postings)
	for _, word := range slices.Sorted(maps.Keys(by)) {
		from := len(x.postings)
		x.postings = append(x.postings, by[word]...)
		x.words[word] = span{int32(from), int32(len(x.postings))}
	}
	return x
}

func (x *Index) of(word string) []posting {
	s := x.words[word]
	return x.postings[s.from:s.to]
}

// Having returns the texts that have the word, in order.
func (x *Index) Having(word string) []int {
	var texts []int
	for _, p := range x.of(word) {
		texts = append(texts, int(p.text))
	}
	return texts
}

// Rank returns the texts that have any of the words, best first, and of equals the one with the smaller
// number first. It looks only at texts for which among returns true, as if there were no others, and returns
// at most that many; 0: all of them. Words that no text has count for nothing.
func (x *Index) Rank(words []string, among func(text int) bool, most int) []Hit {
	scores := x.Scores(words, among)
	return Best(scores, func(text int) bool { return scores[text] > 0 }, most)
}

// Scores returns the score of each text, as [Index.Rank] compares them; 0: it has none of the words, or is not
// looked at. A word that comes twice counts twice.
func (x *Index) Scores(words []string, among func(text int) bool) []float64 {
	const k1, b = 1.2, 0.75
	scores, looked := make([]float64, len(x.lengths)), make([]bool, len(x.lengths))
	texts, total := 0.0, 0.0
	for text, length := range x.lengths {
		if among(text) {
			looked[text] = true
			texts++
			total += float64(length)
		}
	}
	average := total / max(texts, 1)
	for _, word := range slices.Sorted(slices.Values(words)) {
		list := x.of(word)
		has := 0.0
		for _, p := range list {
			if looked[p.text] {
				has++
			}
		}
		weight := math.Log(1 + (texts-has+0.5)/(has+0.5))
		for _, p := range list {
			if looked[p.text] {
				times := float64(p.times)
				scores[p.text] += weight * times * (k1 + 1) / (times + k1*(1-b+b*float64(x.lengths[p.text])/average))
			}
		}
	}
	return scores
}

// Best returns the best scores of the texts for which among returns true, at most that many; 0: all.
func Best(scores []float64, among func(text int) bool, most int) []Hit {
	byScore := func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Text, b.Text)) }
	var hits []Hit
	for text, score := range scores {
		if !among(text) {
			continue
		}
		hit := Hit{text, score}
		if most == 0 {
			hits = append(hits, hit)
			continue
		}
		if len(hits) == most && byScore(hits[most-1], hit) < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(hits, hit, byScore)
		hits = slices.Insert(hits, at, hit)
		hits = hits[:min(len(hits), most)]
	}
	if most == 0 {
		slices.SortFunc(hits, byScore)
	}
	return hits
}

// MarshalBinary returns the index for [Index.UnmarshalBinary]. The same texts give the same bytes.
func (x *Index) MarshalBinary() ([]byte, error) {
	data := binary.AppendUvarint(nil, uint64(len(x.lengths)))
	for _, n := range x.lengths {
		data = binary.AppendUvarint(data, uint64(n))
	}
	data = binary.AppendUvarint(data, uint64(len(x.postings)))
	data = binary.AppendUvarint(data, uint64(len(x.words)))
	for _, word := range slices.Sorted(maps.Keys(x.words)) {
		list := x.of(word)
		data = binary.AppendUvarint(data, uint64(len(word)))
		data = append(data, word...)
		data = binary.AppendUvarint(data, uint64(len(list)))
		last := int32(0)
		for _, p := range list {
			data = binary.AppendUvarint(data, uint64(p.text-last))
			data = binary.AppendUvarint(data, uint64(p.times))
			last = p.text
		}
	}
	return data, nil
}

var errDamaged = errors.New("the index of words is damaged")

// UnmarshalBinary sets x to what [Index.MarshalBinary] returned. After an error x must not be used.
func (x *Index) UnmarshalBinary(data []byte) error {
	wrong := false
	number := func(most int) int {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(most) {
			wrong = true
			return 0
		}
		data = data[size:]
		return int(n)
	}
	// Each thing that is counted has at least one byte.
	*x = Index{lengths: make([]int32, number(len(data)))}
	for i := range x.lengths {
		x.lengths[i] = int32(number(math.MaxInt32))
	}
	x.postings = make([]posting, 0, number(len(data)))
	words := number(len(data))
	x.words = make(map[string]span, words)
	for range words {
		size := number(len(data))
		if wrong || size > len(data) {
			return errDamaged
		}
		word := string(data[:size])
		data = data[size:]
		from, last := len(x.postings), 0
		for range number(cap(x.postings) - from) {
			last += number(math.MaxInt32)
			if last >= len(x.lengths) {
				return errDamaged
			}
			x.postings = append(x.postings, posting{int32(last), int32(number(math.MaxInt32))})
		}
		x.words[word] = span{int32(from), int32(len(x.postings))}
	}
	if wrong || len(data) > 0 {
		return errDamaged
	}
	return nil
}
