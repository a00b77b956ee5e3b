//go:build unix

package sandbox

import (
	"io/fs"
	"syscall"
)

// HardLinked says that a file has more than one name. Such a file is no part of a skill: the
// other name may be that of a file elsewhere, which whoever made the link may not read.
func HardLinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink > 1
}
