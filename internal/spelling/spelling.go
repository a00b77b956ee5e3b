// Package spelling finds the known names that a misspelt one may stand for. It decides
// nothing: what it finds is suggested to whoever wrote the name.
package spelling

import (
	"cmp"
	"slices"
	"strings"
)

// Most is how many names are suggested for one that is unknown.
const Most = 3

// Nearest returns up to [Most] of the known names that are near, those with the fewest
// edits first and in their order among equals. near tells the edits of each.
func Nearest(known []string, near func(name string) (edits int, ok bool)) []string {
	type candidate struct {
		name  string
		edits int
	}
	var found []candidate
	for _, name := range known {
		if n, ok := near(name); ok {
			found = append(found, candidate{name, n})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	var names []string
	for _, c := range found[:min(len(found), Most)] {
		names = append(names, c.name)
	}
	return names
}

// Meant is the known name that name most likely stands for, at most two edits away; "": there is none.
func Meant(name string, known []string) string {
	near := Nearest(known, func(other string) (int, bool) {
		edits := Edits(name, other)
		return edits, edits <= 2
	})
	return append(near, "")[0]
}

// Hint is the end of a sentence about a name that somebody typed and nothing has: the one that was meant, or "".
func Hint(name string, known []string) string {
	if meant := Meant(name, known); meant != "" && len(name) > 2 { // two edits make anything of a shorter one
		return "; did you mean " + meant + "?"
	}
	return ""
}

// Suggest names the known actions that are nearest to an unknown name, as the end of a
// sentence.
func Suggest(name string, known []string) string {
	name = Clip(name)
	function := Plain(name[strings.LastIndexByte(name, '.')+1:]) // the model may have made up a plugin
	name = Plain(name)
	near := Nearest(known, func(action string) (int, bool) {
		action = Plain(action)
		edits := min(Edits(name, action), Edits(function, action))
		return edits, edits <= max(2, len(name)/2)
	})
	if near == nil {
		return "; use only the actions that are listed"
	}
	return "; the nearest names are " + strings.Join(near, ", ")
}

// Plain drops what is changed most often in names: case, and marks between words.
func Plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", "/", "", `\`, "", " ", "").Replace(strings.ToLower(name))
}

// Edits counts the changes of single bytes that make b of a (Levenshtein's distance). It
// takes time in proportion to the product of their lengths: cut what strangers wrote.
func Edits(a, b string) int {
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
