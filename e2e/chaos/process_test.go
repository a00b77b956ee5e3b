//go:build linux

package chaos_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
	"github.com/planbot-go/planbot/internal/testing/ci"
)

// startsWithin is how long a process may take until it answers.
const startsWithin = time.Minute

// port is a loopback port that stays this test's own while nobody listens on it.
type port struct{ addr *net.TCPAddr }

// newPort holds a port with a socket that never listens: servers that allow
// addresses to be used again may, one after another.
func newPort(t *testing.T) *port {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return &port{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}}
}

func (p *port) String() string { return p.addr.String() }

// process is a program that runs in a group of its own and ends with the test,
// also when that is cut off.
type process struct {
	cmd   *exec.Cmd
	lines chan string   // of its log, until the first reader leaves
	heir  chan struct{} // full when it has taken a turn over from a process that is gone
	ended chan struct{} // closed when it is gone
	code  int           // then, -1 after a signal
}

// run starts a program whose output goes to a file.
func run(t *testing.T, log string, env []string, name string, args ...string) *process {
	t.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(name, args...), lines: make(chan string, 64), heir: make(chan struct{}, 1), ended: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	read, write := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	var copied sync.WaitGroup
	copied.Go(func() { p.follow(read, file) })
	go func() {
		_ = p.cmd.Wait() // the code is looked at
		_ = write.Close()
		copied.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	return p
}

// follow copies the output, and offers its lines to whom it may concern.
func (p *process) follow(from io.Reader, to io.WriteCloser) {
	defer to.Close()
	defer close(p.lines)
	for lines := bufio.NewScanner(from); lines.Scan(); {
		fmt.Fprintln(to, lines.Text())
		if strings.Contains(lines.Text(), "turn taken over") {
			select {
			case p.heir <- struct{}{}:
			default:
			}
		}
		select {
		case p.lines <- lines.Text():
		default:
		}
	}
}

// kill ends the process at once, stopped or not, and waits for that.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) } // gone: as well

// redis is a redis-server of the test's own.
type redis struct {
	*process
	port *port
	dir  string
}

func newRedis(t *testing.T) *redis {
	t.Helper()
	r := &redis{port: newPort(t), dir: t.ArtifactDir()}
	r.start(t)
	return r
}

// start starts the server, which reads what it wrote before. It writes down each
// change before it answers: what it said is done stays done.
func (r *redis) start(t *testing.T) {
	t.Helper()
	r.startWith(t, "--appendonly", "yes")
}

func (r *redis) startWith(t *testing.T, more ...string) {
	t.Helper()
	_, number, _ := net.SplitHostPort(r.port.String())
	args := []string{
		"--port", number, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
	}
	r.process = run(t, filepath.Join(r.dir, "redis.log"), nil, "redis-server", append(args, more...)...)
	r.until(t, "PING", "PONG")
}

// until repeats a command until the server's answer has these words.
func (r *redis) until(t *testing.T, command, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startsWithin)
	defer cancel()
	for !strings.Contains(r.answer(ctx, command), words) {
		if ctx.Err() != nil {
			t.Fatalf("redis-server does not answer %s with %s", command, words)
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// answer is what the server answers to a command, "" for nothing.
func (r *redis) answer(ctx context.Context, command string) string {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.port.String())
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // of a connection that is open
	fmt.Fprintf(conn, "%s\r\nQUIT\r\n", command)
	text, _ := io.ReadAll(conn)
	return string(text)
}

// replica is one place for a bot, with a process in it at most times.
type replica struct {
	name string
	bin  string
	env  []string
	dir  string

	mu      sync.Mutex
	process *process
	url     string
}

// start starts a process, on a port of its own choice.
func (r *replica) start(t *testing.T) {
	t.Helper()
	p := run(t, filepath.Join(r.dir, r.name+".log"), r.env, r.bin)
	url := listening(t, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.url = p, url
}

// listening waits for the bot to say where it listens.
func listening(t *testing.T, p *process) (url string) {
	t.Helper()
	late := time.After(startsWithin)
	for {
		select {
		case line, ok := <-p.lines:
			var said struct{ Message, URL string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Message == "listening" {
				return said.URL
			}
			if !ok {
				t.Fatal("the bot ended before it listened; -artifacts keeps its log")
			}
		case <-late:
			t.Fatal("the bot does not listen; -artifacts keeps its log")
		}
	}
}

func (r *replica) address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.url
}

func (r *replica) current() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// worlds is how many tests run at once: they wait much more than they work.
const worlds = 3

// built is the bot that the tests try.
var built = builtbot.New("../..")

func TestMain(m *testing.M) {
	flag.Parse()
	briefly = cmp.Or(*loadFor, 5*time.Second)
	if *loadFor == 0 {
		*loadFor = 3 * time.Second
		if ci.Runs() {
			*loadFor = 15 * time.Second
		}
	}
	if atOnce := flag.Lookup("test.parallel"); atOnce.Value.String() == atOnce.DefValue && runtime.GOMAXPROCS(0) < worlds {
		_ = flag.Set("test.parallel", strconv.Itoa(worlds)) // of a flag that is there
	}
	code := m.Run()
	os.Exit(code)
}
