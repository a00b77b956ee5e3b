package skills_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/skills"
)

func TestDistinct(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"1/a/SKILL.md": named("a"), "1/b/SKILL.md": named("b"), "1/x/SKILL.md": "",
		"2/a/SKILL.md": named("a"), "2/c/SKILL.md": named("c"), "3/B/SKILL.md": named("B"),
	})
	_, _, all := discover(t, root, skills.Config{Roots: []string{root + "/1", root + "/2", root + "/3"}, Lenient: true})
	if !slices.Equal(names(all.Skills), []string{"a", "b", "c"}) || filepath.Base(filepath.Dir(all.Skills[0].Dir)) != "1" {
		t.Errorf("used %q", names(all.Skills))
	}
	added := all.Faults[len(all.Faults)-2:]
	if !added[0].Warning || !strings.HasSuffix(added[0].Path, filepath.Join("2", "a", "SKILL.md")) ||
		!strings.Contains(added[0].Text, `the skill "a" in `+all.Skills[0].Dir) || !strings.Contains(added[1].Text, `the skill "b" in `) {
		t.Errorf("faults %v", added)
	}
}
