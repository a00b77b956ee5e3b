package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// redisTimeout bounds a command of the rig itself.
const redisTimeout = 10 * time.Second

// redisServer is a Redis of this run alone. One goroutine uses it.
type redisServer struct {
	process *process
	port    int
	conn    net.Conn
	answers *bufio.Reader
}

// redisStats is what Redis counts.
type redisStats struct {
	reads    int64 // of its sockets: a pipeline of up to 16 KiB is one
	commands int64 // those that scripts run included
	bytes    int64 // in and out
	memory   int64 // in use, bytes
}

func (r *rig) startRedis(ctx context.Context) (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server has to be installed (Debian: apt-get install redis-server): %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	aof := "no"
	if r.aof {
		aof = "yes"
	}
	s := &redisServer{port: port}
	s.process, err = startProcess(ctx, program{
		args: []string{
			"redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", r.dir,
			"--save", "", "--appendonly", aof, "--appendfsync", "everysec",
		},
		log: r.path("redis.log"), core: r.cores.load,
	})
	if err != nil {
		return nil, err
	}
	if err := s.process.listens(ctx, port); err != nil {
		return s, err
	}
	if s.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address(port)); err != nil {
		return s, fmt.Errorf("connect to Redis: %w", err)
	}
	s.answers = bufio.NewReader(s.conn)
	return s, nil
}

// close ends the server. A nil one is closed.
func (s *redisServer) close() {
	if s == nil {
		return
	}
	if s.conn != nil {
		_ = s.conn.Close() // nothing is on its way
	}
	s.process.stop()
}

func (s *redisServer) url() string { return "redis://" + address(s.port) + "/0" }

// flush empties the database.
func (s *redisServer) flush() error {
	_, err := s.do("FLUSHALL")
	return err
}

func (s *redisServer) stats() (redisStats, error) {
	info, err := s.do("INFO")
	if err != nil {
		return redisStats{}, err
	}
	numbers := map[string]int64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			numbers[name] = n
		}
	}
	if _, there := numbers["total_reads_processed"]; !there {
		return redisStats{}, errors.New("this redis-server does not count total_reads_processed: it has to be 6.0 or newer")
	}
	return redisStats{
		reads: numbers["total_reads_processed"], commands: numbers["total_commands_processed"],
		bytes:  numbers["total_net_input_bytes"] + numbers["total_net_output_bytes"],
		memory: numbers["used_memory"],
	}, nil
}

// do sends one command without spaces in its words and returns what Redis answers.
func (s *redisServer) do(command string) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("redis %s: %w", command, err) }
	if err := s.conn.SetDeadline(time.Now().Add(redisTimeout)); err != nil {
		return fail(err)
	}
	if _, err := io.WriteString(s.conn, command+"\r\n"); err != nil {
		return fail(err)
	}
	line, err := s.answers.ReadString('\n')
	if err != nil {
		return fail(err)
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "-"):
		return fail(errors.New(line))
	case !strings.HasPrefix(line, "$"):
		return line, nil
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return fail(fmt.Errorf("answer %q", line))
	}
	raw := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(s.answers, raw); err != nil {
		return fail(err)
	}
	return string(raw[:size]), nil
}
