package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
)

const (
	memberPageSize = 200
	maxMemberPages = 500

	defaultFileBytes = 20 << 20
	downloadTimeout  = time.Minute // of one try, with its redirects
	maxRedirects     = 3
	fileInfo         = "application/vnd.microsoft.teams.file.download.info"
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

// Members goes through all members of the conversation, a page at a time. An
// error is the last thing that it yields.
func (c *Client) Members(ctx context.Context, ref schema.ConversationReference) iter.Seq2[activity.Account, error] {
	return func(yield func(activity.Account, error) bool) {
		k := inConversation(http.MethodGet, ref, "pagedmembers")
		k.query = url.Values{"pageSize": {strconv.Itoa(memberPageSize)}}
		for range maxMemberPages {
			var page struct {
				Members []activity.Account `json:"members"`
				Next    string             `json:"continuationToken"` // "": this is the last
			}
			if err := c.get(ctx, k, &page); err != nil {
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
			k.query.Set("continuationToken", page.Next)
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

// NewThread begins a thread in a channel of Teams with its first message. The channel is
// the one of ref, whose conversation may be one of its threads; for another channel, put
// its id there. The answer's ID is the thread's, to go on in.
func (c *Client) NewThread(ctx context.Context, ref schema.ConversationReference, first *activity.Activity) (Created, error) {
	channel, _, _ := strings.Cut(ref.Conversation.ID, ";")
	data, err := json.Marshal(map[string]any{"channel": map[string]string{"id": channel}})
	if err != nil {
		return Created{}, fmt.Errorf("begin thread in channel %s: %w", channel, err)
	}
	message := *first
	message.ReplyToID = ""                         // nothing is there yet
	message.Conversation = activity.Conversation{} // but what is to be made
	return c.CreateConversation(ctx, ref.ServiceURL, NewConversation{
		IsGroup:     true,
		Bot:         activity.NewAccount(ref.Bot.ID, ""),
		TenantID:    ref.Conversation.TenantID,
		ChannelData: data,
		Activity:    &message,
	})
}

// Team is what Teams tells of a team.
type Team struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	MemberCount  int    `json:"memberCount"`
	ChannelCount int    `json:"channelCount"`
}

// Team returns the details of the team with that id, as channelData.team.id of
// an activity names it. Only Teams has them.
func (c *Client) Team(ctx context.Context, ref schema.ConversationReference, id string) (Team, error) {
	var team Team
	err := c.get(ctx, call{
		name:    "get team " + id,
		method:  http.MethodGet,
		service: ref.ServiceURL,
		path:    []string{"teams", id},
		usage:   usage{tenant: ref.Conversation.TenantID},
	}, &team)
	return team, err
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

// ErrTooLarge is wrapped when a file has more bytes than the caller wants.
var ErrTooLarge = errors.New("file too large")

// File is what was downloaded.
type File struct {
	ContentType string // media type by what the server said, without parameters; "" when it is none
	Content     []byte
}

// source is where a file is, and whether the bot's token may go there.
type source struct {
	url    *url.URL
	signed bool
}

// Download fetches what an attachment of an inbound activity leads to: a picture or file
// on a connector host, with the bot's token, or what a person of Teams shared (its content
// type is application/vnd.microsoft.teams.file.download.info), whose address lets whoever
// knows it in and is asked without the token. Another host than the connector's and
// Cloud.FileHosts, or plain http beyond this machine, wraps [ErrHostNotAllowed], and
// nothing is sent; so do redirects, of which three are followed at most, and the token goes
// only as far as they have not left the connector. More than maxBytes (0: 20 MiB) wraps
// [ErrTooLarge], whatever the server says of the length. A try takes a minute at most, and
// is repeated like any call. No error holds the address.
func (c *Client) Download(ctx context.Context, a activity.Attachment, maxBytes int64) (File, error) {
	const op = "download attachment"
	from, err := c.source(ctx, a)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", op, err)
	}
	return repeat(ctx, c.cfg, func(end time.Time) (File, error) { return c.fetch(ctx, op, from, maxBytes, end) })
}

func (c *Client) source(ctx context.Context, a activity.Attachment) (source, error) {
	if a.ContentType != fileInfo {
		return c.sourceAt(ctx, a.ContentURL)
	}
	var info struct {
		DownloadURL string `json:"downloadUrl"`
	}
	if err := json.Unmarshal(a.Content, &info); err != nil {
		return source{}, errors.New("its content has no downloadUrl")
	}
	from, err := c.sourceAt(ctx, info.DownloadURL)
	from.signed = false
	return from, err
}

// sourceAt is signed when the address is on a connector host; for a calling bot, on one
// that the operator listed.
func (c *Client) sourceAt(ctx context.Context, address string) (source, error) {
	u, ofConnector, err := c.cfg.Hosts.file(address)
	if err == nil && callerOf(ctx) != "" {
		ofConnector = c.cfg.Hosts.lists(u.Hostname(), effectivePort(u))
	}
	return source{u, ofConnector}, err
}

// fetch downloads once, and follows redirects.
func (c *Client) fetch(ctx context.Context, op string, from source, maxBytes int64, end time.Time) (File, error) {
	if limit := time.Now().Add(downloadTimeout); limit.Before(end) {
		end = limit
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for redirects := 0; ; redirects++ {
		f, next, err := c.follow(ctx, op, from, maxBytes)
		if err != nil || next == nil {
			return f, err
		}
		if redirects == maxRedirects {
			return File{}, &Error{Op: op, Status: http.StatusFound, Message: fmt.Sprintf("more than %d redirects", maxRedirects)}
		}
		from = *next
	}
}

// follow asks one address. The answer is the file, or where else to look.
func (c *Client) follow(ctx context.Context, op string, from source, maxBytes int64) (File, *source, error) {
	res, err := c.ask(ctx, op, from)
	if err != nil {
		return File{}, nil, err
	}
	defer res.Body.Close()
	switch {
	case redirect(res.StatusCode):
		next, err := c.redirected(ctx, from, res)
		if err != nil {
			err = fmt.Errorf("%s: redirect: %w", op, err)
		}
		return File{}, &next, err
	case res.StatusCode != http.StatusOK:
		body, _ := readCapped(res.Body, maxReplyBytes) // what it says is a bonus
		return File{}, nil, refusal(op, res, body)
	}
	f, err := readFile(res, maxBytes)
	if err != nil {
		return File{}, nil, fmt.Errorf("%s: %w", op, err)
	}
	return f, nil, nil
}

// ask makes the request, with the bot's token where that may go. The transport's errors
// do not hold the address.
func (c *Client) ask(ctx context.Context, op string, from source) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: the address cannot be asked", op)
	}
	token := ""
	if from.signed {
		if token, err = c.token(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	c.setHeaders(req, call{}, token)
	req.Header["Accept"] = []string{"*/*"}
	res, err := c.files.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if res.StatusCode == http.StatusUnauthorized && token != "" {
		c.cfg.Tokens.Invalidate(token)
	}
	return res, nil
}

func redirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// redirected checks the next address like the first. The token does not come back once
// it was left behind.
func (c *Client) redirected(ctx context.Context, from source, res *http.Response) (source, error) {
	to, err := from.url.Parse(res.Header.Get("Location"))
	if err != nil {
		return source{}, fmt.Errorf("%w: not a URL", ErrHostNotAllowed)
	}
	next, err := c.sourceAt(ctx, to.String())
	next.signed = next.signed && from.signed
	return next, err
}

func readFile(res *http.Response, maxBytes int64) (File, error) {
	if maxBytes <= 0 {
		maxBytes = defaultFileBytes
	}
	maxBytes = min(maxBytes, math.MaxInt64-1) // one more is read, to see whether there is more
	if res.ContentLength > maxBytes {
		return File{}, fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, res.ContentLength, maxBytes)
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return File{}, errors.New("the server encoded the content unasked")
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, maxBytes+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("read the content: %w", err)
	case int64(len(content)) > maxBytes:
		return File{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxBytes)
	}
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	return File{ContentType: media, Content: content}, nil
}
