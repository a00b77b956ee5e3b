package manifest

import (
	"archive/zip"
	"strings"
)

// encrypted is the bit of a zip entry's flags that says so (APPNOTE 4.4.4).
const encrypted = 0x1

// checkLayout checks the entries of a package: files at the root, each once,
// plain, and small enough to unpack.
func checkLayout(pack string, entries []*zip.File) []Problem {
	var problems []Problem
	var unpacked uint64
	seen := map[string]bool{}
	for _, e := range entries {
		if text := entryFault(e); text != "" {
			problems = append(problems, problem(e.Name, "", "%s", text))
		}
		if lower := strings.ToLower(e.Name); seen[lower] {
			problems = append(problems, problem(e.Name, "", "is in the zip more than once"))
		} else {
			seen[lower] = true
		}
		unpacked += min(e.UncompressedSize64, maxUnpackedBytes+1) // no overflow, whatever it claims
	}
	if unpacked > maxUnpackedBytes {
		problems = append(problems, problem(pack, "", "unpacks to more than %d bytes", maxUnpackedBytes))
	}
	return problems
}

// entryFault says what is wrong with one entry, "" when nothing is.
func entryFault(e *zip.File) string {
	switch mode := e.Mode(); {
	case e.Name == "":
		return "an entry has no name"
	case strings.HasPrefix(e.Name, "/") || strings.Contains(e.Name, `\`) || strings.Contains(e.Name, ":"):
		return "has the name of a path on some machine: a package holds plain file names"
	case hasDotDot(e.Name):
		return "points out of the package"
	case strings.HasSuffix(e.Name, "/"):
		return "is a folder: zip the files, not the folder that holds them"
	case strings.Contains(e.Name, "/"):
		return "lies in a folder: every file belongs at the root of the zip"
	case !mode.IsRegular():
		return "is not a regular file"
	case e.Flags&encrypted != 0:
		return "is encrypted"
	case e.Method != zip.Store && e.Method != zip.Deflate:
		return "is packed with a method other than store and deflate"
	}
	return ""
}

// checkStrangers finds the plain files that are no part of the app: neither the
// manifest nor named anywhere in it, as icons and localization files are. The
// files of a declarative agent name others, so such a package may hold any.
func checkStrangers(c *checker, entries []*zip.File) []Problem {
	if c.root == nil || c.at("/copilotAgents/declarativeAgents") != nil {
		return nil
	}
	known := map[string]bool{strings.ToLower(manifestName): true}
	addTexts(known, c.root)
	var problems []Problem
	for _, e := range entries {
		if !known[strings.ToLower(e.Name)] && entryFault(e) == "" {
			problems = append(problems, problem(e.Name, "", "is not part of the app: the manifest does not name it"))
		}
	}
	return problems
}

// addTexts collects every text of a document as the file name that it may be.
func addTexts(names map[string]bool, v any) {
	switch v := v.(type) {
	case string:
		names[strings.ToLower(strings.TrimPrefix(v, "./"))] = true
	case []any:
		for _, item := range v {
			addTexts(names, item)
		}
	case map[string]any:
		for _, item := range v {
			addTexts(names, item)
		}
	}
}

func hasDotDot(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
