package bot

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
)

// InvokeResponse is the answer to an invoke. The zero status is 200; one that is no status
// of an answer, 200 to 599, is a failure of the handler.
type InvokeResponse struct {
	Status int
	Body   any
}

// InvokeError is a failure as the answer to an invoke, with the body
// {"error":{"code","message"}}. The person may read both. A Status that is none of 400 to
// 599 is 500. Of a click on a card, 401 says that the code of a sign-in was wrong, and 412
// that a sign-in did not get what the card needs; clients know no others but 400 and 500,
// so any other 4xx becomes 400, and the rest 500.
type InvokeError struct {
	Status        int
	Code, Message string
}

func (e *InvokeError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// faultBody is how a failure is told.
type faultBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *InvokeError) response() *InvokeResponse {
	status := e.Status
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	return &InvokeResponse{Status: status, Body: map[string]faultBody{"error": {e.Code, e.Message}}}
}

func badValue(format string, args ...any) *InvokeError {
	return &InvokeError{Status: http.StatusBadRequest, Code: "BadRequest", Message: fmt.Sprintf(format, args...)}
}

// write sends the answer to an invoke.
func (i InvokeResponse) write(w http.ResponseWriter) error {
	var body []byte
	if i.Body != nil && i.Status != http.StatusNoContent && i.Status != http.StatusNotModified { // those have none
		raw, err := stdjson.Marshal(i.Body)
		if err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		body = raw
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	if i.Status == 0 {
		i.Status = http.StatusOK
	}
	w.WriteHeader(i.Status)
	_, _ = w.Write(body) // the caller is gone if this fails, and sends the invoke again
	return nil
}

// invokeHandler answers an invoke, see [Bot.OnInvoke].
type invokeHandler = func(ctx context.Context, t *Turn) (InvokeResponse, error)

// invokeRoute is how the invokes of one name are answered.
type invokeRoute struct {
	// check answers an invoke that is wrong, before there is a turn of it; nil: it is
	// not. It may itself be nil.
	check  func(a *activity.Activity) *InvokeResponse
	handle invokeHandler
	// atOnce is whether the invoke is answered, with an empty body, once it is kept.
	atOnce bool
}

// AddInvoke is [Bot.OnInvoke] with the types of the value that comes and of the body that
// answers it; an Out of struct{} is an empty body. A value that is missing or is no In is
// answered 400, and h is not called; so is one of which its method Check() error, if In has
// it, says that it is wrong, in words that the caller reads. With an In of struct{} the value is not looked at.
func AddInvoke[In, Out any](b *Bot, name string, h func(ctx context.Context, t *Turn, in In) (Out, error)) {
	b.routes.addInvoke(name, invokeRoute{
		check: func(a *activity.Activity) *InvokeResponse {
			if _, fault := valueOf[In](a); fault != nil {
				return fault.response()
			}
			return nil
		},
		handle: func(ctx context.Context, t *Turn) (InvokeResponse, error) {
			in, fault := valueOf[In](t.Activity)
			if fault != nil {
				return InvokeResponse{}, fault // another version of the bot accepted it
			}
			out, err := h(ctx, t, in)
			if _, empty := any(out).(struct{}); empty || err != nil {
				return InvokeResponse{}, err
			}
			return InvokeResponse{Body: out}, nil
		},
	})
}

// valueOf reads the value of an invoke.
func valueOf[In any](a *activity.Activity) (in In, fault *InvokeError) {
	if _, any := any(in).(struct{}); any {
		return in, nil
	}
	if len(a.Value) == 0 || a.Value.Kind() == 'n' {
		return in, badValue("the invoke has no value")
	}
	if err := json.Unmarshal(a.Value, &in); err != nil {
		return in, badValue("the value of the invoke is of another form")
	}
	if c, ok := any(&in).(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return in, badValue("%s", err)
		}
	}
	return in, nil
}

