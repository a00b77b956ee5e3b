package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/planner/plan"
)

// Report is what came of a run.
type Report struct {
	Asked int `json:"asked"` // plans, of all sides
	Of    int `json:"of"`    // those that were to be asked for
	// Stop says why the run ended before it was through: "limit", [Config].Limit is used up;
	// "interrupted", the context ended; "refused", the model's server takes no calls (a wrong
	// key, no money left); "silent", the model gave no answer to five plans in a row.
	Stop  string       `json:"stop,omitempty"`
	Sides []SideReport `json:"sides"`
	Spent usage        `json:"spent"` // also for plans that were stopped half-way

	cases []Case
}

// SideReport is what came of one side.
type SideReport struct {
	Name      string       `json:"name"`
	About     string       `json:"about"`
	All       Row          `json:"all"`
	Languages []Row        `json:"languages"` // in the order in which the file has them
	Against   []difference `json:"difference,omitempty"`
	Results   []Result     `json:"results"`
}

// Row is one line of the table: the figures of a language, or of all.
type Row struct {
	Lang     string `json:"lang,omitempty"` // "": all
	Asked    int    `json:"asked"`
	NoAnswer int    `json:"noAnswer,omitempty"` // the model failed: these plans are not valid
	figures
}

// difference is by how much a side's figures are above those of the first side.
type difference struct {
	Lang string `json:"lang"` // "": all
	figures
}

// figures say how good plans are, and what they take.
type figures struct {
	// Valid, Action and Entities are shares of the plans: that could run, that have the
	// right actions, and that have these with the right entities. Unwanted is the share
	// that would do what nobody asked for.
	Valid    float64 `json:"valid"`
	Action   float64 `json:"action"`
	Entities float64 `json:"entities"`
	Unwanted float64 `json:"unwanted"`
	// Calls and Tokens are means for one plan, P50 and P95 seconds for one plan with all
	// its calls.
	Calls  float64 `json:"modelCalls"`
	Tokens float64 `json:"tokens"`
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95"`
	// Cost is that of all plans; 0 where no price is known, also as a difference.
	Cost float64 `json:"cost"`
}

// Result is what one side planned for a case.
type Result struct {
	Case string `json:"case"`
	Lang string `json:"lang"`
	// Plan is what came, a line for each command.
	Plan []string `json:"plan,omitempty"`
	// Valid says that there is a plan that could run.
	Valid bool `json:"valid"`
	// Action says that the plan has the wanted actions, in their order, and none that is
	// unwanted; Entities that they are called with the wanted entities, too: all is right.
	Action   bool `json:"action"`
	Entities bool `json:"entities"`
	// Unwanted are the actions of the plan that it should not have.
	Unwanted []string `json:"unwanted,omitempty"`
	// NoAnswer says that the model failed, so that there is nothing to judge.
	NoAnswer bool `json:"noAnswer,omitempty"`
	// Fault is why there is no plan that could run.
	Fault string `json:"fault,omitempty"`
	// Refused are the faults of the answers that could not be used.
	Refused []plan.FaultKind `json:"refused,omitempty"`
	Usage   usage            `json:"usage"`
	Took    float64          `json:"took"` // seconds
}

// usage is a [actions.Usage] as JSON.
type usage struct {
	ModelCalls       int     `json:"modelCalls"`
	PromptTokens     int     `json:"promptTokens"`
	CompletionTokens int     `json:"completionTokens"`
	Cost             float64 `json:"cost"`
	Messages         int     `json:"-"` // an evaluation sends nothing
}

// count fills in the rows.
func (s *SideReport) count(cases []Case) {
	s.All = rowOf("", s.Results)
	var seen []string
	for i := range cases {
		lang := cases[i].Lang
		if slices.Contains(seen, lang) {
			continue
		}
		seen = append(seen, lang)
		var of []Result
		for k := range s.Results {
			if s.Results[k].Lang == lang {
				of = append(of, s.Results[k])
			}
		}
		if len(of) > 0 {
			s.Languages = append(s.Languages, rowOf(lang, of))
		}
	}
}

func (s *SideReport) compare(first *SideReport) {
	for _, row := range append(slices.Clone(s.Languages), s.All) {
		other, ok := first.row(row.Lang)
		if !ok {
			continue
		}
		d := difference{row.Lang, row.figures}
		for _, c := range columns {
			*c.of(&d.figures) = rounded(*c.of(&d.figures) - *c.of(&other.figures))
		}
		if !s.priced() || !first.priced() {
			d.Cost = 0
		}
		s.Against = append(s.Against, d)
	}
}

