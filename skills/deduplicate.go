package skills

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
)

// Deduplicate is the skills of s, of each name, whatever its case, the first one. The log
// is warned once of a name that others have too. It panics without s.
func Deduplicate(s Source) Source {
	need(s != nil, "Deduplicate: no source")
	return &deduplicated{source: s, warned: map[string]bool{}}
}

// Distinct is f with the skills that would be used: of each name, whatever its case, the
// first one. Each other is a warning.
func (f Found) Distinct() Found {
	first := make(map[string]*Skill, len(f.Skills))
	f.Faults = slices.Clone(f.Faults)
	f.Skills = dropped(f.Skills, func(s *Skill) bool {
		name := strings.ToLower(s.Name)
		before := first[name]
		if before == nil {
			first[name] = s
			return false
		}
		text := "is not used: the skill " + quoted(before.Name) + " in " + before.Dir + " comes first"
		f.Faults = append(f.Faults, Fault{Path: filepath.Join(s.Dir, fileName), Text: text, Warning: true})
		return true
	})
	return f
}

// maxWarned names are remembered as those that were warned of.
const maxWarned = 1000

type deduplicated struct {
	source Source
	last   atomic.Pointer[unique]

	mu     sync.Mutex
	warned map[string]bool
}

// unique is what was made of the list that came last: from a cache it is always the same.
type unique struct{ in, out []*Skill }

func (d *deduplicated) Skills(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
	list, err := d.source.Skills(ctx, turn)
	if err != nil {
		return nil, err
	}
	last := d.last.Load()
	if last == nil || !slices.Equal(last.in, list) {
		last = &unique{list, d.unique(ctx, list)}
		d.last.Store(last)
	}
	return last.out, nil
}

func (d *deduplicated) unique(ctx context.Context, list []*Skill) []*Skill {
	names := make(map[string]bool, len(list))
	return dropped(list, func(s *Skill) bool {
		name := strings.ToLower(s.Name)
		if names[name] {
			d.warn(ctx, name, s)
			return true
		}
		names[name] = true
		return false
	})
}

func (d *deduplicated) warn(ctx context.Context, name string, s *Skill) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.warned[name] || len(d.warned) == maxWarned {
		return
	}
	d.warned[name] = true
	zerolog.Ctx(ctx).Warn().Str("skill", s.Name).Str("dir", s.Dir).Msg("there are several skills of this name: this one is left out, the first one is used")
}
