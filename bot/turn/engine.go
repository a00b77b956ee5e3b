// Package turn runs turns. A turn is one [Record] in Redis, and one loop ([Turn.move]) moves it
// from phase to phase: planning, running, sending, waiting, done.
//
// The [Engine] accepts what comes in ([Engine.Accept]), claims the queues of conversations that
// have work, and runs the loop for the record at the head. It saves what a turn did together with
// the state that changed, before it says anything about it and before it calls an action that does
// something outside of state. If a process is killed, another one claims the queue, loads the
// record and enters the same loop. [Turn.move] says what is then repeated.
package turn

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Planner makes the plan of a turn. It is called again in the same turn if the last plan ended in a
// result that it has to see (turn.Rounds). A plan without commands ends the turn if a card has shown
// a result of the last one; otherwise it is an error.
type Planner interface {
	Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
}

// Channel delivers activities to people. [connector.Client] is one.
type Channel interface {
	// Send delivers an activity to the conversation and returns the channel's id for it, or "" if
	// there is none. The id of the first part of a growing message ([activity.StreamInfo]), which is a
	// typing activity, names the message in its other parts.
	Send(ctx context.Context, to activity.Reference, a *activity.Activity) (id string, err error)
	// Reply is Send in reply to another activity.
	Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (id string, err error)
	// Update replaces a sent activity. id is the one that the channel gave it.
	Update(ctx context.Context, to activity.Reference, id string, a *activity.Activity) error
	// Delete removes a sent activity. targeted says that only one person sees it.
	Delete(ctx context.Context, to activity.Reference, id string, targeted bool) error
	// React adds the bot's reaction to a message, or takes it away.
	React(ctx context.Context, to activity.Reference, id, reaction string, add bool) error
	// CreateConversation starts a personal chat with a person, through a conversation that both are
	// in, and sends first unless it is nil. It returns the chat.
	CreateConversation(ctx context.Context, in activity.Reference, with string, first *activity.Activity) (activity.Reference, error)
	// Download fetches an attachment of an inbound activity, of at most maxBytes; 0: as the channel
	// likes.
	Download(ctx context.Context, a activity.Attachment, maxBytes int64) (content []byte, contentType string, err error)
	// UploadPart puts a part of a file into an upload session, and returns where the next part begins.
	UploadPart(ctx context.Context, address string, part []byte, from, size int64) (next int64, err error)
	// CheckUpload refuses an address to which UploadPart sends nothing, and CheckLink one of a file to which
	// nobody is to be led.
	CheckUpload(ctx context.Context, address string) error
	CheckLink(ctx context.Context, address string) error
	// Meeting, Participant and NotifyMeeting are about the meeting with that id: its details, one of its
	// people, and what people in it are shown. failed are those who are not.
	Meeting(ctx context.Context, of activity.Reference, id string) (connector.Meeting, error)
	Participant(ctx context.Context, of activity.Reference, id, user string) (connector.Participant, error)
	NotifyMeeting(ctx context.Context, of activity.Reference, id string, n connector.MeetingNotification) (failed []connector.MeetingNotificationFailure, err error)
	// Team returns what the channel knows of a team.
	Team(ctx context.Context, of activity.Reference, id string) (connector.Team, error)
	// Identified reports whether requests carry the bot's token, which may only go to an address
	// that a caller has proved.
	Identified() bool
}

// Attachments says which pictures, files and voice messages a bot shows its model.
type Attachments = files.Attachments

// FileReader reads people's files.
type FileReader = files.FileReader

// Handler answers one activity. If it returns an error, the person reads one safe sentence and the
// operator gets the cause. If a save loses a race before anything was sent, the handler runs again
// on fresh state, so what it does elsewhere must tolerate that.
type Handler func(ctx context.Context, t *Turn) error

