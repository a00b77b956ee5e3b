package app

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

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

func TestTheBotSendsItsSpansBeforeItEnds(t *testing.T) {
	t.Parallel()
	to, channel, model := newCollector(t), newConnector(t), fakemodel.New(t)
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"secretlist"}},{"type":"SAY","response":"secretword"}]}`)
	ctx, cancel := context.WithTimeout(t.Context(), processPatience)
	defer cancel()
	bot := botProcess(ctx, []string{
		"PORT=0", "BOT_LOG_FORMAT=json", "OPENAI_BASE_URL=" + model.URL, "OPENAI_MODEL=gpt-test",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL, "OTEL_BSP_SCHEDULE_DELAY=3600000", "OTEL_EXPORTER_OTLP_HEADERS=",
		"OTEL_SERVICE_NAME=mine", "OTEL_RESOURCE_ATTRIBUTES=service.name=other,team=a%20b",
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
	about := map[string]string{}
	for _, kv := range to.traces[0].GetResourceSpans()[0].GetResource().GetAttributes() {
		about[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	if about["service.name"] != "mine" || about["team"] != "a b" || about["service.version"] == "" || about["host.name"] == "" || about["telemetry.sdk.language"] != "go" {
		t.Errorf("%v", about)
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
