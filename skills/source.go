package skills

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/planbot-go/planbot/actions"
)

// Source gives the skills of a turn, which is nil outside of turns, such as on the command
// line: write one to give each person their own. It is asked for each turn, and again for each
// use of a skill, so whoever may not have one any more is refused at once. Several turns may ask
// at the same time. Nobody may change the list or the skills in it afterwards.
type Source func(ctx context.Context, turn *actions.Turn) ([]*Skill, error)

// Memory is the source of skills that are written in Go. It panics if one has no
// name, a name with characters that none can have, or no description, or two resources or scripts of
// one name: that is a wiring mistake.
//
//	skills.Memory(&skills.Skill{
//		Name: "unit-converter", Description: "Converts units. Use it for lengths and weights.", Instructions: "Find the factor, …",
//		Resources: []skills.Resource{{Name: "factors.md", Text: factors}},
//		Scripts:   []skills.Script{skills.Func("convert", "Multiplies a value by a factor", convert)},
//	})
func Memory(list ...*Skill) Source {
	list = slices.Clone(list)
	for _, s := range list {
		p := parsing{path: "skill " + quoted(s.Name), lenient: true}
		p.check(s, nil)
		p.checkParts(s)
		if err := p.err(); err != nil {
			panic(fmt.Sprintf("skills: Memory: %v", err))
		}
	}
	return func(context.Context, *actions.Turn) ([]*Skill, error) { return list, nil }
}

// checkParts checks the names of resources and scripts.
func (p *parsing) checkParts(s *Skill) {
	names := map[string]bool{}
	part := func(kind, name string) {
		if strings.TrimSpace(name) == "" || strings.ContainsFunc(name, unicode.IsControl) {
			p.fault(0, "%s %q: the name is blank or has control characters", kind, name)
		}
		if names[kind+name] {
			p.fault(0, "%s %q: there are two of this name", kind, name)
		}
		names[kind+name] = true
	}
	for _, r := range s.Resources {
		part("resource", r.Name)
	}
	for _, script := range s.Scripts {
		part("script", script.Name)
	}
}

// Aggregate is the skills of all sources, in order; of those with one name, whatever its case,
// the first. The log is warned once of each that is left out. When one source fails, so does
// Aggregate.
func Aggregate(sources ...Source) Source {
	sources = slices.Clone(sources)
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

// Source is the source of what [Config.Discover] finds, once, or with Reload again and again for
// those who write skills: a skill that becomes faulty then stays as it was, and one whose folder
// goes away goes too. What is wrong is logged when it is first found.
func (c Config) Source() Source {
	ttl := time.Duration(0)
	if c.Reload {
		ttl = time.Second
	}
	var last []*Skill
	var logged map[Fault]bool
	return Source(func(ctx context.Context, _ *actions.Turn) ([]*Skill, error) { // one at a time
		found, faults, err := c.discover(ctx, last)
		if err != nil {
			return nil, err
		}
		first, now := logged == nil, map[Fault]bool{}
		for _, f := range faults {
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
		for i, s := range found { // the same skill as before, so that nothing is made anew of it
			if at := slices.IndexFunc(last, s.same); at >= 0 {
				found[i] = last[at]
			}
		}
		if first || !slices.Equal(last, found) {
			zerolog.Ctx(ctx).Info().Int("skills", len(found)).Msg("skills loaded")
			last = found
		}
		return last, nil
	}).Cache(ttl, nil)
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
			if k.list, err = s(ctx, turn); err == nil {
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
