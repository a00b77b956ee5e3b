package plan

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/planbot-go/planbot/internal/spelling"
)

// planVersion is the form in which plans and executions are kept, as JSON and as
// XML. A program reads its own and earlier ones.
const planVersion = 1

// keptPlan is a plan as JSON.
type keptPlan struct {
	Version int    `json:"version"`
	Type    string `json:"type,omitempty"` // "plan", where a model wrote it
	plainPlan
}

type plainPlan Plan

// MarshalJSON writes the plan to be kept, with the version of its form.
func (p Plan) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // people read it; who encodes the plan within more may escape it all the same
	err := enc.Encode(keptPlan{Version: planVersion, plainPlan: plainPlan(p)})
	return out.Bytes(), err
}

// UnmarshalJSON reads a plan that was kept, or one in the format of the sequence
// planner, with numbers as json.Number. It refuses a later version, and anything
// that this one does not know. The plan is not validated by it.
func (p *Plan) UnmarshalJSON(data []byte) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if err := checkVersion(head.Version); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	var kept keptPlan
	if err := decodeStrictly(data, &kept); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if kept.Type != "" && kept.Type != "plan" {
		return fmt.Errorf("read plan: the type is %q, not plan", spelling.Clip(kept.Type))
	}
	for i := range kept.Commands {
		if c := &kept.Commands[i]; c.Kind == Do && c.Entities == nil {
			c.Entities = map[string]any{}
		}
	}
	*p = Plan(kept.plainPlan)
	return nil
}

func checkVersion(version int) error {
	if version < 0 || version > planVersion {
		return fmt.Errorf("it is of version %d; this program reads versions up to %d", version, planVersion)
	}
	return nil
}

// decodeStrictly reads one JSON value that has nothing in it which v does not know.
func decodeStrictly(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
