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
	// in it or below it is a fault, and so is a folder that cannot be searched; scripts that the
	// sandbox would refuse to copy are a warning.
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
func (c Config) Discover(ctx context.Context) ([]*Skill, []Fault, error) {
	w := &walker{Config: c, searched: map[string]int{}}
	for _, root := range c.Roots {
		w.addRoot(root)
	}
	for _, root := range w.roots {
		if err := w.search(ctx, root); err != nil {
			return nil, nil, fmt.Errorf("look for skills in %s: %w", root.shown, err)
		}
	}
	first, others := distinct(w.skills)
	for _, s := range others {
		before := first[slices.IndexFunc(first, func(f *Skill) bool { return strings.EqualFold(f.Name, s.Name) })]
		w.note(true, filepath.Join(s.Dir, fileName), "is not used: the skill %s in %s comes first", quoted(before.Name), before.Dir)
	}
	return first, w.faults, nil
}

// walker looks for skills.
type walker struct {
	Config
	roots    []folder
	searched map[string]int // how deep folders stood; no deeper they are not searched again
	folders  int            // that were searched
	full     bool           // a cap was reached, and said
	hits     int            // skills and faults so far, those that were known before too
	skills   []*Skill
	faults   []Fault
}

// folder is a folder or file at which the walker stands.
type folder struct {
	place
	shown  string // as faults name it
	name   string // its last name, or that of the link that leads to it
	depth  int
	linked bool // a link leads here from within a skill: it does not come along when the skill is copied
}

// holds says that another folder is this one or in it.
func (p place) holds(dir string) bool {
	in, err := filepath.Rel(p.full(), dir)
	return err == nil && filepath.IsLocal(in)
}

func (w *walker) note(warning bool, path, format string, args ...any) {
	w.hits++
	w.faults = append(w.faults, Fault{Path: path, Text: fmt.Sprintf(format, args...), Warning: warning})
}

