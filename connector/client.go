package connector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	defaultTryTimeout  = 15 * time.Second
	defaultCallTimeout = 2 * time.Minute
	defaultTries       = 5
	maxReplyBytes      = 1 << 20
)

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
	// TryTimeout bounds one try of a call. 0: 15 seconds.
	TryTimeout time.Duration
	// CallTimeout bounds a call with all its tries, when ctx does not end it
	// earlier. 0: 2 minutes.
	CallTimeout time.Duration
	// Tries is how often a call is made at most. 0: 5.
	Tries int
	// UserAgent names the bot. "": planbot.
	UserAgent string
}

// Client calls the Connector REST API. It may be used concurrently.
//
// A call is repeated when the connector says 412, 429 (after its Retry-After),
// 502, 503 or 504, once when it says 401, with a new token where [TokenSource] has
// one, and once when no answer came. Since sending is not idempotent, an activity can
// arrive twice: at least once is what the protocol allows. A typing indicator is not
// repeated. Redirects are not followed.
//
// Towards Microsoft's connector, though not towards hosts that the operator listed, each
// try waits until it keeps the limits of Teams. In one conversation (a channel with all
// its threads is one) that are 7 activities in a second, 8 in two, 60 in 30 and 1800 in an
// hour; a message with text and attachments is two. In one tenant it is 50 requests in a
// second. What answers nobody may take 40 of these: what [Client.Send] sends except typing
// indicators, and conversations that are created. [Client.Download] is not counted, as it
// knows no tenant. A try that would have to wait longer than half a minute, or than the
// call has left, is not made, nor is a typing indicator that would have to wait at all: the
// error wraps [ErrHeldBack], and an [*Error] that says when to come back.
//
// Each method takes the conversation as a reference, as
// [activity.Activity.Reference] gives it; its service URL must be one of
// Config.Hosts, else the error wraps [ErrHostNotAllowed] and nothing was sent.
// An answer that is no success is an [*Error], a token that cannot be had a
// [*TokenError]; what wraps [ErrNoAnswer] may have arrived.
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
	if cfg.TryTimeout < 0 || cfg.CallTimeout < 0 || cfg.Tries < 0 {
		errs = append(errs, errors.New("negative timeout or number of tries"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("connector config: %w", err)
	}
	cfg.TryTimeout = cmp.Or(cfg.TryTimeout, defaultTryTimeout)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, defaultCallTimeout)
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

// do makes the call, as often as [attempts] allows.
func (c *Client) do(ctx context.Context, k call) ([]byte, error) {
	to, err := c.route(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op(), err)
	}
	cfg := c.cfg
	if k.usage.fleeting {
		cfg.Tries = 1
	}
	return repeat(ctx, cfg, func(end time.Time) ([]byte, error) { return c.attempt(ctx, k, &to, end) })
}

// gccService is where Teams serves tenants of the Government Community Cloud, which
// belong to the public cloud otherwise.
const gccService = "https://smba.infra.gcc.teams.microsoft.com/teams"

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
// that another host serves the tenant. That is not remembered: whatever the tenant sends
// next names the right host.
func (c *Client) attempt(ctx context.Context, k call, to *route, end time.Time) ([]byte, error) {
	token, err := c.ready(ctx, k, *to, end)
	if err != nil {
		return nil, err
	}
	reply, err := c.try(ctx, k, to.url, token, end)
	if !c.moved(ctx, k, to, err) {
		return reply, err
	}
	retries(ctx)
	return c.attempt(ctx, k, to, end)
}

// moved changes the route to the host of the Government Community Cloud, if that is what
// the refusal asks for and the bot may go there: in the public cloud it may.
func (c *Client) moved(ctx context.Context, k call, to *route, err error) bool {
	var refused *Error
	if !to.limited || !errors.As(err, &refused) || refused.Status != http.StatusForbidden || refused.Code != "InvalidBotApiHost" {
		return false
	}
	k.service = gccService
	there, err := c.route(ctx, k)
	if err != nil || !there.limited || there.host == to.host {
		return false
	}
	*to = there
	return true
}

// ready gets the token, and then waits until the limits of Teams allow the call. The other
// way round, calls that have waited for one token would leave together.
func (c *Client) ready(ctx context.Context, k call, to route, end time.Time) (token string, err error) {
	within, cancel := c.tryWithin(ctx, end)
	defer cancel()
	if token, err = c.token(within); err != nil {
		return "", fmt.Errorf("%s: %w", k.op(), err)
	}
	if !to.limited {
		return token, nil
	}
	return token, c.limits.wait(ctx, k.op(), k.usage, end)
}

// tryWithin is a context for one try, not beyond end.
func (c *Client) tryWithin(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if limit := time.Now().Add(c.cfg.TryTimeout); limit.Before(end) {
		end = limit
	}
	return context.WithDeadline(ctx, end)
}

// try makes the call once, and not beyond end. The transport is asked directly: it
// follows no redirect, and keeps no cookie.
func (c *Client) try(ctx context.Context, k call, target, token string, end time.Time) ([]byte, error) {
	ctx, cancel := c.tryWithin(ctx, end)
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
	case !success(res.StatusCode):
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

func success(status int) bool {
	switch status {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
		return true
	default:
		return false
	}
}
