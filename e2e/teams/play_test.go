package teams_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

const (
	appID = "00000000-0000-4000-8000-000000000001"
	login = "login.microsoftonline.com"
	// quiet is how long nothing may come once the bot has nothing left to do.
	quiet = 15 * time.Second
)

// Where a call goes.
const (
	toConnector = "connector"
	toToken     = "token"
	toFile      = "file"
)

// played is all that was seen of a case. Times are virtual, from its begin.
type played struct {
	began time.Time
	now   atomic.Int64 // orders what happens
	rules []*rule
	ids   []string // of the conversations

	mu     sync.Mutex
	calls  []*call
	ran    []*ran
	posts  []*bottest.Delivery // in the order of the case
	models []bottest.ModelCall
	faults []string // of the kit: broken rules of the service, unexpected calls of the model

	handled []map[string]any // what handlers were given, in order
	quotes  []map[string]any
	purged  bool
	signins int               // pending at the end
	live    int               // cards that somebody could still decide with, at the end
	log     bytes.Buffer      // of the bot
	redis   bytes.Buffer      // what the bot sent to it
	tokens  map[string]string // of people who signed in, by connection and person
	stands  map[string]string // what posts say, and what it stands for: see [played.prepare]

	connector *url.URL
	store     *state.Store

	// The connector of the kit has ids of its own for what the bot sends. The bot and the case see new-1, new-2 …,
	// from the case's first message on.
	playing bool
	newIDs  map[string]string // by the kit's
	kitIDs  map[string]string // by those
}

// newID is what the bot and the case see in place of an id of the kit, if the kit has chosen it.
func (p *played) newID(c *call) (kit, id string) {
	kit, _ = c.answer["id"].(string)
	starts := c.method == http.MethodPost && !c.typing && c.stream != "final" && strings.Contains(c.path, "/activities")
	if !p.playing || !starts || kit == "" || slices.ContainsFunc(p.rules, func(r *rule) bool { return r.names(kit) }) {
		return kit, ""
	}
	id = fmt.Sprint("new-", len(p.newIDs)+1)
	p.newIDs[kit], p.kitIDs[id] = id, kit
	return kit, id
}

// inTermsOf writes other ids into a path or a body.
func inTermsOf(ids map[string]string, text string) string {
	for from, to := range ids {
		text = strings.ReplaceAll(text, `"`+from+`"`, `"`+to+`"`)
		if path, ok := strings.CutSuffix(text, "/activities/"+from); ok {
			text = path + "/activities/" + to
		}
	}
	return text
}

// names reports whether the rule answers with that id.
func (r *rule) names(id string) bool {
	body, _ := r.Body.(map[string]any)
	return body["id"] == id
}

// span is when something began and ended. An end of 0: never.
type span struct{ began, ended int64 }

// ran is a run of an action.
type ran struct {
	span
	name string
}

// call is a request of the bot to the connector.
type call struct {
	span
	at           time.Duration
	to           string // connector, token or file
	url          string
	method, path string
	query        url.Values
	headers      http.Header
	raw          string
	body         any
	typing       bool   // an ordinary typing indicator
	stream       string // informative, streaming or final; "": none
	text         string
	status       int
	answer       map[string]any

	// What was known when it began: the id of the stream, and what was acknowledged of its text.
	sid, shown string
}

// newCall reads a request.
func newCall(method, path, body string) *call {
	c := &call{to: toConnector, method: method, path: path, raw: body}
	_ = json.Unmarshal([]byte(body), &c.body) // a DELETE has none
	var a struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Entities []struct {
			Type       string `json:"type"`
			StreamType string `json:"streamType"`
		} `json:"entities"`
	}
	_ = json.Unmarshal([]byte(body), &a)
	c.text = a.Text
	for _, e := range a.Entities {
		if e.Type == "streaminfo" {
			c.stream = e.StreamType
		}
	}
	c.typing = a.Type == "typing" && c.stream == ""
	return c
}

