package bot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

const (
	// maxUnanswered is how often a message is sent to a channel that takes it and never
	// answers. Then it counts as sent.
	maxUnanswered = 2
	// sendWithin bounds one message, with the connector's own tries.
	sendWithin = 3 * time.Minute
	// knockWithin bounds a look at whether the channel answers.
	knockWithin = 15 * time.Second
	// A channel that is away is tried again after a tenth of the time that it has been
	// away for the message, within these bounds or when it asks for it, and no longer than
	// an hour.
	leastDelay, mostDelay = 2 * time.Second, time.Minute
	sendFor               = time.Hour
)

// outbox is what one call of [Turn.Send] sends. What the journal says of it is
// written before each message leaves. From then on the turn's own time does not matter
// any more: what it has done is to be told.
type outbox struct {
	Messages []jsontext.Value `json:"messages"`
	Next     int              `json:"next,omitempty"` // the one that is being sent
	// Unanswered is how often its whole request was written and no answer came. Only an
	// attempt that is over counts: a process that was killed tells nothing of what it sent.
	Unanswered int       `json:"unanswered,omitempty"`
	Away       time.Time `json:"away,omitzero"` // since when the channel has not taken it

	list []*activity.Activity
}

// next goes on to the next message.
func (o *outbox) next() { o.Next, o.Unanswered, o.Away = o.Next+1, 0, time.Time{} }

func (o *outbox) encode() (err error) {
	o.Messages, err = encodeAll(o.list)
	return err
}

// lasting is ctx without the end of the turn's time: it ends when the lane is lost or
// the turn is cut off.
func (t *Turn) lasting(ctx context.Context) context.Context {
	lasting := zerolog.Ctx(ctx).WithContext(t.lane)
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		lasting = trace.ContextWithSpan(lasting, s)
	}
	return lasting
}

// flush sends what another process left in the outbox. The message that was on its
// way is sent again: it may never have left that process.
func (t *Turn) flush(ctx context.Context) error {
	o := t.outbox
	if o == nil {
		return nil
	}
	ctx = t.lasting(ctx)
	if o.Unanswered > 0 && !o.Away.IsZero() {
		if err := t.knock(ctx); err != nil {
			return t.later(ctx, err)
		}
	}
	return t.dispatch(ctx)
}

// dispatch sends the messages of the outbox that are left, in order. The journal
// knows of the first one already.
func (t *Turn) dispatch(ctx context.Context) error {
	o := t.outbox
	for first := true; o.Next < len(o.list); first = false {
		if !first && t.replies == nil {
			if err := t.save(ctx); err != nil {
				return err
			}
		}
		err := t.deliver(ctx, o.list[o.Next])
		if errors.Is(err, connector.ErrNoAnswer) && ctx.Err() == nil {
			o.Unanswered++
		}
		switch {
		case err == nil:
			t.gotFurther()
			o.next()
		case o.Unanswered >= maxUnanswered && neverAnswered(err):
			t.takeAsSent(ctx)
		default:
			return t.undelivered(ctx, err)
		}
	}
	t.outbox = nil
	return nil
}

// neverAnswered reports whether the last attempt was written whole and got no answer. A
// refusal of a later try within the same attempt is an answer.
func neverAnswered(err error) bool {
	var refused *connector.Error
	return errors.Is(err, connector.ErrNoAnswer) && !errors.As(err, &refused)
}

// takeAsSent goes on behind a message that was sent twice without an answer: it may
// have arrived twice, and a third one would not tell.
func (t *Turn) takeAsSent(ctx context.Context) {
	zerolog.Ctx(ctx).Warn().Int("message", t.outbox.Next).Msg("nobody answered a message that was sent twice, it may have arrived")
	t.bot.meter.reply("unsure")
	t.Sent = append(t.Sent, "")
	t.gotFurther()
	t.outbox.next()
}

// undelivered says what becomes of a message that was not delivered: when the channel
// is away, the turn waits for it and goes on later, with nothing out of order.
func (t *Turn) undelivered(ctx context.Context, err error) error {
	o := t.outbox
	if !t.comesBack(err) {
		t.bot.meter.reply("failed")
		t.outbox = nil
		t.retire(ctx, err)
		return err
	}
	if !errors.Is(err, connector.ErrNoAnswer) {
		o.Unanswered = 0 // it is known not to have arrived
	}
	return t.later(ctx, err)
}

