// Package eval measures how well a model plans. It gives a planner utterances with known right
// plans, and counts what it gets right, what it does that nobody asked for, and what that costs. It
// runs no plan, so it needs actions but no bot. You can evaluate a prompt, a planner or a model,
// alone or against another, before it ships.
//
// [Read] reads the utterances from YAML:
//
//	cases:
//	  - name: add milk                      # unique
//	    lang: en
//	    say: Add milk to the groceries.
//	    want:                               # the actions, in this order
//	      - addItem: {list: [groceries, grocery], item: milk}
//	  - name: small talk
//	    lang: en
//	    say: You are a great help.
//	    want: say                           # no action
//	  - name: and eggs
//	    lang: en
//	    history:                            # earlier turns, oldest first
//	      - say: Add milk to the groceries.
//	        did: [{addItem: {list: groceries, item: milk}}]
//	        reply: Added milk.
//	    lists: {groceries: [milk]}          # the existing lists
//	    say: And eggs!
//	    want:
//	      - addItem: {list: groceries, item: eggs}
//	    or:                                 # other plans that are equally right
//	      - - findItem: {item: eggs}
//	        - addItem: {list: groceries, item: eggs}
//	    unwanted: [createList, deleteList]  # none: every action that is not wanted
//
// Entities are compared as values: texts ignoring case and surrounding white space, numbers as
// numbers. A * in a text matches anything. A list, if the action does not take one, matches any of
// its values. An entity that is not wanted must be absent, empty or its default. If the action
// takes a time, you can write RFC 3339, "today 18:30" and "tomorrow 09:00" in UTC, and "in 10m",
// give or take two minutes.
package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sync/errgroup"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/internal/yamltext"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// testCase is an utterance and the plan expected for it.
type testCase struct {
	Name, Lang string
	History    []prompts.Turn // earlier turns, oldest first
	Lists      []lists.List   // the existing lists
	Say        string
	// Want are the right plans, each as its DOs. A plan without DOs only says something.
	Want [][]plan.Command
	// Unwanted are the actions that do harm here. None: every action that is not wanted.
	Unwanted []string
}

// turn is what the planner gets: a message in a personal chat.
func (c *testCase) turn() *actions.Turn {
	conversation := state.NewScope()
	turn := &actions.Turn{
		ID: "eval", Text: c.Say, Conversation: conversation, Thread: conversation, User: state.NewScope(), Temp: state.NewScope(),
		Activity: &activity.Activity{Type: activity.Message, ChannelID: "eval", Text: c.Say, Locale: c.Lang},
	}
	if len(c.Lists) > 0 {
		lists.Of(turn).All = c.Lists
	}
	history := state.Of[prompts.History](conversation)
	for _, t := range c.History {
		history.Append(t, 0)
	}
	return turn
}

// exampleSlot matches a slot in an example of an action.
var exampleSlot = regexp.MustCompile(`\{([^{}]*?)(?:\.\.\.)?\}`)

// Examples makes a case of each example of the actions, see [actions.Example], with made-up values
// in its slots. It leaves out an example that lacks a required entity. The error says that there is
// no case.
func Examples(registry *actions.Registry) (cases []testCase, err error) {
	for _, action := range registry.All() {
		for _, phrase := range action.Examples {
			entities := map[string]any{}
			c := testCase{Lang: "en", Want: [][]plan.Command{{{Kind: plan.Do, Action: action.Name, Entities: entities}}}}
			c.Say = exampleSlot.ReplaceAllStringFunc(phrase, func(slot string) string {
				name := exampleSlot.FindStringSubmatch(slot)[1]
				said, value := madeUp(action.Schema.Properties[name], len(entities))
				entities[name] = value
				return said
			})
			c.Name = c.Say
			same := func(other testCase) bool { return other.Name == c.Name }
			if action.CheckBefore(entities, nil) == nil && !slices.ContainsFunc(cases, same) {
				cases = append(cases, c)
			}
		}
	}
	if cases == nil {
		return nil, errors.New("no action has an example that can be asked for: name a file of cases")
	}
	return cases, nil
}