// Config is what an engine needs. [bot.Config] documents the fields; its package passes them
// checked and with their defaults.
type Config struct {
	Actions *actions.Registry
	Planner Planner
	Store   *state.Store
	Channel Channel
	Tokens  Tokens
	// Handler returns the handler of the turn's activity, or nil if there is none. It sees the
	// activity and the text, but no state.
	Handler func(t *Turn) Handler
	// Notice returns the handler of that name for notices with Run, or nil if there is none.
	Notice func(name string) Handler
	// OwnAnswer answers an invoke that failed. said is safe to show.
	OwnAnswer func(t *Turn, said string) Answer
	// Unread reports whether nobody waits for an invoke's answer any more, so that a message has to
	// tell the person about a failure.
	Unread func(t *Turn) bool
	// Clicked answers a click on an approval: with the updated card or, if the click did not count,
	// with a text.
	Clicked func(card *activity.Card, text string) Answer

	// Features are what plugs in, see [Feature].
	Features []Feature
	// PictureHosts are those of [bot.Config].
	PictureHosts []string
	// TurnURL is that of [bot.Config].
	TurnURL func(id string) string

	Policy                                          actions.Policy
	Approvers                                       []string
	ApprovalTimeout, TurnTimeout                    time.Duration
	Lease, Patience                                 time.Duration
	MaxSteps, MaxSameCalls, HistoryTurns            int
	MaxTurns, MaxWaiting, MaxWaitingPerConversation int
	Budget                                          actions.Budget
	Moderation                                      Moderation
	Attachments                                     Attachments
	UploadPiece                                     int
	Stream, Requests                                bool
	Feedback                                        string // the form that people rate replies with; "": none
	FilteredText                                    string
	CommandsOff                                     []string
	Texts                                           *texts.Catalog
	Log                                             zerolog.Logger
}

// Engine runs the turns of a bot. It is safe for concurrent use.
type Engine struct {
	cfg      Config
	inbox    *inbox.Inbox
	workers  *workers
	answers  sync.Map // record id -> chan []byte: the requests of this process that wait for an answer
	secrets  sync.Map // record id -> string: of turns that answer a sign-in card, see [Engine.keepSecret]
	watchers []func(Event)
	newer    newer
	files    *files.Files

	reading sync.WaitGroup
	stop    context.CancelFunc // ends the reading
	start   sync.Once
	end     sync.Once
}

// New opens the inbox. Nothing is read from it before [Engine.Start].
func New(cfg Config) (*Engine, error) {
	err := checkFeatures(cfg.Features)
	if err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, workers: newWorkers(cfg.MaxTurns), watchers: watchers(cfg.Features, cfg.Log)}
	e.files = newFiles(cfg)
	e.inbox, err = inbox.Open(cfg.Store, inbox.Config{
		Lease: cfg.Lease, Patience: cfg.Patience, MaxWaiting: cfg.MaxWaiting, MaxWaitingPerQueue: cfg.MaxWaitingPerConversation, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Stats says what the inbox has and did.
func (e *Engine) Stats() inbox.Stats { return e.inbox.Stats() }

// newFiles opens what takes and keeps the files of a bot.
func newFiles(cfg Config) *files.Files {
	c := files.Config{Attachments: cfg.Attachments, Store: cfg.Store, Channel: cfg.Channel, Cause: cause}
	if p, ok := cfg.Planner.(interface{ Sees(context.Context) bool }); ok {
		c.Sees = p.Sees
	}
	return files.New(c)
}

// Start begins to claim queues that have work, including those that another process left.
func (e *Engine) Start() {
	e.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background()) // ends with Drain
		e.stop = cancel
		e.reading.Go(func() { e.inbox.Run(ctx, func(q state.Key) { e.claim(ctx, q) }) })
	})
}

// Drain waits for the running turns. If ctx ends first, it cancels them and returns ctx's error;
// other processes finish them. If the state lives in this process, Drain also works on what waits
// in the queues, while there is time.
func (e *Engine) Drain(ctx context.Context) error {
	e.Start() // so that a later Start does nothing
	var left error
	if e.cfg.Store.Embedded() {
		left = e.workOff(ctx)
	} else {
		e.stop()
	}
	err := cmp.Or(e.workers.drain(ctx), left)
	e.end.Do(func() {
		e.stop()
		e.reading.Wait()
		e.inbox.Close()
	})
	return err
}

