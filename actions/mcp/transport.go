package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/calls"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxIdleConns  = 8
	maxBody       = 8 << 20 // bytes of an answer
	maxPage       = 2 << 20 // bytes of a page of a list
	maxFault      = 64 << 10
	maxEvent      = 1 << 20 // bytes of a notification
	headerTimeout = 10 * time.Second
	quickTimeout  = 3 * time.Second // for what needs no work: notifications, and listening to them
	listenPause   = time.Second     // doubles up to maxListenPause
	maxListenWait = time.Minute
)

// exchange is one request of ours and what became of it. The library of the protocol does not tell whether
// anything was sent, and changes numbers, so it is noted where the bytes pass by.
type exchange struct {
	limit int64  // bytes of the answer
	abort func() // ends the request

	mu         sync.Mutex
	sent       bool // its first bytes went out
	status     int  // of HTTP; 0: none
	retryAfter time.Duration
	needs      *connector.ScopeError // nil: scopes are not what is wrong
	answer     *answer
	tooLarge   bool
	fault      error  // why there is no answer
	redirect   string // the host that the server wants us to go to
	stream     *bytes.Buffer
	id         string
	used       string // an id that it must not have: that of the request whose question it answers; "": none
	repeats    bool   // it would have had it, so nothing was sent
}

// answer is a response of JSON-RPC: a result or an error.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("the server answered error %d: %s", e.Code, spelling.OneLine(e.Message, maxReason))
}

const maxReason = 200 // how many characters of what a server says about a failure people read

type exchangeKey struct{}

// follow returns a context whose requests are noted in the exchange.
func (x *exchange) follow(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// followed is the exchange of a context; nil: none.
func followed(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

func (x *exchange) note(f func()) {
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		f()
	}
}

// outcome returns a copy of what is known. Then nothing changes it.
func (x *exchange) outcome() *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := &exchange{
		sent:       x.sent,
		status:     x.status,
		retryAfter: x.retryAfter,
		needs:      x.needs,
		answer:     x.answer,
		tooLarge:   x.tooLarge,
		fault:      x.fault,
		redirect:   x.redirect,
		repeats:    x.repeats,
	}
	if known.answer == nil && x.stream != nil {
		known.answer = answerIn(x.stream.Bytes(), x.id)
	}
	return known
}

// forget drops the events of the stream that are not the answer. x.mu is locked.
func (x *exchange) forget() {
	all := x.stream.Bytes()
	end := max(bytes.LastIndex(all, []byte("\n\n")), bytes.LastIndex(all, []byte("\n\r\n")))
	if end >= 0 && answerIn(append(bytes.Clone(all[:end+1]), '\n'), x.id) == nil {
		x.stream.Next(end + 1)
	}
}

// answerIn finds the answer to a request in a stream of events. The stream may have ended in the middle of one:
// half an answer is no JSON.
func answerIn(stream []byte, id string) *answer {
	var data []byte
	for line := range bytes.Lines(stream) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 {
			if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(append(data, bytes.TrimPrefix(text, []byte(" "))...), '\n')
			}
			continue
		}
		if a := answerOf(data, id); a != nil {
			return a
		}
		data = nil
	}
	return answerOf(data, id)
}

// answerOf decodes the answer to a request; nil: it is none.
func answerOf(raw []byte, id string) *answer {
	var a answer
	if json.Unmarshal(raw, &a) != nil || a.Method != "" || a.Result == nil && a.Error == nil || string(a.ID) != id {
		return nil
	}
	return &a
}

// httpTransport makes the requests of one session. It goes to one origin and follows no redirect. Whatever a
// server answers that is no JSON-RPC becomes an error of JSON-RPC, so one bad answer does not end the
// session for others.
type httpTransport struct {
	base     http.RoundTripper
	endpoint *url.URL
	header   http.Header
	stale    func()             // a notification may have been missed
	deaf     func()             // no more notifications come
	closing  context.Context    //nolint:containedctx // ends with the session
	end      context.CancelFunc // of closing

	mu    sync.Mutex
	token string // of the person; "": none
}

// newBase returns what all sessions of a connection share. It dials addresses on the internet, in these
// networks and, where an operator wrote http, of this machine.
func newBase(private []netip.Prefix, endpoint *url.URL) *http.Transport {
	if endpoint != nil && endpoint.Scheme == "http" {
		private = append(slices.Clip(private), connections.ThisMachine()...)
	}
	base := connections.Dialer{Private: private}.Transport()
	base.IdleConnTimeout = time.Minute
	base.MaxIdleConnsPerHost = maxIdleConns
	base.MaxResponseHeaderBytes = maxFault // an answer has no more headers than this
	return base
}

func (t *httpTransport) setToken(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = token
}

// authorize adds the person's token to a request.
func (t *httpTransport) authorize(req *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
}