func (c *call) String() string {
	kind := cmp.Or(c.stream, "plain")
	if c.typing {
		kind = "typing"
	}
	const most = 600
	raw := c.raw
	if len(raw) > most {
		raw = strings.ToValidUTF8(raw[:most], "") + "…"
	}
	return fmt.Sprintf("%6d ms  %s %s (%s) → %d  %s", c.at.Milliseconds(), c.method, c.path, kind, c.status, raw)
}

// play plays the case and returns what was seen.
func play(t *testing.T, v vector) *played {
	t.Helper()
	p := &played{tokens: map[string]string{}, stands: map[string]string{}, newIDs: map[string]string{}, kitIDs: map[string]string{}}
	for _, e := range v.In {
		for to, rules := range map[string][]*rule{toConnector: e.Connector, toToken: e.TokenService, toFile: e.FileHost} {
			for _, r := range rules {
				r.to = to
				p.rules = append(p.rules, r)
			}
		}
		if c, ok := e.Post["conversation"].(map[string]any); ok {
			id, _ := c["id"].(string)
			p.ids = append(p.ids, id)
		}
	}
	synctest.Test(t, func(t *testing.T) { p.play(&recorder{T: t, p: p}, v) })
	p.know()
	return p
}

func (p *played) play(t *recorder, v vector) {
	cfg := bottest.Config{Bubble: true, Log: locked{p, &p.log}, ToRedis: locked{p, &p.redis}, New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) { return p.newBot(ctx, parts, v.Given) }}
	if v.Given.Options.Fallback {
		cfg.Models = []string{"first", "second"}
	}
	t.do(func() {
		kit := bottest.New(t, cfg)
		p.connector, _ = url.Parse(kit.Connector.URL) // it serves there
		p.began = time.Now()
		before := p.prepare(kit, v)
		kit.Connector.Decides(p.decide)
		p.answers(kit, v)
		p.happens(kit, v)
		kit.Settle()
		time.Sleep(quiet)
		for _, look := range looks {
			look(p, v.Expect)
		}
		p.models = kit.Model.Calls()[before:]
		kit.Connector.Sent() // all of it is looked at
	})
}

// locked is a buffer of what was played.
type locked struct {
	p  *played
	to *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.to.Write(b)
}

// prepare makes what was there before, by what leads to it, and forgets that it was seen. It returns
// how often the model was asked for that.
func (p *played) prepare(kit *bottest.Kit, v vector) (asked int) {
	for _, name := range slices.Sorted(maps.Keys(v.Given.State)) {
		there := preparers[name]
		if there == nil {
			kit.Connector.Sent()
			p.faults = append(p.faults, "given.state."+name+" is not known")
			continue
		}
		there(p, kit, v.Given, v.Given.State[name])
	}
	kit.Settle()
	kit.Connector.Sent()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.ran, p.handled, p.quotes, p.playing = nil, nil, nil, nil, true
	p.log.Reset()
	p.redis.Reset()
	for _, r := range p.rules {
		r.matched, r.used = 0, 0
	}
	p.began = time.Now()
	return len(kit.Model.Calls())
}

