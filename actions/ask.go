package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Form is a question to the person of the turn, see [Ask].
type Form struct {
	// Text is what is asked. The person reads it as it is, without markup.
	Text string `json:"text"`
	// Fields are what the person fills in. None: the person only agrees or declines.
	Fields []Field `json:"fields,omitempty"`
	// Within is how long the person has. 0: 15 minutes.
	Within time.Duration `json:"within,omitzero"`
}

// FieldKind is what a [Field] takes.
type FieldKind string

// The kinds of fields. A text field with Choices takes one of those.
const (
	TextField    FieldKind = ""
	NumberField  FieldKind = "number"
	IntegerField FieldKind = "integer"
	YesNoField   FieldKind = "boolean"
)

// Field is one value that a [Form] asks for.
type Field struct {
	Name  string    `json:"name"`            // of the value in [Answer]
	Title string    `json:"title,omitempty"` // what the person reads; "": Name as words
	Hint  string    `json:"hint,omitempty"`  // what the person reads besides; it may be empty
	Kind  FieldKind `json:"kind,omitempty"`
	// Required refuses an answer without this value. A [YesNoField] always has one.
	Required bool     `json:"required,omitzero"`
	Choices  []Choice `json:"choices,omitempty"`
	Min, Max *float64 `json:",omitempty"` // of a number; nil: no limit
	// MinLength and MaxLength limit a text, in characters. 0: none, and 4000.
	MinLength int  `json:"min_length,omitempty"`
	MaxLength int  `json:"max_length,omitempty"`
	Long      bool `json:"long,omitzero"` // a text of several lines
	// Default is what the field shows at first: a string, a number or a bool. nil: nothing.
	Default any `json:"default,omitempty"`
}

// Choice is one of the values of a [Field].
type Choice struct {
	Value string `json:"value"`
	Title string `json:"title,omitempty"` // what the person reads; "": Value
}

// Answer is what came of a question, see [Ask].
type Answer struct {
	// Values are by the names of the fields: a string, a json.Number or a bool. They fit the fields.
	// Those that the person left empty are not there.
	Values map[string]any
	// Declined says that there are no values: the person did not want to answer or did not answer in
	// time, or nobody could be asked. Unanswered tells the last two from the first.
	Declined, Unanswered bool
	// State is what the call had passed to [Ask].
	State []byte
}

const (
	// maxAsked is how often a call that may ask nothing is made again.
	maxAsked = 3
	// maxFields, maxAskText and maxAskState limit a question.
	maxFields, maxAskText, maxAskState = 20, 4 << 10, 64 << 10
	// maxAnswer is the most characters that an answer may have in one field.
	maxAnswer = 4000
)

// errAsks says that a call does not take no for an answer.
var errAsks = errors.New("it asks again and again, although nobody can be asked")

// Ask is the result of a call that needs an answer of the person first. The plan waits for the answer,
// also if the program restarts meanwhile, and then the same call is made again, with the same
// [Attempt.Key] and the [Answer] in [Attempt.Answer]. state comes back with it: it is what the next call
// has to know of this one.
//
//	answer := actions.AttemptOf(ctx).Answer
//	switch {
//	case answer == nil:
//		return actions.Ask(actions.Form{Text: "Which size?", Fields: []actions.Field{{Name: "size", Required: true}}}, nil), nil
//	case answer.Declined:
//		return actions.Fail("The person did not say which size."), nil
//	}
//	order(answer.Values["size"].(string))
//
// Only the person of the turn is asked, with a card that nobody else sees where the channel can do that.
// If there is nobody to ask, such as in a notice, or the channel shows no cards, the call is made again
// at once with a declined answer. So is a call that has asked three questions already. Change turn state
// only once there is an answer: what a call changed is taken back while the plan waits.
//
// Do not ask for passwords or other secrets. Ask panics if the form is no form, such as one with two
// fields of the same name; the call reports that as the action's error.
func Ask(form Form, state []byte) Result {
	if err := form.check(); err != nil {
		panic(fmt.Sprintf("ask: %v", err))
	}
	if len(state) > maxAskState {
		panic(fmt.Sprintf("ask: a state of %d bytes, %d are the most", len(state), maxAskState))
	}
	return Result{asks: &form, state: state}
}

// Asks returns the question of a result that came from [Ask], with its state. nil: it came from
// elsewhere.
func (r Result) Asks() (form *Form, state []byte) { return r.asks, r.state }

// check finds what makes a form impossible to show or to answer.
func (f *Form) check() error {
	if f.Text == "" || len(f.Text) > maxAskText {
		return fmt.Errorf("a text of %d bytes, 1 to %d may be", len(f.Text), maxAskText)
	}
	if len(f.Fields) > maxFields || f.Within < 0 {
		return fmt.Errorf("%d fields within %s, at most %d may be", len(f.Fields), f.Within, maxFields)
	}
	var faults []error
	for i := range f.Fields {
		field := &f.Fields[i]
		same := func(other Field) bool { return other.Name == field.Name }
		if field.Name == "" || slices.ContainsFunc(f.Fields[:i], same) {
			faults = append(faults, fmt.Errorf("field %d: the name %q is empty or taken", i+1, field.Name))
		}
		if err := field.check(); err != nil {
			faults = append(faults, fmt.Errorf("field %q: %w", field.Name, err))
		}
	}
	return errors.Join(faults...)
}

func (f *Field) check() error {
	number := f.Kind == NumberField || f.Kind == IntegerField
	switch {
	case !slices.Contains([]FieldKind{TextField, NumberField, IntegerField, YesNoField}, f.Kind):
		return fmt.Errorf("there is no kind %q", f.Kind)
	case f.Kind != TextField && (len(f.Choices) > 0 || f.MinLength != 0 || f.MaxLength != 0 || f.Long):
		return errors.New("only a text has choices and a length")
	case !number && (f.Min != nil || f.Max != nil):
		return errors.New("only a number has a Min and a Max")
	case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
		return errors.New("Min is more than Max")
	case f.MinLength < 0 || f.MaxLength < 0 || f.MaxLength > maxAnswer || f.MinLength > f.Most():
		return fmt.Errorf("the lengths %d to %d", f.MinLength, f.MaxLength)
	}
	for i, c := range f.Choices {
		if c.Value == "" || slices.ContainsFunc(f.Choices[:i], func(other Choice) bool { return other.Value == c.Value }) {
			return fmt.Errorf("the choice %q is empty or there twice", c.Value)
		}
	}
	fits := f.Default == nil
	switch f.Default.(type) {
	case string:
		fits = f.Kind == TextField
	case bool:
		fits = f.Kind == YesNoField
	case int, int64, float64, json.Number:
		_, err := json.Marshal(f.Default)
		fits = number && err == nil
	}
	if !fits {
		return fmt.Errorf("the default %v", f.Default)
	}
	return nil
}

// Most is how many characters a text may have.
func (f *Field) Most() int {
	if f.MaxLength == 0 {
		return maxAnswer
	}
	return f.MaxLength
}
