package activity

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CardContentType is the content type of an Adaptive Card attachment.
const CardContentType = "application/vnd.microsoft.card.adaptive"

const (
	cardSchema  = "http://adaptivecards.io/schemas/adaptive-card.json"
	cardVersion = "1.5" // Teams draws it everywhere
)

// Card is an Adaptive Card. [NewCard] makes one. Its elements are [TextBlock] and [RichText],
// its actions [Execute] and [Submit]; any other of the schema
// (https://adaptivecards.io/explorer) is a value that is written as its JSON, such as a map.
// A card is written as JSON, never read.
type Card struct {
	// Fallback is the text for clients that draw no cards. Required.
	Fallback string
	Body     []any
	Actions  []any
	// Version of the schema that a client has to know. "": 1.5.
	Version string
}

// NewCard returns a card with these elements. fallback says in words what it shows.
func NewCard(fallback string, body ...any) Card { return Card{Fallback: fallback, Body: body} }

// With returns a copy of the card with these actions after its own.
func (c Card) With(actions ...any) Card {
	c.Actions = append(c.Actions[:len(c.Actions):len(c.Actions)], actions...)
	return c
}

// Attachment returns the card as a part of a message. It panics when the card is wrong in
// a way that no client accepts, such as an Execute without a verb: that is a mistake in
// the code that builds it.
func (c Card) Attachment() Attachment {
	return Attachment{ContentType: CardContentType, Content: raw(c)}
}

// MarshalJSON writes the card.
func (c Card) MarshalJSON() ([]byte, error) {
	if strings.TrimSpace(c.Fallback) == "" {
		return nil, errors.New("a card without a fallback text")
	}
	wire := struct {
		Type     string `json:"type"`
		Schema   string `json:"$schema"`
		Version  string `json:"version"`
		Fallback string `json:"fallbackText"`
		Body     []any  `json:"body"`
		Actions  []any  `json:"actions,omitempty"`
	}{"AdaptiveCard", cardSchema, cmp.Or(c.Version, cardVersion), c.Fallback, c.Body, c.Actions}
	return marshal(&wire)
}

// TextBlock is a text with the little Markdown that cards know. Show what people or models
// wrote in a [RichText] instead: it ignores Markdown. The empty Size, Weight and Color are
// the client's defaults; the schema lists the others.
type TextBlock struct {
	Text   string `json:"text"`
	Size   string `json:"size,omitempty"`
	Weight string `json:"weight,omitempty"`
	Color  string `json:"color,omitempty"`
	Subtle bool   `json:"isSubtle,omitzero"`
}

// MarshalJSON writes the element.
func (t TextBlock) MarshalJSON() ([]byte, error) {
	type fields TextBlock
	return marshal(struct {
		Type string `json:"type"`
		fields
		Wrap bool `json:"wrap"`
	}{"TextBlock", fields(t), true})
}

// RichText is a line of texts that are shown as they are, Markdown included.
type RichText []TextRun

// TextRun is a part of a [RichText].
type TextRun struct {
	Text   string
	Size   string
	Weight string
	Subtle bool
	Mono   bool // in a font of fixed width
}

// MarshalJSON writes the element.
func (r RichText) MarshalJSON() ([]byte, error) {
	type run struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Size   string `json:"size,omitempty"`
		Weight string `json:"weight,omitempty"`
		Subtle bool   `json:"isSubtle,omitzero"`
		Font   string `json:"fontType,omitempty"`
	}
	wire := struct {
		Type    string `json:"type"`
		Inlines []run  `json:"inlines"`
	}{Type: "RichTextBlock"}
	for _, t := range r {
		font := ""
		if t.Mono {
			font = "monospace"
		}
		wire.Inlines = append(wire.Inlines, run{"TextRun", t.Text, t.Size, t.Weight, t.Subtle, font})
	}
	return marshal(&wire)
}

// Execute is a button that asks the bot, which answers the click. Clients that do not know
// Action.Execute get an Action.Submit with the verb as a member of its data.
type Execute struct {
	Title string
	Verb  string // says which button it is; required
	// Data comes with the click, along with the values of the card's inputs. It is an
	// object (a map or a struct) or nil.
	Data  any
	Style string // "positive", "destructive" or ""
}

// MarshalJSON writes the action.
func (e Execute) MarshalJSON() ([]byte, error) {
	if e.Verb == "" {
		return nil, errors.New("an Action.Execute without a verb")
	}
	var members map[string]jsontext.Value
	data, err := marshal(e.Data)
	if err == nil {
		err = json.Unmarshal(data, &members, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return nil, fmt.Errorf("data of the action %s: %w", e.Verb, err)
	}
	if members == nil {
		members, data = map[string]jsontext.Value{}, nil
	}
	members["verb"] = raw(e.Verb)
	return marshal(struct {
		Type     string         `json:"type"`
		Title    string         `json:"title,omitempty"`
		Verb     string         `json:"verb"`
		Style    string         `json:"style,omitempty"`
		Data     jsontext.Value `json:"data,omitzero"`
		Fallback Submit         `json:"fallback"`
	}{"Action.Execute", e.Title, e.Verb, e.Style, data, Submit{e.Title, members, e.Style}})
}

// Submit is a button that sends its data, and the values of the card's inputs, as a
// message without a text.
type Submit struct {
	Title string `json:"title,omitempty"`
	Data  any    `json:"data,omitempty"`
	Style string `json:"style,omitempty"`
}

// MarshalJSON writes the action.
func (s Submit) MarshalJSON() ([]byte, error) {
	type fields Submit
	return marshal(struct {
		Type string `json:"type"`
		fields
	}{"Action.Submit", fields(s)})
}

func marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// raw writes what is JSON but for a mistake in the code that made it.
func raw(v any) jsontext.Value {
	out, err := marshal(v)
	if err != nil {
		panic("activity: " + err.Error())
	}
	return out
}
