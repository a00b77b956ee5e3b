// Package turn moves turns. A turn is one [Record] in Redis, and one loop ([Turn.move])
// moves it from phase to phase: planning, running, sending, waiting, done.
//
// The [Engine] takes what came in ([Engine.Accept]), claims the queues of conversations
// that have work, and runs the loop for the record at the head. What a turn did is saved
// together with the state that it changed, before anything is said about it and before an
// action is called that does something outside of state. When a process is killed, another
// one claims the queue, loads the record and enters the same loop: see [Turn.move] for what
// is done again.
package turn

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Planner makes the plan of a turn. It is called once more, in the same turn, when the
// last plan ended in a result that it has to see (turn.Rounds).
type Planner interface {
	Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
}

// Channel carries activities to the people. [connector.Client] is one.
type Channel interface {
	// Send delivers an activity to the conversation and returns the id that the channel
	// gave it, or "" when it gave none.
	Send(ctx context.Context, to activity.Reference, a *activity.Activity) (id string, err error)
	// Reply is Send as an answer to another activity.
	Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (id string, err error)
	// Update replaces a sent activity, by the id that the channel gave it.
	Update(ctx context.Context, to activity.Reference, id string, a *activity.Activity) error
	// TeamSize returns how many members a team has.
	TeamSize(ctx context.Context, of activity.Reference, id string) (int, error)
	// Identified reports whether what it carries shows the bot's token, which may only go
	// where a caller has proved the address.
	Identified() bool
}

// Handler answers one activity. An error that it returns is told to the person in one
// safe sentence and to the operator with its cause. When a save loses a race before
// anything was sent, the handler runs again on fresh state: what it does elsewhere has to
// bear that.
type Handler func(ctx context.Context, t *Turn) error

// Config is what an engine needs. [bot.Config] documents the fields, and hands them over
// checked and with their defaults.
type Config struct {
	Actions *actions.Registry
	Planner Planner
	Store   *state.Store
	Channel Channel
	// Handler returns what answers the turn's activity; nil: nothing does. It sees the
	// activity and the text, but no state.
	Handler func(t *Turn) Handler
	// OwnAnswer is what answers an invoke that failed, said being safe to be read.
	OwnAnswer func(t *Turn, said string) Answer
	// Clicked is the answer to a click that decided, with the card as it is now, or
	// a text when it did not count.
	Clicked func(card *activity.Card, text string) Answer

	Hooks                                           Hooks
	Policy                                          actions.Policy
	Approvers                                       []string
	ApprovalTimeout, TurnTimeout                    time.Duration
	Lease, Patience                                 time.Duration
	MaxSteps, MaxSameCalls                          int
	MaxTurns, MaxWaiting, MaxWaitingPerConversation int
	Budget                                          actions.Budget
	Feedback                                        bool
	FilteredText                                    string
	Metrics                                         prometheus.Registerer
	Traces                                          trace.TracerProvider
	Log                                             zerolog.Logger
}

// Engine moves the turns of a bot. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	inbox   *inbox.Inbox
	workers *workers
	answers answers
	meter   *metrics
	tracer  tracer

	reading sync.WaitGroup
	stop    context.CancelFunc // ends the reading
	start   sync.Once
	end     sync.Once
}

// New opens the inbox, of which nothing is read before [Engine.Start].
func New(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, tracer: newTracer(cfg.Traces), workers: newWorkers(cfg.MaxTurns), answers: answers{waiting: map[string]chan []byte{}}}
	var err error
	e.inbox, err = inbox.Open(cfg.Store, inbox.Config{
		Lease: cfg.Lease, Patience: cfg.Patience, MaxWaiting: cfg.MaxWaiting, MaxWaitingPerQueue: cfg.MaxWaitingPerConversation, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if e.meter, err = newMetrics(cfg.Metrics, e.inbox.Stats); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return e, nil
}

// Inbox is where the records are.
func (e *Engine) Inbox() *inbox.Inbox { return e.inbox }

// Start begins to claim queues that have work, also those that another process left.
func (e *Engine) Start() {
	e.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background()) // ends with Drain
		e.stop = cancel
		e.reading.Go(func() {
			err := e.inbox.Run(ctx, func(q inbox.Queue) { e.claim(ctx, q) })
			if err != nil && ctx.Err() == nil {
				e.cfg.Log.Error().Err(err).Msg("the inbox is not read any more")
			}
		})
	})
}

