package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	minListAge = 30 * time.Second
	maxListAge = time.Hour
	maxDeafAge = 5 * time.Minute // of a list whose changes are not told although the server can
	maxPages   = 20
	maxTools   = 500
	maxResumes = 2 // of a stream that broke and can be resumed
)

// list is what a server has told about its tools.
type list struct {
	judged []judged
	sound  map[string]definition // by remote name
	read   time.Time
	until  time.Time

	names    []string // of the actions that may be offered
	registry *actions.Registry
}

// judged is a tool of a list. If it has a fault, the definition has at most a name and a digest.
type judged struct {
	definition definition
	fault      error
}

// session is a connection that was made.
type session struct {
	client  *sdk.ClientSession
	address string // which errors do not name; "": none
	log     zerolog.Logger
	http    *httpTransport // nil: stdio
	end     func()         // the context of its connection
	use     sync.RWMutex   // read-locked by calls; closing waits for them

	stale atomic.Bool // the list may have changed
	dead  atomic.Bool
	deaf  atomic.Bool  // changes are not told
	read  atomic.Int64 // bytes of resources
}

// target is how to reach a server: by HTTP if it has an endpoint, else by running it.
type target struct {
	address  string
	endpoint *url.URL
	base     http.RoundTripper
	header   http.Header

	stdio stdioTransport
}

// connect makes a session, in the time that ctx has. The session ends with lasting at the latest.
func (t *target) connect(ctx, lasting context.Context, token string) (*session, error) {
	s := &session{address: t.address, log: t.stdio.log}
	// Its context lives as long as the session: answers to the server go out with it.
	lasting, s.end = context.WithCancel(lasting)
	stop := context.AfterFunc(ctx, s.end)
	var transport sdk.Transport = &t.stdio
	if t.endpoint != nil {
		s.http = &httpTransport{
			base: t.base, endpoint: t.endpoint, header: t.header, token: token,
			stale: func() { s.stale.Store(true) }, deaf: func() { s.deaf.Store(true) },
		}
		s.http.closing, s.http.end = context.WithCancel(context.WithoutCancel(lasting))
		transport = &sdk.StreamableClientTransport{
			Endpoint:     t.address,
			HTTPClient:   s.http.client(),
			MaxRetries:   maxResumes,
			MaxEventSize: maxBody,
		}
	}
	x := &exchange{limit: maxPage, abort: s.end}
	client := sdk.NewClient(&sdk.Implementation{Name: "planbot", Version: "1"}, s.options())
	client.AddSendingMiddleware(undeclared)
	var made *sdk.ClientSession
	err := errors.Join(
		sdk.AddSendingCustomMethod[*skillsParams, *skillsResult](client, listSkills),
		sdk.AddSendingCustomMethod[*skillsParams, *skillsResult](client, getSkill),
	)
	if err == nil {
		made, err = client.Connect(x.follow(lasting), transport, nil)
	}
	if err == nil && !stop() {
		s.client = made
		s.close()
		err = cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	if err != nil {
		s.end()
		if s.http != nil {
			s.http.end()
		}
		return nil, fmt.Errorf("connect: %w", s.reason(ctx, x.outcome(), err))
	}
	s.client = made
	return s, nil
}

// forgotten reports whether the server no longer knows the session, as servers before 2026-07-28 say it: with
// 404, or with 400 and an error of their own.
func (s *session) forgotten(x *exchange) bool {
	if s.http == nil || s.client.ID() == "" {
		return false
	}
	if x.status != http.StatusBadRequest {
		return x.status == http.StatusNotFound
	}
	return x.answer != nil && x.answer.Error != nil && x.answer.Error.Code == codeNoSession
}

// current reports whether a list that was read over the session need not be read again.
func (s *session) current(l *list, now time.Time) bool {
	return !s.dead.Load() && !s.stale.Load() && now.Before(l.until) && !(s.deaf.Load() && now.Sub(l.read) > maxDeafAge)
}

// options are what we can do for a server. It may ask for nothing: see asked.
func (s *session) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ElicitationHandler:     s.declineNow,
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.stale.Store(true) },
	}
}

