package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// What Teams allows for a message that grows, and when it is worth opening one: opening costs two
// calls and cannot be taken back.
const (
	openAfter     = 500 * time.Millisecond // with text, since the turn began
	openUnits     = 20                     // UTF-16 code units of text
	statusAfter   = 1200 * time.Millisecond
	gather        = 20 * time.Millisecond   // for text that may be the last: a reply that is ready is sent whole
	chunkEvery    = 1500 * time.Millisecond // after the last answer
	quickEvery    = 100 * time.Millisecond  // in a terminal
	finalAfter    = time.Second             // after the last answer
	updateEvery   = 3 * time.Second         // once the message has ended
	chunkWithin   = 10 * time.Second        // one request
	endAfter      = 110 * time.Second       // since the first request: Teams ends it after two minutes
	endInCopilot  = 100 * time.Second       // Copilot ends it sooner
	overAfter     = 5 * time.Second         // later a 429 says that it has ended
	againEvery    = 30 * time.Second        // the same status in Copilot, which takes 45 s of silence for a failure
	lostFor       = 2 * time.Minute         // how long a message whose id nobody knows may be open
	barredFor     = 24 * time.Hour          // no stream in a conversation that refused one
	maxStatus     = 1000                    // characters
	maxStatusSize = 1 << 10                 // bytes
)

const (
	thinking  texts.Text = "Thinking…"
	working   texts.Text = "Working on it…"
	takesLong texts.Text = "This takes longer. I will write when it is done."
)

// errPressedStop says that the person pressed the Stop button of a growing message.
var errPressedStop = errors.New("the person stopped the turn")

// streamChannels show messages that grow, in personal chats.
var streamChannels = []string{activity.Teams, "webchat", "directline", "emulator", console}

const console = "console"

// openMessage is a message that grows while the person reads it. A copy is saved before each part
// leaves, so what is saved begins with what the person sees.
type openMessage struct {
	ID       string    `json:"id,omitempty"` // "": not known yet
	Begun    time.Time `json:"begun"`
	Sequence int       `json:"sequence,omitempty"` // of the last part
	Shown    string    `json:"shown,omitempty"`    // its text; "": only a status
	Full     bool      `json:"full,omitzero"`      // the channel takes no more text in it
	// Heals says that its end is to repeat what was shown, because the reply is another text. The
	// reply then replaces it.
	Heals bool        `json:"heals,omitzero"`
	State streamState `json:"state,omitempty"`
}

// streamState says how far a growing message is.
type streamState string

const (
	streamOpen  streamState = ""
	streamEnded streamState = "ended"  // its text is not the reply, which is to replace it
	streamOver  streamState = "closed" // nothing more is to be done about it
)

// stream shows the person what the bot is doing, and answers while a model writes them. It owns one
// message that grows ([openMessage]) at a time. What it shows is a draft: the reply ends the message,
// and goes through the outbox like any other.
//
// One goroutine sends, one request at a time, and always the newest text. It delays neither the model
// nor the turn, except that the turn waits for a request under way before it speaks.
type stream struct {
	lease  *inbox.Lease
	about  *activity.Activity
	to     Channel
	typing *typing
	every  time.Duration
	limit  time.Duration // how long a message may be open
	again  time.Duration // when to send the same status again
	longer string        // takesLong, translated

	wake  chan struct{} // has room for one
	quit  context.CancelFunc
	ended chan struct{} // closed when the goroutine has ended; nil: it was not started

	// busy has one token while a request is under way or the turn speaks. Whoever put it there may touch
	// the fields below.
	busy     chan struct{}
	held     bool // by the turn
	open     *openMessage
	answered time.Time // when the last request was answered
	status   string    // that was sent last
	updated  string    // the text of the last update
	off      bool      // opens no message
	frozen   bool      // the open message gets no more parts
	barred   time.Time // until when the conversation takes no streams; zero: it does

	mu     sync.Mutex // for the fields below
	began  time.Time
	text   string    // of the answer so far
	grew   time.Time // when the first of it came that was not sent yet
	enough time.Time // when there was enough of it to open a message
	timed  bool      // the goroutine wakes up by itself to send the newest text
	doing  string    // what to show as the status; "": nothing
	inCall bool      // an action runs
	halted bool      // the person pressed Stop
	cancel context.CancelFunc

	// judge asks the moderator; nil: there is none. The rest is also for mu.
	judge    func(ctx context.Context, all []moderation.Piece) (moderation.Verdict, error)
	judging  sync.WaitGroup
	waits    string             // the draft of which not all is judged
	passed   int                // how many bytes of it are
	news     string             // the newest progress that is not judged
	asking   bool               // the moderator is being asked
	unfit    bool               // something was flagged or not judged, so no more of the answer is shown early
	flagged  moderation.Verdict // about a part of the answer
	asked    context.Context    //nolint:containedctx // that of the goroutine
	draftNum int                // counts the answers that began
}

