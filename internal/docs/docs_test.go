// Package docs_test keeps README.md and docs/ true to the tree: what they show
// of code is in the code, and links lead somewhere.
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

// TestGoCodeIsInTheTree leaves aside how far code is indented.
func TestGoCodeIsInTheTree(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile("(?m)^\t+")
	trees := map[string][]string{
		"README.md":                 {"examples/first/main.go", "bottest/example_test.go"},
		"docs/actions.md":           {"examples/first/main.go", "bot/actions_page_test.go", "bottest/languages_test.go", "examples/pizza/main.go", "examples/helpdesk/main.go"},
		"docs/approvals.md":         {"bot/approvals_page_test.go"},
		"docs/custom-planner.md":    {"app/example_planner_test.go", "planner/example_test.go"},
		"docs/from-msbotbuilder.md": {"examples/echo/main.go"},
		"docs/how-to.md":            {"bottest/howto_test.go"},
		"docs/knowledge.md":         {"examples/handbook/main.go", "knowledge/azure_test.go"},
		"docs/messages.md":          {"bot/example_test.go"},
		"docs/own-bot.md":           {"app/example_test.go", "app/example_feature_test.go", "actions/actions_test.go"},
		"docs/prompts.md":           {"planner/example_test.go"},
		"docs/services.md":          {"app/services_example_test.go"},
		"docs/skills.md":            {"skills/example_test.go", "skills/example_sandbox_test.go"},
		"docs/changes.md":           {"bottest/crash_test.go"},
		"docs/state.md":             {"bot/state_page_test.go", "state/example_test.go"},
		"docs/teams.md":             {"bot/teams/example_test.go", "bot/teams/meeting_test.go", "actions/example_test.go"},
		"docs/testing.md":           {"examples/coffee/main_test.go", "examples/coffee/files_test.go"},
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if page, _ := filepath.Rel(root, page); trees[page] == nil && strings.Contains(read(t, page), "```go\n") {
			t.Errorf("%s shows Go code: say here in which files it stands", page)
		}
	}
	for page, files := range trees {
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

// TestEveryPageIsListed: docs/README.md leads to each page of the folder.
func TestEveryPageIsListed(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := read(t, "docs/README.md")
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(list, "]("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}
