// Package traces sends a span for each turn and for what it waits for to an OpenTelemetry collector, by OTLP
// over HTTP. The settings are OpenTelemetry's own.
package traces

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/otlp"
)

const flushWithin = 2 * time.Second // limits how long the last spans may take

// settings are OpenTelemetry's variables.
type settings struct {
	Endpoint    string      `env:"OTEL_EXPORTER_OTLP_ENDPOINT" url:"http" else:"no traces" help:"OpenTelemetry collector, such as http://localhost:4318; turns traces on"`
	Traces      string      `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" url:"http" help:"the same, with its path"`
	Exporter    string      `env:"OTEL_TRACES_EXPORTER" oneof:"otlp,none" else:"otlp with an endpoint, else none" help:"otlp or none"`
	Disabled    bool        `env:"OTEL_SDK_DISABLED" help:"true: no traces, whatever else is set"`
	ServiceName string      `env:"OTEL_SERVICE_NAME" else:"planbot" help:"name of the bot in traces"`
	Attributes  [][2]string `env:"OTEL_RESOURCE_ATTRIBUTES" help:"resource attributes: name=value, comma separated"`
	Sampler     string      `env:"OTEL_TRACES_SAMPLER" oneof:"always_on,always_off,traceidratio,parentbased_always_on,parentbased_always_off,parentbased_traceidratio" default:"parentbased_always_on" help:"which turns are traced"`
	SamplerArg  float64     `env:"OTEL_TRACES_SAMPLER_ARG" default:"1" max:"1" help:"share of turns, from 0 to 1"`
	Headers     [][2]string `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS,OTEL_EXPORTER_OTLP_HEADERS" name:"otel-exporter-otlp-headers" secret:"true" help:"headers for the collector, such as a key: name=value, comma separated"`
	Protocol    string      `env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,OTEL_EXPORTER_OTLP_PROTOCOL" name:"otel-exporter-otlp-protocol" oneof:"http/protobuf" else:"http/protobuf" help:"http/protobuf; its port is 4318"`
	Timeout     int         `env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,OTEL_EXPORTER_OTLP_TIMEOUT" name:"otel-exporter-otlp-timeout" else:"10000" help:"milliseconds for one request"`
	Compression string      `env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION,OTEL_EXPORTER_OTLP_COMPRESSION" name:"otel-exporter-otlp-compression" oneof:"none,gzip" else:"none" help:"gzip or none"`
	Certificate string      `env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE,OTEL_EXPORTER_OTLP_CERTIFICATE" name:"otel-exporter-otlp-certificate" else:"the system's" help:"PEM file of the collector's CA"`
}

// Feature sends traces where the settings say so.
func Feature() app.Feature {
	s := &settings{}
	return app.Feature{Name: "traces", Settings: s, Check: s.check, Wire: s.wire}
}

// on reports whether there are traces.
func (s *settings) on() bool {
	if s.Disabled || s.Exporter == "none" {
		return false
	}
	return s.Exporter != "" || s.Endpoint != "" || s.Traces != ""
}

// check returns what OpenTelemetry would ignore with a warning.
func (s *settings) check(v app.Values) error {
	if s.Disabled || s.Exporter == "none" {
		return nil
	}
	var faults []error
	for _, header := range s.Headers {
		if !httpguts.ValidHeaderFieldName(header[0]) || !httpguts.ValidHeaderFieldValue(header[1]) {
			faults = append(faults, errors.New("OTEL_EXPORTER_OTLP_TRACES_HEADERS: cannot be the headers of a request"))
			break
		}
	}
	if s.Certificate != "" {
		pem, err := os.ReadFile(s.Certificate)
		if err != nil {
			faults = append(faults, fmt.Errorf("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: %q cannot be read", s.Certificate))
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			faults = append(faults, fmt.Errorf("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: %q has no certificate in PEM", s.Certificate))
		}
	}
	if s.SamplerArg != 1 && !strings.HasSuffix(s.Sampler, "traceidratio") && !v.Faulty("OTEL_TRACES_SAMPLER_ARG") {
		faults = append(faults, errors.New("OTEL_TRACES_SAMPLER_ARG: is for the samplers traceidratio and parentbased_traceidratio"))
	}
	return errors.Join(faults...)
}

// wire has the bot make spans, and sends them. It does not connect.
func (s *settings) wire(ctx context.Context, p *app.Program, cfg *bot.Config) error {
	if !s.on() {
		return nil
	}
	to, err := s.collector()
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	client := otlp.New(to)
	spans, err := s.open(ctx, client, app.Version())
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(faults(*p.Log()))
	flush := func(ctx context.Context) { // only the first call does anything
		if err := spans.Shutdown(ctx); err != nil {
			p.Log().Warn().Err(err).Msg("the last spans are lost")
		}
	}
	p.OnDrain(flush)
	p.OnClose(func() { _ = client.Stop(ctx) }) // drops what the flush below had no time for; it never fails
	p.OnClose(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		flush(ctx)
	})
	cfg.Traces = spans
	p.Log().Info().Str("url", to.URL).Msg("sending traces")
	return nil
}

// open makes what takes the spans and gives them to that client.
func (s *settings) open(ctx context.Context, client otlptrace.Client, version string) (*sdktrace.TracerProvider, error) {
	named := [][2]string{{"service.name", "planbot"}, {"service.version", version}}
	named = append(named, s.Attributes...) // for a repeated name the later value wins
	if s.ServiceName != "" {
		named = append(named, [2]string{"service.name", s.ServiceName})
	}
	var attributes []attribute.KeyValue
	for _, pair := range named {
		attributes = append(attributes, attribute.String(pair[0], pair[1]))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...))
	if err != nil {
		return nil, fmt.Errorf("describe this bot: %w", err)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithSampler(s.sampler()), sdktrace.WithResource(about)), nil
}

// collector returns where and how to send spans.
func (s *settings) collector() (otlp.Config, error) {
	base := cmp.Or(s.Endpoint, "http://localhost:4318")
	to := otlp.Config{
		URL:     cmp.Or(s.Traces, strings.TrimRight(base, "/")+"/v1/traces"),
		Headers: s.Headers,
		Timeout: time.Duration(s.Timeout) * time.Millisecond,
		Gzip:    s.Compression == "gzip",
	}
	if s.Certificate != "" { // this one and no others
		pem, err := os.ReadFile(s.Certificate)
		if err != nil {
			return to, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem) // already checked to contain some
		to.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return to, nil
}

// sampler decides which turns are traced. A turn never has a remote parent, so parent-based
// samplers act as they do without one.
func (s *settings) sampler() sdktrace.Sampler {
	switch strings.TrimPrefix(s.Sampler, "parentbased_") {
	case "always_off":
		return sdktrace.NeverSample()
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(s.SamplerArg)
	}
	return sdktrace.AlwaysSample()
}

// faults logs what the SDK reports, such as an unreachable collector. The SDK reports every few
// seconds; the log gets one warning a minute.
func faults(log zerolog.Logger) otel.ErrorHandlerFunc {
	log = log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute})
	return func(err error) { log.Warn().Err(err).Msg("traces are lost") }
}
