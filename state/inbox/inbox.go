// Package inbox keeps a bot's work in Redis: one queue of records for each conversation. Only one
// replica works on a queue at a time, even when replicas crash.
//
// [Inbox.Accept] adds a record exactly once. [Inbox.Claim] claims a queue under a lease and returns
// a [Lease] with the record at the head. When the owner dies, the lease expires and another replica
// takes over. [Lease.Save] writes the record and the documents of package state, and only if the
// lease is still valid; [Lease.Recover] completes a Save that a crash cut in half. [Lease.Finish] ends the record and moves on to the next. A
// record that waits for a person, a time or an operator leaves its queue with [Lease.Wait].
// [Inbox.Wake], or its due time, puts it back.
package inbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1" // identifies records; not used for security
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/internal/rdb"
)

// Errors of an inbox, for errors.Is. The errors of package state apply too.
var (
	// ErrFull: the queue or the whole inbox has too many records. Try again later.
	ErrFull = errors.New("the inbox is full")
	// ErrLost: another replica has the queue now, or may have. Stop working on it.
	ErrLost = errors.New("the queue was lost")
	// ErrNoRecord: no record with this id is waiting, or it has changed.
	ErrNoRecord = errors.New("no such record")
)

// Config configures an inbox. The zero value is ready to use.
type Config struct {
	// Lease is how long a dead replica keeps a queue. 0: 6 seconds.
	Lease time.Duration
	// Patience is how long a call retries while Redis is unavailable. 0: 8 seconds.
	Patience time.Duration
	// DuplicateFor is how long a delivery and its answer are remembered. 0: 30 minutes.
	DuplicateFor time.Duration
	// MaxWaiting limits the records in all queues. The count is exact for this inbox and a
	// few seconds old for other replicas. 0: 10000.
	MaxWaiting int
	// MaxWaitingPerQueue limits the records in one queue. 0: 256.
	MaxWaitingPerQueue int
	// Name identifies this replica to operators. "": the host name.
	Name string
	// Log receives the problems that [Inbox.Run] runs into. The zero Logger is silent.
	Log zerolog.Logger
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 6*time.Second)
	c.Patience = cmp.Or(c.Patience, 8*time.Second)
	c.DuplicateFor = cmp.Or(c.DuplicateFor, 30*time.Minute)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 10000)
	c.MaxWaitingPerQueue = cmp.Or(c.MaxWaitingPerQueue, 256)
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Lease < 50*time.Millisecond {
		errs = append(errs, fmt.Errorf("Lease %v is under 50ms", c.Lease))
	}
	if c.Patience < 0 {
		errs = append(errs, fmt.Errorf("Patience %v is negative", c.Patience))
	}
	if c.DuplicateFor < time.Second {
		errs = append(errs, fmt.Errorf("DuplicateFor %v is under a second", c.DuplicateFor))
	}
	if c.MaxWaiting < 0 || c.MaxWaitingPerQueue < 0 {
		errs = append(errs, fmt.Errorf("MaxWaiting %d or MaxWaitingPerQueue %d is negative", c.MaxWaiting, c.MaxWaitingPerQueue))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("inbox config: %w", err)
	}
	return nil
}

// Inbox holds the queues of all conversations. It is safe for concurrent use. Every call retries
// for [Config.Patience] while Redis is unavailable. After [state.ErrUnavailable] you may repeat the
// call: if the first try did arrive, it does not take effect twice.
type Inbox struct {
	store   *state.Store
	db      *rdb.DB
	cfg     Config
	owner   string // identifies this process
	callers atomic.Uint64
	leases  *leases
	looks   looks

	backlog backlog

	takeovers, duplicates atomic.Uint64
}

// Open returns the inbox kept in store. Open one per process, and Close it before the store.
func Open(store *state.Store, cfg Config) (*Inbox, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	i := &Inbox{
		store: store, db: store.DB(), cfg: cfg,
		owner: cfg.Name + "/" + strings.ToLower(rand.Text()[:8]),
	}
	i.leases = newLeases(i.db, cfg.Lease)
	return i, nil
}

// Close stops renewing leases. Others take over this inbox's queues once the leases expire. Calls
// that wait for Redis give up.
func (i *Inbox) Close() { i.leases.close() }

