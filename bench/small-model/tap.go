package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxSeen is how much of a body is kept.
const maxSeen = 1 << 16

// tap stands between the client and the server and keeps what passes, so that a
// check can count calls and a failed one can show the bytes.
type tap struct {
	url    string
	server *http.Server
	done   chan struct{}

	mu   sync.Mutex
	seen []*exchange
}

// exchange is one call as it was on the wire.
type exchange struct {
	mu       sync.Mutex
	request  []byte
	status   int // 0 until it is answered
	response bytes.Buffer
}

// openTap listens on a free port of loopback until close.
func openTap(ctx context.Context, to string) (*tap, error) {
	target, err := url.Parse(strings.TrimRight(to, "/"))
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("-url %q is no URL of a server", to)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the client: %w", err)
	}
	t := &tap{url: "http://" + listener.Addr().String(), done: make(chan struct{})}
	t.server = &http.Server{Handler: t.handler(target), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(t.done)
		_ = t.server.Serve(listener) // ends with close
	}()
	return t, nil
}

func (t *tap) close() {
	_ = t.server.Close() // what is under way is of no more use
	<-t.done
}

func (t *tap) handler(target *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1, // streams
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		e := &exchange{request: body}
		t.mu.Lock()
		t.seen = append(t.seen, e)
		t.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(&recorder{w, e}, r)
	})
}

// since are the exchanges after the first n.
func (t *tap) since(n int) []*exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*exchange(nil), t.seen[n:]...)
}

func (t *tap) count() int { return len(t.since(0)) }

// statuses tells what was answered, in order.
func statuses(seen []*exchange) []int {
	out := make([]int, len(seen))
	for i, e := range seen {
		e.mu.Lock()
		out[i] = e.status
		e.mu.Unlock()
	}
	return out
}

// String is the answer, shortened, for a failed check.
func (e *exchange) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("%d %q", e.status, clip(e.response.String(), 2000))
}

// recorder keeps what it writes.
type recorder struct {
	http.ResponseWriter
	e *exchange
}

func (r *recorder) WriteHeader(status int) {
	r.e.mu.Lock()
	r.e.status = status
	r.e.mu.Unlock()
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.e.mu.Lock()
	if room := maxSeen - r.e.response.Len(); room > 0 {
		r.e.response.Write(p[:min(len(p), room)])
	}
	r.e.mu.Unlock()
	return r.ResponseWriter.Write(p)
}

// Unwrap lets the proxy flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
