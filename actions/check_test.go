package actions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
)

// checked is the schema that the tests of Check use, in the form of actions.json.
const checked = `[{"name":"order","parameters":{"type":"object","required":["title"],
 "$defs":{"size":{"type":"string","enum":["small","large"]}},
 "properties":{
  "title":{"type":"string","maxLength":20},
  "count":{"type":"integer","minimum":1,"maximum":100},
  "ratio":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},
  "urgent":{"type":"boolean"},
  "size":{"$ref":"#/$defs/size"},
  "level":{"enum":[1,2,3]},
  "kind":{"const":"pizza"},
  "tags":{"type":"array","items":{"type":"string","minLength":1},"maxItems":2},
  "numbers":{"type":["array","null"],"items":{"type":"integer"}},
  "code":{"type":"string","pattern":"^[A-Z]+$"},
  "day":{"type":"string","format":"date"},
  "either":{"anyOf":[{"type":"integer"},{"type":"string","minLength":3}]},
  "both":{"allOf":[{"type":"integer"},{"minimum":5}]},
  "quantity":{"type":"integer","default":1},
  "who":{"type":"object","required":["name"],"additionalProperties":{"type":"integer"},
    "properties":{"name":{"type":"string"},"vip":{"type":"boolean","default":false}}},
  "closed":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}},
  "any":{}
 }}}]`

func orderAction(t *testing.T) *actions.Action {
	t.Helper()
	reg, err := actions.Read(strings.NewReader(checked))
	if err != nil {
		t.Fatal(err)
	}
	action, ok := reg.Lookup("order")
	if !ok {
		t.Fatal("no action")
	}
	return action
}

