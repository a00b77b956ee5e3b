package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

//go:embed utterances.json
var utterancesFile []byte

// utterance is what a person says, and the DOs that answer it; none for small talk.
type utterance struct {
	Text string `json:"text"`
	Do   []deed `json:"do"`
}

type deed struct {
	Action   string         `json:"action"`
	Entities map[string]any `json:"entities"`
}

func utterances() ([]utterance, error) {
	dec := json.NewDecoder(bytes.NewReader(utterancesFile))
	dec.DisallowUnknownFields()
	var all []utterance
	if err := dec.Decode(&all); err != nil {
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
		sameEntities = sameEntities && sameValue(withoutNull(done[i].Entities), want.Entities)
	}
	return true, sameEntities
}

// sameValue compares texts without regard to case and to the spaces around them.
func sameValue(got, want any) bool {
	switch want := want.(type) {
	case string:
		got, ok := got.(string)
		return ok && strings.EqualFold(strings.TrimSpace(got), want)
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !sameValue(got[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for name := range want {
			if !sameValue(got[name], want[name]) {
				return false
			}
		}
		return true
	}
	return false
}

// withoutNull leaves out what counts as absent: null, and a list of nothing.
func withoutNull(entities map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range entities {
		if list, ok := value.([]any); value != nil && (!ok || len(list) > 0) {
			out[name] = value
		}
	}
	return out
}

// unexpected are the DOs of plan that a strict reading of the model's text does
// not contain. The reading is that of encoding/json, which repairs nothing.
func unexpected(p plan.Plan, text string) []plan.Command {
	var written []plan.Command
	for _, value := range jsonValues(text) {
		written = append(written, commandsIn(value)...)
	}
	var out []plan.Command
	for _, c := range p.Commands {
		if c.Kind == plan.Do && !contains(written, c) {
			out = append(out, c)
		}
	}
	return out
}

func contains(written []plan.Command, c plan.Command) bool {
	for _, w := range written {
		if strings.EqualFold(w.Action, c.Action) && equal(w.Entities, c.Entities) {
			return true
		}
	}
	return false
}

func equal(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// jsonValues are the objects that stand in text, one behind the other.
func jsonValues(text string) []any {
	var values []any
	for {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			return values
		}
		text = text[at:]
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			text = text[1:]
			continue
		}
		values = append(values, v)
		text = text[dec.InputOffset():]
	}
}

// commandsIn are the DOs in value, at any depth.
func commandsIn(value any) []plan.Command {
	var out []plan.Command
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			out = append(out, commandsIn(v)...)
		}
	case map[string]any:
		kind, _ := value["type"].(string)
		action, _ := value["action"].(string)
		if strings.EqualFold(kind, "DO") && action != "" {
			out = append(out, plan.Command{Kind: plan.Do, Action: action, Entities: entitiesOf(value)})
		}
		for v := range maps.Values(value) {
			out = append(out, commandsIn(v)...)
		}
	}
	return out
}

func entitiesOf(command map[string]any) map[string]any {
	for _, name := range []string{"entities", "parameters", "arguments"} {
		if e, ok := command[name].(map[string]any); ok {
			return e
		}
	}
	return nil
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
		if t.cell.format == "json_schema" {
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
