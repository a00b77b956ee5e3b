package turnlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptrace"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

// Config limits what a [Log] keeps. The zero value is a working default.
type Config struct {
	// Secrets are removed wherever they appear, as is anything that looks like a secret.
	Secrets []string
	// MaxTurns is how many turns are kept, in 64 MiB at most. 0: 200. The oldest turns go first, those
	// that ended well before those that need an operator, and pinned ones last.
	MaxTurns int
	// MaxPerSecond is how many turns a second are kept whole, after a burst of three times as many. Of the
	// others there is how they began and ended, of as many a second after a burst of ten times as many: a bot
	// under load must not notice that it is watched. 0: 10.
	MaxPerSecond int
	// Changed is called for each turn that changed. It must not block. nil: nobody is told.
	Changed func(Head)
}

// Log keeps records of the last turns. Its watching methods never block: it drops what it cannot
// take, and the record says so. It is safe for concurrent use. Close ends it.
type Log struct {
	cfg    Config
	scrub  *scrub.Scrubber
	events chan any
	lost   sync.Map // ids of turns of which something was lost
	// kept says of turns whether they are kept whole: true as long as their records are here, false for those
	// that came too fast and are not over yet. skipped counts those, tooFast how many there were.
	kept             sync.Map
	skipped, tooFast atomic.Int64
	stop             context.CancelFunc
	ended            sync.WaitGroup

	mu    sync.Mutex
	turns map[string]*Record
	order []string // ids, oldest first
	size  int
	rate  *rate.Limiter // of turns that are kept whole
	rows  *rate.Limiter // of how the others begin

	clean   map[string]string // texts that come again, such as prompts, without secrets
	version int               // of the scrubber when clean was made
}

const (
	maxBytes = 64 << 20 // that are kept in total
	// maxTurnBytes limits one turn, maxTextBytes one text. What is longer is cut, with its length and
	// its hash in its place.
	maxTurnBytes, maxTextBytes = 2 << 20, 256 << 10

	waitingEvents = 1024   // how many events may wait to be recorded
	maxSkipped    = 10_000 // how many turns under way may be skipped
)

// New starts a log.
func New(cfg Config) *Log {
	cfg.MaxTurns, cfg.MaxPerSecond = cmp.Or(cfg.MaxTurns, 200), cmp.Or(cfg.MaxPerSecond, 10)
	l := &Log{cfg: cfg, scrub: scrub.NewForSecrets(cfg.Secrets...), events: make(chan any, waitingEvents), turns: map[string]*Record{}, clean: map[string]string{}}
	l.rate = rate.NewLimiter(rate.Limit(cfg.MaxPerSecond), 3*cfg.MaxPerSecond)
	l.rows = rate.NewLimiter(rate.Limit(cfg.MaxPerSecond), 10*cfg.MaxPerSecond)
	ctx, stop := context.WithCancel(context.Background()) // ends with Close
	l.stop = stop
	l.ended.Go(func() {
		for {
			select {
			case e := <-l.events:
				l.take(e)
			case <-ctx.Done():
				for len(l.events) > 0 { // nobody else takes them
					l.take(<-l.events)
				}
				return
			}
		}
	})
	return l
}

// Close records what the log has seen and ends it. Its records can still be read.
func (l *Log) Close() {
	l.stop()
	l.ended.Wait()
}

// Turns returns the heads of the turns, newest first.
func (l *Log) Turns() []Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Head, 0, len(l.order))
	for _, id := range slices.Backward(l.order) {
		all = append(all, l.turns[id].Head)
	}
	return all
}

// TooFast counts the turns that were not recorded whole because they came too fast.
func (l *Log) TooFast() int { return int(l.tooFast.Load()) }

// Turn returns the record of a turn as it is now. Do not change what it refers to.
func (l *Log) Turn(id string) (Record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.turns[id]
	if !ok {
		return Record{}, false
	}
	c := *r
	c.Rounds, c.Commands, c.Journal = copied(r.Rounds), copied(r.Commands), copied(r.Journal)
	c.Sent, c.Log, c.Plans, c.Changes = copied(r.Sent), copied(r.Log), copied(r.Plans), copied(r.Changes)
	return c, true
}

// Pin pins or unpins a turn; pinned turns are dropped last. It reports whether there is such a
// turn.
func (l *Log) Pin(id string, pinned bool) bool {
	l.mu.Lock()
	r, ok := l.turns[id]
	var head Head
	if ok {
		r.Pinned = pinned
		head = r.Head
	}
	l.mu.Unlock()
	if ok && l.cfg.Changed != nil {
		l.cfg.Changed(head)
	}
	return ok
}

