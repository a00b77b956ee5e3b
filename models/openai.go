package models

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"github.com/sashabaranov/go-openai"
)

// Defaults of [OpenAIConfig].
const (
	DefaultBaseURL = "https://api.openai.com/v1"
	DefaultModel   = openai.GPT4oMini // no reasoning, follows a strict schema, cheap

	defaultAzureVersion = "2024-10-21" // generally available; the first with strict schemas
	defaultTimeout      = 2 * time.Minute
	defaultMaxBytes     = 8 << 20
)

// The names under which the limit of an answer is sent.
const (
	maxCompletionTokens = "max_completion_tokens"
	maxTokens           = "max_tokens"
)

// Where a server takes messages of the role system.
const (
	systemAnywhere = "anywhere"
	systemFirst    = "first"
	systemNowhere  = "nowhere"
)

// OpenAIConfig says which server is asked for what. The zero value of every field
// is a working default, but OpenAI itself needs a Key.
type OpenAIConfig struct {
	Key     string // sent as a bearer token; "" for local servers
	BaseURL string // up to and without /chat/completions; "": DefaultBaseURL
	Model   string // "": DefaultModel; on Azure the model behind the deployment, "": the deployment's name

	// A deployment of Azure OpenAI wins over Key and BaseURL. AzureEndpoint is the resource's
	// address (https://NAME.openai.azure.com), or a gateway's with a path; plain http is
	// refused except on loopback. AzureKey, sent in the api-key header, and AzureDeployment
	// are required with it. AzureVersion "": 2024-10-21. The version-less API (…/openai/v1) is
	// not this: give it as BaseURL, with Key.
	AzureEndpoint, AzureKey, AzureDeployment, AzureVersion string

	Transport http.RoundTripper // carries the calls; nil: a connection pool of its own

	Timeout          time.Duration // of one call, within the caller's ctx; 0: 2 minutes
	MaxResponseBytes int64         // of one answer; 0: 8 MiB

	// MaxTokensField is the name under which Request.MaxTokens is sent:
	// max_completion_tokens, which is the default, or max_tokens for servers that
	// know only the old name. Many of them ignore the new one without a word.
	MaxTokensField string
	// ReasoningEffort is sent as it is: minimal, low, medium, high, none or another
	// word that the model knows. "": not sent.
	ReasoningEffort string

	// SystemMessages says where the server takes messages of the role system: anywhere,
	// which is the default; first, for chat templates that want one at the beginning and
	// then user and assistant in turn; or nowhere. Those that it does not take are sent
	// as the user's, between marks that nobody can forge.
	SystemMessages string

	// Stream asks for the answer in pieces. Callers still get it whole, but nothing
	// between here and the server takes a long answer for a dead connection. A
	// server that refuses to stream is asked for the whole answer from then on.
	Stream bool
}

// OpenAI is a [Model] behind the chat completions API of OpenAI, Azure OpenAI or
// a compatible server (llama.cpp, Ollama, vLLM …). Make one with [NewOpenAI] and
// share it: it keeps connections open and may be used by any number of goroutines.
type OpenAI struct {
	cfg      OpenAIConfig // with defaults filled in
	client   *openai.Client
	name     string        // as logs say it, and as Response.Model when the server gives none
	grammars bool          // the server turns schemas into grammars
	refused  atomic.Uint32 // the options that this deployment has refused
}

// NewOpenAI checks cfg whole and lists every mistake in one error. It does not
// touch the network.
func NewOpenAI(cfg OpenAIConfig) (*OpenAI, error) {
	vendor, err := cfg.vendor()
	if err != nil {
		return nil, fmt.Errorf("openai config: %w", err)
	}
	key, name, azure := cfg.Key, cmp.Or(cfg.Model, DefaultModel), cfg.AzureEndpoint != ""
	if azure {
		key, name = cfg.AzureKey, cfg.AzureDeployment
	}
	cfg.Model = cmp.Or(cfg.Model, name)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxResponseBytes = cmp.Or(cfg.MaxResponseBytes, defaultMaxBytes)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment, // never for loopback
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
		}
	}
	vendor.HTTPClient = &doer{transport: cfg.Transport, maxBytes: cfg.MaxResponseBytes, secret: key}
	return &OpenAI{
		cfg:      cfg,
		client:   openai.NewClientWithConfig(vendor),
		name:     name,
		grammars: !azure && vendor.BaseURL != DefaultBaseURL,
	}, nil
}

