package turn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/internal/stream"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

// outbox sends a turn's messages one by one: the phase Sending. It saves the record before each of
// them. From then on the turn timeout no longer applies: the person has to learn what the turn did.
type outbox struct{ *Turn }

const (
	// maxUnanswered is how often a message is sent to a channel that accepts it and never answers.
	// After that it counts as sent.
	maxUnanswered = 2
	// sendWithin limits one message, including the connector's own retries.
	sendWithin = 3 * time.Minute
	// probeWithin limits one check whether the channel answers.
	probeWithin = 15 * time.Second
	// A message that the channel does not accept is retried after a tenth of the time it has waited
	// so far, within these bounds or when the channel asks for it, and for at most an hour.
	leastDelay, mostDelay = 2 * time.Second, time.Minute
	sendFor               = time.Hour
)

// send is the phase Sending: it sends one message of the outbox, with which the record was saved. A
// message that another process was sending is sent again: it may never have left that process.
func (o *outbox) send(ctx context.Context) error {
	ctx = o.lasting(ctx)
	if len(o.rec.Outbox) > 0 {
		if err := o.sendFirst(ctx); err != nil {
			return err
		}
		o.rec.Outbox, o.since.progressed = o.rec.Outbox[1:], true
	}
	switch more := len(o.rec.Outbox) > 0; {
	case more && o.repliesInResponse():
		return nil
	case more:
		return o.Save(ctx)
	}
	o.rec.Outbox = nil
	o.stream.Resume()
	switch run := o.rec.Run; {
	case o.rec.Wait != nil:
		o.rec.Phase = waiting
		if n := len(o.rec.Sent); n > 0 {
			o.rec.Wait.shownIn(o.rec.Sent[n-1])
		}
	case run == nil:
		o.rec.Phase = done
	case run.Progress == nil:
		o.rec.Phase = planning
	default:
		o.rec.Phase = running
	}
	return nil
}

func (o *outbox) sendFirst(ctx context.Context) error {
	first := &o.rec.Outbox[0]
	if first.Unanswered > 0 && !first.Away.IsZero() {
		if err := o.probe(ctx); err != nil {
			return o.retryLater(ctx, err)
		}
	}
	m, err := first.read()
	if err != nil {
		return &deadLetter{reason: "its messages cannot be read", err: err}
	}
	ofStream := o.rec.Stream.Concerns(m)
	if ofStream && m.Type == activity.Message {
		o.stream.Pace(ctx)
	}
	err = o.deliver(ctx, m)
	if ofStream {
		again, failure := o.settleStream(ctx, m, err)
		if again {
			return o.sendFirst(ctx)
		}
		if err = failure; err == nil || errors.Is(err, stream.ErrStopped) {
			return err
		}
	}
	unanswered := errors.Is(err, connector.ErrNoAnswer)
	if unanswered && ctx.Err() == nil {
		first.Unanswered++
	}
	switch {
	case err == nil:
		return nil
	case first.Unanswered >= maxUnanswered && unanswered && !is[*connector.Error](err): // a refusal is an answer
		// It may have arrived twice already, and a third attempt would tell no more.
		zerolog.Ctx(ctx).Warn().Msg("nobody answered a message that was sent twice, it may have arrived")
		o.Count(CountReplies, "unsure")
		o.rec.Sent = append(o.rec.Sent, "")
		return nil
	case !o.comesBack(err) && m.Amends() && is[*connector.Error](err): // that says nothing about new messages
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the channel does not let a sent message be changed")
		o.Count(CountReplies, "failed")
		o.rec.Sent = append(o.rec.Sent, "")
		return nil
	case first.Alone && deadly(err) != "" && o.sendPersonally(ctx, m) == nil:
		o.rec.Sent = append(o.rec.Sent, "")
		return nil
	case !o.comesBack(err):
		o.Count(CountReplies, "failed")
		o.rec.Outbox = nil
		o.retire(ctx, err)
		return err
	case !unanswered:
		first.Unanswered = 0 // it is known not to have arrived
	}
	return o.retryLater(ctx, err)
}

