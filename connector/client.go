package connector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	callTimeout     = 2 * time.Minute // for a call with all its tries
	tryTimeout      = 15 * time.Second
	downloadTimeout = time.Minute // for one try of a download or an upload
	// patience is how long a download may take, and leastRate the bytes a second that give it more time: one that
	// trickles keeps a conversation waiting for nothing.
	patience  = 10 * time.Second
	leastRate = 128 << 10
	// maxRetryAfter is the longest Retry-After that a call waits for. A longer wait is up to the
	// caller.
	maxRetryAfter = time.Minute
	defaultTries  = 5
	streamPause   = time.Second // what Teams wants between two requests about one growing message

	maxReplyBytes    = 1 << 20
	maxMessageRunes  = 256 // of a connector's error message
	memberPageSize   = 200
	defaultFileBytes = 20 << 20
	maxPart          = 60 << 20 // the most that OneDrive takes at once
	fileInfo         = "application/vnd.microsoft.teams.file.download.info"

	// gccService is where Teams serves Government Community Cloud tenants, which otherwise belong
	// to the public cloud.
	gccService = "https://smba.infra.gcc.teams.microsoft.com/teams"
)

var (
	// ErrNoAnswer is wrapped when a call's whole request was written and no answer came: it may
	// have arrived. A request that was not fully written, for example because there was no
	// connection, does not count. The Transport reports which of the two happened through
	// [net/http/httptrace].
	ErrNoAnswer = errors.New("no answer came")
	// ErrBadCall is wrapped when a call was not made and never can be: an id is invalid ("", "." or
	// ".."), the activity has no type, cannot be written as JSON or is too large, or the call is
	// for a calling bot that is not, or no longer, among the [Callers].
	ErrBadCall = errors.New("the call cannot be made")
)

// Error is a Connector answer other than success, or the one it would give to a call that is held
// back.
type Error struct {
	Op         string // what was tried, and on what
	Status     int
	Code       string // the Connector's own, such as "ConversationNotFound"; may be ""
	Message    string // the Connector's message, cut and without control characters
	RetryAfter time.Duration
	// HeldBack says that the call was not made because staying below the limits of Teams would have
	// taken too long. Status is 429, and RetryAfter says when there is room.
	HeldBack bool
}

