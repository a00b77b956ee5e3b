// Package typing shows people that the bot is working.
package typing

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
)

const (
	after = 500 * time.Millisecond
	every = 3 * time.Second // the indicator of Teams fades after about that long
	// A reply that is ready waits for an indicator on its way, so keep this short.
	timeout = time.Second
	forever = time.Duration(math.MaxInt64)
)

// New returns the feature that shows the typing indicator of the channel: from half a second after a turn began, or
// after its last reply, until the turn ends. Nobody depends on it, so a failed send ends it silently. An indicator
// that the connector dropped to make room for others does not.
func New(to turn.Channel) turn.Feature {
	return turn.Feature{Name: "typing", Step: func(ctx context.Context, t *turn.Turn, name string) (context.Context, func(error)) {
		switch name {
		case turn.StepTurn:
			if t.IsMessage() && mayShow(t) {
				*shown.Of(t) = start(ctx, t.Activity, to)
			}
			return ctx, func(error) {
				(*shown.Of(t)).hold()(forever)
				*shown.Of(t) = nil
			}
		case turn.StepQuiet:
			(*shown.Of(t)).hold()(forever)
		case turn.StepSend:
			resume := (*shown.Of(t)).hold()
			return ctx, func(error) {
				if mayShow(t) {
					resume(after)
				} else {
					resume(forever)
				}
			}
		}
		return ctx, nil
	}}
}

// shown is the indicator of a turn; nil: nobody sees one.
var shown = turn.NewLocal[*indicator]()

// mayShow reports whether there is somebody to show it to, and nobody else.
func mayShow(t *turn.Turn) bool {
	inChannel := t.Activity.Conversation.ConversationType == "channel" // Teams does not show it there
	return !inChannel && !turn.RepliesInResponse(t) && turn.PrivateTo(t) == ""
}

// indicator is what is shown while a turn is at work.
type indicator struct {
	about *activity.Activity // the turn is not read while it is shown: a rerun writes it
	to    turn.Channel
	ctx   context.Context // the turn's; the timer's function cannot get one as a parameter
	timer *time.Timer

	// busy has one token while anything is being sent, so that no indicator follows its reply.
	// Whoever put it there may touch the fields below.
	busy  chan struct{}
	quiet time.Time // send no indicator before this
}

func start(ctx context.Context, about *activity.Activity, to turn.Channel) *indicator {
	i := &indicator{about: about, to: to, ctx: ctx, busy: make(chan struct{}, 1)}
	i.busy <- struct{}{}
	defer func() { <-i.busy }()
	i.timer = time.AfterFunc(after, i.show)
	return i
}

func (i *indicator) show() {
	i.busy <- struct{}{}
	defer func() { <-i.busy }()
	if time.Now().Before(i.quiet) {
		return
	}
	ctx, cancel := context.WithTimeout(i.ctx, timeout)
	defer cancel()
	to := i.about.Reference()
	_, err := i.to.Send(ctx, to, activity.To(to, activity.Typing))
	refused, answered := errors.AsType[*connector.Error](err)
	if err != nil && !(answered && refused.HeldBack) {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("typing indicator not sent")
		return
	}
	i.timer.Reset(every)
}

// hold waits for an indicator on its way and sends no more until resume is called, and then none for that time.
func (i *indicator) hold() (resume func(atLeast time.Duration)) {
	if i == nil {
		return func(time.Duration) {}
	}
	i.busy <- struct{}{}
	i.timer.Stop()
	return func(atLeast time.Duration) {
		i.quiet = time.Now().Add(atLeast)
		if atLeast < forever {
			i.timer.Reset(atLeast)
		}
		<-i.busy
	}
}
