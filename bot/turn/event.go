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

// Event is one thing that happened in a turn, as [Feature].Event sees it: one of the pointers is set, or
// Counted, or Loaded. What it holds are copies, or values that nobody changes any more.
type Event struct {
	Turn string // the turn's id; "": it is about no turn
	At   time.Time

	Received *Received
	Began    *Began
	Planned  *plan.Plan // what is going to run
	Shown    *Shown     // with Planned: what the planner was shown of the message
	Called   *Called
	Saved    *Saved
	Ended    *Ended
	Counted  Counted
	// Loaded says that the turn has read what all of the bot's conversations share. State has nothing else then.
	Loaded bool

	// State returns the values of the turn's scopes now. Call it before the feature returns. nil: they
	// are as they were.
	State func() State
}

// Received is an activity that came in.
type Received struct {
	Activity  jsontext.Value // without secrets
	Text      string         // as the planner gets it
	Duplicate string         // the turn of the first delivery; "": this is the first
	Dropped   string         // why no turn runs for it; "": one does
	Joined    string         // the turn that answers it together with other messages; "": its own
}

// State is the values of a turn's scopes: conversation, thread, user, bot and temp. How the bot reaches
// the conversation is not in it: each turn notes that anew, and one that fails takes it back.
type State map[string]map[string]jsontext.Value

// Began says that the turn starts or goes on.
type Began struct {
	Activity jsontext.Value // what it answers, as in Received: perhaps another process received it
	Text     string
	Phase    string // the phase that it goes on with
	Again    bool   // something was planned before
	Tries    int    // how often a process lost it
	Cause    string // the turn that made this notice; "": it is none, or none did
}

// Shown is what a planner was shown of a message that came with something.
type Shown struct {
	Text     string             // of the message, with what was heard in it
	Attached []actions.Attached // of the files
	Quotes   bool               // the planner sees what others may have written
	Drafts   bool               // the person may see an answer while the model writes it
}

// Called is a call of an action that has an outcome.
type Called struct {
	Command  plan.Command    // as planned
	Index    int             // of the command in its plan
	Action   *actions.Action // nil: there is no such action
	Entities map[string]any  // as the action got them
	Key      string          // of the attempt
	Again    bool            // an earlier process may have made it
	Approved bool            // by a person
	Unknown  bool            // nobody knows whether it was done
	Result   actions.Result
	Err      string // why it failed, for the operator
	Took     time.Duration
}

// Saved is a save of the record and the state. The turn goes on from there if its process dies.
type Saved struct {
	Record []byte // nil: the turn is over, and the inbox has none any more
	Took   time.Duration
	Err    string
	// Dropped says that the turn's state cannot be saved any more: it stays as the save before this one left it.
	Dropped bool
}

// Ended says that the turn is over or waits.
type Ended struct {
	Outcome    string // ok, failed, waiting, parked (a dead letter), or running if another process goes on with it
	Reason     string // the kind of the failure, or what the turn waits for
	Failure    error
	Err        string // the failure for the operator
	Answer     []byte // to the HTTP request
	Usage      actions.Usage
	Waited     time.Duration // until the last work on it began: it stood in a queue, or waited for somebody
	Took       time.Duration // the last work on it
	Tries      int           // how many processes had lost it
	Own        bool          // a feature submitted it for itself
	Unasked    bool          // it is a notice: nobody said anything
	Forgotten  bool          // its person has said /forget: keep nothing about it
	Remembered bool          // it is in the history
}

// Over reports whether nothing more comes of the turn.
func (e *Ended) Over() bool { return e.Outcome == okTurn || e.Outcome == failedTurn }

// Dead reports whether the turn became a dead letter.
func (e *Ended) Dead() bool { return e.Outcome == parkedTurn }

// Counted is something to count.
type Counted struct {
	What string // one of the constants, or a word of a feature's own; "": nothing
	How  string
	Took time.Duration
}

// What is counted.
const (
	CountTurns      = "turns"      // ok, failed, aside, aside_failed, ignored, handed_back or dead_letter
	CountWaits      = "waits"      // in a queue, before a turn began
	CountRefusals   = "refusals"   // answers of a model that are no plan that may run, by the kind of fault
	CountReplies    = "replies"    // ok, retried, failed, unsure or given_up
	CountReplyTime  = "reply_time" // of a message to the channel, with all tries
	CountDuplicates = "duplicates" // delivery or click
	CountFeedback   = "feedback"   // like or dislike
	CountRefused    = "refused"    // requests, by HTTP status or access list, and turns over a quota
	CountLeasesLost = "leases_lost"
)

// watchers returns the features' Event, each safe to call: a panic is logged once, and what happens goes
// on.
func watchers(features []Feature, log zerolog.Logger) (all []func(Event)) {
	for _, f := range features {
		if f.Event == nil {
			continue
		}
		var once sync.Once
		all = append(all, func(e Event) {
			defer func() {
				if p := recover(); p != nil {
					once.Do(func() {
						log.Error().Interface("panic", p).Str("feature", f.Name).Msg("what watches the turns panicked")
					})
				}
			}()
			f.Event(e)
		})
	}
	return all
}

