package knowledge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/knowledge"
)

// TestFiles: what is short is shown whole, and of what is long the parts with the question's words, with
// the number of pages.
func TestFiles(t *testing.T) {
	t.Parallel()
	var pages []string
	for n := 1; n <= 40; n++ {
		text := fmt.Sprintf("BT /F1 12 Tf (Page %d is about the weather of day %d. ", n, n) + strings.Repeat("It rained all day long in the whole country. ", 12)
		if n == 31 {
			text += "The warranty of the coffee machine lasts three years."
		}
		pages = append(pages, text+") Tj ET")
	}
	files := knowledge.Files{}
	text, err := files.Read(t.Context(), "report.pdf", []byte(pdf(len(pages), pages...)))
	if err != nil {
		t.Fatal(err)
	}
	shown, looked, of, byPage := files.Show(text, "How long is the warranty?", 500)
	if !strings.Contains(shown, "warranty of the coffee machine") || of != 40 || !byPage || looked < 2 || looked > 10 {
		t.Errorf("%d of %d\n%s", looked, of, shown)
	}
	if first, last := strings.Index(shown, "Page 1 "), strings.Index(shown, "warranty"); first < 0 || last < first || !strings.Contains(shown, "# page 31") || !strings.Contains(shown, "[…]") {
		t.Errorf("the order or the headings are wrong:\n%s", shown)
	}
	if _, looked, of, _ := files.Show(text, "", 1_000_000); looked != 40 || of != 40 {
		t.Errorf("all of it is %d of %d", looked, of)
	}
	short, err := files.Read(t.Context(), "notes.md", []byte("---\naccess: 7\n---\n# Notes\n\nBuy milk.\u202e"))
	if err != nil {
		t.Fatal(err)
	}
	if shown, looked, of, byPage := files.Show(short, "?", 100); !strings.Contains(shown, "access: 7\n---\n# Notes\n\nBuy milk.") || strings.Contains(shown, "\u202e") || looked != of || byPage {
		t.Errorf("%d of %d %q", looked, of, shown)
	}
	if shown, _, of, _ := files.Show([]byte("nonsense"), "?", 100); shown != "" || of != 0 {
		t.Errorf("%d %q", of, shown)
	}
}

// TestWhatIsNotReadIsCounted: the model is told what of a file nobody read.
func TestWhatIsNotReadIsCounted(t *testing.T) {
	t.Parallel()
	text, err := knowledge.Files{}.Read(t.Context(), "", []byte(pdf(3, "BT /F1 12 Tf 50 700 Td (Hello) Tj ET", "BI /W 1 /H 1 ID x EI", "BI /W 1 /H 1 ID x EI")))
	if err != nil {
		t.Fatal(err)
	}
	if shown, _, of, _ := (knowledge.Files{}).Show(text, "?", 100); !strings.HasPrefix(shown, "[Not read of this file: 2 pages that are pictures.]") || of != 3 {
		t.Errorf("%d %q", of, shown)
	}
	b := setup(t)
	report := b.add(map[string]string{"a.pdf": pdf(2, "BT /F1 12 Tf 50 700 Td (Hello) Tj ET", "BI /W 1 /H 1 ID x EI")})
	if fmt.Sprint(report.Partly) != "[{a.pdf was taken without 1 page that is a picture}]" || report.String() != "1 added, 1 taken in part" {
		t.Error(report, report.Partly)
	}
}

// TestFilesThatAreNotRead say why, for people.
func TestFilesThatAreNotRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content string
		want    error
	}{
		"scan.pdf":  {pdf(2, "", ""), actions.ErrFileNoText},
		"empty.txt": {" \n", actions.ErrFileNoText},
		"large.txt": {strings.Repeat("x", 21<<20), actions.ErrFileTooLarge},
		"long.txt":  {strings.Repeat("many words ", 200_000), actions.ErrFileTooLarge},
		"many.pdf":  {pdf(501, slices.Repeat([]string{""}, 501)...), actions.ErrFileTooLarge},
		"song.mp3":  {"ID3\x00\x00", nil},
	} {
		text, err := knowledge.Files{}.Read(t.Context(), name, []byte(tt.content))
		if err == nil || text != nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
