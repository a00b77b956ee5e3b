package teams_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/planbot-go/planbot/models"
	"golang.org/x/text/unicode/norm"
)

// expect is what must come of a case. A nil or zero member expects nothing.
type expect struct {
	HTTP       []wantHTTP  `json:"http"` // answers to the posts, in order
	Calls      []want      `json:"calls"`
	CallsExact bool        `json:"calls_exact"` // no other calls, typing indicators aside
	Typing     *bool       `json:"typing"`      // false: none of those either
	MustNot    []want      `json:"must_not"`
	Actions    []string    `json:"actions"` // that ran, in order
	Order      [][2]string `json:"order"`
	EachText   *struct {
		PrefixOf *string `json:"prefix_of"`
		NotRe    string  `json:"not_re"`
	} `json:"each_text"` // of the stream
	JoinedText     *string   `json:"joined_text"` // of all finals and plain messages
	Delivered      []string  `json:"delivered"`
	History        *wantText `json:"history"` // of the last request to the model, but for its system prompt and data
	Prompt         *wantText `json:"prompt"`  // all of it
	ModelCalls     any       `json:"model_calls"`
	ModelCancelled []int     `json:"model_cancelled"` // from 1

	Handled        []map[string]any `json:"handled"`         // calls of handlers, in order
	LogHas         []string         `json:"log_has"`         // in the bot's log
	StateWrites    *int             `json:"state_writes"`    // how often Redis is told of the conversation
	Purged         *bool            `json:"purged"`          // whether the person's data was deleted
	LiveCards      *int             `json:"live_cards"`      // that somebody could still decide with, at the end
	PendingSignins *int             `json:"pending_signins"` // at the end
	Quotes         any              `json:"quotes"`          // what handlers saw of quoted messages: how many, or a list
}

type wantText struct{ Has, Not []string }

// wantHTTP is an answer of the bot.
type wantHTTP struct {
	Status     any   `json:"status"` // a number or ~regex
	BodyHas    any   `json:"body_has"`
	BodyEither []any `json:"body_either"`
	BodyEmpty  bool  `json:"body_empty"`
	BeforeMS   *int  `json:"before_ms"` // after the post
}

// want is a call of the bot. TextHas and CountOver are for calls that must not be.
type want struct {
	To           string         `json:"to"` // connector, "" is too; token, file; any
	Method       string         `json:"method"`
	Path         string         `json:"path"`
	URL          string         `json:"url"`
	QueryHas     map[string]any `json:"query_has"`
	HeadersHas   map[string]any `json:"headers_has"`
	HeadersNot   []string       `json:"headers_not"`
	Stream       string         `json:"stream"` // informative, streaming, final, none, any, any-or-none
	Text         *string        `json:"text"`
	TextPrefixOf *string        `json:"text_prefix_of"`
	TextMin      int            `json:"text_min"` // code units
	TextHas      *string        `json:"text_has"`
	BodyHas      any            `json:"body_has"`
	BodyEmpty    bool           `json:"body_empty"`
	NotBeforeMS  *int64         `json:"not_before_ms"`
	NotAfterMS   *int64         `json:"not_after_ms"`
	Count        any            `json:"count"` // a number or {min,max}
	CountOver    int            `json:"count_over"`
	Opt          bool           `json:"opt"`
	AnyOrder     bool           `json:"any_order"`
	// Anywhere forbids a text in everything that the bot wrote: calls, log, state, prompts. But names
	// the call that may have it.
	Anywhere bool   `json:"anywhere"`
	But      string `json:"but"`
}

// check returns how what was seen differs from what was expected.
func (p *played) check(e expect) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, f := range p.faults {
		fault("%s", f)
	}
	p.checkHTTP(e.HTTP, fault)
	if fault := p.checkCalls(e); fault != "" {
		faults = append(faults, fault)
	}
	for i, w := range e.MustNot {
		p.checkNever(i, w, fault)
	}
	if e.Actions != nil {
		var ran []string
		for _, r := range p.ran {
			ran = append(ran, r.name)
		}
		if !slices.Equal(ran, e.Actions) {
			fault("actions: %q ran, want %q", ran, e.Actions)
		}
	}
	for _, pair := range e.Order {
		p.checkOrder(pair, fault)
	}
	p.checkTexts(e, fault)
	p.checkModels(e, fault)
	p.checkHandled(e, fault)
	return faults
}

