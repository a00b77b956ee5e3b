package archtest_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/archtest"
)

var update = flag.Bool("update", false, "record the figures of this repository in testdata/gauges.txt")

const record = "testdata/gauges.txt"

// TestGauges fails when the repository grew or got more intricate. Where that is meant,
// -update records it, and the difference shows it.
func TestGauges(t *testing.T) {
	t.Parallel()
	got, err := archtest.Measure("../..")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(record, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := archtest.ReadGauges(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, worse := range got.Worse(recorded) {
		t.Error(worse)
	}
	if n, measured := got["test packages linked by cmd/bot"]; n > 0 || !measured {
		t.Errorf("cmd/bot links %d test packages: what serves people has no fake in it", n)
	}
	t.Logf("\n%s", got)
}

// TestMeasure measures a small module of which all figures are known.
func TestMeasure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module our\n\ngo 1.26\n",
		"bot/a.go":           "// Package bot is one.\npackage bot\n\n// T is a type.\ntype T struct{ A, b int }\n\nfunc (T) One() { two() } // a comment\n",
		"bot/b.go":           "package bot\n\nfunc (*T) Two() {}\n\nfunc two() { T{}.One() }\n",
		"bot/c.go":           "package bot\n\nfunc (t T) three() string {\n\treturn `\n\ntext`\n}\n\n/* more\n */\n",
		"cmd/x/m.go":         "package main\n\nimport _ \"testing\"\n\nfunc main() {}\n",
		"bot/a_test.go":      "package bot\n\nfunc Nobody() {}\n",
		"internal/long/l.go": "package long\n\nconst Text = \"" + "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" + "\"\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := archtest.Measure(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := archtest.Gauges{
		"lines bot": 11, "lines cmd/x": 3, "lines internal/long": 3, "lines in all": 17, "lines on a message's path": 11,
		"exported names of bot": 1, "exported names of internal/long": 1, "exported names of libraries": 1,
		"exported methods and fields of libraries": 3, "types in more than two files": 1,
		"largest circle of files in bot": 2, "test packages linked by cmd/x": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	again, err := archtest.ReadGauges([]byte(got.String()))
	if err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("read again: %v, %v", again, err)
	}
	worse := archtest.Gauges{"a": 2, "b": 1, "c": 1}.Worse(archtest.Gauges{"a": 1, "b": 1})
	if diff := cmp.Diff([]string{"a: 2, recorded 1", "c: 1, not recorded"}, worse); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