// Restore adds turns that another process has seen. It replaces those that it added before, unless
// something has happened in them since. It keeps the turns; do not change them.
func (l *Log) Restore(turns []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range turns {
		had := l.turns[r.ID]
		if had != nil && !had.earlier {
			continue
		}
		r.earlier = true
		if raw, err := json.Marshal(r); err == nil {
			r.size = len(raw)
		}
		if a, err := activity.Decode(r.Received.Activity); err == nil {
			(builder{l, &r}).clicked(a)
		}
		if had != nil {
			l.size -= had.size
		} else {
			l.order = append(l.order, r.ID)
		}
		l.turns[r.ID], l.size = &r, l.size+r.size
		l.kept.Store(r.ID, true)
	}
	slices.SortStableFunc(l.order, func(a, b string) int { return l.turns[a].At.Compare(l.turns[b].At) })
	if n := len(l.order); n > 0 {
		l.evict(l.turns[l.order[n-1]])
	}
}

// copied is a copy that is an empty list in JSON if there is nothing in it.
func copied[T any](all []T) []T { return append(make([]T, 0, len(all)), all...) }

// Settle waits until what has happened so far is recorded, or ctx ends.
func (l *Log) Settle(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case l.events <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WatchTurn is for [bot.Feature].Event.
func (l *Log) WatchTurn(e turn.Event) {
	if e.Counted.What != "" {
		return
	}
	begins := e.Received != nil || e.Began != nil
	if begins {
		l.decide(e.Turn)
	}
	if l.keeps(e.Turn) {
		h := happened{Event: e}
		if e.State != nil {
			h.state = e.State()
		}
		l.put(e.Turn, h)
		return
	}
	row := e.Ended != nil
	if begins {
		row = l.rows.Allow()
	}
	if row {
		l.send(e.Turn, happened{Event: e})
	}
	if e.Ended != nil || e.Received != nil && e.Received.Duplicate+e.Received.Dropped+e.Received.Joined != "" { // it is over
		if _, known := l.kept.LoadAndDelete(e.Turn); known {
			l.skipped.Add(-1)
		}
	}
}

// happened is an event of a turn, with the state at that moment.
type happened struct {
	turn.Event
	state turn.State
}

func (l *Log) keeps(id string) bool {
	kept, _ := l.kept.Load(id)
	return kept == true
}

// decide settles whether a turn that begins is kept whole, unless that is settled.
func (l *Log) decide(id string) {
	if _, known := l.kept.Load(id); known {
		return
	}
	kept, known := l.kept.LoadOrStore(id, l.rate.Allow())
	if known || kept == true {
		return
	}
	l.tooFast.Add(1)
	if l.skipped.Add(1) > maxSkipped { // perhaps other processes go on with them
		l.skipped.Store(0)
		for id, kept := range l.kept.Range {
			if kept == false {
				l.kept.Delete(id)
			}
		}
	}
}

// WatchPlanner is for [planner.Config].Watch.
func (l *Log) WatchPlanner(e planner.Event) { l.put(e.Turn, e) }

// put hands an event to the recording, or notes that there is no room for it.
func (l *Log) put(id string, e any) {
	if l.keeps(id) {
		l.send(id, e)
	}
}

func (l *Log) send(id string, e any) {
	select {
	case l.events <- e:
	default:
		l.lost.Store(id, true)
	}
}

// Writer returns a writer for a second copy of the bot's log, as JSON, one line a call. It keeps the
// lines that belong to a turn.
func (l *Log) Writer() io.Writer { return lines{l} }

type lines struct{ of *Log }

func (w lines) Write(p []byte) (int, error) {
	if _, rest, ok := bytes.Cut(p, []byte(`"turn":"`)); ok {
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		w.of.put(string(id), line(bytes.Clone(p)))
	}
	return len(p), nil
}

// line is a line of the log.
type line []byte

// Channel wraps the bot's channel. The log sees what is sent there.
func (l *Log) Channel(c turn.Channel) turn.Channel { return watched{c, l} }

type watched struct {
	turn.Channel
	of *Log
}

// sending is a request to the channel.
type sending struct {
	turn, kind string
	activity   *activity.Activity
	sent       Sent
	err        error
}

// see makes a request and records it.
func (w watched) see(
	ctx context.Context, kind string, to activity.Reference, a *activity.Activity, send func(context.Context) (string, error),
) (string, error) {
	of := turnid.From(ctx).Turn
	if !w.of.keeps(of) {
		return send(ctx)
	}
	var tries atomic.Int32
	began := time.Now()
	room, _, _ := strings.Cut(to.Conversation.ID, ";messageid=")
	id, err := send(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { tries.Add(1) }}))
	sent := Sent{At: began, Room: room, ID: id, Tries: int(tries.Load()), TookNS: time.Since(began), Times: 1}
	s := sending{turn: of, kind: kind, err: err, sent: sent}
	if a != nil {
		kept := *a
		s.activity = &kept
	}
	w.of.put(of, s)
	return id, err
}

