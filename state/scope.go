package state

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Scope is one document of turn state: named JSON values. [Store.Load] makes
// one that [Store.Save] can save, [NewScope] one that lives only in memory.
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
	deleted   bool     // by Delete, and not saved since
	rebases   int      // how often others' changes came in
	fault     error    // the document as a whole cannot be used
}

// value is one named value. One that was never asked for has no live pointer
// and keeps its stored form.
type value struct {
	name     string
	raw      string // its JSON as stored, unless the scope is edited; "" when it is not
	live     any    // *T for the T it was asked for as
	merge    merge  // nil: two changes of it cannot be merged
	fault    error
	from, to int // where an encoding under way put its JSON
}

// NewScope makes an empty scope that no store knows: the temporary state of a
// turn, and tests. Saving it is an error.
func NewScope() *Scope { return &Scope{} }

// ScopeOf is [NewScope] with values, such as [Scope.JSON] returned them.
func ScopeOf(values map[string]jsontext.Value) *Scope {
	s := NewScope()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s.values = append(s.values, value{name: name, raw: string(values[name])})
	}
	return s
}

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
		s.values = append(s.values, value{name: name, live: live, merge: mergeOf[T]()})
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
	v.live, v.merge = live, mergeOf[T]()
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
	s.edited, s.deleted = true, true
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

// Changed reports whether a Save would write s. The error is s.Err, or a [ValueError] of
// a value that JSON cannot hold.
func (s *Scope) Changed() (bool, error) {
	if err := s.Err(); err != nil || !s.touched() {
		return false, err
	}
	buf := borrow()
	defer giveBack(buf)
	buf.Reset()
	changed, err := s.encode(buf, newVersion(), 0)
	if buf.Len() == headerBytes {
		changed = s.version != "" || len(s.unsure) > 0
	}
	return changed, err
}

// Checkpoint is what a scope held at one moment, see [Scope.Checkpoint].
type Checkpoint struct {
	version string
	values  []value
	encoded []string // JSON of what was live, by index
	edited  bool
	deleted bool
	rebases int
	fault   error
}