// sendPersonally sends a message to the person's own chat with the bot, because the bot is not in this
// one. If a process is killed meanwhile, the next one sends it no second time.
func (o *outbox) sendPersonally(ctx context.Context, m *activity.Activity) error {
	a, here := o.Activity, actions.To(o.Activity)
	if a.From.ID == "" || a.Conversation.Personal() && !a.FromExtension() {
		return actions.ErrUnknownRecipient
	}
	out := *m
	out.ReplyToID = ""
	p := &post{Notice: actions.Notice{
		To:         actions.Recipient{Channel: here.Channel, Bot: here.Bot, Caller: here.Caller, User: a.From.ID, Via: here.Conversation},
		Key:        fmt.Sprintf("alone\n%s\n%d", o.ID, len(o.rec.Sent)),
		Activities: []*activity.Activity{&out},
	}}
	_, err := o.engine.notify(ctx, p)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("the person could not be told in their own chat with the bot either")
	}
	return err
}

// probe sends a typing indicator, which is harmless if it arrives twice, to a channel that did not
// answer a message. It returns an error as long as the channel gives no answer at all, and the
// message waits. An indicator that the connector did not send says nothing about the channel.
func (o *outbox) probe(ctx context.Context) error {
	if o.private() != "" { // others would see it
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	to := o.Activity.Reference()
	_, err := o.engine.cfg.Channel.Send(ctx, to, activity.To(to, activity.Typing))
	if refused, ok := errors.AsType[*connector.Error](err); ok && !refused.HeldBack {
		return nil // that is an answer
	}
	return err
}

// retryLater makes the turn wait for the channel at its place in the queue. It gives up after sendFor.
func (o *outbox) retryLater(ctx context.Context, err error) error {
	first := &o.rec.Outbox[0]
	if first.Away.IsZero() {
		first.Away = time.Now().UTC()
	}
	waited := time.Since(first.Away)
	if waited > sendFor {
		first.Away = time.Time{} // an operator's retry gets the whole time again
		if err := o.Save(ctx); err != nil {
			return err
		}
		o.Count(CountReplies, "given_up")
		return &deadLetter{reason: "the channel did not take its message for " + sendFor.String(), err: err}
	}
	var refused *connector.Error
	after := max(min(max(waited/10, leastDelay), mostDelay), 0)
	if errors.As(err, &refused) { // the channel's Retry-After
		after = max(after, min(refused.RetryAfter, sendFor))
	}
	w := &Wait{For: forChannel, Until: time.Now().Add(after).UTC(), Then: sending}
	if o.rec.Wait != nil {
		w.asked = o.rec.Wait.asked
	}
	o.rec.Phase, o.rec.Wait = waiting, w
	if err := o.Save(ctx); err != nil {
		return err
	}
	o.Count(CountReplies, "retried")
	return fmt.Errorf("%w: %w", errLater, err)
}

// comesBack reports whether the channel may accept later what it refused now. Nobody asks for a
// notice again, so it is retried after every refusal, except a refusal of its very text or of
// everything the bot says there.
func (o *outbox) comesBack(err error) bool {
	var refused *connector.Error
	switch {
	case errors.Is(err, connector.ErrBadCall):
		return false
	case o.rec.Notice != nil:
		return deadly(err) == "" && !(errors.As(err, &refused) && (refused.Status == http.StatusBadRequest ||
			refused.Status == http.StatusGone || refused.Status == http.StatusRequestEntityTooLarge))
	case errors.Is(err, connector.ErrHostNotAllowed):
		return false
	case errors.As(err, &refused):
		return refused.Status == http.StatusPreconditionFailed || refused.Status == http.StatusTooManyRequests ||
			refused.Status == http.StatusBadGateway || refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusGatewayTimeout
	}
	return true // no answer, or no token: an expired secret gets renewed, too
}

// deliver sends one message. It may take longer than the turn, but stops when the lease is lost.
func (o *outbox) deliver(ctx context.Context, a *activity.Activity) error {
	o.typing.pause()
	defer o.typing.resume()
	if o.repliesInResponse() && !a.Amends() {
		return o.reply(a)
	}
	if err := o.lease.Err(); err != nil {
		return fmt.Errorf("send reply: %w", err)
	}
	began := time.Now()
	ctx, end := o.step(ctx, "send")
	lasting, cancel := context.WithTimeout(o.lasting(ctx), sendWithin)
	defer cancel()
	var tries atomic.Int32
	lasting = httptrace.WithClientTrace(lasting, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if tries.Add(1) > 1 {
			o.Count(CountReplies, "retried")
		}
	}})
	id, err := o.transmit(lasting, a)
	end(err)
	o.engine.countFor(o.ID, CountReplyTime, "", time.Since(began))
	if err != nil {
		if lost := o.lease.Err(); lost != nil {
			err = lost
		}
		return fmt.Errorf("%w: %w", errUnsent, err)
	}
	o.Count(CountReplies, "ok")
	o.rec.Sent, o.since.spoke = append(o.rec.Sent, id), true
	if id != "" && a.Targeted() && len(a.Attachments) > 0 && o.docs.writable() {
		w := state.Of[targetedCards](o.Conversation)
		w.IDs = newest(append(w.IDs, id), maxTargeted)
	}
	zerolog.Ctx(ctx).Debug().Str("sent_id", id).Dur("took", time.Since(began)).Msg("reply sent")
	return nil
}