func (w watched) Send(ctx context.Context, to activity.Reference, a *activity.Activity) (string, error) {
	return w.see(ctx, "send", to, a, func(ctx context.Context) (string, error) { return w.Channel.Send(ctx, to, a) })
}

func (w watched) Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (string, error) {
	return w.see(ctx, "reply", to, a, func(ctx context.Context) (string, error) { return w.Channel.Reply(ctx, to, replyTo, a) })
}

func (w watched) Update(ctx context.Context, to activity.Reference, id string, a *activity.Activity) error {
	_, err := w.see(ctx, "update", to, a, func(ctx context.Context) (string, error) { return id, w.Channel.Update(ctx, to, id, a) })
	return err
}

func (w watched) Delete(ctx context.Context, to activity.Reference, id string, targeted bool) error {
	_, err := w.see(ctx, "delete", to, nil, func(ctx context.Context) (string, error) { return id, w.Channel.Delete(ctx, to, id, targeted) })
	return err
}

// take records an event. A panic loses that event and nothing else.
func (l *Log) take(e any) {
	if done, ok := e.(chan struct{}); ok {
		l.markLost()
		close(done)
		return
	}
	l.mu.Lock()
	var changed *Head
	func() {
		defer l.mu.Unlock()
		defer func() { _ = recover() }()
		if r := l.record(e); r != nil {
			head := r.Head
			changed = &head
			l.evict(r)
		}
	}()
	if changed != nil && l.cfg.Changed != nil {
		l.cfg.Changed(*changed)
	}
	if len(l.events) == 0 {
		l.markLost()
	}
}

const maxLost = 1000 // how many turns may be known of which something was lost and nothing is kept

// markLost marks the turns of which something was lost: perhaps nothing more comes of them.
func (l *Log) markLost() {
	unknown := 0
	for id := range l.lost.Range {
		l.mu.Lock()
		r := l.find(id.(string)) //nolint:forcetypeassert // put stored it
		var head Head
		if r != nil {
			head = r.Head
		}
		l.mu.Unlock()
		if r != nil && l.cfg.Changed != nil {
			l.cfg.Changed(head)
		}
		if r == nil {
			unknown++
		}
		if unknown > maxLost {
			l.lost.Delete(id)
			l.kept.Delete(id)
		}
	}
}

// record changes the record that an event belongs to, and returns it. nil: there is none.
func (l *Log) record(e any) *Record {
	switch e := e.(type) {
	case happened:
		return l.turnEvent(e)
	case planner.Event:
		if r := l.find(e.Turn); r != nil {
			builder{l, r}.planner(e)
			return r
		}
	case sending:
		if r := l.find(e.turn); r != nil {
			builder{l, r}.sent(e)
			return r
		}
	case line:
		var head struct {
			Turn, Level, Time, Message, Error string
		}
		if json.Unmarshal(e, &head) != nil {
			return nil
		}
		if r := l.find(head.Turn); r != nil {
			b := builder{l, r}
			text := head.Message
			if head.Error != "" {
				text += ": " + head.Error
			}
			r.Log = append(r.Log, Line{At: head.Time, Level: head.Level, Text: b.text(text), Line: b.json(bytes.TrimSpace(e))})
			return r
		}
	}
	return nil
}

// find returns the record of a turn, and marks it if something of it was lost.
func (l *Log) find(id string) *Record {
	r := l.turns[id]
	if r != nil {
		r.earlier = false
		if _, lost := l.lost.LoadAndDelete(id); lost {
			r.Incomplete = true
		}
	}
	return r
}

func (l *Log) turnEvent(e happened) *Record {
	r := l.find(e.Turn)
	if r == nil && (e.Received != nil || e.Began != nil) {
		head := Head{ID: e.Turn, Outcome: Running, At: e.At, Actions: []string{}, Incomplete: !l.keeps(e.Turn)}
		r = &Record{Version: Version, Head: head}
		l.turns[e.Turn], l.order = r, append(l.order, e.Turn)
	}
	if r != nil {
		builder{l, r}.turn(e)
	}
	return r
}

// evict drops the oldest turns beyond the limits. now is the one that grew.
func (l *Log) evict(now *Record) {
	same := 0
	for _, r := range l.turns {
		if r.Conversation == now.Conversation {
			same++
		}
	}
	for len(l.order) > 1 && (len(l.order) > l.cfg.MaxTurns || l.size > maxBytes) {
		at := -1
		for pass := 0; pass < 4 && at < 0; pass++ {
			at = slices.IndexFunc(l.order, func(id string) bool {
				r := l.turns[id]
				mine := same <= l.cfg.MaxTurns/2 || r.Conversation == now.Conversation // one conversation gets half
				return r != now && (pass == 3 || !r.Pinned && (pass == 2 || r.Outcome != Parked && (pass == 1 || mine)))
			})
		}
		if at < 0 {
			return
		}
		l.size -= l.turns[l.order[at]].size
		delete(l.turns, l.order[at])
		l.kept.CompareAndDelete(l.order[at], true)
		l.order = slices.Delete(l.order, at, at+1)
	}
}