// Drain waits for the turns at work. When ctx ends first, it cancels them and returns
// ctx's error: what they have not done is left to other processes. Where all state ends
// with this process, what waits in the queues is done as well, as far as there is time.
func (e *Engine) Drain(ctx context.Context) error {
	e.Start() // and at once no more
	var left error
	if e.cfg.Store.Embedded() {
		left = e.workOff(ctx)
	} else {
		e.stop()
	}
	err := e.workers.drain(ctx)
	if err == nil {
		err = left
	}
	e.end.Do(func() {
		e.stop()
		e.reading.Wait()
		e.inbox.Close()
	})
	return err
}

// countEvery is how often a bot that ends looks whether anything waits.
const countEvery = 20 * time.Millisecond

// workOff waits until the queues are empty, or ctx ends.
func (e *Engine) workOff(ctx context.Context) error {
	for {
		n, err := e.inbox.Depth(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || n == 0: // it is closed, by an earlier Drain
			return nil
		}
		wait(ctx, countEvery, nil)
	}
}

// Accept keeps the turn in its conversation's queue. From then on it is answered, whatever
// happens to this process. When nobody works on the conversation, this process does. The
// turn is not the caller's any more after this. id is that of its record; of a duplicate,
// that of the first delivery.
//
// Errors are those of [inbox.Inbox.Accept].
func (e *Engine) Accept(ctx context.Context, t *Turn, duplicates ...inbox.Duplicate) (id string, duplicate bool, err error) {
	ctx, s := e.tracer.receive(ctx)
	defer func() { s.end(err) }()
	s.about(t)
	t.rec.Trace = traceparent(ctx)
	entry := inbox.Entry{Queue: t.queue(), Duplicates: duplicates}
	if !t.aside {
		entry.Load = t.keys()
	}
	if t.IsMessage() && !t.aside { // which its words will be in
		entry.Set, entry.Member = placesKey(userKey(t.Activity)), t.here().member()
	}
	id, duplicate, err = e.submit(ctx, t, entry)
	if duplicate {
		count(e.meter.duplicates, "delivery")
	}
	return id, duplicate, err
}

// submit gives the turn to the inbox, and goes to work on it when it gets the queue.
func (e *Engine) submit(ctx context.Context, t *Turn, entry inbox.Entry) (id string, duplicate bool, err error) {
	raw, err := t.rec.Encode()
	if err != nil {
		return "", false, err
	}
	entry.ID, entry.Record = t.rec.ID, raw
	entry.Take = entry.Wait == nil && e.workers.tryEnter()
	receipt, err := e.inbox.Accept(ctx, entry)
	if receipt.Lease == nil {
		if entry.Take {
			e.workers.leave()
		}
		return receipt.ID, receipt.Duplicate, err
	}
	if len(receipt.Scopes) > 0 {
		t.adopt(receipt.Scopes)
	}
	t.listed = receipt.Joined
	go func() {
		defer e.workers.leave()
		e.work(receipt.Lease, t)
	}()
	return receipt.ID, false, nil
}

const (
	// maxTakeovers is how often a record may lose its process at the same place before it
	// becomes a dead letter. Telling the person is tried as many times again.
	maxTakeovers = 3
	// claimWithin bounds one claim of a queue, and one try at releasing it.
	claimWithin = 15 * time.Second
)

// claim works on a queue that is ready, when there is a slot for it. The readers of the
// inbox call it, and read no more while it waits.
func (e *Engine) claim(ctx context.Context, q inbox.Queue) {
	if !e.workers.enter(ctx) {
		return // others will
	}
	go func() {
		defer e.workers.leave()
		claiming, cancel := context.WithTimeout(e.workers.ctx, claimWithin)
		defer cancel()
		lease, err := e.inbox.Claim(claiming, q)
		if err != nil {
			e.cfg.Log.Warn().Err(err).Stringer("queue", q).Msg("queue not claimed")
		}
		if lease == nil {
			return
		}
		if err := e.recover(claiming, lease); err != nil {
			e.cfg.Log.Warn().Err(err).Stringer("queue", q).Msg("could not look for a half saved phase")
			e.release(lease, afterOutage)
			return
		}
		e.work(lease, nil)
	}()
}

// recover finishes the save of a process that died between the person's state and the
// record, before anything of either is read.
func (e *Engine) recover(ctx context.Context, lease *inbox.Lease) error {
	rec, err := Decode(lease.Record())
	if err != nil {
		return nil // nobody can go on with it
	}
	if a, err := rec.Read(); err == nil {
		if _, err := lease.Recover(ctx, userKey(a)); err != nil {
			return err
		}
	}
	return nil
}

