// Package state keeps what a bot remembers between turns, in Redis.
//
// A [Scope] is one document: a conversation's, a user's, or a temporary one. It holds named JSON
// values. [Of] and [At] return them as live typed pointers. [Store.Load] reads the scopes of a turn
// in one round trip. [Store.Save] writes the changed ones in one round trip, each only if nobody
// else wrote it meanwhile. If you lose that race, call [Scope.Rebase].
//
// A document is one Redis string: a header line with the format, a random version and the time of
// the last write or renewal, then one line per value with its name and compact JSON. You can read it with redis-cli
// GET. The command that reads it limits its size, and only requested values are decoded.
//
// Facts that many turns record at the same time belong in a set, which has no version:
// [Store.Join].
//
// [Open] takes the URL of a server, a cluster or a group of sentinels. Without one it runs a Redis
// inside the process and uses the same code. Package inbox keeps a bot's work.
package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // scripts
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// Config configures a Store. The zero value is ready to use.
type Config struct {
	// TTL is how long a document lives after its last use. 0: 30 days.
	TTL time.Duration
	// MaxBytes limits one stored document, on save and on load. 0: 1 MiB.
	MaxBytes int
	// Timeout limits one call including retries, whatever the caller's context allows. 0: 5
	// seconds.
	Timeout time.Duration
	// Dial opens the connections of [Open], for tests and for servers that only the caller knows
	// how to reach. nil: uses the net package.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Server is the embedded store that Dial connects to. With it, an inbox sleeps until there is
	// work instead of looking every second, as it does in that store itself. This is for tests that
	// simulate days. nil: the inbox looks every second.
	Server *Store
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 30*24*time.Hour)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	return c
}

// validate rejects settings that cannot be intended. With a TTL under a second every turn would
// forget the previous one.
func (c Config) validate() error {
	var faults []error
	if c.TTL < time.Second {
		faults = append(faults, fmt.Errorf("state config: TTL %v is under a second", c.TTL))
	}
	if c.MaxBytes < headerBytes {
		faults = append(faults, fmt.Errorf("state config: MaxBytes %d leaves no room for a value", c.MaxBytes))
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("state config: Timeout %v is negative", c.Timeout))
	}
	return errors.Join(faults...)
}

// Errors of this package, for errors.Is.
var (
	// ErrConflict: somebody else saved the document since it was loaded. Load again, decide again.
	// It comes as a [ConflictError].
	ErrConflict = errors.New("state was changed by somebody else")
	// ErrTooLarge: a document is larger than [Config.MaxBytes].
	ErrTooLarge = errors.New("state is too large")
	// ErrValue: the stored data was not written by this program, or by a newer version of it; or a
	// stored value does not decode into its Go type; or a live value does not encode.
	ErrValue = errors.New("state cannot be read or written")
	// ErrKey: a key was built from invalid parts.
	ErrKey = errors.New("state key is unusable")
	// ErrUnavailable: Redis cannot be reached or cannot serve now. Try again later.
	ErrUnavailable = rdb.ErrUnavailable
)

// ConflictError says which documents of a Save lost the race. Documents of one partition are saved
// together or not at all. So if a conversation or its thread loses, both are in Conflicted.
// Documents of other partitions may be in Saved. It wraps [ErrConflict].
type ConflictError struct {
	Conflicted []Key  // not saved
	Saved      []Key  // saved by the same call
	Value      string // the name of the value that both changed; "": not known
}

func (e *ConflictError) Error() string {
	if e.Value != "" {
		return fmt.Sprintf("save the value %s of state %v: %v", e.Value, e.Conflicted, ErrConflict)
	}
	return fmt.Sprintf("save state %v: %v", e.Conflicted, ErrConflict)
}

func (e *ConflictError) Unwrap() error { return ErrConflict }

// Store keeps state in a Redis server, in a cluster, or inside the process. It is safe for
// concurrent use. Make one with [Open] and Close it.
type Store struct {
	db  *rdb.DB
	cfg Config
}

