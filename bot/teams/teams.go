// Package teams has what only Teams has besides messages and cards: dialogs, message extensions,
// choices that are looked up while a person types, settings, feedback forms, pressed suggestions and
// conversations that go on from Copilot. [Routes] says what a bot answers; a bot gets it in its
// config:
//
//	app.Bot{Teams: teams.Routes{Dialogs: map[string]teams.Dialog{"newList": {Fetch: form, Submit: save}}}}
//
// Teams waits about five seconds for each answer. Handlers that only look something up are called at
// once, beside the conversation's other turns. Their turn is read-only: they may read state, but
// what they change is not saved, and they cannot send. After four seconds the context of a search ends, and
// the person reads that it took too long. The Fetch of a form goes on, and a message with a button opens the
// form once it is ready; if the process dies, Fetch runs again. Handlers with effects run in order with the conversation's
// other turns, as those of messages do. If one has not returned after four seconds, the person reads
// that the bot still works on it, and what it then returns comes as a message: for that person alone, and in
// their own chat with the bot if the bot is not in this one.
// The same data from the same person counts once until its answer was seen, for at most a minute, also under
// another id and with another theme. What the person sends after that is another one.
//
// What a handler gets was sent by a client, whatever the form allowed. Check it, and check who may.
// An error of a handler is shown as one safe sentence, but for a bot.InvokeError. A name that has
// no handler is answered with 501, a value that no handler could use with 400.
package teams

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/state"
)

// Routes are what a bot answers besides messages, clicks on cards and feedback. The zero value
// answers nothing. Do not change it once the bot has it.
type Routes struct {
	// Dialogs are forms that open above the chat, by the member "verb" of the data. A button made by
	// [Open] opens one. "" is for data without a verb, as from a page.
	Dialogs map[string]Dialog
	// Search looks up choices while a person types, by the name of the data set, see [Lookup]. It
	// is read-only. At most 15 choices are shown.
	Search map[string]func(ctx context.Context, t *turn.Turn, q Query) ([]Choice, error)
	// Extension is the bot's message extension.
	Extension Extension
	// Config is the form that people see when they add the bot to a team or group, and in its
	// settings there. Check in Submit who may change them.
	Config Dialog
	// FeedbackForm is the form that opens when a person rates a message that asks for feedback with
	// the form "custom", see [activity.Activity.AskFeedback]. It is read-only. What the person writes
	// arrives as bot.Feedback.
	FeedbackForm func(ctx context.Context, t *turn.Turn, liked bool) (Answer, error)
	// Suggested gets the value of a suggested action of the type Action.Submit that a person pressed.
	// The activity's ReplyToID is the message it stood under. It is no approval: what has effects
	// still asks for one. The invoke is answered before the handler runs.
	Suggested func(ctx context.Context, t *turn.Turn, in Input) error
	// Handoff continues a conversation of Copilot in a chat with the bot. The Data is what [Continue]
	// kept.
	Handoff func(ctx context.Context, t *turn.Turn, in Input) error
	// Events are handlers of what happens besides messages.
	Events Events
}

// Dialog is a form and what happens to what people fill in. Fetch is read-only.
type Dialog struct {
	// Fetch returns the form, or a message in its place. nil: only Submit is answered.
	Fetch func(ctx context.Context, t *turn.Turn, in Input) (Answer, error)
	// Submit gets what the person filled in. Its answer is the next step, a message or, if it is
	// zero, the end of the dialog. nil: only Fetch is answered.
	Submit func(ctx context.Context, t *turn.Turn, in Input) (Answer, error)
}

func (d Dialog) set() bool { return d.Fetch != nil || d.Submit != nil }

// Errors with which [Invoke].Bind refuses an activity.
var (
	// ErrValue says that a value is missing or of another form. It is answered with 400.
	ErrValue = errors.New("the value of the invoke")
	// ErrUnknown says that nothing is registered for it. It is answered with 501.
	ErrUnknown = errors.New("nothing is registered for it")
)

// SignIn is the error with which a handler of the message extension, or of the settings, asks the
// person to sign in first. Teams then repeats the invoke.
type SignIn struct {
	Connection string // the name of the bot's OAuth connection
	URL        string // a sign-in page of the bot's own, in place of Connection
}

func (e *SignIn) Error() string { return "the person has to sign in to " + cmp.Or(e.Connection, e.URL) }

