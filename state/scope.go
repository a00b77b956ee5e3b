package state

import (
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
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Scope is one document of turn state: named JSON values. [Store.Load] returns scopes that
// [Store.Save] can save; [NewScope] makes one that exists only in memory. It is not safe for
// concurrent use.
//
// Values are decoded on demand. [Of] and [At] return live pointers: change what they point to, and
// Save detects the change by comparing the value's encoding with the loaded one.
type Scope struct {
	key       Key
	version   string        // start of the stored document; "" if there is none
	renewedAt int64         // Unix seconds of the write or renewal that began its time to live; 0 if there is none
	stored    string        // the document as loaded or last saved; "" if there is none or it could not be parsed
	values    []value       // in document order, then in order of first use
	unsure    []string      // versions that saves without a reply may have left
	deleted   bool          // by Delete, and not saved since
	rebases   int           // how often others' changes were merged in
	fault     error         // the whole document is unusable
	ttl       time.Duration // how long Redis keeps it after a save; 0: [Config.TTL]
	load      func()        // loads the document, see [Store.LoadLater]; nil: it is loaded
	asked     uint32        // how often a value was asked for
}

// value is one named value. Until it is asked for it has no live pointer and keeps its stored form.
type value struct {
	name  string
	raw   string // its stored JSON; "" if it is not stored
	live  any    // *T, for the T it was asked for as
	noted string // in a checkpoint: the JSON of what live points to
	read  bool   // by Peek alone, so live is what raw says
	merge merge  // nil: concurrent changes cannot be merged
	fault error
}

// NewScope makes an empty scope without a store, for a turn's temporary state and for tests. Saving
// it is an error.
func NewScope() *Scope { return &Scope{} }

// ScopeOf is [NewScope] with values as [Scope.JSON] returns them.
func ScopeOf(values map[string]jsontext.Value) *Scope {
	s := NewScope()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s.values = append(s.values, value{name: name, raw: string(values[name])})
	}
	return s
}

// Of returns the live value of type T in s. Its name comes from T's StateName method, or else is
// the type's name in lower case. It panics if T has no name, such as a plain map: use [At].
func Of[T any](s *Scope) *T { return At[T](s, nameOf[T]()) }

// At returns the live value called name in s, decoded into T. A missing value starts as the zero T
// and is stored only if it is not zero at Save. The pointer is valid until name is removed or s is
// deleted: later writes through it are lost.
//
// At never returns nil. If the stored value does not fit T, or name is already in use with another
// type, At returns a fresh T, s.Err says why, and s never overwrites what is stored.
func At[T any](s *Scope, name string) *T { return at[T](s, name, false) }

// Peek is [Of] for code that only reads: do not change what it points to. A save does not look for
// changes of a value until Of or At asks for it.
func Peek[T any](s *Scope) *T { return at[T](s, nameOf[T](), true) }

// Asked is how often a value was asked for: if it has grown, somebody looked into s since then.
func (s *Scope) Asked() uint32 { return atomic.LoadUint32(&s.asked) }

func at[T any](s *Scope, name string, read bool) *T {
	atomic.AddUint32(&s.asked, 1)
	v := s.find(name)
	if v == nil {
		live := new(T)
		s.values = append(s.values, value{name: name, live: live, merge: mergeOf[T](), read: read})
		return live
	}
	live := new(T)
	if v.live == nil {
		if err := json.UnmarshalRead(strings.NewReader(v.raw), live); v.raw != "" && err != nil {
			v.fault = s.valueError(v, err)
			live = new(T)
		}
		v.live, v.merge, v.read = live, mergeOf[T](), read
		return live
	}
	if same, ok := v.live.(*T); ok {
		v.read = v.read && read
		return same
	}
	v.fault = s.valueError(v, fmt.Errorf("asked for as %T and as %T in one turn", v.live, live))
	return live
}

