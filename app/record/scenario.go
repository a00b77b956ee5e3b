package record

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	strict "github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/yamltext"
)

// Scenario is one or more concurrent conversations with one bot. scenario.schema.json documents the
// fields. A nil field is not set.
type Scenario struct {
	File string `json:"-"`
	// Faults are its mistakes, each with file, scenario, step and field. A scenario with faults
	// cannot be played.
	Faults []string `json:"-"`

	Name    string  `json:"name"`
	Why     string  `json:"why,omitzero"`
	Bot     string  `json:"bot,omitzero"`
	Seed    seed    `json:"seed,omitzero"`
	Options options `json:"options,omitzero"`
	Steps   []Step  `json:"steps"`
}

type seed struct {
	Lists        map[string][]string `json:"lists,omitzero"`
	Ordered      []lists.List        `json:"ordered,omitzero"`
	HistoryTurns int                 `json:"history_turns,omitzero"`
	Conversation map[string]any      `json:"conversation,omitzero"`
	User         map[string]any      `json:"user,omitzero"`
	Bot          map[string]any      `json:"bot,omitzero"`
}

type options struct {
	MaxSteps     int      `json:"max_steps,omitzero"`
	MaxRepairs   *int     `json:"max_repairs,omitzero"`
	MaxSameCalls int      `json:"max_same_calls,omitzero"`
	Approval     []string `json:"approval,omitzero"`
	Models       []string `json:"models,omitzero"`
}

// Step is one delivery, several at the same time, or a control action on the bot.
type Step struct {
	Event    *Event   `json:"event,omitzero"`
	Model    []answer `json:"model,omitzero"`
	Expect   Expect   `json:"expect,omitzero"`
	Parallel []Step   `json:"parallel,omitzero"`
	Control  string   `json:"control,omitzero"`
}

// Deliveries are those of the step: one, several or none.
func (s *Step) Deliveries() (all []*Step) {
	if s.Event != nil {
		return []*Step{s}
	}
	for i := range s.Parallel {
		all = append(all, &s.Parallel[i])
	}
	return all
}

// Event is the part of an activity that a scenario sets, and how it is delivered. The rest is as
// Teams would send it.
type Event struct {
	Type         string           `json:"type"`
	Conversation string           `json:"conversation"`
	Kind         string           `json:"conversationType,omitzero"`
	From         string           `json:"from,omitzero"`
	ID           string           `json:"id,omitzero"`
	Text         *string          `json:"text,omitzero"`
	Name         string           `json:"name,omitzero"`
	Value        any              `json:"value,omitzero"`
	Entities     []map[string]any `json:"entities,omitzero"`
	ChannelData  any              `json:"channelData,omitzero"`
	MembersAdded []map[string]any `json:"membersAdded,omitzero"`
	Locale       string           `json:"locale,omitzero"`
	Attachments  []map[string]any `json:"attachments,omitzero"`

	AtMS         int    `json:"at_ms,omitzero"`
	DelayModelMS int    `json:"delay_model_ms,omitzero"`
	Replica      int    `json:"replica,omitzero"`
	Redelivery   bool   `json:"redelivery,omitzero"`
	Redis        string `json:"redis,omitzero"`
}

// answer is what the model does: a text, or a failure as an object.
type answer struct {
	Text       *string  `json:"-"`
	HTTP       int      `json:"http,omitzero"`
	RetryAfter *float64 `json:"retry_after,omitzero"`
	Code       string   `json:"code,omitzero"`
	HangMS     int      `json:"hang_ms,omitzero"`
	Deployment string   `json:"deployment,omitzero"`
}

func (a answer) MarshalJSON() ([]byte, error) {
	type plain answer
	if a.Text != nil {
		return json.Marshal(a.Text)
	}
	return json.Marshal(plain(a))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *answer) UnmarshalJSON(raw []byte) error {
	type plain answer
	if raw[0] == '"' {
		return json.Unmarshal(raw, &a.Text)
	}
	return json.Unmarshal(raw, (*plain)(a))
}

