package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// redis is one connection that all callers share: one goroutine writes what is
// asked, as much at once as is there, another reads the answers in order.
type redis struct {
	asked chan *question
}

type question struct {
	args   []string
	answer []byte
	err    error
	done   chan struct{}
}

// dialRedis connects. The connection lasts as long as the process; when it
// breaks, every call fails.
func dialRedis(ctx context.Context, addr string) (*redis, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	r := &redis{asked: make(chan *question, 1024)}
	sent := make(chan *question, 4096)
	go r.write(conn, sent)
	go read(conn, sent)
	return r, nil
}

func (r *redis) write(conn io.Writer, sent chan<- *question) {
	w := bufio.NewWriterSize(conn, 64<<10)
	for q := range r.asked {
		fmt.Fprintf(w, "*%d\r\n", len(q.args))
		for _, arg := range q.args {
			fmt.Fprintf(w, "$%d\r\n%s\r\n", len(arg), arg)
		}
		sent <- q
		if len(r.asked) == 0 {
			_ = w.Flush() // the reader learns it when it fails
		}
	}
}

func read(conn io.Reader, sent <-chan *question) {
	r := bufio.NewReaderSize(conn, 64<<10)
	var broken error
	for q := range sent {
		if q.err = broken; broken == nil {
			q.answer, q.err = readAnswer(r)
		}
		var said answerError
		if q.err != nil && !errors.As(q.err, &said) {
			broken = q.err
		}
		close(q.done)
	}
}

// answerError is an error that Redis answers with; the connection is whole.
type answerError string

func (e answerError) Error() string { return string(e) }

func readAnswer(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, io.ErrUnexpectedEOF
	}
	rest := line[1 : len(line)-2]
	switch line[0] {
	case '+', ':':
		return []byte(rest), nil
	case '-':
		return nil, answerError(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err // -1: no value
		}
		raw := make([]byte, n+2)
		_, err = io.ReadFull(r, raw)
		return raw[:n], err
	default:
		return nil, fmt.Errorf("unexpected answer %q", line)
	}
}

// do runs one command; nil without an error is no value.
func (r *redis) do(ctx context.Context, args ...string) ([]byte, error) {
	q := &question{args: args, done: make(chan struct{})}
	select {
	case r.asked <- q:
	case <-ctx.Done():
		return nil, fmt.Errorf("redis %s: %w", args[0], ctx.Err())
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("redis %s: %w", args[0], ctx.Err())
	}
	if q.err != nil {
		return nil, fmt.Errorf("redis %s: %w", args[0], q.err)
	}
	return q.answer, nil
}
