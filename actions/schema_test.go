package actions_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/titles"
)

func addOf[In any](t *testing.T) *actions.Action {
	t.Helper()
	return actions.Add(actions.New(), "act", "", func(context.Context, *actions.Turn, In) (actions.Result, error) {
		return actions.Done, nil
	})
}

type sized struct {
	Size string `json:"size,omitempty" enum:"s,m"`
}

// TestAddKeepsEveryEnumAndDefault: whatever the field's name and type.
func TestAddKeepsEveryEnumAndDefault(t *testing.T) {
	t.Parallel()
	action := addOf[struct {
		Plain   string           `enum:"a,b" default:"a"`
		NoName  string           `json:",omitempty" enum:"a,b"`
		Count   int              `json:"count" enum:"1, 2" default:"2"`
		Pointer *string          `json:"pointer" default:"a<b"`
		Ratio   *float64         `json:"ratio,omitempty" enum:"0.5,1"`
		Sizes   map[string]sized `json:"sizes,omitempty"`
		Levels  [2]int           `json:"levels" enum:"1,2" default:"[1,2]"`
		Grid    [][]string       `json:"grid,omitempty" enum:"x,o"`
	}](t)
	got, err := action.Check(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Plain": "a", "count": json.Number("2"), "pointer": "a<b", "levels": []any{json.Number("1"), json.Number("2")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if text := string(action.Schema.Properties["pointer"].Default); text != `"a<b"` {
		t.Errorf("default in the schema: %s", text)
	}
	for given, fault := range map[string]string{
		`{"Plain":"c"}`:                `entity Plain: want one of a, b, got the string "c"`,
		`{"NoName":"c"}`:               `entity NoName: want one of a, b, got the string "c"`,
		`{"count":3}`:                  "entity count: want one of 1, 2, got the number 3",
		`{"count":"1"}`:                "",
		`{"ratio":0.7}`:                "entity ratio: want one of 0.5, 1, got the number 0.7",
		`{"sizes":{"a":{"size":"l"}}}`: `entity sizes.a.size: want one of s, m, got the string "l"`,
		`{"levels":[1,3]}`:             "entity levels.1: want one of 1, 2, got the number 3",
		`{"grid":[["x"],["y"]]}`:       `entity grid.1.0: want one of x, o, got the string "y"`,
	} {
		_, err := action.Check(entities(t, given))
		if text := textOf(err); text != fault {
			t.Errorf("%s: got %q, want %q", given, text, fault)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAddRefusesTagsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*testing.T) *actions.Action{
		`default: "1.5" does not fit int`: addOf[struct {
			N int `default:"1.5"`
		}],
		"default: zzz is not in the enum": addOf[struct {
			S string `enum:"a,b" default:"zzz"`
		}],
		`default: "300" does not fit int8`: addOf[struct {
			N int8 `default:"300"`
		}],
		"default: value out of range": addOf[struct {
			N int `default:"99999999999999999999"`
		}],
		`default: does not fit int`: addOf[struct {
			N int `default:"\"1\""`
		}],
		`enum: "2.5" does not fit int`: addOf[struct {
			N int `enum:"1,2.5"`
		}],
		`enum: "b" does not fit int`: addOf[struct {
			N int `enum:"1,b"`
		}],
		`"x" does not fit []string`: addOf[struct {
			L []string `default:"x"`
		}],
		"labels: 1 for an enum of 2 values": addOf[struct {
			S string `enum:"a,b" labels:"A"`
		}],
		"labels: 1 for an enum of 0 values": addOf[struct {
			S string `labels:"A"`
		}],
		`labels: " A" is empty or there twice`: addOf[struct {
			S string `enum:"a,b" labels:"A, A"`
		}],
		"it is no entity": addOf[struct {
			S string `json:"-" enum:"a"`
		}],
	} {
		func() {
			defer func() {
				said, _ := recover().(string)
				kind, want, _ := strings.Cut(name, ": ")
				if !strings.HasPrefix(said, "actions: ") || !strings.Contains(said, kind) || !strings.Contains(said, want) {
					t.Errorf("%s: panicked with %q", name, said)
				}
			}()
			add(t)
		}()
	}
}

// TestLabels: models learn what people call the values, and people read only that.
func TestLabels(t *testing.T) {
	t.Parallel()
	a := addOf[struct {
		Size   string   `json:"size" jsonschema:"how large" enum:"s,l" labels:"Small,Very large"`
		Levels []int    `json:"levels" enum:"1,2" labels:"Low,High"`
		Plain  []string `json:"plain" enum:"a"`
	}](t)
	size, levels := a.Schema.Properties["size"], a.Schema.Properties["levels"]
	if got := titles.Label(size, "l"); got != "Very large" || size.Description != "how large; s is Small, l is Very large" {
		t.Errorf("size: %q, %q", got, size.Description)
	}
	if got := titles.Label(levels.Items, json.Number("2")); got != "High" || levels.Description != "1 is Low, 2 is High" {
		t.Errorf("levels: %q, %q", got, levels.Description)
	}
	if got := titles.Label(a.Schema.Properties["plain"].Items, "a"); got != "" {
		t.Errorf("plain: %q", got)
	}
	if _, err := a.Check(entities(t, `{"size":"s","levels":[1,2],"plain":[]}`)); err != nil {
		t.Error(err)
	}
}

// TestLimits: the tags are in the schema, and what breaks them is a fault of the plan, before anybody approves it.
func TestLimits(t *testing.T) {
	t.Parallel()
	type order struct {
		Count int      `json:"count" minimum:"1" maximum:"10"`
		Share *float64 `json:"share,omitempty" minimum:"0.5"`
		Code  string   `json:"code,omitempty" pattern:"^[A-Z]{2}-[0-9]+$" maxLength:"6"`
		Names []string `json:"names,omitempty" minLength:"2"`
		Size  int      `json:"size,omitempty" maximum:"3" default:"2"`
	}
	r := actions.New()
	actions.Add(r, "order", "Orders", func(context.Context, *actions.Turn, order) (actions.Result, error) { return actions.Done, nil })
	a, _ := r.Lookup("order")
	raw, err := json.Marshal(a.Schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"minimum":1`, `"maximum":10`, `"minimum":0.5`, `"pattern":"^[A-Z]{2}-[0-9]+$"`, `"maxLength":6`, `"minLength":2`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	for text, fault := range map[string]string{
		`{"count":10,"share":0.5,"code":"AB-123","names":["Mia"]}`: "",
		`{"count":"10"}`:                  "",
		`{"count":99}`:                    "count: want maximum 10",
		`{"count":0}`:                     "count: want minimum 1",
		`{"count":1,"share":0.4}`:         "share: want minimum 0.5",
		`{"count":1,"code":"ab-1"}`:       "code: want pattern",
		`{"count":1,"code":"AB-1234"}`:    "code: want maxLength 6",
		`{"count":1,"names":["Mia","M"]}`: "names.1: want minLength 2",
		`{"count":1,"size":4}`:            "size: want maximum 3",
	} {
		var entities map[string]any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&entities); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Check(entities); fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: got %v, want %q", text, err, fault)
		}
	}
	wrong := map[string]func(*actions.Registry){
		"minimum: it is no number": addsOf[struct {
			X string `json:"x" minimum:"1"`
		}],
		"maxLength: it is no text": addsOf[struct {
			X int `json:"x" maxLength:"1"`
		}],
		`minLength: "-1" is no length`: addsOf[struct {
			X string `json:"x" minLength:"-1"`
		}],
		"pattern: error parsing": addsOf[struct {
			X string `json:"x" pattern:"("`
		}],
		"pattern: its type has a form of its own": addsOf[struct {
			X time.Time `json:"x" pattern:"a"`
		}],
		"minimum: it is above the maximum": addsOf[struct {
			X int `json:"x" minimum:"2" maximum:"1"`
		}],
		"action act: option 1 is nil":      func(r *actions.Registry) { actions.Add(r, "act", "Acts", noAction, nil) },
		"action act: an example is empty":  func(r *actions.Registry) { actions.Add(r, "act", "Acts", noAction, actions.Example("")) },
		"add act: the function is nil":     func(r *actions.Registry) { actions.Add[struct{}](r, "act", "Acts", nil) },
		"add refresh: the function is nil": func(r *actions.Registry) { actions.OnRefresh[struct{}](r, "refresh", nil) },
		"OnForget: the function is nil":    func(r *actions.Registry) { r.OnForget(nil) },
		`"cart" is taken, or has no name`:  func(r *actions.Registry) { actions.Provide[int](r, "cart", nil) },
		"default: 9 is not within the limits": addsOf[struct {
			X int `json:"x" maximum:"3" default:"9"`
		}],
	}
	for want, add := range wrong {
		collected := actions.New()
		collected.Collect = true
		add(collected)
		if err := collected.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func noAction(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
	return actions.Done, nil
}

func addsOf[In any](r *actions.Registry) {
	actions.Add(r, "act", "Acts", func(context.Context, *actions.Turn, In) (actions.Result, error) { return actions.Done, nil })
}