// work moves the records of a queue, one after another, until none is left or the queue
// has to be released. t is the first of them, if it was made already.
func (e *Engine) work(lease *inbox.Lease, t *Turn) {
	for e.moveHead(lease, t) {
		if e.workers.closing() && !e.cfg.Store.Embedded() {
			e.release(lease, 0)
			return
		}
		t = nil
		e.workers.yield()
	}
}

// moveHead moves the record at the head of the queue as far as it goes now. It reports
// whether the queue has a next one.
func (e *Engine) moveHead(lease *inbox.Lease, t *Turn) (more bool) {
	held, release := context.WithCancel(e.workers.last)
	defer release()
	ctx, cut := context.WithCancel(held)
	defer context.AfterFunc(e.workers.ctx, cut)()
	lease.OnLost(release)
	n := lease.Tries()
	if n > 2*maxTakeovers {
		return e.bury(ctx, lease, nil, lostTooOften(n), nil)
	}
	fault := error(nil)
	if t == nil {
		if t, fault = e.open(lease); t == nil {
			return e.bury(ctx, lease, nil, fault.Error(), nil)
		}
	}
	caller := t.Activity.CallerApp()
	t.lease, t.held = lease, connector.ForCaller(held, caller)
	ctx = t.Log().WithContext(connector.ForCaller(ctx, caller))
	switch {
	case fault != nil:
		return t.leave(ctx, &deadLetter{reason: fault.Error()})
	case n >= maxTakeovers:
		t.noteInFlight()
		return t.leave(ctx, &deadLetter{reason: lostTooOften(n)})
	}
	return t.run(ctx)
}

func lostTooOften(n int) string { return fmt.Sprintf("its process was lost %d times", n) }

// open makes the turn of the record at the head of a queue. With an error it makes one of
// which nothing can be done but to tell the person, or nil.
func (e *Engine) open(lease *inbox.Lease) (*Turn, error) {
	rec, err := Decode(lease.Record())
	if lease.Tries() > 0 {
		e.cfg.Log.Warn().Str("turn", rec.ID).Int("times", lease.Tries()).Str("phase", string(rec.Phase)).Msg("turn taken over")
	}
	a, fault := rec.Read()
	if a == nil {
		return nil, errors.Join(err, fault)
	}
	t := e.newTurn(a)
	t.use(rec)
	return t, errors.Join(err, fault)
}

// release lets others have the queue, after the given time.
func (e *Engine) release(lease *inbox.Lease, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), claimWithin)
	defer cancel()
	if err := lease.Release(ctx, after); err != nil && !errors.Is(err, inbox.ErrLost) {
		e.cfg.Log.Warn().Err(err).Stringer("queue", lease.Queue()).Msg("queue not released, it is free when its lease ends")
	}
}

// bury makes the record at the head a dead letter. Who waits for its answer gets that
// one, if it is not nil. rec is the record as it is to be kept; nil: as it is.
func (e *Engine) bury(ctx context.Context, lease *inbox.Lease, rec *Record, reason string, answer []byte) (more bool) {
	ctx, cancel := e.workers.outlive(ctx, claimWithin)
	defer cancel()
	id, raw := lease.ID(), []byte(nil)
	about, err := waitAbout{For: forOperator, Reason: reason}.encode(), error(nil)
	if rec != nil {
		w := &Wait{For: forOperator, Then: rec.Phase, Reason: reason}
		if rec.Wait != nil { // an approval with its decision is not lost
			w.Approval = rec.Wait.Approval
			if rec.Wait.For != forApproval && rec.Phase == waiting {
				w.Then = rec.Wait.Then
			}
		}
		rec.Phase, rec.Wait = waiting, w
		raw, err = rec.Encode()
	}
	if err == nil {
		w := inbox.Wait{Operator: true, About: about}
		more, err = lease.Wait(ctx, raw, w, answer)
		if errors.Is(err, state.ErrTooLarge) && answer != nil { // it is the answer that is
			answer = []byte(`{"status":500}`)
			more, err = lease.Wait(ctx, raw, w, answer)
		}
	}
	if err != nil {
		e.cfg.Log.Error().Err(err).Str("turn", id).Msg("turn not kept for an operator")
		e.release(lease, afterOutage)
		return false
	}
	count(e.meter.turns, "dead_letter")
	e.cfg.Log.Error().Str("turn", id).Stringer("queue", lease.Queue()).Str("reason", reason).Msg("dead letter: an operator has to look at this turn")
	if answer != nil {
		e.answers.tell(id, answer)
	}
	return more
}

