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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/planbot-go/planbot/internal/calls"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Config says what a service offers, and what of it a bot may use. Key and Document are required.
type Config struct {
	Key     string // see [connections.CheckKey]
	Summary string // what the service is for, in one line

	// Document is the OpenAPI document, 3.0 to 3.2 in JSON or YAML: the name of a file, or an address as for
	// Server that is read at the start. A file may refer to others in its folder. All have at most 20 MiB. FS
	// has the file, such as an [embed.FS]; nil: the working directory, or wherever its path leads.
	Document string
	FS       fs.FS
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
	// Authorize wraps what makes the calls that go where Header does, to add the bot's own credentials, as
	// oauth2.Transport does. nil: none.
	Authorize func(http.RoundTripper) http.RoundTripper

	// Rules say which operations may be used, by operationId, "GET /path" or method. GET and HEAD may be
	// used if Allow is empty.
	Rules connections.Rules
	// Answers cut what a call returns, by operation, as in Rules.
	Answers map[string]Answer
	// Lock has the definitions that an operator has accepted of a document from an address, and whether what
	// the address shows first is. nil: an empty one, see [Connection.Lock]. A file is the operator's own.
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
	userAgent   = "planbot"
)

// Connection is a service with an OpenAPI document. It is safe for concurrent use.
type Connection struct {
	cfg        Config
	home       *url.URL // gets the secrets of cfg; nil: nothing does
	registry   *actions.Registry
	names      []string // of its actions
	operations []*operation
	foreign    bool   // the document is from an address
	settle     func() // leaves out what nobody has accepted, once
	client     *http.Client
	trusted    *http.Client // for calls with the secrets of cfg
	slots      *calls.Slots
	ctx        context.Context //nolint:containedctx // ends with Close
	cancel     context.CancelFunc
	running    sync.WaitGroup
	mu         sync.Mutex // for cancel with the start of running
}

var _ actions.Connection = (*Connection)(nil)

// New reads and checks the document, and makes an action of each operation that the rules allow. Its error
// lists every fault of cfg or, if there is none, of the document, with JSON pointers. The service itself is
// not called, so it may be away. An operation that cannot be offered and that no rule names is no fault: see
// [Connection.Operations].
func New(ctx context.Context, cfg Config) (*Connection, error) {
	if cfg.Lock == nil {
		cfg.Lock = connections.NewLock()
	}
	c := &Connection{cfg: cfg, registry: actions.New(), slots: calls.NewSlots()}
	c.settle = sync.OnceFunc(c.leaveOut)
	c.ctx, c.cancel = context.WithCancel(context.Background())
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
		if canonical == "Authorization" && (cfg.SignIn != "" || cfg.Authorize != nil) {
			fault("Header: Authorization is that of SignIn or Authorize")
		}
	}
	if _, empty := cfg.Query[""]; empty {
		fault("Query: a name is empty")
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
	if c.trusted = c.client; cfg.Authorize != nil {
		c.trusted = &http.Client{Transport: cfg.Authorize(c.client.Transport), CheckRedirect: c.redirect}
	}
	return c, nil
}

func (c *Connection) load(ctx context.Context) error {
	d, err := readDocument(ctx, &c.cfg, c.uses)
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
		return fmt.Errorf("it names no host that may have the header, the query or the token of the connection: %w", noServer)
	}
	var faults []string
	c.operations, faults = c.operationsOf(d)
	if !slices.ContainsFunc(c.operations, func(o *operation) bool { return o.Action != nil }) && len(d.faults) > 0 {
		faults = append(faults, d.faults...) // it is not about some operations, but about the document
		for _, o := range c.operations {
			if o.broken == "" && !o.NotAllowed {
				faults = append(faults, o.at.fault(d.main, "%s", o.LeftOut))
			}
		}
	}
	if len(faults) > 0 {
		return d.report(faults)
	}
	for _, o := range c.operations {
		o.at = place{} // with it the whole document could go
	}
	if noServer != nil && len(c.operations) > 0 && !slices.ContainsFunc(c.operations, func(o *operation) bool { return o.base != nil }) {
		return fmt.Errorf("no operation has a server that can be used: %w", noServer)
	}
	c.foreign = d.origin != nil
	return nil
}

