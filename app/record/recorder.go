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
	"encoding/json"
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
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Config says where to write. Dir is required; the zero value of every other field is a
// working default.
type Config struct {
	// Dir gets the files, each for the eyes of its owner only. It is made if there is none.
	// Several recorders may share it: none writes to a file that it did not make.
	Dir string
	// Secrets are taken out wherever they are found, beside what looks like one.
	Secrets []string
	// Options are those of the bot, as far as scenarios have them, and Settings are the names
	// of others that change what the bot does. FilteredText is what it says when a content
	// filter stops a turn, if that is not the default.
	Options      Options
	Settings     []string
	FilteredText string
	// Same are the names of settings with which the scenarios have to be played as well.
	Same []string
	// Planner is the bot's, by its name, unless it is sequence, as which scenarios play.
	Planner string
	// MaxBytes bounds what is kept in all, and MaxEach of one conversation; what comes
	// after that is not recorded. 0: 64 MiB, 2 MiB.
	MaxBytes, MaxEach int
	// Log is told once of what cannot be written, and of each conversation that has reached
	// its limit.
	Log zerolog.Logger
}

// Recorder sees what a bot does through the parts that it wraps, and writes it down beside
// the bot: whatever goes wrong with that, the bot does not notice. It sees one process: of a
// turn that another one does nothing is expected.
type Recorder struct {
	cfg    Config
	scrub  *scrub.Scrubber
	prefix string          // of the files
	own    map[string]bool // files that it made; only the writer uses it

	mu      sync.Mutex
	all     map[string]*conversation // by id, without threads
	met     []met                    // of whom the scrubber does not know yet
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
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	cfg.MaxBytes, cfg.MaxEach = cmp.Or(cfg.MaxBytes, 64<<20), cmp.Or(cfg.MaxEach, 2<<20)
	r := &Recorder{
		cfg: cfg, scrub: scrub.New(cfg.Secrets...), own: map[string]bool{},
		prefix: time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6]) + "-", // no two replicas have the same
		all:    map[string]*conversation{}, told: map[string]bool{}, changed: make(chan struct{}, 1),
	}
	const probe = "probe"
	if err := errors.Join(r.replace(r.prefix+probe, nil), os.Remove(filepath.Join(cfg.Dir, r.prefix+probe))); err != nil {
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
		timer := time.NewTimer(max(pause, restraint*took))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		began := time.Now()
		r.flush(ctx)
		took = time.Since(began)
	}
}

// complain logs the first of each kind of what is left out.
func (r *Recorder) complain(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(kind, err)
}

// tell is complain when r.mu is held.
func (r *Recorder) tell(kind string, err error) {
	if !r.told[kind] {
		r.cfg.Log.Error().Err(err).Msg("the recording is not whole; the bot goes on")
	}
	r.told[kind] = true
}

// maxMet bounds those of whom the scrubber does not know yet.
const maxMet = 100_000

// meet has who the activity is of known when something is written: turns do not wait for
// the scrubber.
func (r *Recorder) meet(a *activity.Activity) {
	all := metIn(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.met) < maxMet {
		r.met = append(r.met, all...)
	}
}

// change changes what is kept of a conversation, which then has size more bytes. What panics
// in it is left out: the bot's turn goes on.
func (r *Recorder) change(id string, size int, change func(*conversation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			r.tell("panic", fmt.Errorf("panic: %v", p))
		}
	}()
	const each = 256 // beside its texts
	size += each
	c := r.all[id]
	if all := r.bytes+size > r.cfg.MaxBytes; all || c != nil && (c.full || c.bytes+size > r.cfg.MaxEach) {
		if all {
			r.tell("limit", fmt.Errorf("all conversations together have reached their limit of %d bytes: no more is written down", r.cfg.MaxBytes))
		}
		if c != nil && !c.full {
			c.full, c.tooLong, c.dirty = true, !all, true // what comes after a gap makes no sense
		}
		return
	}
	if c == nil {
		c = &conversation{turns: map[string]*step{}, heard: map[string][]string{}, scrubbed: &scrubbedCalls{}}
		r.all[id] = c
	}
	r.bytes += size
	c.bytes += size
	change(c)
	c.dirty = true
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// maxAnswer is how much of an answer to a request is looked at.
const maxAnswer = 64 << 10

// Handler is h, of which the recorder sees what [Recorder.Authenticator] lets in and how that was
// answered.
func (r *Recorder) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d := &delivery{}
		seen := &answering{ResponseWriter: w, status: http.StatusOK}
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
	status int
	wrote  bool
	body   bytes.Buffer
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader sees the status.
func (a *answering) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sees the body.
func (a *answering) Write(p []byte) (int, error) {
	a.wrote = true
	if a.body.Len()+len(p) <= maxAnswer {
		a.body.Write(p)
	}
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
	to, _ := req.Context().Value(deliveryKey{}).(*delivery)
	if err != nil {
		return caller, err
	}
	return watchedCaller{caller, d.of, to}, nil
}

