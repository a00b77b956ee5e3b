package prompts_test

import (
	"strings"
	"testing"
	"unicode/utf8"

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
		{"empty", `{"items": []}`, "items: []"},
		{"YAML would be another text", `["a\u0000b"]`, `["a\u0000b"]`},
		{"words of YAML", `{"a":"yes","b":"x: y","c":"12"}`, "a: \"yes\"\nb: \"x: y\"\nc: \"12\""},
		{"numbers keep their text", `{"n": 1.50, "big": 12345678901234567890}`, `{"n":1.50,"big":12345678901234567890}`},
		{"texts that need none", `{"a":"it's (fine), no?","b":"Grüße 长","c":"nothing"}`, "a: it's (fine), no?\nb: Grüße 长\nc: nothing"},
		{"texts in a list", `["milk","eggs"]`, "- milk\n- eggs"},
		{"numbers", `[1, 2, [3, 4]]`, `[1,2,[3,4]]`},
		{"nested", `{"a":{"b":{"c":{"d":1,"e":"x"}}}}`, `{"a":{"b":{"c":{"d":1,"e":"x"}}}}`},
		{"objects in a list", `[{"id":1,"t":"a"},{"id":2,"t":"b"}]`, "- id: 1\n  t: a\n- id: 2\n  t: b"},
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

// FuzzFormat: a value is never longer than as JSON, nor an error.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"b",{"c":null}]}`, `[[],{}]`, `{"":" "}`, `["\u2028"]`, `{"y":"no"}`, `{"a":&b}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := prompts.Format(jsontext.Value(raw))
		if err != nil || utf8.Valid(raw) && len(got) > len(raw) {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	})
}
