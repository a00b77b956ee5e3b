package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// settling is how long the links of a file must have stayed as they are to be counted, and
// longer than the clock of a file system takes for a tick.
const settling = 50 * time.Millisecond

// Settled looks at a file as [os.Root.Lstat] does, when it has not been changed for a moment:
// who looks while another name of it is being removed may count one link too few. A file
// that keeps changing is an error.
func Settled(dir *os.Root, name string) (fs.FileInfo, error) {
	for range 3 {
		info, err := dir.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || HardLinked(info) {
			return info, err
		}
		if ago := time.Since(changedAt(info)); ago < 0 || ago > settling { // the clock may have been set back
			return info, nil
		}
		time.Sleep(settling)
	}
	return nil, fmt.Errorf("%s keeps changing", name)
}

// Same reports whether the file that was opened is the one that was seen by [Settled], and
// its links have not changed since.
func Same(seen, opened fs.FileInfo) bool {
	return os.SameFile(seen, opened) && changedAt(seen).Equal(changedAt(opened)) && !HardLinked(opened)
}

// maxDepth is how deep the folders of a skill with scripts may be nested.
const maxDepth = 32

// Digest identifies what scripts in the folder would see: paths, contents and which
// files are executable. The error is a [*RefusedError] where Run would refuse to copy it.
func (s *Sandbox) Digest(ctx context.Context, dir *os.Root) (string, error) {
	return s.copySkill(ctx, dir, "")
}

// copySkill copies the files of a skill to the folder to, and returns their digest. A
// script runs in such a copy: what was compared with a digest is what runs, whatever
// becomes of the original, and a user who may not read the original can read it. Links,
// devices and the like stay behind. With to == "" it only reads.
func (s *Sandbox) copySkill(ctx context.Context, root *os.Root, to string) (string, error) {
	c := copier{root: root, to: to, digest: sha256.New(), bytes: s.cfg.SkillBytes, files: s.cfg.SkillFiles - 1}
	if err := c.folder(ctx, ".", 0); err != nil {
		return "", fmt.Errorf("copy skill: %w", err)
	}
	return hex.EncodeToString(c.digest.Sum(nil)), nil
}

type copier struct {
	root   *os.Root
	to     string
	digest hash.Hash
	bytes  int64 // still allowed
	files  int
}

// folder copies what is in a folder, in the order of names. It reads no more of a folder
// than one entry beyond those that are still allowed.
func (c *copier) folder(ctx context.Context, name string, depth int) error {
	if depth > maxDepth {
		return refusal("folders nested deeper than %d", maxDepth)
	}
	if c.to != "" {
		target := filepath.Join(c.to, name)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(target, 0o755); err != nil { // whatever the umask
			return err
		}
	}
	dir, err := c.root.OpenFile(name, os.O_RDONLY|nonblock, 0) // it may be something else by now
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it was only read from
	entries, err := dir.ReadDir(c.files + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.files -= len(entries); c.files < 0 {
		return refusal("more files and folders than a skill with scripts may have")
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if err := ctx.Err(); err != nil { // a file that has just changed is waited for
			return err
		}
		switch inner := path.Join(name, entry.Name()); {
		case entry.IsDir():
			err = c.folder(ctx, inner, depth+1)
		case entry.Type().IsRegular():
			err = c.file(inner)
		default:
			err = nil // it stays behind
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file reads what may be something else by now than when the folder was listed: it does
// not wait for the other end of a pipe, and no link leads it elsewhere.
func (c *copier) file(name string) error {
	seen, err := Settled(c.root, name)
	if err != nil {
		return err
	}
	if HardLinked(seen) {
		return refusal("%s is a hard link, and may be a file from elsewhere", name)
	}
	from, err := c.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read from
	info, err := from.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || !Same(seen, info):
		return fmt.Errorf("%s was exchanged meanwhile", name)
	}
	if info.Size() > c.bytes {
		return c.tooLarge(name)
	}
	mode := 0o444 | info.Mode()&0o111
	if mode&0o111 != 0 {
		mode = 0o555
	}
	sum := sha256.New()
	n, err := c.contents(from, name, mode, sum)
	if err != nil {
		return err
	}
	if c.bytes -= n; c.bytes < 0 {
		return c.tooLarge(name)
	}
	fmt.Fprintf(c.digest, "%q %o %x\n", name, mode, sum.Sum(nil))
	return nil
}

func (c *copier) tooLarge(name string) error {
	return refusal("with %s it has more bytes than a skill with scripts may have", name)
}

// contents copies a file, one byte more than is allowed at most.
func (c *copier) contents(from io.Reader, name string, mode fs.FileMode, sum io.Writer) (n int64, err error) {
	from = io.LimitReader(from, c.bytes+1)
	if c.to == "" {
		return io.Copy(sum, from)
	}
	to, err := os.OpenFile(filepath.Join(c.to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	if n, err = io.Copy(io.MultiWriter(to, sum), from); err == nil {
		err = to.Chmod(mode)
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	return n, err
}
