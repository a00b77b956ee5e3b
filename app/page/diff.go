package page

import (
	"slices"
	"strings"

	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/internal/golden"
)

// diffLine is a line of a text that became another one.
type diffLine struct {
	Kind string `json:"kind"` // was, is, left for lines that are left out, or "": both have it
	Text string `json:"text"`
}

// compareLines lists what became of the lines of a text. Long runs of lines that stay are left out.
func compareLines(was, is string) (all []diffLine) {
	kinds := map[byte]string{'-': "was", '+': "is"}
	for line := range strings.Lines(golden.Diff(was+"\n", is+"\n")) {
		switch {
		case line[0] != '@':
			all = append(all, diffLine{kinds[line[0]], strings.TrimSuffix(line[1:], "\n")})
		case !strings.HasPrefix(line, "@@ -1,"): // lines before it are left out
			all = append(all, diffLine{"left", "…"})
		}
	}
	return all
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
