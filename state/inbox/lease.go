package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/internal/rdb"
)

var (
	saveScript    = script("queue", "save")
	noteScript    = script("note")
	finishScript  = script("queue", "finish")
	releaseScript = script("queue", "release")
)

// noteFor is how long a note of a save is kept, in seconds: longer than a queue goes
// without anybody who takes it.
const noteFor = 24 * 60 * 60

// Lease is a queue that this replica has claimed, with the record at its head. One
// goroutine uses it; OnLost and Err are for any.
type Lease struct {
	in     *Inbox
	queue  state.Key
	owner  string // the call that took it
	id     string
	record []byte
	tries  int
	note   string // key of the note that saves of this record left, "": none
	stale  bool   // the note says nothing that the record does not have

	expires atomic.Int64 // by the clock of leases, ns
	ending  atomic.Bool  // the queue is being given up: a refused renewal says nothing
	lost    bool         // another has the queue; under the mu of leases
	onLost  func()       // the same
}

// Queue is the queue that is held.
func (l *Lease) Queue() state.Key { return l.queue }

// ID is that of the record at the head: the next one after a Finish or Wait that said so.
func (l *Lease) ID() string { return l.id }

// Record is the one at the head, as it was last saved. It must not be changed.
func (l *Lease) Record() []byte { return l.record }

// Tries is how many processes were lost with this record at the head since the last Save
// that said progress.
func (l *Lease) Tries() int { return l.tries }

// Err is [ErrLost] when another replica has the queue, or may have: the lease was
// not renewed in time by this process' own clock. The latter may pass, when Redis
// comes back and nobody took the queue. Ask right before something leaves.
func (l *Lease) Err() error {
	if l.in.leases.now() >= time.Duration(l.expires.Load()) {
		return ErrLost
	}
	return nil
}

// OnLost has f called, which must not wait, when it is known that another replica
// has the queue: at once if it is known already. It takes the place of the f before.
func (l *Lease) OnLost(f func()) {
	l.in.leases.mu.Lock()
	l.onLost = f
	lost := l.lost
	l.in.leases.mu.Unlock()
	if lost {
		f()
	}
}

// Save writes the record (nil: it stays as it is) and the changed scopes. progress says
// that the turn got further: Tries starts again at 0. The record must not be changed after
// the call.
//
// The record and the scopes of the queue's partition are one step, which happens only
// while the queue is held. Scopes of another partition, of which there may be one, are
// saved right before it, together with a note of that step: when the process dies in
// between, whoever claims the queue next calls [Lease.Recover].
//
// Errors: [ErrLost]: the queue is gone, and nothing was written for it; a
// [state.ConflictError]: what is in its Saved need not be saved again, and the caller
// rebases what is in Conflicted and saves again; the others of [state.Store.Save].
func (l *Lease) Save(ctx context.Context, record []byte, progress bool, scopes ...*state.Scope) error {
	const doing = "save a record"
	if err := l.in.fits(l.queue, len(record), l.in.maxRecord()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	own, others, _, err := l.in.batches(l.queue, scopes)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case len(others) > 1:
		return fmt.Errorf("%s: changed documents of more than one other partition", doing)
	case len(others) == 1:
		if err := l.saveOther(ctx, others[0], own, record, progress); err != nil {
			return err
		}
	case len(own.Docs) == 0 && !progress && (record == nil || bytes.Equal(record, l.record)):
		return nil
	}
	lost, err := l.save(ctx, own, record, progress)
	switch {
	case err != nil:
		own.Unknown()
		return err
	case len(lost) > 0:
		conflict := &state.ConflictError{Conflicted: own.Keys()}
		for _, b := range others {
			conflict.Saved = b.Keys()
		}
		return conflict
	}
	own.Saved()
	return nil
}

// note says what a Save writes next, as Redis keeps it.
type note struct {
	Replaces string // the sum of the record before
	Record   []byte
	Progress bool
	Own      *state.Batch // of the queue's partition
}

