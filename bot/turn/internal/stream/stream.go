// Package stream shows an answer while a model writes it: in one message that grows ([Message]), by
// Teams' protocol for that. What it shows is a draft. The turn's reply ends the message
// ([Stream.End]), goes through the outbox like any other, and [Stream.Settle] says what the channel's
// answer to that means.
package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
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
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/spelling"
)

// MaxUnits is how many UTF-16 code units of text one message has at most: well below the limits of
// the channels (Teams: 100 KB of UTF-16 for a whole message).
const MaxUnits = 16_000

// forever is longer than any turn.
const forever = time.Duration(math.MaxInt64)

// What Teams allows for a message that grows, and when it is worth opening one: opening costs two
// calls and cannot be taken back.
const (
	openAfter     = 500 * time.Millisecond // with text, since the turn began
	openUnits     = 20                     // UTF-16 code units of text
	statusAfter   = 1200 * time.Millisecond
	settle        = 20 * time.Millisecond   // for text that may be the last: a reply that is ready is sent whole
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

// ErrStopped says that the person pressed the Stop button of a growing message.
var ErrStopped = errors.New("the person stopped the turn")

// Message is a message that grows while the person reads it. A copy is saved before each part
// leaves, so what is saved begins with what the person sees.
type Message struct {
	ID       string    `json:"id,omitempty"` // "": not known yet
	Begun    time.Time `json:"begun"`
	Sequence int       `json:"sequence,omitempty"` // of the last part
	Shown    string    `json:"shown,omitempty"`    // its text; "": only a status
	Full     bool      `json:"full,omitzero"`      // the channel takes no more text in it
	// Heals says that its end is to repeat what was shown, because the reply is another text. The
	// reply then replaces it.
	Heals bool  `json:"heals,omitzero"`
	State State `json:"state,omitempty"`
}

// Concerns reports whether m ends or replaces the growing message. A nil Message is none.
func (o *Message) Concerns(m *activity.Activity) bool {
	return o != nil && o.ID != "" && o.State != Over &&
		(m.Type == activity.MessageUpdate && m.ID == o.ID || m.Stream() == activity.StreamInfo{ID: o.ID, Type: activity.StreamFinal})
}

// State says how far a growing message is.
type State string

// The states of a growing message.
const (
	Open  State = ""
	Ended State = "ended"  // its text is not the reply, which is to replace it
	Over  State = "closed" // nothing more is to be done about it
)

// Channel delivers the parts of a growing message. [connector.Client] is one.
type Channel interface {
	// Send delivers a part. For the first one it returns the id that names the message in the others.
	Send(ctx context.Context, to activity.Reference, a *activity.Activity) (id string, err error)
	// Update replaces a message that has ended, and Delete removes it.
	Update(ctx context.Context, to activity.Reference, id string, a *activity.Activity) error
	Delete(ctx context.Context, to activity.Reference, id string, targeted bool) error
}

// Lease is that of the turn's queue. [inbox.Lease] is one.
type Lease interface {
	Err() error
	Beside() []byte
	SaveBeside(ctx context.Context, beside []byte) error
}

// Config says for whom a Stream shows what. All fields but Saved and Judge are required.
type Config struct {
	About   *activity.Activity // what the turn answers; nobody changes it any more
	Channel Channel
	Lease   Lease
	Saved   *Message // of the turn's record
	Off     bool     // opens no message, and only ends what a lost process left open
	Speaks  bool     // the outbox has what ends the message
	Longer  string   // says that the answer comes later, in a message of its own
	Reply   func(text string) *activity.Activity
	Hush    func() // ends the typing indicator, since the message shows instead
	// Judge judges a text before anybody reads it. Its error says why nobody may. nil: nobody judges.
	Judge func(ctx context.Context, text string) error
	Cause func(error) string // what the log may have of an error
}

// Stream shows the person what the bot is doing, and answers while a model writes them. It owns one
// message that grows at a time.
//
// One goroutine sends, one request at a time, and always the newest text. It delays neither the model
// nor the turn, except that the turn waits for a request under way before it speaks. [Stream.Draft],
// [Stream.Progress] and [Stream.Does] may be called at any time, the other methods only by the turn. A
// nil Stream shows nothing; all methods but those three may be called on it.
type Stream struct {
	cfg   Config
	every time.Duration
	limit time.Duration // how long a message may be open
	again time.Duration // when to send the same status again

	wake  chan struct{} // has room for one
	quit  context.CancelFunc
	ended chan struct{} // closed when the goroutine has ended; nil: it was not started

	// busy has one token while a request is under way or the turn speaks. Whoever put it there may touch
	// the fields below.
	busy     chan struct{}
	held     bool // by the turn
	open     *Message
	answered time.Time // when the last request was answered
	status   string    // that was sent last
	updated  string    // the text of the last update
	off      bool      // opens no message
	frozen   bool      // the open message gets no more parts
	barred   time.Time // until when the conversation takes no streams; zero: it does

	mu     sync.Mutex // for the fields below
	began  time.Time
	text   string    // of the answer so far
	full   bool      // text has all that is shown early of a long answer
	grew   time.Time // when the first of it came that was not sent yet
	enough time.Time // when there was enough of it to open a message
	timed  bool      // the goroutine wakes up by itself to send the newest text
	doing  string    // what to show as the status; "": nothing
	inCall bool      // an action runs
	halted bool      // the person pressed Stop
	cancel context.CancelFunc

	// What has to be judged.
	judging  sync.WaitGroup
	waits    string          // the draft of which not all is judged
	passed   int             // how many bytes of it are
	news     string          // the newest progress that is not judged
	asking   bool            // a text is being judged
	unfit    error           // why no more of the answer is shown early
	asked    context.Context //nolint:containedctx // that of the goroutine
	draftNum int             // counts the answers that began
}

// Streams reports whether the channel shows messages that grow there.
func Streams(a *activity.Activity) bool {
	return a.Conversation.Personal() && slices.Contains([]string{activity.Teams, "webchat", "directline", "emulator", console}, a.ChannelID)
}

const console = "console"

// New returns nil if cfg is Off and no message is open that a lost process left. Nothing is sent
// before [Stream.Start].
func New(cfg Config) *Stream {
	left := leftOpen(cfg.Saved, cfg.Lease.Beside())
	if cfg.Off && left == nil && (cfg.Saved == nil || cfg.Saved.State == Over) {
		return nil
	}
	s := &Stream{
		cfg: cfg, every: chunkEvery, limit: limitOf(cfg.About), again: forever,
		wake: make(chan struct{}, 1), busy: make(chan struct{}, 1),
		open: left, off: cfg.Off, frozen: left != nil, began: time.Now(),
	}
	if cfg.About.ChannelID == console {
		s.every = quickEvery
	}
	if s.limit == endInCopilot {
		s.again = againEvery
	}
	if left != nil && left.ID == "" { // the channel has one which nobody knows how to end
		s.open, s.off, s.frozen, s.barred = nil, true, false, left.Begun.Add(lostFor)
	}
	if cfg.Speaks {
		s.hold()
	}
	return s
}

// Start begins to send. The Stream is closed with [Stream.Close].
func (s *Stream) Start(ctx context.Context) {
	if s == nil {
		return
	}
	ctx, s.quit = context.WithCancel(ctx)
	s.asked = ctx
	s.ended = make(chan struct{})
	go s.run(ctx)
}

// Opens reports whether the person may see the answer while it is written.
func (s *Stream) Opens() bool { return s != nil && !s.off }

// Barred is until when the conversation takes no growing messages; the zero time: it does.
func (s *Stream) Barred() time.Time { return s.barred }

// limitOf is how long a growing message may be open.
func limitOf(a *activity.Activity) time.Duration {
	if strings.EqualFold(a.Product(), "COPILOT") {
		return endInCopilot
	}
	return endAfter
}

// leftOpen returns the growing message that a lost process left, if it is not over: that of the record,
// or a newer one saved beside it.
func leftOpen(saved *Message, raw []byte) *Message {
	left := saved
	if raw != nil {
		beside := &Message{}
		if json.Unmarshal(raw, beside) == nil && (left == nil || !left.Begun.Equal(beside.Begun)) {
			left = beside
		}
	}
	if left == nil || left.State == Over || left.ID == "" && time.Since(left.Begun) > lostFor {
		return nil
	}
	open := *left
	open.Heals = false
	return &open
}

// Draft takes the answer so far, see [actions.Turn.Draft].
func (s *Stream) Draft(text string) {
	if s.cfg.Judge != nil {
		s.judgeDraft(text)
	} else {
		s.draft(text)
	}
}

func (s *Stream) draft(text string) {
	s.mu.Lock()
	s.grow(text)
	timed := s.timed
	s.mu.Unlock()
	if !timed { // a wake-up for each token is not worth its CPU
		s.rouse()
	}
}

// grow takes the text so far. It needs mu.
func (s *Stream) grow(text string) {
	switch {
	case text == "":
		s.text, s.grew, s.enough, s.timed, s.full = "", time.Time{}, time.Time{}, false, false
	case s.full && strings.HasPrefix(text, s.text):
	default:
		if len(text) > MaxUnits/2 { // bytes: there may be too much of it
			head := text[:markdown.Head(text, MaxUnits)]
			s.full = len(head) < len(text)
			text = head
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

// judgeDraft is draft where somebody judges. It holds a text back until whole sentences of it have
// passed, each with the end of what is before it.
func (s *Stream) judgeDraft(text string) {
	if text == "" {
		s.EndDraft()
		s.mu.Lock()
		s.unfit = nil
		s.mu.Unlock()
		s.draft("")
		return
	}
	s.mu.Lock()
	s.waits = text
	s.mu.Unlock()
	s.judgeNext()
}

// EndDraft ends the judging of the answer so far: the plan is there, or the answer begins anew.
func (s *Stream) EndDraft() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draftNum++
	s.waits, s.passed = "", 0
}

// Unfit is the error of Judge about a part of the answer.
func (s *Stream) Unfit() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfit
}

// judgeNext asks about what is next, unless a text is being judged.
func (s *Stream) judgeNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, end := s.asked, 0
	if s.unfit == nil {
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
		s.ask(ctx, window, func(err error) {
			switch {
			case answer != s.draftNum: // it is about another answer
			case err != nil:
				s.unfit = err
			case end > len(s.waits): // marks of sources that came meanwhile made it shorter
			default:
				s.passed = end
				s.grow(s.waits[:end])
			}
		})
	case s.news != "":
		text := s.news
		s.news = ""
		s.ask(ctx, text, func(err error) {
			if err == nil && s.inCall {
				s.doing = text
			}
		})
	}
}

// ask has a text judged beside the turn. then is called with mu locked.
func (s *Stream) ask(ctx context.Context, text string, then func(error)) {
	s.asking = true
	s.judging.Go(func() {
		err := s.cfg.Judge(ctx, text)
		s.mu.Lock()
		s.asking = false
		then(err)
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

// Progress takes what a running action says of its progress, see [actions.Turn.OnProgress].
func (s *Stream) Progress(text string) {
	s.mu.Lock()
	switch {
	case s.cfg.Judge != nil:
		s.news = text
		s.mu.Unlock()
		s.judgeNext()
		return
	case s.inCall && strings.TrimSpace(text) != "": // Teams refuses one without text, as where it takes no streams
		s.doing = text
	}
	s.mu.Unlock()
	s.rouse()
}

// Does says what the turn does from now on; "" says nothing. call says that it is a call of an
// action.
func (s *Stream) Does(text string, call bool) {
	s.mu.Lock()
	s.doing, s.inCall = text, call
	s.mu.Unlock()
	s.rouse()
}

func (s *Stream) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Planning returns the context for making a plan: it ends when the person presses Stop.
func (s *Stream) Planning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if s == nil {
		return ctx, cancel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfit = nil
	if s.cancel = cancel; s.halted {
		cancel()
	}
	return ctx, cancel
}

// Stopped reports whether the person pressed Stop.
func (s *Stream) Stopped() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted
}

// halt notes that the person pressed Stop.
func (s *Stream) halt() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted = true; s.cancel != nil {
		s.cancel()
	}
}

// Shows reports whether the person sees a text that grows. From then on the stream waits. What they do
// not see yet is dropped.
func (s *Stream) Shows() bool {
	if s == nil {
		return false
	}
	s.hold()
	if s.open != nil && s.open.State == Open && s.open.Shown != "" {
		return true
	}
	s.draft("")
	s.release()
	return false
}

// hold waits for a request under way. Until [Stream.Resume] there is no other.
func (s *Stream) hold() {
	if s == nil || s.held {
		return
	}
	s.busy <- struct{}{}
	s.held = true
}

// Resume lets the stream open another message, for what comes after the one that was sent.
func (s *Stream) Resume() {
	if s == nil || !s.held {
		return
	}
	s.mu.Lock()
	s.began, s.text, s.grew, s.enough, s.timed, s.doing = time.Now(), "", time.Time{}, time.Time{}, false, ""
	s.mu.Unlock()
	if s.open != nil && s.open.State == Over {
		s.open = nil
	}
	s.release()
}

func (s *Stream) release() {
	s.held = false
	<-s.busy
}

// Close ends the goroutine and waits for it. A request under way is waited for: if it opens a message,
// the next process has to know which one.
func (s *Stream) Close() {
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
func (s *Stream) run(ctx context.Context) {
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
func (s *Stream) step(ctx context.Context) time.Duration {
	for {
		next := s.next()
		if next.send == nil || s.cfg.Lease.Err() != nil || ctx.Err() != nil {
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
func (s *Stream) next() (next part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timed = false
	text := part{s.sendText, s.text, s.grew.Add(settle)}
	status := part{s.sendStatus, s.doing, s.began.Add(statusAfter)}
	switch o := s.open; {
	case s.halted:
	case o == nil && s.off:
	case o == nil:
		if !s.enough.IsZero() {
			text.at = latest(s.enough.Add(settle), s.began.Add(openAfter), s.answered.Add(s.every))
			next, s.timed = text, true
		}
		if s.doing != "" {
			status.at = latest(status.at, s.answered.Add(s.every))
			next = next.sooner(status)
		}
	case o.State == Over:
	case o.State == Ended:
		if s.text != "" && s.text != s.updated {
			next, s.timed = part{s.sendUpdate, s.text, latest(text.at, s.answered.Add(updateEvery))}, true
		}
	default:
		next = part{s.sendEnd, "", latest(o.Begun.Add(s.limit), s.answered.Add(finalAfter))}
		switch {
		case s.frozen:
		case len(s.text) > len(o.Shown) && strings.HasPrefix(s.text, o.Shown):
			text.at = latest(text.at, s.answered.Add(s.every))
			next, s.timed = next.sooner(text), true
		case o.Shown == "" && s.doing != "" && s.doing != s.status:
			status.at = latest(status.at, s.answered.Add(s.every))
			next = next.sooner(status)
		case o.Shown == "" && s.doing != "":
			status.at = s.answered.Add(s.again)
			next = next.sooner(status)
		}
	}
	return next
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// units is how many UTF-16 code units a text has.
func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

func (s *Stream) sendStatus(ctx context.Context, text string) {
	cut := text[:spelling.Prefix(text, maxStatus)]
	for len(cut) > maxStatusSize {
		cut = strings.ToValidUTF8(cut[:maxStatusSize], "")
	}
	if s.chunk(ctx, activity.StreamStatus, cut) {
		s.status = text
	}
}

func (s *Stream) sendText(ctx context.Context, text string) {
	s.mu.Lock()
	s.grew = time.Time{} // what comes from here on is new
	s.mu.Unlock()
	s.chunk(ctx, activity.StreamText, text)
}

// chunk sends a part. It saves what it shows first.
func (s *Stream) chunk(ctx context.Context, kind, text string) (sent bool) {
	first := s.open == nil
	o := &Message{Begun: time.Now().UTC()}
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
	a := activity.To(s.cfg.About.Reference(), activity.Typing)
	a.Text, a.Locale = text, s.cfg.About.Locale
	if kind == activity.StreamText {
		a.TextFormat = "markdown"
	}
	a.SetStream(activity.StreamInfo{ID: o.ID, Type: kind, Sequence: o.Sequence})
	id, err := s.cfg.Channel.Send(ctx, s.cfg.About.Reference(), a)
	switch said := answerOf(err); said {
	case accepted, unsure:
		if first {
			if o.ID = id; id == "" { // nobody can end it
				s.off, s.barred = true, o.Begun.Add(lostFor)
				return false
			}
			s.cfg.Hush()
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
func (s *Stream) refused(ctx context.Context, said answer, err error) {
	first := s.open == nil
	if said != tooFast {
		zerolog.Ctx(ctx).Info().Str("error", s.cfg.Cause(err)).Bool("first", first).Msg("a part of a growing message was not taken")
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
func (s *Stream) endedWith(ctx context.Context, text bool) {
	s.updated = s.open.Shown
	if s.open.State = Ended; !text {
		s.open.State = Over
	}
	s.save(ctx, s.open)
	if !text {
		s.open, s.off = nil, true
	}
}

// sendEnd ends the message before the channel does. With a text it can be changed from then on. With
// nothing but a status it says that the answer comes later, in a message of its own.
func (s *Stream) sendEnd(ctx context.Context, _ string) {
	said := s.finish(ctx, s.cfg.Longer)
	switch said {
	case tooFast, unsure: // again, until the channel has ended it
		if time.Since(s.open.Begun) < lostFor {
			return
		}
	case pressedStop:
		s.refused(ctx, said, ErrStopped)
		return
	}
	s.endedWith(ctx, s.open.Shown != "")
}

// finish ends the open message with what was shown, or with instead if that is only a status.
func (s *Stream) finish(ctx context.Context, instead string) answer {
	m := s.labelled(s.open.Shown)
	if s.open.Shown == "" {
		m = s.cfg.Reply(instead)
	}
	_, err := s.cfg.Channel.Send(ctx, s.cfg.About.Reference(), final(m, s.open.ID))
	return answerOf(err)
}

// sendUpdate shows more of the answer in a message that has ended.
func (s *Stream) sendUpdate(ctx context.Context, text string) {
	s.mu.Lock()
	s.grew = time.Time{}
	s.mu.Unlock()
	s.updated = text
	m := s.labelled(text)
	m.ReplyToID = ""
	if err := s.cfg.Channel.Update(ctx, s.cfg.About.Reference(), s.open.ID, m); err != nil {
		zerolog.Ctx(ctx).Debug().Str("error", s.cfg.Cause(err)).Msg("more of an answer was not shown")
	}
}

// save saves the message beside the turn's record.
func (s *Stream) save(ctx context.Context, o *Message) bool {
	raw, err := json.Marshal(o)
	if err == nil {
		err = s.cfg.Lease.SaveBeside(ctx, raw)
	}
	if err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("what is shown was not saved, so it is not shown")
	}
	return err == nil
}

// Leave ends a message for which there was no reply, when the turn ends. One with nothing but a
// status is deleted. Failures are harmless: the channel ends it by itself.
func (s *Stream) Leave(ctx context.Context) {
	s.hold()
	o := s.open
	if o == nil || o.State != Open || s.Stopped() || s.cfg.Lease.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, chunkWithin)
	defer cancel()
	s.Pace(ctx)
	said := s.finish(ctx, cmp.Or(s.status, "…"))
	if o.Shown == "" && (said == accepted || said == alreadyDone) {
		_ = s.cfg.Channel.Delete(ctx, s.cfg.About.Reference(), o.ID, false)
	}
	s.open = nil
}

// Pace waits until the channel takes the end of the message.
func (s *Stream) Pace(ctx context.Context) {
	if s == nil {
		return
	}
	timer := time.NewTimer(time.Until(s.answered.Add(min(finalAfter, s.every))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
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

// End makes the first of the messages end the growing message that is open, or replace it if it has
// ended with another text. Without messages it ends one that shows a text, which a later message
// replaces. The record keeps ended, unless it is nil. The Stream waits until they are sent. The error
// is [ErrStopped].
func (s *Stream) End(messages []*activity.Activity) (all []*activity.Activity, ended *Message, err error) {
	if s == nil {
		return messages, nil, nil
	}
	s.hold()
	if s.Stopped() {
		return nil, nil, ErrStopped
	}
	i := slices.IndexFunc(messages, func(m *activity.Activity) bool { return m.Type == activity.Message })
	if s.open == nil || i < 0 && (len(messages) > 0 || s.open.State == Ended) {
		return messages, nil, nil
	}
	open := *s.open
	if open.State == Over {
		return messages, &open, nil
	}
	shown := final(s.labelled(open.Shown), open.ID)
	if i < 0 {
		open.Heals = true
		return []*activity.Activity{shown}, &open, nil
	}
	m, rest := messages[i], []*activity.Activity(nil)
	more, continues := strings.CutPrefix(m.Text, open.Shown)
	card := len(m.Attachments) > 0 && !continues // people are told of a new message, and not of a change
	switch {
	case open.State == Ended && card:
		s.open.State, open.State = Over, Over
		rest = append(rest, deleting(open.ID), m)
	case open.State == Ended:
		rest = append(rest, replacing(m, open.ID))
	case card:
		rest = append(rest, shown, deleting(open.ID), m)
	case continues && open.Full && strings.TrimSpace(more) != "":
		later := *m
		later.Text = markdown.Rest(open.Shown, more)
		rest = append(rest, shown, &later)
	case continues:
		last := final(m, open.ID)
		last.Text = cmp.Or(m.Text, markdown.Tame(m.Summary, nil), "…") // a card
		rest = append(rest, last)
	default:
		open.Heals = true
		rest = append(rest, shown, replacing(m, open.ID))
	}
	return slices.Concat(messages[:i], rest, messages[i+1:]), &open, nil
}

// Sent is what the channel said to a message that ended a growing message, or replaced it.
type Sent struct {
	Message   *activity.Activity
	Err       error              // nil: the channel took it
	Retryable bool               // the channel may take it later
	Repeated  bool               // nobody answered it the first time
	Next      *activity.Activity // what comes behind it; nil: nothing
}

// Settlement says what to do about that. The zero value: go on with what comes behind the message.
type Settlement struct {
	Done    bool                 // the growing message is what was sent
	Repeat  bool                 // send the message again, at once
	Instead []*activity.Activity // not nil: send these at once, in its place
	Skip    bool                 // and without what comes behind it
	Err     error                // why it was not sent
}

// Settle decides what to do about the channel's answer, and notes in open, which is that of the record,
// what became of the growing message.
func (s *Stream) Settle(ctx context.Context, open *Message, sent Sent) Settlement {
	m, err, said := sent.Message, sent.Err, answerOf(sent.Err)
	refused, answered := errors.AsType[*connector.Error](err)
	done := func(over bool) Settlement {
		s.close(open, over)
		return Settlement{Done: true}
	}
	instead := func(list ...*activity.Activity) Settlement { return Settlement{Instead: list} }
	if m.Type == activity.MessageUpdate {
		switch {
		case err == nil:
			return done(true)
		case answered && (refused.Status == http.StatusNotFound || !sent.Retryable): // say it below
			s.close(open, true)
			return instead(plain(m))
		}
		return Settlement{Err: err}
	}
	if said == tooFast && answered && !refused.HeldBack && time.Since(open.Begun) > s.limit+overAfter {
		said = expired
	}
	s.answered = time.Now()
	if said == unsure && answered && !sent.Retryable && !sent.Repeated {
		return Settlement{Repeat: true}
	}
	if said == unsure && !answered { // it was sent twice
		again := plain(m)
		again.ReplyToID = ""
		if s.cfg.Channel.Update(ctx, s.cfg.About.Reference(), open.ID, again) == nil {
			said = alreadyDone
		}
	}
	shown := m.Text == open.Shown
	switch {
	case said == accepted || said == alreadyDone:
		return done(!open.Heals)
	case said == pressedStop:
		s.halt()
		return Settlement{Err: ErrStopped}
	case said == expired && open.Heals, said == notPrefix && shown && open.Heals:
		return done(false)
	case said == expired, said == notPrefix && (shown || open.Shown == ""):
		return instead(replacing(m, open.ID))
	case said == notPrefix:
		open.Heals = true
		return instead(final(s.labelled(open.Shown), open.ID), replacing(m, open.ID))
	case said == tooLarge && !shown && open.Shown != "":
		rest := plain(m)
		rest.Text = markdown.Rest(open.Shown, strings.TrimPrefix(m.Text, open.Shown))
		return instead(final(s.labelled(open.Shown), open.ID), rest)
	case sent.Retryable:
		return Settlement{Err: err}
	case open.Heals && sent.Next == nil: // a command is next
		s.close(open, true)
		return Settlement{}
	case open.Heals:
		s.close(open, true)
		return Settlement{Instead: []*activity.Activity{plain(sent.Next)}, Skip: true}
	case !shown || len(m.Attachments) > 0: // what was shown alone may end it
		open.Heals = true
		return instead(final(s.labelled(cmp.Or(open.Shown, "…")), open.ID), replacing(m, open.ID))
	}
	s.close(open, true)
	if next := sent.Next; next != nil && next.Type == activity.MessageDelete && next.ID == open.ID { // a card is next
		return Settlement{Instead: []*activity.Activity{}, Skip: true}
	}
	return instead(plain(m))
}

// close notes that the message which ended the growing message, or replaced it, was sent. over says that
// nothing is left to be done about it.
func (s *Stream) close(open *Message, over bool) {
	s.open = nil
	if open.State, open.Heals = Over, false; !over {
		open.State = Ended
		still := *open
		s.open = &still
	}
	s.status, s.updated, s.frozen, s.answered = "", "", false, time.Now()
}

// labelled is the message of a text that a model wrote.
func (s *Stream) labelled(text string) *activity.Activity {
	m := s.cfg.Reply(text)
	m.LabelAI()
	return m
}

// Abandon gives the open message up, because the person pressed Stop, and opens no other. It returns
// what the person has read of it, with the whole of its last word.
func (s *Stream) Abandon() (read string) {
	if s == nil {
		return ""
	}
	s.hold()
	if s.open != nil {
		read = s.read()
	}
	s.open, s.off = nil, true
	return read
}

func (s *Stream) read() string {
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

// SpeakAgain lets the turn speak although the person pressed Stop.
func (s *Stream) SpeakAgain() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = false
}

// answer is what a channel's answer to a part of a growing message means.
type answer int

const (
	accepted    answer = iota
	unsure             // it may have arrived
	tooFast            // it did not arrive, and a later one may
	pressedStop        // the person pressed Stop
	expired            // the message was open for too long, and has ended
	alreadyDone        // the message has ended
	notPrefix          // it does not begin with what was shown
	tooLarge
	notHere // this conversation takes no streams
	faulty
)

// answerOf reads the channel's answer. Teams gives the same codes for different reasons, so its words
// count, as in Microsoft's own libraries.
func answerOf(err error) answer {
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