// checkHandled checks what handlers were given, and what is left in log and state.
func (p *played) checkHandled(e expect, fault func(string, ...any)) {
	if e.Handled != nil {
		for i, w := range e.Handled[:min(len(e.Handled), len(p.handled))] {
			if why := p.value("handled", map[string]any(w), p.handled[i], &call{}); why != "" {
				fault("handled %d: %s", i+1, why)
			}
		}
		if len(p.handled) != len(e.Handled) {
			fault("handled: %v, want %d", p.handled, len(e.Handled))
		}
	}
	for _, text := range e.LogHas {
		if !strings.Contains(p.log.String(), text) {
			fault("log_has: no %q in:\n%s", text, p.log.String())
		}
	}
	if e.StateWrites != nil {
		writes := 0
		for _, id := range p.ids {
			writes += strings.Count(p.redis.String(), id)
		}
		if writes != *e.StateWrites {
			fault("state_writes: %d, want %d", writes, *e.StateWrites)
		}
	}
	if e.Purged != nil && p.purged != *e.Purged {
		fault("purged: %v, want %v", p.purged, *e.Purged)
	}
	if e.PendingSignins != nil && p.signins != *e.PendingSignins {
		fault("pending_signins: %d, want %d", p.signins, *e.PendingSignins)
	}
	if e.LiveCards != nil && p.live != *e.LiveCards {
		fault("live_cards: %d, want %d", p.live, *e.LiveCards)
	}
	switch want := e.Quotes.(type) {
	case nil:
	case []any:
		if why := p.value("quotes", want, anyOf(p.quotes), &call{}); why != "" || len(p.quotes) != len(want) {
			fault("quotes: %v, want %v: %s", p.quotes, want, why)
		}
	default:
		if why := p.value("quotes", want, float64(len(p.quotes)), &call{}); why != "" {
			fault("quotes: %v: %s", p.quotes, why)
		}
	}
}

