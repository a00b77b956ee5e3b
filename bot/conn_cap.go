package bot

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// connCap limits the open connections of a server. At the limit it closes the one that has gone
// longest without an authenticated request, counted from when it opened or from its last answer. So
// a client that opens connections and sends nothing, sends slowly, or does not read loses its own
// connections. New connections wait until one has been quiet for a moment: a request that has just
// arrived is not cut off.
//
// netutil.LimitListener would not choose: strangers who keep connections open would lock out
// everybody, health checks included.
type connCap struct {
	most int
	log  zerolog.Logger

	mu    sync.Mutex
	conns map[net.Conn]*conn
	quiet list.List // of *conn, longest quiet first
}

const (
	leastQuiet = 250 * time.Millisecond // how long a connection may always be quiet
	roomPause  = 10 * time.Millisecond  // the time between two looks for a connection that may be closed
)

type conn struct {
	net.Conn
	serving int           // authenticated requests being answered
	at      *list.Element // in quiet; nil: not quiet
	since   time.Time     // when it became quiet
}

func newConnCap(most int, log zerolog.Logger) *connCap {
	return &connCap{most: most, log: log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Second}), conns: map[net.Conn]*conn{}}
}

// watch is the server's ConnState. The server calls it for a new connection before it accepts the
// next one.
func (k *connCap) watch(c net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		for !k.open(c) {
			time.Sleep(roomPause)
		}
	case http.StateClosed, http.StateHijacked:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.forget(c)
	}
}

// open counts a new connection, if necessary in place of another. It returns false if there is no
// room now.
func (k *connCap) open(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.conns) >= k.most {
		longest := k.quiet.Front()
		if longest == nil || time.Since(longest.Value.(*conn).since) < leastQuiet {
			return false
		}
		old := longest.Value.(*conn).Conn
		k.forget(old)
		go func() { _ = old.Close() }() // may wait for the client; its own goroutine notices
		k.log.Warn().Int("at_most", k.most).Msg("a quiet connection was closed for a new one")
	}
	k.conns[c] = &conn{Conn: c}
	k.rests(k.conns[c])
	return true
}

func (k *connCap) forget(c net.Conn) {
	if one := k.conns[c]; one != nil && one.at != nil {
		k.quiet.Remove(one.at)
	}
	delete(k.conns, c)
}

func (k *connCap) rests(one *conn) {
	one.at, one.since = k.quiet.PushBack(one), time.Now()
}

// connOf identifies a server's connection in the contexts of its requests.
type connOf struct {
	cap  *connCap
	conn net.Conn
}

type connKey struct{}

// connContext is the server's ConnContext.
func (k *connCap) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf{k, c})
}

// counting restarts the quiet time of a connection when h has answered a request.
func (k *connCap) counting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Value(connKey{}).(connOf); ok {
			defer k.count(at.conn, 0)
		}
		h.ServeHTTP(w, r)
	})
}

// keepOpen keeps the connection of an authenticated request open until done is called. On a server
// without a cap it does nothing.
func keepOpen(ctx context.Context) (done func()) {
	at, ok := ctx.Value(connKey{}).(connOf)
	if !ok {
		return func() {}
	}
	at.cap.count(at.conn, 1)
	return func() { at.cap.count(at.conn, -1) }
}

// count adds to the connection's authenticated requests, if it is still open. With none left, it is
// quiet from now on.
func (k *connCap) count(c net.Conn, requests int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.conns[c]
	if one == nil {
		return
	}
	if one.at != nil {
		k.quiet.Remove(one.at)
		one.at = nil
	}
	if one.serving += requests; one.serving == 0 {
		k.rests(one)
	}
}