// addRoot takes a root in. One that does not exist may come later: it is no fault unless
// everything has to be there.
func (w *walker) addRoot(root string) {
	if strings.TrimSpace(root) == "" { // a setting that is empty, hardly the current folder
		w.note(!w.Validate, `""`, "names no folder")
		return
	}
	name, err := filepath.Abs(root)
	full := name
	if err == nil {
		full, err = filepath.EvalSymlinks(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.note(!w.Validate, root, "does not exist")
	case err != nil:
		w.note(false, root, "cannot be searched: %v", err)
	default:
		w.roots = append(w.roots, folder{place: place{full, "."}, shown: root, name: filepath.Base(name)})
	}
}

// search looks for skills in a folder. The error is that of ctx.
func (w *walker) search(ctx context.Context, at folder) error {
	depth, searched := w.searched[at.full()]
	if err := ctx.Err(); err != nil || w.full || searched && depth <= at.depth {
		return err
	}
	list, all, err := at.list(maxFolders + maxFiles)
	switch {
	case errors.Is(err, errNoFolder) && at.depth == 0:
		w.note(false, at.shown, "Not a directory")
		return nil
	case err != nil:
		w.note(!w.Validate && at.depth > 0, at.shown, "cannot be searched: %v", err)
		return nil
	case !all:
		w.note(false, at.shown, "more than %d entries: the rest is not looked at", maxFolders+maxFiles)
	}
	for _, name := range []string{fileName, strings.ToLower(fileName)} {
		if i := slices.IndexFunc(list, func(e fs.DirEntry) bool { return e.Name() == name && !e.IsDir() }); i >= 0 {
			w.load(ctx, at, list[i])
			return nil
		}
	}
	w.searched[at.full()] = at.depth
	if w.folders++; w.folders > maxFolders {
		w.full = true
		w.note(false, at.shown, "more than %d folders: the rest is not searched", maxFolders)
		return nil
	}
	hits := w.hits
	for _, entry := range list {
		if skipped(entry.Name()) || at.depth == maxDepth {
			continue
		}
		below, isDir, err := w.below(at, entry)
		if err != nil {
			if info, gone := os.Stat(below.full()); gone != nil || info.IsDir() { // links to files do not matter here
				w.note(!w.Validate, below.shown, "is skipped: %v", err)
			}
		} else if isDir {
			if err := w.search(ctx, below); err != nil {
				return err
			}
		}
	}
	if w.Validate && at.depth <= 1 && w.hits == hits && (at.depth == 0 || !strings.HasPrefix(at.name, ".")) {
		w.note(false, filepath.Join(at.shown, fileName), "Missing required file: %s, in this folder or below it, %d folders deep at most", fileName, maxDepth)
	}
	return nil
}

// below is what an entry of a folder is, or where it leads if it is a link that may be followed,
// which has to be inside of one of the roots. That is opened without following links, so it may
// well be outdated.
func (w *walker) below(at folder, entry fs.DirEntry) (below folder, isDir bool, err error) {
	name := entry.Name()
	below = folder{place{at.root, path.Join(at.path, name)}, filepath.Join(at.shown, name), name, at.depth + 1, at.linked}
	switch {
	case entry.Type()&fs.ModeSymlink == 0:
		return below, entry.IsDir(), nil
	case !w.FollowLinks:
		return below, false, errors.New("is a symbolic link")
	}
	target, err := filepath.EvalSymlinks(below.full())
	if err != nil {
		return below, false, err
	}
	i := slices.IndexFunc(w.roots, func(root folder) bool { return root.holds(target) })
	if i < 0 {
		return below, false, errors.New("is a symbolic link that leads out of the folders of skills")
	}
	info, err := os.Lstat(target)
	if err != nil {
		return below, false, err
	}
	inside, err := filepath.Rel(w.roots[i].root, target)
	below.place, below.linked = place{w.roots[i].root, filepath.ToSlash(inside)}, true
	return below, info.IsDir(), err
}

// skipped says that a folder is not part of a skill, as those in which Kubernetes keeps the
// versions of what it mounts, ..data among them.
func skipped(name string) bool {
	return name == ".git" || name == "node_modules" || name == "__pycache__" || strings.HasPrefix(name, "..")
}

// load reads the skill in a folder. Its SKILL.md may be a link as far as links are followed.
func (w *walker) load(ctx context.Context, at folder, entry fs.DirEntry) {
	w.hits++
	if slices.ContainsFunc(w.skills, func(s *Skill) bool { return s.Dir == at.full() }) { // found through another root
		return
	}
	if len(w.skills) == maxSkills {
		w.full = true
		w.note(false, at.shown, "more than %d skills: the rest is not loaded", maxSkills)
		return
	}
	var text []byte
	file, _, err := w.below(at, entry)
	if err == nil {
		text, err = file.read(maxText)
	}
	if err != nil {
		w.note(false, file.shown, "cannot be read: %v", err)
		return
	}
	p := &parsing{path: file.shown, lenient: w.Lenient}
	s := p.parse(text, at.name)
	w.faults = append(w.faults, p.faults...)
	if !sound(p.faults) {
		return
	}
	s.Dir, s.at = at.full(), at.place
	at.depth, at.linked = 0, false
	f := &files{walker: w, skill: &s, left: maxFiles}
	f.scan(ctx, at, "")
	slices.SortFunc(s.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Scripts, func(a, b Script) int { return strings.Compare(a.Name, b.Name) })
	if w.Validate && len(s.Scripts) > 0 {
		if _, err := (sandboxed{new(sandbox.Sandbox)}).Digest(ctx, &s); err != nil {
			w.note(true, at.shown, "its scripts cannot be run: %v", err)
		}
	}
	w.skills = append(w.skills, &s)
}

// files looks for the files of one skill.
type files struct {
	*walker
	skill *Skill
	left  int // entries that may still be looked at
	full  bool
}

// scan lists the files in a folder of the skill, of which inside is the path in the skill. What
// is left out is a warning.
func (f *files) scan(ctx context.Context, at folder, inside string) {
	list, all, err := at.list(f.left)
	if err != nil {
		f.note(true, at.shown, "is left out: %v", err)
		return
	}
	if f.left -= len(list); !all && !f.full {
		f.full = true
		f.note(true, at.shown, "more than %d files in one skill: the rest is left out", maxFiles)
	}
	for _, entry := range list {
		if skipped(entry.Name()) || ctx.Err() != nil { // which Discover says
			continue
		}
		below, isDir, err := f.below(at, entry)
		name := path.Join(inside, entry.Name())
		if err == nil && !isDir {
			err = f.add(below, name)
		} else if err == nil && below.depth < maxDepth {
			f.scan(ctx, below, name)
		}
		if err != nil {
			f.note(true, below.shown, "is left out: %v", err)
		}
	}
}

// add lists a file if it is a resource or a script by its name, can be read, and its name
// does no harm where it is shown. SKILL.md and licences are nothing to read for a task.
func (f *files) add(at folder, name string) error {
	lower := strings.ToLower(path.Base(name))
	ext := path.Ext(lower)
	isResource := slices.Contains(resourceFiles, ext)
	if !isResource && !slices.Contains(scriptFiles, ext) || lower == strings.ToLower(fileName) ||
		slices.Contains([]string{"license", "licence", "copying", "notice"}, strings.TrimSuffix(lower, ext)) {
		return nil
	}
	file, err := at.file()
	if err != nil {
		return err
	}
	info, err := file.Stat()
	_ = file.Close() // opened to look only
	switch {
	case err != nil:
		return err
	case info.Size() > maxResource:
		return fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxResource)
	case len(name) > maxFileName:
		return fmt.Errorf("its name has %d bytes, more than %d", len(name), maxFileName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || isBlank(r) }):
		return errors.New("its name is no plain text")
	case isResource:
		f.skill.Resources = append(f.skill.Resources, Resource{Name: name, file: at.place, size: info.Size()})
	case at.linked:
		return errors.New("scripts run in a copy of their skill, and links do not come along")
	default:
		f.skill.Scripts = append(f.skill.Scripts, Script{Name: name})
	}
	return nil
}