// leaveOut takes back the actions that the lock does not have. It waits for the first use, because whoever
// runs the bot may set the lock until then.
func (c *Connection) leaveOut() {
	pins, known := c.cfg.Lock.Pins(c.cfg.Key)
	var accepted []actions.Offer
	for _, o := range c.operations {
		switch {
		case o.Action == nil:
		case !c.foreign, !known && c.cfg.Lock.FirstUse, pins[o.Remote].Digest == o.Action.Source.Digest:
			accepted = append(accepted, actions.Offer{Name: o.Action.Name})
			c.names = append(c.names, o.Action.Name)
		default:
			o.Action, o.LeftOut = nil, spelling.OneLine(errNotAccepted.Error(), maxFault)
		}
		if o.Action == nil && !o.NotAllowed {
			c.cfg.Log.Warn().Str("connection", c.cfg.Key).Str("operation", o.Remote).Str("reason", o.LeftOut).Msg("operation is not offered")
		}
	}
	if len(accepted) < len(c.registry.All()) {
		c.registry, _ = c.registry.Only(accepted...) // they are in it
	}
}

// secret reports whether calls carry what only the service may see.
func (c *Connection) secret() bool {
	return len(c.cfg.Header) > 0 || len(c.cfg.Query) > 0 || c.cfg.SignIn != "" || c.cfg.Authorize != nil
}

// Key implements [actions.Connection].
func (c *Connection) Key() string { return c.cfg.Key }

// Summary implements [actions.Connection].
func (c *Connection) Summary() string { return c.cfg.Summary }

// AcceptFirst accepts what the document has when the connection is used first, see [connections.Lock].
func (c *Connection) AcceptFirst() { c.cfg.Lock.FirstUse = true }

// Actions implements [actions.Connection]. The actions never change.
func (c *Connection) Actions() *actions.Registry {
	c.settle()
	return c.registry
}

// Offer implements [actions.Connection]. All actions are offered, and the service is not asked.
func (c *Connection) Offer(context.Context, *actions.Turn) (names []string, note string) {
	c.settle()
	return slices.Clone(c.names), ""
}

// Operations lists all operations of the document, by path, and what was made of each.
func (c *Connection) Operations() []Operation {
	c.settle()
	all := make([]Operation, len(c.operations))
	for i, o := range c.operations {
		all[i] = o.Operation
		all[i].Notes = slices.Clone(o.Notes)
	}
	return all
}

// List implements [actions.Lister], as Operations does. It never fails.
func (c *Connection) List(context.Context) ([]actions.Listed, error) {
	var all []actions.Listed
	for _, o := range c.Operations() {
		one := actions.Listed{Remote: o.Remote, Definition: o.Definition, LeftOut: o.LeftOut, NotAllowed: o.NotAllowed, Notes: o.Notes}
		if o.Action != nil {
			one.Name = o.Action.Name
		}
		all = append(all, one)
	}
	return all, nil
}

// Close implements [actions.Connection]. Calls that are running end with an error, and so do later ones.
func (c *Connection) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.client.CloseIdleConnections()
}