// vendor checks c and writes it in the client library's words.
func (c *OpenAIConfig) vendor() (openai.ClientConfig, error) {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Timeout < 0 {
		fault("Timeout: %s is below zero", c.Timeout)
	}
	if c.MaxResponseBytes < 0 {
		fault("MaxResponseBytes: %d is below zero", c.MaxResponseBytes)
	}
	if c.MaxTokensField != "" && c.MaxTokensField != maxCompletionTokens && c.MaxTokensField != maxTokens {
		fault("MaxTokensField: %q is neither %s nor %s", c.MaxTokensField, maxCompletionTokens, maxTokens)
	}
	if c.SystemMessages != "" && c.SystemMessages != systemAnywhere && c.SystemMessages != systemFirst && c.SystemMessages != systemNowhere {
		fault("SystemMessages: %q is not %s, %s or %s", c.SystemMessages, systemAnywhere, systemFirst, systemNowhere)
	}
	if c.ReasoningEffort != "" && !isName(c.ReasoningEffort, 32) {
		fault("ReasoningEffort: %q is not one word", c.ReasoningEffort)
	}
	if c.AzureEndpoint != "" {
		base := strings.TrimSuffix(strings.TrimRight(c.AzureEndpoint, "/"), "/openai") // the client adds it
		u, err := parseBase(base)
		switch {
		case err != nil:
			fault("AzureEndpoint: %w", err)
		case strings.HasSuffix(u.Path, "/openai/v1"):
			fault("AzureEndpoint: the version-less API (/openai/v1) goes in BaseURL")
		case u.Scheme != "https" && !isLoopback(u.Hostname()):
			fault("AzureEndpoint: %s is not https", u.Host)
		}
		if c.AzureKey == "" {
			fault("no AzureKey")
		} else if err := checkKey(c.AzureKey); err != nil {
			fault("AzureKey: %w", err)
		}
		if !isName(c.AzureDeployment, 128) {
			fault("AzureDeployment: %q is not a deployment's name", c.AzureDeployment)
		}
		out := openai.DefaultAzureConfig(c.AzureKey, base)
		out.APIVersion = cmp.Or(c.AzureVersion, defaultAzureVersion)
		out.AzureModelMapperFunc = func(string) string { return c.AzureDeployment }
		return out, errors.Join(errs...)
	}
	out := openai.DefaultConfig(c.Key)
	out.BaseURL = strings.TrimSuffix(strings.TrimRight(cmp.Or(c.BaseURL, DefaultBaseURL), "/"), "/chat/completions")
	if _, err := parseBase(out.BaseURL); err != nil {
		fault("BaseURL: %w", err)
	}
	if out.BaseURL == DefaultBaseURL && c.Key == "" {
		fault("no Key for OpenAI")
	}
	if err := checkKey(c.Key); err != nil {
		fault("Key: %w", err)
	}
	return out, errors.Join(errs...)
}

// parseBase takes an absolute http or https address to which a path can be added.
// Its errors never repeat the address: it may hold a password.
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

// checkKey refuses what cannot stand in a header. A pasted line end is the usual case.
func checkKey(key string) error {
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return errors.New("holds a space, line end or other character that no key has")
		}
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// isName reports whether s is one word of letters, digits, dots, dashes and
// underscores that begins with a letter or digit.
func isName(s string, maxBytes int) bool {
	for i, r := range s {
		if !isLetterOrDigit(r) && (i == 0 || r != '.' && r != '-' && r != '_') {
			return false
		}
	}
	return s != "" && len(s) <= maxBytes
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// Close closes the idle connections. Calls under way go on, later ones connect
// again, so nothing breaks when it comes early; it never fails.
func (o *OpenAI) Close() error {
	if pool, ok := o.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		pool.CloseIdleConnections()
	}
	return nil
}