// row is that of a language, or of all for "".
func (s *SideReport) row(lang string) (Row, bool) {
	if lang == "" {
		return s.All, len(s.Results) > 0
	}
	at := slices.IndexFunc(s.Languages, func(r Row) bool { return r.Lang == lang })
	if at < 0 {
		return Row{}, false
	}
	return s.Languages[at], true
}

func rowOf(lang string, results []Result) Row {
	row := Row{Lang: lang, Asked: len(results)}
	took := make([]float64, len(results))
	for i := range results {
		r := &results[i]
		row.Valid += one(r.Valid)
		row.Action += one(r.Action)
		row.Entities += one(r.Entities)
		row.Unwanted += one(len(r.Unwanted) > 0)
		row.NoAnswer += int(one(r.NoAnswer))
		row.Calls += float64(r.Usage.ModelCalls)
		row.Tokens += float64(r.Usage.PromptTokens + r.Usage.CompletionTokens)
		row.Cost += r.Usage.Cost
		took[i] = r.Took
	}
	for _, mean := range columns[:means] {
		*mean.of(&row.figures) /= float64(max(1, len(results)))
	}
	slices.Sort(took)
	row.P50, row.P95 = percentile(took, 50), percentile(took, 95)
	for _, c := range columns {
		*c.of(&row.figures) = rounded(*c.of(&row.figures))
	}
	return row
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// percentile is the least time that so many of a hundred took at most.
func percentile(sorted []float64, of int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*of+99)/100-1]
}

// rounded leaves out the digits that floating point leaves behind, and nobody measured.
func rounded(f float64) float64 { return math.Round(f*1e8) / 1e8 }

// Score is the share of plans that are all right, of the side that has the least.
func (r *Report) Score() float64 {
	least := 1.0
	for i := range r.Sides {
		least = min(least, r.Sides[i].All.Entities)
	}
	return least
}

// priced reports whether it is known what the side's plans cost.
func (s *SideReport) priced() bool { return s.All.Cost > 0 }

// columns are the names of the figures, and the forms of a value and of a difference.
var columns = []struct {
	name        string
	of          func(*figures) *float64
	value, more string
	times       float64
}{
	{"valid", func(f *figures) *float64 { return &f.Valid }, "%.0f%%", "%+.0f", 100},
	{"action", func(f *figures) *float64 { return &f.Action }, "%.0f%%", "%+.0f", 100},
	{"entities", func(f *figures) *float64 { return &f.Entities }, "%.0f%%", "%+.0f", 100},
	{"unwanted", func(f *figures) *float64 { return &f.Unwanted }, "%.0f%%", "%+.0f", 100},
	{"calls", func(f *figures) *float64 { return &f.Calls }, "%.2f", "%+.2f", 1},
	{"tokens", func(f *figures) *float64 { return &f.Tokens }, "%.0f", "%+.0f", 1},
	{"p50", func(f *figures) *float64 { return &f.P50 }, "%.2fs", "%+.2fs", 1},
	{"p95", func(f *figures) *float64 { return &f.P95 }, "%.2fs", "%+.2fs", 1},
	{"cost", func(f *figures) *float64 { return &f.Cost }, "%.4f", "%+.4f", 1},
}

// means is how many of the columns, from the first on, are means of all plans.
const means = 6

// Print writes the table and, below it, each plan that is not all right beside what was
// wanted.
func (r *Report) Print(w io.Writer) error {
	var out strings.Builder
	for i := range r.Sides {
		fmt.Fprintf(&out, "%s: %s\n", r.Sides[i].Name, r.Sides[i].About)
	}
	out.WriteByte('\n')
	if r.Asked > 0 {
		r.table(&out)
		r.failures(&out)
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "%d of %d plans, %d calls of models, %d + %d tokens", r.Asked, r.Of,
		r.Spent.ModelCalls, r.Spent.PromptTokens, r.Spent.CompletionTokens)
	var known, unknown []string
	for i := range r.Sides {
		if side := &r.Sides[i]; side.priced() {
			known = append(known, side.Name)
		} else if side.All.Asked > 0 {
			unknown = append(unknown, side.Name)
		}
	}
	if r.Spent.Cost > 0 {
		fmt.Fprintf(&out, ", cost %.4f", r.Spent.Cost)
	}
	if len(known) > 0 && len(unknown) > 0 {
		fmt.Fprintf(&out, " of %s; of %s no price is known", strings.Join(known, ", "), strings.Join(unknown, ", "))
	}
	for i := range r.Sides {
		if n := r.Sides[i].All.NoAnswer; n > 0 {
			fmt.Fprintf(&out, "\n%s: no answer from the model to %d of the plans, which count as wrong", r.Sides[i].Name, n)
		}
	}
	if r.Stop != "" {
		fmt.Fprintf(&out, "\nstopped: %s", r.Stop)
	}
	out.WriteByte('\n')
	_, err := io.WriteString(w, out.String())
	return err
}

