package skills_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state"
)

// rig is a provider with its actions, and what a turn needs.
type rig struct {
	*skills.Provider
	t      *testing.T
	reg    *actions.Registry
	thread *state.Scope
	turns  int
}

// provide registers a provider of the skills beside an action addItem.
func provide(t *testing.T, cfg skills.ProviderConfig, list ...*skills.Skill) *rig {
	t.Helper()
	cfg.Skills = append(cfg.Skills, list...)
	p, err := skills.NewProvider(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Provider: p, t: t, reg: actions.New(), thread: state.NewScope()}
	type item struct {
		Item string `json:"item"`
	}
	actions.Add(r.reg, "addItem", "Adds an item", func(context.Context, *actions.Turn, item) (actions.Result, error) { return actions.Done, nil })
	if err := p.Register(r.reg); err != nil {
		t.Fatal(err)
	}
	return r
}

// turn is the next turn of the conversation, for that person.
func (r *rig) turn(user string) *actions.Turn {
	r.turns++
	turn := of(user)
	turn.ID = fmt.Sprint("turn", r.turns)
	turn.Thread, turn.Conversation, turn.User, turn.Temp = r.thread, r.thread, state.NewScope(), state.NewScope()
	return turn
}

// call calls a tool as a bot does, which asks the policy, and writes down what came of it.
func (r *rig) call(turn *actions.Turn, tool, entities string) (actions.Result, error) {
	r.t.Helper()
	action, ok := r.reg.Lookup(tool)
	if !ok {
		r.t.Fatalf("no %s", tool)
	}
	var given map[string]any
	dec := json.NewDecoder(strings.NewReader(entities))
	dec.UseNumber()
	if err := dec.Decode(&given); err != nil {
		r.t.Fatal(err)
	}
	checked, err := action.Check(given)
	if err != nil {
		r.t.Fatalf("%s does not take %s: %v", tool, entities, err)
	}
	if _, err := r.Policy(nil)(r.t.Context(), turn, actions.Call{Action: action, Entities: checked}); err != nil {
		return actions.Result{}, err
	}
	result, err := action.Call(r.t.Context(), turn, checked)
	if err == nil {
		turn.Rounds = append(turn.Rounds, actions.Round{Outcomes: []actions.Outcome{{
			Action: tool, Entities: checked, Text: result.Text(), Failed: result.Failed(),
		}}})
	}
	return result, err
}

// told is what the tool answers.
func (r *rig) told(turn *actions.Turn, tool, entities string) string {
	r.t.Helper()
	result, err := r.call(turn, tool, entities)
	if err != nil {
		r.t.Fatal(err)
	}
	return result.Text()
}

func (r *rig) extend(turn *actions.Turn) actions.Extra {
	r.t.Helper()
	extra, err := r.Extend(r.t.Context(), turn)
	if err != nil {
		r.t.Fatal(err)
	}
	return extra
}

