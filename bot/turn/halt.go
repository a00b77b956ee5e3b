package turn

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/internal/stream"
	"github.com/planbot-go/planbot/planner/plan"
)

// What this file is about: a person stops what they asked for, with the Stop button of a growing message, or with a
// message of its own. Such a message is a turn in a queue beside the conversation's, on any replica. It marks the
// turn that is to end. Whoever works on that one looks for the mark, ends the model call at once and the plan before
// its next command, and says what was done.

// haltEvery is how often a turn at work looks whether its person stopped it, on whatever replica that was said.
const haltEvery = time.Second

// halt is how a turn in this process learns that its person stopped it with a message.
type halt struct {
	mu      sync.Mutex
	stopped bool
	cancel  context.CancelFunc // of the plan that is being made, or of the call, see [UntilStopped]
	before  bool               // it was stopped before it began

	timer *time.Timer // begins to look for the mark; nil: nobody looks
	quit  context.CancelFunc
	looks sync.WaitGroup
}

func (h *halt) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if h.cancel != nil {
		h.cancel()
	}
}

// cancels says what to cancel when the turn is stopped.
func (h *halt) cancels(cancel context.CancelFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	if h.stopped {
		cancel()
	}
}

func (h *halt) isStopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopped
}

// halts are the turns at work in this process that their persons can stop, by record id.
type halts struct {
	mu  sync.Mutex
	all map[string]*halt
}

func (a *halts) set(id string, h *halt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*halt{}
	}
	a.all[id] = h
}

func (a *halts) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, id)
}

func (a *halts) stop(id string) {
	a.mu.Lock()
	h := a.all[id]
	a.mu.Unlock()
	if h != nil {
		h.stop()
	}
}

// haltMark and haltedMark are what the inbox remembers of a record whose turn is to stop, and that it has stopped.
func haltMark(id string) string   { return "halt\n" + id }
func haltedMark(id string) string { return "halted\n" + id }

// isHalted reports whether the person stopped the turn, with the button or with a message.
func isHalted(t *Turn) bool { return t.stream.Stopped() || t.halt.isStopped() }

// watchHalt has the turn notice that its person stops it, also if they did before this process began with it.
func watchHalt(ctx context.Context, t *Turn) error {
	h := &t.halt
	if h.timer != nil || !t.IsMessage() || t.rec.Notice != nil || t.rec.Stateless {
		return nil
	}
	t.engine.halts.set(t.ID, h)
	queue, mark := t.lease.Queue(), haltMark(t.ID) // the turn is not read later: a rerun writes it
	isMarked := func(ctx context.Context) (bool, error) {
		by, err := t.engine.inbox.Remembered(ctx, queue, mark)
		return by != "", err
	}
	if t.queued {
		found, err := isMarked(ctx)
		if err != nil {
			return err
		}
		if found {
			h.before = t.rec.Run == nil && t.lease.Tries() == 0
			h.stop()
		}
	}
	looking, quit := context.WithCancel(t.owned)
	h.quit = quit
	h.looks.Add(1)
	h.timer = time.AfterFunc(haltEvery, func() {
		defer h.looks.Done()
		for looking.Err() == nil && !h.isStopped() {
			asking, cancel := context.WithTimeout(looking, haltEvery)
			found, err := isMarked(asking)
			cancel()
			if err == nil && found {
				h.stop()
			}
			wait(looking, haltEvery, nil)
		}
	})
	return nil
}

// unwatchHalt ends what watchHalt began, and waits for it.
func unwatchHalt(t *Turn) {
	h := &t.halt
	t.engine.halts.drop(t.ID)
	if h.timer == nil {
		return
	}
	h.quit()
	if h.timer.Stop() {
		h.looks.Done()
	}
	h.looks.Wait()
}

// Unfinished lists the turns that answer messages of the turn's person in its thread, were taken before it, and have more
// to say: the one at work, those that wait in the queue behind it, and those that wait for a person, which have For.
func Unfinished(ctx context.Context, t *Turn) (all []*Waiting, err error) {
	here := t.Activity
	err = eachRecord(ctx, t, conversationKey(t), "", func(rec *Record, asked *activity.Activity) {
		same := asked.Type == activity.Message && asked.From.ID == here.From.ID && asked.Conversation.ID == here.Conversation.ID
		later := rec.Own == "" && rec.Accepted.After(t.rec.Accepted) // what a turn leaves to do beside it may begin meanwhile
		if !same || rec.Notice != nil || rec.Stateless || later {
			return
		}
		w := waitingOf(t, rec, asked)
		switch {
		case rec.Phase == waiting && rec.Wait.isPause():
			w.For = string(rec.Wait.For)
		case rec.Phase == waiting && rec.Wait.For != forChannel, rec.Phase != planning && rec.Run == nil:
			return // it has said everything, or nobody works on it
		}
		all = append(all, w)
	})
	return all, err
}

