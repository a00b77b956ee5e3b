package teams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
)

// Answer is what a handler shows. Set one of Form, Message, Items, Preview and Settings; an answer
// that Teams would refuse is an error of the handler. The zero value closes a dialog, or finds
// nothing.
type Answer struct {
	// Form is the dialog to show next.
	Form *Form
	// Message is a sentence in place of a form or of results.
	Message string
	// Items are results of the message extension. A link, a selected item and an action have at most
	// one.
	Items []Item
	// Grid shows the results as tiles.
	Grid bool
	// NoCache says that Teams asks again each time that the link is written. Else it keeps the answer
	// for half an hour.
	NoCache bool
	// Preview is a card that the person sees before the bot posts it, see [Command].Send.
	Preview any
	// Settings is the address of a page that the person has to fill in before the command works.
	Settings string
}

// Form is a dialog: a card, or a page. Set one of Card and URL.
type Form struct {
	Title string
	// Height and Width are small, medium, large or a number of pixels. "": Teams decides.
	Height, Width string
	// Card is an [activity.Card], or any value that encodes to the JSON of an Adaptive Card. Its
	// Action.Submit sends the inputs; its data has the verb of the dialog.
	Card any
	// URL is the https address of a page whose host is in the manifest's valid domains. FallbackURL
	// opens in a browser where a client has no dialogs. CompletionBotID is the bot that gets what the
	// page submits; "": this one.
	URL, FallbackURL, CompletionBotID string
}

// Item is a result of the message extension.
type Item struct {
	// Card is what is put into the message: an [activity.Card], any value that encodes to the JSON of
	// an Adaptive Card, or an [activity.Attachment] of another kind. For a link, Teams shows nothing of a
	// version above 1.3, which is that of an [activity.Card] without one.
	Card any
	// Title, Text and Image, an https address, are how the item looks in a list. A query and a link
	// require a Title.
	Title, Text, Image string
	// Tap is what [Extension].Select gets when the item is chosen. nil: Card is used as it is.
	Tap any
}

// Limits of what an answer shows in one line, in UTF-16 code units: what is longer is cut, as clients do.
const (
	maxFormTitle = 128
	maxItemTitle = 256
	maxItemText  = 1000
	maxChoice    = 256
)

const thumbnail = "application/vnd.microsoft.card.thumbnail"

// attachment is a card on the wire.
type attachment struct {
	Type    string         `json:"contentType"`
	Content jsontext.Value `json:"content,omitzero"`
	URL     string         `json:"contentUrl,omitzero"`
	Name    string         `json:"name,omitzero"`
	Preview *attachment    `json:"preview,omitempty"`
}

// The newest versions of Adaptive Cards that Teams shows. It shows nothing in place of newer ones.
const (
	newestCard    = "1.5"
	newestPreview = "1.3" // of a link
)

// cardOf writes a card with the attachment around it. A card that names no version gets this one, and one of a
// version that Teams shows nothing of is an error.
func cardOf(card any, version string) (a attachment, err error) {
	switch c := card.(type) {
	case activity.Attachment:
		raw, err := json.Marshal(c)
		if err == nil {
			err = json.Unmarshal(raw, &a)
		}
		if err == nil && a.Type == activity.CardContentType {
			err = checkVersion(a.Content, newestCard)
		}
		return a, err
	case *activity.Card:
		if c == nil {
			return a, errors.New("the card is nil")
		}
		return cardOf(*c, version)
	case activity.Card:
		c.Version = cmp.Or(c.Version, version)
		card = c
	}
	raw, err := json.Marshal(card, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return a, fmt.Errorf("write the card: %w", err)
	}
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &kind) != nil || kind.Type != "AdaptiveCard" {
		return a, errors.New("the card is no Adaptive Card")
	}
	return cardOf(activity.Attachment{ContentType: activity.CardContentType, Content: raw}, version)
}

// checkVersion refuses a card that is newer than that.
func checkVersion(card jsontext.Value, newest string) error {
	var has struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(card, &has) != nil {
		return errors.New("the version of the card is no text")
	}
	if has.Version == "" {
		return nil
	}
	major, minor, _ := strings.Cut(has.Version, ".")
	is, err := strconv.Atoi(cmp.Or(minor, "0"))
	most, _ := strconv.Atoi(newest[len("1."):])
	if major != "1" || err != nil || is > most {
		return fmt.Errorf("the card has the version %.20q; Teams shows nothing there that is newer than %s", has.Version, newest)
	}
	return nil
}

