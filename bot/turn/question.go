package turn

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
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
)

// An action may ask the person something, see [actions.Ask]. The bot sends a card, and the record waits
// outside of its queue as it does for an approval. The answer is a turn of its own, in the queue of
// decisions. It puts the answer into the record and the record back into its queue, in one step that
// works only once. Then the same call is made again, with the answer.
//
// What the person typed is in that record until the call was made, and in no log.

const (
	// answerWithin is how long a person has to answer if the action does not say.
	answerWithin = 15 * time.Minute
	// maxQuestions is how many questions one call may ask, and maxPending limits those that one
	// conversation waits for.
	maxQuestions, maxPending = 3, 16
)

// question is what the next call asks.
type question struct {
	ID     string       `json:"id,omitempty"` // "": it is still to be asked
	Action string       `json:"action"`
	Form   actions.Form `json:"form"`
	State  []byte       `json:"state,omitempty"`
	// Asked is how many questions the call has asked, with this one.
	Asked   int       `json:"asked"`
	Expires time.Time `json:"expires,omitzero"`
	CardID  string    `json:"card,omitempty"` // id of the message that asks
	Answer  *reply    `json:"answer,omitempty"`
}

// reply is what came of a question.
type reply struct {
	Values     map[string]any `json:"values,omitempty"`
	Declined   bool           `json:"declined,omitzero"`
	Unanswered bool           `json:"unanswered,omitzero"` // nobody declined it, but there is no answer
	At         time.Time      `json:"at,omitzero"`
	Click      string         `json:"click,omitempty"` // the activity that answered
}

func (q *question) wait() *Wait {
	return &Wait{For: forAnswer, Until: q.Expires.Add(afterExpiry), Then: running, Question: q}
}

// note is what the history says about a turn while it waits.
func (q *question) note() string {
	return "[The person was asked something that " + q.Action + " needs, " + q.ID + ". It is not done yet.]"
}

// answer is what the call gets.
func (q *question) answer() *actions.Answer {
	if q == nil || q.Answer == nil {
		return nil
	}
	return &actions.Answer{Values: q.Answer.Values, Declined: q.Answer.Declined, Unanswered: q.Answer.Unanswered, State: q.State}
}

const (
	noAnswer   texts.Text = "I'm no longer waiting for this answer."
	lateAnswer texts.Text = "This was not answered in time."
)

// inWords says what became of the question.
func (q *question) inWords(t *Turn) string {
	switch {
	case q.Answer.Unanswered:
		return t.Translate(lateAnswer)
	case q.Answer.Declined:
		return t.Translate("You declined to answer, %s.", viewOf(t).Clock(q.Answer.At))
	}
	return t.Translate("You answered this, %s.", viewOf(t).Clock(q.Answer.At))
}

const (
	verbAnswer  = OwnVerbs + "answer"
	verbDecline = OwnVerbs + "decline"
)

// answering is the data of the buttons of a question, and with inputs that of a click.
type answering struct {
	Question string `json:"question"`
	Verb     string `json:"verb"`

	inputs map[string]json.RawMessage
}

// answerOf reads the answer to a question in a turn.
func answerOf(t *Turn) (a answering, ok bool) {
	var data json.RawMessage
	switch {
	case t.IsExecute():
		var click struct {
			Action struct {
				Type, Verb string
				Data       json.RawMessage
			}
		}
		if json.Unmarshal(t.Activity.Value, &click) != nil || click.Action.Type != "Action.Execute" || click.Action.Verb != verbAnswer && click.Action.Verb != verbDecline {
			return a, false
		}
		data = click.Action.Data
	case t.IsSubmit():
		data = json.RawMessage(t.Activity.Value)
	default:
		return a, false
	}
	if json.Unmarshal(data, &a) != nil || a.Question == "" || a.Verb != verbAnswer && a.Verb != verbDecline {
		return a, false
	}
	return a, json.Unmarshal(data, &a.inputs) == nil
}

// answerer is a turn that brings an answer.
type answerer struct {
	*Turn
	answering
}

