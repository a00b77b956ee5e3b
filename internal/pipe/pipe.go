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
func New() (client, server net.Conn) { return between(Addr{}) }

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

// Addr is the address of an end that has no other.
type Addr struct{}

// Network is "pipe".
func (Addr) Network() string { return "pipe" }

func (Addr) String() string { return "in this process" }

// stream is one direction of a pipe. It holds what was written and not yet
// read, which is bounded by what the two ends have under way.
type stream struct {
	wake chan struct{} // something changed: look again

	mu       sync.Mutex
	buf      bytes.Buffer
	closed   bool
	deadline time.Time
}

func newStream() *stream { return &stream{wake: make(chan struct{}, 1)} }

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.signal()
	return s.buf.Write(p)
}

// read waits for bytes, the end, or the deadline. One reader at a time.
func (s *stream) read(p []byte) (int, error) {
	for {
		n, deadline, err := s.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		s.wait(deadline)
	}
}

func (s *stream) take(p []byte) (n int, deadline time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
		return 0, s.deadline, os.ErrDeadlineExceeded
	case s.buf.Len() > 0:
		n, err = s.buf.Read(p)
	case s.closed:
		return 0, s.deadline, io.EOF
	}
	return n, s.deadline, err
}

func (s *stream) wait(deadline time.Time) {
	if deadline.IsZero() {
		<-s.wake
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-s.wake:
	case <-timer.C:
	}
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.signal()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

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