// builder adds to a record. The caller holds the log's lock.
type builder struct {
	*Log
	r *Record
}

// repeated is from how many bytes on a text is looked for among the last ones; maxClean is how many
// are kept.
const repeated, maxClean = 1 << 10, 64

// text is a text without secrets, as far as there is room for it.
func (b builder) text(text string) string {
	if len(text) > maxTextBytes || b.r.size+len(text) > maxTurnBytes {
		b.r.Cut = true
		text = fmt.Sprintf("[left out: %d bytes, sha256 %x]", len(text), sha256.Sum256([]byte(text)))
	}
	is := ""
	if len(text) < repeated {
		is = b.scrub.Text(text)
	} else {
		known := false
		if v := b.scrub.Version(); v != b.version || len(b.clean) >= maxClean {
			b.version, b.clean = v, map[string]string{}
		}
		if is, known = b.clean[text]; !known {
			is = b.scrub.Text(text)
			b.clean[text] = is
		}
	}
	b.r.size += len(is)
	b.size += len(is)
	return is
}

// json is the same for JSON.
func (b builder) json(raw []byte) jsontext.Value {
	if len(raw) == 0 {
		return nil
	}
	text := b.text(string(raw))
	if !json.Valid([]byte(text)) {
		quoted, _ := json.Marshal(text) // a string
		return quoted
	}
	return jsontext.Value(text)
}

// encoded writes a value as JSON.
func (b builder) encoded(v any) string {
	if v == nil {
		return ""
	}
	return b.text(written(v))
}

func (b builder) turn(e happened) {
	switch {
	case e.Received != nil:
		b.received(e.Received)
	case e.Began != nil:
		b.began(e)
	case e.Loaded:
		b.loaded(e.state)
	case e.Planned != nil:
		if shown := e.Shown; shown != nil && len(b.r.Plans) == 0 {
			b.shown(shown)
		}
		b.r.Plans = append(b.r.Plans, *b.plan(e.At, e.Planned))
	case e.Called != nil:
		b.called(e)
	case e.Saved != nil:
		b.saved(e.At, e.Saved)
	case e.Ended != nil:
		b.over(e)
	}
}

const maxWords = 120 // how much of a text a list of turns shows

func (b builder) received(e *turn.Received) {
	r := b.r
	if r.Received.Activity == nil {
		r.Received.Activity, r.Received.Text = b.json(e.Activity), b.text(e.Text)
		b.about(e.Activity, e.Text)
	}
	switch {
	case e.Duplicate != "":
		r.Outcome, r.Received.Duplicate = Duplicate, e.Duplicate
		if first := b.turns[e.Duplicate]; first != nil {
			first.Again++
		}
	case e.Joined != "":
		r.Outcome, r.Joined = Joined, e.Joined
		if whole := b.turns[e.Joined]; whole != nil {
			whole.Joins++
		}
	case e.Dropped != "":
		r.Outcome, r.Received.Dropped = Ignored, b.text(e.Dropped)
	case len(r.Journal) == 0:
		r.Journal = append(r.Journal, Save{At: r.At, Phase: "accepted", Bytes: len(e.Activity), Words: "a crash here would begin the turn anew"})
	}
}

func (b builder) about(raw jsontext.Value, text string) {
	a, err := activity.Decode(raw)
	if err != nil {
		return
	}
	h := &b.r.Head
	h.Conversation, h.Kind, h.Channel = a.Conversation.ID, cmp.Or(a.Conversation.ConversationType, "personal"), a.ChannelID
	h.Person, h.PersonID, h.Activity = b.text(a.From.Name), a.From.ID, a.ID
	h.Type = string(a.Type)
	if a.Type == activity.Invoke || a.Type == activity.Event {
		h.Type += " " + a.Name
	}
	if a.Type == activity.Invoke && a.Name == cardAction || text == "" && a.Type == activity.Message && len(a.Value) > 0 {
		text = strings.TrimSpace("clicked " + clickIn(a).Action.Title)
	}
	h.Text = b.text(spelling.OneLine(cmp.Or(text, h.Type), maxWords))
	b.clicked(a)
}

// clicked notes on which message a click was, and looks for the turn that sent it.
func (b builder) clicked(a *activity.Activity) {
	b.r.room = a.Conversation.BaseID()
	if a.Type == activity.Invoke && a.Name == cardAction || a.Type == activity.Message && len(a.Value) > 0 {
		b.r.clicked = a.ReplyToID
	}
	for _, id := range slices.Backward(b.order) {
		from := b.turns[id]
		for _, s := range from.Sent {
			b.r.follow(from, s)
		}
	}
}