// formBody is a form on the wire.
type formBody struct {
	Title         string         `json:"title,omitempty"`
	Height        jsontext.Value `json:"height,omitzero"`
	Width         jsontext.Value `json:"width,omitzero"`
	Card          *attachment    `json:"card,omitempty"`
	URL           string         `json:"url,omitempty"`
	FallbackURL   string         `json:"fallbackUrl,omitempty"`
	CompletionBot string         `json:"completionBotId,omitempty"`
}

func (f *Form) body() (b formBody, err error) {
	b = formBody{Title: spelling.Cut(f.Title, maxFormTitle), URL: f.URL, FallbackURL: f.FallbackURL, CompletionBot: f.CompletionBotID}
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if b.Height, err = pixels(f.Height); err != nil {
		refuse("the Height %w", err)
	}
	if b.Width, err = pixels(f.Width); err != nil {
		refuse("the Width %w", err)
	}
	if (f.Card == nil) == (f.URL == "") {
		refuse("it needs either a Card or a URL")
	}
	for _, address := range []string{f.URL, f.FallbackURL} {
		if address != "" && !isWeb(address, "https") {
			refuse("%.100q is no https address", address)
		}
	}
	if f.Card != nil {
		card, err := cardOf(f.Card, newestCard)
		if err != nil {
			refuse("%w", err)
		}
		b.Card = &card
	}
	if err := errors.Join(faults...); err != nil {
		return b, fmt.Errorf("the form: %w", err)
	}
	return b, nil
}