// answers scripts the model. A call beyond that is a fault; an answer that is not asked for is none
// by itself.
func (p *played) answers(kit *bottest.Kit, v vector) {
	var script []bottest.Answer
	for _, e := range v.In {
		if e.Model == nil {
			continue
		}
		a := bottest.Answer{Finish: e.Finish}
		if e.Finish == "broken" {
			a.Finish, a.CutOff = "", true
		}
		for i, m := range e.Model {
			piece := bottest.Piece{At: ms(m.AtMS), Text: deref(m.Delta) + deref(m.Content)}
			if m.ToolCall != nil {
				arguments, ok := m.ToolCall.Arguments.(string)
				if !ok {
					raw, _ := json.Marshal(m.ToolCall.Arguments) // it was JSON
					arguments = string(raw)
				}
				piece.Call = &models.Call{ID: cmp.Or(m.ToolCall.ID, fmt.Sprint("call_", i+1)), Name: m.ToolCall.Name, Arguments: arguments}
			}
			a.Pieces = append(a.Pieces, piece)
		}
		script = append(script, a)
	}
	kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(script) == 0 {
			return bottest.Answer{}, false
		}
		next := script[0]
		script = script[1:]
		return next, true
	})
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// happens posts and restarts, each at its time.
func (p *played) happens(kit *bottest.Kit, v vector) {
	var all sync.WaitGroup
	at := func(n int, do func()) {
		all.Go(func() {
			time.Sleep(time.Until(p.began.Add(ms(n))))
			do()
		})
	}
	p.posts = make([]*bottest.Delivery, 0, len(v.In))
	for _, e := range v.In {
		if e.Post != nil || e.Press != nil {
			p.posts = append(p.posts, nil)
		}
	}
	next := 0
	for _, e := range v.In {
		switch {
		case e.Post != nil || e.Press != nil:
			i := next
			next++
			at(e.AtMS, func() {
				said := e.Post
				if e.Press != nil {
					if said = p.pressed(*e.Press, i); said == nil {
						return
					}
				}
				d := post(kit, p.filled(said))
				p.mu.Lock()
				defer p.mu.Unlock()
				p.posts[i] = d
			})
		case e.Restart && e.BackAtMS > e.AtMS:
			at(e.AtMS, func() { kit.Kill(1) })
			at(e.BackAtMS, kit.Restart)
		case e.Restart:
			at(e.AtMS, kit.Restart)
		}
	}
	all.Wait()
}

// filled is a post with what its ids stand for.
func (p *played) filled(post map[string]any) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw, _ := json.Marshal(post) // it was JSON
	for said, meant := range p.stands {
		raw = bytes.ReplaceAll(raw, quoted(said), quoted(meant))
	}
	var out map[string]any
	_ = json.Unmarshal(raw, &out) // it is JSON
	return out
}

func quoted(text string) []byte {
	raw, _ := json.Marshal(text) // a text
	return raw
}

// post delivers an activity as it is: without what the kit would add.
func post(kit *bottest.Kit, a map[string]any) *bottest.Delivery {
	full := map[string]any{"id": nil, "channelId": nil, "serviceUrl": nil, "from": nil, "recipient": nil, "conversation": nil, "channelData": nil}
	for name, value := range a {
		full[name] = value
	}
	in := func(part, name string) string {
		object, _ := a[part].(map[string]any)
		s, _ := object[name].(string)
		return s
	}
	kind := in("conversation", "conversationType")
	if !slices.Contains([]string{"personal", "groupChat", "channel"}, kind) {
		kind = ""
	}
	return kit.Conversation(in("conversation", "id"), kind, in("from", "id")).Deliver(full)
}

