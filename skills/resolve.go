package skills

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/planbot-go/planbot/internal/spelling"
)

// find returns the index of the one name that a model means by another, -1 when it is none
// or may be several. Models add "./", change the case, and leave out folders and the ends
// of file names.
func find(name string, names []string) int {
	if i := slices.Index(names, name); i >= 0 { // as it is listed
		return i
	}
	name, names = norm.NFKC.String(strings.TrimSpace(name)), slices.Clone(names)
	for i, n := range names { // files from some systems have decomposed names
		names[i] = norm.NFKC.String(n)
	}
	bare := strings.TrimPrefix(strings.ReplaceAll(name, `\`, "/"), "./")
	for _, means := range [...]func(string) bool{
		func(n string) bool { return n == name },
		func(n string) bool { return n == bare },
		func(n string) bool { return strings.EqualFold(n, bare) },
		func(n string) bool { return strings.EqualFold(path.Base(n), bare) }, // none that has a folder
		func(n string) bool { return strings.EqualFold(stem(n), bare) },
		func(n string) bool { return strings.EqualFold(stem(path.Base(n)), bare) },
	} {
		first := slices.IndexFunc(names, means)
		if first < 0 {
			continue
		}
		if slices.ContainsFunc(names[first+1:], means) {
			return -1
		}
		return first
	}
	return -1
}

func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// maxNamed is how many characters of a name are looked at and repeated.
const maxNamed = 80

// didYouMean suggests the names that are nearest to an unknown one, with a space in front;
// "" when there are none.
func didYouMean(name string, names []string) string {
	name = spelling.Plain(path.Base(strings.ReplaceAll(clip(name), `\`, "/")))
	near := spelling.Nearest(names, func(n string) (int, bool) {
		edits := min(spelling.Edits(name, spelling.Plain(path.Base(n))), spelling.Edits(name, spelling.Plain(stem(path.Base(n)))))
		return edits, edits <= len(name)/3 || len(name) > 2 && strings.Contains(spelling.Plain(n), name)
	})
	if near == nil {
		return ""
	}
	for i, n := range near {
		near[i] = "'" + inLine(n) + "'"
	}
	return " Did you mean " + strings.Join(near, " or ") + "?"
}

// clip is what is repeated of a name that somebody else wrote.
func clip(name string) string {
	if runes := []rune(inLine(name)); len(runes) > maxNamed {
		return string(runes[:maxNamed]) + "…"
	}
	return inLine(name)
}
