package plan_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

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

// TestWhatIsNullIsNotForced: a property of which null is a value can be left out of every form, and can be
// null in every form. That holds for whatever [actions.Action.Check] takes as a value.
func TestWhatIsNullIsNotForced(t *testing.T) {
	t.Parallel()
	const defs = `"$defs":{"text":{"type":"string"},"maybe":{"type":["string","null"]},"circle":{"anyOf":[{"$ref":"#/$defs/circle"},{"type":"null"}]}}`
	for _, property := range []string{
		`{"type":["string","null"]}`, `{"type":["integer","null"],"default":7}`, `{"anyOf":[{"$ref":"#/$defs/text"},{"type":"null"}]}`,
		`{"oneOf":[{"type":"integer"},{"type":"null"}]}`, `{"anyOf":[{"type":"integer"},{"const":null}]}`, `{"allOf":[{"$ref":"#/$defs/maybe"}]}`,
		`{"$ref":"#/$defs/maybe"}`, `{"$ref":"#/$defs/circle"}`, `{"enum":["a",null]}`, `{"type":["string","null"],"enum":["a",null]}`, `{"const":null}`, `{"type":"null"}`,
		`{"not":{"type":"string"}}`, `{}`, `{"type":["array","null"],"items":{"type":["string","null"]}}`, `{"type":["object","null"],"properties":{"x":{"type":["string","null"]}}}`,
		`{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}}},{"type":"null"}]}`, `{"properties":{"x":{"type":"string"}}}`,
		`{"type":"string"}`, `{"enum":["a"]}`, `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `{"allOf":[{"$ref":"#/$defs/maybe"},{"type":"string"}]}`,
		`{"$ref":"#/$defs/text"}`, `{"type":["string","null"],"enum":["a"]}`, `{"const":"x"}`, `{"type":"array","items":{"type":"string"}}`,
	} {
		for _, within := range []bool{false, true} {
			parameters, null := `{"properties":{"a":`+property+`},`+defs+`}`, `{"a":null}`
			if within {
				parameters, null = `{"required":["in"],"properties":{"in":{"type":"object","properties":{"a":`+property+`}}},`+defs+`}`, `{"in":{"a":null}}`
			}
			reg, err := actions.Read(strings.NewReader(`[{"name":"act","parameters":` + parameters + `}]`))
			if err != nil {
				t.Fatal(err)
			}
			var entities map[string]any
			if err := json.Unmarshal([]byte(null), &entities); err != nil {
				t.Fatal(err)
			}
			checked, err := reg.All()[0].Check(entities)
			if err != nil {
				t.Fatalf("%s: %v", parameters, err)
			}
			isValue := cmp.Equal(entities, checked)
			wrote := func(entities string) any {
				return reread(t, []byte(`{"type":"plan","commands":[{"type":"DO","action":"act","entities":`+entities+`,"saveAs":null}]}`))
			}
			without := strings.Replace(null, `"a":null`, ``, 1)
			_, schema, strict := planSchema(t, reg, false)
			grammar := planGrammar(t, reg, false)
			for form, of := range map[string]interface{ Validate(any) error }{"schema": schema, "grammar": grammar} {
				if form == "grammar" && !isValue {
					continue
				}
				if err := of.Validate(withoutNulls(wrote(null))); form == "grammar" && err != nil {
					t.Errorf("%s of %s: cannot be left out: %v", form, parameters, err)
				}
				plan := wrote(null)
				if form == "grammar" {
					delete(plan.(map[string]any)["commands"].([]any)[0].(map[string]any), "saveAs")
				}
				if err := of.Validate(plan); err != nil {
					t.Errorf("%s of %s: cannot be null: %v", form, parameters, err)
				}
			}
			if forced := schema.Validate(wrote(without)) != nil; forced == isValue || strict && isValue {
				t.Errorf("%s: null is a value: %t, it has to be there: %t, strict: %t", parameters, isValue, forced, strict)
			}
			tool, strict, err := plan.ToolSchema(reg.All()[0], true)
			if err != nil || strict && isValue {
				t.Errorf("%s: a strict tool: %s, %v", parameters, tool, err)
			}
		}
	}
}

// TestToolSchemasForAllServers: a schema of somebody else's goes out in keywords that servers take.
func TestToolSchemasForAllServers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"type":"object","properties":{"v":{"type":"array"}}}`:                                                                        `"v":{"type":"array","items":{}}`,
		`{"type":"object","properties":{"v":{"type":"array","items":{"type":"array"}}}}`:                                               `"v":{"type":"array","items":{"type":"array","items":{}}}`,
		`{"type":"object","properties":{"v":{"type":"object","patternProperties":{"^x":{"type":"string"}}}}}`:                          `"patternProperties":{"^x":{"type":"string"}}`,
		`{"type":"object","patternProperties":{"^x":{"type":"string"}}}`:                                                               `{"type":"object","properties":{},"patternProperties":{"^x":{"type":"string"}}}`,
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                                                   `{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`,
		`{"type":"object","properties":{"v":{"type":"object","propertyNames":{"pattern":"^a"},"additionalProperties":{"const":"x"}}}}`: `"v":{"type":"object","additionalProperties":{"enum":["x"]}}`,
		`{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0},"v":{"type":"array"}}}`:                            `"n":{"type":"integer","description":"more than 0"}`,
		`{"type":"object","oneOf":[{"required":["v"]}],"properties":{"v":{"oneOf":[{"type":"array"},{"type":"string"}]}}}`:             `"v":{"anyOf":[{"type":"array","items":{}},{"type":"string"}]}`,
	} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(in), &schema); err != nil {
			t.Fatal(err)
		}
		raw, strict, err := plan.ToolSchema(&actions.Action{Name: "a", Schema: &schema}, true)
		if err != nil || strict || !strings.Contains(string(raw), want) || strings.Contains(string(raw), "oneOf") {
			t.Errorf("%s is told as %s, strict %v, %v, want %s", in, raw, strict, err, want)
		}
	}
}
