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

// InvokeResponse answers an invoke. The zero Status is 200. A Status outside 200 to 599 is a
// failure of the handler.
type InvokeResponse struct {
	Status int
	Body   any
}

// InvokeError is a failure that answers an invoke, with the body {"error":{"code","message"}}. The
// person may read both. A Status outside 400 to 599 becomes 500. For a click on a card, 401 says
// that a sign-in code was wrong, and 412 that a sign-in did not get what the card needs. Besides
// these, clients know only 400 and 500, so any other 4xx becomes 400, and the rest 500.
type InvokeError struct {
	Status        int
	Code, Message string
}

func (e *InvokeError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// faultBody is a failure on the wire.
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
	if i.Body != nil && i.Status != http.StatusNoContent && i.Status != http.StatusNotModified { // these have no body
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
	_, _ = w.Write(body) // if this fails, the caller is gone and sends the invoke again
	return nil
}

// invokeHandler answers an invoke, see [Bot.OnInvoke].
type invokeHandler = func(ctx context.Context, t *Turn) (InvokeResponse, error)

// invokeRoute handles the invokes of one name.
type invokeRoute struct {
	// check answers an invalid invoke before it becomes a turn; it returns nil for a valid one.
	// nil: no check.
	check  func(a *activity.Activity) *InvokeResponse
	handle invokeHandler
	// atOnce answers the invoke with an empty body once it is saved.
	atOnce bool
}

// AddInvoke is a typed [Bot.OnInvoke]: In is the invoke's value, Out the body of the answer. An Out
// of struct{} is an empty body. If the value is missing or does not decode into In, the answer is
// 400 and h is not called. The same happens if In has a method Check() error and it returns an
// error, whose text the caller reads. With an In of struct{} the value is ignored.
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

// valueOf decodes the value of an invoke.
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

// wrong answers an invoke whose value no handler could use, so that it costs neither a turn nor a
// wait. It returns nil if the value is fine.
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

// answering turns an invoke handler into a Handler that stores the answer in the turn.
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

// respond stores the response in the turn.
func respond(t *Turn, r InvokeResponse) error {
	a, err := r.answer()
	if err == nil {
		t.Answer(a)
	}
	return err
}

// answer returns the response in the form that a turn stores.
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

// must is answer for the bot's own responses, which always encode.
func (i InvokeResponse) must() turn.Answer {
	a, err := i.answer()
	if err != nil {
		panic(err)
	}
	return a
}

// failedInvoke answers a failed invoke. said is safe to show.
func failedInvoke(t *Turn, said string) turn.Answer {
	if t.IsExecute() {
		return CardAnswer{fault: &InvokeError{Code: "ServiceError", Message: said}}.response().must()
	}
	return turn.Answer{Status: http.StatusInternalServerError}
}

// decidedClick answers a click on an approval: with the updated card or, if the click did not
// count, with a text for the person who clicked.
func decidedClick(card *activity.Card, text string) turn.Answer {
	return CardAnswer{Card: card, Message: text}.response().must()
}

// CardClick is a click on a button of a card, an [activity.Button].
type CardClick struct {
	Verb string `json:"verb"`
	ID   string `json:"id"`
	// Data is the button's data with the values of the card's inputs.
	Data jsontext.Value `json:"data"`
	// Trigger is "manual", or "automatic" when the client refreshes the card.
	Trigger string `json:"-"`
	// Authentication and State come with a sign-in.
	Authentication jsontext.Value `json:"-"`
	State          jsontext.Value `json:"-"`
}

// Read decodes the data. A handler can return its error as it is: the client gets the right answer.
func (c CardClick) Read(into any) error {
	if len(c.Data) == 0 || c.Data.Kind() == 'n' || json.Unmarshal(c.Data, into) != nil {
		return badValue("the data of the button is missing or of another form")
	}
	return nil
}

// CardAnswer tells a client what to do after a click: replace the clicked card with Card, show a
// short Message to the person who clicked, or show the SignIn card. The zero value tells the person
// that it is done. For a failure return an [*InvokeError] instead.
type CardAnswer struct {
	Card    *activity.Card
	Message string
	// SignIn is an OAuth card. It is encoded as JSON.
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

// response is the answer on the wire: its status is in the body, while HTTP's is 200. With an empty
// body Teams would say that the app cannot be reached, and send the click again.
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

// cardHandler answers a click on a card. The rules of [Bot.OnInvoke] apply. For any other error the
// client gets one safe sentence.
type cardHandler = func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)

// readClick decodes the click. Its error is an [*InvokeError].
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

// checkClick answers a click that nothing can handle.
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

// clicked answers a click on a card that the bot's author made.
func (r *routes) clicked(ctx context.Context, t *Turn) (InvokeResponse, error) {
	click, err := readClick(t.Activity)
	if err != nil {
		return InvokeResponse{}, err
	}
	answer, err := r.answerClick(ctx, t, click)
	return answer.response(), err
}

// answerClick calls the handler of the click. There may be none: another version of the bot may
// have accepted the click.
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
	case answer.SignIn != nil, fault != nil && fault.Status == http.StatusUnauthorized: // a sign-in continues in the card
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
	// feedbackInvoke is the invoke with which Teams delivers feedback on a message.
	feedbackInvoke = "message/submitAction"
	// cardInvoke is the invoke of a click on an Action.Execute.
	cardInvoke = "adaptiveCard/action"

	liked    = "like"
	disliked = "dislike"
)

// Feedback is what a person thinks of a message. Teams does not store it.
type Feedback struct {
	Liked bool // false: disliked
	// Text is what the person wrote in Teams' own form. "": nothing.
	Text string
	// Form is everything that came from the form, an object. nil: no form.
	Form jsontext.Value
	// MessageID is the channel's id of the rated message. "": the channel did not say. The Agents
	// Playground does not.
	MessageID string
}

// readFeedback decodes the invoke.
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

// readForm reads what the person wrote: a string with the JSON of a form, or none, as from the
// Agents Playground. It returns false for anything else.
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