// client is an http.Client that does not follow redirects.
func (t *httpTransport) client() *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (t *httpTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.endpoint.Scheme || req.URL.Host != t.endpoint.Host {
		return nil, fmt.Errorf("a request to %s, which is another origin", req.URL.Host)
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(t.closing, func() { // a request that ends the session outlives it
		if req.Method != http.MethodDelete {
			cancel()
		}
	})
	release := func() { stop(); cancel() }
	req = req.Clone(ctx)
	for name, values := range t.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	t.authorize(req)
	resumes := req.Header.Get("Last-Event-Id") != ""
	switch {
	case req.Method == http.MethodGet && !resumes:
		body := &listening{transport: t, req: req, release: release}
		return response(req, "text/event-stream", body), nil
	case req.Method == http.MethodPost || resumes:
		return t.exchange(req, release)
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = releasing{io.LimitReader(resp.Body, maxFault), resp.Body, release}
	return resp, nil
}

// exchange makes a request that has an answer, or is a notification.
func (t *httpTransport) exchange(req *http.Request, release func()) (*http.Response, error) {
	ctx := req.Context()
	x, id := followed(ctx), ""
	if req.GetBody != nil {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, err := req.GetBody()
		if err == nil {
			err = json.NewDecoder(body).Decode(&call)
		}
		if err != nil {
			release()
			return nil, err
		}
		if call.Method != "" {
			id = string(call.ID)
		}
	} else if x != nil {
		x.note(func() { id = x.id })
	}
	if id == "" {
		x = nil // a notification is not the call that it follows
	}
	if x == nil {
		timer := time.AfterFunc(quickTimeout, release)
		defer timer.Stop()
	}
	listens := x == nil && id != ""
	x.note(func() {
		x.id, x.status, x.fault, x.answer, x.stream, x.redirect, x.tooLarge = id, 0, nil, nil, nil, "", false
	})
	if x != nil && id == x.used {
		release()
		x.note(func() { x.repeats = true })
		used := `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"the id was used"}}`
		return response(req, "application/json", io.NopCloser(strings.NewReader(used))), nil
	}
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { x.note(func() { x.sent = true }) },
	}))
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		release()
		x.note(func() { x.fault = err })
		if listens {
			t.deaf()
		}
		return nil, err
	}
	x.note(func() {
		x.status = resp.StatusCode
		x.retryAfter, _ = calls.RetryAfter(resp.Header)
		x.needs = connections.Needs(resp.Header)
	})
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	good := resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case good && id == "":
		resp.Body = releasing{io.LimitReader(resp.Body, maxFault), resp.Body, release}
		return resp, nil
	case good && media == "text/event-stream":
		s := &streamed{releasing: releasing{resp.Body, resp.Body, release}, x: x}
		if x == nil { // what listens to changes
			s.ended = t.deaf
		} else {
			s.kept = new(bytes.Buffer)
			x.note(func() { x.stream = s.kept })
		}
		resp.Body = s
		return resp, nil
	}
	defer release()
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK { // it speaks something else now, which would never end
		resp.Body.Close()
	}
	if listens {
		t.deaf()
	}
	limit := int64(maxFault)
	if good && x != nil {
		limit = x.limit
	}
	body, tooLarge, err := readAll(resp, limit)
	moved := resp.StatusCode >= 300 && resp.StatusCode < 400 // whatever else it says
	var a *answer
	if err == nil && !tooLarge && !moved {
		a = answerOf(body, id)
	}
	if a == nil && !good && !moved && json.Valid(body) { // an error need not name the request
		var foreign answer
		if json.Unmarshal(body, &foreign) == nil && foreign.Error != nil && foreign.Method == "" {
			a = &foreign
		}
	}
	x.note(func() {
		x.answer, x.tooLarge = a, tooLarge && good && media == "application/json"
		switch {
		case a != nil:
		case moved:
			x.redirect = redirectHost(t.endpoint, resp.Header.Get("Location"))
			x.fault = fmt.Errorf("the server answered %d, a redirect to %s, which is not followed", resp.StatusCode, x.redirect)
		case !good:
			x.fault = fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		case tooLarge:
			x.fault = fmt.Errorf("the answer has more than %d bytes", limit)
		case err != nil:
			x.fault = fmt.Errorf("the answer broke off: %w", err)
		default:
			x.fault = fmt.Errorf("the server answered with %s that is no JSON-RPC", spelling.OneLine(cmp.Or(media, "something"), maxReason))
		}
	})
	if a == nil {
		body, err = json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": json.RawMessage(cmp.Or(id, "null")), "error": rpcError{Code: -32603, Message: "no answer"},
		})
	} else if !bytes.Equal(a.ID, []byte(id)) {
		body, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "error": a.Error})
	}
	if err != nil {
		return nil, err
	}
	out := response(req, "application/json", io.NopCloser(bytes.NewReader(body)))
	if session := resp.Header.Get("Mcp-Session-Id"); session != "" {
		out.Header.Set("Mcp-Session-Id", session)
	}
	return out, nil
}