// newStream returns nil, which is safe to use, if there is nothing to show and no message open that
// a lost process left. Nothing is sent before start.
func newStream(t *Turn) *stream {
	left, may := leftOpen(t), mayStream(t)
	if left == nil && !may {
		return nil
	}
	s := &stream{
		lease: t.lease, about: t.Activity, to: t.engine.cfg.Channel, typing: t.typing, every: chunkEvery, limit: limitOf(t.Activity), again: forever,
		longer: t.Translate(takesLong), wake: make(chan struct{}, 1), busy: make(chan struct{}, 1),
		open: left, off: !may, frozen: left != nil, began: time.Now(),
	}
	if t.Activity.ChannelID == console {
		s.every = quickEvery
	}
	if s.limit == endInCopilot {
		s.again = againEvery
	}
	if left != nil && left.ID == "" { // the channel has one which nobody knows how to end
		s.open, s.off, s.frozen, s.barred = nil, true, false, left.Begun.Add(lostFor)
	}
	if len(t.rec.Outbox) > 0 { // it has what ends the message
		s.hold()
	}
	if !s.off {
		t.OnProgress, t.Draft = s.progress, func(text string) { s.draft(t.citeDraft(text)) }
		if g := (guard{t.exec}); !g.off() { // then nobody reads what was not judged
			s.judge = g.ask
			t.OnProgress, t.Draft = s.judgeProgress, func(text string) { s.judgeDraft(t.citeDraft(text)) }
		}
	}
	return s
}

// start begins to send.
func (s *stream) start(ctx context.Context) {
	if s == nil {
		return
	}
	ctx, s.quit = context.WithCancel(ctx)
	s.asked = ctx
	s.ended = make(chan struct{})
	go s.run(ctx)
}

// mayStream reports whether the turn's answer may be shown while it is written.
func mayStream(t *Turn) bool {
	return t.engine.cfg.Stream && t.IsMessage() && t.rec.Notice == nil && !t.aside && t.docs.writable() &&
		!t.repliesInResponse() && t.engine.cfg.Hooks.BeforeSay == nil && t.Activity.Conversation.Personal() &&
		slices.Contains(streamChannels, t.Activity.ChannelID) && t.Activity.CallerApp() == "" &&
		time.Now().After(state.Peek[reference](t.Conversation).Whole)
}

// limitOf is how long a growing message may be open.
func limitOf(a *activity.Activity) time.Duration {
	if strings.EqualFold(a.Product(), "COPILOT") {
		return endInCopilot
	}
	return endAfter
}

// leftOpen returns the growing message that a lost process left, if it is not over.
func leftOpen(t *Turn) *openMessage {
	left := t.rec.Stream
	if raw := t.lease.Beside(); raw != nil {
		beside := &openMessage{}
		if json.Unmarshal(raw, beside) == nil && (left == nil || !left.Begun.Equal(beside.Begun)) {
			left = beside
		}
	}
	if left == nil || left.State == streamOver || left.ID == "" && time.Since(left.Begun) > lostFor {
		return nil
	}
	open := *left
	open.Heals = false
	return &open
}

// draft is [actions.Turn.Draft].
func (s *stream) draft(text string) {
	s.mu.Lock()
	s.grow(text)
	timed := s.timed
	s.mu.Unlock()
	if !timed { // a wake-up for each token is not worth its CPU
		s.rouse()
	}
}

