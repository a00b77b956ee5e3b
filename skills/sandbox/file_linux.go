package sandbox

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt is when a file was last changed, its number of links included.
func changedAt(info fs.FileInfo) time.Time {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}

// hardLinked says that a file has more than one name.
func hardLinked(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink > 1
}
