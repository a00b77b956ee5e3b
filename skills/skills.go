// Package skills reads Agent Skills: folders with a SKILL.md, which says in words how
// something is done, with resources to read and scripts to run beside it. The format is
// that of agentskills.io. A skill can also be written in Go, see [Inline].
//
// What lies in such a folder was written by strangers. Every size and count has a cap,
// front matter is data and never a command, and files are opened in a way that cannot
// lead out of the folder, also while somebody exchanges it for a link. Scripts that are
// files run in a sandbox or not at all, see [Sandboxed].
package skills

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// ErrTooLarge is wrapped by the error of what is larger than its cap.
var ErrTooLarge = errors.New("too large")

// Skill is one skill. Do not change it once it is in use: then it is safe for concurrent
// use, as far as the Go functions in it are.
type Skill struct {
	FrontMatter
	// Instructions is the Markdown of SKILL.md, behind the front matter.
	Instructions string
	// Text is the whole SKILL.md, with \n at the ends of lines; "" for a skill from Go.
	Text string
	// Dir is the skill's folder, absolute and without links; "" for a skill from Go.
	Dir string
	// Resources and Scripts are sorted by name for a skill from files, and in the order
	// in which they were added for one from Go.
	Resources []Resource
	Scripts   []Script

	at place // where Dir was found
}

// Resource finds the resource of exactly that name.
func (s *Skill) Resource(name string) (Resource, bool) {
	i := slices.IndexFunc(s.Resources, func(r Resource) bool { return r.Name == name })
	if i < 0 {
		return Resource{}, false
	}
	return s.Resources[i], true
}

// Script finds the script of exactly that name.
func (s *Skill) Script(name string) (Script, bool) {
	i := slices.IndexFunc(s.Scripts, func(sc Script) bool { return sc.Name == name })
	if i < 0 {
		return Script{}, false
	}
	return s.Scripts[i], true
}

// Skill returns s itself, so that it is a [Definition].
func (s *Skill) Skill() (*Skill, error) { return s, nil }

// Resource is something that a skill has to read.
type Resource struct {
	Name        string // of a file: its path in the skill's folder, with slashes
	Description string // "" for a file
	Size        int64  // in bytes as it was found; -1 when a function makes it

	read func(context.Context) ([]byte, error)
}

// Read returns what the resource holds now. The error wraps [ErrTooLarge] for more
// than the cap, and the one of ctx when it ended.
func (r Resource) Read(ctx context.Context) (Data, error) {
	if err := ctx.Err(); err != nil {
		return Data{}, fmt.Errorf("read resource %q: %w", r.Name, err)
	}
	if r.read == nil {
		return Data{}, fmt.Errorf("read resource %q: there is nothing behind it", r.Name)
	}
	raw, err := r.read(ctx)
	if err != nil {
		return Data{}, fmt.Errorf("read resource %q: %w", r.Name, err)
	}
	return Describe(r.Name, raw), nil
}

// Script is something that a skill has to run: a file for an interpreter, or a Go function.
type Script struct {
	Name        string // of a file: its path in the skill's folder, with slashes
	Description string // "" for a file
	// Action is the Go function behind the script, with the schema of its arguments, their
	// check and the call; nil for a file.
	Action *actions.Action

	read func(context.Context) ([]byte, error)
}

// ErrNotFile is wrapped by the error of reading a script that is a Go function.
var ErrNotFile = errors.New("the script is no file")

// Read returns the text of a script that is a file, such as for a digest of what is
// approved. Its errors are those of [Resource.Read] and [ErrNotFile].
func (s Script) Read(ctx context.Context) ([]byte, error) {
	err := ctx.Err()
	if s.read == nil {
		err = ErrNotFile
	}
	var raw []byte
	if err == nil {
		raw, err = s.read(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read script %q: %w", s.Name, err)
	}
	return raw, nil
}

// Definition is a Go value that is a skill, such as one with a database behind it: its
// method builds the skill with [Inline] and methods of its own. A *Skill is one too.
type Definition interface {
	Skill() (*Skill, error)
}

// Collect builds the skills of definitions, in their order. The error lists everything
// that is wrong with any of them; two of one name, whatever its case, are wrong too.
func Collect(definitions ...Definition) ([]*Skill, error) {
	var all []*Skill
	var faults []error
	for _, d := range definitions {
		s, err := d.Skill()
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if slices.ContainsFunc(all, func(other *Skill) bool { return strings.EqualFold(other.Name, s.Name) }) {
			faults = append(faults, fmt.Errorf("skill %q: there are two of this name", s.Name))
		}
		all = append(all, s)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, nil
}
