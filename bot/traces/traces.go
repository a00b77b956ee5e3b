// Package traces makes the spans of turns, for OpenTelemetry. Attributes are names, numbers and ids, never
// what people or models wrote.
package traces

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/planner/plan"
)

const (
	tracerName = "github.com/planbot-go/planbot/bot" // names the bot in traces
	maxText    = 256                                 // limits what comes from outside, such as ids
	w3c        = "traceparent"                       // the only header that we keep of a trace's context
)

// parent is the W3C traceparent of what started the turn. "": not traced.
var parent = turn.NewSlot[string]("trace")

// New returns the feature that makes spans.
func New(from trace.TracerProvider) turn.Feature {
	t := tracer{from.Tracer(tracerName)}
	return turn.Feature{Name: "traces", Step: t.step, Plan: countCommands}
}

// ID is the id of the trace that begins with the turn's activity. "": not traced.
func ID(t *turn.Turn) string {
	if at := spanContext(*parent.Of(t)); at.HasTraceID() {
		return at.TraceID().String()
	}
	return ""
}

type tracer struct{ trace.Tracer }

func (t tracer) step(ctx context.Context, of *turn.Turn, name string) (context.Context, func(error)) {
	var span trace.Span
	switch name {
	case turn.StepReceive:
		// The caller's own trace would decide what is recorded here.
		ctx, span = t.Start(ctx, name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer))
		*parent.Of(of) = traceparent(ctx)
		about(span, of)
	case turn.StepSubmit:
		*parent.Of(of) = traceparent(ctx)
		return ctx, nil
	case turn.StepQuiet:
		return ctx, nil
	case turn.StepTurn:
		ctx, span = t.turn(ctx, of)
	default:
		if !trace.SpanContextFromContext(ctx).IsValid() {
			return ctx, nil // it is no part of a turn that is traced
		}
		ctx, span = t.Start(ctx, name, trace.WithAttributes(attributes(name)...))
	}
	return ctx, func(err error) { end(span, err) }
}

// turn starts an attempt at a turn, in the trace of what brought it in.
func (t tracer) turn(ctx context.Context, of *turn.Turn) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	from := spanContext(*parent.Of(of))
	switch {
	case !from.IsValid():
		options = append(options, trace.WithNewRoot())
	case of.Scheduled(): // another turn did that, perhaps long ago
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: from}))
	default:
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	}
	ctx, span := t.Start(ctx, turn.StepTurn, options...)
	about(span, of)
	span.SetAttributes(attribute.Int("planbot.turn.takeovers", of.Tries()))
	return ctx, span
}

// attributes are those of a step, named as OpenTelemetry's conventions name them.
func attributes(name string) []attribute.KeyValue {
	action, called := strings.CutPrefix(name, turn.StepCall)
	switch {
	case called:
		return []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", strings.TrimSpace(turn.StepCall)), attribute.String("gen_ai.tool.name", action),
		}
	case name == turn.StepPlan:
		return []attribute.KeyValue{attribute.String("gen_ai.operation.name", name)}
	}
	return nil
}

// countCommands notes in the span of the plan how many commands that has.
func countCommands(ctx context.Context, _ *turn.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
	p, err := next(ctx)
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("planbot.plan.commands", len(p.Commands)))
	return p, err
}

// traceparent returns where ctx is in its trace, as a W3C header, to be saved with work that
// continues elsewhere. "": not traced.
func traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[w3c]
}

// spanContext reads a traceparent that this program wrote.
func spanContext(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{w3c: traceparent})
	return trace.SpanContextFromContext(ctx)
}

// about sets the attributes that identify the turn.
func about(span trace.Span, t *turn.Turn) {
	if !span.IsRecording() {
		return
	}
	for name, value := range map[string]string{
		"planbot.turn.id": t.ID, "planbot.activity.type": string(t.Activity.Type), "planbot.channel": t.Activity.ChannelID,
		"gen_ai.conversation.id": t.Activity.Conversation.ID,
	} {
		if value != "" {
			value = strings.ToValidUTF8(value[:min(len(value), maxText)], "") // else no span of the batch can be sent
			span.SetAttributes(attribute.String(name, value))
		}
	}
}

// end ends a span, as failed if err is not nil. It records only the kind of error.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", turn.KindOf(err)))
	}
	span.End()
}
