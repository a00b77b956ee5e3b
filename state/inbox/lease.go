package inbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	besideScript  = script("queue", "beside")
	joinScript    = script("queue", "join")
)

// noteFor is how long a note of a save is kept, in seconds: longer than any queue goes unclaimed.
const noteFor = 24 * 60 * 60

// Lease is a queue that this replica has claimed, with the record at its head. Only one goroutine
// may use it, except for OnLost and Err, which are safe for concurrent use, and SaveBeside.
type Lease struct {
	in     *Inbox
	queue  state.Key
	keys   []any  // see queueKeys
	owner  string // the call that claimed the queue
	id     string
	record []byte
	beside []byte
	tries  int
	alone  bool     // nothing followed the record when it came to the head
	notes  []string // keys of the notes left by saves of this record
	noted  int      // how many saves of this record left notes
	stale  bool     // the record already contains what the notes say

	expires atomic.Int64 // by the clock of leases, ns
	ending  atomic.Bool  // a call that may end the lease is running: ignore a refused renewal
	lost    bool         // another replica has the queue; guarded by leases.mu
	onLost  func()       // guarded by leases.mu
}

// Queue is the claimed queue.
func (l *Lease) Queue() state.Key { return l.queue }

// ID is the id of the record at the head. It changes when Finish or Wait returns more.
func (l *Lease) ID() string { return l.id }

// Record is the record at the head as last saved. Do not change it.
func (l *Lease) Record() []byte { return l.record }

// Beside is what SaveBeside last saved for this record, if another process did and this one claimed
// the queue with it; else nil.
func (l *Lease) Beside() []byte { return l.beside }

