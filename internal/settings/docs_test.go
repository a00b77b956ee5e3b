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

// table is the table of all settings in Markdown, for docs/settings.md.
func table() string {
	var out strings.Builder
	out.WriteString("| variable | meaning | default |\n|---|---|---|\n")
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
		names := strings.Split(tag.Get("env"), ",")
		if names[0] == "" {
			continue
		}
		otherwise := tag.Get("else")
		if value := tag.Get("default"); value != "" {
			otherwise = "`" + value + "`"
		} else if fields.Field(i).Type.Kind() == reflect.Bool {
			otherwise = "`false`"
		}
		meaning := tag.Get("help")
		if len(names) > 1 {
			meaning += " (also `" + names[1] + "`)"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", names[0], meaning, cmp.Or(otherwise, "none"))
	}
	return out.String()
}
