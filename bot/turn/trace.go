package turn

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

const (
	// tracerName names this package in traces.
	tracerName = "github.com/planbot-go/planbot/bot"
	// maxSpanText limits what comes from outside, such as ids.
	maxSpanText = 256
	// w3c is the only header that we keep of a trace's context.
	w3c = "traceparent"
)

// tracer starts the traces of turns. Attributes are names, numbers and ids, never what people or
// models wrote.
type tracer struct{ trace.Tracer }

// newTracer returns a tracer. If from is nil, it traces nothing.
func newTracer(from trace.TracerProvider) tracer {
	if from == nil {
		from = noop.NewTracerProvider()
	}
	return tracer{from.Tracer(tracerName)}
}

// receive starts the trace of an incoming activity. It ignores the caller's own trace, which would
// decide what is recorded here.
func (t tracer) receive(ctx context.Context) (context.Context, span) {
	ctx, s := t.Start(ctx, "receive", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, span{s}
}

// turn starts an attempt at a turn, in the trace of what brought it in if cameWith names one.
// linked is the traceparent of another turn that this one continues, or "".
func (t tracer) turn(ctx context.Context, cameWith, linked string) (context.Context, span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	if parent := spanContext(cameWith); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	if to := spanContext(linked); to.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: to}))
	}
	ctx, s := t.Start(ctx, "turn", options...)
	return ctx, span{s}
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

// step starts a part of the turn whose span is in ctx.
func step(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, span) {
	s := trace.SpanFromContext(ctx)
	if s.SpanContext().IsValid() { // else nothing is traced
		ctx, s = s.TracerProvider().Tracer(tracerName).Start(ctx, name, trace.WithAttributes(about...))
	}
	return ctx, span{s}
}

// command starts a call of the action, named as OpenTelemetry's conventions name tool calls.
func command(ctx context.Context, action *actions.Action) (context.Context, span) {
	return step(ctx, "execute_tool "+action.Name, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", action.Name))
}

// span is a step of a turn.
type span struct{ trace.Span }

// about sets the attributes that identify the turn.
func (s span) about(t *Turn) {
	if !s.IsRecording() {
		return
	}
	for name, value := range map[string]string{
		"planbot.turn.id": t.ID, "planbot.activity.type": string(t.Activity.Type), "planbot.channel": t.Activity.ChannelID,
		"gen_ai.conversation.id": t.Activity.Conversation.ID,
	} {
		if value != "" {
			value = strings.ToValidUTF8(value[:min(len(value), maxSpanText)], "") // else no span of the batch can be sent
			s.SetAttributes(attribute.String(name, value))
		}
	}
}

// end ends the step, as failed if err is not nil. It records only the kind of error.
func (s span) end(err error) {
	if err != nil {
		s.failed(errorKind(err))
	}
	s.End()
}

func (s span) failed(sort string) {
	s.SetStatus(codes.Error, "")
	s.SetAttributes(attribute.String("error.type", sort))
}

// errorKind names an error for error.type. There are few names, and none quotes anybody.
func errorKind(err error) string {
	var ofModel *models.Error
	var ofPlan *plan.Fault
	var ofChannel *connector.Error
	switch {
	case is[*deadLetter](err):
		return "dead_letter"
	case errors.Is(err, errLater):
		return "later"
	case errors.Is(err, inbox.ErrLost):
		return "lease_lost"
	case errors.Is(err, state.ErrUnavailable):
		return "state_unavailable"
	case errors.Is(err, inbox.ErrFull):
		return "inbox_full"
	case errors.As(err, &ofModel):
		return ofModel.Kind
	case errors.As(err, &ofPlan):
		return string(ofPlan.Kind)
	case errors.As(err, &ofChannel):
		return strconv.Itoa(ofChannel.Status)
	case is[*LimitError](err), is[*actions.BudgetError](err):
		return "limit"
	case errors.Is(err, errPanic):
		return "panic"
	case errors.Is(err, state.ErrConflict):
		return "conflict"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return "_OTHER"
	}
}
