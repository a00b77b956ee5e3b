package golden

import (
	"fmt"
	"strings"
)

const (
	// around is how many lines that are the same are shown beside others.
	around = 3
	// maxCompared bounds the lines in which what is the same in both is looked for.
	maxCompared = 3000
)

// change is a line of a difference: ' ' in both, '-' in the first only, '+' in the second
// only.
type change struct {
	sign byte
	line string
}

// Diff shows in lines how the second text differs from the first: "" when it does not.
func Diff(a, b string) string {
	if a == b {
		return ""
	}
	all := changes(linesOf(a), linesOf(b))
	shown := make([]bool, len(all))
	for i, c := range all {
		for near := max(i-around, 0); c.sign != ' ' && near <= min(i+around, len(all)-1); near++ {
			shown[near] = true
		}
	}
	var out strings.Builder
	left := 0
	for i, c := range all {
		if !shown[i] {
			left++
			continue
		}
		if left > 0 {
			fmt.Fprintf(&out, "  … (%d the same)\n", left)
			left = 0
		}
		fmt.Fprintf(&out, "%c %s\n", c.sign, c.line)
	}
	return out.String()
}

// linesOf are the lines of a text, the last one marked where its end is missing.
func linesOf(text string) []string {
	whole, ended := strings.CutSuffix(text, "\n")
	list := strings.Split(whole, "\n")
	if !ended && text != "" {
		list[len(list)-1] += " (no end of line)"
	}
	return list
}

// changes lead from a to b, with as many lines in both as there can be.
func changes(a, b []string) (all []change) {
	var head, tail []change
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, change{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append([]change{{' ', a[len(a)-1]}}, tail...)
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return append(append(head, middle(a, b)...), tail...)
}

// middle is changes of what begins and ends differently.
func middle(a, b []string) (all []change) {
	if len(a) > maxCompared || len(b) > maxCompared {
		return replaced(a, b)
	}
	common := make([][]int, len(a)+1) // how many lines from there on are in both
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			all = append(all, change{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			all = append(all, change{'-', a[i]})
			i++
		default:
			all = append(all, change{'+', b[j]})
			j++
		}
	}
	return append(all, replaced(a[i:], b[j:])...)
}

// replaced are changes of which none is in both.
func replaced(a, b []string) (all []change) {
	for _, line := range a {
		all = append(all, change{'-', line})
	}
	for _, line := range b {
		all = append(all, change{'+', line})
	}
	return all
}
