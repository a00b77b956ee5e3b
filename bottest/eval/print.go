package eval

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Print writes the table and, below it, each plan that is not all right beside what was
// wanted.
func (r *Report) Print(w io.Writer) error {
	p := &printer{report: r, several: len(r.Sides) > 1}
	for i := range r.Sides {
		fmt.Fprintf(&p.out, "%s: %s\n", r.Sides[i].Name, r.Sides[i].About)
	}
	p.out.WriteByte('\n')
	if r.Asked > 0 {
		p.table()
		p.failures()
		p.out.WriteByte('\n')
	}
	p.end()
	_, err := io.WriteString(w, p.out.String())
	return err
}

type printer struct {
	out     strings.Builder
	report  *Report
	several bool // sides
}

// columns are the names of the figures, and the forms of a value and of a difference.
var columns = []struct {
	name        string
	of          func(*Figures) float64
	value, more string
	times       float64
}{
	{"valid", func(f *Figures) float64 { return f.Valid }, "%.0f%%", "%+.0f", 100},
	{"action", func(f *Figures) float64 { return f.Action }, "%.0f%%", "%+.0f", 100},
	{"entities", func(f *Figures) float64 { return f.Entities }, "%.0f%%", "%+.0f", 100},
	{"unwanted", func(f *Figures) float64 { return f.Unwanted }, "%.0f%%", "%+.0f", 100},
	{"calls", func(f *Figures) float64 { return f.Calls }, "%.2f", "%+.2f", 1},
	{"tokens", func(f *Figures) float64 { return f.Tokens }, "%.0f", "%+.0f", 1},
	{"p50", func(f *Figures) float64 { return f.P50 }, "%.2fs", "%+.2fs", 1},
	{"p95", func(f *Figures) float64 { return f.P95 }, "%.2fs", "%+.2fs", 1},
	{"cost", func(f *Figures) float64 { return f.Cost }, "%.4f", "%+.4f", 1},
}

// table has the languages, then all; of each the sides and their difference.
func (p *printer) table() {
	header := []string{"", "", "plans"}
	for _, c := range columns {
		header = append(header, c.name)
	}
	rows := [][]string{header}
	first := &p.report.Sides[0]
	for _, row := range append(slices.Clone(first.Languages), first.All) {
		name := cmp.Or(row.Lang, "all")
		for i := range p.report.Sides {
			side := &p.report.Sides[i]
			if row, ok := side.row(row.Lang); ok {
				rows = append(rows, p.row(name, side, &row))
				name = ""
			}
			for _, d := range side.Against {
				if d.Lang == row.Lang {
					rows = append(rows, p.difference(side, &d.Figures))
				}
			}
		}
	}
	p.write(rows)
}

func (p *printer) row(name string, side *SideReport, row *Row) []string {
	cells := []string{name, "", strconv.Itoa(row.Asked)}
	if p.several {
		cells[1] = side.Name
	}
	for _, c := range columns {
		cells = append(cells, fmt.Sprintf(c.value, c.of(&row.Figures)*c.times))
	}
	return costed(cells, side.priced())
}

// difference is by how much a side is above the first one.
func (p *printer) difference(side *SideReport, f *Figures) []string {
	first := &p.report.Sides[0]
	cells := []string{"", side.Name + "-" + first.Name, ""}
	for _, c := range columns {
		cell := fmt.Sprintf(c.more, c.of(f)*c.times)
		if strings.Trim(cell, "-0.s") == "" {
			cell = strings.Replace(cell, "-", "+", 1) // as good as none
		}
		cells = append(cells, cell)
	}
	return costed(cells, side.priced() && first.priced())
}

// costed leaves the cost out, which is last, where no price is known.
func costed(cells []string, priced bool) []string {
	if !priced {
		cells[len(cells)-1] = "-"
	}
	return cells
}

