package models

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/rs/zerolog"
	"github.com/sashabaranov/go-openai"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/tags"
)

const (
	defaultBaseURL      = "https://api.openai.com/v1"
	defaultModel        = openai.GPT6Luna // small and cheap; takes strict schemas, and tools when it does not reason
	anyModel            = "default"       // for other servers: those with one model ignore the name
	defaultAzureVersion = "2024-10-21"    // generally available; the first with strict schemas
	defaultTimeout      = 2 * time.Minute
	requestSize         = 8 << 10 // the buffer of an HTTP/1 connection: most requests fit, and leave in one write
	maxAnswerBytes      = 8 << 20
)

// Field names for the answer's token limit.
const (
	maxCompletionTokens = "max_completion_tokens"
	maxTokens           = "max_tokens"
)

// Where a server accepts system messages.
const (
	systemAnywhere = "anywhere"
	systemFirst    = "first"
	systemNowhere  = "nowhere"
)

// OpenAIConfig says which server and model to ask. The zero value of every field is a working
// default, except that OpenAI itself needs a Key.
type OpenAIConfig struct {
	Key     string // sent as a bearer token; "" for local servers
	BaseURL string // up to and excluding /chat/completions; "": OpenAI's
	Model   string // "": gpt-6-luna of OpenAI, default elsewhere; on Azure the model behind the deployment, "": the deployment's name

	// An Azure OpenAI deployment takes precedence over Key and BaseURL. AzureEndpoint is the
	// resource's address (https://NAME.openai.azure.com), or a gateway's with a path; plain http is
	// refused except on loopback. AzureDeployment is then required, and either AzureKey, sent in
	// the api-key header, or AzureToken. AzureVersion "": 2024-10-21. For the version-less API
	// (…/openai/v1), use BaseURL and Key instead.
	AzureEndpoint, AzureKey, AzureDeployment, AzureVersion string
	// AzureToken returns a token of Microsoft Entra ID for Azure OpenAI. It is called for each
	// request, with the ctx of the call, possibly concurrently; it should cache. If it fails, so
	// does the call, with [Auth].
	AzureToken func(ctx context.Context) (token string, err error)

	Transport http.RoundTripper // carries the calls; nil: its own connection pool
	// Timeout is how long one call may take, within the caller's ctx. In a request with
	// [Request.Stream] it limits the wait for the first part of the answer and each pause after it
	// instead; the whole answer then has ten minutes. 0: 2 minutes.
	Timeout time.Duration

	// MaxTokensField is the field name for Request.MaxTokens: max_completion_tokens (the default),
	// or max_tokens for servers that know only the old name. Many of them silently ignore the new
	// one.
	MaxTokensField string
	// ReasoningEffort is sent as is: minimal, low, medium, high, none or another value that the
	// model knows. "": not sent, except that OpenAI's gpt-6-luna gets none, without which it takes
	// tools only over the Responses API.
	ReasoningEffort string

	// SystemMessages says where the server accepts system messages: anywhere (the default); first,
	// for chat templates that want one at the start and then user and assistant in turn; or
	// nowhere. The others are sent as user messages, between marks that nobody can forge.
	SystemMessages string

	// Stream requests every answer in pieces, also for callers that read it whole: nothing on the way
	// to the server then mistakes a long answer for a dead connection. false: only for requests with
	// [Request.Stream]. If a server refuses to stream, it is asked for whole answers from then on.
	Stream bool
}

// String says which model is asked where. It contains no secret.
func (c OpenAIConfig) String() string {
	switch {
	case c.AzureEndpoint != "" && c.AzureToken != nil:
		return "Azure OpenAI with Entra ID, deployment " + c.AzureDeployment
	case c.AzureEndpoint != "":
		return "Azure OpenAI, deployment " + c.AzureDeployment
	case cmp.Or(c.BaseURL, defaultBaseURL) == defaultBaseURL:
		return cmp.Or(c.Model, defaultModel) + " of OpenAI"
	default:
		return cmp.Or(c.Model, anyModel) + " at " + c.BaseURL
	}
}

// openAI is a [Model] that uses the chat completions API.
type openAI struct {
	cfg      OpenAIConfig // with defaults filled in
	vendor   openai.ClientConfig
	sender   doer
	client   *openai.Client
	name     string        // for logs, and for Response.Model if the server gives none
	grammars bool          // the server compiles schemas to grammars
	refused  atomic.Uint32 // options that this deployment has refused
	reasons  sync.Map      // finish reasons that are not known and were logged
	logged   atomic.Int32  // how many
	guess    guess
	bad      badTools
}

// NewOpenAI returns a [Model] that uses the chat completions API of OpenAI, Azure OpenAI or a
// compatible server (llama.cpp, Ollama, vLLM …). It checks all of cfg, lists every mistake in one
// error, and does not touch the network. Share the model: it keeps connections open.
//
// A call asks the server once and does not retry failures. Only if the server refuses the response
// format or streaming is it asked again at once: with json_object instead of json_schema, then for
// text, or for the whole answer. So is a server, other than Azure, that takes the tools of a model
// only over the Responses API. That call never streams, sends no sampling parameters or stop texts,
// and keeps nothing at the server. The model remembers refusals, so each costs only one extra
// request. A 400 or 422 without a known cause is tried at most twice more: without the response format,
// then without older turns; if the first of these helps in three conversations, requests have no format
// for an hour. A tool whose schema the server refuses is left out for an hour. The whole call ends with ctx, or after the configured timeout, which is [Timeout]. A
// request with Stream is answered in pieces if the server can; an answer that comes whole
// nevertheless is read whole. Each call writes one debug line to ctx's logger, with numbers and what the server said about a fault.
// Prompt and answer appear at trace level only.
func NewOpenAI(cfg OpenAIConfig) (Model, error) {
	vendor, err := cfg.vendor()
	if err != nil {
		return nil, fmt.Errorf("openai config: %w", err)
	}
	key, name, azure := cfg.Key, cmp.Or(cfg.Model, anyModel), cfg.AzureEndpoint != ""
	switch {
	case azure:
		key, name = cfg.AzureKey, cfg.AzureDeployment
	case vendor.BaseURL == defaultBaseURL:
		name = cmp.Or(cfg.Model, defaultModel)
		if name == defaultModel {
			cfg.ReasoningEffort = cmp.Or(cfg.ReasoningEffort, openai.ReasoningEffortNone)
		}
	}
	cfg.Model = cmp.Or(cfg.Model, name)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment, // never for loopback
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
			WriteBufferSize:     requestSize,
		}
	}
	sender := doer{transport: cfg.Transport, secret: key}
	if azure {
		sender.token = cfg.AzureToken
	}
	vendor.HTTPClient = &sender
	return &openAI{
		cfg:      cfg,
		vendor:   vendor,
		sender:   sender,
		client:   openai.NewClientWithConfig(vendor),
		name:     name,
		grammars: !azure && vendor.BaseURL != defaultBaseURL,
	}, nil
}

