package models

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Names of providers in traces, as OpenTelemetry's conventions have them.
const (
	ProviderOpenAI = "openai"          // and every server that speaks like it
	ProviderAzure  = "azure.ai.openai" // Azure OpenAI
)

// Traced is m with a span "chat MODEL" for each call that is part of a trace: the
// TracerProvider is that of ctx's span, and where there is none nothing is made.
// Attributes follow OpenTelemetry's conventions for generative AI and are numbers
// and names: neither the prompt nor the answer, nor what the server said of a fault.
// Around a [Retry] the span covers all tries, as the conventions want it.
func Traced(m Model, provider string) Model {
	t := &traced{Model: m, span: "chat", about: []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", provider),
	}}
	if name := nameOf(m); name != "" {
		t.span += " " + name
		t.about = append(t.about, attribute.String("gen_ai.request.model", name))
	}
	return t
}

type traced struct {
	Model
	span  string
	about []attribute.KeyValue
}

// Name is the model's own, "" when it has none.
func (t *traced) Name() string { return nameOf(t.Model) }

func (t *traced) Complete(ctx context.Context, req *Request) (*Response, error) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return t.Model.Complete(ctx, req)
	}
	tracer := parent.TracerProvider().Tracer("github.com/planbot-go/planbot/models")
	ctx, span := tracer.Start(ctx, t.span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(t.about...))
	defer span.End()
	span.SetAttributes(aboutRequest(req)...)
	answer, err := t.Model.Complete(ctx, req)
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(aboutFault(err)...)
	} else {
		span.SetAttributes(aboutAnswer(answer)...)
	}
	return answer, err
}

func aboutRequest(req *Request) []attribute.KeyValue {
	var all []attribute.KeyValue
	if req.MaxTokens > 0 {
		all = append(all, attribute.Int("gen_ai.request.max_tokens", req.MaxTokens))
	}
	if req.Format != nil {
		all = append(all, attribute.String("gen_ai.output.type", "json"))
	}
	for _, wish := range []struct {
		name  string
		value *float64
	}{
		{"gen_ai.request.temperature", req.Temperature},
		{"gen_ai.request.top_p", req.TopP},
		{"gen_ai.request.presence_penalty", req.PresencePenalty},
		{"gen_ai.request.frequency_penalty", req.FrequencyPenalty},
	} {
		if wish.value != nil {
			all = append(all, attribute.Float64(wish.name, *wish.value))
		}
	}
	return all
}

func aboutAnswer(answer *Response) []attribute.KeyValue {
	all := append(aboutUsage(answer.Usage), attribute.String("gen_ai.response.model", answer.Model))
	if answer.Finish != "" {
		all = append(all, attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(answer.Finish)}))
	}
	return all
}

// aboutFault says what kind of fault it is, never what anybody wrote.
func aboutFault(err error) []attribute.KeyValue {
	fault, ok := errors.AsType[*Error](err)
	switch {
	case !ok && errors.Is(err, context.Canceled):
		return []attribute.KeyValue{attribute.String("error.type", "canceled")}
	case !ok:
		return []attribute.KeyValue{attribute.String("error.type", "_OTHER")}
	}
	all := append(aboutUsage(fault.Usage), attribute.String("error.type", fault.Kind.String()))
	if fault.Status != 0 {
		all = append(all, attribute.Int("http.response.status_code", fault.Status))
	}
	return all
}

func aboutUsage(u Usage) []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, part := range []struct {
		name   string
		tokens int
	}{
		{"gen_ai.usage.input_tokens", u.Prompt},
		{"gen_ai.usage.output_tokens", u.Completion},
		{"gen_ai.usage.cache_read.input_tokens", u.Cached},
		{"gen_ai.usage.reasoning.output_tokens", u.Reasoning},
	} {
		if part.tokens > 0 {
			all = append(all, attribute.Int(part.name, part.tokens))
		}
	}
	return all
}