// Open makes a Store from a URL:
//
//	redis://user:password@host:6379/0                  one server
//	redis+cluster://user:password@host:6379?addr=host2:6379
//	redis+sentinel://user:password@host:26379/0?master_name=main&addr=host2:26379
//
// rediss, rediss+cluster and rediss+sentinel use TLS. The query may set go-redis options such as
// pool_size, read_timeout or, for sentinels, the username and password of Redis itself. As in
// go-redis, a redis URL with addr means a cluster, and one with master_name means sentinels.
//
// Without a URL the store is embedded: Redis runs inside the process. There is nothing to install
// and no port that others could connect to. All data is lost when the process ends or on Close.
//
// An unreachable server is not an error: the bot starts, [Store.Ping] reports the problem, and the
// bot works as soon as the server is up. An invalid URL is an error. The error never contains the
// URL, which may contain a password.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	how := rdb.Config{Dial: cfg.Dial}
	if cfg.Server != nil {
		how.Server = cfg.Server.db.Server()
	}
	var db *rdb.DB
	var err error
	if url == "" {
		db, err = rdb.OpenEmbedded()
	} else {
		db, err = rdb.Open(url, how)
	}
	if err != nil {
		return nil, err
	}
	return &Store{db: db, cfg: cfg}, nil
}

// Serve runs an embedded Redis for other processes until ctx ends: they connect to the listener with
// the password, and all data is lost in the end. Serve closes the listener. An empty password is an
// error.
func Serve(ctx context.Context, l net.Listener, password string) error {
	if password == "" {
		return errors.Join(errors.New("serve redis: no password"), l.Close())
	}
	server, err := rdb.StartServer()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer server.Close()
	return server.Serve(ctx, l, password)
}

// Dial connects to the Redis of an embedded store and ignores the address. Tests use it as the Dial
// of other stores, which then share one Redis as the replicas of a bot do.
func (s *Store) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.db.Server().Dial(ctx, network, addr)
}

// Load reads the documents of keys in one round trip and returns a scope for each, in the order of
// keys. A missing document gives an empty scope. Load never reads more than [Config.MaxBytes] of a
// document.
//
// If Redis answered but a document is unusable ([ErrTooLarge], [ErrValue]), Load returns its error
// together with all scopes. The unusable scope has the same error in Err; to recover, Delete and
// Save it. With any other error ([ErrKey], [ErrUnavailable], the context's) Load returns no scopes.
func (s *Store) Load(ctx context.Context, keys ...Key) ([]*Scope, error) {
	calls, err := s.LoadCalls(keys)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	s.db.Exec(bounded, calls...)
	return s.Loaded(ctx, keys, calls)
}

// LoadLater returns scopes that are read when the first of them is asked for something, all in one
// round trip, with ctx. They are for reading: do not save them. failed returns why they could not be
// read, as Err of each does; nil as long as nobody asked.
func (s *Store) LoadLater(ctx context.Context, keys ...Key) (scopes []*Scope, failed func() error) {
	var failure error
	load := func() {
		loaded, err := s.Load(ctx, keys...)
		failure = err
		for i, scope := range scopes {
			if len(loaded) == len(scopes) {
				*scope = *loaded[i]
			} else {
				*scope = Scope{key: keys[i], fault: err}
			}
		}
	}
	for _, key := range keys {
		scopes = append(scopes, &Scope{key: key, load: load})
	}
	return scopes, func() error { return failure }
}

// LoadCalls returns the calls that read documents as part of a round trip, for [Store.Loaded]. For
// package inbox; everybody else calls [Store.Load].
func (s *Store) LoadCalls(keys []Key) ([]*rdb.Call, error) {
	calls := make([]*rdb.Call, len(keys))
	for i, key := range keys {
		if err := key.Err(); err != nil {
			return nil, err
		}
		// Read one byte more than allowed, to tell "just fits" from "too large".
		calls[i] = rdb.Plain("getrange", key.name, 0, s.cfg.MaxBytes)
	}
	return calls, nil
}

// Loaded parses the replies to [Store.LoadCalls] as [Store.Load] does.
func (s *Store) Loaded(ctx context.Context, keys []Key, calls []*rdb.Call) ([]*Scope, error) {
	scopes := make([]*Scope, len(keys))
	var faults []error
	for i, c := range calls {
		scope := &Scope{key: keys[i]}
		switch {
		case rdb.IsWrongType(c.Err):
			scope.fault = fmt.Errorf("state %s: %w: it was not written by this program", scope.key, ErrValue)
		case c.Err != nil:
			return nil, rdb.Explain(ctx, "load state", c.Err)
		default:
			_ = scope.read(c.Text(), s.cfg.MaxBytes) // the error is also in scope.fault
		}
		scopes[i], faults = scope, append(faults, scope.fault)
	}
	return scopes, errors.Join(faults...)
}

//go:embed save.lua
var saveLua string

var saveScript = rdb.NewScript(saveLua)

