package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
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
	Wire func(ctx context.Context, of *planner.SequenceConfig, cfg *bot.Config) error
	// Cassette is a file with what the model is to be asked, see [bottest.ComparePrompts], and
	// Update has it written anew. "": that is not looked at.
	Cassette string
	Update   bool
}

// howToUpdate is how people ask for Update.
const howToUpdate = "bottest run --update"

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
func Run(s *Scenario, cfg Config) (result Result) {
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
	s     *Scenario
	cfg   Config
	kit   *bottest.Kit
	watch func(models.Model) models.Model // sees what models are asked
	book  book
	chats map[string]*bottest.Chat // by conversation
	stage atomic.Pointer[stage]
	ids   map[*Event]string // that were made up

	decided map[string]bool // by the id of the card
	unused  []string        // answers of the model
}

// play runs all steps and tells what happened.
func play(rec *recorder, s *Scenario, cfg Config) (story string) {
	r := &run{recorder: rec, s: s, cfg: cfg, chats: map[string]*bottest.Chat{}, ids: map[*Event]string{}, decided: map[string]bool{}}
	r.stage.Store(&stage{run: r})
	r.book.run = r
	r.watch = func(m models.Model) models.Model { return m }
	if cfg.Cassette != "" {
		r.watch = bottest.ComparePrompts(rec, cfg.Cassette, howToUpdate, cfg.Update).Model
	}
	r.kit = bottest.NewInBubble(rec, bottest.Config{New: r.newBot, Name: r.mentioned(), Models: s.Options.Models, Replicas: r.replicas()})
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
func (r *run) events() map[*Event]bool {
	all := map[*Event]bool{}
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].deliveries() {
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
	sequence := planner.SequenceConfig{Model: r.watch(parts.Model), Actions: cfg.Actions}
	sequence.Named = func(name string) (models.Model, error) {
		model, err := parts.Named(name)
		return r.watch(model), err
	}
	if o.MaxRepairs != nil {
		sequence.MaxRepairs = cmp.Or(*o.MaxRepairs, -1) // zero is the default there
	}
	if r.cfg.Wire != nil {
		if err := r.cfg.Wire(ctx, &sequence, &cfg); err != nil {
			return nil, err
		}
	}
	var err error
	if cfg.Planner, err = bottest.NewPlanner(ctx, r.cfg.Planner, sequence); err != nil {
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
func (r *run) chat(e *Event) *bottest.Chat {
	known := r.chats[e.Conversation]
	if known == nil {
		known = r.kit.Conversation(e.Conversation, cmp.Or(e.Kind, "personal"), e.person())
		r.chats[e.Conversation] = known
	}
	return known.As(e.person()).On(cmp.Or(e.Replica, 1))
}

func (e *Event) person() string { return cmp.Or(e.From, "user") }

// seed writes what the bot keeps before the first step, of each conversation.
func (r *run) seed() {
	seeded := map[string]bool{}
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].deliveries() {
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
func (r *run) holder(e *Event, conversation, user *state.Scope) *state.Scope {
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

func seedHistory(h *prompts.History, turns int, e *Event) {
	name := ""
	if e.Kind != "" && e.Kind != "personal" {
		name = e.person()
	}
	for i := range turns {
		h.Append(prompts.Turn{From: "29:" + e.person(), Name: name, Messages: []prompts.Message{
			{Role: prompts.User, Text: fmt.Sprintf("question %d", i+1)}, {Role: prompts.Assistant, Text: fmt.Sprintf("answer %d", i+1)},
		}}, prompts.Limits{Turns: turns})
	}
}

// kept are the lists of the conversation.
func (r *run) kept(conversation string) map[string][]string {
	found := map[string][]string{}
	var of *Event
	for i := range r.s.Steps { // whoever spoke there first has the lists of a personal chat
		for _, d := range r.s.Steps[i].deliveries() {
			if of == nil && d.Event.Conversation == conversation {
				of = d.Event
			}
		}
	}
	if of == nil {
		return found
	}
	var all lists.Lists
	chat := r.chats[conversation].As(of.person())
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