// table has the languages, then all; of each the sides and their differences from the first.
func (r *Report) table(out *strings.Builder) {
	rows := [][]string{{"", "", "plans"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.name)
	}
	add := func(name, side, plans string, f *figures, isDifference, priced bool) {
		cells := []string{name, side, plans}
		for _, c := range columns {
			form := c.value
			if isDifference {
				form = c.more
			}
			cell := fmt.Sprintf(form, *c.of(f)*c.times)
			if isDifference && strings.Trim(cell, "-0.s") == "" {
				cell = strings.Replace(cell, "-", "+", 1) // as good as none
			}
			if c.name == "cost" && !priced {
				cell = "-"
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	first := &r.Sides[0]
	for _, group := range append(slices.Clone(first.Languages), first.All) {
		name := cmp.Or(group.Lang, "all")
		for i := range r.Sides {
			side := &r.Sides[i]
			label := side.Name
			if len(r.Sides) == 1 {
				label = ""
			}
			if row, ok := side.row(group.Lang); ok {
				add(name, label, strconv.Itoa(row.Asked), &row.figures, false, side.priced())
				name = ""
			}
			for _, d := range side.Against {
				if d.Lang == group.Lang {
					add("", side.Name+"-"+first.Name, "", &d.figures, true, side.priced() && first.priced())
				}
			}
		}
	}
	align(out, rows)
}

// align writes the cells below each other: words to the left, numbers to the right.
func align(out *strings.Builder, rows [][]string) {
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
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// failures lists the cases that a side did not get right each time.
func (r *Report) failures(out *strings.Builder) {
	for i := range r.cases {
		c := &r.cases[i]
		var lines []string
		wrong := false
		for k := range r.Sides {
			label := "came"
			if len(r.Sides) > 1 {
				label = r.Sides[k].Name
			}
			counted, failed := r.Sides[k].outcomes(c.Name)
			wrong = wrong || failed
			for _, line := range counted {
				lines = append(lines, fmt.Sprintf("  %-8s %s\n", label, line))
			}
		}
		if !wrong {
			continue
		}
		fmt.Fprintf(out, "\n%s (%s): %s\n", printable(c.Name), printable(c.Lang), clipped(quoted(c.Say)))
		label := "wanted"
		for _, want := range c.Want {
			fmt.Fprintf(out, "  %-8s %s\n", label, cmp.Or(strings.Join(show(plan.Plan{Commands: want}), "; "), "say"))
			label = "or"
		}
		out.WriteString(strings.Join(lines, ""))
	}
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

// show is a plan, a line for each command.
func show(p plan.Plan) []string {
	var lines []string
	for _, c := range p.Commands {
		line := "say " + quoted(c.Response)
		if c.Kind == plan.Do {
			line = showCall(c)
		}
		if c.SaveAs != "" {
			line += " => " + c.SaveAs
		}
		lines = append(lines, line)
	}
	return lines
}

func showCall(c plan.Command) string {
	line := c.Action
	for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
		line += " " + printable(name) + "=" + showValue(c.Entities[name])
	}
	return line
}

func showValue(value any) string {
	switch value := value.(type) {
	case string:
		return quoted(value)
	case json.Number:
		return printable(value.String())
	case []any:
		parts := make([]string, len(value))
		for i := range value {
			parts[i] = showValue(value[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		return "{" + strings.TrimSpace(showCall(plan.Command{Entities: value})) + "}"
	}
	return fmt.Sprint(value)
}

// quoted is a text in quotes, with nothing that a terminal obeys.
func quoted(text string) string { return strconv.QuoteToGraphic(text) }

// printable is a line of text with nothing that a terminal obeys.
func printable(text string) string {
	inQuotes := quoted(text)
	return strings.ReplaceAll(inQuotes[1:len(inQuotes)-1], `\"`, `"`)
}
