package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "deploy/README.md"} {
		files = append(files, filepath.Join(root, name))
	}
	link := regexp.MustCompile(`\]\(([^)(\s]+)\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`") // T[int](x) is no link
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			checkLink(t, file, target[1])
		}
	}
}

// checkLink looks up a file of the repository and the heading in it.
func checkLink(t *testing.T, from, target string) {
	t.Helper()
	if strings.Contains(target, "://") {
		return
	}
	path, heading, _ := strings.Cut(target, "#")
	file := from
	if path != "" {
		file = filepath.Join(filepath.Dir(from), path)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s links to %s: %v", from, target, err)
		return
	}
	if heading != "" && !headings(string(text))[heading] {
		t.Errorf("%s links to %s, which is no heading", from, target)
	}
}

// headings are the anchors that GitHub makes.
func headings(markdown string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.Lines(markdown) {
		if text, ok := strings.CutPrefix(line, "#"); ok {
			text = strings.ToLower(strings.TrimSpace(strings.TrimLeft(text, "#")))
			text = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(text, "")
			anchors[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return anchors
}
