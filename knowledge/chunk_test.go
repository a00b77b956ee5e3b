package knowledge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/knowledge"
)

func TestCut(t *testing.T) {
	t.Parallel()
	table := "| a | b |\n|---|---|\n"
	for i := range 20 {
		table += fmt.Sprintf("| x%d | y%d |\n", i, i)
	}
	type piece = knowledge.Piece
	for name, tt := range map[string]struct {
		text string
		want []piece
	}{
		"headings":                 {"# A\n\none two three\n\n## B\n\nfour five", []piece{{"A", "one two three"}, {"A › B", "four five"}}},
		"a paragraph that is cut":  {"a b c d. e f g h. i j k l.", []piece{{"", "a b c d. e f g h."}, {"", "e f g h. i j k l."}}},
		"a heading alone":          {"# A\n\n# B\n\nx", []piece{{"B", "x"}}},
		"paragraphs that fit":      {"a b c\n\nd e f g h\n\ni", []piece{{"", "a b c\n\nd e f g h"}, {"", "i"}}},
		"no overlap of paragraphs": {"a b c d e f g.\n\nh i j k l m n.", []piece{{"", "a b c d e f g."}, {"", "h i j k l m n."}}},
		"a sentence that is cut":   {"a b c d e f g h i j k.", []piece{{"", "a b c d e f g h"}, {"", "i j k."}}},
		"code":                     {"```go\na b c\nd e f\ng h i\n```", []piece{{"", "```go\na b c\nd e f\n```"}, {"", "```go\ng h i\n```"}}},
		"code is cut last":         {"a b c d e\n\n```go\nf g\nh i\nj\n```", []piece{{"", "a b c d e"}, {"", "```go\nf g\nh i\nj\n```"}}},
		"a level skipped":          {"# A\n\n### C\n\nx\n\n## B\n\ny", []piece{{"A › C", "x"}, {"A › B", "y"}}},
		"a list":                   {"- a\n- b\n  1. c\n  2. d", []piece{{"", "- a\n- b\n  1. c\n  2. d"}}},
		"marks":                    {"*a* **b** `c` [d](https://e.test) &amp; \\# <b>f</b>", []piece{{"", "a b c d & # f"}}},
	} {
		got, err := knowledge.Cut(t.Context(), "a.md", tt.text, 8)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a list" {
			got, _ = knowledge.Cut(t.Context(), "a.md", tt.text, 100)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	pieces, err := knowledge.Cut(t.Context(), "a.md", table, 25)
	rows := 0
	for _, p := range pieces {
		rows += strings.Count(p.Text, "x")
		if !strings.HasPrefix(p.Text, "| a | b |\n") {
			t.Errorf("a chunk of a table begins with %.20q", p.Text)
		}
	}
	if err != nil || len(pieces) < 2 || rows != 20 {
		t.Errorf("%d chunks with %d rows, %v", len(pieces), rows, err)
	}
}

func TestCutIsAFunctionOfText(t *testing.T) {
	t.Parallel()
	text := "# A\n\n" + strings.Repeat("One two three. Four\nfive six.\n\n", 20) + "| a | b |\n|--|--|\n| c | d |\n"
	want, err := knowledge.Cut(t.Context(), "a.md", text, 8)
	if err != nil || len(want) < 10 {
		t.Fatal(len(want), err)
	}
	for _, same := range []string{text, strings.ReplaceAll(text, "\n", "\r\n"), strings.ReplaceAll(text, "\n", "\r"), "\ufeff" + text} {
		got, err := knowledge.Cut(t.Context(), "a.md", same, 8)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Straße STRASSE":        "strasse strasse",
		"ﬁle №5 e\u0301t\u00e9": "file no5 été",
		"日本語 テスト x":             "日本 本語 テス スト x",
		"A4紙は":                  "a4 紙は",
		"サーバー ﾃﾞｰﾀ":             "サー ーバ バー デー ータ",
		"ลาพักร้อน x":           "ลา าพ พั ัก กร ร้ ้อ อน x",
		"ISO-9001, E_42":        "iso 9001 e 42",
		"語":                     "語",
		"":                      "",
	} {
		if got := strings.Join(knowledge.WordsOf(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("# A\n\none two three. four\n\n| a |\n|--|\n| b |\n", "a.md")
	f.Add("<h1>a</h1><table><tr><td>b", "a.html")
	f.Add("---\naccess: [nobody]\n---\nx", "a.md")
	f.Fuzz(func(t *testing.T, text, name string) {
		pieces, err := knowledge.Cut(t.Context(), name, text, 8)
		for _, p := range pieces {
			if strings.TrimSpace(p.Text) == "" || len(strings.Fields(p.Text)) > 8 {
				t.Errorf("a chunk %q of %q, %v", p.Text, text, err)
			}
		}
	})
}