// Expect is what the bot must do. A nil field is not checked.
type Expect struct {
	Actions             []Action        `json:"actions,omitzero"`
	Replies             []string        `json:"replies,omitzero"`
	JoinedReplyEquals   *string         `json:"joined_reply_equals,omitzero"`
	MaxPartUTF16Bytes   *int            `json:"max_part_utf16_bytes,omitzero"`
	ReplyMustNotContain []string        `json:"reply_must_not_contain,omitzero"`
	Typing              *bool           `json:"typing,omitzero"`
	ModelCalls          *int            `json:"model_calls,omitzero"`
	PromptContains      []string        `json:"prompt_contains,omitzero"`
	PromptContainsCall2 []string        `json:"prompt_contains_call2,omitzero"`
	PromptMustNot       []string        `json:"prompt_must_not_contain,omitzero"`
	ModelInput          *string         `json:"model_input,omitzero"`
	ServedBy            *string         `json:"served_by,omitzero"`
	State               *kept           `json:"state,omitzero"`
	StateUnchanged      *bool           `json:"state_unchanged,omitzero"`
	StateByConversation map[string]kept `json:"state_by_conversation,omitzero"`
	Tickets             *int            `json:"tickets,omitzero"`
	Status              *int            `json:"status,omitzero"`
	StatusWithinMS      within          `json:"http_status_within_ms,omitzero"`
	Connector           []sending       `json:"connector,omitzero"`
	Sends               *int            `json:"sends,omitzero"`
	CrashAfterAction    *int            `json:"crash_after_action,omitzero"`
	Order               order           `json:"order,omitzero"`
	MaxConcurrentTurns  *int            `json:"max_concurrent_turns,omitzero"`
	Note                string          `json:"note,omitzero"`
}

// Action is one call. If the scenario scripts the actions, the action returns Result, Error and
// Unchanged. With Observe, "always" or "unless saved", the model sees Result before the plan goes on.
type Action struct {
	Action    string         `json:"action"`
	Entities  map[string]any `json:"entities,omitzero"`
	Result    any            `json:"result,omitzero"`
	Error     *string        `json:"error,omitzero"`
	Unchanged *string        `json:"unchanged,omitzero"`
	Observe   string         `json:"observe,omitzero"`
}

// Observed is the result that the model sees before its plan goes on. ok is false if Observe is "".
func (a *Action) Observed() (r actions.Result, ok bool) {
	return turnlog.Observed(a.Observe, cmp.Or(a.Result, any("")))
}

// Said is the text that the action returns when it does not fail.
func (a *Action) Said() string {
	switch result := a.Result.(type) {
	case nil:
		if a.Unchanged != nil {
			return *a.Unchanged
		}
		return ""
	case string:
		return result
	}
	return plainjson.Text(a.Result)
}

// kept is stored state: lists, and values of the conversation, of the person and of the whole bot by
// their names. A nil value is one that must not be there.
type kept struct {
	Lists        map[string][]string `json:"lists,omitzero"`
	Conversation map[string]any      `json:"conversation,omitzero"`
	User         map[string]any      `json:"user,omitzero"`
	Bot          map[string]any      `json:"bot,omitzero"`
}

// sending is how the connector answers a message.
type sending struct {
	HTTP       int      `json:"http"`
	RetryAfter *float64 `json:"retry_after,omitzero"`
}

// within limits the answer times in milliseconds, by activity id; "" is the limit for all. A file
// writes that one as a number.
type within map[string]int

// UnmarshalJSON reads a number or an object.
func (w *within) UnmarshalJSON(raw []byte) error {
	if raw[0] == '{' {
		return json.Unmarshal(raw, (*map[string]int)(w))
	}
	var all int
	err := json.Unmarshal(raw, &all)
	*w = within{"": all}
	return err
}

// order lists the ids of deliveries in the order of their answers, or only "either".
type order []string

const either = "either"

// Either reports whether any order is accepted.
func (o order) Either() bool { return len(o) == 1 && o[0] == either }

// UnmarshalJSON reads a word or a list.
func (o *order) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(o))
	}
	*o = order{either}
	return nil
}

//go:embed scenario.schema.json
var schemaFile []byte

var fileSchema = sync.OnceValue(func() *jsonschema.Schema {
	const name = "planbot:///scenario.schema.json" // not a file: a folder whose name has a space makes no URL
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaFile))
	c := jsonschema.NewCompiler()
	if err := cmp.Or(err, c.AddResource(name, tree)); err != nil {
		panic(err) // the file is part of the program
	}
	return c.MustCompile(name + "#/$defs/file")
})

