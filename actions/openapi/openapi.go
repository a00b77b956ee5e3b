// Package openapi offers the operations of a service with an OpenAPI document as actions.
//
// An operation is an action: its parameters and its body are the entities, checked against the document's
// own schemas. What only reads is offered; anything else must be allowed, and needs approval. A model
// chooses neither the host of a request nor its credentials.
//
// # Calls
//
// A call has a minute. What only reads is tried up to three times. Anything else is sent once, and if its
// answer is lost or is a 5xx, the error wraps [actions.ErrUncertain]. Any other answer than 2xx is a
// failure that the model reads, with the status and what the service says about it. JSON keeps its numbers
// to the digit, and of each list in it the first 50 entries; text stays text; of anything else the model
// learns only the type and the size. An answer may have 8 MiB.
package openapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http/httpguts"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
)

// Config says what a service offers, and what of it a bot may use. Key and Document are required.
type Config struct {
	Key     string // see [connections.CheckKey]
	Summary string // what the service is for, in one line

	// Document is the OpenAPI document, 3.0 to 3.2 in JSON or YAML: the name of a file, or an address as for
	// Server that is read at the start. A file may refer to others in its folder. All have at most 4 MiB.
	Document string
	// Server replaces the servers of the document. It is https, or http to this machine if Private has its
	// address. Variables are values for the variables of the document's servers.
	Server    string
	Variables map[string]string
	// Header goes to the service with each call and wins over what a model says. It may be secret. Query
	// is the same for the query. Both go to the origin of Server, or else of the document's first server,
	// and to no other.
	Header http.Header
	Query  map[string]string
	// Headers are the header parameters that a model may fill in.
	Headers []string
	// Private are networks with private addresses to which calls may go.
	Private []netip.Prefix
	// FollowRedirects allows up to 3 redirects of GET within the origin.
	FollowRedirects bool
	// SignIn is the OAuth connection whose token of the person each call carries, where Header goes. "": none.
	SignIn string

	// Rules say which operations may be used, by operationId, "GET /path" or method. GET and HEAD may be
	// used if Allow is empty.
	Rules connections.Rules
	// Answers cut what a call returns, by operation, as in Rules.
	Answers map[string]Answer
	// Lock has the definitions that an operator has accepted, for a document from an address. nil: all are.
	Lock *connections.Lock

	Log zerolog.Logger
}

// Answer says which part of a JSON answer the model gets.
type Answer struct {
	Data   string   // a JSON pointer; "": all
	Fields []string // of each object; nil: all
}

const (
	callTimeout = time.Minute // for a call with all its tries
	maxCalls    = 8           // at a time
	maxOwnCalls = 2           // of one person
	userAgent   = "planbot"
)

// Connection is a service with an OpenAPI document. It is safe for concurrent use.
type Connection struct {
	cfg        Config
	home       *url.URL // gets the secrets of cfg; nil: nothing does
	registry   *actions.Registry
	names      []string // of its actions
	operations []*operation
	client     *http.Client
	slots      chan struct{} // one for each call that may run
	closing    chan struct{}
	running    sync.WaitGroup
	mu         sync.Mutex // for closing with the start of running, and for people
	people     map[string]*person
}

// person has calls that run, or wait to run.
type person struct {
	slots chan struct{}
	calls int
}

var _ connections.Connection = (*Connection)(nil)

