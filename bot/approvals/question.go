package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
)

// question is what a call asks the person. Records store it as JSON.
type question struct {
	turn.Question
	ID      string    `json:"id,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	CardID  string    `json:"card,omitempty"`    // id of the message that asks
	Clicked []string  `json:"clicked,omitempty"` // ids of others that ask, too: such as one that was sent again after a crash

	of *asking
}

const lateAnswer texts.Text = "This was not answered in time."

// answerWithin is how long a person has to answer if the action does not say.
const answerWithin = 15 * time.Minute

// Kind is what the record waits for.
func (*question) Kind() string { return "answer" }

// Until is a moment after it expires.
func (q *question) Until() time.Time { return q.Expires.Add(afterExpiry) }

// Note is what the history says.
func (q *question) Note() string {
	return "[The person was asked something that " + q.Action + " needs, " + q.ID + ". It is not done yet.]"
}

// Failed is what it says if nobody could be asked.
func (q *question) Failed(*turn.Turn) string {
	return "[" + q.Action + " needs an answer, but the person could not be asked.]"
}

// Shown notes the card.
func (q *question) Shown(message string) {
	q.CardID = cmp.Or(q.CardID, message)
	q.Clicked = with(q.Clicked, message)
}

// Answered reports whether there is a reply.
func (q *question) Answered() (activity string, ok bool) {
	if q.Given == nil {
		return "", false
	}
	return q.Given.Click, true
}

// Data is for the person who is asked.
func (q *question) Data(t *turn.Turn) map[string]any {
	return map[string]any{"action": turn.Title(t, q.Action), "question": q.Form.Text}
}

// Ask asks the person with a card.
func (q *question) Ask(ctx context.Context, t *turn.Turn, id string) (*activity.Activity, error) {
	v := q.of.viewOf(t)
	q.ID, q.Expires = id, time.Now().Add(cmp.Or(q.Form.Within, answerWithin)).UTC().Truncate(time.Second)
	m := forPerson(t, q.Card(v))
	m.Summary = q.Heading(v)
	if err := message(ctx, t, q.Kind(), m); err != nil {
		return nil, err
	}
	zerolog.Ctx(ctx).Info().Str("question", q.ID).Str("action", q.Action).Msg("waits for an answer")
	return m, nil
}

// Resume goes on with the answer. Without one, the question has expired.
func (q *question) Resume(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	if q.Given == nil {
		q.Given = &turn.Given{Declined: true, Unanswered: true}
	}
	v := q.of.viewOf(t)
	cards := append([]string{q.CardID}, q.Clicked...)
	remember(t, q, q.ID, q.Late(v), cards)
	come := turn.Answered(t, q, &q.Question)
	for _, id := range once(cards) {
		turn.Redraw(ctx, t, id, forPerson(t, q.Closed(v)))
	}
	return come, nil
}

// forPerson is a message with a card for who is asked.
func forPerson(t *turn.Turn, card activity.Card) *activity.Activity {
	m := turn.ForPerson(t, "")
	m.TextFormat = ""
	m.Attachments = []activity.Attachment{card.Attachment()}
	return m
}

// Answer notes the answer of a click of the person who is asked. If the click does not count, nothing changes,
// and refusal says why to them.
func (q *question) Answer(v view, c *click, now time.Time) (refusal string) {
	if q.Given != nil {
		return q.Late(v)
	}
	if now.After(q.Expires) {
		return v.Say(lateAnswer)
	}
	r := &turn.Given{Declined: c.said.Verb == verbDecline, At: now.UTC().Truncate(time.Second), Click: c.activity}
	if !r.Declined {
		if r.Values, refusal = q.values(v, c.inputs); refusal != "" {
			return refusal
		}
	}
	q.Clicked = with(q.Clicked, c.card)
	q.Given = r
	return ""
}

// Withdraw declines to answer.
func (q *question) Withdraw(by *activity.Activity) {
	if q.Given == nil {
		q.Given = &turn.Given{Declined: true, At: time.Now().UTC().Truncate(time.Second), Click: by.ID}
	}
}

// values reads the inputs of the card. A refusal says which one does not fit its field.
func (q *question) values(v view, inputs map[string]json.RawMessage) (values map[string]any, refusal string) {
	values = map[string]any{}
	for i := range q.Form.Fields {
		f := &q.Form.Fields[i]
		given := ""
		if raw := inputs[inputID(i)]; len(raw) > 0 && raw[0] != '"' {
			given = strings.TrimPrefix(string(raw), "null") // some clients send numbers and booleans as such
		} else if json.Unmarshal(raw, &given) != nil {
			given = ""
		}
		if strings.TrimSpace(given) == "" {
			if f.Kind == actions.YesNoField {
				given = "false"
			} else if f.Required {
				return nil, v.Say("Please fill in %s.", fieldTitle(v, f))
			} else {
				continue
			}
		}
		if values[f.Name], refusal = value(v, f, given); refusal != "" {
			return nil, refusal
		}
	}
	return values, ""
}

// value reads what the person gave for the field.
func value(v view, f *actions.Field, given string) (read any, refusal string) {
	title := fieldTitle(v, f)
	switch f.Kind {
	case actions.YesNoField:
		if given != "true" && given != "false" {
			return nil, v.Say("%s has to be yes or no.", title)
		}
		return given == "true", ""
	case actions.NumberField, actions.IntegerField:
		given = strings.TrimSpace(given)
		n, err := strconv.ParseFloat(given, 64)
		switch {
		case err != nil || len(given) > maxDigits || !json.Valid([]byte(given)):
			return nil, v.Say("%s has to be a number.", title)
		case f.Kind == actions.IntegerField && strings.ContainsAny(given, ".eE"):
			return nil, v.Say("%s has to be a whole number.", title)
		case f.Min != nil && n < *f.Min:
			return nil, v.Say("%s has to be at least %s.", title, decimal(*f.Min))
		case f.Max != nil && n > *f.Max:
			return nil, v.Say("%s has to be at most %s.", title, decimal(*f.Max))
		}
		return json.Number(given), ""
	}
	n := utf8.RuneCountInString(given)
	switch {
	case len(f.Choices) > 0 && !slices.ContainsFunc(f.Choices, func(c actions.Choice) bool { return c.Value == given }):
		return nil, v.Say("%s has to be one of the choices.", title)
	case len(f.Choices) > 0:
	case n > f.Most():
		return nil, v.Say("%s may have at most %d characters.", title, f.Most())
	case n < f.MinLength:
		return nil, v.Say("%s needs at least %d characters.", title, f.MinLength)
	}
	return given, ""
}

// maxDigits is how many characters a number may have.
const maxDigits = 40

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// inputID is the id of a field's input on the card.
func inputID(i int) string { return "f" + strconv.Itoa(i) }

// fieldTitle is what the person reads of a field.
func fieldTitle(v view, f *actions.Field) string {
	return titles.Visible(v.Say(texts.Text(cmp.Or(f.Title, titles.Words(f.Name)))))
}

// Late is what a click reads that comes after the reply.
func (q *question) Late(v view) string {
	switch {
	case q.Given.Unanswered:
		return v.Say(lateAnswer)
	case q.Given.Declined:
		return v.Say("You declined to answer, %s.", v.Clock(q.Given.At))
	}
	return v.Say("You answered this, %s.", v.Clock(q.Given.At))
}

// Card asks with a card that has an input for each field.
func (q *question) Card(v view) activity.Card {
	body := q.describe(v, q.Heading(v))
	for i := range q.Form.Fields {
		f := &q.Form.Fields[i]
		if f.Hint != "" {
			hint := small(titles.Visible(f.Hint))
			hint[0].Mono = q.foreign(v)
			body = append(body, hint)
		}
		body = append(body, input(v, f, inputID(i)))
	}
	body = append(body, small(v.Say("Expires %s.", v.Clock(q.Expires))))
	yes, no := texts.Text("Send"), texts.Text("Decline")
	fallback := v.Say("I have a question. Please open this message in a client that shows cards.")
	if q.approval() {
		yes, no = "Approve", "Reject"
		fallback = v.Say("I need approval for %s. Please open this message in a client that shows cards.", v.Title(q.Action))
	}
	return activity.Card{
		Fallback: fallback,
		Body:     body, Version: cardVersion,
		Actions: []any{
			button(v.Say(yes), "positive", data{Question: q.ID, Verb: verbAnswer}),
			button(v.Say(no), "", data{Question: q.ID, Verb: verbDecline}),
		},
	}
}

// Closed is the card after the reply. It does not repeat what the person typed.
func (q *question) Closed(v view) activity.Card {
	said := q.Late(v)
	return activity.Card{Fallback: said, Body: q.describe(v, said), Version: cardVersion}
}

// Heading says in a sentence that something is asked.
func (q *question) Heading(v view) string {
	if q.approval() {
		return v.Say("I need your approval.")
	}
	return v.Say("I have a question.")
}

// approval reports whether the person is asked to approve something.
func (q *question) approval() bool { return len(q.Form.Fields) == 0 }

// foreign reports whether the words of the question come from another program.
func (q *question) foreign(v view) bool {
	action, ok := v.Action(q.Action)
	return v.Program != "" || ok && action.Source.Connection != ""
}

// describe says for what something is asked, and then what, as text without markup. The words of another
// program are in another font than the bot's own lines, and behind them, so they cannot pose as one.
func (q *question) describe(v view, head string) []any {
	said := cmp.Or(v.Program, v.Say("I need this for: %s.", v.Title(q.Action)))
	if action, ok := v.Action(q.Action); ok && action.Source.Connection != "" {
		said = v.Say("%s is asking, for: %s. Your answer goes there. Never answer with a password.", action.Source.Connection, v.Title(q.Action))
	}
	body := []any{heading(head), small(said)}
	for one := range strings.Lines(q.Form.Text) {
		body = append(body, activity.RichText{{Text: titles.Visible(strings.TrimRight(one, "\r\n")), Mono: q.foreign(v)}})
	}
	return body
}

// input is the input of a field, as cards have it.
func input(v view, f *actions.Field, id string) map[string]any {
	title := fieldTitle(v, f)
	in := map[string]any{"id": id, "label": title}
	if f.Required && f.Kind != actions.YesNoField { // it would have to be yes
		in["isRequired"], in["errorMessage"] = true, v.Say("Please fill in %s.", title)
	}
	if f.Default != nil {
		in["value"] = fmt.Sprint(f.Default)
	}
	switch {
	case len(f.Choices) > 0:
		choices := make([]map[string]string, len(f.Choices))
		for i, c := range f.Choices {
			choices[i] = map[string]string{"title": titles.Visible(v.Say(texts.Text(cmp.Or(c.Title, c.Value)))), "value": c.Value}
		}
		in["type"], in["choices"], in["style"] = "Input.ChoiceSet", choices, "compact"
	case f.Kind == actions.YesNoField:
		in["type"], in["title"], in["valueOn"], in["valueOff"] = "Input.Toggle", title, "true", "false"
		delete(in, "label")
	case f.Kind == actions.NumberField, f.Kind == actions.IntegerField:
		in["type"] = "Input.Number"
		if given := fmt.Sprint(f.Default); f.Default != nil && json.Valid([]byte(given)) { // a model may write anything
			in["value"] = jsontext.Value(given)
		}
		for name, limit := range map[string]*float64{"min": f.Min, "max": f.Max} {
			if limit != nil {
				in[name] = *limit
			}
		}
	default:
		in["type"], in["maxLength"], in["isMultiline"] = "Input.Text", f.Most(), f.Long
	}
	return in
}