func (t *answerer) answer(ctx context.Context) error {
	return t.bring(ctx, t.Question, noAnswer, t, t.TellAlone)
}

func (t *answerer) take(ctx context.Context, rec *Record, asked *activity.Activity) (ours bool, err error) {
	q, by, now := rec.Wait.Question, t.Activity.From, time.Now()
	switch {
	case rec.Wait.For != forAnswer || q == nil || q.ID != t.Question:
		return false, nil
	case by.ID == "" || by.ID != asked.From.ID:
		zerolog.Ctx(ctx).Warn().Str("audit", "question").Str("user", by.ID).Msg("somebody else answered a question, ignored")
		return true, &refusal{t.Translate("This question is for somebody else.")}
	case now.After(q.Expires):
		return true, &refusal{t.Translate(lateAnswer)}
	}
	q.Answer = &reply{Declined: t.Verb == verbDecline, At: now.UTC().Truncate(time.Second), Click: t.Activity.ID}
	q.CardID = t.Activity.ReplyToID
	if !q.Answer.Declined {
		q.Answer.Values, err = t.values(q)
	}
	return true, err
}

func (t *answerer) taken(ctx context.Context, rec *Record, _ *activity.Activity) activity.Card {
	q := rec.Wait.Question
	zerolog.Ctx(ctx).Info().Str("question", q.ID).Str("of_turn", rec.ID).Str("action", q.Action).Bool("declined", q.Answer.Declined).Msg("question answered")
	return q.answeredCard(t.Turn)
}

// values reads the inputs of the card. A refusal says which one does not fit its field.
func (t *answerer) values(q *question) (map[string]any, error) {
	values := map[string]any{}
	for i := range q.Form.Fields {
		f := &q.Form.Fields[i]
		given := ""
		if raw := t.inputs[inputID(i)]; len(raw) > 0 && raw[0] != '"' {
			given = string(raw) // some clients send numbers and booleans as such
		} else if json.Unmarshal(raw, &given) != nil {
			given = ""
		}
		if strings.TrimSpace(given) == "" || given == "null" {
			if f.Kind == actions.YesNoField {
				given = "false"
			} else if f.Required {
				return nil, t.wrong("Please fill in %s.", fieldTitle(t.Turn, f))
			} else {
				continue
			}
		}
		value, err := t.value(f, given)
		if err != nil {
			return nil, err
		}
		values[f.Name] = value
	}
	return values, nil
}

// value reads what the person gave for the field.
func (t *answerer) value(f *actions.Field, given string) (any, error) {
	title := fieldTitle(t.Turn, f)
	switch f.Kind {
	case actions.YesNoField:
		if given != "true" && given != "false" {
			return nil, t.wrong("%s has to be yes or no.", title)
		}
		return given == "true", nil
	case actions.NumberField, actions.IntegerField:
		given = strings.TrimSpace(given)
		n, err := strconv.ParseFloat(given, 64)
		switch {
		case err != nil || len(given) > maxDigits || !json.Valid([]byte(given)):
			return nil, t.wrong("%s has to be a number.", title)
		case f.Kind == actions.IntegerField && strings.ContainsAny(given, ".eE"):
			return nil, t.wrong("%s has to be a whole number.", title)
		case f.Min != nil && n < *f.Min:
			return nil, t.wrong("%s has to be at least %s.", title, decimal(*f.Min))
		case f.Max != nil && n > *f.Max:
			return nil, t.wrong("%s has to be at most %s.", title, decimal(*f.Max))
		}
		return json.Number(given), nil
	}
	n := utf8.RuneCountInString(given)
	switch {
	case len(f.Choices) > 0 && !slices.ContainsFunc(f.Choices, func(c actions.Choice) bool { return c.Value == given }):
		return nil, t.wrong("%s has to be one of the choices.", title)
	case len(f.Choices) > 0:
	case n > f.Most():
		return nil, t.wrong("%s may have at most %d characters.", title, f.Most())
	case n < f.MinLength:
		return nil, t.wrong("%s needs at least %d characters.", title, f.MinLength)
	}
	return given, nil
}

