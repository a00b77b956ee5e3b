//go:build unix && !race

// The race detector needs more memory than a child may have, so these tests run without it.

package knowledge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/knowledge"
)

// TestHelperReadsAsHere: a child finds what is found in the process.
func TestHelperReadsAsHere(t *testing.T) {
	t.Parallel()
	h := helper(t)
	for name, text := range map[string]string{
		"page.html": "<!DOCTYPE html><h1>A</h1><p>x</p><ul><li>y</ul>",
		"a.md":      "# A\n\n<b>x</b>\n\n| h |\n|---|\n| i |",
		"a.docx":    docx(t, `<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p><w:p><w:r><w:t>Text &lt; 1</w:t></w:r></w:p>`),
		"a.xlsx":    xlsx(t),
		"a.pdf":     pdf(1, "BT /F1 12 Tf (Hello) Tj ET"),
		"a.txt":     "Only text.",
	} {
		want, err := knowledge.CutIn(t.Context(), nil, name, text)
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := knowledge.CutIn(t.Context(), h, name, text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for name, text := range map[string]string{"a.pdf": pdf(1, ""), "b.pdf": "%PDF-1.4 nothing", "a.zip": archive(t, map[string]string{"a": "b"})} {
		_, want := knowledge.CutIn(t.Context(), nil, name, text)
		if _, err := knowledge.CutIn(t.Context(), h, name, text); want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestWhatEndsAChildEndsNothingElse: a child that hangs, floods, leaves a process behind, is killed, says
// nonsense or takes memory is a file that is not read, with the reason.
func TestWhatEndsAChildEndsNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command []string
		want    error
	}{
		"hangs":              {[]string{"sh", "-c", "sleep 600"}, actions.ErrFileTooComplex},
		"hangs and is heard": {[]string{"sh", "-c", "cat >&2; sleep 600"}, actions.ErrFileTooComplex},
		"floods":             {[]string{"sh", "-c", "yes"}, actions.ErrFileTooLarge},
		"leaves a process":   {[]string{"sh", "-c", "sleep 600 & exit 7"}, actions.ErrFileDamaged},
		"is killed":          {[]string{"sh", "-c", "kill -9 $$"}, actions.ErrFileDamaged},
		"ends in the middle": {[]string{"sh", "-c", `printf '{"Read":{"Blocks":[{"Text":"a'`}, actions.ErrFileDamaged},
		"says nothing":       {[]string{"true"}, actions.ErrFileDamaged},
		"writes a file":      {[]string{"sh", "-c", `head -c 99 >` + filepath.Join(t.TempDir(), "file")}, actions.ErrFileDamaged},
		"takes memory":       {[]string{os.Args[0], hungry}, actions.ErrFileTooComplex},
		"is not there":       {[]string{"/nowhere/reader"}, actions.ErrFileTooComplex},
		"sees our variables": {[]string{"sh", "-c", `[ -z "$HOME$USER" ] && echo '{"Refused":"needs a password"}'`}, actions.ErrFileLocked},
		"has our open files": {[]string{"sh", "-c", `[ ! -e /proc/self/fd/3 ] && echo '{"Refused":"needs a password"}'`}, actions.ErrFileLocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := helper(t, tt.command...)
			if strings.HasPrefix(name, "hangs") {
				h.Within(100 * time.Millisecond)
			}
			text, err := knowledge.Files{Helper: h}.Read(t.Context(), "", []byte("%PDF-1.4"))
			if text != nil || !errors.Is(err, tt.want) {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}

// TestFatalFiles: files that would end the process, or never end, are refused.
func TestFatalFiles(t *testing.T) {
	t.Parallel()
	h := helper(t)
	for _, name := range []string{"huge-xref.pdf", "xref-stream-size-1e9.pdf", "xref-stream-index.pdf", "unterminated-hex.pdf"} {
		content, err := os.ReadFile(filepath.Join("testdata", "files", name))
		if err != nil {
			t.Fatal(err)
		}
		h.Within(5 * time.Second)
		if _, err := (knowledge.Files{Helper: h}).Read(t.Context(), name, content); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, err := (knowledge.Files{Helper: h}).Read(t.Context(), "", []byte(pdf(1, "BT /F1 12 Tf (Hello) Tj ET"))); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestTheSameFileAgain: a file that ended a child ends no other.
func TestTheSameFileAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := helper(t, "sh", "-c", "mktemp "+filepath.Join(dir, "XXXXXX")+" >&2; kill -9 $$")
	for range 100 {
		if _, err := (knowledge.Files{Helper: h}).Read(t.Context(), "", []byte("%PDF-1.4")); !errors.Is(err, actions.ErrFileDamaged) {
			t.Fatal(err)
		}
	}
	if started, err := os.ReadDir(dir); err != nil || len(started) != 1 {
		t.Errorf("%d children, %v", len(started), err)
	}
}

// TestManyFilesAtOnce: there are two children at most, and each file gets its answer.
func TestManyFilesAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := helper(t, "sh", "-c", fmt.Sprintf(`cd %q; echo '{"Refused":"needs a password"}'
		if mkdir a 2>/dev/null; then rmdir a; elif mkdir b 2>/dev/null; then rmdir b; else mkdir third; fi`, dir))
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			_, err := knowledge.Files{Helper: h}.Read(t.Context(), "", fmt.Appendf(nil, "%%PDF-1.4 %d", i))
			if !errors.Is(err, actions.ErrFileLocked) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := os.Stat(filepath.Join(dir, "third")); err == nil {
		t.Error("three children at once")
	}
}
