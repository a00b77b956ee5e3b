// Package record records what a bot does, for tests: conversations as scenarios for bottest run,
// model requests and answers as cassettes, and whole turns with the state that they found. People, places and secrets are replaced by
// stand-ins. The package also defines the scenario format: [Read] reads it strictly, [Write] writes
// it.
package record

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Config says where and how to record. Dir is required; the zero value of every other field is a
// working default.
type Config struct {
	// Dir receives the files, readable only by their owner. It is created if it does not exist.
	// Several recorders may share it: their file names differ.
	Dir string
	// Secrets are removed wherever they appear, as is anything that looks like a secret.
	Secrets []string
	// MaxSteps, MaxSameCalls and Approval are the bot's, see scenario.schema.json. Settings
	// names other settings that change what the bot does and that scenarios cannot express.
	// FilteredText is what the bot says when a content filter stops a turn, if that is not the
	// default.
	MaxSteps, MaxSameCalls int
	Approval               []string
	Settings               []string
	FilteredText           string
	// Same names settings that must be the same when the scenarios are played.
	Same []string
	// Planner names the bot's planner. "": sequence, with which scenarios are played.
	Planner string
	// MaxBytes limits what is recorded in all; anything after that is not recorded. 0: 64 MiB.
	MaxBytes int
	// Log gets one message about what cannot be written, and one about the limit.
	Log zerolog.Logger
}

// Recorder observes a bot through the parts that it wraps, and records in the background: a failure
// to record never affects the bot. It sees one process, so it expects nothing of a turn that
// another process handles.
type Recorder struct {
	cfg    Config
	scrub  *scrub.Scrubber
	prefix string // of the files
	by     string // begins what a scenario says about itself; "": a recording does
	log    *turnlog.Log

	mu      sync.Mutex
	all     map[string]*conversation // by id, without threads
	ids     []string                 // all of them, in order of appearance
	bytes   int
	told    map[string]bool // kinds of losses already logged
	changed chan struct{}

	stop  context.CancelFunc
	ended sync.WaitGroup
}

const (
	pause          = 500 * time.Millisecond // the least time that the writer waits for more before it writes
	restraint      = 10                     // how many times as long as its last write the writer waits
	wholePerSecond = 100                    // how many turns a second are kept whole
	closeWithin    = 5 * time.Second        // limits how long Close may write
)

// New creates the folder and starts recording. Close ends it.
func New(cfg Config) (*Recorder, error) {
	if cfg.Dir == "" {
		return nil, errors.New("recording: no Dir")
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 64<<20)
	r := &Recorder{
		cfg: cfg, scrub: scrub.New(cfg.Secrets...),
		prefix: time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6]) + "-", // differs between replicas
		all:    map[string]*conversation{}, told: map[string]bool{}, changed: make(chan struct{}, 1),
	}
	const probe = "probe"
	err := os.MkdirAll(cfg.Dir, 0o700)
	if err == nil {
		err = errors.Join(r.replace(probe, nil), os.Remove(filepath.Join(cfg.Dir, r.prefix+probe)))
	}
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	r.log = turnlog.New(turnlog.Config{Secrets: cfg.Secrets, MaxPerSecond: wholePerSecond, Changed: r.whole})
	ctx, stop := context.WithCancel(context.Background()) // ends with Close
	r.stop = stop
	r.ended.Go(func() { r.write(ctx) })
	return r, nil
}

// Close writes the rest, for at most some seconds.
func (r *Recorder) Close() {
	r.log.Close()
	r.stop()
	r.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if left := r.flush(ctx); left > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.complain("end", fmt.Errorf("the last messages of %d conversations were not recorded in time", left))
	}
}

// write writes changes until ctx ends.
func (r *Recorder) write(ctx context.Context) {
	for took := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(pause, restraint*took)):
		}
		began := time.Now()
		r.flush(ctx)
		took = time.Since(began)
	}
}

// flush writes the files of the changed conversations. Those that it does not reach before ctx ends
// stay marked as changed, and it returns their number.
func (r *Recorder) flush(ctx context.Context) (left int) {
	changed := map[string]*conversation{}
	r.mu.Lock()
	ids := slices.DeleteFunc(slices.Clone(r.ids), func(id string) bool { return !r.all[id].dirty })
	for _, id := range ids {
		changed[id], r.all[id].dirty = r.all[id].clone(), false
	}
	r.mu.Unlock() // turns do not wait for the scrubber
	for _, id := range ids {
		for _, s := range changed[id].steps {
			learn(s.activity, r.scrub)
		}
	}
	for _, id := range ids {
		err := r.files(ctx, cmp.Or(r.scrub.ID(scrub.Conversation, id), "elsewhere"), changed[id])
		r.mu.Lock()
		if ctx.Err() != nil {
			r.all[id].dirty = true
			left++
		} else if err != nil {
			r.complain("files", err)
		}
		r.mu.Unlock()
	}
	return left
}