func anyOf(list []map[string]any) (all []any) {
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// everything is what the bot wrote, by where. A call whose path has but is left out.
func (p *played) everything(but string) map[string]string {
	all := map[string]string{"the log": p.log.String(), "what was stored": p.redis.String()}
	for _, c := range p.calls {
		if but == "" || !strings.Contains(c.path, but) {
			all[c.method+" "+c.path] = c.url + "\n" + c.raw
		}
	}
	for i, d := range p.posts {
		if d != nil {
			all[fmt.Sprintf("the answer to post %d", i+1)] = string(d.Body)
		}
	}
	for i, m := range p.models {
		all[fmt.Sprintf("request %d to the model", i+1)] = m.Prompt()
	}
	return all
}

func (p *played) checkHTTP(wanted []wantHTTP, fault func(string, ...any)) {
	for i, w := range wanted {
		if i >= len(p.posts) || p.posts[i] == nil {
			fault("http %d: there was no such post", i+1)
			continue
		}
		d := p.posts[i]
		var body any
		_ = json.Unmarshal(d.Body, &body) // no JSON has nothing
		differs := func(v any) string { return p.value("body", v, body, &call{}) }
		if why := p.value("status", w.Status, float64(d.Status), &call{}); w.Status != nil && why != "" {
			fault("http %d: %s", i+1, why)
		}
		if why := differs(w.BodyHas); w.BodyHas != nil && why != "" {
			fault("http %d: %s in %s", i+1, why, d.Body)
		}
		either := func(v any) bool { return v == "<empty>" && empty(string(d.Body)) || v != "<empty>" && differs(v) == "" }
		if w.BodyEither != nil && !slices.ContainsFunc(w.BodyEither, either) {
			fault("http %d: body_either: the body is %s", i+1, d.Body)
		}
		if w.BodyEmpty && !empty(string(d.Body)) {
			fault("http %d: the body is %s, want none", i+1, d.Body)
		}
		if w.BeforeMS != nil && d.Took >= ms(*w.BeforeMS) {
			fault("http %d: it took %v, want less than %d ms", i+1, d.Took, *w.BeforeMS)
		}
	}
}

func empty(body string) bool { return slices.Contains([]string{"", "{}"}, strings.TrimSpace(body)) }

// checkCalls looks for a way to read the calls as those that were expected, in order.
func (p *played) checkCalls(e expect) (fault string) {
	if e.Typing != nil && !*e.Typing && slices.ContainsFunc(p.calls, func(c *call) bool { return c.typing }) {
		return "typing: there was an indicator"
	}
	if e.Calls == nil && !e.CallsExact {
		return ""
	}
	for _, order := range orders(e.Calls) {
		r := reading{p: p, wanted: order, exact: e.CallsExact, failed: map[[3]int]bool{}}
		if r.fits(0, 0, 0) {
			return ""
		}
		if fault == "" {
			fault = "calls: " + r.why
		}
	}
	return fault
}

// orders are the orders in which the calls may come: neighbours with any_order in each of theirs.
func orders(wanted []want) [][]want {
	first := slices.IndexFunc(wanted, func(w want) bool { return w.AnyOrder })
	if first < 0 {
		return [][]want{wanted}
	}
	last := first + 1
	for last < len(wanted) && wanted[last].AnyOrder {
		last++
	}
	var all [][]want
	for _, rest := range orders(wanted[last:]) {
		for _, group := range permutations(wanted[first:last]) {
			all = append(all, slices.Concat(wanted[:first], group, rest))
		}
	}
	return all
}

func permutations(of []want) [][]want {
	if len(of) < 2 {
		return [][]want{of}
	}
	var all [][]want
	for i := range of {
		for _, rest := range permutations(slices.Concat(of[:i], of[i+1:])) {
			all = append(all, slices.Concat([]want{of[i]}, rest))
		}
	}
	return all
}

// reading is an attempt to read the calls as the wanted ones.
type reading struct {
	p      *played
	wanted []want
	exact  bool
	failed map[[3]int]bool
	far    int    // how many calls it could read
	why    string // it could not read on
}

// fits reports whether the calls from c on are the wanted ones from w on, of whose first n were seen.
func (r *reading) fits(w, c, n int) bool {
	at := [3]int{w, c, n}
	if r.failed[at] {
		return false
	}
	var least, most int
	if w < len(r.wanted) {
		least, most = r.wanted[w].counts()
		if n >= least && r.fits(w+1, c, 0) {
			return true
		}
	}
	stuck := "nothing more came"
	if c == len(r.p.calls) {
		if w == len(r.wanted) {
			return true
		}
	} else {
		next := r.p.calls[c]
		stuck = fmt.Sprintf("call %d is not expected: %v", c+1, next)
		if w < len(r.wanted) && n < most {
			differs := r.p.differs(r.wanted[w], next)
			if differs == "" && r.fits(w, c+1, n+1) {
				return true
			}
			stuck = fmt.Sprintf("%s in call %d: %v", differs, c+1, next)
		}
		if (next.typing || !r.exact) && r.fits(w, c+1, n) {
			return true
		}
	}
	if r.why == "" || 100*c+w > r.far {
		r.far, r.why = 100*c+w, stuck
		if w < len(r.wanted) {
			r.why = fmt.Sprintf("expectation %d: %s", w+1, stuck)
		}
	}
	r.failed[at] = true
	return false
}

func (w want) counts() (least, most int) {
	least, most = bounds(w.Count)
	if w.Opt {
		least = 0
	}
	return least, most
}

// bounds reads a number or {min,max}; nil is 1.
func bounds(count any) (least, most int) {
	switch count := count.(type) {
	case float64:
		return int(count), int(count)
	case map[string]any:
		least, most = 0, 1<<30
		if n, ok := count["min"].(float64); ok {
			least = int(n)
		}
		if n, ok := count["max"].(float64); ok {
			most = int(n)
		}
		return least, most
	}
	return 1, 1
}

func (p *played) checkNever(i int, w want, fault func(string, ...any)) {
	if w.To == "http" {
		for _, d := range p.posts {
			if d != nil && (w.TextHas == nil || strings.Contains(string(d.Body), *w.TextHas)) {
				fault("must_not %d: an answer was %s", i+1, d.Body)
			}
		}
		return
	}
	if w.Anywhere {
		for where, text := range p.everything(w.But) {
			if strings.Contains(text, *w.TextHas) {
				fault("must_not %d: %q is in %s", i+1, *w.TextHas, where)
			}
		}
		return
	}
	if w.Stream == "" {
		w.Stream = "any-or-none"
	}
	var seen []*call
	for _, c := range p.calls {
		if p.differs(w, c) == "" {
			seen = append(seen, c)
		}
	}
	if len(seen) > w.CountOver {
		fault("must_not %d: %v", i+1, seen[len(seen)-1])
	}
}

// differs says how a call is another one than wanted; "": it is that one.
func (p *played) differs(w want, c *call) string {
	at := c.at.Milliseconds()
	units := len(utf16.Encode([]rune(c.text)))
	switch {
	case w.To != "any" && cmp.Or(w.To, toConnector) != c.to:
		return fmt.Sprintf("it goes to the %s, not the %s", c.to, cmp.Or(w.To, toConnector))
	case w.Method != "" && p.text("method", w.Method, c.method, c) != "":
		return "not " + w.Method
	case w.URL != "" && p.text("url", w.URL, c.url, c) != "":
		return p.text("url", w.URL, c.url, c)
	case w.Path != "" && !p.inPath(w.Path, c):
		return "not the path " + w.Path
	case !w.kindOf(c):
		return fmt.Sprintf("the kind of stream is %q, want %q", c.stream, w.Stream)
	case w.Text != nil && p.text("text", *w.Text, c.text, c) != "":
		return p.text("text", *w.Text, c.text, c)
	case w.TextPrefixOf != nil && !strings.HasPrefix(norm.NFC.String(p.fill(*w.TextPrefixOf, c)), norm.NFC.String(c.text)):
		return fmt.Sprintf("the text is no prefix of %q", *w.TextPrefixOf)
	case units < w.TextMin:
		return fmt.Sprintf("the text has %d code units, want %d at least", units, w.TextMin)
	case w.TextHas != nil && !strings.Contains(c.raw, *w.TextHas) && !strings.Contains(c.text, *w.TextHas):
		return fmt.Sprintf("it does not have %q", *w.TextHas)
	case w.BodyEmpty && !empty(c.raw):
		return "the body is not empty"
	case w.NotBeforeMS != nil && at < *w.NotBeforeMS:
		return fmt.Sprintf("it came at %d ms, want not before %d", at, *w.NotBeforeMS)
	case w.NotAfterMS != nil && at > *w.NotAfterMS:
		return fmt.Sprintf("it came at %d ms, want not after %d", at, *w.NotAfterMS)
	}
	for name, v := range w.QueryHas {
		var got any
		if c.query.Has(name) {
			got = c.query.Get(name)
		}
		if why := p.value("query."+name, fmt.Sprint(v), got, c); why != "" {
			return why
		}
	}
	for name, v := range w.HeadersHas {
		if why := p.text("header "+name, fmt.Sprint(v), c.headers.Get(name), c); why != "" {
			return why
		}
	}
	for _, name := range w.HeadersNot {
		if c.headers.Get(name) != "" {
			return "it has the header " + name
		}
	}
	if w.BodyHas != nil {
		return p.value("body", w.BodyHas, c.body, c)
	}
	return ""
}

func (w want) kindOf(c *call) bool {
	switch w.Stream {
	case "", "any-or-none":
		return true
	case "any":
		return c.stream != ""
	case "none":
		return c.stream == ""
	}
	return c.stream == w.Stream
}

// inPath matches the decoded path with ~regex, or a pattern in which * is anything.
func (p *played) inPath(pattern string, c *call) bool {
	for _, id := range append(slices.Clone(p.ids), "") {
		if expression, ok := strings.CutPrefix(pattern, "~"); ok {
			named := strings.NewReplacer("{cid}", regexp.QuoteMeta(id), "{sid}", regexp.QuoteMeta(c.sid)).Replace(expression)
			if re, err := compile(named); err == nil && re.MatchString(c.path) {
				return true
			}
			continue
		}
		parts := strings.Split(strings.ReplaceAll(pattern, "{cid}", id), "*")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(p.fill(part, c))
		}
		if regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(c.path) {
			return true
		}
	}
	return false
}

