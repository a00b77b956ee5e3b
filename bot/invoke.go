package bot

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state/inbox"
)

// InvokeResponse answers an invoke. The zero Status is 200. A Status outside 200 to 599 is a
// failure of the handler.
type InvokeResponse struct {
	Status int
	Body   any

	late teams.Late // the answer, for a person who no longer waits for it
}

// InvokeError is a failure that answers an invoke, with the body {"error":{"code","message"}}. The
// person may read both. A Status outside 400 to 599 becomes 500. For a click on a card, 401 says
// that a sign-in code was wrong, and 412 that a sign-in did not get what the card needs. Besides
// these, clients know only 400 and 500, so any other 4xx becomes 400, and the rest 500.
type InvokeError struct {
	Status        int
	Code, Message string

	forClients bool // the Message is for who writes a client: no person reads it in a chat
}

func (e *InvokeError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// faultBody is a failure on the wire.
type faultBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// answer is the error on the wire. Its body always encodes.
func (e *InvokeError) answer() turn.Answer {
	if e.Status == http.StatusNotImplemented {
		return turn.Answer{Status: e.Status} // as that of an invoke without a route
	}
	status := e.Status
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	a, _ := InvokeResponse{Status: status, Body: map[string]faultBody{"error": {e.Code, e.Message}}}.answer()
	return a
}

func badValue(format string, args ...any) *InvokeError {
	return &InvokeError{
		Status: http.StatusBadRequest, Code: "BadRequest", Message: fmt.Sprintf(format, args...), forClients: true,
	}
}

const (
	deadButton texts.Text = "Sorry, nothing is behind this button any more."
	unusable   texts.Text = "Sorry, I can't use this any more. Please start again."
)

// sentence is what the person reads of the failure in a chat.
func (e *InvokeError) sentence(t *Turn) string {
	if e.forClients {
		return t.Translate(unusable)
	}
	return e.Message
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

// invokeRoute handles the invokes of one name.
type invokeRoute struct {
	// read decodes the value of the invoke; nil: it is ignored. It runs twice: a value that no
	// handler could use costs neither a turn nor a wait.
	read   func(a *activity.Activity) (value any, fault *InvokeError)
	handle func(ctx context.Context, t *Turn, value any) (InvokeResponse, error)
	mode   teams.Mode
	card   bool // a click on a card, whose faults have a form of their own
	// beside is the queue beside the conversation's in which the turn runs, without state. "": it runs
	// in the conversation's.
	beside    string
	anonymous bool // invokes have no person: they skip the access list and have no state
	quiet     bool // nobody is told of a failure
	button    bool // see [teams.Invoke].Button
	continues bool // see [teams.Invoke].Continues
	// say returns the body of an answer that shows a sentence. nil: there is none.
	say func(text string) any
	// failure answers a failure of the handler. nil: with an HTTP status.
	failure func(e *InvokeError) turn.Answer
	// same is [teams.Invoke].Same.
	same func(a *activity.Activity) (id string, lasting bool)
}

func teamsRoute(b *Bot, in teams.Invoke) invokeRoute {
	r := invokeRoute{
		mode: in.Mode, anonymous: in.Anonymous, quiet: in.Quiet, button: in.Button, continues: in.Continues, say: in.Say, same: in.Same,
	}
	if in.Fault {
		r.failure = cardFault
	}
	r.read = func(a *activity.Activity) (any, *InvokeError) {
		bound, err := in.Bind(a)
		switch {
		case errors.Is(err, teams.ErrUnknown):
			return nil, &InvokeError{Status: http.StatusNotImplemented}
		case err != nil:
			return nil, badValue("%s", err)
		}
		return bound, nil
	}
	r.handle = func(ctx context.Context, t *Turn, value any) (InvokeResponse, error) {
		response, err := bound(ctx, b, t, b.fetches.begun(t, value.(teams.Bound)))
		signIn, asks := errors.AsType[*teams.SignIn](err)
		switch {
		case asks && in.SignIn != nil:
			link, err := signIn.URL, error(nil)
			if link == "" {
				link, err = b.signIn.Link(ctx, t, signIn.Connection)
			}
			if err == nil && b.unread(t) {
				err = t.TellAlone(ctx, t.Translate("Please sign in first, then send it again: %s", "["+t.Translate("Sign in")+"]("+link+")"))
			}
			return InvokeResponse{Body: in.SignIn(t.Translate("Sign in"), link)}, err
		case err != nil:
			return response, tellUnread(ctx, b, t, "", err)
		}
		answer, err := response.answer()
		if err != nil {
			return response, err
		}
		t.Answer(answer) // if another process sends what follows, it does not come back here
		return response, b.tellLate(ctx, t, r, response.late)
	}
	return r
}

// bound has the handler answer. If it asks for a sign-in that the person has just done, it is called again.
func bound(ctx context.Context, b *Bot, t *Turn, h teams.Bound) (r InvokeResponse, err error) {
	r.Body, r.late, err = h(ctx, t)
	signIn, asks := errors.AsType[*teams.SignIn](err)
	if asks && signIn.URL == "" { // Teams repeats the invoke after the sign-in, with a code
		redeemed, failure := b.signIn.Redeem(ctx, t, signIn.Connection)
		if failure != nil {
			return InvokeResponse{}, failure
		}
		if redeemed {
			r.Body, r.late, err = h(ctx, t)
		}
	}
	if errors.Is(err, teams.ErrValue) {
		err = badValue("%s", err)
	}
	return r, err
}

// tellUnread sends what a handler answers to a person who does not wait for it any more: said or,
// if err is one that the person may read, that. Nobody else sees it, as the answer of an invoke. It
// returns why the turn fails.
func tellUnread(ctx context.Context, b *Bot, t *Turn, said string, err error) error {
	fault, ok := errors.AsType[*InvokeError](err)
	switch {
	case ok:
		said = fault.sentence(t)
	case err != nil:
		return err
	}
	if said == "" || !b.unread(t) {
		return err
	}
	return cmp.Or(t.TellAlone(ctx, said), err)
}

// isAside reports whether the invoke with that value is answered beside its conversation's queue.
func (r invokeRoute) isAside(value any) bool {
	c, _ := value.(click)
	return r.mode == teams.Aside || c.refreshes()
}

// duplicates identify what the invoke asks, besides its activity's id. With another code it asks something else.
func (r invokeRoute) duplicates(a *activity.Activity, code string) []inbox.Duplicate {
	if r.same == nil {
		return nil
	}
	id, lasting := r.same(a)
	if code != "" {
		id += turn.Hash(code)
	}
	d := inbox.Duplicate{ID: "invoke\n" + a.Name + "\n" + a.Conversation.ID + "\n" + a.From.ID + "\n" + id}
	if !lasting {
		d.For = sameClick
	}
	return []inbox.Duplicate{d}
}

func (r invokeRoute) sentence(text string) (turn.Answer, error) {
	return InvokeResponse{Body: r.say(text)}.answer()
}

// AddInvoke is a typed [Bot.OnInvoke]: In is the invoke's value, Out the body of the answer. An Out
// of struct{} is an empty body. If the value is missing or does not decode into In, the answer is
// 400 and h is not called. The same happens if In has a method Check() error and it returns an
// error, whose text the caller reads. With an In of struct{} the value is ignored.
func AddInvoke[In, Out any](b *Bot, name string, h func(ctx context.Context, t *Turn, in In) (Out, error)) {
	if h == nil {
		b.routes.mistake("AddInvoke %q: the handler is nil", name)
		return
	}
	b.routes.addInvoke("AddInvoke", name, invokeRoute{
		read: valueOf[In],
		handle: func(ctx context.Context, t *Turn, value any) (InvokeResponse, error) {
			out, err := h(ctx, t, value.(In))
			if _, empty := any(out).(struct{}); empty || err != nil {
				return InvokeResponse{}, err
			}
			return InvokeResponse{Body: out}, nil
		},
	})
}

func valueOf[In any](a *activity.Activity) (any, *InvokeError) {
	var in In
	if _, ignored := any(in).(struct{}); ignored {
		return in, nil
	}
	if len(a.Value) == 0 || a.Value.Kind() == 'n' {
		return in, badValue("the invoke has no value")
	}
	if err := json.Unmarshal(a.Value, &in, json.MatchCaseInsensitiveNames(true)); err != nil {
		return in, badValue("the value of the invoke is of another form")
	}
	if c, ok := any(&in).(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return in, badValue("%s", err)
		}
	}
	return in, nil
}

func (r invokeRoute) value(a *activity.Activity) (value any, fault *InvokeError) {
	if r.read == nil {
		return nil, nil
	}
	return r.read(a)
}

// fault answers an invoke with an error. The person who pressed a button that nothing is behind reads so.
func (r invokeRoute) fault(e *InvokeError, t *Turn) turn.Answer {
	switch {
	case r.card && e.Message == string(deadButton):
		return cardFault(&InvokeError{Status: e.Status, Code: e.Code, Message: t.Translate(deadButton)})
	case r.card:
		return cardFault(e)
	case r.button && e.Status == http.StatusNotImplemented:
		answer, err := r.sentence(t.Translate(deadButton))
		if err == nil {
			return answer
		}
	}
	return e.answer()
}

// answer is the Handler of an invoke. It stores the answer in the turn.
func (r invokeRoute) answer(ctx context.Context, t *Turn) error {
	value, fault := r.value(t.Activity) // another version of the bot may have accepted a bad one
	if fault != nil {
		t.Answer(r.fault(fault, t))
		return nil
	}
	return r.respond(ctx, t, value)
}

// respond has the handler answer the invoke with that value.
func (r invokeRoute) respond(ctx context.Context, t *Turn, value any) error {
	response, err := r.handle(ctx, t, value)
	fault, failed := errors.AsType[*InvokeError](err)
	switch s := response.Status; {
	case failed:
		zerolog.Ctx(ctx).Info().Str("code", fault.Code).Msg("invoke answered with an error")
		if r.failure != nil {
			t.Answer(r.failure(fault))
			return nil
		}
		t.Answer(r.fault(fault, t))
		return nil
	case err != nil:
		return err
	case s != 0 && (s < 200 || s > 599):
		return fmt.Errorf("answer invoke %s: %d is no status", t.Activity.Name, s)
	}
	answer, err := response.answer()
	if err == nil {
		t.Answer(answer)
	}
	return err
}

// failedInvoke answers a failed invoke. said is safe to show.
func failedInvoke(b *Bot, t *Turn, said string) turn.Answer {
	route, _ := b.routes.invoke(t.Activity)
	if t.IsExecute() && t.ReadOnly() { // with an error, the person would see that in place of the card
		answer, err := InvokeResponse{Body: sayOnCard(said)}.answer()
		if err == nil {
			return answer
		}
	}
	if t.IsExecute() || route.failure != nil {
		return cardFault(&InvokeError{Code: "ServiceError", Message: said})
	}
	if route.say != nil {
		if answer, err := route.sentence(said); err == nil && answer.Body != nil {
			return answer
		}
	}
	return turn.Answer{Status: http.StatusInternalServerError}
}

// decidedClick answers a click on an approval: with the updated card or, if the click did not
// count, with a text for the person who clicked.
func decidedClick(card *activity.Card, text string) turn.Answer {
	return cardAnswer(CardAnswer{Card: card, Message: text}.body())
}

// CardClick is a click on a button of a card, an [activity.Button].
type CardClick struct {
	Verb string `json:"verb"`
	ID   string `json:"id"`
	// Data is the button's data with the values of the card's inputs.
	Data jsontext.Value `json:"data"`
	// Trigger is "manual", or "automatic" when the client refreshes the card: see [Bot.OnCardRefresh].
	Trigger string `json:"-"`
	// Authentication and State come with a sign-in.
	Authentication jsontext.Value `json:"-"`
	State          jsontext.Value `json:"-"`
}

// Read decodes the data, with names in any case, as encoding/json does. A handler can return its error as it is:
// the client gets the right answer.
func (c CardClick) Read(into any) error {
	if len(c.Data) == 0 || c.Data.Kind() == 'n' || json.Unmarshal(c.Data, into, json.MatchCaseInsensitiveNames(true)) != nil {
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

	alone bool // nobody else may read it, also where it is a message
}

// The types of answers to a click.
const (
	cardMessage      = "application/vnd.microsoft.activity.message"
	cardError        = "application/vnd.microsoft.error"
	cardLogin        = "application/vnd.microsoft.activity.loginRequest"
	cardWrongCode    = "application/vnd.microsoft.error.incorrectAuthCode"
	cardPrecondition = "application/vnd.microsoft.error.preconditionFailed"
)

// cardBody is the answer to a click on the wire: its status is in the body, while HTTP's is 200.
// With an empty body Teams would say that the app cannot be reached, and send the click again.
type cardBody struct {
	Status int    `json:"statusCode"`
	Type   string `json:"type"`
	Value  any    `json:"value"`
}

func (c CardAnswer) body() cardBody {
	switch {
	case c.SignIn != nil:
		return cardBody{http.StatusUnauthorized, cardLogin, c.SignIn}
	case c.Card != nil:
		return cardBody{http.StatusOK, activity.CardContentType, *c.Card}
	default:
		return cardBody{http.StatusOK, cardMessage, cmp.Or(c.Message, "Done.")}
	}
}

func sayOnCard(text string) any { return CardAnswer{Message: text}.body() }

func cardFault(e *InvokeError) turn.Answer {
	body := cardBody{http.StatusInternalServerError, cardError, faultBody{e.Code, e.Message}}
	switch {
	case e.Status == http.StatusUnauthorized:
		body = cardBody{e.Status, cardWrongCode, nil}
	case e.Status == http.StatusPreconditionFailed:
		body.Status, body.Type = e.Status, cardPrecondition
	case e.Status >= 400 && e.Status <= 499: // clients know no other
		body.Status = http.StatusBadRequest
	}
	return cardAnswer(body)
}

// cardAnswer is for the bot's own bodies, which always encode.
func cardAnswer(body cardBody) turn.Answer {
	a, err := InvokeResponse{Body: body}.answer()
	if err != nil {
		panic(err)
	}
	return a
}

// cardHandler answers a click on a card. The rules of [Bot.OnInvoke] apply. For any other error the
// client gets one safe sentence.
type cardHandler = func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error)

// cardRoute is the handler of a verb.
type cardRoute struct {
	handle  cardHandler
	refresh bool
}

const automatic = "automatic" // the Trigger of a refresh that nobody clicked for

// click is a click and its handler.
type click struct {
	CardClick
	cardRoute
}

// refreshes reports whether the click asks for the person's view of the card.
func (c click) refreshes() bool { return c.refresh || c.Trigger == automatic }

// readClick decodes a click on a card that the bot's author made.
func (r *routes) readClick(a *activity.Activity) (any, *InvokeError) {
	var value struct {
		Action *struct {
			Type string `json:"type"`
			CardClick
		} `json:"action"`
		Trigger        jsontext.Value `json:"trigger"` // see [activity.Activity.Automatic]
		Authentication jsontext.Value `json:"authentication"`
		State          jsontext.Value `json:"state"`
	}
	switch {
	case a.Value.Kind() != '{' || json.Unmarshal(a.Value, &value) != nil || value.Action == nil:
		return nil, badValue("the value of the click is missing or of another form")
	case value.Action.Type != "Action.Execute":
		return nil, &InvokeError{Status: http.StatusBadRequest, Code: "NotSupported", Message: "only Action.Execute is answered"}
	}
	route, known := r.cards[value.Action.Verb]
	trigger := "manual"
	if a.Automatic() {
		trigger = automatic
	}
	if !known && trigger != automatic {
		return nil, &InvokeError{Status: http.StatusBadRequest, Code: "NotSupported", Message: string(deadButton)}
	}
	if trigger == automatic && !route.refresh { // a refresh has no effects
		route.handle = unrefreshed
	}
	c := click{value.Action.CardClick, route}
	c.Trigger = trigger
	c.Authentication, c.State = value.Authentication, value.State
	return c, nil
}

// answer has the handler answer, unless the card is somebody else's, see [activity.Card].For.
func (c click) answer(ctx context.Context, t *Turn) (CardAnswer, error) {
	var data map[string]jsontext.Value
	if c.Data.Kind() != '{' || json.Unmarshal(c.Data, &data) != nil || data[activity.ForMember] == nil {
		return c.handle(ctx, t, c.CardClick)
	}
	var person string
	if json.Unmarshal(data[activity.ForMember], &person) != nil || person != t.Activity.From.ID {
		return CardAnswer{Message: t.Translate("This is for somebody else."), alone: true}, nil
	}
	delete(data, activity.ForMember)
	rest, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return CardAnswer{}, err
	}
	c.Data = rest
	return c.handle(ctx, t, c.CardClick)
}

