package connector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"unicode"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
)

const (
	callTimeout     = 2 * time.Minute // of a call with all its tries
	tryTimeout      = 15 * time.Second
	downloadTimeout = time.Minute // of one try of a download, with its redirects
	// maxRetryAfter is the longest wait that the connector may ask for within a call; a
	// longer one is the caller's to plan.
	maxRetryAfter = time.Minute
	defaultTries  = 5

	maxReplyBytes    = 1 << 20
	maxMessageRunes  = 256 // of a connector's words in an error
	memberPageSize   = 200
	maxMemberPages   = 500
	defaultFileBytes = 20 << 20
	fileInfo         = "application/vnd.microsoft.teams.file.download.info"

	// gccService is where Teams serves tenants of the Government Community Cloud, which
	// belong to the public cloud otherwise.
	gccService = "https://smba.infra.gcc.teams.microsoft.com/teams"
)

var (
	// ErrNoAnswer is wrapped when the whole request of a call was written and no answer came:
	// it may have arrived. A request that was not written to its end, say because there was no
	// connection, does not count. The Transport tells which of the two it was through
	// [net/http/httptrace].
	ErrNoAnswer = errors.New("no answer came")
	// ErrBadCall is wrapped when a call was not made, and never can be: what it names is no id
	// ("", "." and ".." are none), its activity has no type, cannot be written as JSON or is too
	// large, or it is for a calling bot that is not, or no longer, among the [Callers].
	ErrBadCall = errors.New("the call cannot be made")
)

// Error is an answer of the Connector that is no success, or the one that it would give to a
// call that is held back.
type Error struct {
	Op         string // what was tried on what
	Status     int
	Code       string // the Connector's own, such as "ConversationNotFound"; may be ""
	Message    string // the Connector's words, cut and without control characters
	RetryAfter time.Duration
	// HeldBack says that the call was not made: it would have had to wait too long to stay
	// below the limits of Teams. The status is 429, and RetryAfter says when there is room.
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

// refusal makes an error of an answer that is no success. Whatever its body is, the status
// counts. Microsoft's connector says why in a member error, the Agents Playground's at the
// top.
func refusal(op string, res *http.Response) *Error {
	type reason struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	var said struct {
		reason
		Error jsontext.Value `json:"error"`
	}
	body, _ := readCapped(res.Body, maxReplyBytes) // a part of it, or a proxy's page: no words
	_ = json.Unmarshal(body, &said)
	switch said.Error.Kind() {
	case '{':
		_ = json.Unmarshal(said.Error, &said.reason)
	case '"':
		_ = json.Unmarshal(said.Error, &said.Message)
	}
	return &Error{
		Op: op, Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After")),
		Code: printable(said.Code), Message: printable(said.Message),
	}
}

// printable cuts a text from outside to what a log line may hold.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	r := []rune(s)
	return string(r[:min(len(r), maxMessageRunes)])
}

// retryAfter reads the header of that name, seconds or an HTTP date (RFC 9110).
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
// A call takes at most two minutes, and each try of it at most 15 seconds. It is repeated
// when the connector says 412, 429 (after its Retry-After), 502, 503 or 504, once when it
// says 401, with a new token where there is one, and once when no answer came. Since sending
// is not idempotent, an activity can arrive twice: at least once is what the protocol
// allows. A typing indicator is not repeated. Redirects are not followed.
//
// Towards Microsoft's connector, though not towards hosts that the operator listed, each
// try waits until it keeps the limits of Teams. In one conversation (a channel with all its
// threads is one) that is 7 activities in a second, 8 in two, 60 in 30 and 1800 in an hour;
// a message with text and attachments is two. In one tenant it is 50 requests in a second.
// [Client.Download] is not counted, as it knows no tenant. A try that would have to wait
// longer than half a minute, or than the call has left, is not made, nor is a typing
// indicator that would have to wait at all: the error is an [*Error] that is HeldBack.
//
// Each method takes the conversation as a reference, as [activity.Activity.Reference] gives
// it; its service URL must be one that [Config] allows, else the error wraps
// [ErrHostNotAllowed] and nothing was sent. An answer that is no success is an [*Error];
// what wraps [ErrNoAnswer] may have arrived.
type Client struct {
	cfg    Config
	hosts  *serviceHosts
	tokens *tokens // nil in local mode
	limits *limits
	calls  http.RoundTripper
	files  http.RoundTripper // for downloads
}

