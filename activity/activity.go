// Package activity has the types that travel between a channel and the bot: the Bot Framework
// activity and its parts, read and written without loss.
//
// It uses the schema types of msbotbuilder-go where those fit the wire. Elsewhere they lose or
// refuse ordinary input (in entities, value and channelData) and write zero values, so the types
// here keep the raw JSON and every field that they do not know.
//
// The rules are those of the Bot Framework activity specification
// (https://github.com/microsoft/botframework-sdk, specs/botframework-activity).
package activity

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	library "github.com/infracloudio/msbotbuilder-go/core/activity"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Type is the kind of an activity; unknown kinds are kept as received.
type Type = schema.ActivityTypes

// The activity types that Planbot handles. Others keep their wire names.
const (
	Message            = schema.Message
	ConversationUpdate = schema.ConversationUpdate
	InstallationUpdate = schema.InstallationUpdate
	Typing             = schema.Typing
	Event              = schema.Event
	Invoke             = schema.Invoke

	// MessageUpdate and MessageDelete say that the message with the activity's id was edited or
	// deleted. A bot that sends one edits or deletes its own message.
	MessageUpdate Type = "messageUpdate"
	MessageDelete Type = "messageDelete"
)

const (
	// ExpectReplies is the delivery mode that returns a turn's replies in the HTTP response instead
	// of through the connector.
	ExpectReplies = "expectReplies"
	// Teams is the channel id of Microsoft Teams.
	Teams       = "msteams"
	maxIDBytes  = 1 << 10 // of an activity, account, channel or conversation
	maxDepth    = 64      // levels of nested JSON
	maxValues   = 1 << 16 // values in the JSON, including nested ones
	maxMentions = 200     // entities of one activity that we look at

	threadMark = ";messageid="
	// callerApp is the prefix of a bot's callerId (activity specification, appendix V).
	callerApp = "urn:botframework:aadappid:"
)

// Activity is one event of a conversation, inbound or outbound. Its zero value is an empty
// activity; zero fields are not written. Unknown fields survive a round trip in Extra. Do not
// change an Activity concurrently.
type Activity struct {
	Type         Type         `json:"type,omitempty"`
	ID           string       `json:"id,omitempty"`
	ChannelID    string       `json:"channelId,omitempty"`
	ServiceURL   string       `json:"serviceUrl,omitempty"`
	From         Account      `json:"from,omitempty"`
	Recipient    Account      `json:"recipient,omitempty"`
	Conversation Conversation `json:"conversation,omitempty"`
	ReplyToID    string       `json:"replyToId,omitempty"`
	// CallerID says who delivered an inbound activity. The receiver sets it after authentication;
	// Decode drops the received value.
	CallerID string `json:"callerId,omitempty"`

	Text       string `json:"text,omitempty"`
	TextFormat string `json:"textFormat,omitempty"`
	Summary    string `json:"summary,omitempty"`
	Locale     string `json:"locale,omitempty"`

	// Name belongs to an invoke or event, Action to an installation update.
	Name         string `json:"name,omitempty"`
	Action       string `json:"action,omitempty"`
	DeliveryMode string `json:"deliveryMode,omitempty"`

	MembersAdded     []Account  `json:"membersAdded,omitempty"`
	MembersRemoved   []Account  `json:"membersRemoved,omitempty"`
	ReactionsAdded   []Reaction `json:"reactionsAdded,omitempty"`
	ReactionsRemoved []Reaction `json:"reactionsRemoved,omitempty"`

	// Entities are raw: each is an object with a type that the channel chose. Mentions reads the
	// ones that matter here.
	Entities         []jsontext.Value  `json:"entities,omitempty"`
	Attachments      []Attachment      `json:"attachments,omitempty"`
	SuggestedActions *SuggestedActions `json:"suggestedActions,omitempty"`

	// Value and ChannelData are any JSON, as received.
	Value       jsontext.Value `json:"value,omitzero"`
	ChannelData jsontext.Value `json:"channelData,omitzero"`

	// Extra has the fields without a name above, such as the channel's times.
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

// Personal reports whether the conversation is between one person and the bot. A conversation with
// neither a type nor a group flag is personal.
func (c *Conversation) Personal() bool {
	return c.ConversationType == "personal" || c.ConversationType == "" && !c.IsGroup
}

// BaseID is the conversation's id without its thread. In a Teams channel that is the channel's id
// ("19:…@thread.tacv2" of "19:…@thread.tacv2;messageid=1").
func (c *Conversation) BaseID() string {
	base, _, _ := strings.Cut(c.ID, threadMark)
	return base
}

// Reaction is one reaction to a message; in Teams its type can be any string.
type Reaction struct {
	Type  string         `json:"type,omitempty"`
	Extra jsontext.Value `json:",embed"`
}

// Attachment is a message's card, file or picture.
type Attachment struct {
	ContentType string         `json:"contentType,omitempty"`
	ContentURL  string         `json:"contentUrl,omitempty"`
	Content     jsontext.Value `json:"content,omitzero"`
	Name        string         `json:"name,omitempty"`
	Extra       jsontext.Value `json:",embed"`
}

// SuggestedActions are buttons under a message that send their value as text.
type SuggestedActions struct {
	Actions []jsontext.Value `json:"actions,omitempty"`
	Extra   jsontext.Value   `json:",embed"`
}

// Decode reads one activity. It refuses a byte-order mark, invalid UTF-8, anything but one JSON
// object, more than 64 levels of nesting or 65,536 values, duplicate keys, fields of the wrong
// type, a missing type or conversation id, identifiers longer than 1 KiB, and "." and ".." as id or
// conversation id, which become parts of URLs. The error quotes none of the input, so it is safe to
// log. Value and channelData may be any JSON. A lone surrogate escape becomes U+FFFD. Null entities
// and empty attachments are skipped, callerId is dropped, and media types are in lower case. A channel "msteams:COPILOT" becomes
// "msteams" with an entity for the product, see [Activity.Product].
func Decode(data []byte) (*Activity, error) {
	if err := checkShape(data); err != nil {
		return nil, fmt.Errorf("malformed activity: %w", err)
	}
	a := new(Activity)
	if err := json.Unmarshal(data, a, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("malformed activity: %w", withoutQuotes(err))
	}
	a.CallerID = ""
	a.nameChannel()
	a.dropEmpty()
	a.nameMedia()
	if err := a.checkIdentity(); err != nil {
		return nil, fmt.Errorf("malformed activity: %w", err)
	}
	return a, nil
}

// checkShape refuses input that the JSON reader would accept, or would refuse only after reading
// far into it. It counts the punctuation between values.
func checkShape(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("invalid UTF-8")
	}
	depth, values, inString := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested deeper than %d levels", maxDepth)
			}
		case c == ',':
			if values++; values > maxValues {
				return fmt.Errorf("more than %d values", maxValues)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// withoutQuotes says what the JSON reader found and where. The reader's own errors quote the input.
func withoutQuotes(err error) error {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate key near byte %d", syntax.ByteOffset)
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON near byte %d", syntax.ByteOffset)
	case errors.As(err, &meaning):
		return fmt.Errorf("a field of the wrong type near byte %d", meaning.ByteOffset)
	}
	return errors.New("no JSON")
}

