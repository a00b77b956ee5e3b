package otlp_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/planbot-go/planbot/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ otlptrace.Client = (*otlp.Client)(nil)

func spans(name string) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{Name: name}}}}}}
}

// collector answers with the statuses in turn, and keeps what it got.
type collector struct {
	statuses []int
	header   http.Header // of its answers
	requests []*http.Request
	names    []string // of the spans
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(body)
	}
	raw, err := io.ReadAll(body)
	var data tracepb.TracesData
	if err == nil && proto.Unmarshal(raw, &data) == nil {
		c.names = append(c.names, data.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetName())
	}
	c.requests = append(c.requests, r)
	for name := range c.header {
		w.Header().Set(name, c.header.Get(name))
	}
	w.WriteHeader(c.statuses[min(len(c.requests), len(c.statuses))-1])
	_, _ = io.WriteString(w, "said by the collector")
}

func TestUpload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		collector collector
		gzip      bool
		requests  int
		fault     string
	}{
		{name: "plain", collector: collector{statuses: []int{200}}, requests: 1},
		{name: "gzip", collector: collector{statuses: []int{200}}, gzip: true, requests: 1},
		{name: "busy", collector: collector{statuses: []int{503, 200}}, requests: 2},
		{name: "busy for long", collector: collector{statuses: []int{429}, header: http.Header{"Retry-After": {"60"}}}, requests: 1, fault: "status 429"},
		{name: "refused", collector: collector{statuses: []int{401}}, requests: 1, fault: "status 401"},
		{name: "sent elsewhere", collector: collector{statuses: []int{302}, header: http.Header{"Location": {"/"}}}, requests: 1, fault: "status 302"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(&test.collector)
			defer srv.Close()
			c := otlp.New(otlp.Config{URL: srv.URL + "/v1/traces", Headers: [][2]string{{"api-key", "k"}}, Gzip: test.gzip})
			defer func() { _ = c.Stop(context.Background()) }()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := c.UploadTraces(ctx, spans("turn"))
			if (err != nil) != (test.fault != "") || err != nil && (!strings.Contains(err.Error(), test.fault) || strings.Contains(err.Error(), "said by")) {
				t.Errorf("error %v", err)
			}
			if len(test.collector.requests) != test.requests || len(test.collector.names) != test.requests {
				t.Fatalf("%d requests with spans %q", len(test.collector.requests), test.collector.names)
			}
			r := test.collector.requests[0]
			if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Api-Key") != "k" ||
				r.Header.Get("Content-Type") != "application/x-protobuf" || test.collector.names[0] != "turn" {
				t.Errorf("%s %s %v %q", r.Method, r.URL, r.Header, test.collector.names)
			}
		})
	}
}

func TestStopEndsUploads(t *testing.T) {
	t.Parallel()
	came, over := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(came)
		<-over
	}))
	defer srv.Close()
	defer close(over)
	c := otlp.New(otlp.Config{URL: srv.URL})
	done := make(chan error, 1)
	go func() { done <- c.UploadTraces(context.Background(), spans("turn")) }()
	<-came
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