// follow notes it if r is a click on what another turn sent.
func (r *Record) follow(from *Record, s Sent) {
	if r.Parent == "" && r.clicked != "" && r.clicked == s.ID && r != from && r.room == cmp.Or(s.Room, from.room) {
		r.Parent = from.ID
		r.Text = spelling.OneLine(r.Text+" on “"+from.Text+"”", 2*maxWords)
	}
}

// click is a click on a button of a card: an Action.Submit has its verb only.
type click struct {
	Action struct{ Title, Verb string }
	Verb   string
}

func clickIn(a *activity.Activity) (c click) {
	_ = json.Unmarshal(a.Value, &c) // any other value is no click
	return c
}

// refused says why a click on an approval or a question did not count; "": it did, or it was on something else.
func (r *Record) refused() string {
	a, err := activity.Decode(r.Received.Activity)
	if err != nil || r.clicked == "" {
		return ""
	}
	c := clickIn(a)
	if !strings.HasPrefix(cmp.Or(c.Action.Verb, c.Verb), "planbot/") {
		return ""
	}
	var answer struct{ Body struct{ Value any } }
	_ = json.Unmarshal(r.Received.Answer, &answer) // another answer says nothing
	said, _ := answer.Body.Value.(string)          // else it is a card
	for _, s := range r.Sent {
		if a.Type == activity.Message && s.Activity != nil { // to one that counts the turn answers that waited
			said = s.Text
		}
	}
	return said
}

const cardAction = "adaptiveCard/action" // the name of an invoke that is a click on a card

func (b builder) began(e happened) {
	r := b.r
	if n := len(r.Journal); r.Outcome == Waiting && n > 0 {
		r.Journal[n-1].PausedNS = e.At.Sub(r.Over())
		r.PausedNS += r.Journal[n-1].PausedNS
	}
	if r.Outcome == Running { // what the process before did not save is done again
		for i := range r.Commands {
			if !r.Saved(r.Commands[i].At) {
				r.Commands[i].Result = Lost
			}
		}
		r.Plans = slices.DeleteFunc(r.Plans, func(p Plan) bool { return !r.Saved(p.At) })
	}
	by := ""
	if r.Outcome == Waiting {
		by = Others
	}
	r.Tries, r.Outcome, r.Parent = e.Began.Tries, Running, cmp.Or(r.Parent, e.Began.Cause)
	if r.Received.Activity == nil && e.Began.Activity != nil {
		r.Received.Activity, r.Received.Text = b.json(e.Began.Activity), b.text(e.Began.Text)
		b.about(e.Began.Activity, e.Began.Text)
	}
	if r.Before == nil {
		r.partial = e.Began.Phase != "planning" || e.Began.Again
		r.Before, r.WaitedNS = b.state(e.state), e.At.Sub(r.At)
		r.After = r.Before
	} else {
		b.became(e.state, by)
	}
}

// loaded notes what a turn found when it read more of the state. Others may have changed it since the turn began.
func (b builder) loaded(s turn.State) {
	now := b.state(s)
	with := func(had turn.State, again bool) turn.State {
		if had == nil {
			return nil
		}
		had = maps.Clone(had) // readers may hold it
		for scope, values := range now {
			if had[scope] == nil || again {
				had[scope] = values
			}
		}
		return had
	}
	b.r.Before, b.r.kept.state, b.r.After = with(b.r.Before, false), with(b.r.kept.state, false), with(b.r.After, true)
}

func (b builder) state(s turn.State) turn.State {
	kept := turn.State{}
	for scope, values := range s {
		kept[scope] = map[string]jsontext.Value{}
		for name, raw := range values {
			if had := b.r.After[scope][name]; bytes.Equal(had, raw) {
				kept[scope][name] = had // unless it has secrets, the memory is shared
				continue
			}
			kept[scope][name] = b.json(raw)
		}
	}
	return kept
}

// became notes what changed in the state.
func (b builder) became(s turn.State, by string) {
	if s == nil {
		return
	}
	now := b.state(s)
	for scope, values := range b.r.After {
		if now[scope] == nil { // it was not read again
			now[scope] = values
		}
	}
	b.r.Changes = append(b.r.Changes, Compare(b.r.After, now, by)...)
	b.r.After = now
}

func (b builder) shown(s *turn.Shown) {
	r := &b.r.Received
	r.Quotes, r.Drafts = s.Quotes, s.Drafts
	if s.Text != r.Text {
		r.Text = b.text(s.Text)
	}
	for _, a := range s.Attached {
		r.Attached = append(r.Attached, Attached{Name: b.text(a.Name), Text: b.text(a.Text), Gone: a.Gone, Picture: len(a.Picture) > 0})
	}
}

