// Package archtest checks which package imports which, and measures size and shape of
// the code. The rooms of this repository stand in layers; a room may import rooms of lower
// layers only, and the SDKs of vendors stay in the rooms that wrap them. Its own tests run
// both over the repository: a wrong arrow fails the build, and so does a figure that is
// worse than the one in testdata/gauges.txt.
package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Report is what [Check] saw. A Report with no files or no arrows comes from a
// check that looked in the wrong place: treat it as a failure.
type Report struct {
	Files  int      // Go files read, tests included
	Arrows int      // imports of one package of the module by another
	Wrong  []string // wrong arrows, one sentence each, sorted
}

// Check reads the imports of every Go file under fsys, whatever its build tags,
// and reports those that the table of rooms does not allow. module is the path
// that go.mod declares. Test files are held to the same rules, but for bottest,
// which the tests of bot may import, too. Its error says which file it could not read.
func Check(fsys fs.FS, module string) (Report, error) {
	files, err := readTree(fsys, module)
	if err != nil {
		return Report{}, err
	}
	reach := reachThroughInternal(files)
	rep := Report{Files: len(files)}
	for _, f := range files {
		rep.Arrows += len(f.ours)
		rep.Wrong = append(rep.Wrong, f.wrong(reach)...)
	}
	slices.Sort(rep.Wrong)
	rep.Wrong = slices.Compact(rep.Wrong)
	return rep, nil
}

// file is one Go file: where it lies and what it imports.
type file struct {
	path, dir, room string   // slash-separated, from the module's root
	test            bool     // it is one
	ours            []string // imported packages of the module, as folders from its root
	others          []string // every other import path
}

// readTree parses the imports of all Go files, skipping what the go command skips.
func readTree(fsys fs.FS, module string) (files []file, err error) {
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		base := path.Base(p)
		switch {
		case err != nil:
			return fmt.Errorf("walk %s: %w", p, err)
		case d.IsDir() && p != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".go":
			return nil
		}
		src, err := fs.ReadFile(fsys, p)
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ImportsOnly)
		if err != nil {
			return fmt.Errorf("parse imports: %w", err)
		}
		f := file{path: p, dir: path.Dir(p), room: roomOf(path.Dir(p)), test: strings.HasSuffix(p, "_test.go")}
		for _, spec := range tree.Imports {
			name, _ := strconv.Unquote(spec.Path.Value) // a string, by the parser
			if dir, ok := strings.CutPrefix(name, module+"/"); ok {
				f.ours = append(f.ours, dir)
			} else {
				f.others = append(f.others, name)
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// reachThroughInternal tells for each package below internal/ which other rooms
// its importers get with it, so that nobody takes a way round an arrow.
func reachThroughInternal(files []file) map[string][]string {
	direct := map[string][]string{}
	for _, f := range files {
		if f.room == internalRoom && !f.test {
			direct[f.dir] = append(direct[f.dir], f.ours...)
		}
	}
	reach := map[string][]string{}
	for dir := range direct {
		for p := range reachable(dir, direct) {
			if roomOf(p) != internalRoom {
				reach[dir] = append(reach[dir], p)
			}
		}
	}
	return reach
}

// reachable is all that from needs, directly or through others.
func reachable(from string, needs map[string][]string) map[string]bool {
	seen := map[string]bool{}
	for todo := slices.Clone(needs[from]); len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[next] {
			seen[next] = true
			todo = append(todo, needs[next]...)
		}
	}
	return seen
}

// wrong says what is wrong with the file: it is in no room, or imports what its room may not.
func (f file) wrong(reach map[string][]string) (wrong []string) {
	if _, known := layers[f.room]; !known {
		wrong = append(wrong, fmt.Sprintf("%s: folder %q is no room: give it a layer in internal/archtest/rooms.go", f.path, f.room))
	}
	for _, to := range f.ours {
		if why := refuse(f, roomOf(to)); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", f.path, to, why))
		}
		for _, far := range reach[to] {
			if why := refuse(f, roomOf(far)); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s through %s: %s", f.path, far, to, why))
			}
		}
	}
	for _, name := range f.others {
		for vendor, rooms := range vendors {
			if within(name, vendor) && !slices.Contains(rooms, f.room) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: its types stop in %s", f.path, name, strings.Join(rooms, " and ")))
			}
		}
	}
	return wrong
}
