package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Listener takes connections of this process. It is safe for concurrent use.
type Listener struct {
	addr net.Addr
	come chan net.Conn
	over chan struct{}
	once sync.Once
}

// Listen makes a listener that shows the address, and has nothing to do with it.
func Listen(addr net.Addr) *Listener {
	return &Listener{addr: addr, come: make(chan net.Conn), over: make(chan struct{})}
}

// Dial connects to it, and waits until it accepts.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := between(l.addr)
	select {
	case l.come <- server:
		return client, nil
	case <-l.over:
		return nil, fmt.Errorf("dial %s: %w", l.addr, errRefused)
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", l.addr, ctx.Err())
	}
}

var errRefused = errors.New("nobody listens")

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.come:
		return conn, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends it; connections that were accepted stay.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

// Addr is what Listen was given.
func (l *Listener) Addr() net.Addr { return l.addr }
