// Package scenario plays conversations written in files: what people do, what the model answers,
// and what the bot must then do.
//
// [record.Read] reads JSON or YAML files, strictly. [Run] plays a scenario in a bubble of virtual
// time, on its own bot, and reports where the bot did something else. It works in tests and in
// programs. docs/scenario.schema.json describes the format to editors.
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
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/turnlog"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Config says which bot plays the scenarios.
type Config struct {
	// Actions are the bot's actions.
	Actions *actions.Registry
	// Scripted replaces the actions with what the scenarios say: each call returns the result or
	// error that the scenario expects of it. Actions that change lists still do so, on the
	// conversation's own lists.
	Scripted bool
	// Planner is "sequence", "sequential" or "tools". "": sequence.
	Planner string
	// Wire completes the configs of the planner and the bot, for each process of the bot: prompts,
	// skills, other actions for both. nil: nothing to add.
	Wire func(ctx context.Context, of *planner.Config, cfg *bot.Config) error
	// Cassette is a file with the prompts that the model must be sent, see [bottest.Record];
	// answers do not matter. With Update it is rewritten unless the scenario fails. "": prompts are
	// not compared.
	Cassette string
	Update   bool
}

// result is the outcome of a scenario.
type result struct {
	File     string   `json:"file,omitempty"`
	Name     string   `json:"name"`
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
	Story    string   `json:"story,omitempty"` // what happened, as text
	Seconds  float64  `json:"seconds"`
}

// Run plays one scenario. It takes only computing time, however long the scenario waits. You may
// run scenarios one after another: each has its own bot, model, connector and Redis, and leaves
// nothing behind.
func Run(s *record.Scenario, cfg Config) (came result) {
	began := time.Now()
	came = result{File: s.File, Name: s.Name, Failures: s.Faults}
	if len(s.Faults) > 0 {
		return came
	}
	rec := &recorder{}
	defer func() {
		if p := recover(); p != nil { // from the bubble: something in it never ends
			rec.Errorf("the bot did not come to rest: %v", p)
		}
		came.Failures = rec.failures
		came.Passed = len(came.Failures) == 0
		came.Seconds = time.Since(began).Seconds()
	}()
	// There is no real test here. The zero T never fails; it only provides the bubble and cleanups.
	synctest.Test(new(testing.T), func(t *testing.T) {
		rec.T = t
		rec.do(func() { came.Story = play(rec, s, cfg) })
	})
	return came
}

// run is a scenario while it is played.
type run struct {
	*recorder
	s       *record.Scenario
	cfg     Config
	kit     *bottest.Kit
	calling sync.Mutex               // guards scripts
	scripts map[string]record.Action // what the scenario says about calls, by call key
	prompts *cassette.Player         // nil: prompts are not compared
	chats   map[string]*bottest.Chat // by conversation
	stage   atomic.Pointer[stage]

	decided map[string]bool // by card id
	unused  []string        // the model's answers
}

// play runs all steps and returns the story.
func play(rec *recorder, s *record.Scenario, cfg Config) (story string) {
	r := &run{recorder: rec, s: s, cfg: cfg, chats: map[string]*bottest.Chat{}, scripts: map[string]record.Action{}, decided: map[string]bool{}}
	r.stage.Store(&stage{run: r})
	name := map[string]string{"lights": "LightsBot", "ticket": "TicketBot"}[s.Bot]
	if cfg.Cassette != "" {
		r.prompts = cassette.Open(rec, cfg.Cassette, "bottest run --update", cfg.Update)
	}
	r.kit = bottest.New(rec, bottest.Config{
		New: r.newBot, Name: cmp.Or(name, "ListBot"), Models: s.Options.Models, Replicas: r.replicas(),
		Bubble: true,
	})
	r.kit.Model.Decides(r.answer)
	r.kit.Connector.Decides(r.sending)
	for i, action := range s.Options.Approval {
		r.known(fmt.Sprintf("options.approval[%d]", i), action)
	}
	r.seed()
	defer func() {
		story = r.kit.Explain()
		if len(r.unused) > 0 {
			story += "\n\nthe model was not asked for:\n    " + strings.Join(r.unused, "\n    ")
		}
	}()
	for i := range s.Steps {
		rec.step = fmt.Sprintf("step %d", i+1)
		// If all processes have crashed, the platform would restart them, even if the scenario does
		// not say so.
		if s.Steps[i].Control != "" || r.alive() == 0 {
			r.kit.Restart()
		}
		if s.Steps[i].Control == "" {
			r.perform(&s.Steps[i])
		}
	}
	return ""
}

