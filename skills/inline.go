package skills

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/actions"
)

// InlineSkill is a skill that is being written in Go, see [Inline]. Its front matter can
// be completed until [InlineSkill.Skill] is called. It is not safe for concurrent use.
type InlineSkill struct {
	FrontMatter FrontMatter

	instructions string
	resources    []Resource
	scripts      []Script
}

// Inline begins a skill in Go:
//
//	skills.Inline("unit-converter", "Converts units. Use it for lengths and weights.", "Find the factor, …").
//		Resource("factors.md", "Factors of all units", factors).
//		Script(skills.Func("convert", "Multiplies a value by a factor", convert))
//
// What is wrong with it is found by [InlineSkill.Skill].
func Inline(name, description, instructions string) *InlineSkill {
	return &InlineSkill{FrontMatter: FrontMatter{Name: name, Description: description}, instructions: instructions}
}

// Resource adds a text.
func (b *InlineSkill) Resource(name, description, text string) *InlineSkill {
	b.resources = append(b.resources, Resource{
		Name: name, Description: description, Size: int64(len(text)),
		read: func(context.Context) ([]byte, error) { return []byte(text), nil },
	})
	return b
}

// ResourceFunc adds what fn makes each time it is read: data that changes, or bytes that
// are no text. fn may be called by several turns at once and has to end when its context
// does. More than 1 MiB is an error.
func (b *InlineSkill) ResourceFunc(name, description string, fn func(context.Context) ([]byte, error)) *InlineSkill {
	r := Resource{Name: name, Description: description, Size: -1}
	if fn != nil {
		r.read = func(ctx context.Context) (raw []byte, err error) {
			defer func() {
				if p := recover(); p != nil {
					raw, err = nil, fmt.Errorf("%w: %v\n%s", actions.ErrPanic, p, debug.Stack())
				}
			}()
			raw, err = fn(ctx)
			if err == nil && len(raw) > maxResource {
				return nil, fmt.Errorf("too large: %d bytes, at most %d", len(raw), maxResource)
			}
			return raw, err
		}
	}
	b.resources = append(b.resources, r)
	return b
}

// Script adds a script, see [Func].
func (b *InlineSkill) Script(s Script) *InlineSkill {
	b.scripts = append(b.scripts, s)
	return b
}

// Func is a script that is a Go function. Its arguments are described by the fields of In
// and reach it checked; names, tags, results and panics are those of [actions.Add]. Of the
// options [actions.NeedsApproval] counts, and [actions.Destructive] in a salvaged plan.
func Func[In any](name, description string, fn func(context.Context, *actions.Turn, In) (actions.Result, error), opts ...actions.Option) Script {
	return Script{Name: name, Description: description, Action: actions.Add(actions.New(), name, description, fn, opts...)}
}

// Skill builds the skill. It obeys the same rules as one from files, and the error lists
// all that are broken. No two resources, and no two scripts, may have one name.
func (b *InlineSkill) Skill() (*Skill, error) {
	p := parsing{path: "skill " + quoted(b.FrontMatter.Name)}
	p.check(b.FrontMatter, nil)
	if strings.TrimSpace(b.instructions) == "" {
		p.fault(0, "Instructions are required")
	}
	names := map[string]bool{}
	part := func(kind, name string, works bool) {
		switch {
		case strings.TrimSpace(name) == "":
			p.fault(0, "A %s has no name", kind)
		case strings.ContainsFunc(name, unicode.IsControl):
			p.fault(0, "%s %q: the name has control characters", kind, name)
		case names[kind+name]:
			p.fault(0, "%s %q: there are two of this name", kind, name)
		case !works:
			p.fault(0, "%s %q: there is no function behind it", kind, name)
		}
		names[kind+name] = true
	}
	for _, r := range b.resources {
		part("resource", r.Name, r.read != nil)
	}
	for _, s := range b.scripts {
		part("script", s.Name, s.Action != nil)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return &Skill{FrontMatter: b.FrontMatter, Instructions: b.instructions, Resources: b.resources, Scripts: b.scripts}, nil
}
