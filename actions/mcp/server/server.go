// Package server offers a bot to other agents as an MCP server: they ask a person something, have a person
// approve something, and call the actions that the operator lists. Whoever calls has a token that names a
// person, and everything happens in the name of that person, in their own conversation with the bot: each
// call is a turn of its own, with the same checks, policy, hooks and audit as any other.
//
// A call that waits for a person is answered at once with an id. get_answer says what came of it, also
// after the program was restarted, and only to the one who asked.
package server

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Bot runs requests. A bot.Bot whose Config.Requests is set does, and says what the methods do.
type Bot interface {
	Request(ctx context.Context, r actions.Request) (id string, err error)
	Requested(ctx context.Context, r actions.Request, id string) (actions.Requested, error)
}

// Config says what is offered, and to whom. Bot, Actions, Resource, and Issuers or Tokens are required.
type Config struct {
	Bot Bot
	// Actions are those of the bot. [New] adds two to it, for questions to people, which no plan may use.
	Actions *actions.Registry
	// Exposed are the names of the actions that are offered as tools. None: only what asks a person.
	Exposed []string

	// Resource is the address of the server as clients reach it, such as https://bot.example/mcp: https, or
	// http to this machine.
	Resource string
	// Issuers are the OpenID Connect issuers of tokens for the Audience; "" is Resource. The claims tid and
	// oid of a token name the person.
	Issuers  []string
	Audience string
	// Tokens are fixed tokens, for development.
	Tokens []Token
	// Origins are the web pages that may call the server, such as https://tools.example. None: no page.
	Origins []string

	// Wait is how long a call of an exposed action waits for its result before it is answered with an id.
	// 0: 20 seconds.
	Wait time.Duration
	Log  zerolog.Logger
}

// Token is a fixed token. All fields are required.
type Token struct {
	Name           string // of the program that has it; people read it
	SHA256         string // of the token, in hex
	Tenant, Person string // ids of the person in Microsoft Entra
}

const (
	maxBody = 1 << 20
	// perSecond and burst limit the calls with one token, and maxCallers the tokens that are counted.
	perSecond, burst, maxCallers = 20, 40, 10_000
	// defaultWait and pollEvery are about results.
	defaultWait, pollEvery, maxPoll = 20 * time.Second, 200 * time.Millisecond, 2 * time.Second
	maxWait                         = 30 * time.Second // how long get_answer may wait
	// maxWaits is how many calls of one caller wait at once. Others are answered as soon as they are taken.
	maxWaits = 40
	// maxText is how many bytes of a question or an id are taken.
	maxText, maxID = 4000, 64
)

// Server is the MCP server: an [http.Handler] for its endpoint, and for its metadata at
// /.well-known/oauth-protected-resource and below. It is safe for concurrent use.
type Server struct {
	cfg       Config
	verifier  *connector.Verifier
	mcp       http.Handler
	metadata  http.Handler
	described string // URL of the metadata
	local     bool   // it is for this machine

	mu     sync.Mutex
	limits map[string]*rate.Limiter // by subject
	waits  map[string]int           // by subject
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// New returns a server. One error reports every fault in cfg. Call it before the bot's first turn.
func New(cfg Config) (*Server, error) {
	var faults []error
	if cfg.Bot == nil {
		faults = append(faults, errors.New("no Bot"))
	}
	if cfg.Actions == nil {
		faults = append(faults, errors.New("no Actions"))
	}
	if err := errors.Join(append(faults, cfg.Check())...); err != nil {
		return nil, fmt.Errorf("mcp server config: %w", err)
	}
	resource, err := url.Parse(cfg.Resource)
	if err != nil {
		return nil, err
	}
	verifier, err := cfg.verifier()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:      cfg,
		verifier: verifier,
		limits:   map[string]*rate.Limiter{},
		waits:    map[string]int{},
		local:    loopback.IsHost(resource.Hostname()),
	}
	protection := http.NewCrossOriginProtection()
	for _, origin := range cfg.Origins {
		_ = protection.AddTrustedOrigin(origin) // Check has tried it
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "planbot", Version: "1"}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	s.expose(server)
	s.cfg.Wait = cmp.Or(cfg.Wait, defaultWait)
	s.offerHumans(server)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
		DisableLocalhostProtection: !s.local, // behind a proxy the host is another
	})
	bearer := auth.RequireBearerToken(infoOf, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	s.mcp = protection.Handler(s.authorize(bearer(handler)))
	s.described = resource.Scheme + "://" + resource.Host + wellKnown + strings.TrimSuffix(resource.Path, "/")
	s.metadata = auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: cfg.Resource, AuthorizationServers: cfg.Issuers, BearerMethodsSupported: []string{"header"},
	})
	return s, nil
}

