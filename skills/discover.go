package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// fileName is the file that makes a folder a skill. The lower-case name also works if there is no
// other.
const fileName = "SKILL.md"

// Limits of the search.
const (
	maxDepth    = 6 // levels from a root down to a skill, and from there to its files
	maxSkills   = 200
	maxFolders  = 2000 // to search for skills
	maxFiles    = 2000 // files and folders of one skill
	maxText     = 256 << 10
	maxFileName = 200 // bytes, with folders: models see names before the skill is loaded
)

// Config says where and how to look for skills. The zero value of every field but Roots is a
// working default.
type Config struct {
	// Roots are folders that contain skills, or are skills themselves. They are trusted: a root may
	// be a link.
	Roots []string
	// Lenient turns minor faults into warnings: names that break a rule, texts that are too long,
	// unknown fields, and YAML that can be repaired.
	Lenient bool
	// FollowLinks follows symbolic links that lead into one of Roots. All other links, and without
	// FollowLinks every link, are skipped.
	FollowLinks bool
	// Validate is for authors of skills. It is a fault if a root, or a folder directly in one, has
	// no SKILL.md in or below it, or if a folder cannot be searched. Scripts that the sandbox would
	// refuse to copy are a warning.
	Validate bool
	// Reload makes the Source look again, at most once per second. Without it, it looks once.
	Reload bool
	// AllowedResourceExtensions and AllowedScriptExtensions say which files of a skill are resources and scripts, such as
	// ".md" or "md". Case does not matter. A file that is both is a script. nil: those of the Microsoft Agent Framework.
	AllowedResourceExtensions []string
	AllowedScriptExtensions   []string
}

// Extensions of resources and scripts, unless a [Config] says otherwise.
var (
	resourceFiles = []string{".md", ".json", ".yaml", ".yml", ".csv", ".xml", ".txt"}
	scriptFiles   = []string{".py", ".js", ".sh", ".ps1", ".cs", ".csx"}
)

// Discover looks for skills in the folders and reports faults. A folder with a SKILL.md is a skill,
// and everything in it belongs to it, including a SKILL.md further down. It does not search .git
// and node_modules. It leaves out a skill with a fault and a root that does not exist, and still
// finds the others. A folder reached in several ways is one skill. If several skills share a name,
// in any letter case, Discover returns the first. The error is that of ctx.
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
	searched map[string]int // the depth at which each folder was searched; it is searched again only at a lower depth
	folders  int            // searched so far
	full     bool           // a cap was reached and reported
	hits     int            // skills and faults so far, including ones already known
	skills   []*Skill
	faults   []Fault
}

// folder is the walker's current folder or file.
type folder struct {
	place
	shown  string // name in faults
	name   string // its own base name, or that of the link to it
	depth  int
	linked bool // reached by a link from within a skill: it is not copied with the skill
}

// holds reports whether the other folder is this one or inside it.
func (p place) holds(dir string) bool {
	in, err := filepath.Rel(p.full(), dir)
	return err == nil && filepath.IsLocal(in)
}

func (w *walker) note(warning bool, path, format string, args ...any) {
	w.hits++
	w.faults = append(w.faults, Fault{Path: path, Text: fmt.Sprintf(format, args...), Warning: warning})
}