// wrong answers an invoke whose value no handler could do anything with, so that it
// costs neither a turn nor a wait; nil: it is none.
func (r *routes) wrong(t *Turn) *InvokeResponse {
	route, _ := r.invoke(t.Activity)
	if route.check == nil {
		return nil
	}
	response := route.check(t.Activity)
	if response != nil {
		t.Log().Warn().Str("invoke", t.Activity.Name).Msg("invoke refused: its value is wrong")
	}
	return response
}

// answering is the invoke's handler as one that leaves its answer in the turn.
func answering(h invokeHandler) Handler {
	return func(ctx context.Context, t *Turn) error {
		answer, err := h(ctx, t)
		if fault, ok := errors.AsType[*InvokeError](err); ok {
			zerolog.Ctx(ctx).Info().Str("code", fault.Code).Msg("invoke answered with an error")
			answer, err = *fault.response(), nil
		}
		if err != nil {
			return err
		}
		if s := answer.Status; s != 0 && (s < 200 || s > 599) {
			return fmt.Errorf("answer invoke %s: %d is no status", t.Activity.Name, s)
		}
		return respond(t, answer)
	}
}

// respond leaves the response in the turn.
func respond(t *Turn, r InvokeResponse) error {
	a, err := r.answer()
	if err == nil {
		t.Answer(a)
	}
	return err
}

// answer is the response as a turn keeps it.
func (i InvokeResponse) answer() (turn.Answer, error) {
	a := turn.Answer{Status: i.Status}
	if i.Body == nil {
		return a, nil
	}
	raw, err := stdjson.Marshal(i.Body)
	if err != nil {
		return a, fmt.Errorf("write the answer: %w", err)
	}
	a.Body = raw
	return a, nil
}

// must is answer of a response of the bot's own, which can be written.
func (i InvokeResponse) must() turn.Answer {
	a, err := i.answer()
	if err != nil {
		panic(err)
	}
	return a
}

// failedInvoke is what answers an invoke that failed. said is safe to be read.
func failedInvoke(t *Turn, said string) turn.Answer {
	if t.IsExecute() {
		return CardAnswer{fault: &InvokeError{Code: "ServiceError", Message: said}}.response().must()
	}
	return turn.Answer{Status: http.StatusInternalServerError}
}

// decidedClick answers the click on an approval: with the card as it is now or, where the
// click did not count, with a text for who clicked.
func decidedClick(card *activity.Card, text string) turn.Answer {
	return CardAnswer{Card: card, Message: text}.response().must()
}

// CardClick is a click on a button of a card, an [activity.Button].
type CardClick struct {
	Verb string `json:"verb"`
	ID   string `json:"id"`
	// Data is what the button carries, with the values of the card's inputs.
	Data jsontext.Value `json:"data"`
	// Trigger is "manual", or "automatic" when the client refreshes the card.
	Trigger string `json:"-"`
	// Authentication and State are what a sign-in brings along.
	Authentication jsontext.Value `json:"-"`
	State          jsontext.Value `json:"-"`
}

// Read decodes the data. A handler that returns its error answers the click as it has to
// be.
func (c CardClick) Read(into any) error {
	if len(c.Data) == 0 || c.Data.Kind() == 'n' || json.Unmarshal(c.Data, into) != nil {
		return badValue("the data of the button is missing or of another form")
	}
	return nil
}

// CardAnswer is what a client does after a click: it shows another Card in the place of the
// one that was clicked, a short Message to the person who clicked, or the SignIn card. The
// zero value tells the person that it is done. What went wrong is an [*InvokeError].
type CardAnswer struct {
	Card    *activity.Card
	Message string
	// SignIn is an OAuth card, which is written as JSON.
	SignIn any
	fault  *InvokeError
}

// The types of answers to a click.
const (
	cardMessage      = "application/vnd.microsoft.activity.message"
	cardFault        = "application/vnd.microsoft.error"
	cardLogin        = "application/vnd.microsoft.activity.loginRequest"
	cardWrongCode    = "application/vnd.microsoft.error.incorrectAuthCode"
	cardPrecondition = "application/vnd.microsoft.error.preconditionFailed"
)

