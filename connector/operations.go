package connector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
)

const (
	memberPageSize = 200
	maxMemberPages = 500
)

// Send puts an activity at the end of the conversation of ref. The id is ""
// when the connector tells none, as it does for typing and split messages. The
// activity is not changed; what goes out fits its channel ([activity.Activity.Fit]) and
// leaves out what only that may say. One that is too large is not sent: the error wraps
// [activity.ErrTooLarge]. A typing indicator is tried once, and only when it need not
// wait.
func (c *Client) Send(ctx context.Context, ref schema.ConversationReference, a *activity.Activity) (id string, err error) {
	return c.post(ctx, ref, a, "activities")
}

// Reply sends an activity as an answer to the activity with the id replyTo.
func (c *Client) Reply(ctx context.Context, ref schema.ConversationReference, replyTo string, a *activity.Activity) (id string, err error) {
	answer := *a
	answer.ReplyToID = replyTo
	return c.post(ctx, ref, &answer, "activities", replyTo)
}

// Typing shows that the bot is at work, for about three seconds. It does nothing when the
// indicator would have to wait.
func (c *Client) Typing(ctx context.Context, ref schema.ConversationReference) error {
	_, err := c.Send(ctx, ref, activity.To(ref, activity.Typing))
	if errors.Is(err, ErrHeldBack) {
		return nil
	}
	return err
}

func (c *Client) post(ctx context.Context, ref schema.ConversationReference, a *activity.Activity, path ...string) (string, error) {
	k, err := withActivity(http.MethodPost, ref, a, path...)
	if err != nil {
		return "", err
	}
	k.usage.fleeting = a.Type == activity.Typing
	if a.Text != "" && len(a.Attachments) > 0 {
		k.usage.messages = 2
	}
	k.usage.unasked = len(path) == 1 && !k.usage.fleeting // a typing indicator comes before an answer
	reply, err := c.do(ctx, k)
	return idOf(reply), err
}

// Update replaces the sent activity with the given id.
func (c *Client) Update(ctx context.Context, ref schema.ConversationReference, id string, a *activity.Activity) error {
	k, err := withActivity(http.MethodPut, ref, a, "activities", id)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, k)
	return err
}

// Delete takes back the sent activity with the given id.
func (c *Client) Delete(ctx context.Context, ref schema.ConversationReference, id string) error {
	_, err := c.do(ctx, inConversation(http.MethodDelete, ref, "activities", id))
	return err
}

// DeleteTargeted is [Client.Delete] for a message that only one person of a group or
// channel sees.
func (c *Client) DeleteTargeted(ctx context.Context, ref schema.ConversationReference, id string) error {
	k := inConversation(http.MethodDelete, ref, "activities", id)
	k.query = onlyTargeted()
	_, err := c.do(ctx, k)
	return err
}

// Member returns one member of the conversation.
func (c *Client) Member(ctx context.Context, ref schema.ConversationReference, id string) (activity.Account, error) {
	k := inConversation(http.MethodGet, ref, "members", id)
	var member activity.Account
	err := c.get(ctx, k, &member)
	return member, err
}

// ActivityMembers returns who was there when the activity with the given id was sent.
func (c *Client) ActivityMembers(ctx context.Context, ref schema.ConversationReference, id string) ([]activity.Account, error) {
	var members []activity.Account
	err := c.get(ctx, inConversation(http.MethodGet, ref, "activities", id, "members"), &members)
	return members, err
}

// MemberPage is a part of a conversation's members.
type MemberPage struct {
	Members []activity.Account `json:"members"`
	// Next leads to the next page; "" when this is the last.
	Next string `json:"continuationToken"`
}

// MemberPage returns the members from a continuation token on; "" is the start.
func (c *Client) MemberPage(ctx context.Context, ref schema.ConversationReference, from string) (MemberPage, error) {
	k := inConversation(http.MethodGet, ref, "pagedmembers")
	k.query = url.Values{"pageSize": {strconv.Itoa(memberPageSize)}}
	if from != "" {
		k.query.Set("continuationToken", from)
	}
	var page MemberPage
	err := c.get(ctx, k, &page)
	return page, err
}

