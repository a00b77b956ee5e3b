package models_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/models"
)

// answering always gives the same answer.
type answering struct {
	models.Response
	name string
}

func (a answering) Name() string { return a.name }

func (a answering) Complete(context.Context, *models.Request) (*models.Response, error) {
	r := a.Response
	return &r, nil
}

// traceOf asks the model within a trace and returns its spans, the model's first.
func traceOf(t *testing.T, m models.Model, req *models.Request) (tracetest.SpanStubs, error) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	ctx, root := provider.Tracer("test").Start(t.Context(), "turn")
	_, err := m.Complete(ctx, req)
	root.End()
	return kept.GetSpans(), err
}

func attributes(span tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestTracedAnswer(t *testing.T) {
	t.Parallel()
	m := models.Traced(answering{models.Response{
		Text: "secret answer", Finish: models.FinishStop, Model: "gpt-5-2026",
		Usage: models.Usage{Prompt: 30, Completion: 7, Cached: 20, Reasoning: 2},
	}, "gpt-5"}, models.ProviderAzure)
	half := 0.5
	spans, err := traceOf(t, m, &models.Request{
		Messages: []models.Message{{Role: models.User, Text: "secret question"}}, MaxTokens: 9, TopP: &half, Format: &models.Format{},
	})
	if err != nil || len(spans) != 2 {
		t.Fatalf("%v, %d spans", err, len(spans))
	}
	span := spans[0]
	if span.Name != "chat gpt-5" || span.SpanKind != trace.SpanKindClient || span.Status.Code != codes.Unset ||
		span.Parent.SpanID() != spans[1].SpanContext.SpanID() {
		t.Errorf("%+v", span)
	}
	want := map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "azure.ai.openai",
		"gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5-2026", "gen_ai.response.finish_reasons": `["stop"]`,
		"gen_ai.request.max_tokens": "9", "gen_ai.request.top_p": "0.5", "gen_ai.output.type": "json",
		"gen_ai.usage.input_tokens": "30", "gen_ai.usage.output_tokens": "7",
		"gen_ai.usage.cache_read.input_tokens": "20", "gen_ai.usage.reasoning.output_tokens": "2",
	}
	if got := attributes(span); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if strings.Contains(fmt.Sprint(spans), "secret") {
		t.Errorf("content in %v", spans)
	}
}

func TestTracedFault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want map[string]string
	}{
		{&models.Error{Kind: models.Throttled, Status: 429, Said: "secret"}, map[string]string{"error.type": "throttled", "http.response.status_code": "429"}},
		{&models.Error{Kind: models.FilteredOutput, Usage: models.Usage{Prompt: 3}}, map[string]string{"error.type": "filtered_output", "gen_ai.usage.input_tokens": "3"}},
		{fmt.Errorf("secret: %w", context.Canceled), map[string]string{"error.type": "canceled"}},
		{errors.New("secret"), map[string]string{"error.type": "_OTHER"}},
	} {
		spans, err := traceOf(t, models.Traced(failing{test.err}, models.ProviderOpenAI), &models.Request{})
		if !errors.Is(err, test.err) || len(spans) != 2 || spans[0].Status.Code != codes.Error || spans[0].Name != "chat" {
			t.Fatalf("%v, %v", err, spans)
		}
		got := attributes(spans[0])
		maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "gen_ai.") && test.want[name] == "" })
		if !maps.Equal(got, test.want) {
			t.Errorf("got %v, want %v", got, test.want)
		}
		if strings.Contains(fmt.Sprint(spans), "secret") {
			t.Errorf("content in %v", spans)
		}
	}
}

func TestTracedRetryIsOneSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := models.Traced(models.Retry(scripted("m", &models.Error{Kind: models.Throttled}, nil), models.RetryConfig{}), models.ProviderOpenAI)
		spans, err := traceOf(t, m, &models.Request{})
		if err != nil || len(spans) != 2 || spans[0].Name != "chat m" || spans[0].Status.Code != codes.Unset {
			t.Errorf("%v, %v", err, spans)
		}
	})
}

// Not parallel: it counts allocations of the whole process.
func TestUntracedCostsNothing(t *testing.T) {
	m := models.Traced(&constant{}, models.ProviderOpenAI)
	req := &models.Request{}
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Complete(t.Context(), req) }); n != 0 {
		t.Errorf("%v allocations without a trace", n)
	}
}

// constant gives one and the same answer.
type constant struct{ models.Response }

func (c *constant) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &c.Response, nil
}
