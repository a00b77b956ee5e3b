// Package mcp offers the tools of MCP servers as actions, over streamable HTTP or stdio, with the protocol of
// 2026-07-28 and those before it.
//
// What a server says is data that somebody else wrote. Only definitions that an operator has accepted are
// offered, see [connections.Lock]; each call needs approval unless the operator says otherwise; and a call
// that may have been done is never made a second time.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/calls"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Config says how to reach an MCP server, and what of it a bot may use. Key, and either URL or Command,
// are required.
type Config struct {
	Key     string // see [connections.CheckKey]
	Summary string // what the server is for, in one line

	// URL is the endpoint of streamable HTTP: https, or http to this machine. Its address is checked when it
	// is dialled: it is public, or in Private. With http it is this machine's.
	URL string
	// Private are networks with private addresses in which the server may be.
	Private []netip.Prefix
	// Header goes to the origin of URL and nowhere else. It may be secret.
	Header http.Header
	// Command is the program of a server on stdio, with its arguments. Dir is its working directory; "":
	// the bot's. Env is its environment besides PATH, HOME, LANG and TMPDIR.
	Command []string
	Dir     string
	Env     map[string]string
	// SignIn is the OAuth connection whose token of the person each request carries, see
	// [actions.NeedsToken]: each person has a session of their own. It needs URL. "": all share one.
	SignIn string
	// Authorize wraps what makes the requests, to add the bot's own credentials, as oauth2.Transport does.
	// It needs URL, and no SignIn. nil: none.
	Authorize func(http.RoundTripper) http.RoundTripper

	// Rules say which tools may be used, by the names that the server gives them.
	Rules connections.Rules
	// Lock has the definitions that an operator has accepted, and whether what the server shows first is. nil:
	// an empty one, see [Connection.Lock].
	Lock *connections.Lock
	// Skills are the URIs of skills, skill://…/SKILL.md, that are wanted although the server may not list
	// them, see [Connection.Skills].
	Skills []string

	// CallTimeout limits a call. 0: 60 s. Timeouts replaces it for single tools; at most 10 min.
	CallTimeout time.Duration
	Timeouts    map[string]time.Duration

	// Count is told of mcp_quarantined_total, a definition that is not offered because nobody has accepted it, with
	// the Key. nil: nobody counts them.
	Count func(metric, label string)
	// Log is silent by default.
	Log zerolog.Logger
}

const (
	defaultCallTimeout = time.Minute
	maxCallTimeout     = 10 * time.Minute
	listTimeout        = 10 * time.Second
	awayTimeout        = time.Second // that a turn waits for a server that was away
	maxPrincipals      = 1000
	maxIdle            = 15 * time.Minute
	firstPause         = time.Second // between tries to connect; doubles up to maxPause
	maxPause           = time.Minute
	awayPause          = time.Minute // between lines of the log that say so
)

// Connection is an MCP server. It connects when it is first needed. It is safe for concurrent use.
type Connection struct {
	cfg    Config
	target target
	base   *http.Transport // of target
	log    zerolog.Logger
	slots  *calls.Slots

	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	principals map[string]*principal
	accepted   map[string]definition // by remote name
	version    int                   // of the lock when accepted was made
	firstUse   bool
	registry   *actions.Registry
	reported   map[string]bool // what the log has said, see first
	away       rate.Sometimes  // logs that the server is away
}

// A Connection is one of several kinds.
var _ actions.Connection = (*Connection)(nil)

