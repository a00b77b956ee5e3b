package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/internal/entra"
)

const (
	defaultRetries = 3
	defaultMaxWait = 20 * time.Second

	maxFailures = 5 // in a row, before a model other than the last is left out
	cooldown    = 30 * time.Second
	maxCooldown = 5 * time.Minute // the longest cooldown a server can ask for
)

// Chain asks several models in order until one answers. Models is required; the zero value of every
// other field is a working default. The fields must not change after the first call. It may be used
// concurrently.
type Chain struct {
	Models []Model // in the order to ask them

	Retries int           // retries of the last model; 0: 3, negative: none
	MaxWait time.Duration // total wait between retries; 0: 20 s, negative: none

	// Price is the cost of a million tokens, in any currency: of the prompt, of its cached part,
	// and of the completion.
	Price [3]float64
	// Observe is called after each call, see [Chain.Complete]; nil: not called.
	Observe func(outcome string, took time.Duration, usage Usage)

	once  sync.Once
	links []*link
}

// Complete goes down the chain. If a model is throttled (429), broken (5xx), unreachable or too
// slow, it asks the next one at once. After five such faults in a row a model is left out for half
// a minute, or longer if its server asks for that. The last model is never left out, and is the
// only one that is retried: after as long as the server asks, else after half a second, one, two …,
// each with some jitter. Complete does not start a wait that would end after MaxWait or ctx's
// deadline. It returns every other fault as it is, except that it sends a prompt that was too long
// ([TooLong]) once more without the turns before the last. The error is that of the last model
// asked.
//
// Each change of model, each wait and each cut of the prompt writes one info line to ctx's logger.
// Each call that is part of a trace gets a span. Complete adds the cost to the usage of every
// answer, even a useless one, and calls Observe with the outcome: "ok", "canceled" or the kind of
// the fault.
func (c *Chain) Complete(ctx context.Context, req *Request) (*Response, error) {
	if len(c.Models) == 0 || slices.Contains(c.Models, nil) {
		return nil, &Error{Kind: BadRequest, Err: errors.New("the chain has no Models, or one is nil")}
	}
	c.once.Do(func() {
		for i, model := range c.Models {
			c.links = append(c.links, newLink(i, model))
		}
	})
	began := time.Now()
	answer, err := c.complete(ctx, req)
	fault, ok := errors.AsType[*Error](err)
	if ok && fault.Kind == TooLong && ctx.Err() == nil {
		if shorter := req.withoutOldTurns(); shorter != nil {
			zerolog.Ctx(ctx).Info().Int("left_out", len(req.Messages)-len(shorter.Messages)).Int("of", len(req.Messages)).
				Msg("prompt too long for the model, asking without older turns")
			before := fault.Usage
			answer, err = c.complete(ctx, shorter)
			_, answer, err = paid(before, answer, err)
			fault, ok = errors.AsType[*Error](err)
		}
	}
	outcome, usage := "canceled", Usage{}
	switch {
	case err == nil:
		outcome, usage = "ok", answer.Usage
	case ok:
		outcome, usage = fault.Kind, fault.Usage
	}
	if c.Price != [3]float64{} && usage.Total() > 0 {
		fresh := usage.Prompt - usage.Cached
		cost := (float64(fresh)*c.Price[0] + float64(usage.Cached)*c.Price[1] + float64(usage.Completion)*c.Price[2]) / 1e6
		_, answer, err = paid(Usage{Cost: cost - usage.Cost}, answer, err)
		usage.Cost = cost
	}
	if c.Observe != nil {
		c.Observe(outcome, time.Since(began), usage)
	}
	return answer, err
}

// complete asks the models that are not left out until one of them answers.
func (c *Chain) complete(ctx context.Context, req *Request) (*Response, error) {
	last := len(c.links) - 1
	var before Usage
	for i, l := range c.links[:last] {
		reason, status := "circuit_open", 0
		if l.allowed() {
			answer, err := l.complete(ctx, req, 0, 0)
			l.record(ctx, err)
			before, answer, err = paid(before, answer, err)
			fault, ok := errors.AsType[*Error](err)
			if !ok || ctx.Err() != nil || !fault.elsewhere() {
				return answer, err
			}
			reason, status = fault.Kind, fault.Status
		}
		e := zerolog.Ctx(ctx).Info().Str("model", l.name).Str("next", c.links[i+1].name).Str("reason", reason)
		if status != 0 {
			e = e.Int("status", status)
		}
		e.Msg("model gives way to the next")
	}
	answer, err := c.links[last].complete(ctx, req, cmp.Or(c.Retries, defaultRetries), cmp.Or(c.MaxWait, defaultMaxWait))
	_, answer, err = paid(before, answer, err)
	return answer, err
}

// link is a model of a chain and its failure history. After enough failures in a row it lets
// through only one call per cooldown, until one succeeds.
type link struct {
	model Model
	name  string // for logs
	about []attribute.KeyValue

	mu    sync.Mutex
	row   int       // failures since the last answer
	until time.Time // when the next call may try, once row has reached maxFailures
}

