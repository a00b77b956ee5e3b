package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// principal is whom a session is for: one person, or everybody. Its fields belong to the connection's mutex.
type principal struct {
	token    string // of the person, the newest; "": none
	session  *session
	list     *list         // nil: never read
	flight   chan struct{} // closed when the list was read; nil: nobody reads it
	err      error         // why the list could not be read the last time
	failures int           // in a row
	retryAt  time.Time
	used     time.Time
}

// list is what a server has told about its tools.
type list struct {
	judged []judged
	sound  map[string]definition // by remote name
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
	client *sdk.ClientSession
	http   *httpTransport // nil: stdio
	end    func()         // the context of its connection

	stale atomic.Bool // the list may have changed
	dead  atomic.Bool
	deaf  atomic.Bool // changes are not told
}

// personOf identifies the person of a turn.
func personOf(turn *actions.Turn) string {
	if turn == nil || turn.Activity == nil {
		return ""
	}
	tenant, _ := turn.Activity.Tenant()
	who := turn.Activity.From.AadObjectID
	if who == "" || tenant == "" {
		who = turn.Activity.ChannelID + "\n" + turn.Activity.From.ID
	}
	return tenant + "\n" + who
}

// principalOf is the principal of a turn, with the person's token. The error is that of
// [actions.Turn.UserToken].
func (c *Connection) principalOf(ctx context.Context, turn *actions.Turn) (*principal, error) {
	if c.cfg.SignIn == "" {
		return c.principal("")
	}
	if turn == nil || turn.UserToken == nil || personOf(turn) == "" {
		return nil, errors.New("nobody can be signed in here")
	}
	token, err := turn.UserToken(ctx, c.cfg.SignIn)
	if err != nil {
		return nil, err
	}
	p, err := c.principal(personOf(turn))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.token != token.Secret() {
		p.token, p.retryAt = token.Secret(), time.Time{}
		if p.session != nil {
			p.session.http.setToken(p.token)
		}
	}
	return p, nil
}

var errClosed = errors.New("the connection is closed")

// principal finds or adds a principal. It drops those that nobody has needed for a while.
func (c *Connection) principal(key string) (*principal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	now := time.Now()
	p := c.principals[key]
	if p == nil {
		var oldest string
		for other, q := range c.principals {
			if now.Sub(q.used) > maxIdle && q.flight == nil {
				delete(c.principals, other)
				c.drop(q)
			} else if oldest == "" || q.used.Before(c.principals[oldest].used) {
				oldest = other
			}
		}
		if len(c.principals) >= maxPrincipals {
			c.drop(c.principals[oldest])
			delete(c.principals, oldest)
		}
		p = &principal{}
		c.principals[key] = p
	}
	p.used = now
	return p, nil
}

// drop ends the session of a principal in the background. c.mu is locked.
func (c *Connection) drop(p *principal) {
	s := p.session
	if p.session = nil; s == nil {
		return
	}
	s.dead.Store(true)
	c.work.Go(s.close)
}

// ensure returns the list of a principal as it is now, with the session that it is from. It waits for the
// server until ctx ends; however many wait, it is asked once. A server that did not answer is left alone for
// a while.
func (c *Connection) ensure(ctx context.Context, p *principal) (*list, *session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if s := p.session; s != nil && !s.dead.Load() && !s.stale.Load() && p.list != nil && now.Before(p.list.until) {
		return p.list, s, nil
	}
	if p.flight == nil {
		switch {
		case c.closed:
			return nil, nil, errClosed
		case now.Before(p.retryAt):
			return nil, nil, p.err
		}
		flight := make(chan struct{})
		p.flight = flight
		c.work.Go(func() {
			defer close(flight)
			c.read(p)
		})
	}
	flight := p.flight
	c.mu.Unlock()
	var late error
	select {
	case <-flight:
	case <-ctx.Done():
		late = ctx.Err()
	}
	c.mu.Lock()
	if late != nil {
		return nil, nil, late
	}
	if p.err == nil && p.session == nil { // dropped meanwhile
		return nil, nil, errClosed
	}
	return p.list, p.session, p.err
}

// read reads the list of a principal, over a new session if there is none.
func (c *Connection) read(p *principal) {
	c.mu.Lock()
	s, token := p.session, p.token
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, listTimeout)
	defer cancel()
	fresh := s == nil || s.dead.Load()
	l, s, err := c.connectAndList(ctx, s, token)
	if errors.Is(err, errCached) || err != nil && !fresh && ctx.Err() == nil && !errors.Is(err, errRefused) {
		// A session that was there may be one that the server has forgotten.
		s.dead.Store(true)
		c.work.Go(s.close)
		l, s, err = c.connectAndList(ctx, nil, token)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.session != nil && p.session != s && !p.session.dead.Load() {
		c.drop(p)
	}
	p.session, p.err, p.flight = s, err, nil
	if err != nil {
		c.drop(p)
		p.failures++
		pause := min(firstPause<<min(p.failures-1, 10), maxPause)
		p.retryAt = time.Now().Add(pause/2 + rand.N(pause/2))
		if now := time.Now(); now.Sub(c.logged) >= logPause && c.ctx.Err() == nil {
			c.logged = now
			c.log.Warn().Str("error", err.Error()).Int("failures", p.failures).Msg("an MCP server is away")
		}
		return
	}
	if c.closed {
		c.drop(p)
	}
	p.list, p.failures, p.retryAt = l, 0, time.Time{}
	c.refreshAccepted()
	c.accept(l)
}