// New checks the configuration and returns a connection that connects when it is needed. The error names
// every mistake.
func New(cfg Config) (*Connection, error) {
	faults := []error{connections.CheckKey(cfg.Key)}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	var endpoint *url.URL
	switch {
	case (cfg.URL == "") == (len(cfg.Command) == 0):
		fault("want either a URL or a Command")
	case cfg.URL != "":
		var err error
		if endpoint, err = url.Parse(cfg.URL); err != nil || endpoint.Host == "" || endpoint.User != nil {
			fault("URL: want https://host/path, without a user")
		} else if endpoint.Scheme != "https" && !(endpoint.Scheme == "http" && loopback.IsHost(endpoint.Hostname())) {
			fault("URL: want https, or http to this machine")
		}
	case cfg.SignIn != "" || cfg.Authorize != nil || len(cfg.Header) > 0:
		fault("SignIn, Authorize and Header need a URL: a server on stdio gets credentials in Env")
	case cfg.Command[0] == "":
		fault("Command: the program has no name")
	}
	if info, err := os.Stat(cmp.Or(cfg.Dir, ".")); err != nil || !info.IsDir() {
		fault("Dir: %s is no folder", cfg.Dir)
	}
	for name, value := range cfg.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			fault("Env: %q cannot be a variable with that value", name)
		}
	}
	if slices.Contains(slices.Concat(cfg.Rules.Allow, cfg.Rules.Approve, cfg.Rules.Unapproved), "") {
		fault("Rules: a name is empty")
	}
	for name, values := range cfg.Header {
		malformed := func(value string) bool { return !httpguts.ValidHeaderFieldValue(value) }
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, malformed) {
			fault("Header: %q or its value cannot be sent", name)
		}
		name = http.CanonicalHeaderKey(name)
		if slices.Contains([]string{"Host", "Content-Length", "Idempotency-Key", "X-Idempotency-Key"}, name) {
			fault("Header: %s cannot be set", name) // net/http sends requests with such a key again
		}
	}
	for _, uri := range cfg.Skills {
		if !strings.HasSuffix(uri, "/"+skillFile) || len(cfg.Skills) > maxSkills {
			fault("Skills: want the URIs of at most %d files %s, not %s", maxSkills, skillFile, spelling.OneLine(uri, maxShown))
		}
	}
	for name, limit := range cfg.Timeouts {
		if limit <= 0 || limit > maxCallTimeout {
			fault("Timeouts: %s: want more than 0 and at most %s", name, maxCallTimeout)
		}
	}
	if cfg.CallTimeout < 0 || cfg.CallTimeout > maxCallTimeout {
		fault("CallTimeout: want at most %s", maxCallTimeout)
	}
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, defaultCallTimeout)
	if cfg.Lock == nil {
		cfg.Lock = connections.NewLock()
	}
	if cfg.Count == nil {
		cfg.Count = func(string, string) {}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("mcp %s: %w", spelling.OneLine(cfg.Key, maxShown), err)
	}
	c := &Connection{
		cfg: cfg, target: target{address: cfg.URL, endpoint: endpoint, header: cfg.Header}, base: newBase(cfg.Private, endpoint),
		log:        cfg.Log.With().Str("connection", cfg.Key).Logger(),
		slots:      calls.NewSlots(),
		principals: map[string]*principal{}, reported: map[string]bool{}, version: -1,
		away: rate.Sometimes{Interval: awayPause},
	}
	if c.target.base = c.base; cfg.Authorize != nil {
		c.target.base = cfg.Authorize(c.base)
	}
	c.target.stdio = stdioTransport{command: cfg.Command, dir: cfg.Dir, env: cfg.Env, log: c.log}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Key implements [actions.Connection].
func (c *Connection) Key() string { return c.cfg.Key }

// Summary implements [actions.Connection].
func (c *Connection) Summary() string { return c.cfg.Summary }

// AcceptFirst accepts what the server shows first, see [connections.Lock].
func (c *Connection) AcceptFirst() { c.cfg.Lock.FirstUse = true }

// Actions implements [actions.Connection]: it has the accepted tools that the rules allow, whether or not
// the server was reached.
func (c *Connection) Actions() *actions.Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshAccepted()
	if c.registry == nil {
		c.registry = c.newRegistry()
	}
	return c.registry
}

