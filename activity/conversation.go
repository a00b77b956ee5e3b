package activity

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	library "github.com/infracloudio/msbotbuilder-go/core/activity"
	"github.com/infracloudio/msbotbuilder-go/schema"
)

// Reference is where a conversation is continued: the service URL, the
// conversation, who is who in it and, for answers, the activity to answer.
type Reference = schema.ConversationReference

const threadMark = ";messageid="

// Personal reports whether the conversation is one person's with the bot. A
// conversation that says neither its type nor that it is a group is personal.
func (c *Conversation) Personal() bool {
	return c.ConversationType == "personal" || c.ConversationType == "" && !c.IsGroup
}

// BaseID is the conversation without its thread: in a channel of Teams, the
// channel's id ("19:…@thread.tacv2" of "19:…@thread.tacv2;messageid=1").
func (c *Conversation) BaseID() string {
	base, _, _ := strings.Cut(c.ID, threadMark)
	return base
}

// ThreadID returns the id of a thread in a channel of Teams, as a conversation to send
// to: that of the message with which it began. The channel's id may be that of another
// of its threads. A message id that is no number, or zero, is an error: such an id would be
// sent to the channel as a new thread.
func ThreadID(channel, message string) (string, error) {
	base, _, _ := strings.Cut(channel, ";")
	if base == "" || strings.Trim(message, "0") == "" || strings.Trim(message, "0123456789") != "" {
		return "", fmt.Errorf("no thread: channel %q, message %q", channel, message)
	}
	return base + threadMark + message, nil
}

// Tenant returns the tenant of the activity as the channel states it, or "".
// When channelData and conversation name different tenants, ok is false and
// the activity must not be answered.
func (a *Activity) Tenant() (id string, ok bool) {
	inData, inConversation := a.TeamsData().Tenant.ID, a.Conversation.TenantID
	switch {
	case inData == "" || strings.EqualFold(inData, inConversation):
		return inConversation, true
	case inConversation == "":
		return inData, true
	default:
		return "", false
	}
}

// TeamsData is the part of the channelData of Teams that Planbot reads.
type TeamsData struct {
	EventType string `json:"eventType"`
	Tenant    struct {
		ID string `json:"id"`
	} `json:"tenant"`
	Team struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"team"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
}

// TeamsData reads the channelData; what is absent or of another shape is empty.
func (a *Activity) TeamsData() TeamsData {
	var d TeamsData
	if a.ChannelData.Kind() != '{' {
		return d
	}
	if err := json.Unmarshal(a.ChannelData, &d); err != nil {
		return d // what was read before the odd field stays
	}
	return d
}

// FromBot reports whether the bot itself, or another bot, sent the activity.
func (a *Activity) FromBot() bool {
	return a.From.Role == schema.BOT || a.From.ID != "" && a.From.ID == a.Recipient.ID
}

// Reference returns where the activity's conversation is continued. Its tenant is what
// [Activity.Tenant] says.
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

// To returns an activity of the given type that the bot sends into the
// conversation of ref. It replies to the activity that ref names, if any.
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

// Reply returns a message to the conversation of a, as an answer to a.
func (a *Activity) Reply(text string) *Activity {
	out := To(a.Reference(), Message)
	out.Text = text
	return out
}
