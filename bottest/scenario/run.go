// Package scenario runs conversations that are written down in files: what people do,
// what the model writes, and what the bot has to do then.
//
// [Read] reads files of JSON or YAML, strictly; [Run] plays a scenario in a bubble of
// virtual time, on a bot of its own, and says in what the bot did otherwise. It works in
// tests and in programs. docs/scenario.schema.json describes the format to editors.
package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Config says on which bot scenarios are played.
type Config struct {
	// Actions are those of the bot.
	Actions *actions.Registry
	// Scripted says that they do what the scenarios say, and only that: then each has the
	// result or the error that is expected of its call. Those that change lists do so all
	// the same, those of a conversation each.
	Scripted bool
	// Planner is "sequence", "sequential" or "tools". "": sequence.
	Planner string
	// Wire completes what the planner and the bot are made of, for each of the bot's processes:
	// prompts, skills, other actions for both. nil: nothing is missing.
	Wire func(ctx context.Context, of *planner.Config, cfg *bot.Config) error
	// Cassette is a file with what the model is to be asked, see [bottest.Config], and
	// Update has it written anew. "": that is not looked at.
	Cassette string
	Update   bool
}

// Result is what came of a scenario.
type Result struct {
	File     string        `json:"file,omitempty"`
	Name     string        `json:"name"`
	Passed   bool          `json:"passed"`
	Failures []string      `json:"failures,omitempty"`
	Story    string        `json:"story,omitempty"` // what happened, as text
	Took     time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
}

// Run plays one scenario. It takes the time of computing only, whatever waits there are.
// Scenarios may be run one after another; each has a bot, a model, a connector and a Redis
// of its own, and nothing of it is left.
func Run(s *record.Scenario, cfg Config) (result Result) {
	began := time.Now()
	result = Result{File: s.File, Name: s.Name}
	rec := &recorder{}
	defer func() {
		if p := recover(); p != nil { // of the bubble: something goes on in it for ever
			rec.Errorf("the bot did not come to rest: %v", p)
		}
		result.Failures = rec.failures
		result.Passed = len(result.Failures) == 0
		result.Took = time.Since(began)
		result.Seconds = result.Took.Seconds()
	}()
	// Nothing here is of a test: the zero T is never failed, and lends its bubble only.
	synctest.Test(new(testing.T), func(t *testing.T) {
		rec.ctx = t.Context()
		rec.do(func() { result.Story = play(rec, s, cfg) })
		rec.cleanUp()
	})
	return result
}

// run is a scenario at work.
type run struct {
	*recorder
	s     *record.Scenario
	cfg   Config
	kit   *bottest.Kit
	book  book
	chats map[string]*bottest.Chat // by conversation
	stage atomic.Pointer[stage]
	ids   map[*record.Event]string // that were made up

	decided map[string]bool // by the id of the card
	unused  []string        // answers of the model
}

// play runs all steps and tells what happened.
func play(rec *recorder, s *record.Scenario, cfg Config) (story string) {
	r := &run{recorder: rec, s: s, cfg: cfg, chats: map[string]*bottest.Chat{}, ids: map[*record.Event]string{}, decided: map[string]bool{}}
	r.stage.Store(&stage{run: r})
	r.book.run = r
	r.kit = bottest.New(rec, bottest.Config{
		New: r.newBot, Name: r.mentioned(), Models: s.Options.Models, Replicas: r.replicas(),
		Cassette: cfg.Cassette, UpdateCassette: cfg.Update, Bubble: true,
	})
	r.kit.Model.Decides(r.answer)
	r.kit.Connector.Decides(r.sending)
	r.seed()
	defer func() { story = r.story() }()
	for i := range s.Steps {
		rec.step = fmt.Sprintf("step %d", i+1)
		if s.Steps[i].Control != "" || !r.alive() {
			r.kit.Restart()
		}
		if s.Steps[i].Control != "" {
			continue
		}
		r.perform(&s.Steps[i])
	}
	return ""
}

