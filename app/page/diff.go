package page

import (
	"slices"
	"strings"

	"github.com/planbot-go/planbot/app/turnlog"
)

// diffLine is a line of a text that became another one.
type diffLine struct {
	Kind string `json:"kind"` // was, is or "": both have it
	Text string `json:"text"`
}

// maxDiff limits how many pairs of lines are compared. Beyond it, all of the one text became all of the
// other.
const maxDiff = 1 << 20

// compareLines lists what became of the lines of a text. Long runs of lines that stay are left out.
func compareLines(was, is string) []diffLine {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []diffLine
	add := func(kind string, lines ...string) {
		for _, line := range lines {
			all = append(all, diffLine{kind, line})
		}
	}
	add("", a[:head]...)
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x)*len(y) > maxDiff {
		add("was", x...)
		add("is", y...)
	} else {
		longest := make([][]int, len(x)+1) // length of what x[i:] and y[j:] have in common
		for i := range longest {
			longest[i] = make([]int, len(y)+1)
		}
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				if longest[i][j] = max(longest[i+1][j], longest[i][j+1]); x[i] == y[j] {
					longest[i][j] = longest[i+1][j+1] + 1
				}
			}
		}
		i, j := 0, 0
		for i < len(x) || j < len(y) {
			switch {
			case i < len(x) && j < len(y) && x[i] == y[j]:
				add("", x[i])
				i, j = i+1, j+1
			case j == len(y) || i < len(x) && longest[i+1][j] >= longest[i][j+1]:
				add("was", x[i])
				i++
			default:
				add("is", y[j])
				j++
			}
		}
	}
	add("", a[len(a)-tail:]...)
	return withoutRuns(all)
}

// around is how many lines that stay are shown on each side of those that do not.
const around = 2

func withoutRuns(all []diffLine) (some []diffLine) {
	for i, line := range all {
		near := slices.ContainsFunc(all[max(0, i-around):min(len(all), i+around+1)], func(l diffLine) bool { return l.Kind != "" })
		switch {
		case near:
			some = append(some, line)
		case len(some) == 0 || some[len(some)-1].Kind != "left":
			some = append(some, diffLine{"left", "…"})
		}
	}
	return some
}

// compareSections pairs the sections of two prompts: by their names, in their order.
func compareSections(was, is []turnlog.Section) (all []sectionChange) {
	for _, s := range was {
		change := sectionChange{Name: s.Name, Was: s.Tokens}
		text := ""
		if i := slices.IndexFunc(is, func(other turnlog.Section) bool { return other.Name == s.Name && other.Role == s.Role }); i >= 0 {
			text, change.Is = is[i].Text, is[i].Tokens
			is = slices.Delete(slices.Clone(is), i, i+1)
		}
		if change.Same = text == s.Text; !change.Same {
			change.Lines = compareLines(s.Text, text)
		}
		all = append(all, change)
	}
	for _, s := range is {
		all = append(all, sectionChange{Name: s.Name, Is: s.Tokens, Lines: compareLines("", s.Text)})
	}
	return all
}
