package state

import (
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// DocsScript goes before the scripts that write the documents of a [Batch]: it has the
// functions conflicts and store. For package inbox.
//
//go:embed docs.lua
var DocsScript string

// Batch is the changed documents of one partition, to be written in one step as part of a
// script. For package inbox; everybody else calls [Store.Save].
type Batch struct {
	Docs []Doc

	ttl    time.Duration
	writes []write // of what scopes, in the order of Docs; empty for a Batch without scopes
}

// Doc is one document to write.
type Doc struct {
	Key      string
	Text     string // "": delete it
	Replaces string // the versions that it may replace, see docs.lua
}

// write is what a scope needs to know when its document was written.
type write struct {
	scope   *Scope
	version string
	at      int64 // Unix seconds
}

// Batches checks and encodes the scopes that changed, as [Store.Save] does, and returns a
// Batch for each partition that has some.
func (s *Store) Batches(scopes []*Scope) ([]*Batch, error) {
	now := time.Now()
	buf := borrow()
	defer giveBack(buf)
	var batches []*Batch
	for i, scope := range scopes {
		if slices.Contains(scopes[:i], scope) {
			continue
		}
		doc, w, err := s.encode(buf, scope, now)
		if err != nil {
			return nil, fmt.Errorf("save state: %w", err)
		}
		if doc == nil {
			continue
		}
		at := slices.IndexFunc(batches, func(b *Batch) bool { return b.Partition() == scope.key.partition })
		if at < 0 {
			at = len(batches)
			batches = append(batches, &Batch{ttl: s.cfg.TTL})
		}
		b := batches[at]
		if slices.ContainsFunc(b.Docs, func(other Doc) bool { return other.Key == doc.Key }) {
			return nil, fmt.Errorf("save state: two changed scopes of one key, %s", scope.key)
		}
		b.Docs, b.writes = append(b.Docs, *doc), append(b.writes, w)
	}
	return batches, nil
}

// encode makes the document of a scope, nil when it did not change.
func (s *Store) encode(buf *bytes.Buffer, scope *Scope, now time.Time) (*Doc, write, error) {
	w := write{scope: scope, version: newVersion(), at: now.Unix()}
	if err := scope.Err(); err != nil {
		return nil, w, err
	}
	if err := scope.key.Err(); err != nil {
		return nil, w, fmt.Errorf("a scope that was not loaded: %w", err)
	}
	if !scope.touched() {
		return nil, w, nil
	}
	buf.Reset()
	changed, err := scope.encode(buf, w.version, w.at)
	if err != nil || !changed {
		return nil, w, err
	}
	doc := &Doc{Key: scope.key.name}
	switch {
	case buf.Len() > s.cfg.MaxBytes:
		return nil, w, &TooLargeError{Key: scope.key, Size: buf.Len(), Limit: s.cfg.MaxBytes}
	case buf.Len() > headerBytes:
		doc.Text = buf.String()
	case scope.version == "" && len(scope.unsure) == 0:
		return nil, w, nil // there is no document, and there need not be one
	default:
		w.version = ""
	}
	// The version that was loaded, the one this write leaves, those of earlier tries.
	doc.Replaces = "\n" + scope.version + "\n" + w.version + "\n"
	for _, version := range scope.unsure {
		doc.Replaces += version + "\n"
	}
	return doc, w, nil
}

// BatchOf makes a Batch of documents that were encoded before, by a process that died.
func (s *Store) BatchOf(docs []Doc) *Batch { return &Batch{Docs: docs, ttl: s.cfg.TTL} }

// Partition is that of the documents. It must not be asked of an empty Batch.
func (b *Batch) Partition() int { return b.writes[0].scope.key.partition }

// AddKeys adds the keys to a call, behind the other keys.
func (b *Batch) AddKeys(c *rdb.Call) {
	for _, doc := range b.Docs {
		c.Add(doc.Key)
	}
}

// AddDocs adds the arguments that docs.lua reads, behind the other arguments.
func (b *Batch) AddDocs(c *rdb.Call) {
	c.Add(b.ttl.Milliseconds())
	for _, doc := range b.Docs {
		c.Add(doc.Text, doc.Replaces)
	}
}

// Saved tells the scopes that they are saved.
func (b *Batch) Saved() {
	for i, w := range b.writes {
		w.scope.saved(b.Docs[i].Text, w.version, w.at)
	}
}

// Unknown tells the scopes that a write may have arrived, or may still.
func (b *Batch) Unknown() {
	for _, w := range b.writes {
		w.scope.unsure = append(w.scope.unsure, w.version)
	}
}

// Conflict is the error of a Batch of which some documents lost a race: none was written.
func (b *Batch) Conflict() *ConflictError { return &ConflictError{Conflicted: b.Keys()} }

// Keys are those of the documents.
func (b *Batch) Keys() []Key {
	keys := make([]Key, len(b.writes))
	for i, w := range b.writes {
		keys[i] = w.scope.key
	}
	return keys
}

// IdleCalls are the calls which note that scopes that did not change are in use, where the
// last note is a tenth of the TTL ago. For package inbox.
func (s *Store) IdleCalls(scopes []*Scope, batches []*Batch) []*rdb.Call {
	var calls []*rdb.Call
	now := time.Now()
	for _, scope := range scopes {
		changed := slices.ContainsFunc(batches, func(b *Batch) bool {
			return slices.ContainsFunc(b.writes, func(w write) bool { return w.scope == scope })
		})
		if !changed && scope.version != "" && now.Sub(time.Unix(scope.writtenAt, 0)) > s.cfg.TTL/10 {
			calls = append(calls, rdb.Plain("pexpire", scope.key.name, s.cfg.TTL.Milliseconds()))
		}
	}
	return calls
}

// LoadCalls are the calls that read documents as part of a round trip, for
// [Store.Loaded]. For package inbox; everybody else calls [Store.Load].
func (s *Store) LoadCalls(keys []Key) ([]*rdb.Call, error) {
	calls := make([]*rdb.Call, len(keys))
	for i, key := range keys {
		if err := key.Err(); err != nil {
			return nil, err
		}
		// One byte more than is allowed, to tell "just fits" from "more".
		calls[i] = rdb.Plain("getrange", key.name, 0, s.cfg.MaxBytes)
	}
	return calls, nil
}

// Loaded reads the replies to [Store.LoadCalls] as [Store.Load] does.
func (s *Store) Loaded(ctx context.Context, keys []Key, calls []*rdb.Call) ([]*Scope, error) {
	scopes := make([]*Scope, len(keys))
	for i, c := range calls {
		if c.Err != nil && !rdb.IsWrongType(c.Err) {
			return nil, rdb.Explain(ctx, "load state", c.Err)
		}
		scopes[i] = &Scope{key: keys[i]}
	}
	var faults []error
	for i, scope := range scopes {
		if err := s.fill(ctx, scope, calls[i]); err != nil {
			faults = append(faults, err)
		}
	}
	return scopes, errors.Join(faults...)
}

// DB is what the store's keys are kept in. For package inbox.
func (s *Store) DB() *rdb.DB { return s.db }

// MaxBytes bounds one document. For package inbox.
func (s *Store) MaxBytes() int { return s.cfg.MaxBytes }

// buffers are lent to one Save at a time. Large ones are left to the collector.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func borrow() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func giveBack(buf *bytes.Buffer) {
	if buf.Cap() <= 64<<10 {
		buffers.Put(buf)
	}
}
