package prompts

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// passedOver reports whether an entry does not belong to a prompt: a hidden one, such as the ..data
// of a mounted ConfigMap, or notes.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.EqualFold(path.Ext(name), ".md")
}

// readFolder reads the folder of one prompt. The error lists every fault; with it comes what could
// be read, or nil if the folder is not a prompt's. A file without any effect is a fault, because
// its author expects one.
func readFolder(fsys fs.FS, folder string) (*Prompt, error) {
	plugin, function, inPlugin := strings.Cut(folder, "/")
	name := plugin
	if inPlugin {
		name = plugin + "-" + function
	}
	entries, err := fs.ReadDir(fsys, folder)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: is no prompt's folder: %w", folder, err)
	case !validName.MatchString(name):
		return nil, fmt.Errorf("%q: name a prompt with at most 64 letters, digits, _ or -", name)
	}
	p := &Prompt{template: &template{name: name}}
	var faults []error
	texts, textFault := 0, error(nil)
	for _, entry := range entries {
		file := path.Join(folder, entry.Name())
		var fault error
		switch base := entry.Name(); base {
		case "config.json":
			p.Config, fault = readConfig(fsys, file)
		case "actions.json":
			p.Actions, fault = readOffers(fsys, file)
		case "prompt.txt", "skprompt.txt":
			if texts++; texts == 1 {
				p.nodes, textFault = readTemplate(fsys, file)
				fault = textFault
			} else {
				fault = fmt.Errorf("%s: both prompt.txt and skprompt.txt", folder)
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
		faults = append(faults, fmt.Errorf("%s: no prompt.txt", folder))
	case textFault == nil:
		planners := p.takePlanners()
		if inPlugin && !planners {
			p.addInputs()
		}
		faults = append(faults, p.unseenInputs(path.Join(folder, "config.json")))
	}
	return p, errors.Join(faults...)
}

// takePlanners reports whether the parameters are those that a planner fills in: the goal and, as in Semantic Kernel's
// planner, its functions. Such a prompt is no action, so it has no parameters then.
func (p *Prompt) takePlanners() bool {
	isPlanners, lists := p.ours(), false
	for _, in := range p.Config.Input {
		switch {
		case strings.EqualFold(in.Name, "available_functions"):
			isPlanners, lists = true, true
		case !strings.EqualFold(in.Name, "input"):
			return false
		}
	}
	if !isPlanners || len(p.Config.Input) == 0 {
		return false
	}
	if p.Config.Input = nil; lists && p.Config.Augmentation == "" {
		p.Config.Augmentation = sequential
	}
	return true
}

// ours reports whether an embedded prompt has the name, in any case.
func (p *Prompt) ours() bool {
	_, err := fs.Stat(embedded, strings.ToLower(p.Name()))
	return err == nil
}

// The planners that config.json and the embedded prompts name, as far as a prompt of another name may be theirs.
const (
	sequence   = "sequence"
	sequential = "sequential"
	monologue  = "monologue"
)

// Planner is the planner that the prompt says it is for, by its name or in augmentation_type; "": it does not say.
func (p *Prompt) Planner() string {
	switch a := p.Config.Augmentation; {
	case p.Config.Input != nil || a == "none":
		return ""
	case a == monologue:
		return sequence
	case a != "":
		return a
	case p.ours():
		return strings.ToLower(p.Name())
	}
	return ""
}

// For returns the name of the prompt for a planner: the folder of that name or, without one, the only folder of another
// name that says so, as those of Teams AI do in augmentation_type.
func (l *Library) For(planner string) string {
	all := *l.prompts.Load()
	name, others := planner, 0
	for _, other := range l.Names() {
		p := all[other]
		switch {
		case p.builtin || p.Planner() != planner:
		case other == planner:
			return planner
		default:
			name, others = other, others+1
		}
	}
	if others > 1 {
		return planner
	}
	return name
}

// addInputs makes an action of a prompt in a plugin's folder, as Semantic Kernel does: each variable of the
// text that config.json does not declare is a parameter too.
func (p *Prompt) addInputs() {
	if p.Config.Input == nil {
		p.Config.Input = []Input{}
	}
	for _, n := range p.nodes {
		for _, v := range slices.Concat([]node{n}, n.args) {
			declared := func(in Input) bool { return strings.EqualFold(in.Name, v.name) }
			if v.scope == "temp" && !slices.ContainsFunc(p.Config.Input, declared) {
				p.Config.Input = append(p.Config.Input, Input{Name: v.name, Required: true})
			}
		}
	}
}

// unseenInputs reports parameters of a prompt action that would never reach the model. {{$input}}
// is the parameter called input, or the only one.
func (p *Prompt) unseenInputs(file string) error {
	variables := p.Variables()
	shows := func(name string) bool {
		return slices.ContainsFunc(variables, func(v string) bool { return strings.EqualFold(v, "temp."+name) })
	}
	inputs := p.Config.Input
	input := shows("input") || p.Config.IncludeInput != nil && *p.Config.IncludeInput
	var faults []error
	for _, in := range inputs {
		main := strings.EqualFold(in.Name, "input") || len(inputs) == 1
		if !shows(in.Name) && (!main || !input) {
			faults = append(faults, fmt.Errorf("%s: the parameter %s has no effect, the text does not show {{$%[2]s}}", file, in.Name))
		}
	}
	return errors.Join(faults...)
}

// readTemplate reads a text in the form a template needs: without byte order mark, with \n line
// endings and none at the end. With an error it also returns what could be read.
func readTemplate(fsys fs.FS, name string) ([]node, error) {
	raw, err := fs.ReadFile(fsys, name)
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
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

//go:embed */prompt.txt */config.json
var embedded embed.FS

// Library is a set of prompts by name. After loading, only [Library.Reload] changes it. It is safe
// for concurrent use.
type Library struct {
	prompts atomic.Pointer[map[string]*Prompt]

	dir   string // where the prompts come from; "": they cannot change
	mu    sync.Mutex
	next  time.Time // when to look again; zero: never, see [Library.Watch]
	fault string    // of the last look
}

// Load reads the embedded prompts and overrides them with those in folder dir, one folder per
// prompt. A folder with a new name adds a prompt. An empty dir means only the embedded ones. A
// folder has the files of Teams AI:
//
//	<dir>/<name>/prompt.txt    the text, see [parse]; or skprompt.txt
//	<dir>/<name>/config.json   how to ask the model, see [Config]; optional
//	<dir>/<name>/actions.json  the actions that it offers, see [Offer]; optional
//
// Folders of Semantic Kernel's plugins have one more level. Each prompt in one is an action called
// PLUGIN-FUNCTION, and every variable of its text is a parameter:
//
//	<dir>/<plugin>/<function>/skprompt.txt
//	<dir>/<plugin>/<function>/config.json
//
// The error lists everything wrong in dir, each with its file: what cannot be read or parsed,
// fields and files without effect, links that lead out of dir. Load ignores names that begin with a
// dot, and notes (*.md). With the error it returns a library of what could be read, only to find
// more faults in, or nil if dir cannot be read at all. Do not use that library's prompts.
func Load(dir string) (*Library, error) {
	if dir == "" {
		return overEmbedded(nil)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("prompts in %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // opened to read only
	l, err := loadFS(root.FS(), dir)
	if l != nil {
		l.dir = dir
	}
	return l, err
}

// LoadFS is [Load] for a folder in a file system, such as an embedded one:
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

// overEmbedded overrides the embedded prompts.
func overEmbedded(own map[string]*Prompt) (*Library, error) {
	all, faults := readPrompts(embedded)
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("embedded prompts: %w", err)
	}
	for _, p := range all {
		p.builtin = true
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

// Unused returns the names of the prompts that are neither in known nor actions (their config.json
// has no input.parameters), sorted.
func (l *Library) Unused(known ...string) []string {
	var names []string
	for name, p := range *l.prompts.Load() {
		if p.Config.Input == nil && !slices.Contains(known, name) {
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
	found = make(map[string]*Prompt)
	for _, entry := range entries {
		name := entry.Name()
		if passedOver(name) {
			continue
		}
		folders := functionsOf(fsys, name)
		if folders == nil {
			folders = []string{name}
		}
		for _, folder := range folders {
			p, err := readFolder(fsys, folder)
			if err != nil {
				faults = append(faults, err)
			}
			if p == nil {
				continue
			}
			for other := range found {
				if strings.EqualFold(other, p.Name()) { // models confuse names that differ only in case
					faults = append(faults, fmt.Errorf("%s: there is another prompt %s", folder, other))
				}
			}
			found[p.Name()] = p
		}
	}
	return found, faults
}

// functionsOf returns the folders in a plugin's folder, which has no files of a prompt; nil: it is no plugin's.
func functionsOf(fsys fs.FS, plugin string) (folders []string) {
	entries, err := fs.ReadDir(fsys, plugin)
	if err != nil {
		return nil // readFolder says so
	}
	for _, entry := range entries {
		switch {
		case passedOver(entry.Name()):
		case !entry.IsDir(), !validName.MatchString(entry.Name()):
			return nil
		default:
			folders = append(folders, path.Join(plugin, entry.Name()))
		}
	}
	return folders
}

// watchEvery is the least time between two checks of a folder.
const watchEvery = time.Second

// Watch lets [Library.Reload] detect changes in the folder of [Load]. Call it before you use the
// library.
func (l *Library) Watch() { l.next = time.Now().Add(watchEvery) }

// Reload reads the folder of a watched library again, at most once a second. If the new prompts do
// not load, it logs that once and keeps the last good ones. Call it before each turn: for any other
// library it does nothing.
func (l *Library) Reload(ctx context.Context) {
	if l.dir == "" || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	now := time.Now()
	if l.next.IsZero() || now.Before(l.next) {
		return
	}
	l.next = now.Add(watchEvery)
	fresh, err := Load(l.dir)
	if err != nil {
		if l.fault != err.Error() {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("prompts have changed and cannot be used, the last good ones stay")
		}
		l.fault = err.Error()
		return
	}
	l.fault = ""
	if !reflect.DeepEqual(l.prompts.Load(), fresh.prompts.Load()) {
		l.prompts.Store(fresh.prompts.Load())
		zerolog.Ctx(ctx).Info().Str("dir", l.dir).Msg("prompts loaded anew")
	}
}

// Builtin has the embedded prompts, one folder each. They are what [Load] begins with.
func Builtin() fs.FS { return embedded }
