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

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

const (
	// scope names this package in traces.
	scope = "github.com/planbot-go/planbot/bot"
	// maxSpanText bounds what comes from outside, such as ids.
	maxSpanText = 256
	// w3c is the name of the one header that is kept of a trace's context.
	w3c = "traceparent"
)

// traces begins traces. The zero value begins none, and without one there is no
// span in it either: see [step].
type traces struct{ tracer trace.Tracer }

func newTraces(from trace.TracerProvider) traces {
	if from == nil {
		return traces{}
	}
	return traces{from.Tracer(scope)}
}

// receive begins the trace of what comes in. What a caller says of a trace of its
// own is not looked at: it would decide what is kept here.
func (t traces) receive(ctx context.Context) (context.Context, span) {
	if t.tracer == nil {
		return ctx, span{}
	}
	ctx, s := t.tracer.Start(ctx, "receive", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, span{s}
}

// turn begins an attempt at a turn: in the trace of what brought it in, if its
// traceparent is given.
func (t traces) turn(ctx context.Context, cameWith string) (context.Context, span) {
	if t.tracer == nil {
		return ctx, span{}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	if parent := spanContext(cameWith); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, s := t.tracer.Start(ctx, "turn", options...)
	return ctx, span{s}
}

// linkTo links the span in ctx to that of another turn, which it goes on from.
func linkTo(ctx context.Context, traceparent string) {
	if to := spanContext(traceparent); to.IsValid() {
		trace.SpanFromContext(ctx).AddLink(trace.Link{SpanContext: to})
	}
}

// traceparent is where ctx is in its trace, to be kept with what goes on elsewhere,
// in the form of W3C's header. "": in none.
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

// step begins a part of the turn whose span is in ctx. Where none is recorded there
// is no span, and nothing is allocated.
func step(ctx context.Context, name string) (context.Context, span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, span{}
	}
	ctx, s := parent.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, span{s}
}

// command begins a call of the action, named as OpenTelemetry's conventions name
// the call of a tool.
func command(ctx context.Context, action *actions.Action) (context.Context, span) {
	if action == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, span{}
	}
	ctx, s := step(ctx, "execute_tool "+action.Name)
	s.text("gen_ai.operation.name", "execute_tool")
	s.text("gen_ai.tool.name", action.Name)
	return ctx, s
}

// span is a step of a turn; its zero value is none. Its attributes are names, numbers
// and ids, never what people or models wrote.
type span struct{ trace.Span }

// in is ctx with the span.
func (s span) in(ctx context.Context) context.Context {
	if s.Span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.Span)
}

func (s span) text(name, value string) {
	if s.Span != nil && value != "" {
		value = strings.ToValidUTF8(value[:min(len(value), maxSpanText)], "") // else no span of the batch could be sent
		s.SetAttributes(attribute.String(name, value))
	}
}

func (s span) number(name string, value int) {
	if s.Span != nil {
		s.SetAttributes(attribute.Int(name, value))
	}
}

// about says which turn it is.
func (s span) about(t *Turn) {
	if s.Span == nil {
		return
	}
	s.text("planbot.turn.id", t.ID)
	s.text("planbot.activity.type", string(t.Activity.Type))
	s.text("planbot.channel", t.Activity.ChannelID)
	s.text("gen_ai.conversation.id", t.Activity.Conversation.ID)
}

// end ends the step, in failure when err is one. Of that only the sort is told.
func (s span) end(err error) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.failed(sortOf(err))
	}
	s.End()
}

func (s span) failed(sort string) {
	if s.Span != nil {
		s.SetStatus(codes.Error, "")
		s.text("error.type", sort)
	}
}

// sortOf names an error for error.type: there are few, and none quotes anybody.
func sortOf(err error) string {
	var ofModel *models.Error
	var ofPlan *plan.Fault
	var ofChannel *connector.Error
	var limit *LimitError
	var budget *actions.BudgetError
	var later *laterError
	var dead *deadLetter
	switch {
	case errors.As(err, &dead):
		return "dead_letter"
	case errors.As(err, &later):
		return "later"
	case errors.Is(err, inbox.ErrLost):
		return "lease_lost"
	case errors.Is(err, state.ErrUnavailable):
		return "state_unavailable"
	case errors.Is(err, inbox.ErrFull):
		return "inbox_full"
	case errors.As(err, &ofModel):
		return ofModel.Kind.String()
	case errors.As(err, &ofPlan):
		return string(ofPlan.Kind)
	case errors.As(err, &ofChannel):
		return strconv.Itoa(ofChannel.Status)
	case errors.As(err, &limit), errors.As(err, &budget):
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