// Mode says how an invoke is answered.
type Mode int

// The modes.
const (
	InOrder      Mode = iota // by its turn, which waits for the conversation's other turns
	Acknowledged             // with an empty body once it is saved; then its turn runs
	Aside                    // at once, by a read-only turn of which nothing is kept
)

// Invoke is how the invokes of one name are answered. It is for package bot.
type Invoke struct {
	Mode Mode
	// Anonymous says that Teams hides who asks: there is no person, tenant or state.
	Anonymous bool
	// Quiet says that nobody is told if the handler fails.
	Quiet bool
	// Bind decodes the value. Its errors wrap [ErrValue] or [ErrUnknown].
	Bind func(a *activity.Activity) (Bound, error)
	// Say returns the body that shows a sentence to the person; nil: there is none.
	Say func(text string) any
	// SignIn returns the body that asks the person to sign in. nil: Teams knows none here.
	SignIn func(title, url string) any
	// Button says that it comes from a button, of a card or of the message extension, which may be one of an earlier
	// version of the bot: where nothing is registered for it, the person reads so.
	Button bool
	// Fault says that a failure has a body of its own, that of a card.
	Fault bool
	// Continues says that a handler Aside which takes too long goes on, and that its answer is sent as a
	// message.
	Continues bool
	// Same identifies what is asked, so that equal invokes of a person run once. lasting: for as long
	// as an activity's id does, else for a minute. nil: by the activity's id alone.
	Same func(a *activity.Activity) (id string, lasting bool)
}

// Bound handles one invoke and returns the body of the answer; nil: an empty one. late is the answer for
// a person who no longer waits for it.
type Bound func(ctx context.Context, t *turn.Turn) (body any, late Late, err error)

// Invokes returns how each invoke that r knows is answered, by name. The error lists every mistake
// in r. It is for package bot.
func (r *Routes) Invokes() (map[string]Invoke, error) {
	all := map[string]Invoke{}
	all["task/fetch"] = Invoke{Mode: Aside, Continues: true, Bind: r.fetch, Say: taskMessage, Same: equal, Button: true}
	all["task/submit"] = Invoke{Bind: r.submit, Say: taskMessage, Same: equal, Button: true}
	if len(r.Search) > 0 {
		all["application/search"] = Invoke{Mode: Aside, Bind: r.search, Fault: true}
	}
	if r.Config.set() {
		config := func(handle handler) func(*activity.Activity) (Bound, error) {
			return func(a *activity.Activity) (Bound, error) {
				in, err := readInput(a)
				return bindForm(handle, in, configBody, origin{Config: true}, err)
			}
		}
		all["config/fetch"] = Invoke{Mode: Aside, Continues: true, Bind: config(r.Config.Fetch), Say: configMessage, SignIn: configSignIn, Same: equal}
		all["config/submit"] = Invoke{Bind: config(r.Config.Submit), Say: configMessage, SignIn: configSignIn, Same: equal}
	}
	if r.FeedbackForm != nil {
		all["message/fetchTask"] = Invoke{Mode: Aside, Bind: r.feedbackForm, Say: taskMessage}
	}
	if r.Suggested != nil {
		for _, name := range []string{"suggestedActions/submit", "suggestedAction/submit"} { // the SDKs' and that of Microsoft's documentation
			all[name] = Invoke{Mode: Acknowledged, Bind: r.suggested}
		}
	}
	if r.Handoff != nil {
		all["handoff/action"] = Invoke{Bind: r.handoff, Say: nothing}
	}
	r.Extension.invokes(all)
	return all, r.check()
}

// check lists every mistake in r.
func (r *Routes) check() error {
	var faults []error
	for _, verb := range slices.Sorted(maps.Keys(r.Dialogs)) {
		if !r.Dialogs[verb].set() {
			faults = append(faults, fmt.Errorf("the dialog %q has neither Fetch nor Submit", verb))
		}
		if strings.HasPrefix(verb, turn.OwnVerbs) {
			faults = append(faults, fmt.Errorf("the dialog %q has a verb of the bot's own", verb))
		}
	}
	for _, set := range slices.Sorted(maps.Keys(r.Search)) {
		if set == "" || r.Search[set] == nil {
			faults = append(faults, fmt.Errorf("the data set %q has no name or no handler", set))
		}
	}
	if err := errors.Join(append(faults, r.Extension.check())...); err != nil {
		return fmt.Errorf("teams: %w", err)
	}
	return nil
}