// Error says what was tried and what came back.
func (e *Error) Error() string {
	if e.HeldBack {
		return e.Op + ": held back to stay below the limits of Teams"
	}
	s := fmt.Sprintf("%s: status %d", e.Op, e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// refusal makes an error of an answer other than success. The status counts, whatever the body is.
// Microsoft's connector gives its reason in a member error, the Agents Playground's at the top
// level.
func refusal(op string, res *http.Response) *Error {
	type reason struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	var said struct {
		reason
		Error jsontext.Value `json:"error"`
	}
	body, _ := readCapped(res.Body, maxReplyBytes) // partial or a proxy's page: no message
	_ = json.Unmarshal(body, &said)
	switch said.Error.Kind() {
	case '{':
		_ = json.Unmarshal(said.Error, &said.reason)
	case '"':
		_ = json.Unmarshal(said.Error, &said.Message)
	}
	return &Error{
		Op: op, Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After")),
		Code: spelling.OneLine(said.Code, maxMessageRunes), Message: spelling.OneLine(said.Message, maxMessageRunes),
	}
}

// retryAfter reads a Retry-After header: seconds or an HTTP date (RFC 9110).
func retryAfter(value string) time.Duration {
	if wait, err := time.ParseDuration(value + "s"); err == nil {
		return max(wait, 0)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}

// Client calls the Connector REST API. It may be used concurrently. Make it with [New].
//
// A call takes at most two minutes, and each try at most 15 seconds. The client retries on 412, 429
// (after its Retry-After), 502, 503 and 504, once on 401 with a new token if there is one, and once
// when no answer came. Sending is not idempotent, so an activity can arrive twice: the protocol
// allows only at-least-once. A typing indicator and a reaction are not retried. The client does not follow
// redirects.
//
// Before each try to Microsoft's connector, but not to hosts that the operator listed, the client
// waits to stay below the limits of Teams. A conversation (a channel with all its threads is one)
// gets 7 activities per second, 8 per 2 s, 60 per 30 s and 1800 per hour; a message with text and
// attachments counts as two. It gets two reactions per second. A tenant gets 50 requests per second. [Client.Download] is not
// counted, as it knows no tenant. A try is not made if it would have to wait longer than half a
// minute or than the call has left; nor is a typing indicator that would have to wait at all. Parts
// of growing messages take at most half of a tenant's requests and leave room for messages, or are
// not sent; typing indicators leave room for both. The error is then an [*Error] with HeldBack set.
//
// Each method takes the conversation as a reference, as [activity.Activity.Reference] returns it.
// Its service URL must be one that [Config] allows; otherwise the error wraps [ErrHostNotAllowed]
// and nothing was sent. An answer other than success is an [*Error]. A call whose error wraps
// [ErrNoAnswer] may have arrived.
type Client struct {
	cfg       Config
	hosts     *serviceHosts
	tokens    tokens // nil in local mode
	limits    *limits
	transport http.RoundTripper
	trusted   http.RoundTripper // to hosts that the operator configured
}

func newClient(cfg Config, hosts *serviceHosts, trusted http.RoundTripper) *Client {
	cfg.Tries = cmp.Or(cfg.Tries, defaultTries)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "planbot")
	c := &Client{cfg: cfg, hosts: hosts, limits: newLimits(), transport: cfg.Transport, trusted: trusted}
	if c.transport == nil {
		c.transport = guardedTransport(hosts)
	}
	return c
}

// Identified reports whether calls carry the bot's token.
func (c *Client) Identified() bool { return c.tokens != nil }

// CheckToken gets a token for the channels, or says why it cannot. In local mode it returns nil.
func (c *Client) CheckToken(ctx context.Context) error {
	_, err := c.token(ctx)
	return err
}

// Close closes idle connections. A token request in progress ends within ten seconds.
func (c *Client) Close() { closeIdle(c.transport) }

// Send appends an activity to the conversation of ref. The id is "" when the connector returns
// none, as for typing and split messages. Send does not change the activity. What goes out fits its
// channel ([activity.Activity.Fit]) and omits what only the channel may say. A typing indicator, and
// a part of a growing message ([activity.StreamInfo]) before its end, is tried once, and only if it
// need not wait.
func (c *Client) Send(ctx context.Context, ref activity.Reference, a *activity.Activity) (id string, err error) {
	return c.post(ctx, ref, a, "activities")
}

// Reply answers the activity with the id replyTo. A part of a growing message is not a reply on the
// wire.
func (c *Client) Reply(ctx context.Context, ref activity.Reference, replyTo string, a *activity.Activity) (id string, err error) {
	answer := *a
	answer.ReplyToID = replyTo
	return c.post(ctx, ref, &answer, "activities", replyTo)
}

func (c *Client) post(ctx context.Context, ref activity.Reference, a *activity.Activity, path ...string) (string, error) {
	stream := a.Stream() != activity.StreamInfo{}
	if stream { // its parts, and its end, are no replies
		path = path[:1]
	}
	k := inConversation(http.MethodPost, ref, path...)
	k.usage.fleeting = a.Type == activity.Typing
	k.usage.chunk, k.paced = k.usage.fleeting && stream, stream
	if a.Text != "" && len(a.Attachments) > 0 {
		k.usage.messages = 2
	}
	if err := k.write(ref, a); err != nil {
		return "", err
	}
	reply, err := c.do(ctx, k)
	if err != nil {
		return "", err
	}
	var sent struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(reply, &sent) // any other answer has no id
	return sent.ID, nil
}

// Update replaces the sent activity with the given id.
func (c *Client) Update(ctx context.Context, ref activity.Reference, id string, a *activity.Activity) error {
	k := inConversation(http.MethodPut, ref, "activities", id)
	if err := k.write(ref, a); err != nil {
		return err
	}
	_, err := c.do(ctx, k)
	return err
}

// Delete removes the sent activity with the given id. targeted says that only one person in a group
// or channel sees it.
func (c *Client) Delete(ctx context.Context, ref activity.Reference, id string, targeted bool) error {
	k := inConversation(http.MethodDelete, ref, "activities", id)
	k.targeted = targeted
	_, err := c.do(ctx, k)
	return err
}

// React adds the bot's reaction to a message of the conversation, or takes it away. Reactions are
// "like", "heart", "laugh", "surprised", "sad", "angry", and the ids of Teams' own list, such as
// "1f440_eyes". Adding one that is there does nothing. It is tried once. Only Teams has it.
func (c *Client) React(ctx context.Context, ref activity.Reference, id, reaction string, add bool) error {
	method := http.MethodDelete
	if add {
		method = http.MethodPut
	}
	k := inConversation(method, ref, "activities", id, "reactions", reaction)
	k.op = fmt.Sprintf("%s reaction in conversation %q", method, ref.Conversation.ID)
	k.usage.reaction = true
	_, err := c.do(ctx, k)
	return err
}

// Members iterates over all members of the conversation, a page at a time. It stops after yielding
// an error.
func (c *Client) Members(ctx context.Context, ref activity.Reference) iter.Seq2[activity.Account, error] {
	return func(yield func(activity.Account, error) bool) {
		k := inConversation(http.MethodGet, ref, "pagedmembers")
		k.query = url.Values{"pageSize": {strconv.Itoa(memberPageSize)}}
		for {
			var page struct {
				Members []activity.Account `json:"members"`
				Next    string             `json:"continuationToken"` // "" on the last page
			}
			if err := c.ask(ctx, k, &page); err != nil {
				yield(activity.Account{}, err)
				return
			}
			for _, m := range page.Members {
				if !yield(m, nil) {
					return
				}
			}
			if page.Next == "" || page.Next == k.query.Get("continuationToken") {
				return
			}
			k.query.Set("continuationToken", page.Next)
		}
	}
}

// Member returns one member of the conversation, by the id or aadObjectId of their account. In Teams, a person who is
// not in it is an [*Error] with the code [NoMember].
func (c *Client) Member(ctx context.Context, ref activity.Reference, id string) (activity.Account, error) {
	var m activity.Account
	err := c.ask(ctx, inConversation(http.MethodGet, ref, "members", id), &m)
	return m, err
}

// NoMember is the code of the error of [Client.Member] for a person who is not in the conversation.
const NoMember = "MemberNotFoundInConversation"

// CreateConversation starts a personal chat with a person whom the connector of ref knows, and
// sends its first message. It returns the new chat's reference, with the message's id. With a nil
// message it sends nothing, and Teams returns the same chat each time, except that it refuses this
// (400) for an app with supportsSessions.
func (c *Client) CreateConversation(ctx context.Context, ref activity.Reference, with string, first *activity.Activity) (activity.Reference, error) {
	type account struct {
		ID string `json:"id"`
	}
	tenant := ref.Conversation.TenantID
	k := call{
		op: "create conversation", method: http.MethodPost, service: ref.ServiceURL, path: []string{"conversations"},
		usage: usage{conversation: with, tenant: tenant},
	}
	there := ref
	there.ActivityID, there.Conversation = "", activity.Conversation{}.ConversationAccount // the call creates it
	chat := map[string]any{"bot": account{ref.Bot.ID}, "members": []account{{with}}, "isGroup": false}
	if first != nil {
		message := *first
		message.ReplyToID, message.Conversation = "", activity.Conversation{} // nothing to reply to yet
		if err := k.write(there, &message); err != nil {
			return activity.Reference{}, err
		}
		chat["activity"] = jsontext.Value(k.body)
	}
	if tenant != "" {
		chat["tenantId"], chat["channelData"] = tenant, map[string]any{"tenant": account{tenant}}
	}
	var err error
	if k.body, err = json.Marshal(chat, json.Deterministic(true)); err != nil {
		return activity.Reference{}, fmt.Errorf("%s: %w: %w", k.op, ErrBadCall, err)
	}
	var created struct {
		ID         string `json:"id"`
		ActivityID string `json:"activityId"`
		ServiceURL string `json:"serviceUrl"`
	}
	if err := c.ask(ctx, k, &created); err != nil {
		return activity.Reference{}, err
	}
	if created.ID == "" {
		return activity.Reference{}, fmt.Errorf("%s: the answer has no id", k.op)
	}
	there.ActivityID, there.Conversation.ID, there.Conversation.TenantID = created.ActivityID, created.ID, tenant
	there.ServiceURL = cmp.Or(created.ServiceURL, ref.ServiceURL)
	return there, nil
}

// Team is a team as the connector describes it. A field that the connector leaves out is zero.
type Team struct {
	GroupID string `json:"aadGroupId"` // its id in Microsoft Graph
	Name    string `json:"name"`
	Members int    `json:"memberCount"` // how many it has
}

// Team returns the team with that id, given as in channelData.team.id of an activity. Only Teams
// supports it.
func (c *Client) Team(ctx context.Context, ref activity.Reference, id string) (team Team, err error) {
	err = c.ask(ctx, call{
		op: "get team " + id, method: http.MethodGet, service: ref.ServiceURL, path: []string{"teams", id},
		usage: usage{tenant: ref.Conversation.TenantID},
	}, &team)
	return team, err
}

// Meeting is a meeting of Teams as the connector describes it. A field that the connector leaves out
// is zero: a meeting that nobody scheduled has no times.
type Meeting struct {
	ID, GraphID    string // GraphID is its id in Microsoft Graph
	Title, JoinURL string
	Type           string // Scheduled, Recurring, MeetNow, ChannelScheduled, ChannelRecurring, OneToOneCall or GroupCall
	Start, End     time.Time
	Organizer      activity.Account
	Conversation   string // the id of its chat
}

// Participant is a person in a meeting.
type Participant struct {
	User      activity.Account // the id may be missing in an event
	InMeeting bool
	Role      string // Organizer, Presenter or Attendee; "": unknown
}

// UnmarshalJSON reads a participant as the connector writes them, without regard to case.
func (p *Participant) UnmarshalJSON(raw []byte) error {
	var wire struct {
		User    activity.Account `json:"user"`
		Meeting struct {
			InMeeting bool   `json:"inMeeting"`
			Role      string `json:"role"`
		} `json:"meeting"`
	}
	if err := json.Unmarshal(raw, &wire, json.MatchCaseInsensitiveNames(true)); err != nil {
		return err
	}
	*p = Participant{wire.User, wire.Meeting.InMeeting, wire.Meeting.Role}
	return nil
}

// MeetingNotification shows people in a meeting a page, or a mark at the icon of a tab.
type MeetingNotification struct {
	// Recipients are the people's account ids ("29:…"). Teams refuses other ids.
	Recipients []string
	// URL is the page to show in a dialog over the meeting, at https; "": none. Title, Height and
	// Width are those of the dialog. Zero: as the client likes.
	URL, Title    string
	Height, Width int
	// TabEntityID is the tab whose icon gets a mark; "": none.
	TabEntityID string
}

// MeetingNotificationFailure says why a person did not get a notification.
type MeetingNotificationFailure struct {
	Recipient string `json:"recipientMri"`
	Code      string `json:"errorCode"`
	Reason    string `json:"failureReason"`
}

func inMeeting(method string, ref activity.Reference, id string, path ...string) call {
	return call{
		op: method + " meeting", method: method, service: ref.ServiceURL, version: "v1",
		path: append([]string{"meetings", id}, path...), usage: usage{tenant: ref.Conversation.TenantID},
	}
}

// Meeting returns the details of a meeting. Its id is that of [activity.Activity.MeetingID]. The app
// needs the permission OnlineMeeting.ReadBasic.Chat, or ChannelMeeting.ReadBasic.Group; without it,
// and if the bot is not in the meeting's chat, the error is an [*Error] with status 403.
func (c *Client) Meeting(ctx context.Context, ref activity.Reference, id string) (Meeting, error) {
	var wire struct {
		Details struct {
			ID      string `json:"id"`
			GraphID string `json:"msGraphResourceId"`
			Title   string `json:"title"`
			JoinURL string `json:"joinUrl"`
			Type    string `json:"type"`
			Start   string `json:"scheduledStartTime"`
			End     string `json:"scheduledEndTime"`
		} `json:"details"`
		Organizer    activity.Account `json:"organizer"`
		Conversation struct {
			ID string `json:"id"`
		} `json:"conversation"`
	}
	if err := c.ask(ctx, inMeeting(http.MethodGet, ref, id), &wire); err != nil {
		return Meeting{}, err
	}
	d := wire.Details
	m := Meeting{ID: d.ID, GraphID: d.GraphID, Title: d.Title, JoinURL: d.JoinURL, Type: d.Type, Organizer: wire.Organizer, Conversation: wire.Conversation.ID}
	m.Start, _ = time.Parse(time.RFC3339, d.Start) // zero if there is none
	m.End, _ = time.Parse(time.RFC3339, d.End)
	return m, nil
}

// Participant returns a person of a meeting. user is their id in Microsoft Entra. The app needs the
// permission OnlineMeetingParticipant.Read.Chat. Teams answers this for meetings of fewer than 350
// people.
func (c *Client) Participant(ctx context.Context, ref activity.Reference, id, user string) (p Participant, err error) {
	k := inMeeting(http.MethodGet, ref, id, "participants", user)
	k.query = url.Values{"tenantId": {ref.Conversation.TenantID}}
	err = c.ask(ctx, k, &p)
	return p, err
}

// NotifyMeeting sends a notification to people in a meeting. It returns those who did not get it;
// the others did. The app needs the permission OnlineMeetingNotification.Send.Chat.
func (c *Client) NotifyMeeting(ctx context.Context, ref activity.Reference, id string, n MeetingNotification) (failed []MeetingNotificationFailure, err error) {
	k := inMeeting(http.MethodPost, ref, id, "notification")
	var surfaces []any
	if n.URL != "" {
		page := map[string]any{"url": n.URL}
		if n.Title != "" {
			page["title"] = n.Title
		}
		if n.Height > 0 {
			page["height"] = n.Height
		}
		if n.Width > 0 {
			page["width"] = n.Width
		}
		surfaces = append(surfaces, map[string]any{"surface": "meetingStage", "contentType": "task", "content": map[string]any{"value": page}})
	}
	if n.TabEntityID != "" {
		surfaces = append(surfaces, map[string]any{"surface": "meetingTabIcon", "tabEntityId": n.TabEntityID})
	}
	switch {
	case len(n.Recipients) == 0:
		return nil, fmt.Errorf("%s: %w: it has no recipients", k.op, ErrBadCall)
	case slices.ContainsFunc(n.Recipients, func(id string) bool { return !strings.HasPrefix(id, "29:") }):
		return nil, fmt.Errorf("%s: %w: a recipient is not the id of a person's account", k.op, ErrBadCall)
	case len(surfaces) == 0:
		return nil, fmt.Errorf("%s: %w: it shows nothing", k.op, ErrBadCall)
	case n.URL != "" && !strings.HasPrefix(n.URL, "https://"):
		return nil, fmt.Errorf("%s: %w: its page is not at https", k.op, ErrBadCall)
	}
	k.body, err = json.Marshal(map[string]any{
		"type": "targetedMeetingNotification", "value": map[string]any{"recipients": n.Recipients, "surfaces": surfaces},
	}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", k.op, ErrBadCall, err)
	}
	reply, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	var said struct {
		Failed []MeetingNotificationFailure `json:"recipientsFailureInfo"`
	}
	_ = json.Unmarshal(reply, &said, json.MatchCaseInsensitiveNames(true)) // empty if all got it
	return said.Failed, nil
}

// call is one operation of the API.
type call struct {
	op       string // what is tried on what, for errors
	method   string
	service  string   // service URL
	version  string   // of the API, such as v1. "": v3
	path     []string // segments below the version, unescaped
	query    url.Values
	targeted bool // only one person sees the activity
	paced    bool // tries are streamPause apart
	body     []byte
	usage    usage
}

func inConversation(method string, ref activity.Reference, path ...string) call {
	k := call{
		op:      fmt.Sprintf("%s %s of conversation %q", method, path[0], ref.Conversation.ID),
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

// write makes a's JSON the call's body, for the conversation of ref, in the form that a bot may
// send: fit for the channel ([activity.Activity.Fit]) and without what only the channel may say
// (id, service URL, caller, names; rules A2031, A2041, A2063, A2071 and A2083 of the activity
// specification). It does not change the activity.
func (k *call) write(ref activity.Reference, a *activity.Activity) error {
	if a.Type == "" {
		return fmt.Errorf("%s: %w: the activity has no type", k.op, ErrBadCall)
	}
	in := *a
	in.ChannelID = cmp.Or(a.ChannelID, ref.ChannelID) // ref fills in what the activity omits
	if a.Conversation.ID == "" {
		in.Conversation.ConversationAccount = ref.Conversation
	}
	out := in.Fit()
	name := out.Conversation.Name // cut
	out.ChannelID, out.Conversation = a.ChannelID, a.Conversation
	if a.Conversation.Name != "" {
		out.Conversation.Name = name
	}
	out.ID, out.ServiceURL, out.CallerID = "", "", ""
	out.From.Name = ""
	out.Conversation.IsGroup = false
	k.targeted = a.Targeted()
	signsIn := slices.ContainsFunc(out.Attachments, func(at activity.Attachment) bool { return at.ContentType == OAuthCardType })
	if out.Type != "suggestion" && !k.targeted && !signsIn || k.method == http.MethodPut { // an update goes to the activity's original recipient
		out.Recipient = activity.Account{}
	}
	var err error
	if k.body, err = out.EncodeToSend(); err != nil {
		return fmt.Errorf("%s: %w: %w", k.op, ErrBadCall, err)
	}
	return nil
}

func (c *Client) ask(ctx context.Context, k call, v any) error {
	reply, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, v, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("%s: read the answer: %w", k.op, err)
	}
	return nil
}

// do makes the call, as often as repeat allows. If Microsoft says that the Government Community
// Cloud host serves the tenant, do retries there if the bot may call that host, as in the public
// cloud. It does not remember this: the tenant's next activity names the right host.
func (c *Client) do(ctx context.Context, k call) (reply []byte, err error) {
	tries := c.cfg.Tries
	if k.usage.fleeting || k.usage.reaction {
		tries = 1
	}
	var last time.Time
	err = c.repeat(ctx, tries, c.tokens != nil, func(ctx context.Context) (err error) {
		if k.paced {
			if err := sleep(ctx, time.Until(last.Add(streamPause))); err != nil {
				return fmt.Errorf("%s: %w", k.op, err)
			}
			defer func() { last = time.Now() }()
		}
		reply, err = c.try(ctx, k)
		refused, ok := errors.AsType[*Error](err)
		if !ok || refused.Status != http.StatusForbidden || refused.Code != "InvalidBotApiHost" || k.service == gccService {
			return err
		}
		base, _ := c.hosts.baseFor(callerOf(ctx), k.service)
		if _, wrong := c.hosts.baseFor(callerOf(ctx), gccService); wrong == nil && c.hosts.ofMicrosoft(base) {
			k.service = gccService
			reply, err = c.try(ctx, k)
		}
		return err
	})
	return reply, err
}

// try makes the call once, if the limits allow it.
func (c *Client) try(ctx context.Context, k call) ([]byte, error) {
	base, err := c.hosts.baseFor(callerOf(ctx), k.service)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, err)
	}
	address := base.String() + "/" + cmp.Or(k.version, "v3")
	for _, segment := range k.path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("%s: %w: %q cannot be an id", k.op, ErrBadCall, segment)
		}
		if k.version == "" {
			address += "/" + url.PathEscape(segment)
		} else { // the id of a meeting has = and /
			address += "/" + strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
		}
	}
	switch {
	case k.targeted:
		address += "?isTargetedActivity=true"
	case len(k.query) > 0:
		address += "?" + k.query.Encode()
	}
	// Get the token first: calls that waited for the limits and then for one token would all leave
	// at once.
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, err)
	}
	if c.hosts.ofMicrosoft(base) {
		if err := c.limits.wait(ctx, k.op, k.usage); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, k.method, address, bytes.NewReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, err)
	}
	return c.exchange(c.transport, k.op, req, token, k.body != nil, k.method == http.MethodGet)
}

