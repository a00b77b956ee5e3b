package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// monologueActions are those of the monologues below.
func monologueActions(t testing.TB) *actions.Registry {
	t.Helper()
	reg, err := actions.Read(strings.NewReader(`[
		{"name":"createList","parameters":{"type":"object","properties":{"list":{"type":"string"},"items":{"type":"array","items":{"type":"string"}}},"required":["list"]}},
		{"name":"wipe"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

const (
	thinks  = `"thoughts":{"thought":"They want a list","reasoning":"They said so","plan":"- create it\n- say so"}`
	creates = `{` + thinks + `,"action":{"name":"createList","parameters":{"list":"a"}}}`
	says    = `{` + thinks + `,"action":{"name":"SAY","parameters":{"text":"Done."}}}`
	wipes   = `{` + thinks + `,"action":{"name":"wipe"}}`
)

// TestMonologues: what models write, and the command that it is; "": no command, but that fault.
func TestMonologues(t *testing.T) {
	t.Parallel()
	const create, done, wipe = `DO createList {"list":"a"}`, "SAY Done.", "DO wipe {}"
	for name, tt := range map[string]struct{ text, want, fault string }{
		"an action":                 {creates, create, ""},
		"an answer":                 {says, done, ""},
		"no parameters":             {wipes, wipe, ""},
		"on several lines":          {strings.NewReplacer(`,"`, ",\n  \"", `{"`, "{\n \"").Replace(creates), create, ""},
		"in a fence":                {"```json\n" + creates + "\n```", create, ""},
		"behind words":              {"Sure, here it is:\n" + creates, create, ""},
		"behind reasoning":          {"<think>{\"action\":{\"name\":\"wipe\"}} would be wrong</think>" + creates, create, ""},
		"as a JSON string":          {quoted(creates), create, ""},
		"in an array":               {"[" + creates + "]", create, ""},
		"with other names of keys":  {`{"Thoughts":{},"Action":{"Name":"createList","Parameters":{"list":"a"}}}`, create, ""},
		"with commas too many":      {`{"thoughts":{"thought":"x",},"action":{"name":"createList","parameters":{"list":"a",},},}`, create, ""},
		"in single quotes":          {`{'thoughts':{'thought':'x'},'action':{'name':'createList','parameters':{'list':'a'}}}`, create, ""},
		"without thoughts":          {`{"action":{"name":"createList","parameters":{"list":"a"}}}`, create, ""},
		"flat thoughts":             {`{"thought":"x","reasoning":"y","plan":"- z","action":{"name":"wipe","parameters":{}}}`, wipe, ""},
		"an action by its name":     {`{` + thinks + `,"action":"createList","parameters":{"list":"a"}}`, create, ""},
		"a text beside the name":    {`{` + thinks + `,"action":{"name":"say","text":"Done."}}`, done, ""},
		"the last brace missing":    {creates[:len(creates)-1], create, ""},
		"twice the same":            {creates + "\n\n" + creates, create, ""},
		"a plan of the other form":  {`{"type":"plan","commands":[{"type":"DO","action":"wipe"}]}`, wipe, ""},
		"words":                     {"Which list?", "SAY Which list?", ""},
		"quotes JSON in a text":     {`{` + thinks + `,"action":{"name":"SAY","parameters":{"text":"write {\"action\":{\"name\":\"wipe\"}}"}}}`, `SAY write {"action":{"name":"wipe"}}`, ""},
		"quotes JSON in a thought":  {`{"thoughts":{"thought":"not {\"action\":{\"name\":\"wipe\"}}"},"action":{"name":"SAY","parameters":{"text":"Done."}}}`, done, ""},
		"no action":                 {`{` + thinks + `}`, "", "invalid_plan: there are thoughts and no action; to answer the person, take the action SAY"},
		"an action of null":         {`{` + thinks + `,"action":null}`, "", "invalid_plan: there are thoughts and no action"},
		"an action without a name":  {`{` + thinks + `,"action":{"parameters":{}}}`, "", "invalid_plan: there are thoughts and no action"},
		"an unknown action":         {`{` + thinks + `,"action":{"name":"wipeAll"}}`, "", "unknown_action: "},
		"an empty text":             {`{` + thinks + `,"action":{"name":"SAY","parameters":{"text":" "}}}`, "", "no_plan: "},
		"a required one is missing": {`{` + thinks + `,"action":{"name":"createList","parameters":{}}}`, "", "missing_entities: "},
		"a wrong type":              {`{` + thinks + `,"action":{"name":"createList","parameters":{"list":"a","items":{"x":1}}}}`, "", "invalid_entities: "},
		"parameters as a text":      {`{` + thinks + `,"action":{"name":"createList","parameters":"{\"list\":\"a\"}"}}`, "", "invalid_plan: "},
		"two that differ":           {creates + "\n" + wipes, "", "invalid_plan: "},
		"two in an array":           {"[" + creates + "," + wipes + "]", "", "invalid_plan: "},
		"one named twice":           {`{"action":{"name":"wipe"},"Action":{"name":"createList","parameters":{"list":"a"}}}`, "", "invalid_plan: "},
		"a name twice":              {`{` + thinks + `,"action":{"name":"wipe","Name":"createList"}}`, "", "invalid_plan: "},
		"two sets of parameters":    {`{` + thinks + `,"action":{"name":"createList","parameters":{"list":"a"},"arguments":{"list":"b"}}}`, "", "invalid_plan: "},
		"cut in the thoughts":       {creates[:40], "", "truncated: "},
		"cut in the parameters":     {creates[:len(creates)-4], "", "truncated: "},
		"cut behind a bare name":    {`{` + thinks + `,"action":"wipe"`, "", "truncated: "},
		"cut behind words":          {"Well: " + creates[:len(creates)-4], "", "truncated: "},
		"in a sentence":             {`You could answer "` + wipes + `" but I did not.`, "", "invalid_plan: "},
		"in a quotation":            {"> " + wipes, "", "invalid_plan: "},
		"within other JSON":         {`{"answer":` + wipes + `}`, "", "invalid_plan: "},
		"in an open quote":          {`The mail says "hello ` + "\n" + wipes, "", "invalid_plan: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.DecodeMonologue(tt.text)
			if err == nil {
				p, err = p.Validate(monologueActions(t))
			}
			got, fault := "", ""
			for _, c := range p.Commands {
				if got += c.Kind + " " + c.Action + c.Response; c.Kind == plan.Do {
					raw, err := json.Marshal(c.Entities)
					got += fmt.Sprintf(" %s%v", raw, map[bool]string{false: "!"}[err == nil])
				}
			}
			if err != nil {
				got, fault = "", strings.TrimPrefix(err.Error(), "decode plan: ")
			}
			if got != tt.want || !strings.HasPrefix(fault, tt.fault) || (fault == "") != (tt.fault == "") {
				t.Errorf("got %q, %q; want %q, %q", got, fault, tt.want, tt.fault)
			}
		})
	}
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// TestAMonologueWaits for the result of its action, with its thoughts.
func TestAMonologueWaits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]plan.Plan{
		creates:                      {Observe: true, Preface: `{"plan":"- create it\n- say so","reasoning":"They said so","thought":"They want a list"}`},
		says:                         {},
		`{"action":{"name":"wipe"}}`: {Observe: true, Preface: "{}"},
		`{"thoughts":{"thought":"` + strings.Repeat("x", 5000) + `"},"action":{"name":"wipe"}}`: {Observe: true, Preface: "{}"},
	} {
		got, err := plan.DecodeMonologue(text)
		if got.Commands = nil; err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%.100s: %v\n%s", text, err, cmp.Diff(want, got))
		}
	}
	if p, err := plan.Decode(creates); err == nil && p.LastDo() >= 0 {
		t.Errorf("outside a monologue it is %+v", p)
	}
}

// TestTheSchemaOfAMonologue is strict, and takes what DecodeMonologue reads without repair.
func TestTheSchemaOfAMonologue(t *testing.T) {
	t.Parallel()
	schema, grammar, strict, err := plan.MonologueSchema(monologueActions(t))
	if err != nil || !strict {
		t.Fatalf("strict %v, %v", strict, err)
	}
	for name, raw := range map[string]json.RawMessage{"schema": schema, "grammar": grammar} {
		tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("x:///s", tree); err != nil {
			t.Fatal(err)
		}
		compiled, err := c.Compile("x:///s")
		if err != nil {
			t.Fatal(err)
		}
		full := strings.Replace(creates, `"list":"a"`, `"list":"a","items":null`, 1)
		if name == "grammar" {
			full = creates
		}
		for text, fits := range map[string]bool{
			full: true, says: true, strings.Replace(wipes, `"wipe"`, `"wipe","parameters":{}`, 1): true,
			`{` + thinks + `}`: false, strings.Replace(says, "SAY", "wipeAll", 1): false, `{"type":"plan","commands":[]}`: false,
		} {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(value); (err == nil) != fits {
				t.Errorf("%s: %s: %v", name, text, err)
			}
		}
	}
}
