package state

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting bounds how often the gaps between aligned elements are looked into.
const maxNesting = 16

// elements lists the elements of the array at n; what is no array has none.
func (m *merger) elements(n int) []int {
	if !m.all(jsontext.KindBeginArray, n) {
		return nil
	}
	return slices.Collect(m.children(n))
}

// mergeArrays applies to their array what we added, took away and changed.
// What we added comes behind what stood before it, and behind what they added there.
func (m *merger) mergeArrays(b, o, t int) bool {
	a := arrays{m: m, was: m.elements(b), ours: m.elements(o), theirs: m.elements(t)}
	a.toOurs, a.fromOurs = m.align(a.was, a.ours)
	a.toTheirs, a.fromTheirs = m.align(a.was, a.theirs)
	if a.tuples() {
		return m.write(o)
	}
	a.place()
	w := m.begin('[')
	a.writeAdded(w, a.front)
	for i, at := range a.theirs {
		old := a.fromTheirs[i]
		switch {
		case old == none:
			w.element(func() bool { return m.write(at) })
		case a.toOurs[old] != none:
			w.element(func() bool { return m.merge(a.was[old], a.ours[a.toOurs[old]], at) })
		case !m.same(a.was[old], at): // we took away what they changed
			w.element(func() bool { return m.write(at) })
		}
		a.writeAdded(w, a.behind[i])
	}
	w.end(']')
	return true
}

// arrays are three readings of an array.
type arrays struct {
	m                    *merger
	was, ours, theirs    []int // nodes
	toOurs, toTheirs     []int // indexes of elements of was
	fromOurs, fromTheirs []int // indexes in was

	front  []int         // our additions at the front, nodes
	behind map[int][]int // our additions by the index in theirs that they follow
}

// tuples: arrays of numbers that no one made longer, shorter or shifted are
// taken for one value, such as a place on a map.
func (a *arrays) tuples() bool {
	if len(a.was) != len(a.ours) || len(a.was) != len(a.theirs) {
		return false
	}
	for i := range a.was {
		if !a.m.all(jsontext.KindNumber, a.was[i], a.ours[i], a.theirs[i]) ||
			a.toOurs[i] != none && a.toOurs[i] != i || a.toTheirs[i] != none && a.toTheirs[i] != i {
			return false
		}
	}
	return true
}

// place finds for each element that we added where it goes among theirs. One
// that they added as well is not added twice.
func (a *arrays) place() {
	added := map[int32]int{} // how many of theirs are new, by id
	for i, at := range a.theirs {
		if a.fromTheirs[i] == none {
			added[a.m.nodes[at].id]++
		}
	}
	a.behind = map[int][]int{}
	anchors := a.anchors()
	for i, at := range a.ours {
		old := a.fromOurs[i]
		id := a.m.nodes[at].id
		switch {
		case old != none && (a.toTheirs[old] != none || a.m.same(a.was[old], at)):
			continue // theirs has it, or they took it away
		case old == none && added[id] > 0:
			added[id]--
			continue
		}
		if anchor := anchors[i]; anchor == none {
			a.front = append(a.front, at)
		} else {
			a.behind[anchor] = append(a.behind[anchor], at)
		}
	}
}

// anchors finds for each of our elements the index in theirs that it would
// follow: what is new there and follows the same element is skipped. none is the
// front, where something of the old comes later. Where nothing of the old is left
// on both sides, ours take the place of what we took away, else they come last.
func (a *arrays) anchors() []int {
	ends := a.runs()
	anchors := make([]int, len(a.ours))
	last, known := none, false
	for i := range a.ours {
		if old := a.fromOurs[i]; old != none && a.toTheirs[old] != none {
			last, known = ends[a.toTheirs[old]], true
		}
		anchors[i] = last
	}
	if known {
		return anchors
	}
	first := slices.IndexFunc(a.fromTheirs, func(old int) bool { return old != none })
	if first == none {
		first = len(a.theirs) - 1
	}
	for i := range anchors {
		anchors[i] = first
	}
	return anchors
}

// runs finds for each of their elements the last of the new ones that follow it.
func (a *arrays) runs() []int {
	ends := make([]int, len(a.theirs))
	for i := len(a.theirs) - 1; i >= 0; i-- {
		ends[i] = i
		if i+1 < len(a.theirs) && a.fromTheirs[i+1] == none {
			ends[i] = ends[i+1]
		}
	}
	return ends
}

func (a *arrays) writeAdded(w *writer, nodes []int) {
	for _, at := range nodes {
		w.element(func() bool { return a.m.write(at) })
	}
}
