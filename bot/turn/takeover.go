package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// What this file is about: a process takes a queue, which another one may have left in the middle of a turn. It claims
// the queue under a lease, completes a save that was cut off, decodes the record and enters the loop, [Turn.move], which
// does not know that anything happened. A turn that is lost too often at the same place becomes a dead letter.
//
// The loop saves before each action that does something outside of state and, after such an action,
// before anything else is called; before each message; and at the end. If the process is killed, the
// next one repeats what was done since the last save:
//
//	killed                                  repeated by the next process
//	before the first save                   everything: handler, model, actions marked StateOnly
//	later, in or after StateOnly actions    those since the last save, and the model if it has planned since
//	in another action, until the next save  that action, with Attempt.Again
//	after sending a message, until saved    that message, which then arrives twice

const (
	// maxTakeovers is at which loss of its process, at the same place, a record becomes a dead letter.
	// Telling the person then gets as many tries again.
	maxTakeovers = 3
	// claimWithin limits one claim of a queue, and one try to release it.
	claimWithin = 15 * time.Second
)

// claimQueue works on a queue that is ready, once there is a slot for it. The inbox's readers call it
// and read nothing more while it waits.
func claimQueue(ctx context.Context, e *Engine, q state.Key) {
	if !e.workers.enter(ctx) {
		return // other processes will
	}
	go func() {
		defer e.workers.leave()
		claiming, cancel := context.WithTimeout(e.workers.ctx, claimWithin)
		defer cancel()
		fault := error(nil)
		lease, err := e.inbox.Claim(claiming, q)
		if err != nil {
			e.cfg.Log.Warn().Err(err).Stringer("queue", q).Msg("queue not claimed")
		}
		if lease == nil {
			return
		}
		rec, _ := Decode(lease.Record())      // its activity is enough
		if a, err := rec.Read(); err == nil { // else nobody can continue it
			// Complete a save whose process died after saving the person's state and before saving the record.
			_, fault = lease.Recover(claiming, state.BotKey(), PersonKey(a))
		}
		if fault != nil {
			e.cfg.Log.Warn().Err(fault).Stringer("queue", q).Msg("could not look for a half saved phase")
			releaseQueue(e, lease, afterOutage)
			return
		}
		e.work(lease, nil)
	}()
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
	// newerAgain is when others may claim such a turn: readers of a queue's name take turns.
	newerAgain = time.Second
	// newerLeases is for how many leases a process leaves it.
	newerLeases = 20
)

// mayCome reports whether a process of a newer version may still come for the turn with that record.
func (n *newer) mayCome(id string, lease time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	since, known := n.since[id]
	return !known || time.Since(since) < newerLeases*lease
}

// leaveToNewer leaves the turn at the head of the queue to others, and notes since when.
func leaveToNewer(e *Engine, lease *inbox.Lease) {
	n := &e.newer
	n.mu.Lock()
	if _, known := n.since[lease.ID()]; !known {
		maps.DeleteFunc(n.since, func(_ string, since time.Time) bool { return time.Since(since) > 2*newerLeases*e.cfg.Lease })
		if n.since == nil {
			n.since = map[string]time.Time{}
		}
		n.since[lease.ID()] = time.Now()
	}
	n.mu.Unlock()
	e.cfg.Log.Info().Str("turn", lease.ID()).Msg("turn left to a newer version of the bot")
	releaseQueue(e, lease, newerAgain)
}

func lostTooOften(n int) string { return fmt.Sprintf("its process was lost %d times", n) }

// openTurn makes the turn of the record at the head of a queue. With an error, the turn is nil or only
// good for telling the person.
func openTurn(e *Engine, lease *inbox.Lease) (*Turn, error) {
	rec, err := Decode(lease.Record())
	if lease.Tries() > 0 {
		e.cfg.Log.Warn().Str("turn", rec.ID).Int("times", lease.Tries()).Str("phase", string(rec.Phase)).Msg("turn taken over")
	}
	a, fault := rec.Read()
	if a == nil {
		return nil, errors.Join(err, fault)
	}
	t := e.newTurn(a)
	t.queued = true
	useRecord(t, rec)
	return t, errors.Join(err, fault)
}

// releaseQueue gives the queue up. Others may claim it after the given time.
func releaseQueue(e *Engine, lease *inbox.Lease, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), claimWithin)
	defer cancel()
	if err := lease.Release(ctx, after); err != nil && !errors.Is(err, inbox.ErrLost) {
		e.cfg.Log.Warn().Err(err).Stringer("queue", lease.Queue()).Msg("queue not released, it is free when its lease ends")
	}
}

// buryRecord makes the record at the head a dead letter. A request that waits for its answer gets answer,
// unless that is nil.
func buryRecord(ctx context.Context, e *Engine, lease *inbox.Lease, reason string, answer []byte) (more bool) {
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
		releaseQueue(e, lease, afterOutage)
		return false
	}
	e.Count(id, CountTurns, "dead_letter")
	e.cfg.Log.Error().Str("turn", id).Stringer("queue", lease.Queue()).Str("reason", reason).Msg("dead letter: an operator has to look at this turn")
	if a, _ := rec.Read(); a != nil {
		t := e.newTurn(a)
		useRecord(t, rec)
		tellEnded(ctx, t, Ended{
			Outcome: parkedTurn, Usage: t.Usage, Tries: tries, Own: rec.Own != "", Unasked: rec.Notice != nil, Forgotten: forgotten.Peek(&rec),
		})
	}
	e.tell(id, answer)
	return more
}

// checkPlan validates a plan that another process made, perhaps with another version of the bot.
func checkPlan(t *Turn) error {
	if t.rec.Run == nil || t.rec.Run.Progress == nil || t.rec.Run.Progress.Done() {
		return nil
	}
	p := t.rec.Run.Progress
	valid, err := p.Plan.Validate(t.engine.cfg.Actions)
	if err == nil {
		p.Plan = valid
		return nil
	}
	dead := &deadLetter{reason: "its plan does not fit this version of the bot", err: err}
	if t.rec.Run.Approved == "" {
		noteInFlight(t)
		return dead
	}
	dead.reason = "the approved plan does not fit this version of the bot"
	dead.say = "Sorry, things have changed since I asked for approval, so I didn't do it. Somebody has to look at it."
	return dead
}

// noteInFlight makes the bot tell the person of the commands that may have started.
func noteInFlight(t *Turn) {
	if run := t.rec.Run; run != nil && run.Progress != nil {
		for _, c := range run.Progress.Plan.Commands[run.Progress.Next:][:run.InFlight] {
			t.uncertain = append(t.uncertain, c.Action)
		}
		t.exec.noteUnknown(run.InFlight)
	}
}
