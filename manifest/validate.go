package manifest

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// The most that Validate reads. A package of this bot has 4 kB; the caps leave
// room for other people's, and none for a zip bomb.
const (
	maxPackageBytes  = 10 << 20
	maxUnpackedBytes = 20 << 20
	maxManifestBytes = 1 << 20
	maxIconBytes     = 1 << 20
	maxEntries       = 200
	maxProblems      = 1000 // of one manifest: a broken one stays readable
)

// Problem is one fault of an app package.
type Problem struct {
	File    string // file in the package, or the package itself
	Pointer string // JSON pointer into File, "" for the whole of it
	Text    string // what is wrong, on one line
}

// String returns the problem as one line: manifest.json#/bots/0/botId: text.
func (p Problem) String() string {
	if p.Pointer == "" {
		return p.File + ": " + p.Text
	}
	return p.File + "#" + p.Pointer + ": " + p.Text
}

// Validate checks file, which is a package (zip), a folder that holds the
// files of one, or a manifest.json alone, without its icons. It returns every
// problem found, none for a sound package, and an error only when file itself
// cannot be read. It never goes to the network: it knows the schema versions
// of [SchemaVersions] and says so of a manifest written for another.
func Validate(file string) ([]Problem, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("validate app package: %w", err)
	}
	name := filepath.Base(file)
	switch {
	case info.IsDir():
		return validateFolder(file)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("validate app package: %s is neither a file nor a folder", file)
	case info.Size() > maxPackageBytes:
		return []Problem{problem(name, "", "has %d bytes, more than %d", info.Size(), maxPackageBytes)}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("validate app package: %w", err)
	}
	if bytes.HasPrefix(data, []byte("PK")) || strings.EqualFold(filepath.Ext(name), ".zip") {
		return tidy(checkZip(name, data)), nil
	}
	return checkManifest(name, data), nil
}

func validateFolder(dir string) ([]Problem, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("validate app package: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened to read only
	return tidy(checkFiles(root.FS())), nil
}

// checkZip checks the layout of a package and then its files.
func checkZip(name string, data []byte) []Problem {
	zr, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // unsafe names are reported below, each
		return []Problem{problem(name, "", "is not a readable zip: %v", err)}
	}
	if n := len(zr.File); n > maxEntries {
		return []Problem{problem(name, "", "has %d entries, more than %d", n, maxEntries)}
	}
	problems := checkLayout(name, zr.File)
	return append(problems, checkFiles(zr, zr.File...)...)
}

// checkFiles checks the manifest, the icons that it names, and that it names
// the entries of the package. A folder has none: other things may lie in it.
func checkFiles(fsys fs.FS, entries ...*zip.File) []Problem {
	data, err := readCapped(fsys, manifestName, maxManifestBytes)
	if err != nil {
		return []Problem{problem(manifestName, "", "%v", err)}
	}
	c := newChecker(manifestName, data)
	c.checkAll()
	return slices.Concat(c.problems, checkIcons(fsys, c), checkStrangers(c, entries))
}

// checkManifest checks a manifest alone.
func checkManifest(name string, data []byte) []Problem {
	c := newChecker(name, data)
	c.checkAll()
	return tidy(c.problems)
}

// readCapped reads a regular file of at most limit bytes; its errors are
// written to be shown as the text of a problem.
func readCapped(fsys fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("is missing at the root of the package")
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()                                     //nolint:errcheck // opened to read only
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // what a zip says of its sizes may be a lie
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("has more than %d bytes", limit)
	}
	return data, nil
}

// problem makes a Problem that is safe to print: on one line, without control
// characters from a stranger's file, and not longer than a few lines.
func problem(file, pointer, format string, args ...any) Problem {
	return Problem{
		File:    printable(file, 200),
		Pointer: printable(pointer, 400),
		Text:    printable(fmt.Sprintf(format, args...), 600),
	}
}

func printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}

// tidy sorts problems by place and drops those that two checks both found.
func tidy(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(problems)
}