// vendor checks c and converts it to the client library's config.
func (c *OpenAIConfig) vendor() (openai.ClientConfig, error) {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Timeout < 0 {
		fault("Timeout: %s is below zero", c.Timeout)
	}
	if !slices.Contains([]string{"", maxCompletionTokens, maxTokens}, c.MaxTokensField) {
		fault("MaxTokensField: %q is neither %s nor %s", c.MaxTokensField, maxCompletionTokens, maxTokens)
	}
	if !slices.Contains([]string{"", systemAnywhere, systemFirst, systemNowhere}, c.SystemMessages) {
		fault("SystemMessages: %q is not %s, %s or %s", c.SystemMessages, systemAnywhere, systemFirst, systemNowhere)
	}
	if c.ReasoningEffort != "" && !isName.MatchString(c.ReasoningEffort) {
		fault("ReasoningEffort: %q is not one word", c.ReasoningEffort)
	}
	if c.AzureEndpoint != "" {
		base := strings.TrimSuffix(strings.TrimRight(c.AzureEndpoint, "/"), "/openai") // the client adds it again
		u, err := parseBase(base)
		switch {
		case err != nil:
			fault("AzureEndpoint: %w", err)
		case strings.HasSuffix(u.Path, "/openai/v1"):
			fault("AzureEndpoint: the version-less API (/openai/v1) goes in BaseURL")
		case u.Scheme != "https" && !loopback.IsHost(u.Hostname()):
			fault("AzureEndpoint: %s is not https", u.Host)
		}
		switch err := checkKey(c.AzureKey); {
		case c.AzureKey == "" && c.AzureToken == nil:
			fault("no AzureKey or AzureToken")
		case c.AzureKey != "" && c.AzureToken != nil:
			fault("AzureKey: there is an AzureToken, too")
		case err != nil:
			fault("AzureKey: %w", err)
		}
		if !isName.MatchString(c.AzureDeployment) {
			fault("AzureDeployment: %q is not a deployment's name", c.AzureDeployment)
		}
		out := openai.DefaultAzureConfig(c.AzureKey, base)
		out.APIVersion = cmp.Or(c.AzureVersion, defaultAzureVersion)
		out.AzureModelMapperFunc = func(string) string { return c.AzureDeployment }
		if c.AzureToken != nil {
			out.APIType = openai.APITypeAzureAD // sends no api-key
		}
		return out, errors.Join(errs...)
	}
	out := openai.DefaultConfig(c.Key)
	out.BaseURL = strings.TrimSuffix(strings.TrimRight(cmp.Or(c.BaseURL, defaultBaseURL), "/"), "/chat/completions")
	if _, err := parseBase(out.BaseURL); err != nil {
		fault("BaseURL: %w", err)
	}
	if out.BaseURL == defaultBaseURL && c.Key == "" {
		fault("no Key for OpenAI")
	}
	if err := checkKey(c.Key); err != nil {
		fault("Key: %w", err)
	}
	return out, errors.Join(errs...)
}

// parseBase parses an absolute http or https address to which a path can be added. Its errors never
// repeat the address, which may contain a password.
func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("not an absolute http or https URL")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not hold a query or fragment")
	}
	return u, nil
}

// checkKey refuses characters that cannot go into a header, usually a pasted line end.
func checkKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("holds a space, line end or other character that no key has")
	}
	return nil
}

// isName matches one word that starts with a letter or digit.
var isName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Name is the model's name for logs; on Azure, the deployment's.
func (o *openAI) Name() string { return o.name }

// option is a part of a request that a server may refuse. The request is then repeated at once
// without it.
type option uint32

const (
	optSchema option = 1 << iota // the response format json_schema
	optObject                    // the response format json_object
	optStream                    // streaming
	optChat                      // tools over chat completions; without it, over the Responses API
)

// Complete is documented at [NewOpenAI].
func (o *openAI) Complete(ctx context.Context, req *Request) (*Response, error) {
	log := zerolog.Ctx(ctx)
	log.Trace().Interface("messages", req.Messages).Msg("model prompt")
	call, cancel, client := o.follow(ctx, req.Stream)
	defer cancel()
	turn := o.withoutBadTools(req)
	learned := option(o.refused.Load())
	without := learned | o.guess.learned()
	var guessed option // what is left out because it may be the cause of an unknown fault
	var unknown error  // the first of these faults
	for guesses := 0; ; {
		asked := o.options(turn) &^ without
		if asked&optSchema != 0 {
			asked &^= optObject // ask for the strictest format still allowed
		}
		answer, err := o.ask(call, client, turn, asked)
		if err == nil {
			o.refused.Or(uint32(learned))
			if guessed != 0 {
				o.guess.learn(turn)
			}
			answer.Without = o.leftOut(req, turn, asked)
			return answer, nil
		}
		if call.Err() != nil {
			return answer, err
		}
		if fewer := o.leaveOut(ctx, turn, err); fewer != nil {
			turn = fewer
			continue
		}
		refused, always := refusedOptions(err)
		if refused &= asked; refused != 0 {
			log.Info().Err(err).Str("model", o.name).Msg("model refuses a part of the request, asking without")
			without |= refused
			if always {
				learned |= refused
			}
			continue
		}
		const maxGuesses = 2
		if guesses++; guesses > maxGuesses || !hasNoCause(err) {
			return answer, cmp.Or(unknown, err)
		}
		unknown = cmp.Or(unknown, err)
		if format := asked & (optSchema | optObject); format != 0 {
			log.Info().Err(err).Str("model", o.name).Msg("model refuses the request and does not say why, asking without the response format")
			without |= optSchema | optObject
			guessed = format
			continue
		}
		shorter := turn.withoutOldTurns()
		if shorter == nil {
			return answer, unknown
		}
		log.Info().Err(err).Str("model", o.name).Msg("model refuses the request and does not say why, asking without older turns")
		turn = shorter
		guesses = maxGuesses
	}
}