// exchange makes a request, which may have JSON, and returns the body of an answer of success. Without read, the call
// succeeded even if the body is unreadable: it is not repeated.
func (c *Client) exchange(by http.RoundTripper, op string, req *http.Request, token string, hasBody, read bool) ([]byte, error) {
	req.Header.Set("Accept", "application/json")
	if hasBody {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	res, err := c.roundTripBy(by, op, req, token)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := readCapped(res.Body, maxReplyBytes)
	if err != nil && read {
		return nil, fmt.Errorf("%s: read the answer: %w", op, err)
	}
	return body, nil
}

func (c *Client) token(ctx context.Context) (string, error) {
	if c.tokens == nil {
		return "", nil
	}
	return c.tokens.get(ctx)
}

// roundTrip makes the request and returns an answer of success. It uses the transport directly, so
// it follows no redirect and keeps no cookie. After a 401 it drops the token.
func (c *Client) roundTrip(op string, req *http.Request, token string) (*http.Response, error) {
	return c.roundTripBy(c.transport, op, req, token)
}

func (c *Client) roundTripBy(transport http.RoundTripper, op string, req *http.Request, token string) (*http.Response, error) {
	var written atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { written.Store(info.Err == nil) },
	}))
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := transport.RoundTrip(req)
	if write := (*net.OpError)(nil); errors.As(err, &write) && write.Op == "write" {
		written.Store(false) // net/http reports the write once the request is in its buffer
	}
	switch {
	case err != nil && written.Load():
		return nil, fmt.Errorf("%s: %w: %w", op, ErrNoAnswer, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", op, err)
	case res.StatusCode/100 == 2:
		return res, nil
	case res.StatusCode == http.StatusUnauthorized && token != "":
		c.tokens.invalidate(token)
	}
	defer res.Body.Close()
	return nil, refusal(op, res)
}