// mentioned is the name of the bot.
func (r *run) mentioned() string {
	switch r.s.Bot {
	case "lights":
		return "LightsBot"
	case "ticket":
		return "TicketBot"
	}
	return "ListBot"
}

func (r *run) replicas() int {
	most := 1
	for e := range r.events() {
		most = max(most, e.Replica)
	}
	return most
}

// alive reports whether any process is. Where all have crashed, whatever runs them starts them
// again before the channel delivers the next activity, also if the scenario does not say so.
func (r *run) alive() bool {
	for i := range r.replicas() {
		if r.kit.Alive(i + 1) {
			return true
		}
	}
	return false
}

// events are those of all steps.
func (r *run) events() map[*record.Event]bool {
	all := map[*record.Event]bool{}
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].Deliveries() {
			all[d.Event] = true
		}
	}
	return all
}

// newBot makes the bot for one process.
func (r *run) newBot(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
	cfg, o := parts.Bot, r.s.Options
	cfg.Actions = r.cfg.Actions
	if r.cfg.Scripted {
		var err error
		if cfg.Actions, err = r.book.registry(r.cfg.Actions, parts.Replica); err != nil {
			return nil, err
		}
	}
	sequence := planner.Config{Model: parts.Model, Named: parts.Named, Actions: cfg.Actions}
	if o.MaxRepairs != nil {
		sequence.MaxRepairs = cmp.Or(*o.MaxRepairs, -1) // zero is the default there
	}
	if r.cfg.Wire != nil {
		if err := r.cfg.Wire(ctx, &sequence, &cfg); err != nil {
			return nil, err
		}
	}
	var err error
	if cfg.Planner, err = parts.Planner(ctx, r.cfg.Planner, sequence); err != nil {
		return nil, err
	}
	cfg.MaxSteps, cfg.MaxSameCalls = o.MaxSteps, o.MaxSameCalls
	cfg.Policy = func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if slices.Contains(o.Approval, call.Action.Name) {
			return actions.Approval{Required: true}, nil
		}
		return actions.DefaultPolicy(ctx, turn, call)
	}
	return bot.New(cfg)
}

// chat is the conversation of the event, as who does it sees it.
func (r *run) chat(e *record.Event) *bottest.Chat {
	known := r.chats[e.Conversation]
	if known == nil {
		known = r.kit.Conversation(e.Conversation, cmp.Or(e.Kind, "personal"), e.Person())
		r.chats[e.Conversation] = known
	}
	return known.As(e.Person()).On(cmp.Or(e.Replica, 1))
}

// seed writes what the bot keeps before the first step, of each conversation.
func (r *run) seed() {
	seeded := map[string]bool{}
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].Deliveries() {
			e := d.Event
			chat := r.chat(e)
			if seeded[e.Conversation] || r.s.Seed.Lists == nil && r.s.Seed.HistoryTurns == 0 {
				continue
			}
			seeded[e.Conversation] = true
			chat.Keep(func(conversation, user *state.Scope) {
				r.seedLists(state.Of[lists.Lists](r.holder(e, conversation, user)))
				seedHistory(state.Of[prompts.History](conversation), r.s.Seed.HistoryTurns, e)
			})
		}
	}
}

// holder is the scope that keeps the lists of a conversation: in a personal chat the
// person's, unless lists are the scenario's own.
func (r *run) holder(e *record.Event, conversation, user *state.Scope) *state.Scope {
	if !r.cfg.Scripted && cmp.Or(e.Kind, "personal") == "personal" {
		return user
	}
	return conversation
}

func (r *run) seedLists(l *lists.Lists) {
	l.All = nil
	for _, name := range sortedKeys(r.s.Seed.Lists) {
		list := lists.List{Name: name}
		for _, item := range r.s.Seed.Lists[name] {
			list.Items = append(list.Items, lists.Item{Name: item})
		}
		l.All = append(l.All, list)
	}
}

