package rdb

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/planbot-go/planbot/internal/pipe"
)

// Server is a Redis inside the process, without a listener, with the clock that its TTLs
// need. An embedded store has one of its own; tests let several stores share one, as the
// replicas of a bot do, with its Dial as the Dial of each. It is safe for concurrent use.
type Server struct {
	mini *miniredis.Miniredis
	srv  *server.Server // its; it may ask for that only until it is closed

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed when something is written; nil: nobody waits for that

	aging sync.Mutex
	aged  time.Time // up to which time has passed for TTLs
}

// StartServer starts one. Close it when nobody needs what it keeps.
func StartServer() (*Server, error) {
	s := &Server{mini: miniredis.NewMiniRedis(), aged: time.Now()}
	first, err := s.mini.Dial() // starts it without a port; its own pipe is not for pipelines
	if err != nil {
		return nil, err
	}
	if err := first.Close(); err != nil {
		return nil, err
	}
	s.srv = s.mini.Server()
	s.srv.SetPreHook(s.before)
	return s, nil
}

// Dial connects to it, whatever the address.
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

// before runs before each command, those of scripts included, under whose lock it then is.
func (s *Server) before(_ *server.Peer, cmd string, _ ...string) (done bool) {
	switch cmd {
	case "EVALSHA", "EVAL", "TIME", "BLPOP": // of these alone nothing changes for others
		return false
	}
	if s.srv.IsReadOnlyCommand(cmd) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return false
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

// aging is a connection to a server that is as old as what comes through it.
type aging struct {
	net.Conn
	s *Server
}

func (a aging) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.s.age()
	return n, err
}

// age lets time pass for TTLs, in steps of a second or more: miniredis would otherwise keep
// every key for ever, or look at all of them on every command.
func (s *Server) age() {
	s.aging.Lock()
	defer s.aging.Unlock()
	if passed := time.Since(s.aged); passed >= time.Second {
		s.mini.FastForward(passed)
		s.aged = s.aged.Add(passed)
	}
}

// Close ends the server and waits for its goroutines. What it kept is gone.
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
