package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// fileName is the file that makes a folder a skill. In lower case it does too, where
// there is no other.
const fileName = "SKILL.md"

// What is looked at, at most.
const (
	maxDepth    = 6 // folders from a root down to a skill, and from there to its files
	maxSkills   = 200
	maxFolders  = 2000 // that are searched for skills
	maxFiles    = 2000 // files and folders of one skill
	maxText     = 256 << 10
	maxResource = 1 << 20
	maxFileName = 200 // bytes, with folders: models are told names before the skill is loaded
)

// Config says where skills are looked for, and how. The zero value of every field but
// Roots is a working default.
type Config struct {
	// Roots are the folders that hold skills, or are skills themselves. They are trusted: a
	// root may be a link.
	Roots []string
	// Lenient makes warnings of faults that can be lived with: names that break a rule, texts that
	// are too long, unknown fields, and YAML that can be repaired.
	Lenient bool
	// FollowLinks follows symbolic links that lead to a place inside of one of Roots. Every
	// other link, and without FollowLinks every link, is skipped.
	FollowLinks bool
	// Validate is for whoever writes skills. A root, or a folder right in one, that has no SKILL.md
	// in it or below it is a fault, and so is a folder that cannot be searched; scripts that the sandbox would refuse to
	// copy are a warning.
	Validate bool
	// Reload makes the Source look again, at most once a second. Without it, it looks once.
	Reload bool
}

// Extensions of a skill's files that count.
var (
	resourceFiles = []string{".md", ".json", ".yaml", ".yml", ".csv", ".xml", ".txt"}
	scriptFiles   = []string{".py", ".js", ".sh", ".ps1", ".cs", ".csx"}
)

// Discover looks for skills in the folders, and says what is wrong. A folder with a SKILL.md is a
// skill, and what is in it belongs to it, a SKILL.md further down included; .git and node_modules
// are not searched. A skill with a fault is left out and the others are found all the same; so is
// a root that does not exist. A folder that is reached in several ways is one skill. Of several
// skills of one name, whatever its case, the first is found. The error is that of ctx.
func (c Config) Discover(ctx context.Context) ([]*Skill, []Fault, error) { return c.discover(ctx, nil) }

// discover is Discover. Where something is faulty now, it keeps the skill of last.
func (c Config) discover(ctx context.Context, last []*Skill) ([]*Skill, []Fault, error) {
	w := &walker{Config: c, last: last, seen: map[place]int{}}
	for _, root := range c.Roots {
		w.addRoot(root)
	}
	for _, root := range w.roots {
		if err := w.walkFolder(ctx, root); err != nil {
			return nil, nil, fmt.Errorf("look for skills in %s: %w", root.shown, err)
		}
		if c.Validate {
			w.noteEmpty(root)
		}
	}
	first, others := distinct(w.skills)
	for _, s := range others {
		before := first[slices.IndexFunc(first, func(f *Skill) bool { return strings.EqualFold(f.Name, s.Name) })]
		at := filepath.Join(s.Dir, fileName)
		w.note(true, at, "is not used: the skill %s in %s comes first", quoted(before.Name), before.Dir)
	}
	return first, w.faults, nil
}

// walker looks for skills.
type walker struct {
	Config
	last    []*Skill // that were found last time
	roots   []folder
	seen    map[place]int // how deep folders stood; no deeper they are not searched again
	folders int
	full    bool // a cap was reached, and said
	skills  []*Skill
	faults  []Fault
}

// folder is a folder or file at which the walker stands.
type folder struct {
	place
	shown  string // as faults name it
	name   string // its last name, or that of the link that leads to it; of a skill's file: its path in the skill
	depth  int
	linked bool // a link leads here from within a skill: it does not come along when the skill is copied
}

func (f folder) below(name string) folder {
	return folder{place{f.root, path.Join(f.path, name)}, filepath.Join(f.shown, name), name, f.depth + 1, f.linked}
}

// holds says that another folder is this one or in it.
func (p place) holds(dir string) bool {
	in, err := filepath.Rel(p.full(), dir)
	return err == nil && filepath.IsLocal(in)
}