func seedHistory(h *prompts.History, turns int, e *record.Event) {
	name := ""
	if e.Kind != "" && e.Kind != "personal" {
		name = e.Person()
	}
	for i := range turns {
		h.Append(prompts.Turn{From: "29:" + e.Person(), Name: name, Messages: []prompts.Message{
			{Role: prompts.User, Text: fmt.Sprintf("question %d", i+1)}, {Role: prompts.Assistant, Text: fmt.Sprintf("answer %d", i+1)},
		}}, turns)
	}
}

// kept are the lists of the conversation.
func (r *run) kept(conversation string) map[string][]string {
	found := map[string][]string{}
	var of *record.Event
	for i := range r.s.Steps { // whoever spoke there first has the lists of a personal chat
		for _, d := range r.s.Steps[i].Deliveries() {
			if of == nil && d.Event.Conversation == conversation {
				of = d.Event
			}
		}
	}
	if of == nil {
		return found
	}
	var all lists.Lists
	chat := r.chats[conversation].As(of.Person())
	chat.Keep(func(conversation, user *state.Scope) { all = *state.Of[lists.Lists](r.holder(of, conversation, user)) })
	for _, l := range all.All {
		items := []string{}
		for _, item := range l.Items {
			items = append(items, item.Name)
		}
		found[l.Name] = items
	}
	return found
}

// story is what happened, of all conversations.
func (r *run) story() string {
	story := r.kit.Explain()
	if len(r.unused) > 0 {
		story += "\n\nthe model was not asked for:\n    " + strings.Join(r.unused, "\n    ")
	}
	return story
}

func placeOf(i int) string { return fmt.Sprintf("parallel %d: ", i+1) }

// idOf is the id of an activity: if the file has none a fresh one or, of a redelivery, that
// of the activity before it.
func (r *run) idOf(e *record.Event) string {
	if e.ID != "" {
		return e.ID
	}
	if first := r.s.Original(e); e.Redelivery && first != nil {
		return r.idOf(first)
	}
	if r.ids[e] == "" {
		r.ids[e] = fmt.Sprintf("activity-%d-of-%s", len(r.ids)+1, e.Conversation)
	}
	return r.ids[e]
}

// perform plays a step: delivers its events, waits until the bot has nothing left to do,
// and looks at what it did.
func (r *run) perform(step *record.Step) {
	s := r.prepare(step)
	r.stage.Store(s)
	if s.crash > 0 && !r.cfg.Scripted { // else the book knows which call is made again only
		r.kit.CrashAfter(s.crash)
	}
	var deliveries []func()
	for i, e := range s.events {
		after := time.Duration(e.Event.AtMS)*time.Millisecond + time.Duration(i) // what is listed first is first
		deliveries = append(deliveries, func() {
			time.Sleep(after)
			r.deliver(e)
		})
	}
	r.kit.Together(deliveries...)
	if s.crash > 0 {
		r.settleCrash()
	} else {
		r.kit.Settle()
	}
	r.judge(step, s)
}

func crashOf(step *record.Step) int {
	for _, d := range step.Deliveries() {
		if d.Expect.CrashAfterAction != nil {
			return *d.Expect.CrashAfterAction
		}
	}
	if step.Expect.CrashAfterAction != nil {
		return *step.Expect.CrashAfterAction
	}
	return 0
}

// afterCrash is how long others may end what they have begun: not as long as the lease of
// the dead, whose turns are for the steps to come.
const afterCrash = 2 * time.Second

func (r *run) settleCrash() {
	crashed := func() bool {
		for replica := range r.replicas() {
			if !r.kit.Alive(replica + 1) {
				return true
			}
		}
		return false
	}
	if !r.kit.Await(crashed) {
		r.Errorf("expect.crash_after_action: there were not so many calls")
		return
	}
	time.Sleep(afterCrash)
}

// deliver delivers the event.
func (r *run) deliver(e *scene) {
	if e.Event.Redis == "down" {
		r.kit.StopRedis()
		defer r.kit.StartRedis()
	}
	a, card := r.activity(e)
	d := e.chat.Deliver(a)
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.delivered = d
	if card != "" && taken(d) && shown(d) == "" {
		r.decided[card] = true
	}
}

