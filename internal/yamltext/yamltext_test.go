package yamltext_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/yamltext"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	type object map[string]any
	got, err := yamltext.Write([]any{
		struct {
			Seed  object `json:"seed"`
			None  []any  `json:"none"`
			Name  string `json:"name"`
			Short []any  `json:"numbers"`
		}{object{"to do": []any{"tea", "yes", "7\n"}}, []any{}, "a test", []any{1, 2.5, true, nil}},
		object{"short": "and simple", "list": []any{object{}, 1, "yes", ":"}},
		object{"text": "it's me: <at>Bot</at>", "model": []any{`{"type":"plan"}`}},
		object{"text": "two\nlines\n", "more": "a\n\n  b", "odd": " a\nb"},
		"alone",
	})
	want := `  - seed:
      to do:
        - tea
        - 'yes'
        - |
          7
    none: []
    name: a test
    numbers: [1, 2.5, true, null]
  - {"list": [{}, 1, "yes", ":"], "short": "and simple"}
  - model:
      - '{"type":"plan"}'
    text: 'it''s me: <at>Bot</at>'
  - more: |-
      a
      
        b
    odd: " a\nb"
    text: |
      two
      lines
  - alone
`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

func TestWriteNothingThatJSONHasNot(t *testing.T) {
	t.Parallel()
	if _, err := yamltext.Write([]any{func() {}}); err == nil {
		t.Error("a function was written")
	}
}

// bomb is a small text whose aliases stand for ten times as much with each line.
func bomb(lines int) string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range lines {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return text
}