var (
	// ErrDraining says that the engine takes nothing any more.
	ErrDraining = errors.New("the bot is shutting down")
	errStuck    = errors.New("turns do not end although they were cancelled")
)

// cutOffGrace is what is left for turns that were cancelled at the end of the drain time.
const cutOffGrace = time.Second

// workers bound the queues at work in this process, and wait for them at its end.
type workers struct {
	slots chan struct{}   // one for each queue that may be at work
	ctx   context.Context // ends when turns are cancelled
	cut   context.CancelFunc
	last  context.Context // ends a moment after ctx: for what leaves then
	end   context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // one for each queue at work
}

func newWorkers(atOnce int) *workers {
	w := &workers{slots: make(chan struct{}, atOnce)}
	w.last, w.end = context.WithCancel(context.Background())
	w.ctx, w.cut = context.WithCancel(w.last)
	return w
}

// tryEnter takes a slot, if there is one and the engine is not draining. Who has one gives
// it back with leave.
func (w *workers) tryEnter() bool {
	select {
	case w.slots <- struct{}{}:
		return w.begin()
	default:
		return false
	}
}

// enter waits for a slot. It is false when the engine is draining or ctx ends.
func (w *workers) enter(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return w.begin()
	case <-ctx.Done():
		return false
	}
}

func (w *workers) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		<-w.slots
		return false
	}
	w.work.Add(1)
	return true
}

func (w *workers) leave() {
	<-w.slots
	w.work.Done()
}

// yield lets a queue that waits for a slot go first, so that busy conversations do not
// keep others out.
func (w *workers) yield() {
	<-w.slots
	w.slots <- struct{}{}
}

func (w *workers) closing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// drain lets nothing begin any more and waits for what is at work. When ctx ends first it
// cancels that.
func (w *workers) drain(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		w.work.Wait()
		close(done)
	}()
	defer w.end()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	w.cut()
	after := context.WithoutCancel(ctx)
	if wait(after, cutOffGrace/2, done) {
		return ctx.Err()
	}
	w.end()
	if wait(after, cutOffGrace/2, done) {
		return ctx.Err()
	}
	return errors.Join(ctx.Err(), errStuck)
}

// outlive returns a context that goes on for the given time after that of a turn has
// ended, but only for a moment once turns are cancelled.
func (w *workers) outlive(ctx context.Context, atMost time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	stop := context.AfterFunc(w.last, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// wait returns true when done was closed in time.
func wait(ctx context.Context, atMost time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	}
}

// idLen is how long the id of a record is. Those of its approvals begin with it.
const idLen = 12

// NewTurn makes a turn of an activity that came in. raw is the activity as it came.
func (e *Engine) NewTurn(a *activity.Activity, raw []byte, trusted, awaited bool) *Turn {
	t := e.newTurn(a)
	rec := Record{
		ID: strings.ToLower(crand.Text()[:idLen]), Accepted: time.Now().UTC(), Phase: planning,
		Activity: raw, Caller: Caller{ID: a.CallerID, Trusted: trusted}, Awaited: awaited,
	}
	if a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke {
		rec.Awaited, rec.Answer = true, &Answer{Activities: []jsontext.Value{}}
	}
	t.use(rec)
	return t
}

func (e *Engine) newTurn(a *activity.Activity) *Turn {
	t := &Turn{engine: e, Turn: &actions.Turn{Activity: a, Budget: e.cfg.Budget}}
	t.Notifier = notifier{t}
	return t
}

// Expect makes the ticket of a turn before it is accepted. Close it.
func (e *Engine) Expect(t *Turn) *Ticket {
	return &Ticket{engine: e, queue: t.queue(), id: t.ID, told: e.answers.add(t.ID)}
}

// Ignored counts an activity that is not to be handled.
func (e *Engine) Ignored() { count(e.meter.turns, "ignored") }

// Refused counts what was refused: reason is an HTTP status, or the list that denied the
// sender.
func (e *Engine) Refused(reason string) { count(e.meter.refused, reason) }

// Rated counts what a person thinks of a reply.
func (e *Engine) Rated(reaction string) { count(e.meter.feedback, reaction) }
