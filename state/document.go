package state

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// A stored document is
//
//	planbot/1 <random version, 26 letters and digits> <time written, Unix seconds, 8 hex digits>
//	<name, path-escaped> <compact JSON>
//	…
//
// Compact JSON and escaped names hold no line break, so lines need no parsing.
// save.lua compares the first versionBytes with what was loaded: a change of
// the format number is a change of the version, too.
const (
	format       = 1
	magic        = "planbot/"
	versionBytes = len("planbot/1 ") + 26
	headerBytes  = versionBytes + len(" 01234567\n")
)

// newVersion makes a version that no document ever had, so that one which was
// deleted and made again is not taken for the one that was loaded.
func newVersion() string { return magic + strconv.Itoa(format) + " " + rand.Text() }

// read fills s from a document as Redis returned it: whole, or cut off after
// maxBytes+1 bytes. Its error is s's fault as well.
func (s *Scope) read(doc string, maxBytes int) error {
	s.version = doc[:min(len(doc), versionBytes)]
	switch {
	case doc == "":
		return nil
	case len(doc) > maxBytes:
		s.fault = &TooLargeError{Key: s.key, Size: len(doc), Limit: maxBytes}
	default:
		s.fault = s.parse(doc)
	}
	if s.fault == nil {
		s.stored = doc
	}
	return s.fault
}

func (s *Scope) parse(doc string) error {
	rest, ours := strings.CutPrefix(doc, magic)
	number, _, _ := strings.Cut(rest[:min(len(rest), 10)], " ")
	if _, err := strconv.ParseUint(number, 10, 31); !ours || err != nil {
		return &FormatError{Key: s.key}
	}
	if number != strconv.Itoa(format) {
		return &FormatError{Key: s.key, Format: number}
	}
	if len(doc) < headerBytes || doc[headerBytes-1] != '\n' || doc[len(doc)-1] != '\n' {
		return &FormatError{Key: s.key}
	}
	written, err := strconv.ParseInt(doc[versionBytes+1:headerBytes-1], 16, 64)
	if err != nil {
		return &FormatError{Key: s.key}
	}
	s.writtenAt = written
	return s.parseLines(doc[headerBytes:])
}

func (s *Scope) parseLines(lines string) error {
	s.values = make([]value, 0, min(strings.Count(lines, "\n"), 64)+2)
	for line := range strings.Lines(lines) {
		field, raw, ok := strings.Cut(line[:len(line)-1], " ")
		name, err := url.PathUnescape(field)
		if !ok || raw == "" || err != nil {
			s.values = nil
			return &FormatError{Key: s.key}
		}
		s.values = append(s.values, value{name: name, raw: raw})
	}
	return nil
}

// encode writes the document that s stands for to buf and reports whether it
// differs from the stored one. Values that were never asked for are copied as
// they are. A document without values is one that should not exist.
func (s *Scope) encode(buf *bytes.Buffer, version string, now int64) (changed bool, err error) {
	fmt.Fprintf(buf, "%s %08x\n", version, now)
	changed = s.edited || len(s.unsure) > 0
	for i := range s.values {
		v := &s.values[i]
		start := buf.Len()
		v.from, v.to = 0, 0
		if v.raw == "" && v.zero() {
			continue
		}
		buf.WriteString(url.PathEscape(v.name))
		buf.WriteByte(' ')
		from := buf.Len()
		if err := v.encode(buf); err != nil {
			return false, &ValueError{Key: s.key, Name: v.name, Err: err}
		}
		if v.raw == "" && v.encodesAsZero(buf.Bytes()[from:]) {
			buf.Truncate(start)
			continue
		}
		v.from, v.to = from, buf.Len()
		changed = changed || string(buf.Bytes()[from:]) != v.raw
		buf.WriteByte('\n')
	}
	return changed, nil
}

// encode writes the value's JSON. Maps are written in the order of their keys:
// otherwise an unchanged one would look changed.
func (v *value) encode(buf *bytes.Buffer) error {
	if v.live == nil {
		buf.WriteString(v.raw)
		return nil
	}
	from := buf.Len()
	if err := json.MarshalWrite(buf, v.live, json.Deterministic(true)); err != nil {
		return err
	}
	if bytes.IndexByte(buf.Bytes()[from:], '\n') >= 0 {
		return errors.New("its marshaler writes line breaks, state is kept compact")
	}
	return nil
}

// encodesAsZero: a value that was only looked at, such as a struct whose empty
// map was made on first use, is not worth a document.
func (v *value) encodesAsZero(encoded []byte) bool {
	zero, err := json.Marshal(reflect.New(reflect.TypeOf(v.live).Elem()).Interface(), json.Deterministic(true))
	return err == nil && bytes.Equal(zero, encoded)
}

// saved makes doc, encoded last, what s knows to be stored; "" after a delete.
func (s *Scope) saved(doc, version string, now int64) {
	s.version, s.writtenAt, s.stored = version, now, doc
	s.edited, s.unsure = false, nil
	if doc == "" {
		s.version, s.writtenAt = "", 0
	}
	for i := range s.values {
		v := &s.values[i]
		v.raw = ""
		if doc != "" {
			v.raw = doc[v.from:v.to]
		}
	}
}
