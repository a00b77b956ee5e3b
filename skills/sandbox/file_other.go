//go:build !linux

package sandbox

import (
	"io/fs"
	"time"
)

// Hard links are detected only on Linux, where scripts run.
func changedAt(fs.FileInfo) time.Time { return time.Time{} }

func hardLinked(fs.FileInfo) bool { return false }