// countEvery is how often a draining bot checks whether anything waits.
const countEvery = 20 * time.Millisecond

// workOff waits until the queues are empty, or ctx ends.
func (e *Engine) workOff(ctx context.Context) error {
	for {
		n, err := e.inbox.Depth(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || n == 0: // an error: an earlier Drain closed it
			return nil
		}
		wait(ctx, countEvery, nil)
	}
}

// Accept saves the turn in its conversation's queue. From then on it is answered, whatever happens
// to this process, unless the store is in the process. If nobody works on the conversation, this process does. The caller must not use
// the turn after this. id is the record's id or, for a duplicate, that of the first delivery.
//
// Errors are those of [inbox.Inbox.Accept].
func (e *Engine) Accept(ctx context.Context, t *Turn, known ...inbox.Duplicate) (id string, duplicate bool, err error) {
	ctx, end := t.step(ctx, StepReceive)
	defer func() { end(err) }()
	entry := inbox.Entry{Queue: t.queue(), Duplicates: known}
	if !t.rec.Stateless {
		entry.Load = t.keys()
	}
	if t.IsMessage() && !t.rec.Stateless { // the conversation will have the person's words
		entry.Set, entry.Member = placesKey(PersonKey(t.Activity)), t.here()
	}
	received := seeReceived(t)
	received("", "")
	id, duplicate, err = e.submit(ctx, t, entry)
	if duplicate {
		t.Count(CountDuplicates, "delivery")
		received(id, "")
	} else if err != nil {
		received("", "it could not be accepted: "+err.Error())
	}
	return id, duplicate, err
}

// submit gives the turn to the inbox, and starts on it if it gets the queue's lease.
func (e *Engine) submit(ctx context.Context, t *Turn, entry inbox.Entry) (id string, duplicate bool, err error) {
	raw, err := t.rec.Encode()
	if err != nil {
		return "", false, err
	}
	entry.ID, entry.Record = t.rec.ID, raw
	entry.Take = entry.Wait == nil && e.workers.tryEnter()
	e.keepSecret(t)
	receipt, err := e.inbox.Accept(ctx, entry)
	if receipt.Lease == nil {
		if entry.Take {
			e.workers.leave()
		}
		return receipt.ID, receipt.Duplicate, err
	}
	if len(receipt.Scopes) > 0 {
		t.docs.adopt(receipt.Scopes)
	}
	t.listed = receipt.Joined
	go func() {
		defer e.workers.leave()
		e.work(receipt.Lease, t)
	}()
	return receipt.ID, false, nil
}

const (
	// maxTakeovers is at which loss of its process, at the same place, a record becomes a dead letter.
	// Telling the person then gets as many tries again.
	maxTakeovers = 3
	// claimWithin limits one claim of a queue, and one try to release it.
	claimWithin = 15 * time.Second
)

