// Package otlp carries spans to a collector over OTLP/HTTP in binary protobuf.
// It is the transport below OpenTelemetry's own exporter (otlptrace), which makes
// the messages; the transport that comes with that one brings gRPC along.
package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	defaultTimeout = 10 * time.Second // as the specification of the exporter has it
	maxTries       = 5
	maxAnswerBytes = 64 << 10
)

// Config says where spans go. URL is required; the zero value of every other field
// is a working default.
type Config struct {
	URL     string        // whole, such as http://localhost:4318/v1/traces
	Headers [][2]string   // of each request; may hold keys
	Timeout time.Duration // of one try. 0: 10 seconds
	Gzip    bool
	TLS     *tls.Config // nil: the system's
}

// Client is an otlptrace.Client. It is safe for concurrent use.
type Client struct {
	cfg    Config
	http   *http.Client
	ctx    context.Context // ends with Stop, and all uploads with it
	cancel context.CancelFunc
}

// New returns a client that has not connected yet.
func New(cfg Config) *Client {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	transport := http.DefaultTransport.(*http.Transport).Clone() // net/http says what it is
	transport.TLSClientConfig = cfg.TLS
	ctx, cancel := context.WithCancel(context.Background())
	return &Client{cfg: cfg, ctx: ctx, cancel: cancel, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // keys do not follow
	}}
}

// Start does nothing: the first upload connects.
func (c *Client) Start(context.Context) error { return nil }

// Stop ends all uploads, without waiting for them. It may be called again.
func (c *Client) Stop(context.Context) error {
	c.cancel()
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends the spans, again after a wait when the collector is busy or
// not reached. It ends with ctx at the latest. Errors hold the status, and nothing
// of what the collector wrote.
func (c *Client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	body, err := c.encode(spans)
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.Multiplier, pause.MaxInterval = time.Second, 2, 15*time.Second
	options := []backoff.RetryOption{backoff.WithBackOff(pause), backoff.WithMaxTries(maxTries)}
	if deadline, ok := ctx.Deadline(); ok { // which would end a wait that is longer
		options = append(options, backoff.WithMaxElapsedTime(time.Until(deadline)))
	}
	_, err = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, c.post(ctx, body) }, options...)
	return err
}

// encode writes the request for the collector, ExportTraceServiceRequest, whose
// one field has the same number and type in TracesData.
func (c *Client) encode(spans []*tracepb.ResourceSpans) ([]byte, error) {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil || !c.cfg.Gzip {
		return body, err
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, err = w.Write(body)
	err = errors.Join(err, w.Close())
	return small.Bytes(), err
}

// post is one try. Its error says, in the words of backoff, when to try again.
func (c *Client) post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "planbot")
	if c.cfg.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	for _, header := range c.cfg.Headers {
		req.Header.Set(header[0], header[1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswerBytes)) // so that the connection can be used again
	if res.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("post spans to %s: status %d", req.URL.Host, res.StatusCode)
	switch res.StatusCode { // those worth another try, as the specification lists them
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if seconds, bad := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16); bad == nil {
			return fmt.Errorf("%w: %w", err, backoff.RetryAfter(int(seconds)))
		}
		return err
	}
	return backoff.Permanent(err)
}