func newLink(i int, model Model) *link {
	l := &link{model: model, name: fmt.Sprintf("#%d", i+1)}
	if named, ok := model.(interface{ Name() string }); ok {
		l.name = cmp.Or(named.Name(), l.name)
	}
	provider := "openai"
	if server, ok := model.(*openAI); ok && server.cfg.AzureEndpoint != "" {
		provider = "azure.ai.openai"
	}
	// These and the attributes below are named as in OpenTelemetry's conventions for generative AI.
	l.about = []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", l.name),
	}
	return l
}

// allowed reports whether to ask the model. At the end of a cooldown only the first caller may try.
// If its outcome is never recorded, another may try one cooldown later.
func (l *link) allowed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.row < maxFailures {
		return true
	}
	now := time.Now()
	if now.Before(l.until) {
		return false
	}
	l.until = now.Add(cooldown)
	return true
}

// record counts the outcome of a call. Only 429, 5xx, network faults and timeouts mean that the
// model itself is in trouble. A refused request (400, 401, a filter, a prompt too long), an
// unreadable or empty body and the end of the caller's own ctx do not.
func (l *link) record(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.row = 0
		return
	}
	fault, ok := errors.AsType[*Error](err)
	if !ok || ctx.Err() != nil || !fault.elsewhere() || fault.unreadable() {
		l.until = time.Now() // this try proved nothing: allow the next one
		return
	}
	if l.row++; l.row >= maxFailures {
		l.until = time.Now().Add(max(cooldown, min(fault.RetryAfter, maxCooldown)))
	}
	if l.row == maxFailures {
		zerolog.Ctx(ctx).Warn().Str("model", l.name).Int("failures", maxFailures).Msg("model left out for a while")
	}
}

// elsewhere reports whether another model may succeed.
func (e *Error) elsewhere() bool {
	return e.Kind == Throttled || e.Kind == Quota || e.Kind == Unavailable || e.Kind == Timeout
}

// complete asks the model within a span, if ctx has one: all tries are one call. The span has
// numbers and names, never the prompt or the answer.
func (l *link) complete(ctx context.Context, req *Request, retries int, maxWait time.Duration) (*Response, error) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return l.try(ctx, req, retries, maxWait)
	}
	tracer := parent.TracerProvider().Tracer("github.com/planbot-go/planbot/models")
	ctx, span := tracer.Start(ctx, "chat "+l.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(l.about...))
	defer span.End()
	answer, err := l.try(ctx, req, retries, maxWait)
	if err == nil {
		span.SetAttributes(aboutUsage(answer.Usage)...)
		span.SetAttributes(attribute.String("gen_ai.response.model", answer.Model),
			attribute.StringSlice("gen_ai.response.finish_reasons", []string{answer.Finish}))
		return answer, nil
	}
	kind := "_OTHER"
	if fault, ok := errors.AsType[*Error](err); ok {
		kind = fault.Kind
		span.SetAttributes(aboutUsage(fault.Usage)...)
	} else if errors.Is(err, context.Canceled) {
		kind = "canceled"
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, "")
	return nil, err
}

func aboutUsage(u Usage) (all []attribute.KeyValue) {
	for name, tokens := range map[string]int{
		"input_tokens": u.Prompt, "output_tokens": u.Completion,
		"cache_read.input_tokens": u.Cached, "reasoning.output_tokens": u.Reasoning,
	} {
		if tokens > 0 {
			all = append(all, attribute.Int("gen_ai.usage."+name, tokens))
		}
	}
	return all
}

// try returns the first answer, or the fault after which there is no retry. It retries a single
// model call, so no action can run twice because of it.
func (l *link) try(ctx context.Context, req *Request, retries int, left time.Duration) (*Response, error) {
	var before Usage
	return again(ctx, l.name, retries, left, func() (*Response, error) {
		answer, err := l.model.Complete(ctx, req)
		before, answer, err = paid(before, answer, err)
		return answer, err
	})
}

// paid adds what useless answers before it cost to an answer or its fault: to a copy, because a model may
// return the same one again. It returns the sum, too.
func paid(before Usage, answer *Response, err error) (Usage, *Response, error) {
	fault, ok := errors.AsType[*Error](err)
	_, bare := err.(*Error) //nolint:errorlint // a wrapped one cannot be replaced
	switch {
	case ok && (before == Usage{} || !bare):
		return before.Add(fault.Usage), answer, err
	case ok:
		c := *fault
		c.Usage = c.Usage.Add(before)
		return c.Usage, answer, &c
	case err == nil && before != Usage{}:
		c := *answer
		c.Usage = c.Usage.Add(before)
		answer = &c
	}
	return before, answer, err
}

