package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style says how [Print] writes. The zero value suits a file.
type Style struct {
	Color bool
	Width int // of a line; 0: 100
}

const (
	minText = 30 // the text beside the names is never narrower
	maxText = 100
)

// Print writes the checks as a table for people, and a last line that sums up.
func Print(w io.Writer, checks []Check, style Style) error {
	names := 0
	for _, c := range checks {
		names = max(names, utf8.RuneCountInString(c.Name))
	}
	indent := len("fail  ") + names + 2
	if style.Width <= 0 {
		style.Width = maxText
	}
	width := min(max(style.Width-indent, minText), maxText)
	var out strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&out, "%s  %-*s  ", style.mark(c.Status), names, c.Name)
		lines := wrap(c.Detail, width)
		for i, line := range wrap(c.Hint, width-2) {
			lines = append(lines, map[bool]string{true: "→ ", false: "  "}[i == 0]+line)
		}
		out.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + "\n")
	}
	out.WriteString("\n" + summary(checks) + "\n")
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("print checks: %w", err)
	}
	return nil
}

// PrintJSON writes the checks as one JSON array, for programs.
func PrintJSON(w io.Writer, checks []Check) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if checks == nil {
		checks = []Check{}
	}
	if err := enc.Encode(checks); err != nil {
		return fmt.Errorf("print checks: %w", err)
	}
	return nil
}

// mark is four characters wide on the screen.
func (s Style) mark(status Status) string {
	text := fmt.Sprintf("%-4s", status)
	if !s.Color {
		return text
	}
	color := map[Status]string{OK: "32", Warn: "33", Fail: "31"}[status]
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func summary(checks []Check) string {
	count := map[Status]int{}
	for _, c := range checks {
		count[c.Status]++
	}
	switch {
	case count[Fail] > 0:
		return fmt.Sprintf("%d of %d checks failed: the bot will not work as it is set up.", count[Fail], len(checks))
	case count[Warn] > 0:
		return fmt.Sprintf("The bot can run. %d of %d checks have something to tell first.", count[Warn], len(checks))
	}
	return "All is well."
}

// wrap breaks text at spaces into lines of at most width characters; a word
// that is longer has a line of its own. Line breaks in the text stay.
func wrap(text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
				line += " " + word
			default:
				lines = append(lines, line)
				line = word
			}
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
