package connector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
)

const (
	tryTimeout  = 15 * time.Second // of one try of a call
	callTimeout = 2 * time.Minute  // of a call with all its tries
	// maxRetryAfter is the longest wait that the connector may ask for within a call; a
	// longer one is the caller's to plan.
	maxRetryAfter = time.Minute
	defaultTries  = 5

	maxReplyBytes   = 1 << 20
	maxMessageRunes = 256 // of a connector's words in an error
	memberPageSize  = 200
	maxMemberPages  = 500

	// gccService is where Teams serves tenants of the Government Community Cloud, which
	// belong to the public cloud otherwise.
	gccService = "https://smba.infra.gcc.teams.microsoft.com/teams"
	zeroTime   = `"0001-01-01T00:00:00Z"`
)

var (
	// ErrNoAnswer is wrapped when the whole request of a call was written and no answer came:
	// it may have arrived. A request that was not written to its end, say because there was no
	// connection, does not count. The Transport tells which of the two it was through
	// [net/http/httptrace].
	ErrNoAnswer = errors.New("no answer came")
	// ErrBadCall is wrapped when a call was not made, and never can be: what it names is no id
	// ("", "." and ".." are none), or its activity has no type, cannot be written as JSON or
	// is too large.
	ErrBadCall = errors.New("the call cannot be made")
	// ErrHeldBack is wrapped when a call was not made, since it would have had to wait too
	// long to stay below the limits of Teams. It comes with an [*Error] of status 429 whose
	// RetryAfter says when there is room.
	ErrHeldBack = errors.New("held back to stay below the limits of Teams")

	// errDone ends a call that succeeded with an answer that cannot be read: to make it again
	// would do it twice.
	errDone = errors.New("it was done, but the answer cannot be read")
)

// Error is an answer of the Connector that is no success.
type Error struct {
	Op         string // what was tried on what
	Status     int
	Code       string // the Connector's own, such as "ConversationNotFound"; may be ""
	Message    string // the Connector's words, cut and without control characters
	RetryAfter time.Duration
}

