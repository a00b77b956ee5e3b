package actions_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
)

// narrow has fields of the types whose rules no schema says whole.
type narrow struct {
	I8   int8                  `json:"i8,omitempty"`
	I    int                   `json:"i,omitempty"`
	I64  int64                 `json:"i64,omitempty"`
	U    uint                  `json:"u,omitempty"`
	U8   uint8                 `json:"u8,omitempty"`
	F32  float32               `json:"f32,omitempty"`
	F    float64               `json:"f,omitempty"`
	T    time.Time             `json:"t,omitzero"`
	D    time.Duration         `json:"d,omitempty"`
	B    []byte                `json:"b,omitempty"`
	M    map[string]int        `json:"m,omitempty"`
	P    *int                  `json:"p,omitempty"`
	R    json.RawMessage       `json:"r,omitempty"`
	Any  any                   `json:"any,omitempty"`
	A    [2]int                `json:"a,omitzero"`
	IP   netip.Addr            `json:"ip,omitzero"`
	Big  *big.Int              `json:"big,omitempty"`
	Keys map[netip.Addr]string `json:"keys,omitempty"`
	Deep []struct {
		When []time.Time `json:"when"`
	} `json:"deep,omitempty"`
	Host string `json:"host,omitempty" host:"turn"`
}

// TestCheckKnowsWhatGoCannotHold: nothing that Check lets through fails in the
// call, and the faults that only the Go type knows say what is wanted.
func TestCheckKnowsWhatGoCannotHold(t *testing.T) {
	t.Parallel()
	var got narrow
	action := actions.Add(actions.New(), "act", "", func(_ context.Context, _ *actions.Turn, in narrow) (actions.Result, error) {
		got = in
		return actions.Done, nil
	})
	const wantTime = "want format date-time, such as 2026-11-21T09:00:00Z, got the string "
	for given, fault := range map[string]string{
		`{"i8":"12","i":"9223372036854775807","u":1e3,"f32":1e38,"f":1e308,"host":5}`: "",
		`{"t":"2026-01-01T09:00:00.5+02:00","d":"1h30m","b":"aGk=","p":null}`:         "",
		`{"r":{"x":[1,1e400]},"any":[1],"a":[1,2],"ip":"::1","big":9e30}`:             "",
		`{"keys":{"::1":"me"},"deep":[{"when":["2026-01-01T09:00:00Z"]}]}`:            "",
		"{\"x\":{\"\xff\":1,\"\xfe\":2}}":                                             "",
		"{\"any\":{\"\xff\":1,\"\xfe\":2}}":                                           "",
		`{"i":9223372036854775808}`:                                                   "entity i: want a value that fits int, got the number 9223372036854775808 (value out of range)",
		`{"i64":"-9223372036854775809"}`:                                              "entity i64: want a value that fits int64, got the number -9223372036854775809 (value out of range)",
		`{"u":18446744073709551616}`:                                                  "entity u: want a value that fits uint, got the number 18446744073709551616 (value out of range)",
		`{"i8":300}`:                                                                  "entity i8: want maximum 127, got the number 300",
		`{"u8":-1}`:                                                                   "entity u8: want minimum 0, got the number -1",
		`{"f32":1e39}`:                                                                "entity f32: want a value that fits float32, got the number 1e39 (value out of range)",
		`{"f":1e400}`:                                                                 "entity f: want a value that fits float64, got the number 1e400 (value out of range)",
		`{"any":{"a":[1e999]}}`:                                                       "entity any.a.0: want a value that fits float64, got the number 1e999 (value out of range)",
		`{"t":"2026-13-45T00:00:00Z"}`:                                                "entity t: " + wantTime + `"2026-13-45T00:00:00Z"`,
		`{"t":"2026-01-01"}`:                                                          "entity t: " + wantTime + `"2026-01-01"`,
		`{"t":"2026-01-01T00:00:00"}`:                                                 "entity t: " + wantTime + `"2026-01-01T00:00:00"`,
		`{"t":"2026-01-01T9:00:00Z"}`:                                                 "entity t: " + wantTime + `"2026-01-01T9:00:00Z"`,
		`{"t":1700000000}`:                                                            "entity t: " + wantTime + `"1700000000"`,
		`{"deep":[{"when":[]},{"when":["now"]}]}`:                                     "entity deep.1.when.0: " + wantTime + `"now"`,
		`{"d":5}`:                       `entity d: want pattern ^-?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$, got the string "5"`,
		`{"d":"9999999h"}`:              `entity d: want a value that fits time.Duration, got the string "9999999h" (time: invalid duration "9999999h")`,
		`{"b":"not base64!"}`:           `entity b: want contentEncoding base64, got the string "not base64!"`,
		`{"b":[1,2]}`:                   "entity b: want a string, got an array",
		`{"m":{"x":1,"y":1e20}}`:        "entity m.y: want a value that fits int, got the number 100000000000000000000 (value out of range)",
		`{"p":9223372036854775808}`:     "entity p: want a value that fits int, got the number 9223372036854775808 (value out of range)",
		`{"a":[1,9223372036854775808]}`: "entity a.1: want a value that fits int, got the number 9223372036854775808 (value out of range)",
		`{"ip":"here"}`:                 `entity ip: want a value that fits netip.Addr, got the string "here" (ParseAddr("here"): unable to parse IP)`,
		`{"big":0.5}`:                   "entity big: want an integer, got the number 0.5",
	} {
		in := entities(t, given)
		checked, err := action.Check(in)
		if textOf(err) != fault {
			t.Errorf("%s:\n got %v\nwant %s", given, err, fault)
		}
		if before := action.CheckBefore(in, nil); textOf(before) != fault {
			t.Errorf("%s: before: %v", given, before)
		}
		if err != nil {
			continue
		}
		if _, err := action.Call(t.Context(), &actions.Turn{}, checked); err != nil {
			t.Errorf("%s: call: %v", given, err)
		}
	}
	checked, err := action.Check(entities(t, `{"d":"1h30m","b":"aGk="}`))
	if _, failed := action.Call(t.Context(), &actions.Turn{}, checked); err != nil || failed != nil || got.D != 90*time.Minute || string(got.B) != "hi" {
		t.Errorf("got %v %q, %v, %v", got.D, got.B, err, failed)
	}
}

