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
	before := len(all.Faults)
	got := all.Distinct()
	if !slices.Equal(names(got.Skills), []string{"a", "b", "c"}) || got.Skills[0].Dir != all.Skills[0].Dir || len(all.Skills) != 5 || len(all.Faults) != before {
		t.Errorf("used %q, all %q", names(got.Skills), names(all.Skills))
	}
	added := got.Faults[before:]
	if len(added) != 2 || !added[0].Warning || added[0].Path != filepath.Join(all.Skills[2].Dir, "SKILL.md") ||
		!strings.Contains(added[0].Text, `the skill "a" in `+all.Skills[0].Dir) || !strings.Contains(added[1].Text, `the skill "b" in `) {
		t.Errorf("faults %v", added)
	}
	if same := got.Distinct(); len(same.Faults) != len(got.Faults) {
		t.Errorf("faults %v", same.Faults)
	}
}