// leftOut lists what of req was not asked for in the end.
func (o *openAI) leftOut(req, turn *Request, asked option) (names []string) {
	missing := o.options(req) &^ asked
	if asked&optSchema != 0 {
		missing &^= optObject
	}
	if missing == 0 && req == turn {
		return nil
	}
	if missing&optSchema != 0 {
		missing &^= optObject // whatever became of it: json_schema says enough
	}
	for _, part := range [...]struct {
		option option
		name   string
	}{{optSchema, "json_schema"}, {optObject, "json_object"}, {optStream, "stream"}, {optChat, "chat"}} {
		if missing&part.option != 0 {
			names = append(names, part.name)
		}
	}
	if len(turn.Messages) < len(req.Messages) {
		names = append(names, "older turns")
	}
	for _, t := range req.Tools {
		if !slices.ContainsFunc(turn.Tools, func(kept Tool) bool { return kept.Name == t.Name }) {
			names = append(names, "tool "+t.Name)
		}
	}
	return names
}

// hasNoCause reports whether a server refused a request and nothing is known of the cause.
func hasNoCause(err error) bool {
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Kind != BadRequest || fault.Status != http.StatusBadRequest && fault.Status != http.StatusUnprocessableEntity {
		return false
	}
	return !slices.Contains([]string{"unsupported_parameter", "unsupported_value", "model_not_found", "DeploymentNotFound"}, fault.Code)
}

const (
	guessTime   = time.Hour // how long a guess is believed
	guessProofs = 3         // conversations in which it was right
)

// guess remembers that requests succeed without their response format, although the server never said that
// it refuses one.
type guess struct {
	mu     sync.Mutex
	proofs map[uint64]bool // conversations
	since  time.Time       // of the first proof
}

// learned are the options to leave out.
func (g *guess) learned() option {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.proofs) < guessProofs || time.Since(g.since) > guessTime {
		return 0
	}
	return optSchema | optObject
}

// learn notes that a guess was right. What a person said first stands for the conversation.
func (g *guess) learn(req *Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.proofs) == 0 || time.Since(g.since) > guessTime {
		g.proofs = map[uint64]bool{}
		g.since = time.Now()
	}
	i := slices.IndexFunc(req.Messages, func(m Message) bool { return m.Role == "user" })
	if i >= 0 && len(g.proofs) < guessProofs {
		g.proofs[textHash(req.Messages[i].Text)] = true
		if len(g.proofs) == guessProofs {
			g.since = time.Now()
		}
	}
}

func textHash(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text)
	return h.Sum64()
}

// badTools are tools whose schemas the server refuses, by name and schema, each until when.
type badTools struct {
	mu    sync.Mutex
	until map[uint64]time.Time
}

const maxBadTools = 256

func (t *Tool) hash() uint64 { return textHash(t.Name + "\x00" + string(t.Schema)) }

// withoutBadTools leaves out the tools that the server has refused within the hour.
func (o *openAI) withoutBadTools(req *Request) *Request {
	if len(req.Tools) == 0 {
		return req
	}
	o.bad.mu.Lock()
	defer o.bad.mu.Unlock()
	if len(o.bad.until) == 0 {
		return req
	}
	fewer := *req
	fewer.Tools = nil
	for _, t := range req.Tools {
		if time.Now().After(o.bad.until[t.hash()]) {
			fewer.Tools = append(fewer.Tools, t)
		}
	}
	return &fewer
}

// leaveOut returns req without the tool whose schema the server refuses; nil: it refuses none.
func (o *openAI) leaveOut(ctx context.Context, req *Request, err error) *Request {
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Kind != BadRequest || len(req.Tools) == 0 {
		return nil
	}
	at := badTool(fault.Said, req.Tools)
	if at < 0 {
		return nil
	}
	zerolog.Ctx(ctx).Warn().Str("model", o.name).Str("tool", req.Tools[at].Name).
		Msg("model server refuses the schema of a tool, leaving the tool out for an hour; its connection can leave it out for good")
	o.bad.mu.Lock()
	defer o.bad.mu.Unlock()
	if len(o.bad.until) >= maxBadTools || o.bad.until == nil {
		o.bad.until = map[uint64]time.Time{}
	}
	o.bad.until[req.Tools[at].hash()] = time.Now().Add(guessTime)
	fewer := *req
	fewer.Tools = slices.Delete(slices.Clone(req.Tools), at, at+1)
	return &fewer
}

// badTool finds the tool that a server's message is about, by name or by place; negative: none.
func badTool(said string, tools []Tool) int {
	if named := refusedTool().FindStringSubmatch(said); named != nil {
		return slices.IndexFunc(tools, func(t Tool) bool { return wireName(t.Name) == named[1] })
	}
	placed := refusedPlace().FindStringSubmatch(said)
	if placed == nil {
		return onlyNamed(said, tools)
	}
	at, err := strconv.Atoi(placed[1])
	if err != nil || at >= len(tools) {
		return -1
	}
	return at
}

// onlyNamed finds the one tool that a message about schemas or parameters names; negative: it names none, or several.
func onlyNamed(said string, tools []Tool) int {
	if !strings.Contains(said, "schema") && !strings.Contains(said, "parameters") {
		return -1
	}
	words := illegal.Split(said, -1)
	named := func(t Tool) bool { return slices.Contains(words, wireName(t.Name)) }
	at := slices.IndexFunc(tools, named)
	if at >= 0 && slices.ContainsFunc(tools[at+1:], named) {
		return -1
	}
	return at
}

var (
	refusedTool  = lazy.Regexp(`(?i)schema (?:for|of|in) (?:the )?(?:function|tool)s?:? ['"“` + "`" + `]?([A-Za-z0-9_-]+)`)
	refusedPlace = lazy.Regexp(`(?i)(?:tools|function_declarations|functionDeclarations)(?:\[\d+\]\.function_?declarations)?[.\[](\d+)\]?\.(?:custom\.|function\.)?(?:input_schema|parameters)`)
)

