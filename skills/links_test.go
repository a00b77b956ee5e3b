package skills_test

import (
	"path/filepath"
	"testing"

	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// TestRunLinkedSkill runs scripts in the real sandbox: those of a skill that as a whole is
// a link, or is linked in part.
func TestRunLinkedSkill(t *testing.T) {
	t.Parallel()
	runner := skills.Sandboxed(box(t, sandbox.Config{}))
	root := tree(t, map[string]string{
		"a/whole": "->../b/whole", "b/whole/SKILL.md": named("whole"), "b/whole/scripts/run.sh": "cat x.txt", "b/whole/x.txt": "beside it",
		"a/mounted/..1/SKILL.md": named("mounted"), "a/mounted/..1/run.sh": "echo never", "a/mounted/..data": "->..1",
		"a/mounted/SKILL.md": "->..data/SKILL.md", "a/mounted/run.sh": "->..data/run.sh", "a/mounted/own.sh": "echo own",
	})
	_, faults, all := discover(t, root, skills.Config{Roots: []string{filepath.Join(root, "a"), filepath.Join(root, "b")}, FollowLinks: true})
	if len(all.Skills) != 2 || len(faults) != 1 {
		t.Fatalf("%d skills, faults %q", len(all.Skills), faults)
	}
	ran := map[string]string{}
	for _, s := range all.Skills {
		digest, err := runner.Digest(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range s.Scripts {
			ran[s.Name+" "+script.Name] = told(t, runner, s, script.Name, `null`, digest)
		}
	}
	if len(ran) != 2 || ran["whole scripts/run.sh"] != "?beside it" || ran["mounted own.sh"] != "?own" {
		t.Errorf("ran %q", ran)
	}
}