// entities reads the entities of a call as a plan's are read, with a title.
func entities(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	m := map[string]any{"title": "x"}
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCheck: what fits, and what comes of it. The title and the default are left
// out of what is wanted.
func TestCheck(t *testing.T) {
	t.Parallel()
	action := orderAction(t)
	for given, want := range map[string]string{
		`{}`:                             `{}`,
		`{"count":42}`:                   `{"count":42}`,
		`{"count":"42"}`:                 `{"count":42}`,
		`{"count":4.0}`:                  `{"count":4}`,
		`{"count":1.2e1}`:                `{"count":12}`,
		`{"count":null}`:                 `{}`,
		`{"ratio":"0.50"}`:               `{"ratio":0.50}`,
		`{"title":42}`:                   `{"title":"42"}`,
		`{"title":1.50}`:                 `{"title":"1.50"}`,
		`{"title":true}`:                 `{"title":"true"}`,
		`{"title":"<br>"}`:               `{"title":"<br>"}`,
		`{"title":"0"}`:                  `{"title":"0"}`,
		`{"urgent":"True"}`:              `{"urgent":true}`,
		`{"urgent":false}`:               `{"urgent":false}`,
		`{"size":"large"}`:               `{"size":"large"}`,
		`{"level":2.0}`:                  `{"level":2.0}`,
		`{"kind":"pizza"}`:               `{"kind":"pizza"}`,
		`{"tags":["a",7]}`:               `{"tags":["a","7"]}`,
		`{"tags":[]}`:                    `{"tags":[]}`,
		`{"numbers":null}`:               `{"numbers":null}`,
		`{"quantity":null}`:              `{"quantity":1}`,
		`{"closed":{"a":null}}`:          `{"closed":{}}`,
		`{"who":{"name":"","vip":null}}`: `{"who":{"name":"","vip":false}}`,
		`{"numbers":["1",2]}`:            `{"numbers":[1,2]}`,
		`{"code":"ABC"}`:                 `{"code":"ABC"}`,
		`{"day":"2026-11-20"}`:           `{"day":"2026-11-20"}`,
		`{"either":"7"}`:                 `{"either":7}`,
		`{"either":"seven"}`:             `{"either":"seven"}`,
		`{"either":"777"}`:               `{"either":"777"}`,
		`{"both":"7"}`:                   `{"both":7}`,
		`{"quantity":3}`:                 `{"quantity":3}`,
		`{"who":{"name":"Mia"}}`:         `{"who":{"name":"Mia","vip":false}}`,
		`{"who":{"name":7,"age":"8"}}`:   `{"who":{"name":"7","vip":false,"age":8}}`,
		`{"closed":{"a":"b","c":1}}`:     `{"closed":{"a":"b","c":1}}`,
		`{"any":{"x":[null]},"new":1}`:   `{"any":{"x":[null]},"new":1}`,
	} {
		in := entities(t, given)
		before := entities(t, given)
		got, err := action.Check(in)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if err := action.CheckBefore(in, nil); err != nil {
			t.Errorf("%s: before: %v", given, err)
		}
		expect := map[string]any{"quantity": json.Number("1")}
		for name, value := range entities(t, want) {
			expect[name] = value
		}
		if diff := cmp.Diff(expect, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", given, diff)
		}
		if diff := cmp.Diff(before, in); diff != "" {
			t.Errorf("%s was changed\n%s", given, diff)
		}
	}
}

// TestCheckFaults: what does not fit, and how the error says it.
func TestCheckFaults(t *testing.T) {
	t.Parallel()
	action := orderAction(t)
	for given, want := range map[string]string{
		`{"title":null}`:                        "missing required entity title",
		`{"title":" \n"}`:                       "missing required entity title",
		`{"title":"<TITLE>"}`:                   "missing required entity title",
		`{"title":"< value >"}`:                 "missing required entity title",
		`{"title":null,"Title":"a"}`:            "missing required entity title",
		`{"title":["a"]}`:                       "entity title: want a string, got an array",
		`{"title":"aaaaaaaaaaaaaaaaaaaaaaaaa"}`: `entity title: want maxLength 20, got the string "aaaaaaaaaaaaaaaaaaaaaaaaa"`,
		`{"count":"4x"}`:                        `entity count: want an integer, got the string "4x"`,
		`{"count":""}`:                          `entity count: want an integer, got the string ""`,
		`{"count":4.5}`:                         "entity count: want an integer, got the number 4.5",
		`{"count":true}`:                        "entity count: want an integer, got true",
		`{"count":1e999999999}`:                 `entity count: want an integer, got the string "1e999999999"`,
		`{"count":0}`:                           "entity count: want minimum 1, got the number 0",
		`{"count":"101"}`:                       "entity count: want maximum 100, got the number 101",
		`{"ratio":1}`:                           "entity ratio: want exclusiveMaximum 1, got the number 1",
		`{"ratio":0}`:                           "entity ratio: want exclusiveMinimum 0, got the number 0",
		`{"urgent":"yes"}`:                      `entity urgent: want a boolean, got the string "yes"`,
		`{"urgent":1}`:                          "entity urgent: want a boolean, got the number 1",
		`{"size":"Large"}`:                      `entity size: want one of small, large, got the string "Large"`,
		`{"level":4}`:                           "entity level: want one of 1, 2, 3, got the number 4",
		`{"kind":"pasta"}`:                      `entity kind: want const pizza, got the string "pasta"`,
		`{"tags":"a"}`:                          `entity tags: want an array, got the string "a"`,
		`{"tags":["a",{}]}`:                     "entity tags.1: want a string, got an object",
		`{"tags":["a",""]}`:                     `entity tags.1: want minLength 1, got the string ""`,
		`{"tags":["a","b","c"]}`:                "entity tags: want maxItems 2, got an array",
		`{"who":{"name":null}}`:                 "entity who.name: want a string, got null",
		`{"numbers":[1,null]}`:                  "entity numbers.1: want an integer, got null",
		`{"code":"abc"}`:                        `entity code: want pattern ^[A-Z]+$, got the string "abc"`,
		`{"day":"tomorrow"}`:                    `entity day: want format date, got the string "tomorrow"`,
		`{"either":"no"}`:                       `entity either: want an integer, got the string "no"`,
		`{"both":4}`:                            "entity both: want minimum 5, got the number 4",
		`{"who":{}}`:                            "entity who.name: want a value, got none",
		`{"who":{"name":"a","age":"old"}}`:      `entity who.age: want an integer, got the string "old"`,
		`{"who":"Mia"}`:                         `entity who: want an object, got the string "Mia"`,
		`{"count":"x","ratio":"y"}`:             `entity count: want an integer, got the string "x"`,
	} {
		_, err := action.Check(entities(t, given))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", given, err, want)
		}
		if before := action.CheckBefore(entities(t, given), nil); before == nil || before.Error() != want {
			t.Errorf("%s: before: got %v", given, before)
		}
	}
}

// TestCheckErrors: the errors carry what code needs of them.
func TestCheckErrors(t *testing.T) {
	t.Parallel()
	action := orderAction(t)
	_, err := action.Check(map[string]any{})
	var missing *actions.EntityError
	if !errors.As(err, &missing) || cmp.Diff([]string{"title"}, missing.Missing) != "" {
		t.Errorf("got %v", err)
	}
	_, err = action.Check(entities(t, `{"who":{"name":[]}}`))
	var wrong *actions.EntityError
	if !errors.As(err, &wrong) || wrong.Path != "who.name" {
		t.Errorf("got %v", err)
	}
}

