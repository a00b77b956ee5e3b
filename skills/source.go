package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/planbot-go/planbot/actions"
)

// Source gives the skills of a turn, which is nil outside of turns, such as on the command
// line: write one to give each person their own. It is asked for each turn, and again for each
// use of a skill, so whoever may not have one any more is refused at once. Several turns may ask
// at the same time. Nobody may change the list or the skills in it afterwards.
type Source func(ctx context.Context, turn *actions.Turn) ([]*Skill, error)

// Source is the source of what [Config.Discover] finds, once, or with Reload again and again for
// those who write skills: a skill that becomes faulty then stays as it was, and one whose folder
// goes away goes too. What is wrong is logged when it is first found.
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
		for i, s := range last {
			if s.stands() && !slices.ContainsFunc(found, func(f *Skill) bool { return f.Dir == s.Dir || strings.EqualFold(f.Name, s.Name) }) {
				found = slices.Insert(found, min(i, len(found)), s)
			}
		}
		if first || !slices.EqualFunc(last, found, (*Skill).same) { // else nothing is made anew of them
			zerolog.Ctx(ctx).Info().Int("skills", len(found)).Msg("skills loaded")
			first, last = false, found
		}
		return last, nil
	}).Cache(ttl, nil)
}

// stands says that the skill has a SKILL.md still, or that nobody can know.
func (s *Skill) stands() bool {
	dir, err := s.open()
	if err == nil {
		defer dir.Close() //nolint:errcheck // opened to read only
		if _, err = dir.Lstat(fileName); err != nil {
			_, err = dir.Lstat(strings.ToLower(fileName))
		}
	}
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// same says that nothing but the contents of resources and scripts differs, which are read when
// they are used.
func (s *Skill) same(other *Skill) bool {
	return s.Dir == other.Dir && s.Content() == other.Content() &&
		slices.EqualFunc(s.Resources, other.Resources, func(a, b Resource) bool { return a.size == b.size })
}

const (
	// maxCached is how many lists a cache keeps. Beyond that it forgets all.
	maxCached = 1000
	// sourceTimeout bounds a source that many wait for, since it does not end with any of them.
	sourceTimeout = time.Minute
)

// Cache keeps the skills of s for ttl; 0 is for good. key names those who share a list,
// such as by their tenant, with turns of one key getting the same from the source; nil: all share
// one. It keeps up to 1000 lists. Those who ask for the same list at the same time share one
// call, which does not end when one of them gives up. An error is not kept.
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
			if list, ok := fresh(name); ok { // made since
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
			if len(lists) >= maxCached { // whoever has as many has others by then
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
