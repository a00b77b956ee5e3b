package skills

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// The places in a template where the list of skills goes. The second is what early
// versions of the Microsoft Agent Framework had.
const (
	placeholder    = "{skills}"
	oldPlaceholder = "{0}"
)

// defaultTemplate says to any planner what skills are, with no syntax of one of them.
const defaultTemplate = `Skills are instructions for certain tasks, with resources to read and scripts to run. Those you have, a line each, name: what it is for:
<available_skills>
{skills}
</available_skills>
Where a task fits a skill, load it with load_skill before anything else, and follow it. Read its resources with read_skill_resource and run its scripts with run_skill_script, by their names as it lists them. Load only what the task needs.`

// defaultCatalogue is how many characters the list of skills may have.
const defaultCatalogue = 24_000

// checkTemplate completes a template.
func checkTemplate(template string) (string, error) {
	switch {
	case template == "":
		return defaultTemplate, nil
	case strings.Contains(template, placeholder):
		return template, nil
	case strings.Contains(template, oldPlaceholder):
		return strings.ReplaceAll(template, oldPlaceholder, placeholder), nil
	}
	return "", errors.New("Template has no {skills}, where the list of skills goes")
}

// entry is a skill in the catalogue.
type entry struct{ name, description string }

// catalogue lists skills, a line each. Over the budget, in characters, descriptions are
// cut, the longest ones first and all of those to the same length, and that is said. Names
// are always told. cut is the length, -1 when all is told.
func catalogue(list []*Skill, budget int) (text string, cut int) {
	entries := make([]entry, len(list))
	for i, s := range list {
		entries[i] = entry{inElement.Replace(inLine(s.Name)), inLine(s.Description)}
	}
	if text = linesOf(entries, -1); utf8.RuneCountInString(text) <= budget {
		return text, -1
	}
	low, high := 0, MaxDescription // of which low fits, or nothing does
	for low < high {
		middle := (low + high + 1) / 2
		if utf8.RuneCountInString(linesOf(entries, middle)) <= budget {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return linesOf(entries, low) + "\n(Descriptions are cut: there are many skills.)", low
}

// linesOf are the entries with at most that many characters of each description; -1: all.
func linesOf(entries []entry, most int) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.name)
		if description := cutTo(e.description, most); description != "" {
			b.WriteString(": ")
			b.WriteString(inElement.Replace(description))
		}
	}
	return b.String()
}

func cutTo(text string, most int) string {
	if most < 0 || utf8.RuneCountInString(text) <= most {
		return text
	}
	if most == 0 {
		return ""
	}
	return strings.TrimRight(string([]rune(text)[:most-1]), " ") + "…"
}