// seen is all that a model is told in the turn beside what others tell it.
func (r *rig) seen(turn *actions.Turn) string {
	r.t.Helper()
	extra := r.extend(turn)
	parts := append([]string{extra.Text}, extra.Pinned...)
	for _, o := range turn.Outcomes() {
		if text, ok := extra.Tell(o); ok {
			o.Text = text
		}
		parts = append(parts, o.Text)
	}
	return strings.Join(parts, "\n")
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// inline builds a skill in Go.
type product struct {
	Value  float64 `json:"value"`
	Factor float64 `json:"factor"`
}

type number struct {
	N int64 `json:"n"`
}

var errBoom = errors.New("boom-script")

// converter is a skill with all that a skill in Go can have.
func converter(t testing.TB) *skills.Skill {
	t.Helper()
	type nothing struct{}
	return &skills.Skill{
		Name: "unit-converter", Description: "Converts units. Use it for lengths and weights.", Instructions: "Find the factor in the table, then multiply.",
		Resources: []skills.Resource{
			{Name: "references/table.md", Description: "Factors", Text: "1 kg = 2.20462 lb"},
			{Name: "references/other.md", Text: "nothing"},
			{Name: "empty.md"},
			{Name: "logo.png", Func: func(context.Context) ([]byte, error) { return []byte("\x89PNG\r\n\x1a\n\x00"), nil }},
			{Name: "broken.md", Func: func(context.Context) ([]byte, error) { return nil, errBoom }},
		},
		Scripts: []skills.Script{
			skills.Func("convert", "Multiplies", func(_ context.Context, _ *actions.Turn, in product) (actions.Result, error) {
				return actions.Text("%g", in.Value*in.Factor), nil
			}),
			skills.Func("count", "Counts", func(_ context.Context, _ *actions.Turn, in number) (actions.Result, error) {
				return actions.Text("%d", in.N), nil
			}),
			skills.Func("explode", "", func(context.Context, *actions.Turn, nothing) (actions.Result, error) {
				return actions.Result{}, errBoom
			}),
			skills.Func("panic", "", func(context.Context, *actions.Turn, nothing) (actions.Result, error) { panic("boom") }),
		},
	}
}

func TestNewProviderNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := skills.NewProvider(skills.ProviderConfig{Skills: []*skills.Skill{{Name: "a"}, nil}, Sources: []skills.Source{nil}, Approve: []string{"fly"}, Template: "Skills:"})
	want := "skills provider: Skills has nil\nSources has nil\nskill \"a\": Missing required field: description (or it is blank)\n" +
		"Approve: there is no tool \"fly\", have load_skill, read_skill_resource and run_skill_script\n" +
		"Template has no {skills}, where the list of skills goes"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	p, err := skills.NewProvider(skills.ProviderConfig{Skills: []*skills.Skill{}})
	if err != nil {
		t.Fatal(err)
	}
	reg := actions.New()
	if err := p.Register(reg); err != nil {
		t.Fatal(err)
	}
	if err := p.Register(reg); err == nil || !strings.Contains(err.Error(), "load_skill") {
		t.Errorf("registered twice: %v", err)
	}
}

