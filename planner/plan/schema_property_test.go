package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

type object = map[string]any

// dice makes registries, and plans that follow a schema, at random.
type dice struct{ *rand.Rand }

func (d dice) one(of ...any) any { return of[d.IntN(len(of))] }

// registry is up to six actions, in the form of a file.
func (d dice) registry(t *testing.T, open bool) *actions.Registry {
	t.Helper()
	var list []object
	for i := range d.IntN(6) + 1 {
		parameters := d.object(3, open)
		parameters["$defs"] = object{"shared": object{"type": "string", "enum": []any{"x", "y"}}}
		list = append(list, object{"name": fmt.Sprintf("act%d", i), "parameters": parameters})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := actions.Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return reg
}

// nullable begins the names of what may be null.
const nullable = "or null "

func (d dice) object(depth int, open bool) object {
	properties, required := object{}, []string{}
	for i := range d.IntN(4) + 1 {
		name := d.one("list", "Item", "größe", `a"b`, "type").(string) + fmt.Sprint(i)
		schema := d.schema(depth-1, open)
		if open && d.IntN(4) == 0 { // what may be null, and need not be there, has no strict form
			name, schema = nullable+name, d.one(
				object{"type": []string{"string", "null"}}, object{"enum": []any{"x", nil}},
				object{"anyOf": []any{object{"$ref": "#/$defs/shared"}, object{"type": "null"}}},
				object{"oneOf": []any{object{"type": "array", "items": object{"type": []string{"integer", "null"}}}, object{"const": nil}}},
			).(object)
		}
		properties[name] = schema
		if d.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

func (d dice) schema(depth int, open bool) object {
	if depth > 0 && d.IntN(3) == 0 {
		return d.one(d.object(depth, open), object{"type": "array", "items": d.schema(depth-1, open)}).(object)
	}
	if open && d.IntN(3) == 0 {
		return d.one(object{}, object{"type": "object"}, object{"type": "array"}, object{"type": "object", "additionalProperties": object{"type": "integer"}}).(object)
	}
	return d.one(
		object{"type": "string"}, object{"type": "string", "format": "uri", "description": "an address"},
		object{"type": "integer"}, object{"type": "number"}, object{"type": "boolean"},
		object{"type": "integer", "default": 5},
		object{"type": "string", "enum": []any{"S", "L"}, "default": "S"}, object{"enum": []any{1, 2.5}},
		object{"type": []string{"integer", "boolean"}}, object{"const": "only"}, object{"$ref": "#/$defs/shared"},
		object{"anyOf": []any{object{"type": "integer"}, object{"type": "array", "items": object{"type": "boolean"}}}},
	).(object)
}

// value is a value that follows a schema in the words of PlanSchema.
func (d dice) value(s object) any {
	if branches, ok := s["anyOf"].([]any); ok {
		branches = slices.DeleteFunc(slices.Clone(branches), func(branch any) bool {
			options, _ := branch.(object)["enum"].([]any)
			variable := len(options) > 0 && options[0] == "$A" || len(branch.(object)) == 1 && branch.(object)["type"] == "string"
			return variable && len(branches) > 1 // which nothing may have saved
		})
		return d.value(branches[d.IntN(len(branches))].(object))
	}
	if options, ok := s["enum"].([]any); ok {
		return d.one(options...)
	}
	kind := s["type"]
	if kinds, ok := kind.([]any); ok {
		kind = d.one(kinds...)
	}
	switch kind {
	case "string":
		return d.text()
	case "integer":
		return json.Number(fmt.Sprint(d.IntN(2000) - 1000))
	case "number":
		return json.Number(fmt.Sprintf("%d.%de%d", d.IntN(100), d.IntN(100), d.IntN(9)))
	case "boolean":
		return d.IntN(2) == 0
	case "array":
		return d.list(s)
	case "object":
		return d.members(s)
	case "null":
		return nil
	default: // any
		return d.one("x", true, object{"y": []any{}}, json.Number("7"))
	}
}

func (d dice) list(s object) []any {
	items, ok := s["items"].(object)
	list := []any{}
	for range d.IntN(3) {
		if ok {
			list = append(list, d.value(items))
		}
	}
	return list
}

func (d dice) members(s object) object {
	m := object{}
	properties, _ := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		m[name] = d.value(properties[name].(object))
	}
	if others, ok := s["additionalProperties"].(object); ok {
		m["further"] = d.value(others)
	}
	return m
}

// text is never blank, and may look like what a decoder cuts off or repairs.
func (d dice) text() string {
	var b strings.Builder
	for range d.IntN(4) + 1 {
		b.WriteString(d.one("milk ", `"`, "\\", "{", "}]", "\n", "```", "</think>", "<|im_end|>", "//", "é🍕", "SAY", "\u2028", ",").(string))
	}
	return "a" + b.String()
}

// plan follows the schema, has a command, and keeps results under names. An action has the
// entities that the schema of a bot with no other action gives it.
func (d dice) plan(t *testing.T, reg *actions.Registry) object {
	var commands []any
	for range d.IntN(4) + 1 {
		only, err := reg.Only(actions.Offer{Name: reg.All()[d.IntN(len(reg.All()))].Name})
		if err != nil {
			t.Fatal(err)
		}
		schema, _, _ := planSchema(t, only, false)
		command := d.value(schema["properties"].(object)["commands"].(object)["items"].(object)).(object)
		if command["saveAs"] != nil {
			command["saveAs"] = d.one("A", "C")
		}
		commands = append(commands, command)
	}
	return object{"type": "plan", "commands": commands}
}

// planSchema is the schema of plans, as a value and ready to validate with.
func planSchema(t *testing.T, reg *actions.Registry, declared bool) (schema object, compiled *jsonschema.Schema, strict bool) {
	t.Helper()
	raw, _, strict, err := plan.Schema(reg, declared)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("plan.json", value); err != nil {
		t.Fatal(err)
	}
	if compiled, err = compiler.Compile("plan.json"); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return value.(object), compiled, strict
}

// planGrammar is the schema for servers that make a grammar of it.
func planGrammar(t *testing.T, reg *actions.Registry, declared bool) *jsonschema.Schema {
	t.Helper()
	_, raw, _, err := plan.Schema(reg, declared)
	if err != nil {
		t.Fatal(err)
	}
	if beside := regexp.MustCompile(`"type":\[[^]]*\],"[^r]`).Find(raw); beside != nil {
		t.Errorf("%s stands beside a list of types in %s", beside, raw)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("grammar.json", value); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("grammar.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestWhatFollowsTheSchemaCanRun: it decodes without repair, and validates, and
// every action takes its entities.
func TestWhatFollowsTheSchemaCanRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		d, open := dice{rand.New(rand.NewPCG(seed, 1))}, seed%3 == 0
		reg := d.registry(t, open)
		_, compiled, strict := planSchema(t, reg, false)
		grammar := planGrammar(t, reg, false)
		if !open && !strict {
			t.Fatalf("seed %d: not strict", seed)
		}
		for range 8 {
			written := d.plan(t, reg)
			raw, err := json.Marshal(written)
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(reread(t, raw)); err != nil {
				t.Fatalf("seed %d: the test's own plan is wrong: %v\n%s", seed, err, raw)
			}
			if err := runnable(string(raw), reg); err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, raw)
			}
			if err := grammar.Validate(withoutNulls(reread(t, raw))); err != nil {
				t.Errorf("seed %d: not by the grammar: %v\n%s", seed, err, raw)
			}
		}
	}
}

// withoutNulls leaves out what a grammar lets a model leave out.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if value[name] = withoutNulls(inner); inner == nil && !strings.HasPrefix(name, nullable) {
				delete(value, name)
			}
		}
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

