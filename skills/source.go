package skills

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
)

// Source gives the skills of a turn, which is nil outside of turns, such as on the command
// line. It is asked for each turn, and again for each use of a skill, so whoever may not
// have one any more is refused at once; it may be asked by several turns at the same time.
// Neither the list nor the skills in it may be changed, by nobody, afterwards.
type Source interface {
	Skills(ctx context.Context, turn *actions.Turn) ([]*Skill, error)
}

// SourceFunc is a function that is a [Source].
type SourceFunc func(ctx context.Context, turn *actions.Turn) ([]*Skill, error)

// Skills calls fn.
func (fn SourceFunc) Skills(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
	return fn(ctx, turn)
}

// SourceConfig says what [NewSource] makes a source of. The zero value is one without skills.
type SourceConfig struct {
	Sources []Source // in the order in which their skills are listed
	// Cache says how long, and for whom, the skills of all Sources are kept.
	Cache CacheConfig
	// DisableCaching asks Sources for each turn. It is needed for those of [Watch].
	DisableCaching bool
	// Keep is that of [Filter], asked anew for each turn; nil keeps all.
	Keep func(ctx context.Context, turn *actions.Turn, s *Skill) bool
}

// NewSource builds the usual source: [Aggregate], then [Cache], then [Filter], then
// [Deduplicate]. The cache stands before the filter, so what one person may not have is
// never kept for, or from, another; and a skill that is filtered out does not hide one of
// the same name. The error lists every mistake.
func NewSource(cfg SourceConfig) (Source, error) {
	var errs []error
	for i, s := range cfg.Sources {
		if s == nil {
			errs = append(errs, fmt.Errorf("Sources[%d] is nil", i))
		}
		if _, watched := s.(*watcher); watched && !cfg.DisableCaching && cfg.Cache.TTL == 0 {
			errs = append(errs, fmt.Errorf("Sources[%d] is watched, and the cache would hide what changes: set DisableCaching", i))
		}
	}
	if err := errors.Join(append(errs, cfg.Cache.check())...); err != nil {
		return nil, fmt.Errorf("source of skills: %w", err)
	}
	source := Aggregate(cfg.Sources...)
	if !cfg.DisableCaching {
		source = Cache(source, cfg.Cache)
	}
	if cfg.Keep != nil {
		source = Filter(source, cfg.Keep)
	}
	return Deduplicate(source), nil
}

// Memory is the source of these skills, see [Collect] and [Inline]. It panics if one is
// nil, or has no name, a name that is none, or no description: that is a wiring mistake.
func Memory(list ...*Skill) Source {
	list = slices.Clone(list)
	for i, s := range list {
		if s == nil {
			panic(fmt.Sprintf("skills: Memory: skill %d is nil", i+1))
		}
		f := faults{path: "skill " + quoted(s.Name), lenient: true}
		s.check(&f, nil)
		if err := f.err(); err != nil {
			panic(fmt.Sprintf("skills: Memory: %v", err))
		}
	}
	return SourceFunc(func(context.Context, *actions.Turn) ([]*Skill, error) { return list, nil })
}

// Aggregate is the skills of all sources, in order. When one of them fails, it does. It
// panics if one is nil.
func Aggregate(sources ...Source) Source {
	for _, s := range sources {
		need(s != nil, "Aggregate: a source is nil")
	}
	if len(sources) == 1 {
		return sources[0]
	}
	sources = slices.Clone(sources)
	return SourceFunc(func(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
		var all []*Skill
		for i, s := range sources {
			list, err := s.Skills(ctx, turn)
			if err != nil {
				return nil, fmt.Errorf("source %d of skills: %w", i+1, err)
			}
			all = append(all, list...)
		}
		return all, nil
	})
}

// Filter is the skills of s for which keep returns true, in order. keep learns from the
// turn whose it is: turn.Activity has the person, the tenant and the conversation; outside
// of turns it is nil. keep may be called by several turns at once. Filter panics without s
// or keep.
func Filter(s Source, keep func(ctx context.Context, turn *actions.Turn, s *Skill) bool) Source {
	need(s != nil && keep != nil, "Filter: no source, or nothing to filter by")
	return SourceFunc(func(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
		list, err := s.Skills(ctx, turn)
		if err != nil {
			return nil, err
		}
		return dropped(list, func(s *Skill) bool {
			if keep(ctx, turn, s) {
				return false
			}
			zerolog.Ctx(ctx).Debug().Str("skill", s.Name).Msg("skill is filtered out")
			return true
		}), nil
	})
}

// dropped is list without those that drop returns true for, and list itself when there are
// none.
func dropped(list []*Skill, drop func(*Skill) bool) []*Skill {
	first := slices.IndexFunc(list, drop)
	if first < 0 {
		return list
	}
	kept := append(make([]*Skill, 0, len(list)-1), list[:first]...)
	for _, s := range list[first+1:] {
		if !drop(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

func need(ok bool, text string) {
	if !ok {
		panic("skills: " + text)
	}
}
