package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

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

// tally counts what came of the utterances in one cell. All but usable and calls is of first
// answers.
type tally struct {
	cell   cell
	asked  int
	clean  int // plans as asked for, without repairs
	prose  int // without a plan, to be said as they are
	cut    int // cut off at the limit, whatever they are
	prompt int // tokens

	refused int
	invalid []string // those of them that were not cut off

	withDo   int // utterances that ask for an action
	actions  int // the same actions as these ask for
	entities int // and the same entities

	usable int // turns that end with a plan, after rounds of repair
	calls  int
}

// count takes the end of one turn, and every answer on the way to it.
func (t *tally) count(u utterance, usable bool, answers []answer, reg *actions.Registry) {
	first := answers[0]
	t.asked++
	t.calls += len(answers)
	t.prompt += first.Usage.Prompt
	if usable {
		t.usable++
	}
	if len(u.Do) > 0 {
		t.withDo++
	}
	cut := first.Finish == "length"
	if cut {
		t.cut++
	}
	p, err := plan.Decode(first.Text)
	if err == nil {
		p, err = p.Validate(reg)
	}
	switch {
	case first.Err != "" || err != nil:
		t.refused++
		if !cut {
			t.invalid = append(t.invalid, fmt.Sprintf("%v: %.300q", cmp.Or(err, errors.New("no answer")), first.Text+first.Err))
		}
		return
	case p.Prose:
		t.prose++
	case len(p.Repairs) == 0:
		t.clean++
	}
	sameActions, sameEntities := u.judge(p)
	if len(u.Do) > 0 && sameActions {
		t.actions++
		if sameEntities {
			t.entities++
		}
	}
}

// printTable prints a row for each cell and returns the exit status: with a schema every first
// answer that was not cut off has to be a plan that may run.
func printTable(w io.Writer, all []*tally) (status int) {
	const head = "| prompt | plan as asked | prose | refused | cut off | usable in the end | model calls | prompt tokens | right actions | entities too |"
	fmt.Fprintf(w, "%s\n|---|%s\n", head, strings.Repeat("--:|", strings.Count(head, "|")-2))
	for _, t := range all {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d of %d | %.2f | %d | %d of %d | %d |\n", t.cell.name, t.clean, t.prose, t.refused, t.cut,
			t.usable, t.asked, float64(t.calls)/float64(t.asked), t.prompt/t.asked, t.actions, t.withDo, t.entities)
	}
	for _, t := range all {
		if t.cell.format != "json_schema" {
			continue
		}
		for _, answer := range t.invalid {
			fmt.Fprintf(w, "\nFAIL: %s: a first answer that was not cut off is no plan that may run: %s\n", t.cell.name, answer)
			status = 1
		}
	}
	return status
}
