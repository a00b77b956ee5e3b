package plan

import (
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// oneOf returns the first of the values that is there; all that are there have
// to be equal.
func (d *drafting) oneOf(values ...int) (int, *Fault) {
	first := -1
	for _, at := range values {
		switch {
		case at < 0:
		case first < 0:
			first = at
		case !d.tape.equal(first, at):
			return -1, Faultf(InvalidPlan, "its entities are given twice with different values")
		}
	}
	return first, nil
}

// entities reads the entities of a DO: an object, an array of pairs of name and
// value, or an empty array.
func (d *drafting) entities(at int) (map[string]any, *Fault) {
	if at < 0 {
		return map[string]any{}, nil
	}
	switch d.tape[at].kind {
	case objectNode:
		return d.tape.object(at)
	case arrayNode:
		d.done |= reshaped
		return d.pairs(at)
	}
	return nil, Faultf(InvalidPlan, "its entities are %s, not an object", d.tape[at].kind)
}

// pairs reads an array of objects that have a name and a value each.
func (d *drafting) pairs(at int) (map[string]any, *Fault) {
	m := make(map[string]any)
	where := make(map[string]int)
	for i := range d.tape.items(at) {
		name, value, ok := d.pair(i)
		if !ok {
			return nil, Faultf(InvalidPlan, "its entities are an array, not an object")
		}
		if first, twice := where[name]; twice {
			if !d.tape.equal(first, value) {
				return nil, Faultf(InvalidPlan, "the entity %q is given twice with different values", spelling.Clip(name))
			}
			continue
		}
		v, err := d.tape.value(value)
		if err != nil {
			return nil, err
		}
		m[name], where[name] = v, value
	}
	return m, nil
}

// pair reads an object that has a name and a value and nothing else.
func (d *drafting) pair(at int) (name string, value int, ok bool) {
	if d.tape[at].kind != objectNode {
		return "", -1, false
	}
	nameAt, value, count := -1, -1, 0
	for key, i := range d.tape.members(at) {
		count++
		switch {
		case strings.EqualFold(key, "name"):
			nameAt = i
		case strings.EqualFold(key, "value"):
			value = i
		}
	}
	if count != 2 || nameAt < 0 || value < 0 || d.tape[nameAt].kind != stringNode {
		return "", -1, false
	}
	return d.tape[nameAt].text, value, true
}