// claim works on a queue that is ready, once there is a slot for it. The inbox's readers call it
// and read nothing more while it waits.
func (e *Engine) claim(ctx context.Context, q state.Key) {
	if !e.workers.enter(ctx) {
		return // other processes will
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

// recover completes a save whose process died after saving the person's state and before saving the
// record. It runs before either is read.
func (e *Engine) recover(ctx context.Context, lease *inbox.Lease) error {
	rec, _ := Decode(lease.Record()) // its activity is enough
	a, err := rec.Read()
	if err != nil {
		return nil // nobody can continue it
	}
	_, err = lease.Recover(ctx, state.BotKey(), PersonKey(a))
	return err
}

// work moves the records of a queue, one after another, until the queue is empty or has to be
// released. t is the turn of the first one, if it exists already.
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

// moveHead moves the record at the head of the queue as far as it goes now. It reports whether the
// queue has another one.
func (e *Engine) moveHead(lease *inbox.Lease, t *Turn) (more bool) {
	owned, disown := context.WithCancel(e.workers.last)
	defer disown()
	ctx, cut := context.WithCancel(owned)
	defer context.AfterFunc(e.workers.ctx, cut)()
	lease.OnLost(disown)
	n := lease.Tries()
	if n > 2*maxTakeovers {
		return e.bury(ctx, lease, lostTooOften(n), nil)
	}
	fault := error(nil)
	if t == nil {
		t, fault = e.open(lease)
		switch {
		case errors.Is(fault, errNewer) && e.newer.leave(lease.ID(), e.cfg.Lease):
			e.cfg.Log.Info().Str("turn", lease.ID()).Msg(leftToNewer)
			e.release(lease, newerAgain)
			return false
		case t == nil:
			return e.bury(ctx, lease, fault.Error(), nil)
		}
	}
	if kept, ok := e.secrets.LoadAndDelete(t.rec.ID); ok && t.secret == "" {
		t.secret, _ = kept.(string)
	}
	caller := t.Activity.CallerApp()
	t.lease, t.owned = lease, connector.ForCaller(owned, caller)
	ctx = t.context(connector.ForCaller(ctx, caller))
	switch {
	case fault != nil:
		return t.putOff(ctx, &deadLetter{reason: fault.Error()})
	case n >= maxTakeovers:
		t.noteInFlight()
		return t.putOff(ctx, &deadLetter{reason: lostTooOften(n)})
	}
	return t.run(ctx)
}

// newer knows the turns that need a newer version of the program, because their record, or the
// one that a click is about, has a newer format. This process leaves them in their queues to others:
// in a rolling upgrade a process of that version soon claims them. Not for ever, because there is
// none when an upgrade was undone.
type newer struct {
	mu    sync.Mutex
	since map[string]time.Time // by record id
}

const (
	leftToNewer = "turn left to a newer version of the bot"
	// newerAgain is when others may claim such a turn: readers of a queue's name take turns.
	newerAgain = time.Second
	// newerLeases is for how many leases a process leaves it.
	newerLeases = 20
)

// leave reports whether to leave the turn with that record to others still.
func (n *newer) leave(id string, lease time.Duration) bool {
	patience := newerLeases * lease
	n.mu.Lock()
	defer n.mu.Unlock()
	since, known := n.since[id]
	if !known {
		maps.DeleteFunc(n.since, func(_ string, since time.Time) bool { return time.Since(since) > 2*patience })
		if n.since == nil {
			n.since = map[string]time.Time{}
		}
		since = time.Now()
		n.since[id] = since
	}
	return time.Since(since) < patience
}

func lostTooOften(n int) string { return fmt.Sprintf("its process was lost %d times", n) }

// open makes the turn of the record at the head of a queue. With an error, the turn is nil or only
// good for telling the person.
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

// release gives the queue up. Others may claim it after the given time.
func (e *Engine) release(lease *inbox.Lease, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), claimWithin)
	defer cancel()
	if err := lease.Release(ctx, after); err != nil && !errors.Is(err, inbox.ErrLost) {
		e.cfg.Log.Warn().Err(err).Stringer("queue", lease.Queue()).Msg("queue not released, it is free when its lease ends")
	}
}