// taken reports whether the bot has the activity.
func taken(d *bottest.Delivery) bool { return d.Status >= 200 && d.Status < 300 }

// activity is the event as Teams would send it, and the card that it is a click on; "": it
// is none.
func (r *run) activity(e *scene) (a map[string]any, card string) {
	ev := e.Event
	a = map[string]any{"type": ev.Type, "id": e.id}
	if ev.Text != nil {
		a["text"] = *ev.Text
		if mention := botMention.FindString(*ev.Text); mention != "" && ev.Entities == nil {
			a["entities"] = []any{e.chat.MentionOf(mention)}
		}
	}
	for name, list := range map[string][]map[string]any{"entities": ev.Entities, "membersAdded": ev.MembersAdded, "attachments": ev.Attachments} {
		if list != nil {
			a[name] = list
		}
	}
	if ev.Name != "" {
		a["name"] = ev.Name
	}
	if ev.Value != nil {
		a["value"] = ev.Value
	}
	if ev.ChannelData != nil {
		a["channelData"] = channelData(ev.ChannelData)
	}
	if approve, ok := decisionOf(ev); ok {
		return r.click(e, a, approve)
	}
	return a, ""
}

// channelData is that of the event, with a tenant where it can have one.
func channelData(of any) any {
	object, ok := of.(map[string]any)
	if !ok {
		return of // channels have sent such, too
	}
	data := map[string]any{"tenant": map[string]any{"id": "tenant-1"}}
	maps.Copy(data, object)
	return data
}

// decisionOf reads a value that says only whether something is approved.
func decisionOf(e *record.Event) (approve, ok bool) {
	value, _ := e.Value.(map[string]any)
	approve, ok = value["approve"].(bool)
	return approve, ok && (e.Type == "invoke" || e.Type == "message")
}

// click makes of the event the click on a button of the last card that asks for an
// approval, if there is one that was not decided, on that. Where there is no card it is one on
// a card that the bot does not know.
func (r *run) click(e *scene, a map[string]any, approve bool) (click map[string]any, id string) {
	verb := map[bool]string{true: "planbot/approve", false: "planbot/reject"}[approve]
	card, button := r.asking(e, verb)
	if card == nil { // somebody clicks all the same
		card, button = &bottest.Card{}, map[string]any{"type": "Action.Execute", "verb": verb, "data": map[string]any{"verb": verb, "approval": "none"}}
	}
	button = maps.Clone(button)
	data, _ := button["data"].(map[string]any)
	all := beside(e.Event)
	maps.Copy(all, data)
	button["data"] = all
	click, err := card.Click(button)
	if err != nil {
		r.Errorf("%sevent.value: %v", e.place, err)
		return a, ""
	}
	if e.Event.Type == "message" {
		click = map[string]any{"type": "message", "replyToId": card.ID(), "value": button["data"]}
	}
	click["id"] = e.id
	return click, card.ID()
}

// asking is the card to click on, with its button of that verb; nil: there is none. It is one
// that was not decided, of which all is true that the click says, that who clicks has asked
// for, and the newest: as far as there is such a one, in this order.
func (r *run) asking(e *scene, verb string) (card *bottest.Card, button map[string]any) {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for _, m := range slices.Backward(e.chat.Messages()) {
		one := e.chat.Card(m)
		if one == nil {
			continue
		}
		buttons := one.Buttons()
		i := slices.IndexFunc(buttons, func(b map[string]any) bool { return b["verb"] == verb })
		if i < 0 {
			continue
		}
		fit := 0
		for _, is := range []bool{!r.decided[m.ID], saidOf(e.Event, one), r.asker(m.Of.Activity) == e.Event.Person()} {
			if fit *= 2; is {
				fit++
			}
		}
		if fit > best {
			best, card, button = fit, one, buttons[i]
		}
	}
	return card, button
}

