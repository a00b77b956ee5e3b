package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

//go:embed utterances.json
var utterancesFile []byte

// utterance is what a person says, and the DOs that answer it; none for small talk.
type utterance struct {
	Text string `json:"text"`
	Do   []call `json:"do"`
}

type call struct {
	Action   string         `json:"action"`
	Entities map[string]any `json:"entities"`
}

func utterances() ([]utterance, error) {
	var all []utterance
	if err := json.Unmarshal(utterancesFile, &all); err != nil {
		return nil, fmt.Errorf("utterances.json: %w", err)
	}
	return all, nil
}

// judge compares the plan with what was asked for: is it the same actions in the
// same order, and with the same entities? SAYs do not count.
func (u utterance) judge(p plan.Plan) (sameActions, sameEntities bool) {
	var done []plan.Command
	for _, c := range p.Commands {
		if c.Kind == plan.Do {
			done = append(done, c)
		}
	}
	if len(done) != len(u.Do) {
		return false, false
	}
	sameEntities = true
	for i, want := range u.Do {
		if done[i].Action != want.Action {
			return false, false
		}
		sameEntities = sameEntities && plainly(done[i].Entities) == plainly(want.Entities)
	}
	return true, sameEntities
}

// plainly writes entities so that two that mean the same are the same text: without regard
// to case and to the spaces around texts, and without what counts as absent, null and a list
// of nothing.
func plainly(entities map[string]any) string {
	trim := func(v any) any {
		if text, ok := v.(string); ok {
			return strings.ToLower(strings.TrimSpace(text))
		}
		return v
	}
	out := map[string]any{}
	for name, value := range entities {
		list, isList := value.([]any)
		for i := range list {
			list[i] = trim(list[i])
		}
		if value != nil && (!isList || len(list) > 0) {
			out[name] = trim(value)
		}
	}
	raw, _ := json.Marshal(out) // came from JSON
	return string(raw)
}

// tally counts what came of the utterances in one cell.
type tally struct {
	cell *cell
	took time.Duration

	asked      int
	clean      int            // first answers that are a plan as asked for
	repaired   int            // first answers that are a plan after repairs
	prose      int            // first answers without a plan, to be said as they are
	cut        int            // first answers cut off at the limit, whatever they are
	refused    map[string]int // first answers refused, by kind
	invalid    []string       // first answers refused that were not cut off
	usable     int            // turns that end with a plan, after rounds of repair
	calls      int
	prompt     int // tokens of first calls
	completion int // tokens of first answers

	withDo        int // utterances that ask for an action
	first, second score
	silent        int // utterances that ask for no action, and none was planned
}

// score counts utterances that ask for an action.
type score struct{ actions, entities int }

func (s *score) add(u utterance, p plan.Plan) {
	sameActions, sameEntities := u.judge(p)
	if sameActions {
		s.actions++
	}
	if sameActions && sameEntities {
		s.entities++
	}
}

// count takes the end of one turn, and every answer on the way to it.
func (t *tally) count(u utterance, p plan.Plan, err error, answers []answer, reg *actions.Registry) {
	t.asked++
	t.calls += len(answers)
	first, firstErr := read(answers[0], reg)
	t.countFirst(answers[0], first, firstErr)
	if err == nil {
		t.usable++
	}
	if len(u.Do) == 0 {
		if err == nil && p.LastDo() < 0 {
			t.silent++
		}
		return
	}
	t.withDo++
	if firstErr == nil {
		t.first.add(u, first)
	}
	if err == nil {
		t.second.add(u, p)
	}
}

func (t *tally) countFirst(a answer, p plan.Plan, err error) {
	t.prompt += a.Usage.Prompt
	t.completion += a.Usage.Completion
	cut := a.Finish == "length"
	if cut {
		t.cut++
	}
	switch {
	case err != nil:
		if t.refused == nil {
			t.refused = map[string]int{}
		}
		t.refused[kindOf(err)]++
		if !cut {
			t.invalid = append(t.invalid, fmt.Sprintf("%s: %s", err, clip(a.Text+a.Err, 300)))
		}
	case p.Prose:
		t.prose++
	case len(p.Repairs) > 0:
		t.repaired++
	default:
		t.clean++
	}
}

func read(a answer, reg *actions.Registry) (plan.Plan, error) {
	if a.Err != "" {
		return plan.Plan{}, fmt.Errorf("no answer: %s", a.Err)
	}
	p, err := plan.Decode(a.Text)
	if err != nil {
		return plan.Plan{}, err
	}
	return p.Validate(reg)
}

func printPlans(w io.Writer, all []*tally) {
	fmt.Fprintln(w, "\n| prompt | plan as asked | after repairs | prose | refused | cut off | usable in the end | model calls | prompt tokens | answer tokens | s |")
	fmt.Fprintln(w, "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|")
	for _, t := range all {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %s | %d | %d of %d | %.2f | %d | %d | %.0f |\n", t.cell.name,
			t.clean, t.repaired, t.prose, kinds(t.refused), t.cut, t.usable, t.asked, float64(t.calls)/float64(t.asked),
			t.prompt/t.asked, t.completion/t.asked, t.took.Seconds())
	}
	fmt.Fprintln(w, "\n| prompt | right actions, first answer | entities too | right actions, in the end | entities too | no action where none was asked for |")
	fmt.Fprintln(w, "|---|--:|--:|--:|--:|--:|")
	for _, t := range all {
		fmt.Fprintf(w, "| %s | %d of %d | %d | %d | %d | %d of %d |\n", t.cell.name,
			t.first.actions, t.withDo, t.first.entities, t.second.actions, t.second.entities, t.silent, t.asked-t.withDo)
	}
}

// checkPlans says what must hold, whatever the model writes: with a schema every first
// answer that was not cut off is a plan that may run.
func checkPlans(w io.Writer, all []*tally) (failed int) {
	fmt.Fprintln(w)
	for _, t := range all {
		if t.cell.format != "json_schema" {
			continue
		}
		verdict := "pass"
		if len(t.invalid) > 0 {
			verdict = "FAIL"
			failed++
		}
		fmt.Fprintf(w, "- %s: %s: every first answer that was not cut off is a plan that may run (%d of %d, %d cut off)\n",
			verdict, t.cell.name, t.clean+t.repaired+t.prose, t.asked, t.cut)
		for _, answer := range t.invalid {
			fmt.Fprintf(w, "  - %s\n", answer)
		}
	}
	return failed
}

func kinds(refused map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", refused[k], k))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// kindOf names why an answer is no plan that may run.
func kindOf(err error) string {
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return string(fault.Kind)
	}
	return "no answer"
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