func newClient(cfg Config, hosts *serviceHosts) *Client {
	cfg.Tries = cmp.Or(cfg.Tries, defaultTries)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "planbot")
	calls, files := cfg.Transport, cfg.Transport
	if calls == nil {
		calls, files = guardedTransport(hosts.reachOf), guardedTransport(hosts.fileReachOf)
	}
	return &Client{cfg: cfg, hosts: hosts, limits: newLimits(), calls: calls, files: files}
}

// Identified reports whether the calls carry the bot's token.
func (c *Client) Identified() bool { return c.tokens != nil }

// CheckToken gets a token for the channels, and returns why there is none. In local mode it
// returns nil.
func (c *Client) CheckToken(ctx context.Context) error {
	_, err := c.token(ctx)
	return err
}

// Close gives up idle connections. A request for a token that is under way ends within ten
// seconds.
func (c *Client) Close() {
	closeIdle(c.calls)
	closeIdle(c.files)
}

// Send puts an activity at the end of the conversation of ref. The id is ""
// when the connector tells none, as it does for typing and split messages. The
// activity is not changed; what goes out fits its channel ([activity.Activity.Fit]) and
// leaves out what only that may say. A typing indicator is tried once, and only when it
// need not wait.
func (c *Client) Send(ctx context.Context, ref activity.Reference, a *activity.Activity) (id string, err error) {
	return c.post(ctx, ref, a, "activities")
}

// Reply sends an activity as an answer to the activity with the id replyTo.
func (c *Client) Reply(ctx context.Context, ref activity.Reference, replyTo string, a *activity.Activity) (id string, err error) {
	answer := *a
	answer.ReplyToID = replyTo
	return c.post(ctx, ref, &answer, "activities", replyTo)
}

