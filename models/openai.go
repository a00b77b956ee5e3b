package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/sashabaranov/go-openai"
)

// OpenAI is a [Model] behind the chat completions API of OpenAI, Azure OpenAI or
// a compatible server (llama.cpp, Ollama, vLLM …). Make one with [NewOpenAI] and
// share it: it keeps connections open and may be used by any number of goroutines.
type OpenAI struct {
	client    *openai.Client
	transport http.RoundTripper
	name      string // as logs say it, and as Response.Model when the server gives none
	model     string // as the request says it
	timeout   time.Duration
	grammars  bool   // it is a server that makes grammars of schemas
	learned   memory // what the server was seen to take
	prelude   prelude
	totals    counters
}

// Totals are the sums over all calls of one [OpenAI] since it was made.
type Totals struct {
	Calls    int64 // that were made, failed ones included
	Failures int64 // of Calls, that gave no answer
	Usage    Usage // of every answer that could be read, empty and filtered ones included
}

type counters struct {
	calls, failures, prompt, completion, cached, reasoning atomic.Int64
}

func (c *counters) add(u Usage) {
	c.prompt.Add(int64(u.Prompt))
	c.completion.Add(int64(u.Completion))
	c.cached.Add(int64(u.Cached))
	c.reasoning.Add(int64(u.Reasoning))
}

// NewOpenAI checks cfg whole and lists every mistake in one error. It does not
// touch the network.
func NewOpenAI(cfg OpenAIConfig) (*OpenAI, error) {
	vendor, err := cfg.vendor()
	if err != nil {
		return nil, fmt.Errorf("openai config: %w", err)
	}
	o := &OpenAI{
		transport: cfg.Transport,
		name:      cfg.name(),
		model:     cmp.Or(cfg.Model, cfg.name()),
		timeout:   cmp.Or(cfg.Timeout, DefaultTimeout),
	}
	if o.transport == nil {
		o.transport = newTransport()
	}
	o.learned.shape = firstShape(&cfg, o.model)
	o.grammars = !o.learned.shape.formats.noObjectSchema
	vendor.HTTPClient = &doer{
		transport: o.transport,
		maxBytes:  cmp.Or(cfg.MaxResponseBytes, DefaultMaxResponseBytes),
		secret:    cfg.key(),
	}
	o.client = openai.NewClientWithConfig(vendor)
	return o, nil
}

// Close closes the idle connections. Calls under way go on, later ones connect
// again, so nothing breaks when it comes early; it never fails.
func (o *OpenAI) Close() error {
	if pool, ok := o.transport.(interface{ CloseIdleConnections() }); ok {
		pool.CloseIdleConnections()
	}
	return nil
}

// Name is the model's name, on Azure the deployment's, as logs say it.
func (o *OpenAI) Name() string { return o.name }

// Totals is a snapshot. Its numbers are read one after the other, so a call that
// ends meanwhile may be in some of them and not in others.
func (o *OpenAI) Totals() Totals {
	return Totals{
		Calls:    o.totals.calls.Load(),
		Failures: o.totals.failures.Load(),
		Usage: Usage{
			Prompt:     int(o.totals.prompt.Load()),
			Completion: int(o.totals.completion.Load()),
			Cached:     int(o.totals.cached.Load()),
			Reasoning:  int(o.totals.reasoning.Load()),
		},
	}
}

// Complete asks the server once, and does not retry what failed. Only a request
// that the server refuses for a part that it does not take (a parameter, a role,
// a response format) is asked again at once without that part, or with the part
// said another way; what was answered is remembered, so that it costs a refusal
// once. The whole ends with ctx, or after the configured timeout, which is
// [Timeout]. Each call writes one debug line to ctx's logger, with numbers and what
// the server said of a fault; the text of prompt and answer is written at trace level
// only.
func (o *OpenAI) Complete(ctx context.Context, req *Request) (*Response, error) {
	call, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	traceRequest(ctx, req)
	known, err := o.learned.recall(req.Format)
	if err != nil {
		return nil, err
	}
	for shape := known; ; {
		answer, err := o.ask(call, req, shape)
		next, again := shape.after(err, req)
		if again && call.Err() == nil {
			zerolog.Ctx(ctx).Info().Err(err).Str("model", o.name).Msg("model refuses a part of the request, asking without it")
			shape = next
			continue
		}
		if err == nil && shape != known {
			o.learned.keep(shape, req.Format)
		}
		return answer, err
	}
}

// ask is one call.
func (o *OpenAI) ask(ctx context.Context, req *Request, s shape) (*Response, error) {
	start := time.Now()
	wire, ctx := o.wire(ctx, req, s)
	res, err := o.client.CreateChatCompletion(ctx, wire)
	answer, err := o.result(ctx, req, &res, err)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // the timeout's cause is another
		err = fmt.Errorf("complete with model %s: %w", o.name, ctx.Err())
	}
	o.totals.calls.Add(1)
	if err != nil {
		o.totals.failures.Add(1)
	}
	o.log(ctx, answer, err, time.Since(start))
	return answer, err
}

// log writes the call's one debug line. A failure shows its kind, and the server's own
// words, which are in no other line: the error itself is returned, and logged once, by whoever ends the turn.
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
		e = e.Str("finish", string(answer.Finish)).
			Int("calls", len(answer.Calls)).
			Int("prompt_tokens", answer.Usage.Prompt).
			Int("completion_tokens", answer.Usage.Completion).
			Int("cached_tokens", answer.Usage.Cached)
		log.Trace().Str("text", answer.Text).Interface("calls", answer.Calls).Msg("model answer")
	}
	e.Bool("ok", err == nil).Msg("model call")
}

func traceRequest(ctx context.Context, req *Request) {
	e := zerolog.Ctx(ctx).Trace()
	if !e.Enabled() {
		return
	}
	e.Interface("messages", req.Messages).Msg("model prompt")
}