// operationsOf reads all operations of the document. The faults are those that the operator must know of.
func (c *Connection) operationsOf(d *document) (all []*operation, faults []string) {
	root := place{d.main, "", d.files[d.main]}
	ids := map[string]string{} // places by operationId
	usedVariables := map[string]bool{}
	paths, err := d.follow(root.child("paths"))
	if err != nil {
		return nil, nil
	}
	templates, _ := paths.value.(map[string]any)
	items, minted := map[*operation]place{}, map[string]int{}
	for _, template := range slices.Sorted(maps.Keys(templates)) {
		item, err := d.follow(paths.child(template))
		if err != nil || strings.HasPrefix(template, "x-") {
			continue
		}
		for _, method := range slices.Concat(methods, otherMethods) {
			at := item.child(strings.ToLower(method))
			if at.value == nil {
				continue
			}
			o := &operation{at: at, path: template, safe: method == http.MethodGet || method == http.MethodHead}
			below := paths.child(template).pointer
			o.broken = cmp.Or(d.broken[below+"/"+strings.ToLower(method)], d.broken[below])
			if !strings.HasPrefix(template, "/") {
				o.broken = "its path does not begin with /"
			}
			id := at.text("operationId")
			if first, taken := ids[id]; taken && id != "" && c.uses(method, template, id) {
				faults = append(faults, at.fault(d.main, "the operationId %q is that of %s, too", spelling.Clip(id), first))
			}
			ids[id] = at.pointer
			o.Method, o.Remote = method, cmp.Or(id, method+" "+template)
			if o.names = []string{o.Remote, method + " " + template, method}; ruleLike(id) {
				o.names[0] = o.names[1] // so that no rule for others is one for it
			} else {
				minted[connections.Name(c.cfg.Key, o.Remote)]++
			}
			items[o] = item
			all = append(all, o)
		}
		others, _ := item.child("additionalOperations").value.(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(others)) {
			name := method + " " + template
			all = append(all, &operation{at: item, Operation: Operation{Remote: name, Method: method}, path: template, names: []string{name, name, method}})
		}
	}
	for _, o := range all {
		reason := c.read(o, d, root, items[o], usedVariables)
		if reason == nil && o.Remote != o.names[0] {
			reason = errors.New("its operationId reads like a method")
		}
		if name := connections.Name(c.cfg.Key, o.Remote); reason == nil && minted[name] > 1 {
			reason = fmt.Errorf("another operation has the name %s, too", name)
		}
		if reason == nil {
			reason = c.offer(o, d, items[o])
		}
		if reason == nil {
			continue
		}
		o.Action, o.LeftOut = nil, spelling.OneLine(reason.Error(), maxFault)
		o.NotAllowed = errors.Is(reason, errNotAllowed) || errors.Is(reason, errMethod)
		byName := func(name string) bool { return slices.Contains(c.cfg.Rules.Allow, name) }
		if !errors.Is(reason, errNotAllowed) && slices.ContainsFunc(o.names[:2], byName) {
			faults = append(faults, o.at.fault(d.main, "%s is allowed, but cannot be offered: %v", o.Remote, reason))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Variables)) {
		if !usedVariables[name] {
			faults = append(faults, fmt.Sprintf("Variables: no server has a variable %q", name))
		}
	}
	return all, append(faults, c.unknownNames(all)...)
}

// unknownNames finds names in the config that no operation has.
func (c *Connection) unknownNames(all []*operation) (faults []string) {
	known := slices.Clone(methods)
	for _, o := range all {
		known = append(known, o.names...)
	}
	for _, list := range []struct {
		in    string
		names []string
	}{
		{"Rules.Allow", c.cfg.Rules.Allow},
		{"Rules.Approve", c.cfg.Rules.Approve},
		{"Rules.Unapproved", c.cfg.Rules.Unapproved},
		{"Answers", slices.Sorted(maps.Keys(c.cfg.Answers))},
	} {
		for _, name := range list.names {
			if !slices.Contains(known, name) {
				faults = append(faults, fmt.Sprintf("%s: the document has no operation %q%s", list.in, name, spelling.Hint(name, known)))
			}
		}
	}
	return faults
}

// allows reports whether the rules let an operation be used.
func (c *Connection) allows(safe bool, names []string) bool {
	return len(c.cfg.Rules.Allow) == 0 && safe || c.cfg.Rules.Names(names...)
}

// uses is allows before the operation was read.
func (c *Connection) uses(method, template, id string) bool {
	names := []string{id, method + " " + template, method}
	if id == "" || ruleLike(id) {
		names = names[1:]
	}
	return c.allows(method == http.MethodGet || method == http.MethodHead, names)
}

// read finds out how to call an operation. The error says why it cannot be offered.
func (c *Connection) read(o *operation, d *document, root, item place, used map[string]bool) error {
	server, reason := c.server(d, used, o.at, item, root)
	if reason == nil {
		o.base = server
		o.URL = strings.TrimSuffix(server.String(), "/") + o.path
		o.inside = c.home != nil && origin(c.home) == origin(server)
	}
	if !slices.Contains(methods, o.Method) {
		return errMethod
	}
	if !c.allows(o.safe, o.names) {
		return errNotAllowed
	}
	if o.broken != "" {
		return errors.New(o.broken)
	}
	if reason != nil {
		return reason
	}
	if !o.inside && c.secret() {
		o.Notes = append(o.Notes, "it goes to "+server.Host+", which gets no header, query or token of the connection")
	}
	for _, name := range o.names {
		if answer, has := c.cfg.Answers[name]; has {
			o.answer = answer
			break
		}
	}
	if err := c.readInputs(o, d, item); err != nil {
		return err
	}
	if err := o.readBody(d); err != nil {
		return err
	}
	o.readAnswers(d)
	return o.nameEntities()
}