// unrefreshed leaves a card as it is.
func unrefreshed(_ context.Context, t *Turn, _ CardClick) (CardAnswer, error) {
	return CardAnswer{Message: t.Translate("There is nothing new.")}, nil
}

// clicked answers such a click. If nobody waits for the answer any more, the person gets it as a
// message, or their card is updated; in a group, others would see that card, so a new one is for the
// person alone.
func clicked(ctx context.Context, b *Bot, t *Turn, value any) (InvokeResponse, error) {
	c := value.(click)
	answer, err := c.answer(ctx, t)
	switch {
	case c.refreshes():
	case err != nil || answer.Card == nil && answer.SignIn == nil:
		said := answer.Message
		if said == "" && len(t.Sent()) == 0 {
			said = t.Translate("Done.")
		}
		err = tellUnread(ctx, b, t, said, err)
	case !b.unread(t):
	case answer.SignIn != nil:
		content, failure := json.Marshal(answer.SignIn)
		if failure != nil {
			return InvokeResponse{}, failure
		}
		m := t.Message("")
		m.Attachments = []activity.Attachment{{ContentType: "application/vnd.microsoft.card.oauth", Content: content}}
		err = t.SendAlone(ctx, m)
	case t.Activity.Conversation.Personal() && t.Activity.ReplyToID != "":
		m := t.Message("")
		m.Type, m.ID, m.Attachments = activity.MessageUpdate, t.Activity.ReplyToID, []activity.Attachment{answer.Card.Attachment()}
		err = t.Send(ctx, m)
	case t.Activity.ChannelID == activity.Teams && t.Activity.From.ID != "":
		m := t.Message("")
		m.Attachments = []activity.Attachment{answer.Card.Attachment()}
		err = t.SendAlone(ctx, m)
	}
	return InvokeResponse{Body: answer.body()}, err
}

