//go:build !unix

package sandbox

import "io/fs"

// HardLinked says that a file has more than one name. Here it is not known.
func HardLinked(fs.FileInfo) bool { return false }