// nameChannel makes "msteams:COPILOT", as the Microsoft 365 Agents SDK names a channel and the
// product that is used in it, the channel and an entity, as Teams sends them.
func (a *Activity) nameChannel() {
	channel, product, ok := strings.Cut(a.ChannelID, ":")
	if !ok || channel != Teams {
		return
	}
	if a.ChannelID = channel; a.Product() == "" && product != "" {
		entity, _ := json.Marshal(map[string]string{"type": productEntity, "id": product}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // texts always encode
		a.Entities = append(a.Entities, entity)
	}
}

// nameMedia writes media types in lower case: their case means nothing (RFC 2045).
func (a *Activity) nameMedia() {
	for i, at := range a.Attachments {
		if strings.Contains(at.ContentType, "/") {
			a.Attachments[i].ContentType = strings.ToLower(at.ContentType)
		}
	}
}

// dropEmpty removes null entities and empty attachments.
func (a *Activity) dropEmpty() {
	a.Entities = slices.DeleteFunc(a.Entities, func(v jsontext.Value) bool { return v.Kind() == 'n' })
	a.Attachments = slices.DeleteFunc(a.Attachments, func(at Attachment) bool {
		return at.ContentURL == "" && at.Name == "" && len(at.Extra) == 0 &&
			(len(at.Content) == 0 || at.Content.Kind() == 'n')
	})
}

func (a *Activity) checkIdentity() error {
	switch {
	case a.Type == "":
		return errors.New("no type")
	case a.Conversation.BaseID() == "":
		return errors.New("no conversation.id")
	}
	for _, id := range []struct{ name, value string }{
		{"type", string(a.Type)},
		{"id", a.ID},
		{"replyToId", a.ReplyToID},
		{"channelId", a.ChannelID},
		{"serviceUrl", a.ServiceURL},
		{"name", a.Name},
		{"from.id", a.From.ID},
		{"recipient.id", a.Recipient.ID},
		{"conversation.id", a.Conversation.ID},
		{"conversation.tenantId", a.Conversation.TenantID},
		{"from.aadObjectId", a.From.AadObjectID},
	} {
		switch {
		case len(id.value) > maxIDBytes:
			return fmt.Errorf("%s is longer than %d bytes", id.name, maxIDBytes)
		case id.value == "." || id.value == "..": // in a URL they lead elsewhere
			return fmt.Errorf("%s is no name", id.name)
		}
	}
	return nil
}

// encoding omits false and 0 as well as empty values, as msbotbuilder-go's schema types expect of
// omitempty.
var encoding = json.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true),
	json.OmitZeroStructFields(true),
	jsontext.AllowInvalidUTF8(true),
)