// Error says what was tried and what came back.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: status %d", e.Op, e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// complaint is what a connector says of a refusal. Microsoft's has it under the name
// error, the Agents Playground's at the top.
type complaint struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refusal makes an error of an answer that is no success. Whatever its body is, the
// status counts.
func refusal(op string, res *http.Response, body []byte) *Error {
	var said struct {
		complaint
		Error jsontext.Value `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // a page of some proxy: no words
	e := &Error{Op: op, Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	c := said.complaint
	switch said.Error.Kind() {
	case '{':
		_ = json.Unmarshal(said.Error, &c)
	case '"':
		_ = json.Unmarshal(said.Error, &c.Message)
	}
	e.Code, e.Message = printable(c.Code), printable(c.Message)
	return e
}

// printable cuts a stranger's text to what a log line may hold.
func printable(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > maxMessageRunes {
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// TokenSource gives out the bot's tokens; [Tokens] is one.
type TokenSource interface {
	// Token returns a token, never an empty one, for whom [ForCaller] says.
	Token(ctx context.Context) (string, error)
	// Invalidate says that the connector refused the token.
	Invalidate(token string)
}

// Config says what a [Client] is made of. Hosts is required; the zero value of
// every other field is a working default.
type Config struct {
	// Hosts are the only ones that are ever called.
	Hosts *ServiceHosts
	// Tokens sign the calls. nil is right in local mode only: none is sent.
	Tokens TokenSource
	// Transport carries the calls and downloads. nil: own pools of connections that
	// check at each dial that no public name leads to a private address.
	Transport http.RoundTripper
	// Tries is how often a call is made at most. 0: 5.
	Tries int
	// UserAgent names the bot. "": planbot.
	UserAgent string
}

// Client calls the Connector REST API. It may be used concurrently.
//
// A call takes at most two minutes, and each try of it at most 15 seconds. It is repeated
// when the connector says 412, 429 (after its Retry-After), 502, 503 or 504, once when it
// says 401, with a new token where [TokenSource] has one, and once when no answer came.
// Since sending is not idempotent, an activity can arrive twice: at least once is what the
// protocol allows. A typing indicator is not repeated. Redirects are not followed.
//
// Towards Microsoft's connector, though not towards hosts that the operator listed, each
// try waits until it keeps the limits of Teams. In one conversation (a channel with all its
// threads is one) that is 7 activities in a second, 8 in two, 60 in 30 and 1800 in an hour;
// a message with text and attachments is two. In one tenant it is 50 requests in a second.
// [Client.Download] is not counted, as it knows no tenant. A try that would have to wait
// longer than half a minute, or than the call has left, is not made, nor is a typing
// indicator that would have to wait at all: the error wraps [ErrHeldBack], and an [*Error]
// that says when to come back.
//
// Each method takes the conversation as a reference, as [activity.Activity.Reference] gives
// it; its service URL must be one of Config.Hosts, else the error wraps [ErrHostNotAllowed]
// and nothing was sent. An answer that is no success is an [*Error], a token that cannot be
// had a [*TokenError]; what wraps [ErrNoAnswer] may have arrived.
type Client struct {
	cfg    Config
	header http.Header // of every call; its values are shared, so they are never changed
	limits *limits
	files  http.RoundTripper // for downloads
}

// New returns a client, or an error that names every mistake in cfg.
func New(cfg Config) (*Client, error) {
	var errs []error
	if cfg.Hosts == nil {
		errs = append(errs, errors.New("no Hosts"))
	} else if cfg.Hosts.local != (cfg.Tokens == nil) {
		errs = append(errs, errors.New("local hosts go without Tokens, and others never do"))
	}
	if cfg.Tries < 0 {
		errs = append(errs, errors.New("negative number of tries"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("connector config: %w", err)
	}
	cfg.Tries = cmp.Or(cfg.Tries, defaultTries)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "planbot")
	files := cfg.Transport
	if cfg.Transport == nil {
		cfg.Transport, files = guardedTransport(cfg.Hosts.reachOf), guardedTransport(cfg.Hosts.fileReachOf)
	}
	cfg.Transport = traced{cfg.Transport}
	return &Client{cfg: cfg, header: http.Header{
		"Accept":     {"application/json"},
		"User-Agent": {cfg.UserAgent},
	}, limits: newLimits(), files: traced{files}}, nil
}

// Identified reports whether the calls carry the bot's token.
func (c *Client) Identified() bool { return c.cfg.Tokens != nil }

// Close gives up idle connections.
func (c *Client) Close() {
	for _, rt := range []http.RoundTripper{c.cfg.Transport, c.files} {
		if t, ok := rt.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
	}
}

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
		usage: usage{conversation: n.place(), tenant: n.TenantID},
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

// outbound writes an activity for the conversation of ref as a bot may send it: fit for
// the channel, see [activity.Activity.Fit], and without what only the channel may say (ids,
// times, service URL, caller, names; rules A2031, A2041, A2063, A2071, A2083 and A2302 of
// the activity specification). One that no channel would take is an error. The activity
// itself stays as it is.
func outbound(ref schema.ConversationReference, a *activity.Activity) ([]byte, error) {
	in := *a
	in.ChannelID = cmp.Or(a.ChannelID, ref.ChannelID) // what the activity does not say is what ref says
	if a.Conversation.ID == "" {
		in.Conversation.ConversationAccount = ref.Conversation
	}
	out := in.Fit()
	out.ChannelID, out.Conversation = a.ChannelID, a.Conversation
	out.ID, out.ServiceURL, out.CallerID = "", "", ""
	out.From.Name = ""
	out.Conversation.IsGroup = false
	if out.Type != "suggestion" && !targeted(out.Recipient) {
		out.Recipient = activity.Account{}
	}
	var err error
	if out.Extra, err = withoutChannelFields(out.Extra); err != nil {
		return nil, err
	}
	raw, err := out.Encode()
	if err != nil {
		return nil, err
	}
	return raw, activity.CheckSize(raw)
}

// targeted reports whether the recipient alone is to see the activity.
func targeted(to activity.Account) bool {
	var flags struct {
		IsTargeted jsontext.Value `json:"isTargeted"`
	}
	return len(to.Extra) > 0 && json.Unmarshal(to.Extra, &flags) == nil && flags.IsTargeted.Kind() == 't'
}

// withoutChannelFields drops the members that an inbound activity brings and an
// outbound one must not repeat, and an expiration, which is a past one in every
// activity of msbotbuilder-go.
func withoutChannelFields(extra jsontext.Value) (jsontext.Value, error) {
	if len(extra) == 0 {
		return nil, nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(extra, &members, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("encode activity: extra fields: %w", err)
	}
	for _, name := range []string{"timestamp", "localTimestamp", "localTimezone", "rawTimestamp"} {
		delete(members, name)
	}
	if string(members["expiration"]) == zeroTime {
		delete(members, "expiration")
	}
	if len(members) == 0 {
		return nil, nil
	}
	return json.Marshal(members, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// call is one operation of the API.
type call struct {
	name     string // for errors; "": by what the others say
	method   string
	service  string   // service URL
	path     []string // segments below /v3, not escaped
	query    url.Values
	body     []byte
	needBody bool // an answer that cannot be read is a failure

	usage usage
}

// op says what is tried on what, for errors.
func (k *call) op() string {
	if k.name != "" {
		return k.name
	}
	return fmt.Sprintf("%s %s of conversation %q", k.method, k.path[2], k.path[1])
}

// do makes the call, as often as [repeat] allows.
func (c *Client) do(ctx context.Context, k call) ([]byte, error) {
	to, err := c.route(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	tries := c.cfg.Tries
	if k.usage.fleeting {
		tries = 1
	}
	return repeat(ctx, tries, c.cfg.Tokens != nil, func(end time.Time) ([]byte, error) { return c.attempt(ctx, k, &to, end) })
}

// route is where a call goes.
type route struct {
	url     string
	host    string
	limited bool // to Microsoft's connector, whose limits are known
}

// route builds the address of the call, each id as one escaped segment.
func (c *Client) route(ctx context.Context, k call) (route, error) {
	base, err := c.cfg.Hosts.baseFor(callerOf(ctx), k.service)
	if err != nil {
		return route{}, err
	}
	var b strings.Builder
	b.WriteString(base.String() + "/v3")
	for _, segment := range k.path {
		if segment == "" || segment == "." || segment == ".." {
			return route{}, fmt.Errorf("%w: %q cannot be an id", ErrBadCall, segment)
		}
		b.WriteString("/" + url.PathEscape(segment))
	}
	if len(k.query) > 0 {
		b.WriteString("?" + k.query.Encode())
	}
	return route{b.String(), base.Hostname(), c.cfg.Hosts.ofMicrosoft(base)}, nil
}

// attempt makes the call once, when the limits allow it, and once more where Microsoft says
// that the host of the Government Community Cloud serves the tenant, if the bot may go there:
// in the public cloud it may. That is not remembered: whatever the tenant sends next names
// the right host.
func (c *Client) attempt(ctx context.Context, k call, to *route, end time.Time) ([]byte, error) {
	// The token comes first: calls that have waited for the limits and then for one token
	// would leave together.
	within, cancel := context.WithDeadline(ctx, endOfTry(end))
	token, err := c.token(within)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	if to.limited {
		if err := c.limits.wait(ctx, k.op(), k.usage, end); err != nil {
			return nil, err
		}
	}
	reply, err := c.try(ctx, k, to.url, token, end)
	var refused *Error
	if !to.limited || !errors.As(err, &refused) || refused.Status != http.StatusForbidden || refused.Code != "InvalidBotApiHost" {
		return reply, err
	}
	k.service = gccService
	there, wrong := c.route(ctx, k)
	if wrong != nil || !there.limited || there.host == to.host {
		return reply, err
	}
	*to = there
	retries(ctx)
	return c.attempt(ctx, k, to, end)
}

// endOfTry is when a try ends that begins now, in a call that ends at end.
func endOfTry(end time.Time) time.Time {
	if limit := time.Now().Add(tryTimeout); limit.Before(end) {
		return limit
	}
	return end
}

// try makes the call once, and not beyond end. The transport is asked directly: it
// follows no redirect, and keeps no cookie.
func (c *Client) try(ctx context.Context, k call, target, token string, end time.Time) ([]byte, error) {
	ctx, cancel := context.WithDeadline(ctx, endOfTry(end))
	defer cancel()
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) { written.Store(info.Err == nil) }})
	req, err := http.NewRequestWithContext(ctx, k.method, target, bytes.NewReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	c.setHeaders(req, k, token)
	res, err := c.cfg.Transport.RoundTrip(req)
	if write := (*net.OpError)(nil); errors.As(err, &write) && write.Op == "write" {
		written.Store(false) // net/http says so already when the request is in its buffer
	}
	if err != nil && written.Load() {
		return nil, fmt.Errorf("%s: %w: %w", k.op(), ErrNoAnswer, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	defer res.Body.Close()
	body, err := readCapped(res.Body, maxReplyBytes)
	switch {
	case res.StatusCode/100 != 2:
		if res.StatusCode == http.StatusUnauthorized && token != "" {
			c.cfg.Tokens.Invalidate(token)
		}
		return nil, refusal(k.op(), res, body)
	case err != nil && k.needBody && k.method != http.MethodGet:
		return nil, fmt.Errorf("%s: %w: %w", k.op(), errDone, err)
	case err != nil && k.needBody:
		return nil, fmt.Errorf("%s: read the answer: %w", k.op(), err)
	case err != nil:
		return nil, nil // it was done, and its id stays unknown
	}
	return body, nil
}

func (c *Client) token(ctx context.Context) (string, error) {
	if c.cfg.Tokens == nil {
		return "", nil
	}
	token, err := c.cfg.Tokens.Token(ctx)
	if err == nil && !sendable(token) {
		err = &TokenError{Err: errors.New("the token is empty")}
	}
	if err != nil {
		return "", &noToken{err}
	}
	return token, nil
}

// jsonBody is shared by all requests.
var jsonBody = []string{"application/json; charset=utf-8"}

func (c *Client) setHeaders(req *http.Request, k call, token string) {
	maps.Copy(req.Header, c.header)
	if k.body != nil {
		req.Header["Content-Type"] = jsonBody
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

type onRetry struct{}

// OnRetry returns a context in which each call of a [Client] tells f, right before each
// try but its first, that it is made again.
func OnRetry(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onRetry{}, f)
}

func retries(ctx context.Context) {
	if f, ok := ctx.Value(onRetry{}).(func()); ok {
		f()
	}
}

// repeat tries until that succeeds, [attempts] gives up, or the call's time is over. signed
// says that calls have a token, which may be replaced.
func repeat[T any](ctx context.Context, tries int, signed bool, try func(end time.Time) (T, error)) (T, error) {
	end := time.Now().Add(callTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	a := &attempts{renewable: signed, backoff: backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: 20 * time.Second,
	}}
	unsure := false
	for n := 1; ; n++ {
		reply, err := try(end)
		if err == nil {
			return reply, nil
		}
		unanswered := errors.Is(err, ErrNoAnswer)
		delay, again := a.judge(err)
		if n >= tries || !again || ctx.Err() != nil || time.Until(end) <= delay || sleep(ctx, delay) != nil {
			if unsure && !unanswered {
				err = fmt.Errorf("%w; to a try before that %w", err, ErrNoAnswer)
			}
			return reply, err
		}
		unsure = unsure || unanswered
		retries(ctx)
	}
}

// attempts decides what becomes of a call after each of its tries, by the list in
// Microsoft's documentation (bots/how-to/conversations/conversation-messages, "Status codes
// from bot conversational APIs").
type attempts struct {
	backoff   backoff.ExponentialBackOff
	lost      bool // a try was repeated whose answer never came
	renewable bool // a 401 is worth a try with another token
}

// judge returns how long to wait before the next try, or false when err is final.
func (a *attempts) judge(err error) (time.Duration, bool) {
	if errors.Is(err, ErrHeldBack) || errors.Is(err, errDone) {
		return 0, false
	}
	var answer *Error
	if errors.As(err, &answer) {
		switch answer.Status {
		case http.StatusUnauthorized:
			again := a.renewable
			a.renewable = false
			return 0, again
		case http.StatusPreconditionFailed, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return max(a.backoff.NextBackOff(), answer.RetryAfter), answer.RetryAfter <= maxRetryAfter
		default:
			return 0, false
		}
	}
	if no := new(noToken); errors.As(err, &no) {
		var e *TokenError
		if !errors.As(no, &e) || e.refused() {
			return 0, false // a refusal of the bot itself does not pass within a call
		}
		return max(a.backoff.NextBackOff(), time.Until(e.retryAt)), true
	}
	if errors.Is(err, ErrHostNotAllowed) || errors.Is(err, ErrTooLarge) {
		return 0, false
	}
	first := !a.lost // no answer: the activity may or may not have arrived
	a.lost = true
	return a.backoff.NextBackOff(), first
}

// noToken is why a call was not made: its token could not be had.
type noToken struct{ error }

func (n *noToken) Unwrap() error { return n.error }

// retryAfter reads the header of that name, seconds or an HTTP date (RFC 9110).
func retryAfter(value string, now time.Time) time.Duration {
	if value = strings.TrimSpace(value); value == "" {
		return 0
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), int64(24*time.Hour/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
