package settings

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/golden"
)

// TestTheTableOfSettings: docs/settings.md has the table that is generated from here. With
// BOTTEST_UPDATE=1 it is written anew.
func TestTheTableOfSettings(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/settings.md", "go test ./internal/settings -->\n\n", "\n<!-- end -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	golden.Compare(t, page, before+begin+table()+end+after)
}

// table is the settings in Markdown, for docs/settings.md: the ten that matter, and all of them.
func table() string {
	var all, common strings.Builder
	for field := range reflect.TypeFor[Settings]().Fields() {
		names := variablesOf(field)
		if names == nil {
			continue
		}
		otherwise := field.Tag.Get("else")
		if value := field.Tag.Get("default"); value != "" {
			otherwise = "`" + value + "`"
		} else if field.Type.Kind() == reflect.Bool {
			otherwise = "`false`"
		}
		meaning := field.Tag.Get("help")
		if len(names) > 1 {
			meaning += " (also `" + names[1] + "`)"
		}
		row := fmt.Sprintf("| `%s` | %s | %s |\n", names[0], meaning, cmp.Or(otherwise, "none"))
		all.WriteString(row)
		if field.Tag.Get("common") != "" {
			common.WriteString(row)
		}
	}
	const head = "| variable | meaning | default |\n|---|---|---|\n"
	return "## The ten you need\n\n" + head + common.String() + "\n## All of them\n\n" + head + all.String()
}
