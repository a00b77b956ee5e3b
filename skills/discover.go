package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// fileName is the file that makes a folder a skill. In lower case it does too, where
// there is no other.
const fileName = "SKILL.md"

// Found is what was found: the skills that can be used, in the order of their roots and
// paths, and everything that is wrong.
type Found struct {
	Skills []*Skill
	Faults []Fault
}

// Sound says that there are no faults but warnings.
func (f Found) Sound() bool { return sound(f.Faults) }

// Skill finds the skill that a name means, as models mean them: in any case, or with ./ in
// front. Of several of one name it is the first.
func (f Found) Skill(name string) (*Skill, bool) {
	list := distinct(f.Skills)
	i := find(name, names(list, func(s *Skill) string { return s.Name }))
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// Discover looks for skills in the folders of cfg. A folder with a SKILL.md is a skill, and
// what is in it belongs to it, a SKILL.md further down included; .git and node_modules are
// not looked into. A skill with a fault is left out and the others are found all the same;
// so is a root that is not there. A folder that is reached in several ways is one skill. The
// error is that of a wrong cfg or of ctx.
func Discover(ctx context.Context, cfg Config) (Found, error) {
	return discover(ctx, cfg, false, nil)
}

// Validate is [Discover] for whoever writes skills: that a root, or a folder below it, has
// no SKILL.md in it or below it is a fault, and so is a folder that it cannot look into.
func Validate(ctx context.Context, cfg Config) (Found, error) { return discover(ctx, cfg, true, nil) }

// discover is Discover, or Validate for the whole. Of last, what is faulty now is kept.
func discover(ctx context.Context, cfg Config, whole bool, last []*Skill) (Found, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Found{}, err
	}
	w := &walker{Config: cfg, whole: whole, last: last, seen: map[place]int{}}
	for _, root := range cfg.Roots {
		w.addRoot(root)
	}
	for _, root := range w.roots {
		if err := w.walkRoot(ctx, root); err != nil {
			return Found{}, fmt.Errorf("look for skills in %s: %w", root.shown, err)
		}
	}
	return w.found, nil
}

// walker looks for skills.
type walker struct {
	Config
	whole   bool     // every folder has to have a skill
	last    []*Skill // that were found last time, in order
	roots   []folder
	seen    map[place]int // how deep folders stood; no deeper they are not looked into again
	folders int
	cut     int  // folders that are too deep
	full    bool // a cap was reached, and said
	found   Found
}

// folder is a folder at which the walker stands.
type folder struct {
	place
	shown string // as faults name it
	name  string // its last name, which is that of a link where one leads to it
	depth int
	// linked says that a link leads here from within a skill: it does not come along when
	// the skill is copied.
	linked bool
}

func (w *walker) note(warning bool, path, format string, args ...any) {
	w.found.Faults = append(w.found.Faults, Fault{Path: path, Text: fmt.Sprintf(format, args...), Warning: warning})
}

// addRoot takes a root in. One that is not there may come later: it is no fault unless
// everything has to be there.
func (w *walker) addRoot(root string) {
	if strings.TrimSpace(root) == "" { // a setting that is empty, hardly the current folder
		w.note(!w.whole, `""`, "names no folder")
		return
	}
	full, err := filepath.Abs(root)
	if err == nil {
		var real string
		if real, err = filepath.EvalSymlinks(full); err == nil {
			info, failed := os.Stat(real)
			if err = failed; err == nil && info.IsDir() {
				w.roots = append(w.roots, folder{place: place{real, "."}, shown: root, name: filepath.Base(full)})
				return
			}
		}
	}
	switch {
	case err == nil:
		w.note(false, root, "Not a directory")
	case errors.Is(err, fs.ErrNotExist):
		w.note(!w.whole, root, "does not exist")
	default:
		w.note(false, root, "cannot be looked into: %v", err)
	}
}

