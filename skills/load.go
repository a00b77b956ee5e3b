package skills

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// load reads the skill in a folder.
func (w *walker) load(ctx context.Context, dir *os.Root, at folder, name string) {
	before := w.index(at.full()) // found through another root, or kept until now
	if before < 0 && len(w.found.Skills) == w.MaxSkills {
		w.stop(at, "more than %d skills: the rest is not loaded", w.MaxSkills)
		return
	}
	f := &faults{path: filepath.Join(at.shown, name), lenient: w.Lenient}
	text, err := w.readText(dir, at, name)
	if err != nil {
		f.add(0, "cannot be read: %v", err)
		w.found.Faults = append(w.found.Faults, f.list...)
		w.keep(at)
		return
	}
	s := parse(f, text, at.name)
	if f.sound() {
		s.Dir, s.at = at.full(), at.place
		w.addFiles(ctx, dir, at, &s)
		if before < 0 {
			w.found.Skills = append(w.found.Skills, &s)
		} else {
			w.found.Skills[before] = &s
		}
		w.seen[at.place] = 0 // and that is that, however it is reached
	} else {
		w.keep(at)
		delete(w.seen, at.place) // by the name of another link, or its own, it may do
	}
	w.found.Faults = append(w.found.Faults, f.list...)
}

// readText reads SKILL.md, which may be a link as far as links are followed.
func (w *walker) readText(dir *os.Root, at folder, name string) ([]byte, error) {
	info, err := dir.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		to, err := w.follow(place{at.root, path.Join(at.path, name)})
		if err != nil {
			return nil, err
		}
		return to.read(w.MaxText)
	}
	return readIn(dir, name, w.MaxText)
}

// files looks for the files of one skill.
type files struct {
	*walker
	skill *Skill
	left  int // entries that may still be looked at
	full  bool
}

// addFiles lists the resources and scripts of a skill, sorted. What is left out is a
// warning.
func (w *walker) addFiles(ctx context.Context, dir *os.Root, at folder, s *Skill) {
	f := &files{walker: w, skill: s, left: w.MaxFiles}
	f.scan(ctx, dir, at, "", 1)
	slices.SortFunc(s.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Scripts, func(a, b Script) int { return strings.Compare(a.Name, b.Name) })
	if w.whole && len(s.Scripts) > 0 {
		w.checkCopy(dir, at)
	}
}

// scan lists the files in dir, which is the folder below of the skill.
func (f *files) scan(ctx context.Context, dir *os.Root, at folder, below string, depth int) {
	list, all, err := entries(dir, f.left)
	if err != nil {
		f.note(true, at.shown, "cannot be looked into: %v", err)
		return
	}
	if f.left -= len(list); !all && !f.full {
		f.full = true
		f.note(true, at.shown, "more than %d files in one skill: the rest is left out", f.MaxFiles)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range list {
		name := entry.Name()
		in := folder{place{at.root, path.Join(at.path, name)}, filepath.Join(at.shown, name), path.Join(below, name), depth, at.linked}
		switch {
		case ctx.Err() != nil: // Discover says so
			return
		case passedOver(name):
		case entry.IsDir():
			f.scanFolder(ctx, in, func() (*os.Root, error) { return openFolder(dir, name) })
		case entry.Type()&fs.ModeSymlink != 0:
			f.followed(ctx, in)
		case f.counts(in):
			info, err := dir.Lstat(name)
			f.add(in, info, err)
		}
	}
}

func (f *files) scanFolder(ctx context.Context, at folder, open func() (*os.Root, error)) {
	if at.depth >= f.SearchDepth {
		return
	}
	dir, err := open()
	if err != nil {
		f.note(true, at.shown, "is left out: %v", err)
		return
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	f.scan(ctx, dir, at, at.name, at.depth+1)
}

// followed takes what a link leads to for what it is.
func (f *files) followed(ctx context.Context, at folder) {
	to, err := f.follow(at.place)
	if err != nil {
		f.note(true, at.shown, "is left out: %v", err)
		return
	}
	at.place, at.linked = to, true
	info, err := os.Lstat(to.full())
	switch {
	case err != nil:
		f.note(true, at.shown, "is left out: %v", err)
	case info.IsDir():
		f.scanFolder(ctx, at, to.open)
	case f.counts(at):
		f.add(at, info, nil)
	}
}

// counts says that a file is a resource or a script by its name.
func (f *files) counts(at folder) bool {
	ext := strings.ToLower(path.Ext(at.name))
	return (slices.Contains(f.Resources, ext) || slices.Contains(f.Scripts, ext)) && !isOwn(path.Base(at.name))
}

// isOwn says that a file is SKILL.md or a licence: nothing to read for a task.
func isOwn(name string) bool {
	stem := strings.ToLower(strings.TrimSuffix(name, path.Ext(name)))
	return strings.EqualFold(name, fileName) || slices.Contains([]string{"license", "licence", "copying", "notice"}, stem)
}

// maxFileName is how many bytes the name of a file may have, with its folders in the skill:
// names are told to models before the skill is loaded.
const maxFileName = 200

// add lists a file, unless it cannot be read or its name would do harm where it is shown. What
// it was when it was looked at says no more than whether to list it.
func (f *files) add(at folder, info fs.FileInfo, err error) {
	switch {
	case err != nil:
		f.note(true, at.shown, "is left out: %v", err)
	case !info.Mode().IsRegular():
		f.note(true, at.shown, "is left out: it is no regular file")
	case sandbox.HardLinked(info):
		f.note(true, at.shown, "is left out: it %v", ErrHardLink)
	case info.Size() > f.MaxResource:
		f.note(true, at.shown, "is left out: it has %d bytes, more than %d", info.Size(), f.MaxResource)
	case len(at.name) > maxFileName:
		f.note(true, at.shown, "is left out: its name has %d bytes, more than %d", len(at.name), maxFileName)
	case !utf8.ValidString(at.name) || strings.ContainsFunc(at.name, func(r rune) bool { return !unicode.IsGraphic(r) || isBlank(r) }):
		f.note(true, at.shown, "is left out: its name is no plain text")
	default:
		f.list(at, info.Size())
	}
}

func (f *files) list(at folder, size int64) {
	ext, most := strings.ToLower(path.Ext(at.name)), f.MaxResource
	read := func(context.Context) ([]byte, error) { return at.read(most) }
	keeps := func(filter func(skill, name string) bool) bool {
		return filter == nil || filter(f.skill.Name, at.name)
	}
	if slices.Contains(f.Resources, ext) && keeps(f.ResourceFilter) {
		f.skill.Resources = append(f.skill.Resources, Resource{Name: at.name, Size: size, read: read})
	}
	if !slices.Contains(f.Scripts, ext) || !keeps(f.ScriptFilter) {
		return
	}
	if at.linked {
		f.note(true, at.shown, "is left out of the scripts: they run in a copy of their skill, and links do not come along")
	} else {
		f.skill.Scripts = append(f.skill.Scripts, Script{Name: at.name, read: read})
	}
}