// refreshAccepted follows the lock. c.mu is locked.
func (c *Connection) refreshAccepted() {
	version := c.cfg.Lock.Version()
	if c.version == version {
		return
	}
	pins, known := c.cfg.Lock.Pins(c.cfg.Key)
	firstUse := c.cfg.Lock.FirstUse && !known
	if c.version >= 0 && firstUse && c.firstUse {
		c.version = version // the lock of another connection has changed
		return
	}
	c.version, c.firstUse, c.registry, c.accepted = version, firstUse, nil, map[string]definition{}
	for remote, pin := range pins {
		if isSkill(pin.Definition) {
			continue
		}
		d, err := define(pin.Definition)
		if err == nil && (d.remote != remote || d.digest != pin.Digest) {
			err = errors.New("the pin is that of another tool")
		}
		if err != nil {
			c.log.Error().Err(err).Str("tool", spelling.OneLine(remote, maxShown)).Msg("a pinned tool cannot be used")
			continue
		}
		c.accepted[remote] = d
	}
}

// newRegistry makes actions of the accepted tools. c.mu is locked.
func (c *Connection) newRegistry() *actions.Registry {
	registry := actions.New()
	if c.cfg.SignIn != "" {
		c.addConnect(registry)
	}
	for _, remote := range slices.Sorted(maps.Keys(c.accepted)) {
		d := c.accepted[remote]
		if c.nameFault(remote) != nil || !c.cfg.Rules.Allows(remote) {
			continue
		}
		_, err := actions.AddSchema(registry, connections.Name(c.cfg.Key, remote), d.description, d.schema,
			func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
				return c.call(ctx, turn, d, entities)
			}, c.marks(d), actions.ReturnsData)
		if err != nil {
			c.log.Error().Err(err).Str("tool", spelling.OneLine(remote, maxShown)).Msg("a tool cannot be an action")
		}
	}
	return registry
}

// marks are what the rules and the tool's own words make of it. Words only make it stricter, unless the
// operator trusts them.
func (c *Connection) marks(d definition) actions.Option {
	trusted := c.cfg.Rules.Trust && d.hints.reads()
	return func(a *actions.Action) {
		a.Told, a.Returns = d.told, d.returns
		a.Approval = c.cfg.Rules.Approval(!trusted, d.remote)
		a.Destructive, a.Parallel = c.destructive(d), trusted
		a.Connection = c.cfg.SignIn
		a.Source = actions.Source{Connection: c.cfg.Key, Remote: d.remote, Digest: d.digest}
	}
}

func (c *Connection) destructive(d definition) bool {
	switch hint := d.hints.Destructive; {
	case hint != nil && *hint, !c.cfg.Rules.Trust:
		return true
	case hint != nil:
		return false
	}
	return !d.hints.ReadOnly
}

// repeatable reports whether a call may be made again although it may have been done.
func (c *Connection) repeatable(d definition) bool {
	return c.cfg.Rules.Trust && (d.hints.Idempotent || d.hints.reads())
}

// nameFault says why no action can have the name of a tool; nil: it can. c.mu is locked.
func (c *Connection) nameFault(remote string) error {
	name := connections.Name(c.cfg.Key, remote)
	if c.cfg.SignIn != "" && name == c.connectName() {
		return errors.New("its name is that of the action that signs in")
	}
	for other := range c.accepted {
		if other != remote && connections.Name(c.cfg.Key, other) == name {
			return fmt.Errorf("its name in plans, %s, is also that of another tool", name)
		}
	}
	return nil
}

func (c *Connection) connectName() string { return connections.Name(c.cfg.Key, "connect") }

