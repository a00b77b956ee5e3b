package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

	// besideObject sends the schema of json_schema beside json_object, which is how
	// llama-cpp-python takes one.
	besideObject atomic.Bool

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

// handler passes calls on. What the server breaks off is broken off for the client
// too.
func (t *tap) handler(target *url.URL) http.Handler {
	server := &http.Transport{DisableKeepAlives: true} // one that broke off a call may close the connection late
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{}
		t.mu.Lock()
		t.seen = append(t.seen, e)
		t.mu.Unlock()
		res, err := e.forward(server, target, r, t.besideObject.Load())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		maps.Copy(w.Header(), res.Header)
		e.begin(res.StatusCode)
		w.WriteHeader(res.StatusCode)
		if err := e.pass(w, res.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

func (e *exchange) forward(server http.RoundTripper, target *url.URL, r *http.Request, besideObject bool) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if besideObject {
		body = schemaBesideObject(body)
	}
	e.mu.Lock()
	e.request = body
	e.mu.Unlock()
	req, err := http.NewRequestWithContext(r.Context(), r.Method, target.JoinPath(r.URL.Path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.Header)
	return server.RoundTrip(req)
}

// sent is what is read of a request.
type sent struct {
	Format struct {
		Type string `json:"type"`
		JSON struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// schemaBesideObject writes a response format json_schema as json_object and a schema.
func schemaBesideObject(body []byte) []byte {
	var request sent
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &request) != nil || request.Format.Type != "json_schema" || json.Unmarshal(body, &fields) != nil {
		return body
	}
	fields["response_format"] = slices.Concat([]byte(`{"type":"json_object","schema":`), request.Format.JSON.Schema, []byte("}"))
	body, _ = json.Marshal(fields) // that were JSON
	return body
}

func (e *exchange) begin(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

// pass copies the answer piece by piece, as it comes.
func (e *exchange) pass(w http.ResponseWriter, body io.Reader) error {
	piece := make([]byte, 4096)
	for {
		n, err := body.Read(piece)
		e.mu.Lock()
		if room := maxSeen - e.response.Len(); room > 0 {
			e.response.Write(piece[:min(n, room)])
		}
		e.mu.Unlock()
		if _, err := w.Write(piece[:n]); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
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

// begun reports whether the server has answered with anything.
func (e *exchange) begun() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.response.Len() > 0
}

// String is the answer, shortened, for a failed check.
func (e *exchange) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("%d %q", e.status, clip(e.response.String(), 2000))
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
