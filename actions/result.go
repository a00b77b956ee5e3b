package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
)

// Result is what an action tells the plan. The zero value is [Done].
type Result struct {
	text        string
	json        json.RawMessage
	failed      bool
	unchanged   bool
	observe     bool
	unlessSaved bool
}

// Done is the result of an action that has nothing to tell.
var Done = Result{}

// Text is a result in words, for $NAME and for the model.
func Text(format string, args ...any) Result {
	return Result{text: sprintf(format, args)}
}

// JSON is a result as data: an entity that is exactly $NAME takes the value,
// text takes it as JSON. It panics when v cannot be written as JSON, which the
// call reports as the action's error.
func JSON(v any) Result {
	raw, err := marshal(v)
	if err != nil {
		panic(fmt.Sprintf("result as JSON: %v", err))
	}
	return Result{json: raw}
}

// Observe is a result that the model has to see before anything else is done:
// the plan ends here and the model plans again with v in its messages.
func Observe(v any) Result {
	r := Result{}
	if text, ok := v.(string); ok {
		r.text = text
	} else {
		r = JSON(v)
	}
	r.observe = true
	return r
}

// UnlessSaved makes a result of [Observe] one that the model need not see when its plan
// keeps it under a name: then the model has said what becomes of it, and the plan goes on.
func (r Result) UnlessSaved() Result {
	r.unlessSaved = true
	return r
}

// Fail says that the action could not do what was asked, and why, in words that
// the model and the person may read. The plan stops here. What the action has
// changed in the turn's state is taken back, as after an error or a panic.
func Fail(format string, args ...any) Result {
	return Result{text: sprintf(format, args), failed: true}
}

// Unchanged says that the call succeeded and found nothing to act on: there is no such
// list, the reminder has come already. The text is a whole sentence, which the person may
// read as it is. Later commands still run. A later SAY that does not quote this result was
// written for a call that did something, so it is not sent: the model is asked once more,
// or the person reads this sentence. When a process died in this call ([Attempt].Again),
// Unchanged counts as done, unless the action is [StateOnly].
func Unchanged(format string, args ...any) Result {
	return Result{text: cmp.Or(sprintf(format, args), "There was nothing to change."), unchanged: true}
}

// Unchanged reports whether the result came from [Unchanged].
func (r Result) Unchanged() bool { return r.unchanged }

// Failed reports whether the result came from [Fail].
func (r Result) Failed() bool { return r.failed }

// Observe reports whether the result came from [Observe].
func (r Result) Observe() bool { return r.observe }

// Stops reports whether the model has to see the result before its plan goes on. named
// says that the plan keeps it under a name that the model gave.
func (r Result) Stops(named bool) bool { return r.observe && !(r.unlessSaved && named) }

// Text is the result in words: "" when there is nothing to tell.
func (r Result) Text() string {
	if r.json != nil {
		return string(r.json)
	}
	return r.text
}

// Value is the result as a JSON value with numbers as json.Number: the data of
// [JSON], else the text as a string.
func (r Result) Value() (any, error) {
	if r.json == nil {
		return r.text, nil
	}
	return decodeNumbers(r.json)
}

// decodeNumbers reads JSON with numbers as json.Number.
func decodeNumbers(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// marshal writes v as JSON for people and models to read: < stays <, where
// json.Marshal makes \u003c of it.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format // text of others may hold % signs
	}
	return fmt.Sprintf(format, args...)
}