// Save writes the scopes that changed since they were loaded or last saved, in one round trip, each
// only if nobody else wrote it meanwhile. Scopes of one partition are saved together or not at all.
// Unchanged scopes are not written, but Save renews their TTL when a tenth of it has passed.
//
// Save checks everything before it writes anything. Any of these stops the whole Save: a scope with
// an Err, a scope without a store, a value that does not encode ([ErrValue]), a document that is
// too large ([ErrTooLarge]), or two changed scopes with the same key. Later errors are a
// [ConflictError], and [ErrUnavailable] or the context's error when it is unknown whether a scope
// was saved; both may come joined. A scope that was not saved keeps its changes. After
// ErrUnavailable you may repeat the same Save: a first try that did arrive does not count as a
// conflict.
func (s *Store) Save(ctx context.Context, scopes ...*Scope) error {
	batches, idle, err := s.Batches(scopes)
	if err != nil {
		return err
	}
	var calls []*rdb.Call
	for _, b := range batches {
		c := saveScript.Call()
		b.AddTo(c)
		calls = append(calls, c)
	}
	calls = append(calls, idle...)
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	s.db.Exec(bounded, calls...)
	var conflict ConflictError
	for i, b := range batches {
		switch c := calls[i]; {
		case c.Err != nil:
			b.Unknown()
		case len(c.List()) > 0:
			conflict.Conflicted = append(conflict.Conflicted, b.Keys()...)
		default:
			conflict.Saved = append(conflict.Saved, b.Keys()...)
			b.Saved()
		}
	}
	err = rdb.Explain(ctx, "save state", rdb.FirstErr(calls))
	if len(conflict.Conflicted) == 0 {
		return err
	}
	return errors.Join(&conflict, err)
}

// Update changes one document outside of a turn: it loads it, calls change and saves what change
// did. If somebody else saved the document meanwhile, Update starts over on what is there now. It
// also retries while Redis is unavailable. It does so for [Config.Timeout], then the error is
// [ErrConflict] or [ErrUnavailable]. After ErrUnavailable it is unknown whether the change was saved.
//
// change may be called more than once, so it should do nothing but read and change the scope, which
// ends with it. If it returns an error, nothing is saved and Update returns that error.
func (s *Store) Update(ctx context.Context, key Key, change func(*Scope) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var changed []*Scope // and not saved
	for try := 0; ; try++ {
		scopes, err := changed, error(nil)
		if scopes == nil {
			if scopes, err = s.Load(ctx, key); err == nil {
				if err := change(scopes[0]); err != nil {
					return err
				}
				changed = scopes
			}
		}
		if err == nil {
			err = s.Save(ctx, scopes...)
		}
		switch {
		case errors.Is(err, ErrConflict):
			changed = nil
		case !errors.Is(err, ErrUnavailable), errors.Is(err, rdb.ErrClosed):
			return err
		}
		if !rdb.Pause(bounded, nil, try) {
			return err
		}
	}
}

// Batch is the changed documents of one partition, which a script writes in one step. For package
// inbox; everybody else calls [Store.Save]. A Batch can be stored as JSON, but one read back from
// JSON has no scopes.
type Batch struct {
	Docs   []doc
	TTL    int64   // of the documents, ms
	writes []write // one for each of Docs, in the same order
}

type doc struct {
	Key      string
	Text     string // "": delete it
	Replaces string // versions that it may replace, see docs.lua
}

// write is what a scope needs to know once its document is written.
type write struct {
	scope   *Scope
	version string
	at      int64 // Unix seconds
}

//go:embed renew.lua
var renewLua string

var renewScript = rdb.NewScript(renewLua)