// Read reads the scenarios of a file: one, a list, or an object with the key scenarios. It is JSON
// if its name ends in .json, else YAML, which includes JSON. The error lists all mistakes.
// Scenarios with mistakes are also returned, see [Scenario.Faults]. A mistake of the file itself
// belongs to a scenario with the file's name.
func Read(name string, data []byte) ([]Scenario, error) {
	f := &file{name: name}
	if err := f.parse(data); err != nil {
		f.fault(nil, "%v", err)
	}
	for i := range f.list {
		s := &f.list[i]
		if s.Faults == nil {
			f.check(i, s)
		}
	}
	var faults []error
	for _, s := range f.list {
		for _, fault := range s.Faults {
			faults = append(faults, errors.New(fault))
		}
	}
	return f.list, errors.Join(faults...)
}

// file is a file while it is read.
type file struct {
	name string
	list []Scenario
}

// fault records a mistake at that JSON pointer in the file.
func (f *file) fault(at []string, format string, args ...any) {
	s, where := (*Scenario)(nil), f.name
	if len(at) > 1 && at[0] == "scenarios" {
		i, _ := strconv.Atoi(at[1]) // it is a list
		s, at = &f.list[i], at[2:]
		where += fmt.Sprintf(": scenario %q", s.Name)
	} else {
		f.list = append(f.list, Scenario{File: f.name, Name: f.name})
		s = &f.list[len(f.list)-1]
	}
	for _, list := range []string{"steps", "parallel"} {
		if len(at) > 1 && at[0] == list {
			n, _ := strconv.Atoi(at[1])
			where += fmt.Sprintf(", %s %d", strings.TrimSuffix(list, "s"), n+1)
			at = at[2:]
		}
	}
	field := ""
	for _, name := range at {
		if _, err := strconv.Atoi(name); err == nil {
			field += "[" + name + "]"
		} else {
			field += "." + name
		}
	}
	if field != "" {
		where += ": " + strings.TrimPrefix(field, ".")
	}
	s.Faults = append(s.Faults, where+": "+fmt.Sprintf(format, args...))
}

// parse reads a file whose form is valid.
func (f *file) parse(data []byte) error {
	tree, err := treeOf(data, filepath.Ext(f.name))
	if err != nil {
		return err
	}
	top, isObject := tree.(map[string]any)
	nodes, isList := tree.([]any)
	if _, holds := top["scenarios"]; holds {
		nodes, _ = top["scenarios"].([]any)
	} else if isObject {
		nodes, top = []any{tree}, nil
	} else if !isList {
		return fmt.Errorf("want scenarios, not %s", plainjson.Text(tree))
	}
	if top == nil {
		top = map[string]any{"scenarios": nodes}
	}
	for i, node := range nodes {
		fields, _ := node.(map[string]any)
		name, _ := fields["name"].(string)
		f.list = append(f.list, Scenario{File: f.name, Name: cmp.Or(name, fmt.Sprintf("#%d", i+1))})
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](fileSchema().Validate(top)); ok {
		f.violations(wrong)
	}
	for i, node := range nodes {
		s := &f.list[i]
		if slices.ContainsFunc(f.list[:i], func(other Scenario) bool { return other.Name == s.Name }) {
			f.fault(scenarioAt(i, "name"), "there is another scenario of this name")
		}
		if s.Faults != nil {
			continue
		}
		d := json.NewDecoder(strings.NewReader(plainjson.Text(node)))
		d.UseNumber()
		if err := d.Decode(s); err != nil {
			f.fault(scenarioAt(i), "%v", err)
		}
	}
	return nil
}

func scenarioAt(i int, field ...string) []string {
	return append([]string{"scenarios", strconv.Itoa(i)}, field...)
}

// treeOf reads JSON or YAML into maps, lists, texts, and numbers as written.
func treeOf(data []byte, ext string) (tree any, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows write it
	if !strings.EqualFold(ext, ".json") && !json.Valid(data) {
		if data, err = yamltext.JSON(data); err != nil {
			return nil, fmt.Errorf("no YAML: %w", err)
		}
	} else if err := strict.Unmarshal(data, new(any)); err != nil { // finds duplicate names
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}

// violations records where the file violates its schema.
func (f *file) violations(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			f.fault(append(e.InstanceLocation, name), "there is no such field")
		}
	case *kind.Required:
		for _, name := range k.Missing {
			f.fault(append(e.InstanceLocation, name), "is missing")
		}
	case *kind.OneOf:
		f.fault(e.InstanceLocation, "want one of event, parallel and control")
	case *kind.AnyOf:
		f.fault(e.InstanceLocation, "says no failure: want http, code or hang_ms")
	default:
		for _, cause := range e.Causes {
			f.violations(cause)
		}
		if len(e.Causes) == 0 {
			f.fault(e.InstanceLocation, "%s", k.LocalizedString(message.NewPrinter(language.English)))
		}
	}
}