// undeclared leaves out of the handshake of servers before 2026-07-28 that they may ask people something: they
// ask in the middle of a call, which cannot wait until a person has answered. Told so, they do without.
func undeclared(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if hello, ok := req.GetParams().(*sdk.InitializeParams); ok && hello.Capabilities != nil {
			hello.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// declineNow answers a question that a server asks all the same.
func (s *session) declineNow(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	s.log.Warn().Msg("an MCP server asked the person something in the middle of a call, which was declined")
	return &sdk.ElicitResult{Action: "decline"}, nil
}

// close ends the session once its calls have ended. A server that does not let go is cut off.
func (s *session) close() {
	s.dead.Store(true)
	s.use.Lock()
	defer s.use.Unlock()
	if s.http != nil {
		timer := time.AfterFunc(headerTimeout, s.http.end)
		defer timer.Stop()
		defer s.http.end()
	}
	defer s.end()
	_ = s.client.Close() // it is over either way
}

var (
	errCached  = errors.New("the list was not read") // says that the library has answered from its own memory
	errRefused = errors.New("broken list")           // says that the list was read, and is not one that we take
	// errUnauthorized says that the server does not take the key or token.
	errUnauthorized = errors.New("the server answered 401 Unauthorized")
)

func (s *session) tools(ctx context.Context) (*list, error) {
	var all []jsontext.Value
	var withHeaders []string // the names of those whose x-mcp-header the library accepts
	age, cursor, seen := maxListAge, "", map[string]bool{}
	for range maxPages {
		seen[cursor] = true
		following, cancel := context.WithCancel(ctx)
		x := &exchange{limit: maxPage, abort: cancel}
		got, err := s.client.ListTools(x.follow(following), &sdk.ListToolsParams{Cursor: cursor})
		cancel()
		known := x.outcome()
		if known.answer == nil || known.answer.Error != nil {
			if err == nil && !known.tooLarge {
				return nil, errCached
			}
			if a := known.answer; a != nil && a.Error.Code == codeNoMethod {
				return newList(nil, nil, maxListAge), nil // it has no tools
			}
			return nil, fmt.Errorf("list tools: %w", s.reason(ctx, known, err))
		}
		var page struct {
			Tools      []jsontext.Value `json:"tools"`
			NextCursor string           `json:"nextCursor"`
			TTL        json.RawMessage  `json:"ttlMs"`
		}
		if err := json.Unmarshal(known.answer.Result, &page); err != nil {
			return nil, fmt.Errorf("%w: it is no list of tools", errRefused)
		}
		all = append(all, page.Tools...)
		if err == nil {
			for _, tool := range got.Tools {
				withHeaders = append(withHeaders, tool.Name)
			}
		} else {
			withHeaders = append(withHeaders, namesIn(page.Tools)...)
		}
		ttl := 0.0
		_ = json.Unmarshal(page.TTL, &ttl) // only a hint
		age = min(age, max(time.Duration(min(max(ttl, 0), float64(maxListAge.Milliseconds())))*time.Millisecond, minListAge))
		switch {
		case len(all) > maxTools:
			return nil, fmt.Errorf("%w: it has more than %d tools, %d so far", errRefused, maxTools, len(all))
		case page.NextCursor == "":
			return newList(all, withHeaders, age), nil
		case seen[page.NextCursor]:
			return nil, fmt.Errorf("%w: a cursor came twice", errRefused)
		}
		cursor = page.NextCursor
	}
	return nil, fmt.Errorf("%w: it has more than %d pages", errRefused, maxPages)
}

const codeNoMethod = -32601

// namesIn are the names of tools as they were listed.
func namesIn(tools []jsontext.Value) (names []string) {
	for _, raw := range tools {
		var tool struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &tool) == nil {
			names = append(names, tool.Name)
		}
	}
	return names
}

// newList judges tools. withHeaders are the names of those whose x-mcp-header is as it should be.
func newList(tools []jsontext.Value, withHeaders []string, age time.Duration) *list {
	now := time.Now()
	l := &list{sound: map[string]definition{}, read: now, until: now.Add(age)}
	times := map[string]int{}
	for _, raw := range tools {
		d, err := define(raw)
		if err == nil && !slices.Contains(withHeaders, d.remote) {
			err = errors.New("its x-mcp-header is not valid")
		}
		if d.remote != "" {
			times[d.remote]++
		}
		l.judged = append(l.judged, judged{d, err})
	}
	reported := map[string]bool{}
	l.judged = slices.DeleteFunc(l.judged, func(j judged) bool { // keep one of each name
		again := times[j.definition.remote] > 1 && reported[j.definition.remote]
		reported[j.definition.remote] = true
		return again
	})
	for i := range l.judged {
		j := &l.judged[i]
		if n := times[j.definition.remote]; n > 1 {
			j.definition, j.fault = definition{remote: j.definition.remote}, fmt.Errorf("%d tools have this name", n)
		}
		if j.fault == nil {
			l.sound[j.definition.remote] = j.definition
		}
	}
	return l
}

// reason says for operators why there is no answer, without what was sent. err is the library's error.
func (s *session) reason(ctx context.Context, x *exchange, err error) error {
	switch {
	case x.status == http.StatusUnauthorized:
		return errUnauthorized
	case x.answer != nil && x.answer.Error != nil:
		return x.answer.Error
	case ctx.Err() != nil:
		return ctx.Err()
	case x.fault != nil:
		return x.fault
	case err == nil:
		return errors.New("the answer was not found in what the server sent")
	}
	text := err.Error()
	if s.address != "" {
		text = strings.ReplaceAll(text, s.address, "the server")
	}
	return errors.New(spelling.OneLine(text, maxReason))
}

const attemptMeta = "planbot/attempt" // where the key of the attempt is in a call's _meta

// send sends a call and returns what became of it. The error is the library's.
func (s *session) send(ctx context.Context, remote string, arguments json.RawMessage) (*exchange, error) {
	if s.dead.Load() || !s.use.TryRLock() {
		return &exchange{}, sdk.ErrConnectionClosed
	}
	defer s.use.RUnlock()
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	params := &sdk.CallToolParams{Name: remote, Arguments: arguments}
	attempt, used := actions.AttemptOf(ctx), ""
	if attempt.Key != "" {
		params.Meta = sdk.Meta{attemptMeta: attempt.Key}
	}
	if attempt.Answer != nil {
		var err error
		if params.InputResponses, params.RequestState, used, err = responses(attempt.Answer); err != nil {
			return &exchange{}, err
		}
	}
	for {
		x := &exchange{limit: maxBody, abort: cancel, used: used}
		_, err := s.client.CallTool(x.follow(following), params)
		known := x.outcome()
		if !known.repeats {
			return known, err
		}
		used = "" // the library counts on
	}
}
