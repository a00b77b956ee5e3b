// Package typing shows people that the bot is working.
package typing

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
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
	timeout    = time.Second
	sendWithin = 5 * time.Second
	tooLong    = 20 * time.Second // how long an action may take before people read that it takes long
	forever    = time.Duration(math.MaxInt64)
)

// New returns the feature that shows the typing indicator of the channel: from half a second after a turn began, or
// after its last reply, until the turn ends. If an action takes longer than 20 seconds, it says so once a turn. Nobody
// depends on either, so a failed send ends it silently. An indicator that the connector dropped to make room for
// others does not.
func New(to turn.Channel) turn.Feature {
	return turn.Feature{Name: "typing", Step: func(ctx context.Context, t *turn.Turn, name string) (context.Context, func(error)) {
		switch name {
		case turn.StepTurn:
			if t.IsMessage() && !turn.IsAlone(t) && mayTell(t) {
				i := start(ctx, t.Activity, to, t.Translate(turn.TakesLong))
				if !mayShow(t) {
					i.hold()(forever)
				}
				shown.Of(t).Store(i)
			}
			return ctx, func(error) { shown.Of(t).Swap(nil).end() }
		case turn.StepQuiet:
			shown.Of(t).Load().end()
		case turn.StepSend:
			resume := shown.Of(t).Load().hold()
			return ctx, func(error) {
				if mayShow(t) {
					resume(after)
				} else {
					resume(forever)
				}
			}
		}
		if strings.HasPrefix(name, turn.StepCall) {
			return ctx, shown.Of(t).Load().call()
		}
		return ctx, nil
	}}
}

// shown is the indicator of a turn; nil: nobody sees one. An action that was left may still begin when the turn ends.
var shown = turn.NewLocal[atomic.Pointer[indicator]]()

// mayTell reports whether there is somebody to tell that the bot is at work, and nobody else.
func mayTell(t *turn.Turn) bool { return !turn.RepliesInResponse(t) && turn.PrivateTo(t) == "" }

func mayShow(t *turn.Turn) bool {
	inChannel := t.Activity.Conversation.ConversationType == "channel" // Teams does not show it there
	return !inChannel && mayTell(t)
}

// indicator is what is shown while a turn is at work.
type indicator struct {
	about *activity.Activity // the turn is not read while it is shown: a rerun writes it
	to    turn.Channel
	ctx   context.Context // the turn's; the timer's function cannot get one as a parameter
	timer *time.Timer
	says  string // that an action takes long

	// busy has one token while anything is being sent, so that no indicator follows its reply.
	// Whoever put it there may touch the fields below.
	busy  chan struct{}
	quiet time.Time // send no indicator before this
	said  bool      // that an action takes long, or nothing is to be said any more
}

func start(ctx context.Context, about *activity.Activity, to turn.Channel, says string) *indicator {
	i := &indicator{about: about, to: to, ctx: ctx, says: says, busy: make(chan struct{}, 1)}
	i.busy <- struct{}{}
	defer func() { <-i.busy }()
	i.timer = time.AfterFunc(after, i.show)
	return i
}

// call says that an action takes long, if it does, and that was not said before.
func (i *indicator) call() (end func(error)) {
	if i == nil {
		return nil
	}
	timer := time.AfterFunc(tooLong, func() {
		i.busy <- struct{}{}
		defer func() { <-i.busy }()
		if i.said {
			return
		}
		i.said = true
		ctx, cancel := context.WithTimeout(i.ctx, sendWithin)
		defer cancel()
		if _, err := i.to.Reply(ctx, i.about.Reference(), i.about.ID, i.about.Reply(i.says)); err != nil {
			zerolog.Ctx(ctx).Debug().Err(err).Msg("could not say that an action takes long")
		}
	})
	return func(error) { timer.Stop() }
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

func (i *indicator) end() {
	resume := i.hold()
	if i != nil {
		i.said = true
	}
	resume(forever)
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