// bury makes the record at the head a dead letter. A request that waits for its answer gets answer,
// unless that is nil.
func (e *Engine) bury(ctx context.Context, lease *inbox.Lease, reason string, answer []byte) (more bool) {
	ctx, cancel := e.workers.outlive(ctx, claimWithin)
	defer cancel()
	id, w := lease.ID(), &Wait{For: forOperator, Reason: reason}
	var raw []byte // nil: what cannot be read stays as it is
	rec, err := Decode(lease.Record())
	if a, _ := rec.Read(); a != nil { // /forget drops it
		w.Owner = a.From.ID
	}
	if err == nil {
		w.Then = rec.Phase
		if rec.Wait != nil { // keep an approval with its decision, and a schedule
			w.Owner, w.Topic, w.Memo, w.Conversation = cmp.Or(rec.Wait.Owner, w.Owner), rec.Wait.Topic, rec.Wait.Memo, rec.Wait.Conversation
			w.Private, w.Every, w.Zone, w.Replaces = rec.Wait.Private, rec.Wait.Every, rec.Wait.Zone, rec.Wait.Replaces
			w.asked = rec.Wait.asked
			if !rec.Wait.overForPerson() && rec.Phase == waiting {
				w.Then = rec.Wait.Then
			}
		}
		rec.Phase, rec.Wait = waiting, w
		raw, _ = rec.Encode() // it was decoded before
	}
	tries := lease.Tries() // the lease moves on
	more, err = lease.Wait(ctx, raw, w.listed(), answer)
	if errors.Is(err, state.ErrTooLarge) && answer != nil { // the answer is what is too large
		answer = []byte(`{"status":500}`)
		more, err = lease.Wait(ctx, raw, w.listed(), answer)
	}
	if err != nil {
		e.cfg.Log.Error().Err(err).Str("turn", id).Msg("turn not kept for an operator")
		e.release(lease, afterOutage)
		return false
	}
	e.Count(id, CountTurns, "dead_letter")
	e.cfg.Log.Error().Str("turn", id).Stringer("queue", lease.Queue()).Str("reason", reason).Msg("dead letter: an operator has to look at this turn")
	if a, _ := rec.Read(); a != nil {
		t := e.newTurn(a)
		t.use(rec)
		tellEnded(ctx, t, Ended{
			Outcome: parkedTurn, Usage: t.Usage, Tries: tries, Own: rec.Own != "", Unasked: rec.Notice != nil, Forgotten: rec.Forgotten,
		})
	}
	e.tell(id, answer)
	return more
}

var (
	// ErrDraining says that the engine accepts nothing more.
	ErrDraining = errors.New("the bot is shutting down")
	errStuck    = errors.New("turns do not end although they were cancelled")
)

// cutOffGrace is how long turns that were cancelled at the end of the drain time get to stop. Half of it
// is time to end a growing message, which the channel takes only finalAfter its last part.
const cutOffGrace = 3 * time.Second

// workers limits the queues at work in this process, and waits for them at shutdown.
type workers struct {
	slots chan struct{}   // one for each queue that may be at work
	ctx   context.Context // ends when turns are cancelled
	cut   context.CancelFunc
	last  context.Context // ends a moment after ctx, for what is sent or saved last
	end   context.CancelFunc
	spare context.Context // ends as soon as nothing new may start, for what nobody waits for
	stop  context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // one for each queue at work
}

func newWorkers(atOnce int) *workers {
	w := &workers{slots: make(chan struct{}, atOnce)}
	w.last, w.end = context.WithCancel(context.Background())
	w.ctx, w.cut = context.WithCancel(w.last)
	w.spare, w.stop = context.WithCancel(w.ctx)
	return w
}

// tryEnter takes a slot if one is free and the engine is not draining. Give it back with leave.
func (w *workers) tryEnter() bool {
	select {
	case w.slots <- struct{}{}:
		return w.begin()
	default:
		return false
	}
}

// enter waits for a slot. It returns false if the engine is draining or ctx ends.
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

// join counts work that needs no slot, unless the engine is draining. It ends with work.Done.
func (w *workers) join() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.work.Add(1)
	}
	return !w.closed
}

func (w *workers) leave() {
	<-w.slots
	w.work.Done()
}

// yield lets a queue that waits for a slot go first, so that busy conversations do not starve
// others.
func (w *workers) yield() {
	<-w.slots
	w.slots <- struct{}{}
}

