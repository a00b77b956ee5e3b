package skills_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/planbot-go/planbot/skills"
)

// TestFolderThatCannotBeRead looks at files as somebody who may not read all of them,
// also where the tests run as root.
func TestFolderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a/SKILL.md": named("a"), "a/x/y.md": "", "b/SKILL.md": named("b"), "c/SKILL.md": named("c")})
	for name, mode := range map[string]os.FileMode{"..": 0o755, ".": 0o755, "a/SKILL.md": 0o644, "a/x": 0, "b": 0, "c/SKILL.md": 0} {
		path := filepath.Join(root, name)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(path, 0o700) }) // so that it can be removed
	}
	runtime.LockOSThread() // and the thread ends with the test
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setfsuid(os.Getuid()) }()
	_, faults, all := discover(t, root, skills.Config{})
	if len(all.Skills) != 1 || len(faults) != 3 {
		t.Fatalf("%d skills, faults %q", len(all.Skills), faults)
	}
	for i, want := range []string{"a/x: warning: is left out: ", "b: warning: is passed over: ", "c/SKILL.md: cannot be read: "} {
		if !strings.HasPrefix(faults[i], want) || !strings.Contains(faults[i], "permission denied") {
			t.Errorf("fault %q, want %q", faults[i], want)
		}
	}
}