func (o *openAI) options(req *Request) (out option) {
	if o.cfg.Stream || req.Stream != nil {
		out |= optStream
	}
	if len(req.Tools) > 0 && o.cfg.AzureEndpoint == "" { // Azure has no Responses API in the default version
		out |= optChat
	}
	if req.Format != nil {
		out |= optObject
		if len(req.Format.Schema) > 0 {
			out |= optSchema
		}
	}
	return out
}

// refusedOptions finds out from the server's message what it refuses, and whether that applies to
// every request.
func refusedOptions(err error) (refused option, always bool) {
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Kind != BadRequest && fault.Kind != Unavailable {
		return 0, false
	}
	if errors.Is(err, openai.ErrReasoningToolsRequireResponses) || fault.Status == http.StatusBadRequest && refusedChat().MatchString(fault.Said) {
		return optChat, true
	}
	switch fault.Status { // others say nothing lasting
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented:
	default:
		return 0, false
	}
	if refusedFormat().MatchString(fault.Said) {
		refused |= optSchema | optObject
	}
	if refusedStream().MatchString(fault.Said) && fault.Status != http.StatusInternalServerError {
		refused |= optStream
	}
	return refused, fault.Code != "json_validate_failed" && !strings.Contains(fault.Said, "the word 'json'")
}

// Two refusals apply to one request only: Groq's code json_validate_failed, when the model did not
// manage it, and OpenAI's demand for the word 'json' in the messages.
var (
	refusedFormat = lazy.Regexp(`(?i)response.format|json_schema|json_object|json schema|invalid schema|grammar|failed to generate json`)
	refusedStream = lazy.Regexp(`(?i)stream_options|to stream|streaming`)
	refusedChat   = lazy.Regexp(`(?i)\buse /v1/responses|responses api`)
)

func (o *openAI) ask(ctx context.Context, client *openai.Client, req *Request, asked option) (*Response, error) {
	start := time.Now()
	complete := chat{client}.complete
	switch {
	case o.options(req)&^asked&optChat != 0:
		complete = responses{client}.complete
	case asked&optStream != 0:
		complete = streams{client}.complete
	}
	res, err := complete(ctx, o.request(req, asked))
	var answer *Response
	if err == nil {
		answer, err = o.read(ctx, req, &res)
	}
	if err != nil {
		err = o.failed(ctx, "complete", err)
	}
	o.log(ctx, answer, err, time.Since(start))
	return answer, err
}

// hostOf is the server of an address, without anything that may be secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be parsed"
	}
	return u.Host
}

// failed makes an [*Error] of an error that is not one yet, unless the caller has cancelled ctx. Server
// and network errors already are, so the rest comes from the client library: it could not read the
// answer, or refused to send the request.
func (o *openAI) failed(ctx context.Context, what string, err error) error {
	if errors.Is(over(ctx), context.Canceled) { // not our timeout
		return fmt.Errorf("%s with model %s: %w", what, o.name, ctx.Err())
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		if refused.Status != 0 && (refused.Kind == Auth || refused.Status == http.StatusNotFound) { // whoever reads it has to know which one to correct
			return fmt.Errorf("%s at %s: %w", o.name, hostOf(o.vendor.BaseURL), err)
		}
		return err
	}
	if wrong, shape := errors.AsType[*json.UnmarshalTypeError](err); shape {
		r := irregular{fault: wrong.Field + " is a JSON " + wrong.Value}
		return r.err()
	}
	if errors.Is(err, openai.ErrReasoningToolsRequireResponses) { // the library knows this of some models
		return &Error{Kind: BadRequest, Err: err}
	}
	return &Error{Kind: BadRequest, Err: errors.New(spelling.OneLine(err.Error(), maxMessage))} // drop the vendor's type
}

var errMalformed = &Error{
	Kind: Unavailable, Status: http.StatusOK, Code: codeMalformed, Err: errors.New("the answer is not the JSON of a completion"),
}

// log writes the call's one debug line. On failure it has the kind and the server's own message,
// which appears nowhere else: the error itself is returned, and logged once where the turn ends.
func (o *openAI) log(ctx context.Context, answer *Response, err error, took time.Duration) {
	log := zerolog.Ctx(ctx)
	e := o.ended(ctx, err, took)
	if answer != nil {
		e = e.Str("finish", answer.Finish).
			Int("calls", len(answer.Calls)).
			Int("prompt_tokens", answer.Usage.Prompt).
			Int("completion_tokens", answer.Usage.Completion).
			Int("cached_tokens", answer.Usage.Cached)
		log.Trace().Str("text", answer.Text).Interface("calls", answer.Calls).Msg("model answer")
	}
	e.Msg("model call")
}

// ended begins the debug line of a call.
func (o *openAI) ended(ctx context.Context, err error, took time.Duration) *zerolog.Event {
	e := zerolog.Ctx(ctx).Debug().Str("model", o.name).Dur("took", took).Bool("ok", err == nil)
	if fault, ok := errors.AsType[*Error](err); ok {
		e = e.Str("kind", fault.Kind).Int("status", fault.Status).Str("request_id", fault.RequestID).Str("said", fault.Said)
	}
	return e
}