// newBot makes the bot of the case. It is one with an app id, which talks to Microsoft's hosts.
func (p *played) newBot(ctx context.Context, parts bottest.Parts, g given) (*bot.Bot, error) {
	cfg := parts.Bot
	acts := actions.New()
	for _, a := range g.Actions {
		run := func(ctx context.Context, _ *actions.Turn, _ map[string]any) (actions.Result, error) {
			r := &ran{span{began: p.now.Add(1)}, a.Name}
			p.mu.Lock()
			p.ran = append(p.ran, r)
			p.mu.Unlock()
			select {
			case <-time.After(ms(a.TakesMS)):
			case <-ctx.Done():
				return actions.Done, ctx.Err()
			}
			r.ended = p.now.Add(1)
			return actions.Text("%s", a.Result), nil
		}
		var options []actions.Option
		if with := needsToken; a.NeedsToken != "" && with != nil {
			options = append(options, with(a.NeedsToken))
		}
		anything := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{}}
		if g.Approval != nil {
			anything.Properties = map[string]*jsonschema.Schema{"amount": {Type: "number"}}
		}
		if _, err := actions.AddSchema(acts, a.Name, cmp.Or(a.Title, a.Name), anything, run, append(options, actions.Title(a.Title), actions.Doing(a.Title))...); err != nil {
			return nil, err
		}
	}
	acts.OnForget(p.forgotten)
	cfg.Actions = acts
	if g.Approval != nil {
		cfg.Policy = p.policy(*g.Approval)
	}
	cfg.Stream = g.Options.Stream
	cfg.Welcome = g.Options.Welcome
	cfg.UploadPiece = g.Options.UploadPiece
	cfg.Access.Tenants = g.Options.Tenants
	if say := g.Hooks.BeforeSay; say != nil {
		cfg.Features = append(cfg.Features, bot.Feature{Say: func(_ context.Context, _ *bot.Turn, text string) (string, error) {
			return strings.ReplaceAll(text, say.Replace[0], say.Replace[1]), nil
		}})
	}
	guard, client, err := connector.New(connector.Config{
		AppID: appID, Credentials: connector.Credentials{Password: "of the test"}, Transport: transport{p, parts.Transport},
		AllowedHosts: []string{"localhost", "127.0.0.1"}, // of the emulator
	})
	if err != nil {
		return nil, err
	}
	guard.Close() // anyone may call: who is who is for other tests
	cfg.Channel, cfg.Tokens, cfg.Authenticator = client, client, anyone{}
	p.store = cfg.Store
	if cfg.Planner, err = parts.Planner(ctx, g.Options.Planner, planner.Config{Actions: acts}); err != nil {
		return nil, err
	}
	m := &making{p: p, given: g, cfg: &cfg}
	if g.State["files"] != nil {
		offerRoute(m)
	}
	for name, h := range g.Handlers {
		kind, word, _ := strings.Cut(name, ":")
		route := routers[kind]
		if route == nil {
			return nil, fmt.Errorf("handler %q is not known", name)
		}
		h.name, h.p = name, p
		route(m, word, &h)
	}
	b, err := bot.New(cfg)
	if err != nil {
		return nil, err
	}
	for _, register := range m.on {
		register(b)
	}
	return b, nil
}

// anyone may deliver anything.
type anyone struct{}

func (anyone) Authenticate(*http.Request) (bot.Caller, error) { return anyone{}, nil }
func (anyone) Permit(*activity.Activity) error                { return nil }
func (anyone) Trusted() bool                                  { return true }
func (anyone) ID() string                                     { return "urn:botframework:azure" }

