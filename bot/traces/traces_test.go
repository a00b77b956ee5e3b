package traces_test

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
	"github.com/planbot-go/planbot/bot/traces"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

func turnOn(channel string) *turn.Turn {
	return &turn.Turn{Turn: &actions.Turn{Activity: &activity.Activity{ChannelID: channel}}}
}

// TestAttemptsAtATurnAreInOneTrace, which is not that of the caller.
func TestAttemptsAtATurnAreInOneTrace(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	step := traces.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))).Step
	stranger := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	one := turnOn("")
	_, received := step(stranger, one, turn.StepReceive)
	received(nil)
	for range 2 { // the second after a crash
		_, end := step(stranger, one, turn.StepTurn)
		end(nil)
	}
	_, untraced := step(stranger, turnOn(""), turn.StepTurn)
	untraced(nil)
	spans := kept.GetSpans()
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	first := spans[0]
	if first.Name != "receive" || first.Parent.IsValid() || first.SpanKind != trace.SpanKindServer || traces.ID(one) != first.SpanContext.TraceID().String() {
		t.Errorf("%+v, trace %q", first, traces.ID(one))
	}
	for _, s := range spans[1:3] {
		if s.Name != "turn" || s.SpanContext.TraceID() != first.SpanContext.TraceID() || s.Parent.SpanID() != first.SpanContext.SpanID() {
			t.Errorf("%+v", s)
		}
	}
	if last := spans[3]; last.Parent.IsValid() || last.SpanContext.TraceID() == first.SpanContext.TraceID() {
		t.Errorf("%+v", last)
	}
}

func TestWhatIsNotSampledStaysSo(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	stepOf := func(s sdktrace.Sampler) func(context.Context, *turn.Turn, string) (context.Context, func(error)) {
		return traces.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithSampler(s))).Step
	}
	one := turnOn("")
	_, received := stepOf(sdktrace.NeverSample())(t.Context(), one, turn.StepReceive)
	received(nil)
	_, end := stepOf(sdktrace.ParentBased(sdktrace.AlwaysSample()))(t.Context(), one, turn.StepTurn)
	end(nil)
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
		"limit":          &turn.LimitError{},
		"timeout":        fmt.Errorf("secret: %w", context.DeadlineExceeded),
		"canceled":       context.Canceled,
		"_OTHER":         errors.New("secret"),
	} {
		kept := tracetest.NewInMemoryExporter()
		step := traces.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))).Step
		one := turnOn(strings.Repeat("\xc3\xa4", 256) + "\xff")
		ctx, root := step(t.Context(), one, turn.StepTurn)
		_, end := step(ctx, one, turn.StepCall+"createList")
		end(err)
		root(err)
		for i, name := range []string{"execute_tool createList", "turn"} {
			span := kept.GetSpans()[i]
			got := fmt.Sprint(span)
			if span.Name != name || span.Status.Code != codes.Error || !strings.Contains(got, `{"error.type":"`+want+`"}`) {
				t.Errorf("%s: %s", want, got)
			}
			if strings.Contains(got, "secret") || !utf8.ValidString(got) || len(got) > 4000 {
				t.Errorf("%s: %q", want, got)
			}
		}
	}
}
