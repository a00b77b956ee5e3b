package prompts

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

//go:embed */prompt.txt
var embedded embed.FS

// ErrNoPrompt is wrapped by the error of a name that no folder has.
var ErrNoPrompt = errors.New("no such prompt")

// Library is a set of prompts by name. It does not change after [Load] and is
// safe for concurrent use.
type Library struct {
	prompts map[string]*Template
}

// Load reads the embedded prompts and lays those of folder dir over them, one
// folder a prompt: <dir>/<name>/prompt.txt, or skprompt.txt as Teams AI calls
// it. A folder of a new name is one more prompt. An empty dir means the
// embedded ones only.
//
// The error lists everything that is wrong in dir, each with its file: what
// cannot be read or parsed, files that have no meaning, links that lead out of
// it. Names that begin with a dot, and notes (*.md), are passed over.
func Load(dir string) (*Library, error) {
	texts, faults := readPrompts(embedded)
	prompts, more := parsePrompts(texts)
	if err := errors.Join(append(faults, more...)...); err != nil {
		return nil, fmt.Errorf("embedded prompts: %w", err)
	}
	if dir != "" {
		own, err := loadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("prompts in %s: %w", dir, err)
		}
		maps.Copy(prompts, own)
	}
	return &Library{prompts: prompts}, nil
}

// Prompt returns the prompt of that name. The error wraps [ErrNoPrompt].
func (l *Library) Prompt(name string) (*Template, error) {
	t, ok := l.prompts[name]
	if !ok {
		return nil, fmt.Errorf("prompt %q: %w, have %q", name, ErrNoPrompt, l.Names())
	}
	return t, nil
}

// Names returns the names of all prompts, sorted.
func (l *Library) Names() []string { return slices.Sorted(maps.Keys(l.prompts)) }

func loadDir(dir string) (map[string]*Template, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened to read only
	texts, faults := readPrompts(root.FS())
	if len(texts)+len(faults) == 0 {
		faults = append(faults, errors.New("holds no folder with a prompt.txt"))
	}
	prompts, more := parsePrompts(texts)
	return prompts, errors.Join(append(faults, more...)...)
}

// promptText is the text of one prompt and the file that it stands in.
type promptText struct{ name, file, text string }

func parsePrompts(texts []promptText) (map[string]*Template, []error) {
	prompts := make(map[string]*Template, len(texts))
	var faults []error
	for _, p := range texts {
		t, err := Parse(p.file, p.text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		t.name = p.name
		prompts[p.name] = t
	}
	return prompts, faults
}

func readPrompts(fsys fs.FS) (texts []promptText, faults []error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, []error{err}
	}
	if len(entries) > maxPrompts {
		return nil, []error{fmt.Errorf("%w: over %d entries", ErrTooLarge, maxPrompts)}
	}
	for _, entry := range entries {
		if passedOver(entry.Name()) {
			continue
		}
		text, err := readFolder(fsys, entry.Name())
		if err != nil {
			faults = append(faults, err)
			continue
		}
		texts = append(texts, text)
	}
	return texts, faults
}
