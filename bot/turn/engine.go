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
	"encoding/json"
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
	// Member is a member of a conversation, by the id or aadObjectId of their account.
	Member(ctx context.Context, of activity.Reference, id string) (activity.Account, error)
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
	// Handler returns the handler of the turn's activity, or nil if there is none. It sees the
	// activity and the text, but no state.
	Handler func(t *Turn) Handler
	// Plans reports whether all that Handler does with a message is to plan, so that it may join others. nil: none may.
	Plans func(t *Turn) bool
	// Burst is how long a message waits for others that join it. 0: it does not wait, and only those join that wait behind
	// another turn.
	Burst time.Duration
	// Steer is that of [bot.Config].
	Steer bool
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
	TurnTimeout, Lease, Patience                    time.Duration
	MaxSteps, MaxSameCalls, HistoryTurns            int
	MaxTurns, MaxWaiting, MaxWaitingPerConversation int
	Budget                                          actions.Budget
	Attachments                                     files.Attachments
	Stream, ThreadsTogether                         bool
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
	secrets  sync.Map // record id -> string: see [Hide]
	watchers []func(Event)
	newer    newer
	halts    halts
	files    *files.Files
	pauses   map[string]func() Pause // of all features, by the name of the member that keeps them

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
	e.pauses = map[string]func() Pause{}
	for _, f := range cfg.Features {
		maps.Copy(e.pauses, f.Pauses)
	}
	c := files.Config{Attachments: cfg.Attachments, Store: cfg.Store, Channel: cfg.Channel, Cause: Cause}
	if p, ok := cfg.Planner.(interface{ Sees(context.Context) bool }); ok {
		c.Sees = p.Sees
	}
	e.files = files.New(c)
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

// Start begins to claim queues that have work, including those that another process left.
func (e *Engine) Start() {
	e.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background()) // ends with Drain
		e.stop = cancel
		e.reading.Go(func() { e.inbox.Run(ctx, func(q state.Key) { claimQueue(ctx, e, q) }) })
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
	entry := inbox.Entry{Queue: queueFor(t), Duplicates: known}
	if !t.rec.Stateless {
		entry.Load = keysOfTurn(t)
	}
	if t.IsMessage() && !t.rec.Stateless { // the conversation will have the person's words
		entry.Set, entry.Member = placesKey(PersonKey(t.Activity)), placeHere(t)
	}
	received := seeReceived(t)
	received("", "")
	id, duplicate, err = e.submit(ctx, t, entry)
	if duplicate && strings.HasPrefix(id, deletedMark) && id != deletedBy(t.Activity) { // somebody else said so
		for _, d := range known {
			err = cmp.Or(err, e.inbox.Forget(ctx, entry.Queue, d.ID, id))
		}
		if err == nil {
			id, duplicate, err = e.submit(ctx, t, entry)
		}
	}
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
	if id := t.rec.ID; t.secret != "" { // until this process starts the turn
		e.secrets.Store(id, t.secret)
		time.AfterFunc(secretFor, func() { e.secrets.Delete(id) })
	}
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

// work moves the records of a queue, one after another, until the queue is empty or has to be
// released. t is the turn of the first one, if it exists already.
func (e *Engine) work(lease *inbox.Lease, t *Turn) {
	for e.moveHead(lease, t) {
		if e.workers.closing() && !e.cfg.Store.Embedded() {
			releaseQueue(e, lease, 0)
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
		return buryRecord(ctx, e, lease, lostTooOften(n), nil)
	}
	fault := error(nil)
	queued := t == nil
	if queued {
		t, fault = openTurn(e, lease)
	}
	if fault == nil && n == 0 && (queued || e.cfg.Burst > 0) {
		joined, err := joinBurst(ctx, t, lease)
		if err != nil {
			e.cfg.Log.Warn().Err(err).Stringer("queue", lease.Queue()).Msg("could not take the messages of a burst together")
			releaseQueue(e, lease, afterOutage) // whether they joined, the next owner sees
			return false
		}
		if joined {
			t, fault = openTurn(e, lease)
		}
	}
	switch {
	case errors.Is(fault, errNewer) && e.newer.mayCome(lease.ID(), e.cfg.Lease):
		leaveToNewer(e, lease)
		return false
	case t == nil:
		return buryRecord(ctx, e, lease, fault.Error(), nil)
	}
	if kept, ok := e.secrets.LoadAndDelete(t.rec.ID); ok && t.secret == "" {
		t.secret, _ = kept.(string)
	}
	caller := t.Activity.CallerApp()
	t.lease, t.owned = lease, connector.ForCaller(owned, caller)
	ctx = contextOf(connector.ForCaller(ctx, caller), t)
	switch {
	case fault != nil:
		return putOff(ctx, t, &deadLetter{reason: fault.Error()})
	case n >= maxTakeovers:
		noteInFlight(t)
		return putOff(ctx, t, &deadLetter{reason: lostTooOften(n)})
	}
	return t.run(ctx)
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
		return w.admit()
	default:
		return false
	}
}

