package record_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/planbot-go/planbot/app/record"
)

const schemaFile = "scenario.schema.json"

// TestSchemaHasAllFields: the schema and the types name the same fields.
func TestSchemaHasAllFields(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]reflect.Type{
		"scenario": reflect.TypeFor[record.Scenario](), "step": reflect.TypeFor[record.Step](), "event": reflect.TypeFor[record.Event](),
		"answer": reflect.TypeOf(record.Step{}.Model).Elem(), "expect": reflect.TypeFor[record.Expect](), "action": reflect.TypeFor[record.Action](),
		"seed": reflect.TypeOf(record.Scenario{}.Seed), "options": reflect.TypeOf(record.Scenario{}.Options), "state": reflect.TypeOf(record.Expect{}.State).Elem(),
	} {
		var fields []string
		for i := range of.NumField() {
			if field, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); field != "-" {
				fields = append(fields, field)
			}
		}
		slices.Sort(fields)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(schema.Defs[name].Properties)), fields); diff != "" {
			t.Errorf("%s: -schema +type\n%s", name, diff)
		}
	}
}
