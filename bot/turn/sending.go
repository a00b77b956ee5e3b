package turn

import (
	"cmp"
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
	"github.com/planbot-go/planbot/internal/cite"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/state"
)

// The outbox sends a turn's messages one by one: the phase Sending. It saves the record before each of
// them. From then on the turn timeout no longer applies: the person has to learn what the turn did.

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

// sendPhase is the phase Sending: it sends one message of the outbox, with which the record was saved. A
// message that another process was sending is sent again: it may never have left that process.
func sendPhase(ctx context.Context, t *Turn) (Next, error) {
	ctx = Lasting(ctx, t)
	if len(t.rec.Outbox) > 0 {
		if err := sendFirst(ctx, t); err != nil {
			return Next{}, err
		}
		t.rec.Outbox = t.rec.Outbox[1:]
		t.unsaved.progressed = true
	}
	if len(t.rec.Outbox) > 0 {
		return Next{phase: sending, saveFirst: !RepliesInResponse(t)}, nil
	}
	t.rec.Outbox = nil
	t.stream.Resume()
	switch run := t.rec.Run; {
	case t.rec.Wait != nil:
		p, n := pauseOf(t), len(t.rec.Sent)
		if p != nil && n > 0 {
			p.Shown(t.rec.Sent[n-1])
		}
		return goOnTo(waiting), nil
	case run == nil:
		return goOnTo(done), nil
	case run.Progress == nil:
		return goOnTo(planning), nil
	}
	t.unsaved.spoke = false // a rerun does not say it again
	return goOnTo(running), startOverHere(t)
}

func sendFirst(ctx context.Context, t *Turn) error {
	first := &t.rec.Outbox[0]
	if first.Unanswered > 0 && !first.Away.IsZero() {
		if err := probeChannel(ctx, t); err != nil {
			return retryLater(ctx, t, err)
		}
	}
	m, err := first.read()
	if err != nil {
		return &deadLetter{reason: "its messages cannot be read", err: err}
	}
	ofStream := t.rec.Stream.Concerns(m)
	if ofStream && m.Type == activity.Message {
		t.stream.Pace(ctx)
	}
	err = deliver(ctx, t, m)
	if ofStream {
		again, failure := settleStream(ctx, t, m, err)
		if again {
			return sendFirst(ctx, t)
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
		t.Count(CountReplies, "unsure")
		t.rec.Sent = append(t.rec.Sent, "")
		return nil
	case !mayComeBack(t, err) && m.Amends() && is[*connector.Error](err): // that says nothing about new messages
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the channel does not let a sent message be changed")
		t.Count(CountReplies, "failed")
		t.rec.Sent = append(t.rec.Sent, "")
		return nil
	case first.Alone && (deadly(err) != "" || m.Targeted() && is[*connector.Error](err) && !mayComeBack(t, err)) && sendPersonally(ctx, t, m) == nil:
		t.rec.Sent = append(t.rec.Sent, "")
		return nil
	case !mayComeBack(t, err):
		t.Count(CountReplies, "failed")
		t.rec.Outbox = nil
		retireConversation(ctx, t, err)
		return err
	case !unanswered:
		first.Unanswered = 0 // it is known not to have arrived
	}
	return retryLater(ctx, t, err)
}

// sendPersonally sends a message to the person's own chat with the bot, because the bot is not in this
// one, or because this one shows nobody messages of their own. If a process is killed meanwhile, the next one sends it no second time.
func sendPersonally(ctx context.Context, t *Turn, m *activity.Activity) error {
	a, here := t.Activity, actions.To(t.Activity)
	if a.From.ID == "" || a.Conversation.Personal() && !a.FromExtension() {
		return actions.ErrUnknownRecipient
	}
	out := *m
	out.ReplyToID = ""
	p := &post{Notice: actions.Notice{
		To:         actions.Recipient{Channel: here.Channel, Bot: here.Bot, Caller: here.Caller, User: a.From.ID, Via: here.Conversation},
		Key:        fmt.Sprintf("alone\n%s\n%d", t.ID, len(t.rec.Sent)),
		Activities: []*activity.Activity{&out},
	}}
	_, err := t.engine.notify(ctx, p)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Str("error", Cause(err)).Msg("the person could not be told in their own chat with the bot either")
	}
	return err
}