// Batches checks and encodes the changed scopes as [Store.Save] does and returns one Batch per
// partition and time to live. idle are calls that renew the TTL of unchanged scopes last written or
// renewed more than a tenth of the TTL ago.
func (s *Store) Batches(scopes []*Scope) (batches []*Batch, idle []*rdb.Call, err error) {
	now := time.Now()
	for i, scope := range scopes {
		if slices.Contains(scopes[:i], scope) {
			continue
		}
		if err := cmp.Or(scope.Err(), scope.key.Err()); err != nil {
			return nil, nil, fmt.Errorf("save state: %w", err)
		}
		w := write{scope: scope, version: newVersion(), at: now.Unix()}
		text, changed, err := scope.encode(w.version, w.at)
		switch {
		case err == nil && len(text) > s.cfg.MaxBytes:
			err = fmt.Errorf("state %s: %w: %d bytes, the limit is %d", scope.key, ErrTooLarge, len(text), s.cfg.MaxBytes)
		case text == "":
			w.version = ""
		}
		if err != nil {
			return nil, nil, fmt.Errorf("save state: %w", err)
		}
		if !changed {
			if scope.version != "" && now.Sub(time.Unix(scope.renewedAt, 0)) > s.cfg.TTL/10 {
				idle = append(idle, renewScript.Call(scope.key.name).Add(scope.version, headerTime(w.at), s.cfg.TTL.Milliseconds()))
				scope.renewedAt = w.at
			}
			continue
		}
		ttl := cmp.Or(scope.ttl, s.cfg.TTL).Milliseconds()
		at := slices.IndexFunc(batches, func(b *Batch) bool { return b.Partition() == scope.key.partition && b.TTL == ttl })
		if at < 0 {
			at = len(batches)
			batches = append(batches, &Batch{TTL: ttl})
		}
		b := batches[at]
		if slices.Contains(b.Keys(), scope.key) {
			return nil, nil, fmt.Errorf("save state: two changed scopes of one key, %s", scope.key)
		}
		// The loaded version, the one this write leaves, and those of earlier tries.
		versions := append([]string{scope.version, w.version}, scope.unsure...)
		b.Docs = append(b.Docs, doc{scope.key.name, text, "\n" + strings.Join(versions, "\n") + "\n"})
		b.writes = append(b.writes, w)
	}
	return batches, idle, nil
}

// Partition is the partition of the documents. It panics on an empty Batch.
func (b *Batch) Partition() int {
	var key Key
	_ = key.UnmarshalText([]byte(b.Docs[0].Key)) // it was a key's text
	return key.partition
}

// AddTo appends the documents to a call for docs.lua, after its other keys and arguments.
func (b *Batch) AddTo(c *rdb.Call) {
	c.Add(b.TTL)
	for _, doc := range b.Docs {
		c.AddKeys(doc.Key)
		c.Add(doc.Text, doc.Replaces)
	}
}

// Without removes the documents with these numbers and returns their keys. The numbers count from
// 1, ascending.
func (b *Batch) Without(numbers rdb.Reply) (keys []string) {
	for i := range slices.Backward(numbers) {
		n := int(numbers.Int(i))
		keys = append(keys, b.Docs[n-1].Key)
		b.Docs = slices.Delete(b.Docs, n-1, n)
	}
	return keys
}

// Saved marks the scopes as saved.
func (b *Batch) Saved() {
	for i, w := range b.writes {
		w.scope.saved(b.Docs[i].Text, w.version, w.at)
	}
}

// Unknown marks the scopes as possibly saved: the write may have arrived or may still arrive.
func (b *Batch) Unknown() {
	for _, w := range b.writes {
		w.scope.unsure = append(w.scope.unsure, w.version)
	}
}

// Keys returns the keys of the documents.
func (b *Batch) Keys() []Key {
	keys := make([]Key, len(b.writes))
	for i, w := range b.writes {
		keys[i] = w.scope.key
	}
	return keys
}

// Compare returns the keys of the batches that could not be saved now, because the version of one of
// their documents has changed. For package inbox.
func (s *Store) Compare(ctx context.Context, batches ...*Batch) (lost []Key, err error) {
	calls := make([][]*rdb.Call, len(batches))
	for i, b := range batches {
		for _, doc := range b.Docs {
			calls[i] = append(calls[i], rdb.Plain("getrange", doc.Key, 0, versionBytes-1))
		}
	}
	if err := s.try(ctx, "compare state", slices.Concat(calls...)...); err != nil {
		return nil, err
	}
	for i, b := range batches {
		for j, c := range calls[i] {
			if !strings.Contains(b.Docs[j].Replaces, "\n"+c.Text()+"\n") {
				lost = append(lost, b.Keys()...)
				break
			}
		}
	}
	return lost, nil
}

// DB is the connection to Redis. For package inbox.
func (s *Store) DB() *rdb.DB { return s.db }

// MaxBytes limits one document. For package inbox.
func (s *Store) MaxBytes() int { return s.cfg.MaxBytes }

// Ping reports whether Redis answers and accepts writes. It sets a key for a minute in each of four
// partitions, so that on a cluster several nodes must be healthy. It fails on a server that is full
// or read-only. The error is for the operator.
func (s *Store) Ping(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var keys []string
	for i := 0; i < rdb.Partitions; i += rdb.Partitions / 4 {
		keys = append(keys, fmt.Sprintf("%s{%d}/ping", keyPrefix, i))
	}
	return rdb.Explain(ctx, "ping redis", s.db.Ping(bounded, keys...))
}

