package bot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxTakeovers is how often a turn may lose its process at the same place before
	// it is parked. Telling the person is tried as many times again; after that the turn is
	// parked silently.
	maxTakeovers = 3
	// takeUpWithin bounds one look at a lane, and one try at giving it up.
	takeUpWithin = 15 * time.Second
)

// laneOf names the turns that may not overlap: those of a conversation, a channel
// with all its threads, which share their state. Decisions have a lane of their
// own, so that none waits for a turn at work.
func laneOf(t *Turn) state.Lane {
	lane := conversationLane(t.Activity)
	if _, ok := decisionIn(t); ok && t.resumes == "" {
		return lane.Key().Lane("decisions")
	}
	return lane
}

func conversationLane(a *activity.Activity) state.Lane {
	return conversationKey(a, a.Conversation.BaseID()).Lane("")
}

// takeUp works a lane that is ready, when there is a slot for it. It is called by
// the readers of the inbox, which read no more while it waits.
func (b *Bot) takeUp(ctx context.Context, lane state.Lane) {
	if !b.workers.enter(ctx) {
		return // others will
	}
	go func() {
		defer b.workers.leave()
		claiming, cancel := context.WithTimeout(b.workers.ctx, takeUpWithin)
		defer cancel()
		hold, err := b.inbox.Claim(claiming, lane)
		if err != nil {
			b.cfg.Log.Warn().Err(err).Stringer("lane", lane).Msg("lane not taken")
		}
		if hold != nil {
			b.work(hold, nil)
		}
	}()
}

// work does the turns of a lane that this process holds, one after another, until
// there is none left or the lane is to be given up. The turn is the first of them, if
// it was made already.
func (b *Bot) work(hold *state.Hold, t *Turn) {
	for b.attend(hold, t) {
		if b.workers.closing() && !b.embedded {
			b.giveUp(hold, 0)
			return
		}
		t = nil
		b.workers.yield()
	}
}

// attend does the turn at the head of the lane, and reports whether there is
// another one to do.
func (b *Bot) attend(hold *state.Hold, t *Turn) (more bool) {
	lane, release := context.WithCancel(b.workers.last)
	defer release()
	ctx, cut := context.WithCancel(lane)
	defer context.AfterFunc(b.workers.ctx, cut)()
	of := hold.Item()
	if n := lost(of); n > 2*maxTakeovers {
		return b.park(ctx, hold, of.Turn, lostTooOften(n), nil)
	}
	var fault error
	if t == nil {
		if t, fault = b.open(of); t == nil {
			return b.park(ctx, hold, of.Turn, fault.Error(), nil)
		}
	}
	app := t.Activity.CallerApp()
	t.hold, t.lane = hold, connector.ForCaller(lane, app)
	hold.OnLost(release)
	logged := t.log().WithContext(connector.ForCaller(ctx, app))
	if fault != nil {
		return b.leave(logged, t, &parkError{reason: fault.Error()})
	}
	return b.run(logged, t)
}

func lostTooOften(n int) string {
	return fmt.Sprintf("its process was lost %d times", n)
}

// giveUp lets others have the lane, after the given time.
func (b *Bot) giveUp(hold *state.Hold, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), takeUpWithin)
	defer cancel()
	if err := hold.Release(ctx, after); err != nil && !errors.Is(err, state.ErrLost) {
		b.cfg.Log.Warn().Err(err).Stringer("lane", hold.Lane()).Msg("lane not given up, it is free when its lease ends")
	}
}

// park takes the turn off its lane for an operator to look at. Who waits for its
// answer gets that one, if it is not nil.
func (b *Bot) park(ctx context.Context, hold *state.Hold, turn, reason string, answer []byte) (more bool) {
	ctx, cancel := b.workers.outlive(ctx, takeUpWithin)
	defer cancel()
	waits := time.Since(hold.Item().Accepted)
	more, err := hold.Park(ctx, reason, answer)
	if errors.Is(err, state.ErrTooLarge) && answer != nil { // it is the answer that is
		answer = []byte(`{"status":500}`)
		more, err = hold.Park(ctx, reason, answer)
	}
	if err != nil {
		b.cfg.Log.Error().Err(err).Str("turn", turn).Msg("turn not parked")
		b.giveUp(hold, min(max(waits/10, afterOutage), mostDelay))
		return false
	}
	b.meter.parked()
	b.cfg.Log.Error().Str("turn", turn).Stringer("lane", hold.Lane()).Str("reason", reason).Msg("turn parked")
	if answer != nil {
		b.waiters.tell(turn, answer)
	}
	return more
}