// probeChannel sends a typing indicator, which is harmless if it arrives twice, to a channel that did not
// answer a message. It returns an error as long as the channel gives no answer at all, and the
// message waits. An indicator that the connector did not send says nothing about the channel.
func probeChannel(ctx context.Context, t *Turn) error {
	if PrivateTo(t) != "" { // others would see it
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	to := t.Activity.Reference()
	_, err := t.engine.cfg.Channel.Send(ctx, to, activity.To(to, activity.Typing))
	if refused, ok := errors.AsType[*connector.Error](err); ok && !refused.HeldBack {
		return nil // that is an answer
	}
	return err
}

// retryLater makes the turn wait for the channel at its place in the queue. It gives up after sendFor.
func retryLater(ctx context.Context, t *Turn, err error) error {
	first := &t.rec.Outbox[0]
	if first.Away.IsZero() {
		first.Away = time.Now().UTC()
	}
	waited := time.Since(first.Away)
	if waited > sendFor {
		first.Away = time.Time{} // an operator's retry gets the whole time again
		if err := t.Save(ctx); err != nil {
			return err
		}
		t.Count(CountReplies, "given_up")
		return &deadLetter{reason: "the channel did not take its message for " + sendFor.String(), err: err}
	}
	var refused *connector.Error
	after := max(min(max(waited/10, leastDelay), mostDelay), 0)
	if errors.As(err, &refused) { // the channel's Retry-After
		after = max(after, min(refused.RetryAfter, sendFor))
	}
	w := &Wait{For: forChannel, Until: time.Now().Add(after).UTC(), Then: sending}
	if t.rec.Wait != nil {
		w.asked = t.rec.Wait.asked
	}
	t.rec.Phase, t.rec.Wait = waiting, w
	if err := t.Save(ctx); err != nil {
		return err
	}
	t.Count(CountReplies, "retried")
	return fmt.Errorf("%w: %w", errLater, err)
}

// mayComeBack reports whether the channel may accept later what it refused now. Nobody asks for a
// notice again, so it is retried after every refusal, except a refusal of its very text or of
// everything the bot says there.
func mayComeBack(t *Turn, err error) bool {
	var refused *connector.Error
	switch {
	case errors.Is(err, connector.ErrBadCall):
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
	return true // no answer, or no token: an expired secret gets renewed, too
}

// deliver sends one message. It may take longer than the turn, but stops when the lease is lost.
func deliver(ctx context.Context, t *Turn, a *activity.Activity) error {
	if RepliesInResponse(t) && !a.Amends() {
		return replyInResponse(t, a)
	}
	if err := t.lease.Err(); err != nil {
		return fmt.Errorf("send reply: %w", err)
	}
	began := time.Now()
	ctx, end := t.step(ctx, StepSend)
	lasting, cancel := context.WithTimeout(Lasting(ctx, t), sendWithin)
	defer cancel()
	var tries atomic.Int32
	lasting = httptrace.WithClientTrace(lasting, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if tries.Add(1) > 1 {
			t.Count(CountReplies, "retried")
		}
	}})
	id, err := transmit(lasting, t, a)
	end(err)
	t.engine.countFor(t.ID, CountReplyTime, "", time.Since(began))
	if err != nil {
		if lost := t.lease.Err(); lost != nil {
			err = lost
		}
		return fmt.Errorf("%w: %w", errUnsent, err)
	}
	t.Count(CountReplies, "ok")
	t.rec.Sent, t.unsaved.spoke = append(t.rec.Sent, id), true
	if id != "" && a.Targeted() && len(a.Attachments) > 0 && t.docs.writable() {
		w := state.Of[targetedCards](t.Conversation)
		w.IDs = newest(append(w.IDs, id), maxTargeted)
	}
	zerolog.Ctx(ctx).Debug().Str("sent_id", id).Dur("took", time.Since(began)).Msg("reply sent")
	return nil
}