// Members goes through all members of the conversation, a page at a time. An
// error is the last thing that it yields.
func (c *Client) Members(ctx context.Context, ref schema.ConversationReference) iter.Seq2[activity.Account, error] {
	return func(yield func(activity.Account, error) bool) {
		from := ""
		for range maxMemberPages {
			page, err := c.MemberPage(ctx, ref, from)
			if err != nil {
				yield(activity.Account{}, err)
				return
			}
			for _, m := range page.Members {
				if !yield(m, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			from = page.Next
		}
		yield(activity.Account{}, fmt.Errorf("list members of conversation %s: more than %d pages", ref.Conversation.ID, maxMemberPages))
	}
}

// NewConversation says which conversation to create: with members, a personal
// chat with them; with ChannelData that names a channel of a team, IsGroup and
// an Activity, a new thread there.
type NewConversation struct {
	IsGroup     bool               `json:"isGroup"`
	Bot         activity.Account   `json:"bot,omitzero"`
	Members     []activity.Account `json:"members,omitempty"`
	TenantID    string             `json:"tenantId,omitempty"`
	TopicName   string             `json:"topicName,omitempty"`
	ChannelData jsontext.Value     `json:"channelData,omitzero"`
	Activity    *activity.Activity `json:"-"`
}

// Created is a conversation that was created.
type Created struct {
	ID string `json:"id"`
	// ActivityID is the first activity's, where there was one.
	ActivityID string `json:"activityId"`
	// ServiceURL is where the conversation goes on; one that the bot may not
	// call is an error of CreateConversation.
	ServiceURL string `json:"serviceUrl"`
}

// CreateConversation starts a conversation on the connector at serviceURL.
func (c *Client) CreateConversation(ctx context.Context, serviceURL string, n NewConversation) (Created, error) {
	const op = "create conversation"
	body, err := n.encode()
	if err != nil {
		return Created{}, fmt.Errorf("%s: %w: %w", op, ErrBadCall, err)
	}
	k := call{
		name: op, method: http.MethodPost, service: serviceURL, path: []string{"conversations"}, body: body,
		usage: usage{conversation: n.place(), tenant: n.TenantID, unasked: true},
	}
	created := Created{}
	if err := c.get(ctx, k, &created); err != nil {
		return Created{}, err
	}
	if created.ServiceURL == "" {
		created.ServiceURL = serviceURL
	}
	if created.ID == "" {
		return Created{}, fmt.Errorf("%s: the answer has no id", op)
	}
	if err := c.cfg.Hosts.Allowed(created.ServiceURL); err != nil {
		return Created{}, fmt.Errorf("%s: %w", op, err)
	}
	return created, nil
}

// place is the conversation that this one is created in or with: a channel, or a person.
func (n NewConversation) place() string {
	in := activity.Activity{ChannelData: n.ChannelData}
	if channel := in.TeamsData().Channel.ID; channel != "" || len(n.Members) == 0 {
		return channel
	}
	return n.Members[0].ID
}

func (n NewConversation) encode() ([]byte, error) {
	wire := struct {
		NewConversation
		Activity jsontext.Value `json:"activity,omitzero"`
	}{NewConversation: n}
	if n.Activity != nil {
		first, err := outbound(n.reference(), n.Activity)
		if err != nil {
			return nil, err
		}
		wire.Activity = first
	}
	return json.Marshal(wire)
}

// reference is what is known of the conversation before there is one.
func (n NewConversation) reference() schema.ConversationReference {
	return schema.ConversationReference{Conversation: schema.ConversationAccount{IsGroup: n.IsGroup || len(n.Members) > 1}}
}

// get makes the call and reads its answer into v.
func (c *Client) get(ctx context.Context, k call, v any) error {
	k.needBody = true
	reply, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, v); err != nil {
		return fmt.Errorf("%s: read the answer: %w", k.op(), err)
	}
	return nil
}

func withActivity(method string, ref schema.ConversationReference, a *activity.Activity, path ...string) (call, error) {
	k := inConversation(method, ref, path...)
	if targeted(a.Recipient) {
		k.query = onlyTargeted()
		if method == http.MethodPut { // an update goes to whom the activity went, and must not say so
			changed := *a
			changed.Recipient = activity.Account{}
			a = &changed
		}
	}
	body, err := outbound(ref, a)
	if err == nil && a.Type == "" {
		err = errors.New("the activity has no type")
	}
	if err != nil {
		return call{}, fmt.Errorf("%s: %w: %w", k.op(), ErrBadCall, err)
	}
	k.body = body
	return k, nil
}

func onlyTargeted() url.Values { return url.Values{"isTargetedActivity": {"true"}} }

func inConversation(method string, ref schema.ConversationReference, path ...string) call {
	k := call{
		method:  method,
		service: ref.ServiceURL,
		path:    append([]string{"conversations", ref.Conversation.ID}, path...),
		usage:   usage{tenant: ref.Conversation.TenantID},
	}
	if method != http.MethodGet {
		k.usage.conversation = ref.Conversation.ID
	}
	return k
}

// idOf reads the id of a sent activity; any other answer has none.
func idOf(reply []byte) string {
	var v struct {
		ID string `json:"id"`
	}
	if len(reply) == 0 || json.Unmarshal(reply, &v) != nil {
		return ""
	}
	return v.ID
}