// grow takes the text so far. It needs mu.
func (s *stream) grow(text string) {
	switch full := len(s.text) >= maxPart && strings.HasPrefix(text, s.text); {
	case text == "":
		s.text, s.grew, s.enough, s.timed = "", time.Time{}, time.Time{}, false
	case full && units(s.text) == maxPart:
	default:
		if len(text) > maxPart { // bytes: there may be too much of it
			text = text[:prefix(text, maxPart)]
		}
		if s.text = text; s.grew.IsZero() {
			s.grew = time.Now()
		}
		if s.enough.IsZero() && units(text) >= openUnits {
			s.enough = time.Now()
		}
	}
}

// overlap is how much of what was judged is judged again with what follows it.
const overlap = 200 // bytes

// judgeDraft is draft where there is a moderator. It holds a text back until whole sentences of it have
// passed, each with the end of what is before it.
func (s *stream) judgeDraft(text string) {
	if text == "" {
		s.settleDraft()
		s.mu.Lock()
		s.unfit, s.flagged = false, moderation.Verdict{}
		s.mu.Unlock()
		s.draft("")
		return
	}
	s.mu.Lock()
	s.waits = text
	s.mu.Unlock()
	s.judgeNext()
}

// judgeProgress is progress where there is a moderator.
func (s *stream) judgeProgress(text string) {
	s.mu.Lock()
	s.news = text
	s.mu.Unlock()
	s.judgeNext()
}

// settleDraft ends the judging of the answer so far: the plan is there, or it begins anew.
func (s *stream) settleDraft() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draftNum++
	s.waits, s.passed = "", 0
}

// flaggedEarly is the verdict about a part of the answer, if it was flagged.
func (s *stream) flaggedEarly() (v moderation.Verdict) {
	if s == nil {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flagged
}

// judgeNext asks about what is next, unless the moderator is being asked.
func (s *stream) judgeNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, end := s.asked, 0
	if !s.unfit {
		end = s.passed + sentenceEnd(s.waits[min(s.passed, len(s.waits)):])
	}
	switch {
	case s.asking || ctx == nil || ctx.Err() != nil:
	case end > s.passed:
		from := max(s.passed-overlap, 0)
		for from > 0 && !utf8.RuneStart(s.waits[from]) {
			from--
		}
		window, answer := s.waits[from:end], s.draftNum
		s.ask(ctx, window, func(v moderation.Verdict, err error) {
			switch {
			case answer != s.draftNum: // it is about another answer
			case err != nil || v.Flagged():
				s.unfit, s.flagged = true, v
			default:
				s.passed = end
				s.grow(s.waits[:end])
			}
		})
	case s.news != "":
		text := s.news
		s.news = ""
		s.ask(ctx, text, func(v moderation.Verdict, err error) {
			if err == nil && !v.Flagged() && s.inCall {
				s.doing = text
			}
		})
	}
}

// ask asks the moderator beside the turn. then is called with mu locked.
func (s *stream) ask(ctx context.Context, text string, then func(moderation.Verdict, error)) {
	s.asking = true
	s.judging.Go(func() {
		v, err := s.judge(ctx, []moderation.Piece{{Kind: moderation.PlannedSay, Text: text}})
		s.mu.Lock()
		s.asking = false
		then(v, err)
		s.mu.Unlock()
		s.rouse()
		s.judgeNext()
	})
}

// sentenceEnd is the index behind the last whole sentence; 0: there is none.
func sentenceEnd(text string) (end int) {
	for i, r := range text {
		after := text[i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(after)
		if r == '\n' || strings.ContainsRune("。！？", r) || strings.ContainsRune(".!?…:;", r) && after != "" && unicode.IsSpace(next) {
			end = i + utf8.RuneLen(r)
		}
	}
	return end
}

// progress is [actions.Turn.OnProgress].
func (s *stream) progress(text string) {
	s.mu.Lock()
	if s.inCall && strings.TrimSpace(text) != "" { // Teams refuses one without text, as where it takes no streams
		s.doing = text
	}
	s.mu.Unlock()
	s.rouse()
}

// does says what the turn does from now on; "" says nothing. call says that it is a call of an
// action.
func (s *stream) does(text string, call bool) {
	s.mu.Lock()
	s.doing, s.inCall = text, call
	s.mu.Unlock()
	s.rouse()
}

func (s *stream) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// planning returns the context for making a plan: it ends when the person presses Stop.
func (s *stream) planning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if s == nil {
		return ctx, cancel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfit, s.flagged = false, moderation.Verdict{}
	if s.cancel = cancel; s.halted {
		cancel()
	}
	return ctx, cancel
}

// stopped reports whether the person pressed Stop.
func (s *stream) stopped() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted
}

