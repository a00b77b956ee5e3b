package plan

import (
	"encoding/json"
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// node is one value, or one key, of a text that was read. The nodes of a value
// follow each other on the tape: a container, then its contents.
type node struct {
	kind nodeKind
	end  int32  // the index of the first node behind the value; 0 while it is open
	text string // the contents of a string or key, a number as written, a bare word
}

type nodeKind uint8

const (
	objectNode nodeKind = iota + 1
	arrayNode
	stringNode // a key, too
	numberNode
	wordNode // an unquoted word, where one is allowed
	trueNode
	falseNode
	nullNode
)

// String names the kind as a model knows it.
func (k nodeKind) String() string {
	switch k {
	case objectNode:
		return "an object"
	case arrayNode:
		return "an array"
	case numberNode:
		return "a number"
	case trueNode, falseNode:
		return "a boolean"
	case nullNode:
		return "null"
	default:
		return "a string"
	}
}

// tape is what a reader read, flat: few allocations, and keys keep their order
// and their duplicates.
type tape []node

// items yields the index of each element of the array at.
func (t tape) items(at int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := at + 1; i < int(t[at].end); i = int(t[i].end) {
			if !yield(i) {
				return
			}
		}
	}
}

// members yields each key of the object at, with the index of its value.
func (t tape) members(at int) func(func(string, int) bool) {
	return func(yield func(string, int) bool) {
		for i := at + 1; i < int(t[at].end); i = int(t[i+1].end) {
			if !yield(t[i].text, i+1) {
				return
			}
		}
	}
}

// empty reports whether the container at holds nothing.
func (t tape) empty(at int) bool { return int(t[at].end) == at+1 }

// isText reports whether at is a string, or a word that stands for one.
func (t tape) isText(at int) bool {
	return t[at].kind == stringNode || t[at].kind == wordNode
}

// field finds the value of a structural key of the object at; keys match without
// regard to case. It returns -1 for none. One key with two different values is a
// conflict: two readers of the plan could disagree on it.
func (t tape) field(at int, name string) (found int, conflict bool) {
	found = -1
	for key, value := range t.members(at) {
		switch {
		case !strings.EqualFold(key, name):
		case found < 0:
			found = value
		case !t.equal(found, value):
			return found, true
		}
	}
	return found, false
}

// equal compares two values as they were written: key order counts, so that it
// takes no longer than reading them.
func (t tape) equal(a, b int) bool {
	if t[a].end-int32(a) != t[b].end-int32(b) {
		return false
	}
	for n := int(t[a].end) - a; n > 0; n-- {
		x, y := t[a+n-1], t[b+n-1]
		if x.kind != y.kind || x.text != y.text {
			return false
		}
	}
	return true
}

// value builds the Go value of at: maps, slices, strings, booleans, nil, and
// json.Number. It fails on an object that has one key with two values.
func (t tape) value(at int) (any, *Fault) {
	switch n := t[at]; n.kind {
	case objectNode:
		return t.object(at)
	case arrayNode:
		list := []any{}
		for i := range t.items(at) {
			v, err := t.value(i)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case numberNode:
		return json.Number(n.text), nil
	case trueNode:
		return true, nil
	case falseNode:
		return false, nil
	case nullNode:
		return nil, nil
	default:
		return n.text, nil
	}
}

// object builds the map of the object at.
func (t tape) object(at int) (map[string]any, *Fault) {
	m := make(map[string]any)
	var where map[string]int // values by key, once there are duplicates
	for key, i := range t.members(at) {
		if _, twice := m[key]; twice {
			if where == nil {
				where = t.positions(at)
			}
			if !t.equal(where[key], i) {
				return nil, Faultf(InvalidPlan, "the key %q is given twice with different values", spelling.Clip(key))
			}
			continue
		}
		v, err := t.value(i)
		if err != nil {
			return nil, err
		}
		m[key] = v
	}
	return m, nil
}

// positions maps each key of the object at to the index of its first value.
func (t tape) positions(at int) map[string]int {
	where := make(map[string]int)
	for key, i := range t.members(at) {
		if _, known := where[key]; !known {
			where[key] = i
		}
	}
	return where
}
