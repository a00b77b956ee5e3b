package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	folderPrefix = "planbot-skill-"
	sweepAfter   = time.Minute // by then a run has claimed its folder
)

// sweep removes the folders of runs whose program was killed before it could: old ones of
// the users that this program makes them as, which nobody claims any more.
func (c Config) sweep() {
	entries, _ := os.ReadDir(c.TempDir)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || !strings.HasPrefix(entry.Name(), folderPrefix) ||
			time.Since(info.ModTime()) < sweepAfter || !c.owns(info) {
			continue
		}
		dir := filepath.Join(c.TempDir, entry.Name())
		if claim, err := claimFolder(dir); err == nil {
			removeFolder(dir)
			_ = claim.Close()
		}
	}
}

// removeFolder removes a folder, also where a script shut those inside.
func removeFolder(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	if root, err := os.OpenRoot(dir); err == nil {
		_ = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, _ error) error {
			if entry != nil && entry.IsDir() {
				return root.Chmod(path, 0o700)
			}
			return nil
		})
		_ = root.Close()
	}
	_ = os.RemoveAll(dir)
}