// Info returns the server's reply to the INFO command. On a cluster it is that of one node.
func (s *Store) Info(ctx context.Context) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	text, err := s.db.Info(bounded)
	return text, rdb.Explain(ctx, "ask redis for its info", err)
}

// Setting returns one setting of the server through CONFIG GET. Hosted servers often refuse that
// command.
func (s *Store) Setting(ctx context.Context, name string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	value, err := s.db.Setting(bounded, name)
	return value, rdb.Explain(ctx, "ask redis for its setting "+name, err)
}

// Close closes all connections. It also stops an embedded server and discards its data.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// Embedded reports whether state lives in this process and is lost when it ends.
func (s *Store) Embedded() bool { return s.db.Embedded() }

// String says where state lives, without credentials, for a log line.
func (s *Store) String() string { return s.db.String() }

//go:embed drain.lua
var drainLua string

var drainScript = rdb.NewScript(drainLua)

const setBatch = 100 // how many members of a set are passed on at a time

// Join adds member to a set. Use a set for facts that many turns record at the same time: it has no
// version, so nobody loses a race for it, and no size limit. It expires 400 days after the last Join, or
// [Config.TTL] if that is longer: what it leads to, such as a reminder, may be a year ahead. Make its key with [Key.Under]; no document may use the same key. Like all calls about sets,
// Join retries while Redis is unavailable and may be repeated.
func (s *Store) Join(ctx context.Context, set Key, member string) error {
	if err := set.Err(); err != nil {
		return fmt.Errorf("join a set: %w", err)
	}
	calls, _ := s.JoinCalls(set, member)
	return s.try(ctx, "join a set", calls...)
}

// JoinCalls returns the calls of [Store.Join] as part of a round trip. For package inbox. A set is
// stored as a hash that maps each member to a random text from its last Join. undo takes the member out again, if it
// was not in the set before the calls and nobody has joined it since.
func (s *Store) JoinCalls(set Key, member string) (calls []*rdb.Call, undo func(context.Context) error) {
	text := rand.Text()[:8]
	calls = []*rdb.Call{
		rdb.Plain("hset", set.name, member, text),
		rdb.Plain("pexpire", set.name, max(s.cfg.TTL, setFor).Milliseconds()),
	}
	return calls, func(ctx context.Context) error {
		if calls[0].Err != nil || calls[0].Int() == 0 {
			return nil
		}
		return s.try(ctx, "leave a set", drainScript.Call(set.name).Add(member, text))
	}
}

const setFor = 400 * 24 * time.Hour // how long a set is kept at least

// try makes calls in one round trip and retries while Redis is unavailable.
func (s *Store) try(ctx context.Context, doing string, calls ...*rdb.Call) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.db.Try(bounded, nil, calls...)
	return rdb.Explain(ctx, doing, cmp.Or(err, rdb.FirstErr(calls)))
}

// Leave removes member from a set. It is no error if member is not in it.
func (s *Store) Leave(ctx context.Context, set Key, member string) error {
	if err := set.Err(); err != nil {
		return fmt.Errorf("leave a set: %w", err)
	}
	return s.try(ctx, "leave a set", rdb.Plain("hdel", set.name, member))
}

// Members passes the members of a set to each, about a hundred at a time, until each returns an
// error. A member may come twice.
func (s *Store) Members(ctx context.Context, set Key, each func(members []string) error) error {
	return s.scan(ctx, set, func(members, _ []string) error { return each(members) })
}

