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
	"syscall"
	"time"
)

// settling is how long a file must have stayed as it is before its links are counted, and
// longer than a tick of a file system's clock.
const settling = 50 * time.Millisecond

// OpenFile opens a file in a folder that strangers can write to. A link, whether symbolic or
// hard, is an error: it may lead to a file elsewhere, which whoever made the link may not read.
// So are other things than files, and a file that is exchanged meanwhile. It waits a moment for a
// file that has just changed: while another name of it is being removed, the count of its links
// may be one too low.
func OpenFile(dir *os.Root, name string) (*os.File, error) {
	seen, err := dir.Lstat(name)
	for tries := 0; err == nil && settles(seen) && tries < 3; tries++ {
		time.Sleep(settling)
		seen, err = dir.Lstat(name)
	}
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link", name)
	case !seen.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case hardLinked(seen):
		return nil, refusal(name + " is a hard link, and may be a file from elsewhere")
	case settles(seen):
		return nil, fmt.Errorf("%s keeps changing", name)
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe put there in between does not hold it up
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err != nil || !os.SameFile(seen, opened) || !changedAt(seen).Equal(changedAt(opened)) || hardLinked(opened) {
		return nil, errors.Join(fmt.Errorf("%s was exchanged while it was opened", name), file.Close())
	}
	return file, nil
}

// settles says that a file has just changed.
func settles(info fs.FileInfo) bool {
	ago := time.Since(changedAt(info))
	return info.Mode().IsRegular() && !hardLinked(info) && ago >= 0 && ago <= settling // the clock may have been set back
}

// copyFolder copies the files of a folder to the folder to and returns their digest. A script
// runs in such a copy: what was compared with a digest is what runs, whatever becomes of the
// original, and a user who may not read the original can read it. Links, devices and the like
// are left out. With to == "" it only reads.
func copyFolder(ctx context.Context, root *os.Root, to string) (string, error) {
	c := copier{root: root, to: to, digest: sha256.New(), bytes: maxSkillBytes, files: maxSkillFiles - 1}
	if err := c.folder(ctx, ".", 0); err != nil {
		return "", fmt.Errorf("copy skill: %w", err)
	}
	return hex.EncodeToString(c.digest.Sum(nil)), nil
}

var (
	errTooLarge = refusal(fmt.Sprintf("it has more than %d MiB of files", maxSkillBytes>>20))
	errTooMany  = refusal(fmt.Sprintf("it has more than %d files and folders", maxSkillFiles))
	errTooDeep  = refusal(fmt.Sprintf("it has folders nested deeper than %d", maxDepth))
)

type copier struct {
	root   *os.Root
	to     string
	digest hash.Hash
	bytes  int64 // still allowed
	files  int
}

// folder copies what is in a folder, in the order of names. It reads no more of a folder than
// one entry beyond those that are still allowed.
func (c *copier) folder(ctx context.Context, name string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if c.to != "" {
		target := filepath.Join(c.to, name)
		if err := errors.Join(os.MkdirAll(target, 0o755), os.Chmod(target, 0o755)); err != nil { // whatever the umask
			return err
		}
	}
	dir, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be something else by now
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it was only read from
	entries, err := dir.ReadDir(c.files + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.files -= len(entries); c.files < 0 {
		return errTooMany
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		inner, err := path.Join(name, entry.Name()), error(nil)
		if entry.IsDir() {
			err = c.folder(ctx, inner, depth+1)
		} else if entry.Type().IsRegular() {
			err = c.file(inner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) file(name string) error {
	from, err := OpenFile(c.root, name)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read from
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if info.Size() > c.bytes {
		return errTooLarge
	}
	mode := fs.FileMode(0o444)
	if info.Mode()&0o111 != 0 {
		mode = 0o555
	}
	sum := sha256.New()
	n, err := c.contents(io.LimitReader(from, c.bytes+1), name, mode, sum)
	if err != nil {
		return err
	}
	if c.bytes -= n; c.bytes < 0 {
		return errTooLarge
	}
	fmt.Fprintf(c.digest, "%q %o %x\n", name, mode, sum.Sum(nil))
	return nil
}

func (c *copier) contents(from io.Reader, name string, mode fs.FileMode, sum io.Writer) (n int64, err error) {
	if c.to == "" {
		return io.Copy(sum, from)
	}
	to, err := os.OpenFile(filepath.Join(c.to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(io.MultiWriter(to, sum), from)
	return n, errors.Join(err, to.Chmod(mode), to.Close())
}
