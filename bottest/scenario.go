package bottest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
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

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// RunScenarios plays the scenarios in all files that match the patterns on the bot, each as a
// subtest: with the bot's name, its real actions, and its prompts and planner. A file is JSON if its
// name ends in .json, else YAML; app/record/scenario.schema.json describes the format. Cassettes, see
// [Record], are left out.
//
// The test fails if a pattern matches no file, and for each mistake in a file. Every scenario has
// its own bot, model, connector and Redis, in a bubble of virtual time, see [Test]. They run one
// after another, so they may share the services that the actions call.
func RunScenarios(t *testing.T, b app.Bot, patterns ...string) {
	t.Helper()
	cfg := Config{Name: b.Name, New: func(ctx context.Context, parts Parts) (*bot.Bot, error) {
		return app.New(ctx, b, parts.Model, parts.Bot)
	}}
	for _, s := range scenariosIn(t, patterns) {
		t.Run(s.Name, func(t *testing.T) { runScenario(t, &s, cfg) })
	}
}

// scenariosIn reads the scenarios of all files that match the patterns. The test fails for a pattern or a file that has none.
func scenariosIn(t *testing.T, patterns []string) (all []record.Scenario) {
	t.Helper()
	if len(patterns) == 0 {
		t.Fatal("no pattern of files with scenarios")
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(filepath.Base(name), ".cassette.") })
		if err != nil || len(names) == 0 {
			t.Errorf("no file of scenarios matches %q, %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			some, _ := record.Read(name, text) // scenarios have the mistakes, too
			if err != nil || len(some) == 0 {
				t.Errorf("%s: there are no scenarios in it, %v", name, err)
			}
			all = append(all, some...)
		}
	}
	return all
}

func runScenario(t *testing.T, s *record.Scenario, cfg Config) {
	t.Helper()
	for _, fault := range s.Faults {
		t.Error(fault) // with its place
	}
	place := fmt.Sprintf("%s: scenario %q", s.File, s.Name)
	if s.Options.MaxRepairs != nil {
		t.Errorf("%s: options.max_repairs: an app.Bot always has the default", place)
	}
	if t.Failed() {
		return
	}
	failures, story := Play(s, cfg)
	for _, failure := range failures {
		t.Errorf("%s%s%s", place, map[bool]string{true: ", ", false: ": "}[strings.HasPrefix(failure, "step ")], failure)
	}
	if len(failures) > 0 {
		t.Log(story)
	}
}

// Play plays one scenario on the bot of cfg, in tests and in programs, and returns what went wrong
// and what happened, as text. The scenario says how many Replicas there are and what the Models are
// called. Play takes only computing time, however long the scenario waits. You may play scenarios
// one after another: each has its own bot, model, connector and Redis, and leaves nothing behind.
// [record.Read] reads scenarios. One with faults fails with these.
func Play(s *record.Scenario, cfg Config) (failures []string, story string) {
	if len(s.Faults) > 0 {
		return slices.Clone(s.Faults), ""
	}
	rec := &recorder{}
	defer func() {
		if p := recover(); p != nil { // from the bubble: something in it never ends
			rec.Errorf("the bot did not come to rest: %v", p)
		}
		failures = rec.failures
	}()
	// There is no real test here. The zero T never fails; it only provides the bubble and cleanups.
	synctest.Test(new(testing.T), func(t *testing.T) {
		rec.T = t
		rec.do(func() { story = play(rec, s, cfg) })
	})
	return failures, story
}

// run is a scenario while it is played.
type run struct {
	*recorder
	s       *record.Scenario
	cfg     Config
	kit     *Kit
	actions *actions.Registry        // the bot's
	calling sync.Mutex               // guards scripts
	scripts map[string]record.Action // what the scenario says about calls, by call key
	prompts *cassette.Player         // nil: prompts are not compared
	chats   map[string]*Chat         // by conversation
	stage   atomic.Pointer[stage]

	decided  map[string]bool   // by card id
	replaced map[string]string // the card that a click put in the place of another, by its id
	unused   []string          // the model's answers
	answered map[string]Answer // by what the model was asked, of a process that may ask again; nil: none may
}

func newRun(rec *recorder, s *record.Scenario, cfg Config) *run {
	r := &run{recorder: rec, s: s, cfg: cfg, chats: map[string]*Chat{}, scripts: map[string]record.Action{}}
	r.decided, r.replaced = map[string]bool{}, map[string]string{}
	r.stage.Store(&stage{run: r})
	return r
}