func TestToolsAnswerExactly(t *testing.T) {
	t.Parallel()
	for tool, cases := range map[string]map[string]string{
		skills.LoadSkill: {
			`{}`:                                               "Error: Skill name cannot be empty.",
			`{"skillName":null}`:                               "Error: Skill name cannot be empty.",
			`{"skillName":" \t"}`:                              "Error: Skill name cannot be empty.",
			`{"skillName":["x"]}`:                              "Error: Skill name cannot be empty.",
			`{"skillName":"zzz"}`:                              "Error: Skill 'zzz' not found.",
			`{"skillName":7}`:                                  "Error: Skill '7' not found.",
			`{"skillName":"unit_convert"}`:                     "Error: Skill 'unit_convert' not found. Did you mean 'unit-converter'?",
			`{"skillName":"a\n<b> SAY hi"}`:                    "Error: Skill 'a <b> SAY hi' not found.",
			`{"skillName":"unit-converter"}`:                   "Loaded the skill unit-converter.",
			`{"skill_name":"unit-converter"}`:                  "Loaded the skill unit-converter.",
			`{"skillName":" ./unit-converter "}`:               "Loaded the skill unit-converter.",
			`{"SkillName":"unit-converter"}`:                   "Error: Skill name cannot be empty.",
			`{"name":"unit-converter"}`:                        "Error: Skill name cannot be empty.",
			`{"skillName":"zzz","skill_name":"zzz"}`:           "Error: Give skillName or skill_name, and not both.",
			`{"skillName":null,"skill_name":"unit-converter"}`: "Loaded the skill unit-converter.",
			`{"skillName":"UNIT-CONVERTER"}`:                   "Loaded the skill unit-converter.",
			`{"skillName":"ｕｎｉｔ-converter"}`:                   "Loaded the skill unit-converter.",
			`{"skillName":"zzz","skill":"no"}`:                 "Error: Skill 'zzz' not found.",
		},
		skills.ReadResource: {
			`{"skillName":"","resourceName":""}`:                                         "Error: Skill name cannot be empty.",
			`{"skillName":"zzz","resourceName":" "}`:                                     "Error: Resource name cannot be empty.",
			`{"skillName":"zzz","resourceName":"x"}`:                                     "Error: Skill 'zzz' not found.",
			`{"skillName":"unit-converter"}`:                                             "Error: Resource name cannot be empty.",
			`{"skillName":"unit-converter","resourceName":"xyz"}`:                        "Error: Resource 'xyz' not found in skill 'unit-converter'.",
			`{"skillName":"unit-converter","resourceName":"../../etc/passwd"}`:           "Error: Resource '../../etc/passwd' not found in skill 'unit-converter'.",
			`{"skillName":"unit-converter","resourceName":"references/tabel.md"}`:        "Error: Resource 'references/tabel.md' not found in skill 'unit-converter'. Did you mean 'references/table.md'?",
			`{"skillName":"unit-converter","resourceName":"references/table.md"}`:        "1 kg = 2.20462 lb",
			`{"skill_name":"unit-converter","resource_name":"./references/Table.md"}`:    "1 kg = 2.20462 lb",
			`{"skillName":"unit-converter","resourceName":"table"}`:                      "1 kg = 2.20462 lb",
			`{"skillName":"unit-converter","resourceName":"references\\table"}`:          "1 kg = 2.20462 lb",
			`{"skillName":"unit-converter","resourceName":"empty.md"}`:                   "(the resource is empty)",
			`{"skillName":"unit-converter","resourceName":"logo.png"}`:                   "The resource is no text and cannot be shown here: binary, 9 bytes, image/png. Actions that take a skill's resource can use it by its name.",
			`{"skillName":"unit-converter","resourceName":"table.md","page":1}`:          "1 kg = 2.20462 lb",
			`{"skillName":"unit-converter","resourceName":"table.md","page":"2"}`:        "Error: Resource 'references/table.md' has pages 1 to 1, and no page 2.",
			`{"skillName":"unit-converter","resourceName":"table.md","page":"the last"}`: "Error: Resource 'references/table.md' has pages 1 to 1, and no page the last.",
			`{"skillName":"unit-converter","resourceName":"broken.md"}`:                  "Error: Failed to read resource 'broken.md' from skill 'unit-converter'.",
		},
		skills.RunScript: {
			`{"skillName":"unit-converter","scriptName":"convert","arguments":{},"args":["--all"]}`: "Error: Give arguments or args, and not both.",
			`{"scriptName":"convert"}`:                              "Error: Skill name cannot be empty.",
			`{"skillName":"zzz"}`:                                   "Error: Script name cannot be empty.",
			`{"skillName":"zzz","scriptName":"x"}`:                  "Error: Skill 'zzz' not found.",
			`{"skillName":"unit-converter","scriptName":"xyz"}`:     "Error: Script 'xyz' not found in skill 'unit-converter'.",
			`{"skillName":"unit-converter","scriptName":"konvert"}`: "Error: Script 'konvert' not found in skill 'unit-converter'. Did you mean 'convert'?",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":{"value":2,"factor":1.5}}`:               "3",
			`{"skill_name":"unit-converter","script_name":"Convert","args":{"value":"2","factor":1.5}}`:                "3",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":"{\"value\":2,\"factor\":1.5}"}`:         "3",
			`{"skillName":"unit-converter","scriptName":"count","arguments":"{\"n\":12345678901234567}"}`:              "12345678901234567",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":["2"]}`:                                  "Error: Script 'convert' of skill 'unit-converter' takes its arguments as a JSON object, and not as an array.",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":"two"}`:                                  "Error: Script 'convert' of skill 'unit-converter' takes its arguments as a JSON object, and not as a string.",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":"{} {}"}`:                                "Error: Script 'convert' of skill 'unit-converter' takes its arguments as a JSON object, and not as a string.",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":2}`:                                      "Error: Script 'convert' of skill 'unit-converter' takes its arguments as a JSON object, and not as a number.",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":true}`:                                   "Error: Script 'convert' of skill 'unit-converter' takes its arguments as a JSON object, and not as a boolean.",
			`{"skillName":"unit-converter","scriptName":"convert"}`:                                                    "Error: Script 'convert' of skill 'unit-converter' cannot run with these arguments: missing required entities value, factor",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":"null"}`:                                 "Error: Script 'convert' of skill 'unit-converter' cannot run with these arguments: missing required entities value, factor",
			`{"skillName":"unit-converter","scriptName":"convert","arguments":{"value":"two","factor":1,"more":null}}`: `Error: Script 'convert' of skill 'unit-converter' cannot run with these arguments: entity value: want a number, got the string "two"`,
		},
	} {
		for entities, want := range cases {
			t.Run(tool+entities, func(t *testing.T) {
				t.Parallel()
				r := provide(t, skills.ProviderConfig{}, converter(t))
				result, err := r.call(r.turn("mia"), tool, entities)
				if err != nil || result.Text() != want {
					t.Errorf("got %v %q\nwant %q", err, result.Text(), want)
				}
				// Whatever the model cannot go on with has failed, and what it has to read ends its plan.
				if failed := strings.Contains(want, "not found") || strings.Contains(want, "cannot be empty") || strings.Contains(want, "and no") || strings.Contains(want, "Failed") || strings.Contains(want, "cannot run") || strings.HasPrefix(want, "Error: "); result.Failed() != failed {
					t.Errorf("failed: %v", result.Failed())
				} else if observe := tool != skills.RunScript && !failed; result.Observe() != observe {
					t.Errorf("observed: %v", result.Observe())
				}
			})
		}
	}
}