func (w *walker) walkRoot(ctx context.Context, root folder) error {
	dir, err := root.open()
	if err != nil {
		w.closed(root, err)
		return nil
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	cut := w.cut
	has, err := w.walk(ctx, dir, root)
	if err == nil && !has && w.whole {
		w.missing(root, w.cut > cut)
	}
	return err
}

// closed notes a folder that cannot be looked into.
func (w *walker) closed(at folder, err error) {
	w.note(false, at.shown, "cannot be looked into: %v", err)
	w.keep(at)
}

// keep takes the skills in a folder and below it as they were found last.
func (w *walker) keep(at folder) {
	for _, s := range w.last {
		if in, err := filepath.Rel(at.full(), s.Dir); err == nil && filepath.IsLocal(in) && w.index(s.Dir) < 0 && len(w.found.Skills) < w.MaxSkills {
			w.found.Skills = append(w.found.Skills, s)
		}
	}
}

// index is where the skill of a folder stands, -1 if it was not found yet.
func (w *walker) index(dir string) int {
	return slices.IndexFunc(w.found.Skills, func(s *Skill) bool { return s.Dir == dir })
}

// missing notes a folder without a skill; cut says that some below it are too deep.
func (w *walker) missing(at folder, cut bool) {
	deeper := ""
	if cut {
		deeper = fmt.Sprintf(" (what is deeper than %d folders is not looked into)", w.Depth)
	}
	w.note(false, filepath.Join(at.shown, fileName), "Missing required file: %s, in this folder or below it%s", fileName, deeper)
}

// walk looks for skills in dir and below. It says whether there is a SKILL.md, sound or not;
// what it could not look into counts as one, as that is said already.
func (w *walker) walk(ctx context.Context, dir *os.Root, at folder) (has bool, err error) {
	depth, seen := w.seen[at.place]
	if err := ctx.Err(); err != nil || w.full || seen && depth <= at.depth {
		return true, err
	}
	w.seen[at.place] = at.depth
	if w.folders++; w.folders > w.MaxFolders {
		w.stop(at, "more than %d folders: the rest is not looked into", w.MaxFolders)
		return true, nil
	}
	list, all, err := entries(dir, w.MaxFolders+w.MaxFiles)
	if err != nil {
		w.closed(at, err)
		return true, nil
	}
	if !all {
		w.note(false, at.shown, "more than %d entries: the rest is not looked at", w.MaxFolders+w.MaxFiles)
	}
	if name := skillFile(list); name != "" {
		w.load(ctx, dir, at, name)
		return true, nil
	}
	if at.depth == w.Depth {
		w.cut += len(slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !e.IsDir() || passedOver(e.Name()) }))
		return false, nil
	}
	return w.walkBelow(ctx, dir, at, list)
}

// stop ends the whole search at a cap.
func (w *walker) stop(at folder, format string, args ...any) {
	w.full = true
	w.note(false, at.shown, format, args...)
}

// skillFile is the name that SKILL.md has in a folder, "" if it is not there.
func skillFile(list []fs.DirEntry) string {
	for _, name := range []string{fileName, strings.ToLower(fileName)} {
		if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == name && !e.IsDir() }) {
			return name
		}
	}
	return ""
}

// walkBelow walks the folders in a folder that is no skill itself. Those without a skill
// are faults where others have one: where none has, that is said of the folder above.
func (w *walker) walkBelow(ctx context.Context, dir *os.Root, at folder, list []fs.DirEntry) (has bool, err error) {
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	type without struct {
		folder
		cut bool
	}
	var empty []without
	for _, entry := range list {
		name := entry.Name()
		below := folder{place: place{at.root, path.Join(at.path, name)}, shown: filepath.Join(at.shown, name), name: name, depth: at.depth + 1}
		isLink := entry.Type()&fs.ModeSymlink != 0
		if passedOver(name) || !entry.IsDir() && !isLink {
			continue
		}
		inside, cut := false, w.cut
		if isLink {
			inside, err = w.walkLink(ctx, below)
		} else {
			inside, err = w.walkFolder(ctx, below, func() (*os.Root, error) { return openFolder(dir, name) })
		}
		if err != nil {
			return false, err
		}
		if has = has || inside; !inside && !isLink && !strings.HasPrefix(name, ".") {
			empty = append(empty, without{below, w.cut > cut})
		}
	}
	for _, below := range empty {
		if has && w.whole {
			w.missing(below.folder, below.cut)
		}
	}
	return has, nil
}

// passedOver says that a folder is none of a skill's, as those in which Kubernetes keeps
// the versions of what it mounts, ..data among them.
func passedOver(name string) bool {
	return name == ".git" || name == "node_modules" || name == "__pycache__" || strings.HasPrefix(name, "..")
}

func (w *walker) walkFolder(ctx context.Context, at folder, open func() (*os.Root, error)) (has bool, err error) {
	dir, err := open()
	if err != nil {
		w.note(!w.whole, at.shown, "is passed over: %v", err)
		w.keep(at)
		return true, nil
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	return w.walk(ctx, dir, at)
}

// walkLink walks the folder that a link leads to, if that is allowed. A link to a file is
// none of the walker's business.
func (w *walker) walkLink(ctx context.Context, at folder) (has bool, err error) {
	if info, err := os.Stat(at.full()); err == nil && !info.IsDir() {
		return false, nil
	}
	to, err := w.follow(at.place)
	if err != nil {
		w.note(!w.whole, at.shown, "is passed over: %v", err)
		return true, nil
	}
	at.place = to
	return w.walkFolder(ctx, at, to.open)
}

// follow finds where a link leads to, which has to be inside of one of the roots. What it
// returns is opened without following links, so it may well be outdated.
func (w *walker) follow(link place) (place, error) {
	if !w.FollowLinks {
		return place{}, ErrLink
	}
	target, err := filepath.EvalSymlinks(link.full())
	if err != nil {
		return place{}, err
	}
	for _, root := range w.roots {
		if inside, err := filepath.Rel(root.root, target); err == nil && filepath.IsLocal(inside) {
			return place{root.root, filepath.ToSlash(inside)}, nil
		}
	}
	return place{}, fmt.Errorf("%w that leads out of the folders of skills", ErrLink)
}
