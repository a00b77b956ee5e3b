package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/plainjson"
)

// Result is what an action reports to the plan. The zero value is [Done].
type Result struct {
	text        string
	json        json.RawMessage
	failed      bool
	unchanged   bool
	observe     bool
	unlessSaved bool
	cards       []activity.Card
	files       []File
	forAll      bool
	alone       bool
	absent      []string // fields that the action declares and json lacks
	asks        *Form    // nil: the call asks nothing
	state       []byte   // what the call gets back with the answer
}

// Done is the result of an action that has nothing to report.
var Done = Result{}

// Text is a result in words, for $NAME and for the model.
func Text(format string, args ...any) Result {
	return Result{text: sprintf(format, args)}
}

// JSON is a result as data. An entity that is exactly $NAME gets the value; inside text, $NAME
// becomes its JSON. JSON panics if v cannot be encoded; the call reports that as the action's
// error.
func JSON(v any) Result {
	raw, err := plainjson.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("result as JSON: %v", err))
	}
	return Result{json: raw}
}

// Observe is a result that the model must see before anything else runs. The plan ends here, and
// the model plans again with v in its messages.
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

// Card shows an Adaptive Card to the person, in order with what the plan says, even if the plan says
// nothing. The text is for $NAME, for the model, and for channels and clients that show no cards;
// it replaces the card's Fallback. With the format "", the text is the card's Fallback. Card panics
// if there is neither, or if the card cannot be encoded; the call reports that as the action's
// error.
func Card(card activity.Card, format string, args ...any) Result {
	card.Fallback = cmp.Or(sprintf(format, args), card.Fallback)
	return Text("%s", card.Fallback).WithCard(card)
}

// WithCard adds a card to a result, so that an action can show it and return data as well:
//
//	return actions.JSON(ticket).WithCard(card), nil
//
// Channels that show no cards get the card's Fallback, which is required. The card of a failed call
// is not shown.
func (r Result) WithCard(card activity.Card) Result {
	card.Attachment() // panics if no client would take it
	r.cards = append(slices.Clip(r.cards), card)
	return r
}

// ForAll lets everybody in the conversation see what a click returns, though the call looked into the state
// of its person, see [OnClick].
func (r Result) ForAll() Result {
	r.forAll = true
	return r
}

// Alone reports whether the call that returned r looked into the state of its person where others read
// along, and r is not [Result.ForAll]. It is for the bot.
func (r Result) Alone() bool { return r.alone }

// WithFile adds a file for the person to a result. In a personal chat of Teams the person is asked
// whether they want it; when they accept, the bot puts it into their OneDrive. They have an hour. The
// name is changed where OneDrive would refuse it. Elsewhere, and if the file is empty or larger than
// 10 MiB, the call fails instead, and the model learns why.
//
//	return actions.Text("The list has 12 items.").WithFile(actions.File{Name: "list.csv", Content: csv}), nil
func (r Result) WithFile(f File) Result {
	switch size := len(f.Content); {
	case size == 0:
		return Fail("The file is empty, so it cannot be sent.")
	case size > maxFile:
		return Fail("The file is larger than %d MB, so it cannot be sent.", maxFile>>20)
	}
	f.Name = fileName(f.Name)
	r.files = append(slices.Clip(r.files), f)
	return r
}

// Files are the files for the person, in order.
func (r Result) Files() []File {
	if r.failed {
		return nil
	}
	return r.files
}

// Cards are the cards to show to the person, in order.
func (r Result) Cards() []activity.Card {
	if r.failed {
		return nil
	}
	return r.cards
}

// Shown is the text of the cards if they show all of the result, so that nobody has to say it: the
// result is data, or its text is that of the cards. Otherwise, and if it is unchanged, it is "".
func (r Result) Shown() string {
	cards := r.Cards()
	texts := make([]string, len(cards))
	for i, card := range cards {
		texts[i] = card.Fallback
	}
	shown := strings.Join(texts, "\n")
	if r.unchanged || r.json == nil && r.text != "" && r.text != shown {
		return ""
	}
	return shown
}

// UnlessSaved modifies a result of [Observe]: if the plan saves it under a name, the model has
// already said how to use it, so the plan goes on without asking the model.
func (r Result) UnlessSaved() Result {
	r.unlessSaved = true
	return r
}

// Fail says that the action could not do what was asked, and why, in words that the model and the
// person may read. The plan stops here. The action's changes to turn state are rolled back, as
// after an error or a panic.
func Fail(format string, args ...any) Result {
	return Result{text: sprintf(format, args), failed: true}
}

// Unchanged says that the call succeeded but found nothing to act on, such as a missing list or a
// reminder that was already sent. The text is a full sentence that the person may read as it is.
// Later commands still run. But the model wrote later SAYs for a call that did something, so a SAY
// that does not quote this result is not sent: the model is asked once more, or the person reads
// this sentence. If a process died during or just before this call ([Attempt].Again), Unchanged counts as done,
// unless the action is [StateOnly].
func Unchanged(format string, args ...any) Result {
	return Result{text: cmp.Or(sprintf(format, args), "There was nothing to change."), unchanged: true}
}

// Unchanged reports whether the result came from [Unchanged].
func (r Result) Unchanged() bool { return r.unchanged }

// Failed reports whether the result came from [Fail].
func (r Result) Failed() bool { return r.failed }

// Observe reports whether the result came from [Observe].
func (r Result) Observe() bool { return r.observe }

// Stops reports whether the model must see the result before its plan goes on. named says that the
// plan saves it under a name that the model gave.
func (r Result) Stops(named bool) bool { return r.observe && !(r.unlessSaved && named) }

// Text is the result in words; "" if there is nothing to report.
func (r Result) Text() string {
	if r.json != nil {
		return string(r.json)
	}
	return r.text
}

// Value is the result as a JSON value with numbers as json.Number: the data of [JSON], or else the
// text as a string. Fields that the action declares with [Returns] and the data lacks are null.
func (r Result) Value() (any, error) {
	if r.json == nil {
		return r.text, nil
	}
	value, err := decodeNumbers(r.json)
	if object, ok := value.(map[string]any); ok && len(r.absent) > 0 {
		for _, name := range r.absent {
			object[name] = nil
		}
	}
	return value, err
}

func decodeNumbers(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format // it may contain % signs
	}
	return fmt.Sprintf(format, args...)
}

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
	maxAsked = 3 // how often a call that may ask nothing is made again
	// maxFields, maxAskText and maxAskState limit a question.
	maxFields, maxAskText, maxAskState = 20, 4 << 10, 64 << 10
	maxAnswer                          = 4000 // the most characters that an answer may have in one field
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
	return cmp.Or(f.MaxLength, maxAnswer)
}