// Check returns every fault in the fields but Bot, one per line. Without Actions it leaves out Exposed.
// It connects to nothing.
func (c Config) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	var known []string
	if c.Actions != nil {
		for _, a := range c.Actions.All() {
			known = append(known, a.Name)
		}
	}
	for _, name := range c.Exposed {
		if c.Actions == nil {
			break
		}
		if a, ok := c.Actions.Lookup(name); !ok || a.Name != name || isHuman(name) {
			fault("Exposed: the bot has no action %q%s", name, spelling.Hint(name, known))
		}
	}
	resource, err := url.Parse(c.Resource)
	switch {
	case err != nil || resource.Host == "" || resource.User != nil || strings.ContainsAny(c.Resource, "?#"):
		fault("Resource: %q is no address such as https://bot.example/mcp", c.Resource)
	case resource.Scheme != "https" && !(resource.Scheme == "http" && loopback.IsHost(resource.Hostname())):
		fault("Resource: %q is not https", c.Resource)
	}
	if len(c.Issuers)+len(c.Tokens) == 0 {
		fault("neither Issuers nor Tokens: nobody could call")
	}
	if verifier, err := c.verifier(); err != nil {
		fault("Issuers, Audience: %w", err)
	} else {
		verifier.Close()
	}
	seen := map[string]int{}
	for i, t := range c.Tokens {
		if t.Name == "" || t.Tenant == "" || t.Person == "" || !hexDigest.MatchString(t.SHA256) {
			fault("Tokens: number %d lacks a Name, a Tenant, a Person or a SHA256 of 64 lower-case hex digits", i+1)
			continue
		}
		if first, ok := seen[t.SHA256]; ok {
			fault("Tokens: numbers %d and %d are the same token", first+1, i+1)
			continue
		}
		seen[t.SHA256] = i
	}
	protection := http.NewCrossOriginProtection()
	for _, origin := range c.Origins {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			fault("Origins: %w", err)
		}
	}
	if c.Wait < 0 {
		fault("Wait: %s is negative", c.Wait)
	}
	return errors.Join(faults...)
}

func (c Config) verifier() (*connector.Verifier, error) {
	return connector.NewVerifier(c.Issuers, cmp.Or(c.Audience, c.Resource))
}

const wellKnown = "/.well-known/oauth-protected-resource"

// ServeHTTP answers one request. A server for this machine takes none that a proxy or tunnel passed on.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.local && loopback.Proxied(r.Header) {
		s.cfg.Log.Warn().Str("from", r.RemoteAddr).Msg("a request that was passed on from elsewhere was refused: Resource is this machine")
		http.Error(w, "only programs of this machine may call", http.StatusForbidden)
		return
	}
	if r.URL.Path == wellKnown || strings.HasPrefix(r.URL.Path, wellKnown+"/") {
		s.metadata.ServeHTTP(w, r)
		return
	}
	s.mcp.ServeHTTP(w, r)
}

// Close closes idle connections.
func (s *Server) Close() { s.verifier.Close() }

// caller is who calls.
type caller struct{ subject, by, tenant, person string }

type callerKey struct{}

