package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Operation is an operation of the document, and what was made of it.
type Operation struct {
	// Remote is the service's own name for it: its operationId, or else its method and path, such as
	// GET /items/{id}.
	Remote string
	Method string
	URL    string // with the parameters of the path in braces; "": its server is unusable
	// Action is what a plan may call. nil: none, and LeftOut says why.
	Action  *actions.Action
	LeftOut string
	// NotAllowed says that the rules leave it out.
	NotAllowed bool
	// Notes say what of the operation cannot be used, or is different from what the document says.
	Notes []string
	// Definition is what an operator accepts, see [connections.Lock]. nil: the operation is not allowed or
	// cannot be called.
	Definition jsontext.Value
}

// operation is how to call an operation.
type operation struct {
	Operation
	at       place
	names    []string // what rules may call it
	path     string   // a template
	base     *url.URL // of its server
	inside   bool     // calls carry the connection's secrets
	safe     bool     // it only reads
	inputs   []input
	body     *body
	attempts string // the header that takes the key of an attempt
	accept   string
	answer   Answer
}

// input is a parameter that the model fills in.
type input struct {
	entity     string
	name, in   string
	style      string
	explode    bool
	reserved   bool // reserved characters stay as they are
	allowEmpty bool
	asJSON     bool
	required   bool
	schema     place
	text       string
}

// body is what a request carries.
type body struct {
	mediaType string
	form      map[string]input // how the fields of a form are written
	isForm    bool
	isText    bool
	required  bool
	schema    place
	text      string
}

// methods are those that may be offered, in the order in which a path's operations are listed.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "QUERY"}

// otherMethods are never offered.
var otherMethods = []string{http.MethodOptions, http.MethodTrace, http.MethodConnect}

// ruleLike reports whether a rule that has the text means a method, or a method and a path.
func ruleLike(id string) bool {
	method, _, _ := strings.Cut(id, " /")
	return slices.Contains(methods, method) || slices.Contains(otherMethods, method)
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
		if err != nil || !strings.HasPrefix(template, "/") {
			continue
		}
		for _, method := range slices.Concat(methods, otherMethods) {
			at := item.child(strings.ToLower(method))
			if at.value == nil {
				continue
			}
			o := &operation{at: at, path: template, safe: method == http.MethodGet || method == http.MethodHead}
			id := at.text("operationId")
			if first, taken := ids[id]; taken && id != "" {
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
		if !errors.Is(reason, errNotAllowed) && !errors.Is(reason, errNotAccepted) && slices.ContainsFunc(o.names[:2], byName) {
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
				faults = append(faults, fmt.Sprintf("%s: the document has no operation %q%s", list.in, name, spelling.Suggest(name, known)))
			}
		}
	}
	return faults
}

var (
	errNotAllowed  = errors.New("it is not in the rules")
	errMethod      = errors.New("its method is never offered")
	errNotAccepted = errors.New("nobody has accepted its definition, or not in this form")
)

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
	if reads := len(c.cfg.Rules.Allow) == 0 && o.safe; !reads && !c.cfg.Rules.Names(o.names...) {
		return errNotAllowed
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

var serverVariable = regexp.MustCompile(`\{[^{}]*\}`)

// checkServer returns an error unless requests may go to a server. named says that the operator named its
// host, so that it may be this machine.
func checkServer(u *url.URL, private []netip.Prefix, named bool) error {
	shown := u.Scheme + "://" + u.Host
	switch {
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return fmt.Errorf("the server %q has no host", spelling.Clip(shown))
	case u.User != nil:
		return fmt.Errorf("the server %s has a user name in its address", shown)
	case u.Fragment != "":
		return fmt.Errorf("the server %s has a # in its address", shown)
	case dotted(u.EscapedPath()):
		return fmt.Errorf("the server %s has a segment . or .. in its path", shown)
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("the server %s: want https", shown)
	}
	var here []netip.Addr
	if address, err := netip.ParseAddr(u.Hostname()); err == nil && address.IsLoopback() {
		here = append(here, address.Unmap())
	} else if strings.EqualFold(u.Hostname(), "localhost") {
		here = append(here, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	}
	covered := slices.ContainsFunc(here, func(a netip.Addr) bool {
		return slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(a) })
	})
	if !named || !covered {
		return fmt.Errorf("the server %s: want https; http is only for this machine, if Server names it and Private has its address", shown)
	}
	return nil
}

