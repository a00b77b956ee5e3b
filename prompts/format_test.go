package prompts_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

func TestFormatIsTheShorterOfTwo(t *testing.T) {
	t.Parallel()
	long := `["` + strings.Repeat("milk ", 4000) + `"]`
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, tt := range []struct{ name, value, want string }{
		{"one field", `{"a": 1}`, "a: 1"},
		{"flat", `{"name":"Mia","age":7,"vip":true,"note":null}`, "name: Mia\nage: 7\nvip: true\nnote: null"},
		{"order is kept", `{"b":true,"a":false}`, "b: true\na: false"},
		{"empty", `{"items": []}`, `{"items":[]}`},
		{"numbers keep their text", `{"n": 1.50, "big": 12345678901234567890}`, `{"n":1.50,"big":12345678901234567890}`},
		{"texts that need none", `{"a":"it's (fine), no?","b":"Grüße 长","c":"nothing"}`, "a: it's (fine), no?\nb: Grüße 长\nc: nothing"},
		{"texts in a list", `["milk","eggs"]`, `["milk","eggs"]`},
		{"numbers", `[1, 2, [3, 4]]`, `[1,2,[3,4]]`},
		{"nested", `{"a":{"b":{"c":{"d":1,"e":"x"}}}}`, `{"a":{"b":{"c":{"d":1,"e":"x"}}}}`},
		{"objects in a list", `[{"id":1,"t":"a"},{"id":2,"t":"b"}]`, `[{"id":1,"t":"a"},{"id":2,"t":"b"}]`},
		{"no JSON", `{"a":`, `{"a":`},
		{"long", long, long},
		{"deep", deep, deep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := prompts.Format(jsontext.Value(tt.value))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestYAML(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"a":[1,{"b":[2],"c":3},[4,[5]]],"d":{"e":{},"f":[[]]}}`:                                                    "a:\n- 1\n- b:\n  - 2\n  c: 3\n- - 4\n  - - 5\nd:\n  e: {}\n  f:\n  - []",
		`{"a":"yes","b":" x","c":"a: b","d":"- x","e":"12","f":"","g":"x #y","h":"NULL","i":"line\nbreak","j":"x "}`: "a: \"yes\"\nb: \" x\"\nc: \"a: b\"\nd: \"- x\"\ne: \"12\"\nf: \"\"\ng: \"x #y\"\nh: \"NULL\"\ni: \"line\\nbreak\"\nj: \"x \"",
		`"x y"`: "x y", `"3"`: `"3"`, `3`: "3", `""`: `""`, `[]`: "[]",
	} {
		if diff := cmp.Diff(want, string(prompts.AsYAML(jsontext.Value(value)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
}

// FuzzFormat: the estimate of tokens never fails, and never makes a value longer
// by more than a bit of what the tokenizer counts.
func FuzzFormat(f *testing.F) {
	counter := prompts.NewCounter()
	for _, seed := range []string{`{"a":[1,"b",{"c":null}]}`, `[[],{}]`, `{"":" "}`, `["\u2028"]`, `{"y":"no"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		value := jsontext.Value(raw)
		got, err := prompts.Format(value)
		if err != nil {
			t.Fatal(err)
		}
		var any any
		if len(raw) > 200 || value.Kind() != '{' || json.Unmarshal(raw, &any) != nil || value.Compact() != nil {
			return
		}
		if tokens, asJSON := counter.Count(got), counter.Count(string(value)); tokens > asJSON+2+asJSON/4 {
			t.Errorf("%d tokens, %d as JSON:\n%s", tokens, asJSON, got)
		}
	})
}
