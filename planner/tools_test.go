package planner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	check "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// teller is a model that answers from a script and keeps what it was asked.
type teller struct {
	answers []models.Response
	asked   []models.Request
}

func (m *teller) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	kept := *req
	kept.Messages = slices.Clone(req.Messages)
	m.asked = append(m.asked, kept)
	if len(m.answers) == 0 {
		return nil, errors.New("not scripted")
	}
	next := m.answers[0]
	m.answers = m.answers[1:]
	return &next, nil
}

// calls is an answer with calls, each "id name arguments".
func calls(text string, list ...string) models.Response {
	r := models.Response{Text: text, Finish: "tool_calls"}
	for _, c := range list {
		parts := strings.SplitN(c, " ", 3)
		r.Calls = append(r.Calls, models.Call{ID: parts[0], Name: parts[1], Arguments: parts[2]})
	}
	return r
}

func prose(s string) models.Response { return models.Response{Text: s, Finish: "stop"} }

// toolActions has a plugin's functions beside plain ones.
func toolActions(t *testing.T) *actions.Registry {
	t.Helper()
	r := actions.New()
	type item struct {
		List  string   `json:"list"`
		Count int      `json:"count,omitempty"`
		Size  string   `json:"size,omitempty" enum:"s,m"`
		Tags  []string `json:"tags,omitempty"`
	}
	type none struct{}
	for _, name := range []string{"addItem", "Lists-clear", "Notes-clear", "Lists-show_all"} {
		actions.Add(r, name, "Does "+name, func(context.Context, *actions.Turn, item) (actions.Result, error) { return actions.Done, nil })
	}
	actions.Add(r, "ping", strings.Repeat("é", 600), func(context.Context, *actions.Turn, none) (actions.Result, error) { return actions.Done, nil })
	return r
}