func TestErrorsOfScriptsAndResources(t *testing.T) {
	t.Parallel()
	const explode, broken = `{"skillName":"unit-converter","scriptName":"explode"}`, `{"skillName":"unit-converter","resourceName":"broken.md"}`
	plain, detailed := provide(t, skills.ProviderConfig{}, converter(t)), provide(t, skills.ProviderConfig{DetailedErrors: true}, converter(t))
	if _, err := plain.call(plain.turn("mia"), skills.RunScript, explode); !errors.Is(err, errBoom) {
		t.Errorf("without details: %v", err)
	}
	for entities, want := range map[string]string{
		explode: "Error: Failed to execute script 'explode' from skill 'unit-converter'. Exception: boom-script",
		`{"skillName":"unit-converter","scriptName":"panic"}`: "Error: Failed to execute script 'panic' from skill 'unit-converter'. Exception: action panicked",
	} {
		if got := detailed.told(detailed.turn("mia"), skills.RunScript, entities); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want := "Error: Failed to read resource 'broken.md' from skill 'unit-converter'. Exception: read resource \"broken.md\": boom-script"
	if got := detailed.told(detailed.turn("mia"), skills.ReadResource, broken); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	read, _ := plain.reg.Lookup(skills.ReadResource)
	if _, err := read.Call(ctx, plain.turn("mia"), map[string]any{"skillName": "unit-converter", "resourceName": "empty.md"}); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end of the turn's time: %v", err)
	}
	away := provide(t, skills.ProviderConfig{Sources: []skills.Source{failing}})
	for _, tool := range []string{skills.LoadSkill, skills.ReadResource, skills.RunScript} {
		if _, err := away.call(away.turn("mia"), tool, `{"skillName":"a","resourceName":"a","scriptName":"a"}`); !errors.Is(err, errSource) {
			t.Errorf("%s without its source: %v", tool, err)
		}
	}
	if _, err := away.Extend(t.Context(), away.turn("mia")); !errors.Is(err, errSource) {
		t.Errorf("Extend without its source: %v", err)
	}
}

