package bot

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// gate bounds the connections of a server. When there are as many as there may be,
// the one that has been quiet for longest gives way to a new one: it has not
// delivered the headers of a request since it was opened, or since its last answer.
// So who opens connections and sends nothing, or little by little, takes them from
// itself. When none has been quiet for a moment, new ones wait until one has, or ends:
// a request that has just arrived is not cut off.
type gate struct {
	most int
	log  zerolog.Logger

	mu     sync.Mutex
	free   sync.Cond
	conns  map[net.Conn]*list.Element // in quiet; nil: a request of it is being answered
	quiet  list.List                  // of quiet, the longest so first
	closed bool
	lines  thrift
}

// leastQuiet is how long a connection may be quiet whatever happens.
const leastQuiet = 250 * time.Millisecond

// quiet is a connection without a request, and since when.
type quiet struct {
	net.Conn
	since time.Time
}

func newGate(most int, log zerolog.Logger) *gate {
	g := &gate{most: most, log: log, conns: map[net.Conn]*list.Element{}, lines: thrift{atOnce: 1, eachSecond: 1}}
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
		g.conns[c] = g.quiet.PushBack(quiet{c, time.Now()})
	case http.StateActive:
		if at := g.conns[c]; at != nil {
			g.quiet.Remove(at)
			g.conns[c] = nil
		}
	case http.StateIdle:
		if at, in := g.conns[c]; in && at == nil {
			g.conns[c] = g.quiet.PushBack(quiet{c, time.Now()})
			g.free.Signal()
		}
	case http.StateClosed, http.StateHijacked:
		g.forget(c)
		g.free.Signal()
	}
}

// makeRoom returns when one more connection may be there.
func (g *gate) makeRoom() {
	for len(g.conns) >= g.most && !g.closed {
		longest := g.quiet.Front()
		if longest == nil {
			g.free.Wait()
			continue
		}
		c := longest.Value.(quiet)
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
	if at := g.conns[c]; at != nil {
		g.quiet.Remove(at)
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