// write writes the cells below each other: words to the left, numbers to the right.
func (p *printer) write(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			width := widths[i]
			if i < 2 {
				width = -width
			}
			fmt.Fprintf(&line, "%*s  ", width, cell)
		}
		p.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// failures lists the cases that a side did not get right each time.
func (p *printer) failures() {
	for i := range p.report.cases {
		c := &p.report.cases[i]
		var lines []string
		wrong := false
		for k := range p.report.Sides {
			counted, failed := p.report.Sides[k].outcomes(c.Name)
			wrong = wrong || failed
			for _, line := range counted {
				lines = append(lines, p.label(p.report.Sides[k].Name)+line)
			}
		}
		if !wrong {
			continue
		}
		fmt.Fprintf(&p.out, "\n%s (%s): %s\n", printable(c.Name), printable(c.Lang), clipped(quoted(c.Say)))
		for i, want := range c.Want {
			fmt.Fprintf(&p.out, "  %-8s %s\n", map[bool]string{true: "wanted", false: "or"}[i == 0], showCalls(want))
		}
		for _, line := range lines {
			fmt.Fprintf(&p.out, "  %s\n", line)
		}
	}
}

func (p *printer) label(side string) string {
	if p.several {
		return fmt.Sprintf("%-8s ", side)
	}
	return "came     "
}

// outcomes are what a side planned for a case, and whether any of it is not right. The
// same outcome is told once.
func (s *SideReport) outcomes(name string) (lines []string, wrong bool) {
	times := map[string]int{}
	for i := range s.Results {
		r := &s.Results[i]
		if r.Case != name {
			continue
		}
		line := "right"
		if !r.Entities {
			line, wrong = r.told(), true
		}
		if times[line]++; times[line] == 1 {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if n := times[line]; n > 1 && wrong {
			lines[i] = fmt.Sprintf("%s (%d times)", line, n)
		}
	}
	return lines, wrong
}

// told is what came and what is wrong with it.
func (r *Result) told() string {
	lines := make([]string, len(r.Plan))
	for i, line := range r.Plan {
		lines[i] = clipped(line)
	}
	text := strings.Join(lines, "; ")
	if r.Fault != "" {
		text = clipped(printable(r.Fault))
	}
	if len(r.Unwanted) > 0 {
		text += " (unwanted: " + strings.Join(r.Unwanted, ", ") + ")"
	}
	return text
}

// clipped is the beginning of a line that is too long to be read; the JSON has all of it.
func clipped(line string) string {
	const limit = 160
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return line
}

// end says what was spent, and whether that is all.
func (p *printer) end() {
	r := p.report
	fmt.Fprintf(&p.out, "%d of %d plans, %d calls of models, %d + %d tokens", r.Asked, r.Of,
		r.Spent.ModelCalls, r.Spent.PromptTokens, r.Spent.CompletionTokens)
	p.cost()
	for i := range r.Sides {
		if n := r.Sides[i].All.NoAnswer; n > 0 {
			fmt.Fprintf(&p.out, "\n%s: no answer from the model to %d of the plans, which count as wrong", r.Sides[i].Name, n)
		}
	}
	if r.Stop != "" {
		fmt.Fprintf(&p.out, "\nstopped: %s", r.Stop)
	}
	p.out.WriteByte('\n')
}

// cost says what all sides cost, and of which of them that is not known.
func (p *printer) cost() {
	r := p.report
	if r.Spent.Cost == 0 {
		return
	}
	fmt.Fprintf(&p.out, ", cost %.4f", r.Spent.Cost)
	var known, unknown []string
	for i := range r.Sides {
		switch side := &r.Sides[i]; {
		case side.priced():
			known = append(known, side.Name)
		case side.All.Asked > 0:
			unknown = append(unknown, side.Name)
		}
	}
	if len(known) > 0 && len(unknown) > 0 {
		fmt.Fprintf(&p.out, " of %s; of %s no price is known", strings.Join(known, ", "), strings.Join(unknown, ", "))
	}
}
