package plan

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Steps returns how many bytes of text the reader of JSON has read when it was decoded.
func Steps(text string) int {
	text, _ = clean(text)
	a := newAnswer(text, nil)
	_ = a.scan()
	return a.reader.steps
}

// StrictSchema is the strict form of one action's schema.
func StrictSchema(schema *jsonschema.Schema) (json.RawMessage, bool) {
	f := former{root: schema}
	raw, err := json.Marshal(f.object(schema))
	return raw, err == nil && !f.loose
}

// MaxExpanded is how many bytes the variables may fill into one command.
const MaxExpanded = maxExpanded

// ErrNeedsApproval is wrapped by the error of a plan that a person has to approve.
var ErrNeedsApproval = errNeedsApproval

// Inputs are the variables that a plan reads and does not save.
func Inputs(p Plan) []string { return p.inputs() }