// knock sends what nobody minds twice, to a channel that gave no answer to a message:
// as long as it gives none at all, the message waits. It says whether that is so. What was
// held back before it left says nothing about the channel.
func (t *Turn) knock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knockWithin)
	defer cancel()
	to := t.Activity.Reference()
	_, err := t.bot.cfg.Channel.Send(ctx, to, activity.To(to, activity.Typing))
	var refused *connector.Error
	if errors.As(err, &refused) && !errors.Is(err, connector.ErrHeldBack) {
		return nil // that is an answer
	}
	return err
}

// later has the turn wait for the channel, and gives up in the end.
func (t *Turn) later(ctx context.Context, err error) error {
	o := t.outbox
	if o.Away.IsZero() {
		o.Away = time.Now().UTC()
	}
	waited := time.Since(o.Away)
	if waited > sendFor {
		o.Away = time.Time{} // when an operator has it tried again, it has that time anew
	}
	if err := t.save(ctx); err != nil {
		return err
	}
	if waited > sendFor {
		t.bot.meter.reply("given_up")
		return &parkError{reason: "the channel did not take its message for " + sendFor.String(), err: err}
	}
	t.bot.meter.reply("retried")
	return &laterError{after: max(min(max(waited/10, leastDelay), mostDelay), pauseOf(err)), err: err}
}

// pauseOf is how long the channel asks to be left alone, within the time that a message
// is tried for.
func pauseOf(err error) time.Duration {
	var refused *connector.Error
	if !errors.As(err, &refused) {
		return 0
	}
	return min(refused.RetryAfter, sendFor)
}

// comesBack reports whether the channel may take later what it did not take now. A
// notice is not asked for again by anybody, so it comes back after every refusal but one
// of its very text or of all that the bot says there.
func (t *Turn) comesBack(err error) bool {
	var refused *connector.Error
	switch {
	case errors.Is(err, connector.ErrBadCall), errors.Is(err, activity.ErrTooLarge), errors.Is(err, connector.ErrUnknownCaller):
		return false
	case t.notice != nil:
		return deadly(err) == "" && !(errors.As(err, &refused) && (refused.Status == http.StatusBadRequest ||
			refused.Status == http.StatusGone || refused.Status == http.StatusRequestEntityTooLarge))
	case errors.Is(err, connector.ErrHostNotAllowed):
		return false
	case errors.As(err, &refused):
		return refused.Status == http.StatusPreconditionFailed || refused.Status == http.StatusTooManyRequests ||
			refused.Status == http.StatusBadGateway || refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusGatewayTimeout
	}
	return true // nobody answered, or there is no token: a secret that ran out is renewed, too
}

// deliver sends one message. It may take longer than the turn, but not go on when
// the lane is another's.
func (t *Turn) deliver(ctx context.Context, a *activity.Activity) error {
	t.typing.hold()
	defer t.typing.release()
	if t.replies != nil {
		if err := t.replies.add(a); err != nil {
			return &sendError{fmt.Errorf("send reply: %w", err)}
		}
		t.Sent = append(t.Sent, "")
		return nil
	}
	if err := t.hold.Err(); err != nil {
		return fmt.Errorf("send reply: %w", err)
	}
	began := time.Now()
	_, s := step(ctx, "send")
	lasting, cancel := context.WithTimeout(t.lasting(s.in(ctx)), sendWithin)
	defer cancel()
	lasting = connector.OnRetry(lasting, func() { t.bot.meter.reply("retried") })
	id, err := t.send(lasting, a)
	s.end(err)
	t.bot.meter.replyTook(time.Since(began))
	if err != nil {
		if lost := t.hold.Err(); lost != nil {
			err = lost
		}
		return &sendError{fmt.Errorf("send reply: %w", err)}
	}
	t.bot.meter.reply("ok")
	t.Sent = append(t.Sent, id)
	zerolog.Ctx(ctx).Debug().Str("sent_id", id).Dur("took", time.Since(began)).Msg("reply sent")
	return nil
}