// known fails a scenario that names an action the bot does not have.
func (r *run) known(field, action string) {
	if _, known := r.cfg.Actions.Lookup(action); !known {
		r.Errorf("%s: there is no action %q", field, action)
	}
}

// replicas is the number of the bot's processes.
func (r *run) replicas() int {
	most := 1
	for _, e := range r.events() {
		most = max(most, e.Replica)
	}
	return most
}

// alive is the number of them that run.
func (r *run) alive() (n int) {
	for i := range r.replicas() {
		if r.kit.Alive(i + 1) {
			n++
		}
	}
	return n
}

// events returns the events of all steps.
func (r *run) events() (all []*record.Event) {
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].Deliveries() {
			all = append(all, d.Event)
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
		if cfg.Actions, err = r.scripted(parts.Replica); err != nil {
			return nil, err
		}
	}
	sequence := planner.Config{Model: parts.Model, Named: parts.Named, Actions: cfg.Actions}
	if r.prompts != nil {
		sequence.Model = r.prompts.Compared(parts.Model)
		sequence.Named = func(name string) (models.Model, error) {
			model, err := parts.Named(name)
			return r.prompts.Compared(model), err
		}
	}
	if o.MaxRepairs != nil {
		sequence.MaxRepairs = cmp.Or(*o.MaxRepairs, -1) // zero means the default there
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

// chat returns the conversation of the event, as its person sees it.
func (r *run) chat(e *record.Event) *bottest.Chat {
	known := r.chats[e.Conversation]
	if known == nil {
		known = r.kit.Conversation(e.Conversation, cmp.Or(e.Kind, "personal"), e.From)
		r.chats[e.Conversation] = known
	}
	return known.As(e.From).On(cmp.Or(e.Replica, 1))
}

// seed writes the stored state of each conversation before the first step.
func (r *run) seed() {
	seed := &r.s.Seed
	all := slices.Clone(seed.Ordered)
	for _, name := range sortedKeys(seed.Lists) {
		list := lists.List{Name: name}
		for _, item := range seed.Lists[name] {
			list.Items = append(list.Items, lists.Item{Name: item})
		}
		all = append(all, list)
	}
	for _, e := range r.events() {
		known := r.chats[e.Conversation] != nil
		chat := r.chat(e)
		if known || all == nil && seed.HistoryTurns == 0 {
			continue
		}
		chat.Keep(func(conversation, user *state.Scope) {
			state.Of[lists.Lists](r.holder(e, conversation, user)).All = slices.Clone(all)
			seedHistory(state.Of[prompts.History](conversation), seed.HistoryTurns, e)
		})
	}
}

// holder returns the scope that stores the lists of a conversation: in a personal chat the
// person's, unless the scenario sets lists itself.
func (r *run) holder(e *record.Event, conversation, user *state.Scope) *state.Scope {
	if !r.cfg.Scripted && cmp.Or(e.Kind, "personal") == "personal" {
		return user
	}
	return conversation
}

func seedHistory(h *prompts.History, turns int, e *record.Event) {
	name := ""
	if e.Kind != "" && e.Kind != "personal" {
		name = e.From
	}
	for i := range turns {
		h.Append(prompts.Turn{From: "29:" + e.From, Name: name, Messages: []prompts.Message{
			{Role: "user", Text: fmt.Sprintf("question %d", i+1)}, {Role: "assistant", Text: fmt.Sprintf("answer %d", i+1)},
		}}, turns)
	}
}

// kept returns the lists of the conversation.
func (r *run) kept(conversation string) map[string][]string {
	found := map[string][]string{}
	events := r.events()
	first := slices.IndexFunc(events, func(e *record.Event) bool { return e.Conversation == conversation })
	if first < 0 {
		return found
	}
	of := events[first] // in a personal chat the lists belong to the first person who speaks
	var all lists.Lists
	chat := r.chats[conversation].As(of.From)
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

// perform plays a step: it delivers the events, waits until the bot has nothing left to do, and
// checks what the bot did.
func (r *run) perform(step *record.Step) {
	s := r.prepare(step)
	r.stage.Store(s)
	if s.crash > 0 && !r.cfg.Scripted { // only scripted actions know which call is repeated
		r.kit.CrashAfter(s.crash)
	}
	var deliveries []func()
	for i, e := range s.deliveries {
		after := time.Duration(e.Event.AtMS)*time.Millisecond + time.Duration(i) // keeps the listed order
		deliveries = append(deliveries, func() {
			time.Sleep(after)
			r.deliver(e)
		})
	}
	r.kit.Together(deliveries...)
	if s.crash == 0 {
		r.kit.Settle()
	} else if r.kit.Await(func() bool { return r.alive() < r.replicas() }) {
		time.Sleep(afterCrash)
	} else {
		r.Errorf("expect.crash_after_action: there were not so many calls")
	}
	r.judge(step, s)
}

// afterCrash is how long other processes may finish their work. It is shorter than the lease of the
// dead process, whose turns belong to later steps.
const afterCrash = 2 * time.Second

// deliver delivers the event.
func (r *run) deliver(e *delivery) {
	if e.Event.Redis == "down" {
		r.kit.StopRedis()
		defer r.kit.StartRedis()
	}
	a, card := r.activity(e)
	d := e.chat.Deliver(a)
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.answer = d
	if card != "" && taken(d) && shown(d) == "" {
		r.decided[card] = true
	}
}

// taken reports whether the bot accepted the activity.
func taken(d *bottest.Delivery) bool { return d.Status >= 200 && d.Status < 300 }

// activity returns the event as Teams would send it, and the id of the card if it is a click; "" if
// it is not.
func (r *run) activity(e *delivery) (a map[string]any, card string) {
	ev := e.Event
	d := json.NewDecoder(strings.NewReader(asJSON(ev)))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		r.Errorf("%sevent: %v", e.place, err)
	}
	for _, ours := range []string{"conversation", "conversationType", "from", "at_ms", "delay_model_ms", "replica", "redelivery", "redis"} {
		delete(a, ours)
	}
	if mention := botMention.FindString(fmt.Sprint(a["text"])); mention != "" && ev.Entities == nil {
		a["entities"] = []any{e.chat.MentionOf(mention)}
	}
	if data, ok := a["channelData"].(map[string]any); ok && data["tenant"] == nil { // other channels have sent other values
		data["tenant"] = map[string]any{"id": "tenant-1"}
	}
	if approve, ok := decisionOf(ev); ok {
		return r.click(e, a, approve)
	}
	return a, ""
}

// decisionOf reads a value that only says whether something is approved.
func decisionOf(e *record.Event) (approve, ok bool) {
	value, _ := e.Value.(map[string]any)
	approve, ok = value["approve"].(bool)
	return approve, ok && (e.Type == "invoke" || e.Type == "message")
}

// click turns the event into a click on a button of the newest card that asks for an approval,
// preferably an undecided one. Without such a card it is a click on a card that the bot does not
// know.
func (r *run) click(e *delivery, a map[string]any, approve bool) (click map[string]any, id string) {
	verb := map[bool]string{true: "planbot/approve", false: "planbot/reject"}[approve]
	card, button := r.asking(e, verb)
	if button == nil { // a click without a card
		button = map[string]any{"type": "Action.Execute", "verb": verb, "data": map[string]any{"verb": verb, "approval": "none"}}
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
		click = map[string]any{"type": "message", "replyToId": card.ID, "value": button["data"]}
	}
	click["id"] = e.Event.ID
	return click, card.ID
}

// asking returns the card to click on and its button with that verb; nil: there is none. It
// prefers, in this order: an undecided card, one that matches everything the click says, one that
// the clicking person asked for, and the newest.
func (r *run) asking(e *delivery, verb string) (card bottest.Sent, button map[string]any) {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for _, m := range slices.Backward(e.chat.Messages()) {
		buttons := m.Buttons()
		i := slices.IndexFunc(buttons, func(b map[string]any) bool { return b["verb"] == verb })
		if i < 0 {
			continue
		}
		fit := 0
		asked := slices.ContainsFunc(r.events(), func(said *record.Event) bool { return said.ID == m.Of.Activity && said.From == e.Event.From })
		for _, is := range []bool{!r.decided[m.ID], saidOf(e.Event, m.Card()), asked} {
			if fit *= 2; is {
				fit++
			}
		}
		if fit > best {
			best, card, button = fit, m, buttons[i]
		}
	}
	return card, button
}

// saidOf reports whether the card shows what the click says beside its decision.
func saidOf(e *record.Event, card string) bool {
	q := questionOf(card)
	for name, value := range beside(e) {
		raw, err := json.Marshal(value)
		if q == nil {
			return false
		}
		if shown, there := q.values[name]; err != nil || !there || !sameValue(string(raw), shown) {
			return false
		}
	}
	return true
}

// beside returns what the value of a click says beside its decision.
func beside(e *record.Event) map[string]any {
	value, _ := e.Value.(map[string]any)
	value = maps.Clone(value)
	delete(value, "approve")
	return value
}

// shown is the message in the answer to a click, "" if that only says that it takes longer.
func shown(d *bottest.Delivery) string {
	var answer struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(d.Body, &answer) != nil || strings.HasPrefix(answer.Value, "I'm still working on it.") {
		return ""
	}
	return answer.Value
}

// latency is how long a model takes when it is not slow: long enough for turns that start together
// to run concurrently.
const latency = 10 * time.Millisecond

// stage is a step while it is played: its events, and how much of their scripts is used.
type stage struct {
	run *run

	mu         sync.Mutex
	deliveries []*delivery // in the listed order
	events     []*scene    // by time
	whole      *scene      // what several events together expect

	// Counts at the start of the step.
	calls, asked, sent int
	crash              int // the call after which the process dies; 0: none
	kept               map[string]map[string][]string
}

// delivery is the delivery of one activity.
type delivery struct {
	*record.Step
	place  string // "" or "parallel 2: "
	chat   *bottest.Chat
	answer *bottest.Delivery
	of     *scene
}

// scene is an activity of a step, and what the bot must do for it.
type scene struct {
	*record.Step
	deliveries []*delivery
	seen       seen
	answers    int    // of the model, used so far
	actions    []bool // which of the expected ones were used
	sendings   int    // of the connector, used so far
}

// place names the deliveries.
func (e *scene) place() string {
	var places []string
	for _, d := range e.deliveries {
		places = append(places, strings.TrimSuffix(d.place, ": "))
	}
	if places[0] == "" {
		return ""
	}
	return strings.Join(places, " with ") + ": "
}

// open reports whether the bot has the activity or may still get it.
func (e *scene) open() bool {
	return slices.ContainsFunc(e.deliveries, func(d *delivery) bool { return d.answer == nil || d.answer.Status < 300 })
}

// owner returns the scene that a call or message belongs to: the activity that its turn answers or,
// if that is from an earlier step, the first accepted activity of its conversation.
func (s *stage) owner(of turnlog.Of) (found *scene) {
	for _, match := range []func(*record.Event) bool{
		func(e *record.Event) bool { return e.ID == of.Activity && e.Conversation == of.Conversation },
		func(e *record.Event) bool { return e.ID == of.Activity },
		func(e *record.Event) bool { return e.Conversation == of.Conversation },
		func(*record.Event) bool { return true },
	} {
		for _, e := range s.events {
			if match(e.Event) && (found == nil || !found.open() && e.open()) {
				found = e
			}
		}
		if found != nil {
			return found
		}
	}
	return &scene{Step: &record.Step{}} // before the first step
}

// answer returns what the model does in a call that belongs to an event of the step.
func (r *run) answer(call bottest.ModelCall) (bottest.Answer, bool) {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.owner(call.Of)
	if e.answers == len(e.Model) {
		return bottest.Answer{}, false
	}
	e.answers++
	return e.asked(e.answers-1, e.answers == len(e.Model)), true
}

// asked returns the answer in the stand-in's form. If the last answer is a hang, with none left for
// a retry, the model hangs until the caller gives up.
func (e *scene) asked(i int, last bool) bottest.Answer {
	const forever = 24 * time.Hour
	a, delay := e.Model[i], time.Duration(e.Event.DelayModelMS)*time.Millisecond
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
	case a.HTTP < 200 || a.HTTP > 299: // otherwise the answer is empty
		out.Status = cmp.Or(a.HTTP, 400)
	}
	out.RetryAfter = seconds(a.RetryAfter)
	return out
}

