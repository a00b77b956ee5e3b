package turn

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

const (
	typingAfter = 500 * time.Millisecond
	typingEvery = 3 * time.Second // the indicator of Teams fades after about that long
	// A reply that is ready waits for an indicator on its way, so keep this short.
	typingTimeout = time.Second
)

// typing shows the person that the bot is working: from half a second after the turn began, or
// after its last reply, until the turn ends. Nobody depends on it, so a failed send ends it
// silently. An indicator that the connector dropped to make room for others does not.
type typing struct {
	turn  *Turn // not read while it is shown: a rerun writes the turn
	about *activity.Activity
	to    Channel
	ctx   context.Context // the turn's; the timer's function cannot get one as a parameter
	timer *time.Timer

	// busy has one token while anything is being sent, so that no indicator follows its reply.
	// Whoever put it there may touch the fields below.
	busy  chan struct{}
	quiet time.Time // send no indicator before this
}

// startTyping returns nil, which is safe to use, if there is nobody to show it to.
func startTyping(ctx context.Context, t *Turn) *typing {
	if !t.IsMessage() || t.repliesInResponse() || t.private() != "" || t.Activity.Conversation.ConversationType == "channel" { // Teams does not show it there
		return nil
	}
	ty := &typing{turn: t, about: t.Activity, to: t.engine.cfg.Channel, ctx: ctx, busy: make(chan struct{}, 1)}
	ty.busy <- struct{}{}
	defer func() { <-ty.busy }()
	ty.timer = time.AfterFunc(typingAfter, ty.show)
	return ty
}

func (ty *typing) show() {
	ty.busy <- struct{}{}
	defer func() { <-ty.busy }()
	if time.Now().Before(ty.quiet) {
		return
	}
	ctx, cancel := context.WithTimeout(ty.ctx, typingTimeout)
	defer cancel()
	to := ty.about.Reference()
	_, err := ty.to.Send(ctx, to, activity.To(to, activity.Typing))
	refused, answered := errors.AsType[*connector.Error](err)
	if err != nil && !(answered && refused.HeldBack) {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("typing indicator not sent")
		return
	}
	ty.timer.Reset(typingEvery)
}

// pause waits for an indicator on its way and sends no more until resume.
func (ty *typing) pause() {
	if ty == nil {
		return
	}
	ty.busy <- struct{}{}
	ty.timer.Stop()
}

func (ty *typing) resume() {
	if ty == nil {
		return
	}
	ty.quiet = time.Now().Add(typingAfter)
	ty.timer.Reset(typingAfter)
	<-ty.busy
}

// hush sends no more indicators until the next reply, and waits if one is on its way.
func (ty *typing) hush() {
	if ty == nil {
		return
	}
	ty.pause()
	ty.quiet = time.Now().Add(forever)
	<-ty.busy
}

// stop ends the indicator, and waits if one is on its way. The turn forgets it.
func (ty *typing) stop() {
	if ty == nil {
		return
	}
	ty.hush()
	ty.turn.typing = nil
}