// Encode writes the activity as JSON, without zero values.
func (a *Activity) Encode() ([]byte, error) {
	type plain Activity // has no MarshalJSON, whose result would be parsed again
	data, err := json.Marshal((*plain)(a), encoding)
	if err != nil {
		return nil, fmt.Errorf("encode %s activity: %w", a.Type, err)
	}
	return data, nil
}

// MarshalJSON is [Activity.Encode], for other JSON packages.
func (a *Activity) MarshalJSON() ([]byte, error) { return a.Encode() }

// Reference says how to continue a conversation: the service URL, the conversation, its
// participants and, for answers, the activity to answer.
type Reference = schema.ConversationReference

// Reference returns the reference of the activity's conversation. Its tenant is that of
// [Activity.Tenant].
func (a *Activity) Reference() Reference {
	conversation := a.Conversation.ConversationAccount
	if conversation.TenantID == "" {
		conversation.TenantID, _ = a.Tenant()
	}
	return library.GetCoversationReference(schema.Activity{
		ID:           a.ID,
		ChannelID:    a.ChannelID,
		ServiceURL:   a.ServiceURL,
		From:         a.From.ChannelAccount,
		Recipient:    a.Recipient.ChannelAccount,
		Conversation: conversation,
	})
}

// To returns an activity of the given type for the bot to send to the conversation of ref. It
// replies to the activity that ref names, if any.
func To(ref Reference, t Type) *Activity {
	out := library.ApplyConversationReference(schema.Activity{Type: t}, ref, false)
	return &Activity{
		Type:         out.Type,
		ChannelID:    out.ChannelID,
		ServiceURL:   out.ServiceURL,
		From:         Account{ChannelAccount: out.From},
		Recipient:    Account{ChannelAccount: out.Recipient},
		Conversation: Conversation{ConversationAccount: out.Conversation},
		ReplyToID:    out.ReplyToID,
	}
}

// Reply returns a message that answers a in its conversation.
func (a *Activity) Reply(text string) *Activity {
	out := To(a.Reference(), Message)
	out.Text = text
	return out
}

// FromBot reports whether a bot, this or another, sent the activity.
func (a *Activity) FromBot() bool {
	return a.From.Role == schema.BOT || a.From.ID != "" && a.From.ID == a.Recipient.ID
}

// Amends reports whether the activity edits or deletes a message that was sent.
func (a *Activity) Amends() bool { return a.Type == MessageUpdate || a.Type == MessageDelete }

// CallerOf returns the callerId of the bot with that app id.
func CallerOf(appID string) string { return callerApp + appID }

// CallerApp returns the app id of the bot that sent the activity, or "" if it came from a channel
// or the sender is unknown.
func (a *Activity) CallerApp() string {
	if app, ok := strings.CutPrefix(a.CallerID, callerApp); ok {
		return app
	}
	return ""
}

// ShowsCards reports whether the activity's channel renders Adaptive Cards.
func (a *Activity) ShowsCards() bool {
	return slices.Contains([]string{Teams, "emulator", "webchat", "directline"}, a.ChannelID)
}

// TeamID is the id of the activity's team, in a Teams channel.
func (a *Activity) TeamID() string { return idOf(a.known().Team) }

// ChannelTenant is the tenant in channelData. Believe it only if [Activity.Tenant] agrees.
func (a *Activity) ChannelTenant() string { return idOf(a.known().Tenant) }

// MeetingID is the id of the Teams meeting that the activity comes from, or "". Its chat sends it also
// before and after the meeting.
func (a *Activity) MeetingID() string { return idOf(a.known().Meeting) }

// known returns the members of channelData that the bot reads.
func (a *Activity) known() (data struct {
	Team    jsontext.Value `json:"team"`
	Tenant  jsontext.Value `json:"tenant"`
	Meeting jsontext.Value `json:"meeting"`
},
) {
	_ = read(a.ChannelData, &data)
	return data
}

// idOf is the id of a member of channelData; "" if it has another shape.
func idOf(member jsontext.Value) string {
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(member, &named)
	return named.ID
}