// handler answers what a person sent with a form.
type handler = func(ctx context.Context, t *turn.Turn, in Input) (Answer, error)

// bind returns the handler of an invoke with what it gets. body writes its answer.
func bind[In any](h func(context.Context, *turn.Turn, In) (Answer, error), in In, body func(Answer) (any, error), err error) (Bound, error) {
	switch {
	case err != nil:
		return nil, err
	case h == nil:
		return nil, ErrUnknown
	}
	return func(ctx context.Context, t *turn.Turn) (any, Late, error) {
		a, err := h(ctx, t, in)
		if err != nil {
			return nil, Late{}, err
		}
		out, err := body(a)
		return out, Late{}, err
	}, nil
}

// bindForm is bind for what people wait for even if it takes long. of is what a form of the answer belongs to.
func bindForm(h handler, in Input, body func(Answer) (any, error), of origin, err error) (Bound, error) {
	switch {
	case err != nil:
		return nil, err
	case h == nil:
		return nil, ErrUnknown
	}
	return func(ctx context.Context, t *turn.Turn) (out any, late Late, err error) {
		a, err := h(ctx, t, in)
		if err != nil {
			return nil, late, err
		}
		out, err = body(a)
		shows := a.Form != nil || a.Message != "" || len(a.Items) > 0 || a.Preview != nil || a.Settings != ""
		return out, Late{answer: a, of: of, tells: true, Only: shows && out == nil}, err
	}, nil
}

// bindEmpty is bind for a handler whose answer is an empty body.
func bindEmpty(h func(context.Context, *turn.Turn, Input) error, in Input, err error) (Bound, error) {
	switch {
	case err != nil:
		return nil, err
	case h == nil:
		return nil, ErrUnknown
	}
	return func(ctx context.Context, t *turn.Turn) (any, Late, error) { return nil, Late{}, h(ctx, t, in) }, nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w "+format, append([]any{ErrValue}, args...)...)
}

// read decodes the value of an invoke, which must be an object.
func read(a *activity.Activity, into any) error {
	if a.Value.Kind() != '{' || json.Unmarshal(a.Value, into) != nil {
		return wrong("is missing or of another form")
	}
	return nil
}

// equal identifies what an invoke asks, whatever order its members are in and however the client looks.
func equal(a *activity.Activity) (string, bool) {
	value := a.Value.Clone()
	var members map[string]jsontext.Value
	if json.Unmarshal(value, &members) == nil {
		delete(members, "context")
		if less, err := json.Marshal(members); err == nil {
			value = less
		}
	}
	if value.Canonicalize() != nil {
		value = a.Value
	}
	return a.ReplyToID + "\n" + string(value), false
}

func nothing(string) any { return nil }

// Input is what a person sent with a form, a button or an action of the message extension. It comes
// from a client: check it.
type Input struct {
	// Data is what they filled in over what the form's button has, or what a page passed on: any JSON,
	// or nothing.
	Data jsontext.Value
	// Theme is how the client looks: default, dark or contrast.
	Theme string
	// State is what a page handed back, such as that of the settings or of a sign-in.
	State string

	// Command and Context are those of an action of the message extension. Context is where it was
	// invoked: compose, commandbox or message.
	Command, Context string
	// Message is the message that an action was invoked on.
	Message *Message
	// Preview is the card of the preview that the person edits or sends. Take no more than an id from
	// it, and make the card anew: a client can change it.
	Preview jsontext.Value
}

// Read decodes the data, with names in any case, as encoding/json does. A handler can return its error as it is:
// the invoke is answered with 400.
func (in Input) Read(into any) error {
	if len(in.Data) == 0 || in.Data.Kind() == 'n' || json.Unmarshal(in.Data, into, json.MatchCaseInsensitiveNames(true)) != nil {
		return wrong("has no data, or data of another form")
	}
	return nil
}

// Message is a message of somebody in a chat. What they wrote is data, never an instruction.
type Message struct {
	ID, ReplyToID string
	UserID, User  string // the author's aadObjectId and name
	HTML          string
	Link          string // opens the message in Teams
}

// messagePayload is a [Message] on the wire.
type messagePayload struct {
	ID        string `json:"id"`
	ReplyToID string `json:"replyToId"`
	Link      string `json:"linkToMessage"`
	From      struct {
		User struct {
			ID   string `json:"id"`
			Name string `json:"displayName"`
		} `json:"user"`
	} `json:"from"`
	Body struct {
		Content string `json:"content"`
	} `json:"body"`
}

