package bot

import (
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

// InvokeHandler answers an invoke in the HTTP response: the body is written as
// JSON, nil as an empty one. The rule of [Handler] on running again holds. An
// [*InvokeError] that it returns is its answer; what it changed in state is kept.
type InvokeHandler func(ctx context.Context, t *Turn) (InvokeResponse, error)

// InvokeResponse is the answer to an invoke. The zero status is 200; one that is no status
// of an answer, 200 to 599, is a failure of the handler.
type InvokeResponse struct {
	Status int
	Body   any
}

// InvokeError is a failure as the answer to an invoke, with the body
// {"error":{"code","message"}}; of a click on a card with that of [CardError]. The person
// may read both. A Status that is none of 400 to 599 is 500.
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

// invokeRoute is how the invokes of one name are answered.
type invokeRoute struct {
	// check answers an invoke that is wrong, before there is a turn of it; nil: it is
	// not. It may itself be nil.
	check  func(a *activity.Activity) *InvokeResponse
	handle InvokeHandler
	// atOnce is whether the invoke is answered, with an empty body, once it is kept.
	atOnce bool
}

// OnInvoke registers the handler of the invokes of that name. An invoke without
// a handler is answered with 501. It panics when the name has a handler: that is
// a wiring mistake. See [AddInvoke] for one that is typed, and [Bot.OnCardAction] and
// [Bot.OnFeedback] for the invokes that the bot knows itself.
func (b *Bot) OnInvoke(name string, h InvokeHandler) {
	b.routes.addInvoke(name, invokeRoute{handle: h})
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

func (r *routes) addInvoke(name string, route invokeRoute) {
	if r.invokes == nil {
		r.invokes = map[string]invokeRoute{}
	}
	if _, taken := r.invokes[name]; taken {
		panic("bot: invoke " + name + " has a handler")
	}
	r.invokes[name] = route
}

// invoke returns how the activity is answered, if it is an invoke that is.
func (r *routes) invoke(a *activity.Activity) (route invokeRoute, ok bool) {
	if a.Type != activity.Invoke {
		return route, false
	}
	if route, ok = r.invokes[a.Name]; !ok {
		route, ok = r.known[a.Name]
	}
	return route, ok
}

// awaits reports whether who brings the activity waits for the answer of its turn.
func (b *Bot) awaits(a *activity.Activity) bool {
	route, _ := b.routes.invoke(a)
	return a.Type == activity.Invoke && !route.atOnce || b.cfg.AckTimeout > 0
}

// wrong answers an invoke whose value no handler could do anything with, so that it
// costs neither a turn nor a wait; nil: it is none.
func (b *Bot) wrong(t *Turn) *InvokeResponse {
	route, _ := b.routes.invoke(t.Activity)
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
func answering(h InvokeHandler) Handler {
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
	if t.Activity.Name == turn.CardInvoke {
		return CardError(http.StatusInternalServerError, "ServiceError", said).response().must()
	}
	return turn.Answer{Status: http.StatusInternalServerError}
}

// decidedClick answers the click on an approval: with the card as it is now or, where the
// click did not count, with a text for who clicked.
func decidedClick(card *activity.Card, text string) turn.Answer {
	if card != nil {
		return ShowCard(*card).response().must()
	}
	return ShowMessage(text).response().must()
}

// CardClick is a click on a button of a card, an [activity.Execute].
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

// CardAnswer is what a client does after a click; the zero value tells the person that
// it is done. [ShowCard], [ShowMessage], [CardError], [LoginRequest], [IncorrectAuthCode]
// and [PreconditionFailed] make the others.
type CardAnswer struct {
	status int
	kind   string
	value  any
}

// The types of answers to a click.
const (
	cardMessage      = "application/vnd.microsoft.activity.message"
	cardFault        = "application/vnd.microsoft.error"
	cardLogin        = "application/vnd.microsoft.activity.loginRequest"
	cardWrongCode    = "application/vnd.microsoft.error.incorrectAuthCode"
	cardPrecondition = "application/vnd.microsoft.error.preconditionFailed"
)

// ShowCard puts another card in the place of the one that was clicked.
func ShowCard(card activity.Card) CardAnswer {
	return CardAnswer{http.StatusOK, activity.CardContentType, card}
}

// ShowMessage shows a short text to the person who clicked.
func ShowMessage(text string) CardAnswer { return CardAnswer{http.StatusOK, cardMessage, text} }

// CardError says that the click could not be done: status is 400, if the click is to
// blame, or 500. Clients know no other: one of 4xx becomes 400, the rest 500.
func CardError(status int, code, message string) CardAnswer {
	if status >= 400 && status <= 499 {
		status = http.StatusBadRequest
	} else {
		status = http.StatusInternalServerError
	}
	return CardAnswer{status, cardFault, faultBody{code, message}}
}

// LoginRequest asks the person to sign in first, with an OAuth card as JSON.
func LoginRequest(oauthCard any) CardAnswer {
	return CardAnswer{http.StatusUnauthorized, cardLogin, oauthCard}
}

// IncorrectAuthCode says that the code of a sign-in was wrong.
func IncorrectAuthCode() CardAnswer { return CardAnswer{http.StatusUnauthorized, cardWrongCode, nil} }

// PreconditionFailed says that a sign-in did not get what the card needs.
func PreconditionFailed(code, message string) CardAnswer {
	return CardAnswer{http.StatusPreconditionFailed, cardPrecondition, faultBody{code, message}}
}

// response is the answer on the wire: its status is in the body, while HTTP's is 200.
// An empty body would have Teams say that the app cannot be reached, and click again.
func (c CardAnswer) response() InvokeResponse {
	c = c.orDone()
	return InvokeResponse{Body: struct {
		Status int    `json:"statusCode"`
		Type   string `json:"type"`
		Value  any    `json:"value"`
	}{c.status, c.kind, c.value}}
}

func (c CardAnswer) orDone() CardAnswer {
	if c.kind == "" {
		return ShowMessage("Done.")
	}
	return c
}

// CardHandler answers a click on a card. The rules of [InvokeHandler] hold; any other error
// is told to the client in one safe sentence.
type CardHandler func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)

// OnCardAction registers the handler of the buttons with that verb, whether the client
// knows Action.Execute or falls back to Action.Submit; then the answer comes as a message.
// Verbs that begin with "planbot/" are the bot's own. It panics when the verb is empty, the
// bot's, or has a handler: that is a wiring mistake.
//
// A click that is wrong, or has a verb without a handler, is answered with a card fault of
// status 400 in a response of status 200: so the client shows it. A 501 there would be
// "unable to reach app", for a card that an older version of the bot sent.
//
// A click waits for what is at work in its conversation. After ten seconds the person reads
// that it was noted; it is handled all the same, but its answer is shown no more. What the
// person has to know then belongs into a message, see [Turn.Tell]. Until an answer of the
// handler went out within five seconds, at most for a minute, an equal click of the same
// person is the same click: it gets that answer, and the handler is not called again. After
// that it counts.
func (b *Bot) OnCardAction(verb string, h CardHandler) {
	if b.routes.cards == nil {
		b.routes.cards = map[string]CardHandler{}
	}
	if _, taken := b.routes.cards[verb]; taken || verb == "" || strings.HasPrefix(verb, turn.OwnVerbs) {
		panic("bot: the verb " + verb + " cannot have this handler")
	}
	b.routes.cards[verb] = h
}

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
func (b *Bot) checkClick(a *activity.Activity) *InvokeResponse {
	click, err := readClick(a)
	if err == nil && b.routes.cards[click.Verb] == nil {
		err = errNoButton
	}
	if fault, ok := errors.AsType[*InvokeError](err); ok {
		response := fault.toCard().response()
		return &response
	}
	return nil
}

var errNoButton = &InvokeError{http.StatusBadRequest, "NotSupported", "nothing is behind this button any more"}

// clicked answers a click on a card of the bot's author.
func (b *Bot) clicked(ctx context.Context, t *Turn) (InvokeResponse, error) {
	click, err := readClick(t.Activity)
	if err != nil {
		return InvokeResponse{}, err
	}
	answer, err := b.answerClick(ctx, t, click)
	return answer.response(), err
}

// answerClick calls who answers the click. Another version of the bot may have accepted it.
func (b *Bot) answerClick(ctx context.Context, t *Turn, click CardClick) (answer CardAnswer, err error) {
	if h := b.routes.cards[click.Verb]; h != nil {
		answer, err = h(ctx, t, click)
	} else {
		err = errNoButton
	}
	if fault, ok := errors.AsType[*InvokeError](err); ok {
		zerolog.Ctx(ctx).Info().Str("code", fault.Code).Msg("click answered with an error")
		return fault.toCard(), nil
	}
	return answer, err
}

func (e *InvokeError) toCard() CardAnswer { return CardError(e.Status, e.Code, e.Message) }

// submittedVerb reads the click on a button that fell back to Action.Submit.
func (b *Bot) submittedVerb(t *Turn) (click CardClick, ok bool) {
	if len(b.routes.cards) == 0 || !turn.IsSubmit(t.Activity) {
		return click, false
	}
	var data struct {
		Verb string `json:"verb"`
	}
	if t.Activity.Value.Kind() != '{' || json.Unmarshal(t.Activity.Value, &data) != nil || b.routes.cards[data.Verb] == nil {
		return click, false
	}
	return CardClick{Verb: data.Verb, Data: t.Activity.Value, Trigger: "manual"}, true
}

// clickedSubmitted answers such a click with a message.
func (b *Bot) clickedSubmitted(ctx context.Context, t *Turn) error {
	click, _ := b.submittedVerb(t)
	answer, err := b.answerClick(ctx, t, click)
	if err != nil {
		return err
	}
	m := t.Message("")
	switch value := answer.orDone().value.(type) {
	case activity.Card:
		m.Attachments = []activity.Attachment{value.Attachment()}
	case string:
		m.Text = value
	case faultBody:
		m.Text = value.Message
	default: // signing in goes on in the card
		m.Text = "Sorry, this needs a newer version of your app."
	}
	return t.Send(ctx, m)
}

const (
	// feedbackInvoke is the name of the invoke with which Teams brings what a person
	// thinks of a message.
	feedbackInvoke = "message/submitAction"

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

// FeedbackHandler is told what a person thinks of a message, whose answer the person has
// by then: an error is for the log. The rule of [Handler] on running again holds.
type FeedbackHandler func(ctx context.Context, t *Turn, f Feedback) error

// OnFeedback registers the handler of feedback, which comes where a message asks for it:
// see Config.Feedback and [activity.Activity.AskFeedback]. Without one, and before it,
// feedback is counted and logged without its text. It panics when there is one: that is a
// wiring mistake.
func (b *Bot) OnFeedback(h FeedbackHandler) {
	if b.routes.feedback != nil {
		panic("bot: feedback has a handler")
	}
	b.routes.feedback = h
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

// rated notes the feedback. The answer has to be empty.
func (b *Bot) rated(ctx context.Context, t *Turn) (InvokeResponse, error) {
	f, fault := readFeedback(t.Activity)
	if fault != nil {
		return InvokeResponse{}, fault // another version of the bot accepted it
	}
	reaction := disliked
	if f.Liked {
		reaction = liked
	}
	b.engine.Rated(reaction)
	zerolog.Ctx(ctx).Info().Str("reaction", reaction).Bool("text", f.Text != "").Str("rated", f.MessageID).Msg("feedback")
	if b.routes.feedback == nil {
		return InvokeResponse{}, nil
	}
	return InvokeResponse{}, b.routes.feedback(ctx, t, f)
}
