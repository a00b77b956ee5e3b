package state

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// arrays are three readings of an array, and what of them is the same element.
type arrays struct {
	m            *merger
	was          []int // nodes
	ours, theirs side
	inOurs       []int         // theirs' elements there, by index, none when they are not
	inTheirs     []int         // the other way round
	front        []int         // what we put at the front, by index
	behind       map[int][]int // what we put behind theirs' elements, by index
}

// side is one array that was became.
type side struct {
	nodes []int
	keys  []int32
	was   []int // which element of was each is, none for a new one
	place []int // the same, but none for one that was moved
}

// elements lists the elements of the array at n; what is no array has none.
func (m *merger) elements(n int) []int {
	if !m.all(jsontext.KindBeginArray, n) {
		return nil
	}
	return slices.Collect(m.children(n))
}

// mergeArrays applies to their array what we added, took away, changed and
// moved. What we put somewhere comes behind what stands before it, and behind
// what they added there.
func (m *merger) mergeArrays(b, o, t int) bool {
	a := m.compare(m.elements(b), m.elements(o), m.elements(t))
	if a.tuples() {
		return m.write(o)
	}
	a.arrange()
	w := m.begin('[')
	for _, i := range a.front {
		w.element(func() bool { return a.writeOurs(i) })
	}
	for j := range a.theirs.nodes {
		if !a.leaves(j) {
			w.element(func() bool { return a.writeTheirs(j) })
		}
		for _, i := range a.behind[j] {
			w.element(func() bool { return a.writeOurs(i) })
		}
	}
	w.end(']')
	return true
}

func (m *merger) compare(was, ours, theirs []int) *arrays {
	keyed := m.keyed(was, ours, theirs)
	a := &arrays{m: m, was: was, ours: m.side(was, ours, keyed), theirs: m.side(was, theirs, keyed)}
	a.inOurs, a.inTheirs = nones(len(theirs)), nones(len(ours))
	at, added := nones(len(was)), map[int32][]int{}
	for j, w := range a.theirs.was {
		if w != none {
			at[w] = j
		} else {
			added[a.theirs.keys[j]] = append(added[a.theirs.keys[j]], j)
		}
	}
	for i, w := range a.ours.was {
		if w != none {
			a.meet(i, at[w])
		} else if twins := added[a.ours.keys[i]]; len(twins) > 0 && m.unites(ours[i], theirs[twins[0]]) {
			added[a.ours.keys[i]] = twins[1:] // added by both, once
			a.meet(i, twins[0])
		}
	}
	return a
}

func (a *arrays) meet(i, j int) {
	a.inTheirs[i] = j
	if j != none {
		a.inOurs[j] = i
	}
}

func (m *merger) side(was, nodes []int, keyed bool) side {
	s := side{nodes: nodes, keys: m.keys(nodes, keyed)}
	old := m.keys(was, keyed)
	s.place = align(old, s.keys)
	s.was = s.place
	if !keyed {
		return s
	}
	s.was = slices.Clone(s.place)
	handles := map[int32]int{}
	for w, n := range was {
		if m.nodes[n].key != m.nodes[n].id {
			handles[old[w]] = w
		}
	}
	for i, key := range s.keys {
		if w, ok := handles[key]; ok {
			s.was[i] = w
		}
	}
	return s
}

// unites: what x and y both say is the same, or is made of parts that can be merged.
func (m *merger) unites(x, y int) bool {
	switch {
	case m.same(x, y), m.all(jsontext.KindBeginArray, x, y):
		return true
	case !m.all(jsontext.KindBeginObject, x, y):
		return false
	}
	ys := m.byName(y)
	for name, i := range m.members(x) {
		if j := ys.of(m.nodes[name].id); j != none && !m.unites(i, j) {
			return false
		}
	}
	return true
}

// tuples: arrays of numbers that no one made longer, shorter or shifted are
// taken for one value, such as a place on a map.
func (a *arrays) tuples() bool {
	if len(a.was) != len(a.ours.nodes) || len(a.was) != len(a.theirs.nodes) {
		return false
	}
	for i := range a.was {
		o, t := a.ours.was[i], a.theirs.was[i]
		if !a.m.all(jsontext.KindNumber, a.was[i], a.ours.nodes[i], a.theirs.nodes[i]) || o != none && o != i || t != none && t != i {
			return false
		}
	}
	return true
}

// arrange finds where among theirs the elements go that are not there: those
// that we added, moved, or changed when they took them away.
func (a *arrays) arrange() {
	a.behind = map[int][]int{}
	for i, anchor := range a.anchors() {
		switch {
		case a.inTheirs[i] != none && !a.carried(i):
		case a.inTheirs[i] == none && !a.m.grew(a.old(a.ours.was[i]), a.ours.nodes[i]): // they took it away
		case anchor == none:
			a.front = append(a.front, i)
		default:
			a.behind[anchor] = append(a.behind[anchor], i)
		}
	}
}

// carried: we moved the element i, and they left it where it was.
func (a *arrays) carried(i int) bool {
	j := a.inTheirs[i]
	return a.ours.was[i] != none && a.ours.place[i] == none && j != none && a.theirs.place[j] != none
}

// leaves: their element j is not in its place any more, because we moved it, or
// took away what they did not change.
func (a *arrays) leaves(j int) bool {
	if i := a.inOurs[j]; i != none {
		return a.carried(i)
	}
	return !a.m.grew(a.old(a.theirs.was[j]), a.theirs.nodes[j])
}

func (a *arrays) writeOurs(i int) bool {
	if j := a.inTheirs[i]; j != none {
		return a.writeTheirs(j)
	}
	return a.m.write(a.ours.nodes[i])
}

// writeTheirs puts out their element j as both sides made it.
func (a *arrays) writeTheirs(j int) bool {
	i := a.inOurs[j]
	if i == none || a.theirs.was[j] == none && a.m.same(a.ours.nodes[i], a.theirs.nodes[j]) {
		return a.m.write(a.theirs.nodes[j])
	}
	return a.m.merge(a.old(a.theirs.was[j]), a.ours.nodes[i], a.theirs.nodes[j])
}

func (a *arrays) old(w int) int {
	if w == none {
		return none
	}
	return a.was[w]
}

// anchors finds for each of our elements the index in theirs that it would
// follow: what is new there and follows the same element is skipped. none is the
// front, where something of the old comes later. Where nothing of the old is left
// on both sides, ours take the place of what we took away, else they come last.
func (a *arrays) anchors() []int {
	ends, anchors := a.runs(), make([]int, len(a.ours.nodes))
	last, known := none, false
	for i, j := range a.inTheirs {
		if j != none && !a.carried(i) {
			last, known = ends[j], true
		}
		anchors[i] = last
	}
	if known {
		return anchors
	}
	first := slices.IndexFunc(a.theirs.place, func(w int) bool { return w != none })
	if first == none {
		first = len(a.theirs.nodes) - 1
	}
	for i := range anchors {
		anchors[i] = first
	}
	return anchors
}

// runs finds for each of their elements the last of the new ones that follow it.
func (a *arrays) runs() []int {
	ends := make([]int, len(a.theirs.nodes))
	for j := len(ends) - 1; j >= 0; j-- {
		ends[j] = j
		if j+1 < len(ends) && a.theirs.place[j+1] == none {
			ends[j] = ends[j+1]
		}
	}
	return ends
}

func nones(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = none
	}
	return all
}
