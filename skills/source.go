package skills

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/planbot-go/planbot/actions"
)

// Source returns the skills of a turn, which is nil outside of turns, such as on the command line.
// Write one to give each person their own skills. It is called for each turn, and again for each
// use of a skill, so a skill taken away is refused at once. Several turns may call it at once.
// Nobody may change the returned list or its skills.
type Source func(ctx context.Context, turn *actions.Turn) ([]*Skill, error)

// Source returns what [Config.Discover] finds, once, or with Reload repeatedly, for authors of
// skills. Each fault is logged when it is first found.
func (c Config) Source() Source {
	ttl := time.Duration(0)
	if c.Reload {
		ttl = time.Second
	}
	var last []*Skill
	var logged []Fault
	first := true
	return Source(func(ctx context.Context, _ *actions.Turn) ([]*Skill, error) { // one at a time
		found, faults, err := c.Discover(ctx)
		if err != nil {
			return nil, err
		}
		for i, f := range faults {
			if !slices.Contains(logged, f) && !slices.Contains(faults[:i], f) {
				level := zerolog.ErrorLevel
				if f.Warning {
					level = zerolog.WarnLevel
				}
				zerolog.Ctx(ctx).WithLevel(level).Str("fault", f.String()).Bool("used", f.Warning).Msg("skills have a fault")
			}
		}
		logged = faults
		if first || !slices.EqualFunc(last, found, (*Skill).same) { // otherwise keep the old ones, so nothing is rebuilt
			zerolog.Ctx(ctx).Info().Int("skills", len(found)).Msg("skills loaded")
			first, last = false, found
		}
		return last, nil
	}).Cache(ttl, nil)
}

// same reports whether the skills are equal, except for the contents of resources and scripts,
// which are read on use.
func (s *Skill) same(other *Skill) bool {
	return s.Dir == other.Dir && s.Content() == other.Content() &&
		slices.EqualFunc(s.Resources, other.Resources, func(a, b Resource) bool { return a.size == b.size })
}

const (
	// maxCached is how many lists a cache keeps. When it is full, it drops all.
	maxCached = 1000
	// sourceTimeout limits a source call that many wait for: it does not end when one of them does.
	sourceTimeout = time.Minute
)

// Cache caches the skills of s for ttl; 0 is forever. Turns with the same key, such as their
// tenant, share one list; key nil: all share one. It keeps up to 1000 lists. Concurrent calls for
// one list share one call of the source, which goes on if one of them gives up. Errors are not
// cached.
func (s Source) Cache(ttl time.Duration, key func(*actions.Turn) string) Source {
	type kept struct {
		list []*Skill
		at   time.Time
	}
	var mu sync.Mutex
	lists := map[string]kept{}
	fresh := func(name string) ([]*Skill, bool) {
		mu.Lock()
		defer mu.Unlock()
		k, ok := lists[name]
		return k.list, ok && (ttl == 0 || time.Since(k.at) < ttl)
	}
	var calls singleflight.Group
	return func(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
		name := ""
		if key != nil {
			name = key(turn)
		}
		if list, ok := fresh(name); ok {
			return list, nil
		}
		call := calls.DoChan(name, func() (list any, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("%w: %v\n%s", actions.ErrPanic, p, debug.Stack())
				}
			}()
			if list, ok := fresh(name); ok { // another caller fetched it meanwhile
				return list, nil
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sourceTimeout)
			defer cancel()
			k := kept{at: time.Now()}
			if k.list, err = s(ctx, turn); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			if len(lists) >= maxCached { // with that many keys, most are no longer in use
				clear(lists)
			}
			lists[name] = k
			return k.list, nil
		})
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for skills: %w", ctx.Err())
		case result := <-call:
			list, _ := result.Val.([]*Skill)
			return list, result.Err
		}
	}
}
