package bottest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/planbot-go/planbot/internal/pipe"
)

// dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// netDial is the dialer of the machine.
func netDial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// wires connect the parts of a kit: over memory in a bubble, else over loopback.
type wires struct {
	inMemory bool

	mu        sync.Mutex
	listeners map[string]*pipe.Listener
}

func newWires(inMemory bool) *wires {
	return &wires{inMemory: inMemory, listeners: map[string]*pipe.Listener{}}
}

// listen opens an address, which looks like one of loopback in any case: bots without
// an app id take no other.
func (w *wires) listen(ctx context.Context) (net.Listener, error) {
	if !w.inMemory {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	const firstPort = 40_000
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstPort + len(w.listeners)}
	l := pipe.Listen(addr)
	w.listeners[addr.String()] = l
	return l, nil
}

func (w *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !w.inMemory {
		return netDial(ctx, network, addr)
	}
	w.mu.Lock()
	l := w.listeners[addr]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("dial " + addr + ": nobody listens there, and no connection leads out of the bubble")
	}
	return l.Dial(ctx)
}

func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.listeners {
		_ = l.Close() // it never fails
	}
}

// cable is the way of one process to others. It can be cut: whoever uses it is then as
// good as dead.
type cable struct {
	to dialer

	mu    sync.Mutex
	isCut bool
	conns map[*onCable]struct{}
}

func newCable(to dialer) *cable { return &cable{to: to, conns: map[*onCable]struct{}{}} }

var errCut = errors.New("the connection was cut by the test")

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.dead() {
		return nil, errCut
	}
	conn, err := c.to(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	on := &onCable{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	c.conns[on] = struct{}{}
	return on, nil
}

func (c *cable) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isCut
}

// cut breaks all connections and lets no other come.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for on := range c.conns {
		_ = on.Conn.Close() // broken either way
	}
	clear(c.conns)
}

// mend lets connections come again.
func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}

// onCable is a connection that the cable knows until it is closed.
type onCable struct {
	net.Conn
	cable *cable
}

func (o *onCable) Close() error {
	o.cable.mu.Lock()
	delete(o.cable.conns, o)
	o.cable.mu.Unlock()
	return o.Conn.Close()
}