// repeat tries until one succeeds, an error is final, or the call's time is over. Microsoft's
// documentation lists which errors may be retried (bots/how-to/conversations/conversation-messages,
// "Status codes from bot conversational APIs").
// signed says that a try carries the bot's token.
func (c *Client) repeat(ctx context.Context, tries int, signed bool, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	end, _ := ctx.Deadline()
	pause := backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: 20 * time.Second,
	}
	renewed := !signed // a 401 is worth one retry with another token
	lost := false      // a try got no answer
	unsure := false    // and it may have arrived
	for n := 1; ; n++ {
		err := try(ctx)
		if err == nil {
			return nil
		}
		delay, again := time.Duration(0), false
		refused, answered := errors.AsType[*Error](err)
		noToken, isToken := errors.AsType[*tokenError](err)
		switch {
		case answered && refused.HeldBack, errors.Is(err, ErrHostNotAllowed), errors.Is(err, ErrBadCall), errors.Is(err, errTooSlow):
		case answered && refused.Status == http.StatusUnauthorized:
			again, renewed = !renewed, true
		case answered:
			delay, again = max(pause.NextBackOff(), refused.RetryAfter), refused.passes() && refused.RetryAfter <= maxRetryAfter
		case isToken:
			delay, again = max(pause.NextBackOff(), time.Until(noToken.retryAt)), !noToken.refused()
		default:
			delay, again, lost = pause.NextBackOff(), !lost, true
		}
		unsure = unsure || errors.Is(err, ErrNoAnswer)
		if n >= tries || !again || ctx.Err() != nil || time.Until(end) <= delay || sleep(ctx, delay) != nil {
			if unsure && !errors.Is(err, ErrNoAnswer) {
				err = fmt.Errorf("%w; to a try before that %w", err, ErrNoAnswer)
			}
			return err
		}
	}
}

