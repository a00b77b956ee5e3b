package actions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/texts"
)

type order struct {
	Dish     string   `json:"dish" jsonschema:"what to cook"`
	Size     string   `json:"size,omitempty" enum:"small, large" default:"small"`
	Quantity int      `json:"quantity" default:"1"`
	Extras   []string `json:"extras,omitempty" enum:"cheese,olives"`
	Address  *address `json:"address,omitempty"`
}

type address struct {
	Street string `json:"street"`
	Kind   string `json:"kind,omitempty" enum:"home,work"`
}

func nothing(context.Context, *actions.Turn, order) (actions.Result, error) {
	return actions.Done, nil
}

func TestAddMakesTheSchemaFromTheType(t *testing.T) {
	t.Parallel()
	a := actions.Add(actions.New(), "cook", "Cooks", nothing)
	raw, err := json.Marshal(a.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	properties := got["properties"].(map[string]any)
	for path, want := range map[string]any{
		"dish":     map[string]any{"type": "string", "description": "what to cook"},
		"size":     map[string]any{"type": "string", "enum": []any{"small", "large"}, "default": "small"},
		"quantity": map[string]any{"type": "integer", "default": 1.0},
	} {
		if diff := cmp.Diff(want, properties[path]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff([]any{"dish"}, got["required"]); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	items := properties["extras"].(map[string]any)["items"].(map[string]any)
	if diff := cmp.Diff([]any{"cheese", "olives"}, items["enum"]); diff != "" {
		t.Errorf("enum of a slice (-want +got):\n%s", diff)
	}
	kind := properties["address"].(map[string]any)["properties"].(map[string]any)["kind"].(map[string]any)
	if diff := cmp.Diff([]any{"home", "work"}, kind["enum"]); diff != "" {
		t.Errorf("enum of a nested struct (-want +got):\n%s", diff)
	}
}

func TestAddPanicsOnWiringMistakes(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	actions.Add(registry, "cook", "Cooks", nothing)
	type odd struct {
		N int `json:"n" default:"one"`
	}
	for name, add := range map[string]func(){
		"name taken":    func() { actions.Add(registry, "cook", "Cooks again", nothing) },
		"unusable name": func() { actions.Add(registry, "co ok", "Cooks", nothing) },
		"no struct": func() {
			actions.Add(registry, "a", "", func(context.Context, *actions.Turn, string) (actions.Result, error) { return actions.Done, nil })
		},
		"default no int": func() {
			actions.Add(registry, "b", "", func(context.Context, *actions.Turn, odd) (actions.Result, error) { return actions.Done, nil })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			add()
		}()
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	for _, name := range []string{"cook", "Bake", "fry", "FRY"} {
		actions.Add(registry, name, "", nothing)
	}
	for name, want := range map[string]string{"cook": "cook", "COOK": "cook", "bake": "Bake", "fry": "fry", "FRY": "FRY", "Fry": "", "boil": "", "": ""} {
		a, ok := registry.Lookup(name)
		if got := nameOf(a); got != want || ok != (want != "") {
			t.Errorf("Lookup(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	if all := registry.All(); len(all) != 4 || all[0].Name != "cook" || all[3].Name != "FRY" {
		t.Errorf("All is not in the order of registration: %v", all)
	}
}

func nameOf(a *actions.Action) string {
	if a == nil {
		return ""
	}
	return a.Name
}

func TestCallDecodesTheEntities(t *testing.T) {
	t.Parallel()
	var got order
	a := actions.Add(actions.New(), "cook", "Cooks", func(_ context.Context, _ *actions.Turn, in order) (actions.Result, error) {
		got = in
		return actions.Text("100% cooked"), nil
	})
	result, err := a.Call(t.Context(), nil, map[string]any{
		"dish": "pasta", "quantity": json.Number("2"), "extras": []any{"cheese"},
		"address": map[string]any{"street": "Elm St"}, "unknown": true,
	})
	if err != nil || result.Text() != "100% cooked" {
		t.Fatalf("result %q, %v", result.Text(), err)
	}
	want := order{Dish: "pasta", Quantity: 2, Extras: []string{"cheese"}, Address: &address{Street: "Elm St"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCallContainsPanicsAndNamesTheAction(t *testing.T) {
	t.Parallel()
	cause := errors.New("no gas")
	registry := actions.New()
	broken := actions.Add(registry, "broken", "", func(context.Context, *actions.Turn, order) (actions.Result, error) { panic("boom") })
	failing := actions.Add(registry, "failing", "", func(context.Context, *actions.Turn, order) (actions.Result, error) {
		return actions.Result{}, cause
	})
	if _, err := broken.Call(t.Context(), nil, nil); !errors.Is(err, actions.ErrPanic) || !strings.Contains(err.Error(), "boom") {
		t.Errorf("panic: %v", err)
	}
	if _, err := failing.Call(t.Context(), nil, nil); !errors.Is(err, cause) || !strings.Contains(err.Error(), "failing") {
		t.Errorf("error: %v", err)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result          actions.Result
		text            string
		value           any
		failed, observe bool
	}{
		"done":          {actions.Done, "", "", false, false},
		"text":          {actions.Text("a %d", 1), "a 1", "a 1", false, false},
		"json":          {actions.JSON(map[string]int{"n": 1}), `{"n":1}`, map[string]any{"n": json.Number("1")}, false, false},
		"json as it is": {actions.JSON("<a> & b"), `"<a> & b"`, "<a> & b", false, false},
		"observe text":  {actions.Observe("look"), "look", "look", false, true},
		"observe json":  {actions.Observe([]int{1}), "[1]", []any{json.Number("1")}, false, true},
		"fail":          {actions.Fail("no %s", "gas"), "no gas", "no gas", true, false},
	} {
		value, err := c.result.Value()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.value, value); diff != "" || c.result.Text() != c.text || c.result.Failed() != c.failed || c.result.Observe() != c.observe {
			t.Errorf("%s: text %q, failed %v, observe %v, value (-want +got):\n%s", name, c.result.Text(), c.result.Failed(), c.result.Observe(), diff)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	registry, err := actions.Read(strings.NewReader(`[
		{"name":"close","description":"Closes","parameters":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},"destructive":true,"approval":true},
		{"name":"list","returns_data":true,"unknown":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	a, ok := registry.Lookup("close")
	if !ok || !a.Destructive || !a.Approval || a.ReturnsData || a.Schema.Properties["id"].Type != "integer" {
		t.Errorf("close: %+v", a)
	}
	if _, err := a.Call(t.Context(), nil, nil); err == nil {
		t.Error("an action without a function ran")
	}
	tools, err := actions.Read(strings.NewReader(`[
		{"type":"function","function":{"name":"Pizza-add","description":"Adds","parameters":{"type":"object","properties":{"size":{"enum":["S","L"]}},"required":["size"]}}},
		{"type":"function","name":"Pizza-pay"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if add, ok := tools.Lookup("Pizza-add"); !ok || add.Description != "Adds" || !slices.Equal(add.Schema.Required, []string{"size"}) || len(tools.All()) != 2 {
		t.Errorf("tools as OpenAI takes them: %+v", add)
	}
	for name, in := range map[string]string{
		"no JSON":      `{`,
		"no list":      `{}`,
		"name twice":   `[{"name":"a"},{"name":"a"}]`,
		"bad name":     `[{"name":"a b"}]`,
		"no object":    `[{"name":"a","parameters":{"type":"string"}}]`,
		"null":         `[{"name":"a","parameters":{"properties":{"x":null}}}]`,
		"null within":  `[{"name":"a","parameters":{"properties":{"x":{"type":"array","items":{"type":"object","properties":{"y":null}}}}}}]`,
		"two mistakes": `[{"name":""},{"name":"a","parameters":{"type":"array"}}]`,
	} {
		_, err := actions.Read(strings.NewReader(in))
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if name == "two mistakes" && (!strings.Contains(err.Error(), "entry 0") || !strings.Contains(err.Error(), "entry 1")) {
			t.Errorf("%s: not all are listed: %v", name, err)
		} else if name == "null within" && !strings.Contains(err.Error(), `entry 0: action a: `) || name == "null within" && !strings.Contains(err.Error(), `'/properties/x/items/properties/y': got null`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleAdd() {
	type addItem struct {
		List string `json:"list" jsonschema:"name of the list"`
		Item string `json:"item" jsonschema:"what to add"`
	}
	registry := actions.New()
	action := actions.Add(registry, "addItem", "Adds an item to a list",
		func(_ context.Context, _ *actions.Turn, in addItem) (actions.Result, error) {
			return actions.Text("%s is on %s now", in.Item, in.List), nil
		})
	result, err := action.Call(context.Background(), &actions.Turn{}, map[string]any{"list": "groceries", "item": "milk"})
	fmt.Println(result.Text(), err)
	// Output: milk is on groceries now <nil>
}

func ExampleRegistry_OnForget() {
	orders := map[string]string{"29:mia": "tea"} // such as a table of a database
	registry := actions.New()
	registry.OnForget(func(_ context.Context, turn *actions.Turn) (keeps string, err error) {
		delete(orders, turn.Activity.From.ID)
		return "invoices", nil
	})
	// Mia says "/forget yes":
	mia := &activity.Activity{}
	mia.From.ID = "29:mia"
	keeps, err := registry.Forget(context.Background(), &actions.Turn{Activity: mia})
	fmt.Println(len(orders), keeps, err)
	// Output: 0 [invoices] <nil>
}

func TestOnlyKeepsTheOrderOfTheOffer(t *testing.T) {
	t.Parallel()
	all := actions.New()
	for _, name := range []string{"a", "b", "c"} {
		actions.Add(all, name, "does "+name, nothing, actions.StateOnly)
	}
	only, err := all.Only(actions.Offer{Name: "c", Description: "is c"}, actions.Offer{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range only.All() {
		got = append(got, fmt.Sprint(a.Name, ": ", a.Description, ", ", a.StateOnly))
	}
	if diff := cmp.Diff([]string{"c: is c, true", "a: does a, true"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, ok := only.Lookup("b"); ok {
		t.Error("b is not offered")
	}
	if c, _ := all.Lookup("c"); c.Description != "does c" {
		t.Errorf("the registered action changed to %q", c.Description)
	}
	_, err = all.Only(actions.Offer{Name: "A"}, actions.Offer{Name: "a"}, actions.Offer{Name: "a"}, actions.Offer{Name: "d"})
	if err == nil || err.Error() != "no action \"A\"\naction name \"a\" is taken\nno action \"d\"" {
		t.Errorf("got %v", err)
	}
}

func TestAddSchemaTakesASchemaThatIsData(t *testing.T) {
	t.Parallel()
	r := actions.New()
	schema := &jsonschema.Schema{
		Type: "object", Required: []string{"n"},
		Properties: map[string]*jsonschema.Schema{"n": {Type: "integer"}, "s": {Type: "string", Default: []byte(`"x"`)}},
	}
	echo := func(_ context.Context, _ *actions.Turn, entities map[string]any) (actions.Result, error) {
		return actions.JSON(entities), nil
	}
	a, err := actions.AddSchema(r, "echo", "Echoes", schema, echo, actions.Parallel)
	if err != nil || !a.Parallel || a.Description != "Echoes" {
		t.Fatalf("got %+v, %v", a, err)
	}
	entities, err := a.Check(map[string]any{"n": "42"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.Call(t.Context(), &actions.Turn{}, entities)
	if err != nil || result.Text() != `{"n":42,"s":"x"}` {
		t.Errorf("got %s, %v", result.Text(), err)
	}
	for _, wrong := range []struct {
		name   string
		schema *jsonschema.Schema
	}{{"echo", schema}, {"not a name", schema}, {"list", &jsonschema.Schema{Type: "array"}}, {"none", nil}} {
		if _, err := actions.AddSchema(r, wrong.name, "", wrong.schema, echo); err == nil || !strings.Contains(err.Error(), wrong.name) {
			t.Errorf("%s: got %v", wrong.name, err)
		}
	}
}

func noop[In any](context.Context, *actions.Turn, In) (actions.Result, error) {
	return actions.Done, nil
}

type put struct {
	Item string `json:"item"`
	List string `json:"list,omitempty" title:"Which list"`
}

func TestExamples(t *testing.T) {
	t.Parallel()
	r := actions.New()
	a := actions.Add(r, "put", "", noop[put], actions.Example("put {item...} on {list}", "add {item}"))
	if !slices.Equal(a.Examples, []string{"put {item...} on {list}", "add {item}"}) {
		t.Errorf("examples %q", a.Examples)
	}
	catalog, err := texts.New(map[string]map[string]string{"de": {"put {item...} on {list}": "lege {item...} auf {list}", "Which list": "Welche Liste"}})
	if err != nil {
		t.Fatal(err)
	}
	german := &actions.Turn{Activity: &activity.Activity{Locale: "de"}, Texts: catalog}
	if got := a.Phrase(german); got != "lege {Eintrag} auf {Welche Liste}" {
		t.Errorf("in German %q", got)
	}
	if got := a.Phrase(&actions.Turn{}); got != "put {Item} on {Which list}" {
		t.Errorf("in English %q", got)
	}
	if got := actions.Add(r, "noExample", "", noop[put]).Phrase(&actions.Turn{}); got != "" {
		t.Errorf("without an example %q", got)
	}
}

// TestRegistryCheck: every mistake in what people read is listed at once.
func TestRegistryCheck(t *testing.T) {
	t.Parallel()
	r := actions.New()
	actions.Add(r, "put", "", noop[put], actions.Title("Put it"), actions.Example("put {items}", "put {}", "put {item} on {list}"))
	actions.Add(r, "putMore", "", noop[put], actions.Title("Put it"))
	if a := actions.Add(r, "put_more", "", noop[put]); a.Title != "Put more" {
		t.Errorf("title %q", a.Title)
	}
	if a := actions.Add(r, "Put-more", "", noop[put]); a.Title != "Put-more" {
		t.Errorf("another title that would be the same: %q", a.Title)
	}
	want := `action put: the example "put {items}" has a slot {items}, which is no entity
action put: the example "put {}" has a slot {}, which is no entity
action putMore has the title "Put it" of put`
	if err := r.Check(); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	for text, want := range map[string]string{
		`[{"name":"a","examples":["do {b}"]}]`:                            "{b}",
		`[{"name":"a","title":"Do it"},{"name":"b","title":"Do it"},{}]`:  "Do it",
		`[{"name":"a","title":"Do it"},{"name":"b","title":"Do it"},{} ]`: "entry 2",
	} {
		if _, err := actions.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
