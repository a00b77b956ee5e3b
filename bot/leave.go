package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// laterError ends the work on a turn for now: it is gone on with after a time.
type laterError struct {
	after time.Duration
	err   error
}

func (e *laterError) Error() string {
	return fmt.Sprintf("to be gone on with in %v: %v", e.after, e.err)
}
func (e *laterError) Unwrap() error { return e.err }

// parkError ends the work on a turn until an operator decides about it.
type parkError struct {
	reason string // for the operator
	err    error  // may be nil
	say    string // for the person; "": that it could not be finished
}

func (e *parkError) Error() string {
	if e.err == nil {
		return e.reason
	}
	return e.reason + ": " + cause(e.err)
}

func (e *parkError) Unwrap() error { return e.err }

// afterOutage is when a turn that Redis could not keep is gone on with.
const afterOutage = time.Second

// leaves reports whether the turn is not at its end with that error: it is gone on
// with later, elsewhere, or when an operator says so.
func (b *Bot) leaves(t *Turn, err error) bool {
	var later *laterError
	var park *parkError
	switch {
	case errors.Is(err, state.ErrLost), errors.Is(err, state.ErrUnavailable), errors.As(err, &later), errors.As(err, &park):
		return true
	case errors.Is(t.hold.Err(), state.ErrLost):
		return true
	}
	return b.workers.ctx.Err() != nil && !b.embedded // cut off by the end of the process
}

// leave gives the lane up with the turn in it. Nothing of the turn that was not saved
// is lost: whoever goes on begins where its journal ends.
func (b *Bot) leave(ctx context.Context, t *Turn, err error) (more bool) {
	log := zerolog.Ctx(ctx)
	var later *laterError
	var park *parkError
	switch {
	case errors.As(err, &park):
		return b.park(ctx, t.hold, t.ID, park.Error(), b.sayParked(ctx, t, park))
	case errors.As(err, &later):
		log.Warn().Str("error", cause(err)).Dur("after", later.after).Msg("turn goes on later")
		b.giveUp(t.hold, later.after)
	case errors.Is(t.hold.Err(), state.ErrLost), errors.Is(err, state.ErrLost):
		b.meter.leaseLost()
		log.Warn().Msg("turn left: another process has its lane, or may have")
		b.giveUp(t.hold, 0) // if it has not
	case errors.Is(err, state.ErrUnavailable):
		log.Error().Str("error", cause(err)).Msg("turn left until redis is back")
		b.giveUp(t.hold, afterOutage)
	case b.workers.ctx.Err() != nil:
		b.meter.handedBack()
		log.Warn().Msg("turn handed back at shutdown")
		b.giveUp(t.hold, 0)
	default: // it would come to the same end again
		return b.leave(ctx, t, &parkError{reason: "it could not be ended", err: err})
	}
	return false
}

// sayParked tells the person, where that is possible, and returns the answer for who
// waits for one.
func (b *Bot) sayParked(ctx context.Context, t *Turn, park *parkError) []byte {
	text := t.account(cmp.Or(park.say, "Sorry, I could not finish this, and put it aside for whoever runs me."))
	if t.Activity.Type == activity.Invoke {
		t.answer = t.brokenAnswer(text)
	}
	var unsent *sendError
	if (t.isMessage() || t.resumes != "") && t.hold.Err() == nil && !errors.As(park, &unsent) {
		if err := t.deliver(ctx, t.message(text)); err != nil {
			zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("the person was not told that the turn is parked")
		}
	}
	answer, err := t.encodeAnswer()
	if err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Msg("a parked turn is left without an answer")
	}
	return answer
}
