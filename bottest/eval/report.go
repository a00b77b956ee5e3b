package eval

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// Report is what came of a run.
type Report struct {
	Asked int           `json:"asked"` // plans, of all sides
	Of    int           `json:"of"`    // those that were to be asked for
	Stop  Stop          `json:"stop,omitempty"`
	Spent actions.Usage `json:"-"` // also for plans that were stopped half-way
	Sides []SideReport  `json:"sides"`

	cases []Case
}

// SideReport is what came of one side.
type SideReport struct {
	Name      string     `json:"name"`
	About     string     `json:"about"`
	All       Row        `json:"all"`
	Languages []Row      `json:"languages"` // in the order in which the file has them
	Against   []Compared `json:"difference,omitempty"`
	Results   []Result   `json:"results"`
}

// Compared is by how much a side's figures are above those of the first side.
type Compared struct {
	Lang string `json:"lang"` // "": all
	Figures
}

// Row is one line of the table: the figures of a language, or of all.
type Row struct {
	Lang     string `json:"lang,omitempty"` // "": all
	Asked    int    `json:"asked"`
	NoAnswer int    `json:"noAnswer,omitempty"` // the model failed: these plans are not valid
	Figures
}

// Figures say how good plans are, and what they take.
type Figures struct {
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
	Verdict
	// NoAnswer says that the model failed, so that there is nothing to judge.
	NoAnswer bool `json:"noAnswer,omitempty"`
	// Fault is why there is no plan that could run.
	Fault string `json:"fault,omitempty"`
	// Refused are the faults of the answers that could not be used.
	Refused []plan.FaultKind `json:"refused,omitempty"`
	Usage   actions.Usage    `json:"-"`
	Took    time.Duration    `json:"-"`
}

// usage is a [actions.Usage] as JSON.
type usage struct {
	ModelCalls       int     `json:"modelCalls"`
	PromptTokens     int     `json:"promptTokens"`
	CompletionTokens int     `json:"completionTokens"`
	Cost             float64 `json:"cost"`
	Messages         int     `json:"-"` // an evaluation sends nothing
}

// MarshalJSON writes times in seconds, as everywhere in the report.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		plain
		Usage usage   `json:"usage"`
		Took  float64 `json:"took"`
	}{plain(r), usage(r.Usage), rounded(r.Took.Seconds())})
}

// MarshalJSON adds what was spent.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain
		Spent usage `json:"spent"`
	}{plain(r), usage(r.Spent)})
}

func newReport(r *run) *Report {
	report := &Report{Asked: r.done, Of: len(r.results), Stop: r.stop, Spent: r.spent, cases: r.cfg.Cases}
	for i := range r.cfg.Sides {
		side := SideReport{Name: r.cfg.Sides[i].Name, About: r.cfg.Sides[i].About, Languages: []Row{}, Results: []Result{}}
		for at := i; at < len(r.results); at += len(r.cfg.Sides) {
			if r.results[at] != nil {
				side.Results = append(side.Results, *r.results[at])
			}
		}
		side.count(r.cfg.Cases)
		if i > 0 {
			side.compare(&report.Sides[0])
		}
		report.Sides = append(report.Sides, side)
	}
	return report
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
		if other, ok := first.row(row.Lang); ok {
			d := row.minus(other.Figures)
			if !s.priced() || !first.priced() {
				d.Cost = 0
			}
			s.Against = append(s.Against, Compared{row.Lang, d})
		}
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
	took := make([]time.Duration, len(results))
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
	n := float64(max(1, len(results)))
	for _, mean := range []*float64{&row.Valid, &row.Action, &row.Entities, &row.Unwanted, &row.Calls, &row.Tokens} {
		*mean /= n
	}
	slices.Sort(took)
	row.P50, row.P95 = percentile(took, 50), percentile(took, 95)
	row.round()
	return row
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// percentile is the least time that so many of a hundred took at most.
func percentile(sorted []time.Duration, of int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*of + 99) / 100
	return sorted[rank-1].Seconds()
}

func rounded(f float64) float64 { return math.Round(f*1e8) / 1e8 }

// round leaves out the digits that floating point leaves behind, and nobody measured.
func (f *Figures) round() {
	for _, figure := range []*float64{&f.Valid, &f.Action, &f.Entities, &f.Unwanted, &f.Calls, &f.Tokens, &f.P50, &f.P95, &f.Cost} {
		*figure = rounded(*figure)
	}
}

func (f *Figures) minus(o Figures) Figures {
	d := Figures{
		Valid: f.Valid - o.Valid, Action: f.Action - o.Action, Entities: f.Entities - o.Entities, Unwanted: f.Unwanted - o.Unwanted,
		Calls: f.Calls - o.Calls, Tokens: f.Tokens - o.Tokens, P50: f.P50 - o.P50, P95: f.P95 - o.P95, Cost: f.Cost - o.Cost,
	}
	d.round()
	return d
}

// Score is the share of plans that are all right, of the side that has the least.
func (r *Report) Score() float64 {
	least := r.Sides[0].Score()
	for i := range r.Sides {
		least = min(least, r.Sides[i].Score())
	}
	return least
}

// Score is the share of the side's plans that are all right.
func (s *SideReport) Score() float64 { return s.All.Entities }

// priced reports whether it is known what the side's plans cost.
func (s *SideReport) priced() bool { return s.All.Cost > 0 }

// Silent reports whether the model gave no answer at all, so that nothing was judged.
func (s *SideReport) Silent() bool { return s.All.Asked > 0 && s.All.NoAnswer == s.All.Asked }