func (b builder) plan(at time.Time, p *plan.Plan) *Plan {
	kept := &Plan{At: at, Repairs: p.Repairs, Salvaged: p.Salvaged, Observe: p.Observe, Prose: p.Prose}
	for _, c := range p.Commands {
		one := PlanCommand{Kind: c.Kind, Action: c.Action, SaveAs: c.SaveAs, Response: b.text(c.Response)}
		if c.Kind == plan.Do {
			one.Entities = b.encoded(c.Entities)
		}
		kept.Commands = append(kept.Commands, one)
	}
	return kept
}

func (b builder) called(h happened) {
	e := h.Called
	c := Command{
		At: h.At, Number: e.Index + 1, Plan: len(b.r.Plans), Action: e.Command.Action, Planned: b.encoded(e.Command.Entities), Resolved: b.encoded(e.Entities),
		Key: e.Key, Again: e.Again, Approved: e.Approved, SaveAs: e.Command.SaveAs, Result: "ok", Text: b.text(e.Result.Text()), Shown: b.text(e.Result.Shown()), Error: b.text(e.Err), TookNS: e.Took,
		Observe: Observes(e.Result),
	}
	switch {
	case e.Result.Failed() || e.Err != "":
		c.Result = "failed"
	case e.Result.Unchanged():
		c.Result = "unchanged"
	}
	if v, err := e.Result.Value(); err == nil {
		if _, isText := v.(string); !isText {
			c.Data = b.encoded(v)
		}
	}
	b.r.Commands = append(b.r.Commands, c)
	if !slices.Contains(b.r.Actions, c.Action) {
		b.r.Actions = append(slices.Clip(b.r.Actions), c.Action)
	}
	b.became(h.state, c.Action)
}

func (b builder) over(h happened) {
	r, e := b.r, h.Ended
	r.Outcome, r.Error, r.TookNS = e.Outcome, b.text(e.Err), h.At.Sub(r.At)-r.WaitedNS-r.PausedNS
	if e.Usage.ModelCalls > 0 {
		r.ModelCalls, r.TokensIn, r.TokensOut, r.Cost = e.Usage.ModelCalls, e.Usage.PromptTokens, e.Usage.CompletionTokens, e.Usage.Cost
	}
	r.Received.Answer = b.json(e.Answer)
	if e.Outcome == OK {
		r.Refused = r.refused()
		did := func(c Command) bool { return c.Result != "unchanged" }
		r.Unchanged = len(r.Commands) > 0 && !slices.ContainsFunc(r.Commands, did)
		for i := range r.Plans {
			r.Unapproved = r.Unapproved || r.UnapprovedIn(i+1)
		}
	}
	if _, whole := h.state["conversation"]; !whole && r.Before["conversation"] != nil { // what it had changed is not saved
		r.After, r.Changes = r.kept.state, r.Changes[:min(r.kept.changes, len(r.Changes))]
		if r.After == nil {
			r.After = r.Before
		}
	} else {
		b.became(h.state, "")
	}
	if all := r.Problems(); len(all) > 0 {
		r.Problem = spelling.OneLine(all[0].Text, maxWords)
	}
}

func (b builder) planner(e planner.Event) {
	r := b.r
	if q := e.Asked; q != nil {
		round := Round{
			At: e.At, Planner: q.Planner, Prompt: q.Prompt, MaxTokens: q.Request.MaxTokens, Temperature: q.Request.Temperature,
			HistoryTokens: q.HistoryTokens, InputTokens: q.InputTokens,
		}
		for _, s := range q.Sections {
			text := s.Text
			for _, c := range s.Calls {
				text += "\n" + c.Name + " " + c.Arguments
			}
			round.Sections = append(round.Sections, Section{Name: s.Name, Role: s.Role, Text: b.text(strings.TrimSpace(text)), Bytes: len(text), Left: s.Left})
		}
		for _, t := range slices.Concat(q.Request.Tools, q.Request.Actions) {
			round.Offered = append(round.Offered, t.Name)
		}
		sent := func(name, text string) {
			round.Sections = append(round.Sections, Section{Name: name, Role: "request", Text: b.text(text), Bytes: len(text)})
		}
		for _, t := range q.Request.Tools {
			sent("tool", written(map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema}))
		}
		switch f := q.Request.Format; {
		case f == nil:
		case f.Schema == nil:
			round.Format = "json_object"
		default:
			round.Format = "json_schema"
			sent("schema", string(f.Schema))
		}
		r.Rounds, r.ModelCalls = append(r.Rounds, round), r.ModelCalls+1
		return
	}
	if len(r.Rounds) == 0 || e.Answered == nil {
		r.Incomplete = true
		return
	}
	a, round := e.Answered, &r.Rounds[len(r.Rounds)-1]
	round.Answer = &Answer{TookNS: a.Took}
	if a.Err != nil {
		round.Answer.Error = b.text(a.Err.Error())
	}
	if fault, ok := errors.AsType[*models.Error](a.Err); ok {
		round.Answer.Kind, round.Answer.Status, round.Answer.Code = fault.Kind, fault.Status, b.text(fault.Code)
	}
	if m := a.Response; m != nil {
		round.Answer.Text, round.Answer.Finish = b.text(m.Text), m.Finish
		round.Answer.In, round.Answer.Out, round.Answer.Cached, round.Answer.Cost = m.Usage.Prompt, m.Usage.Completion, m.Usage.Cached, m.Usage.Cost
		r.TokensIn, r.TokensOut, r.TokensCached, r.Cost = r.TokensIn+m.Usage.Prompt, r.TokensOut+m.Usage.Completion, r.TokensCached+m.Usage.Cached, r.Cost+m.Usage.Cost
		for _, c := range m.Calls {
			round.Answer.Calls = append(round.Answer.Calls, Call{c.Name, b.text(c.Arguments)})
		}
	}
	if a.Fault != nil {
		round.Refused = &Refused{Kind: string(plan.InvalidPlan), Detail: b.text(a.Fault.Error()), Told: b.text(a.Told)}
		if fault, ok := errors.AsType[*plan.Fault](a.Fault); ok {
			round.Refused.Kind, round.Refused.Detail = string(fault.Kind), b.text(fault.Detail)
		}
	}
	if a.Plan != nil {
		round.Plan = b.plan(e.At, a.Plan)
	}
}