// authorize lets only those in who have a token, and not too often.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.callerOf(r)
		refused, ok := errors.AsType[*connector.AuthError](err)
		switch {
		case err != nil && (!ok || refused.Status != http.StatusUnauthorized):
			s.cfg.Log.Warn().Err(err).Msg("the token of an MCP client could not be checked")
			w.Header().Set("Retry-After", "2")
			http.Error(w, "the token cannot be checked now", http.StatusServiceUnavailable)
			return
		case err != nil:
			s.cfg.Log.Info().Err(err).Str("from", r.RemoteAddr).Msg("MCP client refused")
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", s.described))
			http.Error(w, "no token that this server accepts", http.StatusUnauthorized)
			return
		case !s.allow(c.subject):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many calls", http.StatusTooManyRequests)
			return
		case !single(r):
			http.Error(w, "no batches: one call in each request", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// single reports whether the body is not a batch, which would be many calls at the price of one. The
// protocol has had none since 2025-06-18.
func single(r *http.Request) bool {
	body := bufio.NewReader(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	for range maxBody {
		c, err := body.ReadByte()
		if err != nil {
			return true // the handler says what is wrong
		}
		if !strings.ContainsRune(" \t\r\n", rune(c)) {
			_ = body.UnreadByte() // it was just read
			return c != '['
		}
	}
	return false
}

func (s *Server) callerOf(r *http.Request) (caller, error) {
	unauthorized := func(why string) error {
		return &connector.AuthError{Status: http.StatusUnauthorized, Err: errors.New(why)}
	}
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return caller{}, unauthorized("not one authorization header")
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller{}, unauthorized("authorization is no bearer token")
	}
	sum := sha256.Sum256([]byte(token))
	digest := hex.EncodeToString(sum[:])
	for _, t := range s.cfg.Tokens {
		if t.SHA256 == digest { // of a digest nobody learns by the time it takes
			return caller{"token " + t.Name + " " + digest, t.Name, t.Tenant, t.Person}, nil
		}
	}
	if len(s.cfg.Issuers) == 0 {
		return caller{}, unauthorized("unknown token")
	}
	b, err := s.verifier.Verify(r.Context(), token)
	if err != nil {
		return caller{}, err
	}
	return caller{b.Issuer + " " + b.Subject + " " + b.Client, spelling.OneLine(cmp.Or(b.Client, b.Issuer), 100), b.Tenant, b.Person}, nil
}

// infoOf hands the caller to the calls of tools.
func infoOf(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
	c, ok := r.Context().Value(callerKey{}).(caller)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: c.subject, Extra: map[string]any{"caller": c}}, nil
}

// allow counts a call.
func (s *Server) allow(subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[subject]
	if l == nil {
		if len(s.limits) >= maxCallers {
			clear(s.limits)
		}
		l = rate.NewLimiter(perSecond, burst)
		s.limits[subject] = l
	}
	return l.Allow()
}

func (s *Server) expose(server *sdk.Server) {
	for _, name := range s.cfg.Exposed {
		a, ok := s.cfg.Actions.Lookup(name)
		if !ok {
			continue // Check refuses such a name
		}
		server.AddTool(&sdk.Tool{
			Name:        a.Name,
			Title:       a.Title,
			Description: a.Description,
			InputSchema: a.ForModels(),
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &a.Destructive},
		}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return s.run(ctx, r, a.Name, nil, s.cfg.Wait)
		})
	}
}

// run has an action called. With entities of nil they are the arguments of the tool.
func (s *Server) run(
	ctx context.Context, r *sdk.CallToolRequest, action string, entities map[string]any, wait time.Duration,
) (*sdk.CallToolResult, error) {
	c, ok := s.from(r)
	if !ok {
		return failed("the token names no person"), nil
	}
	if entities == nil {
		dec := json.NewDecoder(strings.NewReader(string(r.Params.Arguments)))
		dec.UseNumber()
		if len(r.Params.Arguments) > 0 && dec.Decode(&entities) != nil {
			return failed("the arguments are no object"), nil
		}
	}
	request := c.request()
	request.Action, request.Entities = action, entities
	if key, ok := r.Params.Meta[attemptMeta].(string); ok && len(key) <= maxID {
		request.Key = r.Params.Name + "\n" + key
	}
	id, err := s.cfg.Bot.Request(ctx, request)
	if wrong, ok := errors.AsType[*actions.EntityError](err); ok {
		return failed(wrong.Error()), nil
	}
	if errors.Is(err, actions.ErrUnknownRecipient) || errors.Is(err, actions.ErrUnreachable) {
		return failed("the token's person has no conversation with the bot yet: they have to write to it first"), nil
	}
	if errors.Is(err, actions.ErrFull) {
		return failed("the person has too many open requests already"), nil
	}
	if err != nil {
		s.cfg.Log.Error().Err(err).Str("action", action).Msg("the call of an MCP client was not taken")
		return nil, errors.New("the bot could not take the call")
	}
	s.cfg.Log.Info().Str("action", action).Str("by", c.by).Str("turn", id).Msg("call of an MCP client")
	came, err := s.came(ctx, c, id, wait)
	if errors.Is(err, actions.ErrNoRequest) { // it was taken: who reads that there is no such call makes it again
		came, err = actions.Requested{ID: id, Status: actions.RequestUnknown}, nil
	}
	if err != nil {
		return nil, err
	}
	return said(came, action == RequestApproval), nil
}