// transmit replies to the turn's activity, or speaks into its conversation if there is nothing to
// reply to. It drops a typing indicator that there is no room for: later it would no longer be
// true. A message to edit or delete that is gone counts as edited or deleted.
func (o *outbox) transmit(ctx context.Context, a *activity.Activity) (id string, err error) {
	to, channel := o.Activity.Reference(), o.engine.cfg.Channel
	if unshown := a.Unshown(); unshown != "" {
		zerolog.Ctx(ctx).Warn().Str("unshown", unshown).Msg("the channel will not show all of a message")
	}
	var refused *connector.Error
	switch {
	case a.Amends():
		if a.Type == activity.MessageDelete {
			err = channel.Delete(ctx, to, a.ID, a.Targeted())
		} else {
			message := *a
			message.Type, message.ReplyToID = activity.Message, ""
			err = channel.Update(ctx, to, a.ID, &message)
		}
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound && !o.rec.Stream.Concerns(a) {
			zerolog.Ctx(ctx).Info().Str("sent_id", a.ID).Msg("a message to change or delete is gone")
			err = nil
		}
		return a.ID, err
	case a.ReplyToID == "":
		id, err = channel.Send(ctx, to, a)
	default:
		id, err = channel.Reply(ctx, to, a.ReplyToID, a)
	}
	if a.Type == activity.Typing && errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests {
		return "", nil
	}
	return id, err
}

// reply puts a message into the HTTP response.
func (o *outbox) reply(a *activity.Activity) error {
	out := a.Fit()
	out.ServiceURL, out.CallerID = "", "" // the caller knows them
	raw, err := out.EncodeToSend()
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errUnsent, connector.ErrBadCall, err)
	}
	o.rec.Answer.Activities = append(o.rec.Answer.Activities, raw)
	o.rec.Sent = append(o.rec.Sent, "")
	return nil
}

// What people read while an answer is written.
const (
	thinking  texts.Text = "Thinking…"
	working   texts.Text = "Working on it…"
	takesLong texts.Text = "This is taking a while. I'll message you when it's done."
)

