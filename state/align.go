package state

import "slices"

// aligner finds which elements of one array are still there in another, in the
// same order: as a person would see it, and in time that grows little faster
// than the arrays. It is the patience diff: what both ends have in common, then
// the longest run of what is there equally often, then the gaps within.
type aligner struct {
	was, is  []int32 // keys
	to, from []int   // indexes in the other one, none when it is not there
}

// align returns for each element of was its index in is, and the other way round.
func (m *merger) align(was, is []int) (to, from []int) {
	a := aligner{was: m.keys(was), is: m.keys(is), to: make([]int, len(was)), from: make([]int, len(is))}
	for i := range a.to {
		a.to[i] = none
	}
	for i := range a.from {
		a.from[i] = none
	}
	a.align(0, len(was), 0, len(is), maxNesting)
	return a.to, a.from
}

func (m *merger) keys(nodes []int) []int32 {
	keys := make([]int32, len(nodes))
	for i, n := range nodes {
		keys[i] = m.nodes[n].key
	}
	return keys
}

func (a *aligner) pair(w, i int) { a.to[w], a.from[i] = i, w }

// align pairs was[w:wEnd] with is[i:iEnd].
func (a *aligner) align(w, wEnd, i, iEnd, depth int) {
	for ; w < wEnd && i < iEnd && a.was[w] == a.is[i]; w, i = w+1, i+1 {
		a.pair(w, i)
	}
	for ; w < wEnd && i < iEnd && a.was[wEnd-1] == a.is[iEnd-1]; wEnd, iEnd = wEnd-1, iEnd-1 {
		a.pair(wEnd-1, iEnd-1)
	}
	if w == wEnd || i == iEnd {
		return
	}
	pairs := longestRun(a.candidates(w, wEnd, i, iEnd, depth > 0))
	for _, p := range pairs {
		a.pair(p[0], p[1])
	}
	if depth == 0 {
		return
	}
	for _, p := range append(pairs, [2]int{wEnd, iEnd}) {
		if p[0] > w && p[1] > i {
			a.align(w, p[0], i, p[1], depth-1)
		}
		w, i = p[0]+1, p[1]+1
	}
}

// candidates pairs the first of a key with the first, the second with the
// second, in the order of was. When exact, only of keys that are there equally
// often, if there are any: the others may have been added or taken away anywhere.
func (a *aligner) candidates(w, wEnd, i, iEnd int, exact bool) [][2]int {
	places := map[int32][]int{}
	for ; i < iEnd; i++ {
		places[a.is[i]] = append(places[a.is[i]], i)
	}
	count := map[int32]int{}
	for _, key := range a.was[w:wEnd] {
		count[key]++
	}
	var all, equal [][2]int
	seen := map[int32]int{}
	for ; w < wEnd; w++ {
		key := a.was[w]
		n := seen[key]
		seen[key]++
		if n >= len(places[key]) {
			continue
		}
		all = append(all, [2]int{w, places[key][n]})
		if count[key] == len(places[key]) {
			equal = append(equal, [2]int{w, places[key][n]})
		}
	}
	if exact && len(equal) > 0 {
		return equal
	}
	return all
}

// longestRun is a longest part of pairs, which grow in their first number, that
// grows in the second as well.
func longestRun(pairs [][2]int) [][2]int {
	before := make([]int, len(pairs))
	var tops []int // the pair that ends the best run of each length
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(tops, p[1], func(top, x int) int { return pairs[top][1] - x })
		before[i] = none
		if n > 0 {
			before[i] = tops[n-1]
		}
		if n == len(tops) {
			tops = append(tops, i)
		} else {
			tops[n] = i
		}
	}
	run := make([][2]int, len(tops))
	for n, i := len(tops)-1, none; n >= 0; n-- {
		if i == none {
			i = tops[len(tops)-1]
		}
		run[n] = pairs[i]
		i = before[i]
	}
	return run
}
