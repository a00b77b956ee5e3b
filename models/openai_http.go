package models

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxErrorBytes is how much of an error's body is read: enough for any message.
const maxErrorBytes = 64 << 10

// maxRetryAfter keeps an absurd wait from overflowing; callers give up far below it.
const maxRetryAfter = 30 * 24 * time.Hour

// newTransport is the pool of one model. Proxies are taken from the environment
// as everywhere (never for loopback).
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// doer carries the vendor's requests. It asks the transport directly, so nothing
// follows a redirect or keeps a cookie, reads the whole answer under a cap, and
// turns whatever is not a completion into an [*Error] while headers and body,
// which the vendor's client drops, are still at hand.
type doer struct {
	transport http.RoundTripper
	maxBytes  int64
	secret    string // kept out of errors
}

// Do sends req. Its error is an [*Error] when the server answered.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	streams, err := edit(req)
	if err != nil {
		return nil, err
	}
	res, err := d.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) // what came is enough
		return nil, d.fault(res, body)
	}
	body, err := d.read(res, streams)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if isErrorBody(body) {
		return nil, d.fault(res, body)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

func (d *doer) read(res *http.Response, streams bool) ([]byte, error) {
	if streams {
		return d.readStream(res)
	}
	return readAll(res.Body, res.ContentLength, d.maxBytes)
}

var errTooLarge = errors.New("the answer is larger than the cap")

// readAll reads to the end, so that the connection can be used again.
func readAll(r io.Reader, length, limit int64) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, min(max(length, 0), limit, 1<<16)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > limit {
		return nil, errTooLarge
	}
	return buf.Bytes(), nil
}

// isErrorBody knows the errors that some servers and routers send with status 200.
func isErrorBody(body []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"error"`)) && !bytes.Contains(body, []byte(`"choices"`))
}

// classify names what the vendor's client returned. ctx is the call's own.
func classify(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	out := &Error{Kind: Unavailable, Err: err}
	switch {
	case ctx.Err() != nil:
		out.Kind, out.Err = Timeout, ctx.Err()
	case errors.Is(err, errTooLarge):
		out.Code = CodeTooLarge
	case isVendorRefusal(err):
		out.Kind = BadRequest
		out.Code, out.Err = vendorRefusal(err)
	case isDecodeFault(err):
		out.Status, out.Code, out.Err = http.StatusOK, CodeMalformed, errors.New("the answer is not the JSON of a completion")
	}
	return out
}

// requestID is the server's id of a call, under the names that OpenAI, Azure and
// its gateways use.
func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Apim-Request-Id", "X-Ms-Request-Id"} {
		if id := h.Get(name); id != "" {
			return oneLine(id, 128)
		}
	}
	return ""
}

// retryAfter reads retry-after-ms (Azure, OpenAI), and Retry-After in seconds or
// as a date, which is taken relative to the server's own clock when it shows it.
func retryAfter(h http.Header) time.Duration {
	if wait, ok := waitIn(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait
	}
	value := h.Get("Retry-After")
	if wait, ok := waitIn(value, time.Second); ok {
		return wait
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

func waitIn(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || n != n {
		return 0, false
	}
	return time.Duration(min(max(n, 0), float64(maxRetryAfter/unit)) * float64(unit)), true
}
