package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
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
	if !s.edited && !slices.ContainsFunc(s.values, func(v value) bool { return v.live != nil }) {
		return Delta{}, nil
	}
	now, err := s.current()
	if err != nil {
		return Delta{}, err
	}
	was := storedValues(s.stored)
	var d Delta
	for _, name := range names(was, now) {
		if bytes.Equal(was[name], now[name]) {
			continue
		}
		if d.Values == nil {
			d.Values = map[string]Change{}
		}
		d.Values[name] = Change{From: was[name], To: now[name]}
	}
	return d, nil
}

// Apply merges a kept delta into s by the rules of [Scope.Rebase]: after another
// process died, which may or may not have saved it. A value that is as the delta
// leaves it stays as it is, so that applying one twice changes nothing more. The
// exceptions are what others changed in between: an integer may be counted
// twice, and an element that an array holds several times be added twice.
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

// Rebase answers a lost race: fresh is the document as it is now, loaded again.
// After it s is fresh with s's own changes merged in, and can be saved. Pointers
// that [Of] and [At] returned stay live; what they point to is replaced by the
// merged value where that differs, so that slices, maps and pointers taken out
// of it before are not part of it any more. fresh is not changed.
//
// Values are merged as JSON, with what was loaded as the common ground. What
// only one side changed is as that side left it. Where both did:
//
//   - Objects are merged member by member.
//   - Arrays have what either side added and have not what either took away, in
//     their order, our additions behind theirs. What both added is there once.
//     Elements with the same "id" are the same one and are merged; others are the
//     same when they are equal. A history whose front was cut off keeps its end;
//     it may be longer than its limit by what the other side added. Arrays of as
//     many numbers as before are one value.
//   - Integers below a billion count: both differences are added, and one that
//     is not there is 0. What is a number and no count is safe as a string.
//   - Of anything else, s's own value stays.
//   - A change stays that the other side took away, of an array what was added.
//     Where the whole value is gone, as after [Scope.Delete], only what is new
//     stays: members and elements that the common ground did not have.
//
// The error is s.Err, fresh.Err or a [ValueError] of a value that does not fit
// its type any more; s is then as it was.
func (s *Scope) Rebase(fresh *Scope) error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := fresh.Err(); err != nil {
		return err
	}
	if s.key != fresh.key {
		return fmt.Errorf("rebase state %s on %s: %w: not the same document", s.key, fresh.key, ErrKey)
	}
	if fresh.version == s.version {
		return nil // another document of the same Save lost
	}
	if slices.Contains(s.unsure, fresh.version) {
		s.onto(fresh) // an own write that got no answer
		s.edited = true
		return nil
	}
	r := rebase{from: s.stored, to: fresh.stored, certain: len(s.unsure) == 0}
	edited := s.edited
	s.edited = false // replay makes the raw values those of fresh
	if err := s.replay(r); err != nil {
		s.edited = edited
		return err
	}
	s.onto(fresh)
	s.rebases = append(s.rebases, r)
	return nil
}

func (s *Scope) onto(fresh *Scope) {
	s.version, s.writtenAt, s.stored, s.unsure = fresh.version, fresh.writtenAt, fresh.stored, nil
}

// rebase is one step of others: the document that they found, and what it
// became. [Scope.Restore] takes the steps since its checkpoint once more.
type rebase struct {
	from, to string
	certain  bool // nothing of ours is in to
}

// replay merges what others did into s's values.
func (s *Scope) replay(r rebase) error {
	ours, err := s.current()
	if err != nil {
		return err
	}
	was, theirs := storedValues(r.from), storedValues(r.to)
	var ups []update
	for _, name := range names(ours, theirs) {
		u := update{name: name, stored: string(theirs[name]), ours: ours[name], theirs: theirs[name], now: ours[name]}
		u.merged = merge(was[name], u.ours, u.theirs, r.certain)
		ups = append(ups, u)
	}
	return s.take(ups)
}

// update is what a merge makes of one value. nil is one that is not there.
type update struct {
	name         string
	stored       string // what the document has
	ours, theirs jsontext.Value
	now          jsontext.Value // what the scope has: one of the two
	merged       jsontext.Value
}

// take makes ups what s holds: all of them, or none and an error.
func (s *Scope) take(ups []update) error {
	at := make(map[string]int, len(s.values))
	for i := range s.values {
		at[s.values[i].name] = i
	}
	decoded := make([]any, len(ups))
	for i, u := range ups {
		if n, ok := at[u.name]; ok && s.values[n].live != nil && !bytes.Equal(u.merged, u.now) {
			var err error
			if decoded[i], err = s.values[n].decode(u); err != nil {
				return &ValueError{Key: s.key, Name: u.name, Err: err}
			}
		}
	}
	for i, u := range ups {
		n, ok := at[u.name]
		if !ok {
			n = len(s.values)
			s.values = append(s.values, value{name: u.name})
		}
		s.edited = s.values[n].become(u, decoded[i]) || s.edited
	}
	s.values = slices.DeleteFunc(s.values, func(v value) bool { return v.live == nil && v.raw == "" })
	return nil
}

// become makes v what u says and reports whether that has to be saved even if v
// is never encoded again.
func (v *value) become(u update, decoded any) (edited bool) {
	if v.live == nil {
		v.raw = string(u.merged)
		return v.raw != u.stored
	}
	if decoded != nil {
		reflect.ValueOf(v.live).Elem().Set(reflect.ValueOf(decoded).Elem())
	}
	v.raw = u.stored
	if u.merged == nil {
		v.raw = ""
	}
	return v.raw != u.stored
}

// decode makes a new value of v's type from what u merged to; from ours where
// theirs fits the type and both together do not.
func (v *value) decode(u update) (any, error) {
	merged, err := v.decodeOne(u.merged)
	if err == nil {
		return merged, nil
	}
	if _, theirs := v.decodeOne(u.theirs); theirs != nil {
		return nil, err
	}
	return v.decodeOne(u.ours)
}

func (v *value) decodeOne(raw jsontext.Value) (any, error) {
	live := reflect.New(reflect.TypeOf(v.live).Elem()).Interface()
	if raw == nil {
		return live, nil
	}
	return live, json.Unmarshal(raw, live)
}

// current is what s holds, as Save would write it.
func (s *Scope) current() (map[string]jsontext.Value, error) {
	now := make(map[string]jsontext.Value, len(s.values))
	for i := range s.values {
		v := &s.values[i]
		if v.raw == "" && v.zero() {
			continue
		}
		var buf bytes.Buffer
		if err := v.encode(&buf); err != nil {
			return nil, &ValueError{Key: s.key, Name: v.name, Err: err}
		}
		if v.raw != "" || !v.encodesAsZero(buf.Bytes()) {
			now[v.name] = buf.Bytes()
		}
	}
	return now, nil
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