// addRoot adds a root. A root that does not exist may appear later, so it is only a warning unless
// Validate is set.
func (w *walker) addRoot(root string) {
	if strings.TrimSpace(root) == "" { // an empty setting, hardly the current folder
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

// below returns what an entry of a folder is. If the entry is a link that may be followed, it
// returns the target, which must be inside a root. The target is later opened without following
// links, so the answer may be outdated safely.
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

// skipped reports whether a folder is not part of a skill, such as those in which Kubernetes keeps
// versions of a mount (..data among them).
func skipped(name string) bool {
	return name == ".git" || name == "node_modules" || name == "__pycache__" || strings.HasPrefix(name, "..")
}

// load reads the skill in a folder. Its SKILL.md may be a link if links are followed.
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
	left  int // entries that may still be read
	full  bool
}

// scan lists the files in a folder of the skill; inside is the folder's path in the skill. It warns
// about everything it leaves out.
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
		if skipped(entry.Name()) || ctx.Err() != nil { // Discover reports the end of ctx
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

// add lists a file if its name makes it a resource or a script, it is readable, and its name is
// safe to show. SKILL.md and licences are not resources.
func (f *files) add(at folder, name string) error {
	isResource, isScript := f.partOf(name)
	if !isResource && !isScript {
		return nil
	}
	file, err := at.file()
	if err != nil {
		return err
	}
	info, err := file.Stat()
	_ = file.Close() // opened only to check it
	switch {
	case err != nil:
		return err
	case partFault(name, info.Size()) != nil:
		return partFault(name, info.Size())
	case isResource:
		f.skill.Resources = append(f.skill.Resources, Resource{Name: name, file: at.place, size: info.Size()})
	case at.linked:
		return errors.New("scripts run in a copy of their skill, and links do not come along")
	default:
		f.skill.Scripts = append(f.skill.Scripts, Script{Name: name})
	}
	return nil
}

// partOf says what a file's name makes it in a skill.
func (c Config) partOf(name string) (isResource, isScript bool) {
	lower := strings.ToLower(path.Base(name))
	ext := path.Ext(lower)
	if lower == strings.ToLower(fileName) || slices.Contains([]string{"license", "licence", "copying", "notice"}, strings.TrimSuffix(lower, ext)) {
		return false, false
	}
	resources, scripts := c.AllowedResourceExtensions, c.AllowedScriptExtensions
	if resources == nil {
		resources = resourceFiles
	}
	if scripts == nil {
		scripts = scriptFiles
	}
	isExt := func(allowed string) bool {
		return ext != "" && strings.EqualFold(strings.TrimPrefix(allowed, "."), ext[1:])
	}
	isScript = slices.ContainsFunc(scripts, isExt)
	return !isScript && slices.ContainsFunc(resources, isExt), isScript
}

// partFault says why a file of this name and size cannot be part of a skill.
func partFault(name string, size int64) error {
	switch {
	case size > maxResource:
		return fmt.Errorf("it has %d bytes, more than %d", size, maxResource)
	case len(name) > maxFileName:
		return fmt.Errorf("its name has %d bytes, more than %d", len(name), maxFileName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || isBlank(r) }):
		return errors.New("its name is no plain text")
	}
	return nil
}

// Source returns the skills of a turn, which is nil outside of turns, such as on the command line.
// Write one to give each person their own skills. It is called for each turn, and again for each
// use of a skill, so a skill taken away is refused at once. Several turns may call it at once.
// Nobody may change the returned list or its skills.
type Source func(ctx context.Context, turn *actions.Turn) ([]*Skill, error)

// Source returns what [Config.Discover] finds, once, or with Reload repeatedly, for authors of
// skills. Each fault is logged when it is first found.
func (c Config) Source() Source {
	ttl := time.Duration(0)
	if c.Reload {
		ttl = time.Second
	}
	var last []*Skill
	var logged []Fault
	first := true
	return Source(func(ctx context.Context, _ *actions.Turn) ([]*Skill, error) { // one at a time
		found, faults, err := c.Discover(ctx)
		if err != nil {
			return nil, err
		}
		for i, f := range faults {
			if !slices.Contains(logged, f) && !slices.Contains(faults[:i], f) {
				level := zerolog.ErrorLevel
				if f.Warning {
					level = zerolog.WarnLevel
				}
				zerolog.Ctx(ctx).WithLevel(level).Str("fault", f.String()).Bool("used", f.Warning).Msg("skills have a fault")
			}
		}
		logged = faults
		if first || !slices.EqualFunc(last, found, (*Skill).same) { // otherwise keep the old ones, so nothing is rebuilt
			zerolog.Ctx(ctx).Info().Int("skills", len(found)).Msg("skills loaded")
			first, last = false, found
		}
		return last, nil
	}).Cache(ttl, nil)
}

// same reports whether the skills are equal, except for the contents of resources and scripts,
// which are read on use.
func (s *Skill) same(other *Skill) bool {
	return s.Dir == other.Dir && s.Content() == other.Content() &&
		slices.EqualFunc(s.Resources, other.Resources, func(a, b Resource) bool { return a.size == b.size })
}

const (
	// maxCached is how many lists a cache keeps. When it is full, it drops all.
	maxCached = 1000
	// sourceTimeout limits a source call that many wait for: it does not end when one of them does.
	sourceTimeout = time.Minute
)

// Cache caches the skills of s for ttl; 0 is forever. Turns with the same key, such as their
// tenant, share one list; key nil: all share one. It keeps up to 1000 lists. Concurrent calls for
// one list share one call of the source, which goes on if one of them gives up. Errors are not
// cached.
func (s Source) Cache(ttl time.Duration, key func(*actions.Turn) string) Source {
	type kept struct {
		list []*Skill
		at   time.Time
	}
	var mu sync.Mutex
	lists := map[string]kept{}
	fresh := func(name string) ([]*Skill, bool) {
		mu.Lock()
		defer mu.Unlock()
		k, ok := lists[name]
		return k.list, ok && (ttl == 0 || time.Since(k.at) < ttl)
	}
	var calls singleflight.Group
	return func(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
		name := ""
		if key != nil {
			name = key(turn)
		}
		if list, ok := fresh(name); ok {
			return list, nil
		}
		call := calls.DoChan(name, func() (list any, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("%w: %v\n%s", actions.ErrPanic, p, debug.Stack())
				}
			}()
			if list, ok := fresh(name); ok { // another caller fetched it meanwhile
				return list, nil
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sourceTimeout)
			defer cancel()
			k := kept{at: time.Now()}
			if k.list, err = s(ctx, turn); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			if len(lists) >= maxCached { // with that many keys, most are no longer in use
				clear(lists)
			}
			lists[name] = k
			return k.list, nil
		})
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for skills: %w", ctx.Err())
		case result := <-call:
			list, _ := result.Val.([]*Skill)
			return list, result.Err
		}
	}
}