// request converts req to the client library's type.
func (o *openAI) request(req *Request, asked option) openai.ChatCompletionRequest {
	out := openai.ChatCompletionRequest{
		Model:            o.cfg.Model,
		Messages:         wireMessages(arrange(req.told(asked&optSchema != 0), o.cfg.SystemMessages)),
		Temperature:      wireNumber(req.Temperature),
		TopP:             wireNumber(req.TopP),
		PresencePenalty:  wireNumber(req.PresencePenalty),
		FrequencyPenalty: wireNumber(req.FrequencyPenalty),
		Stop:             req.Stop,
		ReasoningEffort:  o.cfg.ReasoningEffort,
	}
	if o.cfg.MaxTokensField == maxTokens {
		out.MaxTokens = req.MaxTokens
	} else {
		out.MaxCompletionTokens = req.MaxTokens
	}
	for _, t := range req.Tools {
		if len(t.Schema) == 0 {
			t.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out.Tools = append(out.Tools, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.Name, Description: t.Description, Strict: t.Strict, Parameters: t.Schema,
		}})
	}
	if len(req.Tools) > 0 { // without tools, servers refuse the rest
		if req.Choice != "" {
			out.ToolChoice = req.Choice
		}
		if req.OneCallAtMost {
			out.ParallelToolCalls = false
		}
	}
	switch {
	case asked&optSchema != 0:
		schema, strict := req.Format.Schema, !req.Format.Loose
		if o.grammars && len(req.Format.Grammar) > 0 {
			schema, strict = req.Format.Grammar, false // OpenAI's strict means more than a grammar needs
		}
		out.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name: cmp.Or(req.Format.Name, "answer"), Schema: schema, Strict: strict,
			},
		}
	case asked&optObject != 0:
		out.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
	}
	if asked&optStream != 0 {
		out.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	return out
}

// told returns the messages for a request with or without the format's schema.
func (r *Request) told(withSchema bool) []Message {
	if !withSchema {
		opening := min(1, len(r.Messages))
		return slices.Concat(r.Messages[:opening], r.Exchanges, r.Messages[opening:])
	}
	told := slices.Clone(r.Messages)
	for i, m := range told {
		told[i].Text = cmp.Or(m.WithSchema, m.Text)
	}
	return told
}

// wireNumber keeps a zero from being dropped: the library omits zero fields. It sends a value that
// is practically zero, but not so small that a server fails when it divides by it.
func wireNumber(n *float64) float32 {
	if n == nil {
		return 0
	}
	return cmp.Or(float32(*n), 1e-4)
}

// noText is sent as the answer to a call that has none: servers require a content, and the library
// omits an empty one.
const noText = "(no text)"

// Marks of instructions that must go into the user role. Without the system role nothing separates
// the two; the marks at least cannot be forged.
const (
	markOpen  = "[instructions]"
	markClose = "[end of instructions]"
)

var unmark = strings.NewReplacer(markOpen, "(instructions)", markClose, "(end of instructions)")

// noAnswer fills in where a model never replied to the answers to its calls: templates that want
// user and assistant in turn need a message there.
const noAnswer = "(no answer)"

// arrange prepares messages for a server that takes system messages only first, or nowhere. It
// merges neighbours of one role. Answers to calls stay as they are, right after the calls.
func arrange(messages []Message, system string) []Message {
	if system != systemFirst && system != systemNowhere {
		return messages
	}
	out := make([]Message, 0, len(messages))
	for _, m := range messages {
		if m.Text == "" && len(m.Calls) == 0 && len(m.Pictures) == 0 && m.Role != "tool" {
			continue
		}
		var last *Message
		if len(out) > 0 {
			last = &out[len(out)-1]
		}
		switch {
		case m.Role != "system":
			m.Text = unmark.Replace(m.Text)
		case system == systemNowhere || last != nil && last.Role != "system":
			m.Role, m.Text = "user", markOpen+"\n"+unmark.Replace(m.Text)+"\n"+markClose
		}
		switch {
		case last != nil && last.Role == m.Role && m.Role != "tool" && len(last.Calls) == 0:
			last.Text, last.Calls = strings.TrimSpace(last.Text+"\n\n"+m.Text), m.Calls
			last.Pictures = slices.Concat(last.Pictures, m.Pictures)
		case last != nil && last.Role == "tool" && m.Role == "user":
			out = append(out, Message{Role: "assistant", Text: noAnswer}, m)
		default:
			out = append(out, m)
		}
	}
	return out
}

// wireMessages skips empty messages, which servers refuse.
func wireMessages(messages []Message) []openai.ChatCompletionMessage {
	out := make([]openai.ChatCompletionMessage, 0, len(messages))
	for _, m := range messages {
		wire := openai.ChatCompletionMessage{Role: m.Role, Content: m.Text}
		switch {
		case m.Role == "tool":
			wire.ToolCallID, wire.Content = m.CallID, cmp.Or(m.Text, noText)
		case m.Text == "" && len(m.Calls) == 0 && len(m.Pictures) == 0:
			continue
		case len(m.Pictures) > 0: // either content or parts, never both
			wire.Content, wire.MultiContent = "", wireParts(m)
		}
		for _, c := range m.Calls {
			if !isObject(c.Arguments) { // many servers and chat templates parse them, and fail on anything else
				c.Arguments = "{}"
			}
			wire.ToolCalls = append(wire.ToolCalls, openai.ToolCall{ID: c.ID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{
				Name: wireName(c.Name), Arguments: c.Arguments,
			}})
		}
		out = append(out, wire)
	}
	return out
}

// wireParts writes a message with pictures.
func wireParts(m Message) (parts []openai.ChatMessagePart) {
	if m.Text != "" {
		parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: m.Text})
	}
	for _, p := range m.Pictures {
		parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: p.url()}})
	}
	return parts
}

// wireName turns an earlier call's name into one that servers accept: models make up names, but
// OpenAI refuses a history with other characters in them.
func wireName(name string) string {
	const maxNameBytes = 64 // OpenAI's limit
	legal := illegal.ReplaceAllString(name, "_")
	return cmp.Or(legal[:min(len(legal), maxNameBytes)], "_")
}

var illegal = regexp.MustCompile(`[^A-Za-z0-9_-]`)

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

