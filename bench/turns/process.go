package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopTime is how long a process may take to end after SIGTERM.
const stopTime = 30 * time.Second

// startTime is how long one may take until it listens.
const startTime = 30 * time.Second

// process is a program that was started here. It is ended here, too.
type process struct {
	cmd   *exec.Cmd
	end   context.CancelFunc
	ended chan struct{}
	log   string
}

// program says what to start.
type program struct {
	args []string // a path with a slash is taken from dir
	env  []string // beside the environment of this program
	dir  string
	log  string // file for what it prints
	core []int  // where it may run; none: anywhere
}

// startProcess starts p. It gets SIGTERM when ctx ends, or by stop.
func startProcess(ctx context.Context, p program) (*process, error) {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	args := append([]string(nil), p.args...)
	if strings.Contains(args[0], "/") && !filepath.IsAbs(args[0]) {
		if args[0], err = filepath.Abs(filepath.Join(p.dir, args[0])); err != nil {
			return nil, fmt.Errorf("start %s: %w", p.args[0], err)
		}
	}
	if len(p.core) > 0 {
		args = append([]string{"taskset", "-c", coreList(p.core)}, args...)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	s := &process{cmd: cmd, end: cancel, ended: make(chan struct{}), log: p.log}
	go func() {
		_ = cmd.Wait() // what it says is in ProcessState
		close(s.ended)
	}()
	return s, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process and waits for it. A second time is nothing.
func (p *process) stop() {
	p.end()
	<-p.ended
}

// died is an error when the process has ended by itself.
func (p *process) died() error {
	select {
	case <-p.ended:
		return fmt.Errorf("process %s ended: %s, see %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, p.log)
	default:
		return nil
	}
}

// cpuSpent is what a process and its children have used that has ended.
func (p *process) cpuSpent() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// listens waits until somebody accepts connections on the port.
func (p *process) listens(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
		if err == nil {
			return conn.Close()
		}
		if died := p.died(); died != nil {
			return died
		}
		if wait := pause(ctx, time.Millisecond); wait != nil {
			return fmt.Errorf("nobody listens on port %d after %v: %w, see %s", port, startTime, err, p.log)
		}
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort finds a port below those that outgoing connections take, so that it is
// still free after a restart.
func freePort(ctx context.Context) (int, error) {
	const low, high, tries = 15000, 30000, 100
	var last error
	for range tries {
		port := low + rand.IntN(high-low)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, errors.Join(fmt.Errorf("no free port in %d tries", tries), last)
}