// fill fills in the placeholders.
func (p *played) fill(s string, c *call) string {
	id := ""
	if len(p.ids) > 0 {
		id = p.ids[0]
	}
	return strings.NewReplacer("{cid}", id, "{sid}", c.sid, "{shown}", c.shown).Replace(s)
}

// text compares a text with an expectation: ~regex or the text itself.
func (p *played) text(where, want, got string, c *call) string {
	if pattern, ok := strings.CutPrefix(want, "~"); ok {
		re, err := compile(pattern)
		if err != nil {
			return err.Error()
		}
		if !re.MatchString(got) {
			return fmt.Sprintf("%s: %q does not match %s", where, got, pattern)
		}
		return ""
	}
	if want = p.fill(want, c); norm.NFC.String(want) != norm.NFC.String(got) {
		return fmt.Sprintf("%s is %q, want %q", where, got, want)
	}
	return ""
}

var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// compile reads a regular expression, in which \uXXXX may stand as in JavaScript.
func compile(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(unicodeEscape.ReplaceAllString(pattern, `\x{$1}`))
}

// value says how a JSON value differs from what is wanted of it.
func (p *played) value(where string, want, got any, c *call) string {
	switch want := want.(type) {
	case string:
		return p.str(where, want, got, c)
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", where, got)
		}
		for name, v := range want {
			if of, ok := strings.CutSuffix(name, ".length"); ok {
				list, _ := object[of].([]any)
				if n, _ := v.(float64); int(n) != len(list) {
					return fmt.Sprintf("%s.%s has %d elements, want %v", where, of, len(list), v)
				}
				continue
			}
			if why := p.value(where+"."+name, v, object[name], c); why != "" {
				return why
			}
		}
		return ""
	case []any:
		return p.list(where, want, got, c)
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Sprintf("%s is %v, want %v", where, got, want)
	}
	return ""
}