func (w *workers) closing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// drain stops new work and waits for the running work. If ctx ends first, it cancels that work.
func (w *workers) drain(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	done := make(chan struct{})
	go func() {
		w.work.Wait()
		close(done)
	}()
	defer w.end()
	if wait(ctx, forever, done) {
		return nil
	}
	for _, end := range []context.CancelFunc{w.cut, w.end} {
		end()
		if wait(context.WithoutCancel(ctx), cutOffGrace/2, done) {
			return ctx.Err()
		}
	}
	return errors.Join(ctx.Err(), errStuck)
}

// outlive returns a context that does not end with ctx. It lasts for atMost, but only a moment once
// turns are cancelled.
func (w *workers) outlive(ctx context.Context, atMost time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	stop := context.AfterFunc(w.last, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

const forever = time.Duration(math.MaxInt64)

// wait reports whether done was closed in time.
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

// idLen is the length of a record's id. The ids of its approvals begin with it.
const idLen = 12

// NewTurn makes a turn of an incoming activity. raw is the activity as it came.
func (e *Engine) NewTurn(a *activity.Activity, raw []byte, trusted, awaited bool) *Turn {
	t := e.newTurn(a)
	rec := Record{Phase: planning, head: head{
		ID: strings.ToLower(crand.Text()[:idLen]), Accepted: time.Now().UTC(),
		Activity: raw, Caller: caller{ID: a.CallerID, Trusted: trusted}, Awaited: awaited,
	}}
	if a.DeliveryMode == activity.ExpectReplies && a.Type != activity.Invoke {
		rec.Awaited, rec.Answer = true, &Answer{Activities: []jsontext.Value{}}
	}
	t.use(rec)
	signIns{t}.hide()
	return t
}

func (e *Engine) newTurn(a *activity.Activity) *Turn {
	t := &Turn{engine: e, Turn: &actions.Turn{Activity: a, Budget: e.cfg.Budget, Texts: e.cfg.Texts}}
	t.Notifier, t.Bot, t.UserToken, t.Team, t.Files = notifier{t}, t.docs.loadBot, signIns{t}.userToken, t.team, e.files.Of(a)
	return t
}

// Expect makes the ticket of a turn before Accept. The caller closes it.
func (e *Engine) Expect(t *Turn) *Ticket {
	return &Ticket{engine: e, queue: t.queue(), conversation: t.conversationKey(), id: t.ID, told: e.expect(t.ID)}
}

// expect returns the channel on which this process tells the answer of the record.
func (e *Engine) expect(id string) <-chan []byte {
	told := make(chan []byte, 1)
	e.answers.Store(id, told)
	return told
}

// tell gives the answer, if there is one, to the request that waits for it here.
func (e *Engine) tell(id string, answer []byte) {
	if told, ok := e.answers.LoadAndDelete(id); ok && answer != nil {
		told.(chan []byte) <- answer // there is room: it is told once
	}
}

// TakeCode makes a message that is nothing but six digits the code of its person, if they are about to
// sign in. Call it before [Engine.Accept]. The error is that of the store.
func (e *Engine) TakeCode(ctx context.Context, t *Turn) error {
	if !t.IsMessage() || !sixDigits().MatchString(t.Text) || !t.SignsIn() {
		return nil
	}
	queue := t.conversationKey()
	flows, err := pendingIn(ctx, t, queue, t.Activity.From.ID)
	if err == nil && len(flows) == 0 {
		flows, err = unsettledIn(ctx, t, queue)
	}
	if err != nil || len(flows) == 0 {
		return err
	}
	code := t.Text
	a := t.Activity
	a.Name, a.Entities, a.Attachments, a.Value = typedCode, nil, nil, nil
	signIns{t}.hide()
	t.secret = code
	return nil
}

// keepSecret holds the secret of a turn until this process starts it, for a while.
func (e *Engine) keepSecret(t *Turn) {
	if t.secret != "" {
		id := t.rec.ID
		e.secrets.Store(id, t.secret)
		time.AfterFunc(secretFor, func() { e.secrets.Delete(id) })
	}
}

// Aside runs an invoke's handler at once, without waiting for the conversation's queue, and returns
// its answer. The turn is read-only: it has the last saved state, or none after [Turn.LeaveState],
// and its changes are dropped. If the handler fails, or ctx ends before it returns, Aside returns
// the error and the answer of [Config].OwnAnswer. So it does after within, with [ErrLateAnswer]; the handler
// then goes on until ctx ends. The caller must not use the turn after this. With [ErrDraining], there is no
// answer.
func (e *Engine) Aside(ctx context.Context, within time.Duration, t *Turn, h Handler) (Answer, error) {
	if !e.workers.join() {
		return Answer{}, ErrDraining
	}
	ctx, end := t.step(connector.ForCaller(ctx, t.Activity.CallerApp()), StepReceive)
	running, cancel := context.WithCancel(t.context(ctx))
	stop := context.AfterFunc(e.workers.ctx, cancel)
	type outcome struct {
		answer Answer
		err    error
	}
	done := make(chan outcome, 1)
	late := e.newTurn(t.Activity) // t is the handler's
	go func() {
		defer e.workers.work.Done()
		defer stop()
		defer cancel()
		seeReceived(t)("", "")
		began := time.Now()
		answer, err := answerAside(running, t, h)
		seeAnswered(t, answer, err, began)
		if err != nil {
			t.Log().Error().Str("error", cause(err)).Str("invoke", t.Activity.Name).Msg("invoke not answered as it should be")
		}
		end(err)
		done <- outcome{answer, err}
	}()
	overdue := time.NewTimer(within)
	defer overdue.Stop()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
	case <-overdue.C:
	}
	return e.cfg.OwnAnswer(late, late.Translate(explain(late, context.DeadlineExceeded))), ErrLateAnswer
}

// Request saves the request and returns its id. From then on it is run, whatever happens to this process.
// The call waits for approvals and answers of its person as any other. [Engine.Requested] says what came
// of it.
//
// Errors, for errors.Is and errors.As: [actions.ErrUnknownRecipient] if the person has no conversation with
// the bot; [*actions.EntityError]; [actions.ErrNoRequest] if there is no such action; [actions.ErrFull] if
// the person's last requests are so many that the results of some would be lost; those of [Engine.Notify].
func (e *Engine) Request(ctx context.Context, r actions.Request) (id string, err error) {
	action, ok := e.cfg.Actions.Lookup(r.Action)
	if !ok || r.Subject == "" {
		return "", fmt.Errorf("request %s: %w", r.Action, actions.ErrNoRequest)
	}
	if _, err := action.Check(r.Entities); err != nil {
		return "", fmt.Errorf("request %s: %w", r.Action, err)
	}
	raw, err := plainjson.Marshal(r.Entities)
	if err != nil {
		return "", fmt.Errorf("request %s: %w", r.Action, err)
	}
	known, err := e.personOf(ctx, r)
	if err != nil {
		return "", fmt.Errorf("request %s: %w", r.Action, err)
	}
	docs, err := e.cfg.Store.Load(ctx, requestsKey(keyOf(known.recipient())))
	if err != nil {
		return "", fmt.Errorf("request %s: %w", r.Action, err)
	}
	if state.Peek[keptRequests](docs[0]).full() {
		return "", fmt.Errorf("request %s: %w", r.Action, actions.ErrFull)
	}
	n := actions.Notice{To: known.recipient(), Run: requestRun}
	if r.Key != "" {
		n.Key = "request\n" + hashOf(r.Subject, r.Key)
	}
	return e.notify(ctx, &post{Notice: n, request: &request{Subject: r.Subject, Person: r.Person, By: r.By, Action: action.Name, Entities: raw}})
}

// personOf finds the account of the request's person.
func (e *Engine) personOf(ctx context.Context, r actions.Request) (directory, error) {
	if r.Tenant == "" || r.Person == "" || !e.cfg.Requests {
		return directory{}, actions.ErrUnknownRecipient
	}
	docs, err := e.cfg.Store.Load(ctx, directoryKey(r.Tenant, r.Person))
	if err != nil {
		return directory{}, err
	}
	known := *state.Peek[directory](docs[0])
	if known.User == "" {
		return directory{}, actions.ErrUnknownRecipient
	}
	return known, nil
}

// Requested says how far a request has got: the one with that id, of r's person and Subject. It is
// known for a day after it ends. Errors: [actions.ErrNoRequest] and those of the store.
func (e *Engine) Requested(ctx context.Context, r actions.Request, id string) (actions.Requested, error) {
	none := actions.Requested{}
	known, err := e.personOf(ctx, r)
	if errors.Is(err, actions.ErrUnknownRecipient) {
		return none, actions.ErrNoRequest
	}
	to := known.recipient()
	person := keyOf(to)
	if err == nil {
		err = e.locate(ctx, &to)
	}
	if err != nil && !errors.Is(err, actions.ErrUnknownRecipient) {
		return none, fmt.Errorf("request %s: %w", id, err)
	}
	if err == nil {
		records, err := e.inbox.Records(ctx, queueOf(to)) // before what is kept: it is written before the record goes
		if err != nil {
			return none, fmt.Errorf("request %s: %w", id, err)
		}
		if rec, err := Decode(records[id]); err == nil && rec.Notice != nil && rec.Notice.Request != nil && rec.Notice.Request.Subject == r.Subject {
			status := actions.RequestPending
			if rec.Wait != nil && rec.Wait.For == forOperator {
				status = actions.RequestUnknown
			}
			return actions.Requested{ID: id, Status: status}, nil
		}
	}
	docs, err := e.cfg.Store.Load(ctx, requestsKey(person))
	if err != nil {
		return none, fmt.Errorf("request %s: %w", id, err)
	}
	for _, kept := range state.Peek[keptRequests](docs[0]).List {
		if kept.ID == id && kept.Subject == r.Subject && time.Since(kept.At) < requestKept {
			if kept.Gone {
				kept.Text = "There was more to say, which is no longer kept."
			}
			return kept.Requested, nil
		}
	}
	return none, actions.ErrNoRequest
}

// FirstForm returns the message of an edit that may be the first form of that message to address the
// bot, as somebody adds the mention that they forgot. nil: it is not, or it is so old that nobody
// knows any more whether the message was answered. Whether it was answered, only [Engine.Accept] knows:
// then the message is a duplicate.
func (e *Engine) FirstForm(t *Turn) *Turn {
	a := t.Activity
	if a.Type != activity.MessageUpdate || a.ChannelID != activity.Teams || a.DeliveryMode == activity.ExpectReplies || undeletes(a) {
		return nil
	}
	sent, err := strconv.ParseInt(a.ID, 10, 64) // Teams' ids are when a message was sent, in milliseconds
	if err != nil || time.Since(time.UnixMilli(sent)).Abs() >= e.inbox.Remembers() {
		return nil
	}
	m := *a
	m.Type = activity.Message
	raw, err := m.Encode()
	if err != nil {
		return nil
	}
	return e.NewTurn(&m, raw, t.rec.Caller.Trusted, false)
}

// Count tells the features that something happened. id is the turn's; "": it is about no turn.
func (e *Engine) Count(id, what, how string) { e.countFor(id, what, how, 0) }

// countFor is Count of something that took a while.
func (e *Engine) countFor(id, what, how string, took time.Duration) {
	e.see(Event{Turn: id, Counted: Counted{what, how, took}})
}

// see tells the features of an event.
func (e *Engine) see(event Event) {
	if len(e.watchers) == 0 {
		return
	}
	event.At = time.Now()
	for _, watcher := range e.watchers {
		watcher(event)
	}
}

// has reports whether a feature has the function that is asked for.
func (e *Engine) has(function func(f *Feature) bool) bool {
	for i := range e.cfg.Features {
		if function(&e.cfg.Features[i]) {
			return true
		}
	}
	return false
}