const maxLabel = 200 // how much of a stream's text is kept

func (b builder) sent(e sending) {
	s := e.sent
	s.Kind = e.kind
	if a := e.activity; a != nil {
		s.Text = a.Text
		if a.Type == activity.Typing {
			s.Kind = "typing"
			if a.Stream() != (activity.StreamInfo{}) {
				s.Kind = "stream"
			}
			s.Text = spelling.OneLine(a.Text, maxLabel)
		} else if raw, err := a.Encode(); err == nil {
			s.Activity = b.json(raw)
		}
		s.Text = b.text(s.Text)
		if b.r.Type == Notice && b.r.Text == Notice {
			b.r.Text = b.text(spelling.OneLine("notice: "+cmp.Or(a.Text, a.Summary), maxWords))
		}
	}
	s.Status = 200
	if refused, ok := errors.AsType[*connector.Error](e.err); ok {
		s.Status = refused.Status
	} else if e.err != nil {
		s.Status = 0
	}
	if e.err != nil {
		s.Error = b.text(e.err.Error())
	}
	if n := len(b.r.Sent); n > 0 && s.Activity == nil && s.Error == "" && b.r.Sent[n-1].Kind == s.Kind && s.Kind != "delete" {
		last := &b.r.Sent[n-1]
		last.Times, last.Text, last.TookNS = last.Times+1, s.Text, last.TookNS+s.TookNS
		return
	}
	b.r.Sent = append(b.r.Sent, s)
	for _, r := range b.turns { // a click may be faster than the answer to who sent the card
		r.follow(b.r, s)
	}
}

// saved notes a save, and what a crash after it would do.
func (b builder) saved(at time.Time, e *turn.Saved) {
	s := Save{At: at, Bytes: len(e.Record), TookNS: e.Took, Error: b.text(e.Err), Dropped: e.Dropped, Phase: "over", Words: "nothing is left that a crash could repeat"}
	if e.Record != nil {
		s.Phase, s.Words, s.For = afterCrash(e.Record)
	}
	if e.Err != "" {
		s.Words = "it was not saved: a crash here would go on from the save before"
	} else if !e.Dropped {
		b.r.kept = kept{b.r.After, len(b.r.Changes)}
	}
	b.r.Journal = append(b.r.Journal, s)
}