func reread(t *testing.T, raw []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// runnable reads an answer as a turn does, and takes no repair for it.
func runnable(answer string, reg *actions.Registry) error {
	p, err := plan.Decode(answer)
	if err == nil {
		p, err = p.Validate(reg)
	}
	if err != nil || len(p.Repairs) > 0 || p.Salvaged || p.Prose {
		return fmt.Errorf("%w, repairs %v, salvaged %v, prose %v", err, p.Repairs, p.Salvaged, p.Prose)
	}
	for _, c := range p.Commands {
		if c.Kind != plan.Do {
			continue
		}
		action, _ := reg.Lookup(c.Action)
		if _, err := action.Check(c.Entities); err != nil {
			return err
		}
	}
	return nil
}

// TestTheSchemaRefuses what no plan may be.
func TestTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	reg := actions.New()
	offer[struct {
		List string `json:"list"`
		Size string `json:"size" enum:"S,L"`
		N    int    `json:"n,omitempty" enum:"1,2"`
	}](reg, "order")
	_, compiled, strict := planSchema(t, reg, false)
	if !strict {
		t.Error("not strict")
	}
	with := func(entities string) string {
		return `{"type":"plan","commands":[{"type":"DO","action":"order","entities":` + entities + `,"saveAs":null}]}`
	}
	if err := compiled.Validate(reread(t, []byte(with(`{"list":"a","size":"S","n":null}`)))); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]string{
		"an unknown action":    strings.Replace(with(`{"list":"a","size":"S","n":1}`), `"order"`, `"Order"`, 1),
		"a missing entity":     with(`{"size":"S","n":1}`),
		"null for one":         with(`{"list":null,"size":"S","n":1}`),
		"a wrong option":       with(`{"list":"a","size":"M","n":1}`),
		"a wrong number":       with(`{"list":"a","size":"S","n":3}`),
		"an invented entity":   with(`{"list":"a","size":"S","n":1,"who":"Mia"}`),
		"entities that are no": with(`null`),
		"a SAY without words":  `{"type":"plan","commands":[{"type":"SAY"}]}`,
		"a DO that says":       `{"type":"plan","commands":[{"type":"DO","response":"x"}]}`,
		"no commands":          `{"type":"plan"}`,
		"a command alone":      `{"type":"SAY","response":"x"}`,
	} {
		if compiled.Validate(reread(t, []byte(p))) == nil {
			t.Errorf("%s follows it", name)
		}
	}
}

