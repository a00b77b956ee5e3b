package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"time"
)

// Limits on what a client of the stand-in may hold on to.
const (
	sessionTimeout = 10 * time.Second
	maxMail        = 1 << 20 // bytes, of a whole session
)

// standIn is a mail server for trying things out: it takes mails on a port of
// this machine, one client after the other, and delivers none of them.
type standIn struct {
	listener net.Listener
	got      func(envelope []string, mail string)
	ended    chan struct{}
}

// startStandIn starts one that calls got with each mail. Close it.
func startStandIn(ctx context.Context, got func(envelope []string, mail string)) (*standIn, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the stand-in for a mail server: %w", err)
	}
	s := &standIn{listener: listener, got: got, ended: make(chan struct{})}
	go s.serve()
	return s, nil
}

func (s *standIn) addr() string { return s.listener.Addr().String() }

// close ends the server, after the session that is at work.
func (s *standIn) close() {
	_ = s.listener.Close() // it has no other clients
	<-s.ended
}

func (s *standIn) serve() {
	defer close(s.ended)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(sessionTimeout)) // fails only for a connection that is gone
		s.session(conn)
		_ = conn.Close()
	}
}

// session speaks as much SMTP as [net/smtp] does without extensions.
func (s *standIn) session(conn net.Conn) {
	in := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, maxMail)))
	say := func(line string) { fmt.Fprint(conn, line+"\r\n") }
	say("220 stand-in")
	var envelope []string
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		switch verb, _, _ := strings.Cut(strings.ToUpper(line), " "); verb {
		case "EHLO", "HELO", "NOOP":
			say("250 ok")
		case "MAIL", "RCPT":
			envelope = append(envelope, line)
			say("250 ok")
		case "RSET":
			envelope = nil
			say("250 ok")
		case "DATA":
			say("354 end with a dot")
			mail, err := io.ReadAll(in.DotReader())
			if err != nil {
				return
			}
			s.got(envelope, string(mail))
			envelope = nil
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("502 not here")
		}
	}
}