type watchedCaller struct {
	bot.Caller
	of *Recorder
	to *delivery
}

func (v watchedCaller) Permit(a *activity.Activity) error {
	err := v.Caller.Permit(a)
	if err == nil {
		if raw, fault := a.Encode(); fault == nil {
			if own, fault := activity.Decode(raw); fault == nil { // the turn may change its own
				if v.to != nil {
					v.to.activity = own
				}
				v.of.came(own, len(raw))
			}
		}
	}
	return err
}

// came begins a step, unless the activity is known: channels deliver some twice.
func (r *Recorder) came(a *activity.Activity, size int) {
	r.meet(a)
	fresh := newStep(a)
	r.change(a.Conversation.BaseID(), size, func(c *conversation) {
		for _, s := range c.steps {
			if a.ID != "" && s.activity.ID == a.ID && s.activity.Type == a.Type && s.activity.Text == a.Text {
				return
			}
		}
		fresh.apart, c.apart = c.apart, false
		c.steps = append(c.steps, fresh)
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
			c.steps[i].answered, c.steps[i].refused = true, len(said) > 0
			c.steps[i].replies = append(c.steps[i].replies, said...)
			if slices.ContainsFunc(said, reply.asks) {
				for turn := range c.steps[i].turns {
					c.steps[i].turns[turn] = true // it waits
				}
			}
		}
	})
}

// stillAtWork begins what a click is answered with that takes longer. It says nothing.
const stillAtWork = "I am still at work."