// Tenant returns the activity's tenant as the channel states it, or "". If channelData and
// conversation name different tenants, ok is false and you must not answer the activity.
func (a *Activity) Tenant() (id string, ok bool) {
	inData, inConversation := a.ChannelTenant(), a.Conversation.TenantID
	switch {
	case inData == "" || strings.EqualFold(inData, inConversation):
		return inConversation, true
	case inConversation == "":
		return inData, true
	default:
		return "", false
	}
}

// Mentions iterates over the mention entities: each one's text, and who is mentioned. It skips
// other and malformed entities.
func (a *Activity) Mentions() iter.Seq2[string, Account] {
	return func(yield func(string, Account) bool) {
		for _, entity := range a.Entities[:min(len(a.Entities), maxMentions)] {
			if m := mentionIn(entity); m != nil && !yield(m.Text, m.Mentioned) {
				return
			}
		}
	}
}

type mention struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	Mentioned Account `json:"mentioned"`
}

// mentionIn reads a mention; nil if the entity is not one.
func mentionIn(entity jsontext.Value) *mention {
	m := new(mention)
	if !isEntity(entity, "mention") || !read(entity, m) {
		return nil
	}
	return m
}

func isEntity(entity jsontext.Value, kind string) bool {
	var e struct {
		Type string `json:"type"`
	}
	return read(entity, &e) && strings.EqualFold(e.Type, kind)
}

// read reports whether the value has the type of into.
func read(value jsontext.Value, into any) bool {
	return json.Unmarshal(value, into, jsontext.AllowInvalidUTF8(true)) == nil
}

// Addressed reports whether the activity mentions its recipient, the bot. Only entities count:
// "<at>…</at>" in a text proves nothing.
func (a *Activity) Addressed() bool {
	for _, who := range a.Mentions() {
		if a.isRecipient(who) {
			return true
		}
	}
	return false
}

func (a *Activity) isRecipient(who Account) bool {
	return who.ID != "" && strings.EqualFold(who.ID, a.Recipient.ID)
}

// Targeted reports whether the activity is for one person of a group or channel: what the bot gets
// so is a question that nobody else sees.
func (a *Activity) Targeted() bool {
	var flags struct {
		IsTargeted jsontext.Value `json:"isTargeted"`
	}
	return len(a.Recipient.Extra) > 0 && read(a.Recipient.Extra, &flags) && flags.IsTargeted.Kind() == 't'
}

// Automatic reports whether a client sent the invoke by itself, to refresh a card, so that nobody
// clicked. Any trigger but "manual" counts as such: what refreshes must not decide.
func (a *Activity) Automatic() bool {
	if a.Type != Invoke || a.Value.Kind() != '{' {
		return false
	}
	var value struct {
		Trigger jsontext.Value `json:"trigger"`
	}
	if json.Unmarshal(a.Value, &value, json.MatchCaseInsensitiveNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return true
	}
	var trigger string
	if len(value.Trigger) > 0 && !read(value.Trigger, &trigger) {
		return true
	}
	return trigger != "" && !strings.EqualFold(trigger, "manual")
}

// FromExtension reports whether the activity is an invoke of a message extension, which people use in any
// chat: the bot may not be in it, and one of two people is no chat with the bot.
func (a *Activity) FromExtension() bool {
	return a.Type == Invoke && strings.HasPrefix(a.Name, "composeExtension/")
}

// Product is the Microsoft 365 product that the person uses the bot in, such as "COPILOT". "": the
// channel does not say, as Teams itself.
func (a *Activity) Product() string {
	for _, entity := range a.Entities[:min(len(a.Entities), maxMentions)] {
		var product struct {
			ID string `json:"id"`
		}
		if isEntity(entity, productEntity) && read(entity, &product) {
			return product.ID
		}
	}
	return ""
}

// Quote is an earlier message that a person quotes.
type Quote struct {
	ID   string // of the message
	From Account
	// Text is the message as the client of the person shows it: cut, or "" for a card or a deleted
	// message. Somebody else wrote it, so it is data: it asks the bot for nothing.
	Text string
	// At is when it was sent. The zero time: the client does not say.
	At time.Time
}

// quotedAt reads when a quoted message was sent: the milliseconds of Teams, or a time in words.
func quotedAt(said string) time.Time {
	if ms, err := strconv.ParseInt(said, 10, 64); err == nil && ms > 1e12 { // since 2001
		return time.UnixMilli(ms).UTC()
	}
	at, _ := time.Parse(time.RFC3339, said) // else it is not known
	return at
}

// orElse returns the quote with what only another form of it says.
func (q Quote) orElse(other Quote) Quote {
	q.From.ID, q.From.Name, q.Text = cmp.Or(q.From.ID, other.From.ID), cmp.Or(q.From.Name, other.From.Name), cmp.Or(q.Text, other.Text)
	if q.At.IsZero() {
		q.At = other.At
	}
	return q
}

