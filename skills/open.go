package skills

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// Errors of files that are not opened.
var (
	// ErrLink is wrapped by the error of a path with a symbolic link in it.
	ErrLink = errors.New("is a symbolic link")
	// ErrHardLink is wrapped by the error of a file that has other names.
	ErrHardLink = errors.New("is a hard link, and may be a file from elsewhere")
	// ErrChanged is wrapped by the error of a file that became another one while it was opened.
	ErrChanged = errors.New("was exchanged while it was opened")
)

// place is a folder or file below a trusted root, by a path without links.
type place struct {
	root string // absolute
	path string // with slashes, "." for the root itself
}

// full is the path for everything but opening.
func (p place) full() string { return filepath.Join(p.root, filepath.FromSlash(p.path)) }

// openFolder opens the folder of that name in dir. It does not follow links: what was
// looked at has to be what was opened, so that a link put there in between is found.
func openFolder(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s %w", name, ErrLink)
	case !seen.IsDir():
		return nil, fmt.Errorf("%s is no folder", name)
	}
	return openSeen(dir, name, seen)
}

// openSeen opens a folder that was looked at before.
func openSeen(dir *os.Root, name string, seen fs.FileInfo) (*os.Root, error) {
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return same(sub, name, seen)
}

// same is dir if that is the folder which was looked at.
func same(dir *os.Root, name string, seen fs.FileInfo) (*os.Root, error) {
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(seen, opened) {
		return nil, errors.Join(fmt.Errorf("%s %w", name, ErrChanged), dir.Close())
	}
	return dir, nil
}

// openRoot opens a root, which was no link when it was found. The folders above it are the
// operator's, and are believed.
func openRoot(path string) (*os.Root, error) {
	seen, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s %w", path, ErrLink)
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return same(dir, path, seen)
}

// readIn reads a regular file of at most most bytes, as [openFolder] opens a folder.
func readIn(dir *os.Root, name string, most int64) ([]byte, error) {
	seen, err := sandbox.Settled(dir, name)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s %w", name, ErrLink)
	case !seen.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case sandbox.HardLinked(seen):
		return nil, fmt.Errorf("%s %w", name, ErrHardLink)
	case seen.Size() > most:
		return nil, fmt.Errorf("%s is %w: %d bytes, at most %d", name, ErrTooLarge, seen.Size(), most)
	}
	return readSeen(dir, name, seen, most)
}

// readSeen reads a file that was looked at before.
func readSeen(dir *os.Root, name string, seen fs.FileInfo, most int64) ([]byte, error) {
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe put there in between does not hold it up
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	if opened, err := file.Stat(); err != nil || !sandbox.Same(seen, opened) {
		return nil, fmt.Errorf("%s %w", name, ErrChanged)
	}
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("%s is %w: over %d bytes", name, ErrTooLarge, most)
	}
	return raw, nil
}

// open opens a folder step by step from its root.
func (p place) open() (*os.Root, error) {
	dir, err := openRoot(p.root)
	if err != nil || p.path == "." {
		return dir, err
	}
	for name := range strings.SplitSeq(p.path, "/") {
		sub, err := openFolder(dir, name)
		_ = dir.Close() // opened to read only
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}

// open opens the folder of a skill from files as it was opened when it was looked for.
func (s *Skill) open() (*os.Root, error) {
	if s.at.full() != s.Dir { // somebody else made the skill
		return openRoot(s.Dir)
	}
	return s.at.open()
}

// read reads the file of that place.
func (p place) read(most int64) ([]byte, error) {
	folder, name := place{p.root, "."}, p.path
	if i := strings.LastIndexByte(p.path, '/'); i >= 0 {
		folder.path, name = p.path[:i], p.path[i+1:]
	}
	dir, err := folder.open()
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	return readIn(dir, name, most)
}

// entries lists a folder, at most most of it, and says whether that is all.
func entries(dir *os.Root, most int) (list []fs.DirEntry, all bool, err error) {
	file, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	return readFolder(file, most)
}

// readFolder lists an open folder as [entries] does.
func readFolder(file *os.File, most int) (list []fs.DirEntry, all bool, err error) {
	list, err = file.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if len(list) > most {
		return list[:most], false, nil
	}
	return list, true, nil
}