const attemptMeta = "planbot/attempt" // where a client that may repeat a call names its attempt

// from is who calls. It is false if the token names no person.
func (s *Server) from(r *sdk.CallToolRequest) (c caller, ok bool) {
	if r.Extra == nil || r.Extra.TokenInfo == nil {
		return c, false
	}
	c, _ = r.Extra.TokenInfo.Extra["caller"].(caller)
	return c, c.subject != "" && c.tenant != "" && c.person != ""
}

func (c caller) request() actions.Request {
	return actions.Request{Tenant: c.tenant, Person: c.person, Subject: c.subject, By: c.by}
}

// result is what a request came to, after a while if it is not over. decision says that it is read as one.
func (s *Server) result(ctx context.Context, c caller, id string, wait time.Duration, decision bool) (*sdk.CallToolResult, error) {
	came, err := s.came(ctx, c, id, wait)
	if errors.Is(err, actions.ErrNoRequest) {
		return failed("you have no such request, or it is already gone"), nil
	}
	if err != nil {
		return nil, err
	}
	if decision {
		came = decided(came)
	}
	return said(came, decision), nil
}

// came waits for the result of a request, for a while. It asks less and less often, and a caller whose calls
// wait in large numbers does not wait.
func (s *Server) came(ctx context.Context, c caller, id string, wait time.Duration) (actions.Requested, error) {
	if wait > 0 {
		defer s.leave(c.subject)
		if !s.enter(c.subject) {
			wait = 0
		}
	}
	pause := pollEvery
	for until := time.Now().Add(wait); ; {
		came, err := s.cfg.Bot.Requested(ctx, c.request(), id)
		if err != nil && !errors.Is(err, actions.ErrNoRequest) {
			s.cfg.Log.Error().Err(err).Str("turn", id).Msg("the result of a request could not be read")
			return came, errors.New("the bot could not be asked")
		}
		left := time.Until(until)
		if err != nil || came.Status != actions.RequestPending || left <= 0 {
			return came, err
		}
		select {
		case <-time.After(min(pause, left)):
			pause = min(pause*5/4, maxPoll)
		case <-ctx.Done():
			return came, ctx.Err()
		}
	}
}

// enter counts a call that waits, and reports whether it may.
func (s *Server) enter(subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[subject]++
	return s.waits[subject] <= maxWaits
}

// leave takes such a call off the count.
func (s *Server) leave(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[subject]--; s.waits[subject] == 0 {
		delete(s.waits, subject)
	}
}

// said is what the client reads of a request. decision says that get_approval has what comes of it.
func said(came actions.Requested, decision bool) *sdk.CallToolResult {
	text := came.Text
	switch came.Status {
	case actions.RequestPending:
		text = "Not decided yet. Call get_answer with the id."
		if decision {
			text = "Not decided yet. Call " + getApproval + " with the id."
		}
	case actions.RequestRejected:
		text = "A person rejected it. It was not done."
	case actions.RequestExpired:
		text = "Nobody decided in time. It was not done."
	case actions.RequestUnknown:
		text = "It is not known whether it was done. Somebody has to look at it."
	}
	structured := map[string]any{"id": came.ID, "status": came.Status, "text": text}
	raw, _ := json.Marshal(structured) // texts always encode
	return &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: string(raw)}}, StructuredContent: json.RawMessage(raw),
		IsError: came.Status == actions.RequestFailed || came.Status == actions.RequestUnknown,
	}
}

func failed(why string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: why}}, IsError: true}
}

// schemaOf is the schema of a tool's arguments.
func schemaOf(required []string, properties map[string]*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Required: required, Properties: properties}
}

// The tools that reach people are actions as well, which no plan may use: their calls ask the person and
// wait.
const (
	askAction = "mcp_ask_person"
	// RequestApproval is the name of the action behind the tool request_approval. Its entities are what, details and
	// minutes. The person of the token is asked, unless the bot's policy says that it needs an approval, and whose.
	RequestApproval = "mcp_request_approval"
)

