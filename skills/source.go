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

// Source gives the skills of a turn, which is nil outside of turns, such as on the command
// line: write one to give each person their own. It is asked for each turn, and again for each
// use of a skill, so whoever may not have one any more is refused at once. Several turns may ask
// at the same time. Nobody may change the list or the skills in it afterwards.
type Source func(ctx context.Context, turn *actions.Turn) ([]*Skill, error)

// Memory is the source of these skills, see [Inline]. It panics if one is nil, or has no name,
// a name that is none, or no description: that is a wiring mistake.
func Memory(list ...*Skill) Source {
	list = slices.Clone(list)
	for i, s := range list {
		if s == nil {
			panic(fmt.Sprintf("skills: Memory: skill %d is nil", i+1))
		}
		p := parsing{path: "skill " + quoted(s.Name), lenient: true}
		if p.check(s.FrontMatter, nil); !sound(p.faults) {
			panic(fmt.Sprintf("skills: Memory: %v", p.err()))
		}
	}
	return func(context.Context, *actions.Turn) ([]*Skill, error) { return list, nil }
}

// Aggregate is the skills of all sources, in order; of those with one name, whatever its case,
// the first. The log is warned once of each that is left out. When one source fails, so does
// Aggregate. It panics if one is nil.
func Aggregate(sources ...Source) Source {
	sources = slices.Clone(sources)
	if slices.ContainsFunc(sources, func(s Source) bool { return s == nil }) {
		panic("skills: Aggregate: a source is nil")
	}
	var warned sync.Map
	return func(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
		var all []*Skill
		for i, source := range sources {
			list, err := source(ctx, turn)
			if err != nil {
				return nil, fmt.Errorf("source %d of skills: %w", i+1, err)
			}
			all = append(all, list...)
		}
		first, others := distinct(all)
		for _, s := range others {
			if _, twice := warned.LoadOrStore(s, true); !twice {
				zerolog.Ctx(ctx).Warn().Str("skill", s.Name).Str("dir", s.Dir).Msg("another skill of this name comes first: this one is left out")
			}
		}
		return first, nil
	}
}

// Files is the source of what [Discover] finds, once, or with Reload again and again for those
// who write skills: a skill that becomes faulty then stays as it was, and one whose folder goes
// away goes too. What is wrong is logged when it is first found. The error is that of a wrong cfg.
func Files(cfg Config) (Source, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ttl := time.Duration(0)
	if cfg.Reload {
		ttl = time.Second
	}
	var last []*Skill
	var logged map[Fault]bool
	return Cache(func(ctx context.Context, _ *actions.Turn) ([]*Skill, error) { // one at a time
		found, err := discover(ctx, cfg, last)
		if err != nil {
			return nil, err
		}
		first, now := logged == nil, map[Fault]bool{}
		for _, f := range found.Faults {
			if !logged[f] && !now[f] {
				level := zerolog.ErrorLevel
				if f.Warning {
					level = zerolog.WarnLevel
				}
				zerolog.Ctx(ctx).WithLevel(level).Str("fault", f.String()).Bool("used", f.Warning).Msg("skills have a fault")
			}
			now[f] = true
		}
		logged = now
		for i, s := range found.Skills { // the same skill as before, so that nothing is made anew of it
			if at := slices.IndexFunc(last, s.same); at >= 0 {
				found.Skills[i] = last[at]
			}
		}
		if first || !slices.Equal(last, found.Skills) {
			zerolog.Ctx(ctx).Info().Int("skills", len(found.Skills)).Msg("skills loaded")
			last = found.Skills
		}
		return last, nil
	}, ttl, nil), nil
}

// same says that nothing but the contents of resources and scripts differs, which are read when
// they are used.
func (s *Skill) same(other *Skill) bool {
	return s.Dir == other.Dir && s.Content() == other.Content() &&
		slices.EqualFunc(s.Resources, other.Resources, func(a, b Resource) bool { return a.Size == b.Size })
}

const (
	// maxCached is how many lists a cache keeps. Beyond that it forgets all.
	maxCached = 1000
	// sourceTimeout bounds a source that many wait for, since it does not end with any of them.
	sourceTimeout = time.Minute
)

// Cache keeps the skills of a source for ttl; 0 is for good. key names those who share a list,
// such as by their tenant, with turns of one key getting the same from the source; nil: all share
// one. It keeps up to 1000 lists. Those who ask for the same list at the same time share one
// call, which does not end when one of them gives up. An error is not kept.
func Cache(source Source, ttl time.Duration, key func(*actions.Turn) string) Source {
	if source == nil {
		panic("skills: Cache: no source")
	}
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
	keep := func(name string, k kept) {
		mu.Lock()
		defer mu.Unlock()
		if len(lists) >= maxCached { // whoever has as many has others by then
			clear(lists)
		}
		lists[name] = k
	}
	var flights singleflight.Group
	return func(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
		name := ""
		if key != nil {
			name = key(turn)
		}
		if list, ok := fresh(name); ok {
			return list, nil
		}
		flight := flights.DoChan(name, func() (list any, err error) {
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
			if k.list, err = source(ctx, turn); err == nil {
				keep(name, k)
			}
			return k.list, err
		})
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for skills: %w", ctx.Err())
		case result := <-flight:
			list, _ := result.Val.([]*Skill)
			return list, result.Err
		}
	}
}