// Stats describes the state of an inbox. The counters start at zero when it opens.
type Stats struct {
	Waiting    int    // records in all queues, including those being worked on; other replicas' as last counted
	Held       int    // queues that this replica has a lease on
	Takeovers  uint64 // queues taken over from a replica whose lease expired
	Lost       uint64 // queues that another replica took from this one
	Duplicates uint64 // deliveries already seen
}

// Stats is cheap: it does not call Redis. It is safe for concurrent use.
func (i *Inbox) Stats() Stats {
	i.leases.mu.Lock()
	defer i.leases.mu.Unlock()
	return Stats{
		Waiting: i.backlog.size(), Held: len(i.leases.held),
		Takeovers: i.takeovers.Load(), Lost: i.leases.lost, Duplicates: i.duplicates.Load(),
	}
}

// prefix starts every key of the inbox. Document keys start with planbot/.
const prefix = "planbot/2/"

// at builds a key that belongs to one queue.
func at(queue state.Key, name string) string {
	return prefix + strings.TrimPrefix(queue.String(), "planbot/") + "/" + name
}

// threadsKey builds the key of the threads of a queue, for that queue and for those under it.
func threadsKey(queue state.Key) string {
	return prefix + strings.TrimPrefix(base(queue), "planbot/") + "/threads"
}

// shared builds a key that all queues of a partition share.
func shared(partition int, name string) string {
	return prefix + "{" + strconv.Itoa(partition) + "}/" + name
}

func answerKey(queue state.Key, id string) string {
	return shared(queue.Partition(), "answers/"+url.PathEscape(id))
}

// subqueues is in the names of the queues under another, and inThread in those of its threads.
const (
	subqueues  = "/queues/"
	threadMark = "thread-"
	inThread   = subqueues + threadMark
)

