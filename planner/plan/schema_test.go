package plan_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// offer registers an action with the entities In.
func offer[In any](reg *actions.Registry, name string) *actions.Action {
	return actions.Add(reg, name, "Does "+name, func(context.Context, *actions.Turn, In) (actions.Result, error) {
		return actions.Done, nil
	})
}

func schemaOf[In any](t *testing.T) string {
	t.Helper()
	raw, strict := plan.StrictSchema(offer[In](actions.New(), "act").Schema)
	if !strict {
		return "no strict form"
	}
	return string(raw)
}

type text struct {
	A string `json:"a" jsonschema:"what it is"`
}

func TestStrictSchema(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ got, want string }{
		"nothing": {schemaOf[struct{}](t), inProperties(``)},
		"required": {
			schemaOf[text](t),
			`{"type":"object","properties":{"a":{"description":"what it is","type":"string"}},"required":["a"],"additionalProperties":false}`,
		},
		"optional may be null": {schemaOf[struct {
			A int `json:"a,omitempty"`
		}](t), inProperties(`"a":{"type":["integer","null"]}`, "a")},
		"a default makes optional": {schemaOf[struct {
			A int `json:"a" default:"5"`
		}](t), inProperties(`"a":{"description":"default 5","type":["integer","null"]}`, "a")},
		"a required list is not null": {schemaOf[struct {
			A []string `json:"a"`
		}](t), inProperties(`"a":{"type":"array","items":{"type":"string"}}`, "a")},
		"an optional list": {schemaOf[struct {
			A []float64 `json:"a,omitempty"`
		}](t), inProperties(`"a":{"type":["array","null"],"items":{"type":"number"}}`, "a")},
		"a required pointer is not null": {schemaOf[struct {
			A *bool `json:"a"`
		}](t), inProperties(`"a":{"type":"boolean"}`, "a")},
		"an enum": {schemaOf[struct {
			A string `json:"a" enum:"S,L"`
		}](t), inProperties(`"a":{"type":"string","enum":["S","L"]}`, "a")},
		"an optional enum of numbers": {schemaOf[struct {
			A int `json:"a,omitempty" enum:"1,2"`
		}](t), inProperties(`"a":{"anyOf":[{"type":"number","enum":[1,2]},{"type":"null"}]}`, "a")},
		"a list of an enum": {schemaOf[struct {
			A []string `json:"a" enum:"S,L"`
		}](t), inProperties(`"a":{"type":"array","items":{"type":"string","enum":["S","L"]}}`, "a")},
		"a time": {schemaOf[struct {
			A time.Time `json:"a"`
		}](t), inProperties(`"a":{"description":"format date-time","type":"string"}`, "a")},
		"fields keep their order": {schemaOf[struct {
			B string `json:"b"`
			A string `json:"a"`
		}](t), inProperties(`"b":{"type":"string"},"a":{"type":"string"}`, "b", "a")},
		"within an object null is a value": {
			schemaOf[struct {
				A struct {
					B *int   `json:"b"`
					C string `json:"c,omitempty"`
				} `json:"a"`
			}](t),
			inProperties(`"a":`+inProperties(`"b":{"type":["null","integer"]},"c":{"type":["string","null"]}`, "b", "c"), "a"),
		},
		"an optional object": {
			schemaOf[struct {
				A *struct {
					B string `json:"b"`
				} `json:"a,omitempty"`
			}](t),
			inProperties(`"a":{"anyOf":[`+inProperties(`"b":{"type":"string"}`, "b")+`,{"type":"null"}]}`, "a"),
		},
		"any value": {schemaOf[struct {
			A any `json:"a"`
		}](t), "no strict form"},
		"a map": {schemaOf[struct {
			A map[string]int `json:"a"`
		}](t), "no strict form"},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// inProperties is a closed object with these properties.
func inProperties(properties string, names ...string) string {
	required, _ := json.Marshal(append([]string{}, names...)) // strings always encode
	return `{"type":"object","properties":{` + properties + `},"required":` + string(required) + `,"additionalProperties":false}`
}

// TestStrictSchemaOfFiles is the same for schemas that no Go type has.
func TestStrictSchemaOfFiles(t *testing.T) {
	t.Parallel()
	const open = "no strict form"
	for parameters, want := range map[string]string{
		`{}`: inProperties(``),
		`{"properties":{"a":{"const":"x"}},"required":["a"]}`:                                                     inProperties(`"a":{"type":"string","enum":["x"]}`, "a"),
		`{"properties":{"a":{"type":["string","null"],"enum":["x",null]}},"required":["a"]}`:                      inProperties(`"a":{"type":"string","enum":["x"]}`, "a"),
		`{"properties":{"a":{"type":["string","integer"]}}}`:                                                      inProperties(`"a":{"type":["string","integer","null"]}`, "a"),
		`{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`:                                   inProperties(`"a":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`, "a"),
		`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`:                     inProperties(`"a":{"type":"string"}`, "a"),
		`{"properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"],"$defs":{"s":{"type":"string"}}}`:              inProperties(`"a":{"type":"string"}`, "a"),
		`{"properties":{"a":{"allOf":[{"$ref":"#/$defs/s"}]}},"required":["a"],"$defs":{"s":{"type":"string"}}}`:  inProperties(`"a":{"type":"string"}`, "a"),
		`{"properties":{"a":{"type":"string","minLength":1,"maxLength":9,"pattern":"^x"}},"required":["a"]}`:      inProperties(`"a":{"type":"string"}`, "a"),
		`{"properties":{"a":{"type":"string","format":"date","description":"the day"}},"required":["a"]}`:         inProperties(`"a":{"description":"the day; format date","type":"string"}`, "a"),
		`{"properties":{"a":{"properties":{"b":{"type":"string"}},"required":["b"]}},"required":["a"]}`:           inProperties(`"a":`+inProperties(`"b":{"type":"string"}`, "b"), "a"),
		`{"properties":{"a":{"type":"object"}}}`:                                                                  open,
		`{"properties":{"a":{"type":"array"}}}`:                                                                   open,
		`{"properties":{"a":{"enum":[{"x":1}]}}}`:                                                                 open,
		`{"additionalProperties":true}`:                                                                           open,
		`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}`:                            open,
		`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}}`:   open,
		`{"properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"string"}}}`:                                    open,
		`{"properties":{"a":{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":true}}}`: open,
	} {
		reg, err := actions.Read(strings.NewReader(`[{"name":"act","parameters":` + parameters + `}]`))
		if err != nil {
			t.Fatal(err)
		}
		got, strict := plan.StrictSchema(reg.All()[0].Schema)
		if !strict {
			got = []byte(open)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", parameters, diff)
		}
	}
}