// TestTooLarge: what would fill the memory, or take longer than anybody waits, is refused.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"bytes":     {strings.Repeat("a: b\n", 4<<20), "line 1: too large: more than 16777216 bytes"},
		"tokens":    {strings.Repeat("- [[], [], [], []]\n", 1<<17), "line 74899: too large: more than 1048576 tokens"},
		"brackets":  {"\n" + strings.Repeat("[", 100_000), "line 2: too large: more than 500 levels"},
		"braces":    {"}" + strings.Repeat("\n]", 600) + strings.Repeat("{a: ", 100_000), "too large: more than 500 levels"},
		"dashes":    {strings.Repeat("- ", 100_000) + "a", "line 1: too large: more than 500 levels"},
		"questions": {strings.Repeat("? ", 100_000) + "a", "line 1: too large: more than 500 levels"},
		"bomb":      {bomb(9), "line 1: too large: more than 33554432 bytes with its aliases written out"},
	} {
		if _, err := yamltext.JSON([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := yamltext.Parse("[a, b]", 4); err == nil || err.Error() != "line 1: too large: more than 4 tokens" {
		t.Errorf("as few as were asked for: %v", err)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "null",
		"# a\n":                           "null",
		"a: ~":                            `{"a":null}`,
		"a: &a x\nb: *a\n":                `{"a":"x","b":"x"}`,
		"a: &x {b: 1}\nc: {<<: *x, d: 2}": `{"a":{"b":1},"c":{"b":1,"d":2}}`,
		"1: x\ntrue: y\n":                 `{"1":"x","true":"y"}`,
		"a: 0x1F\nb: 1.0e3\nc: 2020-01-01\nd: 1.5":          `{"a":31,"b":1000,"c":"2020-01-01","d":1.5}`,
		`{"a": ["b", 1.5, null]}`:                           `{"a":["b",1.5,null]}`,
		strings.Repeat("[", 400) + strings.Repeat("]", 400): strings.Repeat("[", 400) + strings.Repeat("]", 400),
	} {
		if got, err := yamltext.JSON([]byte("\ufeff" + text)); err != nil || string(got) != want {
			t.Errorf("%q became %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a: 1\nb: [":         "line 2: sequence end token ']' not found",
		"a:\n  b: *c":        `line 2: could not find alias "c"`,
		"a: 1\na: 2":         `line 2: mapping key "a" already defined`,
		"a: 1\n---\nb: 2":    "line 2: a second document begins",
		"1: x\n? [a]\n":      "line 2: ",
		"a: \ufffd\nb: \xe4": "line 2: it is not UTF-8",
	} {
		if got, err := yamltext.JSON([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q became %s, %v; want %s", text, got, err, want)
		}
	}
}

// odd are texts that YAML has something to say about.
var odd = []string{
	"", "a", "a\nb", "a\nb\n", " a\nb", "a \nb", "\ta\nb", "a\r\nb", "a\n\n\nb\n\n", "yes", "1", "~", "- a\nb", "a: b", "#x\n#y", "\n", "\na", "\u0085", "\u2028x\ny", "'", "a\x1bb",
	"---\na\n...", "a\n---\nb", "😀\n文", "null", "0x1F", "1e3", "2020-01-01", "{a}", "a\n\tb", "key: |\n  x", "trailing  ", `\n`, "a\n b\n  c", "%x\ny", "\ufeffa\nb", "*a", "&a b", "!x", "@a",
	"a #b", "a\n#b", "-", "?", "? a", ":", "=", "<<", "|", ">", `"`, "12:30:45", ".5", "+1", "1_000", "a\u00a0b", "\u200b\nx", "a\n  \nb", "it's \"so\"", "a, b", "[a]", "a\xff", "'\n'", "\"\n", "<<: x\ny",
	"NaN", "Inf", "inf", "a: |\n", "x:", "x: ", "a\n:\n", "/x", "_", "a.b-c/d",
}

func FuzzReadBack(f *testing.F) {
	for _, text := range odd {
		f.Add(text, "x")
		f.Add("x", text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		tree := map[string]any{"t": a, "l": []any{a, map[string]any{"x": b, "y": a}, []any{b}, map[string]any{b: a}}, "o": map[string]any{b: map[string]any{"z": a}}}
		raw, err := yamltext.Write(tree)
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := yamltext.JSON(raw)
		if err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		var got any
		if err := json.Unmarshal(asJSON, &got); err != nil || !reflect.DeepEqual(got, any(tree)) {
			t.Errorf("%v: %#v became %#v:\n%s", err, tree, got, raw)
		}
	})
}

// TestLargeNumbers: a number is one however large it is, and a text in quotes or a name is none.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: -9223372036854776000":                            `{"a":-9223372036854776000}`,
		"a: 18446744073709552000":                            `{"a":18446744073709552000}`,
		"a: +18446744073709552000":                           `{"a":18446744073709552000}`,
		"a: 000000000000000018446744073709552000":            `{"a":18446744073709552000}`,
		"[18446744073709552000, {b: -99999999999999999999}]": `[18446744073709552000,{"b":-99999999999999999999}]`,
		"a: 0x1ffffffffffffffff":                             `{"a":36893488147419103231}`,
		"a: 1e400":                                           `{"a":1e400}`,
		"a: '18446744073709552000'":                          `{"a":"18446744073709552000"}`,
		`a: "18446744073709552000"`:                          `{"a":"18446744073709552000"}`,
		"18446744073709552000: x":                            `{"18446744073709552000":"x"}`,
		"a: |-\n  18446744073709552000":                      `{"a":"18446744073709552000"}`,
		"a: 18446744073709552000 items":                      `{"a":"18446744073709552000 items"}`,
		"a: 1.2.3\nb: '.'\nc: e5\nd: ..\ne: 2026-11-28":      `{"a":"1.2.3","b":".","c":"e5","d":"..","e":"2026-11-28"}`,
		"a: &n 18446744073709552000\nb: *n":                  `{"a":18446744073709552000,"b":18446744073709552000}`,
	} {
		got, err := yamltext.JSON([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestEmptyBlocks: a text block may have nothing in it, as in OpenAI's own document.
func TestEmptyBlocks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a:\n  x: |+\n\n  y: 1": `{"a":{"x":"\n","y":1}}`,
		"a:\n  x: |\n  y: 1":    `{"a":{"x":"","y":1}}`,
		"a: >-\nb: |\n\nc: 2":   `{"a":"","b":"","c":2}`,
		"- |\n- x":              `["","x"]`,
		"a: |\n  text\nb: 1":    `{"a":"text\n","b":1}`,
	} {
		got, err := yamltext.JSON([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}