func (c *Client) post(ctx context.Context, ref activity.Reference, a *activity.Activity, path ...string) (string, error) {
	k := inConversation(http.MethodPost, ref, path...)
	k.usage.fleeting = a.Type == activity.Typing
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

// Delete takes back the sent activity with the given id. targeted says that only one person
// of a group or channel sees it.
func (c *Client) Delete(ctx context.Context, ref activity.Reference, id string, targeted bool) error {
	k := inConversation(http.MethodDelete, ref, "activities", id)
	k.targeted = targeted
	_, err := c.do(ctx, k)
	return err
}

// Members goes through all members of the conversation, a page at a time. An
// error is the last thing that it yields.
func (c *Client) Members(ctx context.Context, ref activity.Reference) iter.Seq2[activity.Account, error] {
	return func(yield func(activity.Account, error) bool) {
		k := inConversation(http.MethodGet, ref, "pagedmembers")
		k.query = url.Values{"pageSize": {strconv.Itoa(memberPageSize)}}
		for range maxMemberPages {
			var page struct {
				Members []activity.Account `json:"members"`
				Next    string             `json:"continuationToken"` // "": this is the last
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
			if page.Next == "" {
				return
			}
			k.query.Set("continuationToken", page.Next)
		}
		yield(activity.Account{}, fmt.Errorf("%s: more than %d pages", k.op(), maxMemberPages))
	}
}

// CreateConversation begins a personal chat with a person whom the connector of ref knows,
// with its first message. It returns where the chat goes on, with the message's id.
func (c *Client) CreateConversation(ctx context.Context, ref activity.Reference, with string, first *activity.Activity) (activity.Reference, error) {
	type account struct {
		ID string `json:"id"`
	}
	tenant := ref.Conversation.TenantID
	chat := map[string]any{"members": []account{{with}}, "isGroup": false}
	if tenant != "" {
		chat["tenantId"], chat["channelData"] = tenant, map[string]any{"tenant": account{tenant}}
	}
	return c.create(ctx, ref, with, chat, first)
}

// NewThread begins a thread in a channel of Teams with its first message. The channel is
// the one of ref, whose conversation may be one of its threads; for another channel, put
// its id there. It returns the thread, to go on in, with the message's id.
func (c *Client) NewThread(ctx context.Context, ref activity.Reference, first *activity.Activity) (activity.Reference, error) {
	channel, _, _ := strings.Cut(ref.Conversation.ID, ";")
	thread := map[string]any{"isGroup": true, "channelData": map[string]any{"channel": map[string]string{"id": channel}}}
	if ref.Conversation.TenantID != "" {
		thread["tenantId"] = ref.Conversation.TenantID
	}
	return c.create(ctx, ref, channel, thread, first)
}

// create makes the conversation; place is what its limits are counted by.
func (c *Client) create(ctx context.Context, ref activity.Reference, place string, wire map[string]any, first *activity.Activity) (activity.Reference, error) {
	none := activity.Reference{}
	k := call{
		name: "create conversation", method: http.MethodPost, service: ref.ServiceURL, path: []string{"conversations"},
		usage: usage{conversation: place, tenant: ref.Conversation.TenantID},
	}
	message := *first
	message.ReplyToID = ""                         // nothing is there yet
	message.Conversation = activity.Conversation{} // but what is to be made
	there := ref
	there.ActivityID, there.Conversation = "", activity.Conversation{}.ConversationAccount
	there.Conversation.IsGroup, _ = wire["isGroup"].(bool)
	if err := k.write(there, &message); err != nil {
		return none, err
	}
	wire["bot"], wire["activity"] = map[string]string{"id": ref.Bot.ID}, jsontext.Value(k.body)
	var err error
	if k.body, err = json.Marshal(wire, json.Deterministic(true)); err != nil {
		return none, fmt.Errorf("%s: %w: %w", k.op(), ErrBadCall, err)
	}
	var created struct {
		ID         string `json:"id"`
		ActivityID string `json:"activityId"`
		ServiceURL string `json:"serviceUrl"`
	}
	if err := c.ask(ctx, k, &created); err != nil {
		return none, err
	}
	if created.ID == "" {
		return none, fmt.Errorf("%s: the answer has no id", k.op())
	}
	there.ActivityID, there.Conversation.ID, there.Conversation.TenantID = created.ActivityID, created.ID, ref.Conversation.TenantID
	there.ServiceURL = cmp.Or(created.ServiceURL, ref.ServiceURL)
	if _, err := c.hosts.baseFor(callerOf(ctx), there.ServiceURL); err != nil {
		return none, fmt.Errorf("%s: %w", k.op(), err)
	}
	return there, nil
}

// TeamSize returns how many members the team with that id has, as channelData.team.id of an
// activity names it. Only Teams knows.
func (c *Client) TeamSize(ctx context.Context, ref activity.Reference, id string) (members int, err error) {
	var team struct {
		MemberCount int `json:"memberCount"`
	}
	err = c.ask(ctx, call{
		name:    "get team " + id,
		method:  http.MethodGet,
		service: ref.ServiceURL,
		path:    []string{"teams", id},
		usage:   usage{tenant: ref.Conversation.TenantID},
	}, &team)
	return team.MemberCount, err
}

// call is one operation of the API.
type call struct {
	name     string // for errors; "": by what the others say
	method   string
	service  string   // service URL
	path     []string // segments below /v3, not escaped
	query    url.Values
	targeted bool // only one person sees the activity
	body     []byte

	usage usage
}

func inConversation(method string, ref activity.Reference, path ...string) call {
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

// op says what is tried on what, for errors.
func (k *call) op() string {
	if k.name != "" {
		return k.name
	}
	return fmt.Sprintf("%s %s of conversation %q", k.method, k.path[2], k.path[1])
}

// write makes a's JSON the call's body, for the conversation of ref and as a bot may send
// it: fit for the channel, see [activity.Activity.Fit], and without what only the channel
// may say (ids, times, service URL, caller, names; rules A2031, A2041, A2063, A2071, A2083
// and A2302 of the activity specification). The activity itself stays as it is.
func (k *call) write(ref activity.Reference, a *activity.Activity) error {
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
	k.targeted = isTargeted(a.Recipient)
	if out.Type != "suggestion" && !k.targeted || k.method == http.MethodPut { // an update goes to whom the activity went
		out.Recipient = activity.Account{}
	}
	var err error
	if out.Extra, err = withoutTimes(out.Extra); err == nil && a.Type == "" {
		err = errors.New("the activity has no type")
	}
	if err == nil {
		k.body, err = out.EncodeToSend()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", k.op(), ErrBadCall, err)
	}
	return nil
}

// isTargeted reports whether the recipient alone is to see the activity.
func isTargeted(to activity.Account) bool {
	var flags struct {
		IsTargeted jsontext.Value `json:"isTargeted"`
	}
	return len(to.Extra) > 0 && json.Unmarshal(to.Extra, &flags) == nil && flags.IsTargeted.Kind() == 't'
}

// withoutTimes drops the times that an inbound activity brings and an outbound one must not
// repeat.
func withoutTimes(extra jsontext.Value) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if len(extra) > 0 {
		if err := json.Unmarshal(extra, &members, jsontext.AllowInvalidUTF8(true)); err != nil {
			return nil, fmt.Errorf("extra fields: %w", err)
		}
	}
	for _, name := range []string{"timestamp", "localTimestamp", "localTimezone", "rawTimestamp"} {
		delete(members, name)
	}
	if string(members["expiration"]) == `"0001-01-01T00:00:00Z"` { // which has expired
		delete(members, "expiration")
	}
	if len(members) == 0 {
		return nil, nil
	}
	return json.Marshal(members, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// ask makes the call and reads its answer into v.
func (c *Client) ask(ctx context.Context, k call, v any) error {
	reply, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, v); err != nil {
		return fmt.Errorf("%s: read the answer: %w", k.op(), err)
	}
	return nil
}

// do makes the call, as often as repeat allows. Where Microsoft says that the host of the
// Government Community Cloud serves the tenant, the call goes on there, if the bot may: in
// the public cloud it may. That is not remembered: whatever the tenant sends next names the
// right host.
func (c *Client) do(ctx context.Context, k call) (reply []byte, err error) {
	to, err := c.route(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	tries := c.cfg.Tries
	if k.usage.fleeting {
		tries = 1
	}
	err = c.repeat(ctx, tries, func(end time.Time) (err error) {
		reply, err = c.try(ctx, k, to, end)
		refused, ok := errors.AsType[*Error](err)
		moved := ok && refused.Status == http.StatusForbidden && refused.Code == "InvalidBotApiHost"
		if !moved || !to.limited || k.service == gccService {
			return err
		}
		k.service = gccService
		if there, wrong := c.route(ctx, k); wrong == nil {
			to = there
			reply, err = c.try(ctx, k, to, end)
		}
		return err
	})
	return reply, err
}

// route is where a call goes.
type route struct {
	url     string
	limited bool // to Microsoft's connector, whose limits are known
}

// route builds the address of the call, each id as one escaped segment.
func (c *Client) route(ctx context.Context, k call) (route, error) {
	base, err := c.hosts.baseFor(callerOf(ctx), k.service)
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
	switch {
	case k.targeted:
		b.WriteString("?isTargetedActivity=true")
	case len(k.query) > 0:
		b.WriteString("?" + k.query.Encode())
	}
	return route{b.String(), c.hosts.ofMicrosoft(base)}, nil
}

// try makes the call once, when the limits allow it, and not beyond end. The transport is
// asked directly: it follows no redirect, and keeps no cookie.
func (c *Client) try(ctx context.Context, k call, to route, end time.Time) ([]byte, error) {
	// The token comes first: calls that have waited for the limits and then for one token
	// would leave together.
	within, cancel := withDeadline(ctx, tryTimeout, end)
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
	ctx, cancel = withDeadline(ctx, tryTimeout, end)
	defer cancel()
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) { written.Store(info.Err == nil) }})
	req, err := http.NewRequestWithContext(ctx, k.method, to.url, bytes.NewReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	c.setHeaders(req, token)
	req.Header.Set("Accept", "application/json")
	if k.body != nil {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	res, err := c.calls.RoundTrip(req)
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
	if res.StatusCode/100 != 2 {
		return nil, c.refused(k.op(), res, token)
	}
	body, err := readCapped(res.Body, maxReplyBytes)
	if err != nil && k.method == http.MethodGet {
		return nil, fmt.Errorf("%s: read the answer: %w", k.op(), err)
	}
	return body, nil // what cannot be read was done all the same, and is not done again
}

// withDeadline ends a context after a time, and not beyond end.
func withDeadline(ctx context.Context, after time.Duration, end time.Time) (context.Context, context.CancelFunc) {
	if limit := time.Now().Add(after); limit.Before(end) {
		end = limit
	}
	return context.WithDeadline(ctx, end)
}

func (c *Client) token(ctx context.Context) (string, error) {
	if c.tokens == nil {
		return "", nil
	}
	return c.tokens.get(ctx)
}

func (c *Client) setHeaders(req *http.Request, token string) {
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

// refused is an answer that is no success. After a 401 the token is not used again.
func (c *Client) refused(op string, res *http.Response, token string) error {
	if res.StatusCode == http.StatusUnauthorized && token != "" {
		c.tokens.invalidate(token)
	}
	return refusal(op, res)
}

// repeat tries until that succeeds, an error is final, or the call's time is over. Which
// errors are not is the list in Microsoft's documentation
// (bots/how-to/conversations/conversation-messages, "Status codes from bot conversational
// APIs").
func (c *Client) repeat(ctx context.Context, tries int, try func(end time.Time) error) error {
	end := time.Now().Add(callTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	pause := backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: 20 * time.Second,
	}
	renewed := c.tokens == nil // a 401 is worth one try with another token
	lost := false              // a try was repeated whose answer never came
	unsure := false            // and which may have arrived
	for n := 1; ; n++ {
		err := try(end)
		if err == nil {
			return nil
		}
		delay, again := time.Duration(0), false
		refused, answered := errors.AsType[*Error](err)
		noToken, isToken := errors.AsType[*tokenError](err)
		switch {
		case answered && refused.HeldBack, errors.Is(err, ErrHostNotAllowed), errors.Is(err, ErrBadCall):
		case answered && refused.Status == http.StatusUnauthorized:
			again, renewed = !renewed, true
		case answered:
			delay, again = max(pause.NextBackOff(), refused.RetryAfter), refused.passes() && refused.RetryAfter <= maxRetryAfter
		case isToken:
			delay, again = max(pause.NextBackOff(), time.Until(noToken.retryAt)), !noToken.refused()
		default: // no answer: the activity may or may not have arrived
			delay, again, lost = pause.NextBackOff(), !lost, true
		}
		unanswered := errors.Is(err, ErrNoAnswer)
		if n >= tries || !again || ctx.Err() != nil || time.Until(end) <= delay || sleep(ctx, delay) != nil {
			if unsure && !unanswered {
				err = fmt.Errorf("%w; to a try before that %w", err, ErrNoAnswer)
			}
			return err
		}
		unsure = unsure || unanswered
	}
}

// passes reports whether the connector may take a little later what it refused.
func (e *Error) passes() bool {
	return slices.Contains([]int{
		http.StatusPreconditionFailed, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}, e.Status)
}

// Download fetches what an attachment of an inbound activity leads to: a picture or file
// on a connector host, with the bot's token, or what a person of Teams shared (its content
// type is application/vnd.microsoft.teams.file.download.info), whose address is a secret of
// its own and is asked without the token. Another host than the connector's and Microsoft's
// file hosts, or plain http beyond this machine, wraps [ErrHostNotAllowed], and nothing is
// sent. Redirects are not followed. More than maxBytes (0: 20 MiB) is an [*Error] of status
// 413, whatever the server says of the length. A try takes a minute at most, and is repeated
// like any call. No error holds the address. The content type is the server's media type,
// without parameters; "" when it is none.
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
	if maxBytes <= 0 {
		maxBytes = defaultFileBytes
	}
	maxBytes = min(maxBytes, math.MaxInt64-1) // one more is read, to see whether there is more
	err = c.repeat(ctx, c.cfg.Tries, func(end time.Time) (err error) {
		content, contentType, err = c.fetch(ctx, from, signed && !shared, maxBytes, end)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	})
	return content, contentType, err
}

// fetch downloads once.
func (c *Client) fetch(ctx context.Context, from *url.URL, signed bool, maxBytes int64, end time.Time) (content []byte, contentType string, err error) {
	ctx, cancel := withDeadline(ctx, downloadTimeout, end)
	defer cancel()
	token := ""
	if signed {
		if token, err = c.token(ctx); err != nil {
			return nil, "", err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, "", errors.New("the address cannot be asked")
	}
	c.setHeaders(req, token)
	res, err := c.files.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, "", c.refused("get the file", res, token)
	}
	if res.ContentLength <= maxBytes {
		content, err = readCapped(res.Body, maxBytes)
	}
	switch {
	case res.ContentLength > maxBytes, errors.Is(err, errTooLong):
		return nil, "", &Error{Op: "get the file", Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("more than %d bytes", maxBytes)}
	case err != nil:
		return nil, "", fmt.Errorf("read the content: %w", err)
	}
	contentType, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type")) // "" of what is none
	return content, contentType, nil
}