// submittedClick reads the click on a button that fell back to Action.Submit.
func (r *routes) submittedClick(t *Turn) (c click, ok bool) {
	if len(r.cards) == 0 || !t.IsSubmit() {
		return c, false
	}
	var data struct {
		Verb string `json:"verb"`
	}
	if t.Activity.Value.Kind() != '{' || json.Unmarshal(t.Activity.Value, &data) != nil {
		return c, false
	}
	route := r.cards[data.Verb]
	if route.handle == nil || route.refresh { // all others would see one person's view
		return c, false
	}
	return click{CardClick{Verb: data.Verb, Data: t.Activity.Value, Trigger: "manual"}, route}, true
}

// clickedSubmitted answers such a click with a message.
func (r *routes) clickedSubmitted(ctx context.Context, t *Turn) error {
	c, _ := r.submittedClick(t)
	answer, err := c.answer(ctx, t)
	fault, failed := errors.AsType[*InvokeError](err)
	if err != nil && !failed {
		return err
	}
	m := t.Message("")
	switch {
	case answer.SignIn != nil, failed && fault.Status == http.StatusUnauthorized: // a sign-in continues in the card
		m.Text = t.Translate("Sorry, this needs a newer version of your app.")
	case failed:
		m.Text = fault.sentence(t)
	case answer.Card != nil:
		m.Attachments = []activity.Attachment{answer.Card.Attachment()}
	default:
		m.Text = cmp.Or(answer.Message, t.Translate("Done."))
	}
	if answer.alone {
		return t.SendAlone(ctx, m)
	}
	return t.Send(ctx, m)
}