// response is a response with a body of ours.
func response(req *http.Request, media string, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {media}}, Body: body, Request: req,
	}
}

// readAll reads a body of at most limit bytes. It does not keep a larger one.
func readAll(resp *http.Response, limit int64) (body []byte, tooLarge bool, err error) {
	if resp.ContentLength > limit {
		return nil, true, nil
	}
	var parts [][]byte
	size := int64(0)
	for {
		part := make([]byte, min(64<<10, max(resp.ContentLength+1, 4<<10)))
		n, err := io.ReadFull(resp.Body, part)
		parts, size = append(parts, part[:n]), size+int64(n)
		switch {
		case size > limit:
			return nil, true, nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && (resp.ContentLength < 0 || size == resp.ContentLength):
			return bytes.Join(parts, nil), false, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// redirectHost is where a Location points.
func redirectHost(from *url.URL, location string) string {
	to, err := from.Parse(location)
	if err != nil || to.Host == "" {
		return "somewhere"
	}
	return spelling.OneLine(to.Host, maxReason)
}

// releasing is a body that, when it is closed, also releases what belongs to its request.
type releasing struct {
	io.Reader

	body    io.Closer
	release func()
}

func (r releasing) Close() error {
	err := r.body.Close()
	r.release()
	return err
}

// streamed is a stream of events. What belongs to a call is kept, up to the limit of its exchange.
type streamed struct {
	releasing

	x     *exchange     // nil: it belongs to no call
	kept  *bytes.Buffer // the exchange's stream, unless it follows another request by now
	ended func()
}

func (s *streamed) Read(p []byte) (int, error) {
	n, err := s.releasing.Read(p)
	over := false
	s.x.note(func() {
		if s.x.stream != s.kept {
			return
		}
		if int64(s.kept.Len()+n) > s.x.limit {
			s.x.forget()
		}
		if over = int64(s.kept.Len()+n) > s.x.limit; over {
			s.x.tooLarge, s.x.fault = true, fmt.Errorf("the answer has more than %d bytes", s.x.limit)
			return
		}
		s.kept.Write(p[:n])
		if err != nil && !errors.Is(err, io.EOF) {
			s.x.fault = fmt.Errorf("the answer broke off: %w", err)
		}
	})
	if over {
		s.x.abort()
		return 0, io.EOF
	}
	if err != nil && s.ended != nil {
		s.ended()
		s.ended = nil
	}
	return n, err
}

// listening is the stream on which servers before 2026-07-28 tell of changes. It never ends by itself: it
// asks again when the server ends it, and a server that has none is not asked again. Only whole events are
// passed on.
type listening struct {
	transport *httpTransport
	req       *http.Request
	release   func()
	body      io.Closer
	lines     *bufio.Reader
	event     []byte
	pause     time.Duration
}

func (l *listening) Read(p []byte) (int, error) {
	for len(l.event) == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.event)
	l.event = l.event[n:]
	return n, nil
}

func (l *listening) next() error {
	ctx := l.req.Context()
	if l.lines == nil {
		return l.open(ctx)
	}
	var event []byte
	for {
		line, err := l.lines.ReadSlice('\n')
		event = append(event, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || len(event) > maxEvent {
			l.lines = nil
			_ = l.body.Close() // it is over
			l.transport.stale()
			return l.wait(ctx)
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 && err == nil {
			l.event, l.pause = event, 0
			return nil
		}
	}
}

func (l *listening) open(ctx context.Context) error {
	timed, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(headerTimeout, cancel)
	req := l.req.Clone(timed)
	l.transport.authorize(req)
	resp, err := l.transport.base.RoundTrip(req)
	if !timer.Stop() && err == nil {
		_ = resp.Body.Close() // too late
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return l.wait(ctx)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	l.body = releasing{resp.Body, resp.Body, cancel}
	if resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		_ = l.body.Close() // it has no stream
		if resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests {
			return l.wait(ctx)
		}
		if l.transport.deaf(); resp.StatusCode == http.StatusNotFound && l.req.Header.Get("Mcp-Session-Id") != "" {
			l.transport.stale() // the session may be gone
		}
		<-ctx.Done()
		return ctx.Err()
	}
	l.lines = bufio.NewReader(resp.Body)
	return nil
}

// wait waits before the stream is opened again.
func (l *listening) wait(ctx context.Context) error {
	l.pause = min(max(2*l.pause, listenPause), maxListenWait)
	calls.Sleep(ctx, l.pause)
	return ctx.Err()
}

func (l *listening) Close() error {
	l.release()
	return nil
}
