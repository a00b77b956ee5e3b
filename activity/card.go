package activity

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/internal/markdown"
)

// CardContentType is the content type of an Adaptive Card attachment.
const CardContentType = "application/vnd.microsoft.card.adaptive"

// Card is an Adaptive Card. Its elements are [TextBlock] and [RichText], and its actions are
// [Button]. For others of the schema (https://adaptivecards.io/explorer) use any value that encodes
// to their JSON, such as a map. Cards are only written, never read.
type Card struct {
	// Fallback is the text for clients that cannot draw cards. Required.
	Fallback string
	Body     []any
	Actions  []any
	// Refresh makes clients ask the bot for the card again when somebody opens the conversation: with
	// its Verb and Data, as a click would. nil: never.
	Refresh *Button
	// RefreshFor are the account ids, at most 60, of those whose clients do so. nil: everybody, in
	// conversations of up to 60 people.
	RefreshFor []string
	// For is the account id of the one person whose clicks on buttons with a Verb count, as on a card about
	// what is theirs alone. "": everybody's count. The bot tells others that it is for somebody else.
	For string
	// Version is the schema version that a client must support. "": 1.5.
	Version string
}

// ForMember has, in the data of a button, the person whose click counts, see [Card].For.
const ForMember = "planbot/for"

// Attachment returns the card as a part of a message. It panics if no client would accept the card,
// such as one without a fallback: that is a mistake in the code that builds it.
func (c Card) Attachment() Attachment {
	return Attachment{ContentType: CardContentType, Content: raw(c)}
}

// MarshalJSON writes the card. Template forms in its texts, {{…}} and ${…}, are shown as they stand: a
// client would show a date in place of {{DATE(…)}}, whoever wrote it. A picture in Markdown becomes its words
// and its host, and a link to anything but the web, mail and telephones becomes text.
func (c Card) MarshalJSON() ([]byte, error) {
	if strings.TrimSpace(c.Fallback) == "" {
		return nil, errors.New("a card without a fallback text")
	}
	const schema = "http://adaptivecards.io/schemas/adaptive-card.json"
	type refresh struct {
		Action  buttonAction `json:"action"`
		UserIDs []string     `json:"userIds,omitempty"`
	}
	var again *refresh
	if b := c.Refresh; b != nil {
		if b.Verb == "" || len(c.RefreshFor) > maxRefreshed {
			return nil, fmt.Errorf("a card that refreshes needs a verb, and names at most %d people", maxRefreshed)
		}
		again = &refresh{buttonAction{Type: "Action.Execute", Verb: b.Verb, Data: b.Data}, c.RefreshFor}
	}
	card, err := marshal(struct {
		Type     string   `json:"type"`
		Schema   string   `json:"$schema"`
		Version  string   `json:"version"`
		Fallback string   `json:"fallbackText"`
		Refresh  *refresh `json:"refresh,omitempty"`
		Body     []any    `json:"body"`
		Actions  []any    `json:"actions,omitempty"`
	}{"AdaptiveCard", schema, cmp.Or(c.Version, "1.5"), c.Fallback, again, c.Body, c.Actions})
	if err == nil && c.For != "" {
		card, err = WithData(card, ForMember, c.For)
	}
	if err != nil {
		return nil, err
	}
	return verbatim(card)
}

