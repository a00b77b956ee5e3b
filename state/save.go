package state

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

//go:embed docs.lua
var docsLua string

//go:embed save.lua
var saveLua string

var saveScript = newScript(docsLua, saveLua)

// write is one document that a Save has to write.
type write struct {
	scope   *Scope
	doc     string // "": delete it
	version string // of doc
	at      int64  // Unix seconds
}

// group is the writes of one partition: one call of the script, all or nothing.
type group struct {
	call
	writes []write
	lost   []int64 // numbers, from 1, of the documents that somebody else wrote meanwhile
}

// Save writes the scopes that changed since they were loaded or last saved, in
// one round trip, each only if nobody else wrote it meanwhile. Scopes of one
// partition are saved together or not at all. Scopes that did not change are
// not written; that they were in use is noted now and then, so that their TTL
// does not run out.
//
// Everything is checked before anything is written: a scope with an Err, a
// detached one, a value that does not encode (a [ValueError]), a document
// that is too large (a [TooLargeError]) or two changed scopes of one key stop
// the whole Save. Later errors are a [ConflictError], and [ErrUnavailable] or
// the context's error when it is not known whether a scope was saved; both may
// come joined. A scope that was not saved keeps its changes, and after
// ErrUnavailable the same Save may be tried again: a first try that did arrive
// is not taken for a conflict.
func (r *Redis) Save(ctx context.Context, scopes ...*Scope) error {
	now := time.Now()
	groups, err := r.prepare(scopes, now)
	if err != nil {
		return err
	}
	idle := r.idle(scopes, groups, now)
	if len(groups) == 0 && len(idle) == 0 {
		return nil
	}
	err = r.send(ctx, groups, idle)
	return settle(ctx, groups, err)
}

// prepare encodes the changed scopes and groups them by partition.
func (r *Redis) prepare(scopes []*Scope, now time.Time) ([]*group, error) {
	buf := borrow()
	defer giveBack(buf)
	var groups []*group
	for i, s := range scopes {
		if slices.Contains(scopes[:i], s) {
			continue
		}
		w, changed, err := r.prepareOne(buf, s, now)
		if err != nil {
			return nil, fmt.Errorf("save state: %w", err)
		}
		if !changed {
			continue
		}
		if groups, err = place(groups, w); err != nil {
			return nil, fmt.Errorf("save state: %w", err)
		}
	}
	return groups, nil
}

func (r *Redis) prepareOne(buf *bytes.Buffer, s *Scope, now time.Time) (w write, changed bool, err error) {
	if err := s.Err(); err != nil {
		return w, false, err
	}
	if err := s.key.Err(); err != nil {
		return w, false, fmt.Errorf("a scope that was not loaded: %w", err)
	}
	if !s.touched() {
		return w, false, nil
	}
	buf.Reset()
	w = write{scope: s, version: newVersion(), at: now.Unix()}
	changed, err = s.encode(buf, w.version, w.at)
	if err != nil || !changed {
		return w, false, err
	}
	if buf.Len() == headerBytes {
		return w, s.version != "" || len(s.unsure) > 0, nil
	}
	if buf.Len() > r.cfg.MaxBytes {
		return w, false, &TooLargeError{Key: s.key, Size: buf.Len(), Limit: r.cfg.MaxBytes}
	}
	w.doc = buf.String()
	return w, true, nil
}

// touched: whether s needs to be encoded to know if it changed.
func (s *Scope) touched() bool {
	return s.edited || len(s.unsure) > 0 ||
		slices.ContainsFunc(s.values, func(v value) bool { return v.live != nil })
}

func place(groups []*group, w write) ([]*group, error) {
	for _, g := range groups {
		if g.writes[0].scope.key.partition != w.scope.key.partition {
			continue
		}
		for _, other := range g.writes {
			if other.scope.key == w.scope.key {
				return nil, fmt.Errorf("two changed scopes of one key, %s", w.scope.key)
			}
		}
		g.writes = append(g.writes, w)
		return groups, nil
	}
	return append(groups, &group{writes: []write{w}}), nil
}

