//go:build unix

package skills_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/skills"
)

// TestExchangedForLinks puts links where files and folders were when they were found. What
// they lead to lies within the root, where opening with os.Root alone would follow them.
func TestExchangedForLinks(t *testing.T) {
	t.Parallel()
	for name, exchanged := range map[string]string{"the file": "s/a/b.md", "a folder": "s/a", "the skill": "s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, map[string]string{"s/SKILL.md": named("s"), "s/a/b.md": "text", "other/SKILL.md": named("other"), "other/b.md": "secret", "other/a/b.md": "secret"})
			_, _, all := discover(t, root, skills.Config{FollowLinks: true})
			r, _ := resource(all.Skills[1], "a/b.md")
			path := filepath.Join(root, exchanged)
			if err := os.Rename(path, path+".was"); err != nil {
				t.Fatal(err)
			}
			target := "other"
			if exchanged == "s/a/b.md" {
				target = "other/b.md"
			}
			if err := os.Symlink(filepath.Join(root, target), path); err != nil {
				t.Fatal(err)
			}
			if data, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
				t.Errorf("read %q, %v", data, err)
			}
		})
	}
}

// TestRace exchanges a folder or file for a link beside it and back while it is read.
func TestRace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ exchanged, target string }{
		"the skill": {"s", "other"},
		"the file":  {"s/a/b.md", "c.secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, map[string]string{"s/SKILL.md": named("s"), "s/a/b.md": "text", "s/a/c.secret": "secret", "other/a/b.md": "secret", "link": "->" + c.target})
			_, _, all := discover(t, root, skills.Config{})
			r, _ := resource(all.Skills[0], "a/b.md")
			stop := exchange(filepath.Join(root, c.exchanged), filepath.Join(root, "link"), filepath.Join(root, "real"))
			var read, refused int
			for read+refused < 1000 {
				switch data, err := r.Read(t.Context()); {
				case err != nil:
					refused++
				case data.String() == "text":
					read++
				default:
					t.Fatalf("read %q after %d reads and %d refusals", data, read, refused)
				}
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// exchange puts the link in the place of the file and back, until it is stopped.
func exchange(file, link, real string) (stop func() error) {
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-ended:
				done <- nil
				return
			default:
			}
			if err := errors.Join(os.Rename(file, real), os.Rename(link, file), os.Rename(file, link), os.Rename(real, file)); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() error { close(ended); return <-done }
}

func TestNoRegularFiles(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"s/SKILL.md": named("s"), "s/a.md": "text", "p/": ""})
	for _, pipe := range []string{"s/pipe.md", "p/SKILL.md"} {
		if err := syscall.Mkfifo(filepath.Join(root, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, faults, all := discover(t, root, skills.Config{})
	if len(all.Skills) != 1 || len(faults) != 2 || !strings.Contains(faults[0], "p/SKILL.md: cannot be read: SKILL.md is no regular file") || !strings.Contains(faults[1], "s/pipe.md: warning: is left out: pipe.md is no regular file") {
		t.Fatalf("%d skills, faults %q", len(all.Skills), faults)
	}
	file := filepath.Join(root, "s/a.md")
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	r, _ := resource(all.Skills[0], "a.md")
	if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("read a pipe: %v", err)
	}
}

// TestSparseFiles has files of a GiB that take no room on the disk.
func TestSparseFiles(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"s/SKILL.md": named("s"), "s/grows.md": "x", "s/large.md": "x", "s/large.py": "x", "t/SKILL.md": named("t")})
	grow := func(name string) {
		if err := os.Truncate(filepath.Join(root, name), 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"s/large.md", "s/large.py", "t/SKILL.md"} {
		grow(name)
	}
	_, faults, all := discover(t, root, skills.Config{})
	if len(all.Skills) != 1 || len(faults) != 3 || listed(all.Skills[0]) != "grows.md|" {
		t.Fatalf("%d skills, faults %q", len(all.Skills), faults)
	}
	grow("s/grows.md")
	if _, err := all.Skills[0].Resources[0].Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is too large") {
		t.Errorf("read: %v", err)
	}
}

func TestThousandsOfFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"s/SKILL.md": named("s")}
	for i := range 2200 {
		files[fmt.Sprintf("s/d%d/f%d.md", i%7, i)] = ""
	}
	for i := range 2100 {
		files[fmt.Sprintf("z/%04d/", i)] = ""
	}
	root := tree(t, files)
	begin := time.Now()
	_, faults, all := discover(t, root, skills.Config{})
	if len(all.Skills) != 1 || len(all.Skills[0].Resources) > 2000 || len(all.Skills[0].Resources) < 1900 {
		t.Fatalf("%d skills", len(all.Skills))
	}
	if len(faults) != 2 || !strings.Contains(faults[0], "more than 2000 files in one skill") || !strings.Contains(faults[1], "more than 2000 folders") {
		t.Errorf("faults %q", faults)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}
