// Package record writes down what a bot lives through, for tests: the conversations as
// scenarios that bottest run plays, and what its model was asked and answered as cassettes.
// People, places and secrets have stand-ins in them. It has the format of
// scenarios, too: [Read] reads it strictly, [Write] writes it.
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
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/turnlog"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Config says where to write. Dir is required; the zero value of every other field is a
// working default.
type Config struct {
	// Dir gets the files, each for the eyes of its owner only. It is made if there is none.
	// Several recorders may share it: the names of their files differ.
	Dir string
	// Secrets are taken out wherever they are found, beside what looks like one.
	Secrets []string
	// MaxSteps, MaxSameCalls and Approval are the bot's, see docs/scenario.schema.json, and
	// Settings are the names of others that change what the bot does and that scenarios
	// do not have. FilteredText is what it says when a content filter stops a turn, if that
	// is not the default.
	MaxSteps, MaxSameCalls int
	Approval               []string
	Settings               []string
	FilteredText           string
	// Same are the names of settings with which the scenarios have to be played as well.
	Same []string
	// Planner is the bot's, by its name, unless it is sequence, as which scenarios play.
	Planner string
	// MaxBytes bounds what is kept in all; what comes after that is not recorded. 0: 32 MiB.
	MaxBytes int
	// Log is told once of what cannot be written, and of the limit.
	Log zerolog.Logger
}

// Recorder sees what a bot does through the parts that it wraps, and writes it down beside
// the bot: whatever goes wrong with that, the bot does not notice. It sees one process: of a
// turn that another one does nothing is expected.
type Recorder struct {
	cfg    Config
	scrub  *scrub.Scrubber
	prefix string // of the files

	mu      sync.Mutex
	all     map[string]*conversation // by id, without threads
	ids     []string                 // of all, in the order in which they were met
	bytes   int
	told    map[string]bool // what is left out
	changed chan struct{}

	stop  context.CancelFunc
	ended sync.WaitGroup
}

const (
	// pause is how long the writer waits for more before it writes, at least.
	pause = 500 * time.Millisecond
	// restraint is how many times as long as it wrote the writer waits.
	restraint = 10
	// closeWithin is how long Close may write.
	closeWithin = 5 * time.Second
)

// New makes the folder and begins to write. Close ends it.
func New(cfg Config) (*Recorder, error) {
	if cfg.Dir == "" {
		return nil, errors.New("recording: no Dir")
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 32<<20)
	r := &Recorder{
		cfg: cfg, scrub: scrub.New(cfg.Secrets...),
		prefix: time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6]) + "-", // no two replicas have the same
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
	ctx, stop := context.WithCancel(context.Background()) // ends with Close
	r.stop = stop
	r.ended.Go(func() { r.write(ctx) })
	return r, nil
}

// Close writes what is left, as far as that takes no more than some seconds.
func (r *Recorder) Close() {
	r.stop()
	r.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if left := r.flush(ctx); left > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.complain("end", fmt.Errorf("what was said last in %d conversations was not written down in time", left))
	}
}

// write writes what has changed until ctx ends.
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

// flush writes the files of the conversations that have changed. Those that it does not come
// to before ctx ends are as changed as before, and it reports how many.
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

