package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Of this package, for the attempts at a turn that only a crash makes.
func TestAttemptsAtATurnAreInOneTrace(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	from := newTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)))
	stranger := trace.ContextWithRemoteSpanContext(t.Context(), spanContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	ctx, asked := from.receive(stranger)
	parent := traceparent(ctx)
	asked.end(nil)
	for range 2 { // the second after a crash
		_, s := from.turn(stranger, parent, "")
		s.end(nil)
	}
	_, follows := from.turn(stranger, "not a traceparent", parent)
	follows.end(nil)
	spans := kept.GetSpans()
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	first := spans[0]
	if first.Name != "receive" || first.Parent.IsValid() || first.SpanKind != trace.SpanKindServer || !strings.Contains(parent, first.SpanContext.TraceID().String()) {
		t.Errorf("%+v, traceparent %q", first, parent)
	}
	for _, s := range spans[1:3] {
		if s.Name != "turn" || s.SpanContext.TraceID() != first.SpanContext.TraceID() || s.Parent.SpanID() != first.SpanContext.SpanID() {
			t.Errorf("%+v", s)
		}
	}
	last := spans[3]
	if last.Parent.IsValid() || last.SpanContext.TraceID() == first.SpanContext.TraceID() ||
		len(last.Links) != 1 || last.Links[0].SpanContext.SpanID() != first.SpanContext.SpanID() {
		t.Errorf("%+v", last)
	}
}

func TestWhatIsNotSampledStaysSo(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	provider := func(s sdktrace.Sampler) tracer {
		return newTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithSampler(s)))
	}
	ctx, asked := provider(sdktrace.NeverSample()).receive(t.Context())
	asked.end(nil)
	_, s := provider(sdktrace.ParentBased(sdktrace.AlwaysSample())).turn(t.Context(), traceparent(ctx), "")
	s.end(nil)
	if spans := kept.GetSpans(); len(spans) > 0 {
		t.Errorf("%v", spans)
	}
}

func TestSpansTellNothingThatWasWritten(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"throttled":      &models.Error{Kind: models.Throttled, Said: "secret"},
		"unknown_action": &plan.Fault{Kind: plan.UnknownAction},
		"503":            &connector.Error{Status: 503, Message: "secret"},
		"limit":          &LimitError{},
		"panic":          fmt.Errorf("%w: secret", errPanic),
		"timeout":        fmt.Errorf("secret: %w", context.DeadlineExceeded),
		"canceled":       context.Canceled,
		"_OTHER":         errors.New("secret"),
	} {
		kept := tracetest.NewInMemoryExporter()
		ctx, root := newTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))).turn(t.Context(), "", "")
		_, s := command(ctx, &actions.Action{Name: "createList"})
		s.about(&Turn{Turn: &actions.Turn{Activity: &activity.Activity{ChannelID: strings.Repeat("\xc3\xa4", maxSpanText) + "\xff"}}})
		s.end(err)
		root.end(nil)
		span := kept.GetSpans()[0]
		got := fmt.Sprint(span)
		if span.Name != "execute_tool createList" || span.Status.Code != codes.Error || !strings.Contains(got, `{"error.type":"`+want+`"}`) {
			t.Errorf("%s: %s", want, got)
		}
		if strings.Contains(got, "secret") || !utf8.ValidString(got) || len(got) > 4000 {
			t.Errorf("%s: %q", want, got)
		}
	}
}
