package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// collector stands in for an OpenTelemetry collector.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	traces []*tracepb.TracesData
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		data := &tracepb.TracesData{}
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, data) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.traces = append(c.traces, data)
	}))
	t.Cleanup(c.Close)
	return c
}

// spans are all that came, by name.
func (c *collector) spans() map[string][]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string][]*tracepb.Span{}
	for _, data := range c.traces {
		for _, resource := range data.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					all[s.GetName()] = append(all[s.GetName()], s)
				}
			}
		}
	}
	return all
}

// text is all that came, as text.
func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for _, data := range c.traces {
		all.WriteString(data.String())
	}
	return all.String()
}

func assembled(t *testing.T, s settings, log io.Writer) *program {
	t.Helper()
	c, err := s.check()
	if err != nil {
		t.Fatal(err)
	}
	a, err := assemble(t.Context(), c, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

func TestTracesAreFlushed(t *testing.T) {
	t.Parallel()
	to := newCollector(t)
	a := assembled(t, settings{bot: defaultBot(), Port: "0", OTelEndpoint: to.URL + "/", OTelServiceName: "mine", OTelAttributes: "service.name=other,team=a%20b"}, io.Discard)
	_, span := a.traces.provider.Tracer("test").Start(t.Context(), "turn")
	span.End()
	a.flush(t.Context())
	if len(to.spans()["turn"]) != 1 {
		t.Fatalf("%v", to.spans())
	}
	got := map[string]string{}
	for _, kv := range to.traces[0].GetResourceSpans()[0].GetResource().GetAttributes() {
		got[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	if got["service.name"] != "mine" || got["team"] != "a b" || got["service.version"] == "" || got["host.name"] == "" || got["telemetry.sdk.language"] != "go" {
		t.Errorf("%v", got)
	}
}

func TestTheBotSendsItsSpansBeforeItEnds(t *testing.T) {
	t.Parallel()
	to, channel, model := newCollector(t), fakeconnector.New(t), fakemodel.New(t)
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"secretlist"}},{"type":"SAY","response":"secretword"}]}`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	bot := botProcess(ctx, []string{
		"PORT=0", "BOT_LOG_FORMAT=json", "OPENAI_BASE_URL=" + model.URL, "OPENAI_MODEL=gpt-test",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL, "OTEL_BSP_SCHEDULE_DELAY=3600000", "OTEL_EXPORTER_OTLP_HEADERS=",
	})
	bot.Stdout = io.Discard
	stderr, err := bot.StderrPipe()
	if err == nil {
		err = bot.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	logs := bufio.NewScanner(stderr)
	lines := until(t, logs, "listening")
	say(ctx, lines[len(lines)-1].URL, channel.URL)
	if got := channel.Next(t).Text(); got != "secretword" {
		t.Fatalf("reply %q", got)
	}
	if err := bot.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for logs.Scan() {
		t.Log(logs.Text())
	}
	if err := bot.Wait(); err != nil {
		t.Error(err)
	}
	spans := to.spans()
	parent := []byte(nil)
	for _, name := range []string{"receive", "turn", "plan", "chat gpt-test"} {
		if len(spans[name]) != 1 || !bytes.Equal(spans[name][0].GetParentSpanId(), parent) {
			t.Fatalf("%s: %v", name, to.text())
		}
		parent = spans[name][0].GetSpanId()
	}
	for _, name := range []string{"execute_tool createList", "save", "send", "POST", "finish"} {
		if len(spans[name]) == 0 {
			t.Errorf("no span %s", name)
		}
	}
	for _, want := range []string{`"gen_ai.usage.input_tokens"`, `"gen_ai.response.finish_reasons"`} {
		if !strings.Contains(to.text(), want) {
			t.Errorf("no %s", want)
		}
	}
	for _, text := range []string{"secret", "hello"} {
		if strings.Contains(to.text(), text) {
			t.Errorf("%q in %s", text, to.text())
		}
	}
}

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
	var log logBuffer
	a := assembled(t, settings{bot: defaultBot(), Port: "0", OTelTraces: hangs.URL}, &log)
	_, span := a.traces.provider.Tracer("test").Start(t.Context(), "turn")
	span.End()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	a.flush(ctx)
	if !strings.Contains(log.String(), "the last spans are lost") {
		t.Error(log.String())
	}
}

func TestNoTracesWithoutACollector(t *testing.T) {
	t.Parallel()
	for _, s := range []settings{
		{},
		{OTelServiceName: "mine", OTelHeaders: "a=b"},
		{OTelEndpoint: "http://collector:4318", OTelExporter: "none"},
		{OTelEndpoint: "http://collector:4317", OTelProtocol: "grpc", OTelDisabled: "true"},
	} {
		s.Port = "0"
		if a := assembled(t, s, io.Discard); a.traces != nil {
			t.Errorf("traces with %+v", s)
		}
	}
}

func TestTraceSettings(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	t.Cleanup(srv.Close)
	dir := filesIn(t, map[string]string{"ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))})
	for name, test := range map[string]struct {
		in   settings
		want func(traceSettings) bool
	}{
		"default collector": {settings{bot: defaultBot(), OTelExporter: "otlp"}, func(s traceSettings) bool {
			return s.on && s.exporter.URL == "http://localhost:4318/v1/traces" && s.sampler.Description() == sdktrace.ParentBased(sdktrace.AlwaysSample()).Description()
		}},
		"base address":  {settings{bot: defaultBot(), OTelEndpoint: "https://c.example/otlp"}, func(s traceSettings) bool { return s.exporter.URL == "https://c.example/otlp/v1/traces" }},
		"whole address": {settings{bot: defaultBot(), OTelEndpoint: "http://x", OTelTraces: "http://c.example/in"}, func(s traceSettings) bool { return s.exporter.URL == "http://c.example/in" }},
		"transport": {settings{bot: defaultBot(), OTelEndpoint: "http://x", OTelHeaders: "api-key=a%3Db, x-team=1", OTelTimeout: "1500", OTelCompression: "gzip", OTelProtocol: "http/protobuf"}, func(s traceSettings) bool {
			e := s.exporter
			return e.Headers["api-key"] == "a=b" && e.Headers["x-team"] == "1" && e.Timeout == 1500*time.Millisecond && e.Gzip
		}},
		"certificate": {settings{bot: defaultBot(), OTelEndpoint: "https://x", OTelCertificate: filepath.Join(dir, "ca.pem")}, func(s traceSettings) bool { return s.exporter.TLS.RootCAs != nil }},
		"share":       {settings{bot: defaultBot(), OTelSampler: "traceidratio", OTelSamplerArg: "0.25"}, func(s traceSettings) bool { return s.sampler.Description() == "TraceIDRatioBased{0.25}" }},
		"none":        {settings{bot: defaultBot(), OTelSampler: "always_off"}, func(s traceSettings) bool { return s.sampler.Description() == "AlwaysOffSampler" }},
	} {
		c, err := test.in.check()
		if err != nil || !test.want(c.traces) {
			t.Errorf("%s: %+v, %v", name, c.traces, err)
		}
	}
}

func TestEveryMistakeInTraceSettingsIsListed(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
	t.Setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "-2")
	_, err := settings{
		OTelExporter: "jaeger", OTelEndpoint: "collector:4318", OTelTraces: "ftp://x", OTelProtocol: "grpc", OTelHeaders: "x=1,secret", OTelTimeout: "1s",
		OTelCompression: "zstd", OTelCertificate: "/nowhere.pem", OTelAttributes: "team", OTelSampler: "sometimes", OTelSamplerArg: "2",
	}.check()
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
		"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT",
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	}
	if !slices.Equal(names, want) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	for name, s := range map[string]settings{
		"OTEL_SDK_DISABLED":       {OTelDisabled: "perhaps"},
		"OTEL_TRACES_SAMPLER_ARG": {OTelSampler: "always_on", OTelSamplerArg: "0.5"},
	} {
		if _, err := s.check(); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTraceFaultsWarnOnceAMinute(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	f := &traceFaults{log: zerolog.New(&log)}
	f.Handle(io.EOF)
	f.Handle(io.EOF)
	if strings.Count(log.String(), `"warn"`) != 1 || strings.Count(log.String(), `"debug"`) != 1 {
		t.Error(log.String())
	}
}