// addConnect adds the action with which a person without a token signs in.
func (c *Connection) addConnect(registry *actions.Registry) {
	a := actions.Add(registry, c.connectName(), "Connects the person's account of "+c.cfg.Key+", so that its actions can be used",
		func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			p, err := c.principalOf(ctx, turn)
			if err == nil {
				_, _, err = c.ensure(ctx, p)
			}
			if err != nil {
				if ctx.Err() != nil || errors.Is(err, connector.ErrNoUserToken) {
					return actions.Result{}, err
				}
				return actions.Fail("%s", c.unreachable()), nil
			}
			return actions.Observe("The person's account of " + c.cfg.Key + " is connected. Its actions can be used now."), nil
		}, actions.NeedsToken(c.cfg.SignIn))
	a.Source = actions.Source{Connection: c.cfg.Key}
}

// unreachable tells models and people that the server is away.
func (c *Connection) unreachable() string {
	return c.cfg.Key + " cannot be reached at the moment. Nothing was done there."
}

// Offer implements [actions.Connection]. A person who is not signed in is offered one action, with which
// they do that.
func (c *Connection) Offer(ctx context.Context, turn *actions.Turn) (names []string, note string) {
	p, err := c.principalOf(ctx, turn)
	if err != nil && !errors.Is(err, connector.ErrNoUserToken) {
		c.logAway(err, 0)
	}
	if errors.Is(err, connector.ErrNoTokenService) {
		return nil, c.cfg.Key + " cannot be used here, because people cannot sign in."
	}
	var l *list
	if err == nil {
		wait := listTimeout
		c.mu.Lock()
		if p.failures > 0 {
			wait = awayTimeout // it goes on in the background
		}
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		l, _, err = c.ensure(ctx, p)
	}
	if errors.Is(err, connector.ErrNoUserToken) { // or the server does not take their token
		c.Actions()
		return []string{c.connectName()}, ""
	}
	if err != nil {
		return nil, c.cfg.Key + " is away at the moment, so its actions cannot be used."
	}
	registry := c.Actions()
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.registry != registry {
		l.names, l.registry = c.offered(l, registry), registry
	}
	return slices.Clone(l.names), ""
}

// offered are the actions of a registry whose tools a list has as they were accepted. c.mu is locked.
func (c *Connection) offered(l *list, registry *actions.Registry) (names []string) {
	for _, a := range registry.All() {
		if d, ok := l.sound[a.Source.Remote]; ok && d.digest == a.Source.Digest {
			names = append(names, a.Name)
		}
	}
	return names
}

// List implements [actions.Lister]: it asks the server for its tools and returns what became of each, by name,
// with those that were accepted and are gone. No person's token is used.
func (c *Connection) List(ctx context.Context) ([]actions.Listed, error) {
	p, err := c.principal("")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	p.retryAt = time.Time{}
	if p.session != nil {
		p.session.stale.Store(true)
	}
	c.mu.Unlock()
	l, _, err := c.ensure(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("mcp %s: %w", c.cfg.Key, err)
	}
	c.Actions()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []actions.Listed
	listed := map[string]bool{}
	for _, j := range l.judged {
		listed[j.definition.remote] = true
		all = append(all, c.toolOf(j))
	}
	for remote, d := range c.accepted {
		if !listed[remote] {
			tool := c.toolOf(judged{definition: d})
			tool.Definition, tool.LeftOut = nil, "the server no longer has it"
			all = append(all, tool)
		}
	}
	for name, said := range c.unknown(l) {
		if _, gone := c.accepted[name]; !gone {
			all = append(all, actions.Listed{Remote: name, LeftOut: said})
		}
	}
	slices.SortStableFunc(all, func(a, b actions.Listed) int { return strings.Compare(a.Remote, b.Remote) })
	return all, nil
}

