package sandbox

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt is when a file was last changed, its number of links included.
func changedAt(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}

// hardLinked says that a file has more than one name.
func hardLinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink > 1
}