// newStream makes the stream of a turn; nil, which is safe to use, if there is nothing to show and no
// message open that a lost process left.
func newStream(t *Turn) *stream.Stream {
	about, judging := *t.Activity, guard{t.exec}
	cfg := stream.Config{
		About: &about, Channel: t.engine.cfg.Channel, Lease: t.lease, Saved: t.rec.Stream, Off: !mayStream(t), Speaks: len(t.rec.Outbox) > 0,
		Longer: t.Translate(takesLong), Reply: func(text string) *activity.Activity { return message(&about, text) },
		Hush: t.typing.hush, Cause: cause,
	}
	if !judging.off() { // then nobody reads what was not judged
		cfg.Judge = judging.ask
	}
	s := stream.New(cfg)
	if s.Opens() {
		t.OnProgress = func(text string) { s.Progress(markdown.Tame(text, nil)) } // a server may have written it
		t.Draft = func(text string) {
			draft := t.citeDraft(text)
			if t.Activity.ChannelID == activity.Teams {
				draft = markdown.FitDraft(draft)
			}
			if shown := markdown.TameDraft(draft, t.engine.cfg.PictureHosts); shown != "" || text == "" {
				s.Draft(shown)
			}
		}
	}
	return s
}

// mayStream reports whether the turn's answer may be shown while it is written.
func mayStream(t *Turn) bool {
	return t.engine.cfg.Stream && t.IsMessage() && t.rec.Notice == nil && !t.rec.Stateless && t.docs.writable() &&
		!t.repliesInResponse() && !t.engine.has(func(f *Feature) bool { return f.Say != nil }) && stream.Streams(t.Activity) && t.Activity.CallerApp() == "" &&
		time.Now().After(state.Peek[reference](t.Conversation).Whole)
}

// endStream has the messages end the growing message that is open, see [stream.Stream.End].
func (o *outbox) endStream(messages []*activity.Activity) ([]*activity.Activity, error) {
	messages, ended, err := o.stream.End(messages)
	o.noteBarred()
	if ended != nil {
		o.rec.Stream = ended
	}
	return messages, err
}

// noteBarred has the conversation's state remember that it takes no growing messages.
func (o *outbox) noteBarred() {
	if o.stream != nil && !o.stream.Barred().IsZero() && o.docs.writable() {
		state.Of[reference](o.Conversation).Whole = o.stream.Barred().UTC().Truncate(time.Second)
	}
}

// leaveStream ends what is still open when the turn ends.
func (o *outbox) leaveStream(ctx context.Context) {
	if o.stream != nil {
		o.stream.Leave(ctx)
		o.noteBarred()
	}
}

// settleStream acts on the channel's answer to m, the end of a growing message or its replacement.
// again says that the outbox now begins with something else to be sent at once.
func (o *outbox) settleStream(ctx context.Context, m *activity.Activity, err error) (again bool, _ error) {
	first, rest := &o.rec.Outbox[0], o.rec.Outbox[1:]
	sent := stream.Sent{Message: m, Err: err, Retryable: err != nil && o.comesBack(err), Repeated: first.Unanswered > 0}
	if len(rest) > 0 {
		sent.Next, _ = rest[0].read() // one that cannot be read is found when it is its turn
	}
	settled := o.stream.Settle(ctx, o.rec.Stream, sent)
	switch id := o.rec.Stream.ID; {
	case settled.Done && err == nil: // the end of a growing message is answered without an id
		o.rec.Sent[len(o.rec.Sent)-1] = id
	case settled.Done:
		o.rec.Sent, o.since.spoke = append(o.rec.Sent, id), true
	case settled.Repeat:
		first.Unanswered++
		return true, nil
	}
	if settled.Instead == nil {
		return false, settled.Err
	}
	if settled.Skip {
		rest = rest[1:]
	}
	var instead []outgoing
	for _, one := range settled.Instead {
		out, err := outgoingOf(one)
		if err != nil {
			return false, err
		}
		instead = append(instead, out)
	}
	o.rec.Outbox = append(instead, rest...)
	return true, nil
}