func play(rec *recorder, s *record.Scenario, cfg Config) (story string) {
	r := newRun(rec, s, cfg)
	if cfg.Cassette != "" {
		r.prompts = cassette.Open(rec, cfg.Cassette, "bottest run --update", cfg.Update)
	}
	name := map[string]string{"lights": "LightsBot", "ticket": "TicketBot"}[s.Bot]
	r.kit = New(rec, Config{
		New: r.newBot, Name: cmp.Or(cfg.Name, name, "Planbot"), Models: s.Options.Models, Replicas: r.replicas(),
		Log: cfg.Log, Bubble: true,
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
	if _, known := r.actions.Lookup(action); !known {
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

func (r *run) events() (all []*record.Event) {
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].Deliveries() {
			all = append(all, d.Event)
		}
	}
	return all
}

func (r *run) newBot(ctx context.Context, parts Parts) (*bot.Bot, error) {
	cfg, o := r.cfg, r.s.Options
	if cfg.Scripted {
		var err error
		if cfg.Actions, err = r.scripted(parts.Replica); err != nil {
			return nil, err
		}
	}
	if r.prompts != nil {
		named := parts.Named
		parts.Model = r.prompts.Compared(parts.Model)
		parts.Named = func(name string) (models.Model, error) {
			model, err := named(name)
			return r.prompts.Compared(model), err
		}
	}
	if o.MaxRepairs != nil {
		parts.maxRepairs = cmp.Or(*o.MaxRepairs, -1) // zero means the default there
	}
	parts.Bot.MaxSteps, parts.Bot.MaxSameCalls = o.MaxSteps, o.MaxSameCalls
	parts.Bot.Policy = settings.Policy(o.Approval, actions.DefaultPolicy)
	b, err := cfg.newBot(ctx, parts)
	if b != nil {
		r.actions = b.Actions()
	}
	return b, err
}

// chat returns the conversation of the event, as its person sees it.
func (r *run) chat(e *record.Event) *Chat {
	known := r.chats[e.Conversation]
	if known == nil {
		known = r.kit.Conversation(e.Conversation, cmp.Or(e.Kind, "personal"), e.From)
		r.chats[e.Conversation] = known
	}
	return known.As(e.From).On(cmp.Or(e.Replica, 1))
}

// seed writes the stored state of each conversation and of the whole bot before the first step.
func (r *run) seed() {
	seed := &r.s.Seed
	if seed.Bot != nil {
		err := r.kit.watcher.Update(r.Context(), state.BotKey(), func(bot *state.Scope) error {
			set(bot, seed.Bot)
			return nil
		})
		if err != nil {
			r.Fatalf("keep: %v", err)
		}
	}
	all := slices.Clone(seed.Ordered)
	for _, name := range sortedKeys(seed.Lists) {
		list := lists.List{Name: name}
		for _, item := range seed.Lists[name] {
			list.Items = append(list.Items, lists.Item{Name: item})
		}
		all = append(all, list)
	}
	people := map[string]bool{}
	for _, e := range r.events() {
		known, met := r.chats[e.Conversation] != nil, people[e.From]
		people[e.From] = true
		chat := r.chat(e)
		if known && met || all == nil && seed.HistoryTurns == 0 && seed.Conversation == nil && seed.User == nil {
			continue
		}
		chat.Keep(func(conversation, user *state.Scope) {
			if !met {
				set(user, seed.User)
			}
			if known {
				return
			}
			set(conversation, seed.Conversation)
			if all != nil {
				state.Of[lists.Lists](r.holder(e, conversation, user)).All = slices.Clone(all)
			}
			seedHistory(state.Of[prompts.History](conversation), seed.HistoryTurns, e)
		})
	}
}

func set(scope *state.Scope, values map[string]any) {
	for name, value := range values {
		*state.At[jsontext.Value](scope, name) = jsontext.Value(plainjson.Text(value))
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

// first is the first event of the conversation, which the scenario must have.
func (r *run) first(conversation string) *record.Event {
	events := r.events()
	return events[slices.IndexFunc(events, func(e *record.Event) bool { return e.Conversation == conversation })]
}

func (r *run) scopes(of *record.Event) [3]*state.Scope {
	return [3]*state.Scope{r.kit.load(conversationKey(of.Conversation)), r.kit.load(userKey(of.From)), r.kit.load(state.BotKey())}
}

// snapshot is the stored state of a conversation, of the first person who speaks and of the whole bot:
// the lists, and the JSON of all other values but those of the bot's own bookkeeping.
type snapshot struct {
	lists  map[string][]string
	values map[string]string
}

func (s snapshot) String() string { return plainjson.Text(s.lists) + " " + plainjson.Text(s.values) }

func (r *run) snapshot(conversation string) snapshot {
	found := map[string]string{}
	for i, scope := range r.scopes(r.first(conversation)) {
		for _, name := range scope.Names() {
			if !slices.Contains([]string{"lists", "history", "reference", "home", "approvals", "sentnotices", "greeted", "skills"}, name) {
				found[[]string{"conversation.", "user.", "bot."}[i]+name] = r.value(scope, name)
			}
		}
	}
	return snapshot{r.lists(conversation), found}
}

// value is a stored value as JSON; "": there is none.
func (r *run) value(scope *state.Scope, name string) string {
	raw, err := scope.JSON(name)
	if err == nil && raw != nil {
		err = raw.Canonicalize()
	}
	if err != nil {
		r.Errorf("read the state %s: %v", name, err)
	}
	return string(raw)
}

func (r *run) lists(conversation string) map[string][]string {
	found := map[string][]string{}
	first := r.first(conversation) // in a personal chat the lists belong to the first person who speaks
	scopes := r.scopes(first)
	for _, l := range state.Of[lists.Lists](r.holder(first, scopes[0], scopes[1])).All {
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

func (r *run) deliver(e *delivery) {
	if e.Event.Redis == "down" {
		r.kit.StopRedis()
		defer r.kit.StartRedis()
	}
	if e.sent == nil { // else it comes again
		e.sent, e.card = r.activity(e)
	}
	card, d := e.card, e.chat.Deliver(e.sent)
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.answer = d
	if card != "" && taken(d) && shown(d) == "" {
		r.decided[card] = true
	}
	if shows := cardIn(d); card != "" && shows != "" {
		r.replaced[card] = shows
	}
}

// taken reports whether the bot accepted the activity.
func taken(d *Delivery) bool { return d.Status >= 200 && d.Status < 300 }

// activity returns the event as Teams would send it, and the id of the card if it is a click; "" if
// it is not.
func (r *run) activity(e *delivery) (a map[string]any, card string) {
	ev := e.Event
	d := json.NewDecoder(strings.NewReader(plainjson.Text(ev)))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		r.Errorf("%sevent: %v", e.place, err)
	}
	for _, ours := range []string{"conversation", "conversationType", "from", "at_ms", "delay_model_ms", "replica", "redelivery", "redis"} {
		delete(a, ours)
	}
	if mention := r.mention(fmt.Sprint(a["text"])); mention != "" && ev.Entities == nil {
		a["entities"] = []any{e.chat.MentionOf(mention)}
	}
	if data, ok := a["channelData"].(map[string]any); ok && data["tenant"] == nil { // other channels have sent other values
		data["tenant"] = map[string]any{"id": "tenant-1"}
	}
	if verb := decisionOf(ev); verb != "" {
		return r.click(e, a, verb)
	}
	if pressed, card := r.press(e); card != "" {
		return pressed, card
	}
	return a, ""
}

// mention is how a text mentions the bot: by the name that it has, or that it has in recordings.
func (r *run) mention(text string) string {
	if own := "<at>" + r.cfg.Name + "</at>"; r.cfg.Name != "" && strings.Contains(text, own) {
		return own
	}
	return botMention.FindString(text)
}

// decisionOf reads a value that only says whether something is approved, or sent to who may approve it: the verb of that
// button. "": it says something else.
func decisionOf(e *record.Event) (verb string) {
	value, _ := e.Value.(map[string]any)
	switch approve, ok := value["approve"].(bool); {
	case e.Type != "invoke" && e.Type != "message":
		return ""
	case value["send"] == true:
		return "planbot/send"
	case approve:
		return "planbot/approve"
	case ok:
		return "planbot/reject"
	}
	return ""
}

// click turns the event into a click on a button of the newest card that asks for an approval,
// preferably an undecided one. Without such a card it is a click on a card that the bot does not
// know.
func (r *run) click(e *delivery, a map[string]any, verb string) (click map[string]any, id string) {
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

// press turns the event into a click on a button of the bot's own cards: an invoke whose value has a
// verb and no action, or a message that only has a value. The rest of the value names data of the
// button and inputs of its card. It clicks on the newest card with such a button. id is "" if the
// event is no such click: then it is delivered as it is.
func (r *run) press(e *delivery) (click map[string]any, id string) {
	value, _ := e.Event.Value.(map[string]any)
	verb, _ := value["verb"].(string)
	kind := "Action.Submit"
	switch {
	case value == nil || strings.HasPrefix(verb, turn.OwnVerbs):
		return nil, ""
	case e.Event.Type == "invoke" && e.Event.Name == "adaptiveCard/action" && verb != "" && value["action"] == nil:
		kind = "Action.Execute"
		value = maps.Clone(value)
		delete(value, "verb")
	case e.Event.Type != "message" || e.Event.Text != nil && *e.Event.Text != "":
		return nil, ""
	}
	var seen []string
	for _, card := range slices.Backward(r.cards(e.chat)) {
		inputs := inputsOf(card.Card())
		var fits []map[string]any
		for _, b := range card.Buttons() {
			its, _ := b["verb"].(string)
			if b["type"] != kind || strings.HasPrefix(its, turn.OwnVerbs) {
				continue
			}
			data, _ := b["data"].(map[string]any)
			seen = append(seen, strings.TrimSpace(its+" "+plainjson.Text(data)))
			if (verb == its || kind == "Action.Submit") && fitsButton(value, data, inputs) && !slices.ContainsFunc(fits, func(other map[string]any) bool {
				return sameJSON(plainjson.Text(other["data"]), plainjson.Text(b["data"]))
			}) {
				fits = append(fits, b)
			}
		}
		if len(fits) > 1 {
			r.Errorf("%sevent.value: %d buttons of the card fit: %s; name more of their data", e.place, len(fits), inLines(seen))
		}
		if len(fits) > 0 {
			click, err := card.Click(fits[0], pairs(value)...)
			if err != nil {
				r.Errorf("%sevent.value: %v", e.place, err)
			}
			click["id"] = e.Event.ID
			return click, card.ID
		}
	}
	if len(seen) > 0 || kind == "Action.Execute" {
		r.Errorf("%sevent.value: no card has such a button and such inputs; there are the buttons %s", e.place, inLines(seen))
	}
	return nil, ""
}

// cards are the messages of the bot in the conversation, with the cards that they show now.
func (r *run) cards(chat *Chat) (all []Sent) {
	updates := map[string]Sent{}
	for _, sent := range r.kit.Connector.Sent() {
		if sent.Method == http.MethodPut && sent.Reaction == "" && sent.To == chat.of.id && sent.Status < http.StatusBadRequest {
			updates[sent.ID] = sent
		}
	}
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range chat.Messages() {
		if update, ok := updates[m.ID]; ok {
			m.Activity = update.Activity
		}
		if card := r.replaced[m.ID]; card != "" {
			now := *m.Activity
			now.Attachments = []activity.Attachment{{ContentType: activity.CardContentType, Content: jsontext.Value(card)}}
			m.Activity = &now
		}
		all = append(all, m)
	}
	return all
}

// fitsButton reports whether each of the values is the button's, or of an input of its card.
func fitsButton(values, data map[string]any, inputs []string) bool {
	for name, value := range values {
		has, there := data[name]
		if there && !sameJSON(plainjson.Text(has), plainjson.Text(value)) || !there && !slices.Contains(inputs, name) {
			return false
		}
	}
	return true
}

func inputsOf(card string) (ids []string) {
	var tree any
	_ = json.Unmarshal([]byte(card), &tree) // otherwise it has none
	walk(tree, func(name string, value any) {
		part, _ := value.(map[string]any)
		kind, _ := part["type"].(string)
		if id, ok := part["id"].(string); ok && strings.HasPrefix(kind, "Input.") {
			ids = append(ids, id)
		}
	})
	return ids
}

// walk calls f for each part of a card that people see, with the name of its field.
func walk(part any, f func(name string, value any)) {
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			f("", p)
			walk(p, f)
		}
	case map[string]any:
		for _, name := range sortedKeys(part) {
			if !slices.Contains(notSeen, name) {
				f(name, part[name])
				walk(part[name], f)
			}
		}
	}
}

func pairs(values map[string]any) (list []any) {
	for _, name := range sortedKeys(values) {
		list = append(list, name, values[name])
	}
	return list
}

// cardIn is the card in the answer to a click, "" if there is none.
func cardIn(d *Delivery) string {
	var answer struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(d.Body, &answer) != nil || answer.Type != activity.CardContentType {
		return ""
	}
	return string(answer.Value)
}

// asking returns the card to click on and its button with that verb; nil: there is none. It
// prefers, in this order: an undecided card, one that matches everything the click says, one that
// the clicking person asked for, and the newest.
func (r *run) asking(e *delivery, verb string) (card Sent, button map[string]any) {
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
		for _, is := range []bool{!r.decided[m.ID], saidOf(e.Event, m.Card(), r.actions), asked} {
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
func saidOf(e *record.Event, card string, acts *actions.Registry) bool {
	q := questionOf(card, acts, "")
	for name, value := range beside(e) {
		raw, err := json.Marshal(value)
		if q == nil {
			return false
		}
		if err != nil || !q.same(name, string(raw)) {
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
	delete(value, "send")
	return value
}

// shown is the message in the answer to a click, "" if that only says that it takes longer.
func shown(d *Delivery) string {
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
	kept               map[string]snapshot
}

// delivery is the delivery of one activity.
type delivery struct {
	*record.Step
	place  string // "" or "parallel 2: "
	chat   *Chat
	sent   map[string]any // the activity, once it was delivered
	card   string         // that it clicks; "": none
	answer *Delivery
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
func (s *stage) owner(of turnid.Of) (found *scene) {
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
func (r *run) answer(call ModelCall) (Answer, bool) {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.owner(call.Of)
	asked := ""
	if r.answered != nil {
		asked = askedBy(call)
		if known, ok := r.answered[asked]; ok {
			return known, true
		}
	}
	switch {
	case e.answers < len(e.Model):
	case r.answered != nil:
		return Answer{Text: unsure}, true
	default:
		return Answer{}, false
	}
	e.answers++
	given := e.asked(e.answers-1, e.answers == len(e.Model))
	if r.answered != nil {
		r.answered[asked] = given
	}
	return given, true
}

// asked returns the answer in the stand-in's form. If the last answer is a hang, with none left for
// a retry, the model hangs until the caller gives up.
func (e *scene) asked(i int, last bool) Answer {
	const forever = 24 * time.Hour
	a, delay := e.Model[i], time.Duration(e.Event.DelayModelMS)*time.Millisecond
	out := Answer{Model: a.Deployment, Code: a.Code, Takes: max(delay, latency)}
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
func (r *run) sending(sent Sent) Answer {
	if sent.Activity.Type == activity.Typing || sent.Method == http.MethodPut || sent.Reaction != "" {
		return Answer{}
	}
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.owner(ofSent(sent))
	if e.Expect.Connector == nil {
		e = s.whole
	}
	if e.sendings == len(e.Expect.Connector) {
		return Answer{}
	}
	e.sendings++
	how := e.Expect.Connector[e.sendings-1]
	return Answer{Status: how.HTTP, RetryAfter: seconds(how.RetryAfter)}
}

// seconds converts a time of a scenario; 0 if it has none.
func seconds(n *float64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n * float64(time.Second))
}

var botMention = regexp.MustCompile(`<at>[^<>]*Bot</at>`)

func (r *run) prepare(step *record.Step) *stage {
	s := &stage{run: r, calls: len(r.calls()), asked: len(r.kit.Model.Calls()), sent: len(r.kit.Connector.Sent()), kept: map[string]snapshot{}}
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
		s.kept[d.Event.Conversation] = r.snapshot(d.Event.Conversation)
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
				script, dies := r.scriptOf(turnid.From(ctx), actions.AttemptOf(ctx).Key, a.Name, entities)
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
			}, actions.Title(a.Title), actions.Example(a.Examples...))
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
func (r *run) scriptOf(of turnid.Of, key, name string, entities map[string]any) (script record.Action, dies bool) {
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
	if observed, ok := a.Observed(); ok {
		return observed
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
func (r *run) calls() []Call {
	all := r.kit.Calls()
	if !r.cfg.Scripted {
		return all
	}
	var made []Call
	for _, c := range all {
		if i := slices.IndexFunc(made, func(other Call) bool { return other.Key == c.Key }); i >= 0 {
			made[i] = c
		} else {
			made = append(made, c)
		}
	}
	return made
}

// failed reports whether the call failed or did not end.
func failed(c *Call) bool { return !c.Ended || c.Result.Failed() }

// question is the call that a card asks to approve, with its values as the card shows them.
type question struct {
	title  string
	action *actions.Action   // nil: nobody knows the title
	values map[string]string // by the names of entities, of an unknown action by their titles
}

func (q *question) name() string {
	if q.action == nil {
		return q.title
	}
	return q.action.Name
}

// questionOf reads a card; nil if it does not ask for an approval. maybe is the action that it may ask
// about, if that is none of acts' own.
func questionOf(card string, acts *actions.Registry, maybe string) *question {
	var tree struct {
		Body []struct {
			Text    string `json:"text"`
			Inlines []struct {
				Text   string `json:"text"`
				Weight string `json:"weight"`
			} `json:"inlines"`
		} `json:"body"`
	}
	if json.Unmarshal([]byte(card), &tree) != nil || len(tree.Body) == 0 {
		return nil
	}
	head := tree.Body[0].Text
	if head != "May I do this?" && !(strings.HasPrefix(head, "May I ask ") && strings.HasSuffix(head, " to approve this?")) {
		return nil
	}
	q := &question{values: map[string]string{}}
	for _, row := range tree.Body {
		switch parts := row.Inlines; {
		case len(parts) == 1 && parts[0].Weight == "bolder" && q.title == "":
			q.title = parts[0].Text
		case len(parts) == 2 && strings.HasSuffix(parts[0].Text, ": "):
			name := strings.TrimSuffix(strings.TrimSuffix(parts[0].Text, ": "), " (not used)")
			q.values[name] = parts[1].Text
		}
	}
	all := acts.All()
	if a, ok := acts.Lookup(maybe); ok {
		all = append(all, a)
	}
	i := slices.IndexFunc(all, func(a *actions.Action) bool { return a.Title == q.title })
	if i < 0 {
		return q
	}
	q.action = all[i]
	shown := maps.Clone(q.values)
	for name, property := range q.action.Schema.Properties {
		if value, ok := shown[titles.Of(property, name)]; ok {
			delete(q.values, titles.Of(property, name))
			q.values[name] = value
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
		if !q.same(name, rest[:end]) {
			return false
		}
		values = rest[end:]
	}
	return true
}

// same reports whether the card shows the wanted value, a text or JSON, under the name.
func (q *question) same(name, want string) bool {
	shown, there := q.values[name]
	var property *jsonschema.Schema
	if q.action != nil {
		property = q.action.Schema.Properties[name]
	}
	view := titles.View{Say: (&actions.Turn{}).Translate, Zone: time.UTC}
	shows := func(value any) bool { return plainNumbers(view.Value(property, value)) == plainNumbers(shown) }
	if !there || want == shown || shows(want) {
		return there
	}
	dec := json.NewDecoder(strings.NewReader(want))
	dec.UseNumber()
	var value any
	return dec.Decode(&value) == nil && !dec.More() && shows(value)
}

var aNumber = regexp.MustCompile(`-?\b\d+(\.\d+)?([eE][-+]?\d{1,3})?\b`)

// plainNumbers writes every number of a text in one way: 1.50 and 15e-1 are 1.5.
func plainNumbers(text string) string {
	return aNumber.ReplaceAllStringFunc(text, func(number string) string {
		if r, ok := new(big.Rat).SetString(number); ok {
			return r.RatString()
		}
		return number
	})
}

// Eval measures how well the model in the environment's settings plans for the bot: it asks for a
// plan for each case in the file, or with "" for each example of the actions, see [eval], and runs
// nothing. It is bottest eval for a bot whose code is at hand: pass the features that its program
// passes to app.Main. It returns an error for wrong settings, a wrong file, or a model that cannot be
// asked; in the last case with a report of the results so far.
func Eval(ctx context.Context, b app.Bot, file string, features ...app.Feature) (*eval.Report, error) {
	s := app.Settings(b, features...)
	if err := s.Read(); err != nil {
		return nil, fmt.Errorf("eval: these settings have to be changed:\n%w", err)
	}
	s.Frozen = true // nothing changes during the evaluation
	maker, err := s.NewPlanner(ctx, s.Actions(), settings.Watch{})
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	cases, err := eval.Examples(maker.Actions)
	if file != "" {
		var text []byte
		if text, err = os.ReadFile(file); err == nil {
			cases, err = eval.Read(file, text, maker.Actions)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	about := maker.AboutModel + "; planner " + s.Planner
	return eval.Run(ctx, eval.Config{Cases: cases, Timeout: s.TurnTimeout, Sides: []eval.Side{{Name: b.Name, About: about, Planner: maker, Actions: maker.Actions}}})
}