// check finds mistakes that a schema cannot express, and completes the events.
func (f *file) check(n int, s *Scenario) {
	conversations := map[string]bool{}
	for i := range s.Steps {
		for _, d := range s.Steps[i].Deliveries() {
			conversations[d.Event.Conversation] = true
		}
	}
	var events []*Event // without redeliveries
	for i := range s.Steps {
		step := &s.Steps[i]
		ids, at := map[string]bool{}, scenarioAt(n, "steps", strconv.Itoa(i))
		for _, d := range step.Deliveries() {
			ids[d.Event.ID] = true
		}
		f.checkStep(s, step, at, ids, conversations)
		for p := range step.Parallel {
			f.checkStep(s, &step.Parallel[p], append(at, "parallel", strconv.Itoa(p)), ids, conversations)
		}
		events = f.complete(step, at, events)
	}
}

// checkStep checks the names that a step, or part of one, refers to.
func (f *file) checkStep(s *Scenario, step *Step, at []string, ids, conversations map[string]bool) {
	fault := func(field, format string, args ...any) {
		f.fault(append(slices.Clone(at), strings.Split(field, "/")...), format, args...)
	}
	for i, a := range step.Model {
		if a.Deployment != "" && !slices.Contains(s.Options.Models, a.Deployment) {
			fault(fmt.Sprintf("model/%d/deployment", i), "%q is none of options.models", a.Deployment)
		}
	}
	e := &step.Expect
	for id := range e.StatusWithinMS {
		if id != "" && !ids[id] {
			fault("expect/http_status_within_ms/"+id, "no event of this step has this id")
		}
	}
	for id := range e.StateByConversation {
		if !conversations[id] {
			fault("expect/state_by_conversation/"+id, "no event of the scenario is in such a conversation")
		}
	}
	for i, reply := range e.Replies {
		if word, _ := split(reply); word != "" && !slices.Contains(placeholders(), word) && !s.Writes(reply) {
			fault(fmt.Sprintf("expect/replies/%d", i), "<%s> stands for nothing, and nothing in the scenario writes this text; there are: %s",
				word, strings.Join(placeholders(), ", "))
		}
	}
}

// complete fills in what the file omits in the events of a step. A redelivery copies the last
// activity before or beside it with its id or, without an id, of its type.
func (f *file) complete(step *Step, at []string, events []*Event) []*Event {
	all := step.Deliveries()
	for i, d := range all {
		e := d.Event
		if !e.Redelivery {
			e.ID = cmp.Or(e.ID, fmt.Sprintf("activity-%d-of-%s", len(events)+1, e.Conversation))
			e.From = cmp.Or(e.From, "user")
			events = append(events, e)
			continue
		}
		var first *Event
		for _, other := range all[i+1:] {
			if e.ID != "" && !other.Event.Redelivery && e.repeats(other.Event) {
				first = other.Event
			}
		}
		for _, other := range events {
			if e.repeats(other) {
				first = other
			}
		}
		if first == nil {
			if len(step.Parallel) > 0 {
				at = append(at, "parallel", strconv.Itoa(i))
			}
			f.fault(append(at, "event", "redelivery"), "no event before it, or beside it, is of this activity")
			break
		}
		to, from := reflect.ValueOf(e).Elem(), reflect.ValueOf(first).Elem()
		for _, name := range []string{"Kind", "From", "ID", "Text", "Name", "Value", "Entities", "ChannelData", "MembersAdded", "Attachments"} {
			if field := to.FieldByName(name); field.IsZero() {
				field.Set(from.FieldByName(name))
			}
		}
	}
	return events
}

// repeats reports whether the event can be a redelivery of other.
func (e *Event) repeats(other *Event) bool {
	return other.Conversation == e.Conversation && (e.ID == "" && other.Type == e.Type || e.ID != "" && other.ID == e.ID)
}