func (o *openAI) read(ctx context.Context, req *Request, res *openai.ChatCompletionResponse) (*Response, error) {
	used := Usage{Prompt: max(res.Usage.PromptTokens, 0), Completion: max(res.Usage.CompletionTokens, 0)} // some say -1 where they do not know
	if d := res.Usage.PromptTokensDetails; d != nil {
		used.Cached = max(d.CachedTokens, 0)
	}
	if d := res.Usage.CompletionTokensDetails; d != nil {
		used.Reasoning = max(d.ReasoningTokens, 0)
	}
	fault := Error{Kind: Empty, Status: http.StatusOK, RequestID: requestID(res.Header()), Usage: used}
	if len(res.Choices) == 0 {
		fault.Err = errors.New("no choices in the answer")
		return nil, &fault
	}
	choice := &res.Choices[0]
	answer := &Response{Usage: used, Model: cmp.Or(res.Model, o.name)}
	reason := finishOf(string(choice.FinishReason))
	switch reason {
	case Filtered:
		fault.Kind, fault.Code = Filtered, codeOf(string(choice.FinishReason))
		return nil, &fault
	case Unavailable:
		fault.Kind, fault.Code = Unavailable, codeOf(string(choice.FinishReason))
		fault.Err = errors.New("the server gave up in the middle of the answer")
		return nil, &fault
	}
	text, cut := tags.WithoutThinking(textOf(&choice.Message))
	answer.Text = text
	answer.Calls = wireCalls(&choice.Message, req)
	if reason == "" {
		o.unknownFinish(ctx, string(choice.FinishReason))
		if reason = "length"; isWhole(answer) {
			reason = "stop"
		}
	}
	answer.Finish = reason
	if reason == "stop" && len(answer.Calls) > 0 { // some servers say "stop" with calls, or "tool_calls" without any
		answer.Finish = "tool_calls"
	}
	if strings.TrimSpace(answer.Text) == "" && len(answer.Calls) == 0 {
		fault.Err = errors.New("no text in the answer")
		if answer.Finish == "length" || cut {
			fault.Code = codeCutOff
		}
		return nil, &fault
	}
	return answer, nil
}

// unknownFinish logs a finish reason that is not known, once.
func (o *openAI) unknownFinish(ctx context.Context, reason string) {
	const maxReasons = 20
	if o.logged.Load() >= maxReasons {
		return
	}
	reason = spelling.OneLine(reason, 60)
	if _, known := o.reasons.LoadOrStore(reason, true); !known {
		o.logged.Add(1)
		zerolog.Ctx(ctx).Warn().Str("model", o.name).Str("finish_reason", reason).Msg("finish reason is not known, judging the answer by its form")
	}
}

// isWhole reports whether an answer that ended for an unknown reason is whole: its calls can be read, or its
// JSON, or its last sentence ends.
func isWhole(answer *Response) bool {
	torn := func(c Call) bool { return strings.TrimSpace(c.Arguments) != "" && !isObject(c.Arguments) }
	if slices.ContainsFunc(answer.Calls, torn) {
		return false
	}
	text := strings.TrimSpace(answer.Text)
	switch {
	case text == "" || len(answer.Calls) > 0:
		return len(answer.Calls) > 0
	case text[0] == '{' || text[0] == '[':
		return json.Valid([]byte(text))
	}
	last, _ := utf8.DecodeLastRuneInString(text)
	return !unicode.IsLetter(last) && !unicode.IsDigit(last) && !strings.ContainsRune(",;:-–—([{<\"'„“‚‘\\/", last)
}

// finishOf says what a finish reason means: stop, length, [Filtered] or [Unavailable]; "": nobody here knows.
// Servers hand on the words of many others, so it goes by what they are made of.
func finishOf(reason string) string {
	reason = strings.ToLower(strings.TrimSpace(reason))
	switch reason {
	case "", "stop", "tool_calls", "function_call", "null":
		return "stop"
	}
	for _, means := range finishWords {
		for _, word := range means.words {
			if strings.Contains(reason, word) {
				return means.finish
			}
		}
	}
	return ""
}

var finishWords = []struct {
	finish string
	words  []string
}{
	{Filtered, []string{"filter", "sensitive", "safety", "moderat", "prohibit", "blocklist", "blocked", "recitation", "spii", "guardrail", "refusal", "toxic", "risk", "violat"}},
	{Unavailable, []string{"error", "abort", "fail", "cancel", "network", "resource", "timeout", "malformed", "interrupt", "overload"}},
	{"length", []string{"max", "length", "limit", "window", "truncat", "context", "budget"}},
	{"stop", []string{"stop", "end", "eos", "complete", "tool", "function", "finish", "done", "normal", "success"}},
}

// codeOf is a word of a server that may be the code of an error.
func codeOf(word string) string {
	if isName.MatchString(word) {
		return word
	}
	return ""
}

// textOf is what the model said: its text, its text parts, or its refusal. It leaves out reasoning
// that the server keeps apart, in its own field or in parts of another type.
func textOf(m *openai.ChatCompletionMessage) string {
	text := m.Content
	for _, part := range m.MultiContent {
		if part.Type == openai.ChatMessagePartTypeText {
			text += part.Text
		}
	}
	return cmp.Or(text, m.Refusal)
}

// wireCalls returns the model's calls, in its order.
func wireCalls(m *openai.ChatCompletionMessage, req *Request) []Call {
	var out []Call
	for _, c := range m.ToolCalls {
		out = append(out, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if req.OneCallAtMost && len(out) > 1 { // the server ignored the request
		out = out[:1]
	}
	identify(out, req)
	return out
}

// identify gives a new id to each call whose id is missing, already used, or too long for
// OpenAI to take back, as vLLM's are. It numbers on from the request's calls, so that these ids are
// unique in a conversation too.
func identify(calls []Call, req *Request) {
	const maxIDBytes = 40 // OpenAI's limit
	taken := map[string]bool{"": true}
	n := 0
	for _, m := range req.Messages {
		n += len(m.Calls)
	}
	for i := range calls {
		id := calls[i].ID
		for taken[id] || len(id) > maxIDBytes {
			n++
			id = "call_" + strconv.Itoa(n)
		}
		calls[i].ID, taken[id] = id, true
	}
}

// chat asks for completions. The doer reads them.
type chat struct{ *openai.Client }

func (c chat) complete(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	if ctx, req, err = withBody(ctx, req); err != nil {
		return res, err
	}
	_, err = c.CreateChatCompletion(ctx, req)
	return answerIn(err)
}

type bodyKey struct{}

// withBody writes the request's body. The doer sends it in place of the one that the client library
// writes: for messages and schemas the library takes a sixth of a turn's time, so it gets the request
// without them.
func withBody(ctx context.Context, req openai.ChatCompletionRequest) (context.Context, openai.ChatCompletionRequest, error) {
	body, err := jsonv2.Marshal(req, asBody)
	if err != nil {
		return ctx, req, fmt.Errorf("write the request: %w", err)
	}
	req.Messages, req.ResponseFormat = nil, nil
	req.Tools = req.Tools[:min(len(req.Tools), 1)] // one says that there are tools
	return context.WithValue(ctx, bodyKey{}, body), req, nil
}

// asBody writes what the library would write, but for the escapes of HTML.
var asBody = jsonv2.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true),
	jsontext.AllowInvalidUTF8(true),
	jsonv2.Deterministic(true),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(func(out *jsontext.Encoder, m *openai.ChatCompletionMessage) error {
		if m.Content == "" || len(m.MultiContent) > 0 || len(m.ToolCalls) > 0 || m.ToolCallID != "" {
			return jsonv2.MarshalEncode(out, bodyMessage{m.Role, contentOf(m), m.ToolCalls, m.ToolCallID})
		}
		return writeTokens(out, // nearly all are so
			jsontext.BeginObject, jsontext.String("role"), jsontext.String(m.Role), jsontext.String("content"), jsontext.String(m.Content), jsontext.EndObject)
	})),
)

