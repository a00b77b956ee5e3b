package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

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
	silent        int      // utterances that ask for no action, and none was planned
	unexpected    []string // DOs of any answer that a strict reading does not have
	read          int      // answers that were read, repair rounds included
	dos           int      // DOs that were read from them
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
	for _, a := range answers {
		t.countStrange(u, a, reg)
	}
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
	cut := a.Finish == models.FinishLength
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

// countStrange looks for DOs that the model did not write.
func (t *tally) countStrange(u utterance, a answer, reg *actions.Registry) {
	t.read++
	p, err := read(a, reg)
	if err != nil {
		return
	}
	for _, c := range p.Commands {
		if c.Kind == plan.Do {
			t.dos++
		}
	}
	for _, c := range unexpected(p, a.Text) {
		entities, _ := json.Marshal(c.Entities) // came from JSON
		t.unexpected = append(t.unexpected, fmt.Sprintf("%q: %s %s, repairs %v, from %s", u.Text, c.Action, entities, p.Repairs, clip(a.Text, 1000)))
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
	return plan.Validate(p, reg)
}

func printPlans(w io.Writer, all []*tally) {
	fmt.Fprintln(w, "\n| prompt | plan as asked | after repairs | prose | refused | cut off | usable in the end | model calls | prompt tokens | answer tokens | s |")
	fmt.Fprintln(w, "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|")
	for _, t := range all {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %s | %d | %d of %d | %.2f | %d | %d | %.0f |\n", t.cell.name,
			t.clean, t.repaired, t.prose, kinds(t.refused), t.cut, t.usable, t.asked, per(t.calls, t.asked),
			t.prompt/t.asked, t.completion/t.asked, t.took.Seconds())
	}
	fmt.Fprintln(w, "\n| prompt | right actions, first answer | entities too | right actions, in the end | entities too | no action where none was asked for |")
	fmt.Fprintln(w, "|---|--:|--:|--:|--:|--:|")
	for _, t := range all {
		fmt.Fprintf(w, "| %s | %d of %d | %d | %d | %d | %d of %d |\n", t.cell.name,
			t.first.actions, t.withDo, t.first.entities, t.second.actions, t.second.entities, t.silent, t.asked-t.withDo)
	}
}

// checkPlans says what must hold, whatever the model writes.
func checkPlans(w io.Writer, all []*tally) (failed int) {
	fmt.Fprintln(w)
	for _, t := range all {
		if t.cell.format == planner.JSONSchema {
			failed += verdict(w, t.cell.name+": every first answer that was not cut off is a plan that may run", t.invalid,
				fmt.Sprintf("%d of %d, %d cut off", t.clean+t.repaired+t.prose, t.asked, t.cut))
		}
		if t.dos == 0 {
			fmt.Fprintf(w, "- not judged: %s: none of %d answers was read as a DO\n", t.cell.name, t.read)
			continue
		}
		failed += verdict(w, t.cell.name+": no DO that a strict reading of the text does not have", t.unexpected,
			fmt.Sprintf("%d answers, %d DOs", t.read, t.dos))
	}
	return failed
}

func verdict(w io.Writer, what string, cases []string, note string) int {
	if len(cases) == 0 {
		fmt.Fprintf(w, "- pass: %s (%s)\n", what, note)
		return 0
	}
	fmt.Fprintf(w, "- FAIL: %s (%s)\n", what, note)
	for _, c := range cases {
		fmt.Fprintf(w, "  - %s\n", c)
	}
	return 1
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

func per(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
