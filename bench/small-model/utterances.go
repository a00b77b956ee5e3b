package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

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
