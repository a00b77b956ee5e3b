package yamltext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// bomb is a small text whose aliases stand for ten times as much with each line.
func bomb(lines int) string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range lines {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return text
}

func entries(form string, n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, form, i)
	}
	return s.String()
}

func stairs(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return s.String()
}

// TestTooLarge: what would fill the memory, or take longer than tests may, is refused.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"100 MB":         {strings.Repeat("a: b\n", 20<<20), "line 1: too large: more than 16777216 bytes"},
		"tokens":         {strings.Repeat("- [[], [], [], []]\n", 1<<17), "line 74899: too large: more than 1048576 tokens"},
		"tokens, a line": {"\n" + strings.Repeat("[", 16<<20-1), "line 2: too large: more than 1048576 tokens"},
		"brackets":       {"\n" + strings.Repeat("[", 100_000), "line 2: too large: more than 500 levels"},
		"braces":         {"}" + strings.Repeat("\n]", 600) + strings.Repeat("{a: ", 100_000), "too large: more than 500 levels"},
		"dashes":         {strings.Repeat("- ", 100_000) + "a", "line 1: too large: more than 500 levels"},
		"questions":      {strings.Repeat("? ", 100_000) + "a", "line 1: too large: more than 500 levels"},
		"stairs":         {stairs(1000), "line 501: too large: more than 500 levels"},
		"entries":        {entries("k%d: v\n", 200_000), "line 10001: too large: more than 10000 entries in one mapping"},
		"inner entries":  {"- a:\n" + entries("   k%d: v\n", 200_000), "line 10002: too large: more than 10000 entries in one mapping"},
		"bomb":           {bomb(9), "line 1: too large: more than 33554432 bytes with what its aliases stand for"},
	} {
		_, err := yamltext.JSON([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, yamltext.ErrTooLarge) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := yamltext.Parse("[a, b]", 4); err == nil || err.Error() != "line 1: too large: more than 4 tokens" {
		t.Errorf("as few as were asked for: %v", err)
	}
}

// TestLarge: what is not small and may be read.
func TestLarge(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"list":     strings.Repeat("- {a: b, c: [d]}\n", 4_000),
		"mappings": strings.Repeat("- a: b\n  c:\n    d: e\n    f: g\n", 4_000),
		"text":     "a: |\n" + strings.Repeat("  - [some text, that: goes on]\n", 20_000),
		"quoted":   `a: "` + strings.Repeat(`{\"a\": 1},`, 50_000) + `"`,
		"entries":  entries("k%d: v\n", 4_000),
		"deep":     strings.Repeat("[", 400) + strings.Repeat("]", 400),
		"aliases":  bomb(2),
	} {
		if _, err := yamltext.JSON([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "# a\n", "---\n", "a:", "- ", "a: ~", "a: &a [*a]", "a: &a x\nb: *a\n", "<<: {a: 1}\nb: 2", "a: &x {b: 1}\nc: {<<: *x, d: 2}", "a: !x y", "1: x\ntrue: y\n",
		"a: 0x1F\nb: 1_000\nd: 1e3\ne: 2020-01-01\nf: 012\ng: 1.0\nh: 123456789012345678901234567890", "&a x: 1\ny: *a\n", "a: |\n  x\n  y\nb: >-\n  f\n  g", `{"a": ["b", 1.50, null]}`,
	} {
		got, err := yamltext.JSON([]byte("\ufeff" + text))
		want, werr := yaml.YAMLToJSON([]byte(text))
		if err != nil || werr != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(string(want)) {
			t.Errorf("%q became %s, %v; want %s, %v", text, got, err, want, werr)
		}
	}
	for text, want := range map[string]string{
		"a: 1\nb: [":         "line 2: sequence end token ']' not found",
		"a:\n  b: *c":        `line 2: could not find alias "c"`,
		"a: 1\na: 2":         `line 2: mapping key "a" already defined`,
		"a: 1\n---\nb: 2":    "line 3: a second document begins",
		"1: x\n? [a]\n":      "line 2: ",
		"a: \ufffd\nb: \xe4": "line 2: the byte 0xe4 is no UTF-8",
	} {
		if got, err := yamltext.JSON([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q became %s, %v; want %s", text, got, err, want)
		}
	}
}
