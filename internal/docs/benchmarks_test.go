package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestBenchmarksOfThePage: each row of docs/benchmarks.md that names a benchmark names one that
// exists, in the package of the row or of the last row that names one.
func TestBenchmarksOfThePage(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| .*?\\((?:`([a-z/]+)`, )?([A-Z]\\w+)(?:/\\w+)?[:)]").FindAllStringSubmatch(read(t, "docs/benchmarks.md"), -1)
	if len(rows) < 12 {
		t.Fatalf("the page names %d benchmarks: the test does not see them", len(rows))
	}
	folder := ""
	for _, row := range rows {
		if row[1] != "" {
			folder = row[1]
		}
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || regexp.MustCompile(`(?m)^func Benchmark`+row[2]+`\(`).Match(text)
		}
		if !found {
			t.Errorf("%s: package %s has no Benchmark%s", row[0], folder, row[2])
		}
	}
}