// transport leads the requests to Microsoft's hosts to the connector of the kit.
type transport struct {
	p    *played
	base http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == login {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"token_type":"Bearer","expires_in":3600,"access_token":"of-the-bot"}`)),
		}, nil
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	c, path, escaped := newCall(r.Method, "", string(body)), r.URL.Path, r.URL.EscapedPath()
	switch {
	case strings.HasPrefix(r.URL.Host, "token."), strings.Contains(r.URL.Host, ".token."):
		c.to = toToken
	case strings.HasPrefix(r.URL.Host, "smba."), r.URL.Host == t.p.connector.Host:
		path, escaped = belowService(path), belowService(escaped)
	default:
		c.to = toFile
	}
	c.path = path
	if c.to == toConnector && strings.HasPrefix(path, "/v1/") {
		c.path = escaped // a meeting's id has what must be escaped
	}
	c.url, c.query, c.headers, c.at, c.began = r.URL.String(), r.URL.Query(), r.Header, time.Since(t.p.began), t.p.now.Add(1)
	written := sync.OnceFunc(func() { // a dead process reaches nobody
		t.p.mu.Lock()
		defer t.p.mu.Unlock()
		t.p.calls = append(t.p.calls, c)
	})
	if c.to != toConnector || strings.HasPrefix(path, "/v1/") || strings.Contains(path, "/reactions/") || strings.Contains(path, "/attachments/") { // the kit has no such service
		written()
		return t.p.serve(r, c)
	}
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			written()
		}
	}})
	t.p.mu.Lock()
	path, escaped, body = inTermsOf(t.p.kitIDs, path), inTermsOf(t.p.kitIDs, escaped), []byte(inTermsOf(t.p.kitIDs, string(body)))
	t.p.mu.Unlock()
	out := r.Clone(ctx)
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.Host = t.p.connector.Host
	out.URL.Scheme, out.URL.Host = t.p.connector.Scheme, t.p.connector.Host
	out.URL.RawPath, out.URL.Path = escaped, path
	res, err := t.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	c.status, c.ended = res.StatusCode, t.p.now.Add(1)
	_ = json.Unmarshal(answer, &c.answer) // another answer says nothing
	if kit, id := t.p.newID(c); id != "" {
		c.answer["id"] = id
		answer = []byte(inTermsOf(map[string]string{kit: id}, string(answer)))
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	res.Header.Del("Content-Length")
	return res, err
}

// belowService is the path below a service URL.
func belowService(path string) string {
	return path[max(strings.Index(path, "/v3/"), strings.Index(path, "/v1/"), 0):]
}

// serve answers a call to a service that only rules play.
func (p *played) serve(r *http.Request, c *call) (*http.Response, error) {
	p.mu.Lock()
	a := p.answerOf(c)
	p.mu.Unlock()
	select {
	case <-time.After(a.Takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if a.CutOff {
		return nil, io.ErrUnexpectedEOF
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.status, c.ended = a.Status, p.now.Add(1)
	_ = json.Unmarshal([]byte(a.Body), &c.answer) // another answer says nothing
	res := &http.Response{StatusCode: a.Status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(a.Body))}
	if a.RetryAfter > 0 {
		res.Header.Set("Retry-After", fmt.Sprint(int(a.RetryAfter.Seconds())))
	}
	return res, nil
}

// answerOf is the answer of such a service: by the rules, or as it would answer.
func (p *played) answerOf(c *call) bottest.Answer {
	if c.to == toToken {
		return p.tokenService(c)
	}
	a, _ := p.ruled(c)
	switch {
	case a.Status != 0:
	case c.to == toFile && c.method == http.MethodPut:
		a.Status = http.StatusCreated
	default:
		a.Status = http.StatusOK
	}
	return a
}

// tokenService answers a call to the token service. There is a token once somebody signed in.
func (p *played) tokenService(c *call) bottest.Answer {
	who := c.query.Get("connectionName") + "\n" + c.query.Get("userId")
	token, signedIn := p.tokens[who]
	there := bottest.Answer{Status: http.StatusOK, Body: `{"connectionName":` + string(quoted(c.query.Get("connectionName"))) + `,"token":` + string(quoted(token)) + `}`}
	switch {
	case strings.HasSuffix(c.path, "/GetTokenOrSignInResource"):
		get, link := *c, *c
		get.path, link.path = "/api/usertoken/GetToken", "/api/botsignin/GetSignInResource"
		if a := p.tokenService(&get); a.Status == http.StatusOK {
			return bottest.Answer{Status: a.Status, Body: `{"tokenResponse":` + a.Body + `}`}
		}
		a := p.tokenService(&link)
		return bottest.Answer{Status: a.Status, Body: `{"signInResource":` + cmp.Or(a.Body, "{}") + `}`}
	case strings.HasSuffix(c.path, "/GetToken") && signedIn && !c.query.Has("code"):
		return there
	case strings.HasSuffix(c.path, "/SignOut"):
		delete(p.tokens, who)
	}
	a, ok := p.ruled(c)
	switch {
	case !ok && strings.HasSuffix(c.path, "/GetToken"):
		a.Status = http.StatusNotFound
	case !ok:
		a.Status = http.StatusOK
	}
	var got struct {
		Token string `json:"token"`
	}
	if a.Status == http.StatusOK && json.Unmarshal([]byte(a.Body), &got) == nil && got.Token != "" {
		p.tokens[who] = got.Token
	}
	return a
}

// decide answers as the rules say.
func (p *played) decide(s bottest.Sent) bottest.Answer {
	path := "/v3/conversations"
	if s.To != "" {
		path += "/" + s.To + "/activities"
	}
	if id := s.ReplyTo + s.ID; id != "" {
		path += "/" + id
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := newCall(s.Method, inTermsOf(p.newIDs, path), inTermsOf(p.newIDs, s.JSON))
	a, _ := p.ruled(c)
	return a
}

// ruled is the answer of the first rule that matches the call, if one does.
func (p *played) ruled(c *call) (a bottest.Answer, ok bool) {
	for _, r := range p.rules {
		w := want{To: r.to, Method: r.Match.Method, Path: r.Match.Path, QueryHas: r.Match.Query, Stream: cmp.Or(r.Match.Stream, "any-or-none")}
		if p.differs(w, c) != "" {
			continue
		}
		r.matched++ // also of calls that another rule answers
		if ok || r.Match.Nth > 0 && r.Match.Nth != r.matched || r.Times > 0 && r.used == r.Times {
			continue
		}
		r.used++
		a, ok = r.answer(), true
	}
	return a, ok
}

func (r *rule) answer() bottest.Answer {
	a := bottest.Answer{Status: r.Status, Takes: ms(r.TakesMS)}
	if r.NoAnswer {
		return bottest.Answer{Takes: time.Hour, CutOff: true}
	}
	switch body := r.Body.(type) {
	case nil:
	case string:
		a.Body = body
	default:
		raw, _ := json.Marshal(body) // it was JSON
		a.Body = string(raw)
	}
	if after, err := time.ParseDuration(r.Headers["Retry-After"] + "s"); err == nil {
		a.RetryAfter = after
	}
	return a
}

// know tells each call what was known when it began.
func (p *played) know() {
	slices.SortStableFunc(p.calls, func(a, b *call) int { return cmp.Compare(a.began, b.began) })
	type bubble struct{ sid, shown string }
	known := map[string]bubble{} // by path of the conversation
	for _, c := range p.calls {
		if c.to != toConnector {
			continue
		}
		base, _, _ := strings.Cut(c.path, "/activities")
		b := known[base]
		c.sid, c.shown = b.sid, b.shown
		accepted := c.status >= 200 && c.status < 300 && c.answer["code"] == nil
		if id, ok := c.answer["id"].(string); ok && accepted && (c.stream == "informative" || c.stream == "streaming") {
			b = bubble{sid: id}
		}
		if accepted && c.stream == "streaming" {
			b.shown = c.text
		}
		known[base] = b
	}
}

// told is what was seen, for people. Of typing indicators in a row it has the last.
func (p *played) told() string {
	var s strings.Builder
	s.WriteString("the calls were:\n")
	for i, c := range p.calls {
		if c.typing && i+1 < len(p.calls) && p.calls[i+1].typing {
			continue
		}
		fmt.Fprintf(&s, "  %v\n", c)
	}
	return strings.TrimSpace(s.String())
}

// recorder is a test that fails without failing the test that it is part of.
type recorder struct {
	*testing.T
	p *played
}

func (r *recorder) Errorf(format string, args ...any) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	fault := fmt.Sprintf(format, args...)
	if !strings.Contains(fault, "the channel will not show") { // cases give more than that on purpose
		r.p.faults = append(r.p.faults, fault)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return len(r.p.faults) > 0
}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Cleanup(f func()) { r.T.Cleanup(func() { r.do(f) }) }

// do runs f, which may end with Fatalf.
func (r *recorder) do(f func()) {
	var wg sync.WaitGroup
	wg.Go(f)
	wg.Wait()
}