// enter waits for a slot. It returns false if the engine is draining or ctx ends.
func (w *workers) enter(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return w.admit()
	case <-ctx.Done():
		return false
	}
}

func (w *workers) admit() bool {
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
	useRecord(t, rec)
	hideSecrets(t, false)
	return t
}

func (e *Engine) newTurn(a *activity.Activity) *Turn {
	t := &Turn{engine: e, Turn: &actions.Turn{Activity: a, Budget: e.cfg.Budget, Texts: e.cfg.Texts}}
	t.Notifier, t.Bot, t.Files = notifier{e, t}, botOf(t), e.files.Of(a)
	t.UserToken = func(ctx context.Context, connection string) (connector.UserToken, error) {
		for _, f := range e.cfg.Features {
			if f.Token != nil {
				return f.Token(ctx, t, connection)
			}
		}
		return connector.UserToken{}, connector.ErrNoTokenService
	}
	t.Team = func(ctx context.Context) (connector.Team, error) {
		id := a.TeamID()
		if id == "" {
			return connector.Team{}, errors.New("the turn is in no team")
		}
		return e.cfg.Channel.Team(ctx, t.Activity.Reference(), id)
	}
	return t
}

// Expect makes the ticket of a turn before Accept. The caller closes it.
func (e *Engine) Expect(t *Turn) *Ticket {
	return &Ticket{engine: e, queue: queueFor(t), conversation: conversationKey(t), id: t.ID, told: e.expect(t.ID)}
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

// Prepare has the features see a turn before [Engine.Accept]. The error is that of the store.
func (e *Engine) Prepare(ctx context.Context, t *Turn) error {
	for _, f := range e.cfg.Features {
		if f.Accept == nil {
			continue
		}
		if err := f.Accept(ctx, t); err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	if t.Text != files.Said(t.Activity) {
		t.rec.Text = t.Text
	}
	return nil
}

// secretFor is how long a secret is kept for a turn that this process could not start at once.
const secretFor = time.Minute

// Aside runs an invoke's handler at once, without waiting for the conversation's queue, and returns
// its answer. The turn is read-only: it has the last saved state, or none after [LeaveState],
// and its changes are dropped. If the handler fails, or ctx ends before it returns, Aside returns
// the error and the answer of [Config].OwnAnswer. So it does after within, with [ErrLateAnswer]; the handler
// then goes on until ctx ends. The caller must not use the turn after this. With [ErrDraining], there is no
// answer.
func (e *Engine) Aside(ctx context.Context, within time.Duration, t *Turn, h Handler) (Answer, error) {
	if !e.workers.join() {
		return Answer{}, ErrDraining
	}
	ctx, end := t.step(connector.ForCaller(ctx, t.Activity.CallerApp()), StepReceive)
	running, cancel := context.WithCancel(contextOf(ctx, t))
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
			t.Log().Error().Str("error", Cause(err)).Str("invoke", t.Activity.Name).Msg("invoke not answered as it should be")
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

// FirstForm returns the message of an edit that may be the first form of that message to address the
// bot, as somebody adds the mention that they forgot. nil: it is not, or it is so old that nobody
// knows any more whether the message was answered. Whether it was answered, only [Engine.Accept] knows:
// then the message is a duplicate.
func (e *Engine) FirstForm(t *Turn) *Turn {
	a := t.Activity
	if a.Type != activity.MessageUpdate || a.DeliveryMode == activity.ExpectReplies || !e.isRecent(a) {
		return nil
	}
	var data struct{ EventType string }
	if json.Unmarshal(a.ChannelData, &data) == nil && strings.EqualFold(data.EventType, "undeleteMessage") {
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

// isRecent reports whether it is known of a message of Teams that old whether it came: the ids are when a message
// was sent, in milliseconds.
func (e *Engine) isRecent(a *activity.Activity) bool {
	sent, err := strconv.ParseInt(a.ID, 10, 64)
	return err == nil && a.ChannelID == activity.Teams && time.Since(time.UnixMilli(sent)).Abs() < e.inbox.Remembers()
}

// NoteDeleted notes that the turn's person deleted their message with that duplicate id, in case it comes later:
// then [Engine.Accept] takes it for a duplicate.
func (e *Engine) NoteDeleted(ctx context.Context, t *Turn, duplicate string) error {
	if !e.isRecent(t.Activity) {
		return nil
	}
	return e.inbox.Remember(ctx, conversationKey(t), duplicate, deletedBy(t.Activity))
}

// deletedMark begins what is kept in place of a record's id of a message that was deleted before it came.
const deletedMark = "deleted-"

// deletedBy is what is kept for the messages of the person.
func deletedBy(a *activity.Activity) string { return deletedMark + Hash(a.From.ID)[:16] }

// Resumes reports whether a feature of the bot can read what a record waits for. Without one the turn becomes a dead
// letter.
func (e *Engine) Resumes(rec *Record) bool {
	w := rec.Wait
	return w == nil || w.open(e.pauses) != nil || len(w.Pauses) == 0 && !w.overForPerson()
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

// askEvery is how often a request asks Redis for an answer that another process works on.
const askEvery = 250 * time.Millisecond

// ErrLateAnswer says that the answer was not ready in time. The turn continues, and the same
// request waits for it again when it is resent.
var ErrLateAnswer = errors.New("the answer takes too long")

// Ticket is a request that waits for a turn's answer.
type Ticket struct {
	engine              *Engine
	queue, conversation state.Key // the turn's own, and that of the conversation
	id                  string
	told                <-chan []byte
}

// Close stops waiting.
func (k *Ticket) Close() { k.engine.answers.Delete(k.id) }

// Wait returns the answer of the record with that id, or of the record that it follows. Another
// process may work on it. Errors: [ErrLateAnswer] if ctx ends first, [ErrDraining], and those of
// the inbox.
func (k *Ticket) Wait(ctx context.Context, id string) (Answer, error) {
	answer, err := k.await(ctx, k.queue, id, k.told)
	if err != nil || answer.Follows == "" {
		return answer, err
	}
	told := k.engine.expect(answer.Follows)
	defer k.engine.answers.Delete(answer.Follows)
	return k.await(ctx, k.conversation, answer.Follows, told)
}

func (k *Ticket) await(ctx context.Context, queue state.Key, id string, told <-chan []byte) (a Answer, err error) {
	var raw []byte
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for raw == nil {
		select {
		case raw = <-told:
		case <-ticker.C:
			if raw, err = k.engine.inbox.Answer(ctx, queue, id); err != nil && ctx.Err() == nil {
				return a, fmt.Errorf("ask for the answer: %w", err)
			}
		case <-k.engine.workers.ctx.Done():
			return a, ErrDraining
		case <-ctx.Done():
			return a, ErrLateAnswer
		}
	}
	if err = json.Unmarshal(raw, &a); err == nil && a.Activities != nil {
		a.Body, err = json.Marshal(map[string]any{"activities": a.Activities})
	}
	if err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}

// Forget makes the next delivery with this duplicate id count as a new one. id is that of the
// record.
func (k *Ticket) Forget(ctx context.Context, duplicate, id string) error {
	return k.engine.inbox.Forget(ctx, k.queue, duplicate, id)
}

// errReadOnly says that a turn beside the queues changes and sends nothing.
var errReadOnly = errors.New("this turn is read-only: it saves and sends nothing")

// answerAside is the turn of [Engine.Aside].
func answerAside(ctx context.Context, t *Turn, h Handler) (Answer, error) {
	err := safely(t, func() error {
		if t.rec.Stateless {
			t.Conversation, t.User, t.Thread = state.NewScope(), state.NewScope(), state.NewScope()
			return h(ctx, t)
		}
		keys := keysOfTurn(t)
		if t.Activity.Conversation.Personal() { // the last one is for what turns save
			keys = keys[:len(keys)-1]
		}
		scopes, failed := t.engine.cfg.Store.LoadLater(ctx, keys...)
		t.docs.scopes, t.Conversation, t.User, t.Thread = scopes, scopes[0], scopes[1], scopes[len(scopes)-1]
		if len(scopes) == 2 {
			t.Thread = scopes[0]
		}
		err := h(ctx, t)
		if fault := failed(); fault != nil { // the handler did not see what is stored
			if err = fault; !errors.Is(fault, state.ErrUnavailable) {
				t.docs.fault = fault
			}
		}
		return err
	})
	if err != nil {
		return t.engine.cfg.OwnAnswer(t, t.Translate(explain(t, err))), err
	}
	if t.rec.Answer == nil {
		return Answer{}, nil
	}
	return *t.rec.Answer, nil
}