func TestPagesOfAResource(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	text := strings.Repeat("x", size-1) + "é" + strings.Repeat("y", size-1) + "end" // é lies over the first border
	r := provide(t, skills.ProviderConfig{}, &skills.Skill{
		Name: "a", Description: "b", Instructions: "c",
		Resources: []skills.Resource{
			{Name: "long", Text: text},
			{Name: "whole", Text: strings.Repeat("z", size)},
		},
	})
	turn, got := r.turn("mia"), ""
	for n, want := range []string{"\n[page 1 of 3]", "\n[page 2 of 3]", "\n[page 3 of 3]"} {
		part, ok := strings.CutSuffix(r.told(turn, skills.ReadResource, fmt.Sprintf(`{"skillName":"a","resourceName":"long","page":%d}`, n+1)), want)
		if !ok || len(part) > size+3 {
			t.Errorf("page %d has %d bytes and ends in %q", n+1, len(part), part[max(0, len(part)-20):])
		}
		got += part
	}
	if got != text {
		t.Error("the pages are not the text")
	}
	if got := r.told(turn, skills.ReadResource, `{"skillName":"a","resourceName":"long"}`); !strings.HasSuffix(got, "[page 1 of 3]") {
		t.Errorf("without a page: %q", got[len(got)-20:])
	}
	if got := r.told(turn, skills.ReadResource, `{"skillName":"a","resourceName":"whole"}`); got != strings.Repeat("z", size) {
		t.Error("what fits into a page is told as one")
	}
}

func TestOfferedToolsSayWhichNamesThereAre(t *testing.T) {
	t.Parallel()
	file := func(name string, resources, scripts int) *skills.Skill {
		s := &skills.Skill{Name: name, Description: "d", Text: "t"}
		for i := range resources {
			s.Resources = append(s.Resources, skills.Resource{Name: fmt.Sprintf("r%d.md", i)})
		}
		for i := range scripts {
			s.Scripts = append(s.Scripts, skills.Script{Name: fmt.Sprintf("s%d.py", i)})
		}
		return s
	}
	many := func(n int) (list []*skills.Skill) {
		for i := range n {
			list = append(list, file(fmt.Sprintf("s%02d", i), 1, 0))
		}
		return list
	}
	for name, c := range map[string]struct {
		list   []*skills.Skill
		want   []string // parts of the tools as they are listed
		strict bool
	}{
		"few": {[]*skills.Skill{file("b", 2, 1), file("a", 0, 0)}, []string{
			`load_skill(skillName: "a"|"b" `, `read_skill_resource(skillName: "b" `, `resourceName: "r0.md"|"r1.md" `, `page?: integer `,
			`run_skill_script(skillName: "b" `, `scriptName: "s0.py" `, `arguments?: string[] `,
		}, true},
		"Go":      {[]*skills.Skill{file("b", 2, 1), converter(t)}, []string{`arguments?: any `}, false},
		"nothing": {[]*skills.Skill{file("a", 0, 0)}, []string{`read_skill_resource(skillName: string `, `resourceName: string `, `scriptName: string `}, true},
		"many":    {many(65), []string{`load_skill(skillName: "s00"|"s01"|`, `read_skill_resource(skillName: string `, `run_skill_script(skillName: string `, `resourceName: "r0.md" `}, true},
		"files":   {[]*skills.Skill{file("a", 64, 64)}, []string{`resourceName: "r0.md"|"r1.md"|`, `scriptName: "s0.py"|"s1.py"|`}, true},
		"files ≫": {[]*skills.Skill{file("a", 65, 1)}, []string{`resourceName: string `, `scriptName: "s0.py" `}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := provide(t, skills.RunBy(&runner{digest: "d"}, skills.ProviderConfig{}), c.list...)
			prompt, err := r.Prompt(t.Context(), nil, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range c.want {
				if !strings.Contains(prompt, part) {
					t.Errorf("no %q in\n%s", part, prompt)
				}
			}
			offered, err := r.extend(nil).Offer(r.reg)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, strict, err := plan.Schema(offered, false); err != nil || strict != c.strict {
				t.Errorf("the schema of plans is strict: %v, %v", strict, err)
			}
		})
	}
}