// maxDigits is how many characters a number may have.
const maxDigits = 40

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func (t *answerer) wrong(sentence texts.Text, args ...any) error {
	return &refusal{t.Translate(sentence, args...)}
}

// inputID is the id of a field's input on the card.
func inputID(i int) string { return "f" + strconv.Itoa(i) }

// fieldTitle is what the person reads of a field.
func fieldTitle(t *Turn, f *actions.Field) string {
	return titles.Visible(t.Translate(texts.Text(cmp.Or(f.Title, titles.Words(f.Name)))))
}

// askingCard shows the question, with an input for each field.
func (q *question) askingCard(t *Turn) activity.Card {
	body := q.describe(t, t.Translate("I have a question."))
	for i := range q.Form.Fields {
		f := &q.Form.Fields[i]
		if f.Hint != "" {
			body = append(body, small(titles.Visible(f.Hint)))
		}
		body = append(body, input(t, f, inputID(i)))
	}
	body = append(body, small(t.Translate("Expires %s.", viewOf(t).Clock(q.Expires))))
	button := func(title, style, verb string) activity.Button {
		return activity.Button{Title: title, Style: style, Verb: verb, Data: answering{Question: q.ID, Verb: verb}, Bare: verb == verbDecline}
	}
	yes, no := texts.Text("Send"), texts.Text("Decline")
	if len(q.Form.Fields) == 0 {
		yes, no = "Approve", "Reject"
	}
	return activity.Card{
		Fallback: t.Translate("I have a question. Please open this message in a client that shows cards."),
		Body:     body, Version: approvalVersion,
		Actions: []any{button(t.Translate(yes), "positive", verbAnswer), button(t.Translate(no), "", verbDecline)},
	}
}

// answeredCard is the card after the answer. It does not repeat what the person typed.
func (q *question) answeredCard(t *Turn) activity.Card {
	said := q.inWords(t)
	return activity.Card{Fallback: said, Body: q.describe(t, said), Version: approvalVersion}
}

// describe says what is asked, and for what, as text without markup.
func (q *question) describe(t *Turn, head string) []any {
	body := []any{heading(head)}
	for one := range strings.Lines(q.Form.Text) {
		body = append(body, activity.RichText{{Text: titles.Visible(strings.TrimRight(one, "\r\n"))}})
	}
	said := t.Translate("I need this for: %s.", t.title(q.Action))
	if r := (requests{t}).asks(); r != "" {
		said = r
	}
	if action, ok := t.engine.cfg.Actions.Lookup(q.Action); ok && action.Source.Connection != "" {
		said = t.Translate("%s is asking, for: %s. Your answer goes there. Never answer with a password.", action.Source.Connection, t.title(q.Action))
	}
	return append(body, small(said))
}

// input is the input of a field, as cards have it.
func input(t *Turn, f *actions.Field, id string) map[string]any {
	title := fieldTitle(t, f)
	in := map[string]any{"id": id, "label": title}
	if f.Required && f.Kind != actions.YesNoField { // it would have to be yes
		in["isRequired"], in["errorMessage"] = true, t.Translate("Please fill in %s.", title)
	}
	if f.Default != nil {
		in["value"] = fmt.Sprint(f.Default)
	}
	switch {
	case len(f.Choices) > 0:
		choices := make([]map[string]string, len(f.Choices))
		for i, c := range f.Choices {
			choices[i] = map[string]string{"title": titles.Visible(t.Translate(texts.Text(cmp.Or(c.Title, c.Value)))), "value": c.Value}
		}
		in["type"], in["choices"], in["style"] = "Input.ChoiceSet", choices, "compact"
	case f.Kind == actions.YesNoField:
		in["type"], in["title"], in["valueOn"], in["valueOff"] = "Input.Toggle", title, "true", "false"
		delete(in, "label")
	case f.Kind == actions.NumberField, f.Kind == actions.IntegerField:
		in["type"] = "Input.Number"
		if f.Default != nil {
			in["value"] = jsontext.Value(fmt.Sprint(f.Default))
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
