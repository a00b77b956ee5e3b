package state

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Delta is what changed in a scope, see [Scope.Changes]. Its JSON is compact and
// has no version: what it is kept in has one. The zero Delta changes nothing.
type Delta struct {
	Values map[string]Change `json:"values,omitzero"`
}

// Change is one value before and after, nil where there is none; JSON's null is a value.
type Change struct {
	From jsontext.Value `json:"from,omitzero"`
	To   jsontext.Value `json:"to,omitzero"`
}

// Changes returns what changed in s since it was loaded or last saved, removed
// values included; it costs nothing where no value was asked for. The error is
// s.Err, or a [ValueError] of a value that JSON cannot hold. That a document was
// deleted which could not be read leaves no trace.
func (s *Scope) Changes() (Delta, error) {
	if err := s.Err(); err != nil {
		return Delta{}, err
	}
	var was map[string]jsontext.Value
	if s.edited {
		was = storedValues(s.stored)
	}
	var d Delta
	buf := borrow()
	defer giveBack(buf)
	for i := range s.values {
		v := &s.values[i]
		from := orNone(v.raw)
		if s.edited {
			from = was[v.name]
			delete(was, v.name)
		} else if v.live == nil {
			continue
		}
		to, err := s.now(v, buf)
		if err != nil {
			return Delta{}, err
		}
		d.note(v.name, from, to)
	}
	for name, from := range was {
		d.note(name, from, nil)
	}
	return d, nil
}

// note adds a value that changed. to may be in use for something else later.
func (d *Delta) note(name string, from, to jsontext.Value) {
	if bytes.Equal(from, to) {
		return
	}
	if d.Values == nil {
		d.Values = map[string]Change{}
	}
	d.Values[name] = Change{From: from, To: to.Clone()}
}

// Apply merges a kept delta into s by the rules of [Scope.Rebase]: after another
// process died, which may or may not have saved it. A value that is as the delta
// leaves it stays as it is, and all do when the mark of [Scope.MarkChanges] tells
// that the delta was saved. Without a mark, applying one twice changes nothing
// more but where others changed the same in between: a count is then added twice,
// and so may be an element that an array holds several times or that was moved.
//
// The error is s.Err or a [ValueError]; s is then as it was.
func (s *Scope) Apply(d Delta) error {
	if err := s.Err(); err != nil {
		return err
	}
	now, err := s.current()
	if err != nil {
		return err
	}
	if has(now[marksName], d) {
		return nil
	}
	var ups []update
	for _, name := range slices.Sorted(maps.Keys(d.Values)) {
		c := d.Values[name]
		if c.To != nil && !c.To.IsValid() {
			return &ValueError{Key: s.key, Name: name, Err: errors.New("the delta's value is no JSON")}
		}
		u := update{name: name, ours: c.To, theirs: now[name], now: now[name]}
		u.merged = merge(c.From, c.To, u.theirs, false)
		if v := s.find(name); v != nil && v.raw != "" {
			u.stored = v.raw
		}
		ups = append(ups, u)
	}
	return s.take(ups)
}

// current is what s holds, as Save would write it.
func (s *Scope) current() (map[string]jsontext.Value, error) {
	now := make(map[string]jsontext.Value, len(s.values))
	buf := borrow()
	defer giveBack(buf)
	for i := range s.values {
		raw, err := s.now(&s.values[i], buf)
		if err != nil {
			return nil, err
		}
		if raw != nil {
			now[s.values[i].name] = raw.Clone()
		}
	}
	return now, nil
}

// now is v as Save would write it, nil when it would not. It lies in buf.
func (s *Scope) now(v *value, buf *bytes.Buffer) (jsontext.Value, error) {
	if v.raw == "" && v.zero() {
		return nil, nil
	}
	buf.Reset()
	if err := v.encode(buf); err != nil {
		return nil, &ValueError{Key: s.key, Name: v.name, Err: err}
	}
	if v.raw == "" && v.encodesAsZero(buf.Bytes()) {
		return nil, nil
	}
	return buf.Bytes(), nil
}

func orNone(raw string) jsontext.Value {
	if raw == "" {
		return nil
	}
	return jsontext.Value(raw)
}

// storedValues are the values of a document that was parsed before.
func storedValues(doc string) map[string]jsontext.Value {
	if doc == "" {
		return nil
	}
	var s Scope
	if s.parseLines(doc[headerBytes:]) != nil {
		panic(errors.New("state: a document that was read before cannot be read again"))
	}
	values := make(map[string]jsontext.Value, len(s.values))
	for _, v := range s.values {
		values[v.name] = jsontext.Value(v.raw)
	}
	return values
}

func names(a, b map[string]jsontext.Value) []string {
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