// TestEntityFault: the form for logs holds nothing that the model wrote.
func TestEntityFault(t *testing.T) {
	t.Parallel()
	action := orderAction(t)
	for given, want := range map[string]string{
		`{"count":"secret"}`:                "entity count: want an integer",
		`{"tags":["secret",{}]}`:            "entity tags.1: want a string",
		`{"code":"secret"}`:                 "entity code: want pattern ^[A-Z]+$",
		`{"who":{"vip":true}}`:              "entity who.name: want a value",
		`{"who":{"name":"a","secret":"x"}}`: "entity who.*: want an integer",
	} {
		_, err := action.Check(entities(t, given))
		var wrong *actions.EntityError
		if !errors.As(err, &wrong) || wrong.Fault() != want || wrong.Fault() == wrong.Error() {
			t.Errorf("%s: %v, want the fault %q", given, err, want)
		}
	}
}

// TestCheckBefore: a text that will be replaced fits everywhere, also within an
// entity; it does not stand for what is missing.
func TestCheckBefore(t *testing.T) {
	t.Parallel()
	action := orderAction(t)
	later := func(text string) bool { return strings.Contains(text, "$") }
	for given, fits := range map[string]bool{
		`{"count":"$N"}`:                 true,
		`{"tags":"$T","who":"$W"}`:       true,
		`{"numbers":[1,"$N"]}`:           true,
		`{"who":{"name":"a","b":"$N"}}`:  true,
		`{"size":"a $S"}`:                true,
		`{"numbers":[1,"N"]}`:            false,
		`{"title":"","count":"$N"}`:      false,
		`{"count":"$N","urgent":"soon"}`: false,
	} {
		if err := action.CheckBefore(entities(t, given), later); (err == nil) != fits {
			t.Errorf("%s: %v", given, err)
		}
	}
}

// TestCheckOfAnOlderDraft: schemas from elsewhere often name draft 7.
func TestCheckOfAnOlderDraft(t *testing.T) {
	t.Parallel()
	reg, err := actions.Read(strings.NewReader(`[{"name":"a","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://example.com/a",
		"type":"object","properties":{"n":{"type":"array","items":{"$ref":"#/definitions/n"}}},"definitions":{"n":{"type":"integer"}}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := reg.Lookup("a")
	got, err := a.Check(map[string]any{"n": []any{"7"}})
	if diff := cmp.Diff(map[string]any{"n": []any{json.Number("7")}}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	if _, err := a.Check(map[string]any{"n": []any{"x"}}); err == nil || err.Error() != `entity n.0: want an integer, got the string "x"` {
		t.Errorf("got %v", err)
	}
	for _, ref := range []string{"file:///etc/passwd", "https://example.com/b", "other.json"} {
		if _, err := actions.Read(strings.NewReader(`[{"name":"a","parameters":{"properties":{"n":{"$ref":"` + ref + `"}}}}]`)); err == nil {
			t.Errorf("%s was read", ref)
		}
	}
}

// TestCheckOfForeignSchemas: formats that nobody checks hide nothing, a default of null is none, and
// unknown entities within alternatives are no faults.
func TestCheckOfForeignSchemas(t *testing.T) {
	t.Parallel()
	reg, err := actions.Read(strings.NewReader(`[{"name":"a","parameters":{"type":"object","properties":{
		"to":{"type":"string","format":"email","pattern":"@contoso\\.com$"},"x":{"type":"string","default":null},
		"o":{"anyOf":[{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"},"dryRun":{"type":"boolean","default":true}}}]}}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := reg.Lookup("a")
	if got, err := a.Check(map[string]any{"to": "everyone"}); err == nil {
		t.Errorf("checked %v", got)
	}
	got, err := a.Check(map[string]any{"o": map[string]any{"n": "5", "note": "x"}})
	want := map[string]any{"o": map[string]any{"n": json.Number("5"), "note": "x", "dryRun": true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

// TestCheckThenCall: what Check returns is what the action's own type reads.
func TestCheckThenCall(t *testing.T) {
	t.Parallel()
	type line struct {
		Item  string `json:"item"`
		Count int    `json:"count"`
	}
	type input struct {
		Name  *string  `json:"name"`
		Lines []line   `json:"lines"`
		Tags  []string `json:"tags,omitempty"`
		Size  string   `json:"size,omitempty" enum:"small,large" default:"small"`
	}
	var got input
	action := actions.Add(actions.New(), "order", "Orders", func(_ context.Context, _ *actions.Turn, in input) (actions.Result, error) {
		got = in
		return actions.Done, nil
	})
	checked, err := action.Check(map[string]any{
		"name":  json.Number("7"),
		"lines": []any{map[string]any{"item": "milk", "count": "2"}, map[string]any{"item": "eggs", "count": json.Number("1.2e1"), "x": true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := action.Call(t.Context(), &actions.Turn{}, checked); err != nil {
		t.Fatal(err)
	}
	seven := "7"
	want := input{Name: &seven, Lines: []line{{"milk", 2}, {"eggs", 12}}, Size: "small"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