// scan passes members to each, with the random text from the last Join of each member.
func (s *Store) scan(ctx context.Context, set Key, each func(members, joined []string) error) error {
	const doing = "read a set"
	if err := set.Err(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	for cursor := "0"; ; {
		c := rdb.Plain("hscan", set.name, cursor, "count", setBatch)
		if err := s.try(ctx, doing, c); err != nil {
			if rdb.IsWrongType(c.Err) {
				return nil // not a set, so it has no members
			}
			return err
		}
		for some := range slices.Chunk(c.List().List(1).Texts(), 2*setBatch) {
			var members, joined []string
			for pair := range slices.Chunk(some, 2) {
				members, joined = append(members, pair[0]), append(joined, pair[1])
			}
			if err := each(members, joined); err != nil {
				return err
			}
		}
		if cursor = c.List().Text(0); cursor == "0" {
			return nil
		}
	}
}

// Drain empties a set. It passes the members to each like [Store.Members] and removes those that
// each returns as done. A member that is not done, or that joins again while each has it, stays in
// the set. If each fails, Drain stops. Neither that nor the death of the process loses a member.
func (s *Store) Drain(ctx context.Context, set Key, each func(members []string) (done []string, err error)) error {
	return s.scan(ctx, set, func(members, joined []string) error {
		done, err := each(slices.Clone(members))
		if err != nil {
			return err
		}
		c := drainScript.Call(set.name)
		for i, member := range members {
			if slices.Contains(done, member) {
				c.Add(member, joined[i])
			}
		}
		return s.try(ctx, "drain a set", c)
	})
}

//go:embed count.lua
var countLua string

var countScript = rdb.NewScript(countLua)

// Tally is a number that all replicas add to, outside of documents. It is gone when its window is
// over, which begins with the first Add.
type Tally struct {
	Key    Key // made with [Key.Under]; no document may use it
	Add    int // 0: only read it
	Window time.Duration
}

// Count adds to tallies in one round trip and returns their sums, in the same order. Each is
// added to in one step. Count does not retry, because a retry might count twice: after an error it
// is unknown which tallies were added to.
func (s *Store) Count(ctx context.Context, tallies ...Tally) (sums []int, err error) {
	calls := make([]*rdb.Call, len(tallies))
	for i, c := range tallies {
		if err := c.Key.Err(); err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
		calls[i] = countScript.Call(c.Key.name).Add(c.Add, c.Window.Milliseconds())
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	s.db.Exec(bounded, calls...)
	if err := rdb.FirstErr(calls); err != nil {
		return nil, rdb.Explain(ctx, "count", err)
	}
	for _, c := range calls {
		sums = append(sums, int(c.Int()))
	}
	return sums, nil
}

const (
	linesBatch = 1000   // how many lines of a log are read at a time
	maxDigests = 10_000 // how many of its newest lines a log knows again
	maxRaces   = 100    // how often other processes may append first
)

var (
	//go:embed append.lua
	appendLua string
	//go:embed aged.lua
	agedLua string

	appendScript, agedScript = rdb.NewScript(appendLua), rdb.NewScript(agedLua)
)

// Line is a line of a log.
type Line struct {
	At   time.Time // when it is from; [Store.Lines] does not return it
	Text string
	// Before is the SHA-256, in hexadecimal, of the line before it as it is stored, and zeros in the first one. "": an
	// earlier release wrote the line, without. [Store.Lines] returns it.
	Before string
	// Broken says that the line before it is not the one that Before names, or that Before is missing though the line
	// before has one. [Store.Lines] returns it, but not of the first line that it reads.
	Broken bool
	// Hash is the SHA-256, in hexadecimal, of the line as it is stored. [Store.Lines] returns it.
	Hash string
}

// Stored is the line as the log has it.
func (l Line) Stored() string {
	if l.Before == "" {
		return l.Text
	}
	return l.Before + " " + l.Text
}

// End says where a log ends. It is stored beside the log, in the same step as its last line.
type End struct {
	Count int    // how many lines were ever written
	First int    // the number of the oldest one that was there when the last one was written; 0: it is not known
	Hash  string // [Line.Hash] of the last one; "": there is no end, as of a log that earlier releases wrote
	// Signature is what the writer says about it, in one line.
	Signature string
}

// stored is the end as Redis has it.
func (e End) stored() string {
	return fmt.Sprint(e.Count, " ", e.Hash, " #", e.First, " ", e.Signature)
}

// readEnd reads an end. What is not one reads as none. Earlier releases wrote no First.
func readEnd(text string) End {
	count, rest, _ := strings.Cut(text, " ")
	hash, signature, ok := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	if !ok || err != nil {
		return End{}
	}
	e := End{Count: n, Hash: hash, Signature: signature}
	if oldest, rest, _ := strings.Cut(signature, " "); strings.HasPrefix(oldest, "#") {
		e.First, _ = strconv.Atoi(oldest[1:]) // else it is not known
		e.Signature = rest
	}
	return e
}

// logKeys are the keys of a log: the lines, the digests of its newest ones, and its end. All replicas write to the same
// one, so that it can be read in order.
func logKeys(name string) []string {
	key := keyPrefix + "{0}/" + name
	return []string{key, key + "/digests", key + "/end"}
}

// Hash is the SHA-256 of a text in hexadecimal.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Append adds lines to the end of the log of that name, each with the hash of the one before it: all replicas write one
// chain. A line that is among the newest 10,000 of the log is not added again, so Append may be repeated; it retries while
// Redis is unavailable, and if another process appended first. Lines older than keep go, and beyond most lines the oldest:
// full says that some did. sign returns the Signature of the end that is to be. was is the one before, without a Hash if the log
// did not begin or end there; sign may be called several times. nil: there is none.
func (s *Store) Append(ctx context.Context, log string, keep time.Duration, most int, sign func(was, now End) string, lines ...Line) (full bool, err error) {
	const doing = "append to a log"
	keys := logKeys(log)
	for range maxRaces {
		last, known := rdb.Plain("zrevrange", keys[0], 0, 0), rdb.Plain("zmscore", keys[1])
		size, ended := rdb.Plain("zcard", keys[0]), rdb.Plain("mget", keys[2])
		aged := agedScript.Call(keys[0]).Add(keep.Microseconds())
		for _, l := range lines {
			known.Add(Hash(l.Text))
		}
		if err := s.try(ctx, doing, last, known, size, ended, aged); err != nil {
			return false, err
		}
		end := last.List().Text(0)
		was := readEnd(ended.List().Text(0))
		there := int(size.Int())
		was.Count = max(was.Count, there)
		if end == "" || was.Hash != Hash(end) || was.First > 0 && was.Count-was.First+1 != there {
			was.Hash = ""
		}
		now := End{Count: was.Count}
		var added []any
		for i, l := range lines {
			if known.List().Has(i) {
				continue
			}
			l.Before = strings.Repeat("0", 2*sha256.Size)
			if end != "" {
				l.Before = Hash(end)
			}
			end = l.Stored()
			added = append(added, l.At.UnixMicro(), Hash(l.Text), end)
			now.Count++
		}
		if len(added) == 0 {
			return false, nil
		}
		tooMany := there + now.Count - was.Count - most
		gone := max(int(aged.Int()), tooMany, 0)
		now.Hash, now.First = Hash(end), was.Count-there+gone+1
		if sign != nil {
			now.Signature = sign(was, now)
		}
		add := appendScript.Call(keys...).Add(last.List().Text(0), keep.Microseconds(), gone, maxDigests, now.stored()).Add(added...)
		if err := s.try(ctx, doing, add); err != nil {
			return false, err
		}
		if add.Int() == 1 {
			return tooMany > int(aged.Int()), nil
		}
	}
	return false, fmt.Errorf("%s: %w: other processes always appended first", doing, ErrUnavailable)
}

// LogEnd returns the end that is stored of a log. fits says that the log ends there.
func (s *Store) LogEnd(ctx context.Context, log string) (end End, fits bool, err error) {
	keys := logKeys(log)
	for range maxRaces {
		before, last, after := rdb.Plain("mget", keys[2]), rdb.Plain("zrevrange", keys[0], 0, 0), rdb.Plain("mget", keys[2])
		if err := s.try(ctx, "read the end of a log", before, last, after); err != nil {
			return End{}, false, err
		}
		end = readEnd(after.List().Text(0))
		if before.List().Text(0) == after.List().Text(0) { // else a line came in between
			return end, end.Hash == Hash(last.List().Text(0)), nil
		}
	}
	return end, false, fmt.Errorf("read the end of a log: %w: it always grows", ErrUnavailable)
}

// Lines passes the lines of a log since then to each, oldest first, until each returns an error.
func (s *Store) Lines(ctx context.Context, log string, since time.Time, each func(Line) error) error {
	last, before := "", (*Line)(nil) // the line before as it is stored, and as it was read
	for first := 0; ; {
		c := rdb.Plain("zrangebyscore", logKeys(log)[0], since.UnixMicro(), "+inf", "limit", first, linesBatch)
		if err := s.try(ctx, "read a log", c); err != nil {
			return err
		}
		texts := c.List().Texts()
		at := -1
		if before != nil { // somebody else may have put an empty line there
			at = slices.Index(texts, last)
		}
		if at < 0 && first > 0 { // lines went early while this reads: it is further ahead
			first = max(0, first-linesBatch/2)
			continue
		}
		if at < 0 { // the first lines, or it is gone, too
			before = nil
		}
		for _, text := range texts[at+1:] {
			line := ReadLine(text, before)
			if err := each(line); err != nil {
				return err
			}
			last, before = text, &line
		}
		if len(texts) < linesBatch {
			return nil
		}
		first += len(texts) - 1 // the last line comes again, to see that it is still there
	}
}

// ReadLine reads a line as it is stored. before is the one before it; nil: it is not known.
func ReadLine(stored string, before *Line) Line {
	line := Line{Text: stored, Hash: Hash(stored)}
	if hash, rest, ok := strings.Cut(stored, " "); ok && len(hash) == 2*sha256.Size {
		line.Before, line.Text = hash, rest
	}
	line.Broken = before != nil && line.Before != before.Hash && (line.Before != "" || before.Before != "")
	return line
}

// Row is one small text in a table of Redis: outside of documents, without a version, and only for
// a time. ID and Until are required.
type Row struct {
	ID    string
	Owner string // whose rows [Store.DropRows] removes together; it has no line feeds
	Text  string
	Until time.Time // when the row is gone
}

// ErrNoRow says that a table has no such row, or has it no more.
var ErrNoRow = errors.New("no such row")

var (
	//go:embed put_row.lua
	putRowLua string
	//go:embed drop_rows.lua
	dropRowsLua string

	putRowScript   = rdb.NewScript(putRowLua)
	dropRowsScript = rdb.NewScript(dropRowsLua)
)

// rowKeys are the keys of a part of a table: rows by id, and their ends.
func rowKeys(table string, partition int) []string {
	name := keyPrefix + "{" + strconv.Itoa(partition) + "}/rows/" + table
	return []string{name, name + "/ends"}
}

// PutRow puts a row into the table of that name, in place of one with the same id. The table has at
// most that many rows: the ones that end first go when it is full, in each of its 64 parts. It is
// one round trip. It retries while Redis is unavailable and may be repeated.
func (s *Store) PutRow(ctx context.Context, table string, most int, r Row) error {
	switch {
	case r.ID == "" || len(r.ID) > maxIDBytes:
		return fmt.Errorf("put a row: %w: the id has %d bytes, want 1 to %d", ErrKey, len(r.ID), maxIDBytes)
	case strings.Contains(r.Owner, "\n"):
		return fmt.Errorf("put a row: %w: the owner has more than one line", ErrKey)
	case len(r.Text) > s.cfg.MaxBytes:
		return fmt.Errorf("put a row: %w", ErrTooLarge)
	}
	end := r.Until.UnixMilli()
	value := strconv.FormatInt(end, 10) + "\n" + r.Owner + "\n" + r.Text
	return s.try(ctx, "put a row", putRowScript.Call(rowKeys(table, partitionOf(r.ID))...).
		Add(r.ID, value, end, time.Now().UnixMilli(), max(1, most/rdb.Partitions)))
}

// FindRow returns the row with that id. The error is [ErrNoRow] if there is none.
func (s *Store) FindRow(ctx context.Context, table, id string) (Row, error) {
	c := rdb.Plain("hmget", rowKeys(table, partitionOf(id))[0], id)
	if err := s.try(ctx, "find a row", c); err != nil {
		return Row{}, err
	}
	end, rest, _ := strings.Cut(c.List().Text(0), "\n")
	owner, text, found := strings.Cut(rest, "\n")
	until, err := strconv.ParseInt(end, 10, 64)
	if !found || err != nil || time.Now().UnixMilli() >= until {
		return Row{}, ErrNoRow
	}
	return Row{ID: id, Owner: owner, Text: text, Until: time.UnixMilli(until).UTC()}, nil
}

// Rows returns the ids of the rows of a table. Some of them may end before they are found.
func (s *Store) Rows(ctx context.Context, table string) (ids []string, err error) {
	calls := make([]*rdb.Call, rdb.Partitions)
	for p := range calls {
		calls[p] = rdb.Plain("hkeys", rowKeys(table, p)[0])
	}
	if err := s.try(ctx, "list rows", calls...); err != nil {
		return nil, err
	}
	for _, c := range calls {
		ids = append(ids, c.List().Texts()...)
	}
	return ids, nil
}

// DropRow removes the row with that id. It is no error if there is none.
func (s *Store) DropRow(ctx context.Context, table, id string) error {
	keys := rowKeys(table, partitionOf(id))
	return s.try(ctx, "drop a row", rdb.Plain("hdel", keys[0], id), rdb.Plain("zrem", keys[1], id))
}

// DropRows removes all rows of an owner.
func (s *Store) DropRows(ctx context.Context, table, owner string) error {
	calls := make([]*rdb.Call, rdb.Partitions)
	for p := range calls {
		calls[p] = dropRowsScript.Call(rowKeys(table, p)...).Add(owner)
	}
	return s.try(ctx, "drop rows", calls...)
}
