package rdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/planbot-go/planbot/internal/pipe"
)

// Server is a Redis inside the process. It has no listener, and a clock for TTLs. Each embedded
// store has its own. Tests let several stores share one, as the replicas of a bot do, by using its
// Dial as the Dial of each store. It is safe for concurrent use.
type Server struct {
	mini interface { // a miniredis.Miniredis; see DB
		RequireAuth(password string)
		FastForward(passed time.Duration)
		Close()
	}
	srv interface { // mini's server; mini gives it out only until it is closed
		ServeConn(conn net.Conn)
		IsReadOnlyCommand(cmd string) bool
	}

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed at the next write; nil: nobody waits for one

	aging sync.Mutex
	aged  time.Time // the time up to which TTLs have advanced
}

// StartServer starts a Server. Close it when its data is no longer needed.
func StartServer() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	s := &Server{mini: mini, aged: time.Now()}
	first, err := mini.Dial() // starts the server without a port; miniredis's own pipe cannot pipeline
	if err != nil {
		return nil, err
	}
	if err := first.Close(); err != nil {
		return nil, err
	}
	srv := mini.Server()
	s.srv = srv
	srv.SetPreHook(func(_ *server.Peer, cmd string, _ ...string) (done bool) {
		s.before(cmd)
		return false
	})
	return s, nil
}

// Dial connects to the server and ignores the address.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("embedded redis is closed")
	}
	client, server := pipe.New()
	s.srv.ServeConn(aging{server, s})
	return client, nil
}

// Serve serves connections of other processes that know the password, until ctx ends. It closes the
// listener. Dial needs the password from then on, too.
func (s *Server) Serve(ctx context.Context, l net.Listener, password string) error {
	s.mini.RequireAuth(password)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve the embedded redis: %w", err)
		}
		s.srv.ServeConn(aging{conn, s})
	}
}

// before runs before each command, including those of scripts, and under their lock.
func (s *Server) before(cmd string) {
	switch cmd {
	case "EVALSHA", "EVAL", "TIME", "BLPOP": // none of these changes data by itself
		return
	}
	if s.srv.IsReadOnlyCommand(cmd) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait returns a channel that is closed at the next write.
func (s *Server) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// aging is a connection that advances the server's clock whenever data comes in.
type aging struct {
	net.Conn
	s *Server
}

func (a aging) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.s.age()
	return n, err
}

// age advances the clock for TTLs in steps of at least a second. Without it miniredis would never
// expire keys; with smaller steps it would check all keys on every command.
func (s *Server) age() {
	s.aging.Lock()
	defer s.aging.Unlock()
	if passed := time.Since(s.aged); passed >= time.Second {
		s.mini.FastForward(passed)
		s.aged = s.aged.Add(passed)
	}
}

// Close stops the server and waits for its goroutines. Its data is lost.
func (s *Server) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	s.mini.Close()
}