func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
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
	for _, match := range serverVariable.FindAllString(o.path, -1) {
		if !seen["path "+match[1:len(match)-1]] {
			return fmt.Errorf("nothing says what %s in its path is", match)
		}
	}
	return nil
}

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
	case "query":
		if _, set := c.cfg.Query[in.name]; set && o.inside {
			return nil
		}
		in.style = cmp.Or(in.style, "form")
	case "header":
		name := http.CanonicalHeaderKey(in.name)
		switch {
		case name == "Accept" || name == "Content-Type" || name == "Authorization": // the standard says that they are no parameters
			return nil
		case len(c.cfg.Header.Values(name)) > 0 && o.inside:
			return nil
		case name == "Idempotency-Key":
			o.attempts = name
			return nil
		case ownHeader(name):
			return unusable("no model may set the header")
		case !slices.ContainsFunc(c.cfg.Headers, func(allowed string) bool { return strings.EqualFold(allowed, in.name) }):
			return unusable("the header is not in Headers")
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

// ownHeader reports whether only the program and its operator may set a header.
func ownHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	own := []string{
		"Authorization", "Cookie", "Host", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via", "Forwarded", "Expect",
		"Origin", "Referer", "User-Agent", "X-Real-Ip", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
	}
	return slices.Contains(own, name) || slices.ContainsFunc([]string{"Content-", "X-Forwarded-", "Proxy-", "Sec-"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func isJSON(mediaType string) bool {
	base, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (base == "application/json" || strings.HasSuffix(base, "+json") || base == "*/*" || base == "application/*")
}

// readBody chooses the form in which the body is sent: JSON if it may be that, or else a form, or text.
func (o *operation) readBody(d *document) error {
	at := o.at.child("requestBody")
	if at.value == nil {
		return nil
	}
	at, err := d.follow(at)
	if err != nil {
		return err
	}
	b := &body{required: at.is("required"), text: at.text("description")}
	unusable := func(why string) error {
		if b.required {
			return errors.New("its body: " + why)
		}
		o.Notes = append(o.Notes, "without its body: "+why)
		return nil
	}
	if o.safe {
		return unusable("a " + o.Method + " has none")
	}
	content, _ := at.child("content").value.(map[string]any)
	offered := slices.Sorted(maps.Keys(content))
	rank := func(mediaType string) int {
		base, _, err := mime.ParseMediaType(mediaType)
		switch {
		case err != nil:
			return 9
		case base == "application/json":
			return 1
		case isJSON(mediaType):
			return 2
		case base == "application/x-www-form-urlencoded":
			return 3
		case base == "text/plain":
			return 4
		case strings.HasPrefix(base, "text/") && base != "text/*":
			return 5
		}
		return 9
	}
	slices.SortStableFunc(offered, func(x, y string) int { return rank(x) - rank(y) })
	if len(offered) == 0 || rank(offered[0]) == 9 {
		return unusable("none of its types is supported: " + cmp.Or(strings.Join(offered, ", "), "there is none"))
	}
	media := at.child("content").child(offered[0])
	b.mediaType, b.schema = offered[0], media.child("schema")
	b.isForm, b.isText = rank(offered[0]) == 3, rank(offered[0]) > 3
	if strings.Contains(b.mediaType, "*") {
		b.mediaType = "application/json"
	}
	if b.isForm {
		b.form = map[string]input{}
		fields, _ := media.child("encoding").value.(map[string]any)
		for name := range fields {
			encoding := media.child("encoding").child(name)
			style, explode := encoding.text("style"), encoding.child("explode").value
			if style == "" && explode == nil && !encoding.is("allowReserved") {
				continue
			}
			in := input{name: name, style: cmp.Or(style, "form"), reserved: encoding.is("allowReserved")}
			in.explode = in.style == "form" || in.style == "deepObject"
			if said, isBool := explode.(bool); isBool {
				in.explode = said
			}
			b.form[name] = in
		}
	}
	o.body = b
	return nil
}

// readAnswers finds out which types of JSON the answers may have.
func (o *operation) readAnswers(d *document) {
	types := []string{}
	codes, _ := o.at.child("responses").value.(map[string]any)
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		answer, err := d.follow(o.at.child("responses").child(code))
		if err != nil || !strings.HasPrefix(code, "2") && code != "default" {
			continue
		}
		content, _ := answer.child("content").value.(map[string]any)
		for _, mediaType := range slices.Sorted(maps.Keys(content)) {
			if base, _, err := mime.ParseMediaType(mediaType); err == nil && isJSON(base) && !strings.Contains(base, "*") && !strings.Contains(base, "problem+") && !slices.Contains(types, base) {
				types = append(types, base)
			}
		}
	}
	if !slices.Contains(types, "application/json") {
		types = append(types, "application/json")
	}
	o.accept = strings.Join(types, ", ") + ", text/*;q=0.8, */*;q=0.1"
}

// bodyEntity is the entity that has the body.
const bodyEntity = "body"

// nameEntities gives parameters of one name in two places different names.
func (o *operation) nameEntities() error {
	uses := map[string]int{}
	for _, in := range o.inputs {
		uses[in.name]++
	}
	if o.body != nil {
		uses[bodyEntity]++
	}
	taken := map[string]bool{bodyEntity: o.body != nil}
	for i := range o.inputs {
		in := &o.inputs[i]
		if uses[in.name] > 1 {
			in.entity = in.in + "_" + in.name
		}
		if taken[in.entity] {
			return fmt.Errorf("two of its parameters are called %s", in.entity)
		}
		taken[in.entity] = true
	}
	return nil
}

// schema writes the schema of the entities.
func (o *operation) schema(d *document) (checked, told *jsonschema.Schema, err error) {
	for _, inline := range []bool{true, false} {
		s := &schemas{doc: d, inline: inline, defs: map[string]any{}, names: map[string]string{}}
		properties, required, order := map[string]any{}, []any{}, []string{}
		add := func(entity, text string, schema place, must bool, otherwise map[string]any) {
			part, isObject := s.of(schema).(map[string]any)
			if !isObject || len(part) == 0 {
				part = otherwise
			}
			if text != "" {
				part["description"] = text
			}
			properties[entity] = part
			if order = append(order, entity); must {
				required = append(required, entity)
			}
		}
		for _, in := range o.inputs {
			add(in.entity, in.text, in.schema, in.required, map[string]any{"type": "string"})
		}
		if b := o.body; b != nil {
			otherwise := map[string]any{}
			switch {
			case b.isText:
				otherwise["type"] = "string"
			case b.isForm:
				otherwise["type"] = "object"
			}
			add(bodyEntity, b.text, b.schema, b.required, otherwise)
		}
		if inline && errors.Is(s.err, errParts) {
			continue
		}
		if s.err != nil {
			return nil, nil, s.err
		}
		tree := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			tree["required"] = required
		}
		if checked, told, err = s.build(tree); err == nil || !inline {
			if err == nil {
				checked.PropertyOrder, told.PropertyOrder = order, slices.Clone(order)
			}
			return checked, told, err
		}
	}
	return nil, nil, errParts
}

const maxDescription = 1000

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
	if !c.accepted(o.Remote, digest, d) {
		return errNotAccepted
	}
	options := []actions.Option{actions.ReturnsData, func(a *actions.Action) {
		if !same(checked, told) {
			a.Told = told
		}
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
	o.Action, err = actions.AddSchema(c.registry, connections.Name(c.cfg.Key, o.Remote), described, checked, c.caller(o), options...)
	return err
}

func same(x, y *jsonschema.Schema) bool {
	left, err := json.Marshal(x)
	right, other := json.Marshal(y)
	return err == nil && other == nil && bytes.Equal(left, right)
}

// definition is what the document says about how to call the operation, in the document's own words, so
// that it stays the same when this program reads it in another way.
func (o *operation) definition(d *document, item place) (jsontext.Value, error) {
	said, referred := map[string]any{}, map[string]any{}
	for _, key := range []string{"operationId", "summary", "description", "parameters", "requestBody", "x-openai-isConsequential", "x-oai-isConsequential"} {
		if value := o.at.child(key).value; value != nil {
			said[key] = value
		}
	}
	queue := []place{{o.at.file, o.at.pointer, said}, item.child("parameters")}
	for ; len(queue) > 0; queue = queue[1:] {
		walk(queue[0], false, 0, func(at place, to string) {
			target, err := d.follow(place{at.file, at.pointer, map[string]any{"$ref": to}})
			key := target.file + "#" + target.pointer
			if _, known := referred[key]; err == nil && !known {
				referred[key] = target.value
				queue = append(queue, target)
			}
		})
	}
	return json.Marshal(map[string]any{
		"name": o.Remote, "method": o.Method, "url": o.URL, "operation": said, "parameters": item.child("parameters").value, "references": referred,
	})
}

// accepted reports whether the operator has accepted a definition of a document from an address. A file is
// the operator's own.
func (c *Connection) accepted(remote, digest string, d *document) bool {
	if c.cfg.Lock == nil || d.origin == nil {
		return true
	}
	pins, known := c.cfg.Lock.Pins(c.cfg.Key)
	return !known && c.cfg.Lock.FirstUse || pins[remote].Digest == digest
}
