package state

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Scope is one document of turn state: named JSON values. [Redis.Load] makes
// one that [Redis.Save] can save, [NewScope] one that lives only in memory.
// It is not for concurrent use; a turn has it for itself.
//
// Values are decoded when they are asked for. The pointers that [Of] and [At]
// return are live: change what they point to, and Save finds the change by
// comparing the value's encoding with what was loaded.
type Scope struct {
	key       Key
	version   string   // start of the stored document, "" when there is none
	writtenAt int64    // Unix seconds of its last write, 0 when there is none
	stored    string   // the document as loaded or last saved, "" when there is none or it was not understood
	values    []value  // in the document's order, then as first touched
	edited    bool     // a stored value was removed, or all of them
	unsure    []string // versions that saves without an answer may have left
	rebases   []rebase // what others did since s was loaded
	fault     error    // the document as a whole cannot be used
}

// value is one named value. One that was never asked for has no live pointer
// and keeps its stored form.
type value struct {
	name     string
	raw      string // its JSON as stored, unless the scope is edited; "" when it is not
	live     any    // *T for the T it was asked for as
	fault    error
	from, to int // where an encoding under way put its JSON
}

// NewScope makes an empty scope that no store knows: the temporary state of a
// turn, and tests. Saving it is an error.
func NewScope() *Scope { return &Scope{} }

// Of returns the live value of type T in s, under the name that T's StateName
// method gives, else the type's name in lower case. It is At with that name,
// and panics for a type that has none, such as a plain map: use [At].
func Of[T any](s *Scope) *T { return At[T](s, nameOf[T]()) }

// At returns the live value called name in s, decoded into T; a value that s
// does not have starts as the zero T, and is stored only if it is not zero at
// Save. The pointer stays good until name is removed or s deleted: what is
// written through it after that is lost.
//
// At never returns nil. If the stored value does not fit T, or name is already
// in use with another type, it returns a fresh T, s.Err says so, and s is
// never saved over what is stored.
func At[T any](s *Scope, name string) *T {
	v := s.find(name)
	if v == nil {
		live := new(T)
		s.values = append(s.values, value{name: name, live: live})
		return live
	}
	if v.live != nil {
		return sameType[T](s, v)
	}
	live := new(T)
	if err := json.Unmarshal([]byte(v.raw), live); err != nil {
		v.fault = &ValueError{Key: s.key, Name: name, Err: err}
		live = new(T)
	}
	v.live = live
	return live
}

func sameType[T any](s *Scope, v *value) *T {
	if live, ok := v.live.(*T); ok {
		return live
	}
	v.fault = &ValueError{
		Key: s.key, Name: v.name,
		Err: fmt.Errorf("asked for as %T and as %T in one turn", v.live, (*T)(nil)),
	}
	return new(T)
}

func nameOf[T any]() string {
	if n, ok := any(new(T)).(interface{ StateName() string }); ok {
		return n.StateName()
	}
	name := reflect.TypeFor[T]().Name()
	if name == "" {
		panic(fmt.Sprintf("state.Of: %v has no name of its own, use state.At", reflect.TypeFor[T]()))
	}
	return strings.ToLower(name)
}

// Has reports whether s has a value called name: one that is stored and was
// not removed, or a live one that is not zero.
func (s *Scope) Has(name string) bool {
	v := s.find(name)
	return v != nil && (v.raw != "" || !v.zero())
}

// Names are those of the values that s has, in no order.
func (s *Scope) Names() []string {
	var names []string
	for _, v := range s.values {
		if s.Has(v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

// JSON returns the value called name as JSON, as it is now, without asking for it
// as a type: a later [At] may still do that. It is nil when [Scope.Has] is false.
// The error is that of a value which JSON cannot hold.
func (s *Scope) JSON(name string) (jsontext.Value, error) {
	v := s.find(name)
	switch {
	case v == nil, v.raw == "" && v.zero():
		return nil, nil
	case v.live == nil:
		return jsontext.Value(v.raw), nil
	}
	raw, err := json.Marshal(v.live, json.Deterministic(true))
	if err != nil {
		return nil, &ValueError{Key: s.key, Name: name, Err: err}
	}
	return raw, nil
}

// Remove takes the value called name out of s, and out of Redis at Save. A
// fault of that value goes with it. Asking for name again starts afresh.
func (s *Scope) Remove(name string) {
	s.values = slices.DeleteFunc(s.values, func(v value) bool {
		s.edited = s.edited || (v.name == name && v.raw != "")
		return v.name == name
	})
}

// Delete takes every value out of s, its faults too: at Save the document is
// deleted. What is written to s after Delete and before Save is all that the
// document then holds.
func (s *Scope) Delete() {
	s.values = nil
	s.edited = true
	s.fault = nil
}

// Key is the key s was loaded by, the zero Key for a detached scope.
func (s *Scope) Key() Key { return s.key }

// Err is why s cannot be trusted, nil when it can: its document could not be
// read, or a value did not fit the type it was asked for as (a [ValueError]).
// Such a scope is never saved, so nothing is overwritten that was not
// understood. Delete, or Remove of the value in question, clears it.
func (s *Scope) Err() error {
	if s.fault != nil {
		return s.fault
	}
	var faults []error
	for i := range s.values {
		if s.values[i].fault != nil {
			faults = append(faults, s.values[i].fault)
		}
	}
	if len(faults) == 1 {
		return faults[0]
	}
	return errors.Join(faults...)
}

func (s *Scope) find(name string) *value {
	for i := range s.values {
		if s.values[i].name == name {
			return &s.values[i]
		}
	}
	return nil
}

func (v *value) zero() bool {
	return v.live == nil || reflect.ValueOf(v.live).Elem().IsZero()
}