// passes reports whether a retry may succeed.
func (e *Error) passes() bool {
	return slices.Contains([]int{
		http.StatusPreconditionFailed, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}, e.Status)
}

// Download fetches an attachment of an inbound activity. A picture or file on a connector host is
// fetched with the bot's token. A file that a person shared in Teams (content type
// application/vnd.microsoft.teams.file.download.info) has a secret address and is fetched without
// the token. Any host other than the connector's and Microsoft's file hosts, or plain http beyond
// this machine, wraps [ErrHostNotAllowed], and nothing is sent. Download does not follow redirects.
// More than maxBytes (0: 20 MiB) is an [*Error] with status 413, whatever length the server claims.
// A try takes at most ten seconds, and one more for each 128 KiB that came, up to a minute. It is retried like any
// call, unless the content came too slowly. No error contains the address. contentType is the server's media type without parameters; "" if it is invalid.
func (c *Client) Download(ctx context.Context, a activity.Attachment, maxBytes int64) (content []byte, contentType string, err error) {
	const op = "download attachment"
	address, shared := a.ContentURL, a.ContentType == fileInfo
	if shared {
		var info struct {
			DownloadURL string `json:"downloadUrl"`
		}
		if json.Unmarshal(a.Content, &info) != nil {
			return nil, "", fmt.Errorf("%s: its content has no downloadUrl", op)
		}
		address = info.DownloadURL
	}
	from, signed, err := c.hosts.file(callerOf(ctx), address)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", op, err)
	}
	maxBytes = min(cmp.Or(max(maxBytes, 0), defaultFileBytes), math.MaxInt64-1) // one byte more is read, to detect excess
	signed = signed && !shared && c.tokens != nil
	err = c.repeat(ctx, c.cfg.Tries, signed, func(ctx context.Context) (err error) {
		content, contentType, err = c.fetch(ctx, op, from, signed, maxBytes)
		return err
	})
	return content, contentType, err
}