// toolOf says what became of a tool. c.mu is locked.
func (c *Connection) toolOf(j judged) actions.Listed {
	d := j.definition
	tool, accepted := actions.Listed{Remote: d.remote}, c.accepted[d.remote].digest
	if d.remote != "" {
		tool.Name = connections.Name(c.cfg.Key, d.remote)
	}
	if j.fault != nil {
		tool.LeftOut = j.fault.Error()
		return tool
	}
	tool.Definition = d.pinned.Clone()
	switch fault := c.nameFault(d.remote); {
	case fault != nil:
		tool.LeftOut = fault.Error()
	case !c.cfg.Rules.Allows(d.remote):
		tool.NotAllowed, tool.LeftOut = true, "it is not allowed"
	case accepted == "":
		tool.LeftOut = "quarantined: nobody has accepted it"
	case accepted != d.digest:
		tool.LeftOut = "quarantined: it has changed since it was accepted"
	}
	return tool
}

// Forget ends the session of a person and what is known from it. It has the form of
// [actions.Registry.OnForget].
func (c *Connection) Forget(_ context.Context, turn *actions.Turn) (keeps string, err error) {
	if c.cfg.SignIn == "" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(calls.PersonOf(turn))
	return "", nil
}

// Close implements [actions.Connection]. Calls that are under way end.
func (c *Connection) Close() {
	c.mu.Lock()
	c.closed = true
	for key := range c.principals {
		c.remove(key)
	}
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	c.base.CloseIdleConnections()
}

// principal is whom a session is for: one person, or everybody. Its fields belong to the connection's mutex.
type principal struct {
	fetch // of the list

	token   string // of the person, the newest; "": none
	session *session
	list    *list // nil: never read
	used    time.Time
	gone    bool // it was dropped for good
	skills  skillList
}

// fetch is about something that is read from a server. It belongs to the connection's mutex.
type fetch struct {
	done     chan struct{} // closed when it was read; nil: nobody reads it
	err      error         // why it could not be read the last time
	failures int           // in a row
	retryAt  time.Time
}

// fail notes why it could not be read, and when it may be tried again.
func (f *fetch) fail(err error) {
	f.err = err
	f.failures++
	pause := min(firstPause<<min(f.failures-1, 10), maxPause)
	f.retryAt = time.Now().Add(pause/2 + rand.N(pause/2))
}

// await waits until read has read it, or until ctx ends; however many wait, it is read once. A server that did
// not answer is left alone for a while. c.mu is locked, but not while it waits.
func (c *Connection) await(ctx context.Context, p *principal, f *fetch, read func()) error {
	if f.done == nil {
		switch {
		case p.gone:
			return errClosed
		case time.Now().Before(f.retryAt):
			return f.err
		}
		done := make(chan struct{})
		f.done = done
		c.work.Go(func() {
			defer close(done)
			read()
		})
	}
	done := f.done
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// principalOf is the principal of a turn, with the person's token. The error is that of
// [actions.Turn.UserToken].
func (c *Connection) principalOf(ctx context.Context, turn *actions.Turn) (*principal, error) {
	if c.cfg.SignIn == "" {
		return c.principal("")
	}
	if turn == nil || turn.UserToken == nil || calls.PersonOf(turn) == "" {
		return nil, errors.New("nobody can be signed in here")
	}
	token, err := turn.UserToken(ctx, c.cfg.SignIn)
	if err != nil {
		return nil, err
	}
	p, err := c.principal(calls.PersonOf(turn))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.token != token.Secret() {
		p.token, p.retryAt = token.Secret(), time.Time{}
		if p.session != nil {
			p.session.http.setToken(p.token)
			p.session.stale.Store(true) // it may be of another account, which has other tools
		}
	}
	return p, nil
}

var (
	errClosed  = errors.New("the connection is closed")
	errCrowded = errors.New("too many people wait for the server at once")
)

// principal finds or adds the principal with a key; "": all who have no session of their own. It drops those
// that nobody has needed for a while.
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
			switch {
			case q.done != nil: // somebody waits for it
			case now.Sub(q.used) > maxIdle:
				c.remove(other)
			case oldest == "" || q.used.Before(c.principals[oldest].used):
				oldest = other
			}
		}
		if len(c.principals) >= maxPrincipals {
			if oldest == "" {
				return nil, errCrowded
			}
			c.remove(oldest)
		}
		p = &principal{}
		c.principals[key] = p
	}
	p.used = now
	return p, nil
}