// WithData returns the JSON of a card with one more member in the data of all its buttons that ask the bot.
func WithData(card jsontext.Value, name string, value any) (jsontext.Value, error) {
	var tree any
	if err := json.Unmarshal(card, &tree, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	addData(tree, name, value)
	return marshal(tree)
}

func addData(part any, name string, value any) {
	switch p := part.(type) {
	case []any:
		for _, one := range p {
			addData(one, name, value)
		}
	case map[string]any:
		for member, one := range p {
			if member != "data" && member != "refresh" {
				addData(one, name, value)
			}
		}
		if kind := p["type"]; kind != "Action.Submit" && kind != "Action.Execute" {
			return
		}
		data, is := p["data"].(map[string]any)
		switch {
		case is:
			data[name] = value
		case p["data"] == nil:
			p["data"] = map[string]any{name: value}
		}
	}
}

// MarshalJSON writes the attachment. The texts of an Adaptive Card are written as in [Card.MarshalJSON].
func (a Attachment) MarshalJSON() ([]byte, error) {
	if strings.EqualFold(a.ContentType, CardContentType) {
		var err error
		if a.Content, err = verbatim(a.Content); err != nil {
			return nil, fmt.Errorf("write a card: %w", err)
		}
	}
	type plain Attachment
	return marshal(plain(a))
}

// verbatim breaks the template forms in the texts of a card, with a space of no width after their first
// character, and tames the Markdown in them. What clients send back, look up or copy stays: the data of buttons,
// values, ids and addresses.
func verbatim(card jsontext.Value) (jsontext.Value, error) {
	if !slices.ContainsFunc(tamed, func(form string) bool { return bytes.Contains(card, []byte(form)) }) {
		return card, nil
	}
	var out bytes.Buffer
	from := jsontext.NewDecoder(bytes.NewReader(card), jsontext.AllowInvalidUTF8(true))
	to := jsontext.NewEncoder(&out, jsontext.AllowInvalidUTF8(true))
	if err := copyVerbatim(to, from, "", false); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// tamed are what begins all that verbatim changes; with an escape, it may be anything.
var tamed = []string{"{{", "${", "![", "](", "]:", "<", `\u00`}

// sentBack are the members of a card's elements that no client shows as a text.
var sentBack = []string{"$schema", "codeSnippet", "data", "iconUrl", "id", "type", "url", "userIds", "value", "verb", "version"}

// asItStands are the members in which no text is read as Markdown: the runs of a [RichText], and buttons.
var asItStands = []string{"action", "actions", "inlineAction", "inlines", "selectAction"}

// copyVerbatim copies the next value, which belongs to the member of that name. mark says that a text in it is
// read as Markdown.
func copyVerbatim(to *jsontext.Encoder, from *jsontext.Decoder, member string, mark bool) error {
	kind := from.PeekKind()
	if kind != '{' && kind != '[' && kind != '"' {
		v, err := from.ReadValue()
		return errors.Join(err, to.WriteValue(v))
	}
	token, err := from.ReadToken()
	if err != nil {
		return err
	}
	if kind == '"' {
		text := token.String()
		if mark {
			text = markdown.Tame(text, nil)
		}
		return to.WriteToken(jsontext.String(breakForms(text)))
	}
	if err := to.WriteToken(token); err != nil {
		return err
	}
	for from.PeekKind() != '}' && from.PeekKind() != ']' {
		if err := copyMember(to, from, member, kind == '{'); err != nil {
			return err
		}
	}
	end, err := from.ReadToken()
	return errors.Join(err, to.WriteToken(end))
}

// copyMember copies an element of an array, or a member of an object, which is itself in the member of that
// name.
func copyMember(to *jsontext.Encoder, from *jsontext.Decoder, in string, named bool) error {
	if !named {
		return copyVerbatim(to, from, in, false)
	}
	token, err := from.ReadToken()
	if err != nil {
		return err
	}
	name := token.String()
	if err := to.WriteToken(jsontext.String(name)); err != nil {
		return err
	}
	if slices.Contains(sentBack, name) && (name != "value" || in != "facts") {
		v, err := from.ReadValue()
		return errors.Join(err, to.WriteValue(v))
	}
	return copyVerbatim(to, from, name, !slices.Contains(asItStands, in))
}

// breakForms breaks the template forms in a text.
func breakForms(text string) string {
	if !strings.Contains(text, "{{") && !strings.Contains(text, "${") {
		return text
	}
	var s strings.Builder
	var last rune
	for _, r := range text {
		if r == '{' && (last == '{' || last == '$') {
			s.WriteRune('\u200b')
		}
		s.WriteRune(r)
		last = r
	}
	return s.String()
}

const maxRefreshed = 60 // how many people a card may name whose clients refresh it

// TextBlock is a text with the little Markdown that cards support. Show what people or models wrote
// in a [RichText] instead: it ignores Markdown. Empty Size, Weight and Color are the client's
// defaults; the schema lists the other values.
type TextBlock struct {
	Text   string
	Size   string
	Weight string
	Color  string
	Subtle bool
	Mono   bool // in a fixed-width font
}

// element is a text in the form that cards use.
type element struct {
	Type    string    `json:"type"`
	Text    string    `json:"text,omitempty"`
	Size    string    `json:"size,omitempty"`
	Weight  string    `json:"weight,omitempty"`
	Color   string    `json:"color,omitempty"`
	Subtle  bool      `json:"isSubtle,omitzero"`
	Font    string    `json:"fontType,omitempty"`
	Wrap    bool      `json:"wrap,omitzero"`
	Inlines []element `json:"inlines,omitempty"`
}

func (t TextBlock) element(kind string) element {
	e := element{Type: kind, Text: t.Text, Size: t.Size, Weight: t.Weight, Color: t.Color, Subtle: t.Subtle}
	if t.Mono {
		e.Font = "monospace"
	}
	return e
}

// MarshalJSON writes the element.
func (t TextBlock) MarshalJSON() ([]byte, error) {
	e := t.element("TextBlock")
	e.Wrap = true
	return marshal(e)
}

// RichText is a line of texts shown verbatim, Markdown included.
type RichText []TextBlock

// MarshalJSON writes the element.
func (r RichText) MarshalJSON() ([]byte, error) {
	e := element{Type: "RichTextBlock"}
	for _, t := range r {
		e.Inlines = append(e.Inlines, t.element("TextRun"))
	}
	return marshal(e)
}

// Button is an action of a card. With a Verb, a click asks the bot, which answers it. Clients
// without Action.Execute send a message instead, with the verb as a member of its data. Without a
// Verb, a click sends a message without text and with the data as its value. In both cases the
// card's inputs are sent too.
type Button struct {
	Title string
	Verb  string // identifies the button
	Data  any    // with a Verb, an object (a map or a struct) or nil
	Style string // "positive", "destructive" or ""
	Bare  bool   // without the card's inputs, which may then be left empty
}

// buttonAction is a button in the form that cards use.
type buttonAction struct {
	Type     string        `json:"type"`
	Title    string        `json:"title,omitempty"`
	Verb     string        `json:"verb,omitempty"`
	Style    string        `json:"style,omitempty"`
	Data     any           `json:"data,omitzero"`
	Inputs   string        `json:"associatedInputs,omitempty"`
	Fallback *buttonAction `json:"fallback,omitempty"`
}

// MarshalJSON writes the action.
func (b Button) MarshalJSON() ([]byte, error) {
	submit := buttonAction{Type: "Action.Submit", Title: b.Title, Style: b.Style, Data: b.Data}
	if b.Bare {
		submit.Inputs = "none"
	}
	if b.Verb == "" {
		return marshal(submit)
	}
	data, err := marshal(b.Data)
	members := map[string]jsontext.Value{}
	if err == nil {
		err = json.Unmarshal(data, &members, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return nil, fmt.Errorf("data of the button %s: %w", b.Verb, err)
	}
	if members == nil { // data was null
		members = map[string]jsontext.Value{}
	}
	members["verb"] = raw(b.Verb)
	submit.Data = members
	return marshal(buttonAction{"Action.Execute", b.Title, b.Verb, b.Style, b.Data, submit.Inputs, &submit})
}

func marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// raw encodes v. It cannot fail unless the code that made v is wrong.
func raw(v any) jsontext.Value {
	out, err := marshal(v)
	if err != nil {
		panic("activity: " + err.Error())
	}
	return out
}
