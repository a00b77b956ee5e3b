package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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

// decodeNumbers decodes JSON with numbers as json.Number.
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
