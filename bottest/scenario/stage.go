package scenario

import (
	"cmp"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/planbot-go/planbot/bottest"
)

// latency is how long a model takes that is not slow: long enough for turns that begin
// together to be at work together.
const latency = 10 * time.Millisecond

// stage is one step at work: its events, and how far their scripts were used.
type stage struct {
	run *run

	mu     sync.Mutex
	events []*scene
	whole  *scene // what is expected of several events together

	// How much there was when the step began.
	calls, asked, sent int
	crash              int // the call after which the process dies; 0: it does not
	kept               map[string]map[string][]string
}

// scene is one event of a step.
type scene struct {
	*Delivery
	id        string
	place     string // "" or "parallel 2: "
	answers   int    // of the model that were used
	actions   []bool // of those expected that were used
	sendings  int    // of the connector that were used
	delivered *bottest.Delivery
	chat      *bottest.Chat
}

// owner is the event that something belongs to: the one whose activity the turn answers or,
// if that is of an earlier step, whose conversation it is. Of several deliveries of one
// activity it is the first that was taken.
func (s *stage) owner(of bottest.Of) *scene {
	var same []*scene
	for _, match := range []func(*scene) bool{
		func(e *scene) bool {
			return of.Activity != "" && e.id == of.Activity && e.Event.Conversation == of.Conversation
		},
		func(e *scene) bool { return of.Activity != "" && e.id == of.Activity },
		func(e *scene) bool { return of.Conversation != "" && e.Event.Conversation == of.Conversation },
		func(*scene) bool { return true },
	} {
		for _, e := range s.events {
			if match(e) {
				same = append(same, e)
			}
		}
		if len(same) > 0 {
			break
		}
	}
	if len(same) == 0 {
		return nil
	}
	slices.SortStableFunc(same, func(a, b *scene) int { return cmp.Compare(a.Event.AtMS, b.Event.AtMS) })
	for _, e := range same {
		if e.delivered == nil || e.delivered.Status < 300 {
			return e
		}
	}
	return same[0]
}

// sharing are the owner and the other deliveries of its activity, which share scripts.
func (s *stage) sharing(of bottest.Of) []*scene {
	owner := s.owner(of)
	if owner == nil {
		return nil
	}
	all := []*scene{owner}
	for _, e := range s.events {
		if e != owner && e.same(owner) {
			all = append(all, e)
		}
	}
	return all
}

// answer is what the model does in a call that belongs to an event of the step.
func (r *run) answer(call bottest.ModelCall) (bottest.Answer, bool) {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	sharing := s.sharing(call.Of)
	for _, e := range sharing {
		if e.answers < len(e.Model) {
			a := e.Model[e.answers]
			e.answers++
			last := !slices.ContainsFunc(sharing, func(e *scene) bool { return e.answers < len(e.Model) })
			return a.asked(time.Duration(e.Event.DelayModelMS)*time.Millisecond, last), true
		}
	}
	return bottest.Answer{}, false
}

// asked is the answer as the stand-in gives it. A model that hangs at last, with no answer
// left for who would ask again, hangs until nobody waits.
func (a Answer) asked(delay time.Duration, last bool) bottest.Answer {
	const forever = 24 * time.Hour
	out := bottest.Answer{Model: a.Deployment, Code: a.Code, Takes: max(delay, latency)}
	if a.HangMS > 0 {
		out.Takes = time.Duration(a.HangMS) * time.Millisecond
	}
	switch {
	case a.Text != nil:
		out.Text = *a.Text
	case a.HTTP == 0 && a.Code == "":
		if out.Hangs = true; last {
			out.Takes = forever
		}
	case a.HTTP < 200 || a.HTTP > 299: // else it answers with nothing
		out.Status = cmp.Or(a.HTTP, 400)
	}
	if a.RetryAfter != nil {
		out.RetryAfter = time.Duration(*a.RetryAfter * float64(time.Second))
	}
	return out
}

// sending is how the connector answers a message of the bot.
func (r *run) sending(sent bottest.Sent) bottest.Fault {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	scripts := s.sharing(ofSent(sent))
	if !slices.ContainsFunc(scripts, func(e *scene) bool { return e.Expect.Connector != nil }) {
		scripts = append(scripts, s.whole)
	}
	for _, e := range scripts {
		if e.sendings < len(e.Expect.Connector) {
			e.sendings++
			return e.Expect.Connector[e.sendings-1].fault()
		}
	}
	return bottest.Fault{}
}

func (how Sending) fault() bottest.Fault {
	fault := bottest.Fault{Status: how.HTTP}
	if how.RetryAfter != nil {
		fault.RetryAfter = time.Duration(*how.RetryAfter * float64(time.Second))
	}
	return fault
}

// scriptOf is what the scenario says of a call: the next expected one of that name, best
// with the same entities, of the event or of all together.
func (s *stage) scriptOf(of bottest.Of, name string, entities map[string]any) scripted {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, same := range []bool{true, false} {
		for _, e := range append(s.sharing(of), s.whole) {
			for i, a := range e.Expect.Actions {
				if !e.actions[i] && a.Action == name && (!same || equalEntities(a.Entities, entities)) {
					e.actions[i] = true
					return a.scripted()
				}
			}
		}
	}
	return scripted{}
}

func (a *Action) scripted() scripted {
	out := scripted{result: a.Result, unchanged: a.Unchanged}
	if a.Error != nil {
		out.fails = cmp.Or(*a.Error, "it failed")
	}
	return out
}

var botMention = regexp.MustCompile(`<at>[^<>]*Bot</at>`)

// prepare makes the scenes of a step.
func (r *run) prepare(step *Step) *stage {
	s := &stage{run: r, crash: crashOf(step), calls: len(r.calls()), asked: len(r.kit.Model.Calls()), sent: len(r.kit.Connector.Sent()), kept: map[string]map[string][]string{}}
	s.whole = &scene{Delivery: &Delivery{}}
	if len(step.Parallel) > 0 {
		s.whole = &scene{Delivery: &step.Delivery, actions: make([]bool, len(step.Expect.Actions))}
	}
	for _, d := range step.deliveries() {
		e := &scene{Delivery: d, id: r.idOf(d.Event), chat: r.chat(d.Event), actions: make([]bool, len(d.Expect.Actions))}
		if len(step.Parallel) > 0 {
			e.place = placeOf(len(s.events))
		}
		s.events = append(s.events, e)
		s.kept[d.Event.Conversation] = r.kept(d.Event.Conversation)
	}
	return s
}