// ThreadQueue is the queue of a thread of a conversation: its records run in order, beside those of the conversation's own
// queue and of its other threads. What lists or finds records of the conversation's queue knows those of its threads.
func ThreadQueue(queue state.Key, id string) state.Key {
	sum := sha256.Sum256([]byte(id))
	return queue.Under("queues", threadMark+base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// base is the queue that this one is under.
func base(queue state.Key) string {
	name, _, _ := strings.Cut(queue.String(), subqueues)
	return name
}

// seen builds the key that remembers an id for a while: for a queue and those under it, since what is
// delivered again may belong to another of them by then. It hashes the id because ids come from outside.
func seen(queue state.Key, id string) string {
	sum := sha256.Sum256([]byte(base(queue) + "\n" + id))
	return shared(queue.Partition(), "seen/"+base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// call starts a call of a script that includes queue.lua.
func call(s *rdb.Script, queue state.Key) *rdb.Call {
	return s.CallWith(queueKeys(queue)).Add(queue.String())
}

// queueKeys returns the first keys of such a call.
func queueKeys(queue state.Key) []any {
	all := append([]any{at(queue, "queue"), at(queue, "records"), at(queue, "waits"), at(queue, "lease")}, ofPartition[queue.Partition()]...)
	return append(all, threadsKey(queue))
}

// ofPartition are those that all queues of a partition share.
var ofPartition = func() (all [rdb.Partitions][]any) {
	for p := range all {
		all[p] = []any{shared(p, "leases"), shared(p, "wake"), shared(p, "depth"), shared(p, "timers"), shared(p, "dead")}
	}
	return all
}()

// check rejects invalid queue keys and invalid record ids.
func check(queue state.Key, doing, id string) error {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f }
	err := queue.Err()
	if err == nil && (id == "" || len(id) > 1<<10 || strings.ContainsFunc(id, bad)) {
		err = fmt.Errorf("%w: %.80q is no id of a record", state.ErrKey, id)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

//go:embed *.lua
var luaFiles embed.FS

// script concatenates Lua files.
func script(names ...string) *rdb.Script {
	var parts []string
	for _, name := range names {
		text, err := luaFiles.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // the file is not embedded
		}
		parts = append(parts, string(text))
	}
	return rdb.NewScript(parts...)
}

var (
	acceptScript   = script("queue", "accept")
	forgetScript   = script("forget")
	rememberScript = script("remember")
	claimScript    = script("queue", "claim")
	wakeScript     = script("queue", "wake")
	dropScript     = script("queue", "drop")
)

// Duplicate identifies a delivery within its conversation. When one ID of a delivery is already
// known, the IDs listed before it are remembered too.
type Duplicate struct {
	ID  string
	For time.Duration // how long to remember it. 0: [Config.DuplicateFor]
}

// Entry is a record to accept.
type Entry struct {
	Queue      state.Key   // the conversation's queue; its records run one after another
	ID         string      // the record's id, chosen by the caller; accepting it again keeps one record
	Record     []byte      // returned by [Lease.Record]; opaque here
	Wait       *Wait       // not nil: the record waits instead of joining the queue, and replaces a waiting record with the same ID
	Duplicates []Duplicate // if any is known, the entry is a duplicate. Empty: it never is
	Take       bool        // claim the queue if it is free
	Load       []state.Key // documents to load in the same round trip; needs Take
	Set        state.Key   // set that Member joins in the same round trip, see [state.Store.Join]; not for a duplicate. Zero: none
	Member     string
	Unbounded  bool // ignore all limits, because it follows from something already accepted
}

// Receipt says what happened to an [Entry].
type Receipt struct {
	Duplicate bool
	ID        string         // the entry's id; for a Duplicate, the id of the first delivery
	Lease     *Lease         // not nil: the caller has claimed the queue and the entry is at its head
	Scopes    []*state.Scope // loaded from Entry.Load when Lease is set; an unusable one says so in Err
	Joined    bool           // Entry.Member is certainly in its set; Accept tries this only once
}

// Wait says what a record outside its queue waits for. The zero Wait needs an [Inbox.Wake].
type Wait struct {
	Until    time.Time // when it returns to its queue on its own, within about five seconds; zero: never
	Operator bool      // it is a dead letter: [Inbox.Dead] lists it
	About    []byte    // the caller's summary, so that a listing need not read whole records
}

// args returns the arguments of wait_for in queue.lua.
func (w *Wait) args() []any {
	switch {
	case w == nil:
		return []any{"", "", ""}
	case w.Until.IsZero():
		return []any{"0", flag(w.Operator), w.About}
	}
	return []any{strconv.FormatInt(max(w.Until.UnixMilli(), 1), 10), flag(w.Operator), w.About}
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// maxWaits limits the waiting records of one conversation, dead letters aside.
const maxWaits = 100

// Accept adds e to its queue, or to the waiting records. The same step checks for duplicates and,
// with Take, claims the queue. A nil error means that the record is kept until it is finished.
//
// Errors: [ErrFull], also when e has a Wait and 100 records of the queue already wait for something
// other than an operator. After
// [state.ErrTooLarge] and [state.ErrKey] nothing was stored. After [state.ErrUnavailable] and
// context errors the outcome is unknown: try again with the same entry. An entry accepted twice is
// kept once, and only the call that claimed the queue gets it.
func (i *Inbox) Accept(ctx context.Context, e Entry) (Receipt, error) {
	const doing = "accept"
	if err := check(e.Queue, doing, e.ID); err != nil {
		return Receipt{}, err
	}
	if err := i.fits(e.Queue, len(e.Record), i.maxAccepted()); err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", doing, err)
	}
	loads, err := i.store.LoadCalls(e.Load)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s: %w", doing, err)
	}
	queues := e.Wait == nil // otherwise it waits
	free := !queues || i.backlog.enter(i.cfg.MaxWaiting, e.Unbounded)
	owner := ""
	if e.Take && queues {
		owner = i.caller()
	}
	c := i.acceptCall(&e, owner, free)
	calls := append([]*rdb.Call{c}, loads...)
	var joins []*rdb.Call
	var leave func(context.Context) error
	if e.Set != (state.Key{}) {
		joins, leave = i.store.JoinCalls(e.Set, e.Member)
		for _, join := range joins {
			join.Once = true
		}
		calls = append(calls, joins...)
	}
	sent := i.leases.now()
	err = i.do(ctx, doing, calls...)
	reply := c.List()
	i.expect(e.Queue, e.Wait)
	if free && queues {
		i.backlog.entered(c.Err == nil && reply.Int(0) <= 2)
	}
	if c.Err != nil {
		i.leases.owe(release{queue: e.Queue, owner: owner}) // the call may have claimed it
		return Receipt{}, rdb.Explain(ctx, doing, c.Err)
	}
	receipt := Receipt{ID: e.ID, Joined: len(joins) > 0 && rdb.FirstErr(joins) == nil}
	switch reply.Int(0) {
	case 1:
		receipt.Lease = i.lease(e.Queue, owner, e.ID, e.Record, sent)
	case 2:
		return receipt, nil
	case 3:
		i.duplicates.Add(1)
		receipt.Duplicate, receipt.ID = true, reply.Text(1)
		if leave != nil { // what the first delivery joined may have been left since, as /forget does
			if err := leave(ctx); err != nil {
				return Receipt{}, err
			}
		}
		return receipt, nil
	case 4:
		return Receipt{}, fmt.Errorf("%s: %w", doing, ErrFull)
	default:
		return Receipt{}, fmt.Errorf("%s: redis answered %v", doing, reply)
	}
	if len(e.Load) == 0 {
		return receipt, nil
	}
	if err == nil {
		receipt.Scopes, err = i.store.Loaded(ctx, e.Load, loads)
	}
	if receipt.Scopes == nil {
		i.leases.drop(receipt.Lease) // the record is stored; the next owner loads again
		i.leases.owe(release{queue: e.Queue, owner: owner})
		return Receipt{}, err
	}
	return receipt, nil // an unusable scope says so in Err
}

// expect has a record that waits return in time. Another replica that has to do it is a few seconds late for a short wait.
func (i *Inbox) expect(q state.Key, w *Wait) {
	if w != nil && !w.Until.IsZero() {
		i.looks.expect(q.Partition(), i.leases.now()+time.Until(w.Until))
	}
}

// acceptCall builds the KEYS and ARGV of accept.lua. An entry without Duplicates is remembered by
// its id for as long as the call may be repeated. A waiting entry may replace another with the same
// id, so it gets a random id for this call instead.
func (i *Inbox) acceptCall(e *Entry, owner string, free bool) *rdb.Call {
	duplicates := e.Duplicates
	if len(duplicates) == 0 {
		id := e.ID
		if e.Wait != nil {
			id = rand.Text()
		}
		duplicates = []Duplicate{{ID: id, For: i.callMemory()}}
	}
	room := 0
	switch {
	case !free:
		room = -1
	case e.Unbounded:
	case e.Wait != nil:
		room = maxWaits
	default:
		room = i.cfg.MaxWaitingPerQueue
	}
	c := call(acceptScript, e.Queue)
	for _, d := range duplicates {
		c.AddKeys(seen(e.Queue, d.ID))
	}
	c.Add(e.ID, e.Record, owner, i.cfg.Lease.Milliseconds(), strconv.Itoa(room))
	c.Add(e.Wait.args()...)
	for _, d := range duplicates {
		c.Add(seconds(cmp.Or(d.For, i.cfg.DuplicateFor)))
	}
	return c
}

// caller names a call that may claim a queue. If the reply gets lost and the call is repeated,
// Redis gives the queue to that call only, not to another call of this process.
func (i *Inbox) caller() string {
	return i.owner + "." + strconv.FormatUint(i.callers.Add(1), 10)
}

// callMemory is how long Redis remembers a call that may be repeated.
func (i *Inbox) callMemory() time.Duration { return 4*i.cfg.Patience + time.Second }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// An incoming record or an answer has room for a document of maximum size plus half. A record at
// work may have grown to three times that size.
func (i *Inbox) maxAccepted() int { return i.store.MaxBytes() + i.store.MaxBytes()/2 }
func (i *Inbox) maxRecord() int   { return 3 * i.store.MaxBytes() }

func (i *Inbox) fits(q state.Key, bytes, limit int) error {
	if bytes > limit {
		return fmt.Errorf("%w: a record of %s has %d bytes, the limit is %d", state.ErrTooLarge, q, bytes, limit)
	}
	return nil
}

// do runs calls and retries while Redis is unavailable. A nil error means that each call has a
// reply, or an Err that a retry would not fix.
func (i *Inbox) do(ctx context.Context, doing string, calls ...*rdb.Call) error {
	return i.doWithin(ctx, i.cfg.Patience, doing, calls...)
}

func (i *Inbox) doWithin(ctx context.Context, patience time.Duration, doing string, calls ...*rdb.Call) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return rdb.Explain(ctx, doing, i.db.Try(bounded, i.leases.closed, calls...))
}

// all is do for calls that must all get a reply.
func (i *Inbox) all(ctx context.Context, doing string, calls ...*rdb.Call) error {
	err := i.do(ctx, doing, calls...)
	return cmp.Or(err, rdb.Explain(ctx, doing, rdb.FirstErr(calls)))
}

// Answer returns the answer that [Lease.Finish] stored for a record; nil: none yet.
func (i *Inbox) Answer(ctx context.Context, q state.Key, id string) ([]byte, error) {
	const doing = "read an answer"
	if err := check(q, doing, id); err != nil {
		return nil, err
	}
	c := rdb.Plain("mget", answerKey(q, id))
	if err := i.all(ctx, doing, c); err != nil || !c.List().Has(0) {
		return nil, err
	}
	return []byte(c.List().Text(0)), nil
}

// Forget makes later deliveries with this [Duplicate.ID] count as new, provided that the known ones
// belonged to the record id.
func (i *Inbox) Forget(ctx context.Context, q state.Key, duplicate, id string) error {
	const doing = "forget a delivery"
	if err := check(q, doing, id); err != nil {
		return err
	}
	return i.all(ctx, doing, forgetScript.Call(seen(q, duplicate)).Add(id))
}

// Remember makes deliveries with this [Duplicate.ID] count as known for a while, as if they belonged to the record
// id. It changes nothing if they do count as known.
func (i *Inbox) Remember(ctx context.Context, q state.Key, duplicate, id string) error {
	const doing = "remember a delivery"
	if err := check(q, doing, id); err != nil {
		return err
	}
	return i.all(ctx, doing, rememberScript.Call(seen(q, duplicate)).Add(id, seconds(i.cfg.DuplicateFor)))
}

// Remembered returns the id of the record to which deliveries with this [Duplicate.ID] belong. "": none is known.
func (i *Inbox) Remembered(ctx context.Context, q state.Key, duplicate string) (id string, err error) {
	const doing = "look for a delivery"
	if err := q.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	c := rdb.Plain("mget", seen(q, duplicate))
	if err := i.all(ctx, doing, c); err != nil || !c.List().Has(0) {
		return "", err
	}
	return c.List().Text(0), nil
}

// Depth counts the records in all queues now, including those being worked on. [Stats] has the
// count of the last sweep.
func (i *Inbox) Depth(ctx context.Context) (int, error) {
	calls, err := i.everywhere(ctx, "count the records", func(p int) *rdb.Call { return rdb.Plain("mget", shared(p, "depth")) })
	all := 0
	for _, c := range calls {
		n, _ := strconv.Atoi(c.List().Text(0)) // "": no queue of this partition ever had a record
		all += max(n, 0)
	}
	return all, err
}

// everywhere makes one call per partition, all in one round trip.
func (i *Inbox) everywhere(ctx context.Context, doing string, of func(partition int) *rdb.Call) ([]*rdb.Call, error) {
	calls := make([]*rdb.Call, rdb.Partitions)
	for p := range calls {
		calls[p] = of(p)
	}
	if err := i.all(ctx, doing, calls...); err != nil {
		return nil, err
	}
	return calls, nil
}

// Queued counts the records in a queue and its threads', including those being worked on.
func (i *Inbox) Queued(ctx context.Context, q state.Key) (n int, err error) {
	calls, err := i.inThreads(ctx, "count a queue", q, func(q state.Key) *rdb.Call { return rdb.Plain("llen", at(q, "queue")) })
	for _, c := range calls {
		n += int(c.Int())
	}
	return n, err
}

// withThreads makes calls for each of these queues, and for those of their threads that have records. each has the calls
// of a queue.
func (i *Inbox) withThreads(
	ctx context.Context, doing string, queues []state.Key, of func(state.Key) []*rdb.Call,
) (all []state.Key, each [][]*rdb.Call, err error) {
	all = slices.Clone(queues)
	var calls, listed []*rdb.Call
	for _, q := range queues {
		if err := q.Err(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", doing, err)
		}
		each = append(each, of(q))
		if base(q) == q.String() {
			listed = append(listed, rdb.Plain("smembers", threadsKey(q)))
		}
	}
	calls = append(slices.Concat(each...), listed...)
	if err := i.all(ctx, doing, calls...); err != nil {
		return nil, nil, err
	}
	calls = nil
	for _, c := range listed {
		for _, name := range c.List().Texts() {
			var thread state.Key
			if thread.UnmarshalText([]byte(name)) == nil {
				all, each = append(all, thread), append(each, of(thread))
				calls = append(calls, each[len(each)-1]...)
			}
		}
	}
	for some := range slices.Chunk(calls, listAtOnce) {
		if err := i.all(ctx, doing, some...); err != nil {
			return nil, nil, err
		}
	}
	return all, each, nil
}

// inThreads is withThreads for one queue and one call.
func (i *Inbox) inThreads(ctx context.Context, doing string, q state.Key, of func(state.Key) *rdb.Call) (calls []*rdb.Call, err error) {
	_, each, err := i.withThreads(ctx, doing, []state.Key{q}, func(q state.Key) []*rdb.Call { return []*rdb.Call{of(q)} })
	return slices.Concat(each...), err
}

// Remembers is how long the inbox remembers a delivery.
func (i *Inbox) Remembers() time.Duration { return i.cfg.DuplicateFor }

// Records returns all records of a queue and its threads' by id: those in the queue, including the one being
// worked on as it was last saved, and those that wait. Those of one queue are as they are in one moment.
func (i *Inbox) Records(ctx context.Context, q state.Key) (map[string][]byte, error) {
	const doing = "read the records of a queue"
	calls, err := i.inThreads(ctx, doing, q, func(q state.Key) *rdb.Call { return rdb.Plain("hgetall", at(q, "records")) })
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, c := range calls {
		for pair := range slices.Chunk(c.List().Texts(), 2) {
			all[pair[0]] = []byte(pair[1])
		}
	}
	return all, nil
}

// Claim claims the queue if it has records and nobody else has it; otherwise it returns nil without
// an error.
func (i *Inbox) Claim(ctx context.Context, q state.Key) (*Lease, error) {
	const doing = "claim a queue"
	if err := q.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	owner := i.caller()
	c := call(claimScript, q).Add(owner, i.cfg.Lease.Milliseconds())
	sent := i.leases.now()
	if err := i.all(ctx, doing, c); err != nil {
		i.leases.owe(release{queue: q, owner: owner}) // the call may have claimed it
		return nil, err
	}
	reply := c.List()
	if len(reply) == 0 {
		return nil, nil
	}
	if reply.Int(1) > 0 {
		i.takeovers.Add(1)
	}
	l := i.lease(q, owner, reply.Text(2), []byte(reply.Text(3)), sent)
	l.tries = int(reply.Int(0))
	if beside, ok := strings.CutPrefix(reply.Text(4), l.id+"\n"); ok {
		l.beside = []byte(beside)
	}
	return l, nil
}

// lease registers a lease that this replica got through a request sent at that time.
func (i *Inbox) lease(q state.Key, owner, id string, record []byte, sent time.Duration) *Lease {
	l := &Lease{in: i, queue: q, owner: owner, id: id, record: record}
	i.leases.add(l, sent)
	return l
}

// Waiting is a record that waits.
type Waiting struct {
	Queue state.Key
	ID    string
	Since time.Time
	Wait
	Record []byte // nil if the listing does not read records
}

// Waiting lists the waiting records of these queues and their threads', without Record. The one due next comes first;
// those without a due time come last.
func (i *Inbox) Waiting(ctx context.Context, queues ...state.Key) ([]Waiting, error) {
	const doing = "list what waits"
	queues, each, err := i.withThreads(ctx, doing, queues, func(q state.Key) []*rdb.Call {
		return []*rdb.Call{rdb.Plain("hgetall", at(q, "waits"))}
	})
	if err != nil {
		return nil, err
	}
	var all []Waiting
	for n, calls := range each {
		reply := calls[0].List()
		for j := 0; j+1 < len(reply); j += 2 {
			w, err := parseWaiting(queues[n], reply.Text(j), reply.Text(j+1))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", doing, err)
			}
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int {
		if a.Until.IsZero() != b.Until.IsZero() {
			return b.Until.Compare(a.Until) // the zero time sorts last
		}
		return cmp.Or(a.Until.Compare(b.Until), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// DeadUnder lists the dead letters of the queues under q, see [state.Key.Under], without Record and without threads.
func (i *Inbox) DeadUnder(ctx context.Context, q state.Key) ([]Waiting, error) {
	const doing = "list dead letters"
	if err := q.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	c := rdb.Plain("zrange", shared(q.Partition(), "dead"), 0, -1)
	if err := i.all(ctx, doing, c); err != nil {
		return nil, err
	}
	var under []state.Key
	for _, member := range c.List().Texts() {
		path, _, _ := strings.Cut(member, "\n")
		var at state.Key
		ours := strings.HasPrefix(path, q.String()+subqueues) && !strings.HasPrefix(path, q.String()+inThread)
		if ours && at.UnmarshalText([]byte(path)) == nil && !slices.Contains(under, at) {
			under = append(under, at)
		}
	}
	all, err := i.Waiting(ctx, under...)
	return slices.DeleteFunc(all, func(w Waiting) bool { return !w.Operator }), err
}

// parseWaiting parses what wait_for in queue.lua wrote.
func parseWaiting(q state.Key, id, text string) (Waiting, error) {
	w := Waiting{Queue: q, ID: id}
	header, about, _ := strings.Cut(text, "\n")
	var since, due int64
	var operator int
	if _, err := fmt.Sscanf(header, "%d %d %d", &since, &due, &operator); err != nil {
		return w, fmt.Errorf("record %s of %s: its wait is %.40q", id, q, header)
	}
	w.Since, w.Operator = time.UnixMilli(since), operator == 1
	if due > 0 {
		w.Until = time.UnixMilli(due)
	}
	if about != "" {
		w.About = []byte(about)
	}
	return w, nil
}

// Dead lists the dead letters: records that wait for an operator. Record is set. The oldest comes
// first.
func (i *Inbox) Dead(ctx context.Context) ([]Waiting, error) {
	all, err := i.listed(ctx, "list dead letters", "dead", -1)
	slices.SortStableFunc(all, func(a, b Waiting) int { return a.Since.Compare(b.Since) })
	return all, err
}

// CountTimed counts the records that [Inbox.Timed] would list.
func (i *Inbox) CountTimed(ctx context.Context) (n int, err error) {
	calls, err := i.everywhere(ctx, "count what waits for a time", func(p int) *rdb.Call { return rdb.Plain("zcard", shared(p, "timers")) })
	for _, c := range calls {
		n += int(c.Int())
	}
	return n, err
}

// Timed lists records of all queues that wait and go on by themselves at some time, at most that many.
// Record is set. The one due next comes first.
func (i *Inbox) Timed(ctx context.Context, most int) ([]Waiting, error) {
	if most < 1 {
		return nil, nil
	}
	all, err := i.listed(ctx, "list what waits for a time", "timers", most-1)
	slices.SortStableFunc(all, func(a, b Waiting) int { return a.Until.Compare(b.Until) })
	return all[:min(most, len(all))], err
}

// listAtOnce is how many reads of records share a trip: a record may have megabytes.
const listAtOnce = 100

// listed reads the records whose names are in that sorted set of each partition, up to an index of it.
func (i *Inbox) listed(ctx context.Context, doing, set string, last int) ([]Waiting, error) {
	calls, err := i.everywhere(ctx, doing, func(p int) *rdb.Call { return rdb.Plain("zrange", shared(p, set), 0, last) })
	if err != nil {
		return nil, err
	}
	var names []Waiting
	var reads []*rdb.Call
	for _, c := range calls {
		for _, member := range c.List().Texts() {
			var w Waiting
			path, id, _ := strings.Cut(member, "\n")
			if err := w.Queue.UnmarshalText([]byte(path)); err != nil {
				i.cfg.Log.Error().Err(err).Str("set", set).Msg("a record that is not the inbox's")
				continue
			}
			w.ID = id
			names = append(names, w)
			reads = append(reads, readCalls(w.Queue, id)...)
		}
	}
	for some := range slices.Chunk(reads, listAtOnce) {
		if err := i.all(ctx, doing, some...); err != nil {
			return nil, err
		}
	}
	var all []Waiting
	for n, w := range names {
		w, err := readWaiting(w.Queue, w.ID, reads[2*n:2*n+2])
		switch {
		case err == nil:
			all = append(all, w)
		case !errors.Is(err, ErrNoRecord): // it stopped waiting in the meantime
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	return all, nil
}

// readCalls builds the calls that read one waiting record, for readWaiting.
func readCalls(q state.Key, id string) []*rdb.Call {
	return []*rdb.Call{rdb.Plain("hmget", at(q, "waits"), id), rdb.Plain("hmget", at(q, "records"), id)}
}

func readWaiting(q state.Key, id string, calls []*rdb.Call) (Waiting, error) {
	wait, record := calls[0].List(), calls[1].List()
	if !wait.Has(0) || !record.Has(0) {
		return Waiting{}, noRecord(id)
	}
	w, err := parseWaiting(q, id, wait.Text(0))
	w.Record = []byte(record.Text(0))
	return w, err
}

func noRecord(id string) error { return fmt.Errorf("%w: %.80q", ErrNoRecord, id) }

// Find returns a waiting record of a queue or one of its threads', with Record. [ErrNoRecord]: no record with this id waits.
func (i *Inbox) Find(ctx context.Context, q state.Key, id string) (Waiting, error) {
	const doing = "find a record"
	if err := check(q, doing, id); err != nil {
		return Waiting{}, err
	}
	queues, each, err := i.withThreads(ctx, doing, []state.Key{q}, func(q state.Key) []*rdb.Call { return readCalls(q, id) })
	if err != nil {
		return Waiting{}, err
	}
	err = noRecord(id)
	for n, calls := range each {
		w, failure := readWaiting(queues[n], id, calls)
		if failure == nil {
			return w, nil
		}
		if !errors.Is(failure, ErrNoRecord) {
			err = failure
		}
	}
	return Waiting{}, fmt.Errorf("%s: %w", doing, err)
}

// Wake puts w back at the end of its queue and replaces its record (nil: keeps it), in one step. It
// returns [ErrNoRecord] unless w still waits and the stored record is still w.Record. A w without
// Record, as [Inbox.Waiting] lists it, matches any stored record. You may repeat Wake after
// [state.ErrUnavailable].
func (i *Inbox) Wake(ctx context.Context, w Waiting, record []byte) error {
	const doing = "wake a record"
	q := w.Queue
	if err := check(q, doing, w.ID); err != nil {
		return err
	}
	if err := i.fits(q, len(record), i.maxRecord()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	kept := ""
	if w.Record != nil {
		kept = sum(w.Record)
	}
	// This key recognizes a repeated call by its content.
	again := seen(q, strings.Join([]string{"wake", w.ID, kept, sum(record)}, "\n"))
	c := call(wakeScript, q).AddKeys(again).Add(w.ID, kept, flag(record != nil), record, seconds(i.callMemory()))
	if err := i.all(ctx, doing, c); err != nil {
		return err
	}
	if c.Int() == 0 {
		return fmt.Errorf("%s: %w", doing, noRecord(w.ID))
	}
	return nil
}

var errOtherPartition = errors.New("a changed document of another partition than the queue's")

// batches returns the batch of the queue's partition, which may be empty, and the others.
func (i *Inbox) batches(q state.Key, scopes []*state.Scope) (own *state.Batch, others []*state.Batch, idle []*rdb.Call, err error) {
	all, idle, err := i.store.Batches(scopes)
	own = &state.Batch{}
	for _, b := range all {
		if b.Partition() == q.Partition() {
			own = b
		} else {
			others = append(others, b)
		}
	}
	return own, others, idle, err
}

// sum is the record's sha1, as redis.sha1hex computes it.
func sum(record []byte) string {
	sum := sha1.Sum(record)
	return hex.EncodeToString(sum[:])
}

// Drop deletes a waiting record and reports whether there was one. A record that was due may be
// back in its queue by now.
func (i *Inbox) Drop(ctx context.Context, q state.Key, id string) (bool, error) {
	const doing = "drop a record"
	if err := check(q, doing, id); err != nil {
		return false, err
	}
	c := call(dropScript, q).AddKeys(seen(q, rand.Text())).Add(id, seconds(i.callMemory()))
	err := i.all(ctx, doing, c)
	return c.Int() > 0, err
}

// oldKey matches a key of the previous layout. Its group matches keys that contain work.
var oldKey = regexp.MustCompile(`^planbot/\{\d+\}/(?:(parked|timers|leases|[^/]+/[^/]+/conversations/[^/]+/` +
	`(?:lanes/[^/]+/)?(?:queue|lease|journal|timers))|ready|depth|fence|(?:seen|answers)/[^/]+)$`)

// Old counts the keys of the previous layout that contain work: queues and their leases, journals,
// timers and parked turns. It scans every key of the database.
func (i *Inbox) Old(ctx context.Context) (int, error) { return i.old(ctx, false) }

// DropOld deletes the keys that [Inbox.Old] counts and all other keys of that layout. It returns
// how many it deleted.
func (i *Inbox) DropOld(ctx context.Context) (int, error) { return i.old(ctx, true) }

func (i *Inbox) old(ctx context.Context, drop bool) (n int, err error) {
	err = i.db.Scan(ctx, "planbot/{*", func(ctx context.Context, key string) error {
		match := oldKey.FindStringSubmatch(key)
		if match == nil || match[1] == "" && !drop {
			return nil
		}
		n++
		if !drop {
			return nil
		}
		return i.db.Remove(ctx, key)
	})
	return n, rdb.Explain(ctx, "look for keys of the old layout", err)
}