// fetch downloads once.
func (c *Client) fetch(ctx context.Context, op string, from *url.URL, signed bool, maxBytes int64) (content []byte, contentType string, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	token := ""
	if signed {
		if token, err = c.token(ctx); err != nil {
			return nil, "", fmt.Errorf("%s: %w", op, err)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	began := time.Now()
	late := time.AfterFunc(patience, func() { stop(errTooSlow) })
	defer late.Stop()
	req := (&http.Request{Method: http.MethodGet, URL: from, Header: http.Header{}}).WithContext(ctx)
	res, err := c.roundTrip(op, req, token)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK { // such as 202: the file is not there yet
		return nil, "", &Error{Op: op, Status: res.StatusCode}
	}
	err = errTooLong
	if res.ContentLength <= maxBytes {
		content, err = readCapped(&counted{res.Body, func(read int) {
			late.Reset(patience + time.Duration(read)*time.Second/leastRate - time.Since(began))
		}, 0}, maxBytes)
	}
	switch {
	case errors.Is(err, errTooLong):
		return nil, "", &Error{Op: op, Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("more than %d bytes", maxBytes)}
	case err != nil && errors.Is(context.Cause(ctx), errTooSlow):
		return nil, "", fmt.Errorf("%s: read the content: %w", op, errTooSlow)
	case err != nil:
		return nil, "", fmt.Errorf("%s: read the content: %w", op, err)
	}
	contentType, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type")) // "" if invalid
	return content, contentType, nil
}

var errTooSlow = errors.New("the server is too slow")

// counted tells how many bytes were read from it so far.
type counted struct {
	io.Reader
	tell func(read int)
	read int
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.read += n
	c.tell(c.read)
	return n, err
}

// UploadPart puts a part of a file into an upload session of OneDrive or SharePoint: the bytes of
// part, which begin at from, of size bytes in all. Parts come in order. All but the last have a
// multiple of 327,680 bytes, and none more than 60 MiB. next is where the session wants the next part
// to begin: size once it has the whole file. It may be any place if the session had that part
// already, or lacks one before it.
//
// The address is a secret that the person's client brought. No token goes there, UploadPart does not
// follow redirects, and no error contains it. Any host but Microsoft's file hosts and those of
// [Config], or plain http beyond this machine, wraps [ErrHostNotAllowed], and nothing is sent. A
// session that is over is an [*Error] with status 404 or 410. A try takes at most a minute and is
// retried like any call.
func (c *Client) UploadPart(ctx context.Context, address string, part []byte, from, size int64) (next int64, err error) {
	const op = "upload file"
	end := from + int64(len(part))
	if len(part) == 0 || len(part) > maxPart || from < 0 || end > size {
		return 0, fmt.Errorf("%s: %w: the bytes %d to %d of %d", op, ErrBadCall, from, end, size)
	}
	to, err := c.hosts.upload(callerOf(ctx), address)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	err = c.repeat(ctx, c.cfg.Tries, false, func(ctx context.Context) (err error) {
		next, err = c.put(ctx, op, to, part, from, size)
		return err
	})
	return next, err
}

// CheckUpload refuses an address to which [Client.UploadPart] sends nothing. The error wraps [ErrHostNotAllowed].
func (c *Client) CheckUpload(ctx context.Context, address string) error {
	if _, err := c.hosts.upload(callerOf(ctx), address); err != nil {
		return fmt.Errorf("check where a file goes: %w", err)
	}
	return nil
}

// CheckLink refuses the address of a file that is not https on one of Microsoft's file hosts or a host of
// [Config]. The error wraps [ErrHostNotAllowed].
func (c *Client) CheckLink(ctx context.Context, address string) error {
	if err := c.hosts.link(callerOf(ctx), address); err != nil {
		return fmt.Errorf("check where a file is: %w", err)
	}
	return nil
}

// put uploads a part once. An answer of 416 says that the session wants another part; then put asks
// which.
func (c *Client) put(ctx context.Context, op string, to *url.URL, part []byte, from, size int64) (next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), bytes.NewReader(part))
	if err != nil {
		return 0, fmt.Errorf("%s: %w: the address is no URL", op, ErrBadCall)
	}
	end := from + int64(len(part))
	req.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, end-1, size))
	res, err := c.roundTrip(op, req, "")
	refused, ok := errors.AsType[*Error](err)
	asks := ok && refused.Status == http.StatusRequestedRangeNotSatisfiable
	if asks {
		res, err = c.roundTrip(op, (&http.Request{Method: http.MethodGet, URL: to, Header: http.Header{}}).WithContext(ctx), "")
	}
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := readCapped(res.Body, maxReplyBytes)
	if err != nil {
		return 0, fmt.Errorf("%s: read the answer: %w", op, err)
	}
	if !asks && res.StatusCode != http.StatusAccepted { // it has the file, or refuses the next part
		return end, nil
	}
	var session struct {
		Expected []string `json:"nextExpectedRanges"`
	}
	unread := json.Unmarshal(body, &session) != nil || session.Expected == nil
	switch {
	case unread && (asks || end == size):
		return 0, fmt.Errorf("%s: the session does not say which part it wants", op)
	case unread:
		return end, nil // if that is wrong, the session refuses the next part
	case len(session.Expected) == 0:
		return size, nil
	}
	first, _, _ := strings.Cut(session.Expected[0], "-")
	next, err = strconv.ParseInt(first, 10, 64)
	if err != nil || next < 0 || next >= size {
		return 0, fmt.Errorf("%s: the session wants a part that the file does not have", op)
	}
	return next, nil
}

