package connector

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traced makes a span of each request that is part of a trace, by OpenTelemetry's
// conventions for HTTP clients, but without the URL: it holds the ids of people and
// conversations. Headers are not looked at, and none is added, so that no trace of
// ours goes on at a channel's.
type traced struct{ http.RoundTripper }

// RoundTrip is the transport's, with the TracerProvider of the request's span.
func (t traced) RoundTrip(req *http.Request) (*http.Response, error) {
	parent := trace.SpanFromContext(req.Context())
	if !parent.IsRecording() {
		return t.RoundTripper.RoundTrip(req)
	}
	tracer := parent.TracerProvider().Tracer("github.com/planbot-go/planbot/connector")
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", req.Method),
		attribute.String("server.address", req.URL.Hostname()),
	}
	if port, err := strconv.Atoi(effectivePort(req.URL)); err == nil {
		attributes = append(attributes, attribute.Int("server.port", port))
	}
	_, span := tracer.Start(req.Context(), req.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	defer span.End()
	res, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", "no_answer"))
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(res.StatusCode)))
	}
	return res, nil
}

// CloseIdleConnections is the transport's, if it has one.
func (t traced) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