// sending returns how the connector answers a message of the bot.
func (r *run) sending(sent bottest.Sent) bottest.Answer {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.owner(ofSent(sent))
	if e.Expect.Connector == nil {
		e = s.whole
	}
	if e.sendings == len(e.Expect.Connector) {
		return bottest.Answer{}
	}
	e.sendings++
	how := e.Expect.Connector[e.sendings-1]
	return bottest.Answer{Status: how.HTTP, RetryAfter: seconds(how.RetryAfter)}
}

// seconds converts a time of a scenario; 0 if it has none.
func seconds(n *float64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n * float64(time.Second))
}

var botMention = regexp.MustCompile(`<at>[^<>]*Bot</at>`)

// prepare makes the scenes of a step.
func (r *run) prepare(step *record.Step) *stage {
	s := &stage{run: r, calls: len(r.calls()), asked: len(r.kit.Model.Calls()), sent: len(r.kit.Connector.Sent()), kept: map[string]map[string][]string{}}
	s.whole = &scene{Step: &record.Step{}}
	if len(step.Parallel) > 0 {
		s.whole = &scene{Step: step, actions: make([]bool, len(step.Expect.Actions))}
	}
	for _, one := range step.Deliveries() {
		d := &delivery{Step: one, chat: r.chat(one.Event)}
		if len(step.Parallel) > 0 {
			d.place = fmt.Sprintf("parallel %d: ", len(s.deliveries)+1)
		}
		if after := cmp.Or(d.Expect.CrashAfterAction, step.Expect.CrashAfterAction); after != nil {
			s.crash = *after
		}
		s.deliveries = append(s.deliveries, d)
		s.kept[d.Event.Conversation] = r.kept(d.Event.Conversation)
	}
	for _, d := range inTime(s.deliveries) {
		i := slices.IndexFunc(s.events, func(e *scene) bool {
			return e.Event.ID == d.Event.ID && e.Event.Conversation == d.Event.Conversation
		})
		if i < 0 {
			i, s.events = len(s.events), append(s.events, &scene{Step: d.Step})
		}
		d.of = s.events[i]
		if d.of.deliveries = append(d.of.deliveries, d); len(d.of.deliveries) > 1 {
			d.of.Step = together(d.of.deliveries)
		}
		d.of.actions = make([]bool, len(d.of.Expect.Actions))
	}
	return s
}

