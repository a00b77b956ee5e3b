package skills_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

func TestCache(t *testing.T) {
	t.Parallel()
	mia, tom, nobody := of("mia"), of("tom"), of("")
	for name, c := range map[string]struct {
		cfg   skills.CacheConfig
		turns []*actions.Turn // a second passes after each
		calls int
	}{
		"for good":             {skills.CacheConfig{}, []*actions.Turn{mia, mia, mia}, 1},
		"no key, all share":    {skills.CacheConfig{}, []*actions.Turn{mia, tom, nil, nobody}, 1},
		"one key":              {skills.CacheConfig{Key: userOf}, []*actions.Turn{mia, mia}, 1},
		"two keys":             {skills.CacheConfig{Key: userOf}, []*actions.Turn{mia, tom, mia, tom}, 2},
		"no user is a key too": {skills.CacheConfig{Key: userOf}, []*actions.Turn{nobody, mia, nobody}, 2},
		"time to live":         {skills.CacheConfig{TTL: 2 * time.Second}, []*actions.Turn{mia, mia, mia, mia, mia}, 3},
		"long enough":          {skills.CacheConfig{TTL: time.Hour}, []*actions.Turn{mia, mia, mia}, 1},
		"not kept":             {skills.CacheConfig{TTL: -1}, []*actions.Turn{mia, mia, mia}, 3},
		"room for two":         {skills.CacheConfig{Key: userOf, MaxKeys: 2}, []*actions.Turn{mia, tom, mia, nobody, tom, nobody, mia, nobody}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := count("a", "b")
				s := skills.Cache(source, c.cfg)
				for _, turn := range c.turns {
					if list, err := s.Skills(t.Context(), turn); err != nil || len(list) != 2 {
						t.Fatal(list, err)
					}
					time.Sleep(time.Second)
				}
				if source.calls != c.calls {
					t.Errorf("%d calls, want %d", source.calls, c.calls)
				}
			})
		})
	}
}

func TestDisableCaching(t *testing.T) {
	t.Parallel()
	for _, disable := range []bool{false, true} {
		source := count("a")
		s, err := skills.NewSource(skills.SourceConfig{Sources: []skills.Source{source}, DisableCaching: disable})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := s.Skills(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if want := map[bool]int{false: 1, true: 3}[disable]; source.calls != want {
			t.Errorf("DisableCaching %t: %d calls, want %d", disable, source.calls, want)
		}
	}
}

// TestCacheGivesTheSameList: what is made of a list can be kept as long as the list is.
func TestCacheGivesTheSameList(t *testing.T) {
	t.Parallel()
	fresh := func(context.Context, *actions.Turn) ([]*skills.Skill, error) { return made("a", "A", "b"), nil }
	s, err := skills.NewSource(skills.SourceConfig{Sources: []skills.Source{skills.SourceFunc(fresh)}, Keep: always})
	if err != nil {
		t.Fatal(err)
	}
	one, _ := s.Skills(t.Context(), of("mia"))
	two, err := s.Skills(t.Context(), of("tom"))
	if err != nil || len(one) != 2 || &one[0] != &two[0] {
		t.Errorf("%p and %p, %v", one, two, err)
	}
}

func TestErrorsAreNotCached(t *testing.T) {
	t.Parallel()
	calls := 0
	s := skills.Cache(skills.SourceFunc(func(context.Context, *actions.Turn) ([]*skills.Skill, error) {
		if calls++; calls == 1 {
			return nil, errSource
		}
		return made("a"), nil
	}), skills.CacheConfig{})
	if _, err := s.Skills(t.Context(), nil); !errors.Is(err, errSource) {
		t.Errorf("error %v", err)
	}
	for range 2 {
		if list, err := s.Skills(t.Context(), nil); err != nil || len(list) != 1 {
			t.Error(list, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// slow is a source that takes an hour, unless its ctx ends or it is told how it ends.
type slow struct {
	ends    chan error // nil for a list
	calls   int
	stopped int // by their ctx
}

func newSlow() *slow { return &slow{ends: make(chan error)} }

func (s *slow) Skills(ctx context.Context, _ *actions.Turn) ([]*skills.Skill, error) {
	s.calls++
	select {
	case <-ctx.Done():
		s.stopped++
		return nil, ctx.Err()
	case err := <-s.ends:
		return made("a"), err
	case <-time.After(time.Hour):
		return made("a"), nil
	}
}

// ask asks as n turns at once, the first one first of all. The answers are to be read once
// wait has returned.
func ask(t *testing.T, s skills.Source, ctxs ...context.Context) (wait func() []error) {
	t.Helper()
	errs := make([]error, len(ctxs))
	var all sync.WaitGroup
	for i, ctx := range ctxs {
		all.Go(func() {
			list, err := s.Skills(ctx, nil)
			if err == nil && len(list) != 1 {
				err = fmt.Errorf("%d skills", len(list))
			}
			errs[i] = err
		})
		synctest.Wait()
	}
	return func() []error { all.Wait(); return errs }
}

func TestSingleFlight(t *testing.T) {
	t.Parallel()
	for name, ttl := range map[string]time.Duration{"kept": 0, "not kept": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, ctx := newSlow(), t.Context()
				s := skills.Cache(source, skills.CacheConfig{TTL: ttl})
				for i, err := range ask(t, s, ctx, ctx, ctx, ctx, ctx, ctx, ctx, ctx, ctx, ctx)() {
					if err != nil {
						t.Errorf("%d: %v", i, err)
					}
				}
				if source.calls != 1 {
					t.Errorf("%d calls", source.calls)
				}
			})
		})
	}
}

// TestSharedError: those who wait get the error, and do not ask a source that is away one
// after the other.
func TestSharedError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, ctx := newSlow(), t.Context()
		s := skills.Cache(source, skills.CacheConfig{})
		wait := ask(t, s, ctx, ctx, ctx)
		source.ends <- errSource
		for i, err := range wait() {
			if !errors.Is(err, errSource) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if source.calls != 1 {
			t.Errorf("%d calls", source.calls)
		}
	})
}