// saidIn are the messages in the answer to a request: what a click shows, and replies that
// travel there.
func saidIn(a *activity.Activity, body []byte) (all []reply) {
	var answer struct {
		Value      any                 `json:"value"`
		Activities []activity.Activity `json:"activities"`
	}
	_ = strict.Unmarshal(body, &answer) // any other answer says nothing
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
	of := OfContext(ctx)
	m.of.change(base(of.Conversation), 0, func(c *conversation) { c.ofTurn(of.Turn, of.Activity) }) // which begins
	response, err := m.Model.Complete(ctx, req)
	if errors.Is(err, context.Canceled) {
		return response, err
	}
	asked := golden.Prompt(req)
	m.of.change(base(of.Conversation), len(asked), func(c *conversation) {
		call, _ := NewCall(req, response, err, nil)
		call.Conversation, call.Activity, call.Planner = base(of.Conversation), of.Activity, m.of.cfg.Planner
		call.Foreign = c.isForeign(of, req)
		c.calls = append(c.calls, call)
		s := c.ofTurn(of.Turn, of.Activity)
		switch {
		case s == nil:
		case err != nil:
			s.answers = append(s.answers, answer{fault: errorOf(err)})
		default:
			c.bytes += len(response.Text)
			s.answers = append(s.answers, answer{text: response.Text, tools: response.Calls})
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
			r.turn(ctx, t, func(c *conversation, s *step) {
				if c.needsSeed(s, &r.cfg) {
					s.seed = kept
					c.bytes += sizeOf(kept)
				}
				s.planned(p)
			})
			return p, nil
		},
		Call: func(ctx context.Context, t *bot.Turn, call actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error) {
			needs := call.Action.Approval || slices.Contains(r.cfg.Options.Approval, call.Action.Name)
			one := &done{turn: t.ID, action: call.Action.Name, entities: call.Entities}
			r.turn(ctx, t, func(_ *conversation, s *step) {
				one.unasked = needs && s.asker == ""
				s.done = append(s.done, one)
			})
			result, err := next(ctx, call)
			if err == nil {
				r.turn(ctx, t, func(*conversation, *step) { one.result, one.ended = result, true })
			}
			return result, err
		},
		TurnEnded: func(ctx context.Context, t *bot.Turn, _ error) {
			r.turn(ctx, t, func(_ *conversation, s *step) { s.turns[t.ID] = true })
		},
	}
}

// turn changes the step that the turn belongs to: by what it answers or, if it follows a
// decision, by the click, which the context names. Then the turn answers who asked.
func (r *Recorder) turn(ctx context.Context, t *bot.Turn, change func(*conversation, *step)) {
	of := cmp.Or(OfContext(ctx).Activity, t.Activity.ID)
	r.change(t.Activity.Conversation.BaseID(), 0, func(c *conversation) {
		if s := c.ofTurn(t.ID, of); s != nil {
			if of != t.Activity.ID {
				s.asker = t.Activity.From.ID
			}
			change(c, s)
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
	of := OfContext(ctx)
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
	case !answered, errors.Is(err, connector.ErrHeldBack):
		return 0
	}
	switch refused.Status {
	case http.StatusPreconditionFailed, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0
	}
	return refused.Status
}

// head is the first line of each file.
const head = "# What people said is in here. Names, ids and secrets have stand-ins, as far as they were found: look before you share it.\n"

// flush writes the files of the conversations that have changed. Those that it does not come
// to before ctx ends are as changed as before, and it reports how many.
func (r *Recorder) flush(ctx context.Context) (left int) {
	changed, fresh := r.changes()
	learn(fresh, r.scrub)
	for id, c := range changed {
		name := cmp.Or(r.scrub.ID(scrub.Conversation, id), "elsewhere")
		files, err := r.files(ctx, name, c)
		if ctx.Err() != nil {
			r.putBack(id)
			left++
			continue
		}
		for ending, data := range files {
			err = errors.Join(err, r.replace(r.prefix+name+ending, data))
		}
		if err != nil {
			r.complain("files", err)
		}
		if c.tooLong {
			r.complain("limit of "+name, fmt.Errorf("%s has reached the limit of one conversation, %d bytes: no more of it is written down", r.prefix+name, r.cfg.MaxEach))
		}
	}
	return left
}

// changes are the conversations that have changed, as they are now, and who was met since
// the last time.
func (r *Recorder) changes() (out map[string]*conversation, fresh []met) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, r.met = r.met, nil
	out = map[string]*conversation{}
	for id, c := range r.all {
		if c.dirty {
			c.dirty = false
			out[id] = c.clone()
		}
	}
	return out, fresh
}

func (r *Recorder) putBack(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[id].dirty = true
}

// files are those of a conversation, by the ends of their names. What is learned at the end
// of it, such as a password that is named there, holds for its beginning.
func (r *Recorder) files(ctx context.Context, name string, c *conversation) (out map[string][]byte, err error) {
	for version := -1; version != r.scrub.Version() && err == nil && ctx.Err() == nil; {
		version = r.scrub.Version()
		out, err = r.filesNow(ctx, name, c)
	}
	return out, err
}

// filesNow are the files with the stand-ins that are known by now.
func (r *Recorder) filesNow(ctx context.Context, name string, c *conversation) (map[string][]byte, error) {
	out := map[string][]byte{}
	isWhole := false
	if len(c.steps) > 0 {
		w := &writer{cfg: &r.cfg, scrub: r.scrub}
		list := w.scenarios(ctx, name, c)
		isWhole = !w.added
		raw, err := Write(list)
		if err != nil {
			return nil, err
		}
		out[".scenario.yaml"] = append([]byte(head), raw...)
	}
	if len(c.calls) > 0 {
		calls := slices.Clone(c.scrubbed.of(ctx, c.calls, r.scrub))
		if len(calls) > 0 && !isWhole {
			calls[0].Foreign = true
		}
		raw, err := WriteCalls(calls)
		if err != nil {
			return nil, err
		}
		out[".cassette.yaml"] = append([]byte(head), raw...)
	}
	return out, nil
}

// scrubbedCalls are calls with stand-ins: those that have them are not looked at again, as long
// as these stay the same. Only the writer uses it.
type scrubbedCalls struct {
	version int
	calls   []Call
}

// of are the calls with stand-ins, as far as it comes before ctx ends.
func (s *scrubbedCalls) of(ctx context.Context, calls []Call, by *scrub.Scrubber) []Call {
	if version := by.Version(); version != s.version {
		s.version, s.calls = version, nil
	}
	for i := len(s.calls); i < len(calls) && ctx.Err() == nil; i++ {
		s.calls = append(s.calls, scrubbedAll(calls[i:i+1], by)...)
	}
	return s.calls
}

// replace writes a file of this recorder whole, or not at all. One that was there before is
// somebody else's.
func (r *Recorder) replace(name string, data []byte) error {
	name = filepath.Join(r.cfg.Dir, name)
	const part = ".part"
	err := os.WriteFile(name+part, data, 0o600)
	if err == nil && !r.own[name] {
		err = claim(name)
		r.own[name] = err == nil
	}
	if err != nil {
		return errors.Join(err, remove(name+part))
	}
	return os.Rename(name+part, name)
}

// claim makes the file, which must not be there.
func claim(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// BotID is the account of the bot in scenarios.
const BotID = "28:bot"

// Of says which turn something belongs to: its id, and the conversation and the activity
// that it answers. They are empty where there is no turn.
type Of struct {
	Turn         string `json:"turn"`
	Conversation string `json:"conversation"`
	Activity     string `json:"activity"`
}

// OfContext reads the turn off the logger of the context, which the bot hands to all that it
// calls.
func OfContext(ctx context.Context) (of Of) {
	var line bytes.Buffer
	log := zerolog.Ctx(ctx).Output(&line).Level(zerolog.InfoLevel)
	log.Info().Send()
	_ = json.Unmarshal(line.Bytes(), &of) // no logger, no turn
	return of
}
