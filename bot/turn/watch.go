package turn

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// Event is one thing that happened in a turn, as a watcher sees it: exactly one of the pointers is
// set. What it holds are copies, or values that nobody changes any more.
type Event struct {
	Turn string // the turn's id
	At   time.Time

	Received *Received
	Began    *Began
	Planned  *plan.Plan // what is going to run
	Called   *Called
	Saved    *Saved
	Ended    *Ended

	// State returns the values of the turn's scopes now. Call it before the watcher returns. nil: they
	// are as they were.
	State func() State
}

// Received is an activity that came in.
type Received struct {
	Activity  jsontext.Value // without secrets
	Text      string         // as the planner gets it
	Duplicate string         // the turn of the first delivery; "": this is the first
	Dropped   string         // why no turn runs for it; "": one does
}

// State is the values of a turn's scopes: conversation, thread, user, bot and temp. How the bot reaches
// the conversation is not in it: each turn notes that anew, and one that fails takes it back.
type State map[string]map[string]jsontext.Value

// Began says that the turn starts or goes on.
type Began struct {
	Activity jsontext.Value // what it answers, as in Received: perhaps another process received it
	Text     string
	Phase    string // the phase that it goes on with
	Tries    int    // how often a process lost it
}

// Called is a call of an action that has an outcome.
type Called struct {
	Command  plan.Command   // as planned
	Index    int            // of the command in its plan
	Entities map[string]any // as the action got them
	Key      string         // of the attempt
	Again    bool           // an earlier process may have made it
	Approved bool           // by a person
	Result   actions.Result
	Err      string // why it failed, for the operator
	Took     time.Duration
}

// Saved is a save of the record and the state. The turn goes on from there if its process dies.
type Saved struct {
	Record []byte // nil: the turn is over, and the inbox has none any more
	Took   time.Duration
	Err    string
}

// Ended says that the turn is over or waits.
type Ended struct {
	Outcome string // ok, failed, waiting, parked, or running if another process goes on with it
	Err     string // for the operator
	Answer  []byte // to the HTTP request
	Usage   actions.Usage
	Took    time.Duration
}

// watching makes the watcher safe to call: a panic is logged once, and what happens goes on.
func watching(see func(Event), log zerolog.Logger) func(Event) {
	if see == nil {
		return nil
	}
	var once sync.Once
	return func(e Event) {
		defer func() {
			if p := recover(); p != nil {
				once.Do(func() { log.Error().Interface("panic", p).Msg("what watches the turns panicked") })
			}
		}()
		e.At = time.Now()
		see(e)
	}
}

// watch tells the watcher what happens in the turn. Its methods do nothing if there is none.
type watch struct{ *Turn }

func (w watch) on() bool { return w.engine.cfg.Watch != nil }

// received returns what tells of the activity. It may be called when the turn runs already.
func (w watch) received() func(duplicate, dropped string) {
	if !w.on() {
		return func(string, string) {}
	}
	see, id, raw, text := w.engine.cfg.Watch, w.ID, w.rec.Activity, w.Text
	return func(duplicate, dropped string) {
		see(Event{Turn: id, Received: &Received{Activity: raw, Text: text, Duplicate: duplicate, Dropped: dropped}})
	}
}

func (w watch) began(phase phase) {
	if w.on() {
		began := &Began{Activity: w.rec.Activity, Text: w.Text, Phase: string(phase), Tries: w.lease.Tries()}
		w.engine.cfg.Watch(Event{Turn: w.ID, Began: began, State: w.state})
	}
}

func (w watch) planned(p plan.Plan) {
	if w.on() {
		w.engine.cfg.Watch(Event{Turn: w.ID, Planned: &p})
	}
}

func (w watch) called(c *call, index int, planned plan.Command, again bool) {
	if !w.on() {
		return
	}
	seen := &Called{
		Command: planned, Index: index, Entities: maps.Clone(c.command.Entities), Key: c.key, Again: again, Approved: c.granted,
		Result: c.result, Took: c.took,
	}
	if c.err != nil {
		seen.Err = c.err.Error()
	}
	w.engine.cfg.Watch(Event{Turn: w.ID, Called: seen, State: w.state})
}

func (w watch) saved(raw []byte, began time.Time, err error) {
	if !w.on() {
		return
	}
	seen := &Saved{Record: raw, Took: time.Since(began)}
	if err != nil {
		seen.Err = err.Error()
	}
	w.engine.cfg.Watch(Event{Turn: w.ID, Saved: seen})
}

func (w watch) ended(outcome string, err error, began time.Time) {
	if !w.on() {
		return
	}
	seen := Event{Turn: w.ID, Ended: &Ended{Outcome: outcome, Took: time.Since(began)}}
	if err != nil {
		seen.Ended.Err = err.Error()
	}
	if outcome != parkedTurn && outcome != leftTurn { // else calls that nobody could stop may still change these
		seen.State, seen.Ended.Usage = w.state, w.Usage
	}
	if w.rec.Answer != nil {
		seen.Ended.Answer, _ = json.Marshal(w.rec.Answer) // what is no JSON cannot be shown
	}
	w.engine.cfg.Watch(seen)
}

// answered tells of a turn beside the queue.
func (w watch) answered(answer Answer, err error, began time.Time) {
	if !w.on() {
		return
	}
	seen := &Ended{Outcome: okTurn, Took: time.Since(began)}
	if err != nil {
		seen.Outcome, seen.Err = failedTurn, err.Error()
	}
	seen.Answer, _ = json.Marshal(answer) // what is no JSON cannot be shown
	w.engine.cfg.Watch(Event{Turn: w.ID, Ended: seen})
}

// The outcomes of [Ended].
const (
	okTurn, failedTurn, waitingTurn, parkedTurn, leftTurn = "ok", "failed", "waiting", "parked", "running"
)

// outcome is that of a turn which this process has finished with.
func (w watch) outcome() string {
	switch w.rec.Phase {
	case waiting:
		return waitingTurn
	case failed:
		return failedTurn
	}
	return okTurn
}

// state copies the values of the turn's scopes.
func (w watch) state() State {
	all := State{}
	add := func(name string, s *state.Scope) {
		if s == nil || all[name] != nil {
			return
		}
		values := map[string]jsontext.Value{}
		for _, n := range s.Names() {
			if n == "reference" { // see [State]
				continue
			}
			if raw, err := s.JSON(n); err == nil && raw != nil {
				values[n] = raw
			}
		}
		all[name] = values
	}
	if w.docs.scopes != nil {
		add("conversation", w.Conversation)
		add("user", w.User)
		if w.Thread != w.Conversation {
			add("thread", w.Thread)
		}
		add("bot", w.docs.bot)
	}
	add("temp", w.Temp)
	return all
}
