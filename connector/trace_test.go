package connector_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/activity"
)

func TestEachTryIsASpan(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	r := newRest(t, func(w http.ResponseWriter, q *http.Request) {
		if parent := q.Header.Get("Traceparent"); parent != "" {
			t.Errorf("traceparent %s was sent", parent)
		}
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"id":"sent-1"}`)
	})
	kept := tracetest.NewInMemoryExporter()
	ctx, root := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)).Tracer("test").Start(t.Context(), "send")
	id, err := r.Send(ctx, r.ref, &activity.Activity{Type: activity.Message, Text: "secret text"})
	root.End()
	spans := kept.GetSpans()
	if err != nil || id != "sent-1" || len(spans) != 3 {
		t.Fatalf("%q, %v, %v", id, err, spans)
	}
	for i, want := range []struct {
		status string
		code   codes.Code
	}{{"401", codes.Error}, {"200", codes.Unset}} {
		s := spans[i]
		got := map[string]string{}
		for _, a := range s.Attributes {
			got[string(a.Key)] = a.Value.String()
		}
		if s.Name != "POST" || s.SpanKind != trace.SpanKindClient || s.Parent.SpanID() != root.SpanContext().SpanID() || s.Status.Code != want.code ||
			got["http.response.status_code"] != want.status || got["http.request.method"] != "POST" || got["server.address"] != "127.0.0.1" ||
			!strings.HasSuffix(r.URL, ":"+got["server.port"]) {
			t.Errorf("%s %v %v", s.Name, s.Status, got)
		}
	}
	for _, secret := range []string{"secret", "29:mia", "28:bot", "a:1"} {
		if strings.Contains(fmt.Sprint(spans), secret) {
			t.Errorf("%s in %v", secret, spans)
		}
	}
}

func TestNoAnswerIsASpan(t *testing.T) {
	t.Parallel()
	r := newRest(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	kept := tracetest.NewInMemoryExporter()
	ctx, root := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)).Tracer("test").Start(t.Context(), "send")
	_, err := r.Team(ctx, r.ref, "19:team")
	root.End()
	if spans := kept.GetSpans(); err == nil || spans[0].Name != "GET" || spans[0].Status.Code != codes.Error || !strings.Contains(fmt.Sprint(spans[0]), "no_answer") {
		t.Errorf("%v, %v", err, spans)
	}
}