// Name is the model's name, on Azure the deployment's, as logs say it.
func (o *OpenAI) Name() string { return o.name }

// option is a part of a request that a server may refuse, and without which it is
// asked again at once.
type option uint32

const (
	optSchema option = 1 << iota // the response format json_schema
	optObject                    // the response format json_object
	optStream                    // an answer in pieces
)

// Complete asks the server once, and does not retry what failed. Only a server that
// refuses the response format, or to stream, is asked again at once: with json_object
// in place of json_schema, then for text, and for the whole answer. What it refused is
// remembered, so that it costs a refusal once. The whole ends with ctx, or after the
// configured timeout, which is [Timeout]. Each call writes one debug line to ctx's
// logger, with numbers and what the server said of a fault; the text of prompt and
// answer is written at trace level only.
func (o *OpenAI) Complete(ctx context.Context, req *Request) (*Response, error) {
	log := zerolog.Ctx(ctx)
	if e := log.Trace(); e.Enabled() {
		e.Interface("messages", req.Messages).Msg("model prompt")
	}
	call, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	learned := option(o.refused.Load())
	for without := learned; ; {
		asked := o.options(req) &^ without
		if asked&optSchema != 0 {
			asked &^= optObject // the strictest form that is left
		}
		answer, err := o.ask(call, req, asked)
		refused, always := refusedOptions(err)
		if refused &= asked; refused == 0 || call.Err() != nil {
			if err == nil {
				o.refused.Or(uint32(learned))
			}
			return answer, err
		}
		log.Info().Err(err).Str("model", o.name).Msg("model refuses the response format or to stream, asking without")
		without |= refused
		if always {
			learned |= refused
		}
	}
}

// options are all that req asks for.
func (o *OpenAI) options(req *Request) (out option) {
	if o.cfg.Stream {
		out |= optStream
	}
	if req.Format != nil {
		out |= optObject
		if len(req.Format.Schema) > 0 {
			out |= optSchema
		}
	}
	return out
}

// refusedOptions reads from a server's words what it does not take, and whether that is
// so for every request. llama-cpp-python refuses formats with status 500.
func refusedOptions(err error) (refused option, always bool) {
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Kind != BadRequest && fault.Kind != Unavailable {
		return 0, false
	}
	switch fault.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented:
	default:
		return 0, false
	}
	if fault.Code == "json_validate_failed" || // Groq: the model did not manage it this time
		containsAny(fault.Said, "the word 'json'") { // OpenAI: it is not in these messages
		return optSchema | optObject, false
	}
	if containsAny(fault.Said, "response_format", "response format", "json_schema", "json_object", "json schema", "invalid schema", "grammar") {
		refused |= optSchema | optObject
	}
	if fault.Status != http.StatusInternalServerError && containsAny(fault.Said, "stream_options", "to stream", "streaming") {
		refused |= optStream
	}
	return refused, true
}

// ask is one call.
func (o *OpenAI) ask(ctx context.Context, req *Request, asked option) (*Response, error) {
	start := time.Now()
	complete := o.client.CreateChatCompletion
	if asked&optStream != 0 {
		complete = o.stream
	}
	res, err := complete(ctx, o.request(req, asked))
	var answer *Response
	if err == nil {
		answer, err = o.read(req, &res)
	}
	if err != nil {
		err = classify(err)
		if errors.Is(ctx.Err(), context.Canceled) { // the timeout's cause is another
			err = fmt.Errorf("complete with model %s: %w", o.name, ctx.Err())
		}
	}
	o.log(ctx, answer, err, time.Since(start))
	return answer, err
}