func isHuman(action string) bool { return action == askAction || action == RequestApproval }

type asked struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices,omitempty"`
	Minutes  int      `json:"minutes,omitempty"`
}

// wanted is what a person is to approve.
type wanted struct {
	What    string `json:"what"`
	Details string `json:"details,omitempty"`
	Minutes int    `json:"minutes,omitempty"`
}

const defaultMinutes = 60 // how long a person has

// humans are the actions behind the tools.
func humans() *actions.Registry {
	r := actions.New()
	actions.Add(r, askAction, "Asks the person something", func(ctx context.Context, _ *actions.Turn, in asked) (actions.Result, error) {
		answer := actions.AttemptOf(ctx).Answer
		if answer == nil {
			field := actions.Field{Name: "answer", Title: "Answer", Required: true, Long: len(in.Choices) == 0}
			for _, choice := range in.Choices {
				field.Choices = append(field.Choices, actions.Choice{Value: choice})
			}
			return ask(in.Question, in.Minutes, field), nil
		}
		text, _ := answer.Values["answer"].(string)
		return cameOf(answer, "answered", "declined", text), nil
	}, actions.Title("Ask me something"))
	approve := func(ctx context.Context, _ *actions.Turn, in wanted) (actions.Result, error) {
		attempt := actions.AttemptOf(ctx)
		answer := attempt.Answer
		switch {
		case attempt.Approved:
			return actions.JSON(decision{Decision: "approved"}), nil
		case answer == nil:
			return ask(strings.TrimSpace(in.What+"\n"+in.Details), in.Minutes), nil
		}
		return cameOf(answer, "approved", "rejected", ""), nil
	}
	actions.Add(r, RequestApproval, "Asks people to approve something", approve, actions.Title("Give an approval")).
		Within = func(entities map[string]any) time.Duration {
		minutes, _ := strconv.Atoi(fmt.Sprint(entities["minutes"])) // else the bot says
		return time.Duration(minutes) * time.Minute
	}
	return r
}

func ask(text string, minutes int, fields ...actions.Field) actions.Result {
	minutes = cmp.Or(minutes, defaultMinutes)
	return actions.Ask(actions.Form{Text: text, Fields: fields, Within: time.Duration(minutes) * time.Minute}, nil)
}

// decision is the result of such an action.
type decision struct {
	Decision string `json:"decision"`
	Answer   string `json:"answer,omitempty"`
	Changed  string `json:"changed,omitempty"` // what a person changed before they approved it
}

func cameOf(a *actions.Answer, yes, no, text string) actions.Result {
	came := decision{Decision: yes, Answer: text}
	switch {
	case a.Unanswered:
		came.Decision = "unanswered"
	case a.Declined:
		came.Decision = no
	}
	return actions.JSON(came)
}

