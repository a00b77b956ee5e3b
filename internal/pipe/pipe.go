// Package pipe connects the two ends of a connection inside the process: a client of the
// embedded Redis with its server, and in tests the parts of a bot with each other.
package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// New makes the two ends of a connection. Unlike those of net.Pipe its writes
// never wait: a client that writes a pipeline and a server that answers its first
// command before it has read the second would wait for each other for ever.
func New() (client, server net.Conn) {
	return between(&net.UnixAddr{Net: "pipe", Name: "in this process"})
}

// between is New with the address of the server, which both ends show.
func between(addr net.Addr) (client, server net.Conn) {
	there, back := newStream(), newStream()
	return &end{in: back, out: there, addr: addr}, &end{in: there, out: back, addr: addr}
}

type end struct {
	in, out *stream
	addr    net.Addr
}

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *end) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

func (e *end) LocalAddr() net.Addr  { return e.addr }
func (e *end) RemoteAddr() net.Addr { return e.addr }

func (e *end) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }
func (e *end) SetReadDeadline(t time.Time) error  { e.in.setDeadline(t); return nil }
func (e *end) SetWriteDeadline(_ time.Time) error { return nil } // writes do not wait

// stream is one direction of a pipe. It holds what was written and not yet
// read, which is bounded by what the two ends have under way.
type stream struct {
	mu       sync.Mutex
	changed  sync.Cond // what follows, or the deadline has come
	buf      bytes.Buffer
	closed   bool
	deadline time.Time
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.changed.Broadcast()
	return s.buf.Write(p)
}

// read waits for bytes, the end, or the deadline.
func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case s.buf.Len() > 0 || len(p) == 0:
			return s.buf.Read(p)
		case s.closed:
			return 0, io.EOF
		}
		s.await()
	}
}

// await waits for a change or the deadline.
func (s *stream) await() {
	if !s.deadline.IsZero() {
		timer := time.AfterFunc(time.Until(s.deadline), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		})
		defer timer.Stop()
	}
	s.changed.Wait()
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.changed.Broadcast()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
}

// Listener takes connections of this process. It is safe for concurrent use.
type Listener struct {
	addr net.Addr
	come chan net.Conn

	mu     sync.Mutex
	closed bool
	over   chan struct{} // closed by Close
}

const backlog = 1024 // how many connections wait for Accept

// Listen makes a listener that shows the address, and has nothing to do with it.
func Listen(addr net.Addr) *Listener {
	return &Listener{addr: addr, come: make(chan net.Conn, backlog), over: make(chan struct{})}
}

// Dial connects to it, as a kernel does: without waiting until it accepts.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	client, server := between(l.addr)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("dial %s: %w", l.addr, ctx.Err())
	case l.closed:
		return nil, fmt.Errorf("dial %s: nobody listens", l.addr)
	}
	select {
	case l.come <- server:
		return client, nil
	default:
		return nil, fmt.Errorf("dial %s: %d connections wait already", l.addr, backlog)
	}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.come:
		return conn, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends it, and connections that nobody accepted; those that were accepted stay.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.over)
	for {
		select {
		case conn := <-l.come:
			_ = conn.Close() // never fails
		default:
			return nil
		}
	}
}

// Addr is what Listen was given.
func (l *Listener) Addr() net.Addr { return l.addr }

// Stepwise returns a connection on which requests that matter are steps: what names one, and is "" for any other. do
// sends the request and returns once its answer is there; the error of step is that of the write.
func Stepwise(conn net.Conn, what func(request []byte) string, step func(what string, do func() error) error) net.Conn {
	return &stepwise{Conn: conn, what: what, step: step}
}

type stepwise struct {
	net.Conn
	what   func([]byte) string
	step   func(string, func() error) error
	unread []byte // of the answer
}

func (s *stepwise) Write(p []byte) (n int, err error) {
	what := s.what(p)
	if what == "" {
		return s.Conn.Write(p)
	}
	err = s.step(what, func() error {
		if n, err = s.Conn.Write(p); err != nil {
			return err
		}
		answer := make([]byte, 1<<16)
		n, err := s.Conn.Read(answer) // now it is done
		s.unread = answer[:n]
		return err
	})
	return len(p), err
}

func (s *stepwise) Read(p []byte) (int, error) {
	if len(s.unread) > 0 {
		n := copy(p, s.unread)
		s.unread = s.unread[n:]
		return n, nil
	}
	return s.Conn.Read(p)
}

// Dialer opens connections.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Network connects the parts of a test in memory. The zero value is ready to use. It is safe for
// concurrent use, also by several bubbles of testing/synctest: no address is used twice.
type Network struct {
	mu        sync.Mutex
	last      int // port
	listeners map[string]*Listener
}

const firstPort = 10_000 // leaves room for the listeners of thousands of tests

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