// connectAndList lists the tools over s; nil or dead: over a new session. It returns the session that it
// used, if there is one.
func (c *Connection) connectAndList(ctx context.Context, s *session, token string) (*list, *session, error) {
	if s == nil || s.dead.Load() {
		made, err := c.connect(ctx, token)
		if err != nil {
			return nil, nil, err
		}
		s = made
	}
	s.stale.Store(false) // what changes from now on is seen by the next one
	l, err := s.tools(ctx, c.cfg.URL)
	return l, s, err
}

// accept accepts what is new in a list, if the first use does that, and reports what nobody has accepted. c.mu
// is locked.
func (c *Connection) accept(l *list) {
	for _, j := range l.judged {
		d, shown := j.definition, spelling.OneLine(j.definition.remote, maxShown)
		have, accepted := c.accepted[d.remote]
		once := d.remote + "\n" + d.digest
		if j.fault != nil {
			once += "\n" + j.fault.Error()
		}
		switch {
		case c.reported[once], accepted && have.digest == d.digest && j.fault == nil:
			continue
		case j.fault != nil:
			c.log.Warn().Str("tool", shown).Str("fault", j.fault.Error()).Msg("a tool of an MCP server is left out")
		case c.firstUse && !accepted:
			c.accepted[d.remote], c.registry = d, nil
			continue
		case !c.cfg.Rules.Allows(d.remote):
			continue
		default:
			c.quarantined.Inc()
			c.log.Warn().Str("tool", shown).Str("digest", d.digest).Str("accepted", have.digest).Msg("a tool of an MCP server is not offered, because nobody has accepted its definition")
		}
		if len(c.reported) >= maxReported {
			clear(c.reported)
		}
		c.reported[once] = true
	}
}

// maxReported is how many tools are remembered so that they are reported once.
const maxReported = 10 * maxTools

// connect makes a session.
func (c *Connection) connect(ctx context.Context, token string) (*session, error) {
	s := &session{}
	// The context lives as long as the session: answers to the server go out with it.
	lasting, end := context.WithCancel(c.ctx)
	s.end = end
	stop := context.AfterFunc(ctx, end)
	var transport sdk.Transport
	if c.endpoint != nil {
		s.http = &httpTransport{
			base: c.base, endpoint: c.endpoint, header: c.cfg.Header, token: token,
			stale: func() { s.stale.Store(true) }, deaf: func() { s.deaf.Store(true) },
		}
		s.http.closing, s.http.end = context.WithCancel(context.Background())
		transport = &sdk.StreamableClientTransport{Endpoint: c.cfg.URL, HTTPClient: s.http.client(), MaxRetries: maxResumes, MaxEventSize: maxBody}
	} else {
		transport = &stdioTransport{command: c.cfg.Command, dir: c.cfg.Dir, env: c.cfg.Env, log: c.log}
	}
	x := &exchange{limit: maxPage, abort: end}
	client := sdk.NewClient(&sdk.Implementation{Name: "planbot", Version: "1"}, c.options(s))
	made, err := client.Connect(x.follow(lasting), transport, nil)
	if err == nil && !stop() {
		s.client = made
		s.close()
		err = cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	if err != nil {
		end()
		if s.http != nil {
			s.http.end()
		}
		return nil, fmt.Errorf("connect: %w", reason(ctx, x.outcome(), err, c.cfg.URL))
	}
	s.client = made
	return s, nil
}

// maxResumes is how often a broken stream that can be resumed is resumed.
const maxResumes = 2

// options are what we can do for a server. It may ask for nothing: see [Connection.asked].
func (c *Connection) options(s *session) *sdk.ClientOptions {
	return &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.stale.Store(true) },
	}
}

// close ends the session. A server that does not let go is cut off.
func (s *session) close() {
	s.dead.Store(true)
	if s.http != nil {
		timer := time.AfterFunc(headerTimeout, s.http.end)
		defer timer.Stop()
		defer s.http.end()
	}
	defer s.end()
	_ = s.client.Close() // it is over either way
}

var (
	// errCached says that the library has answered from its own memory.
	errCached = errors.New("the list was not read")
	// errRefused says that the list was read, and is not one that we take.
	errRefused = errors.New("broken list")
)

// tools reads the whole list.
func (s *session) tools(ctx context.Context, address string) (*list, error) {
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
			if err == nil {
				return nil, errCached
			}
			if a := known.answer; a != nil && a.Error.Code == codeNoMethod {
				return newList(nil, nil, maxListAge), nil // it has no tools
			}
			return nil, fmt.Errorf("list tools: %w", reason(ctx, known, err, address))
		}
		var page struct {
			Tools      []jsontext.Value `json:"tools"`
			NextCursor string           `json:"nextCursor"`
			TTL        float64          `json:"ttlMs"`
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
		age = min(age, max(time.Duration(min(page.TTL, float64(maxListAge.Milliseconds())))*time.Millisecond, minListAge))
		switch {
		case len(all) > maxTools:
			return nil, fmt.Errorf("%w: it has more than %d tools, %d so far", errRefused, maxTools, len(all))
		case page.NextCursor == "":
			if s.deaf.Load() {
				age = minListAge
			}
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
	l := &list{sound: map[string]definition{}, until: time.Now().Add(age)}
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
func reason(ctx context.Context, x *exchange, err error, address string) error {
	switch {
	case x.answer != nil && x.answer.Error != nil:
		return x.answer.Error
	case ctx.Err() != nil:
		return ctx.Err()
	case x.fault != nil:
		return x.fault
	}
	text := err.Error()
	if address != "" {
		text = strings.ReplaceAll(text, address, "the server")
	}
	return errors.New(spelling.OneLine(text, maxReason))
}

// accepts reports whether a definition is the one that was accepted.
func (c *Connection) accepts(d definition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshAccepted()
	return c.accepted[d.remote].digest == d.digest
}