// head is the first line of each file.
const head = "# What people said is in here. Names, ids and secrets have stand-ins, as far as they were found: look before you share it.\n"

// TurnsFile ends the name of a file with whole turns of a conversation: a comment that begins with #, then a line of
// JSON for each.
const TurnsFile = ".turns.jsonl"

// whole keeps what is known of a turn that waits or is over. What came of a wait takes the place of it.
func (r *Recorder) whole(h turnlog.Head) {
	raw, ok := wholeOf(r.log, h.ID)
	if !ok {
		return
	}
	r.change(base(h.Conversation), len(raw), func(c *conversation) {
		c.whole = slices.DeleteFunc(c.whole, func(w wholeTurn) bool { return w.id == h.ID })
		c.whole = append(c.whole, wholeTurn{h.ID, raw})
	})
}

// wholeOf is a turn that waits or is over and has a plan, as one line of JSON.
func wholeOf(log *turnlog.Log, id string) (raw []byte, ok bool) {
	rec, ok := log.Turn(id)
	if !ok || rec.Partial() || rec.Outcome == turnlog.Running || len(rec.Plans) == 0 && rec.Outcome != turnlog.Failed {
		return nil, false
	}
	rec.After, rec.Changes, rec.Log = nil, nil, nil // nobody needs them to play it again
	rec.Journal = slices.DeleteFunc(rec.Journal, func(s turnlog.Save) bool { return s.For == "" })
	for i := range rec.Sent {
		rec.Sent[i].Activity = nil
	}
	raw, err := plainjson.Marshal(rec)
	return raw, err == nil
}

// files writes the files of a conversation. What the scrubber learns at its end, such as a password
// named there, also applies to its beginning.
func (r *Recorder) files(ctx context.Context, name string, c *conversation) error {
	var list []Scenario
	var calls []cassette.Call
	var turns bytes.Buffer
	for version := -1; version != r.scrub.Version() && ctx.Err() == nil; {
		version = r.scrub.Version()
		whole := false
		list, whole = r.scenarios(ctx, name, c)
		calls = nil
		for i := 0; i < len(c.calls) && ctx.Err() == nil; i++ {
			calls = append(calls, c.calls[i].Scrub(r.scrub))
			calls[i].Foreign = calls[i].Foreign || !whole && i == 0
		}
		turns.Reset()
		for i := 0; i < len(c.whole) && ctx.Err() == nil; i++ {
			turns.WriteString(r.scrub.Text(string(c.whole[i].raw)) + "\n")
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var faults []error
	if len(list) > 0 {
		raw, err := Write(list)
		faults = append(faults, err, r.replace(name+".scenario.yaml", raw))
	}
	if len(calls) > 0 {
		raw, err := cassette.Write(calls)
		faults = append(faults, err, r.replace(name+".cassette.yaml", raw))
	}
	if turns.Len() > 0 {
		faults = append(faults, r.replace(name+TurnsFile, turns.Bytes()))
	}
	return errors.Join(faults...)
}

// replace writes a file of this recorder completely or not at all.
func (r *Recorder) replace(name string, data []byte) error {
	name = filepath.Join(r.cfg.Dir, r.prefix+name)
	const part = ".part"
	if err := os.WriteFile(name+part, append([]byte(head), data...), 0o600); err != nil {
		return err
	}
	return os.Rename(name+part, name)
}

// complain logs the first loss of each kind. The caller holds r.mu.
func (r *Recorder) complain(kind string, err error) {
	if !r.told[kind] {
		r.cfg.Log.Error().Err(err).Msg("the recording is incomplete; the bot goes on")
	}
	r.told[kind] = true
}

// change changes the record of a conversation, which grows by size bytes. If change panics, the
// change is lost, but the bot's turn continues.
func (r *Recorder) change(id string, size int, change func(*conversation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			r.complain("panic", fmt.Errorf("panic: %v", p))
		}
	}()
	const each = 256 // beside its texts
	c := r.all[id]
	if r.bytes+size+each > r.cfg.MaxBytes || c != nil && c.full {
		r.complain("limit", fmt.Errorf("the recording has reached its limit of %d bytes: it records no more", r.cfg.MaxBytes))
		if c != nil && !c.full {
			c.full, c.dirty = true, true // what follows a gap makes no sense
		}
		return
	}
	if c == nil {
		c = &conversation{turns: map[string]*step{}, heard: map[string]bool{}}
		r.all[id], r.ids = c, append(r.ids, id)
	}
	r.bytes += size + each
	change(c)
	c.dirty = true
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Handler wraps h. The recorder sees the requests that [Recorder.Authenticator] accepts, and their
// answers.
func (r *Recorder) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d := &delivery{}
		seen := &answering{ResponseWriter: w}
		h.ServeHTTP(seen, req.WithContext(context.WithValue(req.Context(), deliveryKey{}, d)))
		if d.activity != nil {
			r.answered(d.activity, seen)
		}
	})
}