func (m *messagePayload) message() *Message {
	if m == nil {
		return nil
	}
	return &Message{ID: m.ID, ReplyToID: m.ReplyToID, Link: m.Link, UserID: m.From.User.ID, User: m.From.User.Name, HTML: m.Body.Content}
}

func readInput(a *activity.Activity) (in Input, err error) {
	var value struct {
		Data    jsontext.Value `json:"data"`
		Context struct {
			Theme string `json:"theme"`
		} `json:"context"`
		State          string          `json:"state"`
		CommandID      string          `json:"commandId"`
		CommandContext string          `json:"commandContext"`
		Message        *messagePayload `json:"messagePayload"`
		Preview        []struct {
			Attachments []activity.Attachment `json:"attachments"`
		} `json:"botActivityPreview"`
	}
	if len(a.Value) == 0 || a.Value.Kind() == 'n' {
		return in, nil
	}
	if err := read(a, &value); err != nil {
		return in, err
	}
	in = Input{Data: value.Data, Theme: value.Context.Theme, State: value.State, Command: value.CommandID, Context: value.CommandContext}
	in.Message = value.Message.message()
	if len(value.Preview) > 0 && len(value.Preview[0].Attachments) > 0 {
		in.Preview = value.Preview[0].Attachments[0].Content
	}
	return in, nil
}

func (r *Routes) fetch(a *activity.Activity) (Bound, error) {
	in, verb, err := readDialog(a)
	if verb == lateForm && err == nil {
		return reopen(in.Data)
	}
	return bindForm(r.Dialogs[verb].Fetch, in, fetchBody, origin{}, err)
}

// submit binds task/submit: what a person filled in, also in a form that was none of a dialog and came too late.
func (r *Routes) submit(a *activity.Activity) (Bound, error) {
	in, verb, err := readDialog(a)
	of := origin{}
	if err == nil {
		of, err = in.takeOrigin()
	}
	switch {
	case err != nil || of.isDialog():
		return bindForm(r.Dialogs[verb].Submit, in, taskBody, of, err)
	case of.Config:
		return bindForm(r.Config.Submit, in, taskBody, of, nil)
	}
	in.Command = of.Command
	return bindForm(r.Extension.command(of.Command).Submit, in, inDialog, of, nil)
}

func readDialog(a *activity.Activity) (in Input, verb string, err error) {
	if a.Value.Kind() != '{' {
		return in, "", wrong("is missing or of another form")
	}
	in, err = readInput(a)
	var data struct {
		Verb string `json:"verb"`
	}
	if in.Data.Kind() == '{' && json.Unmarshal(in.Data, &data) != nil {
		err = wrong("has a verb that is no text")
	}
	return in, data.Verb, err
}

// suggested binds the press of a suggested action.
func (r *Routes) suggested(a *activity.Activity) (Bound, error) {
	var err error
	if len(a.Value) == 0 || a.Value.Kind() == 'n' {
		err = wrong("is missing")
	}
	return bindEmpty(r.Suggested, Input{Data: a.Value}, err)
}

// feedbackForm binds the request for the bot's own form of feedback. Teams and its SDKs differ in
// where the members are.
func (r *Routes) feedbackForm(a *activity.Activity) (Bound, error) {
	type form struct {
		Name  string `json:"actionName"`
		Value struct {
			Reaction string `json:"reaction"`
		} `json:"actionValue"`
	}
	var value struct {
		form
		Data *form `json:"data"`
	}
	err := read(a, &value)
	asked := value.form
	if value.Data != nil {
		asked = *value.Data
	}
	switch {
	case err != nil:
	case asked.Name != "feedback":
		err = wrong("asks for no feedback")
	case asked.Value.Reaction != "like" && asked.Value.Reaction != "dislike":
		err = wrong("has a reaction that is neither like nor dislike")
	}
	return bind(r.FeedbackForm, asked.Value.Reaction == "like", taskBody, err)
}