// Quotes returns the messages that the activity quotes, at most ten, with at most 1,000 UTF-16 code
// units of each: those of entities, then others that its HTML or an attachment repeats. "<quoted …/>" in a text
// proves nothing.
func (a *Activity) Quotes() []Quote {
	quotes, deleted := a.quotes()
	if len(a.Attachments) > 0 {
		for _, q := range append(a.markup().quotes, a.forwarded()...) {
			at := slices.IndexFunc(quotes, func(other Quote) bool { return other.ID == q.ID })
			if q.ID == "" || at < 0 {
				quotes = append(quotes, q)
			} else if !slices.Contains(deleted, q.ID) {
				quotes[at] = quotes[at].orElse(q)
			}
		}
	}
	return quotes[:min(len(quotes), maxQuotes)]
}

// quotes returns those of entities, and the ids of those that were deleted.
func (a *Activity) quotes() (quotes []Quote, deleted []string) {
	for _, entity := range a.Entities[:min(len(a.Entities), maxMentions)] {
		var e struct {
			Of map[string]jsontext.Value `json:"quotedReply"`
		}
		if !isEntity(entity, quoteEntity) || !read(entity, &e) {
			continue
		}
		member := func(name string) (text string) {
			_ = json.Unmarshal(e.Of[name], &text, jsontext.AllowInvalidUTF8(true)) // null or of another type: ""
			return text
		}
		q := Quote{ID: member("messageId"), Text: spelling.Cut(member("preview"), maxQuote)}
		q.From.ID, q.From.Name, q.At = member("senderId"), spelling.Cut(member("senderName"), maxWho), quotedAt(member("time"))
		if e.Of["isReplyDeleted"].Kind() == 't' {
			q.Text = ""
			deleted = append(deleted, q.ID)
		}
		quotes = append(quotes, q)
	}
	return quotes, deleted
}

// Limits of what is quoted, in UTF-16 code units.
const (
	maxQuotes = 10
	maxQuote  = 1000
	maxWho    = 100 // of the name of who wrote it
)

const (
	quoteEntity   = "quotedReply"
	promptEntity  = "targetedMessageInfo"
	productEntity = "ProductInfo"
)

// quoteTag stands in a text for a quoted message.
var quoteTag = regexp.MustCompile(`<quoted\s[^>]*?messageId="([^">]*)"[^>]*>(?:\s*</quoted>)?\s?`)

// unquoted is the text without what stands for quotations in it.
func (a *Activity) unquoted() string {
	if !strings.Contains(a.Text, "<quoted") {
		return a.Text
	}
	quotes, _ := a.quotes()
	return quoteTag.ReplaceAllStringFunc(a.Text, func(tag string) string {
		id := html.UnescapeString(quoteTag.FindStringSubmatch(tag)[1])
		if slices.ContainsFunc(quotes, func(q Quote) bool { return q.ID == id }) {
			return ""
		}
		return tag
	})
}

// Said returns what the person wrote to the bot. It drops mentions of the bot, replaces other
// mentions with names, drops quotations ([Activity.Quotes]), decodes the HTML escapes that Teams
// uses ("&nbsp;", "&amp;"), and trims white space and what is not seen, such as zero-width spaces.
// Words that are only in the HTML of the message count if it has no text.
func (a *Activity) Said() string {
	text := a.said(a.unquoted(), a.ChannelID == Teams)
	if text == "" && (len(a.Value) == 0 || a.Value.Kind() == 'n') { // the click on a button has no words
		text = a.said(a.markup().words, true)
	}
	return text
}

// attachmentTags stand in a text for what comes with it.
var attachmentTags = lazy.Regexp(`(?i)<attachment\s[^>]*?(?:/>|>\s*</attachment\s*>)`)