// TestTheGrammarHoldsToMore: what the schema lets pass and no plan may be.
func TestTheGrammarHoldsToMore(t *testing.T) {
	t.Parallel()
	reg := actions.New()
	offer[struct {
		List string `json:"list"`
		Note string `json:"note,omitempty"`
	}](reg, "add")
	grammar := planGrammar(t, reg, false)
	_, schema, _ := planSchema(t, reg, false)
	for _, fits := range []string{
		`{"type":"plan","commands":[{"type":"DO","action":"add","entities":{"list":"a"},"saveAs":"A"},{"type":"SAY","response":"$A"}]}`,
		`{"type":"plan","commands":[{"type":"DO","action":"add","entities":{"list":"a","note":""}}]}`,
	} {
		if err := grammar.Validate(reread(t, []byte(fits))); err != nil {
			t.Errorf("%s: %v", fits, err)
		}
		if err := runnable(fits, reg); err != nil {
			t.Errorf("%s: %v", fits, err)
		}
	}
	for _, wrong := range []string{
		`{"type":"plan","commands":[]}`,
		`{"type":"plan","commands":[{"type":"SAY","response":""}]}`,
		`{"type":"plan","commands":[{"type":"DO","action":"add","entities":{"list":"","note":null},"saveAs":null}]}`,
		`{"type":"plan","commands":[{"type":"DO","action":"add","entities":{"list":"a","note":null},"saveAs":"the list"}]}`,
	} {
		if schema.Validate(reread(t, []byte(wrong))) != nil {
			t.Errorf("%s does not follow the schema, so this shows nothing", wrong)
		}
		if grammar.Validate(reread(t, []byte(wrong))) == nil {
			t.Errorf("%s follows the grammar", wrong)
		}
	}
}