// actionClick handles clicks on a button of an action's card, see [actions.OnClick] and
// [actions.OnRefresh]. After a click the others get the new card with a change of the message: an
// answer is only for the person who clicked. It stays so if the handler looked into that person's state.
func actionClick(a *actions.Action) cardHandler {
	return func(ctx context.Context, t *Turn, click CardClick) (CardAnswer, error) {
		data := map[string]any{}
		if click.Data != nil && click.Data.Kind() != 'n' && stdjson.Unmarshal(click.Data, &data) != nil {
			return CardAnswer{}, badValue("the data of the button is of another form")
		}
		result, err := t.Call(ctx, a, data)
		alone := result.Alone()
		if wrong, ok := errors.AsType[*actions.EntityError](err); ok {
			return CardAnswer{}, badValue("the data of the button: %s", wrong.Fault())
		}
		cards := result.Cards()
		if err != nil || len(cards) == 0 {
			return CardAnswer{Message: result.Text(), alone: alone}, err
		}
		answer := CardAnswer{Card: &cards[0], alone: alone}
		if result.Unchanged() && !t.ReadOnly() {
			answer = CardAnswer{Message: result.Text(), alone: alone}
		}
		if alone || t.ReadOnly() || t.Activity.Type != activity.Invoke || t.Activity.ReplyToID == "" {
			return answer, nil
		}
		t.Answer(cardAnswer(answer.body())) // if another process sends the change, it does not come back here
		return answer, t.Send(ctx, &activity.Activity{
			Type: activity.MessageUpdate, ID: t.Activity.ReplyToID, Attachments: []activity.Attachment{cards[0].Attachment()},
		})
	}
}

