package state

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCount is up to where an integer is taken for a count. Above are times and
// numbers that name something: their sum would be nonsense.
const maxCount = 1_000_000_000

// merger merges three readings of one JSON value: what it was, what we made of
// it, and what they made of it meanwhile. See [Scope.Rebase] for the rules.
type merger struct {
	forest
	out []byte
	// certain: theirs was made without knowledge of ours, so that two changes
	// that look alike are two.
	certain bool
}

// merge returns the value that holds both changes, nil when there is none.
func merge(was, ours, theirs jsontext.Value, certain bool) jsontext.Value {
	m := merger{certain: certain}
	b, o, t := m.add(was), m.add(ours), m.add(theirs)
	var there bool
	switch {
	case m.same(b, o), m.same(b, t), o != none && t != none:
		there = m.merge(b, o, t)
	case t == none:
		there = m.news(b, o)
	default:
		there = m.news(b, t)
	}
	if !there {
		return nil
	}
	merged := jsontext.Value(m.out)
	_ = merged.Compact() // fails where what is no JSON was taken as it is
	return merged
}

// same: equal as JSON, or both not there.
func (m *merger) same(a, b int) bool {
	if a == none || b == none {
		return a == b
	}
	return m.nodes[a].id == m.nodes[b].id
}

func (m *merger) all(kind jsontext.Kind, nodes ...int) bool {
	return !slices.ContainsFunc(nodes, func(n int) bool { return n == none || m.nodes[n].kind != kind })
}

// write puts out the value at n, if there is one.
func (m *merger) write(n int) bool {
	if n != none {
		m.out = append(m.out, m.nodes[n].text...)
	}
	return n != none
}

// merge puts out what becomes of one value that b, o and t are readings of, and
// reports whether there is one.
func (m *merger) merge(b, o, t int) bool {
	switch {
	case m.same(b, o):
		return m.write(t)
	case m.same(b, t), m.same(o, t) && !m.certain:
		return m.write(o)
	case t == none:
		return m.stay(b, o)
	case o == none:
		return m.stay(b, t)
	case m.all(jsontext.KindBeginObject, o, t):
		return m.mergeObjects(b, o, t)
	case m.all(jsontext.KindBeginArray, o, t):
		return m.mergeArrays(b, o, t)
	}
	if sum, ok := m.sum(b, o, t); ok {
		m.out = strconv.AppendInt(m.out, sum, 10)
		return true
	}
	return m.write(o)
}

// sum adds both changes of a count. One that is not there is 0.
func (m *merger) sum(b, o, t int) (int64, bool) {
	var n [3]int64
	for i, at := range [3]int{b, o, t} {
		if at == none {
			continue
		}
		parsed, err := strconv.ParseInt(m.nodes[at].text, 10, 64)
		if err != nil || parsed >= maxCount || parsed <= -maxCount {
			return 0, false
		}
		n[i] = parsed
	}
	return n[1] + n[2] - n[0], true
}

// stay puts out a part n that one side changed from b and the other took away:
// the change stays, of an array what was added.
func (m *merger) stay(b, n int) bool {
	if m.all(jsontext.KindBeginArray, b, n) {
		return m.news(b, n)
	}
	return m.write(n)
}

// news puts out what n has and b had not, with what it stands in.
func (m *merger) news(b, n int) bool {
	start := len(m.out)
	switch {
	case m.all(jsontext.KindBeginObject, b, n):
		if m.newMembers(b, n) {
			return true
		}
		m.out = m.out[:start]
		return false
	case m.all(jsontext.KindBeginArray, b, n):
		return m.newElements(b, n)
	}
	return m.write(n)
}

func (m *merger) newMembers(b, n int) (some bool) {
	was := m.byName(b)
	w := m.begin('{')
	for name, i := range m.members(n) {
		old := was.of(m.nodes[name].id)
		if m.same(old, i) {
			continue
		}
		w.member(m.nodes[name].text, func() bool { return m.news(old, i) })
	}
	return w.end('}') > 0
}

func (m *merger) newElements(b, n int) (some bool) {
	start := len(m.out)
	was, is := m.elements(b), m.elements(n)
	_, from := m.align(was, is)
	w := m.begin('[')
	for i, at := range is {
		if from[i] == none || !m.same(was[from[i]], at) {
			w.element(func() bool { return m.write(at) })
		}
	}
	if w.end(']') == 0 {
		m.out = m.out[:start]
		return false
	}
	return true
}

// mergeObjects merges member by member, in their order, then ours.
func (m *merger) mergeObjects(b, o, t int) bool {
	was, ours, theirs := m.byName(b), m.byName(o), m.byName(t)
	w := m.begin('{')
	for name, i := range m.members(t) {
		id := m.nodes[name].id
		w.member(m.nodes[name].text, func() bool { return m.merge(was.of(id), ours.of(id), i) })
	}
	for name, i := range m.members(o) {
		id := m.nodes[name].id
		if theirs.of(id) == none {
			w.member(m.nodes[name].text, func() bool { return m.merge(was.of(id), i, none) })
		}
	}
	w.end('}')
	return true
}

// index finds the values of an object by the ids of their names.
type index map[int32]int

func (x index) of(id int32) int {
	if i, ok := x[id]; ok {
		return i
	}
	return none
}

// byName indexes the object at n; what is none has no members.
func (m *merger) byName(n int) index {
	x := index{}
	if m.all(jsontext.KindBeginObject, n) {
		for name, i := range m.members(n) {
			x[m.nodes[name].id] = i
		}
	}
	return x
}

// writer writes the children of an object or an array.
type writer struct {
	m *merger
	n int // children so far
}

func (m *merger) begin(c byte) *writer {
	m.out = append(m.out, c)
	return &writer{m: m}
}

// member writes a member, unless value says that there is none.
func (w *writer) member(name string, value func() bool) {
	w.child(name, value)
}

func (w *writer) element(value func() bool) { w.child("", value) }

func (w *writer) child(name string, value func() bool) {
	start := len(w.m.out)
	if w.n > 0 {
		w.m.out = append(w.m.out, ',')
	}
	if name != "" {
		w.m.out = append(append(w.m.out, name...), ':')
	}
	if !value() {
		w.m.out = w.m.out[:start]
		return
	}
	w.n++
}

func (w *writer) end(c byte) int {
	w.m.out = append(w.m.out, c)
	return w.n
}