// Query is what a person searches for.
type Query struct {
	// Name is that of the data set, or the id of the command.
	Name string
	// Text is what they typed, "" as long as that is nothing. For a link it is its address; do not
	// fetch it, but read an id from it.
	Text string
	// Parameters are what they typed into the parameters of a command.
	Parameters map[string]string
	// Initial says that the command was opened and nothing is typed yet.
	Initial bool
	// Data has the other inputs of the card, if they are associated.
	Data jsontext.Value
	// Skip and Count say which results are asked for.
	Skip, Count int
	// State is what a sign-in page handed back. Authentication comes with a silent sign-in.
	State          string
	Authentication jsontext.Value
}

// Choice is a result of a search.
type Choice struct {
	Title string `json:"title"`
	Value string `json:"value"` // comes with the card's submit, where it may be anything
}

const (
	maxChoices = 15  // that Teams shows
	maxResults = 100 // that may be asked for
)

func (r *Routes) search(a *activity.Activity) (Bound, error) {
	var value struct {
		Text    *string `json:"queryText"`
		Set     string  `json:"dataset"`
		Options struct {
			Skip int `json:"skip"`
			Top  int `json:"top"`
		} `json:"queryOptions"`
		Data jsontext.Value `json:"data"`
	}
	if err := read(a, &value); err != nil {
		return nil, err
	}
	h := r.Search[value.Set]
	switch {
	case value.Text == nil:
		return nil, wrong("has no queryText")
	case value.Set == "":
		return nil, wrong("has no dataset")
	case value.Options.Skip < 0 || value.Options.Top < 0:
		return nil, wrong("asks for a negative number of choices")
	case h == nil:
		return nil, ErrUnknown
	}
	most := min(cmp.Or(value.Options.Top, maxChoices), maxChoices)
	q := Query{Name: value.Set, Text: *value.Text, Data: value.Data, Skip: value.Options.Skip, Count: most}
	return func(ctx context.Context, t *turn.Turn) (any, Late, error) {
		found, err := h(ctx, t, q)
		if err != nil {
			return nil, Late{}, err
		}
		return searchBody(atMost(t, found, most)), Late{}, nil
	}, nil
}

func searchBody(found []Choice) any {
	shown := make([]Choice, 0, len(found))
	for _, c := range found {
		c.Title = spelling.Cut(c.Title, maxChoice)
		shown = append(shown, c)
	}
	type results struct {
		Results []Choice `json:"results"`
	}
	return struct {
		Status int     `json:"statusCode"`
		Type   string  `json:"type"`
		Value  results `json:"value"`
	}{200, "application/vnd.microsoft.search.searchResponse", results{shown}}
}

// Lookup is an element of a card: an input whose choices the handler of the data set in
// [Routes].Search finds while the person types. label is shown above it.
func Lookup(id, set, label string) any {
	return map[string]any{
		"type": "Input.ChoiceSet", "id": id, "label": label, "style": "filtered", "choices": []Choice{},
		"choices.data": map[string]any{"type": "Data.Query", "dataset": set, "associatedInputs": "auto"},
	}
}

// Open is a button of a card that opens the dialog with that verb. data is what Fetch gets besides
// the verb, and may be nil.
func Open(title, verb string, data map[string]any) activity.Button {
	all := map[string]any{}
	maps.Copy(all, data)
	all["msteams"], all["verb"] = map[string]string{"type": "task/fetch"}, verb
	return activity.Button{Title: title, Data: all}
}

// isWeb reports whether a text is the address of a page.
func isWeb(address string, schemes ...string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme) && utf8.ValidString(address)
}

const (
	handoffFor = 5 * time.Minute // how long a person has to continue elsewhere
	// maxHandoffs limits those that a person may have, and maxAllHandoffs what these keep, in bytes. None goes
	// before its time: somebody may be about to use it.
	maxHandoffs, maxAllHandoffs = 64, 128 << 10
	maxHandoff                  = 16 << 10 // limits what one keeps, in bytes
)

// handoffs are what a person may continue in another conversation, as part of their state: so
// /forget deletes it, and two replicas cannot use the same one twice.
type handoffs struct {
	Open []handoff `json:"open,omitempty"`
}

type handoff struct {
	ID    string         `json:"id"`
	User  string         `json:"user,omitempty"` // their aadObjectId
	Data  jsontext.Value `json:"data,omitzero"`
	Until time.Time      `json:"until"`
}