// TestAVariableFollowsTheSchema in the place of what is no text.
func TestAVariableFollowsTheSchema(t *testing.T) {
	t.Parallel()
	reg := actions.New()
	offer[struct{}](reg, "find")
	offer[struct {
		ID   int      `json:"id"`
		Size string   `json:"size,omitempty" enum:"S,L"`
		Tags []string `json:"tags,omitempty"`
		Note string   `json:"note,omitempty"`
	}](reg, "close")
	_, compiled, strict := planSchema(t, reg, false)
	if !strict {
		t.Error("not strict")
	}
	with := func(saveAs, entities string) string {
		return `{"type":"plan","commands":[{"type":"DO","action":"find","entities":{},"saveAs":"` + saveAs + `"},` +
			`{"type":"DO","action":"close","entities":` + entities + `,"saveAs":null}]}`
	}
	for _, written := range []string{
		with("A", `{"id":"$A","size":null,"tags":null,"note":"see $A"}`), with("A", `{"id":1,"size":"$A","tags":["$A"],"note":null}`),
		with("TICKET", `{"id":"$TICKET","size":null,"tags":null,"note":null}`),
	} {
		if err := compiled.Validate(reread(t, []byte(written))); err != nil {
			t.Errorf("%s: %v", written, err)
		}
		p, err := plan.Decode(written)
		if err == nil {
			_, err = p.Validate(reg)
		}
		if err != nil {
			t.Errorf("%s: %v", written, err)
		}
	}
}

// TestTheVectorsFollowTheSchema: the plans that the vectors call valid do, once
// what they leave out is null, but for those that say more or in another type.
func TestTheVectorsFollowTheSchema(t *testing.T) {
	t.Parallel()
	reg := vectorActions(t)
	_, compiled, _ := planSchema(t, reg, false)
	count, others := 0, []string{}
	for _, v := range readVectors(t) {
		p, err := plan.Decode(v.Output)
		if err != nil || p.Prose || v.Expect.Commands == nil {
			continue
		}
		count++
		if compiled.Validate(filled(t, p, reg)) != nil {
			others = append(others, v.Name)
		}
	}
	if count < 50 {
		t.Errorf("only %d plans", count)
	}
	if diff := cmp.Diff([]string{"entities_extra_unknown_kept", "action_namespace_prefix"}, others); diff != "" {
		t.Error(diff)
	}
}

// filled is plan as a model writes it that has to write every key.
func filled(t *testing.T, p plan.Plan, reg *actions.Registry) any {
	t.Helper()
	var commands []any
	for _, c := range p.Commands {
		command := asMap(c)
		if action, ok := reg.Lookup(c.Action); ok {
			command["action"] = action.Name
			if c.SaveAs == "" {
				command["saveAs"] = nil
			}
			for name := range action.Schema.Properties {
				if _, given := c.Entities[name]; !given {
					c.Entities[name] = nil
				}
			}
		}
		commands = append(commands, command)
	}
	raw, err := json.Marshal(object{"type": "plan", "commands": commands})
	if err != nil {
		t.Fatal(err)
	}
	return reread(t, raw)
}

