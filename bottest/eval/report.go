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

	"github.com/planbot-go/planbot/planner/plan"
)

// Report is the outcome of a run. bottest eval --json prints it as JSON.
type Report struct {
	Asked int `json:"asked"` // plans so far, of all sides
	Of    int `json:"of"`    // plans in the whole run
	// Stop says why the run ended early. "limit": [Config].Limit is used up. "interrupted": the
	// context ended. "refused": the model's server accepts no calls (a wrong key, no money left).
	// "silent": the model did not answer for five plans in a row.
	Stop  string       `json:"stop,omitempty"`
	Sides []sideReport `json:"sides"`
	Spent usage        `json:"spent"` // includes plans that were stopped half-way

	cases []testCase
}

// sideReport is the outcome of one side.
type sideReport struct {
	Name      string   `json:"name"`
	About     string   `json:"about"`
	All       row      `json:"all"`
	Languages []row    `json:"languages"` // in the order of the file
	Results   []result `json:"results"`
}

// row is one line of the table: how good the plans of one language, or all, are, and what they
// cost.
type row struct {
	Lang     string `json:"lang,omitempty"` // "": all
	Asked    int    `json:"asked"`
	NoAnswer int    `json:"noAnswer,omitempty"` // the model failed: these plans are not valid
	// Valid, Action and Entities are shares of the plans: those that could run, those with the
	// right actions, and those with the right actions and entities. Unwanted is the share that
	// would do what nobody asked for.
	Valid    float64 `json:"valid"`
	Action   float64 `json:"action"`
	Entities float64 `json:"entities"`
	Unwanted float64 `json:"unwanted"`
	// Calls and Tokens are means per plan. P50 and P95 are seconds per plan, including all its
	// calls.
	Calls  float64 `json:"modelCalls"`
	Tokens float64 `json:"tokens"`
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95"`
	// Cost is the cost of all plans; 0 if the price is unknown.
	Cost float64 `json:"cost"`
}

// result is what one side planned for a case.
type result struct {
	Case string `json:"case"`
	Lang string `json:"lang"`
	// Plan is the plan, one line per command.
	Plan []string `json:"plan,omitempty"`
	// Valid says that the plan could run.
	Valid bool `json:"valid"`
	// Action says that the plan has the wanted actions in order and no unwanted one. Entities says
	// that they also have the wanted entities: the plan is all right.
	Action   bool `json:"action"`
	Entities bool `json:"entities"`
	// Unwanted are the plan's actions that it should not have.
	Unwanted []string `json:"unwanted,omitempty"`
	// NoAnswer says that the model failed, so there is nothing to judge.
	NoAnswer bool `json:"noAnswer,omitempty"`
	// Fault says why no plan could run.
	Fault string `json:"fault,omitempty"`
	// Refused are the faults of the unusable answers.
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

func (s *sideReport) count() {
	s.All, s.Languages = rowOf("", s.Results), []row{}
	var langs []string
	for _, r := range s.Results {
		if !slices.Contains(langs, r.Lang) {
			langs = append(langs, r.Lang)
			s.Languages = append(s.Languages, rowOf(r.Lang, s.Results))
		}
	}
}

// rowOf counts the results of a language; "": all.
func rowOf(lang string, results []result) row {
	out := row{Lang: lang}
	var took []float64
	for _, r := range results {
		if lang != "" && r.Lang != lang {
			continue
		}
		out.Asked++
		took = append(took, r.Took)
		for _, share := range []struct {
			sum *float64
			is  bool
		}{{&out.Valid, r.Valid}, {&out.Action, r.Action}, {&out.Entities, r.Entities}, {&out.Unwanted, len(r.Unwanted) > 0}} {
			if share.is {
				*share.sum++
			}
		}
		if r.NoAnswer {
			out.NoAnswer++
		}
		out.Calls += float64(r.Usage.ModelCalls)
		out.Tokens += float64(r.Usage.PromptTokens + r.Usage.CompletionTokens)
		out.Cost += r.Usage.Cost
	}
	for _, mean := range []*float64{&out.Valid, &out.Action, &out.Entities, &out.Unwanted, &out.Calls, &out.Tokens} {
		*mean = rounded(*mean / float64(max(1, out.Asked)))
	}
	out.Cost = rounded(out.Cost)
	if slices.Sort(took); len(took) > 0 { // nearest-rank percentile
		out.P50, out.P95 = took[(len(took)*50+99)/100-1], took[(len(took)*95+99)/100-1]
	}
	return out
}

// rounded drops digits that only come from floating point.
func rounded(f float64) float64 { return math.Round(f*1e8) / 1e8 }

// Score is the lowest share of all-right plans among the sides.
func (r *Report) Score() float64 {
	least := 1.0
	for i := range r.Sides {
		least = min(least, r.Sides[i].All.Entities)
	}
	return least
}

// Print writes the table and, below it, each plan that is not all right beside what was wanted.
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
	if r.Spent.Cost > 0 {
		fmt.Fprintf(&out, ", cost %.4f", r.Spent.Cost)
	}
	for i := range r.Sides {
		side := &r.Sides[i]
		if r.Spent.Cost > 0 && side.All.Asked > 0 && side.All.Cost == 0 {
			fmt.Fprintf(&out, "; of %s no price is known", side.Name)
		}
		if n := side.All.NoAnswer; n > 0 {
			fmt.Fprintf(&out, "\n%s: no answer from the model to %d of the plans, which count as wrong", side.Name, n)
		}
	}
	if r.Stop != "" {
		fmt.Fprintf(&out, "\nstopped: %s", r.Stop)
	}
	out.WriteByte('\n')
	_, err := io.WriteString(w, out.String())
	return err
}

