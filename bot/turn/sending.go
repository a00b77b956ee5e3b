package turn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// This file holds the phase Sending: what is in the outbox leaves, message by message. The
// record is saved before each of them. From then on the turn's own time does not matter
// any more: what it has done is to be told.

const (
	// maxUnanswered is how often a message is sent to a channel that takes it and never
	// answers. Then it counts as sent.
	maxUnanswered = 2
	// sendWithin bounds one message, with the connector's own tries.
	sendWithin = 3 * time.Minute
	// probeWithin bounds a look at whether the channel answers.
	probeWithin = 15 * time.Second
	// A channel that is away is tried again after a tenth of the time that it has been
	// away for the message, within these bounds or when it asks for it, and no longer than
	// an hour.
	leastDelay, mostDelay = 2 * time.Second, time.Minute
	sendFor               = time.Hour
)

// Say sends texts to the conversation, each as a message of its own, labelled as generated
// by AI. Long texts are split. What the turn changed in state is saved first, so that
// nothing is reported as done that is then lost.
func (t *Turn) Say(ctx context.Context, texts ...string) error {
	return t.Send(ctx, t.spoken(ctx, texts)...)
}

// Tell sends a text of the bot itself, which no model wrote, so it is not labelled.
// Otherwise it is like [Turn.Say].
func (t *Turn) Tell(ctx context.Context, text string) error {
	return t.Send(ctx, t.messages(text)...)
}

// Send saves what the turn changed and then sends the activities, in order. It is for
// cards and the like; [Turn.Say] and [Turn.Tell] are for texts. When the process is killed
// meanwhile, another one sends what is left, and the handler that called Send is not run
// again: change state before you speak. Once the first has begun to leave, ctx does not
// end it.
func (t *Turn) Send(ctx context.Context, activities ...*activity.Activity) error {
	if err := t.putAll(ctx, nil, activities); err != nil {
		return err
	}
	if err := t.save(ctx); err != nil {
		t.rec.Outbox = nil
		return err
	}
	return t.empty(t.lasting(ctx))
}

// put has the loop save and then send the texts, as Say does.
func (t *Turn) put(ctx context.Context, texts ...string) error {
	return t.putAll(ctx, texts, t.spoken(ctx, texts))
}

// putAll has the loop save and then send the messages. texts are what the hook AfterSay is
// told of them.
func (t *Turn) putAll(_ context.Context, texts []string, messages []*activity.Activity) error {
	t.rec.Outbox = make([]Message, len(messages))
	for i, m := range messages {
		raw, err := m.Encode()
		if err != nil {
			t.rec.Outbox = nil
			return fmt.Errorf("send: %w", err)
		}
		t.rec.Outbox[i].Activity = raw
	}
	if run := t.rec.Run; run != nil {
		run.InFlight = 0
	}
	t.rec.Phase, t.unsaved, t.texts = Sending, true, texts
	return nil
}

// spoken are the messages of texts that a model wrote.
func (t *Turn) spoken(ctx context.Context, texts []string) []*activity.Activity {
	var all []*activity.Activity
	for _, text := range texts {
		for _, m := range t.messages(text) {
			m.LabelAI()
			all = append(all, m)
		}
		if t.engine.cfg.Feedback {
			all[len(all)-1].AskFeedback("default")
		}
	}
	if hook := t.engine.cfg.Hooks.BeforeSend; hook != nil {
		for _, m := range all {
			hook(ctx, t, m)
		}
	}
	return all
}

// messages are those of a text, which is split where it is long.
func (t *Turn) messages(text string) []*activity.Activity {
	var all []*activity.Activity
	for _, part := range split(text) {
		all = append(all, t.Message(part))
	}
	return all
}

// Message returns a markdown reply to the turn's activity, to be sent with [Turn.Send].
func (t *Turn) Message(text string) *activity.Activity {
	m := t.Activity.Reply(text)
	m.TextFormat = "markdown"
	m.Locale = t.Activity.Locale
	return m
}

// sendOutbox is the phase Sending. A message that another process was sending is sent
// again: it may never have left that process.
func (t *Turn) sendOutbox(ctx context.Context) error {
	ctx = t.lasting(ctx)
	if len(t.rec.Outbox) > 0 {
		if first := &t.rec.Outbox[0]; first.Unanswered > 0 && !first.Away.IsZero() {
			if err := t.probe(ctx); err != nil {
				return t.later(ctx, err)
			}
		}
	}
	if err := t.empty(ctx); err != nil {
		return err
	}
	switch run := t.rec.Run; {
	case t.rec.Wait != nil:
		t.rec.Phase = Waiting
	case run == nil:
		t.rec.Phase, t.clean = Done, true
	case run.Progress == nil:
		t.rec.Phase = Planning
	default:
		t.rec.Phase = Running
	}
	t.afterSay(ctx)
	return nil
}

