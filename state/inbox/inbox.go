// Package inbox keeps what a bot has to do, in Redis: a queue of records for each
// conversation, of which one replica works at a time, whatever becomes of the others.
//
// [Inbox.Accept] takes a record in, once. [Inbox.Claim] takes a queue under a lease that
// others take over when its holder is gone, and returns a [Lease] with the record at the
// head. [Lease.Save] writes the record and the documents of package state in one step, and
// only while the queue is held; [Lease.Finish] ends the record and goes on to the next.
// A record that waits, for a person, a time or an operator, is not in its queue:
// [Lease.Wait] takes it out, and [Inbox.Wake] or its time puts it back.
package inbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1" // tells records apart, keeps nothing safe
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

// What an inbox may say, for errors.Is, beside the errors of package state.
var (
	// ErrFull: too many records, in the queue or in all. Later it may be taken.
	ErrFull = errors.New("the inbox is full")
	// ErrLost: the queue is another replica's by now, or may be. Nothing may be done for it any more.
	ErrLost = errors.New("the queue was lost")
	// ErrNoRecord: no record of this id waits, or it is not the one it was.
	ErrNoRecord = errors.New("no such record")
)

// Config says how an inbox works. Its zero value is ready to use.
type Config struct {
	// Lease is how long a replica that is gone keeps a queue. 0: 6 seconds.
	Lease time.Duration
	// Patience is how long a call tries while Redis is unavailable. 0: 8 seconds.
	Patience time.Duration
	// DuplicateFor is how long a delivery, and the answer to it, is remembered. 0: 30 minutes.
	DuplicateFor time.Duration
	// MaxWaiting bounds the records in all queues, as they were last counted, up to a second
	// or so ago, and with what this inbox has done since. 0: 10000.
	MaxWaiting int
	// MaxWaitingPerQueue bounds the records in one queue. 0: 256.
	MaxWaitingPerQueue int
	// Name of this replica, for operators. "": made up.
	Name string
	// Log takes what [Inbox.Run] meets. The zero Logger is silent.
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

// Inbox is the queues of all conversations. It is safe for concurrent use. All calls try
// for [Config.Patience] while Redis is unavailable, and may be repeated after
// [state.ErrUnavailable]: what arrived all the same does not happen twice.
type Inbox struct {
	store   *state.Store
	db      *rdb.DB
	cfg     Config
	owner   string // of this process
	callers atomic.Uint64
	leases  *leases

	backlog backlog

	takeovers, duplicates atomic.Uint64
}

// Open returns the inbox that lies in store. Give each process one, and Close it
// before the store.
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

// Close ends the renewal of leases: what is still held is taken over by others
// once its lease has run out. Calls that wait for Redis give up.
func (i *Inbox) Close() { i.leases.close() }

// Stats is how an inbox fares. The counters count from its start.
type Stats struct {
	Waiting    int    // records in all queues of all replicas, those at work among them; others' as last counted
	Held       int    // queues that this replica has
	Takeovers  uint64 // queues taken from a replica whose lease ran out
	Lost       uint64 // queues that another replica took from this one
	Duplicates uint64 // deliveries that were known
}

// Stats may be called at any time and costs nothing.
func (i *Inbox) Stats() Stats {
	i.leases.mu.Lock()
	defer i.leases.mu.Unlock()
	return Stats{
		Waiting: i.backlog.size(), Held: len(i.leases.held),
		Takeovers: i.takeovers.Load(), Lost: i.leases.lost, Duplicates: i.duplicates.Load(),
	}
}

// prefix goes before all keys of the inbox, where those of documents have planbot/.
const prefix = "planbot/2/"

// at is a key of the queue's own.
func at(queue state.Key, name string) string {
	return prefix + strings.TrimPrefix(queue.String(), "planbot/") + "/" + name
}

// shared is a key that all queues of the partition share.
func shared(partition int, name string) string {
	return prefix + "{" + strconv.Itoa(partition) + "}/" + name
}

func answerKey(queue state.Key, id string) string {
	return shared(queue.Partition(), "answers/"+url.PathEscape(id))
}

// seen is where something about the queue is remembered for a time. Ids come from
// outside, so they are hashed.
func seen(queue state.Key, id string) string {
	sum := sha256.Sum256([]byte(queue.String() + "\n" + id))
	return shared(queue.Partition(), "seen/"+base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// call starts a call of a script that has queue.lua before it.
func call(s *rdb.Script, queue state.Key) *rdb.Call {
	p := queue.Partition()
	return s.Call(at(queue, "queue"), at(queue, "records"), at(queue, "waits"), at(queue, "lease"),
		shared(p, "leases"), shared(p, "ready"), shared(p, "depth"), shared(p, "timers"), shared(p, "dead")).
		Add(queue.String())
}

// check refuses queues that cannot be, and ids that would not be found again.
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

// script joins Lua files.
func script(names ...string) *rdb.Script {
	var parts []string
	for _, name := range names {
		text, err := luaFiles.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // it is not in the program
		}
		parts = append(parts, string(text))
	}
	return rdb.NewScript(parts...)
}

var (
	acceptScript = script("queue", "accept")
	forgetScript = script("forget")
	claimScript  = script("queue", "claim")
	wakeScript   = script("queue", "wake")
	dropScript   = script("queue", "drop")
)

// Duplicate is something that tells a delivery from others of its conversation. A delivery
// that is known by one is known by those before it, too, from then on.
type Duplicate struct {
	ID  string
	For time.Duration // how long to remember it. 0: [Config.DuplicateFor]
}

// Entry is what [Inbox.Accept] takes in.
type Entry struct {
	Queue      state.Key   // of its conversation: records of one queue are worked on one after another
	ID         string      // of the record, made by the caller; accepted again with it is kept once
	Record     []byte      // what [Lease.Record] returns; opaque here
	Wait       *Wait       // not nil: it does not join the queue, it waits. A waiting record of the same ID is replaced
	Duplicates []Duplicate // any of them known: a duplicate. None: never
	Take       bool        // claim the queue if nobody has it
	Load       []state.Key // documents to read in the same round trip, with Take
	Set        state.Key   // a set that Member joins in the same round trip, see [state.Store.Join]. Zero: none
	Member     string
	Unbounded  bool // no limit refuses it: it follows from something that was accepted
}

// Receipt is what became of an [Entry].
type Receipt struct {
	Duplicate bool
	ID        string         // of the entry; for a Duplicate, of the first delivery
	Answer    []byte         // what was answered to the first delivery, if that is known
	Lease     *Lease         // not nil: the queue is the caller's, the entry is at its head
	Scopes    []*state.Scope // of Entry.Load, when Lease is set; one that cannot be used says so in Err
	Joined    bool           // Entry.Member is in its set for certain; it is tried once
}

// Wait says what a record outside of its queue waits for. The zero Wait is one that
// somebody has to [Inbox.Wake].
type Wait struct {
	Until    time.Time // when it is put back into its queue by itself, within about a second; zero: not by itself
	Operator bool      // it is a dead letter: [Inbox.Dead] lists it
	About    []byte    // of the caller, listed with it, so that nobody needs to read whole records
}

// args are those of wait_for in queue.lua.
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

// maxWaits is how many records of a conversation may wait.
const maxWaits = 100

// Accept puts e into its queue, or among those that wait, in one step with the check that
// it was not delivered before and, with Take, the taking of the queue. Nil means that it
// is kept until it is done with. Errors: [ErrFull], also when 100 records of the queue
// wait and e has a Wait; [state.ErrTooLarge], [state.ErrKey], after which nothing was
// done; [state.ErrUnavailable] and the context's, after which it is not known: the same
// entry may be tried again. One that was accepted before is kept once, and gives the
// queue to the call that took it only.
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
	queues := e.Wait == nil // it joins the queue
	free := !queues || i.backlog.enter(i.cfg.MaxWaiting, e.Unbounded)
	owner := ""
	if e.Take && queues {
		owner = i.caller()
	}
	c := i.acceptCall(&e, owner, free)
	calls := append([]*rdb.Call{c}, loads...)
	var joins []*rdb.Call
	if e.Set != (state.Key{}) {
		joins = i.store.JoinCalls(e.Set, e.Member)
		for _, join := range joins {
			join.Once = true
		}
		calls = append(calls, joins...)
	}
	sent := i.leases.now()
	err = i.do(ctx, doing, calls...)
	reply := c.List()
	if free && queues {
		i.backlog.entered(c.Err == nil && reply.Int(0) <= 2)
	}
	if c.Err != nil {
		i.leases.owe(release{queue: e.Queue, owner: owner}) // it may be ours
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
		receipt.Answer, err = i.Answer(ctx, e.Queue, receipt.ID)
		return receipt, err
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
		i.leases.drop(receipt.Lease) // it is kept; whoever takes the queue reads again
		i.leases.owe(release{queue: e.Queue, owner: owner})
		return Receipt{}, err
	}
	return receipt, nil // a scope that cannot be used says so
}

// acceptCall makes the KEYS and ARGV of accept.lua. An entry that nothing tells from
// others is remembered by its id, as long as it may be repeated; one that waits and may
// replace another, by this call.
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

// caller names a call that may take a queue: when Redis is asked again, since an
// answer got lost, it gives the queue to that call and to no other of this process.
func (i *Inbox) caller() string {
	return i.owner + "." + strconv.FormatUint(i.callers.Add(1), 10)
}

// callMemory is for how long a call is remembered that may be repeated.
func (i *Inbox) callMemory() time.Duration { return 4*i.cfg.Patience + time.Second }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// A record that comes in has room for a document of the largest and something around it,
// and so has an answer; one at work has grown.
func (i *Inbox) maxAccepted() int { return i.store.MaxBytes() + i.store.MaxBytes()/2 }
func (i *Inbox) maxRecord() int   { return 3 * i.store.MaxBytes() }

func (i *Inbox) fits(q state.Key, bytes, limit int) error {
	if bytes > limit {
		return fmt.Errorf("%w: a record of %s has %d bytes, the limit is %d", state.ErrTooLarge, q, bytes, limit)
	}
	return nil
}

// do runs calls, and tries again while Redis is unavailable. A nil error means that each
// has a reply, or an Err which another try would not help.
func (i *Inbox) do(ctx context.Context, doing string, calls ...*rdb.Call) error {
	bounded, cancel := context.WithTimeout(ctx, i.cfg.Patience)
	defer cancel()
	return rdb.Explain(ctx, doing, i.db.Try(bounded, i.leases.closed, calls...))
}

// all is do for calls that each have to have a reply.
func (i *Inbox) all(ctx context.Context, doing string, calls ...*rdb.Call) error {
	err := i.do(ctx, doing, calls...)
	return cmp.Or(err, rdb.Explain(ctx, doing, rdb.FirstErr(calls)))
}

// Answer returns what [Lease.Finish] kept as the answer of a record; nil: there is none yet.
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

// Forget has later deliveries with this [Duplicate.ID] count again, if those before were
// of the record id.
func (i *Inbox) Forget(ctx context.Context, q state.Key, duplicate, id string) error {
	const doing = "forget a delivery"
	if err := check(q, doing, id); err != nil {
		return err
	}
	return i.all(ctx, doing, forgetScript.Call(seen(q, duplicate)).Add(id))
}

// Depth counts the records in all queues, those at work among them, as of now. [Stats]
// has the figure of the last sweep.
func (i *Inbox) Depth(ctx context.Context) (int, error) {
	calls, err := i.everywhere(ctx, "count the records", func(p int) *rdb.Call { return rdb.Plain("mget", shared(p, "depth")) })
	all := 0
	for _, c := range calls {
		n, _ := strconv.Atoi(c.List().Text(0)) // "": nothing was ever counted there
		all += max(n, 0)
	}
	return all, err
}

// everywhere makes a call in each partition, in one round trip.
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

// Queued counts the records in a queue, the one at work among them.
func (i *Inbox) Queued(ctx context.Context, q state.Key) (int, error) {
	if err := q.Err(); err != nil {
		return 0, fmt.Errorf("count a queue: %w", err)
	}
	c := rdb.Plain("llen", at(q, "queue"))
	err := i.all(ctx, "count a queue", c)
	return int(c.Int()), err
}

// Claim takes the queue if it has records and nobody has it. Nil without an error: it
// has none, or somebody has it.
func (i *Inbox) Claim(ctx context.Context, q state.Key) (*Lease, error) {
	const doing = "claim a queue"
	if err := q.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	owner := i.caller()
	c := call(claimScript, q).Add(owner, i.cfg.Lease.Milliseconds())
	sent := i.leases.now()
	if err := i.all(ctx, doing, c); err != nil {
		i.leases.owe(release{queue: q, owner: owner}) // it may be ours
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
	return l, nil
}

// lease notes that this replica has a queue, since a request was sent.
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
	Record []byte // nil where the list does not read records
}

// Waiting lists the records that wait in these queues, without Record; the next one
// first, those without a time last.
func (i *Inbox) Waiting(ctx context.Context, queues ...state.Key) ([]Waiting, error) {
	const doing = "list what waits"
	calls := make([]*rdb.Call, len(queues))
	for j, q := range queues {
		if err := q.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		calls[j] = rdb.Plain("hgetall", at(q, "waits"))
	}
	if err := i.all(ctx, doing, calls...); err != nil {
		return nil, err
	}
	var all []Waiting
	for n, c := range calls {
		reply := c.List()
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
			return b.Until.Compare(a.Until) // the zero time last
		}
		return cmp.Or(a.Until.Compare(b.Until), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// parseWaiting reads what wait_for in queue.lua wrote.
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

// Dead lists the records that wait for an operator, with Record, the oldest first.
func (i *Inbox) Dead(ctx context.Context) ([]Waiting, error) {
	const doing = "list dead letters"
	calls, err := i.everywhere(ctx, doing, func(p int) *rdb.Call { return rdb.Plain("zrange", shared(p, "dead"), 0, -1) })
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
				i.cfg.Log.Error().Err(err).Msg("a dead letter that is not the inbox's")
				continue
			}
			w.ID = id
			names = append(names, w)
			reads = append(reads, readCalls(w.Queue, id)...)
		}
	}
	if err := i.all(ctx, doing, reads...); err != nil {
		return nil, err
	}
	var all []Waiting
	for n, w := range names {
		w, err := readWaiting(w.Queue, w.ID, reads[2*n:2*n+2])
		switch {
		case err == nil:
			all = append(all, w)
		case !errors.Is(err, ErrNoRecord): // by now it does not wait any more
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	slices.SortStableFunc(all, func(a, b Waiting) int { return a.Since.Compare(b.Since) })
	return all, nil
}

// readCalls read one record that waits, for readWaiting.
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

// Find returns a record that waits, with Record. [ErrNoRecord]: none of this id does.
func (i *Inbox) Find(ctx context.Context, q state.Key, id string) (Waiting, error) {
	const doing = "find a record"
	if err := check(q, doing, id); err != nil {
		return Waiting{}, err
	}
	calls := readCalls(q, id)
	if err := i.all(ctx, doing, calls...); err != nil {
		return Waiting{}, err
	}
	w, err := readWaiting(q, id, calls)
	if err != nil {
		return Waiting{}, fmt.Errorf("%s: %w", doing, err)
	}
	return w, nil
}

// Wake puts w back at the end of its queue, with record in its place (nil: as it is), and
// saves scopes of the queue's partition in the same step, all or nothing. It does so only
// while w waits and w.Record is what is kept, else: [ErrNoRecord]. A w without Record, as
// [Inbox.Waiting] lists it, stands for whatever is kept. Other errors are those of
// [state.Store.Save]. Wake may be repeated after [state.ErrUnavailable].
func (i *Inbox) Wake(ctx context.Context, w Waiting, record []byte, scopes ...*state.Scope) error {
	const doing = "wake a record"
	q := w.Queue
	if err := check(q, doing, w.ID); err != nil {
		return err
	}
	if err := i.fits(q, len(record), i.maxRecord()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	own, others, _, err := i.batches(q, scopes)
	if err == nil && len(others) > 0 {
		err = errOtherPartition
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	kept := ""
	if w.Record != nil {
		kept = sum(w.Record)
	}
	// The same call again is known by what it does.
	again := seen(q, strings.Join([]string{"wake", w.ID, kept, sum(record)}, "\n"))
	c := call(wakeScript, q).AddKeys(again).Add(w.ID, kept, flag(record != nil), record, seconds(i.callMemory()))
	own.AddTo(c)
	if err := i.all(ctx, doing, c); err != nil {
		own.Unknown()
		return err
	}
	switch reply := c.List(); reply.Int(0) {
	case 1:
		own.Saved()
		return nil
	case 5:
		return &state.ConflictError{Conflicted: own.Keys()}
	}
	return fmt.Errorf("%s: %w", doing, noRecord(w.ID))
}

var errOtherPartition = errors.New("a changed document of another partition than the queue's")

// batches makes the batch of the queue's partition, maybe an empty one, and the others.
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

// sum is a record's sha1, as Redis knows it.
func sum(record []byte) string {
	sum := sha1.Sum(record)
	return hex.EncodeToString(sum[:])
}

// Drop forgets a record that waits, and reports whether there was one: one that is due
// may be in its queue by now.
func (i *Inbox) Drop(ctx context.Context, q state.Key, id string) (bool, error) {
	const doing = "drop a record"
	if err := check(q, doing, id); err != nil {
		return false, err
	}
	c := call(dropScript, q).AddKeys(seen(q, rand.Text())).Add(id, seconds(i.callMemory()))
	err := i.all(ctx, doing, c)
	return c.Int() > 0, err
}

// oldKey is a key of the layout before this one, with as a group what holds work:
// planbot/{N}/NAME, or planbot/{N}/CHANNEL/BOT/conversations/ID[/lanes/NAME]/NAME.
var oldKey = regexp.MustCompile(`^planbot/\{\d+\}/(?:(parked|timers|leases|[^/]+/[^/]+/conversations/[^/]+/` +
	`(?:lanes/[^/]+/)?(?:queue|lease|journal|timers))|ready|depth|fence|(?:seen|answers)/[^/]+)$`)

// Old counts the keys of the layout before this one that hold work: queues and their
// leases, journals, timers and parked turns. It looks at all keys of the database.
func (i *Inbox) Old(ctx context.Context) (int, error) { return i.old(ctx, false) }

// DropOld deletes what [Inbox.Old] counts, and what else is left of that layout. It
// returns how many keys that were.
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
		return i.db.Client.Del(ctx, key).Err()
	})
	return n, rdb.Explain(ctx, "look for keys of the old layout", err)
}