// Checkpoint notes what s holds now. A live value that JSON cannot hold is noted
// as the same value, so that what is done to it later stays done.
func (s *Scope) Checkpoint() Checkpoint {
	c := Checkpoint{s.version, slices.Clone(s.values), make([]string, len(s.values)), s.edited, s.deleted, s.rebases, s.fault}
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
// When [Scope.Rebase] brought in what others did since c, that would be undone, too:
// then s.Err says that the document has to be loaded again. Pointers that [Of] and [At]
// returned are not live any more.
func (s *Scope) Restore(c Checkpoint) {
	s.values, s.deleted, s.fault = slices.Clone(c.values), c.deleted, c.fault
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
	if s.rebases != c.rebases {
		s.fault = cmp.Or(s.fault, error(&ConflictError{Conflicted: []Key{s.key}}))
	}
}

// Rebase answers a lost race: fresh is the document as it is now, loaded again.
// After it s is fresh with s's own changes, and can be saved. fresh is not changed.
//
// Values are whole: one that only one side changed is as that side left it. One that both
// changed, to different JSON, is merged if its type T has a method Merge(was, theirs *T),
// such as [Counter] and [Set]; else Rebase returns a [ConflictError], and the caller loads
// again and decides again. A scope that was deleted stays deleted, but for what was
// written to it afterwards. Pointers that [Of] and [At] returned stay live; what they
// point to is replaced where it differs.
//
// The error may also be s.Err, fresh.Err or a [ValueError] of a value that does not fit
// its type any more. After any error s is as it was.
func (s *Scope) Rebase(fresh *Scope) error {
	if err := cmp.Or(s.Err(), fresh.Err()); err != nil {
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
	was, theirs := storedValues(s.stored), storedValues(fresh.stored)
	results := make([]rebased, 0, len(s.values)+len(theirs))
	for i := range s.values {
		v := &s.values[i]
		r, err := s.rebase(v, was[v.name], theirs[v.name])
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if s.find(name) != nil {
			continue
		}
		switch gone := was[name] != "" || s.deleted; { // it is not in s
		case !gone:
			results = append(results, rebased{value: value{name: name, raw: theirs[name]}})
		case was[name] == theirs[name], s.deleted:
			results = append(results, rebased{edited: true})
		default:
			return &ConflictError{Conflicted: []Key{s.key}}
		}
	}
	s.take(results)
	s.onto(fresh)
	s.rebases++
	return nil
}

func (s *Scope) onto(fresh *Scope) {
	s.version, s.writtenAt, s.stored, s.unsure = fresh.version, fresh.writtenAt, fresh.stored, nil
}

// rebased is what becomes of one value.
type rebased struct {
	value
	live   any  // not nil: what its live pointer is to point to
	edited bool // a Save would not find the difference to fresh by itself
}

// rebase says what becomes of v, which was stored as was when s was loaded and as theirs
// now. "" is one that is not there.
func (s *Scope) rebase(v *value, was, theirs string) (rebased, error) {
	ours, err := s.now(v)
	if err != nil {
		return rebased{}, err
	}
	r := rebased{value: *v}
	r.raw = theirs
	switch {
	case ours == theirs:
	case theirs == was, s.deleted:
		switch {
		case v.live == nil: // Restore put it back
			r.raw, r.edited = ours, true
		case ours == "" && theirs != "": // it was removed, and asked for again
			r.raw, r.edited = "", true
		}
	case ours == was:
		if v.live != nil {
			r.live, err = s.decode(v, theirs)
		}
	case v.merge != nil && v.live != nil:
		r.live, err = s.mergeValue(v, ours, was, theirs)
	default:
		err = &ConflictError{Conflicted: []Key{s.key}}
	}
	return r, err
}

// take makes results what s holds.
func (s *Scope) take(results []rebased) {
	s.edited = false
	values := s.values[:0:0]
	for _, r := range results {
		s.edited = s.edited || r.edited
		if r.live != nil {
			reflect.ValueOf(r.value.live).Elem().Set(reflect.ValueOf(r.live).Elem())
		}
		if r.value.live != nil || r.raw != "" {
			values = append(values, r.value)
		}
	}
	s.values = values
}

// now is v's JSON as Save would write it, "" when it would not.
func (s *Scope) now(v *value) (string, error) {
	if v.raw == "" && v.zero() {
		return "", nil
	}
	var buf bytes.Buffer
	if err := v.encode(&buf); err != nil {
		return "", &ValueError{Key: s.key, Name: v.name, Err: err}
	}
	if v.raw == "" && v.encodesAsZero(buf.Bytes()) {
		return "", nil
	}
	return buf.String(), nil
}

// decode makes another value of v's type.
func (s *Scope) decode(v *value, raw string) (any, error) {
	live := reflect.New(reflect.TypeOf(v.live).Elem()).Interface()
	if raw == "" {
		return live, nil
	}
	if err := json.Unmarshal([]byte(raw), live); err != nil {
		return nil, &ValueError{Key: s.key, Name: v.name, Err: err}
	}
	return live, nil
}

func (s *Scope) mergeValue(v *value, ours, was, theirs string) (any, error) {
	merged, err := s.decode(v, ours)
	before, wasErr := s.decode(v, was)
	after, theirsErr := s.decode(v, theirs)
	if err = cmp.Or(err, wasErr, theirsErr); err != nil {
		return nil, err
	}
	v.merge(merged, before, after)
	return merged, nil
}

// storedValues are the values of a document that was parsed before.
func storedValues(doc string) map[string]string {
	if doc == "" {
		return nil
	}
	var s Scope
	if s.parseLines(doc[headerBytes:]) != nil {
		panic(errors.New("state: a document that was read before cannot be read again"))
	}
	values := make(map[string]string, len(s.values))
	for _, v := range s.values {
		values[v.name] = v.raw
	}
	return values
}

// merge brings theirs into ours, all of them *T.
type merge func(ours, was, theirs any)

func mergeOf[T any]() merge {
	type merger interface{ Merge(was, theirs *T) }
	if _, ok := any((*T)(nil)).(merger); !ok {
		return nil
	}
	return func(ours, was, theirs any) { ours.(merger).Merge(was.(*T), theirs.(*T)) }
}

// Counter is a number of which two changes add up.
type Counter int64

// Merge adds the difference between was and theirs.
func (c *Counter) Merge(was, theirs *Counter) { *c += *theirs - *was }

// Set is a set of names. Merged, it has what either side added and not what either took
// out. A name that is false is not in the set.
type Set map[string]bool

// Merge brings in what theirs adds to was and takes out what it lacks.
func (s *Set) Merge(was, theirs *Set) {
	if *s == nil {
		*s = Set{}
	}
	for name, in := range *theirs {
		if in && !(*was)[name] {
			(*s)[name] = true
		}
	}
	for name := range *was {
		if !(*theirs)[name] {
			delete(*s, name)
		}
	}
}

// touched: whether s needs to be encoded to know if it changed.
func (s *Scope) touched() bool {
	return s.edited || len(s.unsure) > 0 ||
		slices.ContainsFunc(s.values, func(v value) bool { return v.live != nil })
}

// A stored document is
//
//	planbot/1 <random version, 26 letters and digits> <time written, Unix seconds, 8 hex digits>
//	<name, path-escaped> <compact JSON>
//	…
//
// Compact JSON and escaped names hold no line break, so lines need no parsing.
// docs.lua compares the first versionBytes with what was loaded: a change of
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
	s.edited, s.deleted, s.unsure = false, false, nil
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
