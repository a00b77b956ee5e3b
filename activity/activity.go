// Package activity holds what travels between a channel and the bot: the Bot
// Framework activity and its parts, read and written without loss.
//
// It stands on the schema types of msbotbuilder-go where those fit the wire.
// Where they do not (entities, value and channelData lose or refuse ordinary
// input there, and zero values are written out), the types here keep the raw
// JSON and every field that they do not know.
//
// The rules are those of the Bot Framework activity specification
// (https://github.com/microsoft/botframework-sdk, specs/botframework-activity).
package activity

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/infracloudio/msbotbuilder-go/schema"
)

// Type is the kind of an activity; unknown kinds are kept as they came.
type Type = schema.ActivityTypes

// The activity types that Planbot routes. Others are accepted and ignored.
const (
	Message            = schema.Message
	MessageUpdate      = schema.MessageUpdate
	MessageDelete      = schema.MessageDelete
	MessageReaction    = schema.MsgReaction
	ConversationUpdate = schema.ConversationUpdate
	InstallationUpdate = schema.InstallationUpdate
	Typing             = schema.Typing
	Event              = schema.Event
	Invoke             = schema.Invoke
	EndOfConversation  = schema.EndOfConversation
	Trace              = schema.Trace
)

// ExpectReplies is the delivery mode in which the replies of a turn travel in
// the HTTP response instead of through the connector.
const ExpectReplies = "expectReplies"

// Teams is the channel id of Microsoft Teams.
const Teams = "msteams"

// Activity is one event of a conversation, inbound or outbound. Its zero value
// is an empty activity; what is zero is not written. Fields that the type does
// not name survive a round trip in Extra. An Activity is not safe for
// concurrent changes.
type Activity struct {
	Type         Type         `json:"type,omitempty"`
	ID           string       `json:"id,omitempty"`
	ChannelID    string       `json:"channelId,omitempty"`
	ServiceURL   string       `json:"serviceUrl,omitempty"`
	From         Account      `json:"from,omitempty"`
	Recipient    Account      `json:"recipient,omitempty"`
	Conversation Conversation `json:"conversation,omitempty"`
	ReplyToID    string       `json:"replyToId,omitempty"`
	// CallerID says who delivered an inbound activity. The receiver sets it, from what
	// was proved: Decode empties it, whatever came.
	CallerID string `json:"callerId,omitempty"`

	Text       string `json:"text,omitempty"`
	TextFormat string `json:"textFormat,omitempty"`
	Summary    string `json:"summary,omitempty"`
	Locale     string `json:"locale,omitempty"`
	InputHint  string `json:"inputHint,omitempty"`

	// Name of an invoke or event; Action of an installation update.
	Name         string `json:"name,omitempty"`
	Action       string `json:"action,omitempty"`
	DeliveryMode string `json:"deliveryMode,omitempty"`

	MembersAdded     []Account  `json:"membersAdded,omitempty"`
	MembersRemoved   []Account  `json:"membersRemoved,omitempty"`
	ReactionsAdded   []Reaction `json:"reactionsAdded,omitempty"`
	ReactionsRemoved []Reaction `json:"reactionsRemoved,omitempty"`

	// Entities are kept raw: each is an object with a type of the channel's
	// choosing. Mentions reads the ones that matter here.
	Entities         []jsontext.Value  `json:"entities,omitempty"`
	Attachments      []Attachment      `json:"attachments,omitempty"`
	SuggestedActions *SuggestedActions `json:"suggestedActions,omitempty"`

	// Value and ChannelData are any JSON, as they came.
	Value       jsontext.Value `json:"value,omitzero"`
	ChannelData jsontext.Value `json:"channelData,omitzero"`

	// Extra holds the fields that have no name above, the channel's times among them.
	Extra jsontext.Value `json:",embed"`
}

// Account is a user or a bot on a channel.
type Account struct {
	schema.ChannelAccount
	Extra jsontext.Value `json:",embed"`
}

// Conversation identifies where an activity happened.
type Conversation struct {
	schema.ConversationAccount
	Extra jsontext.Value `json:",embed"`
}

// Reaction is one reaction to a message; Teams sends any string as its type.
type Reaction struct {
	Type  string         `json:"type,omitempty"`
	Extra jsontext.Value `json:",embed"`
}

// Attachment is a card, a file or a picture of a message.
type Attachment struct {
	ContentType  string         `json:"contentType,omitempty"`
	ContentURL   string         `json:"contentUrl,omitempty"`
	Content      jsontext.Value `json:"content,omitzero"`
	Name         string         `json:"name,omitempty"`
	ThumbnailURL string         `json:"thumbnailUrl,omitempty"`
	Extra        jsontext.Value `json:",embed"`
}

// SuggestedActions are buttons under a message that send their value as text.
type SuggestedActions struct {
	To      []string         `json:"to,omitempty"`
	Actions []jsontext.Value `json:"actions,omitempty"`
	Extra   jsontext.Value   `json:",embed"`
}

// NewAccount returns an account with an id and a display name.
func NewAccount(id, name string) Account {
	return Account{ChannelAccount: schema.ChannelAccount{ID: id, Name: name}}
}