// empty sends what is in the outbox, in order. The record was saved with it.
func (t *Turn) empty(ctx context.Context) error {
	for first := true; len(t.rec.Outbox) > 0; first = false {
		if !first && !t.repliesInResponse() {
			if err := t.save(ctx); err != nil {
				return err
			}
		}
		o := &t.rec.Outbox[0]
		m, err := activity.Decode(o.Activity)
		if err != nil {
			return &deadLetter{reason: "its messages cannot be read", err: err}
		}
		err = t.deliver(ctx, m)
		if errors.Is(err, connector.ErrNoAnswer) && ctx.Err() == nil {
			o.Unanswered++
		}
		switch {
		case err == nil:
		case o.Unanswered >= maxUnanswered && neverAnswered(err):
			// It may have arrived twice, and a third one would not tell.
			zerolog.Ctx(ctx).Warn().Msg("nobody answered a message that was sent twice, it may have arrived")
			t.engine.meter.reply("unsure")
			t.rec.Sent = append(t.rec.Sent, "")
		default:
			return t.undelivered(ctx, err)
		}
		t.rec.Outbox, t.further = t.rec.Outbox[1:], true
	}
	t.rec.Outbox = nil
	return nil
}

// neverAnswered reports whether the last attempt was written whole and got no answer. A
// refusal of a later try within the same attempt is an answer.
func neverAnswered(err error) bool {
	var refused *connector.Error
	return errors.Is(err, connector.ErrNoAnswer) && !errors.As(err, &refused)
}

// undelivered says what becomes of a message that was not delivered: when the channel is
// away, the turn waits for it and goes on later, with nothing out of order.
func (t *Turn) undelivered(ctx context.Context, err error) error {
	if !t.comesBack(err) {
		t.engine.meter.reply("failed")
		t.rec.Outbox = nil
		t.retire(ctx, err)
		return err
	}
	if !errors.Is(err, connector.ErrNoAnswer) {
		t.rec.Outbox[0].Unanswered = 0 // it is known not to have arrived
	}
	return t.later(ctx, err)
}

// probe sends what nobody minds twice, to a channel that gave no answer to a message: as
// long as it gives none at all, the message waits. It says whether that is so. What was
// held back before it left says nothing about the channel.
func (t *Turn) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	to := t.Activity.Reference()
	_, err := t.engine.cfg.Channel.Send(ctx, to, activity.To(to, activity.Typing))
	var refused *connector.Error
	if errors.As(err, &refused) && !errors.Is(err, connector.ErrHeldBack) {
		return nil // that is an answer
	}
	return err
}

// later has the turn wait for the channel at its place in the queue, and gives up in the
// end.
func (t *Turn) later(ctx context.Context, err error) error {
	o := &t.rec.Outbox[0]
	if o.Away.IsZero() {
		o.Away = time.Now().UTC()
	}
	waited := time.Since(o.Away)
	if waited > sendFor {
		o.Away = time.Time{} // when an operator has it tried again, it has that time anew
		if err := t.save(ctx); err != nil {
			return err
		}
		t.engine.meter.reply("given_up")
		return &deadLetter{reason: "the channel did not take its message for " + sendFor.String(), err: err}
	}
	var refused *connector.Error
	after := max(min(max(waited/10, leastDelay), mostDelay), 0)
	if errors.As(err, &refused) { // the channel says how long it wants to be left alone
		after = max(after, min(refused.RetryAfter, sendFor))
	}
	asked := t.rec.Wait
	t.rec.Phase, t.rec.Wait = Waiting, &Wait{For: ForChannel, Until: time.Now().Add(after).UTC(), Then: Sending}
	if asked != nil {
		t.rec.Wait.Approval = asked.Approval
	}
	if err := t.save(ctx); err != nil {
		return err
	}
	t.engine.meter.reply("retried")
	return &laterError{after: after, err: err}
}

