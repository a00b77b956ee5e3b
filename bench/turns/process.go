package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/planbot-go/planbot/state"
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
	port  int // that it listens on
	end   context.CancelFunc
	ended chan struct{}
}

// startProcess starts a program that listens on the port, and waits until it does. It gets
// SIGTERM when ctx ends, or by stop.
func startProcess(ctx context.Context, log string, port int, env []string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	ctx, end := context.WithCancel(ctx)
	p := &process{cmd: exec.CommandContext(ctx, args[0], args[1:]...), port: port, end: end, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = out, out, append(os.Environ(), env...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTime
	if err := p.cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		_ = p.cmd.Wait() // what it says is in ProcessState
		close(p.ended)
	}()
	for began := time.Now(); ; {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
		if err == nil {
			return p, conn.Close()
		}
		if err = cmp.Or(p.died(), pause(ctx, time.Millisecond)); err == nil && time.Since(began) > startTime {
			err = errors.New("it does not listen")
		}
		if err != nil {
			p.stop()
			return nil, fmt.Errorf("start %s: %w, see %s", args[0], err, log)
		}
	}
}

// stop ends the process and waits for it. A second time does nothing.
func (p *process) stop() {
	p.end()
	<-p.ended
}

// died is an error when the process has ended by itself.
func (p *process) died() error {
	select {
	case <-p.ended:
		return fmt.Errorf("process %s ended: %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
	default:
		return nil
	}
}

// cpuOf is the user and system time of a process; 0 without /proc.
func cpuOf(pid int) (sum time.Duration) {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The second field is the name in brackets, with any character in it.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0
	}
	for _, field := range fields[user : system+1] {
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
type bot []*process

// startBot starts replicas, which listen when it returns. The bot has to be stopped also
// when there was an error.
func (r *rig) startBot(ctx context.Context, redis *redisServer, replicas int) (b bot, err error) {
	for i := range replicas {
		port, err := freePort(ctx)
		if err != nil {
			return b, err
		}
		// What the caller has set besides stays, but for what would make the bot call
		// somebody else.
		env := []string{
			"PORT=" + strconv.Itoa(port), "BOT_ADDR=", "MICROSOFT_APP_ID=", "AZURE_OPENAI_ENDPOINT=", "BOT_FALLBACK_MODELS=",
			"OPENAI_BASE_URL=" + r.model.url, "OPENAI_API_KEY=bench", "OPENAI_MODEL=bench", "REDIS_URL=" + redis.url,
		}
		args := []string{r.Bot}
		if r.Cores != "" {
			args = []string{"taskset", "-c", r.Cores, r.Bot}
		}
		p, err := startProcess(ctx, filepath.Join(r.Out, fmt.Sprintf("bot-%d.log", i+1)), port, env, args...)
		if err != nil {
			return b, err
		}
		b = append(b, p)
	}
	return b, nil
}

// stop ends all processes, side by side.
func (b bot) stop() {
	for _, p := range b {
		p.end()
	}
	for _, p := range b {
		p.stop()
	}
}

func (b bot) urls() (urls []string) {
	for _, p := range b {
		urls = append(urls, "http://"+address(p.port)+"/api/messages")
	}
	return urls
}

func (b bot) died() error {
	var errs []error
	for _, p := range b {
		errs = append(errs, p.died())
	}
	return errors.Join(errs...)
}

func (b bot) cpu() (sum time.Duration) {
	for _, p := range b {
		sum += cpuOf(p.cmd.Process.Pid)
	}
	return sum
}

// peakMiB is the peak resident size of the largest replica; 0 without /proc.
func (b bot) peakMiB() (peak float64) {
	for _, p := range b {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)) // gone: died says so
		_, size, _ := strings.Cut(string(raw), "VmHWM:")
		kib := 0.0
		_, _ = fmt.Sscan(size, &kib)
		peak = max(peak, kib/1024)
	}
	return peak
}

// redisServer is a Redis of one cell alone, which keeps nothing on disk.
type redisServer struct {
	process *process
	url     string
	store   *state.Store
}

func (r *rig) startRedis(ctx context.Context) (*redisServer, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, filepath.Join(r.Out, "redis.log"), port, nil,
		"redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", r.dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	s := &redisServer{process: p, url: "redis://" + address(port) + "/0"}
	if s.store, err = state.Open(ctx, s.url, state.Config{}); err != nil {
		p.stop()
		return nil, err
	}
	return s, nil
}

func (s *redisServer) stop() {
	_ = s.store.Close() // nothing is on its way
	s.process.stop()
}

// stats are what Redis counts: reads of its sockets, and commands.
func (s *redisServer) stats(ctx context.Context) (reads, commands int64, err error) {
	info, err := s.store.Info(ctx)
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