// madeUp makes up the n-th value of an example, and what a person says for it.
func madeUp(property *jsonschema.Schema, n int) (said string, value any) {
	switch {
	case property == nil:
	case wantsList(property):
		said, value = madeUp(property.Items, n)
		return said, []any{value}
	case len(property.Enum) > 0:
		value = property.Enum[0]
		return cmp.Or(titles.Label(property, value), fmt.Sprint(value)), value
	case property.Type == "integer" || property.Type == "number":
		return "3", json.Number("3")
	case property.Type == "boolean":
		return "true", true
	case property.Format == "date-time":
		return "2035-01-31T09:00:00Z", "2035-01-31T09:00:00Z"
	}
	words := []string{"Alpha", "Bravo", "Charlie", "Delta", "Echo"}
	said = words[n%len(words)]
	return said, said
}

// Read reads the cases of a file, in order. Every registry must have the actions and entities that
// a case names. The error lists the faults of all cases, one per line, with the file and case.
func Read(file string, text []byte, registries ...*actions.Registry) ([]testCase, error) {
	raw, err := yamltext.JSON(text)
	if fault, ok := errors.AsType[*yamltext.Error](err); ok {
		return nil, fmt.Errorf("%s:%d: no YAML: %w", file, fault.Line, fault.Err)
	}
	var all struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := decode(raw, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(all.Cases) == 0 {
		return nil, fmt.Errorf("%s: there are no cases", file)
	}
	var cases []testCase
	var faults []error
	for i, raw := range all.Cases {
		c, wrong := readCase(raw, registries)
		name := fmt.Sprint(i + 1)
		if c.Name != "" {
			name = fmt.Sprintf("%q", c.Name)
			if slices.ContainsFunc(cases, func(other testCase) bool { return other.Name == c.Name }) {
				wrong = append(wrong, errors.New("another case has the same name"))
			}
		}
		for _, err := range wrong {
			faults = append(faults, fmt.Errorf("%s: case %s: %w", file, name, err))
		}
		cases = append(cases, c)
	}
	return cases, errors.Join(faults...)
}

// decode reads JSON without unknown fields, and describes errors in YAML terms.
func decode(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	err := dec.Decode(into)
	if fault, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kinds := map[string]string{"array": "a list", "object": "a mapping", "string": "a text", "bool": "true or false"}
		return errors.New(strings.TrimPrefix(fault.Field+": cannot be ", ": ") + cmp.Or(kinds[fault.Value], "a number"))
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// call is a DO as the file has it: an action name, or a mapping from it to its entities.
type call plan.Command

// UnmarshalJSON reads either form.
func (c *call) UnmarshalJSON(raw []byte) error {
	c.Kind, c.Entities = plan.Do, map[string]any{}
	if json.Unmarshal(raw, &c.Action) == nil {
		return nil
	}
	var one map[string]map[string]any
	if decode(raw, &one) != nil || len(one) != 1 {
		return fmt.Errorf("want an action, or one action with its entities, have %s", raw)
	}
	for name, entities := range one {
		c.Action = name
		maps.Copy(c.Entities, entities)
	}
	return nil
}

// wish is a plan as the file has it: a list of calls, or the word say.
type wish []call

// UnmarshalJSON reads either form.
func (w *wish) UnmarshalJSON(raw []byte) error {
	*w = wish{}
	if string(raw) == `"say"` {
		return nil
	}
	var calls []call
	if raw[0] != '[' {
		return fmt.Errorf("want a list of actions or the word say, have %s", raw)
	}
	if err := json.Unmarshal(raw, &calls); err != nil {
		return err
	}
	if len(calls) == 0 {
		return errors.New("a list of no actions; where there is nothing to do, want the word say")
	}
	*w = calls
	return nil
}

func readCase(raw []byte, registries []*actions.Registry) (c testCase, wrong []error) {
	var in struct {
		Name    string `json:"name"`
		Lang    string `json:"lang"`
		Say     string `json:"say"`
		History []struct {
			Say   string `json:"say"`
			Did   wish   `json:"did"`
			Reply string `json:"reply"`
		} `json:"history"`
		Lists    map[string][]string `json:"lists"`
		Want     wish                `json:"want"`
		Or       []wish              `json:"or"`
		Unwanted []string            `json:"unwanted"`
	}
	err := decode(raw, &in)
	c = testCase{Name: in.Name, Lang: in.Lang, Say: in.Say, Unwanted: in.Unwanted}
	if err != nil {
		return c, []error{err}
	}
	fail := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	for _, field := range []struct {
		name    string
		missing bool
	}{{"name", strings.TrimSpace(c.Name) == ""}, {"lang", c.Lang == ""}, {"say", strings.TrimSpace(c.Say) == ""}, {"want", in.Want == nil}} {
		if field.missing {
			fail(fmt.Errorf("%s is missing", field.name))
		}
	}
	for _, e := range in.History {
		if e.Say == "" {
			fail(errors.New("history: say is missing"))
		}
		var did []plan.Command
		for _, call := range e.Did {
			fail(known(plan.Command(call), registries))
			did = append(did, plan.Command(call))
		}
		c.History = append(c.History, exchange(e.Say, did, e.Reply))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Lists)) {
		list := lists.List{Name: name}
		for _, item := range in.Lists[name] {
			list.Items = append(list.Items, lists.Item{Name: item})
		}
		c.Lists = append(c.Lists, list)
	}
	for _, wish := range append([]wish{in.Want}, in.Or...) {
		var want []plan.Command
		for _, call := range wish {
			fail(known(plan.Command(call), registries))
			want = append(want, plan.Command(call))
			if slices.Contains(c.Unwanted, call.Action) {
				fail(fmt.Errorf("unwanted: %s is wanted, too", call.Action))
			}
		}
		c.Want = append(c.Want, want)
	}
	for _, name := range c.Unwanted {
		fail(known(plan.Command{Action: name}, registries))
	}
	return c, wrong
}

// exchange is an earlier turn, as a bot stores it.
func exchange(said string, did []plan.Command, reply string) prompts.Turn {
	if reply != "" {
		did = append(did, plan.Command{Kind: plan.Say, Response: reply})
	}
	messages := []prompts.Message{{Role: "user", Text: said}}
	if len(did) > 0 {
		messages = append(messages, prompts.Message{Role: "assistant", Text: plan.Plan{Commands: did}.Transcript(prompts.MaxMessage)})
	}
	return prompts.Turn{Messages: messages}
}

// known says why not all registries know the action or an entity of the call.
func known(c plan.Command, registries []*actions.Registry) error {
	for _, registry := range registries {
		action, ok := registry.Lookup(c.Action)
		if !ok {
			var names []string
			for _, a := range registry.All() {
				names = append(names, a.Name)
			}
			return fmt.Errorf("there is no action %q, have %s", c.Action, strings.Join(names, ", "))
		}
		if action.Name != c.Action {
			return fmt.Errorf("there is no action %q, but %s", c.Action, action.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
			if !takes(action.Schema, name) {
				return fmt.Errorf("%s has no entity %q", c.Action, name)
			}
		}
	}
	return nil
}

// takes reports whether the action may use an entity of that name.
func takes(schema *jsonschema.Schema, entity string) bool {
	more := schema.AdditionalProperties
	return schema.Properties[entity] != nil || len(schema.PatternProperties) > 0 || more != nil && more.Not == nil
}

// judge rates a plan against the closest of the wanted plans and stores the rating in r. asked is
// when the model was asked, for wanted times.
func (c *testCase) judge(p plan.Plan, registry *actions.Registry, asked time.Time, r *result) {
	came := slices.DeleteFunc(slices.Clone(p.Commands), func(c plan.Command) bool { return c.Kind != plan.Do })
	best := -1
	for _, want := range c.Want {
		rank, found, same := 0, 0, true
		for _, call := range came { // in order
			if found == len(want) || call.Action != want[found].Action {
				continue
			}
			action, ok := registry.Lookup(call.Action)
			same = same && ok && comparison{asked}.call(action, want[found].Entities, call.Entities)
			found++
		}
		unwanted := c.unwanted(came, want)
		if found == len(want) && len(unwanted) == 0 {
			rank = 1
			if same {
				rank = 2
			}
		}
		if rank > best || rank == best && len(unwanted) < len(r.Unwanted) {
			best, r.Action, r.Entities, r.Unwanted = rank, rank > 0, rank == 2, unwanted
		}
	}
}

// unwanted are the calls beyond what is wanted that do harm: calls of a wanted action made too
// often, of one listed as unwanted, or of any action if none is listed.
func (c *testCase) unwanted(came, want []plan.Command) (unwanted []string) {
	left := map[string]int{}
	for _, call := range want {
		left[call.Action]++
	}
	for _, call := range came {
		n, wanted := left[call.Action]
		switch {
		case n > 0:
			left[call.Action]--
		case wanted, len(c.Unwanted) == 0, slices.Contains(c.Unwanted, call.Action):
			unwanted = append(unwanted, call.Action)
		}
	}
	return unwanted
}

const leeway = 2 * time.Minute // how far off a time relative to now may be

// comparison compares a plan with what is wanted.
type comparison struct {
	asked time.Time // when the model was asked
}

// call reports whether the action was called with the wanted entities.
func (c comparison) call(action *actions.Action, want, got map[string]any) bool {
	if checked, err := action.Check(got); err == nil { // as the action would get them
		got = checked
	}
	return c.object(want, got, action.Schema)
}

func (c comparison) object(want, got map[string]any, schema *jsonschema.Schema) bool {
	for name, value := range want {
		if !c.value(value, got[name], propertyOf(schema, name)) {
			return false
		}
	}
	for name, value := range got {
		if _, wanted := want[name]; !wanted && !isEmpty(value) && !isDefault(value, propertyOf(schema, name)) {
			return false
		}
	}
	return true
}

// value compares a value. A list lists alternatives, unless the schema asks for a list.
func (c comparison) value(want, got any, schema *jsonschema.Schema) bool {
	switch want := want.(type) {
	case []any:
		if !wantsList(schema) && len(want) > 0 {
			return slices.ContainsFunc(want, func(w any) bool { return c.value(w, got, schema) })
		}
		all, ok := got.([]any)
		if !ok || len(all) != len(want) {
			return len(want) == 0 && isEmpty(got)
		}
		for i := range want {
			if !c.value(want[i], all[i], schema.Items) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := got.(map[string]any)
		return ok && c.object(want, object, schema)
	case nil:
		return isEmpty(got)
	case string:
		if schema != nil && schema.Format == "date-time" {
			return c.time(want, got)
		}
	}
	return sameScalar(want, got)
}

// sameScalar compares numbers as numbers, and everything else as text.
func sameScalar(want, got any) bool {
	switch got.(type) {
	case string, json.Number, bool:
	default:
		return false // missing, or a list or an object
	}
	_, wantText := want.(string)
	_, gotText := got.(string)
	a, errA := strconv.ParseFloat(fmt.Sprint(want), 64)
	b, errB := strconv.ParseFloat(fmt.Sprint(got), 64)
	if !(wantText && gotText) && errA == nil && errB == nil {
		return a == b
	}
	return matches(fmt.Sprint(want), fmt.Sprint(got))
}

// matches compares texts; a * in the wanted text matches any text.
func matches(want, text string) bool {
	parts := strings.Split(strings.TrimSpace(want), "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?is)^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimSpace(text))
}

// time compares times. What is not a time is compared as text.
func (c comparison) time(want string, got any) bool {
	at, slack, isTime := moment(want, c.asked)
	if !isTime {
		return sameScalar(want, got)
	}
	came, err := time.Parse(time.RFC3339, fmt.Sprint(got))
	return err == nil && came.Sub(at).Abs() <= slack
}

// moment reads a wanted time.
func moment(text string, asked time.Time) (at time.Time, slack time.Duration, ok bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, 0, true
	}
	day, rest, _ := strings.Cut(text, " ")
	if day == "in" {
		d, err := time.ParseDuration(rest)
		return asked.Add(d), leeway, err == nil
	}
	days := slices.Index([]string{"today", "tomorrow"}, day)
	clock, err := time.Parse("15:04", rest)
	if days < 0 || err != nil {
		return at, 0, false
	}
	y, m, d := asked.UTC().Date()
	return time.Date(y, m, d+days, clock.Hour(), clock.Minute(), 0, 0, time.UTC), 0, true
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(value) == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

func isDefault(value any, schema *jsonschema.Schema) bool {
	if schema == nil || len(schema.Default) == 0 {
		return false
	}
	var otherwise any
	return decode(schema.Default, &otherwise) == nil && sameScalar(otherwise, value)
}

func propertyOf(schema *jsonschema.Schema, name string) *jsonschema.Schema {
	if schema == nil {
		return nil
	}
	return schema.Properties[name]
}

func wantsList(schema *jsonschema.Schema) bool {
	return schema != nil && (schema.Type == "array" || slices.Contains(schema.Types, "array"))
}

// read stores the outcome: a plan, a plan that cannot run, or no answer.
func (r *result) read(p plan.Plan, err error) {
	fault, isPlan := errors.AsType[*plan.Fault](err)
	switch {
	case err == nil:
		r.Valid, r.Refused = true, p.Refused
		r.Plan = show(p)
	case isPlan:
		r.Fault, r.Refused = err.Error(), append(slices.Clone(fault.Before), fault.Kind)
	default:
		r.NoAnswer, r.Fault = true, textOfFault(err)
	}
}

// Side is a planner to evaluate, with the actions that it may plan.
type Side struct {
	Name    string // such as "a"
	About   string // what it consists of, for people
	Planner interface {
		Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
	}
	Actions *actions.Registry
}

const maxSearches = 3 // how often a model may look for actions before its plan is judged, as in a chat

// plan asks for a plan. One that does nothing but look for actions of services is not judged: the model
// plans again with what that finds.
func (s *Side) plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	for {
		p, err := s.Planner.Plan(ctx, turn)
		if err != nil || len(turn.Rounds) == maxSearches {
			return p, err
		}
		round := actions.Round{Preface: p.Preface}
		for _, c := range p.Commands {
			if c.Kind != plan.Do {
				continue
			}
			a, ok := s.Actions.Lookup(c.Action)
			if !ok || a.Name != connections.FindActions {
				return p, nil
			}
			entities, err := a.Check(c.Entities)
			if err != nil {
				return p, nil // is judged as it is
			}
			result, err := a.Call(ctx, turn, entities)
			if err != nil {
				return plan.Plan{}, fmt.Errorf("look for actions: %w", err)
			}
			round.Outcomes = append(round.Outcomes, actions.Outcome{Action: c.Action, Entities: c.Entities, CallID: c.CallID, Text: result.Text(), Failed: result.Failed()})
		}
		if len(round.Outcomes) == 0 {
			return p, nil
		}
		turn.Rounds = append(turn.Rounds, round)
	}
}

// Config configures a run. Cases and Sides are required; the zero value of every other field is a
// working default.
type Config struct {
	Cases []testCase
	// Sides are asked in turn, case by case, so the results of a stopped run can be compared. The
	// first one is the baseline.
	Sides []Side
	// Times is how many times each case is asked. 0: once.
	Times int
	// Concurrency is how many cases are asked at once. 0: one. With more, latencies are those of a
	// model under load.
	Concurrency int
	// Timeout limits one plan, including all its model calls. 0: two minutes.
	Timeout time.Duration
	// Limit limits the cost of all sides together, counting finished and running plans. Once it is
	// used up, no model is asked again. Running calls, at most Concurrency, still finish.
	Limit actions.Budget
	// Progress is called with the number of finished plans, at first 0, and the total. Several
	// goroutines may call it, one at a time. nil: not called.
	Progress func(done, all int)
}

// The reasons to stop, see [Report].Stop.
const (
	limited     = "limit"
	interrupted = "interrupted"
	refused     = "refused"
	silent      = "silent"
)

const (
	maxPlans = 1_000_000 // bounds the plans of a run
	// patience is how many plans in a row may go unanswered before a side is given up. Each may
	// have used all retries of the model.
	patience = 5
)

// Run asks for all plans and judges them. If it is stopped, it returns the results so far. An error
// about the Config comes without a report. If the model's server refuses every call or stops
// answering, the error comes with the report up to then.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if len(cfg.Cases) == 0 || len(cfg.Sides) == 0 {
		return nil, errors.New("eval config: no Cases or no Sides")
	}
	cfg.Times, cfg.Concurrency = max(1, cfg.Times), max(1, cfg.Concurrency)
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Minute)
	if cfg.Times > maxPlans/len(cfg.Cases)/len(cfg.Sides) {
		return nil, fmt.Errorf("eval config: %d cases %d times are more than %d plans", len(cfg.Cases), cfg.Times, maxPlans)
	}
	r := &run{cfg: cfg, results: make([]*result, len(cfg.Cases)*cfg.Times*len(cfg.Sides)), unanswered: make([]int, len(cfg.Sides))}
	r.progress()
	workers, running := errgroup.WithContext(ctx)
	workers.SetLimit(cfg.Concurrency)
	for first := 0; first < len(r.results); first += len(cfg.Sides) {
		workers.Go(func() error { return r.askSides(running, first) })
	}
	err := workers.Wait()
	return newReport(r), err
}

