package yamltext_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/yamltext"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	got, err := yamltext.Write(yamltext.Object{
		{"name", "a test"},
		{"seed", map[string]any{"lists": map[string]any{"to do": []any{"tea", "yes", "7"}}}},
		{"none", []any{}},
		{"steps", []any{
			yamltext.Object{{"event", yamltext.Object{{"type", "message"}, {"text", "it's me: <at>Bot</at>"}}}, {"model", []any{`{"type":"plan"}`, strings.Repeat("long ", 30) + "text"}}},
			yamltext.Object{{"text", "two\nlines\n"}, {"more", "a\n\n  b"}, {"odd", " a\nb"}, {"num", json.Number("1.50")}, {"ok", true}, {"nil", nil}},
			"alone",
		}},
	})
	want := `name: a test
seed: {lists: {to do: [tea, "yes", "7"]}}
none: []
steps:
  - event: {type: message, text: "it's me: <at>Bot</at>"}
    model:
      - '{"type":"plan"}'
      - ` + strings.Repeat("long ", 30) + `text
  - text: |
      two
      lines
    more: |-
      a

        b
    odd: " a\nb"
    num: 1.50
    ok: true
    nil: null
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
		a, b = yamltext.Clean(a), yamltext.Clean(b)
		tree := map[string]any{"t": a, "l": []any{a, map[string]any{"x": b, "y": a}, []any{b}, map[string]any{b: a}}, "o": map[string]any{b: map[string]any{"z": a}}}
		raw, err := yamltext.Write(tree)
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := yaml.YAMLToJSON(raw)
		if err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		var got any
		if err := json.Unmarshal(asJSON, &got); err != nil || !reflect.DeepEqual(got, any(tree)) {
			t.Errorf("%v: %#v became %#v:\n%s", err, tree, got, raw)
		}
	})
}
