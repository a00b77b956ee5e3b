package planner

import (
	"cmp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// maxSuggestions is how many names are suggested for one that is unknown.
const maxSuggestions = 3

// suggest names the actions whose names are nearest to an unknown one.
func suggest(name string, reg *actions.Registry) string {
	type candidate struct {
		name     string
		distance int
	}
	name = clip(name)
	function := plainName(name[strings.LastIndexByte(name, '.')+1:]) // the model may have made up a plugin
	name = plainName(name)
	var near []candidate
	for _, action := range reg.All() {
		distance := min(distance(name, plainName(action.Name)), distance(function, plainName(action.Name)))
		if distance <= max(2, len(name)/2) {
			near = append(near, candidate{action.Name, distance})
		}
	}
	if len(near) == 0 {
		return "; use only the actions that are listed"
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range near[:min(len(near), maxSuggestions)] {
		names = append(names, c.name)
	}
	return "; the nearest names are " + strings.Join(names, ", ")
}

// plainName drops what models change in names: case, and marks between words.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(name))
}

// distance counts the edits of single bytes that turn a into b.
func distance(a, b string) int {
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
