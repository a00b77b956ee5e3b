package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/planbot-go/planbot/internal/otlp"
)

// quietFor is how long the log says nothing more of traces after a complaint.
const quietFor = time.Minute

// traces are where the spans of this process go.
type traces struct {
	provider *sdktrace.TracerProvider
	client   *otlp.Client
}

// openTraces opens what the settings ask for. It does not connect.
func (a *program) openTraces(ctx context.Context) error {
	s := a.config.traces
	if !s.on {
		return nil
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(s.resource...))
	if err != nil {
		return fmt.Errorf("describe this bot for traces: %w", err)
	}
	client := otlp.New(s.exporter)
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(&traceFaults{log: a.log})
	a.traces = &traces{client: client, provider: sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithSampler(s.sampler), sdktrace.WithResource(about),
	)}
	a.closers = append(a.closers, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		a.flush(ctx)
	})
	a.log.Info().Str("url", s.exporter.URL).Msg("traces")
	return nil
}

// flush sends the spans that there are, in ctx's time, and ends. Only the first
// one does.
func (a *program) flush(ctx context.Context) {
	if a.traces == nil {
		return
	}
	if err := a.traces.provider.Shutdown(ctx); err != nil {
		a.log.Warn().Err(err).Msg("the last spans are lost")
	}
	_ = a.traces.client.Stop(ctx) // never fails; what went on past ctx's time ends now
}

// traceFaults logs what the SDK reports, such as a collector that is away, which
// comes every few seconds: one warning a minute, the rest for debugging.
type traceFaults struct {
	log  zerolog.Logger
	last atomic.Int64 // Unix time of the last warning, ms
}

// Handle is called by the SDK.
func (f *traceFaults) Handle(err error) {
	now := time.Now().UnixMilli()
	last := f.last.Load()
	level := zerolog.DebugLevel
	if now-last > quietFor.Milliseconds() && f.last.CompareAndSwap(last, now) {
		level = zerolog.WarnLevel
	}
	f.log.WithLevel(level).Err(err).Msg("traces")
}