// delivery is the activity of a request, once it is authenticated.
type delivery struct{ activity *activity.Activity }

type deliveryKey struct{}

// answering observes the answer to a request.
type answering struct {
	http.ResponseWriter
	status int // 0: 200
	body   bytes.Buffer
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answering) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(p []byte) (int, error) {
	a.body.Write(p)
	return a.ResponseWriter.Write(p)
}

// Authenticator wraps the bot's. The recorder sees the activities that it accepts. Without
// [Recorder.Handler] it does not see which of those are then refused, nor the answers to clicks.
func (r *Recorder) Authenticator(a bot.Authenticator) bot.Authenticator { return watchedAuth{a, r} }

type watchedAuth struct {
	bot.Authenticator
	of *Recorder
}

func (d watchedAuth) Authenticate(req *http.Request) (bot.Caller, error) {
	caller, err := d.Authenticator.Authenticate(req)
	if err != nil {
		return caller, err
	}
	to, _ := req.Context().Value(deliveryKey{}).(*delivery)
	return watchedCaller{caller, d.of, to}, nil
}

type watchedCaller struct {
	bot.Caller
	of *Recorder
	to *delivery
}

// code matches a message that may be the code of a sign-in.
var code = lazy.Regexp(`^[0-9]{6}$`)

func (v watchedCaller) Permit(a *activity.Activity) error {
	if err := v.Caller.Permit(a); err != nil {
		return err
	}
	raw, err := a.Encode()
	if err != nil {
		return nil // it cannot be recorded
	}
	if own, err := activity.Decode(raw); err == nil { // a copy, because the turn may change its own
		signin.Hide(own)
		if said := own.Said(); code().MatchString(said) {
			before := own.Text
			if own.Text = strings.ReplaceAll(before, said, "000000"); own.Text == before { // as entities of HTML
				own.Text = "000000"
			}
		}
		if v.to != nil {
			v.to.activity = own
		}
		v.of.came(own, len(raw))
	}
	return nil
}

// came begins a step, unless the activity is known: channels deliver some twice.
func (r *Recorder) came(a *activity.Activity, size int) {
	r.change(a.Conversation.BaseID(), size, func(c *conversation) {
		for _, s := range c.steps {
			if a.ID != "" && s.activity.ID == a.ID && s.activity.Type == a.Type && s.activity.Text == a.Text {
				return
			}
		}
		fresh := &step{activity: a, decision: decisionIn(a), turns: map[string]bool{}, apart: c.apart}
		c.apart, c.steps = false, append(c.steps, fresh)
	})
}

// answered removes the step of an activity that was not accepted, and records what the bot said in
// the answer.
func (r *Recorder) answered(a *activity.Activity, with *answering) {
	said := saidIn(a, with.body.Bytes())
	r.change(a.Conversation.BaseID(), with.body.Len(), func(c *conversation) {
		i := slices.IndexFunc(c.steps, func(s *step) bool { return s.activity == a })
		switch {
		case i < 0: // it came before
		case with.status >= http.StatusMultipleChoices:
			c.steps = slices.Delete(c.steps, i, i+1)
		default:
			s := c.steps[i]
			s.answered, s.refused = true, len(said) > 0
			s.replies = append(s.replies, said...)
			for turn := range s.turns {
				s.turns[turn] = s.turns[turn] || slices.ContainsFunc(said, reply.asks) // then it waits
			}
		}
	})
}

// saidIn returns the messages in the answer to a request: what a click shows, and replies sent in
// it.
func saidIn(a *activity.Activity, body []byte) (all []reply) {
	var answer struct {
		Value      any                 `json:"value"`
		Activities []activity.Activity `json:"activities"`
	}
	_ = strict.Unmarshal(body, &answer) // any other answer says nothing
	const stillAtWork = "I'm still working on it."
	if text, ok := answer.Value.(string); ok && a.Type == activity.Invoke && !strings.HasPrefix(text, stillAtWork) {
		all = append(all, reply{text: text})
	}
	for i := range answer.Activities {
		if m := &answer.Activities[i]; m.Type == activity.Message {
			all = append(all, replyOf(m))
		}
	}
	return all
}

// base is the conversation id without its thread.
func base(id string) string {
	id, _, _ = strings.Cut(id, ";messageid=")
	return id
}

// Model wraps the model. The recorder sees its requests and answers.
func (r *Recorder) Model(m models.Model) models.Model { return watchedModel{m, r} }

type watchedModel struct {
	models.Model
	of *Recorder
}