// halt notes that the person pressed Stop.
func (s *stream) halt() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted = true; s.cancel != nil {
		s.cancel()
	}
}

// shows reports whether the person sees a text that grows. From then on the stream waits. What they do
// not see yet is dropped.
func (s *stream) shows() bool {
	if s == nil {
		return false
	}
	s.hold()
	if s.open != nil && s.open.State == streamOpen && s.open.Shown != "" {
		return true
	}
	s.draft("")
	s.release()
	return false
}

// hold waits for a request under way. Until resume there is no other.
func (s *stream) hold() {
	if s == nil || s.held {
		return
	}
	s.busy <- struct{}{}
	s.held = true
}

// resume lets the stream open another message, for what comes after the one that was sent.
func (s *stream) resume() {
	if s == nil || !s.held {
		return
	}
	s.mu.Lock()
	s.began, s.text, s.grew, s.enough, s.timed, s.doing = time.Now(), "", time.Time{}, time.Time{}, false, ""
	s.mu.Unlock()
	if s.open != nil && s.open.State == streamOver {
		s.open = nil
	}
	s.release()
}

func (s *stream) release() {
	s.held = false
	<-s.busy
}

// end ends the goroutine and waits for it. A request under way is waited for: if it opens a message,
// the next process has to know which one.
func (s *stream) end() {
	if s == nil || s.ended == nil {
		return
	}
	s.hold()
	s.quit()
	<-s.ended
	s.mu.Lock()
	s.asked = nil // from here on nothing is asked any more
	s.mu.Unlock()
	s.judging.Wait()
}

// run sends what is due.
func (s *stream) run(ctx context.Context) {
	defer close(s.ended)
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case s.busy <- struct{}{}:
		}
		after := s.step(ctx)
		<-s.busy
		timer.Reset(after)
	}
}

// part is a request that is due.
type part struct {
	send func(ctx context.Context, text string)
	text string
	at   time.Time
}

// sooner returns the part that is due first.
func (p part) sooner(other part) part {
	if p.send == nil || other.send != nil && other.at.Before(p.at) {
		return other
	}
	return p
}

// step sends what is due and returns when there is more to do.
func (s *stream) step(ctx context.Context) time.Duration {
	for {
		next := s.next()
		if next.send == nil || s.lease.Err() != nil || ctx.Err() != nil {
			return forever
		}
		if wait := time.Until(next.at); wait > 0 {
			return wait
		}
		ctx, cancel := context.WithTimeout(ctx, chunkWithin)
		next.send(ctx, next.text)
		cancel()
		s.answered = time.Now()
	}
}

// next returns what is to be sent next.
func (s *stream) next() (next part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timed = false
	text := part{s.sendText, s.text, s.grew.Add(gather)}
	status := part{s.sendStatus, s.doing, s.began.Add(statusAfter)}
	switch o := s.open; {
	case s.halted:
	case o == nil && s.off:
	case o == nil:
		if !s.enough.IsZero() {
			text.at = later(s.enough.Add(gather), s.began.Add(openAfter), s.answered.Add(s.every))
			next, s.timed = text, true
		}
		if s.doing != "" {
			status.at = later(status.at, s.answered.Add(s.every))
			next = next.sooner(status)
		}
	case o.State == streamOver:
	case o.State == streamEnded:
		if s.text != "" && s.text != s.updated {
			next, s.timed = part{s.sendUpdate, s.text, later(text.at, s.answered.Add(updateEvery))}, true
		}
	default:
		next = part{s.sendEnd, "", later(o.Begun.Add(s.limit), s.answered.Add(finalAfter))}
		switch {
		case s.frozen:
		case len(s.text) > len(o.Shown) && strings.HasPrefix(s.text, o.Shown):
			text.at = later(text.at, s.answered.Add(s.every))
			next, s.timed = next.sooner(text), true
		case o.Shown == "" && s.doing != "" && s.doing != s.status:
			status.at = later(status.at, s.answered.Add(s.every))
			next = next.sooner(status)
		case o.Shown == "" && s.doing != "":
			status.at = s.answered.Add(s.again)
			next = next.sooner(status)
		}
	}
	return next
}

