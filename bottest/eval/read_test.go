package eval_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/bottest/eval"
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
	want := []eval.Case{
		{
			Name: "no", Lang: "no", Say: "yes",
			History: []eval.Exchange{
				{Say: "Make a list for camping.", Did: []eval.Call{{"createList", map[string]any{"list": "camping", "items": []any{"tent"}}}}, Reply: "Done."},
				{Say: "Thanks."},
			},
			Lists: []lists.List{{Name: "camping", Items: []lists.Item{{Name: "tent"}, {Name: "torch"}}}},
			Want: [][]eval.Call{
				{{"summarizeLists", map[string]any{}}, {"order", map[string]any{"count": json.Number("2"), "spicy": true, "size": nil}}},
				nil,
				{{"addItem", map[string]any{"list": []any{"a", "b"}, "item": "*"}}},
			},
			Unwanted: []string{"deleteList"},
		},
		{Name: "hello", Lang: "en", Say: "Hello!", Want: [][]eval.Call{nil}},
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
		{"nothing", "", "f.yaml:1: there is nothing in the file"},
		{"two documents", "cases: []\n---\ncases: []", "f.yaml:2: no YAML: a second document begins"},
		{"too deep", "cases:\n" + strings.Repeat("[", 100_000), "f.yaml:2: no YAML: too large: more than 500 levels"},
		{"a list", "- a", "f.yaml:1: want a mapping, have a list"},
		{"no cases", "cases: []", "f.yaml:1: there are no cases"},
		{"another field", "tests: []", "f.yaml:1: tests: no such field, have cases"},
		{"cases that are none", "cases: 3", "f.yaml:1: cases: want a list, have 3"},
		{"a field of a case", one("wants: say"), `f.yaml:5: case "x": wants: no such field, have history, lang, lists, name, or, say, unwanted, want`},
		{"no name", "cases:\n- {lang: en, say: a, want: say}", "f.yaml:2: cases[0]: name is missing"},
		{"an empty name", "cases:\n- {name: ' ', lang: en, say: a, want: say}", "f.yaml:2: cases[0]: name: is empty"},
		{"no language", "cases:\n- {name: x, say: a, want: say}", `f.yaml:2: case "x": lang is missing`},
		{"nothing said", "cases:\n- {name: x, lang: en, want: say}", `f.yaml:2: case "x": say is missing`},
		{"nothing wanted", "cases:\n- {name: x, lang: en, say: a}", `f.yaml:2: case "x": want is missing`},
		{"a number said", "cases:\n- {name: x, lang: en, say: 7, want: say}", `f.yaml:2: case "x": say: want a text, have 7 (in quotes it would be a text)`},
		{"a name twice", "cases:\n- {name: x, lang: en, say: a, want: say}\n- {name: x, lang: en, say: a, want: say}", `f.yaml:3: case "x": another case has the same name`},
		{"an anchor", "cases:\n- {name: &n x, lang: en, say: a, want: say}", `f.yaml:2: cases[0]: name: want a text, have an anchor, an alias or a tag, which are not read`},
		{"history of texts", one("history: [hello]"), `f.yaml:5: case "x": history[0]: want a mapping, have a text`},
		{"history of nobody", one("history: [{reply: hello}]"), `f.yaml:5: case "x": history[0]: say is missing`},
		{"history of no action", one("history: [{say: hi, did: [fly]}]"), `f.yaml:5: case "x": history[0].did[0]: there is no action "fly", have createList, `},
		{"a list of numbers", one("lists: {a: [1]}"), `f.yaml:5: case "x": lists.a[0]: want a text, have 1`},
		{"or one plan", one("or: [{summarizeLists: {}}]"), `f.yaml:5: case "x": or[0]: want a list, have a mapping`},
		{"unwanted text", one("unwanted: deleteList"), `f.yaml:5: case "x": unwanted: want a list, have a text`},
		{"unwanted and unknown", one("unwanted: [fly]"), `f.yaml:5: case "x": unwanted: there is no action "fly", have createList`},
		{"wanted and unwanted", one("or: [[summarizeLists]]\n  unwanted: [summarizeLists]"), `f.yaml:6: case "x": unwanted: summarizeLists is wanted, too`},
		{"wanted nothing", wanted("[]"), `f.yaml:3: case "x": want: is empty; where there is nothing to do it is: say`},
		{"wanted a word", wanted("nothing"), `f.yaml:3: case "x": want: want a list of actions or the word say, have "nothing"`},
		{"wanted a mapping", wanted("{summarizeLists: {}}"), `f.yaml:3: case "x": want: want a list, have a mapping`},
		{"unknown action", wanted("[{fly: {to: x}}]"), `f.yaml:3: case "x": want[0].fly: there is no action "fly", have createList`},
		{"another spelling", wanted("[additem]"), `f.yaml:3: case "x": want[0]: there is no action "additem", but addItem`},
		{"two actions", wanted("[{summarizeLists: {}, listReminders: {}}]"), `f.yaml:3: case "x": want[0].listReminders: is a second action: each is an element of its own`},
		{"unknown entity", wanted("[{addItem: {list: a, item: b, count: 1}}]"), `f.yaml:3: case "x": want[0].addItem.count: addItem has no such entity`},
		{"missing entity", wanted("[{addItem: {list: a}}]"), `f.yaml:3: case "x": want[0]: addItem cannot be planned like that: `},
		{"wrong type", wanted("[{order: {count: many}}]"), `f.yaml:3: case "x": want[0]: order cannot be planned like that: entity count`},
		{"wrong type of an alternative", wanted("[{order: {count: [1, 2, many]}}]"), `f.yaml:3: case "x": want[0]: order cannot be planned like that: entity count`},
		{"wrong type inside", wanted("[{order: {count: 1, inside: {toppings: [{}]}}}]"), `f.yaml:3: case "x": want[0]: order cannot be planned like that: entity inside.toppings[0]`},
		{"entities in a list", wanted("[{addItem: [list]}]"), `f.yaml:3: case "x": want[0].addItem: want a mapping, have a list`},
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
	_, err := eval.Read("f.yaml", []byte(wanted("[{addItem: {list: a, items: b}}, fly]")), registry(), other)
	if got := strings.Count(err.Error(), "\n") + 1; got < 3 || !strings.Contains(err.Error(), `"addItem", have remindMe`) {
		t.Errorf("%d faults: %v", got, err)
	}
	if _, err := eval.Read("f.yaml", []byte(strings.Repeat("#", 5<<20)), registry()); err == nil || err.Error() != "f.yaml:1: the file has more than 4 MiB" {
		t.Errorf("a large file: %v", err)
	}
}