func newReport(r *run) *Report {
	report := &Report{Asked: r.done, Of: len(r.results), Stop: r.stop, Spent: usage(r.spent), cases: r.cfg.Cases}
	for i, of := range r.cfg.Sides {
		side := sideReport{Name: of.Name, About: of.About, Results: []result{}}
		for at := i; at < len(r.results); at += len(r.cfg.Sides) {
			if r.results[at] != nil {
				side.Results = append(side.Results, *r.results[at])
			}
		}
		side.count()
		report.Sides = append(report.Sides, side)
	}
	return report
}

// run is a run in progress.
type run struct {
	cfg Config

	mu         sync.Mutex
	results    []*result // by case, time and side; nil: not asked
	done       int
	spent      actions.Usage
	stop       string // why no more plans may be asked for; the first reason counts
	unanswered []int  // plans in a row, by side
}

// askSides asks all sides for a plan of a case. Its error cancels the other calls.
func (r *run) askSides(ctx context.Context, first int) error {
	each := first / len(r.cfg.Sides)
	for i := range r.cfg.Sides {
		if r.over(ctx) {
			return nil
		}
		if err := r.ask(ctx, &r.cfg.Cases[each/r.cfg.Times], first, i); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether no more plans may be asked for.
func (r *run) over(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stop != "":
	case ctx.Err() != nil:
		r.stop = interrupted
	case r.afford() != nil:
		r.stop = limited
	}
	return r.stop != ""
}

// afford returns an error if the limit is used up. The caller holds mu.
func (r *run) afford() error {
	whole := actions.Turn{Usage: r.spent, Budget: r.cfg.Limit}
	return whole.Afford()
}

// ask asks one side for one plan. A plan that was stopped half-way has no result. The error ends
// the run.
func (r *run) ask(ctx context.Context, c *testCase, first, side int) error {
	timed, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	turn := c.turn()
	meter := r.meter()
	turn.Quota = meter
	began := time.Now()
	p, err := r.cfg.Sides[side].plan(timed, turn)
	came := &result{Case: c.Name, Lang: c.Lang, Took: rounded(time.Since(began).Seconds()), Usage: usage(turn.Usage)}
	_ = meter(turn.Usage) // counts the last call; the next plan checks the limit
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop := reason(ctx, err); stop != "" {
		if r.stop = cmp.Or(r.stop, stop); r.stop == refused {
			return fmt.Errorf("the model's server takes no calls: %w", err)
		}
		return nil
	}
	came.read(p, err)
	if came.Valid {
		c.judge(p, r.cfg.Sides[side].Actions, began, came)
	}
	r.results[first+side] = came
	r.done++
	r.progress()
	r.unanswered[side]++
	if !came.NoAnswer {
		r.unanswered[side] = 0
	}
	if r.unanswered[side] == patience && r.stop == "" {
		r.stop = silent
		return fmt.Errorf("the model gave no answer to %d plans in a row: %s", patience, came.Fault)
	}
	return nil
}

// reason says whether the failure of one plan ends the run.
func reason(ctx context.Context, err error) string {
	fault, _ := errors.AsType[*models.Error](err)
	budget, _ := errors.AsType[*actions.BudgetError](err)
	switch {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return interrupted
	case budget != nil:
		return limited
	case fault != nil && (fault.Kind == models.Auth || fault.Kind == models.Quota):
		return refused
	}
	return ""
}

// meter adds up what one plan has used since the last call, and returns an error if the limit
// leaves it nothing.
func (r *run) meter() func(used actions.Usage) error {
	var counted actions.Usage
	return func(used actions.Usage) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spent.ModelCalls += used.ModelCalls - counted.ModelCalls
		r.spent.PromptTokens += used.PromptTokens - counted.PromptTokens
		r.spent.CompletionTokens += used.CompletionTokens - counted.CompletionTokens
		r.spent.Cost += used.Cost - counted.Cost
		counted = used
		return r.afford()
	}
}

func (r *run) progress() {
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.done, len(r.results))
	}
}

// textOfFault is the error including what the server said, which people evaluating a model want to
// see.
func textOfFault(err error) string {
	text := err.Error()
	if fault, ok := errors.AsType[*models.Error](err); ok && fault.Said != "" {
		text += ": " + fault.Said
	}
	return text
}