func later(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// units is how many UTF-16 code units a text has.
func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

func (s *stream) sendStatus(ctx context.Context, text string) {
	cut := text[:prefix(text, maxStatus)]
	for len(cut) > maxStatusSize {
		cut = strings.ToValidUTF8(cut[:maxStatusSize], "")
	}
	if s.chunk(ctx, activity.StreamStatus, cut) {
		s.status = text
	}
}

func (s *stream) sendText(ctx context.Context, text string) {
	s.mu.Lock()
	s.grew = time.Time{} // what comes from here on is new
	s.mu.Unlock()
	s.chunk(ctx, activity.StreamText, text)
}

// chunk sends a part. It saves what it shows first.
func (s *stream) chunk(ctx context.Context, kind, text string) (sent bool) {
	first := s.open == nil
	o := &openMessage{Begun: time.Now().UTC()}
	if !first {
		*o = *s.open
	}
	o.Sequence++
	if kind == activity.StreamText {
		o.Shown = text
	}
	if !s.save(ctx, o) {
		return false
	}
	a := activity.To(s.about.Reference(), activity.Typing)
	a.Text, a.Locale = text, s.about.Locale
	if kind == activity.StreamText {
		a.TextFormat = "markdown"
	}
	a.SetStream(activity.StreamInfo{ID: o.ID, Type: kind, Sequence: o.Sequence})
	id, err := s.to.Send(ctx, s.about.Reference(), a)
	switch said := judge(err); said {
	case accepted, unsure:
		if first {
			if o.ID = id; id == "" { // nobody can end it
				s.off, s.barred = true, o.Begun.Add(lostFor)
				return false
			}
			s.typing.hush()
			s.save(ctx, o)
		}
		s.open = o
		return true
	default:
		s.refused(ctx, said, err)
		return false
	}
}

// refused notes why the channel did not take a part. What it did not take was not shown.
func (s *stream) refused(ctx context.Context, said verdict, err error) {
	first := s.open == nil
	if said != tooFast {
		zerolog.Ctx(ctx).Info().Str("error", cause(err)).Bool("first", first).Msg("a part of a growing message was not taken")
	}
	switch {
	case said == tooFast:
	case said == pressedStop:
		s.off = true
		s.halt()
	case first:
		if s.off = true; said == notHere {
			s.barred = time.Now().Add(barredFor)
		}
	case said == expired || said == alreadyDone:
		s.endedWith(ctx, s.open.Shown != "")
	default:
		s.frozen = true
		s.open.Full = s.open.Full || said == tooLarge
	}
}

// endedWith notes that the message has ended. text says that it has a text, which the reply is to
// replace.
func (s *stream) endedWith(ctx context.Context, text bool) {
	s.updated = s.open.Shown
	if s.open.State = streamEnded; !text {
		s.open.State = streamOver
	}
	s.save(ctx, s.open)
	if !text {
		s.open, s.off = nil, true
	}
}

// sendEnd ends the message before the channel does. With a text it can be changed from then on. With
// nothing but a status it says that the answer comes later, in a message of its own.
func (s *stream) sendEnd(ctx context.Context, _ string) {
	said := s.finish(ctx, s.longer)
	switch said {
	case tooFast, unsure: // again, until the channel has ended it
		if time.Since(s.open.Begun) < lostFor {
			return
		}
	case pressedStop:
		s.refused(ctx, said, errPressedStop)
		return
	}
	s.endedWith(ctx, s.open.Shown != "")
}

// finish ends the open message with what was shown, or with instead if that is only a status.
func (s *stream) finish(ctx context.Context, instead string) verdict {
	m := labelled(s.about, s.open.Shown)
	if s.open.Shown == "" {
		m = message(s.about, instead)
	}
	_, err := s.to.Send(ctx, s.about.Reference(), final(m, s.open.ID))
	return judge(err)
}

// sendUpdate shows more of the answer in a message that has ended.
func (s *stream) sendUpdate(ctx context.Context, text string) {
	s.mu.Lock()
	s.grew = time.Time{}
	s.mu.Unlock()
	s.updated = text
	m := labelled(s.about, text)
	m.ReplyToID = ""
	if err := s.to.Update(ctx, s.about.Reference(), s.open.ID, m); err != nil {
		zerolog.Ctx(ctx).Debug().Str("error", cause(err)).Msg("more of an answer was not shown")
	}
}

// save saves the message beside the turn's record.
func (s *stream) save(ctx context.Context, o *openMessage) bool {
	raw, err := encode(o)
	if err == nil {
		err = s.lease.SaveBeside(ctx, raw)
	}
	if err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("what is shown was not saved, so it is not shown")
	}
	return err == nil
}