// classify makes an [*Error] of what is none yet. What the server sent or the network
// did is one already, so the rest comes from the client library: it could not read the
// answer, or refused to send the request.
func classify(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	_, unsendable := errors.AsType[*json.MarshalerError](err) // a schema that is no JSON
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !unsendable && (syntax || shape || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return &Error{Kind: Unavailable, Status: http.StatusOK, Code: codeMalformed, Err: errors.New("the answer is not the JSON of a completion")}
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		return &Error{Kind: BadRequest, Code: codeNoTools, Err: errors.New("the model takes tools with the reasoning effort none only, or through the Responses API")}
	default: // its text and not its type: errors of a vendor stay here
		return &Error{Kind: BadRequest, Err: errors.New(oneLine(err.Error(), maxMessageBytes))}
	}
}

// log writes the call's one debug line. A failure shows its kind, and the server's own
// words, which are in no other line: the error itself is returned, and logged once, by
// whoever ends the turn.
func (o *OpenAI) log(ctx context.Context, answer *Response, err error, took time.Duration) {
	log := zerolog.Ctx(ctx)
	e := log.Debug()
	if !e.Enabled() {
		return
	}
	e = e.Str("model", o.name).Dur("took", took)
	if fault, ok := errors.AsType[*Error](err); ok {
		e = e.Stringer("kind", fault.Kind).Int("status", fault.Status).Str("request_id", fault.RequestID).Str("said", fault.Said)
	}
	if answer != nil {
		e = e.Str("finish", answer.Finish).
			Int("calls", len(answer.Calls)).
			Int("prompt_tokens", answer.Usage.Prompt).
			Int("completion_tokens", answer.Usage.Completion).
			Int("cached_tokens", answer.Usage.Cached)
		log.Trace().Str("text", answer.Text).Interface("calls", answer.Calls).Msg("model answer")
	}
	e.Bool("ok", err == nil).Msg("model call")
}