// TestNullIsAbsent: what a model writes that has to name every entity reaches the
// action as if it had named only those that have a value.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	var got every
	reg := actions.New()
	actions.Add(reg, "act", "", func(_ context.Context, _ *actions.Turn, in every) (actions.Result, error) {
		got = in
		return actions.Done, nil
	})
	_, compiled, _ := planSchema(t, reg, false)
	three, code := 3, "1050"
	for entities, want := range map[string]every{
		`{"text":"a","size":null,"level":null,"count":null,"ratio":null,"urgent":null,"tags":null,"at":null,"labels":null,"any":null,"address":null,"previous":null}`: {
			Text: "a", Size: "L", Count: &three,
		},
		`{"text":"a","size":"S","level":2,"count":3,"ratio":0.5,"urgent":true,"tags":["x"],"at":"2026-11-21T08:00:00Z","labels":{"a":1},"any":"b",` +
			`"address":{"city":"Wien","zip":"1050","kind":null,"note":null},"previous":[{"city":"Graz","zip":null,"kind":"work","note":"n"}]}`: {
			Text: "a", Size: "S", Level: 2, Count: &three, Ratio: 0.5, Urgent: true, Tags: []string{"x"}, Labels: map[string]int{"a": 1}, Any: "b",
			At:      time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC),
			Address: &address{City: "Wien", Zip: &code, Kind: "home"}, Previous: []address{{City: "Graz", Kind: "work", Note: "n"}},
		},
	} {
		written := `{"type":"plan","commands":[{"type":"DO","action":"act","entities":` + entities + `,"saveAs":null}]}`
		if err := compiled.Validate(reread(t, []byte(written))); err != nil {
			t.Errorf("%s does not follow the schema: %v", written, err)
		}
		if err := runnable(written, reg); err != nil {
			t.Error(err)
		}
		p, err := plan.Decode(written)
		if err != nil {
			t.Fatal(err)
		}
		action, _ := reg.Lookup("act")
		checked, err := action.Check(p.Commands[0].Entities)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := action.Call(t.Context(), &actions.Turn{}, checked); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", entities, diff)
		}
	}
}

// every has an entity of each kind.
type every struct {
	Text     string         `json:"text"`
	Size     string         `json:"size" enum:"S,L" default:"L"`
	Level    int            `json:"level,omitempty" enum:"1,2"`
	Count    *int           `json:"count,omitempty" default:"3"`
	Ratio    float64        `json:"ratio,omitempty"`
	Urgent   bool           `json:"urgent,omitempty"`
	Tags     []string       `json:"tags,omitempty"`
	At       time.Time      `json:"at,omitzero"`
	Labels   map[string]int `json:"labels,omitempty"`
	Any      any            `json:"any,omitempty"`
	Address  *address       `json:"address,omitempty"`
	Previous []address      `json:"previous,omitempty"`
}

type address struct {
	City string  `json:"city"`
	Zip  *string `json:"zip"`
	Kind string  `json:"kind,omitempty" enum:"home,work" default:"home"`
	Note string  `json:"note,omitempty"`
}

// TestDeclaredPlans: a model says first whether its plan is an answer; only a grammar can keep an
// answer free of DOs.
func TestDeclaredPlans(t *testing.T) {
	t.Parallel()
	reg := actions.New()
	offer[struct{}](reg, "ping")
	_, schema, strict := planSchema(t, reg, true)
	if !strict {
		t.Error("not strict")
	}
	grammar := planGrammar(t, reg, true)
	for _, raw := range schemas(t, reg) {
		if kind, commands := strings.Index(raw, `"type":{`), strings.Index(raw, `"commands":{`); kind < 0 || kind > commands {
			t.Errorf("the type does not come first: %s", raw)
		}
	}
	const say, do = `{"type":"SAY","response":"Hi."}`, `{"type":"DO","action":"ping","entities":{},"saveAs":"A"}`
	for text, holds := range map[string][2]bool{
		`{"type":"answer","commands":[` + say + `,` + say + `]}`: {true, true},
		`{"type":"plan","commands":[` + do + `,` + say + `]}`:    {true, true},
		`{"type":"plan","commands":[` + say + `]}`:               {true, true},
		`{"type":"answer","commands":[` + say + `,` + do + `]}`:  {true, false},
		`{"type":"answer","commands":[]}`:                        {true, false},
		`{"type":"other","commands":[` + say + `]}`:              {false, false},
		`{"commands":[` + say + `]}`:                             {false, false},
	} {
		value := reread(t, []byte(text))
		if got := [2]bool{schema.Validate(value) == nil, grammar.Validate(value) == nil}; got != holds {
			t.Errorf("%s: follows %v, want %v", text, got, holds)
		}
	}
}

// schemas are the schema and the grammar of declared plans.
func schemas(t *testing.T, reg *actions.Registry) []string {
	t.Helper()
	schema, grammar, _, err := plan.Schema(reg, true)
	if err != nil {
		t.Fatal(err)
	}
	return []string{string(schema), string(grammar)}
}