// idle finds the unchanged scopes whose last write is a tenth of the TTL ago.
func (r *Redis) idle(scopes []*Scope, groups []*group, now time.Time) []*Scope {
	var idle []*Scope
	for _, s := range scopes {
		changed := slices.ContainsFunc(groups, func(g *group) bool {
			return slices.ContainsFunc(g.writes, func(w write) bool { return w.scope == s })
		})
		if !changed && s.version != "" && now.Sub(time.Unix(s.writtenAt, 0)) > r.cfg.TTL/10 {
			idle = append(idle, s)
		}
	}
	return idle
}

// send runs the script for each group. Its error is that of the idle scopes.
func (r *Redis) send(ctx context.Context, groups []*group, idle []*Scope) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	calls := r.calls(groups, idle)
	r.exec(ctx, calls)
	for _, g := range groups {
		g.read()
	}
	for _, c := range calls[len(groups):] {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// calls makes the call of each group, and behind them those that renew idle scopes.
func (r *Redis) calls(groups []*group, idle []*Scope) []*call {
	calls := make([]*call, 0, len(groups)+len(idle))
	for _, g := range groups {
		g.call = callOf(saveScript, strconv.Itoa(len(g.writes)), 1+3*len(g.writes))
		g.addKeys()
		g.addDocs(r.cfg.TTL)
		calls = append(calls, &g.call)
	}
	for _, s := range idle {
		c := plain("pexpire", s.key.name, r.cfg.TTL.Milliseconds())
		calls = append(calls, &c)
	}
	return calls
}

func (g *group) addKeys() {
	for i := range g.writes {
		g.args = append(g.args, g.writes[i].scope.key.name)
	}
}

// addDocs adds the arguments that docs.lua reads.
func (g *group) addDocs(ttl time.Duration) {
	g.args = append(g.args, ttl.Milliseconds())
	for i := range g.writes {
		g.args = append(g.args, g.writes[i].doc, g.writes[i].replaces())
	}
}

// read notes how the group fared.
func (g *group) read() {
	if g.err == nil {
		g.lost = g.list().ints(0)
	}
}

// replaces lists the versions that w may overwrite: the one that was loaded,
// those of earlier tries, and its own or, for a delete, none.
func (w write) replaces() string {
	list := "\n" + w.scope.version + "\n" + w.left() + "\n"
	for _, version := range w.scope.unsure {
		list += version + "\n"
	}
	return list
}

// left is the version that the document has once w is done.
func (w write) left() string {
	if w.doc == "" {
		return ""
	}
	return w.version
}

// settle reads the replies, tells the scopes, and makes the error of the Save: err,
// that of the idle scopes, only when there is none of a write.
func settle(ctx context.Context, groups []*group, err error) error {
	var conflict ConflictError
	var unsaved error
	for _, g := range groups {
		switch {
		case g.err != nil:
			g.forgetCertainty()
			unsaved = cmp.Or(unsaved, g.err)
		case len(g.lost) > 0:
			conflict.Conflicted = append(conflict.Conflicted, g.keys()...)
		default:
			conflict.Saved = append(conflict.Saved, g.keys()...)
			g.settled()
		}
	}
	if err = cmp.Or(unsaved, err); err != nil {
		err = explain(ctx, "save state", err)
	}
	switch {
	case len(conflict.Conflicted) == 0:
		return err
	case err == nil:
		return &conflict
	}
	return errors.Join(&conflict, err)
}

func (g *group) keys() []Key {
	keys := make([]Key, len(g.writes))
	for i, w := range g.writes {
		keys[i] = w.scope.key
	}
	return keys
}

func (g *group) settled() {
	for _, w := range g.writes {
		w.scope.saved(w.doc, w.version, w.at)
	}
}

// forgetCertainty remembers that a write may have arrived, or may still.
func (g *group) forgetCertainty() {
	for _, w := range g.writes {
		w.scope.unsure = append(w.scope.unsure, w.left())
	}
}

// buffers are lent to one Save at a time. Large ones are left to the collector.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func borrow() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func giveBack(buf *bytes.Buffer) {
	if buf.Cap() <= 64<<10 {
		buffers.Put(buf)
	}
}