func (a *Activity) said(text string, escaped bool) string {
	text = a.unmentioned(text)
	if escaped && strings.Contains(text, "<") {
		text = attachmentTags().ReplaceAllString(text, "")
	}
	if escaped {
		text = strings.ReplaceAll(html.UnescapeString(text), "\u00a0", " ")
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.TrimFunc(text, isBlank)
}

// isBlank matches white space and characters that show nothing. The joiner of emoji is such only where
// nothing is to be joined.
func isBlank(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(invisible, r) }

// invisible are the characters without width that clients put around mentions.
const invisible = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"

// tag is a mention as a text shows it: its content, and where it begins and ends.
type tag struct {
	content    string
	start, end int
}

// tagsIn returns the mentions of a text. Only who sends the text can write them: Teams escapes what people type.
func tagsIn(text string) (tags []tag) {
	for _, at := range atTags().FindAllStringSubmatchIndex(text, -1) {
		tags = append(tags, tag{text[at[2]:at[3]], at[0], at[1]})
	}
	return tags
}

var atTags = lazy.Regexp(`(?is)<at(?:\s[^>]*)?>(.*?)</at\s*>`)

// spelled is the form in which the content of a mention and a name compare: one sender escapes what the
// other does not, and some put in characters that nobody sees.
func spelled(name string) string {
	return strings.ToLower(spelling.OneLine(strings.NewReplacer("\u200c", "", "\u200d", "").Replace(html.UnescapeString(name)), len(name)+1))
}

// unmentioned returns a text without the mentions of the bot, and with names for those of others. A mention
// in the text belongs to the entity whose text or name it has or, if there is none, to the entity with the
// same number; one without an entity stays.
func (a *Activity) unmentioned(text string) string {
	var people []Account
	entities := map[string][]int{} // numbers of people, by how they are spelled in the text
	for said, who := range a.Mentions() {
		tags := tagsIn(said)
		switch {
		case len(tags) > 0:
			said = tags[0].content
		case said != "" && a.isRecipient(who): // "@Planbot" in other channels
			text = strings.ReplaceAll(strings.ReplaceAll(text, " "+said, ""), said, "")
		case said != "" && who.Name != "":
			text = strings.Replace(text, said, who.Name, 1)
		}
		names := []string{spelled(said), spelled(who.Name)}
		for _, name := range slices.Compact(names) {
			if name != "" {
				entities[name] = append(entities[name], len(people))
			}
		}
		people = append(people, who)
	}
	if len(people) == 0 {
		return text
	}
	tags := tagsIn(text)
	owners := a.owners(tags, people, entities)
	var out strings.Builder
	from := 0
	for i, t := range tags {
		if owners[i] < 0 {
			continue
		}
		before, name, end := text[from:t.start], "", t.end
		if who := people[owners[i]]; a.isRecipient(who) {
			before = strings.TrimSuffix(before, " ")
			if strings.TrimFunc(out.String()+before, isBlank) == "" { // "@Planbot: /reset"
				if m := addressEnd().FindStringSubmatch(text[end:]); m != nil {
					end += len(m[1])
				}
			}
		} else {
			name = cmp.Or(who.Name, t.content)
		}
		out.WriteString(before + name)
		from = end
	}
	return out.String() + text[from:]
}

// addressEnd is what separates the mention of the bot that begins a message from what people say to it.
var addressEnd = lazy.Regexp(`^((?:\s|&nbsp;)*[:,：，、])(?:\s|&nbsp;|/|\p{Lo}|$)`)

// owners returns for each tag the number of who is mentioned with it; -1: nobody. An entity stands for one
// tag, but that of the bot for all tags with its name.
func (a *Activity) owners(tags []tag, people []Account, entities map[string][]int) []int {
	owners, used := make([]int, len(tags)), make([]bool, len(people))
	for i, t := range tags {
		owners[i] = -1
		for _, n := range entities[spelled(t.content)] {
			if !used[n] || a.isRecipient(people[n]) {
				owners[i], used[n] = n, true
				break
			}
		}
	}
	for i := range tags[:min(len(tags), len(people))] {
		if owners[i] < 0 && !used[i] {
			owners[i], used[i] = i, true
		}
	}
	return owners
}

// Zone is the sender's time zone: the one that the activity or its clientInfo names, or else the
// offset of its localTimestamp, or else [time.UTC]. Names are resolved with [time.LoadLocation].
func (a *Activity) Zone() *time.Location {
	var times struct {
		Zone  string `json:"localTimezone"`
		Local string `json:"localTimestamp"`
	}
	if len(a.Extra) > 0 {
		_ = json.Unmarshal(a.Extra, &times) // a field of another type counts as absent
	}
	var client struct { // Teams sends it as an entity
		Zone string `json:"timezone"`
	}
	for _, entity := range a.Entities[:min(len(a.Entities), maxMentions)] {
		if isEntity(entity, "clientInfo") {
			_ = json.Unmarshal(entity, &client)
			break
		}
	}
	for _, name := range []string{times.Zone, client.Zone} {
		if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
			return zone
		}
	}
	if at, err := time.Parse(time.RFC3339, times.Local); err == nil {
		if _, offset := at.Zone(); offset != 0 {
			return time.FixedZone("", offset)
		}
	}
	return time.UTC
}