// recorder collects the failures of a test. It is safe for concurrent use.
type recorder struct {
	*testing.T
	step string // the current one

	mu       sync.Mutex
	failures []string
}

// do calls f, and returns even if f ends its goroutine.
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

// Errorf records a failure.
func (r *recorder) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text, _, _ = strings.Cut(text, "\n\nwhat happened:") // shown once, after all failures
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != "" {
		text = r.step + ": " + text
	}
	r.failures = append(r.failures, text)
}

// Fatalf records a failure and ends the goroutine.
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

// Cleanup registers f for the end; f may fail the test there.
func (r *recorder) Cleanup(f func()) { r.T.Cleanup(func() { r.do(f) }) }

// Logf does nothing: a T outside of go test has nowhere to log.
func (r *recorder) Logf(string, ...any) {}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// scripted returns the actions of a process, which do what the scenario says. They stand for
// services that recognize a repeated call by its key.
func (r *run) scripted(replica int) (*actions.Registry, error) {
	out, builtin := actions.New(), actions.New()
	lists.Register(builtin)
	for _, a := range r.cfg.Actions.All() {
		effect, _ := builtin.Lookup(a.Name)
		added, err := actions.AddSchema(out, a.Name, a.Description, a.Schema,
			func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
				script, dies := r.scriptOf(turnlog.From(ctx), actions.AttemptOf(ctx).Key, a.Name, entities)
				if dies {
					defer r.kit.Kill(replica) // nothing about the call is saved
				}
				if effect != nil && script.Error == nil { // on lists
					own := &actions.Turn{
						ID: turn.ID, Activity: turn.Activity, Text: turn.Text,
						Conversation: turn.Conversation, Thread: turn.Thread, User: turn.Conversation, Temp: turn.Temp,
					}
					if _, err := effect.Call(ctx, own, entities); err != nil {
						return actions.Result{}, err
					}
				}
				return resultOf(&script), nil
			})
		if err != nil {
			return nil, err
		}
		added.Destructive, added.Approval, added.ReturnsData = a.Destructive, a.Approval, a.ReturnsData
	}
	return out, nil
}

