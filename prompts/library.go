package prompts

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"
)

//go:embed */prompt.txt
var embedded embed.FS

// ErrNoPrompt is wrapped by the error of a name that no folder has.
var ErrNoPrompt = errors.New("no such prompt")

// Library is a set of prompts by name. It does not change after it was loaded, but
// for what [Library.Reload] does, and is safe for concurrent use.
type Library struct {
	prompts atomic.Pointer[map[string]*Prompt]
	counter *O200k
	watched *watched // nil: never loaded anew
}

// Load reads the embedded prompts and lays those of folder dir over them, one
// folder a prompt. A folder of a new name is one more prompt. An empty dir means
// the embedded ones only. A folder has the files of Teams AI:
//
//	<dir>/<name>/prompt.txt    the text, see [Parse]; or skprompt.txt
//	<dir>/<name>/config.json   how the model is asked, see [Config]; may be left out
//	<dir>/<name>/actions.json  the actions that it offers, see [Offer]; may be left out
//
// The error lists everything that is wrong in dir, each with its file: what
// cannot be read or parsed, fields and files that have no effect, links that
// lead out of it. Names that begin with a dot, and notes (*.md), are passed over.
// With the error comes a library of what could be read, to find more faults in,
// or nil if dir cannot be read at all; its prompts are not to be used.
func Load(dir string) (*Library, error) {
	if dir == "" {
		return overEmbedded(nil)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("prompts in %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // opened to read only
	return loadFS(root.FS(), dir)
}

// LoadFS is [Load] of a folder in a file system, such as one that a program has
// embedded:
//
//	//go:embed prompts
//	var files embed.FS
//
//	library, err := prompts.LoadFS(files, "prompts")
func LoadFS(fsys fs.FS, dir string) (*Library, error) {
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	return loadFS(sub, dir)
}

func loadFS(fsys fs.FS, dir string) (*Library, error) {
	own, faults := readPrompts(fsys)
	if len(own)+len(faults) == 0 {
		faults = append(faults, errors.New("holds no folder with a prompt.txt"))
	}
	library, err := overEmbedded(own)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(faults...); err != nil {
		return library, fmt.Errorf("prompts in %s: %w", dir, err)
	}
	return library, nil
}

// overEmbedded lays prompts over the embedded ones.
func overEmbedded(own map[string]*Prompt) (*Library, error) {
	all, faults := readPrompts(embedded)
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("embedded prompts: %w", err)
	}
	maps.Copy(all, own)
	l := &Library{counter: NewCounter()}
	l.prompts.Store(&all)
	return l, nil
}

// Counter counts tokens for all who use the library, so that the vocabulary is
// loaded once.
func (l *Library) Counter() *O200k { return l.counter }

// Prompt returns the prompt of that name. The error wraps [ErrNoPrompt].
func (l *Library) Prompt(name string) (*Prompt, error) {
	p, ok := (*l.prompts.Load())[name]
	if !ok {
		return nil, fmt.Errorf("prompt %q: %w, have %q", name, ErrNoPrompt, l.Names())
	}
	return p, nil
}

// Names returns the names of all prompts, sorted.
func (l *Library) Names() []string { return slices.Sorted(maps.Keys(*l.prompts.Load())) }

// Unused returns the names of the prompts that are neither known ones nor actions
// (their config.json has no input.parameters), sorted. One whose config.json has
// faults may be meant as an action, and is not among them.
func (l *Library) Unused(known ...string) []string {
	var names []string
	for name, p := range *l.prompts.Load() {
		if p.Config.Input == nil && !p.unclear && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func readPrompts(fsys fs.FS) (found map[string]*Prompt, faults []error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, []error{err}
	}
	if len(entries) > maxPrompts {
		return nil, []error{fmt.Errorf("%w: over %d entries", ErrTooLarge, maxPrompts)}
	}
	found = make(map[string]*Prompt)
	for _, entry := range entries {
		name := entry.Name()
		if passedOver(name) {
			continue
		}
		p, err := readFolder(fsys, name)
		if err != nil {
			faults = append(faults, err)
		}
		if p != nil {
			found[name] = p
		}
	}
	return found, faults
}
