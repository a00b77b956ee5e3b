package sandbox

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt is when the file was last changed, its number of links included. Zero: not known.
func changedAt(info fs.FileInfo) time.Time {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(stat.Ctim.Unix())
}
