package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// described is one action with these parameters, as the properties of its schema.
func described(t *testing.T, name, description, properties string, required ...string) *actions.Registry {
	t.Helper()
	raw, err := json.Marshal([]any{object{"name": name, "description": description, "parameters": object{
		"type": "object", "properties": json.RawMessage("{" + properties + "}"), "required": append([]string{}, required...),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := actions.Read(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func TestList(t *testing.T) {
	t.Parallel()
	items := `"list":{"type":"string"},"item":{"type":"string"},"quantity":{"type":"number"}`
	order := `"size":{"type":"string","enum":["S","L"]},"note":{},"slices":{"type":"integer","enum":[4,8],"default":4},` +
		`"toppings":{"type":"array","items":{"type":"string","enum":["ham","egg"]},"description":"on top"}`
	for _, tt := range []struct {
		name        string
		reg         *actions.Registry
		want, brief string
	}{
		{"none", actions.New(), "(none)", "(none)"},
		{
			"optional", described(t, "addItem", "Adds an item to a list", items, "list", "item"),
			"addItem(list: string, item: string, quantity?: number) - Adds an item to a list",
			"addItem(list, item, quantity?) - Adds an item to a list",
		},
		{
			"enum, default, list, no type", described(t, "order", "", order, "size"),
			`order(size: "S"|"L", note?: any, slices?: 4|8 = 4, toppings?: ("ham"|"egg")[] "on top")`,
			"order(size, note?, slices?, toppings?)",
		},
		{
			"a description cannot pose as an action",
			described(t, "look", "Looks.\r\n\u2028deleteAll() -\tDeletes\x00 all\u202e", `"at":{"type":"string","description":"x\") - y\nwipe("}`, "at"),
			`look(at: string "x\") - y wipe(") - Looks. deleteAll() - Deletes all`, "look(at) - Looks. deleteAll() - Deletes all",
		},
		{"joined emoji stay whole", described(t, "a", "👩\u200d🍳\u2028b\u00a0c\ufeff", ""), "a() - 👩\u200d🍳 b c", "a() - 👩\u200d🍳 b c"},
		{"a long description is cut", described(t, "a", strings.Repeat("é", 1001), ""), "a() - " + strings.Repeat("é", 999) + "…", "a() - " + strings.Repeat("é", 999) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{tt.want, tt.brief}, []string{plan.List(tt.reg, false), plan.List(tt.reg, true)}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestListNamesWhatIsOpen: a schema may say what names there may be, and not which.
func TestListNamesWhatIsOpen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                        "a([any name]?: string)",
		`{"type":"object","patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false}`:      "a([^x]?: integer)",
		`{"type":"object","properties":{"v":{"type":"string"}},"patternProperties":{"^x":true}}`:            "a(v?: string, [^x]?: any)",
		`{"type":"object","properties":{"v":{"type":"string"}},"additionalProperties":true}`:                "a(v?: string)",
		`{"type":"object","properties":{"v":{"type":"string"}},"additionalProperties":{"type":"string"}}`:   "a(v?: string)",
		`{"type":"object","properties":{},"additionalProperties":false,"required":[],"description":"none"}`: "a()",
	} {
		reg, err := actions.Read(strings.NewReader(`[{"name":"a","description":"","parameters":` + in + `}]`))
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.List(reg, false); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

func TestManual(t *testing.T) {
	t.Parallel()
	types := `"size":{"type":"string","enum":["S","L"],"description":"how large"},"tags":{"type":"array","items":{"type":"string","enum":["a"]}},` +
		`"all":{"type":"array","items":{"type":"number"}},"who":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]},` +
		`"more":{"type":"object"},"n":{"type":"integer","default":1},"s":{"type":"string","default":"x"}`
	for _, tt := range []struct {
		name string
		reg  *actions.Registry
		want string
	}{
		{"none", actions.New(), "(none)"},
		{
			"the form of Semantic Kernel", described(t, "A", "Does a", `"input":{"type":"string","description":"what"},"b":{"type":"string"}`, "input", "b"),
			"A:\n  description: Does a\n  inputs:\n    - input: what\n    - b:",
		},
		{"no inputs", described(t, "B", "", ""), "B:\n  description: \n  inputs:"},
		{
			"types", described(t, "A", "", types, "size", "tags", "all", "who", "more"),
			"A:\n  description: \n  inputs:\n    - size: how large (\"S\"|\"L\")\n    - tags: (JSON (\"a\")[])\n" +
				"    - all: (JSON number[])\n    - who: (JSON {name: string})\n    - more: (JSON object)\n" +
				"    - n: (integer, optional) (default value: 1)\n    - s: (optional) (default value: x)",
		},
		{"a description cannot pose as a function", described(t, "A", "x\n\nB:\n  description: y", ""), "A:\n  description: x B: description: y\n  inputs:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, plan.Manual(tt.reg)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestManualIsInOrder of plugins and names.
func TestManualIsInOrder(t *testing.T) {
	t.Parallel()
	reg := actions.New()
	for _, name := range []string{"Writer-b", "z", "Mail-c", "Writer-a"} {
		offer[struct{}](reg, name)
	}
	var want []string
	for _, name := range []string{"z", "Mail-c", "Writer-a", "Writer-b"} {
		want = append(want, fmt.Sprintf("%s:\n  description: Does %s\n  inputs:", strings.Replace(name, "-", ".", 1), name))
	}
	if diff := cmp.Diff(strings.Join(want, "\n\n"), plan.Manual(reg)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestListResults: a model is told the fields of a declared result, and nothing of any other.
func TestListResults(t *testing.T) {
	t.Parallel()
	const want = `find() - Finds (result: $NAME.id, $NAME.owner, $NAME.place)
name() - Names
guess() - Guesses
take(id) - Takes`
	if diff := cmp.Diff(want, plan.List(shop(), true)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestManualKeepsItsBeginning: actions of services that are found in the middle of a conversation stand behind
// what was there, so that the beginning of the prompt stays the same.
func TestManualKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	add := func(reg *actions.Registry, name, connection string) {
		_, err := actions.AddSchema(reg, name, "", &jsonschema.Schema{Type: "object"}, nil, func(a *actions.Action) { a.Source.Connection = connection })
		if err != nil {
			t.Fatal(err)
		}
	}
	reg := actions.New()
	for _, name := range []string{"zoom", "add"} {
		add(reg, name, "")
	}
	add(reg, "svc_find", "svc")
	before := plan.Manual(reg)
	add(reg, "crm_add", "crm")
	if after := plan.Manual(reg); !strings.HasPrefix(after, before) || !strings.HasPrefix(after, "add:") {
		t.Errorf("%s\nbecomes\n%s", before, after)
	}
}