func TestWithoutSkillsThereAreNoTools(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.ProviderConfig{})
	extra := r.extend(r.turn("mia"))
	offered, err := extra.Offer(r.reg)
	if err != nil || extra.Text != "" || extra.Key == "" || extra.Pinned != nil {
		t.Fatalf("%v, extra %+v", err, extra)
	}
	if diff := cmp.Diff([]string{"addItem"}, actionNames(offered)); diff != "" {
		t.Error(diff)
	}
	if prompt, err := r.Prompt(t.Context(), nil, ""); prompt != "" || err != nil {
		t.Errorf("prompt %q, %v", prompt, err)
	}
	// A prompt that offers something else keeps to it.
	r = provide(t, skills.ProviderConfig{}, converter(t))
	only, err := r.reg.Only(actions.Offer{Name: "addItem"}, actions.Offer{Name: skills.LoadSkill, Description: "Mine"})
	if err != nil {
		t.Fatal(err)
	}
	if offered, err = r.extend(nil).Offer(only); err != nil {
		t.Fatal(err)
	}
	if load, _ := offered.Lookup(skills.LoadSkill); len(offered.All()) != 2 || load.Description != "Mine" || load.ForModels().Properties["skillName"].Enum == nil {
		t.Errorf("offered %v, %+v", actionNames(offered), load)
	}
}

func actionNames(reg *actions.Registry) (names []string) {
	for _, a := range reg.All() {
		names = append(names, a.Name)
	}
	return names
}

func TestExtendKeepsItsKey(t *testing.T) {
	t.Parallel()
	first, second := made("a", "b"), made("b", "a")
	list := first
	r := provide(t, skills.ProviderConfig{Sources: []skills.Source{func(context.Context, *actions.Turn) ([]*skills.Skill, error) { return list, nil }}})
	key := r.extend(nil).Key
	list = second // other pointers, in another order, that say the same
	if got := r.extend(nil).Key; got != key {
		t.Error("what is told the same has another key")
	}
	second[0] = &skills.Skill{Name: "b", Description: "Does it.", Resources: []skills.Resource{{Name: "r"}}}
	if got := r.extend(nil).Key; got == key {
		t.Error("other tools have the same key")
	}
	list = first[:1]
	if got := r.extend(nil); got.Key == key || strings.Contains(got.Text, "\nb:") {
		t.Errorf("fewer skills: %s", got.Text)
	}
}

func TestReaderGivesBytesToActions(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.ProviderConfig{Sources: []skills.Source{filter(memory(converter(t)), func(_ context.Context, turn *actions.Turn, _ *skills.Skill) bool { return userOf(turn) == "mia" })}})
	type attach struct {
		Skill    string           `json:"skill"`
		Resource string           `json:"resource"`
		Skills   *skills.Provider `host:"skills"`
	}
	actions.Add(r.reg, "attach", "", func(ctx context.Context, turn *actions.Turn, in attach) (actions.Result, error) {
		data, err := in.Skills.Read(ctx, turn, in.Skill, in.Resource)
		if err != nil && !errors.Is(err, errBoom) {
			return actions.Fail("%v", err), nil
		}
		return actions.Text("%d bytes of %s", len(data.Bytes), data.MediaType), err
	})
	for entities, want := range map[string]string{
		`{"skill":"Unit-converter","resource":"logo"}`: "9 bytes of image/png",
		`{"skill":"unit-converter","resource":"none"}`: "Resource 'none' not found in skill 'unit-converter'.",
	} {
		if got := r.told(r.turn("mia"), "attach", entities); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := r.told(r.turn("otto"), "attach", `{"skill":"unit-converter","resource":"logo"}`); got != "Skill 'unit-converter' not found." {
		t.Errorf("somebody else: %q", got)
	}
	if _, err := r.call(r.turn("mia"), "attach", `{"skill":"unit-converter","resource":"broken.md"}`); !errors.Is(err, errBoom) {
		t.Errorf("broken: %v", err)
	}
}

func TestPromptOfOneSkill(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.ProviderConfig{}, converter(t))
	got, err := r.Prompt(t.Context(), nil, "Unit-Converter")
	if err != nil || !strings.HasPrefix(got, "The skill unit-converter is loaded. ") || !strings.Contains(got, converter(t).Content()) {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := r.Prompt(t.Context(), nil, "unit-convert"); err == nil || err.Error() != "Skill 'unit-convert' not found. Did you mean 'unit-converter'?" {
		t.Error(err)
	}
}
