package bot

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
)

const (
	// cardInvoke is the name of the invoke of a click on an Action.Execute.
	cardInvoke = "adaptiveCard/action"
	// ownVerbs begin the verbs of the bot's own cards.
	ownVerbs = "planbot/"
)

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
		return ShowMessage(nothingToTell)
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
	if _, taken := b.routes.cards[verb]; taken || verb == "" || strings.HasPrefix(verb, ownVerbs) {
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
		if _, ok := click.decision(); !ok {
			err = errNoButton
		}
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
	if len(b.routes.cards) == 0 || !isSubmit(t.Activity) {
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
	m := t.message("")
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