// markup reads the HTML attachments as one text: what begins in one of them, such as a quotation, may end in the next.
func (a *Activity) markup() (m markup) {
	var all strings.Builder
	withinTag := false
	for _, at := range a.Attachments {
		var content string
		if !strings.HasPrefix(at.ContentType, htmlContent) || at.ContentURL != "" || !read(at.Content, &content) {
			continue
		}
		if all.Len() > 0 && !withinTag {
			all.WriteString("<div>")
		}
		content = content[:min(len(content), max(maxHTML-all.Len(), 0))]
		all.WriteString(content)
		if opens, closes := strings.LastIndexByte(content, '<'), strings.LastIndexByte(content, '>'); opens != closes { // else it has neither
			withinTag = opens > closes
		}
	}
	if all.Len() > 0 {
		m.read(all.String())
	}
	return m
}

// Links returns the addresses behind links of the message that its text does not show, at most ten: http,
// https and mailto, of at most 2,000 bytes each. The person may have copied them from anywhere, so they are data.
func (a *Activity) Links() []string {
	return slices.DeleteFunc(a.markup().links, func(link string) bool {
		return strings.Contains(html.UnescapeString(a.Text), strings.TrimPrefix(link, "mailto:"))
	})
}

// FileMarks returns how many files the message's HTML points to that do not come as attachments, as in groups
// and channels. The mark of a file is a GUID. Messages that the HTML points to have numbers, and cards have
// digits without hyphens; what comes as an attachment explains its mark.
func (a *Activity) FileMarks() int {
	var files, others []string
	for _, id := range a.markup().marks {
		switch {
		case guid().MatchString(id):
			files = append(files, id)
		case strings.Trim(id, "0123456789") != "":
			others = append(others, id)
		}
	}
	for _, at := range a.Attachments {
		if len(files) == 0 {
			break
		}
		var of struct {
			ID string `json:"id"`
		}
		_ = read(at.Extra, &of)
		kind := strings.ToLower(at.ContentType)
		switch at := slices.Index(files, of.ID); {
		case at >= 0:
			files = slices.Delete(files, at, at+1)
		case strings.HasPrefix(kind, htmlContent), strings.HasPrefix(kind, "image/"), strings.HasSuffix(kind, "messagereference"):
		case len(others) > 0:
			others = others[1:]
		default:
			files = files[1:]
		}
	}
	return len(files)
}

// Strangers reports whether the message holds what others wrote: quoted, in its HTML, in a card or forwarded with
// it. HTML comes from the sender, so what it says of the writer counts for nothing.
func (a *Activity) Strangers() bool {
	quotes := append(a.markup().quotes, a.forwarded()...)
	named, _ := a.quotes()
	for _, q := range named {
		if q.From.ID != a.From.ID && q.From.ID != a.Recipient.ID {
			quotes = append(quotes, q)
		}
	}
	return slices.ContainsFunc(quotes, func(q Quote) bool { return q.Text != "" }) ||
		slices.ContainsFunc(a.Shared(), func(s Shared) bool { return s.Text != "" })
}

// forwarded returns the messages of others that come as attachments.
func (a *Activity) forwarded() (quotes []Quote) {
	type user struct {
		User struct {
			ID   string `json:"id"`
			Name string `json:"displayName"`
		} `json:"user"`
	}
	for _, at := range a.Attachments {
		replied := strings.EqualFold(at.ContentType, "messageReference")
		if !replied && !strings.EqualFold(at.ContentType, "forwardedMessageReference") || len(quotes) == maxQuotes {
			continue
		}
		content := at.Content
		var quoted string
		if read(content, &quoted) {
			content = jsontext.Value(quoted)
		}
		var m struct {
			OriginalMessageID      string
			OriginalMessageContent string
			OriginalMessageSender  user
			OriginalSentDateTime   string
			MessageID              string
			MessagePreview         string
			MessageSender          user
			CreatedDateTime        string
		}
		if json.Unmarshal(content, &m, json.MatchCaseInsensitiveNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
			continue
		}
		q := Quote{ID: m.OriginalMessageID, Text: plain(m.OriginalMessageContent), At: quotedAt(m.OriginalSentDateTime)}
		q.From.ID, q.From.Name = m.OriginalMessageSender.User.ID, m.OriginalMessageSender.User.Name
		if replied {
			q = Quote{ID: m.MessageID, Text: m.MessagePreview, At: quotedAt(m.CreatedDateTime)}
			q.From.ID, q.From.Name = m.MessageSender.User.ID, m.MessageSender.User.Name
		}
		q.Text, q.From.Name = spelling.Cut(q.Text, maxQuote), spelling.Cut(q.From.Name, maxWho)
		quotes = append(quotes, q)
	}
	return quotes
}