// server is where an operation's requests go: the operator's choice, or else the closest in the document.
func (c *Connection) server(d *document, used map[string]bool, from ...place) (*url.URL, error) {
	text, variables := "/", place{}
	for _, p := range from {
		if list, _ := p.child("servers").value.([]any); len(list) > 0 {
			first := place{p.file, p.pointer + "/servers/0", list[0]}
			text, variables = first.text("url"), first.child("variables")
			break
		}
	}
	var fault error
	text = serverVariable.ReplaceAllStringFunc(text, func(match string) string {
		name := match[1 : len(match)-1]
		used[name] = true
		variable := variables.child(name)
		value, chosen := c.cfg.Variables[name]
		if !chosen {
			value = variable.text("default")
		}
		options, _ := variable.child("enum").value.([]any)
		if value == "" || len(options) > 0 && !slices.Contains(options, any(value)) {
			fault = cmp.Or(fault, fmt.Errorf("its server has no value %q for the variable %s", value, name))
		}
		return value
	})
	if c.cfg.Server != "" {
		return c.home, nil
	}
	if fault != nil {
		return nil, fault
	}
	server, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("its server %q cannot be parsed", spelling.Clip(text))
	}
	if server.Scheme == "" && server.Host == "" {
		if d.origin == nil {
			return nil, fmt.Errorf("its server is %q, which has no host: set Server", spelling.Clip(text))
		}
		server = d.origin.ResolveReference(server)
		server.RawQuery = ""
	}
	if server.RawQuery != "" {
		return nil, fmt.Errorf("its server %q has a query", spelling.Clip(text))
	}
	return server, checkServer(server, c.cfg.Private, d.origin != nil && origin(server) == origin(d.origin))
}

// readInputs reads the parameters. The operation's own come before those of its path.
func (c *Connection) readInputs(o *operation, d *document, item place) error {
	seen := map[string]bool{}
	for _, from := range []place{o.at, item} {
		list, _ := from.child("parameters").value.([]any)
		for i := range list {
			p, err := d.follow(place{from.file, fmt.Sprintf("%s/parameters/%d", from.pointer, i), list[i]})
			if err != nil {
				return err
			}
			key := p.text("in") + " " + p.text("name")
			if seen[key] {
				continue
			}
			seen[key] = true
			if err := c.readInput(o, d, p); err != nil {
				return err
			}
		}
	}
	path, _, _ := strings.Cut(o.path, "?")
	for _, match := range serverVariable.FindAllString(path, -1) {
		if !seen["path "+match[1:len(match)-1]] {
			return fmt.Errorf("nothing says what %s in its path is", match)
		}
	}
	return nil
}

// ownHeaders are those that each request has anyway.
var ownHeaders = []string{"Accept", "Content-Type", "Authorization", "Content-Length", "Host", "User-Agent"}

