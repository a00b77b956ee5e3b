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

	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/internal/otlp"
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

func TestTracesAreFlushed(t *testing.T) {
	t.Parallel()
	to := newCollector(t)
	a := assembled(t, env{"port": "0", "otel-exporter-otlp-endpoint": to.URL + "/", "otel-service-name": "mine", "otel-resource-attributes": "service.name=other,team=a%20b"}, io.Discard)
	_, span := a.traces.Tracer("test").Start(t.Context(), "turn")
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
	to, channel, model := newCollector(t), newConnector(t), fakemodel.New(t)
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
	if got := channel.next(t); got != "secretword" {
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
	for _, name := range []string{"execute_tool createList", "save", "send", "finish"} {
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
	a := assembled(t, env{"port": "0", "otel-exporter-otlp-traces-endpoint": hangs.URL}, &log)
	_, span := a.traces.Tracer("test").Start(t.Context(), "turn")
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
	for _, s := range []env{
		{},
		{"otel-service-name": "mine", "otel-exporter-otlp-headers": "a=b"},
		{"otel-exporter-otlp-endpoint": "http://collector:4318", "otel-traces-exporter": "none"},
		{"otel-exporter-otlp-endpoint": "http://collector:4317", "otel-sdk-disabled": "true"},
	} {
		s["port"] = "0"
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
		"certificate": {env{"otel-exporter-otlp-endpoint": "https://x", "otel-exporter-otlp-certificate": filepath.Join(dir, "ca.pem")}, func(e otlp.Config, s sdktrace.Sampler) bool { return e.TLS.RootCAs != nil }},
		"share":       {env{"otel-traces-sampler": "traceidratio", "otel-traces-sampler-arg": "0.25"}, func(e otlp.Config, s sdktrace.Sampler) bool { return s.Description() == "TraceIDRatioBased{0.25}" }},
		"none":        {env{"otel-traces-sampler": "always_off"}, func(e otlp.Config, s sdktrace.Sampler) bool { return s.Description() == "AlwaysOffSampler" }},
	} {
		s, err := test.in.read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := &program{Settings: s}
		if to, err := p.collector(); err != nil || !test.want(to, p.sampler()) {
			t.Errorf("%s: %+v, %v", name, to, err)
		}
	}
}

func TestEveryMistakeInTraceSettingsIsListed(t *testing.T) {
	t.Parallel()
	_, err := env{"otel-traces-exporter": "jaeger", "otel-exporter-otlp-endpoint": "collector:4318", "otel-exporter-otlp-traces-endpoint": "ftp://x", "otel-exporter-otlp-protocol": "grpc", "otel-exporter-otlp-headers": "x=1,secret", "otel-exporter-otlp-timeout": "1s", "otel-exporter-otlp-compression": "zstd", "otel-exporter-otlp-certificate": "/nowhere.pem", "otel-resource-attributes": "team", "otel-traces-sampler": "sometimes", "otel-traces-sampler-arg": "2"}.read()
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
		if _, err := s.read(); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTraceFaultsWarnOnceAMinute(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	handle := traceFaults(zerolog.New(&log))
	handle(io.EOF)
	handle(io.EOF)
	if strings.Count(log.String(), "\n") != 1 || strings.Count(log.String(), `"warn"`) != 1 {
		t.Error(log.String())
	}
}
