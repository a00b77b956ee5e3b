package skills_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/skills"
)

// made are skills of these names, which differ in more than their pointers.
func made(names ...string) (list []*skills.Skill) {
	for _, name := range names {
		list = append(list, &skills.Skill{FrontMatter: skills.FrontMatter{Name: name, Description: "Does it."}})
	}
	return list
}

func names(list []*skills.Skill) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// counted is a source with these skills that counts how often it is asked.
type counted struct {
	skills.Source
	calls int
}

func count(names ...string) *counted { return &counted{Source: skills.Memory(made(names...)...)} }

func (c *counted) Skills(ctx context.Context, turn *actions.Turn) ([]*skills.Skill, error) {
	c.calls++
	return c.Source.Skills(ctx, turn)
}

// of is a turn of that person.
func of(user string) *actions.Turn {
	return &actions.Turn{Activity: &activity.Activity{From: activity.NewAccount(user, user)}}
}

func userOf(turn *actions.Turn) string { return turn.Activity.From.ID }

var errSource = errors.New("the source is away")

func failing(context.Context, *actions.Turn) ([]*skills.Skill, error) { return nil, errSource }

func always(context.Context, *actions.Turn, *skills.Skill) bool { return true }

func TestNewSource(t *testing.T) {
	t.Parallel()
	keep := func(_ context.Context, turn *actions.Turn, s *skills.Skill) bool {
		return strings.HasPrefix(s.Name, "keep-") || turn != nil && userOf(turn) == "admin"
	}
	for name, c := range map[string]struct {
		cfg  skills.SourceConfig
		turn *actions.Turn
		want []string
	}{
		"empty":               {skills.SourceConfig{}, nil, nil},
		"one":                 {skills.SourceConfig{Sources: []skills.Source{count("b", "a")}}, nil, []string{"b", "a"}},
		"two":                 {skills.SourceConfig{Sources: []skills.Source{count("b"), count("a")}}, nil, []string{"b", "a"}},
		"first wins":          {skills.SourceConfig{Sources: []skills.Source{count("a", "b"), count("B", "c")}}, nil, []string{"a", "b", "c"}},
		"filter":              {skills.SourceConfig{Sources: []skills.Source{count("drop", "keep-a", "drop-b", "keep-c")}, Keep: keep}, nil, []string{"keep-a", "keep-c"}},
		"filter by person":    {skills.SourceConfig{Sources: []skills.Source{count("drop", "keep-a")}, Keep: keep}, of("admin"), []string{"drop", "keep-a"}},
		"filter, then unique": {skills.SourceConfig{Sources: []skills.Source{count("Keep-a"), count("keep-a")}, Keep: keep}, nil, []string{"keep-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := skills.NewSource(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.Skills(t.Context(), c.turn)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(list)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFilterBehindCache holds the one list that all share to being filtered for each.
func TestFilterBehindCache(t *testing.T) {
	t.Parallel()
	source := count("common", "mia", "tom")
	s, err := skills.NewSource(skills.SourceConfig{
		Sources: []skills.Source{source},
		Keep: func(_ context.Context, turn *actions.Turn, s *skills.Skill) bool {
			return s.Name == "common" || s.Name == userOf(turn)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"mia", "tom", "mia"} {
		list, err := s.Skills(t.Context(), of(user))
		if diff := cmp.Diff([]string{"common", user}, names(list)); err != nil || diff != "" {
			t.Errorf("%s: %v %s", user, err, diff)
		}
	}
	if source.calls != 1 {
		t.Errorf("%d calls", source.calls)
	}
}

func TestNewSourceMistakes(t *testing.T) {
	t.Parallel()
	watched, err := skills.Watch(skills.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = skills.NewSource(skills.SourceConfig{Sources: []skills.Source{nil, watched}, Cache: skills.CacheConfig{MaxKeys: -1}})
	for _, part := range []string{"Sources[0] is nil", "Sources[1] is watched", "MaxKeys"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
	if _, err := skills.NewSource(skills.SourceConfig{Sources: []skills.Source{watched}, DisableCaching: true}); err != nil {
		t.Error(err)
	}
	if _, err := skills.Files(skills.Config{Depth: -1}); err == nil {
		t.Error("Files took a wrong config")
	}
	if _, err := skills.Watch(skills.Config{Depth: -1}); err == nil {
		t.Error("Watch took a wrong config")
	}
}

func TestWiringMistakes(t *testing.T) {
	t.Parallel()
	for name, wire := range map[string]func(){
		"nil skill":        func() { skills.Memory(nil) },
		"no name":          func() { skills.Memory(made("")...) },
		"no real name":     func() { skills.Memory(made("a\nb")...) },
		"no description":   func() { skills.Memory(&skills.Skill{FrontMatter: skills.FrontMatter{Name: "a"}}) },
		"nil source":       func() { skills.Aggregate(count(), nil) },
		"filter nothing":   func() { skills.Filter(nil, always) },
		"filter by none":   func() { skills.Filter(count(), nil) },
		"unique nothing":   func() { skills.Deduplicate(nil) },
		"cache nothing":    func() { skills.Cache(nil, skills.CacheConfig{}) },
		"cache of no size": func() { skills.Cache(count(), skills.CacheConfig{MaxKeys: -1}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("took it")
				}
			}()
			wire()
		})
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	list := made("a", "Bad--Name")
	source := skills.Memory(list...)
	list[0] = nil
	if got, err := source.Skills(t.Context(), nil); err != nil || len(got) != 2 || got[0] == nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSourcesPassOn holds every decorator to the same turn and the same error.
func TestSourcesPassOn(t *testing.T) {
	t.Parallel()
	turn := of("mia")
	wrap := map[string]func(skills.Source) skills.Source{
		"aggregate":   func(s skills.Source) skills.Source { return skills.Aggregate(count("a"), s) },
		"filter":      func(s skills.Source) skills.Source { return skills.Filter(s, always) },
		"deduplicate": skills.Deduplicate,
		"cache":       func(s skills.Source) skills.Source { return skills.Cache(s, skills.CacheConfig{}) },
	}
	for name, wrap := range wrap {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := wrap(skills.SourceFunc(failing)).Skills(t.Context(), turn); !errors.Is(err, errSource) {
				t.Errorf("error %v", err)
			}
			var got *actions.Turn
			_, err := wrap(skills.SourceFunc(func(_ context.Context, turn *actions.Turn) ([]*skills.Skill, error) {
				got = turn
				return nil, nil
			})).Skills(t.Context(), turn)
			if err != nil || got != turn {
				t.Errorf("turn %p, want %p, %v", got, turn, err)
			}
		})
	}
	_, err := skills.Filter(count("a"), func(_ context.Context, got *actions.Turn, _ *skills.Skill) bool {
		if got != turn {
			t.Error("the filter has another turn")
		}
		return true
	}).Skills(t.Context(), turn)
	if err != nil {
		t.Error(err)
	}
}

func TestDeduplicate(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx := zerolog.New(&log).Level(zerolog.InfoLevel).WithContext(t.Context())
	list := made("b", "a", "B", "ä", "Ä", "c", "b")
	s := skills.Deduplicate(skills.Filter(skills.Memory(list...), func(_ context.Context, turn *actions.Turn, _ *skills.Skill) bool {
		return turn == nil || userOf(turn) != "nobody"
	}))
	for _, turn := range []*actions.Turn{nil, of("nobody"), nil, nil} {
		got, err := s.Skills(ctx, turn)
		if err != nil {
			t.Fatal(err)
		}
		want := []*skills.Skill{list[0], list[1], list[3], list[5]}
		if turn != nil {
			want = []*skills.Skill{}
		}
		if diff := cmp.Diff(names(want), names(got)); diff != "" {
			t.Fatal(diff)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%d is not the first", i)
			}
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), `"warn"`) {
		t.Errorf("%d lines, want one for b and one for ä:\n%s", n, &log)
	}
}

func TestFilesSource(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a/SKILL.md": named("a"), "b/SKILL.md": named("c")})
	source, err := skills.Files(skills.Config{Roots: []string{root, "", " ", filepath.Join(root, "nowhere")}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx := zerolog.New(&log).WithContext(t.Context())
	faulty := func() { write(t, root, "c/SKILL.md", "x") }
	gone := func() { remove(t, root, "c") }
	nothing := func() {}
	for i, step := range []struct {
		change func()
		lines  int // of the log
	}{{nothing, 3}, {nothing, 3}, {faulty, 4}, {nothing, 4}, {gone, 4}, {faulty, 5}} {
		step.change()
		list, err := source.Skills(ctx, nil)
		if err != nil || len(list) != 1 || list[0].Name != "a" {
			t.Fatal(names(list), err)
		}
		if n := strings.Count(log.String(), "\n"); n != step.lines {
			t.Fatalf("step %d: %d lines, want %d:\n%s", i, n, step.lines, &log)
		}
	}
	for _, said := range []string{"b/SKILL.md:2: directory name", "warning: names no folder", "nowhere: warning: does not exist", "c/SKILL.md:1: must start"} {
		if !strings.Contains(log.String(), said) {
			t.Errorf("no %q in:\n%s", said, &log)
		}
	}
}

// BenchmarkSource is a warm call for 200 skills, of which each person has all but one.
func BenchmarkSource(b *testing.B) {
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("skill-%03d", i)
	}
	users := []*actions.Turn{of("skill-042"), of("skill-117")}
	others := func(_ context.Context, turn *actions.Turn, s *skills.Skill) bool { return s.Name != userOf(turn) }
	for name, cfg := range map[string]skills.SourceConfig{"all": {}, "filter": {Keep: others}, "keyed": {Cache: skills.CacheConfig{Key: userOf, TTL: time.Hour}}} {
		b.Run(name, func(b *testing.B) {
			cfg.Sources = []skills.Source{skills.Memory(made(names...)...)}
			s, err := skills.NewSource(cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if list, err := s.Skills(b.Context(), users[i%2]); err != nil || len(list) < 199 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
