package state

import "slices"

// maxNesting bounds how often the gaps between aligned elements are looked into.
const maxNesting = 16

// aligner finds which elements of one array are still there in another, in the
// same order, in time that grows little faster than the arrays: what both ends
// have in common, then the longest run of what is in both, then the gaps within,
// where what is there several times may have been paired across the run.
type aligner struct {
	was, is []int32 // keys
	from    []int   // where in was the elements of is are, none when they are new
}

// align returns for each element of is its index in was.
func align(was, is []int32) []int {
	a := aligner{was: was, is: is, from: nones(len(is))}
	a.align(0, len(was), 0, len(is), maxNesting)
	return a.from
}

// keys are what elements are told apart by: their handles, or all that they hold.
func (m *merger) keys(nodes []int, keyed bool) []int32 {
	keys := make([]int32, len(nodes))
	for i, n := range nodes {
		keys[i] = m.nodes[n].id
		if keyed {
			keys[i] = m.nodes[n].key
		}
	}
	return keys
}

// keyed: no handle is there twice in one array, as a person's name would be in a
// list of messages. Then elements are known by their handles.
func (m *merger) keyed(arrays ...[]int) bool {
	for _, array := range arrays {
		seen := map[int32]bool{}
		for _, n := range array {
			key := m.nodes[n].key
			if key == m.nodes[n].id {
				continue
			}
			if seen[key] {
				return false
			}
			seen[key] = true
		}
	}
	return true
}

// align pairs was[w:wEnd] with is[i:iEnd].
func (a *aligner) align(w, wEnd, i, iEnd, depth int) {
	for ; w < wEnd && i < iEnd && a.was[w] == a.is[i]; w, i = w+1, i+1 {
		a.from[i] = w
	}
	for ; w < wEnd && i < iEnd && a.was[wEnd-1] == a.is[iEnd-1]; wEnd, iEnd = wEnd-1, iEnd-1 {
		a.from[iEnd-1] = wEnd - 1
	}
	if w == wEnd || i == iEnd {
		return
	}
	pairs := longestRun(a.candidates(w, wEnd, i, iEnd))
	for _, p := range pairs {
		a.from[p[1]] = p[0]
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
// second and so on, in the order of was.
func (a *aligner) candidates(w, wEnd, i, iEnd int) [][2]int {
	places := map[int32][]int{}
	for ; i < iEnd; i++ {
		places[a.is[i]] = append(places[a.is[i]], i)
	}
	var pairs [][2]int
	for ; w < wEnd; w++ {
		if left := places[a.was[w]]; len(left) > 0 {
			pairs = append(pairs, [2]int{w, left[0]})
			places[a.was[w]] = left[1:]
		}
	}
	return pairs
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