// table lists the languages, then all; each with its sides.
func (r *Report) table(out *strings.Builder) {
	const form = "%-3s  %s  %5v  %5s  %6s  %8s  %8s  %5s  %6s  %6s  %6s  %8s\n"
	label := func(name string) string {
		if len(r.Sides) == 1 {
			return ""
		}
		return name
	}
	fmt.Fprintf(out, form, "", label(" "), "plans", "valid", "action", "entities", "unwanted", "calls", "tokens", "p50", "p95", "cost")
	percent := func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
	for _, group := range append(slices.Clone(r.Sides[0].Languages), r.Sides[0].All) {
		name := cmp.Or(group.Lang, "all")
		for i := range r.Sides {
			side := &r.Sides[i]
			for _, w := range append(slices.Clone(side.Languages), side.All) {
				if w.Lang != group.Lang || w.Asked == 0 {
					continue
				}
				cost := "-"
				if side.All.Cost > 0 {
					cost = fmt.Sprintf("%.4f", w.Cost)
				}
				fmt.Fprintf(out, form, name, label(side.Name), w.Asked, percent(w.Valid), percent(w.Action), percent(w.Entities), percent(w.Unwanted),
					fmt.Sprintf("%.2f", w.Calls), fmt.Sprintf("%.0f", w.Tokens), fmt.Sprintf("%.2fs", w.P50), fmt.Sprintf("%.2fs", w.P95), cost)
				name = ""
			}
		}
	}
}

// failures lists the cases that a side did not always get right.
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

// outcomes are what a side planned for a case, and whether any of it is wrong. Each distinct
// outcome is listed once.
func (s *sideReport) outcomes(name string) (lines []string, wrong bool) {
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

func (r *result) told() string {
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

// clipped shortens a line that is too long to read; the JSON has all of it.
func clipped(line string) string {
	const limit = 160
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return line
}

// show formats a plan, one line per command.
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
	if text, ok := value.(string); ok {
		return quoted(text)
	}
	raw, _ := json.Marshal(value) // it was JSON
	return printable(string(raw))
}

// quoted quotes a text, without control sequences for a terminal.
func quoted(text string) string { return strconv.QuoteToGraphic(text) }

// printable is a line of text without control sequences for a terminal.
func printable(text string) string {
	inQuotes := quoted(text)
	return strings.ReplaceAll(inQuotes[1:len(inQuotes)-1], `\"`, `"`)
}