func writeTokens(out *jsontext.Encoder, tokens ...jsontext.Token) error {
	for _, token := range tokens {
		if err := out.WriteToken(token); err != nil {
			return err
		}
	}
	return nil
}

// bodyMessage has the fields that [wireMessages] fills in.
type bodyMessage struct {
	Role       string            `json:"role"`
	Content    any               `json:"content,omitempty"` // a text or parts
	ToolCalls  []openai.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

// contentOf is a message's text or its parts; nil: it has neither.
func contentOf(m *openai.ChatCompletionMessage) any {
	switch {
	case len(m.MultiContent) > 0:
		return m.MultiContent
	case m.Content != "":
		return m.Content
	}
	return nil
}

// doer sends the client library's requests. It uses the transport directly, so nothing follows a
// redirect or keeps a cookie. It reads the answer under a cap, and turns anything but a completion
// into an [*Error] while it still has headers and body, which the library drops.
type doer struct {
	transport http.RoundTripper
	secret    string                                // removed from errors
	token     func(context.Context) (string, error) // the bearer token of a request; nil: none
	begin     func() (piece func(text string))      // see [Request.Stream]; nil: nobody reads along
	goesOn    func()                                // called with each part of a stream; nil: not called
}

// Do sends req. Its errors are [*Error], or [wholeAnswer] if the request was for a completion.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if d.token != nil {
		token, err := d.token(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, networkError(ctx, err)
		case err != nil:
			return nil, &Error{Kind: Auth, Err: fmt.Errorf("get a token for Azure OpenAI: %w", err)}
		}
		req.Header.Set("Authorization", "Bearer "+token)
		with := *d
		with.secret = token
		d = &with
	}
	body, isChat := ctx.Value(bodyKey{}).([]byte)
	if isChat {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	res, err := d.transport.RoundTrip(req)
	if err != nil {
		return nil, networkError(ctx, fmt.Errorf("ask the server: %w", err))
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode/100 != 2:
		const maxErrorBytes = 64 << 10                                 // enough for any message
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) // a partial body is enough
		return nil, d.fault(res, body)
	case isChat:
		return nil, d.readCompletion(ctx, res)
	}
	if body, err = d.readBody(ctx, res.Body); err != nil {
		return nil, err
	}
	switch {
	case !json.Valid(body):
		return nil, errMalformed
	case isError(body):
		return nil, d.fault(res, body)
	}
	if err := checkVectors(body); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// readBody reads to the end, so that the connection can be reused.
func (d *doer) readBody(ctx context.Context, from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, networkError(ctx, fmt.Errorf("read the answer: %w", err))
	case len(body) > maxAnswerBytes:
		return nil, errTooLarge
	}
	return body, nil
}

var errTooLarge = &Error{Kind: Unavailable, Code: codeTooLarge, Err: errors.New("the answer is larger than the cap")}

// networkError is for a call that got no answer, or only part of one. ctx is the call's own.
func networkError(ctx context.Context, err error) *Error {
	if ended := over(ctx); ended != nil {
		return &Error{Kind: Timeout, Err: ended}
	}
	return &Error{Kind: Unavailable, Err: err}
}