// scriptOf returns what the scenario says about a call: the next expected call of that name,
// preferably with the same entities, of the event or of all events together. dies says that the
// process dies after it; a repeated call does not count for that.
func (r *run) scriptOf(of turnlog.Of, key, name string, entities map[string]any) (script record.Action, dies bool) {
	r.calling.Lock()
	defer r.calling.Unlock()
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, again := r.scripts[key]; again {
		return known, false
	}
	defer func() {
		r.scripts[key] = script
		dies = s.crash > 0 && len(r.scripts) == s.calls+s.crash
	}()
	for _, same := range []bool{true, false} {
		for _, e := range []*scene{s.owner(of), s.whole} {
			for i, a := range e.Expect.Actions {
				if !e.actions[i] && a.Action == name && (!same || equalEntities(a.Entities, entities)) {
					e.actions[i] = true
					return a, false
				}
			}
		}
	}
	return record.Action{}, false
}

// resultOf is the result of a scripted action.
func resultOf(a *record.Action) actions.Result {
	switch {
	case a.Error != nil:
		if why, ok := strings.CutPrefix(*a.Error, "panic"); ok {
			panic(strings.TrimSpace(strings.TrimPrefix(why, ":")))
		}
		return actions.Fail("%s", cmp.Or(*a.Error, "it failed"))
	case a.Unchanged != nil:
		return actions.Unchanged("%s", *a.Unchanged)
	}
	switch result := a.Result.(type) {
	case nil:
		return actions.Done
	case string:
		return actions.Text("%s", result)
	default:
		return actions.JSON(result)
	}
}