// leave ends a message for which there was no reply, when the turn ends. One with nothing but a
// status is deleted. Failures are harmless: the channel ends it by itself.
func (s *stream) leave(ctx context.Context) {
	o := s.open
	if o == nil || o.State != streamOpen || s.stopped() || s.lease.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, chunkWithin)
	defer cancel()
	s.pace(ctx)
	said := s.finish(ctx, cmp.Or(s.status, "…"))
	if o.Shown == "" && (said == accepted || said == alreadyDone) {
		_ = s.to.Delete(ctx, s.about.Reference(), o.ID, false)
	}
	s.open = nil
}

// pace waits until the channel takes the end of the message.
func (s *stream) pace(ctx context.Context) {
	if s != nil {
		wait(ctx, time.Until(s.answered.Add(min(finalAfter, s.every))), nil)
	}
}

// final makes a message the end of the growing message with that id.
func final(m *activity.Activity, id string) *activity.Activity {
	out := *m
	out.SetStream(activity.StreamInfo{ID: id, Type: activity.StreamFinal})
	return &out
}

// replacing makes a message replace the sent one with that id.
func replacing(m *activity.Activity, id string) *activity.Activity {
	out := *m
	out.SetStream(activity.StreamInfo{})
	out.Type, out.ID = activity.MessageUpdate, id
	return &out
}

// deleting deletes the sent message with that id.
func deleting(id string) *activity.Activity {
	return &activity.Activity{Type: activity.MessageDelete, ID: id}
}

// plain makes a message, or what was to replace one, a message of its own.
func plain(m *activity.Activity) *activity.Activity {
	out := *m
	out.SetStream(activity.StreamInfo{})
	out.Type, out.ID = activity.Message, ""
	return &out
}

// endStream makes the first of the messages end the growing message that is open, or replace it if
// it has ended with another text. Without messages it ends one that shows a text, which a later
// message replaces. The record says so, too. The stream waits until they are sent.
func (o *outbox) endStream(messages []*activity.Activity) ([]*activity.Activity, error) {
	s := o.stream
	if s == nil {
		return messages, nil
	}
	s.hold()
	o.noteBarred()
	if s.stopped() {
		return nil, errPressedStop
	}
	i := slices.IndexFunc(messages, func(m *activity.Activity) bool { return m.Type == activity.Message })
	if s.open == nil || i < 0 && (len(messages) > 0 || s.open.State == streamEnded) {
		return messages, nil
	}
	open := *s.open
	if o.rec.Stream = &open; open.State == streamOver {
		return messages, nil
	}
	shown := final(labelled(s.about, open.Shown), open.ID)
	if i < 0 {
		open.Heals = true
		return []*activity.Activity{shown}, nil
	}
	m, rest := messages[i], []*activity.Activity(nil)
	if next := i + 1; next < len(messages) && m.Text != "" && m.Text != open.Shown && len(m.Attachments) == 0 && strings.HasPrefix(open.Shown, m.Text) && strings.HasPrefix(m.Text+messages[next].Text, open.Shown) {
		first, second := *m, *messages[next] // a long text was cut within what is shown
		first.Text, second.Text = open.Shown, strings.TrimPrefix(m.Text+second.Text, open.Shown)
		m, messages = &first, slices.Concat(messages[:i], []*activity.Activity{&first, &second}, messages[next+1:])
	}
	more, continues := strings.CutPrefix(m.Text, open.Shown)
	card := len(m.Attachments) > 0 && !continues // people are told of a new message, and not of a change
	switch {
	case open.State == streamEnded && card:
		s.open.State, open.State = streamOver, streamOver
		rest = append(rest, deleting(open.ID), m)
	case open.State == streamEnded:
		rest = append(rest, replacing(m, open.ID))
	case card:
		rest = append(rest, shown, deleting(open.ID), m)
	case continues && open.Full && strings.TrimSpace(more) != "":
		later := *m
		later.Text = strings.TrimLeft(more, " \n")
		rest = append(rest, shown, &later)
	case continues:
		last := final(m, open.ID)
		last.Text = cmp.Or(m.Text, m.Summary, "…") // a card
		rest = append(rest, last)
	default:
		open.Heals = true
		rest = append(rest, shown, replacing(m, open.ID))
	}
	return slices.Concat(messages[:i], rest, messages[i+1:]), nil
}

