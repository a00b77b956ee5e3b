package state

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe makes the two ends of a connection inside the process. Unlike those
// of net.Pipe its writes never wait: a client that writes a pipeline and a
// server that answers its first command before it has read the second would
// wait for each other for ever.
func newPipe() (client, server net.Conn) {
	there, back := newStream(), newStream()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

type pipeEnd struct{ in, out *stream }

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *pipeEnd) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

func (e *pipeEnd) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }
func (e *pipeEnd) SetReadDeadline(t time.Time) error  { e.in.setDeadline(t); return nil }
func (e *pipeEnd) SetWriteDeadline(_ time.Time) error { return nil } // writes do not wait

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in this process" }

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