// isError recognizes errors that some servers and routers send with status 200, or as a stream
// event.
func isError(body []byte) bool {
	if !bytes.Contains(body, []byte(`"error"`)) { // nearly none has the word
		return false
	}
	var said struct {
		Object string `json:"object"`
		Error  any    `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil {
		return false
	}
	switch e := said.Error.(type) {
	case map[string]any:
		return len(e) > 0
	case []any:
		return len(e) > 0
	case string:
		return e != ""
	case bool:
		return e
	case float64:
		return e != 0
	}
	return said.Error != nil || said.Object == "error"
}

const maxMessage = 300 // how much of a server's own message we keep, in characters

// fault turns an answer that is not a completion into an error.
func (d *doer) fault(res *http.Response, body []byte) *Error {
	said := readServerError(body)
	status := res.StatusCode
	if status < 300 && said.status >= 400 && said.status < 600 {
		status = said.status // a router's error with status 200
	}
	out := &Error{Kind: said.kind(status), Status: status, RetryAfter: cmp.Or(retryAfter(res.Header), said.wait), RequestID: requestID(res.Header)}
	out.Code = codeOf(said.code)
	switch {
	case status >= 300 && status < 400:
		out.Code, out.Err = codeRedirect, errors.New("the server sends to another address; check the base URL")
	case status == http.StatusUnauthorized:
		out.Err = errors.New("the server does not accept the key or token") // the server's own message often quotes the key
	default:
		text := said.message
		if d.secret != "" {
			text = strings.ReplaceAll(text, d.secret, "[key]")
		}
		out.Said = spelling.OneLine(text, maxMessage)
	}
	return out
}

// requestID is the server's id of a call, under the header names that OpenAI, Azure and its
// gateways use.
func requestID(h http.Header) string {
	return spelling.OneLine(cmp.Or(h.Get("X-Request-Id"), h.Get("Apim-Request-Id"), h.Get("X-Ms-Request-Id")), 128)
}

// retryAfter reads retry-after-ms (Azure, OpenAI), or Retry-After in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	for _, wait := range []string{h.Get("Retry-After-Ms") + "ms", h.Get("Retry-After") + "s"} {
		if d, err := time.ParseDuration(wait); err == nil {
			return max(d, 0)
		}
	}
	at, err := http.ParseTime(h.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}

// responses asks over the Responses API for what chat completions would answer.
type responses struct{ *openai.Client }

// complete translates a completion's request and the answer. It leaves out what models that need
// this API refuse: sampling parameters and stop texts.
func (r responses) complete(ctx context.Context, req openai.ChatCompletionRequest) (res openai.ChatCompletionResponse, err error) {
	keep := false
	ask := openai.CreateResponseRequest{
		Model: req.Model, Input: responseInput(req.Messages), MaxOutputTokens: max(req.MaxTokens, req.MaxCompletionTokens),
		ToolChoice: req.ToolChoice, Store: &keep,
	}
	if req.ReasoningEffort != "" {
		ask.Reasoning = &openai.ResponseReasoning{Effort: req.ReasoningEffort}
	}
	if parallel, set := req.ParallelToolCalls.(bool); set {
		ask.ParallelToolCalls = &parallel
	}
	for _, t := range req.Tools {
		f := t.Function
		ask.Tools = append(ask.Tools, openai.ResponseTool{Type: t.Type, Parameters: map[string]any{
			"name": f.Name, "description": f.Description, "parameters": f.Parameters, "strict": f.Strict, // strict is the default here
		}})
	}
	if format := req.ResponseFormat; format != nil {
		text := &openai.ResponseTextFormat{Type: string(format.Type)}
		if schema := format.JSONSchema; schema != nil {
			text.Name, text.Schema, text.Strict = schema.Name, schema.Schema, schema.Strict
		}
		ask.Text = &openai.ResponseTextConfig{Format: text}
	}
	answer, err := r.CreateResponse(ctx, ask)
	if err != nil {
		return res, err
	}
	res.Model = answer.Model
	res.SetHeader(answer.Header())
	if u := answer.Usage; u != nil {
		res.Usage = openai.Usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens}
		if d := u.InputTokensDetails; d != nil {
			res.Usage.PromptTokensDetails = &openai.PromptTokensDetails{CachedTokens: d.CachedTokens}
		}
		if d := u.OutputTokensDetails; d != nil {
			res.Usage.CompletionTokensDetails = &openai.CompletionTokensDetails{ReasoningTokens: d.ReasoningTokens}
		}
	}
	choice := openai.ChatCompletionChoice{FinishReason: openai.FinishReasonStop}
	if why := answer.IncompleteDetails; why != nil {
		choice.FinishReason = openai.FinishReasonLength
		if why.Reason == string(openai.FinishReasonContentFilter) {
			choice.FinishReason = openai.FinishReasonContentFilter
		}
	}
	if choice.Message, err = responseMessage(answer.Output); err != nil {
		return res, err
	}
	res.Choices = []openai.ChatCompletionChoice{choice}
	return res, nil
}

func responseParts(parts []openai.ChatMessagePart) (all []map[string]string) {
	for _, p := range parts {
		if p.ImageURL != nil {
			all = append(all, map[string]string{"type": "input_image", "image_url": p.ImageURL.URL})
		} else {
			all = append(all, map[string]string{"type": "input_text", "text": p.Text})
		}
	}
	return all
}

func responseInput(messages []openai.ChatCompletionMessage) (input []any) {
	for _, m := range messages {
		switch {
		case m.Role == openai.ChatMessageRoleTool:
			input = append(input, openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: m.ToolCallID, Output: m.Content})
		case len(m.MultiContent) > 0:
			input = append(input, openai.ResponseInputMessage{Role: m.Role, Content: responseParts(m.MultiContent)})
		case m.Content != "":
			input = append(input, openai.ResponseInputMessage{Role: m.Role, Content: m.Content})
		}
		for _, c := range m.ToolCalls {
			input = append(input, openai.ResponseOutputItem{
				Type: "function_call", CallID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments,
			})
		}
	}
	return input
}

// responseMessage translates what the model said and called. It skips other items, such as its
// reasoning.
func responseMessage(output []any) (m openai.ChatCompletionMessage, err error) {
	raw, err := json.Marshal(output)
	if err != nil {
		return m, err
	}
	var items []openai.ResponseOutputItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return m, err
	}
	for _, item := range items {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				if part.Type == "output_text" {
					m.Content += part.Text
				}
				m.Refusal += part.Refusal
			}
		case "function_call":
			m.ToolCalls = append(m.ToolCalls, openai.ToolCall{
				ID: item.CallID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: item.Name, Arguments: item.Arguments},
			})
		}
	}
	return m, nil
}

// Transcriber writes down what is said in recordings. It is safe for concurrent use.
type Transcriber struct{ on *openAI }

// NewTranscriber returns a Transcriber that uses the transcription API of the server in cfg, or on Azure
// the deployment. cfg.Model is required, on Azure AzureDeployment. It checks cfg as [NewOpenAI] does and
// does not touch the network.
func NewTranscriber(cfg OpenAIConfig) (*Transcriber, error) {
	if cfg.AzureEndpoint == "" && cfg.Model == "" {
		return nil, errors.New("openai config: no Model to transcribe with")
	}
	model, err := NewOpenAI(cfg)
	if err != nil {
		return nil, err
	}
	return &Transcriber{model.(*openAI)}, nil
}

// Transcribe returns what is said in a recording, "" if nothing is. name says the format with its ending,
// such as voice.mp3. The error is an [*Error], or one for which errors.Is(err, context.Canceled) holds.
func (t *Transcriber) Transcribe(ctx context.Context, name string, sound []byte) (string, error) {
	call, cancel := context.WithTimeout(ctx, t.on.cfg.Timeout)
	defer cancel()
	began := time.Now()
	answer, err := t.on.client.CreateTranscription(call, openai.AudioRequest{Model: t.on.cfg.Model, FilePath: name, Reader: bytes.NewReader(sound)})
	if err != nil {
		err = t.on.failed(ctx, "transcribe", err)
	}
	t.on.ended(ctx, err, time.Since(began)).Int("bytes", len(sound)).Msg("transcription")
	return strings.TrimSpace(answer.Text), err
}