// Writes reports whether the text appears anywhere in the scenario that can become a reply: in
// model answers, action results, what people say, or earlier state.
func (s *Scenario) Writes(text string) bool {
	parts := []any{s.Seed}
	for i := range s.Steps {
		for _, d := range append(s.Steps[i].Deliveries(), &s.Steps[i]) {
			parts = append(parts, d.Event, d.Model, d.Expect.Actions)
		}
	}
	written := angles.Replace(plainjson.Text(parts))
	once := plainjson.Text(text)
	once = once[1 : len(once)-1]
	twice := plainjson.Text(once) // in a plan, which is JSON
	return strings.Contains(written, once) || strings.Contains(written, twice[1:len(twice)-1])
}

// angles undoes the escaping of < and > by some JSON writers, also in JSON within JSON.
var angles = strings.NewReplacer(`\\u003c`, "<", `\\u003C`, "<", `\\u003e`, ">", `\\u003E`, ">", `\u003c`, "<", `\u003e`, ">")

// Write writes scenarios as YAML that [Read] reads: one as it is, several as a list. Unset fields
// are left out.
func Write(list []Scenario) ([]byte, error) {
	if len(list) == 1 {
		return yamltext.Write(list[0])
	}
	return yamltext.Write(map[string]any{"scenarios": list})
}

// sayings are the bot's own texts, each with the word in <…> that stands for it. Words without a
// text here are checked in other ways. Only the beginning of a text must match; the bot may word
// the rest.
var sayings = []struct {
	word string
	form *regexp.Regexp
}{
	{"already_done", regexp.MustCompile(`^(This was already decided|I'm no longer waiting for this decision|This was not decided in time)`)},
	{"approval_card", nil},
	{"busy", regexp.MustCompile(`^Sorry, (the AI model is too busy|the AI model isn't available)`)},
	{"card", nil},
	{"denied", regexp.MustCompile(`^OK, I won't do this: `)},
	{"filtered", regexp.MustCompile(`^Sorry, the content filter `)},
	{"honest", nil},
	{"not_allowed", regexp.MustCompile(`^(You can't decide this|Sorry, I.m not allowed to talk with you)`)},
	{"reset_done", regexp.MustCompile(`^I've cleared our conversation\.`)},
	{"resumed", nil},
	{"split", nil},
	{"timeout", regexp.MustCompile(`^Sorry, (this took too long|the AI model did not answer in time)`)},
	{"too_many_steps", regexp.MustCompile(`^Sorry, (this took too many steps|I was going in circles|this would cost more than I may spend|` +
		`answering that would take too many messages)`)},
	{"welcome", regexp.MustCompile(`^Hello, I am `)},
	{"fallback", regexp.MustCompile(`^Sorry, `)}, // last, for apologies without their own word
}

func placeholders() (words []string) {
	for _, s := range sayings {
		words = append(words, s.word)
	}
	return words
}

var placeholderForm = lazy.Regexp(`(?s)^<([a-zA-Z][a-zA-Z_]*)\b([^<>]*)>$|^<((?:approval_)?card)([\s:].*)>$`)

// split returns the first word of a reply that is entirely in <…>, and the rest; else "".
func split(reply string) (word, rest string) {
	m := placeholderForm().FindStringSubmatch(reply)
	switch {
	case m == nil:
		return "", ""
	case m[1] == "": // what a card shows may be anything
		return m[3], m[4]
	}
	return m[1], m[2]
}

// Placeholder reads a reply in <…>: its word, what follows it, and which texts it stands for. If
// the reply is a literal text, the word is "".
func Placeholder(reply string) (word, rest string, means func(text string) bool) {
	word, rest = split(reply)
	if !slices.Contains(placeholders(), word) {
		return "", "", nil
	}
	return word, rest, func(text string) bool {
		of := placeholderOf(text)
		return of == word || word == "fallback" && (of == "busy" || of == "not_allowed" && strings.HasPrefix(text, "Sorry, "))
	}
}

// Own reports whether a bot says the text by itself, in English.
func Own(text string) bool { return placeholderOf(text) != "" }

// placeholderOf is the word that stands for one of the bot's own texts, "" for any other.
func placeholderOf(text string) string {
	for _, s := range sayings {
		if s.form != nil && s.form.MatchString(text) {
			return s.word
		}
	}
	return ""
}
