package skills

import (
	"errors"
	"fmt"
	"os"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// What a skill's folder may hold for its scripts to run: the defaults of the sandbox.
const (
	maxCopiedBytes = 64 << 20
	maxCopied      = 2000 // files and folders, its own among them
)

// checkCopy warns where the sandbox would refuse to copy a skill, all of which counts.
func (w *walker) checkCopy(dir *os.Root, at folder) {
	c := copied{files: 1}
	switch err := c.add(dir); {
	case err != nil:
		w.note(true, at.shown, "its scripts may not run: %v", err)
	case c.files > maxCopied:
		w.note(true, at.shown, "its scripts cannot be run: the folder has more than %d files and folders", maxCopied)
	case c.bytes > maxCopiedBytes:
		w.note(true, at.shown, "its scripts cannot be run: the files in the folder have more than %d MiB", maxCopiedBytes>>20)
	}
}

// copied adds up what a copy would have, until it is too much.
type copied struct {
	files int
	bytes int64
}

func (c *copied) add(dir *os.Root) error {
	list, _, err := entries(dir, maxCopied)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if c.files++; c.files > maxCopied || c.bytes > maxCopiedBytes {
			return nil
		}
		switch {
		case entry.IsDir():
			err = c.addFolder(dir, entry.Name())
		case entry.Type().IsRegular():
			var info os.FileInfo
			if info, err = dir.Lstat(entry.Name()); err == nil {
				c.bytes += info.Size()
				if sandbox.HardLinked(info) {
					err = fmt.Errorf("%s %w", entry.Name(), ErrHardLink)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copied) addFolder(in *os.Root, name string) error {
	dir, err := openFolder(in, name)
	if err != nil {
		return err
	}
	return errors.Join(c.add(dir), dir.Close())
}
