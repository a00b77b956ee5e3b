package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	stopTime  = 30 * time.Second // until a process has ended after SIGTERM
	startTime = 30 * time.Second // until a process listens
	// tick is the unit of CPU times in /proc, the same on all of Linux' platforms.
	tick = 10 * time.Millisecond
)

// process is a program that was started here, and is ended here.
type process struct {
	cmd   *exec.Cmd
	end   context.CancelFunc
	ended chan struct{}
	log   string
}

// startProcess starts a program that listens on the port, and waits until it does. It gets
// SIGTERM when ctx ends, or by stop.
func startProcess(ctx context.Context, log string, port int, env []string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	p := &process{cmd: cmd, end: cancel, ended: make(chan struct{}), log: log}
	go func() {
		_ = cmd.Wait() // what it says is in ProcessState
		close(p.ended)
	}()
	if err := p.listens(ctx, port); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
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

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process and waits for it. A second time does nothing.
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

// processCPU is the user and system time of a process; 0 without /proc.
func processCPU(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the name in brackets, with any character in it.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, _ := strconv.ParseInt(field, 10, 64) // a number, by proc(5)
		sum += time.Duration(ticks) * tick
	}
	return sum
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// bot is the running replicas of the bot.
type bot struct {
	replicas []*process
	urls     []string
}

// startBot starts replicas, which listen when it returns. The bot has to be stopped also
// when there was an error.
func (r *rig) startBot(ctx context.Context, replicas int) (*bot, error) {
	b := &bot{}
	for i := range replicas {
		port, err := freePort(ctx)
		if err != nil {
			return b, err
		}
		// What the caller has set besides stays, but for what would make the bot call
		// somebody else.
		env := []string{
			"PORT=" + strconv.Itoa(port), "BOT_ADDR=", "MICROSOFT_APP_ID=", "AZURE_OPENAI_ENDPOINT=", "BOT_FALLBACK_MODELS=",
			"OPENAI_BASE_URL=" + r.model.url, "OPENAI_API_KEY=bench", "OPENAI_MODEL=bench", "REDIS_URL=redis://" + r.redis.address + "/0",
		}
		args := []string{r.binary}
		if r.cores != "" {
			args = []string{"taskset", "-c", r.cores, r.binary}
		}
		p, err := startProcess(ctx, filepath.Join(r.out, fmt.Sprintf("bot-%d.log", i+1)), port, env, args...)
		if err != nil {
			return b, err
		}
		b.replicas = append(b.replicas, p)
		b.urls = append(b.urls, "http://"+address(port)+"/api/messages")
	}
	return b, nil
}

// stop ends all processes, side by side.
func (b *bot) stop() {
	for _, p := range b.replicas {
		p.end()
	}
	for _, p := range b.replicas {
		p.stop()
	}
}

func (b *bot) died() error {
	var errs []error
	for _, p := range b.replicas {
		errs = append(errs, p.died())
	}
	return errors.Join(errs...)
}

func (b *bot) cpu() (sum time.Duration) {
	for _, p := range b.replicas {
		sum += processCPU(p.pid())
	}
	return sum
}

// peakMiB is the peak resident size of the largest replica; 0 without /proc.
func (b *bot) peakMiB() (peak float64) {
	for _, p := range b.replicas {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid())) // gone: died says so
		for line := range strings.Lines(string(raw)) {
			if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 64) // a number, by proc(5)
				peak = max(peak, kib/1024)
			}
		}
	}
	return peak
}

// redisServer is a Redis of this run alone, which keeps nothing on disk. One goroutine
// uses it.
type redisServer struct {
	process *process
	address string
	conn    net.Conn
	answers *bufio.Reader
}

func startRedis(ctx context.Context, dir, logs string) (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server has to be installed (Debian: apt-get install redis-server): %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, filepath.Join(logs, "redis.log"), port, nil,
		"redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	return &redisServer{p, address(port), conn, bufio.NewReader(conn)}, nil
}

func (s *redisServer) close() {
	_ = s.conn.Close() // nothing is on its way
	s.process.stop()
}

// stats are what Redis counts: reads of its sockets, and commands.
func (s *redisServer) stats() (reads, commands int64, err error) {
	info, err := s.do("INFO")
	if err != nil {
		return 0, 0, err
	}
	numbers := map[string]int64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		numbers[name], _ = strconv.ParseInt(value, 10, 64) // 0: not a number
	}
	if numbers["total_reads_processed"] == 0 {
		return 0, 0, errors.New("this redis-server does not count total_reads_processed: it has to be 6.0 or newer")
	}
	return numbers["total_reads_processed"], numbers["total_commands_processed"], nil
}

// do sends one command without spaces in its words and returns what Redis answers.
func (s *redisServer) do(command string) (answer string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("redis %s: %w", command, err)
		}
	}()
	if err := s.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(s.conn, command+"\r\n"); err != nil {
		return "", err
	}
	line, err := s.answers.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "-"):
		return "", errors.New(line)
	case !strings.HasPrefix(line, "$"):
		return line, nil
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return "", fmt.Errorf("answer %q", line)
	}
	raw := make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(s.answers, raw)
	return string(raw[:size]), err
}
