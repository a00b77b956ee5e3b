package app_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/internal/golden"
)

// TestTheTableOfSettings: docs/settings.md has the table that is generated from all features, and this package the names
// of the features' settings. With BOTTEST_UPDATE=1 both are written anew.
func TestTheTableOfSettings(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../docs/settings.md", "go test ./app -run TheTableOfSettings -->\n\n", "\n<!-- end -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	var all, common, features strings.Builder
	for _, s := range app.Settings(app.Bot{}, full.Features()...).Given() {
		meaning := s.About
		if s.Also != "" {
			meaning += " (also `" + s.Also + "`)"
		}
		otherwise := cmp.Or(s.Default, "none")
		if s.Default != "" && !strings.Contains(s.Default, " ") {
			otherwise = "`" + s.Default + "`"
		}
		row := fmt.Sprintf("| `%s` | %s | %s |\n", s.Variable, meaning, otherwise)
		all.WriteString(row)
		if s.Common {
			common.WriteString(row)
		}
		if s.Feature != "" {
			protects := ""
			if s.Protects {
				protects = " protects"
			}
			features.WriteString(s.Variable + " " + s.Feature + protects + "\n")
		}
	}
	const head = "| variable | meaning | default |\n|---|---|---|\n"
	golden.Compare(t, page, before+begin+"## The ten you need\n\n"+head+common.String()+"\n## All of them\n\n"+head+all.String()+end+after)
	golden.Compare(t, "settings.txt", features.String())
}