// Halt has a turn of [Unfinished] end before its next command, and cancels its model call, on whatever replica it runs.
// It tells the person itself what it did. A turn that waits for a person is left alone.
func Halt(ctx context.Context, t *Turn, w *Waiting) error {
	err := t.engine.inbox.Remember(ctx, w.queue, haltMark(w.Turn), t.ID)
	if err == nil {
		t.engine.halts.stop(w.Turn)
	}
	return err
}

// Halted reports whether one of those turns has ended because of [Halt].
func Halted(ctx context.Context, t *Turn, turns ...string) (bool, error) {
	for _, id := range turns {
		by, err := t.engine.inbox.Remembered(ctx, conversationKey(t), haltedMark(id))
		if err != nil || by != "" {
			return by != "", err
		}
	}
	return false, nil
}

// haltTurn ends a turn that the person stopped. The history keeps what they read. If they pressed Stop, they are told
// only if something was done.
func haltTurn(ctx context.Context, t *Turn) (Next, error) {
	zerolog.Ctx(ctx).Info().Msg("the person stopped the turn")
	said, shown := t.halt.isStopped(), ""
	if !said {
		shown = t.stream.Abandon()
	} else if err := t.engine.inbox.Remember(ctx, t.lease.Queue(), haltedMark(t.ID), t.ID); err != nil {
		return Next{}, err
	}
	if p := pauseOf(t); p != nil {
		p.Failed(t)
	}
	if t.rec.Remembered && len(t.Rounds) > 0 {
		takeBack(t)
	}
	left := undone(t)
	t.rec.Outbox, t.rec.Wait = nil, nil
	if t.docs.scopes != nil && !t.rec.Stateless && (t.rec.Run != nil || len(t.Rounds) > 0) {
		var read []string
		if shown != "" {
			read = append(read, shown)
		}
		remember(t, read...)
	}
	did := BeforeThat(t)
	t.rec.Run = nil
	if !said {
		speakAgain(t)
	}
	switch {
	case t.halt.before:
		return goOnTo(done), t.Tell(ctx, t.Translate("You stopped me before I began with this message, so I left it out."))
	case said || did != "":
		return goOnTo(done), t.Tell(ctx, t.Translate("I stopped.")+did+left)
	}
	return goOnTo(done), nil
}

// UntilStopped is ctx until the person stops the turn. Then its cause ends the turn if a feature's Call returns it.
func UntilStopped(ctx context.Context, t *Turn) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t.halt.cancels(func() { cancel(stream.ErrStopped) })
	return ctx, func() { cancel(nil) }
}

// undone is a sentence about the calls of the plan that are not made, after another sentence, and one about those that
// a lost process may have made. "": there are none.
func undone(t *Turn) (said string) {
	run := t.rec.Run
	if run == nil || run.Progress == nil {
		return ""
	}
	if t.exec.mayHaveStarted > 0 {
		noteInFlight(t)
	}
	p := run.Progress
	next := p.Next + len(t.uncertain)
	if len(t.uncertain) > 0 {
		said = " " + t.Translate("I cannot tell whether this was done: %s.", strings.Join(titlesOf(t, slices.Clone(t.uncertain)), ", "))
	}
	var left []string
	for _, c := range p.Plan.Commands[next:] {
		if c.Kind == plan.Do {
			left = append(left, Title(t, c.Action))
		}
	}
	if len(left) > 0 {
		said += " " + t.Translate("I did not do this: %s.", strings.Join(left, ", "))
	}
	return said
}

// speakAgain gives up the message that the person stopped, so that the turn can say how it ended.
func speakAgain(t *Turn) {
	t.stream.Abandon()
	if t.rec.Stream != nil {
		t.rec.Stream.State = stream.Over
	}
	t.stream.SpeakAgain()
}
