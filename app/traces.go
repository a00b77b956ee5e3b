package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/planbot-go/planbot/internal/otlp"
)

// traces are where the spans of this process go.
type traces struct {
	provider *sdktrace.TracerProvider
	client   *otlp.Client
}

// openTraces opens what the settings ask for. It does not connect.
func (p *program) openTraces(ctx context.Context) error {
	if p.OTelDisabled || p.OTelExporter == "none" || p.OTelExporter == "" && p.OTelEndpoint == "" && p.OTelTraces == "" {
		return nil
	}
	// Of two attributes with one name the later counts.
	attributes := []attribute.KeyValue{attribute.String("service.name", "planbot"), attribute.String("service.version", versionText())}
	for _, pair := range p.OTelAttributes {
		attributes = append(attributes, attribute.String(pair[0], pair[1]))
	}
	if p.OTelServiceName != "" {
		attributes = append(attributes, attribute.String("service.name", p.OTelServiceName))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...))
	if err != nil {
		return fmt.Errorf("describe this bot for traces: %w", err)
	}
	to, err := p.collector()
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	client := otlp.New(to)
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(&traceFaults{log: p.log})
	p.traces = &traces{client: client, provider: sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithSampler(p.sampler()), sdktrace.WithResource(about),
	)}
	p.closers = append(p.closers, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		p.flush(ctx)
	})
	p.log.Info().Str("url", to.URL).Msg("traces")
	return nil
}

// collector says where spans are sent, and how.
func (p *program) collector() (otlp.Config, error) {
	const usual = "http://localhost:4318"
	to := otlp.Config{
		URL:     cmp.Or(p.OTelTraces, strings.TrimRight(cmp.Or(p.OTelEndpoint, usual), "/")+"/v1/traces"),
		Headers: map[string]string{}, Timeout: time.Duration(p.OTelTimeout) * time.Millisecond, Gzip: p.OTelCompression == "gzip",
	}
	for _, header := range p.OTelHeaders {
		to.Headers[header[0]] = header[1]
	}
	if p.OTelCertificate != "" { // it, and no others
		pem, err := os.ReadFile(p.OTelCertificate)
		if err != nil {
			return to, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem) // that it has some was checked
		to.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return to, nil
}

// sampler says which turns are traced. A turn never has a parent of others, so samplers that
// look at one do as they do without.
func (p *program) sampler() sdktrace.Sampler {
	name, based := strings.CutPrefix(p.OTelSampler, "parentbased_")
	sampler := map[string]sdktrace.Sampler{
		"always_on": sdktrace.AlwaysSample(), "always_off": sdktrace.NeverSample(), "traceidratio": sdktrace.TraceIDRatioBased(p.OTelSamplerArg),
	}[name]
	if based {
		return sdktrace.ParentBased(sampler)
	}
	return sampler
}

// flush sends the spans that there are, in ctx's time, and ends. Only the first one does.
func (p *program) flush(ctx context.Context) {
	if p.traces == nil {
		return
	}
	if err := p.traces.provider.Shutdown(ctx); err != nil {
		p.log.Warn().Err(err).Msg("the last spans are lost")
	}
	_ = p.traces.client.Stop(ctx) // never fails; what went on past ctx's time ends now
}

// quietFor is how long the log says nothing more of traces after a complaint.
const quietFor = time.Minute

// traceFaults logs what the SDK reports, such as a collector that is away, which comes every
// few seconds: one warning a minute, the rest for debugging.
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