// Shared returns the cards, code snippets, Loop components, meetings and announcements in the message, at most
// five, with at most 2,000 UTF-16 code units of each.
func (a *Activity) Shared() (all []Shared) {
	left := maxSharedBytes
	for _, at := range a.Attachments {
		kind := at.sharedKind()
		if kind == "" || len(all) == maxShared {
			continue
		}
		content := at.Content
		if content.Kind() == '"' {
			var written string
			_ = read(content, &written)
			content = jsontext.Value(written)
		}
		s := Shared{Kind: kind}
		if left -= len(content); left >= 0 {
			s.Text = shownBy(content)
		}
		s.Text = cmp.Or(s.Text, at.Name)
		s.Text = spelling.Cut(strings.TrimSpace(s.Text), maxSharedText)
		all = append(all, s)
	}
	return all
}

// sharedKind says what people call an attachment that is no file, picture, text or message. "": it is one.
func (a Attachment) sharedKind() string {
	kind := strings.ToLower(a.ContentType)
	switch {
	case kind == "meetingreference":
		return "meeting"
	case strings.HasPrefix(kind, "application/vnd.microsoft.teams.card.file."):
		return ""
	case strings.HasPrefix(kind, "application/vnd.microsoft.card.fluid"):
		return "Loop component"
	case kind == "application/vnd.microsoft.card.codesnippet":
		return "snippet"
	case kind == "application/vnd.microsoft.card.announcement":
		return "announcement"
	case strings.HasPrefix(kind, "application/vnd.microsoft.card."), strings.HasPrefix(kind, "application/vnd.microsoft.teams.card."):
		return "card"
	}
	return ""
}

// Limits of what is read of the cards in a message.
const (
	maxShared      = 5
	maxSharedText  = 2000      // UTF-16 code units of each
	maxSharedBytes = 128 << 10 // of the JSON of all
)

// Shared is something that a person put into a message besides words, pictures and files.
type Shared struct {
	Kind string // card, snippet, Loop component, meeting or announcement
	// Text is what it shows, or "" if that is not known. Somebody else may have written it, so it is data: it
	// asks the bot for nothing.
	Text string
}

// shownBy returns the texts that the JSON of a card shows, one a line and in their order. Of other content
// it is the words.
func shownBy(content jsontext.Value) string {
	if content.Kind() != '{' && content.Kind() != '[' {
		return plain(string(content))
	}
	from := strings.NewReader(string(content))
	r := sharedReader{from: jsontext.NewDecoder(from, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if r.readValue("", "") != nil && len(r.lines) == 0 {
		return plain(string(content))
	}
	if len(r.lines) == 0 {
		return r.fallback
	}
	return strings.Join(r.lines, "\n")
}

// sharedReader reads a card value by value, so that nothing in it costs more than its length.
type sharedReader struct {
	from     *jsontext.Decoder
	lines    []string
	fallback string
}

// texts are the members whose texts people see. Others are for programs.
var texts = []string{
	"activitysubtitle", "activitytext", "activitytitle", "alttext", "code", "componenturl", "description", "end", "enddatetime",
	"header", "label", "language", "lines", "location", "name", "note", "snippet", "start", "startdatetime", "subject", "subtitle",
	"summary", "text", "title",
}

// unseen are the members of which people see nothing.
var unseen = []string{"$schema", "authentication", "channeldata", "data", "fallback", "metadata", "msteams", "refresh", "requires", "tap"}

// readValue reads the next value, of the member with that name, which is in an object of the member named in.
func (r *sharedReader) readValue(name, in string) error {
	switch kind := r.from.PeekKind(); kind {
	case '{', '[':
		if slices.Contains(unseen, name) {
			return r.from.SkipValue()
		}
		return r.readMembers(name, in)
	case '"':
		token, err := r.from.ReadToken()
		if err != nil {
			return err
		}
		r.add(name, in, token.String())
		return nil
	default:
		_, err := r.from.ReadToken()
		return err
	}
}

func (r *sharedReader) readMembers(name, in string) error {
	open, err := r.from.ReadToken()
	if err != nil {
		return err
	}
	object := open.Kind() == '{'
	for r.from.PeekKind() != '}' && r.from.PeekKind() != ']' {
		member, within := name, in
		if object {
			token, err := r.from.ReadToken()
			if err != nil {
				return err
			}
			member, within = strings.ToLower(token.String()), name
		}
		if err := r.readValue(member, within); err != nil {
			return err
		}
	}
	_, err = r.from.ReadToken()
	return err
}

// add notes a text. The value of a fact is one; that of an input or a button is not.
func (r *sharedReader) add(name, in, text string) {
	text = strings.TrimSpace(text)
	seen := slices.Contains(texts, name) || name == "inlines" || name == "value" && (in == "facts" || in == "items")
	switch {
	case text == "":
	case name == "fallbacktext":
		r.fallback = text
	case seen && !slices.Contains(r.lines, text):
		r.lines = append(r.lines, text)
	}
}
