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
		ttl   time.Duration
		key   func(*actions.Turn) string
		turns []*actions.Turn // a second passes after each
		calls int
	}{
		"for good":             {0, nil, []*actions.Turn{mia, mia, mia}, 1},
		"no key, all share":    {0, nil, []*actions.Turn{mia, tom, nil, nobody}, 1},
		"one key":              {0, userOf, []*actions.Turn{mia, mia}, 1},
		"two keys":             {0, userOf, []*actions.Turn{mia, tom, mia, tom}, 2},
		"no user is a key too": {0, userOf, []*actions.Turn{nobody, mia, nobody}, 2},
		"time to live":         {2 * time.Second, nil, []*actions.Turn{mia, mia, mia, mia, mia}, 3},
		"long enough":          {time.Hour, nil, []*actions.Turn{mia, mia, mia}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := count("a", "b")
				s := skills.Source(source.ask).Cache(c.ttl, c.key)
				for _, turn := range c.turns {
					if list, err := s(t.Context(), turn); err != nil || len(list) != 2 {
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

// TestCacheForgets: a thousand lists are kept.
func TestCacheForgets(t *testing.T) {
	t.Parallel()
	source := count("a")
	s := skills.Source(source.ask).Cache(0, userOf)
	for _, user := range []int{1000, 1, 0} { // the last begins anew: all were forgotten
		for i := range max(user, 1) {
			if _, err := s(t.Context(), of(fmt.Sprint(user%2, i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if source.calls != 1002 {
		t.Errorf("%d calls", source.calls)
	}
}

// TestCacheGivesTheSameList: what is made of a list can be kept as long as the list is.
func TestCacheGivesTheSameList(t *testing.T) {
	t.Parallel()
	s := skills.Source(func(context.Context, *actions.Turn) ([]*skills.Skill, error) { return made("a", "b"), nil }).Cache(0, nil)
	one, _ := s(t.Context(), of("mia"))
	two, err := s(t.Context(), of("tom"))
	if err != nil || len(one) != 2 || &one[0] != &two[0] {
		t.Errorf("%p and %p, %v", one, two, err)
	}
}

func TestErrorsAreNotCached(t *testing.T) {
	t.Parallel()
	calls := 0
	s := skills.Source(func(context.Context, *actions.Turn) ([]*skills.Skill, error) {
		if calls++; calls == 1 {
			return nil, errSource
		}
		return made("a"), nil
	}).Cache(0, nil)
	if _, err := s(t.Context(), nil); !errors.Is(err, errSource) {
		t.Errorf("error %v", err)
	}
	for range 2 {
		if list, err := s(t.Context(), nil); err != nil || len(list) != 1 {
			t.Error(list, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// slow is a source that takes half a minute, unless its ctx ends or it is told how it ends.
type slow struct {
	ends    chan error // nil for a list
	calls   int
	stopped int // by their ctx
}

func newSlow() *slow { return &slow{ends: make(chan error)} }

func (s *slow) ask(ctx context.Context, _ *actions.Turn) ([]*skills.Skill, error) {
	s.calls++
	select {
	case <-ctx.Done():
		s.stopped++
		return nil, ctx.Err()
	case err := <-s.ends:
		return made("a"), err
	case <-time.After(30 * time.Second):
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
			list, err := s(ctx, nil)
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
	synctest.Test(t, func(t *testing.T) {
		source, ctx := newSlow(), t.Context()
		for i, err := range ask(t, skills.Source(source.ask).Cache(0, nil), ctx, ctx, ctx, ctx, ctx, ctx, ctx, ctx, ctx, ctx)() {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if source.calls != 1 {
			t.Errorf("%d calls", source.calls)
		}
	})
}

// TestSharedError: those who wait get the error, and do not ask a source that is away one
// after the other.
func TestSharedError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, ctx := newSlow(), t.Context()
		s := skills.Source(source.ask).Cache(0, nil)
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
		cancel []bool // whose ctx ends
	}{
		"the first":      {[]bool{true, false, false}},
		"one that waits": {[]bool{false, true, false}},
		"all":            {[]bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := newSlow()
				s := skills.Source(source.ask).Cache(0, nil)
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
				if source.calls != 1 || source.stopped != 0 { // it goes on for those who come
					t.Errorf("%d calls, %d of them stopped", source.calls, source.stopped)
				}
				if list, err := s(t.Context(), nil); err != nil || len(list) != 1 {
					t.Errorf("afterwards: %v, %v", list, err)
				}
			})
		})
	}
}

// TestPanickingSource: a panic is an error for all who wait, and the next one asks again.
func TestPanickingSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := skills.Source(func(context.Context, *actions.Turn) ([]*skills.Skill, error) {
			calls++
			first := calls == 1
			time.Sleep(time.Second)
			if first {
				panic("broken")
			}
			return made("a"), nil
		}).Cache(0, nil)
		for _, err := range ask(t, s, t.Context(), t.Context())() {
			if !errors.Is(err, actions.ErrPanic) {
				t.Error(err)
			}
		}
		if err := ask(t, s, t.Context())()[0]; err != nil || calls != 2 {
			t.Errorf("%v, %d calls", err, calls)
		}
	})
}

// TestSourceIsConcurrent is for the race detector.
func TestSourceIsConcurrent(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a/SKILL.md": named("a"), "b/SKILL.md": named("b")})
	watched := skills.Config{Reload: true, Roots: []string{root}}.Source()
	s := skills.Source(aggregate(t, watched, memory(made("A", "c")...))).Cache(time.Nanosecond, userOf)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if list, err := s(t.Context(), of(fmt.Sprint(i))); err != nil || len(list) != 3 {
					t.Error(names(list), err)
					return
				}
			}
		})
	}
	all.Wait()
}
