package prompts

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
)

// maxPrompts is how many entries a folder may have.
const maxPrompts = 256

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// passedOver says that an entry is none of a prompt's: a hidden one, such as
// the ..data of a mounted ConfigMap, or somebody's notes.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.EqualFold(path.Ext(name), ".md")
}

// readFolder reads the folder of one prompt. Every fault of it is in the error,
// with which comes what could be read; nil if it is no prompt's folder. A file that would
// have no effect is a fault, so that nobody waits for it to have one.
func readFolder(fsys fs.FS, name string) (*Prompt, error) {
	info, err := fs.Stat(fsys, name) // follows a link
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: lies outside of a prompt's folder", name)
	case !validName.MatchString(name):
		return nil, fmt.Errorf("%q: name a prompt with at most 64 letters, digits, _ or -", name)
	}
	entries, err := fs.ReadDir(fsys, name)
	if err == nil && len(entries) > maxPrompts {
		err = fmt.Errorf("%s: %w: over %d entries", name, errTooLarge, maxPrompts)
	}
	if err != nil {
		return nil, err
	}
	p := &Prompt{template: &template{name: name}}
	var faults []error
	texts, textFault := 0, error(nil)
	for _, entry := range entries {
		file := path.Join(name, entry.Name())
		var fault error
		switch base := entry.Name(); base {
		case "config.json":
			p.Config, fault = readConfig(fsys, file)
			p.unclear = fault != nil
		case "actions.json":
			p.Actions, fault = readOffers(fsys, file)
		case "prompt.txt", "skprompt.txt":
			if texts++; texts == 1 {
				p.nodes, textFault = readTemplate(fsys, file)
				fault = textFault
			} else {
				fault = fmt.Errorf("%s: both prompt.txt and skprompt.txt", name)
			}
		default:
			if !passedOver(base) {
				fault = fmt.Errorf("%s: has no meaning here, a prompt is prompt.txt, config.json and actions.json", file)
			}
		}
		faults = append(faults, fault)
	}
	switch {
	case texts == 0:
		faults = append(faults, fmt.Errorf("%s: no prompt.txt", name))
	case textFault == nil:
		faults = append(faults, p.unseenInputs(path.Join(name, "config.json")))
	}
	return p, errors.Join(faults...)
}

// unseenInputs finds parameters of a prompt that is an action whose values would
// never reach the model. {{$input}} is the one called input, or the only one.
func (p *Prompt) unseenInputs(file string) error {
	shown, inputs := p.Variables(), p.Config.Input
	input := slices.Contains(shown, "temp.input") || p.Config.IncludeInput != nil && *p.Config.IncludeInput
	var faults []error
	for _, in := range inputs {
		main := in.Name == "input" || len(inputs) == 1
		if !slices.Contains(shown, "temp."+in.Name) && (!main || !input) {
			faults = append(faults, fmt.Errorf("%s: input.parameters: %s has no effect, the text does not show {{$%[2]s}}", file, in.Name))
		}
	}
	return errors.Join(faults...)
}

// readTemplate reads a text as a template wants it: without byte order mark, with
// \n at the ends of lines and none at the end. With an error comes what could be read.
func readTemplate(fsys fs.FS, name string) ([]node, error) {
	raw, err := readFile(fsys, name)
	switch {
	case err != nil:
		return nil, err
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("%s: is no UTF-8 text", name)
	case len(bytes.TrimSpace(raw)) == 0:
		return nil, fmt.Errorf("%s: is empty", name)
	}
	t, err := parse(name, strings.TrimRight(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n"))
	return t.nodes, err
}

// readFile reads a file without byte order mark.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // before opening: that waits on a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", name)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	raw, err := io.ReadAll(io.LimitReader(file, maxTemplate+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(raw) > maxTemplate {
		return nil, fmt.Errorf("%s: %w: over %d bytes", name, errTooLarge, maxTemplate)
	}
	return bytes.TrimPrefix(raw, []byte("\ufeff")), nil
}

//go:embed */prompt.txt
var embedded embed.FS

// Library is a set of prompts by name. It does not change after it was loaded, but
// for what [Library.Reload] does, and is safe for concurrent use.
type Library struct {
	prompts atomic.Pointer[map[string]*Prompt]

	// Where they are from; dir is "" unless [Library.Watch] was called.
	dir, loaded string
	mu          sync.Mutex
	next        time.Time // when to look again
	seen        string    // the files as they were looked at last
}

// Load reads the embedded prompts and lays those of folder dir over them, one
// folder a prompt. A folder of a new name is one more prompt. An empty dir means
// the embedded ones only. A folder has the files of Teams AI:
//
//	<dir>/<name>/prompt.txt    the text, see [parse]; or skprompt.txt
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
	defer root.Close()       //nolint:errcheck // opened to read only
	seen := fingerprint(dir) // before it is read: what changes meanwhile is found later
	l, err := loadFS(root.FS(), dir)
	if l != nil {
		l.loaded, l.seen = dir, seen
	}
	return l, err
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
	l := &Library{}
	l.prompts.Store(&all)
	return l, nil
}

// Prompt returns the prompt of that name.
func (l *Library) Prompt(name string) (*Prompt, error) {
	p, ok := (*l.prompts.Load())[name]
	if !ok {
		return nil, fmt.Errorf("prompt %q: no such prompt, have %q", name, l.Names())
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
		return nil, []error{fmt.Errorf("%w: over %d entries", errTooLarge, maxPrompts)}
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

// watchEvery is how often a folder is looked at, at most.
const watchEvery = time.Second

// Watch lets [Library.Reload] find what changes in the folder of [Load]. Call it before the
// library is used.
func (l *Library) Watch() { l.dir, l.next = l.loaded, time.Now().Add(watchEvery) }

// Reload loads the folder of a library that is watched anew if a file of it has changed. It
// looks at most once a second, by names, sizes and times. What does not load is logged
// once, and the last good prompts stay. Call it before each turn: for any other library it
// does nothing.
func (l *Library) Reload(ctx context.Context) {
	if l.dir == "" || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.next) {
		return
	}
	l.next = now.Add(watchEvery)
	seen := fingerprint(l.dir)
	if seen == l.seen {
		return
	}
	l.seen = seen
	fresh, err := Load(l.dir)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("prompts have changed and cannot be used, the last good ones stay")
		return
	}
	l.prompts.Store(fresh.prompts.Load())
	zerolog.Ctx(ctx).Info().Str("dir", l.dir).Msg("prompts loaded anew")
}

// fingerprint tells one state of the files of all prompts from another.
func fingerprint(dir string) string {
	var out strings.Builder
	for _, folder := range entriesOf(dir) {
		fmt.Fprintf(&out, "%s\n", folder)
		for _, file := range entriesOf(filepath.Join(dir, folder)) {
			info, err := os.Stat(filepath.Join(dir, folder, file)) // follows a link
			if err != nil {
				fmt.Fprintf(&out, " %s %v\n", file, err)
				continue
			}
			fmt.Fprintf(&out, " %s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out.String()
}

// entriesOf are the names in a folder that may mean something.
func entriesOf(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if !passedOver(entry.Name()) && len(names) <= maxPrompts {
			names = append(names, entry.Name())
		}
	}
	return names
}
