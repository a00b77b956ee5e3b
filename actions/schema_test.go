package actions_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

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