// saidOf reports whether what a click says beside its decision is what the card shows.
func saidOf(e *record.Event, card *bottest.Card) bool {
	q := questionOf(card.JSON)
	for name, value := range beside(e) {
		raw, err := json.Marshal(value)
		if shown, there := q.valueOf(name); err != nil || !there || !sameValue(string(raw), shown) {
			return false
		}
	}
	return true
}

// beside is what the value of a click says beside its decision.
func beside(e *record.Event) map[string]any {
	value, _ := e.Value.(map[string]any)
	value = maps.Clone(value)
	delete(value, "approve")
	return value
}

// asker is who said what the activity of that id says, "" where nobody did.
func (r *run) asker(id string) string {
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].Deliveries() {
			if d.Event.ID == id || r.ids[d.Event] == id {
				return d.Event.Person()
			}
		}
	}
	return ""
}

// shown is the message that a click was answered with, "" when that is that it takes longer.
func shown(d *bottest.Delivery) string {
	var answer struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(d.Body, &answer) != nil || strings.HasPrefix(answer.Value, "I am still at work.") {
		return ""
	}
	return answer.Value
}

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
	*record.Delivery
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
func (s *stage) owner(of record.Of) *scene {
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
func (s *stage) sharing(of record.Of) []*scene {
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
			return asked(a, time.Duration(e.Event.DelayModelMS)*time.Millisecond, last), true
		}
	}
	return bottest.Answer{}, false
}

// asked is the answer as the stand-in gives it. A model that hangs at last, with no answer
// left for who would ask again, hangs until nobody waits.
func asked(a record.Answer, delay time.Duration, last bool) bottest.Answer {
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
			return faultOf(e.Expect.Connector[e.sendings-1])
		}
	}
	return bottest.Fault{}
}

func faultOf(how record.Sending) bottest.Fault {
	fault := bottest.Fault{Status: how.HTTP}
	if how.RetryAfter != nil {
		fault.RetryAfter = time.Duration(*how.RetryAfter * float64(time.Second))
	}
	return fault
}

// scriptOf is what the scenario says of a call: the next expected one of that name, best
// with the same entities, of the event or of all together.
func (s *stage) scriptOf(of record.Of, name string, entities map[string]any) scripted {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, same := range []bool{true, false} {
		for _, e := range append(s.sharing(of), s.whole) {
			for i, a := range e.Expect.Actions {
				if !e.actions[i] && a.Action == name && (!same || equalEntities(a.Entities, entities)) {
					e.actions[i] = true
					return scriptedBy(&a)
				}
			}
		}
	}
	return scripted{}
}

func scriptedBy(a *record.Action) scripted {
	out := scripted{result: a.Result, unchanged: a.Unchanged}
	if a.Error != nil {
		out.fails = cmp.Or(*a.Error, "it failed")
	}
	return out
}

var botMention = regexp.MustCompile(`<at>[^<>]*Bot</at>`)

// prepare makes the scenes of a step.
func (r *run) prepare(step *record.Step) *stage {
	s := &stage{run: r, crash: crashOf(step), calls: len(r.calls()), asked: len(r.kit.Model.Calls()), sent: len(r.kit.Connector.Sent()), kept: map[string]map[string][]string{}}
	s.whole = &scene{Delivery: &record.Delivery{}}
	if len(step.Parallel) > 0 {
		s.whole = &scene{Delivery: &step.Delivery, actions: make([]bool, len(step.Expect.Actions))}
	}
	for _, d := range step.Deliveries() {
		e := &scene{Delivery: d, id: r.idOf(d.Event), chat: r.chat(d.Event), actions: make([]bool, len(d.Expect.Actions))}
		if len(step.Parallel) > 0 {
			e.place = placeOf(len(s.events))
		}
		s.events = append(s.events, e)
		s.kept[d.Event.Conversation] = r.kept(d.Event.Conversation)
	}
	return s
}

// recorder is a test without package testing: it keeps the failures. It is safe for
// concurrent use.
type recorder struct {
	testing.TB // nil: what a kit calls is below
	ctx        context.Context
	step       string // at work

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// do calls f and returns also when f gives up.
func (r *recorder) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) cleanUp() {
	for {
		r.mu.Lock()
		last := len(r.cleanups) - 1
		if last < 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		r.mu.Unlock()
		r.do(f)
	}
}

