package skills_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
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
	for i, want := range []string{"a/x: warning: is left out: ", "b: warning: cannot be searched: ", "c/SKILL.md: cannot be read: "} {
		if !strings.HasPrefix(faults[i], want) || !strings.Contains(faults[i], "permission denied") {
			t.Errorf("fault %q, want %q", faults[i], want)
		}
	}
}

// eachRunner runs a test with each kind of sandbox that the machine has; that it has one
// where changes are judged is what the tests of the package sandbox see to.
func eachRunner(t *testing.T, test func(t *testing.T, r skills.Runner)) {
	t.Parallel()
	for _, kind := range []string{"bubblewrap", "landlock"} {
		s, err := sandbox.New(t.Context(), sandbox.Config{Kinds: []string{kind}})
		if errors.Is(err, sandbox.ErrNoSandbox) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if err != nil {
				t.Fatal(err)
			}
			test(t, skills.Sandboxed(s))
		})
	}
}

// TestRunExchangedForLink puts a link in the place of a skill's folder, or of one above it,
// once it was found. What the link leads to is neither approved nor run.
func TestRunExchangedForLink(t *testing.T) {
	eachRunner(t, func(t *testing.T, r skills.Runner) {
		away := tree(t, map[string]string{"s/run.sh": "cat x.txt", "s/x.txt": "secret", "a/s/run.sh": "cat x.txt", "a/s/x.txt": "secret"})
		for name, c := range map[string]struct{ root, exchanged, target string }{
			"the skill":                           {".", "a/s", "s"},
			"a folder above":                      {".", "a", "a"},
			"the root":                            {"a", "a", "a"},
			"the root, which is it":               {"a/s", "a/s", "s"},
			"the root, of a skill from elsewhere": {"a/s", "a/s", "s"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := tree(t, map[string]string{"a/s/SKILL.md": named("s"), "a/s/run.sh": "cat x.txt", "a/s/x.txt": "harmless"})
				_, _, all := discover(t, dir, skills.Config{Roots: []string{filepath.Join(dir, c.root)}})
				if len(all.Skills) != 1 || len(all.Skills[0].Scripts) != 1 {
					t.Fatalf("%+v", all)
				}
				s := all.Skills[0]
				if name == "the root, of a skill from elsewhere" {
					s = &skills.Skill{Name: s.Name, Description: s.Description, Dir: s.Dir, Scripts: s.Scripts}
				}
				if got := told(t, r, s, "run.sh", "", ""); got != "?harmless" {
					t.Fatalf("before: %q", got)
				}
				path := filepath.Join(dir, c.exchanged)
				if err := errors.Join(os.Rename(path, path+".was"), os.Symlink(filepath.Join(away, c.target), path)); err != nil {
					t.Fatal(err)
				}
				if digest, err := r.Digest(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
					t.Errorf("digest %s, %v", digest, err)
				}
				if got := told(t, r, s, "run.sh", "", ""); !strings.Contains(got, "is a symbolic link") {
					t.Errorf("ran: %q", got)
				}
			})
		}
	})
}

// TestRunExchangedMeanwhile does so while the skill is read and run.
func TestRunExchangedMeanwhile(t *testing.T) {
	eachRunner(t, func(t *testing.T, r skills.Runner) {
		dir := tree(t, map[string]string{"s/SKILL.md": named("s"), "s/run.sh": "cat x.txt", "s/x.txt": "harmless"})
		away := tree(t, map[string]string{"run.sh": "cat x.txt", "x.txt": "secret"})
		_, _, all := discover(t, dir, skills.Config{})
		s := all.Skills[0]
		want, err := r.Digest(t.Context(), s)
		if err := errors.Join(err, os.Symlink(away, filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
		stop := exchange(filepath.Join(dir, "s"), filepath.Join(dir, "link"), filepath.Join(dir, "real"))
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			if is, err := r.Digest(t.Context(), s); err == nil && is != want {
				t.Error("the digest is that of something else")
			}
			if got := told(t, r, s, "run.sh", "", ""); got != "?harmless" && !strings.HasPrefix(got, "error: ") {
				t.Errorf("ran: %q", got)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHardLinks has files with a name elsewhere, which may be those that only the bot may
// read: they are not listed, not read, and no script of their skill runs.
func TestHardLinks(t *testing.T) {
	eachRunner(t, func(t *testing.T, r skills.Runner) {
		away := filepath.Join(tree(t, map[string]string{"file": named("a") + "secret"}), "file")
		dir := tree(t, map[string]string{"a/": "", "s/SKILL.md": named("s"), "s/run.sh": "cat later.md", "s/later.md": "harmless"})
		link := func(name string) {
			t.Helper()
			if err := os.Link(away, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		link("a/SKILL.md")
		link("s/x.md")
		found, err := skills.Discover(t.Context(), skills.Config{Validate: true, Roots: []string{dir}})
		faults := strings.Join(faultsBelow(dir, found), "\n")
		const want = "a/SKILL.md: cannot be read: SKILL.md is a hard link, and may be a file from elsewhere\n" +
			"s/x.md: warning: is left out: x.md is a hard link, and may be a file from elsewhere\n" +
			"s: warning: its scripts cannot be run: digest of skill \"s\": copy skill: x.md is a hard link, and may be a file from elsewhere"
		if err != nil || faults != want || len(found.Skills) != 1 || listed(found.Skills[0]) != "later.md|run.sh" {
			t.Fatalf("%q, %v, want %q", faults, err, want)
		}
		s := found.Skills[0]
		refused := func(name string) {
			t.Helper()
			if _, err := r.Digest(t.Context(), s); err == nil || !strings.Contains(err.Error(), name+" is a hard link") {
				t.Errorf("digest: %v", err)
			}
			if got := told(t, r, s, "run.sh", "", ""); got != "!Error: Script 'run.sh' was not run: "+name+" is a hard link, and may be a file from elsewhere." {
				t.Errorf("ran: %q", got)
			}
		}
		refused("x.md")
		if err := errors.Join(os.Remove(filepath.Join(dir, "s/x.md")), os.Remove(filepath.Join(dir, "s/later.md"))); err != nil {
			t.Fatal(err)
		}
		link("s/later.md")
		refused("later.md")
		if data, err := s.Resources[0].Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is a hard link") {
			t.Errorf("read %q, %v", data, err)
		}
	})
}
