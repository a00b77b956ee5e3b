package skills_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/skills"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, root, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
		t.Fatal(err)
	}
}

// TestReload runs in a bubble, where a second passes at once.
func TestReload(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"one/a/SKILL.md": named("a")})
	does := func(text string) func() {
		return func() { write(t, root, "one/a/SKILL.md", withFront("name: a\ndescription: "+text)) }
	}
	synctest.Test(t, func(t *testing.T) {
		s := skills.Config{Reload: true, Roots: []string{filepath.Join(root, "one"), filepath.Join(root, "two")}}.Source()
		var log bytes.Buffer
		ctx := zerolog.New(&log).WithContext(t.Context())
		for _, step := range []struct {
			name   string
			change func()
			wait   time.Duration
			want   string
			lines  int    // in the log
			said   string // among them
		}{
			{"first", func() {}, 0, "a: Does it.", 2, "two: warning: does not exist"},
			{"too soon", does("one"), 999 * time.Millisecond, "a: Does it.", 0, ""},
			{"changed", func() {}, time.Millisecond, "a: one", 1, `"skills":1`},
			{"nothing", func() {}, time.Second, "a: one", 0, ""},
			{"broken", func() { write(t, root, "one/a/SKILL.md", "oops") }, time.Second, "", 2, "one/a/SKILL.md:1: must start"},
			{"still broken", func() { write(t, root, "one/b/SKILL.md", named("b")) }, time.Second, "b: Does it.", 1, ""},
			{"repaired", does("three"), time.Second, "a: three, b: Does it.", 1, ""},
			{"broken again", func() { write(t, root, "one/a/SKILL.md", "oops") }, time.Second, "b: Does it.", 2, "must start"},
			{"a root that comes", func() { write(t, root, "two/x/c/SKILL.md", named("c")) }, time.Second, "b: Does it., c: Does it.", 1, ""},
			{"a file", func() { write(t, root, "two/x/c/references/r.md", "r") }, time.Second, "b: Does it., c: Does it. r.md", 1, ""},
			{"gone", func() { remove(t, root, "one/a") }, time.Second, "b: Does it., c: Does it. r.md", 0, ""},
			{"a root gone", func() { remove(t, root, "two") }, time.Second, "b: Does it.", 2, "does not exist"},
		} {
			step.change()
			time.Sleep(step.wait)
			log.Reset()
			list, err := s(ctx, nil)
			if err != nil {
				t.Fatal(step.name, err)
			}
			var got []string
			for _, s := range list {
				text := s.Name + ": " + s.Description
				for _, r := range s.Resources {
					text += " " + filepath.Base(r.Name)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(step.want, strings.Join(got, ", ")); diff != "" {
				t.Error(step.name, diff)
			}
			if n := strings.Count(log.String(), "\n"); n != step.lines || !strings.Contains(log.String(), step.said) {
				t.Errorf("%s: %d lines, want %d with %q:\n%s", step.name, n, step.lines, step.said, &log)
			}
		}
	})
}

// TestReloadGivesTheSameList: nothing is rendered anew while nothing changes.
func TestReloadGivesTheSameList(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a/SKILL.md": named("a")})
	synctest.Test(t, func(t *testing.T) {
		s := skills.Config{Reload: true, Roots: []string{root}}.Source()
		one, _ := s(t.Context(), nil)
		time.Sleep(time.Minute)
		if two, err := s(t.Context(), nil); err != nil || &one[0] != &two[0] {
			t.Error("loaded anew without a change", err)
		}
	})
}

// TestReloadThroughLinks is how Kubernetes changes what it mounts.
func TestReloadThroughLinks(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"a/..1/SKILL.md": named("a"), "a/..2/SKILL.md": withFront("name: a\ndescription: Does it better."),
		"a/..data": "->..1", "a/SKILL.md": "->..data/SKILL.md",
	})
	synctest.Test(t, func(t *testing.T) {
		s := skills.Config{Reload: true, Roots: []string{root}, FollowLinks: true}.Source()
		for _, step := range []struct {
			want   string
			change func()
		}{
			{"Does it.", func() {
				remove(t, root, "a/..data")
				if err := os.Symlink("..2", filepath.Join(root, "a", "..data")); err != nil {
					t.Fatal(err)
				}
			}},
			{"Does it better.", func() { write(t, root, "a/..2/SKILL.md", withFront("name: a\ndescription: Does it best.")) }},
			{"Does it best.", func() {}},
		} {
			list, err := s(t.Context(), nil)
			if err != nil || len(list) != 1 || list[0].Description != step.want {
				t.Fatalf("%v, %v, want %q", names(list), err, step.want)
			}
			step.change()
			time.Sleep(time.Second)
		}
	})
}

func TestReloadGivenUp(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a/SKILL.md": named("a")})
	s := skills.Config{Reload: true, Roots: []string{root}}.Source()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if list, err := s(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("afterwards: %v, %v", list, err)
	}
}