const (
	feedbackInvoke = "message/submitAction" // the invoke with which Teams delivers feedback on a message
	cardInvoke     = "adaptiveCard/action"  // the invoke of a click on an Action.Execute

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

func readFeedback(a *activity.Activity) (any, *InvokeError) {
	var value struct {
		Name  string `json:"actionName"`
		Value struct {
			Reaction string         `json:"reaction"`
			Feedback jsontext.Value `json:"feedback"`
		} `json:"actionValue"`
	}
	switch {
	case a.Value.Kind() != '{' || json.Unmarshal(a.Value, &value) != nil || value.Name != "feedback":
		return nil, badValue("the value is no feedback")
	case value.Value.Reaction != liked && value.Value.Reaction != disliked:
		return nil, badValue("the reaction is neither like nor dislike")
	}
	f := Feedback{Liked: value.Value.Reaction == liked, MessageID: a.ReplyToID}
	if !f.readForm(value.Value.Feedback) {
		return nil, badValue("the feedback is no text")
	}
	return f, nil
}

// readForm reads what the person wrote: a string with the JSON of a form, or none, as from the
// Agents Playground. It returns false for anything else.
func (f *Feedback) readForm(feedback jsontext.Value) bool {
	switch feedback.Kind() {
	case 'n', 0:
		return true
	case '{':
		f.Form = feedback
	case '"':
		if json.Unmarshal(feedback, &f.Text) != nil {
			return false
		}
		f.Form = jsontext.Value(f.Text)
	default:
		return false
	}
	var form struct {
		Text string `json:"feedbackText"`
	}
	switch {
	case !f.Form.IsValid() || f.Form.Kind() != '{':
		f.Form = nil
	case json.Unmarshal(f.Form, &form) == nil:
		f.Text = form.Text
	default:
		f.Text = ""
	}
	f.Text = strings.TrimSpace(f.Text)
	return true
}

const fileInvoke = "fileConsent/invoke" // the invoke of a person's answer to a file that the bot offered

// Limits of how often a handler of [Bot.OnCardRefresh] runs for one person and card. Clients ask once
// a minute, and when the message was edited.
const (
	refreshBurst = 3
	refreshEvery = 5 * time.Second
	refreshKept  = time.Minute // how long, and maxRefreshes of how many views, the last answer is kept
	maxRefreshes = 1000
	maxRefresh   = 32 << 10 // bytes of an answer that is kept
)

// views are the last answers to refreshes of cards in this process, for those who ask too often.
type views struct {
	mu  sync.Mutex
	all map[string]*view
}

// view is a card as one person saw it last.
type view struct {
	limit  *rate.Limiter
	answer turn.Answer
	asked  time.Time
}

// viewOf identifies who asks for which card.
func viewOf(a *activity.Activity, c click) string {
	return a.CallerID + "\n" + a.ChannelID + "\n" + a.Recipient.ID + "\n" + a.Conversation.ID + "\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + a.From.AadObjectID + "\n" + c.Verb + "\n" + string(c.Data)
}

// last returns the last answer if the person asked too often. ok is false if the handler may run.
func (v *views) last(id string) (answer turn.Answer, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	one := v.all[id]
	if one == nil {
		if len(v.all) >= maxRefreshes {
			maps.DeleteFunc(v.all, func(_ string, old *view) bool { return now.Sub(old.asked) > refreshKept })
		}
		if v.all == nil || len(v.all) >= maxRefreshes {
			v.all = map[string]*view{}
		}
		one = &view{limit: rate.NewLimiter(rate.Every(refreshEvery), refreshBurst)}
		v.all[id] = one
	}
	one.asked = now
	if one.limit.Allow() || one.answer.Body == nil {
		return turn.Answer{}, false
	}
	return one.answer, true
}

func (v *views) keep(id string, answer turn.Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one := v.all[id]; one != nil && len(answer.Body) <= maxRefresh {
		one.answer = answer
	}
}