func (w *walker) note(warning bool, path, format string, args ...any) {
	w.faults = append(w.faults, Fault{Path: path, Text: fmt.Sprintf(format, args...), Warning: warning})
}

// addRoot takes a root in. One that does not exist may come later: it is no fault unless
// everything has to be there.
func (w *walker) addRoot(root string) {
	if strings.TrimSpace(root) == "" { // a setting that is empty, hardly the current folder
		w.note(!w.Validate, `""`, "names no folder")
		return
	}
	full, err := filepath.Abs(root)
	name := filepath.Base(full)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(full)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.note(!w.Validate, root, "does not exist")
	case err != nil:
		w.note(false, root, "cannot be searched: %v", err)
	case !info.IsDir():
		w.note(false, root, "Not a directory")
	default:
		w.roots = append(w.roots, folder{place: place{full, "."}, shown: root, name: name})
	}
}

// walkFolder opens a folder and looks for skills in it. The error is that of ctx.
func (w *walker) walkFolder(ctx context.Context, at folder) error {
	dir, err := at.open()
	if err != nil {
		w.note(!w.Validate && at.depth > 0, at.shown, "is skipped: %v", err)
		w.keep(at)
		return nil
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	depth, seen := w.seen[at.place]
	if err := ctx.Err(); err != nil || w.full || seen && depth <= at.depth {
		return err
	}
	w.seen[at.place] = at.depth
	if w.folders++; w.folders > maxFolders {
		w.full = true
		w.note(false, at.shown, "more than %d folders: the rest is not searched", maxFolders)
		return nil
	}
	list, all, err := entries(dir, maxFolders+maxFiles)
	if err != nil {
		w.note(false, at.shown, "cannot be searched: %v", err)
		w.keep(at)
		return nil
	}
	if !all {
		w.note(false, at.shown, "more than %d entries: the rest is not looked at", maxFolders+maxFiles)
	}
	for _, name := range []string{fileName, strings.ToLower(fileName)} {
		if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == name && !e.IsDir() }) {
			w.load(ctx, at, name)
			return nil
		}
	}
	for _, entry := range list {
		name := entry.Name()
		below := at.below(name)
		switch {
		case skipped(name), below.depth > maxDepth:
		case entry.IsDir():
			err = w.walkFolder(ctx, below)
		case entry.Type()&fs.ModeSymlink != 0:
			err = w.walkLink(ctx, below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteEmpty notes a root that has neither a skill nor a fault in it, or else the folders right in
// it that have none.
func (w *walker) noteEmpty(root folder) {
	empty := func(at folder) bool {
		return !slices.ContainsFunc(w.skills, func(s *Skill) bool { return at.holds(s.Dir) }) &&
			!slices.ContainsFunc(w.faults, func(f Fault) bool { return strings.HasPrefix(f.Path, at.shown) })
	}
	folders := []folder{root}
	if !empty(root) && w.index(root.full()) < 0 {
		entries, _ := os.ReadDir(root.full()) // it was read before
		folders = nil
		for _, entry := range entries {
			if entry.IsDir() && !skipped(entry.Name()) && !strings.HasPrefix(entry.Name(), ".") {
				folders = append(folders, root.below(entry.Name()))
			}
		}
	}
	for _, at := range folders {
		if empty(at) {
			w.note(false, filepath.Join(at.shown, fileName), "Missing required file: %s, in this folder or below it, %d folders deep at most", fileName, maxDepth)
		}
	}
}

// skipped says that a folder is not part of a skill, as those in which Kubernetes keeps the
// versions of what it mounts, ..data among them.
func skipped(name string) bool {
	return name == ".git" || name == "node_modules" || name == "__pycache__" || strings.HasPrefix(name, "..")
}

// walkLink walks the folder that a link leads to, if that is allowed. A link to a file is
// none of the walker's business.
func (w *walker) walkLink(ctx context.Context, at folder) error {
	if info, err := os.Stat(at.full()); err == nil && !info.IsDir() {
		return nil
	}
	to, err := w.follow(at.place)
	if err != nil {
		w.note(!w.Validate, at.shown, "is skipped: %v", err)
		return nil
	}
	at.place = to
	return w.walkFolder(ctx, at)
}

// follow finds where a link leads to, which has to be inside of one of the roots. What it
// returns is opened without following links, so it may well be outdated.
func (w *walker) follow(link place) (place, error) {
	if !w.FollowLinks {
		return place{}, errors.New("is a symbolic link")
	}
	target, err := filepath.EvalSymlinks(link.full())
	if err != nil {
		return place{}, err
	}
	for _, root := range w.roots {
		if root.holds(target) {
			inside, err := filepath.Rel(root.root, target)
			return place{root.root, filepath.ToSlash(inside)}, err
		}
	}
	return place{}, errors.New("is a symbolic link that leads out of the folders of skills")
}

// keep takes the skills in a folder and below it as they were found last.
func (w *walker) keep(at folder) {
	for _, s := range w.last {
		if at.holds(s.Dir) && w.index(s.Dir) < 0 && len(w.skills) < maxSkills {
			w.skills = append(w.skills, s)
		}
	}
}

// index is where the skill of a folder stands, -1 if it was not found yet.
func (w *walker) index(dir string) int {
	return slices.IndexFunc(w.skills, func(s *Skill) bool { return s.Dir == dir })
}

// load reads the skill in a folder.
func (w *walker) load(ctx context.Context, at folder, name string) {
	before := w.index(at.full()) // found through another root, or kept until now
	if before < 0 && len(w.skills) == maxSkills {
		w.full = true
		w.note(false, at.shown, "more than %d skills: the rest is not loaded", maxSkills)
		return
	}
	p := &parsing{path: filepath.Join(at.shown, name), lenient: w.Lenient}
	text, err := w.readText(at.below(name).place)
	var s Skill
	if err != nil {
		p.fault(0, "cannot be read: %v", err)
	} else {
		s = p.parse(text, at.name)
	}
	w.faults = append(w.faults, p.faults...)
	if !sound(p.faults) {
		w.keep(at)
		delete(w.seen, at.place) // by the name of another link, or its own, it may do
		return
	}
	w.seen[at.place] = 0 // done, however it is reached
	s.Dir, s.at = at.full(), at.place
	at.depth, at.name = 0, ""
	f := &files{walker: w, skill: &s, left: maxFiles}
	f.scan(ctx, at)
	slices.SortFunc(s.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Scripts, func(a, b Script) int { return strings.Compare(a.Name, b.Name) })
	if w.Validate && len(s.Scripts) > 0 {
		if _, err := (sandboxed{new(sandbox.Sandbox)}).Digest(ctx, &s); err != nil {
			w.note(true, at.shown, "its scripts cannot be run: %v", err)
		}
	}
	if before < 0 {
		w.skills = append(w.skills, &s)
	} else {
		w.skills[before] = &s
	}
}

// readText reads SKILL.md, which may be a link as far as links are followed.
func (w *walker) readText(at place) ([]byte, error) {
	if info, err := os.Lstat(at.full()); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if at, err = w.follow(at); err != nil {
			return nil, err
		}
	}
	return readAll(at.file, maxText)
}

// files looks for the files of one skill.
type files struct {
	*walker
	skill *Skill
	left  int // entries that may still be looked at
	full  bool
}

// scan lists the files in a folder of the skill. What is left out is a warning.
func (f *files) scan(ctx context.Context, at folder) {
	dir, err := at.open()
	if err != nil {
		f.note(true, at.shown, "is left out: %v", err)
		return
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	list, all, err := entries(dir, f.left)
	if err != nil {
		f.note(true, at.shown, "is left out: %v", err)
		return
	}
	if f.left -= len(list); !all && !f.full {
		f.full = true
		f.note(true, at.shown, "more than %d files in one skill: the rest is left out", maxFiles)
	}
	for _, entry := range list {
		name := entry.Name()
		if skipped(name) || ctx.Err() != nil { // which Discover says
			continue
		}
		below := at.below(name)
		below.name = path.Join(at.name, name)
		isDir := entry.IsDir()
		if entry.Type()&fs.ModeSymlink != 0 {
			var info fs.FileInfo
			to, err := f.follow(below.place)
			if err == nil {
				info, err = os.Lstat(to.full())
			}
			if err != nil {
				f.note(true, below.shown, "is left out: %v", err)
				continue
			}
			below.place, below.linked, isDir = to, true, info.IsDir()
		}
		if !isDir {
			f.add(below)
		} else if below.depth < maxDepth {
			f.scan(ctx, below)
		}
	}
}

// add lists a file if it is a resource or a script by its name, can be read, and its name
// does no harm where it is shown. SKILL.md and licences are nothing to read for a task.
func (f *files) add(at folder) {
	ext := path.Ext(at.name)
	stem := strings.ToLower(strings.TrimSuffix(path.Base(at.name), ext))
	ext = strings.ToLower(ext)
	isResource := slices.Contains(resourceFiles, ext)
	if !isResource && !slices.Contains(scriptFiles, ext) || slices.Contains([]string{"license", "licence", "copying", "notice"}, stem) || strings.EqualFold(stem+ext, fileName) {
		return
	}
	file, err := at.file()
	var info fs.FileInfo
	if err == nil {
		info, err = file.Stat()
		_ = file.Close() // opened to look only
	}
	switch {
	case err != nil:
		f.note(true, at.shown, "is left out: %v", err)
		return
	case info.Size() > maxResource:
		f.note(true, at.shown, "is left out: it has %d bytes, more than %d", info.Size(), maxResource)
		return
	case len(at.name) > maxFileName:
		f.note(true, at.shown, "is left out: its name has %d bytes, more than %d", len(at.name), maxFileName)
		return
	case !utf8.ValidString(at.name) || strings.ContainsFunc(at.name, func(r rune) bool { return !unicode.IsGraphic(r) || isBlank(r) }):
		f.note(true, at.shown, "is left out: its name is no plain text")
		return
	}
	switch {
	case isResource:
		f.skill.Resources = append(f.skill.Resources, Resource{Name: at.name, file: at.place, size: info.Size()})
	case at.linked:
		f.note(true, at.shown, "is left out of the scripts: they run in a copy of their skill, and links do not come along")
	default:
		f.skill.Scripts = append(f.skill.Scripts, Script{Name: at.name})
	}
}

// place is a folder or file below a trusted root, by a path without links.
type place struct {
	root string // absolute
	path string // with slashes, "." for the root itself
}

// full is the path for everything but opening.
func (p place) full() string { return filepath.Join(p.root, filepath.FromSlash(p.path)) }

// open opens a folder step by step from its root. The folders above that are the operator's.
func (p place) open() (*os.Root, error) {
	dir, err := openFolder(os.Lstat, os.OpenRoot, p.root)
	if err != nil || p.path == "." {
		return dir, err
	}
	for name := range strings.SplitSeq(p.path, "/") {
		sub, err := openFolder(dir.Lstat, dir.OpenRoot, name)
		_ = dir.Close() // opened to read only
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}

// openFolder opens a folder. It does not follow links: what was looked at has to be what was
// opened, so that a link put there in between is found.
func openFolder(lstat func(string) (fs.FileInfo, error), open func(string) (*os.Root, error), name string) (*os.Root, error) {
	seen, err := lstat(name)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link", name)
	case !seen.IsDir():
		return nil, fmt.Errorf("%s is no folder", name)
	}
	dir, err := open(name)
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(seen, opened) {
		return nil, errors.Join(fmt.Errorf("%s was exchanged while it was opened", name), dir.Close())
	}
	return dir, nil
}

// file opens the file of that place.
func (p place) file() (*os.File, error) {
	folder, name := path.Split(p.path)
	dir, err := place{p.root, path.Clean("./" + folder)}.open()
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	return sandbox.OpenFile(dir, name)
}

// readAll reads a file of at most most bytes.
func readAll(open func() (*os.File, error), most int64) ([]byte, error) {
	file, err := open()
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(raw)) > most {
		return nil, fmt.Errorf("%s is too large: more than %d bytes", path.Base(file.Name()), most)
	}
	return raw, err
}

// entries lists a folder in the order of names, at most most of it, and says whether that is
// all.
func entries(dir *os.Root, most int) (list []fs.DirEntry, all bool, err error) {
	file, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	list, err = file.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	all = len(list) <= most
	list = list[:min(len(list), most)]
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, all, nil
}
