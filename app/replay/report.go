package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/junit"
	"github.com/planbot-go/planbot/internal/spelling"
)

// report is what came of all turns.
type report struct {
	Model       string   `json:"model"`
	Stopped     string   `json:"stopped,omitempty"`
	NotReplayed []string `json:"notReplayed,omitempty"`
	FailOn      []string `json:"failOn"`
	Turns       []result `json:"turns"` // the worst first
}

// sort puts the worst turns first.
func (r *report) sort() {
	worst := func(t result) int {
		if len(t.Changes) == 0 {
			return len(kinds)
		}
		return rank(t.Changes[0].Kind)
	}
	slices.SortStableFunc(r.Turns, func(a, b result) int {
		return cmp.Or(worst(a)-worst(b), len(b.Changes)-len(a.Changes), cmp.Compare(a.File, b.File), cmp.Compare(a.Turn, b.Turn))
	})
}

// fails reports whether a change is one of --fail-on.
func (r *report) fails(c change) bool { return slices.Contains(r.FailOn, c.Kind) }

// failed counts the turns with such a change.
func (r *report) failed() (n int) {
	for _, t := range r.Turns {
		if slices.ContainsFunc(t.Changes, r.fails) {
			n++
		}
	}
	return n
}

// changed are the turns with changes.
func (r *report) changed() []result {
	n := slices.IndexFunc(r.Turns, func(t result) bool { return len(t.Changes) == 0 })
	if n < 0 {
		return r.Turns
	}
	return r.Turns[:n]
}

// summary is the report in one line.
func (r *report) summary() string {
	count := map[string]int{}
	for _, t := range r.Turns {
		for _, c := range t.Changes {
			count[c.Kind]++
		}
	}
	text := fmt.Sprintf("%s replayed, %d changed", turnview.Count(len(r.Turns), "turn"), len(r.changed()))
	for _, kind := range kinds {
		if count[kind] > 0 {
			text += fmt.Sprintf(", %s %d", kind, count[kind])
		}
	}
	if len(r.NotReplayed) > 0 {
		text += fmt.Sprintf(", %d not replayed", len(r.NotReplayed))
	}
	return text
}

// figures are what the turns used: name, recorded, now.
func (r *report) figures() (rows [][3]string) {
	var was, is numbers
	for _, t := range r.Turns {
		was.add(t.Was)
		is.add(t.Is)
	}
	add := func(name, format string, was, is any) {
		rows = append(rows, [3]string{name, fmt.Sprintf(format, was), fmt.Sprintf(format, is)})
	}
	if was.Calls > 0 { // scenarios do not know
		add("model calls", "%d", was.Calls, is.Calls)
	}
	if was.In > 0 { // the offline model counts none
		add("tokens in", "%d", was.In, is.In)
		add("tokens out", "%d", was.Out, is.Out)
	}
	if was.Cost+is.Cost > 0 {
		add("cost", "%.4f", was.Cost, is.Cost)
	}
	return rows
}

// text writes the report for a terminal.
func (r *report) text(w io.Writer) error {
	var out strings.Builder
	for _, t := range r.changed() {
		fmt.Fprintf(&out, "%s  %q\n", cli.Printable(t.Turn), spelling.OneLine(t.Said, maxShown))
		for _, c := range t.Changes {
			fmt.Fprintf(&out, "    %-9s %s\n", c.Kind, cli.OneLine(c.Text))
		}
	}
	for _, row := range r.figures() {
		fmt.Fprintf(&out, "%s: %s became %s\n", row[0], row[1], row[2])
	}
	fmt.Fprintf(&out, "model: %s\n", cli.Printable(r.Model))
	if r.Stopped != "" {
		fmt.Fprintln(&out, cli.OneLine(r.Stopped))
	}
	fmt.Fprintln(&out, r.summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// maxRows limits the table of a pull request, and the list of what is not replayed.
const maxRows = 50

// cell is a text in a table of Markdown.
func cell(text string) string {
	marks := strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "@", "@\u200b", "*", `\*`, "_", `\_`, "[", `\[`)
	return marks.Replace(cli.OneLine(text))
}

// markdown writes the summary for a pull request.
func (r *report) markdown(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "## Replay\n\n%s. Model: %s.\n", r.summary(), cell(r.Model))
	if r.Stopped != "" {
		fmt.Fprintf(&out, "\n**%s**\n", cell(r.Stopped))
	}
	changed := r.changed()
	if len(changed) > 0 {
		out.WriteString("\n| said | what changed |\n|---|---|\n")
	}
	for _, t := range changed[:min(len(changed), maxRows)] {
		var all []string
		for _, c := range t.Changes {
			all = append(all, "**"+c.Kind+"** "+cell(c.Text))
		}
		fmt.Fprintf(&out, "| %s | %s |\n", cell(spelling.OneLine(t.Said, maxShown)), strings.Join(all, "<br>"))
	}
	if more := len(changed) - maxRows; more > 0 {
		fmt.Fprintf(&out, "\nAnd %d more.\n", more)
	}
	if rows := r.figures(); len(rows) > 0 {
		out.WriteString("\n| | recorded | this build |\n|---|---|---|\n")
		for _, row := range rows {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", row[0], row[1], row[2])
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// junit writes a test for each turn.
func (r *report) junit(w io.Writer) error {
	var cases []junit.Case
	for _, t := range r.Turns {
		one := junit.Case{Suite: t.File, Name: t.Turn + " " + spelling.OneLine(t.Said, maxShown), Took: t.Took}
		if i := slices.IndexFunc(t.Changes, r.fails); i >= 0 {
			one.Failure = t.Changes[i].Kind + ": " + t.Changes[i].Text
			for _, c := range t.Changes {
				one.Details += c.Kind + ": " + c.Text + "\n"
			}
		}
		cases = append(cases, one)
	}
	slices.SortStableFunc(cases, func(a, b junit.Case) int { return cmp.Compare(a.Suite, b.Suite) })
	return junit.Write(w, cases)
}