// pixels writes the size of a form.
func pixels(size string) (jsontext.Value, error) {
	const most = 10_000
	switch size {
	case "":
		return nil, nil
	case "small", "medium", "large":
		return jsontext.Value(`"` + size + `"`), nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > most {
		return nil, fmt.Errorf("%.20q is neither small, medium, large nor a number of pixels", size)
	}
	return jsontext.Value(strconv.Itoa(n)), nil
}

// task is the answer of a dialog on the wire, or its part in another answer.
type task struct {
	Type  string `json:"type"`
	Value any    `json:"value,omitempty"`
}

type taskAnswer struct {
	Task task `json:"task"`
}

func taskMessage(text string) any { return taskAnswer{task{"message", text}} }

// next returns what a dialog shows next. It returns false if it shows nothing.
func (a Answer) next() (task, bool, error) {
	switch {
	case len(a.Items) > 0 || a.Preview != nil || a.Settings != "":
		return task{}, false, errors.New("a dialog answers with a Form, a Message or nothing")
	case a.Form != nil && a.Message != "":
		return task{}, false, errors.New("an answer with a Form and a Message")
	case a.Form != nil:
		form, err := a.Form.body()
		return task{"continue", form}, true, err
	case a.Message != "":
		return task{"message", a.Message}, true, nil
	}
	return task{}, false, nil
}

func taskBody(a Answer) (any, error) {
	next, any, err := a.next()
	if err != nil || !any {
		return nil, err
	}
	return taskAnswer{next}, nil
}

// fetchBody is taskBody of an invoke that asks for a form.
func fetchBody(a Answer) (any, error) {
	body, err := taskBody(a)
	if err == nil && body == nil {
		err = errors.New("an answer without a Form or a Message where a form is asked for")
	}
	return body, err
}

type configAnswer struct {
	Response string `json:"responseType"`
	Config   any    `json:"config"`
}

func configMessage(text string) any { return configAnswer{"config", task{"message", text}} }

func configSignIn(title, url string) any {
	return configAnswer{"config", composed{Type: "auth", Suggested: openPage(title, url)}}
}

// configBody is the answer of the bot's settings.
func configBody(a Answer) (any, error) {
	next, any, err := a.next()
	if err != nil || !any {
		return nil, err
	}
	return configAnswer{"config", next}, nil
}

// composed is the answer of the message extension on the wire.
type composed struct {
	Type      string       `json:"type"`
	Layout    string       `json:"attachmentLayout,omitempty"`
	Items     []attachment `json:"attachments,omitzero"`
	Text      string       `json:"text,omitempty"`
	Suggested any          `json:"suggestedActions,omitempty"`
	Preview   any          `json:"activityPreview,omitempty"`
}

type composeAnswer struct {
	Compose composed `json:"composeExtension"`
}

func composeMessage(text string) any { return composeAnswer{composed{Type: "message", Text: text}} }

func composeSignIn(title, url string) any {
	return composeAnswer{composed{Type: "auth", Suggested: openPage(title, url)}}
}

// noResult is what a link gets that shows no card.
func noResult(string) any {
	return composeAnswer{composed{Type: "result", Layout: "list", Items: []attachment{}}}
}

type suggestion struct {
	Type  string `json:"type"`
	Title string `json:"title,omitempty"`
	Value string `json:"value"`
}

func suggest(s suggestion) any {
	return struct {
		Actions []suggestion `json:"actions"`
	}{[]suggestion{s}}
}

func openPage(title, url string) any { return suggest(suggestion{"openUrl", title, url}) }

// shape says what the items of an answer are: at most one, with a title, the preview of a link, for somebody
// unknown.
type shape struct{ one, listed, preview, anonymous bool }

func (s shape) results(a Answer) (any, error) {
	parts := 0
	for _, set := range []bool{len(a.Items) > 0, a.Message != "", a.Settings != ""} {
		if set {
			parts++
		}
	}
	switch {
	case a.Form != nil || a.Preview != nil || parts > 1:
		return nil, errors.New("a search answers with Items, a Message or Settings")
	case s.one && len(a.Items) > 1:
		return nil, errors.New("an answer with more than one Item")
	case s.anonymous && parts > 0 && len(a.Items) == 0:
		return nil, errors.New("an answer to somebody unknown has Items only")
	case a.Message != "":
		return composeMessage(a.Message), nil
	case a.Settings != "":
		return settingsBody(a.Settings)
	}
	out := composed{Type: "result", Layout: "list", Items: []attachment{}}
	if a.Grid {
		out.Layout = "grid"
	}
	if a.NoCache {
		out.Suggested = suggest(suggestion{Type: "setCachePolicy", Value: `{"type":"no-cache"}`})
	}
	for i, item := range a.Items {
		card, err := s.item(item)
		if err != nil {
			return nil, fmt.Errorf("the item %d: %w", i+1, err)
		}
		out.Items = append(out.Items, card)
	}
	return composeAnswer{out}, nil
}

func (s shape) item(item Item) (card attachment, err error) {
	version := newestCard
	if s.preview {
		version = newestPreview
	}
	if card, err = cardOf(item.Card, version); err != nil {
		return card, err
	}
	if s.anonymous && strings.Contains(string(card.Content), `"Action.Execute"`) {
		return card, errors.New("a card for somebody unknown has an Action.Execute")
	}
	if item.Image != "" && !isWeb(item.Image, "https", "data") {
		return card, fmt.Errorf("the Image %.100q is no https address", item.Image)
	}
	if item.Title == "" {
		if s.listed {
			return card, errors.New("it has no Title")
		}
		return card, nil
	}
	type image struct {
		URL string `json:"url"`
	}
	type tap struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
	}
	look := struct {
		Title  string  `json:"title"`
		Text   string  `json:"text,omitempty"`
		Images []image `json:"images,omitempty"`
		Tap    *tap    `json:"tap,omitempty"`
	}{Title: spelling.Cut(item.Title, maxItemTitle), Text: spelling.Cut(item.Text, maxItemText)}
	if item.Image != "" {
		look.Images = []image{{item.Image}}
	}
	if item.Tap != nil {
		look.Tap = &tap{"invoke", item.Tap}
	}
	content, err := json.Marshal(look, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	card.Preview = &attachment{Type: thumbnail, Content: content}
	return card, err
}

// settingsBody sends the person to the page with the settings of the message extension.
func settingsBody(address string) (any, error) {
	if !isWeb(address, "https") {
		return nil, fmt.Errorf("the settings page %.100q is no https address", address)
	}
	return composeAnswer{composed{Type: "config", Suggested: openPage("", address)}}, nil
}

func actionBody(a Answer) (any, error) {
	switch {
	case a.Preview != nil && (a.Form != nil || a.Message != "" || len(a.Items) > 0 || a.Settings != ""):
		return nil, errors.New("an answer with a Preview and something else")
	case a.Preview != nil:
		card, err := cardOf(a.Preview, newestCard)
		return composeAnswer{composed{Type: "botMessagePreview", Preview: struct {
			Type        string       `json:"type"`
			Attachments []attachment `json:"attachments"`
		}{"message", []attachment{card}}}}, err
	case len(a.Items) > 0 || a.Settings != "":
		return shape{one: true}.results(a)
	}
	return taskBody(a)
}

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

const maxLateForm = 20 << 10 // limits such a form, in bytes: Teams takes 28 KB of a card

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

const originMember = turn.OwnVerbs + "of" // has the origin of a form in the data of its buttons

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