// Errorf keeps a failure.
func (r *recorder) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text, _, _ = strings.Cut(text, "\n\nwhat happened:") // told once, behind all failures
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != "" {
		text = r.step + ": " + text
	}
	r.failures = append(r.failures, text)
}

// Fatalf keeps a failure and ends the goroutine.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Failed reports whether there was a failure.
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// Cleanup has f called at the end.
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// Context ends with the bubble.
func (r *recorder) Context() context.Context { return r.ctx }

// Helper does nothing: failures name steps and not lines.
func (r *recorder) Helper() {}

// Logf does nothing.
func (r *recorder) Logf(string, ...any) {}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// book has the calls of actions that were made, and what the scenario says of them. It
// stands for the services behind the actions: it outlives the bot's processes and knows a
// call that is made again by its key.
type book struct {
	run *run

	mu      sync.Mutex
	calls   []made
	outcome map[string]scripted // by the key of the call
	tickets map[string]bool
}

// made is a call that was made.
type made struct {
	record.Of
	action   string
	entities map[string]any
	result   string
	failed   bool
}

// scripted is what an action gives back.
type scripted struct {
	result    any
	fails     string  // why; "": it does not
	unchanged *string // what it says when it finds nothing to act on
}

// registry is the bot's, with the actions doing what the scenario says.
func (b *book) registry(of *actions.Registry, replica int) (*actions.Registry, error) {
	out := actions.New()
	builtin := actions.New()
	lists.Register(builtin)
	for _, a := range of.All() {
		one := &act{book: b, replica: replica, name: a.Name}
		one.effect, _ = builtin.Lookup(a.Name)
		added, err := actions.AddSchema(out, a.Name, a.Description, a.Schema, one.call)
		if err != nil {
			return nil, err
		}
		added.Destructive, added.Approval, added.ReturnsData = a.Destructive, a.Approval, a.ReturnsData
	}
	return out, nil
}

// act is an action in one process of the bot.
type act struct {
	book    *book
	replica int
	name    string
	effect  *actions.Action // on lists; nil: it has none
}

// call makes one call. One that was made before, by a process that is dead now, is not
// made again: it has the same result.
func (a *act) call(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	script, nth := a.book.enter(record.OfContext(ctx), actions.AttemptOf(ctx).Key, a.name, entities)
	if s := a.book.run.stage.Load(); s.crash > 0 && nth == s.calls+s.crash {
		defer a.book.run.kit.Kill(a.replica) // nothing of the call is written down
	}
	if why, ok := strings.CutPrefix(script.fails, "panic"); ok {
		panic(strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(why, ":")), " "))
	}
	if script.fails != "" {
		return actions.Fail("%s", script.fails), nil
	}
	if a.effect != nil {
		own := &actions.Turn{ID: turn.ID, Activity: turn.Activity, Text: turn.Text, Conversation: turn.Conversation, Thread: turn.Thread, User: turn.Conversation, Temp: turn.Temp}
		if _, err := a.effect.Call(ctx, own, entities); err != nil {
			return actions.Result{}, err
		}
	}
	if script.unchanged != nil {
		return actions.Unchanged("%s", *script.unchanged), nil
	}
	switch result := script.result.(type) {
	case nil:
		return actions.Done, nil
	case string:
		return actions.Text("%s", result), nil
	default:
		return actions.JSON(result), nil
	}
}

// enter finds what the call gives back, and notes it unless it is known. nth is which call
// it is of those that were made; 0: it was made before.
func (b *book) enter(of record.Of, key, name string, entities map[string]any) (script scripted, nth int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, again := b.outcome[key]; again {
		return known, 0
	}
	if b.outcome == nil {
		b.outcome, b.tickets = map[string]scripted{}, map[string]bool{}
	}
	script = b.run.stage.Load().scriptOf(of, name, entities)
	b.outcome[key] = script
	b.calls = append(b.calls, made{of, name, entities, record.TextOf(script.result), script.fails != ""})
	if name == "createTicket" && script.fails == "" {
		b.tickets[key] = true
	}
	return script, len(b.calls)
}