// afterCrash reads off a record what the next process would do.
func afterCrash(raw []byte) (phase, words, waits string) {
	var rec struct {
		Phase string `json:"phase"`
		Run   *struct {
			Progress *plan.Progress `json:"progress"`
			InFlight int            `json:"in_flight"`
		} `json:"run"`
		Outbox []struct{} `json:"outbox"`
		Sent   []string   `json:"sent"`
		Wait   *struct {
			For    string    `json:"for"`
			Until  time.Time `json:"until"`
			Reason string    `json:"reason"`
		} `json:"wait"`
	}
	if err := json.Unmarshal(raw, &rec); err != nil {
		return "unknown", "the record cannot be read here", ""
	}
	switch run := rec.Run; rec.Phase {
	case "planning":
		if run == nil {
			return rec.Phase, "a crash here would begin the turn anew", ""
		}
		return rec.Phase, "a crash here would ask the model for the next plan, with what was done so far", ""
	case "running":
		if run == nil || run.Progress == nil || run.Progress.Done() {
			return rec.Phase, "a crash here would go on after the last command", ""
		}
		c, n := run.Progress.Plan.Commands[run.Progress.Next], run.Progress.Next+1
		name := cmp.Or(c.Action, c.Kind)
		switch {
		case run.InFlight > 1:
			const where = "a crash here would go on at command %d (%s), and tell it and the %d after it that they may have run before"
			return rec.Phase, fmt.Sprintf(where, n, name, run.InFlight-1), ""
		case run.InFlight == 1:
			return rec.Phase, fmt.Sprintf("a crash here would go on at command %d (%s), and tell it that it may have run before", n, name), ""
		}
		return rec.Phase, fmt.Sprintf("a crash here would go on at command %d (%s)", n, name), ""
	case "sending":
		n := len(rec.Sent) + 1
		if len(rec.Outbox) > 1 {
			const where = "a crash here would send message %d, which may then arrive twice, and the %d after it"
			return rec.Phase, fmt.Sprintf(where, n, len(rec.Outbox)-1), ""
		}
		return rec.Phase, fmt.Sprintf("a crash here would send message %d, which may then arrive twice", n), ""
	case "waiting":
		if rec.Wait != nil {
			about := waitsFor(rec.Wait.For, rec.Wait.Until, rec.Wait.Reason)
			return rec.Phase, "a crash here would change nothing: it waits for " + about, rec.Wait.For
		}
	}
	return rec.Phase, "a crash here would finish the turn", ""
}

func waitsFor(what string, until time.Time, reason string) string {
	switch what {
	case "approval":
		return "a person's approval"
	case "sign_in":
		return "a person to sign in"
	case "answer":
		return "a person's answer"
	case "time":
		return until.UTC().Format("2006-01-02 15:04:05 MST")
	case "channel":
		return "the channel, which did not take a message"
	case "operator":
		return "an operator: " + reason
	case "file":
		return "a person to take a file"
	}
	return what
}

const maxChanges = 200 // limits what one comparison lists

// Compare lists what differs between two states, by path, sorted. by says who changed it.
func Compare(before, after turn.State, by string) []Change {
	c := comparison{by: by}
	for _, scope := range keys(before, after) {
		for _, name := range keys(before[scope], after[scope]) {
			was, is := before[scope][name], after[scope][name]
			if bytes.Equal(was, is) {
				continue
			}
			if before, after := remembered(was), remembered(is); name == "history" && before+after != "" {
				c.all = append(c.all, Change{Path: scope + "." + name, Before: before, After: after, By: by})
			} else {
				c.compare(scope+"."+name, read(was), read(is))
			}
		}
	}
	if len(c.all) > maxChanges {
		more := len(c.all) - maxChanges
		c.all = append(c.all[:maxChanges], Change{Path: fmt.Sprintf("and %d more", more), By: by})
	}
	return c.all
}

// remembered says in a line what a history has: each turn moves all of its messages, which says nothing. "": it is none.
func remembered(history jsontext.Value) string {
	var h struct {
		Turns []struct{ Messages []struct{ Text string } }
	}
	if json.Unmarshal(history, &h) != nil || len(h.Turns) == 0 {
		return ""
	}
	words := fmt.Sprintf("turns: %d", len(h.Turns))
	if last := h.Turns[len(h.Turns)-1]; len(last.Messages) > 0 {
		words += ", the last one: " + spelling.OneLine(last.Messages[0].Text, maxWords)
	}
	return words
}

type comparison struct {
	by  string
	all []Change
}

// none stands for a value that is not there.
type none struct{}

func read(raw []byte) any {
	if len(raw) == 0 {
		return none{}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return v
}

func (c *comparison) compare(path string, was, is any) {
	if reflect.DeepEqual(was, is) {
		return
	}
	wasMap, ok1 := was.(map[string]any)
	isMap, ok2 := is.(map[string]any)
	if (ok1 || was == none{}) && (ok2 || is == none{}) && len(wasMap)+len(isMap) > 0 {
		for _, key := range keys(wasMap, isMap) {
			c.compare(path+"."+key, member(wasMap, key), member(isMap, key))
		}
		return
	}
	wasList, ok1 := was.([]any)
	isList, ok2 := is.([]any)
	if (ok1 || was == none{}) && (ok2 || is == none{}) && len(wasList)+len(isList) > 0 {
		for i := range max(len(wasList), len(isList)) {
			c.compare(fmt.Sprintf("%s[%d]", path, i), item(wasList, i), item(isList, i))
		}
		return
	}
	c.all = append(c.all, Change{Path: path, Before: written(was), After: written(is), By: c.by})
}

func member(of map[string]any, key string) any {
	if v, ok := of[key]; ok {
		return v
	}
	return none{}
}

func item(of []any, i int) any {
	if i < len(of) {
		return of[i]
	}
	return none{}
}

func written(v any) string {
	if v == (none{}) {
		return ""
	}
	return plainjson.Text(v)
}

// keys are those of both maps, sorted.
func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