// response is the answer on the wire: its status is in the body, while HTTP's is 200.
// An empty body would have Teams say that the app cannot be reached, and click again.
func (c CardAnswer) response() InvokeResponse {
	var body struct {
		Status int    `json:"statusCode"`
		Type   string `json:"type"`
		Value  any    `json:"value"`
	}
	body.Status = http.StatusOK
	switch fault := c.fault; {
	case fault != nil && fault.Status == http.StatusUnauthorized:
		body.Status, body.Type = fault.Status, cardWrongCode
	case fault != nil && fault.Status == http.StatusPreconditionFailed:
		body.Status, body.Type, body.Value = fault.Status, cardPrecondition, faultBody{fault.Code, fault.Message}
	case fault != nil:
		body.Status, body.Type, body.Value = http.StatusInternalServerError, cardFault, faultBody{fault.Code, fault.Message}
		if fault.Status >= 400 && fault.Status <= 499 { // clients know no other
			body.Status = http.StatusBadRequest
		}
	case c.SignIn != nil:
		body.Status, body.Type, body.Value = http.StatusUnauthorized, cardLogin, c.SignIn
	case c.Card != nil:
		body.Type, body.Value = activity.CardContentType, *c.Card
	default:
		body.Type, body.Value = cardMessage, cmp.Or(c.Message, "Done.")
	}
	return InvokeResponse{Body: body}
}

// cardHandler answers a click on a card. The rules of [Bot.OnInvoke] hold; any other error
// is told to the client in one safe sentence.
type cardHandler = func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)

// readClick reads the value of the invoke. Its error is an [*InvokeError].
func readClick(a *activity.Activity) (CardClick, error) {
	var value struct {
		Action *struct {
			Type string `json:"type"`
			CardClick
		} `json:"action"`
		Trigger        string         `json:"trigger"`
		Authentication jsontext.Value `json:"authentication"`
		State          jsontext.Value `json:"state"`
	}
	if a.Value.Kind() != '{' || json.Unmarshal(a.Value, &value) != nil || value.Action == nil {
		return CardClick{}, badValue("the value of the click is missing or of another form")
	}
	if value.Action.Type != "Action.Execute" {
		return CardClick{}, &InvokeError{http.StatusBadRequest, "NotSupported", "only Action.Execute is answered"}
	}
	click := value.Action.CardClick
	click.Trigger, click.Authentication, click.State = value.Trigger, value.Authentication, value.State
	return click, nil
}

// checkClick answers a click that nobody can do anything with.
func (r *routes) checkClick(a *activity.Activity) *InvokeResponse {
	click, err := readClick(a)
	if err == nil && r.cards[click.Verb] == nil {
		err = errNoButton
	}
	if fault, ok := errors.AsType[*InvokeError](err); ok {
		response := CardAnswer{fault: fault}.response()
		return &response
	}
	return nil
}

var errNoButton = &InvokeError{http.StatusBadRequest, "NotSupported", "nothing is behind this button any more"}

// clicked answers a click on a card of the bot's author.
func (r *routes) clicked(ctx context.Context, t *Turn) (InvokeResponse, error) {
	click, err := readClick(t.Activity)
	if err != nil {
		return InvokeResponse{}, err
	}
	answer, err := r.answerClick(ctx, t, click)
	return answer.response(), err
}

// answerClick calls who answers the click. Another version of the bot may have accepted it.
func (r *routes) answerClick(ctx context.Context, t *Turn, click CardClick) (answer CardAnswer, err error) {
	if h := r.cards[click.Verb]; h != nil {
		answer, err = h(ctx, t, click)
	} else {
		err = errNoButton
	}
	if fault, ok := errors.AsType[*InvokeError](err); ok {
		zerolog.Ctx(ctx).Info().Str("code", fault.Code).Msg("click answered with an error")
		return CardAnswer{fault: fault}, nil
	}
	return answer, err
}