// request writes req in the client library's words.
func (o *OpenAI) request(req *Request, asked option) openai.ChatCompletionRequest {
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
	if len(req.Tools) > 0 { // servers refuse the rest alone
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
			schema, strict = req.Format.Grammar, false // strict is OpenAI's word for more than a grammar needs
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

// told are the messages as they are told with the schema of the format, or without it.
func (r *Request) told(withSchema bool) []Message {
	if !withSchema {
		return r.Messages
	}
	told := slices.Clone(r.Messages)
	for i, m := range told {
		told[i].Text = cmp.Or(m.WithSchema, m.Text)
	}
	return told
}

// wireNumber keeps a zero apart from nothing: the library leaves its fields out when
// they are zero. What is sent is as good as zero, but not so near to it that a server
// divides by it in vain.
func wireNumber(n *float64) float32 {
	if n == nil {
		return 0
	}
	return cmp.Or(float32(*n), 1e-4)
}

// noText stands in an answer to a call that has none: servers want a content there,
// and the library leaves out an empty one.
const noText = "(no text)"

// Marks of instructions that a server forces into the person's role. Without the
// role there is no wall between the two; the marks at least cannot be forged.
const (
	markOpen  = "[instructions]"
	markClose = "[end of instructions]"
)

var unmark = strings.NewReplacer(markOpen, "(instructions)", markClose, "(end of instructions)")

// noAnswer stands where a model was never asked for its words about the answers to
// its calls: templates that want user and assistant in turn want them there too.
const noAnswer = "(no answer)"

// arrange writes messages as a server wants them that takes system messages only first, or
// nowhere: neighbours of one role are one message. Answers to calls stay as they are, right
// after the calls.
func arrange(messages []Message, system string) []Message {
	if system != systemFirst && system != systemNowhere {
		return messages
	}
	out := make([]Message, 0, len(messages))
	for _, m := range messages {
		if m.Text == "" && len(m.Calls) == 0 && m.Role != "tool" {
			continue
		}
		last := len(out) - 1
		m = fold(m, system == systemFirst && (last < 0 || out[last].Role == "system"))
		switch {
		case last >= 0 && out[last].joins(&m):
			out[last].Text, out[last].Calls = joined(out[last].Text, m.Text), m.Calls
		case last >= 0 && out[last].Role == "tool" && m.Role == "user":
			out = append(out, Message{Role: "assistant", Text: noAnswer}, m)
		default:
			out = append(out, m)
		}
	}
	return out
}

// joins reports whether next can become a part of m.
func (m *Message) joins(next *Message) bool {
	return m.Role == next.Role && m.Role != "tool" && len(m.Calls) == 0
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// fold gives the instructions to the user's role, unless they may stay.
func fold(m Message, mayStay bool) Message {
	switch {
	case m.Role != "system":
		m.Text = unmark.Replace(m.Text)
	case !mayStay:
		m.Role, m.Text = "user", markOpen+"\n"+unmark.Replace(m.Text)+"\n"+markClose
	}
	return m
}

// wireMessages leaves out messages that servers refuse because there is nothing in them.
func wireMessages(messages []Message) []openai.ChatCompletionMessage {
	out := make([]openai.ChatCompletionMessage, 0, len(messages))
	for _, m := range messages {
		wire := openai.ChatCompletionMessage{Role: m.Role, Content: m.Text}
		switch {
		case m.Role == "tool":
			wire.ToolCallID, wire.Content = m.CallID, cmp.Or(m.Text, noText)
		case m.Text == "" && len(m.Calls) == 0:
			continue
		}
		for _, c := range m.Calls {
			if !isObject(c.Arguments) { // many servers and chat templates read them, and fail on anything else
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

// wireName makes the name of an earlier call one that servers take back: models
// call what they like, but OpenAI refuses a history with other characters in it.
func wireName(name string) string {
	const maxNameBytes = 64 // says OpenAI
	legal := strings.Map(func(r rune) rune {
		if isLetterOrDigit(r) || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(legal[:min(len(legal), maxNameBytes)], "_")
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

// read makes a [Response] of a completion.
func (o *OpenAI) read(req *Request, res *openai.ChatCompletionResponse) (*Response, error) {
	used := Usage{Prompt: res.Usage.PromptTokens, Completion: res.Usage.CompletionTokens}
	if d := res.Usage.PromptTokensDetails; d != nil {
		used.Cached = d.CachedTokens
	}
	if d := res.Usage.CompletionTokensDetails; d != nil {
		used.Reasoning = d.ReasoningTokens
	}
	fault := Error{Kind: Empty, Status: http.StatusOK, RequestID: requestID(res.Header()), Usage: used}
	if len(res.Choices) == 0 {
		fault.Err = errors.New("no choices in the answer")
		return nil, &fault
	}
	choice := &res.Choices[0]
	answer := &Response{Usage: used, Model: cmp.Or(res.Model, o.name)}
	switch choice.FinishReason {
	case openai.FinishReasonContentFilter:
		fault.Kind, fault.Code = FilteredOutput, string(choice.FinishReason)
		return nil, &fault
	case "error", "network_error", "abort", "insufficient_system_resource":
		fault.Kind, fault.Code = Unavailable, string(choice.FinishReason)
		fault.Err = errors.New("the server gave up in the middle of the answer")
		return nil, &fault
	case openai.FinishReasonStop, "eos", "eos_token", "end_turn", "stop_sequence":
		answer.Finish = "stop"
	case openai.FinishReasonLength, "max_tokens", "model_length":
		answer.Finish = "length"
	case openai.FinishReasonToolCalls, openai.FinishReasonFunctionCall:
		answer.Finish = "tool_calls"
	}
	answer.Text = reasoning.ReplaceAllString(textOf(&choice.Message), "")
	for _, stop := range req.Stop { // servers that know stops have none in the text
		if stop != "" {
			answer.Text, _, _ = strings.Cut(answer.Text, stop)
		}
	}
	answer.Calls = wireCalls(&choice.Message, req)
	switch { // some servers say "stop" with calls, or "tool_calls" without any; a cut stays a cut
	case answer.Finish == "length":
	case len(answer.Calls) > 0:
		answer.Finish = "tool_calls"
	case answer.Finish == "tool_calls":
		answer.Finish = "stop"
	}
	if strings.TrimSpace(answer.Text) == "" && len(answer.Calls) == 0 {
		fault.Err = errors.New("no text in the answer")
		if answer.Finish == "length" {
			fault.Code = codeCutOff
		}
		return nil, &fault
	}
	return answer, nil
}

// textOf is what the model said: its text, or the parts of it, or its refusal.
// Reasoning that the server keeps apart stays out, in a field of its own or in a part
// of another type.
func textOf(m *openai.ChatCompletionMessage) string {
	text := m.Content
	for _, part := range m.MultiContent {
		if part.Type == openai.ChatMessagePartTypeText || part.Type == "output_text" || part.Type == "" {
			text += part.Text
		}
	}
	return cmp.Or(text, m.Refusal)
}

// wireCalls are the tools that the model called, in its order.
func wireCalls(m *openai.ChatCompletionMessage, req *Request) []Call {
	var out []Call
	for _, c := range m.ToolCalls {
		out = append(out, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if f := m.FunctionCall; f != nil && f.Name != "" && len(out) == 0 { // from before there were tools
		out = append(out, Call{Name: f.Name, Arguments: f.Arguments})
	}
	if req.OneCallAtMost && len(out) > 1 { // the server does not know the wish
		out = out[:1]
	}
	identify(out, req)
	return out
}

// identify gives an id to each call that has none, or that of an earlier one, or one
// that is too long for OpenAI to take back, as vLLM's are. The numbers go on behind the
// calls of the request, so that such ids are unique in a conversation as well.
func identify(calls []Call, req *Request) {
	const maxIDBytes = 40 // says OpenAI
	taken := map[string]bool{"": true}
	n := 0
	for _, m := range req.Messages {
		n += len(m.Calls)
	}
	for i := range calls {
		if taken[calls[i].ID] || len(calls[i].ID) > maxIDBytes {
			calls[i].ID = ""
		}
		taken[calls[i].ID] = true
	}
	for i := range calls {
		for calls[i].ID == "" {
			n++
			if id := "call_" + strconv.Itoa(n); !taken[id] {
				calls[i].ID = id
			}
		}
	}
}

// doer carries the client library's requests. It asks the transport directly, so
// nothing follows a redirect or keeps a cookie, reads the answer under a cap, and turns
// whatever is not a completion into an [*Error] while headers and body, which the
// library drops, are still at hand.
type doer struct {
	transport http.RoundTripper
	maxBytes  int64
	secret    string // kept out of errors
}

// Do sends req. Its errors are [*Error], or the [wholeAnswer] of a server that was
// asked for a stream.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	res, err := d.transport.RoundTrip(req)
	if err != nil {
		return nil, networkError(ctx, fmt.Errorf("ask the server: %w", err))
	}
	if res.StatusCode >= 200 && res.StatusCode <= 299 && req.Header.Get("Accept") == "text/event-stream" {
		return nil, d.readStream(ctx, res)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		const maxErrorBytes = 64 << 10                                 // enough for any message
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) // what came is enough
		return nil, d.fault(res, body)
	}
	body, err := d.readWhole(ctx, res, res.Body)
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// readWhole reads to the end, so that the connection can be used again.
func (d *doer) readWhole(ctx context.Context, res *http.Response, from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, d.maxBytes+1))
	if err == nil && int64(len(body)) > d.maxBytes {
		err = errTooLarge
	}
	switch {
	case err != nil:
		return nil, networkError(ctx, fmt.Errorf("read the answer: %w", err))
	case isError(body):
		return nil, d.fault(res, body)
	}
	return body, nil
}

var errTooLarge = errors.New("the answer is larger than the cap")

// networkError is a call that got no answer, or not all of it. ctx is the call's own.
func networkError(ctx context.Context, err error) *Error {
	switch {
	case ctx.Err() != nil:
		return &Error{Kind: Timeout, Err: ctx.Err()}
	case errors.Is(err, errTooLarge):
		return &Error{Kind: Unavailable, Code: codeTooLarge, Err: err}
	default:
		return &Error{Kind: Unavailable, Err: err}
	}
}

// isError knows the errors that some servers and routers send with status 200, or as
// an event of a stream.
func isError(body []byte) bool {
	var said struct {
		Object string `json:"object"`
		Error  any    `json:"error"`
	}
	return bytes.Contains(body, []byte(`"error"`)) && json.Unmarshal(body, &said) == nil && (said.Error != nil || said.Object == "error")
}

// maxMessageBytes is how much of a server's own message is kept.
const maxMessageBytes = 300

// fault turns an answer that is not a completion into an error.
func (d *doer) fault(res *http.Response, body []byte) *Error {
	said := readServerError(body)
	status := res.StatusCode
	if status < 300 && said.status >= 400 && said.status < 600 {
		status = said.status // a router's error under status 200
	}
	out := &Error{Kind: said.kind(status), Status: status, RetryAfter: retryAfter(res.Header), RequestID: requestID(res.Header)}
	if isName(said.code, 64) {
		out.Code = said.code
	}
	switch {
	case status >= 300 && status < 400:
		out.Code, out.Err = codeRedirect, errors.New("the server sends to another address; check the base URL")
	case status == http.StatusUnauthorized:
		out.Err = errors.New("the server does not accept the key") // its own words often quote the key
	default:
		text := said.message
		if d.secret != "" {
			text = strings.ReplaceAll(text, d.secret, "[key]")
		}
		out.Said = oneLine(text, maxMessageBytes)
	}
	if (out.Kind == BadRequest || out.Kind == Unavailable) && said.takesNoTools() {
		out.Kind, out.Code, out.Err = BadRequest, codeNoTools, errors.New("the model takes no tools")
	}
	return out
}

// serverError is what servers say in an error's body.
type serverError struct {
	status  int    // the code as a number, 0 when it is none
	code    string // the code, else the type
	inner   string // error.innererror.code, Azure's
	message string // with the parameter that is at fault, if the message does not name it
}

// readServerError takes the forms of OpenAI and Azure (an error object), Gemini (a list of
// one), vLLM (message and code at the top), text-generation-inference and LM Studio
// (error is a string), FastAPI and Mistral (a list of places and messages in detail).
// Any other body, such as a proxy's HTML, gives the zero serverError.
func readServerError(body []byte) (out serverError) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	top := fieldsOf(body)
	out.message = textIn(top["error"])
	if inside := fieldsOf(top["error"]); inside != nil {
		top = inside
	}
	detail := top["detail"]
	if inside := fieldsOf(top["message"]); inside != nil { // Mistral
		detail = inside["detail"]
	}
	out.message = cmp.Or(out.message, textIn(top["message"]), textIn(detail))
	out.code = cmp.Or(textIn(top["code"]), textIn(top["type"]))
	_ = json.Unmarshal(top["code"], &out.status) // no number: 0
	out.inner = textIn(fieldsOf(top["innererror"])["code"])
	param := textIn(top["param"])
	var places []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(detail, &places) == nil && len(places) > 0 {
		param = strings.Trim(fmt.Sprint(places[0].Loc), "[]")
		out.message = cmp.Or(out.message, places[0].Msg)
	}
	if param != "" && !strings.Contains(out.message, param) {
		out.message = strings.TrimSpace(out.message + " (" + param + ")")
	}
	return out
}

// fieldsOf are the fields of a JSON object; nil for anything else.
func fieldsOf(raw json.RawMessage) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &fields)
	return fields
}

// textIn is a JSON string; "" for anything else.
func textIn(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

func (c *serverError) kind(status int) Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case status == http.StatusTooManyRequests:
		return Throttled
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return Timeout
	case status == http.StatusRequestEntityTooLarge, c.isTooLong():
		return TooLong
	case c.isFiltered():
		return FilteredInput
	case status >= 500, status < 300:
		return Unavailable
	default:
		return BadRequest
	}
}

// isTooLong knows a prompt that does not fit by code, else by the words of the
// servers that send none (some say it with status 500).
func (c *serverError) isTooLong() bool {
	switch c.code {
	case "context_length_exceeded", "string_above_max_length", "exceed_context_size_error", "prompt_too_long":
		return true
	}
	return containsAny(c.message,
		"maximum context length",              // OpenAI, vLLM, llama-cpp-python
		"maximum model length",                // vLLM
		"available context size",              // llama.cpp
		"context size has been exceeded",      // llama.cpp
		"exceed context window",               // llama-cpp-python
		"exceeds the context window",          // OpenAI
		"exceed context limit",                // routers
		"exceeds the context length",          // Ollama
		"exceeded max context length",         // Ollama
		"when context the overflows",          // LM Studio
		"longer than the model's context",     // SGLang
		"prompt is too long",                  // routers
		"too large for model with",            // Mistral
		"`inputs` tokens + `max_new_tokens`",  // text-generation-inference
		"maximum number of tokens allowed",    // Gemini's compatible endpoint
		"please reduce the length of the mes", // Groq, OpenRouter
	)
}

// isFiltered knows the refusals of Azure's and OpenAI's filters.
func (c *serverError) isFiltered() bool {
	switch c.code {
	case "content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation":
		return true
	case "invalid_prompt":
		return containsAny(c.message, "usage policy", "flagged")
	}
	return c.inner == "ResponsibleAIPolicyViolation"
}

// takesNoTools knows a model that takes no tools, or no answers to calls.
func (c *serverError) takesNoTools() bool {
	if containsAny(c.message, "tool_choice", "parallel_tool_calls", "reasoning_effort") {
		return false
	}
	return containsAny(c.message,
		"does not support tool",                // Ollama, LM Studio
		"support tool use",                     // OpenRouter: no endpoints found that do
		"tool calling is not", "tools' is not", // Groq, OpenAI
		"not support function", "function calling is not", // Gemini
		"enable-auto-tool-choice",                   // vLLM without the flags
		"tools param requires",                      // llama.cpp without templates
		"unknown role: tool", "supported, got tool", // strict templates
	)
}

func containsAny(text string, wordings ...string) bool {
	text = strings.ToLower(text)
	for _, w := range wordings {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// requestID is the server's id of a call, under the names that OpenAI, Azure and
// its gateways use.
func requestID(h http.Header) string {
	id := cmp.Or(h.Get("X-Request-Id"), h.Get("Apim-Request-Id"), h.Get("X-Ms-Request-Id"))
	return oneLine(id, 128)
}

// retryAfter reads retry-after-ms (Azure, OpenAI), and Retry-After in seconds or
// as a date, which is taken relative to the server's own clock when it shows it.
func retryAfter(h http.Header) time.Duration {
	const longest = 30 * 24 * time.Hour // keeps an absurd wait from overflowing; callers give up far below it
	value, unit := h.Get("Retry-After-Ms"), time.Millisecond
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		value, unit = h.Get("Retry-After"), time.Second
		n, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
	}
	if err == nil && !math.IsNaN(n) {
		return time.Duration(min(max(n, 0), float64(longest/unit)) * float64(unit))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), longest)
}

// oneLine makes s fit for a log line: no control characters, one space between
// words, valid UTF-8, at most limit bytes and an ellipsis.
func oneLine(s string, limit int) string {
	words := strings.FieldsFunc(strings.ToValidUTF8(s[:min(len(s), 4*limit)], ""), func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r)
	})
	if s = strings.Join(words, " "); len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// reasoning is what models write of their thinking before the answer, where a server leaves
// it in the text. A block that is never closed is not matched: the answer was cut off, and
// whoever reads the text has to see that.
var reasoning = func() *regexp.Regexp {
	var blocks []string
	for _, name := range []string{"think", "thinking", "reasoning", "analysis", "scratchpad"} {
		blocks = append(blocks, "<"+name+">.*?</"+name+">", `\[`+name+`\].*?\[/`+name+`\]`)
	}
	return regexp.MustCompile(`(?is)^(?:\s*(?:` + strings.Join(blocks, "|") + `)\s*)+`)
}()