func (s *Scope) valueError(v *value, err error) error {
	return fmt.Errorf("state %s: %w: value %q: %w", s.key, ErrValue, v.name, err)
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

// Has reports whether s has a value called name: a stored one that was not removed, or a live one
// that is not zero.
func (s *Scope) Has(name string) bool {
	v := s.find(name)
	return v != nil && (v.raw != "" || !v.zero())
}

// Names returns the names of the values in s, in no particular order.
func (s *Scope) Names() []string {
	s.ready()
	var names []string
	for _, v := range s.values {
		if s.Has(v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

// JSON returns the current value called name as JSON. It does not fix the value's type: a later
// [At] may still ask for any. It returns nil when [Scope.Has] is false, and an error if the value
// cannot be encoded.
func (s *Scope) JSON(name string) (jsontext.Value, error) {
	v := s.find(name)
	if v == nil {
		return nil, nil
	}
	raw, err := s.now(v)
	if raw == "" {
		return nil, err
	}
	return jsontext.Value(raw), nil
}

// Remove removes the value called name and its fault from s; Save removes it from Redis. Asking for
// name again starts fresh.
func (s *Scope) Remove(name string) {
	s.ready()
	s.values = slices.DeleteFunc(s.values, func(v value) bool { return v.name == name })
}

// Expire makes the next save set this time to live instead of [Config.TTL], to the millisecond. Save the
// scope alone: documents of one partition with different times to live are not saved in one step.
func (s *Scope) Expire(after time.Duration) { s.ttl = max(after, time.Millisecond) }

// Delete removes all values and faults from s; Save then deletes the document. If you write to s
// after Delete and before Save, the document holds only that.
func (s *Scope) Delete() {
	s.values, s.deleted, s.fault, s.load = nil, true, nil, nil
}

// Key is the key s was loaded by; the zero Key for a scope without a store.
func (s *Scope) Key() Key { return s.key }

// Err says why s cannot be trusted, or is nil: its document could not be read, or a value did not
// fit the type it was asked for as (an [ErrValue]). Such a scope is never saved, so it cannot
// overwrite data that was not understood. Delete clears the error, and so does Remove of the value
// in question.
func (s *Scope) Err() error {
	s.ready()
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

// ready loads a scope that is loaded when it is first asked for.
func (s *Scope) ready() {
	if s.load != nil {
		s.load()
	}
}

func (s *Scope) find(name string) *value {
	s.ready()
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

// Changed reports whether Save would write s. The error is s.Err, or an [ErrValue] for a value that
// JSON cannot encode.
func (s *Scope) Changed() (bool, error) {
	if err := s.Err(); err != nil {
		return false, err
	}
	_, changed, err := s.encode("", 0)
	return changed, err
}

// Checkpoint returns a copy of s for [Scope.Restore]. A live value that JSON cannot encode is
// shared, not copied: later changes to it survive a Restore.
func (s *Scope) Checkpoint() *Scope {
	c := &Scope{values: slices.Clone(s.values), deleted: s.deleted, rebases: s.rebases, fault: s.fault}
	for i := range c.values {
		v := &c.values[i]
		if v.read {
			v.live = nil // it may be changed later
		} else {
			v.noted, _ = v.marshal()
		}
	}
	return c
}

// Restore resets s to c, a checkpoint of s, even if s was saved in between. If [Scope.Rebase]
// merged in others' changes since c, Restore would undo those too, so s.Err then says that the
// document must be loaded again. Pointers from [Of] and [At] are no longer live.
func (s *Scope) Restore(c *Scope) {
	s.values, s.deleted, s.fault = slices.Clone(c.values), c.deleted, c.fault
	for i := range s.values {
		v := &s.values[i]
		if v.live == nil || v.noted == "" {
			continue
		}
		if live, err := s.decode(v, v.noted); err == nil {
			v.live = live
		}
	}
	if s.rebases != c.rebases {
		s.fault = cmp.Or(s.fault, error(&ConflictError{Conflicted: []Key{s.key}}))
	}
}

// Rebase resolves a lost race. fresh is the document loaded again. After Rebase s holds fresh plus
// its own changes and can be saved. fresh does not change.
//
// Values merge as a whole. If only one side changed a value, that side wins. If both changed it, it is
// merged if its type T has a method Merge(was, theirs *T), such as [Counter] and [Set]. Otherwise
// Rebase returns a [ConflictError], even if both wrote the same value, since each may have incremented
// it. The caller then loads again and decides again. A deleted scope stays deleted, except for what was
// written to it afterwards. Pointers from [Of] and [At] stay live; what they point to is replaced where
// it differs.
//
// The error may also be s.Err, fresh.Err or an [ErrValue] for a value that no longer fits its type.
// After any error s is unchanged.
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
	if !slices.Contains(s.unsure, fresh.version) { // otherwise it is our own write that got no reply
		values, err := s.rebased(storedValues(s.stored), storedValues(fresh.stored))
		if err != nil {
			return err
		}
		s.values = s.values[:0:0]
		for _, v := range values {
			if v.theirs != nil {
				reflect.ValueOf(v.live).Elem().Set(reflect.ValueOf(v.theirs).Elem())
			}
			s.values = append(s.values, v.value)
		}
		s.rebases++
	}
	s.version, s.renewedAt, s.stored, s.unsure = fresh.version, fresh.renewedAt, fresh.stored, nil
	return nil
}

// rebased is the outcome of Rebase for one value.
type rebased struct {
	value
	theirs any // not nil: what its live pointer will point to
}

// rebased computes the outcome for all values. was holds the values stored when s was loaded,
// theirs those stored now.
func (s *Scope) rebased(was, theirs map[string]string) ([]rebased, error) {
	var all []rebased
	for i := range s.values {
		v := &s.values[i]
		ours, err := s.now(v)
		if err != nil {
			return nil, err
		}
		r, was, theirs := rebased{value: *v}, was[v.name], theirs[v.name]
		r.raw = theirs
		switch {
		case ours == theirs && (ours == "" || len(s.unsure) > 0): // both removed it, or it may be our own write
		case theirs == was, s.deleted:
			r.raw = ours
		case ours == was:
			if v.live != nil {
				r.theirs, err = s.decode(v, theirs)
			}
		case v.merge != nil && v.live != nil:
			r.theirs, err = s.merge(v, ours, was, theirs)
		default:
			err = &ConflictError{Conflicted: []Key{s.key}, Value: v.name}
		}
		if err != nil {
			return nil, err
		}
		if r.live != nil || r.raw != "" {
			all = append(all, r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		switch {
		case s.find(name) != nil, s.deleted:
		case was[name] == "":
			all = append(all, rebased{value: value{name: name, raw: theirs[name]}})
		case was[name] != theirs[name]: // we removed it
			return nil, &ConflictError{Conflicted: []Key{s.key}, Value: name}
		}
	}
	return all, nil
}

// now is v's JSON as Save would write it, or "" if Save would skip it. A value that was only read
// is not worth a document, such as a struct whose empty map was made on first use.
func (s *Scope) now(v *value) (string, error) {
	if v.live == nil || v.read || v.raw == "" && v.zero() {
		return v.raw, nil
	}
	raw, err := v.marshal()
	if err == nil && raw != v.raw && strings.Contains(raw, "\n") {
		err = errors.New("its marshaler writes line breaks, state is kept compact")
	}
	if err != nil {
		return "", s.valueError(v, err)
	}
	if v.raw == "" {
		zero, err := (&value{live: reflect.New(reflect.TypeOf(v.live).Elem()).Interface()}).marshal()
		if err == nil && zero == raw {
			return "", nil
		}
	}
	return raw, nil
}

// marshal encodes what v.live points to. Map keys are sorted; otherwise an unchanged map would look
// changed.
func (v *value) marshal() (string, error) {
	w := comparer{known: v.raw}
	if err := json.MarshalWrite(&w, v.live, json.Deterministic(true)); err != nil {
		return "", err
	}
	if !w.differs {
		return v.raw[:w.same], nil
	}
	return w.other.String(), nil
}

// comparer keeps what is written to it only if that is not how known starts. Each save encodes
// every value in use to find the changed ones, so the unchanged ones must cost no memory.
type comparer struct {
	known   string
	same    int // bytes written before it differed
	differs bool
	other   strings.Builder // everything written, once it differs
}

func (c *comparer) Write(p []byte) (int, error) {
	if rest := c.known[c.same:]; !c.differs && len(p) <= len(rest) && rest[:len(p)] == string(p) {
		c.same += len(p)
		return len(p), nil
	}
	if !c.differs {
		c.differs = true
		c.other.Grow(len(c.known) + len(p))
		c.other.WriteString(c.known[:c.same])
	}
	return c.other.Write(p)
}

func (s *Scope) decode(v *value, raw string) (any, error) {
	live := reflect.New(reflect.TypeOf(v.live).Elem()).Interface()
	if raw == "" {
		return live, nil
	}
	if err := json.UnmarshalRead(strings.NewReader(raw), live); err != nil {
		return nil, s.valueError(v, err)
	}
	return live, nil
}

func (s *Scope) merge(v *value, ours, was, theirs string) (any, error) {
	merged, err := s.decode(v, ours)
	before, wasErr := s.decode(v, was)
	after, theirsErr := s.decode(v, theirs)
	if err = cmp.Or(err, wasErr, theirsErr); err != nil {
		return nil, err
	}
	v.merge(merged, before, after)
	return merged, nil
}

// storedValues returns the values of a document that has already been parsed.
func storedValues(doc string) map[string]string {
	values := map[string]string{}
	if doc != "" {
		all, _ := parseLines(doc[headerBytes:])
		for _, v := range all {
			values[v.name] = v.raw
		}
	}
	return values
}

// merge merges theirs into ours. All three are *T.
type merge func(ours, was, theirs any)

func mergeOf[T any]() merge {
	type merger interface{ Merge(was, theirs *T) }
	if _, ok := any((*T)(nil)).(merger); !ok {
		return nil
	}
	return func(ours, was, theirs any) { ours.(merger).Merge(was.(*T), theirs.(*T)) }
}

// Counter is a number. Concurrent changes to it add up.
type Counter int64

// Merge adds the difference between was and theirs.
func (c *Counter) Merge(was, theirs *Counter) { *c += *theirs - *was }

// Set is a set of names. A merge keeps what either side added and drops what either side removed. A
// name that maps to false is not in the set.
type Set map[string]bool

// Merge adds what theirs added to was and removes what theirs removed.
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

// A stored document is
//
//	planbot/1 <random version, 26 letters and digits> <time written or renewed, Unix seconds, 8 hex digits>
//	<name, path-escaped> <compact JSON>
//	…
//
// Compact JSON and escaped names contain no line breaks, so lines can be split without parsing.
// docs.lua compares the first versionBytes with what was loaded, so a new format number also counts
// as a new version.
const (
	format       = 1
	magic        = "planbot/"
	versionBytes = len("planbot/1 ") + 26
	headerBytes  = versionBytes + len(" 01234567\n")
)

// headerTime is the rest of the header, after the version. renew.lua writes it, too.
func headerTime(now int64) string { return fmt.Sprintf(" %08x\n", now) }

// newVersion makes a version that no document ever had. So a document that was deleted and created
// again is not mistaken for the one that was loaded.
func newVersion() string { return magic + strconv.Itoa(format) + " " + rand.Text() }

// read fills s from a document as Redis returned it: whole, or cut off after maxBytes+1 bytes. It
// also stores its error as s's fault.
func (s *Scope) read(doc string, maxBytes int) error {
	s.version = doc[:min(len(doc), versionBytes)]
	switch {
	case doc == "":
		return nil
	case len(doc) > maxBytes:
		s.fault = fmt.Errorf("state %s: %w: more than %d bytes", s.key, ErrTooLarge, maxBytes)
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
	if _, err := strconv.ParseUint(number, 10, 31); ours && err == nil && number != strconv.Itoa(format) {
		return fmt.Errorf("state %s: %w: its format is %s, this program knows %d; a newer program wrote it", s.key, ErrValue, number, format)
	}
	foreign := fmt.Errorf("state %s: %w: it was not written by this program", s.key, ErrValue)
	if !ours || number != strconv.Itoa(format) || len(doc) < headerBytes || doc[headerBytes-1] != '\n' || doc[len(doc)-1] != '\n' {
		return foreign
	}
	written, err := strconv.ParseInt(doc[versionBytes+1:headerBytes-1], 16, 64)
	values, valid := parseLines(doc[headerBytes:])
	if err != nil || !valid {
		return foreign
	}
	s.renewedAt, s.values = written, values
	return nil
}

func parseLines(lines string) (values []value, valid bool) {
	for line := range strings.Lines(lines) {
		field, raw, ok := strings.Cut(line[:len(line)-1], " ")
		name, err := url.PathUnescape(field)
		if !ok || raw == "" || err != nil {
			return nil, false
		}
		values = append(values, value{name: name, raw: raw})
	}
	return values, true
}

// encode returns the document for s, or "" if none is needed, and whether it differs from the
// stored one. Values that were never asked for are copied verbatim.
func (s *Scope) encode(version string, now int64) (doc string, changed bool, err error) {
	raws, size := make([]string, len(s.values)), headerBytes
	rest, same := s.stored[min(len(s.stored), headerBytes):], s.stored != "" && len(s.unsure) == 0
	for i := range s.values {
		v := &s.values[i]
		if raws[i], err = s.now(v); err != nil {
			return "", false, err
		}
		if raws[i] == "" {
			continue
		}
		name := url.PathEscape(v.name)
		size += len(name) + len(raws[i]) + len(" \n")
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		field, raw, _ := strings.Cut(line, " ")
		same = same && field == name && raw == raws[i]
	}
	switch {
	case size == headerBytes:
		return "", s.version != "" || len(s.unsure) > 0, nil
	case same && rest == "":
		return s.stored, false, nil
	}
	var buf strings.Builder
	buf.Grow(size)
	buf.WriteString(version + headerTime(now))
	for i, raw := range raws {
		if raw != "" {
			buf.WriteString(url.PathEscape(s.values[i].name))
			buf.WriteByte(' ')
			buf.WriteString(raw)
			buf.WriteByte('\n')
		}
	}
	return buf.String(), true, nil
}

// saved records that doc, the last encoded document, is stored; "" after a delete.
func (s *Scope) saved(doc, version string, now int64) {
	s.version, s.renewedAt, s.stored = version, now, doc
	s.deleted, s.unsure = false, nil
	if doc == "" {
		s.version, s.renewedAt = "", 0
	}
	values := storedValues(doc)
	for i := range s.values {
		s.values[i].raw = values[s.values[i].name]
	}
}