// noteBarred has the conversation's state remember that it takes no streams.
func (o *outbox) noteBarred() {
	if s := o.stream; !s.barred.IsZero() && o.docs.writable() {
		state.Of[reference](o.Conversation).Whole = s.barred.UTC().Truncate(time.Second)
	}
}

// leaveStream ends what is still open when the turn ends.
func (o *outbox) leaveStream(ctx context.Context) {
	if s := o.stream; s != nil {
		s.hold()
		o.noteBarred()
		s.leave(ctx)
	}
}

// streamed notes that the message which ended the growing message, or replaced it, was sent.
func (o *outbox) streamed(over bool) {
	o.rec.Stream.State, o.rec.Stream.Heals = streamOver, false
	if !over {
		o.rec.Stream.State = streamEnded
	}
	if o.stream != nil {
		o.stream.open = nil
		if !over {
			open := *o.rec.Stream
			o.stream.open = &open
		}
		o.stream.status, o.stream.updated, o.stream.frozen = "", "", false
		o.stream.answered = time.Now()
	}
}

// settleStream decides what to do about the channel's answer to m, the end of a growing message or
// its replacement. again says that the outbox now begins with something else to be sent at once.
func (o *outbox) settleStream(ctx context.Context, m *activity.Activity, err error) (again bool, _ error) {
	open, said := o.rec.Stream, judge(err)
	refused, answered := errors.AsType[*connector.Error](err)
	rest := o.rec.Outbox[1:]
	sent := func(over bool) (bool, error) {
		if err == nil { // the end of a growing message is answered without an id
			o.rec.Sent[len(o.rec.Sent)-1] = open.ID
		} else {
			o.rec.Sent = append(o.rec.Sent, open.ID)
			o.since.spoke = true
		}
		o.streamed(over)
		return false, nil
	}
	instead := func(list ...*activity.Activity) (bool, error) {
		o.rec.Outbox = nil
		for _, one := range list {
			out, err := outgoingOf(one)
			if err != nil {
				return false, err
			}
			o.rec.Outbox = append(o.rec.Outbox, out)
		}
		o.rec.Outbox = append(o.rec.Outbox, rest...)
		return true, nil
	}
	if m.Type == activity.MessageUpdate {
		switch {
		case err == nil:
			return sent(true)
		case answered && (refused.Status == http.StatusNotFound || !o.comesBack(err)): // say it below
			o.streamed(true)
			return instead(plain(m))
		}
		return false, err
	}
	if said == tooFast && !refused.HeldBack && time.Since(open.Begun) > limitOf(o.Activity)+overAfter {
		said = expired
	}
	if o.stream != nil {
		o.stream.answered = time.Now()
	}
	if first := &o.rec.Outbox[0]; said == unsure && answered && !o.comesBack(err) && first.Unanswered == 0 { // it may be repeated
		first.Unanswered++
		return true, nil
	}
	if said == unsure && !answered { // it was sent twice
		again := plain(m)
		again.ReplyToID = ""
		if o.engine.cfg.Channel.Update(ctx, o.Activity.Reference(), open.ID, again) == nil {
			said = alreadyDone
		}
	}
	shown := m.Text == open.Shown
	switch {
	case said == accepted || said == alreadyDone:
		return sent(!open.Heals)
	case said == pressedStop:
		o.stream.halt()
		return false, errPressedStop
	case said == expired && open.Heals, said == notPrefix && shown && open.Heals:
		return sent(false)
	case said == expired, said == notPrefix && (shown || open.Shown == ""):
		return instead(replacing(m, open.ID))
	case said == notPrefix:
		open.Heals = true
		return instead(final(labelled(o.Activity, open.Shown), open.ID), replacing(m, open.ID))
	case said == tooLarge && !shown && open.Shown != "":
		later := plain(m)
		later.Text = strings.TrimLeft(strings.TrimPrefix(m.Text, open.Shown), " \n")
		return instead(final(labelled(o.Activity, open.Shown), open.ID), later)
	case o.comesBack(err):
		return false, err
	case open.Heals:
		o.streamed(true)
		if len(rest) == 0 { // a command is next
			return false, nil
		}
		next, err := rest[0].read()
		if err != nil {
			return false, err
		}
		rest = rest[1:]
		return instead(plain(next))
	case !shown || len(m.Attachments) > 0: // what was shown alone may end it
		open.Heals = true
		return instead(final(labelled(o.Activity, cmp.Or(open.Shown, "…")), open.ID), replacing(m, open.ID))
	}
	o.streamed(true)
	if len(rest) > 0 {
		if next, err := rest[0].read(); err == nil && next.Type == activity.MessageDelete && next.ID == open.ID { // a card is next
			rest = rest[1:]
			return instead()
		}
	}
	return instead(plain(m))
}

