// Package examples has the files of the examples, from which bot new makes bots.
package examples

import "embed"

// Files are the examples, a folder each.
//
//go:embed coffee email first helpdesk lights lists pizza profile teams writer
var Files embed.FS