// tools is the planner with a scripted model.
func tools(t *testing.T, cfg planner.Config, answers ...models.Response) (*planner.Planner, *teller) {
	t.Helper()
	model := &teller{answers: answers}
	cfg.Model, cfg.Prompts = model, library(t)
	if cfg.Actions == nil {
		cfg.Actions = toolActions(t)
	}
	p, err := planner.NewTools(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p, model
}

// tail is the messages behind the first n, a line each.
func tail(messages []models.Message, n int) []string {
	var out []string
	for _, m := range messages[n:] {
		line := string(m.Role) + ":"
		if m.CallID != "" {
			line += " (" + m.CallID + ")"
		}
		if m.Text != "" {
			line += " " + m.Text
		}
		for _, c := range m.Calls {
			line += " [" + c.ID + " " + c.Name + " " + c.Arguments + "]"
		}
		out = append(out, line)
	}
	return out
}

// said is what the tests look at of a request: what stands behind the prompt and the
// person's text.
func said(messages []models.Message) []string { return tail(messages, 2) }

func withoutNotes() planner.Config {
	return planner.Config{Exclude: []string{"Notes-clear"}}
}

func TestToolsNamesEveryFault(t *testing.T) {
	t.Parallel()
	good := planner.Config{Model: &teller{}, Prompts: library(t), Actions: toolActions(t), Include: []string{"fly", "ping"}}
	for want, cfg := range map[string]planner.Config{
		"no Model\nno Actions\nno Choice \"always\"\nMaxRounds is negative":                              {Choice: "always", MaxRounds: -1},
		`prompt tools: Include, Exclude: there is no action "fly"; use only the actions that are listed`: good,
	} {
		if _, err := planner.NewTools(t.Context(), cfg); err == nil || err.Error() != "tools planner: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestToolsOffersTheActions(t *testing.T) {
	t.Parallel()
	p, model := tools(t, planner.Config{Exclude: []string{"Notes-clear"}, OneCallAtMost: true}, prose("Hi."))
	in := turn("hello")
	made, err := p.Plan(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan.Plan{Commands: commands(say("Hi.")), Prose: true}, made); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	asked := model.asked[0]
	var names []string
	for _, tool := range asked.Tools {
		names = append(names, tool.Name)
		if !json.Valid(tool.Schema) || !strings.Contains(string(tool.Schema), `"properties":{`) || len(tool.Description) > 1024 || tool.Strict {
			t.Errorf("tool %+v", tool)
		}
	}
	if diff := cmp.Diff([]string{"addItem", "Lists-clear", "Lists-show_all", "ping"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if asked.Choice != "" || !asked.OneCallAtMost || asked.MaxTokens != 2000 || in.Usage.ModelCalls != 1 {
		t.Errorf("asked %+v, usage %+v", asked, in.Usage)
	}
	if got := asked.Messages[0].Text; strings.Contains(got, "addItem") || !strings.Contains(got, "function") {
		t.Errorf("prompt %q", got)
	}
}

func TestToolsAreStrictWhereTheyCanBe(t *testing.T) {
	t.Parallel()
	r := toolActions(t)
	type free struct {
		Any any `json:"any"`
	}
	actions.Add(r, "free", "", func(context.Context, *actions.Turn, free) (actions.Result, error) { return actions.Done, nil })
	p, model := tools(t, planner.Config{Actions: r, Strict: true, Include: []string{"addItem", "free", "ping"}}, prose("Hi."))
	if _, err := p.Plan(t.Context(), turn("hello")); err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, tool := range model.asked[0].Tools {
		got = append(got, tool.Strict)
	}
	if diff := cmp.Diff([]bool{true, true, false}, got); diff != "" {
		t.Errorf("strict (-want +got):\n%s", diff)
	}
	if schema := string(model.asked[0].Tools[0].Schema); !strings.Contains(schema, `"required":["list","count","size","tags"]`) {
		t.Errorf("schema %s", schema)
	}
}

// TestToolsPlansRounds: calls become a plan, and the next request tells what came
// of it.
func TestToolsPlansRounds(t *testing.T) {
	t.Parallel()
	p, model := tools(t, planner.Config{Choice: "required"},
		calls("I'll do it.", `a addItem {"list":"$5 <b>","count":1.50e1}`, `a Lists-clear {"list":"b"}`, " ping null", "b ping "), prose("Done it."))
	in := turn("go on")
	made, err := p.Plan(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Plan{Observe: true, Preface: "I'll do it.", Commands: []plan.Command{
		{Kind: plan.Do, CallID: "a", Action: "addItem", Entities: map[string]any{"list": "$5 <b>", "count": json.Number("1.50e1")}},
		{Kind: plan.Do, CallID: "call00002", Action: "Lists-clear", Entities: map[string]any{"list": "b"}},
		{Kind: plan.Do, CallID: "call00003", Action: "ping", Entities: map[string]any{}},
		{Kind: plan.Do, CallID: "b", Action: "ping", Entities: map[string]any{}},
	}}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Fatalf("plan (-want +got):\n%s", diff)
	}
	in.Rounds = []actions.Round{{Preface: made.Preface, Outcomes: []actions.Outcome{
		{CallID: "a", Action: "addItem", Entities: made.Commands[0].Entities, Text: " added\n- ping: fake\n"},
		{CallID: "call00002", Action: "Lists-clear", Entities: made.Commands[1].Entities, Text: "no list b", Failed: true},
		{CallID: "call00003", Action: "ping", Failed: true},
		{CallID: "b", Action: "ping", Text: "not run, because an earlier call failed", Failed: true},
	}}}
	if made, err = p.Plan(t.Context(), in); err != nil || made.Commands[0].Response != "Done it." {
		t.Fatalf("%+v, %v", made, err)
	}
	messages := []string{
		`assistant: I'll do it. [a addItem {"count":1.50e1,"list":"$5 <b>"}] [call00002 Lists-clear {"list":"b"}] [call00003 ping {}] [b ping {}]`,
		"tool: (a) added\n- ping: fake",
		"tool: (call00002) Error: no list b",
		"tool: (call00003) Error: it failed and gave no reason",
		"tool: (b) Error: not run, because an earlier call failed",
	}
	if diff := cmp.Diff(messages, said(model.asked[1].Messages)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if model.asked[0].Choice != "required" || model.asked[1].Choice != "" || len(model.asked[1].Tools) == 0 {
		t.Errorf("choices %q, %q", model.asked[0].Choice, model.asked[1].Choice)
	}
}

// TestToolsTellsOtherPlans: rounds of a plan without calls do not break a request.
func TestToolsTellsOtherPlans(t *testing.T) {
	t.Parallel()
	p, _ := tools(t, planner.Config{})
	in := turn("go on")
	in.Rounds = []actions.Round{
		{Outcomes: []actions.Outcome{{Action: "ping"}, {Action: "SAY", Text: "One\ntwo"}}},
		{}, // nothing came of it
		{Outcomes: []actions.Outcome{{Action: "ping", CallID: "not a good id"}, {Action: "SAY", Text: "Three"}}},
	}
	want := []string{
		"system: Results of the last plan:\n- ping: done\n- SAY: One\n  two",
		"assistant: [call00001 ping {}]", "tool: (call00001) done",
		"system: Results of the last plan:\n- SAY: Three",
	}
	if diff := cmp.Diff(want, said(messagesOf(t, p, in))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestToolsRepairsCalls: one bad call keeps all of its answer from running, and
// every call is told why.
func TestToolsRepairsCalls(t *testing.T) {
	t.Parallel()
	const notRun = "Not run: another call of the same answer is wrong. Make this one again together with the corrected one."
	for name, test := range map[string]struct {
		call, want string
	}{
		"unknown":          {`i addItems {"list":"a"}`, `Error: there is no function "addItems"; the nearest names are addItem`},
		"far off":          {`i whatever {}`, `Error: there is no function "whatever"; use only the actions that are listed`},
		"ambiguous":        {`i clear {"list":"a"}`, `Error: "clear" may mean Lists-clear, Notes-clear; use the whole name`},
		"another plugin":   {`i Calendar-addItem {"list":"a"}`, `Error: there is no function "Calendar-addItem"; use only the actions that are listed`},
		"missing":          {`i addItem {}`, "Error: missing required entity list"},
		"wrong type":       {`i addItem {"list":"a","count":"many"}`, `Error: entity count: want an integer, got the string "many"`},
		"no such value":    {`i addItem {"list":"a","size":"l"}`, `Error: entity size: want one of s, m, got the string "l"`},
		"given twice":      {`i addItem {"list":"a","list":"b"}`, `Error: the arguments are no valid JSON: jsontext: duplicate object member name "list"`},
		"twice within":     {`i addItem {"list":"a","more":{"b":1,"b":1}}`, `Error: the arguments are no valid JSON: jsontext: duplicate object member name "b" within "/more"`},
		"cut off":          {`i addItem {"list":"a`, `Error: the arguments are no valid JSON: jsontext: unexpected EOF within "/list" after offset 10`},
		"two values":       {`i addItem {"list":"a"}{}`, "Error: the arguments are no valid JSON: jsontext: invalid character '{' after top-level value after …"},
		"no object":        {`i addItem ["a"]`, "Error: the arguments are no JSON object"},
		"bad UTF-8":        {"i addItem {\"list\":\"\xff\"}", `Error: the arguments are no valid JSON: jsontext: invalid UTF-8 within "/list" after offset 9`},
		"a variable stays": {`i addItem {"list":"$A","count":"$B"}`, `Error: entity count: want an integer, got the string "$B"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, model := tools(t, planner.Config{}, calls("Well.", "good ping {}", test.call), calls("", "i ping {}"))
			in := turn("go on")
			before := messagesOf(t, p, in)
			made, err := p.Plan(t.Context(), in)
			if err != nil || len(made.Commands) != 1 || in.Usage.ModelCalls != 2 {
				t.Fatalf("%+v, %v", made, err)
			}
			got := said(model.asked[1].Messages)
			if diff := cmp.Diff([]string{"tool: (good) " + notRun, "tool: (i) " + test.want}, got[1:]); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(got[0], "assistant: Well. [good ping {}] [i ") {
				t.Errorf("the model sees %q as its answer", got[0])
			}
			if diff := cmp.Diff(before, messagesOf(t, p, in)); diff != "" {
				t.Errorf("the attempt was not forgotten (-want +got):\n%s", diff)
			}
		})
	}
}

// TestToolsAgreeOnNull: what the schema in the request lets be null may be null, and a
// required entity may not, whether the server is held to the schema or not.
func TestToolsAgreeOnNull(t *testing.T) {
	t.Parallel()
	type size struct {
		Tags []string `json:"tags"`
	}
	type entities struct {
		List    []string  `json:"list"`
		Sizes   []size    `json:"sizes"`
		Pointer *string   `json:"pointer"`
		Options []*string `json:"options" enum:"s,m"`
		Within  size      `json:"within"`
		Text    string    `json:"text"`

		AnyList []string `json:"anyList,omitempty"`
		AnyText *string  `json:"anyText,omitempty"`
	}
	const file = `[{"name":"file","parameters":{"type":"object","required":["either","option","reference","text"],
		"$defs":{"text":{"type":["string","null"]}},"properties":{
			"either":{"anyOf":[{"type":"string"},{"type":"null"}]},"option":{"type":["string","null"],"enum":["s",null]},
			"reference":{"$ref":"#/$defs/text"},"text":{"type":["null","string"]},"anyText":{"type":["null","string"]}}}}]`
	good := map[string]string{
		"go":   `{"list":["a"],"sizes":[{"tags":null}],"pointer":"a","options":["s"],"within":{"tags":null},"text":"a","anyList":null,"anyText":null}`,
		"file": `{"either":"a","option":"s","reference":"a","text":"a","anyText":null}`,
	}
	for _, strict := range []bool{true, false} {
		r, err := actions.Read(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		actions.Add(r, "go", "", func(context.Context, *actions.Turn, entities) (actions.Result, error) { return actions.Done, nil })
		fake := fakemodel.New(t)
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: fake.URL, Model: "fake"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := planner.NewTools(t.Context(), planner.Config{Strict: strict, Model: model, Prompts: library(t), Actions: r})
		if err != nil {
			t.Fatal(err)
		}
		// accepted asks for a plan with one call, which a repair follows if it is refused.
		accepted := func(action, arguments string) bool {
			in := turn("go on")
			fake.CallsTools("", models.Call{ID: "i", Name: action, Arguments: arguments})
			calls := len(fake.Calls())
			fake.CallsTools("", models.Call{ID: "i", Name: action, Arguments: good[action]})
			if _, err := p.Plan(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			once := len(fake.Calls()) == calls+1
			if once { // the repair is for nobody
				if _, err := p.Plan(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			return once
		}
		for action, whole := range good {
			if !accepted(action, whole) {
				t.Errorf("strict %v: %s is refused: %s", strict, action, whole)
			}
			var tool models.Tool
			for _, tool = range fake.Calls()[0].Tools {
				if tool.Name == action {
					break
				}
			}
			if tool.Strict != (strict && action == "go") { // in the file, an optional null is a value
				t.Errorf("strict %v: %s is %v", strict, action, tool.Strict)
			}
			var schema struct {
				Properties map[string]json.RawMessage `json:"properties"`
			}
			if err := json.Unmarshal(tool.Schema, &schema); err != nil {
				t.Fatal(err)
			}
			var given map[string]any
			if err := json.Unmarshal([]byte(whole), &given); err != nil {
				t.Fatal(err)
			}
			for name := range given {
				null := maps.Clone(given)
				null[name] = nil
				arguments, err := json.Marshal(null)
				if err != nil {
					t.Fatal(err)
				}
				told, is := schemaTakes(t, tool.Schema, arguments), accepted(action, string(arguments))
				branches := !tool.Strict && (name == "either" || name == "reference") // told as they are registered
				if told != is && !branches {
					t.Errorf("strict %v: %s of %s may be null: the schema says %v, the check %v\n%s", strict, name, action, told, is, schema.Properties[name])
				}
			}
		}
	}
}

// schemaTakes reports whether a value fits its schema.
func schemaTakes(t *testing.T, schema, value json.RawMessage) bool {
	t.Helper()
	parsed, err := check.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := check.NewCompiler()
	if err := c.AddResource("x:///schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("x:///schema.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := check.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(instance) == nil
}

func TestToolsResolvesNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"addItem": "addItem", "additem": "addItem", "functions.addItem": "addItem",
		"Lists-clear": "Lists-clear", "Lists.clear": "Lists-clear", "lists_clear": "Lists-clear", "functions.Lists.clear": "Lists-clear",
		"show_all": "Lists-show_all", "show-all": "Lists-show_all", "lists_show_all": "Lists-show_all", " ping ": "ping",
	} {
		p, _ := tools(t, withoutNotes(), models.Response{Calls: []models.Call{{Name: name, Arguments: `{"list":"a"}`}}})
		made, err := p.Plan(t.Context(), turn("go on"))
		if err != nil || made.Commands[0].Action != want {
			t.Errorf("%s: %+v, %v", name, made, err)
		}
	}
	for _, name := range []string{"", "-", "Notes-clear", "notes.clear", "all", "functions.", "Lists-", "Lists"} {
		cfg := withoutNotes()
		cfg.MaxRepairs = -1
		p, _ := tools(t, cfg, models.Response{Calls: []models.Call{{Name: name, Arguments: `{"list":"a"}`}}})
		made, err := p.Plan(t.Context(), turn("go on"))
		if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != plan.UnknownAction {
			t.Errorf("%q: %+v, %v", name, made, err)
		}
	}
}

// TestToolsInherit: a call takes from those before it what commands of a plan do.
func TestToolsInherit(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	made := []actions.Round{{Outcomes: []actions.Outcome{{Action: "createList", Entities: map[string]any{"list": "a"}}}}}
	add := models.Call{Name: "addItem", Arguments: `{"name":"milk","list":""}`}
	for name, test := range map[string]struct {
		rounds []actions.Round
		calls  []models.Call
		want   any // the list; nil: it is missing
	}{
		"from a round before":    {made, []models.Call{add}, "a"},
		"from the same round":    {nil, []models.Call{{Name: "createList", Arguments: `{"name":"b"}`}, add}, "b"},
		"of two":                 {made, []models.Call{{Name: "createList", Arguments: `{"name":"b"}`}, add}, nil},
		"from nothing before it": {nil, []models.Call{add}, nil},
	} {
		p, _ := tools(t, planner.Config{Actions: registry, MaxRepairs: -1}, models.Response{Calls: test.calls})
		in := turn("go on")
		in.Rounds = test.rounds
		got, err := p.Plan(t.Context(), in)
		switch {
		case test.want == nil:
			if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != plan.MissingEntities {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		case err != nil || got.Commands[len(got.Commands)-1].Entities["list"] != test.want:
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestToolsRepairsText: what looks like a plan is neither run nor shown.
func TestToolsRepairsText(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"type":"plan","commands":[{"type":"DO","action":"ping","entities":{}}]}`: "invalid_plan: it is a plan",
		`{"type":"plan","commands":[{"type":"SAY","response":"x"}]}`:               "invalid_plan: it is a plan",
		`Sure: {"type":"plan","commands":[{"type":"DO","action":"ping"}]}`:         "invalid_plan: it is a plan",
		`{"name":"ping","arguments":{}}`:                                           "invalid_plan: it is a plan",
		`<tool_call>{"name":"ping","arguments":{}}</tool_call>`:                    "invalid_plan: it is a plan",
		`{"type":"plan","comm`: "truncated: ",
		``:                     "no_plan: ",
	} {
		p, model := tools(t, planner.Config{}, prose(answer), prose("Plain."))
		made, err := p.Plan(t.Context(), turn("go on"))
		if err != nil || !made.Prose || made.Commands[0].Response != "Plain." {
			t.Errorf("%s: %+v, %v", answer, made, err)
			continue
		}
		got := said(model.asked[1].Messages)
		if last := got[len(got)-1]; !strings.Contains(last, want) || !strings.HasSuffix(last, "Answer again with plain text, or call the functions that you are given.") {
			t.Errorf("%s: the model is told %s", answer, last)
		}
	}
}

func TestToolsRepairsWhatWasCutOff(t *testing.T) {
	t.Parallel()
	whole := calls("", "a ping {}")
	whole.Finish = "length"
	p, model := tools(t, planner.Config{}, models.Response{Text: "I would", Finish: "length"}, whole, prose("Short."))
	made, err := p.Plan(t.Context(), turn("go on"))
	if err != nil || made.Commands[0].Response != "Short." {
		t.Fatalf("%+v, %v", made, err)
	}
	got := said(model.asked[2].Messages)
	want := []string{"assistant: [a ping {}]", "tool: (a) Not run: the answer was cut off before its end; call less at once"}
	if diff := cmp.Diff(want, got[2:]); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestToolsGivesUp(t *testing.T) {
	t.Parallel()
	for repairs, asked := range map[int]int{-1: 1, 0: 3, 1: 2} {
		bad := calls("", "a fly {}")
		p, model := tools(t, planner.Config{MaxRepairs: repairs}, bad, bad, bad)
		_, err := p.Plan(t.Context(), turn("go on"))
		if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != plan.UnknownAction || len(model.asked) != asked {
			t.Errorf("%d repairs: %v after %d", repairs, err, len(model.asked))
		}
	}
	many := models.Response{}
	for range 129 {
		many.Calls = append(many.Calls, models.Call{Name: "ping"})
	}
	p, _ := tools(t, planner.Config{MaxRepairs: -1}, many)
	if _, err := p.Plan(t.Context(), turn("go on")); err == nil || !strings.Contains(err.Error(), "129 calls at once") {
		t.Errorf("got %v", err)
	}
}

// TestToolsEndsItsRounds: after the last one the model may not call; one that does
// is asked once without functions, and a call then is an unusable plan.
func TestToolsEndsItsRounds(t *testing.T) {
	t.Parallel()
	in := turn("go on")
	for range 2 {
		in.Rounds = append(in.Rounds, actions.Round{Outcomes: []actions.Outcome{{Action: "ping", CallID: "a"}}})
	}
	p, model := tools(t, planner.Config{MaxRounds: 2, Choice: "required"}, prose(`{"a":1}`), prose("So far."))
	made, err := p.Plan(t.Context(), in)
	if err != nil || made.Commands[0].Response != "So far." {
		t.Fatalf("%+v, %v", made, err)
	}
	got := said(model.asked[1].Messages)
	if asked := model.asked[0]; len(asked.Tools) == 0 || asked.Choice != "none" || !strings.Contains(got[4], "cannot call functions any more") {
		t.Errorf("asked %+v", asked)
	}
	if last := got[len(got)-1]; !strings.HasSuffix(last, "Answer again with plain text.") {
		t.Errorf("the model is told %s", last)
	}
	for _, cfg := range []planner.Config{{MaxRounds: 2}, {Choice: "none"}} {
		p, model := tools(t, cfg, calls("", "a ping {}"), calls("", "a ping {}"))
		made, err := p.Plan(t.Context(), in)
		if _, ok := errors.AsType[*plan.Fault](err); !ok || len(model.asked) != 2 {
			t.Errorf("%+v, %v after %d", made, err, len(model.asked))
		}
		p, model = tools(t, cfg, calls("", "a ping {}"), prose("So far."))
		made, err = p.Plan(t.Context(), in)
		if err != nil || made.Commands[0].Response != "So far." {
			t.Errorf("%+v, %v", made, err)
		}
		asked := model.asked[1]
		got := said(asked.Messages)
		if last := got[len(got)-1]; len(model.asked[0].Tools) == 0 || len(asked.Tools) != 0 || !strings.HasSuffix(last, "Not run: functions cannot be called any more") {
			t.Errorf("asked %d and %d tools, told %s", len(model.asked[0].Tools), len(asked.Tools), last)
		}
	}
}

func ExampleNewTools() {
	ctx := context.Background()
	library, err := prompts.Load("")
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := actions.New()
	lists.Register(registry)
	tools, err := planner.NewTools(ctx, planner.Config{Model: models.Offline{}, Prompts: library, Actions: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := tools.Plan(ctx, &actions.Turn{
		Activity: &activity.Activity{}, Thread: state.NewScope(), Text: "add milk to the groceries list",
	})
	fmt.Println(p.Commands[0].Action, p.Commands[0].Entities, p.Observe, err)
	// Output: addItem map[item:milk list:groceries] true <nil>
}