// submittedVerb reads the click on a button that fell back to Action.Submit.
func (r *routes) submittedVerb(t *Turn) (click CardClick, ok bool) {
	if len(r.cards) == 0 || !t.IsSubmit() {
		return click, false
	}
	var data struct {
		Verb string `json:"verb"`
	}
	if t.Activity.Value.Kind() != '{' || json.Unmarshal(t.Activity.Value, &data) != nil || r.cards[data.Verb] == nil {
		return click, false
	}
	return CardClick{Verb: data.Verb, Data: t.Activity.Value, Trigger: "manual"}, true
}

// clickedSubmitted answers such a click with a message.
func (r *routes) clickedSubmitted(ctx context.Context, t *Turn) error {
	click, _ := r.submittedVerb(t)
	answer, err := r.answerClick(ctx, t, click)
	if err != nil {
		return err
	}
	m := t.Message("")
	switch fault := answer.fault; {
	case answer.SignIn != nil, fault != nil && fault.Status == http.StatusUnauthorized: // signing in goes on in the card
		m.Text = "Sorry, this needs a newer version of your app."
	case fault != nil:
		m.Text = fault.Message
	case answer.Card != nil:
		m.Attachments = []activity.Attachment{answer.Card.Attachment()}
	default:
		m.Text = cmp.Or(answer.Message, "Done.")
	}
	return t.Send(ctx, m)
}

const (
	// feedbackInvoke is the name of the invoke with which Teams brings what a person
	// thinks of a message.
	feedbackInvoke = "message/submitAction"
	// cardInvoke is that of a click on an Action.Execute.
	cardInvoke = "adaptiveCard/action"

	liked    = "like"
	disliked = "dislike"
)

// Feedback is what a person thinks of a message. Teams keeps nothing of it.
type Feedback struct {
	Liked bool // else disliked
	// Text is what the person wrote in Teams' own form; "": nothing.
	Text string
	// Form is all that came of the form, an object; nil: none did.
	Form jsontext.Value
	// MessageID is the message that it is about, by the id that the channel gave it; "":
	// the channel did not say, as the Agents Playground does not.
	MessageID string
}

// readFeedback reads the invoke.
func readFeedback(a *activity.Activity) (f Feedback, fault *InvokeError) {
	var value struct {
		Name  string `json:"actionName"`
		Value struct {
			Reaction string         `json:"reaction"`
			Feedback jsontext.Value `json:"feedback"`
		} `json:"actionValue"`
	}
	switch {
	case a.Value.Kind() != '{' || json.Unmarshal(a.Value, &value) != nil || value.Name != "feedback":
		return f, badValue("the value is no feedback")
	case value.Value.Reaction != liked && value.Value.Reaction != disliked:
		return f, badValue("the reaction is neither like nor dislike")
	}
	f = Feedback{Liked: value.Value.Reaction == liked, MessageID: a.ReplyToID}
	if !f.readForm(value.Value.Feedback) {
		return f, badValue("the feedback is no text")
	}
	return f, nil
}

// readForm reads what the person wrote: a text that is the JSON of a form, or none, as
// from the Agents Playground. It is false for anything else.
func (f *Feedback) readForm(feedback jsontext.Value) bool {
	var text string
	switch feedback.Kind() {
	case '"':
		if json.Unmarshal(feedback, &text) != nil {
			return false
		}
		if f.Form = jsontext.Value(text); !f.Form.IsValid() || f.Form.Kind() != '{' {
			f.Form, f.Text = nil, strings.TrimSpace(text)
			return true
		}
	case '{':
		f.Form = feedback
	case 'n', 0:
		return true
	default:
		return false
	}
	var form struct {
		Text string `json:"feedbackText"`
	}
	if json.Unmarshal(f.Form, &form) == nil {
		f.Text = strings.TrimSpace(form.Text)
	}
	return true
}

func checkFeedback(a *activity.Activity) *InvokeResponse {
	if _, fault := readFeedback(a); fault != nil {
		return fault.response()
	}
	return nil
}
