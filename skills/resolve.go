package skills

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
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

const (
	maxNear  = 3  // names that are suggested for one that is unknown
	maxNamed = 80 // characters of a name that are looked at and repeated
)

// didYouMean suggests the names that are nearest to an unknown one, with a space in front;
// "" when there are none.
func didYouMean(name string, names []string) string {
	type candidate struct {
		name     string
		distance int
	}
	name = plain(path.Base(strings.ReplaceAll(clip(name), `\`, "/")))
	var near []candidate
	for _, n := range names {
		d := min(edits(name, plain(path.Base(n))), edits(name, plain(stem(path.Base(n)))))
		if d <= len(name)/3 || len(name) > 2 && strings.Contains(plain(n), name) {
			near = append(near, candidate{n, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var quoted []string
	for _, c := range near[:min(len(near), maxNear)] {
		quoted = append(quoted, "'"+inLine(c.name)+"'")
	}
	if quoted == nil {
		return ""
	}
	return " Did you mean " + strings.Join(quoted, " or ") + "?"
}

// clip is what is repeated of a name that somebody else wrote.
func clip(name string) string {
	if runes := []rune(inLine(name)); len(runes) > maxNamed {
		return string(runes[:maxNamed]) + "…"
	}
	return inLine(name)
}

// plain drops what is changed most often in names.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", "/", "", `\`, "", " ", "").Replace(strings.ToLower(name))
}

// edits counts the changes of single bytes that make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