// watched reports whether a feature sees events. If not, none need be made.
func watched(t *Turn) bool { return len(t.engine.watchers) > 0 }

// seeReceived returns what tells of the activity. It may be called when the turn runs already.
func seeReceived(t *Turn) func(duplicate, dropped string) {
	e, id, raw, text := t.engine, t.ID, t.rec.Activity, t.Text
	return func(duplicate, dropped string) {
		e.see(Event{Turn: id, Received: &Received{Activity: raw, Text: text, Duplicate: duplicate, Dropped: dropped}})
	}
}

// seeCalled tells of the call of the command at that index of the plan.
func seeCalled(t *Turn, c *call, index int, again, unknown bool) {
	if !watched(t) {
		return
	}
	seen := &Called{
		Command: t.rec.Run.Progress.Plan.Commands[index], Index: index, Action: c.action, Entities: maps.Clone(c.command.Entities),
		Key: c.key, Again: again, Approved: c.granted, Unknown: unknown, Result: c.result, Took: c.took,
	}
	if c.err != nil {
		seen.Err = c.err.Error()
	}
	t.engine.see(Event{Turn: t.ID, Called: seen, State: func() State { return scopesOf(t) }})
}

// seeLoaded tells of the bot's values as they are read: an action may change them at once.
func seeLoaded(t *Turn, s *state.Scope) {
	if watched(t) {
		t.engine.see(Event{Turn: t.ID, Loaded: true, State: func() State { return State{"bot": valuesOf(s)} }})
	}
}

func seeSaved(t *Turn, raw []byte, began time.Time, err error) {
	seen := &Saved{Record: raw, Took: time.Since(began)}
	if err != nil {
		seen.Err = err.Error()
	}
	seen.Dropped = t.docs.scopes == nil
	t.engine.see(Event{Turn: t.ID, Saved: seen})
}

func seeEnded(t *Turn, e Ended) {
	if !watched(t) {
		return
	}
	seen := Event{Turn: t.ID, Ended: &e}
	if e.Outcome == parkedTurn || e.Outcome == leftTurn { // calls that nobody could stop may still change these
		e.Usage = actions.Usage{}
	} else {
		seen.State = func() State { return scopesOf(t) }
	}
	if t.rec.Answer != nil {
		e.Answer, _ = json.Marshal(t.rec.Answer) // what is no JSON cannot be shown
	}
	t.engine.see(seen)
}

// seeAnswered tells of a turn beside the queue.
func seeAnswered(t *Turn, answer Answer, err error, began time.Time) {
	how := "aside"
	if err != nil {
		how = "aside_failed"
	}
	t.Count(CountTurns, how)
	if !watched(t) {
		return
	}
	seen := &Ended{Outcome: okTurn, Took: time.Since(began)}
	if err != nil {
		seen.Outcome, seen.Failure, seen.Err = failedTurn, err, err.Error()
	}
	seen.Answer, _ = json.Marshal(answer) // what is no JSON cannot be shown
	t.engine.see(Event{Turn: t.ID, Ended: seen})
}

// The outcomes of [Ended].
const (
	okTurn, failedTurn, waitingTurn, parkedTurn, leftTurn = "ok", "failed", "waiting", "parked", "running"
)

// endedNow is how the turn is, now that this process has finished with it or with an attempt at it, which
// began then.
func endedNow(t *Turn, failure error, began time.Time, tries int) Ended {
	e := Ended{
		Outcome: okTurn, Failure: failure, Usage: t.Usage, Tries: tries,
		Waited: max(began.Sub(t.rec.Accepted), 0), // the clocks of replicas differ
		Took:   time.Since(began),
		Own:    t.rec.Own != "", Unasked: t.rec.Notice != nil, Forgotten: forgotten.Peek(t), Remembered: t.rec.Remembered,
	}
	w := t.rec.Wait
	if failure != nil {
		e.Reason, e.Err = KindOf(failure), failure.Error()
	}
	switch t.rec.Phase {
	case waiting:
		e.Outcome = waitingTurn
		if failure == nil && w != nil {
			e.Reason = string(w.For)
		}
	case failed:
		e.Outcome = failedTurn
	}
	return e
}

// scopesOf copies the values of the turn's scopes.
func scopesOf(t *Turn) State {
	all := State{}
	add := func(name string, s *state.Scope) {
		if s != nil && all[name] == nil {
			all[name] = valuesOf(s)
		}
	}
	if t.docs.scopes != nil {
		add("conversation", t.Conversation)
		add("user", t.User)
		if t.Thread != t.Conversation {
			add("thread", t.Thread)
		}
		add("bot", t.docs.bot)
	}
	add("temp", t.Temp)
	return all
}

func valuesOf(s *state.Scope) map[string]jsontext.Value {
	values := map[string]jsontext.Value{}
	for _, n := range s.Names() {
		if n == "reference" { // see [State]
			continue
		}
		raw, err := s.JSON(n)
		if err == nil && raw != nil {
			values[n] = raw
		}
	}
	return values
}

func okOrFailed(failed bool) string {
	if failed {
		return failedTurn
	}
	return okTurn
}
