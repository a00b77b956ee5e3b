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

// gate bounds the connections of a server. When there are as many as there may be,
// the one that has been quiet for longest gives way to a new one: since it was opened,
// or since its last answer was there to be read, it has brought nobody whom the door let
// in. So who opens connections and sends nothing, or little by little, or does not read,
// takes them from himself. When none has been quiet for a moment, new ones wait until one
// has, or ends: a request that has just arrived is not cut off.
type gate struct {
	most int
	log  zerolog.Logger

	mu     sync.Mutex
	free   sync.Cond
	conns  map[net.Conn]*guest
	quiet  list.List // of *guest, the longest so first
	closed bool
	lines  lineLimit
}

// leastQuiet is how long a connection may be quiet whatever happens.
const leastQuiet = 250 * time.Millisecond

// guest is a connection.
type guest struct {
	net.Conn
	visitors int           // whose requests are being answered
	at       *list.Element // in quiet; nil: it is not
	since    time.Time     // of that
}

func newGate(most int, log zerolog.Logger) *gate {
	g := &gate{most: most, log: log, conns: map[net.Conn]*guest{}, lines: lineLimit{atOnce: 1, eachSecond: 1}}
	g.free.L = &g.mu
	return g
}

// watch is the server's ConnState, which it calls for a new connection before it
// accepts the next one.
func (g *gate) watch(c net.Conn, now http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now {
	case http.StateNew:
		g.makeRoom()
		g.conns[c] = &guest{Conn: c}
		g.rests(g.conns[c])
	case http.StateClosed, http.StateHijacked:
		g.forget(c)
		g.free.Signal()
	}
}

// seat is a connection of a server, in the contexts of its requests.
type seat struct {
	gate *gate
	conn net.Conn
}

type seatKey struct{}

// introduce is the server's ConnContext.
func (g *gate) introduce(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, seatKey{}, seat{g, c})
}

// around notes when h has answered a request of a connection.
func (g *gate) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Value(seatKey{}).(seat); ok {
			defer g.count(at.conn, 0)
		}
		h.ServeHTTP(w, r)
	})
}

// takeSeat keeps the connection of a visitor's request from giving way, until it is left.
// On a server without a gate it does nothing.
func takeSeat(ctx context.Context) (leave func()) {
	at, ok := ctx.Value(seatKey{}).(seat)
	if !ok {
		return func() {}
	}
	at.gate.count(at.conn, 1)
	return func() { at.gate.count(at.conn, -1) }
}

// count adds to the visitors of the connection, if it is still there. It is quiet, from
// now on, when it has none.
func (g *gate) count(c net.Conn, visitors int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.conns[c]
	if one == nil {
		return
	}
	if one.at != nil {
		g.quiet.Remove(one.at)
		one.at = nil
	}
	if one.visitors += visitors; one.visitors == 0 {
		g.rests(one)
		g.free.Signal()
	}
}

func (g *gate) rests(one *guest) {
	one.at, one.since = g.quiet.PushBack(one), time.Now()
}

// makeRoom returns when one more connection may be there.
func (g *gate) makeRoom() {
	for len(g.conns) >= g.most && !g.closed {
		longest := g.quiet.Front()
		if longest == nil {
			g.free.Wait()
			continue
		}
		c := longest.Value.(*guest)
		if more := leastQuiet - time.Since(c.since); more > 0 {
			g.await(more)
			continue
		}
		g.forget(c.Conn)
		g.mu.Unlock() // closing may wait for the client
		g.turnOut(c.Conn)
		g.mu.Lock()
	}
}

func (g *gate) turnOut(c net.Conn) {
	_ = c.Close() // its own goroutine notices
	if write, unsaid := g.lines.next(time.Now()); write {
		g.log.Warn().Int("at_most", g.most).Int("others_before", unsaid).Msg("a quiet connection was closed for a new one")
	}
}

// await returns when something has changed, or after the time at most.
func (g *gate) await(atMost time.Duration) {
	timer := time.AfterFunc(atMost, func() {
		g.mu.Lock() // not before it is waited for
		defer g.mu.Unlock()
		g.free.Broadcast()
	})
	defer timer.Stop()
	g.free.Wait()
}

func (g *gate) forget(c net.Conn) {
	if one := g.conns[c]; one != nil && one.at != nil {
		g.quiet.Remove(one.at)
	}
	delete(g.conns, c)
}

// close lets nobody wait any more: the server accepts no connections.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.free.Broadcast()
}
