package state

import (
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
)

// Checkpoint is what a scope held at one moment, see [Scope.Checkpoint].
type Checkpoint struct {
	version string
	values  []value
	encoded []string // JSON of what was live, by index
	edited  bool
	rebases int
	fault   error
}

// Checkpoint notes what s holds now. A live value that JSON cannot hold is noted
// as the same value, so that what is done to it later stays done.
func (s *Scope) Checkpoint() Checkpoint {
	c := Checkpoint{s.version, slices.Clone(s.values), make([]string, len(s.values)), s.edited, len(s.rebases), s.fault}
	for i := range s.values {
		if live := s.values[i].live; live != nil {
			if raw, err := json.Marshal(live, json.Deterministic(true)); err == nil {
				c.encoded[i] = string(raw)
			}
		}
	}
	return c
}

// Restore puts s back to c, a checkpoint of s, also when s was saved in between.
// What others did to the document, and [Scope.Rebase] brought into s since c,
// stays; where that does not fit what c holds, s.Err says so. Pointers that [Of]
// and [At] returned are not live any more.
func (s *Scope) Restore(c Checkpoint) {
	s.values, s.fault = slices.Clone(c.values), c.fault
	s.edited = c.edited || s.version != c.version
	for i := range s.values {
		v := &s.values[i]
		if v.live == nil || c.encoded[i] == "" {
			continue
		}
		live := reflect.New(reflect.TypeOf(v.live).Elem()).Interface()
		if json.Unmarshal([]byte(c.encoded[i]), live) == nil {
			v.live = live
		}
	}
	for _, r := range s.rebases[c.rebases:] {
		if s.fault == nil {
			s.fault = s.replay(r)
		}
	}
}
