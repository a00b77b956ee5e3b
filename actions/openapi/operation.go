package openapi

import (
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
	"golang.org/x/net/http/httpguts"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/plainjson"
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
	broken   string   // why it cannot be used; "": it may
	base     *url.URL // of its server
	inside   bool     // calls carry the connection's secrets
	safe     bool     // it only reads
	inputs   []input
	body     *body
	attempts string // the header that takes the key of an attempt
	fixed    http.Header
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

var otherMethods = []string{http.MethodOptions, http.MethodTrace, http.MethodConnect} // never offered

// ruleLike reports whether a rule that has the text means a method, or a method and a path.
func ruleLike(id string) bool {
	method, _, _ := strings.Cut(id, " /")
	return slices.Contains(methods, method) || slices.Contains(otherMethods, method)
}

var (
	errNotAllowed  = errors.New("it is not in the rules")
	errMethod      = errors.New("its method is never offered")
	errNotAccepted = errors.New("nobody has accepted its definition, or not in this form: bot actions --pin shows and accepts it")
)

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
	unusable := func(why string, files bool) error {
		if b.required || files {
			return errors.New("its body: " + why)
		}
		o.Notes = append(o.Notes, "without its body: "+why)
		return nil
	}
	if o.safe {
		return unusable("a "+o.Method+" has none", false)
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
		files := len(offered) > 0 && !slices.ContainsFunc(offered, func(mediaType string) bool { return !forFiles.MatchString(mediaType) })
		return unusable("none of its types is supported: "+cmp.Or(strings.Join(offered, ", "), "there is none"), files)
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

// forFiles matches the types of bodies that are files. A call without one would do nothing, or something else.
var forFiles = regexp.MustCompile(`(?i)^(multipart|image|audio|video)/|^application/(octet-stream|zip|pdf|gzip)\b`)

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

const bodyEntity = "body" // the entity that has the body

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

// schema writes the schema of the entities, and the one that models see if that is another.
func (o *operation) schema(d *document) (checked, told *jsonschema.Schema, err error) {
	for _, inline := range []bool{true, false} {
		s := &schemas{doc: d, inline: inline, defs: map[string]any{}, names: map[string]string{}}
		properties, required, order := map[string]any{}, []any{}, []string{}
		add := func(entity, text string, schema place, must, null bool, otherwise map[string]any) {
			part, isObject := s.of(schema).(map[string]any)
			if !isObject || len(part) == 0 {
				part = otherwise
			}
			if !null { // only JSON can say it
				part, _ = everyPart(part, connections.ForbidNull).(map[string]any)
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
			add(in.entity, in.text, in.schema, in.required, in.asJSON, map[string]any{"type": "string"})
		}
		if b := o.body; b != nil {
			otherwise := map[string]any{}
			switch {
			case b.isText:
				otherwise["type"] = "string"
			case b.isForm:
				otherwise["type"] = "object"
			}
			add(bodyEntity, b.text, b.schema, b.required, !b.isForm && !b.isText, otherwise)
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
				checked.PropertyOrder = order
			}
			if told != nil {
				told.PropertyOrder = slices.Clone(order)
			}
			return checked, told, err
		}
	}
	return nil, nil, errParts
}

const maxDescription = 1000

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

// request writes the entities as the document says. Its error is a [refusal] or a fault of the program.
func (o *operation) request(entities map[string]any) (*request, error) {
	r := &request{header: http.Header{}}
	maps.Copy(r.header, o.fixed)
	known := map[string]bool{}
	segments, query := map[string]string{}, []string{}
	for _, in := range o.inputs {
		known[in.entity] = true
		value, given := entities[in.entity]
		if text, isText := value.(string); value == nil && !in.asJSON || isText && text == "" && !in.allowEmpty && !in.required {
			given = false
		}
		if !given {
			if in.required {
				return nil, refuse("%s has no value.", in.entity)
			}
			continue
		}
		if in.asJSON {
			raw, err := plainjson.Marshal(value)
			if err != nil {
				return nil, err
			}
			value = string(raw)
		}
		switch in.in {
		case "path":
			text, err := in.segment(value)
			if err != nil {
				return nil, err
			}
			segments["{"+in.name+"}"] = text
		case "query":
			query = append(query, in.query(value)...)
		case "header":
			text := in.simple(value, func(text string) string { return text })
			if !httpguts.ValidHeaderFieldValue(text) {
				return nil, refuse("%s has characters that a header cannot have.", in.entity)
			}
			r.header.Set(in.name, text)
		}
	}
	if o.body != nil {
		known[bodyEntity] = true
		value, given := entities[bodyEntity]
		if err := o.body.write(r, value, given); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entities)) {
		if !known[name] {
			return nil, refuse("There is no entity %q.", spelling.Clip(name))
		}
	}
	var err error
	r.url, err = o.target(segments, strings.Join(query, "&"))
	return r, err
}

// fixedQuery is the query of a template. What it has for a parameter of the query, such as page={page}, is left
// out: the parameter writes itself.
func fixedQuery(template string, segments map[string]string) string {
	var pairs []string
	for pair := range strings.SplitSeq(template, "&") {
		lacks := false
		pair = serverVariable.ReplaceAllStringFunc(pair, func(name string) string {
			text, ok := segments[name]
			lacks = lacks || !ok
			return strings.NewReplacer("&", "%26", "+", "%2B", "=", "%3D").Replace(text)
		})
		if !lacks {
			pairs = append(pairs, escapeWith(pair, "=%+/?:@!$'()*,;"))
		}
	}
	return strings.Join(pairs, "&")
}

// target puts the address together, and makes sure that it is below the server's.
func (o *operation) target(segments map[string]string, query string) (*url.URL, error) {
	template, _, _ := strings.Cut(o.path, "#") // some documents tell operations of one path apart with it
	template, fixed, _ := strings.Cut(template, "?")
	query = strings.Trim(fixedQuery(fixed, segments)+"&"+query, "&")
	path := serverVariable.ReplaceAllStringFunc(template, func(match string) string {
		if text, ok := segments[match]; ok {
			return text
		}
		return escapeWith(match, "")
	})
	base := strings.TrimSuffix(o.base.EscapedPath(), "/")
	target := &url.URL{Scheme: o.base.Scheme, Host: o.base.Host, RawQuery: query}
	full := base + plainPath(path)
	var err error
	if target.Path, err = url.PathUnescape(full); err != nil {
		return nil, refuse("the path of the request cannot be written.")
	}
	target.RawPath = full
	again, err := url.Parse(target.String())
	switch {
	case err != nil || again.Scheme != o.base.Scheme || again.Host != o.base.Host || again.User != nil || again.Fragment != "" || again.Opaque != "":
		return nil, errors.New("the request would leave its server")
	case again.EscapedPath() != full || !strings.HasPrefix(full, base+"/") || dotted(full):
		return nil, refuse("a value leads out of the path of the request.")
	}
	return again, nil
}