// The token service signs people in to other services and keeps their tokens. A connection is an
// OAuth connection of the Azure Bot resource, by name.

var (
	// ErrNoUserToken says that the token service has no token of that person for the connection, or
	// that a code was wrong.
	ErrNoUserToken = errors.New("the person is not signed in")
	// ErrNoTokenService says that nobody can be signed in there: the bot has no token service, or the
	// channel does not prove who a person is. That is so for a bot that calls this one, and for people
	// of Direct Line or Web Chat whose id the channel did not check (it begins with "dl_" if it did).
	ErrNoTokenService = errors.New("people cannot be signed in here")
)

// ScopeError says that a service takes the token of a person, but wants more scopes for a call, which it has
// not made (RFC 6750, insufficient_scope).
type ScopeError struct {
	Scopes []string // that the call needs; nil: the service does not say
}

func (e *ScopeError) Error() string {
	return "the service wants more rights of the person: " + cmp.Or(strings.Join(e.Scopes, " "), "it does not say which")
}

const (
	userTokenTries   = 2
	userTokenTimeout = 4 * time.Second // one try: a client that signs in waits for the answer
	userTokenPause   = 250 * time.Millisecond
)

// UserToken is a person's token for another service. Whatever prints, encodes or logs it shows only
// that there is one; [UserToken.Secret] returns the token itself. The zero value is no token.
type UserToken struct {
	Connection string
	Expires    time.Time // zero: the token service did not say

	secret func() string // a function shows nothing of the token, however it is printed
}

// Secret is the token, for the Authorization header of a request. Never store or log it.
func (t UserToken) Secret() string {
	if t.secret == nil {
		return ""
	}
	return t.secret()
}

const redactedToken = "[user token]"

// String does not show the token. Nor do the other forms of the value.
func (t UserToken) String() string { return redactedToken }

// Format writes String for all verbs.
func (t UserToken) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redactedToken)) }

// MarshalText returns String. It is also the value's JSON.
func (t UserToken) MarshalText() ([]byte, error) { return []byte(redactedToken), nil }

// MarshalZerologObject logs the connection.
func (t UserToken) MarshalZerologObject(e *zerolog.Event) { e.Str("connection", t.Connection) }

// NewUserToken hides the secret in a token. It is for a token that another service gave, and for tests.
func NewUserToken(connection, secret string, expires time.Time) UserToken {
	return UserToken{Connection: connection, Expires: expires, secret: func() string { return secret }}
}

// UserToken returns the token of ref's user for the connection. code is the one that the sign-in page
// showed them; "": they are signed in already. [ErrNoUserToken]: they are not, or the code is wrong.
// The other errors are those of every call of the token service: [ErrNoTokenService], an [*Error] or
// why there was no answer. A call is tried twice, for four seconds each. No error contains a token or
// a code.
func (c *Client) UserToken(ctx context.Context, ref activity.Reference, connection, code string) (UserToken, error) {
	k := tokenCall{op: "get a user's token", method: http.MethodGet, path: "/api/usertoken/GetToken", query: ofUser(ref, connection)}
	if code != "" {
		k.query.Set("code", code)
	}
	return c.userToken(ctx, ref, k, connection)
}

// ExchangeToken signs ref's user in with the token that their Teams client got for the bot. An
// [*Error] with the status 400, 404, 409 or 412 says that they have to consent first, or that the
// connection is set up wrongly.
func (c *Client) ExchangeToken(ctx context.Context, ref activity.Reference, connection, token string) (UserToken, error) {
	k := tokenCall{op: "exchange a user's token", method: http.MethodPost, path: "/api/usertoken/exchange", query: ofUser(ref, connection)}
	if err := k.write(map[string]string{"token": token}); err != nil {
		return UserToken{}, err
	}
	return c.userToken(ctx, ref, k, connection)
}

func (c *Client) userToken(ctx context.Context, ref activity.Reference, k tokenCall, connection string) (UserToken, error) {
	var got struct {
		Token      string `json:"token"`
		Expiration string `json:"expiration"`
	}
	err := c.askTokenService(ctx, ref, k, &got)
	refused, ok := errors.AsType[*Error](err)
	switch {
	case ok && refused.Status == http.StatusNotFound && k.method == http.MethodGet:
		return UserToken{}, fmt.Errorf("%s: %w", k.op, ErrNoUserToken)
	case err != nil:
		return UserToken{}, err
	case got.Token == "":
		return UserToken{}, fmt.Errorf("%s: %w", k.op, ErrNoUserToken)
	}
	expires, _ := time.Parse(time.RFC3339, got.Expiration) // zero: the service does not say
	return NewUserToken(connection, got.Token, expires), nil
}

// SignInResource is how a person signs in: a page, and in Teams an exchange without one.
type SignInResource struct {
	Link     string `json:"signInLink"`
	Exchange struct {
		ID       string `json:"id"`
		URI      string `json:"uri"`
		Provider string `json:"providerId,omitempty"`
	} `json:"tokenExchangeResource"`
	Post struct {
		URL string `json:"sasUrl"`
	} `json:"tokenPostResource"`
	// Browser says that Link is no page of the token service: people open it in a browser.
	Browser bool `json:"-"`
}

