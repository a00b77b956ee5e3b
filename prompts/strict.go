package prompts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// strict reads a JSON file by what is allowed in it, and keeps every fault with
// its place, rather than stopping at the first one.
type strict struct {
	file   string
	faults []error
}

// reader reads the value at a place.
type reader func(at string, value jsontext.Value)

// fields are what an object may hold.
type fields map[string]reader

func (s *strict) fail(at, format string, args ...any) {
	place := s.file + ": "
	if at != "" {
		place += at + ": "
	}
	s.faults = append(s.faults, errors.New(place+fmt.Sprintf(format, args...)))
}

func (s *strict) object(at string, value jsontext.Value, known fields) {
	var object map[string]jsontext.Value
	if value.Kind() == 'n' || json.Unmarshal(value, &object) != nil {
		s.wrong(at, "an object", value)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if read, ok := known[name]; ok {
			read(inside(at, name), object[name])
		} else if hint := instead[name]; hint != "" {
			s.fail(inside(at, name), "has no effect here: %s", hint)
		} else {
			s.fail(inside(at, name), "no such field, have %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
}

// named reads an object that must have a name.
func (s *strict) named(at string, raw jsontext.Value, name reader, known fields) {
	said := raw.Kind() != '{'
	known["name"] = func(at string, value jsontext.Value) {
		said = true
		name(at, value)
	}
	s.object(at, raw, known)
	if !said {
		s.fail(at, "has no name")
	}
}

// within reads an object inside of another.
func (s *strict) within(known fields) reader {
	return func(at string, value jsontext.Value) { s.object(at, value, known) }
}

// each reads every element of a list.
func (s *strict) each(read reader) reader {
	return func(at string, value jsontext.Value) {
		var list []jsontext.Value
		if value.Kind() == 'n' || json.Unmarshal(value, &list) != nil {
			s.wrong(at, "a list", value)
			return
		}
		for i, element := range list {
			read(fmt.Sprintf("%s[%d]", at, i), element)
		}
	}
}

// value reads a value of Go's type T that good takes; a nil good takes all.
func value[T any](s *strict, into *T, want string, good func(T) bool) reader {
	return func(at string, value jsontext.Value) {
		var v T
		if value.Kind() == 'n' || json.Unmarshal(value, &v) != nil || good != nil && !good(v) {
			s.wrong(at, want, value)
			return
		}
		*into = v
	}
}

func (s *strict) text(into *string) reader {
	return value(s, into, "a text", nil)
}

func (s *strict) word(into *string, words ...string) reader {
	return value(s, into, "one of "+strings.Join(words, ", "), func(v string) bool { return slices.Contains(words, v) })
}

func (s *strict) count(into *int) reader {
	return value(s, into, "a whole number from 1 on", func(v int) bool { return v > 0 })
}

func (s *strict) number(into **float64, least, most float64) reader {
	want := fmt.Sprintf("a number from %g to %g", least, most)
	return value(s, into, want, func(v *float64) bool { return least <= *v && *v <= most })
}

func (s *strict) flag(into **bool) reader {
	return value(s, into, "true or false", nil)
}

// unless refuses all values but the one that says what is done anyway.
func (s *strict) unless(allowed, hint string) reader {
	return func(at string, value jsontext.Value) {
		if compact := value.Clone(); compact.Compact() != nil || string(compact) != allowed {
			s.fail(at, "has no effect here: %s", hint)
		}
	}
}

// wrong says what a value is, cut short.
func (s *strict) wrong(at, want string, value jsontext.Value) {
	have := strings.Join(strings.Fields(string(value)), " ")
	if short := trimBytes(have, 60); short != have {
		have = short + "…"
	}
	s.fail(at, "want %s, have %s", want, have)
}

func inside(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
