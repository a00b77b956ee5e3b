package skills_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// TestTooLargeToRun: what validate warns of is what the sandbox refuses.
func TestTooLargeToRun(t *testing.T) {
	t.Parallel()
	many := func(n int) map[string]string {
		files := map[string]string{"run.sh": ""}
		for i := range n - 4 { // with the folder itself, d, SKILL.md and run.sh
			files[fmt.Sprint("d/", i)] = ""
		}
		return files
	}
	const most = 64 << 20
	for name, c := range map[string]struct {
		files map[string]string
		bytes int64 // of x/large.bin
		want  string
	}{
		"large":            {map[string]string{"run.sh": "", "x/large.bin": "x"}, most, "more than 64 MiB of files"},
		"no scripts":       {map[string]string{"x/large.bin": "x"}, most, ""},
		"small":            {map[string]string{"run.sh": "", "x/large.bin": "x"}, 1 << 20, ""},
		"what is not read": {map[string]string{"run.sh": "", ".git/x": "", "x/large.bin": "x"}, most, "more than 64 MiB"},
		"as many as can":   {many(2000), 0, ""},
		"too many":         {many(2001), 0, "more than 2000 files and folders"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"s/SKILL.md": named("s")}
			for name, text := range c.files {
				files["s/"+name] = text
			}
			root := tree(t, files)
			if c.bytes > 0 {
				if err := os.Truncate(filepath.Join(root, "s/x/large.bin"), c.bytes); err != nil {
					t.Fatal(err)
				}
			}
			found, err := skills.Discover(t.Context(), skills.Config{Validate: true, Roots: []string{root}})
			if err != nil || !found.Sound() || len(found.Skills) != 1 {
				t.Fatal(found, err)
			}
			faults := strings.Join(faultsBelow(root, found), "\n")
			if (c.want == "") != (faults == "") || !strings.Contains(faults, c.want) {
				t.Errorf("faults %q, want %q", faults, c.want)
			}
			if len(found.Skills[0].Scripts) == 0 {
				return
			}
			_, err = skills.Sandboxed(box(t, sandbox.Config{})).Digest(t.Context(), found.Skills[0])
			if (err == nil) != (c.want == "") {
				t.Errorf("the sandbox says %v", err)
			}
		})
	}
}
