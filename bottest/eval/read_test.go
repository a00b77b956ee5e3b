package eval_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// registry is that of the default bot, and an action with entities of all kinds.
func registry() *actions.Registry {
	r := actions.New()
	lists.Register(r)
	reminders.Register(r)
	type order struct {
		Size   string         `json:"size,omitempty" enum:"small,large" default:"small"`
		Count  int            `json:"count"`
		Spicy  bool           `json:"spicy,omitempty"`
		To     map[string]int `json:"to,omitempty"`
		Inside struct {
			Toppings []string `json:"toppings,omitempty"`
		} `json:"inside,omitzero"`
	}
	actions.Add(r, "order", "Orders", func(context.Context, *actions.Turn, order) (actions.Result, error) { return actions.Done, nil })
	return r
}

// TestExamples: each example is a case, with values that the action takes.
func TestExamples(t *testing.T) {
	t.Parallel()
	r := actions.New()
	type order struct {
		Size  string    `json:"size" enum:"s,l" labels:"Small,Large"`
		Count int       `json:"count,omitempty"`
		At    time.Time `json:"at,omitzero"`
		Extra []string  `json:"extra,omitempty"`
		Name  string    `json:"name,omitempty"`
	}
	actions.Add(r, "order", "Orders", func(context.Context, *actions.Turn, order) (actions.Result, error) { return actions.Done, nil },
		actions.Example("order {count} {size} with {extra...} for {name} at {at}", "order something", "a {size} one", "a {size} one"))
	actions.Add(r, "menu", "Shows the menu", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.Example("what is there?"))
	cases, err := eval.Examples(r)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]any{}
	for _, c := range cases {
		if c.Name != c.Say || c.Lang != "en" || len(c.Want) != 1 || len(c.Want[0]) != 1 {
			t.Errorf("case %+v", c)
		}
		got[c.Say] = c.Want[0][0].Entities
	}
	want := map[string]map[string]any{
		"order 3 Small with Charlie for Delta at 2035-01-31T09:00:00Z": {
			"count": json.Number("3"), "size": "s", "extra": []any{"Charlie"}, "name": "Delta", "at": "2035-01-31T09:00:00Z",
		},
		"a Small one": {"size": "s"}, "what is there?": {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := eval.Examples(actions.New()); err == nil || !strings.Contains(err.Error(), "name a file") {
		t.Errorf("without examples: %v", err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	const text = `
cases:
- name: no
  lang: no
  say: yes
  history:
  - say: Make a list for camping.
    did: [{createList: {list: camping, items: [tent]}}]
    reply: Done.
  - say: Thanks.
  lists: {camping: [tent, torch]}
  want:
  - summarizeLists
  - order: {count: 2, spicy: true, size: null}
  or:
  - say
  - - addItem: {list: [a, b], item: "*"}
  unwanted: [deleteList]
- name: hello
  lang: en
  say: Hello!
  want: say
`
	got, err := eval.Read("f.yaml", []byte(text), registry())
	if err != nil {
		t.Fatal(err)
	}
	do := func(action string, entities map[string]any) plan.Command {
		return plan.Command{Kind: plan.Do, Action: action, Entities: entities}
	}
	did := `{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"items":["tent"],"list":"camping"}},{"type":"SAY","response":"Done."}]}`
	want := []eval.Case{
		{
			Name: "no", Lang: "no", Say: "yes",
			History: []prompts.Turn{
				{Messages: []prompts.Message{{Role: "user", Text: "Make a list for camping."}, {Role: "assistant", Text: did}}},
				{Messages: []prompts.Message{{Role: "user", Text: "Thanks."}}},
			},
			Lists: []lists.List{{Name: "camping", Items: []lists.Item{{Name: "tent"}, {Name: "torch"}}}},
			Want: [][]plan.Command{
				{do("summarizeLists", map[string]any{}), do("order", map[string]any{"count": json.Number("2"), "spicy": true, "size": nil})},
				nil,
				{do("addItem", map[string]any{"list": []any{"a", "b"}, "item": "*"})},
			},
			Unwanted: []string{"deleteList"},
		},
		{Name: "hello", Lang: "en", Say: "Hello!", Want: [][]plan.Command{nil}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadFaults has each fault in a case that is right but for that.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "cases: [\nx: 1", "f.yaml:1: no YAML: "},
		{"a key twice", "cases: []\ncases: []", "f.yaml:2: no YAML: mapping key \"cases\" already defined"},
		{"nothing", "", `f.yaml: there are no cases`},
		{"two documents", "cases: []\n---\ncases: []", "f.yaml:2: no YAML: a second document begins"},
		{"too deep", "cases:\n" + strings.Repeat("[", 100_000), "f.yaml:2: no YAML: too large: more than 500 levels"},
		{"a list", "- a", `f.yaml: cannot be a list`},
		{"no cases", "cases: []", `f.yaml: there are no cases`},
		{"another field", "tests: []", `f.yaml: unknown field "tests"`},
		{"cases that are none", "cases: 3", `f.yaml: cases: cannot be a number`},
		{"a field of a case", one("wants: say"), `f.yaml: case "x": unknown field "wants"`},
		{"no name", "cases:\n- {lang: en, say: a, want: say}", `f.yaml: case 1: name is missing`},
		{"an empty name", "cases:\n- {name: ' ', lang: en, say: a, want: say}", `f.yaml: case " ": name is missing`},
		{"no language", "cases:\n- {name: x, say: a, want: say}", `f.yaml: case "x": lang is missing`},
		{"nothing said", "cases:\n- {name: x, lang: en, want: say}", `f.yaml: case "x": say is missing`},
		{"nothing wanted", "cases:\n- {name: x, lang: en, say: a}", `f.yaml: case "x": want is missing`},
		{"a number said", "cases:\n- {name: x, lang: en, say: 7, want: say}", `f.yaml: case "x": say: cannot be a number`},
		{"a name twice", "cases:\n- {name: x, lang: en, say: a, want: say}\n- {name: x, lang: en, say: a, want: say}", `f.yaml: case "x": another case has the same name`},
		{"history of texts", one("history: [hello]"), `f.yaml: case "x": history: cannot be a text`},
		{"history of nobody", one("history: [{reply: hello}]"), `f.yaml: case "x": history: say is missing`},
		{"history of no action", one("history: [{say: hi, did: [fly]}]"), `f.yaml: case "x": there is no action "fly", have createList`},
		{"a list of numbers", one("lists: {a: [1]}"), `f.yaml: case "x": lists: cannot be a number`},
		{"or one plan", one("or: [{summarizeLists: {}}]"), `f.yaml: case "x": want a list of actions or the word say, have {"summarizeLists":{}}`},
		{"unwanted text", one("unwanted: deleteList"), `f.yaml: case "x": unwanted: cannot be a text`},
		{"unwanted and unknown", one("unwanted: [fly]"), `f.yaml: case "x": there is no action "fly", have createList`},
		{"wanted and unwanted", one("or: [[summarizeLists]]\n  unwanted: [summarizeLists]"), `f.yaml: case "x": unwanted: summarizeLists is wanted, too`},
		{"wanted nothing", wanted("[]"), `f.yaml: case "x": a list of no actions; where there is nothing to do, want the word say`},
		{"wanted a word", wanted("nothing"), `f.yaml: case "x": want a list of actions or the word say, have "nothing"`},
		{"wanted a mapping", wanted("{summarizeLists: {}}"), `f.yaml: case "x": want a list of actions or the word say, have {"summarizeLists":{}}`},
		{"unknown action", wanted("[{fly: {to: x}}]"), `f.yaml: case "x": there is no action "fly", have createList`},
		{"another spelling", wanted("[additem]"), `f.yaml: case "x": there is no action "additem", but addItem`},
		{"two actions", wanted("[{summarizeLists: {}, listReminders: {}}]"), `f.yaml: case "x": want an action, or one action with its entities, have {"listReminders":{},"summarizeLists":{}}`},
		{"unknown entity", wanted("[{addItem: {list: a, item: b, count: 1}}]"), `f.yaml: case "x": addItem has no entity "count"`},
		{"entities in a list", wanted("[{addItem: [list]}]"), `f.yaml: case "x": want an action, or one action with its entities, have {"addItem":["list"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := eval.Read("f.yaml", []byte(c.text), registry())
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// one is a case with one field more, in line 5.
func one(field string) string {
	return "cases:\n- name: x\n  lang: en\n  say: a\n  " + field + "\n  want: say"
}

func wanted(plan string) string {
	return "cases:\n- {name: x, lang: en, say: a,\n   want: " + plan + "}"
}

// TestReadText: what editors on Windows write before a text is no part of it, and what is no
// text is refused.
func TestReadText(t *testing.T) {
	t.Parallel()
	text := wanted("say")
	if cases, err := eval.Read("f.yaml", []byte("\ufeff"+text), registry()); err != nil || len(cases) != 1 {
		t.Errorf("with a byte order mark: %v, %v", cases, err)
	}
	for text, want := range map[string]string{
		strings.Replace(text, "say: a", "say: M\xfcsli", 1): "f.yaml:2: no YAML: it is not UTF-8",
		"cases: []\n# \xff":                 "f.yaml:2: no YAML: it is not UTF-8",
		"\xff\xfec\x00a\x00s\x00e\x00s\x00": "f.yaml:1: no YAML: it is not UTF-8",
	} {
		if _, err := eval.Read("f.yaml", []byte(text), registry()); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadTellsEveryFault(t *testing.T) {
	t.Parallel()
	other := actions.New()
	reminders.Register(other)
	_, err := eval.Read("f.yaml", []byte(wanted("[{addItem: {list: a, items: b}}, fly]")), other, registry())
	if got := strings.Count(err.Error(), "\n") + 1; got < 2 || !strings.Contains(err.Error(), `"addItem", have remindMe`) {
		t.Errorf("%d faults: %v", got, err)
	}
}
