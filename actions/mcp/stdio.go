package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxNoise      = 200     // characters of a line in the log
	maxNoiseLines = 10      // a second
	maxStderr     = 4 << 10 // bytes a second
	writeTimeout  = 10 * time.Second
	endPause      = time.Second
	pipesAfterEnd = time.Second
)

// inherited are the variables that a server gets from the bot's environment.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// stdioTransport runs a server as a process. It is for one connection.
type stdioTransport struct {
	command []string
	dir     string
	env     map[string]string
	log     zerolog.Logger
}

func (t *stdioTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	cmd := exec.Command(t.command[0], t.command[1:]...) //nolint:gosec,noctx // the operator's; it ends with the session
	cmd.Dir, cmd.Env = t.dir, []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range t.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	said := &stderr{log: t.log}
	cmd.Stderr = said
	cmd.WaitDelay = pipesAfterEnd
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &process{
		cmd:   cmd,
		stdin: stdin,
		lines: bufio.NewReaderSize(stdout, maxStderr),
		said:  said,
		log:   t.log,
		noise: rate.NewLimiter(maxNoiseLines, maxNoiseLines),
	}
	conn, err := (&sdk.IOTransport{Reader: io.NopCloser(p), Writer: p, MaxLineLength: maxBody}).Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &noted{Connection: conn, process: p, writing: make(chan struct{}, 1), open: map[jsonrpc.ID]*exchange{}}, nil
}

// process is a server that runs. What it writes to stdout and is no message is logged and left out.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   zerolog.Logger

	said  *stderr
	lines *bufio.Reader
	rest  []byte // of the current line
	noise *rate.Limiter
	once  sync.Once
}

// Write writes a message, or ends the process's input: half a message cannot be taken back.
func (p *process) Write(b []byte) (int, error) {
	n, err := p.stdin.Write(b)
	if err != nil {
		_ = p.stdin.Close() // it may be closed
	}
	return n, err
}

// writeUntil sets when writing ends; the zero value: never.
func (p *process) writeUntil(at time.Time) {
	if pipe, ok := p.stdin.(*os.File); ok {
		_ = pipe.SetWriteDeadline(at) // it may be closed
	}
}

// isMessage reports whether a line is a message of JSON-RPC, or several.
func isMessage(line []byte) bool {
	type version struct {
		Version string `json:"jsonrpc"`
	}
	all := make([]version, 1)
	var err error
	if line[0] == '[' {
		err = json.Unmarshal(line, &all)
	} else {
		err = json.Unmarshal(line, &all[0])
	}
	return err == nil && len(all) > 0 && !slices.ContainsFunc(all, func(v version) bool { return v.Version != "2.0" })
}

// Read returns the next line that is a message, or a part of it.
func (p *process) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		var line []byte
		for {
			part, err := p.lines.ReadSlice('\n')
			line = append(line, part...)
			if len(line) > maxBody {
				return 0, fmt.Errorf("a message of the server has more than %d bytes", maxBody)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return 0, err
			}
		}
		text := bytes.TrimSpace(line)
		switch {
		case len(text) == 0:
		case isMessage(text):
			p.rest = line
		default:
			if !p.noise.Allow() {
				continue
			}
			line := spelling.OneLine(string(text[:min(len(text), 4*maxNoise)]), maxNoise)
			p.log.Warn().Str("line", line).Msg("an MCP server wrote something to stdout that is no message")
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close ends the process and everything that it started: it closes its stdin, then asks it to end, then
// kills it, with a second for each.
func (p *process) Close() error {
	p.once.Do(func() {
		_ = p.stdin.Close() // it may be gone
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = p.cmd.Wait() // how a server ends does not matter
		}()
		for _, end := range []func(*exec.Cmd) error{nil, terminateGroup, killGroup} {
			if end != nil {
				_ = end(p.cmd) // it may have ended
			}
			select {
			case <-ended:
				_ = killGroup(p.cmd) // what it left behind
				return
			case <-time.After(endPause):
			}
		}
		<-ended
	})
	return nil
}

// ended says why there is no answer, with the last line that the server wrote about it.
func (p *process) ended(err error) error {
	if last := p.said.last.Load(); last != nil {
		return fmt.Errorf("the server ended the connection: %w; the last that it wrote is: %s", err, *last)
	}
	return fmt.Errorf("the server ended the connection: %w", err)
}

// stderr logs what a server writes there, line by line, at most maxStderr bytes a second.
type stderr struct {
	log  zerolog.Logger
	line []byte
	used int
	from time.Time
	last atomic.Pointer[string] // the last line
}

func (s *stderr) Write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(s.from) > time.Second {
		s.from, s.used = now, 0
	}
	for line := range bytes.Lines(b) {
		if room := maxStderr - s.used; room > 0 {
			s.line = append(s.line, line[:min(len(line), room)]...)
			s.used += len(line)
		}
		if bytes.HasSuffix(line, []byte("\n")) || len(s.line) >= maxStderr {
			if text := spelling.OneLine(string(s.line), maxStderr); text != "" {
				s.log.Debug().Str("line", text).Msg("an MCP server wrote to stderr")
				text = spelling.OneLine(text, maxNoise)
				s.last.Store(&text)
			}
			s.line = s.line[:0]
		}
	}
	return len(b), nil
}

// noted is a connection whose calls are noted in their exchanges.
type noted struct {
	sdk.Connection

	process *process
	writing chan struct{} // held by whoever writes

	mu   sync.Mutex
	open map[jsonrpc.ID]*exchange
}

// Write writes a message until ctx ends: the server may not read.
func (n *noted) Write(ctx context.Context, msg jsonrpc.Message) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	select {
	case n.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.writing }()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(late); n.process.writeUntil(time.Now()) })
	defer func() {
		if !stop() {
			<-late
			n.process.writeUntil(time.Time{})
		}
	}()
	if call, ok := msg.(*jsonrpc.Request); ok && call.IsCall() {
		if x := followed(ctx); x != nil {
			x.note(func() { x.sent, x.fault, x.answer = true, nil, nil })
			n.mu.Lock()
			n.open[call.ID] = x
			n.mu.Unlock()
		}
	}
	return n.Connection.Write(ctx, msg)
}

func (n *noted) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := n.Connection.Read(ctx)
	if err != nil {
		_ = n.process.Close() // then it has said all that it says
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		for _, x := range n.open {
			x.note(func() { x.fault = n.process.ended(err) })
		}
		clear(n.open)
		return nil, err
	}
	if got, ok := msg.(*jsonrpc.Response); ok {
		x := n.open[got.ID]
		delete(n.open, got.ID)
		x.note(func() {
			if int64(len(got.Result)) > x.limit {
				x.tooLarge, x.fault = true, fmt.Errorf("the answer has more than %d bytes", x.limit)
				return
			}
			x.answer = &answer{Result: got.Result}
			if wire, ok := errors.AsType[*jsonrpc.Error](got.Error); ok {
				x.answer.Error = &rpcError{Code: wire.Code, Message: wire.Message}
			} else if got.Error != nil {
				x.answer.Error = &rpcError{Code: -32603, Message: "an error of no kind"}
			}
		})
	}
	return msg, nil
}
