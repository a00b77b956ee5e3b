package actions_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
)

// foreign is an action of another service with that schema.
func foreign(t *testing.T, text string) *actions.Action {
	t.Helper()
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(text), schema); err != nil {
		t.Fatal(err)
	}
	a, err := actions.AddSchema(actions.New(), "act", "", schema, nil, actions.Destructive, func(a *actions.Action) {
		a.Source = actions.Source{Connection: "svc", Remote: "act"}
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestNull: null is kept where the schema has it as a value, in whichever way that is said, and is otherwise
// the same as no value.
func TestNull(t *testing.T) {
	t.Parallel()
	const defs = `,"$defs":{"text":{"type":"string"},"maybe":{"type":["string","null"]}}`
	for property, isValue := range map[string]bool{
		`{"type":["string","null"]}`:                                         true,
		`{"type":["string","null"],"default":"x"}`:                           true,
		`{"anyOf":[{"$ref":"#/$defs/text"},{"type":"null"}]}`:                true,
		`{"oneOf":[{"type":"integer"},{"type":"null"}]}`:                     true,
		`{"oneOf":[{"type":"integer"},{"const":null}]}`:                      true,
		`{"allOf":[{"$ref":"#/$defs/maybe"}]}`:                               true,
		`{"$ref":"#/$defs/maybe"}`:                                           true,
		`{"enum":["a",null]}`:                                                true,
		`{"const":null}`:                                                     true,
		`{"type":"null"}`:                                                    true,
		`{"not":{"type":"string"}}`:                                          true,
		`{}`:                                                                 true,
		`{"type":["array","null"],"items":{"type":"string"}}`:                true,
		`{"type":"string"}`:                                                  false,
		`{"type":"string","default":null}`:                                   false,
		`{"enum":["a","b"]}`:                                                 false,
		`{"type":["string","null"],"enum":["a"]}`:                            false,
		`{"anyOf":[{"type":"string"},{"type":"integer"}]}`:                   false,
		`{"oneOf":[{"type":["string","null"]},{"type":["integer","null"]}]}`: false, // null fits both, so none
		`{"allOf":[{"$ref":"#/$defs/maybe"},{"type":"string"}]}`:             false,
		`{"$ref":"#/$defs/text"}`:                                            false,
	} {
		a := foreign(t, `{"type":"object","properties":{"a":`+property+`,"in":{"type":"object","properties":{"b":`+property+`}}}`+defs+`}`)
		got, err := a.Check(map[string]any{"a": nil, "in": map[string]any{"b": nil}})
		if err != nil {
			t.Errorf("%s: %v", property, err)
			continue
		}
		want := map[string]any{"in": map[string]any{}}
		if isValue {
			want = map[string]any{"a": nil, "in": map[string]any{"b": nil}}
		} else if strings.Contains(property, `"default":"x"`) {
			want["a"] = "x"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", property, diff)
		}
	}
	a := foreign(t, `{"type":"object","properties":{"list":{"type":"array","items":{"type":["string","null"]}}}}`)
	if got, err := a.Check(map[string]any{"list": []any{"x", nil}}); err != nil || len(got["list"].([]any)) != 2 {
		t.Errorf("a null in a list: %v, %v", got, err)
	}
}

// TestNullInGo: an optional field that is null and one that is absent are the same, so both look the same to
// people, policies and hashes.
func TestNullInGo(t *testing.T) {
	t.Parallel()
	type line struct {
		Note *string `json:"note,omitempty"`
		Tags []int   `json:"tags"`
	}
	type input struct {
		Name *string `json:"name,omitempty"`
		Line line    `json:"line"`
		Any  any     `json:"any,omitempty"`
	}
	a := actions.Add(actions.New(), "act", "", func(context.Context, *actions.Turn, input) (actions.Result, error) { return actions.Done, nil })
	got, err := a.Check(map[string]any{"name": nil, "any": nil, "line": map[string]any{"note": nil, "tags": nil}})
	if diff := cmp.Diff(map[string]any{"line": map[string]any{"tags": nil}}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

// TestRequiredByAnotherService: its schema decides what a value is. A call with one that says nothing is made,
// and is less likely to be meant.
func TestRequiredByAnotherService(t *testing.T) {
	t.Parallel()
	a := foreign(t, `{"type":"object","required":["text","maybe","in"],"properties":{
		"text":{"type":"string"},"maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},"note":{"type":"string"},
		"in":{"type":"object","required":["name"],"properties":{"name":{"type":["string","null"]},"note":{"type":"string"}}}}}`)
	sound := map[string]any{"text": "x", "maybe": "y", "note": "", "in": map[string]any{"name": "z", "note": ""}}
	with := func(name string, value any) map[string]any {
		out := maps.Clone(sound)
		out[name] = value
		return out
	}
	for _, entities := range []map[string]any{
		with("text", ""), with("text", " \n"), with("text", "<text>"), with("text", "<value>"), with("maybe", nil), with("maybe", ""),
		with("in", map[string]any{"name": nil}), with("in", map[string]any{"name": ""}),
	} {
		got, err := a.Check(entities)
		if diff := cmp.Diff(entities, got); diff != "" || err != nil {
			t.Errorf("%v: %v, -want +got\n%s", entities, err, diff)
		}
		if !a.Doubtful(entities) {
			t.Errorf("%v is not doubtful", entities)
		}
	}
	if a.Doubtful(sound) || a.Doubtful(map[string]any{}) {
		t.Error("values that say something are doubtful")
	}
	absent := maps.Clone(sound)
	delete(absent, "maybe")
	for entities, missing := range map[*map[string]any]string{&absent: "maybe", ptr(with("text", nil)): "text"} {
		if _, err := a.Check(*entities); err == nil || err.Error() != "missing required entity "+missing {
			t.Errorf("%v: %v", *entities, err)
		}
	}
	own := orderAction(t)
	if own.Doubtful(map[string]any{"title": ""}) || !slices.Contains(own.Schema.Required, "title") {
		t.Error("an action of our own has other rules")
	}
}

func ptr[T any](value T) *T { return &value }