// TestCheckBeforeDecodesWhatIsFinal: an entity in which something is not final is
// left for later, and the others are not.
func TestCheckBeforeDecodesWhatIsFinal(t *testing.T) {
	t.Parallel()
	action := addOf[narrow](t)
	later := func(text string) bool { return strings.Contains(text, "$") }
	for given, fits := range map[string]bool{
		`{"i":"$N","t":"$T","d":"$D","b":"$B","ip":"$IP"}`: true,
		`{"deep":[{"when":["$T"]}],"m":{"a":"$N"}}`:        true,
		`{"i":"$N","f":1e400}`:                             false,
		`{"any":"$N","p":9223372036854775808}`:             false,
	} {
		in := entities(t, given)
		before := entities(t, given)
		if err := action.CheckBefore(in, later); (err == nil) != fits {
			t.Errorf("%s: %v", given, err)
		}
		if diff := cmp.Diff(before, in); diff != "" {
			t.Errorf("%s was changed\n%s", given, diff)
		}
	}
}

// TestDecodeFaultsForLogs: neither the fault nor the error of a call that was not
// checked holds what the model wrote.
func TestDecodeFaultsForLogs(t *testing.T) {
	t.Parallel()
	action := addOf[narrow](t)
	for given, want := range map[string]string{
		`{"ip":"secret"}`:                   "entity ip: want a value that fits netip.Addr",
		`{"m":{"secret":1e30}}`:             "entity m.*: want a value that fits int",
		`{"keys":{"secret":"x"}}`:           "entity keys.*: want a value that fits netip.Addr",
		`{"d":"9999999h"}`:                  "entity d: want a value that fits time.Duration",
		`{"deep":[{"when":["secret"]}]}`:    "entity deep.0.when.0: want format date-time, such as 2026-11-21T09:00:00Z",
		`{"f32":1e39,"t":"secret","i":"s"}`: "",
	} {
		_, err := action.Check(entities(t, given))
		var wrong *actions.EntityError
		if !errors.As(err, &wrong) || want != "" && wrong.Fault() != want {
			t.Errorf("%s: %v", given, err)
		}
		_, err = action.Call(t.Context(), &actions.Turn{}, entities(t, given))
		if err == nil || want != "" && !strings.HasPrefix(err.Error(), "action act: decode entities: entity ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: call: %v", given, err)
		}
	}
	_, err := action.Call(t.Context(), &actions.Turn{}, map[string]any{"i": json.Number("secret")})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no JSON: %v", err)
	}
}

// TestSchemaIsWhatTheCodecReads: the schema of types that the codec reads another
// way than their kind says.
func TestSchemaIsWhatTheCodecReads(t *testing.T) {
	t.Parallel()
	schema := addOf[narrow](t).Schema
	for name, want := range map[string]string{
		"t":   `{"type":"string","format":"date-time"}`,
		"b":   `{"type":"string","contentEncoding":"base64"}`,
		"d":   `{"type":"string","examples":["1h30m"],"pattern":"^-?([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$"}`,
		"r":   `true`,
		"ip":  `{"type":"string"}`,
		"big": `{"type":["null","integer"]}`,
	} {
		var got, expected any
		raw, err := json.Marshal(schema.Properties[name])
		if err != nil || json.Unmarshal(raw, &got) != nil || json.Unmarshal([]byte(want), &expected) != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

type selfRead struct{ Name string }

func (s *selfRead) UnmarshalText(text []byte) error { s.Name = string(text); return nil }

// TestAddRefusesWhatNoSchemaSays: with a text that says which field.
func TestAddRefusesWhatNoSchemaSays(t *testing.T) {
	t.Parallel()
	for want, add := range map[string]func(*testing.T) *actions.Action{
		"actions_test.selfRead reads its JSON itself": addOf[selfRead],
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, want) {
					t.Errorf("panicked with %q, want %q", said, want)
				}
			}()
			add(t)
		}()
	}
}

// BenchmarkCheckBefore: what the decoding costs where it is needed.
func BenchmarkCheckBefore(b *testing.B) {
	type texts struct {
		List string `json:"list"`
		Item string `json:"item"`
	}
	type counted struct {
		Item  string `json:"item"`
		Count int    `json:"count"`
	}
	for name, action := range map[string]*actions.Action{
		"texts":  actions.Add(actions.New(), "a", "", func(context.Context, *actions.Turn, texts) (actions.Result, error) { return actions.Done, nil }),
		"number": actions.Add(actions.New(), "a", "", func(context.Context, *actions.Turn, counted) (actions.Result, error) { return actions.Done, nil }),
	} {
		b.Run(name, func(b *testing.B) {
			in := map[string]any{"list": "groceries", "item": "milk", "count": json.Number("3")}
			b.ReportAllocs()
			for b.Loop() {
				if err := action.CheckBefore(in, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