func (c *Connection) readInput(o *operation, d *document, p place) error {
	in := input{name: p.text("name"), in: p.text("in"), style: p.text("style"), required: p.is("required"), reserved: p.is("allowReserved"), allowEmpty: p.is("allowEmptyValue")}
	in.entity, in.text = in.name, p.text("description")
	unusable := func(format string, args ...any) error {
		if in.required {
			return fmt.Errorf("its parameter %s: %s", in.name, fmt.Sprintf(format, args...))
		}
		o.Notes = append(o.Notes, fmt.Sprintf("without its parameter %s: %s", in.name, fmt.Sprintf(format, args...)))
		return nil
	}
	if spelling.OneLine(in.name, maxSchema) != in.name {
		return unusable("its name has characters that are not seen")
	}
	switch in.in {
	case "path":
		if !strings.Contains(o.path, "{"+in.name+"}") {
			return nil
		}
		in.required, in.style = true, cmp.Or(in.style, "simple")
		in.reserved = in.reserved || p.is("x-multi-segment") // GitHub's word for it
	case "query":
		if _, set := c.cfg.Query[in.name]; set && o.inside {
			return nil
		}
		in.style = cmp.Or(in.style, "form")
	case "header":
		name := http.CanonicalHeaderKey(in.name)
		switch {
		case slices.Contains(ownHeaders, name):
			return nil
		case len(c.cfg.Header.Values(name)) > 0 && o.inside:
			return nil
		case name == "Idempotency-Key":
			o.attempts = name
			return nil
		case ownHeader(name):
			return unusable("no model may set the header")
		case !slices.ContainsFunc(c.cfg.Headers, func(allowed string) bool { return strings.EqualFold(allowed, in.name) }):
			value, only := d.onlyValue(p)
			if !only {
				return unusable("the header is not in Headers, and has no value of its own in Header")
			}
			if o.fixed == nil {
				o.fixed = http.Header{}
			}
			o.fixed.Set(name, value)
			return nil
		}
		in.style = cmp.Or(in.style, "simple")
	case "cookie":
		return unusable("no cookies are sent")
	default:
		return unusable("a parameter in %q is not supported", in.in)
	}
	styles := map[string][]string{"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"}, "header": {"simple"}}
	if !slices.Contains(styles[in.in], in.style) {
		return unusable("the style %s is not supported", in.style)
	}
	in.explode = in.style == "form" || in.style == "deepObject"
	if explode, said := p.child("explode").value.(bool); said && in.style != "deepObject" {
		in.explode = explode
	}
	in.schema = p.child("schema")
	if content, _ := p.child("content").value.(map[string]any); in.schema.value == nil && len(content) > 0 {
		mediaType := slices.Sorted(maps.Keys(content))[0]
		if in.asJSON = isJSON(mediaType); !in.asJSON {
			return unusable("its type %s is not supported", mediaType)
		}
		in.schema = p.child("content").child(mediaType).child("schema")
	}
	o.inputs = append(o.inputs, in)
	return nil
}

// onlyValue is the text that a parameter has if nobody chooses one: the only one that its schema allows, or
// else its default.
func (d *document) onlyValue(p place) (text string, ok bool) {
	schema, err := d.follow(p.child("schema"))
	if err != nil {
		return "", false
	}
	value := schema.child("const").value
	if values, _ := schema.child("enum").value.([]any); value == nil && len(values) == 1 {
		value = values[0]
	}
	if value == nil {
		value = schema.child("default").value
	}
	if value == nil || isObject(value) {
		return "", false
	}
	if _, isList := value.([]any); isList {
		return "", false
	}
	return plain(value), httpguts.ValidHeaderFieldValue(plain(value))
}

// offer makes the action. The error says why there is none.
func (c *Connection) offer(o *operation, d *document, item place) error {
	checked, told, err := o.schema(d)
	if err != nil {
		return err
	}
	described := spelling.OneLine(o.at.text("summary"), maxDescription)
	if text := spelling.OneLine(o.at.text("description"), maxDescription); text != "" && text != described {
		if described != "" && !strings.ContainsAny(described[len(described)-1:], ".!?:") {
			described += "."
		}
		described = strings.TrimSpace(described + " " + text)
	}
	described = cmp.Or(spelling.OneLine(described, maxDescription), spelling.OneLine(o.Method+" "+o.path, maxDescription))

	mark := o.at.child("x-openai-isConsequential").value
	if mark == nil {
		mark = o.at.child("x-oai-isConsequential").value
	}
	needs := !o.safe
	switch {
	case mark == nil:
	case mark != false:
		needs = true
	case c.cfg.Rules.Trust:
		needs = false
	}
	if o.Definition, err = o.definition(d, item); err != nil {
		return err
	}
	digest, err := connections.Digest(o.Definition)
	if err != nil {
		return err
	}
	options := []actions.Option{actions.ReturnsData, func(a *actions.Action) {
		a.Told = told
		a.Detail = spelling.OneLine(o.Method+" "+o.URL, maxDescription)
		a.Approval = c.cfg.Rules.Approval(needs, o.names...)
		a.Destructive = o.Method == http.MethodDelete
		a.Parallel = o.safe
		a.Source = actions.Source{Connection: c.cfg.Key, Remote: o.Remote, Digest: digest}
		if o.Remote == o.Method+" "+o.path {
			a.Title = spelling.OneLine(c.cfg.Key+": "+o.Remote, 100)
		}
	}}
	if c.cfg.SignIn != "" && o.inside {
		options = append(options, actions.NeedsToken(c.cfg.SignIn))
	}
	call := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
		return c.call(ctx, turn, o, entities)
	}
	o.Action, err = actions.AddSchema(c.registry, connections.Name(c.cfg.Key, o.Remote), described, checked, call, options...)
	return err
}