// remove drops a principal for good, if there is one. c.mu is locked.
func (c *Connection) remove(key string) {
	if p := c.principals[key]; p != nil {
		delete(c.principals, key)
		p.gone = true
		c.drop(p)
	}
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
// server until ctx ends.
func (c *Connection) ensure(ctx context.Context, p *principal) (*list, *session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := p.session; s != nil && p.list != nil && s.current(p.list, time.Now()) {
		return p.list, s, nil
	}
	if err := c.await(ctx, p, &p.fetch, func() { c.read(p) }); err != nil {
		return nil, nil, err
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
	if s != nil && s.dead.Load() {
		s = nil
	}
	fresh := s == nil
	l, s, err := c.connectAndList(ctx, s, token)
	if errors.Is(err, errCached) || err != nil && !fresh && ctx.Err() == nil && !errors.Is(err, errRefused) {
		// A session that was there may be one that the server has forgotten.
		s.dead.Store(true)
		c.work.Go(s.close)
		l, s, err = c.connectAndList(ctx, nil, token)
	}
	if c.cfg.SignIn != "" && errors.Is(err, errUnauthorized) {
		err = fmt.Errorf("%w: %w", connector.ErrNoUserToken, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.session != nil && p.session != s && !p.session.dead.Load() {
		c.drop(p)
	}
	p.session, p.done = s, nil
	if err != nil {
		c.drop(p)
		p.fail(err)
		c.logAway(err, p.failures)
		return
	}
	if s.http != nil {
		s.http.setToken(p.token) // there may be a newer one
	}
	if p.gone {
		c.drop(p)
	}
	p.list, p.fetch = l, fetch{}
	c.refreshAccepted()
	c.accept(l)
}

// logAway logs why nothing is offered, at most once a minute.
func (c *Connection) logAway(why error, failures int) {
	if c.ctx.Err() == nil {
		c.away.Do(func() { c.log.Warn().Str("error", why.Error()).Int("failures", failures).Msg("an MCP server is away") })
	}
}

// connectAndList lists the tools over s; nil: over a new session. It returns the session that it
// used, if there is one.
func (c *Connection) connectAndList(ctx context.Context, s *session, token string) (*list, *session, error) {
	if s == nil {
		made, err := c.target.connect(ctx, c.ctx, token)
		if err != nil {
			return nil, nil, err
		}
		s = made
	}
	s.stale.Store(false) // what changes from now on is seen by the next one
	l, err := s.tools(ctx)
	return l, s, err
}

// accept accepts what is new in a list, if the first use does that, and reports what nobody has accepted. c.mu
// is locked.
func (c *Connection) accept(l *list) {
	for name, said := range c.unknown(l) {
		if c.first("rule", name) {
			c.log.Warn().Str("tool", spelling.OneLine(name, maxShown)).Str("fault", said).
				Msg("a rule names a tool that the MCP server does not have")
		}
	}
	for _, j := range l.judged {
		d, shown := j.definition, spelling.OneLine(j.definition.remote, maxShown)
		have, accepted := c.accepted[d.remote]
		switch {
		case j.fault != nil:
			if c.first(d.remote, d.digest, j.fault.Error()) {
				c.log.Warn().Str("tool", shown).Str("fault", j.fault.Error()).Msg("a tool of an MCP server is left out")
			}
		case c.firstUse && !accepted:
			c.accepted[d.remote], c.registry = d, nil
		case have.digest != d.digest && c.cfg.Rules.Allows(d.remote) && c.first(d.remote, d.digest):
			c.cfg.Count("mcp_quarantined_total", c.cfg.Key)
			c.log.Warn().Str("tool", shown).Str("digest", d.digest).Str("accepted", have.digest).
				Msg("a tool of an MCP server is not offered, because nobody has accepted its definition: bot actions --pin shows and accepts it")
		}
	}
}

// unknown are the names in the rules and timeouts that no tool of a list has, and what to say of each.
func (c *Connection) unknown(l *list) map[string]string {
	var known []string
	for _, j := range l.judged {
		known = append(known, j.definition.remote)
	}
	all := map[string]string{}
	named := slices.Concat(c.cfg.Rules.Allow, c.cfg.Rules.Approve, c.cfg.Rules.Unapproved, slices.Collect(maps.Keys(c.cfg.Timeouts)))
	for _, name := range named {
		if !slices.Contains(known, name) {
			all[name] = "a rule names it, and the server has no such tool" + spelling.Hint(name, known)
		}
	}
	return all
}

const maxReported = 10 * maxTools // how many tools and skills are remembered so that they are reported once

// first reports whether something was not reported yet, and notes that it is now. c.mu is locked.
func (c *Connection) first(words ...string) bool {
	once := strings.Join(words, "\n")
	if c.reported[once] {
		return false
	}
	if len(c.reported) >= maxReported {
		clear(c.reported)
	}
	c.reported[once] = true
	return true
}

// accepts reports whether a definition is the one that was accepted.
func (c *Connection) accepts(d definition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshAccepted()
	return c.accepted[d.remote].digest == d.digest
}

// call calls a tool. It sends the call at most once, unless the call was refused before anything was done or
// the operator trusts the server's word that it may be repeated.
func (c *Connection) call(ctx context.Context, turn *actions.Turn, d definition, entities map[string]any) (actions.Result, error) {
	tool := spelling.OneLine(d.remote, maxShown) + " of " + c.cfg.Key
	if actions.AttemptOf(ctx).Again && !c.repeatable(d) {
		return actions.Result{}, uncertain(tool, errors.New("a process died during the call, and it is not made again"))
	}
	arguments, err := json.Marshal(entities)
	if err != nil {
		return actions.Result{}, err
	}
	limit := c.cfg.CallTimeout
	if own, ok := c.cfg.Timeouts[d.remote]; ok {
		limit = own
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	release, err := c.slots.Take(limited, calls.PersonOf(turn))
	if err != nil {
		if ctx.Err() != nil {
			return actions.Result{}, ctx.Err()
		}
		return actions.Fail("%s is busy with other calls. This was not done.", c.cfg.Key), nil
	}
	defer release()
	p, err := c.principalOf(limited, turn)
	if err != nil {
		return c.unreached(ctx, err)
	}
	k := calling{Connection: c, principal: p, definition: d, arguments: arguments, tool: tool}
	for try := 1; ; try++ {
		f, err := k.try(limited)
		switch {
		case err != nil && k.lost != nil:
			return k.lost.result, k.lost.err
		case err != nil:
			return c.unreached(ctx, err)
		}
		if f.declines != nil {
			return k.decline(limited, f)
		}
		pause := max(f.after, tryPause<<(try-1))
		if !f.again || try == maxTries || pause > maxRetryAfter || !calls.Sleep(limited, pause) {
			if f.unsent && k.lost != nil {
				f = *k.lost
			}
			return f.result, f.err
		}
		if f.with != nil {
			attempt := actions.AttemptOf(limited)
			attempt.Answer = &actions.Answer{State: f.with}
			limited = attempt.Context(limited)
		}
	}
}

// unreached is the result of a call that could not be sent.
func (c *Connection) unreached(ctx context.Context, err error) (actions.Result, error) {
	if ctx.Err() != nil || errors.Is(err, connector.ErrNoUserToken) {
		return actions.Result{}, err
	}
	return actions.Fail("%s", c.unreachable()), nil
}

// kill gives up a session, in the background. The next call makes another.
func (c *Connection) kill(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.dead.Swap(true) && !c.closed {
		c.work.Go(s.close)
	}
}