// comesBack reports whether the channel may take later what it did not take now. A notice
// is not asked for again by anybody, so it comes back after every refusal but one of its
// very text or of all that the bot says there.
func (t *Turn) comesBack(err error) bool {
	var refused *connector.Error
	switch {
	case errors.Is(err, connector.ErrBadCall), errors.Is(err, activity.ErrTooLarge):
		return false
	case t.rec.Notice != nil:
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

// sendError is a reply that could not be sent.
type sendError struct{ error }

func (e *sendError) Unwrap() error { return e.error }

// repliesInResponse reports whether the turn's replies travel in the HTTP response.
func (t *Turn) repliesInResponse() bool { return t.rec.Answer != nil && t.rec.Answer.Activities != nil }

// deliver sends one message. It may take longer than the turn, but not go on when the
// queue is another's.
func (t *Turn) deliver(ctx context.Context, a *activity.Activity) error {
	t.typing.hold()
	defer t.typing.release()
	if t.repliesInResponse() {
		return t.reply(a)
	}
	if err := t.lease.Err(); err != nil {
		return fmt.Errorf("send reply: %w", err)
	}
	began := time.Now()
	_, s := step(ctx, "send")
	lasting, cancel := context.WithTimeout(t.lasting(s.in(ctx)), sendWithin)
	defer cancel()
	lasting = connector.OnRetry(lasting, func() { t.engine.meter.reply("retried") })
	id, err := t.transmit(lasting, a)
	s.end(err)
	t.engine.meter.replyTook(time.Since(began))
	if err != nil {
		if lost := t.lease.Err(); lost != nil {
			err = lost
		}
		return &sendError{fmt.Errorf("send reply: %w", err)}
	}
	t.engine.meter.reply("ok")
	t.rec.Sent, t.spoke = append(t.rec.Sent, id), true
	zerolog.Ctx(ctx).Debug().Str("sent_id", id).Dur("took", time.Since(began)).Msg("reply sent")
	return nil
}

// transmit answers the turn's activity, or speaks into its conversation when there is
// nothing to answer. A typing indicator that there is no room for is left out, as it would
// come too late to be true.
func (t *Turn) transmit(ctx context.Context, a *activity.Activity) (id string, err error) {
	to := t.Activity.Reference()
	if a.ReplyToID == "" {
		id, err = t.engine.cfg.Channel.Send(ctx, to, a)
	} else {
		id, err = t.engine.cfg.Channel.Reply(ctx, to, a.ReplyToID, a)
	}
	var refused *connector.Error
	if a.Type == activity.Typing && errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests {
		return "", nil
	}
	return id, err
}

// reply puts a message into the HTTP response.
func (t *Turn) reply(a *activity.Activity) error {
	out := a.Fit()
	out.ServiceURL, out.CallerID = "", "" // the caller knows
	raw, err := out.Encode()
	if err == nil {
		err = activity.CheckSize(raw)
	}
	if err != nil {
		return &sendError{fmt.Errorf("send reply: %w", err)}
	}
	t.rec.Answer.Activities = append(t.rec.Answer.Activities, raw)
	t.rec.Sent = append(t.rec.Sent, "")
	return nil
}

// encodeAnswer is nil when nobody waits.
func (t *Turn) encodeAnswer() ([]byte, error) {
	if !t.rec.Awaited {
		return nil, nil
	}
	a := Answer{}
	if t.rec.Answer != nil {
		a = *t.rec.Answer
	}
	if a.Activities != nil {
		body, err := json.Marshal(map[string]any{"activities": a.Activities})
		if err != nil {
			return nil, fmt.Errorf("write the answer: %w", err)
		}
		a.Body, a.Activities = jsontext.Value(body), nil
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	return raw, nil
}

// maxPart is how many UTF-16 code units of text one message carries: well below the limits
// of the channels (Teams: 100 KB of UTF-16 for all of a message).
const maxPart = 16_000

// split cuts a text into parts of at most maxPart UTF-16 code units. Joined again the
// parts are the text. It cuts after a paragraph where it can, else after a line, a word or
// a character, and before a code block rather than in it.
func split(text string) []string {
	var parts []string
	for {
		limit := prefix(text, maxPart)
		if limit == len(text) {
			break
		}
		cut := cutAt(text[:limit])
		parts = append(parts, text[:cut])
		text = text[cut:]
	}
	if strings.TrimSpace(text) != "" || len(parts) == 0 {
		parts = append(parts, text)
	}
	return parts
}

// prefix returns how many bytes of text fit into the given number of UTF-16 code units.
func prefix(text string, units int) int {
	if len(text) <= units {
		return len(text) // a code unit is at least a byte of UTF-8
	}
	for i, r := range text {
		if units -= utf16.RuneLen(r); units < 0 {
			return i
		}
	}
	return len(text)
}

// cutAt returns where to cut a text that is too long. A border in the first half would
// make the part needlessly short.
func cutAt(text string) int {
	half := len(text) / 2
	if fence := openFence(text); fence > 0 {
		text = text[:fence]
		half = min(half, fence/2)
	}
	for _, border := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(text, border); i >= half {
			return i + len(border)
		}
	}
	return len(text)
}

// openFence returns where the code block begins that the text ends in, or -1.
func openFence(text string) int {
	open, at := -1, 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			if open < 0 {
				open = at
			} else {
				open = -1
			}
		}
		at += len(line)
	}
	return open
}