// SaveBeside saves something small beside the record, for the process that takes it over. It costs
// less than Save, and says nothing about the record. It is lost with Finish and Wait, during which
// it may not be called; otherwise another goroutine may call it than the one that has the lease.
// Errors: [ErrLost], [state.ErrUnavailable], [state.ErrTooLarge].
func (l *Lease) SaveBeside(ctx context.Context, beside []byte) error {
	const doing = "save beside a record"
	if err := l.in.fits(l.queue, len(beside), l.in.maxAccepted()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	c := call(besideScript, l.queue).Add(l.owner, l.id, beside)
	if err := l.in.all(ctx, doing, c); err != nil {
		return err
	}
	if c.Int() == 0 {
		return fmt.Errorf("%s: %w", doing, ErrLost)
	}
	return nil
}

// Tries counts the processes that died with this record at the head since the last Save with
// progress.
func (l *Lease) Tries() int { return l.tries }

// Err is [ErrLost] when another replica has the queue or may have it, because this lease was not
// renewed in time by this process's own clock. The second case clears up if Redis comes back and
// nobody took the queue. Check Err right before you send anything out.
func (l *Lease) Err() error {
	if l.in.leases.now() >= time.Duration(l.expires.Load()) {
		return ErrLost
	}
	return nil
}

// OnLost registers f, which must not block. f is called as soon as it is known that another replica
// has the queue, at once if that is known already. It replaces the previous f.
func (l *Lease) OnLost(f func()) {
	l.in.leases.mu.Lock()
	l.onLost = f
	lost := l.lost
	l.in.leases.mu.Unlock()
	if lost {
		f()
	}
}

// Save writes the record (nil: unchanged) and the changed scopes. progress says that the turn got
// further and resets Tries to 0. Do not change the record after the call.
//
// Save writes the record and the scopes of the queue's partition in one step, and only if this
// lease still owns the queue. Scopes may also be in other partitions. Those are saved just before,
// one partition after another in the order of scopes, each together with a note of the next steps.
// If the process dies in between, the next owner completes the save with [Lease.Recover].
//
// Errors: [ErrLost]: the queue is gone and nothing was written for it. A [state.ConflictError]:
// rebase the scopes in Conflicted and save again; those in Saved are already saved. With scopes in
// two other partitions, or in two at all and in a queue under another, Save compares all versions before it writes anything,
// so that Saved is empty unless somebody else saved in that very moment. Otherwise the errors of [state.Store.Save].
func (l *Lease) Save(ctx context.Context, record []byte, progress bool, scopes ...*state.Scope) error {
	const doing = "save a record"
	if err := l.in.fits(l.queue, len(record), l.in.maxRecord()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	own, others, _, err := l.in.batches(l.queue, scopes)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case len(others) > 0:
		if err := l.saveOthers(ctx, others, own, record, progress); err != nil {
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
		return &state.ConflictError{Conflicted: own.Keys(), Saved: keysOf(others)}
	}
	own.Saved()
	return nil
}

func keysOf(batches []*state.Batch) (keys []state.Key) {
	for _, b := range batches {
		keys = append(keys, b.Keys()...)
	}
	return keys
}

// note is what a Save will write in its next steps, as stored in Redis.
type note struct {
	Save     int    // counts the saves of the record that left notes
	Replaces string // sum of the previous record
	Record   []byte
	Progress bool
	Others   []*state.Batch `json:",omitempty"` // of further partitions, to be saved first
	Own      *state.Batch   // of the queue's partition
}

// follows reports whether n was written after other.
func (n *note) follows(other *note) bool {
	return n.Save > other.Save || n.Save == other.Save && len(n.Others) < len(other.Others)
}

// saveOthers saves the documents of other partitions, each with a note of the next steps.
func (l *Lease) saveOthers(ctx context.Context, others []*state.Batch, own *state.Batch, record []byte, progress bool) error {
	if l.Err() != nil { // the process was paused or Redis was unavailable
		if _, err := l.save(ctx, &state.Batch{}, nil, false); err != nil {
			return err
		}
	}
	beside := base(l.queue) != l.queue.String() // others change documents of this partition at the same time
	if len(others) > 1 || beside && len(own.Docs) > 0 {
		lost, err := l.in.store.Compare(ctx, append(slices.Clip(others), own)...)
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return &state.ConflictError{Conflicted: lost}
		}
	}
	if record == nil {
		record = l.record
	}
	l.noted++
	n := note{Save: l.noted, Replaces: sum(l.record), Record: record, Progress: progress, Own: own}
	for i, other := range others {
		n.Others = others[i+1:]
		lost, err := l.saveOther(ctx, other, n)
		switch {
		case err != nil:
			other.Unknown()
			return err
		case len(lost) > 0:
			return &state.ConflictError{Conflicted: other.Keys(), Saved: keysOf(others[:i])}
		}
		other.Saved()
	}
	return nil
}

// saveOther saves the documents of another partition with a note. It returns the numbers of the
// documents that lost a race; if there are any, nothing was written.
func (l *Lease) saveOther(ctx context.Context, other *state.Batch, n note) (lost rdb.Reply, err error) {
	const doing = "save state"
	text, err := json.Marshal(n, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	key := l.noteKey(other.Partition())
	if !slices.Contains(l.notes, key) {
		l.notes = append(l.notes, key)
	}
	l.stale = false
	c := noteScript.Call(key).Add(noteFor, text)
	other.AddTo(c)
	// The note's partition cannot tell whose the queue is, so a late retry must not get there.
	left := time.Duration(l.expires.Load()) - l.in.leases.now()
	err = l.in.doWithin(ctx, min(left, l.in.cfg.Patience), doing, c)
	return c.List(), cmp.Or(err, rdb.Explain(ctx, doing, c.Err))
}

func (l *Lease) noteKey(partition int) string {
	return shared(partition, "notes/"+sum([]byte(l.queue.String()+"\n"+l.id)))
}

// save writes the queue's partition. It returns the numbers of the documents that lost a race; if
// there are any, nothing was written.
func (l *Lease) save(ctx context.Context, own *state.Batch, record []byte, progress bool) (lost rdb.Reply, err error) {
	const doing = "save a record"
	lease := int64(0)
	if l.in.leases.due(l) {
		lease = l.in.cfg.Lease.Milliseconds()
	}
	c := l.call(saveScript).Add(l.owner, l.id, lease, flag(record != nil), record, flag(progress))
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

// call is call for the lease's queue.
func (l *Lease) call(s *rdb.Script) *rdb.Call {
	if l.keys == nil {
		l.keys = queueKeys(l.queue)
	}
	return s.CallWith(l.keys).Add(l.queue.String())
}

// Finish ends the record. It saves the scopes, stores answer for [Inbox.Answer] (nil: none) and
// takes the record off the queue. It then moves on to the next record and returns more = true: ID
// and Record are now the next one's. If the queue is empty or another replica wants it, Finish
// gives up the queue instead. All of this is one step. Finish also refreshes the TTL of unchanged
// scopes now and then.
//
// A changed scope of another partition is an error: [Lease.Save] it first. After any error the
// record is either unchanged or its state is unknown. After a [state.ConflictError] or
// [state.ErrUnavailable] you may call Finish again.
func (l *Lease) Finish(ctx context.Context, answer []byte, scopes ...*state.Scope) (more bool, err error) {
	return l.end(ctx, "finish a record", nil, nil, answer, scopes)
}

// Wait is [Lease.Finish] for a record that is not done: it leaves the queue and waits. A nil record
// keeps the stored one.
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
	if l.stale {
		for _, key := range l.notes {
			calls = append(calls, rdb.Plain("del", key))
		}
	}
	for _, extra := range calls[1:] {
		extra.Once = true
	}
	l.ending.Store(true)
	defer l.ending.Store(false)
	i.backlog.leave()
	defer func() { i.backlog.left(err == nil) }()
	sent := i.leases.now()
	_ = i.do(ctx, doing, calls...) // the error is in c.Err
	i.expect(l.queue, w)
	if c.Err != nil {
		own.Unknown()
		return false, rdb.Explain(ctx, doing, c.Err)
	}
	switch reply := c.List(); reply.Int(0) {
	case 1:
		i.leases.drop(l)
	case 2:
		i.leases.extend(l, sent)
		l.id, l.record, l.tries, l.notes, l.beside = reply.Text(1), []byte(reply.Text(2)), 0, nil, nil
		l.alone = reply.Int(3) == 0
		more = true
	case 5:
		return false, &state.ConflictError{Conflicted: own.Keys()}
	case 4:
		// The record and our lease are gone. An earlier try did that and its reply got lost, unless
		// another replica may have taken over meanwhile.
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

// endCall builds the KEYS and ARGV of finish.lua.
func (l *Lease) endCall(record []byte, w *Wait, answer []byte, own *state.Batch) *rdb.Call {
	q := l.queue
	var keep int64
	if answer != nil {
		keep = seconds(l.in.cfg.DuplicateFor)
	}
	c := l.call(finishScript).AddKeys(answerKey(q, l.id)).Add(l.owner, l.id, l.in.cfg.Lease.Milliseconds(), keep, answer)
	c.Add(w.args()...)
	c.Add(flag(record != nil), record)
	own.AddTo(c)
	return c
}

// Release gives up the queue and leaves the record at its head. Any replica, this one included, may
// claim it after the given time; that does not count as a takeover. The lease ends whatever Release
// returns: if Redis cannot be reached, the inbox keeps trying. [ErrLost]: another replica had the
// queue.
func (l *Lease) Release(ctx context.Context, after time.Duration) error {
	const doing = "release a queue"
	i := l.in
	i.leases.drop(l)
	r := release{l.queue, l.owner, max(after, 0)}
	c := r.call()
	i.looks.expect(l.queue.Partition(), i.leases.now()+r.after)
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

// Following reads the records that stand directly behind the one at the head, at most that many, in order: ID and
// Record are set. If Finish or Wait has said that there are none, it asks Redis only with again.
func (l *Lease) Following(ctx context.Context, most int, again bool) (all []Entry, err error) {
	const doing = "read what follows a record"
	if l.alone && !again {
		return nil, nil
	}
	queue := rdb.Plain("lrange", at(l.queue, "queue"), 0, most)
	if err := l.in.all(ctx, doing, queue); err != nil {
		return nil, err
	}
	ids := queue.List().Texts()
	if len(ids) < 2 || ids[0] != l.id {
		return nil, nil
	}
	read := rdb.Plain("hmget", at(l.queue, "records"))
	for _, id := range ids[1:] {
		read.Add(id)
	}
	if err := l.in.all(ctx, doing, read); err != nil {
		return nil, err
	}
	for n, id := range ids[1:] {
		if !read.List().Has(n) { // Redis lost it
			break
		}
		all = append(all, Entry{Queue: l.queue, ID: id, Record: []byte(read.List().Text(n))})
	}
	return all, nil
}

// Join takes records off the queue that stand directly behind the one at the head, and saves record in the same step: it
// has to keep all that matters of them. If others follow by then, nothing is done and joined is false. After an error that
// wraps [state.ErrUnavailable] nobody knows: Release the queue. The next owner reads what there is.
func (l *Lease) Join(ctx context.Context, record []byte, ids []string) (joined bool, err error) {
	const doing = "join records"
	if err := l.in.fits(l.queue, len(record), l.in.maxRecord()); err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	c := l.call(joinScript).Add(l.owner, l.id, record)
	for _, id := range ids {
		c.Add(id)
		l.in.backlog.leave()
	}
	err = l.in.all(ctx, doing, c)
	joined = err == nil && c.Int() == 1
	for range ids {
		l.in.backlog.left(joined)
	}
	switch {
	case err != nil:
		return false, err
	case c.Int() == 0:
		l.in.leases.lose(l)
		return false, fmt.Errorf("%s: %w", doing, ErrLost)
	case joined:
		l.record, l.stale = record, true
	}
	return joined, nil
}

// Recover completes a Save whose process died between its steps. others are the documents of other
// partitions that a Save may have written. If there is a note and the record is still the one that
// Save found, Recover writes what the note says; then recovered is true and Record is the newer one.
// It skips documents that somebody else has changed since. Call it before loading the documents. The
// errors are those of [Lease.Save].
func (l *Lease) Recover(ctx context.Context, others ...state.Key) (recovered bool, err error) {
	const doing = "recover a record"
	var keys []string
	var calls []*rdb.Call
	for _, other := range others {
		if err := other.Err(); err != nil {
			return false, fmt.Errorf("%s: %w", doing, err)
		}
		if key := l.noteKey(other.Partition()); !slices.Contains(keys, key) {
			keys, calls = append(keys, key), append(calls, rdb.Plain("getrange", key, 0, -1))
		}
	}
	if err := l.in.all(ctx, doing, calls...); err != nil {
		return false, err
	}
	var last *note // of those that are not stale
	for i, c := range calls {
		if c.Text() == "" {
			continue
		}
		var n note
		if err := json.Unmarshal([]byte(c.Text()), &n); err != nil {
			return false, fmt.Errorf("%s: %w", doing, err)
		}
		l.notes, l.noted, l.stale = append(l.notes, keys[i]), max(l.noted, n.Save), true
		if n.Replaces == sum(l.record) && (last == nil || n.follows(last)) {
			last = &n
		}
	}
	if last == nil {
		return false, nil
	}
	l.stale = false
	for len(last.Others) > 0 {
		other := last.Others[0]
		last.Others = last.Others[1:]
		err := l.redo(other, func() (rdb.Reply, error) {
			if len(other.Docs) == 0 {
				return nil, nil
			}
			return l.saveOther(ctx, other, *last)
		})
		if err != nil {
			return false, err
		}
	}
	err = l.redo(last.Own, func() (rdb.Reply, error) { return l.save(ctx, last.Own, last.Record, last.Progress) })
	return err == nil, err
}

// redo repeats a step of a Save, without the documents that somebody else has changed since.
func (l *Lease) redo(b *state.Batch, step func() (lost rdb.Reply, err error)) error {
	for {
		lost, err := step()
		if err != nil || len(lost) == 0 {
			return err
		}
		l.in.cfg.Log.Warn().Strs("keys", b.Without(lost)).Str("record", l.id).
			Msg("somebody changed documents that a lost process was about to save, so they stay as they are")
	}
}

// leases renews the leases of this replica. It also retries releases that failed while Redis was
// unavailable, and releases queues that a call without a reply may have claimed.
type leases struct {
	db      *rdb.DB
	length  time.Duration
	started time.Time
	closed  chan struct{}
	closing sync.Once
	wg      sync.WaitGroup

	mu   sync.Mutex
	held map[*Lease]struct{}
	owed map[release]time.Duration // until when to retry, by now
	lost uint64
	more chan struct{} // has one element once something was added to held or owed
}

// maxOwed limits the releases that are retried. Beyond it, leases simply expire.
const maxOwed = 10000

// release asks to release a queue if the call owner has it.
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
		held: map[*Lease]struct{}{}, owed: map[release]time.Duration{}, more: make(chan struct{}, 1),
	}
	k.wg.Go(k.run)
	return k
}

func (k *leases) close() {
	k.closing.Do(func() { close(k.closed) })
	k.wg.Wait()
}

// now is the monotonic time since leases started.
func (k *leases) now() time.Duration { return time.Since(k.started) }

// run works until close, as long as there is something to do. It works more often while Redis is
// unavailable.
func (k *leases) run() {
	for every := k.length / 6; ; {
		if k.idle() {
			select {
			case <-k.closed:
				return
			case <-k.more:
			}
		}
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

// idle reports whether nothing is held and nothing is owed.
func (k *leases) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held)+len(k.owed) == 0
}

// wake ends the wait of run, once, also if it has not begun.
func (k *leases) wake() {
	select {
	case k.more <- struct{}{}:
	default: // it was told
	}
}

// work renews the leases that are due and retries the owed releases. It reports whether Redis
// answered every call.
func (k *leases) work() bool {
	var renew []*Lease
	var owed []release
	var calls []*rdb.Call
	k.mu.Lock()
	for l := range k.held {
		if k.due(l) && !l.ending.Load() { // the call that ends it also renews it
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
		} else if k.now() > k.owed[r] {
			delete(k.owed, r)
		}
	}
	return answered
}

// due reports whether at least a third of the lease has passed.
func (k *leases) due(l *Lease) bool {
	return time.Duration(l.expires.Load())-k.now() <= k.length-k.length/3
}

func (k *leases) add(l *Lease, sent time.Duration) {
	l.expires.Store(int64(sent + k.length))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[l] = struct{}{}
	k.wake()
}

// extend records that a request sent at that time renewed the lease, unless the lease has ended.
func (k *leases) extend(l *Lease, sent time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.held[l]; ok {
		l.expires.Store(max(l.expires.Load(), int64(sent+k.length)))
	}
}

// drop forgets a lease whose queue is released or about to be.
func (k *leases) drop(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.expires.Store(0)
	_, had := k.held[l]
	delete(k.held, l)
	return had
}

// lose records that another replica has the queue.
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

// owe schedules a release and retries it until Redis answers: one that failed, or one of a queue
// that a call without a reply may have claimed. An empty owner means that the call did not want the
// queue. Such a call may still be on its way and reach Redis after the release, so the release is
// repeated for the length of a lease.
func (k *leases) owe(r release) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.owner != "" && len(k.owed) < maxOwed {
		k.owed[r] = k.now() + k.length
		k.wake()
	}
}