// saveOther saves the documents of another partition, with a note of what comes next.
func (l *Lease) saveOther(ctx context.Context, other, own *state.Batch, record []byte, progress bool) error {
	const doing = "save state"
	if l.Err() != nil { // this process was paused, or Redis was away
		if _, err := l.save(ctx, &state.Batch{}, nil, false); err != nil {
			return err
		}
	}
	if record == nil {
		record = l.record
	}
	text, err := json.Marshal(note{sum(l.record), record, progress, own}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	l.note, l.stale = l.noteKey(other.Partition()), false
	c := noteScript.Call(l.note).Add(noteFor, text)
	other.AddTo(c)
	if err := l.in.all(ctx, doing, c); err != nil {
		other.Unknown()
		return err
	}
	if len(c.List()) > 0 {
		return &state.ConflictError{Conflicted: other.Keys()}
	}
	other.Saved()
	return nil
}

func (l *Lease) noteKey(partition int) string {
	return shared(partition, "notes/"+sum([]byte(l.queue.String()+"\n"+l.id)))
}

// save is the step of the queue's partition. It returns the numbers of the documents that
// lost a race: then nothing was written.
func (l *Lease) save(ctx context.Context, own *state.Batch, record []byte, progress bool) (lost rdb.Reply, err error) {
	const doing = "save a record"
	lease := int64(0)
	if l.in.leases.due(l) {
		lease = l.in.cfg.Lease.Milliseconds()
	}
	c := call(saveScript, l.queue).Add(l.owner, l.id, lease, flag(record != nil), record, flag(progress))
	own.AddTo(c)
	sent := l.in.leases.now()
	if err := l.in.all(ctx, doing, c); err != nil {
		return nil, err
	}
	switch reply := c.List(); reply.Int(0) {
	case 0:
	case 5:
		return reply[1:], nil
	default:
		l.in.leases.lose(l)
		return nil, fmt.Errorf("%s: %w", doing, ErrLost)
	}
	if lease > 0 {
		l.in.leases.extend(l, sent)
	}
	if record != nil {
		l.record = record
	}
	if progress {
		l.tries = 0
	}
	l.stale = true
	return nil, nil
}

// Finish ends the record: the scopes are saved, answer is kept for whoever asks
// [Inbox.Answer] (nil: there is none), and the record leaves the queue, all in one step,
// which goes on to the next record (more: ID and Record are the next one's) or gives the
// queue up: there is no next one, or another replica wants it. It is noted that scopes
// which did not change are in use.
//
// A changed scope of another partition is an error: [Lease.Save] it before. After any
// error the record is still the same, or this is not known. After a [state.ConflictError]
// and [state.ErrUnavailable] Finish may be called again.
func (l *Lease) Finish(ctx context.Context, answer []byte, scopes ...*state.Scope) (more bool, err error) {
	return l.end(ctx, "finish a record", nil, nil, answer, scopes)
}

// Wait is [Lease.Finish] for a record that is not over: it leaves the queue and waits.
// record nil: as it was.
func (l *Lease) Wait(ctx context.Context, record []byte, w Wait, answer []byte, scopes ...*state.Scope) (more bool, err error) {
	return l.end(ctx, "have a record wait", record, &w, answer, scopes)
}

func (l *Lease) end(ctx context.Context, doing string, record []byte, w *Wait, answer []byte, scopes []*state.Scope) (more bool, err error) {
	i := l.in
	own, others, idle, err := i.batches(l.queue, scopes)
	if err == nil && len(others) > 0 {
		err = errOtherPartition
	}
	if err = errors.Join(err, i.fits(l.queue, len(record), i.maxRecord()), i.fits(l.queue, len(answer), i.maxAccepted())); err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	c := l.endCall(record, w, answer, own)
	calls := append([]*rdb.Call{c}, idle...)
	if l.note != "" && l.stale {
		calls = append(calls, rdb.Plain("del", l.note))
	}
	for _, extra := range calls[1:] {
		extra.Once = true
	}
	l.ending.Store(true)
	defer l.ending.Store(false)
	i.backlog.leave()
	defer func() { i.backlog.left(err == nil) }()
	sent := i.leases.now()
	_ = i.do(ctx, doing, calls...) // the call has its error
	if c.Err != nil {
		own.Unknown()
		return false, rdb.Explain(ctx, doing, c.Err)
	}
	switch reply := c.List(); reply.Int(0) {
	case 1:
		i.leases.drop(l)
	case 2:
		i.leases.extend(l, sent)
		l.id, l.record, l.tries, l.note = reply.Text(1), []byte(reply.Text(2)), 0, ""
		more = true
	case 5:
		return false, &state.ConflictError{Conflicted: own.Keys()}
	case 4:
		// The record is gone and so is our lease: an earlier try did that, whose answer
		// got lost, unless another replica may have taken over meanwhile.
		if l.Err() == nil || c.Tries > 1 {
			i.leases.drop(l)
			break
		}
		fallthrough
	default:
		i.leases.lose(l)
		return false, fmt.Errorf("%s: %w", doing, ErrLost)
	}
	own.Saved()
	return more, nil
}

// endCall makes the KEYS and ARGV of finish.lua.
func (l *Lease) endCall(record []byte, w *Wait, answer []byte, own *state.Batch) *rdb.Call {
	q := l.queue
	var keep int64
	if answer != nil {
		keep = seconds(l.in.cfg.DuplicateFor)
	}
	c := call(finishScript, q).AddKeys(answerKey(q, l.id)).Add(l.owner, l.id, l.in.cfg.Lease.Milliseconds(), keep, answer)
	c.Add(w.args()...)
	c.Add(flag(record != nil), record)
	own.AddTo(c)
	return c
}

// Release gives the queue up with the record at its head, for others, or this replica,
// to claim after a time: that is no takeover. The lease is over whatever Release
// returns: when Redis could not be told, the inbox goes on trying. [ErrLost]: another
// replica had the queue.
func (l *Lease) Release(ctx context.Context, after time.Duration) error {
	const doing = "release a queue"
	i := l.in
	i.leases.drop(l)
	r := release{l.queue, l.owner, max(after, 0)}
	c := r.call()
	if err := i.all(ctx, doing, c); err != nil {
		i.leases.owe(r)
		return err
	}
	if c.Int() == 0 && c.Tries == 1 {
		i.leases.mu.Lock()
		i.leases.lost++
		i.leases.mu.Unlock()
		return fmt.Errorf("%s: %w", doing, ErrLost)
	}
	return nil
}

// Recover finishes a Save of a process that died between its two steps. other is the
// person's document. When there is a note of what that Save would have written next, and
// the record is still the one that the Save found, Recover writes it: recovered, Record
// is a newer one now. Documents that somebody else changed since are left as they are.
// Call it before the documents are loaded. Errors are those of [Lease.Save].
func (l *Lease) Recover(ctx context.Context, other state.Key) (recovered bool, err error) {
	const doing = "recover a record"
	if err := other.Err(); err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	key := l.noteKey(other.Partition())
	c := rdb.Plain("getrange", key, 0, -1)
	if err := l.in.all(ctx, doing, c); err != nil || c.Text() == "" {
		return false, err
	}
	var n note
	if err := json.Unmarshal([]byte(c.Text()), &n); err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	l.note, l.stale = key, true
	if n.Replaces != sum(l.record) {
		return false, nil
	}
	l.stale = false
	for {
		lost, err := l.save(ctx, n.Own, n.Record, n.Progress)
		if err != nil {
			return false, err
		}
		if len(lost) == 0 {
			return true, nil
		}
		l.in.cfg.Log.Warn().Strs("keys", n.Own.Without(lost)).Str("record", l.id).
			Msg("somebody changed documents that a lost process was about to save, so they stay as they are")
	}
}

// leases renews the leases that this replica has, and gives up those that it may have
// without knowing, or could not give up while Redis was away.
type leases struct {
	db      *rdb.DB
	length  time.Duration
	started time.Time
	closed  chan struct{}
	closing sync.Once
	wg      sync.WaitGroup

	mu   sync.Mutex
	held map[*Lease]struct{}
	owed map[release]struct{}
	lost uint64
}

// maxOwed bounds the releases that are tried again. The others' leases run out.
const maxOwed = 10000

// release is a queue to give up, if it is that of the call owner.
type release struct {
	queue state.Key
	owner string
	after time.Duration
}

func (r release) call() *rdb.Call {
	return call(releaseScript, r.queue).Add(r.owner, r.after.Milliseconds())
}

func newLeases(db *rdb.DB, length time.Duration) *leases {
	k := &leases{
		db: db, length: length, started: time.Now(), closed: make(chan struct{}),
		held: map[*Lease]struct{}{}, owed: map[release]struct{}{},
	}
	k.wg.Go(k.run)
	return k
}

func (k *leases) close() {
	k.closing.Do(func() { close(k.closed) })
	k.wg.Wait()
}

// now is the time of this process, which no one can set back.
func (k *leases) now() time.Duration { return time.Since(k.started) }

// run works until close: now and then, and more often while Redis is away.
func (k *leases) run() {
	for every := k.length / 6; ; {
		timer := time.NewTimer(every)
		select {
		case <-k.closed:
			timer.Stop()
			return
		case <-timer.C:
		}
		every = k.length / 6
		if !k.work() {
			every = k.length / 24
		}
	}
}

// work renews what is due and gives up what is owed. It reports whether all calls were
// answered.
func (k *leases) work() bool {
	var renew []*Lease
	var owed []release
	var calls []*rdb.Call
	k.mu.Lock()
	for l := range k.held {
		if k.due(l) && !l.ending.Load() { // one that is being given up renews itself
			renew = append(renew, l)
			calls = append(calls, call(saveScript, l.queue).Add(l.owner, "", k.length.Milliseconds(), "0", "", "0", 0))
		}
	}
	for r := range k.owed {
		owed = append(owed, r)
		calls = append(calls, r.call())
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), k.length/4)
	defer cancel()
	sent := k.now()
	k.db.Spread(ctx, calls...)
	answered := true
	for n, l := range renew {
		switch c := calls[n]; {
		case c.Err != nil:
			answered = false
		case c.List().Int(0) == 0:
			k.extend(l, sent)
		case !l.ending.Load():
			k.lose(l)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for n, r := range owed {
		if c := calls[len(renew)+n]; c.Err != nil && rdb.IsUnavailable(c.Err) {
			answered = false
		} else {
			delete(k.owed, r)
		}
	}
	return answered
}

// due reports whether a third or more of the lease is over.
func (k *leases) due(l *Lease) bool {
	return time.Duration(l.expires.Load())-k.now() <= k.length-k.length/3
}

func (k *leases) add(l *Lease, sent time.Duration) {
	l.expires.Store(int64(sent + k.length))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[l] = struct{}{}
}

// extend notes that the lease was renewed by a request sent at that time, unless
// it ended meanwhile.
func (k *leases) extend(l *Lease, sent time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.held[l]; ok {
		l.expires.Store(max(l.expires.Load(), int64(sent+k.length)))
	}
}

// drop forgets a lease whose queue was given up, or will be.
func (k *leases) drop(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.expires.Store(0)
	_, had := k.held[l]
	delete(k.held, l)
	return had
}

// lose notes that the queue is another's.
func (k *leases) lose(l *Lease) {
	if !k.drop(l) {
		return
	}
	k.mu.Lock()
	k.lost++
	f := l.onLost
	l.lost = true
	k.mu.Unlock()
	if f != nil {
		f()
	}
}

// owe has a queue given up as soon as Redis can be told: one that could not be, or that a
// call without an answer may have taken. Owner "": the call did not want to.
func (k *leases) owe(r release) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.owner != "" && len(k.owed) < maxOwed {
		k.owed[r] = struct{}{}
	}
}
