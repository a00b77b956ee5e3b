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
// the one that has been quiet for longest gives way to a new one: it has not
// delivered the headers of a request since it was opened, or since its last answer
// was there to be read. So who opens connections and sends nothing, or little by little,
// or does not read, takes them from itself. When none has been quiet for a moment, new
// ones wait until one has, or ends: a request that has just arrived is not cut off.
type gate struct {
	most int
	log  zerolog.Logger

	mu     sync.Mutex
	free   sync.Cond
	conns  map[net.Conn]*guest
	quiet  list.List // of *guest, the longest so first
	closed bool
	lines  thrift
}

// leastQuiet is how long a connection may be quiet whatever happens.
const leastQuiet = 250 * time.Millisecond

// guest is a connection.
type guest struct {
	net.Conn
	requests int           // that are being answered
	at       *list.Element // in quiet; nil: it is not
	since    time.Time     // of that
}

func newGate(most int, log zerolog.Logger) *gate {
	g := &gate{most: most, log: log, conns: map[net.Conn]*guest{}, lines: thrift{atOnce: 1, eachSecond: 1}}
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

// connection is the key of a request's connection in its context.
type connection struct{}

// introduce is the server's ConnContext.
func introduce(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c)
}

// around lets connections be quiet but for the time in which h answers a request of them.
func (g *gate) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connection{}).(net.Conn)
		g.add(c, 1)
		defer g.add(c, -1)
		h.ServeHTTP(w, r)
	})
}

// add counts the requests of the connection, if it is still there.
func (g *gate) add(c net.Conn, requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.conns[c]
	if one == nil {
		return
	}
	one.requests += requests
	switch {
	case one.requests == 0:
		g.rests(one)
		g.free.Signal()
	case one.at != nil:
		g.quiet.Remove(one.at)
		one.at = nil
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
		_ = c.Close() // its own goroutine notices
		if write, unsaid := g.lines.next(time.Now()); write {
			g.log.Warn().Int("at_most", g.most).Int("others_before", unsaid).Msg("a quiet connection was closed for a new one")
		}
	}
}

// await returns when something has changed, or after the time at most.
func (g *gate) await(atMost time.Duration) {
	timer := time.AfterFunc(atMost, g.free.Broadcast)
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
