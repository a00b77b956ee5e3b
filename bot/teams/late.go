package teams

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
)

// Late is an answer for a person who no longer waits for it. The zero value says nothing.
type Late struct {
	answer Answer
	of     origin // of its form
	tells  bool
	// Only says that the body of the answer does not show it, so that the person is told at any time.
	Only bool
}

const (
	formReady     texts.Text = "The form is ready now."
	formTooLarge  texts.Text = "The form is ready, but too large for a message. Please start again."
	itemReady     texts.Text = "Here it is. It came too late for your message, so please copy it from here."
	previewReady  texts.Text = "This is the preview. Nothing is posted yet: to post it, please start again."
	settingsFirst texts.Text = "This needs your settings first. Please start again, and fill them in."
	doneWithForm  texts.Text = "I'm done with what you sent."
)

// lateForm is the verb of the button that opens a form which came too late. Its data has the form.
const lateForm = turn.OwnVerbs + "form"

// maxLateForm limits such a form, in bytes: Teams takes 28 KB of a card.
const maxLateForm = 20 << 10

// origin says what a form belongs to that opens from a button of a message, if that is no dialog. It comes
// back with what the person fills in.
type origin struct {
	Command string         `json:"command,omitempty"` // of the message extension
	Message jsontext.Value `json:"message,omitzero"`  // that the command was invoked on
	Config  bool           `json:"config,omitzero"`
}

// originOf is the origin of the forms of a command.
func originOf(a *activity.Activity, command string) origin {
	of := origin{Command: command}
	var value struct {
		Message jsontext.Value `json:"messagePayload"`
	}
	if json.Unmarshal(a.Value, &value) == nil {
		of.Message = value.Message
	}
	return of
}

// takeOrigin takes the origin of a form out of what a person filled in.
func (in *Input) takeOrigin() (of origin, err error) {
	var data map[string]jsontext.Value
	if in.Data.Kind() != '{' || json.Unmarshal(in.Data, &data) != nil || data[originMember] == nil {
		return of, nil
	}
	if json.Unmarshal(data[originMember], &of) != nil {
		return of, wrong("has no known form")
	}
	if of.Message.Kind() == '{' {
		m := new(messagePayload)
		if json.Unmarshal(of.Message, m) != nil {
			return of, wrong("has a message of another form")
		}
		in.Message = m.message()
	}
	delete(data, originMember)
	in.Data, err = json.Marshal(data, json.Deterministic(true))
	return of, err
}

// originMember has the origin of a form in the data of its buttons.
const originMember = turn.OwnVerbs + "of"

func (o origin) isDialog() bool { return o.Command == "" && !o.Config }

// Again says that the same data, sent once more, should get the answer itself: a message cannot do all that
// it does.
func (l Late) Again() bool { return l.answer.Preview != nil }

// Message is the answer as a message: a text, a card, or both. Without either there is nothing to tell.
func (l Late) Message(t *turn.Turn) (text string, card *activity.Attachment, err error) {
	a := l.answer
	switch {
	case !l.tells:
		return "", nil, nil
	case a.Form != nil:
		return a.Form.late(t, l.of)
	case len(a.Items) > 0:
		card, err = lateCard(a.Items[0].Card)
		return t.Translate(itemReady), card, err
	case a.Preview != nil:
		card, err = lateCard(a.Preview)
		return t.Translate(previewReady), card, err
	case a.Settings != "":
		return t.Translate(settingsFirst), nil, nil
	case a.Message != "":
		return a.Message, nil, nil
	case len(t.Sent()) > 0: // the handler has said something
		return "", nil, nil
	}
	return t.Translate(doneWithForm), nil, nil
}

func lateCard(card any) (*activity.Attachment, error) {
	if c, ok := card.(activity.Attachment); ok {
		return &c, nil
	}
	written, err := cardOf(card, newestCard)
	return &activity.Attachment{ContentType: written.Type, Content: written.Content}, err
}

// late is a card with a button that opens the form. Everything is in the button, so that it works on any
// replica, and again.
func (f *Form) late(t *turn.Turn, of origin) (text string, card *activity.Attachment, err error) {
	body, err := f.body()
	if err == nil && body.Card != nil && !of.isDialog() {
		body.Card.Content, err = activity.WithData(body.Card.Content, originMember, of)
	}
	if err != nil {
		return "", nil, err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return "", nil, err
	}
	if len(raw) > maxLateForm {
		return t.Translate(formTooLarge), nil, nil
	}
	text = t.Translate(formReady)
	shown := activity.Card{
		Fallback: text,
		Body:     []any{activity.TextBlock{Text: text}},
		Actions:  []any{Open(t.Translate("Open the form"), lateForm, map[string]any{"form": jsontext.Value(raw)})},
	}
	if f.Title != "" {
		shown.Body = append(shown.Body, activity.RichText{{Text: body.Title}})
	}
	attached := shown.Attachment()
	return "", &attached, nil
}

// inDialog is the answer of an action whose form was opened from a message: a dialog cannot show what a
// compose box can.
func inDialog(a Answer) (any, error) {
	if len(a.Items) > 0 || a.Preview != nil || a.Settings != "" {
		_, err := actionBody(a)
		return nil, err
	}
	return taskBody(a)
}

// reopen binds the button of such a form: its answer is the form.
func reopen(data jsontext.Value) (Bound, error) {
	var kept struct {
		Form jsontext.Value `json:"form"`
	}
	if json.Unmarshal(data, &kept) != nil || kept.Form.Kind() != '{' {
		return nil, wrong("has no form")
	}
	return func(context.Context, *turn.Turn) (any, Late, error) {
		return taskAnswer{task{"continue", kept.Form}}, Late{}, nil
	}, nil
}