// offerHumans offers the tools that reach people.
func (s *Server) offerHumans(server *sdk.Server) {
	registry := humans()
	s.cfg.Actions.AddSource(func() *actions.Registry { return registry })
	text := func(description string) *jsonschema.Schema {
		most := maxText / 2
		return &jsonschema.Schema{Type: "string", Description: description, MaxLength: &most}
	}
	least, most, choices := 1.0, 1440.0, 20
	minutes := &jsonschema.Schema{
		Type:        "integer",
		Description: "How long the person has, in minutes; 60 if not given",
		Minimum:     &least,
		Maximum:     &most,
	}
	id := &jsonschema.Schema{Type: "string", Description: "The id of the question or request"}
	seconds := &jsonschema.Schema{Type: "integer", Description: "How many seconds to wait for the answer, at most 30"}
	closed := new(bool)
	add := func(name, description string, schema *jsonschema.Schema, readOnly bool, run sdk.ToolHandler) {
		server.AddTool(&sdk.Tool{
			Name:        name,
			Description: description,
			InputSchema: schema,
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly, DestructiveHint: closed},
		}, run)
	}
	add("ask_person", "Asks the person of your token something in Microsoft Teams. "+
		"Returns an id at once; get_answer has the answer. Never ask for secrets.",
		schemaOf([]string{"question"}, map[string]*jsonschema.Schema{
			"question": text("What to ask, as plain text"), "minutes": minutes,
			"choices": {
				Type:        "array",
				Items:       text("A possible answer"),
				MaxItems:    &choices,
				UniqueItems: true,
				Description: "Possible answers; none: any text",
			},
		}), false, s.human(askAction, func(raw json.RawMessage) (map[string]any, string) {
			var in asked
			err := json.Unmarshal(raw, &in)
			empty := strings.TrimSpace(in.Question) == ""
			switch {
			case err != nil || empty || len(in.Question) > maxText || len(in.Choices) > choices || !inTime(in.Minutes):
				return nil, "want a question of at most 4000 bytes, at most 20 choices, and 1 to 1440 minutes"
			case !distinct(in.Choices):
				return nil, "a choice is empty, too long or repeated"
			}
			return map[string]any{"question": in.Question, "choices": anys(in.Choices), "minutes": in.Minutes}, ""
		}))
	add("request_approval", "Has a person approve or reject something in Microsoft Teams: "+
		"the one of your token, or whom the bot's policy names. "+
		"Returns an id at once; get_approval has the decision.",
		schemaOf([]string{"what"}, map[string]*jsonschema.Schema{
			"what":    text("What is to be approved, in one line"),
			"details": text("What the person should know"),
			"minutes": minutes,
		}),
		false, s.human(RequestApproval, func(raw json.RawMessage) (map[string]any, string) {
			var in wanted
			err := json.Unmarshal(raw, &in)
			empty := strings.TrimSpace(in.What) == ""
			if err != nil || empty || len(in.What)+len(in.Details) >= maxText || !inTime(in.Minutes) {
				return nil, "want what is to be approved, in at most 4000 bytes with the details, and 1 to 1440 minutes"
			}
			entities := map[string]any{"what": in.What} // people may read them on a card
			if in.Details != "" {
				entities["details"] = in.Details
			}
			if in.Minutes > 0 {
				entities["minutes"] = in.Minutes
			}
			return entities, ""
		}))
	get := func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct {
			ID      string `json:"id"`
			Seconds int    `json:"seconds"`
		}
		c, ok := s.from(r)
		if !ok || json.Unmarshal(r.Params.Arguments, &in) != nil || in.ID == "" || len(in.ID) > maxID {
			return failed("want the id of one of your requests"), nil
		}
		return s.result(ctx, c, in.ID, min(max(time.Duration(in.Seconds)*time.Second, 0), maxWait), r.Params.Name == getApproval)
	}
	of := schemaOf([]string{"id"}, map[string]*jsonschema.Schema{"id": id, "seconds": seconds})
	add("get_answer", "Returns the answer to a question, or the result of a call that waited for a person.", of, true, get)
	add(getApproval, "Returns the decision about what request_approval asked.", of, true, get)
}

const getApproval = "get_approval"

// decided has the same words for an approval of others as for one of the token's person, and is JSON also if somebody has
// changed what they approved: the text then begins with a line about that, in brackets.
func decided(came actions.Requested) actions.Requested {
	said := map[actions.RequestStatus]string{actions.RequestRejected: "rejected", actions.RequestExpired: "unanswered"}[came.Status]
	if said != "" {
		raw, _ := json.Marshal(decision{Decision: said}) // it always encodes
		came.Status, came.Text = actions.RequestDone, string(raw)
	}
	change, rest, ok := strings.Cut(came.Text, "\n")
	d := decision{Changed: strings.Trim(change, "[]")}
	if ok && came.Status == actions.RequestDone && json.Unmarshal([]byte(rest), &d) == nil {
		raw, _ := json.Marshal(d) // it always encodes
		came.Text = string(raw)
	}
	return came
}

// human is the handler of a tool that asks a person. entities reads its arguments, or says what is wrong.
func (s *Server) human(action string, entities func(json.RawMessage) (map[string]any, string)) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in, wrong := entities(r.Params.Arguments)
		if wrong != "" {
			return failed(wrong), nil
		}
		return s.run(ctx, r, action, in, 0)
	}
}

// inTime reports whether a person may have so many minutes; 0 is the default.
func inTime(minutes int) bool { return minutes >= 0 && minutes <= 1440 }

func distinct(choices []string) bool {
	seen := map[string]bool{}
	for _, c := range choices {
		if strings.TrimSpace(c) == "" || len(c) > maxText/2 || seen[c] {
			return false
		}
		seen[c] = true
	}
	return true
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, t := range texts {
		all[i] = t
	}
	return all
}
