package app

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/state"
)

// processPatience is how long a test waits for a process.
const processPatience = 2 * time.Minute

// redisServer starts a Redis for the test alone and returns its URL: redis-server
// where that is installed, else one within the test.
func redisServer(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "redis://" + miniredis.RunT(t).Addr()
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	store, err := state.Open(t.Context(), "redis://"+addr, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for ctx, tick := withPatience(t), time.NewTicker(20*time.Millisecond); store.Ping(ctx) != nil; <-tick.C {
		if ctx.Err() != nil {
			t.Fatal("redis-server does not answer")
		}
	}
	return "redis://" + addr
}

func withPatience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), processPatience)
	t.Cleanup(cancel)
	return ctx
}

// process is a bot in a process of its own.
type process struct {
	*testing.T
	cmd       *exec.Cmd
	lines     chan string   // of its log
	ended     chan struct{} // closed when it has
	listening string        // the line that says where
	err       error         // of its end

	mu  sync.Mutex
	log bytes.Buffer
}

// startBot starts the bot without an app id, and waits until it listens. It is
// killed when the test ends, if it did not end before.
func startBot(t *testing.T, environment ...string) *process {
	t.Helper()
	return startProcess(t, botProcess(context.WithoutCancel(t.Context()), append([]string{"PORT=0", "BOT_LOG_FORMAT=json"}, environment...)))
}

// startProcess is startBot of that command.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	cmd.Stdout = io.Discard
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{T: t, cmd: cmd, lines: make(chan string, 10_000), ended: make(chan struct{})}
	go p.follow(stderr)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.ended
		if t.Failed() {
			t.Logf("log of the bot:\n%s", p.logged())
		}
	})
	p.listening = p.until("listening")
	return p
}

// follow reads the log until the process ends.
func (p *process) follow(stderr io.Reader) {
	defer close(p.ended)
	for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
		p.mu.Lock()
		p.log.WriteString(scanner.Text() + "\n")
		p.mu.Unlock()
		p.lines <- scanner.Text()
	}
	p.err = p.cmd.Wait()
	close(p.lines)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// until waits for a line of the log with that message, and returns it.
func (p *process) until(message string) string {
	p.Helper()
	ctx := withPatience(p.T)
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				p.Fatalf("it ended (%v) before it said %q", p.err, message)
			}
			if strings.Contains(line, `"message":"`+message+`"`) {
				return line
			}
		case <-ctx.Done():
			p.Fatalf("it did not say %q", message)
		}
	}
}

func (p *process) signal(signal syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.Fatal(err)
	}
}

// stop ends the process with SIGTERM. It has to end with exit code 0; how long that
// took is returned.
func (p *process) stop() time.Duration {
	p.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	return p.end(began)
}

func (p *process) end(began time.Time) time.Duration {
	p.Helper()
	select {
	case <-p.ended:
	case <-withPatience(p.T).Done():
		p.Fatal("it does not end")
	}
	if p.err != nil {
		p.Errorf("it ended with %v", p.err)
	}
	return time.Since(began)
}