func TestCancelledCallers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancel         []bool // whose ctx ends
		calls, stopped int
	}{
		"the first":      {[]bool{true, false, false}, 2, 1},
		"one that waits": {[]bool{false, true, false}, 1, 0},
		"all":            {[]bool{true, true, true}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := newSlow()
				s := skills.Cache(source, skills.CacheConfig{})
				var ctxs []context.Context
				var cancels []context.CancelFunc
				for range c.cancel {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					ctxs, cancels = append(ctxs, ctx), append(cancels, cancel)
				}
				wait := ask(t, s, ctxs...)
				for i := len(cancels) - 1; i >= 0; i-- { // the first one last: nobody takes over from it in between
					if c.cancel[i] {
						cancels[i]()
						synctest.Wait()
					}
				}
				for i, err := range wait() {
					if errors.Is(err, context.Canceled) != c.cancel[i] || !c.cancel[i] && err != nil {
						t.Errorf("%d: %v", i, err)
					}
				}
				if source.calls != c.calls || source.stopped != c.stopped {
					t.Errorf("%d calls, %d of them stopped, want %d and %d", source.calls, source.stopped, c.calls, c.stopped)
				}
				if list, err := s.Skills(t.Context(), nil); err != nil || len(list) != 1 {
					t.Errorf("afterwards: %v, %v", list, err)
				}
			})
		})
	}
}

// TestPanickingSource: those who wait go on.
func TestPanickingSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := skills.Cache(skills.SourceFunc(func(context.Context, *actions.Turn) ([]*skills.Skill, error) {
			calls++
			first := calls == 1
			time.Sleep(time.Hour)
			if first {
				panic("broken")
			}
			return made("a"), nil
		}), skills.CacheConfig{})
		go func() {
			defer func() { _ = recover() }()
			_, _ = s.Skills(t.Context(), nil)
		}()
		synctest.Wait()
		if err := ask(t, s, t.Context())()[0]; err != nil || calls != 2 {
			t.Errorf("%v, %d calls", err, calls)
		}
	})
}

// TestSourceIsConcurrent is for the race detector.
func TestSourceIsConcurrent(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a/SKILL.md": named("a"), "b/SKILL.md": named("b")})
	watched, err := skills.Watch(skills.Config{Roots: []string{root}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := skills.NewSource(skills.SourceConfig{
		Sources: []skills.Source{watched, skills.Memory(made("A", "c")...)},
		Cache:   skills.CacheConfig{Key: userOf, TTL: time.Nanosecond, MaxKeys: 3}, Keep: always,
	})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if list, err := s.Skills(t.Context(), of(fmt.Sprint(i))); err != nil || len(list) != 3 {
					t.Error(names(list), err)
					return
				}
			}
		})
	}
	all.Wait()
}