// again asks until there is an answer, or a fault after which there is no retry. All waits together take at
// most left.
func again[T any](ctx context.Context, name string, retries int, left time.Duration, ask func() (T, error)) (T, error) {
	pause := backoff.ExponentialBackOff{InitialInterval: 500 * time.Millisecond, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: 8 * time.Second}
	pause.Reset()
	for attempt := 1; ; attempt++ {
		answer, err := ask()
		fault, ok := errors.AsType[*Error](err)
		if !ok || attempt > retries || ctx.Err() != nil || !fault.passing() {
			return answer, err
		}
		wait := cmp.Or(fault.RetryAfter, pause.NextBackOff())
		if wait > left {
			return answer, err
		}
		// Jitter, so callers refused together do not retry together.
		wait = min(wait+rand.N(wait/10+1), left)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return answer, err
		}
		zerolog.Ctx(ctx).Info().Str("model", name).Str("kind", fault.Kind).Int("status", fault.Status).
			Int("attempt", attempt).Dur("wait", wait).Msg("model asked again after a wait")
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return *new(T), fmt.Errorf("wait to ask the model again: %w", ctx.Err())
		}
		left -= wait
	}
}

// passing reports whether a retry of the same request may succeed: 429, 5xx, the network, but not
// when the quota is used up, nor after our own timeout, which has already taken its time.
func (e *Error) passing() bool {
	return e.Kind == Throttled || e.Kind == Unavailable && !e.unreadable() || e.Kind == Timeout && e.Status != 0
}

// unreadable reports whether the server answered with a body that is not a completion.
func (e *Error) unreadable() bool { return e.Code == codeMalformed || e.Code == codeTooLarge }

// withoutOldTurns returns the request without the earlier turns, or nil if there are none. It keeps
// the system messages and the data at the start, and the last turn: the person's text, the messages of the system
// and the person right before it, and everything after.
func (r *Request) withoutOldTurns() *Request {
	from, end := 0, len(r.Messages)-1
	for from < len(r.Messages) && (r.Messages[from].Role == "system" || strings.HasPrefix(r.Messages[from].Text, DataMark)) {
		from++
	}
	for end >= 0 && (r.Messages[end].Role != "user" || r.found(end)) {
		end--
	}
	for end > 0 && (r.Messages[end-1].Role == "system" || r.Messages[end-1].Role == "user") {
		end--
	}
	if end <= from {
		return nil
	}
	shorter := *r
	shorter.Messages = slices.Concat(r.Messages[:from], r.Messages[end:])
	return &shorter
}

// found reports whether a message of the user has what an action found, not what the person says: it
// follows the results of a plan.
func (r *Request) found(i int) bool {
	for i > 0 && r.Messages[i].Role == "user" {
		i--
	}
	return r.Messages[i].Role == "system" && strings.HasPrefix(r.Messages[i].Text, PlanResults)
}

// FromEnv returns the model that the environment names; getenv is [os.Getenv]. With
// AZURE_OPENAI_ENDPOINT it is AZURE_OPENAI_DEPLOYMENT there; without AZURE_OPENAI_API_KEY it uses
// the Microsoft Entra identity of the process, in the cloud BOT_CLOUD. With OPENAI_API_KEY or OPENAI_BASE_URL
// it is OPENAI_MODEL there. With none of them it is [Offline]. BOT_MAX_TOKENS_FIELD,
// BOT_REASONING_EFFORT and BOT_MODEL_SYSTEM_MESSAGES set the fields of [OpenAIConfig]. A real model
// comes in a [Chain] with the default retries.
func FromEnv(getenv func(name string) string) (Model, error) {
	cfg := OpenAIConfig{
		Key:     getenv("OPENAI_API_KEY"),
		BaseURL: getenv("OPENAI_BASE_URL"),
		Model:   getenv("OPENAI_MODEL"),

		MaxTokensField:  getenv("BOT_MAX_TOKENS_FIELD"),
		ReasoningEffort: getenv("BOT_REASONING_EFFORT"),
		SystemMessages:  getenv("BOT_MODEL_SYSTEM_MESSAGES"),

		AzureEndpoint:   getenv("AZURE_OPENAI_ENDPOINT"),
		AzureKey:        getenv("AZURE_OPENAI_API_KEY"),
		AzureDeployment: getenv("AZURE_OPENAI_DEPLOYMENT"),
		AzureVersion:    getenv("AZURE_OPENAI_API_VERSION"),
	}
	if cmp.Or(cfg.Key, cfg.BaseURL, cfg.AzureEndpoint) == "" {
		return Offline{}, nil
	}
	if cfg.AzureEndpoint != "" && cfg.AzureKey == "" {
		token, err := entra.Token(getenv("BOT_CLOUD"), nil)
		if err != nil {
			return nil, fmt.Errorf("model from the environment: %w", err)
		}
		cfg.AzureToken = token
	}
	model, err := NewOpenAI(cfg)
	if err != nil {
		return nil, fmt.Errorf("model from the environment: %w", err)
	}
	return &Chain{Models: []Model{model}}, nil
}
