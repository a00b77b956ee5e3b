package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// Whoever can write the skill's folder exchanges a folder in it for a link that leads
// out of it, as fast as he can: what a script sees never comes from outside.
func TestLinksPutInMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		inside, outside := []string{"a.sh", "cat data/*; echo end"}, []string{}
		for i := range 200 { // so that there is a while between seeing a file and reading it
			inside = append(inside, fmt.Sprint("data/", i), "harmless")
			outside = append(outside, fmt.Sprint("folder/", i), secret)
		}
		dir, away := skill(t, inside...), skill(t, outside...)
		if err := os.Symlink(filepath.Join(away, "folder"), filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		var exchanging sync.WaitGroup
		exchanging.Go(func() {
			for ctx.Err() == nil {
				exchange(t, filepath.Join(dir, "data"), filepath.Join(dir, "link"))
				runtime.Gosched()
			}
		})
		ran := 0
		for end := time.Now().Add(time.Second); time.Now().Before(end) || ran == 0 && ctx.Err() == nil; {
			got, err := s.Run(t.Context(), sandbox.Command{Dir: folder(t, dir), Script: "a.sh"})
			if err != nil || got.Refused != "" {
				continue // caught in the middle
			}
			ran++
			if !strings.HasSuffix(got.Stdout, "end\n") || strings.Contains(got.Stdout, secret) {
				t.Errorf("%+v", got)
			}
		}
		stop()
		exchanging.Wait()
		if ran == 0 {
			t.Error("no run came through")
		}
	})
}

// A hard link can be to a file that only the bot may read: a skill that holds one is refused,
// and nothing of the file is seen, however fast the link comes and goes.
func TestHardLinks(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		away := filepath.Join(skill(t, "file", secret), "file")
		dir := skill(t, "a.sh", "cat data/*", "data/own", "harmless")
		link := filepath.Join(dir, "data", "link")
		if err := os.Link(away, link); err != nil {
			t.Fatal(err)
		}
		c := sandbox.Command{Dir: folder(t, dir), Script: "a.sh"}
		_, ofDigest := s.Digest(t.Context(), c.Dir)
		if ofDigest == nil || !strings.Contains(ofDigest.Error(), "data/link is a hard link") {
			t.Errorf("%v", ofDigest)
		}
		if got, err := s.Run(t.Context(), c); err != nil || !strings.HasPrefix(got.Refused, "data/link is a hard link") {
			t.Errorf("%+v, %v", got, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		without, err := s.Digest(t.Context(), c.Dir)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var linking sync.WaitGroup
		linking.Go(func() {
			for ctx.Err() == nil {
				if err := errors.Join(os.Link(away, link), os.Remove(link)); err != nil {
					t.Error(err)
				}
			}
		})
		defer linking.Wait()
		defer stop()
		tries, through := 0, 0
		for end := time.Now().Add(time.Second); time.Now().Before(end); tries++ {
			// It reads what Run copies, and is so fast that it meets each moment.
			is, err := s.Digest(t.Context(), c.Dir)
			if err != nil {
				continue // refused, or caught in the middle
			}
			if through++; is != without {
				t.Fatalf("the link was read, in the %dth of %d that came through", through, tries)
			}
		}
		t.Logf("%d of %d came through", through, tries)
	})
}

// A folder that is open stays the one it is, whatever takes its place.
func TestExchangedFolder(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		dir, away := skill(t, "a.sh", "cat file", "file", "harmless"), skill(t, "a.sh", "cat file", "file", secret)
		c := sandbox.Command{Dir: folder(t, dir), Script: "a.sh"}
		before, err := s.Digest(t.Context(), c.Dir)
		if err := errors.Join(err, os.Rename(dir, dir+".was"), os.Symlink(away, dir)); err != nil {
			t.Fatal(err)
		}
		after, err := s.Digest(t.Context(), c.Dir)
		if err != nil || before != after {
			t.Errorf("digest %s, then %s, %v", before, after, err)
		}
		if got := run(t, s, c); got.Stdout != "harmless" {
			t.Errorf("%+v", got)
		}
	})
}

func exchange(t *testing.T, a, b string) {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		t.Error(err)
	}
}

// What killed programs left goes when the next one starts; what may be at work and what is of
// somebody else stays.
func TestSweep(t *testing.T) {
	temp := openTemp(t)
	t.Setenv("TMPDIR", temp)
	const prefix = "planbot-skill-"
	for _, name := range []string{prefix + "left", prefix + "busy", "planbot-other"} {
		if err := os.MkdirAll(filepath.Join(temp, name, "skill", "shut"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link, file := filepath.Join(temp, prefix+"link"), filepath.Join(temp, prefix+"file")
	if err := os.Symlink(filepath.Join(temp, "planbot-other"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(temp, prefix+"left", "skill"), 0); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{prefix + "left": 3 * time.Hour, prefix + "busy": 59 * time.Minute, prefix + "file": 3 * time.Hour, "planbot-other": 3 * time.Hour} {
		if err := os.Chtimes(filepath.Join(temp, name), time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = sandbox.New(t.Context(), sandbox.Config{Kinds: []string{"bubblewrap"}, Bubblewrap: "/nonexistent/bwrap"})
	entries, err := os.ReadDir(temp)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if want := "planbot-other planbot-skill-busy planbot-skill-file planbot-skill-link"; strings.Join(got, " ") != want {
		t.Errorf("there are %q, %v; want %q", got, err, want)
	}
}