// calls returns the calls made so far. If another process repeated a scripted call, only the last
// one counts.
func (r *run) calls() []bottest.Call {
	all := r.kit.Calls()
	if !r.cfg.Scripted {
		return all
	}
	var made []bottest.Call
	for _, c := range all {
		if i := slices.IndexFunc(made, func(other bottest.Call) bool { return other.Key == c.Key }); i >= 0 {
			made[i] = c
		} else {
			made = append(made, c)
		}
	}
	return made
}

// failed reports whether the call failed or did not end.
func failed(c *bottest.Call) bool { return !c.Ended || c.Result.Failed() }

// question is the call that a card asks to approve, with its values as the card shows them.
type question struct {
	action string
	values map[string]string
}

// questionOf reads a card; nil if it does not ask for an approval.
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

// has reports whether the values, such as "id=7, reason=no longer needed", are among those of the
// call. A value that parses as JSON is JSON; any other is text that ends where the next name of the
// call starts.
func (q *question) has(values string) bool {
	var names []string
	for name := range q.values {
		names = append(names, regexp.QuoteMeta(name))
	}
	next := regexp.MustCompile(`[, \t\n]+(` + strings.Join(names, "|") + `)=`)
	begins := func(text string) bool {
		at := next.FindStringIndex(text)
		return text == "" || at != nil && at[0] == 0
	}
	for values = strings.TrimRight(" "+values, ", \t\n"); values != ""; {
		at := next.FindStringSubmatchIndex(values)
		if !begins(values) {
			return false
		}
		name, rest := values[at[2]:at[3]], values[at[1]:]
		end := len(rest)
		if at := next.FindStringIndex(rest); at != nil {
			end = at[0]
		}
		d := json.NewDecoder(strings.NewReader(rest))
		if d.Decode(new(any)) == nil && begins(rest[d.InputOffset():]) {
			end = int(d.InputOffset())
		}
		if !sameValue(rest[:end], q.values[name]) {
			return false
		}
		values = rest[end:]
	}
	return true
}

// sameValue compares a value with one on a card, which is JSON: as JSON, or as the text that the
// JSON contains.
func sameValue(want, shown string) bool {
	var text string
	return want == shown || json.Unmarshal([]byte(shown), &text) == nil && text == want || sameJSON(want, shown)
}