func (m watchedModel) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	of := turnid.From(ctx)
	m.of.change(base(of.Conversation), 0, func(c *conversation) { c.ofTurn(of.Turn, of.Activity) }) // it has just begun
	response, err := m.Model.Complete(ctx, req)
	if errors.Is(err, context.Canceled) {
		return response, err
	}
	call, kept := cassette.New(req, response, err)
	call.Planner = m.of.cfg.Planner
	m.of.change(base(of.Conversation), len(call.Asked), func(c *conversation) {
		call.Foreign = c.isForeign(of.Turn, req)
		if kept {
			c.calls = append(c.calls, call)
		}
		if s := c.ofTurn(of.Turn, of.Activity); s == nil {
			return
		} else if err != nil {
			s.answers, s.failed = append(s.answers, failures(err)...), true
		} else {
			s.answers, s.tools = append(s.answers, answer{Text: &response.Text}), len(response.Calls) > 0
		}
	})
	return response, err
}

// Feature records plans, action calls, and the ends of turns.
func (r *Recorder) Feature() bot.Feature {
	return bot.Feature{
		Name:  "recording",
		Event: r.log.WatchTurn,
		Plan: func(ctx context.Context, t *bot.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
			p, err := next(ctx)
			if err != nil {
				return p, err
			}
			kept := listsOf(t)
			r.turn(ctx, t, len(kept), func(s *step) {
				if s.seed == nil {
					s.seed = kept
				}
				s.planned(p)
			})
			return p, nil
		},
		Call: func(
			ctx context.Context, t *bot.Turn, call actions.Call, next func(context.Context, actions.Call) (actions.Result, error),
		) (actions.Result, error) {
			needs := call.Action.Approval || slices.Contains(r.cfg.Approval, call.Action.Name)
			one := &done{Action: Action{Action: call.Action.Name, Entities: call.Entities, Error: new("")}}
			r.turn(ctx, t, 0, func(s *step) {
				one.unasked = needs && s.asker == ""
				s.done = append(s.done, one)
			})
			result, err := next(ctx, call)
			if err == nil {
				r.turn(ctx, t, 0, func(*step) { one.gave(result) })
			}
			return result, err
		},
		Ended: func(ctx context.Context, t *bot.Turn, e turn.Ended) {
			if e.Over() {
				r.turn(ctx, t, 0, func(s *step) { s.turns[t.ID] = true })
			}
		},
	}
}

// turn changes the step of the turn: found by the activity that it answers or, after a decision, by
// the click, which the context names. From then on the turn answers the person who asked.
func (r *Recorder) turn(ctx context.Context, t *bot.Turn, size int, change func(*step)) {
	of := cmp.Or(turnid.From(ctx).Activity, t.Activity.ID)
	r.change(t.Activity.Conversation.BaseID(), size, func(c *conversation) {
		if s := c.ofTurn(t.ID, of); s != nil {
			if of != t.Activity.ID {
				s.asker = t.Activity.From.ID
			}
			change(s)
		}
	})
}

// Channel wraps the channel. The recorder sees the messages that it accepts.
func (r *Recorder) Channel(c turn.Channel) turn.Channel { return watchedChannel{r.log.Channel(c), r} }

type watchedChannel struct {
	turn.Channel
	of *Recorder
}

func (c watchedChannel) Send(ctx context.Context, to activity.Reference, a *activity.Activity) (string, error) {
	id, err := c.Channel.Send(ctx, to, a)
	c.of.sent(ctx, to, a, err)
	return id, err
}

func (c watchedChannel) Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (string, error) {
	id, err := c.Channel.Reply(ctx, to, replyTo, a)
	c.of.sent(ctx, to, a, err)
	return id, err
}

func (r *Recorder) sent(ctx context.Context, to activity.Reference, a *activity.Activity, err error) {
	status := statusOf(err)
	if a.Type != activity.Message || status == 0 {
		return
	}
	of := turnid.From(ctx)
	said := replyOf(a)
	r.change(base(to.Conversation.ID), len(a.Text), func(c *conversation) {
		s := c.ofTurn(of.Turn, of.Activity)
		if s == nil { // a notice, or of a turn that another process began
			c.apart = true
			return
		}
		s.sends = append(s.sends, status)
		if err == nil {
			s.replies = append(s.replies, said)
			s.turns[of.Turn] = s.turns[of.Turn] || said.asks() // a waiting turn is over for this step
		}
	})
}

// statusOf is the channel's final answer to a message; 0: the channel may accept it later, or never
// got it.
func statusOf(err error) int {
	refused, answered := errors.AsType[*connector.Error](err)
	switch {
	case err == nil:
		return http.StatusOK
	case !answered || slices.Contains(notFinal, refused.Status):
		return 0
	}
	return refused.Status
}

// notFinal are answers after which a channel may still accept the message, or never got it; 0: there was none.
var notFinal = []int{
	0, http.StatusPreconditionFailed, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}
