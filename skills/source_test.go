package skills_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
		list = append(list, &skills.Skill{Name: name, Description: "Does it."})
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
	source skills.Source
	calls  int
}

func count(names ...string) *counted { return &counted{source: memory(made(names...)...)} }

func (c *counted) ask(ctx context.Context, turn *actions.Turn) ([]*skills.Skill, error) {
	c.calls++
	return c.source(ctx, turn)
}

// of is a turn of that person.
func of(user string) *actions.Turn {
	a := &activity.Activity{}
	a.From.ID, a.From.Name = user, user
	return &actions.Turn{Activity: a}
}

func userOf(turn *actions.Turn) string { return turn.Activity.From.ID }

var errSource = errors.New("the source is away")

func failing(context.Context, *actions.Turn) ([]*skills.Skill, error) { return nil, errSource }

// memory gives everybody the same skills, which may have names that none can have.
func memory(list ...*skills.Skill) skills.Source {
	return func(context.Context, *actions.Turn) ([]*skills.Skill, error) { return list, nil }
}

// aggregate is what a provider makes of several sources.
func aggregate(t *testing.T, sources ...skills.Source) skills.Source {
	t.Helper()
	p, err := skills.NewProvider(skills.ProviderConfig{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	return p.Skills
}

// filter is how a person gets some of a source's skills.
func filter(source skills.Source, keep func(ctx context.Context, turn *actions.Turn, s *skills.Skill) bool) skills.Source {
	return func(ctx context.Context, turn *actions.Turn) ([]*skills.Skill, error) {
		list, err := source(ctx, turn)
		return slices.DeleteFunc(slices.Clone(list), func(s *skills.Skill) bool { return !keep(ctx, turn, s) }), err
	}
}

func TestAggregate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sources []skills.Source
		want    []string
	}{
		"empty":      {nil, nil},
		"one":        {[]skills.Source{count("b", "a").ask}, []string{"a", "b"}},
		"two":        {[]skills.Source{count("b").ask, count("a").ask}, []string{"a", "b"}},
		"first wins": {[]skills.Source{count("a", "b").ask, count("B", "c").ask}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := aggregate(t, c.sources...)(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(list)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFilterBehindCache: a func gives each person their part of the one list that all share,
// and what is filtered out does not hide another of its name.
func TestFilterBehindCache(t *testing.T) {
	t.Parallel()
	source := count("common", "mia", "tom", "Common")
	s := aggregate(t, filter(skills.Source(source.ask).Cache(0, nil), func(_ context.Context, turn *actions.Turn, s *skills.Skill) bool {
		return s.Name == "common" && userOf(turn) != "eve" || s.Name == "Common" || s.Name == userOf(turn)
	}))
	for user, want := range map[string][]string{"mia": {"common", "mia"}, "tom": {"common", "tom"}, "eve": {"Common"}} {
		list, err := s(t.Context(), of(user))
		if diff := cmp.Diff(want, names(list)); err != nil || diff != "" {
			t.Errorf("%s: %v %s", user, err, diff)
		}
	}
	if source.calls != 1 {
		t.Errorf("%d calls", source.calls)
	}
}

func TestSkillsInGoAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list []*skills.Skill
		want string
	}{
		"no name":        {made(""), "required field: name"},
		"no real name":   {made("a\nb"), "invalid characters"},
		"no description": {[]*skills.Skill{{Name: "a"}}, "required field: description"},
		"an odd name":    {made("a", "Bad--Name"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := skills.NewProvider(skills.ProviderConfig{Skills: c.list})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestSourcesPassOn holds every decorator to the same turn and the same error.
func TestSourcesPassOn(t *testing.T) {
	t.Parallel()
	turn := of("mia")
	wrap := map[string]func(skills.Source) skills.Source{
		"aggregate": func(s skills.Source) skills.Source { return aggregate(t, count("a").ask, s) },
		"cache":     func(s skills.Source) skills.Source { return s.Cache(0, nil) },
	}
	for name, wrap := range wrap {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := wrap(failing)(t.Context(), turn); !errors.Is(err, errSource) {
				t.Errorf("error %v", err)
			}
			var got *actions.Turn
			_, err := wrap(skills.Source(func(_ context.Context, turn *actions.Turn) ([]*skills.Skill, error) {
				got = turn
				return nil, nil
			}))(t.Context(), turn)
			if err != nil || got != turn {
				t.Errorf("turn %p, want %p, %v", got, turn, err)
			}
		})
	}
}

func TestDeduplicate(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx := zerolog.New(&log).Level(zerolog.InfoLevel).WithContext(t.Context())
	list := made("a", "b", "B", "c", "C", "ä", "b")
	s := aggregate(t, filter(memory(list...), func(_ context.Context, turn *actions.Turn, _ *skills.Skill) bool {
		return turn == nil || userOf(turn) != "nobody"
	}))
	for _, turn := range []*actions.Turn{nil, of("nobody"), nil, nil} {
		got, err := s(ctx, turn)
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
	if n := strings.Count(log.String(), "\n"); n != 3 || !strings.Contains(log.String(), `"warn"`) {
		t.Errorf("%d lines, want two for b and one for c:\n%s", n, &log)
	}
}

func TestFilesSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		root := tree(t, map[string]string{"a/SKILL.md": named("a"), "b/SKILL.md": named("c")})
		source := skills.Config{Reload: true, Roots: []string{root, "", " ", filepath.Join(root, "nowhere")}}.Source()
		var log bytes.Buffer
		ctx := zerolog.New(&log).WithContext(t.Context())
		faulty := func() { write(t, root, "c/SKILL.md", "x") }
		gone := func() { remove(t, root, "c") }
		nothing := func() {}
		for i, step := range []struct {
			change func()
			lines  int // of the log
		}{{nothing, 4}, {nothing, 4}, {faulty, 5}, {gone, 5}, {faulty, 6}} {
			step.change()
			time.Sleep(1001 * time.Millisecond)
			list, err := source(ctx, nil)
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
	})
}