// New reads and checks the document, and makes an action of each operation that the rules allow. Its error
// lists every fault of cfg or, if there is none, of the document, with JSON pointers. The service itself is
// not called, so it may be away. An operation that cannot be offered and that no rule names is no fault: see
// [Connection.Operations].
func New(ctx context.Context, cfg Config) (*Connection, error) {
	c := &Connection{cfg: cfg, registry: actions.New(), slots: make(chan struct{}, maxCalls), closing: make(chan struct{}), people: map[string]*person{}}
	faults := []error{connections.CheckKey(cfg.Key)}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if cfg.Document == "" {
		fault("no Document")
	}
	if cfg.Server != "" {
		var err error
		if c.home, err = url.Parse(cfg.Server); err != nil {
			fault("Server cannot be parsed")
		} else if err = checkServer(c.home, cfg.Private, true); err != nil {
			fault("Server: %w", err)
		} else if c.home.RawQuery != "" {
			fault("Server: it has a query: want that in Query")
		}
	}
	for _, name := range cfg.Headers {
		if ownHeader(name) || !httpguts.ValidHeaderFieldName(name) {
			fault("Headers: no model may set %q", name)
		}
	}
	c.cfg.Header = http.Header{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Header)) {
		wellFormed := httpguts.ValidHeaderFieldName(name) && !slices.ContainsFunc(cfg.Header[name], func(value string) bool { return !httpguts.ValidHeaderFieldValue(value) })
		canonical := http.CanonicalHeaderKey(name)
		if !wellFormed || canonical == "Host" || strings.HasPrefix(canonical, "Content-") || canonical == "Transfer-Encoding" {
			fault("Header: %q or its value cannot be sent", name)
		}
		c.cfg.Header[canonical] = slices.Clone(cfg.Header[name])
		if canonical == "Authorization" && cfg.SignIn != "" {
			fault("Header: Authorization is that of SignIn")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Answers)) {
		if data := cfg.Answers[name].Data; data != "" && !strings.HasPrefix(data, "/") {
			fault("Answers: %s: Data: want a JSON pointer such as /items, got %q", name, data)
		}
	}
	if cfg.Document != "" && errors.Join(faults...) == nil {
		if err := c.load(ctx); err != nil {
			fault("document: %w", err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("openapi connection %s: %w", cfg.Key, err)
	}
	c.client = &http.Client{Transport: connections.Dialer{Private: cfg.Private}.Transport(), CheckRedirect: c.redirect}
	return c, nil
}

// load reads the document and makes the actions.
func (c *Connection) load(ctx context.Context) error {
	d, err := readDocument(ctx, &c.cfg)
	if err != nil {
		return err
	}
	var noServer error
	if c.home == nil {
		if c.home, noServer = c.server(d, map[string]bool{}, place{d.main, "", d.files[d.main]}); noServer != nil {
			c.home = nil
		}
	}
	if c.home == nil && c.secret() {
		return errors.New("it does not say which host may have the header, the query or the token of the connection: set Server")
	}
	var faults []string
	if c.operations, faults = c.operationsOf(d); len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	if noServer != nil && len(c.operations) > 0 && !slices.ContainsFunc(c.operations, func(o *operation) bool { return o.base != nil }) {
		return fmt.Errorf("no operation has a server that can be used: %w", noServer)
	}
	for _, a := range c.registry.All() {
		c.names = append(c.names, a.Name)
	}
	for _, o := range c.operations {
		if o.Action == nil && !o.NotAllowed {
			c.cfg.Log.Warn().Str("connection", c.cfg.Key).Str("operation", o.Remote).Str("reason", o.LeftOut).Msg("operation is not offered")
		}
	}
	return nil
}

// secret reports whether calls carry what only the service may see.
func (c *Connection) secret() bool {
	return len(c.cfg.Header) > 0 || len(c.cfg.Query) > 0 || c.cfg.SignIn != ""
}

// Key implements [connections.Connection].
func (c *Connection) Key() string { return c.cfg.Key }

// Summary implements [connections.Connection].
func (c *Connection) Summary() string { return c.cfg.Summary }

// Actions implements [connections.Connection]. The actions never change.
func (c *Connection) Actions() *actions.Registry { return c.registry }

// Offer implements [connections.Connection]. All actions are offered, and the service is not asked.
func (c *Connection) Offer(context.Context, *actions.Turn) (names []string, note string) {
	return slices.Clone(c.names), ""
}

// Operations lists all operations of the document, by path, and what was made of each.
func (c *Connection) Operations() []Operation {
	all := make([]Operation, len(c.operations))
	for i, o := range c.operations {
		all[i] = o.Operation
		all[i].Notes = slices.Clone(o.Notes)
	}
	return all
}

// Close implements [connections.Connection]. Calls that are running end with an error, and so do later ones.
func (c *Connection) Close() {
	c.mu.Lock()
	select {
	case <-c.closing:
	default:
		close(c.closing)
	}
	c.mu.Unlock()
	c.running.Wait()
	c.client.CloseIdleConnections()
}
