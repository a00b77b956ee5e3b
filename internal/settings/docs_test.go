package settings

import (
	"os"
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
	golden.Compare(t, page, before+begin+Table()+end+after)
}
