package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Dialer opens connections.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Network connects the parts of a test in memory. The zero value is ready to use. It is safe for
// concurrent use, also by several bubbles of testing/synctest: no address is used twice.
type Network struct {
	mu        sync.Mutex
	last      int // port
	listeners map[string]*Listener
}

// firstPort leaves room for the listeners of thousands of tests.
const firstPort = 10_000

// Listen opens an address. It looks like loopback, because bots without an app id accept no other.
func (n *Network) Listen() *Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.last, n.listeners = firstPort, map[string]*Listener{}
	}
	n.last++
	l := Listen(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.last})
	n.listeners[l.addr.String()] = l
	return l
}

// Dial connects to an address that Listen opened.
func (n *Network) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: nobody listens there, and no connection leads out of the test's network", addr)
	}
	return l.Dial(ctx)
}

// Close closes all listeners.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		_ = l.Close() // never fails
	}
}

// Cable connects one process to others. Cutting it makes the process as good as dead. It is safe
// for concurrent use.
type Cable struct {
	to   Dialer
	copy io.Writer

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

// NewCable leads to where the dialer leads. What goes there is also written to sent, unless that is
// nil.
func NewCable(to Dialer, sent io.Writer) *Cable { return &Cable{to: to, copy: sent} }

var errCut = errors.New("the connection was cut by the test")

// Dial opens a connection that Cut breaks.
func (c *Cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.to(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	c.conns = append(c.conns, conn)
	if c.copy != nil {
		return copied{conn, c.copy}, nil
	}
	return conn, nil
}

// copied is a connection of which what is sent is kept.
type copied struct {
	net.Conn
	to io.Writer
}

func (c copied) Write(b []byte) (int, error) {
	_, _ = c.to.Write(b) // the test's own
	return c.Conn.Write(b)
}

// Cut breaks all connections and refuses new ones, or allows them again.
func (c *Cable) Cut(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = yes
	if yes {
		for _, conn := range c.conns {
			_ = conn.Close() // broken either way
		}
		c.conns = nil
	}
}