// all are the calls so far.
func (b *book) all() []made {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]made(nil), b.calls...)
}

func (b *book) opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tickets)
}

// calls are those that were made so far: of scripted actions, or as the kit saw them.
func (r *run) calls() []made {
	if r.cfg.Scripted {
		return r.book.all()
	}
	var all []made
	for _, c := range r.kit.Calls() {
		all = append(all, made{c.Of, c.Action, c.Entities, c.Result.Text(), !c.Ended || c.Result.Failed()})
	}
	return all
}

// question is a call that a card asks for the approval of, with its values as the card
// shows them.
type question struct {
	action string
	values map[string]string
}

// questionOf reads a card; nil: it asks for no approval.
func questionOf(card string) *question {
	var tree struct {
		Body []struct {
			Text    string `json:"text"`
			Inlines []struct {
				Text   string `json:"text"`
				Weight string `json:"weight"`
			} `json:"inlines"`
		} `json:"body"`
	}
	if json.Unmarshal([]byte(card), &tree) != nil || len(tree.Body) == 0 || tree.Body[0].Text != "May I do this?" {
		return nil
	}
	q := &question{values: map[string]string{}}
	for _, row := range tree.Body {
		switch parts := row.Inlines; {
		case len(parts) == 1 && parts[0].Weight == "bolder" && q.action == "":
			q.action = parts[0].Text
		case len(parts) == 2 && strings.HasSuffix(parts[0].Text, ": "):
			name := strings.TrimSuffix(strings.TrimSuffix(parts[0].Text, ": "), " (not used)")
			q.values[name] = parts[1].Text
		}
	}
	return q
}

// valueOf is a value of the call, which a card that asks for nothing does not have.
func (q *question) valueOf(name string) (value string, there bool) {
	if q != nil {
		value, there = q.values[name]
	}
	return value, there
}

// has reports whether the values are among those of the call. They are separated by spaces,
// by commas or by both. One that can be read as JSON is JSON, another is a text that ends
// where the next name of the call begins.
func (q *question) has(values string) bool {
	for values != "" {
		name, rest, found := q.name(values)
		if !found {
			return false
		}
		value, next := q.value(rest)
		if !sameValue(value, q.values[name]) {
			return false
		}
		values = next
	}
	return true
}

// name is the name of the call's with which the text begins, and what follows its "=".
func (q *question) name(text string) (name, rest string, found bool) {
	for name := range q.values {
		if rest, found := strings.CutPrefix(text, name+"="); found {
			return name, rest, true
		}
	}
	return "", "", false
}

// value is what the text begins with, and the name and value behind that.
func (q *question) value(text string) (value, next string) {
	const between = ", \t\n"
	d := json.NewDecoder(strings.NewReader(text))
	var whole json.RawMessage
	if d.Decode(&whole) == nil {
		rest := text[d.InputOffset():]
		next := strings.TrimLeft(rest, between)
		if _, _, found := q.name(next); next == "" || found && next != rest {
			return string(whole), next
		}
	}
	for i := range text {
		if _, _, found := q.name(text[i:]); found && i > 0 && strings.ContainsRune(between, rune(text[i-1])) {
			return strings.TrimRight(text[:i], between), text[i:]
		}
	}
	return text, ""
}

// sameValue compares a value with that of a card, which is JSON: as JSON, or as the text
// that this holds.
func sameValue(want, shown string) bool {
	have, ok := parseValue(shown)
	if !ok {
		return want == shown // with an escape that JSON does not have
	}
	if have == want {
		return true
	}
	wanted, ok := parseValue(want)
	return ok && equalJSON(wanted, have)
}

func parseValue(text string) (v any, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil && int(d.InputOffset()) == len(strings.TrimRight(text, " \t\r\n"))
}