// labelled is the message of a text that a model wrote.
func labelled(about *activity.Activity, text string) *activity.Activity {
	m := message(about, text)
	m.LabelAI()
	return m
}

// ofStream reports whether the message ends or replaces the growing message of the record.
func (o *outbox) ofStream(m *activity.Activity) bool {
	open := o.rec.Stream
	return open != nil && open.ID != "" && open.State != streamOver &&
		(m.Type == activity.MessageUpdate && m.ID == open.ID || m.Stream() == activity.StreamInfo{ID: open.ID, Type: activity.StreamFinal})
}

// read is what the person has read of the open message, with the whole of its last word.
func (s *stream) read() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	more, ok := strings.CutPrefix(s.text, s.open.Shown)
	if end := strings.IndexFunc(more, unicode.IsSpace); end >= 0 {
		more = more[:end]
	}
	if !ok || s.open.Shown == "" {
		more = ""
	}
	return s.open.Shown + more
}

// unhalt lets the turn speak again.
func (s *stream) unhalt() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = false
}

// verdict is what a channel's answer to a part of a growing message means.
type verdict int

const (
	accepted    verdict = iota
	unsure              // it may have arrived
	tooFast             // it did not arrive, and a later one may
	pressedStop         // the person pressed Stop
	expired             // the message was open for too long, and has ended
	alreadyDone         // the message has ended
	notPrefix           // it does not begin with what was shown
	tooLarge
	notHere // this conversation takes no streams
	faulty
)

// judge reads the channel's answer. Teams gives the same codes for different reasons, so its words
// count, as in Microsoft's own libraries.
func judge(err error) verdict {
	refused, answered := errors.AsType[*connector.Error](err)
	if !answered {
		switch {
		case err == nil:
			return accepted
		case errors.Is(err, connector.ErrNoAnswer):
			return unsure
		case errors.Is(err, connector.ErrBadCall):
			return tooLarge
		}
		return tooFast // there is no connection, or no token
	}
	words := strings.ToLower(refused.Code + " " + refused.Message)
	says := func(any ...string) bool {
		return slices.ContainsFunc(any, func(part string) bool { return strings.Contains(words, part) })
	}
	forbidden := refused.Status == http.StatusForbidden
	switch {
	case refused.Status == http.StatusTooManyRequests:
		return tooFast
	case refused.Status == http.StatusRequestEntityTooLarge, says("size too large", "sizetoobig"):
		return tooLarge
	case refused.Status >= http.StatusInternalServerError:
		return unsure
	case forbidden && says("exceeded"):
		return expired
	case forbidden && says("cancel"):
		return pressedStop
	case forbidden && says("already completed"):
		return alreadyDone
	case forbidden && says("previously streamed"):
		return notPrefix
	case forbidden && says("stream is not allowed", "streamnotallowed"), refused.Status == http.StatusMethodNotAllowed,
		refused.Status == http.StatusBadRequest:
		return notHere
	}
	return faulty
}