func (p *played) str(where, want string, got any, c *call) string {
	switch {
	case want == "*" && got == nil:
		return where + " is absent"
	case want == "<abs>" && got != nil, want == "<abs-or-empty>" && !slices.Contains([]any{nil, ""}, got) && !noneIn(got):
		return fmt.Sprintf("%s is %v, want nothing", where, got)
	case want == "*", want == "<abs>", want == "<abs-or-empty>":
		return ""
	}
	switch got := got.(type) {
	case string:
		return p.text(where, want, got, c)
	case bool:
		return p.text(where, want, strconv.FormatBool(got), c)
	case float64:
		if strings.HasPrefix(want, "~") {
			return p.text(where, want, strconv.FormatFloat(got, 'f', -1, 64), c)
		}
	}
	return fmt.Sprintf("%s is %v, want %q", where, got, want)
}

func noneIn(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// list wants its elements in their order, among others. One with <none> wants no element like it.
func (p *played) list(where string, want []any, got any, c *call) string {
	list, ok := got.([]any)
	if !ok {
		return fmt.Sprintf("%s is %v, want a list", where, got)
	}
	from := 0
	for i, w := range want {
		if object, ok := w.(map[string]any); ok && object["<none>"] == true {
			others := map[string]any{}
			for name, v := range object {
				if name != "<none>" {
					others[name] = v
				}
			}
			if slices.ContainsFunc(list, func(v any) bool { return p.value(where, others, v, c) == "" }) {
				return fmt.Sprintf("%s has %v", where, others)
			}
			continue
		}
		found, differs := false, []string{fmt.Sprintf("%s has no element like number %d", where, i+1)}
		for ; from < len(list) && !found; from++ {
			why := p.value(fmt.Sprintf("%s[%d]", where, from), w, list[from], c)
			found = why == ""
			differs = append(differs, why)
		}
		if !found {
			return strings.Join(differs, "; ")
		}
	}
	return ""
}

// checkOrder wants the first to have ended before the second begins.
func (p *played) checkOrder(pair [2]string, fault func(string, ...any)) {
	a, okA := p.find(pair[0])
	b, okB := p.find(pair[1])
	if !okA || !okB || a.ended == 0 || a.ended > b.began {
		fault("order: %s does not come before %s", pair[0], pair[1])
	}
}

// find is the first action:NAME, call with that method, or part of a stream.
func (p *played) find(what string) (span, bool) {
	if name, ok := strings.CutPrefix(what, "action:"); ok {
		for _, r := range p.ran {
			if r.name == name {
				return r.span, true
			}
		}
		return span{}, false
	}
	for _, c := range p.calls {
		plain := c.to == toConnector && c.stream == "" && c.method == http.MethodPost && !c.typing
		if c.method == what || c.stream == what || plain && (what == "plain" || what == "none") {
			return c.span, true
		}
	}
	return span{}, false
}

func (p *played) checkTexts(e expect, fault func(string, ...any)) {
	var said, delivered []string
	for _, c := range p.calls {
		if c.to != toConnector {
			continue
		}
		if e.EachText != nil && c.stream == "streaming" {
			if prefix := e.EachText.PrefixOf; prefix != nil && !strings.HasPrefix(norm.NFC.String(*prefix), norm.NFC.String(c.text)) {
				fault("each_text: %q is no prefix of %q", c.text, *prefix)
			}
			if re, err := compile(e.EachText.NotRe); err != nil || e.EachText.NotRe != "" && re.MatchString(c.text) {
				fault("each_text: %q matches %q, %v", c.text, e.EachText.NotRe, err)
			}
		}
		if c.typing || c.stream != "" && c.stream != "final" || c.method == http.MethodDelete {
			continue
		}
		if c.method == http.MethodPost && c.status < http.StatusBadRequest {
			said = append(said, c.text)
		}
		if c.status >= 200 && c.status < 300 || c.stream == "final" && strings.Contains(fmt.Sprint(c.answer), "already completed") {
			delivered = append(delivered, c.text)
		}
	}
	if e.JoinedText != nil && !joins(said, *e.JoinedText) {
		fault("joined_text: %q are not the parts of %q", said, *e.JoinedText)
	}
	for _, text := range e.Delivered {
		if !slices.Contains(delivered, text) {
			fault("delivered: %q was not; %q were", text, delivered)
		}
	}
}

// joins reports whether the texts are the parts of the whole, but for white space between them.
func joins(texts []string, whole string) bool {
	whole = norm.NFC.String(whole)
	for _, text := range texts {
		rest, ok := strings.CutPrefix(strings.TrimLeftFunc(whole, unicode.IsSpace), norm.NFC.String(strings.TrimSpace(text)))
		if !ok {
			return false
		}
		whole = rest
	}
	return strings.TrimSpace(whole) == ""
}

func (p *played) checkModels(e expect, fault func(string, ...any)) {
	if e.ModelCalls != nil {
		if least, most := bounds(e.ModelCalls); len(p.models) < least || len(p.models) > most {
			fault("model_calls: %d, want %v", len(p.models), e.ModelCalls)
		}
	}
	if e.ModelCancelled != nil {
		var cancelled []int
		for i, m := range p.models {
			if m.Cancelled {
				cancelled = append(cancelled, i+1)
			}
		}
		if !slices.Equal(cancelled, e.ModelCancelled) {
			fault("model_cancelled: %v, want %v", cancelled, e.ModelCancelled)
		}
	}
	if e.History == nil && e.Prompt == nil {
		return
	}
	if len(p.models) == 0 {
		fault("history, prompt: the model was not asked")
		return
	}
	last := p.models[len(p.models)-1]
	e.Prompt.check("prompt", last.Prompt(), fault)
	last.Messages = slices.DeleteFunc(slices.Clone(last.Messages), func(m models.Message) bool {
		return m.Role == "system" || strings.HasPrefix(m.Text, models.DataMark)
	})
	e.History.check("history", last.Prompt(), fault)
}

func (w *wantText) check(where, got string, fault func(string, ...any)) {
	if w == nil {
		return
	}
	for _, text := range w.Has {
		if !strings.Contains(got, text) {
			fault("%s: no %q in:\n%s", where, text, got)
		}
	}
	for _, text := range w.Not {
		if strings.Contains(got, text) {
			fault("%s: %q in:\n%s", where, text, got)
		}
	}
}