// transmit replies to the turn's activity, or speaks into its conversation if there is nothing to
// reply to. It drops a typing indicator that there is no room for: later it would no longer be
// true. A message to edit or delete that is gone counts as edited or deleted.
func transmit(ctx context.Context, t *Turn, a *activity.Activity) (id string, err error) {
	to, channel := t.Activity.Reference(), t.engine.cfg.Channel
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
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound && !t.rec.Stream.Concerns(a) {
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

// replyInResponse puts a message into the HTTP response.
func replyInResponse(t *Turn, a *activity.Activity) error {
	out := a.Fit()
	out.ServiceURL, out.CallerID = "", "" // the caller knows them
	raw, err := out.EncodeToSend()
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errUnsent, connector.ErrBadCall, err)
	}
	t.rec.Answer.Activities = append(t.rec.Answer.Activities, raw)
	t.rec.Sent = append(t.rec.Sent, "")
	return nil
}

// What people read while an answer is written.
const (
	thinking  texts.Text = "Thinking…"
	working   texts.Text = "Working on it…"
	TakesLong texts.Text = "This is taking a while. I'll message you when it's done."
)

// newStream makes the stream of a turn; nil, which is safe to use, if there is nothing to show and no
// message open that a lost process left.
func newStream(t *Turn) *stream.Stream {
	about := *t.Activity
	cfg := stream.Config{
		About: &about, Channel: t.engine.cfg.Channel, Lease: t.lease, Saved: t.rec.Stream, Off: !mayStream(t), Speaks: len(t.rec.Outbox) > 0,
		Longer: t.Translate(TakesLong), Reply: func(text string) *activity.Activity { return message(&about, text) },
		Hush: func() { t.step(t.owned, StepQuiet) }, Cause: Cause,
	}
	if !unjudged(t.exec) { // then nobody reads what was not judged
		judging := t.exec
		cfg.Judge = func(ctx context.Context, text string) error {
			return judge(ctx, judging, Judging{Pieces: pieces(moderation.PlannedSay, []string{text}), Draft: true})
		}
	}
	s := stream.New(cfg)
	if s.Opens() {
		t.OnProgress = func(text string) { s.Progress(markdown.Tame(text, nil)) } // a server may have written it
		t.Draft = func(text string) {
			draft := text
			if text != "" && citesSources(t) {
				draft = cite.Beginning(text, t.Sources())
			}
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
	return t.engine.cfg.Stream && t.IsMessage() && t.rec.Notice == nil && !t.rec.Stateless && !IsAlone(t) && t.docs.writable() &&
		!RepliesInResponse(t) && !t.engine.has(func(f *Feature) bool { return f.Say != nil }) &&
		stream.Streams(t.Activity) && t.Activity.CallerApp() == "" &&
		time.Now().After(state.Peek[reference](t.Conversation).Whole)
}

// endStream has the messages end the growing message that is open, see [stream.Stream.End].
func endStream(t *Turn, messages []*activity.Activity) ([]*activity.Activity, error) {
	messages, ended, err := t.stream.End(messages)
	noteBarred(t)
	t.rec.Stream = cmp.Or(ended, t.rec.Stream)
	return messages, err
}

// noteBarred has the conversation's state remember that it takes no growing messages.
func noteBarred(t *Turn) {
	if t.stream != nil && !t.stream.Barred().IsZero() && t.docs.writable() {
		state.Of[reference](t.Conversation).Whole = t.stream.Barred().UTC().Truncate(time.Second)
	}
}

// settleStream acts on the channel's answer to m, the end of a growing message or its replacement.
// again says that the outbox now begins with something else to be sent at once.
func settleStream(ctx context.Context, t *Turn, m *activity.Activity, err error) (again bool, _ error) {
	first, rest := &t.rec.Outbox[0], t.rec.Outbox[1:]
	sent := stream.Sent{Message: m, Err: err, Retryable: err != nil && mayComeBack(t, err), Repeated: first.Unanswered > 0}
	if len(rest) > 0 {
		sent.Next, _ = rest[0].read() // one that cannot be read is found when it is its turn
	}
	settled := t.stream.Settle(ctx, t.rec.Stream, sent)
	switch id := t.rec.Stream.ID; {
	case settled.Done && err == nil: // the end of a growing message is answered without an id
		t.rec.Sent[len(t.rec.Sent)-1] = id
	case settled.Done:
		t.rec.Sent, t.unsaved.spoke = append(t.rec.Sent, id), true
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
	t.rec.Outbox = append(instead, rest...)
	return true, nil
}