// Continue keeps data, so that the person of the turn can go on in their chat with the bot, and
// returns the continuation to put into the link that opens it. It works once, within five minutes
// and for that person; [Routes].Handoff then gets the data. It is saved with the turn, so return its
// error and send the link after it. Errors: data does not encode or has more than 16 KiB, the
// person has 64 continuations or 128 KiB of data in them, or the turn is read-only.
func Continue(t *turn.Turn, data any) (continuation string, err error) {
	raw, err := json.Marshal(data)
	switch {
	case err != nil:
		return "", fmt.Errorf("continue elsewhere: %w", err)
	case len(raw) > maxHandoff:
		return "", fmt.Errorf("continue elsewhere: %d bytes of data, at most %d", len(raw), maxHandoff)
	case t.ReadOnly() || t.User == nil:
		return "", errors.New("continue elsewhere: this turn saves nothing")
	}
	all, now := state.Of[handoffs](t.User), time.Now().UTC()
	all.Open = slices.DeleteFunc(all.Open, func(h handoff) bool { return now.After(h.Until) })
	size := len(raw)
	for _, h := range all.Open {
		size += len(h.Data)
	}
	if len(all.Open) >= maxHandoffs || size > maxAllHandoffs {
		return "", fmt.Errorf("continue elsewhere: the person has %d continuations with %d bytes of data, each for %s", len(all.Open), size-len(raw), handoffFor)
	}
	kept := handoff{ID: strings.ToLower(rand.Text()), User: t.Activity.From.AadObjectID, Data: raw, Until: now.Add(handoffFor)}
	all.Open = append(all.Open, kept)
	return kept.ID, nil
}

// errNoHandoff is what a person reads whose continuation is not good.
var errNoHandoff = wrong("has a continuation that is unknown, used or too old")

func (r *Routes) handoff(a *activity.Activity) (Bound, error) {
	var value struct {
		Continuation string `json:"continuation"`
	}
	if err := read(a, &value); err != nil {
		return nil, err
	}
	if value.Continuation == "" {
		return nil, wrong("has no continuation")
	}
	return func(ctx context.Context, t *turn.Turn) (any, Late, error) {
		all := state.Of[handoffs](t.User)
		at := slices.IndexFunc(all.Open, func(h handoff) bool {
			return h.ID == value.Continuation && h.User == t.Activity.From.AadObjectID && time.Now().Before(h.Until)
		})
		if at < 0 {
			return nil, Late{}, errNoHandoff
		}
		in := Input{Data: all.Open[at].Data}
		all.Open = slices.Delete(all.Open, at, at+1)
		return nil, Late{}, r.Handoff(ctx, t, in)
	}, nil
}

// Events are handlers of what happens in Teams besides messages. Nobody asked, so nobody is told of an
// error: it goes to the log. Teams may send an event twice, and also before the bot has seen the
// conversation or after it was removed. A nil handler ignores its event. [Meeting] and its like
// say more about a meeting.
type Events struct {
	// MeetingStarted and MeetingEnded are about meetings that somebody scheduled, and need the
	// permission OnlineMeeting.ReadBasic.Chat, or ChannelMeeting.ReadBasic.Group. m has ID, Type,
	// Title, JoinURL and Start or End.
	MeetingStarted, MeetingEnded func(ctx context.Context, t *turn.Turn, m connector.Meeting) error
	// MeetingJoined and MeetingLeft get everybody whom one event names. They need the permission
	// OnlineMeetingParticipant.Read.Chat.
	MeetingJoined, MeetingLeft func(ctx context.Context, t *turn.Turn, people []connector.Participant) error
	// Read says that the person has read the bot's messages in their personal chat up to one. It
	// needs the permission ChatMessageReadReceipt.Read.Chat, and people or their organization may
	// have switched it off.
	Read func(ctx context.Context, t *turn.Turn, r ReadReceipt) error
}

// ReadReceipt says up to which message a person has read.
type ReadReceipt struct {
	MessageID string `json:"lastReadMessageId"`
}

// Covers reports whether the person has read the message with that id, as [turn.Turn.Sent] returns
// it.
func (r ReadReceipt) Covers(id string) bool {
	read, other := strings.TrimLeft(r.MessageID, "0"), strings.TrimLeft(id, "0")
	return digits(read) && digits(other) && cmp.Or(cmp.Compare(len(other), len(read)), strings.Compare(other, read)) <= 0
}

// digits reports whether the id is a number, as those of Teams are.
func digits(id string) bool { return id != "" && strings.Trim(id, "0123456789") == "" }

const microsoft = "application/vnd.microsoft."