// OAuthCardType is the content type of the card with which a person signs in.
const OAuthCardType = "application/vnd.microsoft.card.oauth"

// Card is the card with which a person signs in: a text and a button with that title. silent offers
// the client to sign in without asking, which it can do in personal and group chats of Teams.
func (r SignInResource) Card(connection, text, title string, silent bool) activity.Attachment {
	if r.Browser {
		raw, err := json.Marshal(map[string]any{"text": text, "buttons": []map[string]string{{"type": "openUrl", "title": title, "value": r.Link}}}, json.Deterministic(true))
		if err != nil {
			panic(err) // texts always encode
		}
		return activity.Attachment{ContentType: "application/vnd.microsoft.card.signin", Content: raw}
	}
	content := map[string]any{
		"text": text, "connectionName": connection,
		"buttons": []map[string]string{{"type": "signin", "title": title, "value": r.Link}},
	}
	if silent && r.Exchange.URI != "" { // Teams refuses a card with null in place of either
		content["tokenExchangeResource"] = r.Exchange
	}
	if r.Post.URL != "" {
		content["tokenPostResource"] = r.Post
	}
	raw, err := json.Marshal(content, json.Deterministic(true))
	if err != nil {
		panic(err) // texts always encode
	}
	return activity.Attachment{ContentType: OAuthCardType, Content: raw}
}

// SignInResource returns how ref's user can sign in to the connection. The link is theirs alone.
func (c *Client) SignInResource(ctx context.Context, ref activity.Reference, connection string) (r SignInResource, err error) {
	const op = "get a sign-in link"
	who := ref
	who.ChannelID = tokenChannel(ref)
	state, err := json.Marshal(map[string]any{"connectionName": connection, "conversation": who, "msAppId": c.cfg.AppID}, json.Deterministic(true))
	if err != nil {
		return r, fmt.Errorf("%s: %w: %w", op, ErrBadCall, err)
	}
	err = c.askTokenService(ctx, ref, tokenCall{
		op: op, method: http.MethodGet, path: "/api/botsignin/GetSignInResource",
		query: url.Values{"state": {base64.StdEncoding.EncodeToString(state)}},
	}, &r)
	if err != nil {
		return r, err
	}
	link, err := parseURL(r.Link)
	if err != nil || link.Scheme != "https" && !loopback.IsHost(link.Hostname()) { // an error may quote the link
		return r, fmt.Errorf("%s: the answer has no usable link", op)
	}
	return r, nil
}

// SignOutUser deletes the token of ref's user for the connection. There need not be one.
func (c *Client) SignOutUser(ctx context.Context, ref activity.Reference, connection string) error {
	err := c.askTokenService(ctx, ref, tokenCall{
		op: "sign a user out", method: http.MethodDelete, path: "/api/usertoken/SignOut", query: ofUser(ref, connection),
	}, nil)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// tokenCall is a call of the token service.
type tokenCall struct {
	op, method, path string
	query            url.Values
	body             []byte
}

func (k *tokenCall) write(v any) (err error) {
	if k.body, err = json.Marshal(v); err != nil {
		return fmt.Errorf("%s: %w", k.op, ErrBadCall) // without what it was about
	}
	return nil
}

func ofUser(ref activity.Reference, connection string) url.Values {
	return url.Values{"userId": {ref.User.ID}, "connectionName": {connection}, "channelId": {tokenChannel(ref)}}
}

// tokenChannel is the channel without what it is a part of, such as msteams of msteams:COPILOT.
func tokenChannel(ref activity.Reference) string {
	channel, _, _ := strings.Cut(ref.ChannelID, ":")
	return channel
}

// provesPeople reports whether the channel proves who the user of ref is. Whoever may claim to be
// another would get their token.
func (c *Client) provesPeople(ctx context.Context, ref activity.Reference) bool {
	switch ref.ChannelID {
	case "directline", "webchat":
		return c.tokens == nil || strings.HasPrefix(ref.User.ID, "dl_")
	}
	return ref.User.ID != "" && callerOf(ctx) == ""
}

// askTokenService makes the call and reads its answer into v, unless that is nil. Names in answers
// are of any letter case.
func (c *Client) askTokenService(ctx context.Context, ref activity.Reference, k tokenCall, v any) error {
	if c.cfg.TokenURL == "" || !c.provesPeople(ctx, ref) {
		return fmt.Errorf("%s: %w", k.op, ErrNoTokenService)
	}
	var reply []byte
	var err error
	renewed := c.tokens == nil
	for n := 1; ; n++ {
		reply, err = c.tryTokenService(ctx, k)
		refused, answered := errors.AsType[*Error](err)
		_, noToken := errors.AsType[*tokenError](err)
		again := err != nil && !noToken
		switch {
		case answered && refused.Status == http.StatusUnauthorized:
			again, renewed = !renewed, true
		case answered:
			again = refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests
		}
		if n == userTokenTries || !again || sleep(ctx, userTokenPause) != nil {
			break
		}
	}
	if err != nil || v == nil || len(bytes.TrimSpace(reply)) == 0 {
		return err
	}
	if json.Unmarshal(reply, v, json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true)) != nil {
		return fmt.Errorf("%s: the answer cannot be read", k.op) // an error of the decoder may quote a token
	}
	return nil
}

// tryTokenService makes the call once.
func (c *Client) tryTokenService(ctx context.Context, k tokenCall) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, userTokenTimeout)
	defer cancel()
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, err)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.cfg.TokenURL+k.path+"?"+k.query.Encode(), bytes.NewReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, ErrBadCall) // the address may have a code
	}
	body, err := c.exchange(c.trusted, k.op, req, token, k.body != nil, true)
	if refused, ok := errors.AsType[*Error](err); ok {
		refused.Message = "" // it may quote what was sent
	}
	return body, err
}
