package traces

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/internal/otlp"
)

// env are settings by their flags.
type env map[string]string

// read parses and checks them.
func (e env) read(t *testing.T) (*settings, error) {
	t.Helper()
	var args []string
	for flag, value := range e {
		args = append(args, "--"+flag+"="+value)
	}
	f := Feature()
	return f.Settings.(*settings), app.Settings(app.Bot{Name: "Hedda"}, f).Read(args...)
}

// A collector that does not answer cannot hold up the end of the bot.
func TestFlushKeepsToItsTime(t *testing.T) {
	t.Parallel()
	came, over := make(chan struct{}, 9), make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came <- struct{}{}
		<-over
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(over) })
	s, err := env{"otel-exporter-otlp-traces-endpoint": hangs.URL}.read(t)
	if err != nil {
		t.Fatal(err)
	}
	to, err := s.collector()
	if err != nil {
		t.Fatal(err)
	}
	spans, err := s.open(t.Context(), otlp.New(to), "devel")
	if err != nil {
		t.Fatal(err)
	}
	_, span := spans.Tracer("test").Start(t.Context(), "turn")
	span.End()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	if err := spans.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestNoTracesWithoutACollector(t *testing.T) {
	t.Parallel()
	for _, in := range []env{
		{},
		{"otel-service-name": "mine", "otel-exporter-otlp-headers": "a=b"},
		{"otel-exporter-otlp-endpoint": "http://collector:4318", "otel-traces-exporter": "none"},
		{"otel-exporter-otlp-endpoint": "http://collector:4317", "otel-sdk-disabled": "true"},
	} {
		if s, err := in.read(t); err != nil || s.on() {
			t.Errorf("traces with %+v, %v", in, err)
		}
	}
}

func TestTraceSettings(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		in   env
		want func(otlp.Config, sdktrace.Sampler) bool
	}{
		"default collector": {env{"otel-traces-exporter": "otlp"}, func(e otlp.Config, s sdktrace.Sampler) bool {
			return e.URL == "http://localhost:4318/v1/traces" && s.Description() == sdktrace.AlwaysSample().Description()
		}},
		"base address":  {env{"otel-exporter-otlp-endpoint": "https://c.example/otlp"}, func(e otlp.Config, s sdktrace.Sampler) bool { return e.URL == "https://c.example/otlp/v1/traces" }},
		"whole address": {env{"otel-exporter-otlp-endpoint": "http://x", "otel-exporter-otlp-traces-endpoint": "http://c.example/in"}, func(e otlp.Config, s sdktrace.Sampler) bool { return e.URL == "http://c.example/in" }},
		"transport": {env{"otel-exporter-otlp-endpoint": "http://x", "otel-exporter-otlp-headers": "api-key=a%3Db, x-team=1", "otel-exporter-otlp-timeout": "1500", "otel-exporter-otlp-compression": "gzip", "otel-exporter-otlp-protocol": "http/protobuf"}, func(e otlp.Config, s sdktrace.Sampler) bool {
			return slices.Equal(e.Headers, [][2]string{{"api-key", "a=b"}, {"x-team", "1"}}) && e.Timeout == 1500*time.Millisecond && e.Gzip
		}},
		"certificate": {env{"otel-exporter-otlp-endpoint": "https://x", "otel-exporter-otlp-certificate": ca}, func(e otlp.Config, s sdktrace.Sampler) bool { return e.TLS.RootCAs != nil }},
		"share":       {env{"otel-traces-sampler": "traceidratio", "otel-traces-sampler-arg": "0.25"}, func(e otlp.Config, s sdktrace.Sampler) bool { return s.Description() == "TraceIDRatioBased{0.25}" }},
		"none":        {env{"otel-traces-sampler": "always_off"}, func(e otlp.Config, s sdktrace.Sampler) bool { return s.Description() == "AlwaysOffSampler" }},
	} {
		s, err := test.in.read(t)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if to, err := s.collector(); err != nil || !test.want(to, s.sampler()) {
			t.Errorf("%s: %+v, %v", name, to, err)
		}
	}
}

func TestEveryMistakeInTraceSettingsIsListed(t *testing.T) {
	t.Parallel()
	_, err := env{"otel-traces-exporter": "jaeger", "otel-exporter-otlp-endpoint": "collector:4318", "otel-exporter-otlp-traces-endpoint": "ftp://x", "otel-exporter-otlp-protocol": "grpc", "otel-exporter-otlp-headers": "x=1,secret", "otel-exporter-otlp-timeout": "1s", "otel-exporter-otlp-compression": "zstd", "otel-exporter-otlp-certificate": "/nowhere.pem", "otel-resource-attributes": "team", "otel-traces-sampler": "sometimes", "otel-traces-sampler-arg": "2"}.read(t)
	if err == nil {
		t.Fatal("no mistake found")
	}
	var names []string
	for line := range strings.Lines(err.Error()) {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, strings.Split(name, ", ")...)
	}
	slices.Sort(names)
	want := []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	}
	if !slices.Equal(names, want) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	for name, s := range map[string]env{
		"OTEL_SDK_DISABLED":       {"otel-sdk-disabled": "perhaps"},
		"OTEL_TRACES_SAMPLER_ARG": {"otel-traces-sampler": "always_on", "otel-traces-sampler-arg": "0.5"},
	} {
		if _, err := s.read(t); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTraceFaultsWarnOnceAMinute(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	handle := faults(zerolog.New(&log))
	handle(io.EOF)
	handle(io.EOF)
	if strings.Count(log.String(), "\n") != 1 || strings.Count(log.String(), `"warn"`) != 1 {
		t.Error(log.String())
	}
}