// Handler returns the handler of an activity; nil: it is no event of these. It is for package bot.
func (e *Events) Handler(a *activity.Activity) turn.Handler {
	if a.Type != activity.Event {
		return nil
	}
	switch strings.TrimPrefix(a.Name, microsoft) {
	case "meetingStart":
		return event(e.MeetingStarted, readMeeting)
	case "meetingEnd":
		return event(e.MeetingEnded, readMeeting)
	case "meetingParticipantJoin":
		return event(e.MeetingJoined, readPeople)
	case "meetingParticipantLeave":
		return event(e.MeetingLeft, readPeople)
	case "readReceipt":
		return event(e.Read, readReceipt)
	}
	return nil
}

// event returns the handler of an event. One whose value is of another form is ignored.
func event[In any](h func(context.Context, *turn.Turn, In) error, read func(*activity.Activity) (In, bool)) turn.Handler {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, t *turn.Turn) error {
		in, ok := read(t.Activity)
		if !ok {
			zerolog.Ctx(ctx).Warn().Str("event", t.Activity.Name).Msg("event ignored: its value is of another form")
			return nil
		}
		return h(ctx, t, in)
	}
}

// decode reads the value of an event, whose members Teams writes in either case.
func decode(a *activity.Activity, into any) bool {
	return a.Value.Kind() == '{' && json.Unmarshal(a.Value, into, json.MatchCaseInsensitiveNames(true)) == nil
}

func readMeeting(a *activity.Activity) (connector.Meeting, bool) {
	var wire struct {
		ID      string `json:"id"`
		Type    string `json:"meetingType"`
		Title   string `json:"title"`
		JoinURL string `json:"joinUrl"`
		Start   string `json:"startTime"`
		End     string `json:"endTime"`
	}
	if !decode(a, &wire) {
		return connector.Meeting{}, false
	}
	m := connector.Meeting{ID: wire.ID, Type: wire.Type, Title: wire.Title, JoinURL: wire.JoinURL, Conversation: a.Conversation.ID}
	m.Start, _ = time.Parse(time.RFC3339, wire.Start) // zero if there is none
	m.End, _ = time.Parse(time.RFC3339, wire.End)
	return m, true
}

func readPeople(a *activity.Activity) ([]connector.Participant, bool) {
	var wire struct {
		Members []connector.Participant `json:"members"`
	}
	ok := decode(a, &wire)
	return wire.Members, ok && len(wire.Members) > 0
}

func readReceipt(a *activity.Activity) (r ReadReceipt, ok bool) {
	ok = decode(a, &r)
	return r, ok && r.MessageID != ""
}

// inMeeting calls f with the id of the meeting that the turn's activity comes from.
func inMeeting[T any](t *turn.Turn, f func(c turn.Channel, id string) (T, error)) (none T, err error) {
	id := t.Activity.MeetingID()
	if id == "" {
		return none, errors.New("the activity comes from no meeting")
	}
	return f(turn.ChannelOf(t), id)
}

// The calls below are made at once, see [turn.ChannelOf]. Their errors are those of [connector.Client], but for a turn
// whose activity comes from no meeting.

// Meeting returns the details of the meeting that the turn's activity comes from, see [connector.Client.Meeting].
func Meeting(ctx context.Context, t *turn.Turn) (connector.Meeting, error) {
	return inMeeting(t, func(c turn.Channel, id string) (connector.Meeting, error) {
		return c.Meeting(ctx, t.Activity.Reference(), id)
	})
}

// MeetingParticipant returns a person of that meeting by their id in Microsoft Entra, such as
// Activity.From.AadObjectID, see [connector.Client.Participant].
func MeetingParticipant(ctx context.Context, t *turn.Turn, user string) (connector.Participant, error) {
	return inMeeting(t, func(c turn.Channel, id string) (connector.Participant, error) {
		return c.Participant(ctx, t.Activity.Reference(), id, user)
	})
}

// NotifyMeeting shows something to people in that meeting and returns those who are not shown it, see
// [connector.Client.NotifyMeeting].
func NotifyMeeting(ctx context.Context, t *turn.Turn, n connector.MeetingNotification) ([]connector.MeetingNotificationFailure, error) {
	return inMeeting(t, func(c turn.Channel, id string) ([]connector.MeetingNotificationFailure, error) {
		return c.NotifyMeeting(ctx, t.Activity.Reference(), id, n)
	})
}
