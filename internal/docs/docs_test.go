// Package docs_test keeps README.md and docs/ true to the tree: what they show
// of code is in the code, every setting is in the table, and links lead
// somewhere.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEverySettingIsInTheTable(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	fields := regexp.MustCompile("env:\"([^\"]+)\"([^`]*)`").FindAllStringSubmatch(read(t, "app/settings.go"), -1)
	if len(fields) < 20 {
		t.Fatalf("found only %d settings", len(fields))
	}
	for _, field := range fields {
		if strings.Contains(field[2], "hidden:") {
			continue
		}
		names := strings.Split(field[1], ",")
		if !strings.Contains(readme, "\n| `"+names[0]+"` |") {
			t.Errorf("%s has no row in the table of settings", names[0])
		}
		for _, other := range names[1:] {
			if !strings.Contains(readme, "`"+other+"`") {
				t.Errorf("%s, another name of %s, is not named", other, names[0])
			}
		}
	}
}

func TestTableHasNoSettingTooMany(t *testing.T) {
	t.Parallel()
	settings := read(t, "app/settings.go")
	_, table, _ := strings.Cut(read(t, "README.md"), "\n## Settings\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 20 {
		t.Fatalf("found only %d rows", len(rows))
	}
	for _, row := range rows {
		if !regexp.MustCompile(`env:"` + row[1] + `[",]`).MatchString(settings) {
			t.Errorf("%s is in the table, and no setting", row[1])
		}
	}
}

// TestGoCodeIsInTheTree leaves aside how far code is indented.
func TestGoCodeIsInTheTree(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile("(?m)^\t+")
	for page, files := range map[string][]string{
		"README.md":       {"examples/first/main.go", "bot/readme_test.go", "bottest/example_test.go"},
		"docs/skills.md":  {"skills/example_test.go"},
		"docs/testing.md": {"examples/coffee/main_test.go", "examples/coffee/files_test.go"},
	} {
		var tree string
		for _, file := range files {
			tree += indent.ReplaceAllString(read(t, file), "")
		}
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, page), -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no Go code", page)
		}
		for _, block := range blocks {
			if !strings.Contains(tree, indent.ReplaceAllString(block[1], "")) {
				t.Errorf("%s shows code that stands so in none of %v:\n%s", page, files, block[1])
			}
		}
	}
}
