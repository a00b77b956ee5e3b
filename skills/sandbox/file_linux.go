package sandbox

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt returns when a file last changed, including its link count.
func changedAt(info fs.FileInfo) time.Time {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}

// hardLinked reports whether a file has more than one name.
func hardLinked(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink > 1
}