// files writes those of a conversation. What is learned at the end of it, such as a password
// that is named there, holds for its beginning.
func (r *Recorder) files(ctx context.Context, name string, c *conversation) error {
	var list []Scenario
	var calls []cassette.Call
	for version := -1; version != r.scrub.Version() && ctx.Err() == nil; {
		version = r.scrub.Version()
		whole := false
		list, whole = r.scenarios(ctx, name, c)
		calls = nil
		for i := 0; i < len(c.calls) && ctx.Err() == nil; i++ {
			calls = append(calls, c.calls[i].Scrub(r.scrub))
			calls[i].Foreign = calls[i].Foreign || !whole && i == 0
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
	return errors.Join(faults...)
}

// replace writes a file of this recorder whole, or not at all.
func (r *Recorder) replace(name string, data []byte) error {
	name = filepath.Join(r.cfg.Dir, r.prefix+name)
	const part = ".part"
	if err := os.WriteFile(name+part, append([]byte(head), data...), 0o600); err != nil {
		return err
	}
	return os.Rename(name+part, name)
}

// complain logs the first of each kind of what is left out. It is called with r.mu held.
func (r *Recorder) complain(kind string, err error) {
	if !r.told[kind] {
		r.cfg.Log.Error().Err(err).Msg("the recording is not whole; the bot goes on")
	}
	r.told[kind] = true
}

// change changes what is kept of a conversation, which then has size more bytes. What panics
// in it is left out: the bot's turn goes on.
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
		r.complain("limit", fmt.Errorf("the recording has reached its limit of %d bytes: no more is written down", r.cfg.MaxBytes))
		if c != nil && !c.full {
			c.full, c.dirty = true, true // what comes after a gap makes no sense
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

// Handler is h, of which the recorder sees what [Recorder.Authenticator] lets in and how that was
// answered.
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

// delivery is the activity of a request, once it was let in.
type delivery struct{ activity *activity.Activity }

type deliveryKey struct{}

// answering sees the answer to a request.
type answering struct {
	http.ResponseWriter
	status int // 0: 200
	body   bytes.Buffer
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader sees the status.
func (a *answering) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
	a.ResponseWriter.WriteHeader(status)
}

// Write sees the body.
func (a *answering) Write(p []byte) (int, error) {
	a.body.Write(p)
	return a.ResponseWriter.Write(p)
}

// Authenticator is the bot's, of which the recorder sees what it takes. Without [Recorder.Handler]
// it does not see what is then refused all the same, and what clicks are answered with.
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

func (v watchedCaller) Permit(a *activity.Activity) error {
	if err := v.Caller.Permit(a); err != nil {
		return err
	}
	raw, err := a.Encode()
	if err != nil {
		return nil // it cannot be recorded
	}
	if own, err := activity.Decode(raw); err == nil { // the turn may change its own
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

// answered takes back the step of an activity that was not taken, and keeps what the bot
// said in the answer.
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

// saidIn are the messages in the answer to a request: what a click shows, and replies that
// travel there.
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

// base is the conversation without its thread.
func base(id string) string {
	id, _, _ = strings.Cut(id, ";messageid=")
	return id
}

// Model is the model, of which the recorder sees what it is asked and answers.
func (r *Recorder) Model(m models.Model) models.Model { return watchedModel{m, r} }

type watchedModel struct {
	models.Model
	of *Recorder
}

// Name is the model's own, "" when it has none.
func (m watchedModel) Name() string {
	if named, ok := m.Model.(interface{ Name() string }); ok {
		return named.Name()
	}
	return ""
}

func (m watchedModel) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	of := turnlog.From(ctx)
	m.of.change(base(of.Conversation), 0, func(c *conversation) { c.ofTurn(of.Turn, of.Activity) }) // which begins
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

// Hooks see the plans, the calls of actions, and the ends of turns.
func (r *Recorder) Hooks() bot.Hooks {
	return bot.Hooks{
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
		TurnEnded: func(ctx context.Context, t *bot.Turn, _ error) {
			r.turn(ctx, t, 0, func(s *step) { s.turns[t.ID] = true })
		},
	}
}

// turn changes the step that the turn belongs to: by what it answers or, if it follows a
// decision, by the click, which the context names. Then the turn answers who asked.
func (r *Recorder) turn(ctx context.Context, t *bot.Turn, size int, change func(*step)) {
	of := cmp.Or(turnlog.From(ctx).Activity, t.Activity.ID)
	r.change(t.Activity.Conversation.BaseID(), size, func(c *conversation) {
		if s := c.ofTurn(t.ID, of); s != nil {
			if of != t.Activity.ID {
				s.asker = t.Activity.From.ID
			}
			change(s)
		}
	})
}

// Channel is the channel, of which the recorder sees the messages that it takes.
func (r *Recorder) Channel(c turn.Channel) turn.Channel { return watchedChannel{c, r} }

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
	of := turnlog.From(ctx)
	said := replyOf(a)
	r.change(base(to.Conversation.ID), len(a.Text), func(c *conversation) {
		s := c.ofTurn(of.Turn, of.Activity)
		if s == nil { // a notice, or of a turn that another process had begun
			c.apart = true
			return
		}
		s.sends = append(s.sends, status)
		if err == nil {
			s.replies = append(s.replies, said)
			s.turns[of.Turn] = s.turns[of.Turn] || said.asks() // a turn that waits is over for this step
		}
	})
}

// statusOf is how the channel answered a message for good; 0: it may take it later, or never
// got it.
func statusOf(err error) int {
	refused, answered := errors.AsType[*connector.Error](err)
	switch {
	case err == nil:
		return http.StatusOK
	case !answered:
		return 0
	}
	switch refused.Status {
	case http.StatusPreconditionFailed, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0
	}
	return refused.Status
}
