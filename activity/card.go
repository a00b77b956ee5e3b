package activity

import (
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
	cardVersion = "1.5" // which Teams draws everywhere

	maxRefreshers = 60
)

// Card is an Adaptive Card. [NewCard] makes one, with the text for clients that draw
// none, which every card needs. The types of its elements and actions are the usual ones
// of the schema (https://adaptivecards.io/explorer); [RawElement] and [RawAction] are any
// other. A card is written as JSON, not read: state keeps what it shows instead.
type Card struct {
	// Fallback is the text where the card is not drawn.
	Fallback string
	Body     []Element
	Actions  []Action
	// Version is the one of the schema that a client has to know. "": 1.5.
	Version string
	// FullWidth lets the card take all of the width that Teams has.
	FullWidth bool
	// Mentions are people whose names the card shows as <at>Name</at>.
	Mentions []Account
	// Refresh has Teams ask the bot for the card as it is now, for some of its readers.
	Refresh *Refresh
}

// Refresh is the action that Teams does by itself when one of the users, at most 60,
// sees the card; it comes with the trigger "automatic".
type Refresh struct {
	Action  Execute  `json:"action"`
	UserIDs []string `json:"userIds,omitempty"`
}

// Element is a part of a card's body.
type Element interface{ element() }

// Action is a button of a card.
type Action interface{ action() }

// NewCard returns a card with these elements. fallback says in words what it shows.
func NewCard(fallback string, body ...Element) Card { return Card{Fallback: fallback, Body: body} }

// With returns the card with these actions behind those that it has.
func (c Card) With(actions ...Action) Card {
	c.Actions = append(c.Actions[:len(c.Actions):len(c.Actions)], actions...)
	return c
}

// Attachment is the card as a part of a message. It panics when the card has a mistake
// that no client could live with, such as an Execute without a verb: that is a mistake
// in the code that builds it.
func (c Card) Attachment() Attachment { return RawCard(c) }

// RawCard is an Adaptive Card that was built otherwise, as JSON. It panics when content
// cannot be written as that.
func RawCard(content any) Attachment {
	out, err := json.Marshal(content, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("activity: card: " + err.Error())
	}
	return Attachment{ContentType: CardContentType, Content: out}
}

// MarshalJSON writes the card.
func (c Card) MarshalJSON() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	wire := struct {
		Type     string    `json:"type"`
		Schema   string    `json:"$schema"`
		Version  string    `json:"version"`
		Fallback string    `json:"fallbackText"`
		Body     []Element `json:"body"`
		Actions  []Action  `json:"actions,omitempty"`
		Refresh  *Refresh  `json:"refresh,omitempty"`
		Teams    *forTeams `json:"msteams,omitempty"`
	}{
		"AdaptiveCard", cardSchema, cardVersion, c.Fallback, c.Body, c.Actions, c.Refresh, c.teams(),
	}
	if c.Version != "" {
		wire.Version = c.Version
	}
	return json.Marshal(&wire, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

func (c *Card) check() error {
	if strings.TrimSpace(c.Fallback) == "" {
		return errors.New("a card without a fallback text")
	}
	if c.Refresh != nil && len(c.Refresh.UserIDs) > maxRefreshers {
		return fmt.Errorf("a card that refreshes for %d users, %d are the most", len(c.Refresh.UserIDs), maxRefreshers)
	}
	return nil
}

// forTeams is what only Teams reads of a card.
type forTeams struct {
	Width    string           `json:"width,omitempty"`
	Entities []jsontext.Value `json:"entities,omitempty"`
}

func (c *Card) teams() *forTeams {
	var t forTeams
	if c.FullWidth {
		t.Width = "Full"
	}
	var m Activity
	for _, who := range c.Mentions {
		m.At(who)
	}
	if t.Entities = m.Entities; t.Width == "" && t.Entities == nil {
		return nil
	}
	return &t
}

// typed writes v, a struct, with its type as the first member.
func typed(name string, v any) ([]byte, error) {
	members, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := append([]byte(`{"type":"`), name...)
	out = append(out, '"')
	if len(members) > len(`{}`) {
		out = append(out, ',')
	}
	return append(out, members[1:]...), nil
}
