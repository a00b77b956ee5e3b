package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
)

// startsWithin is how long the bot may take until it listens, or has ended.
const startsWithin = time.Minute

// built is the bot that the tests try.
var built = builtbot.New("../..")

// output is what the bot writes, both streams.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // one that is closed with the next write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) seen() (text string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.grown
}

// process is the built bot. It ends with the test.
type process struct {
	*testing.T
	cmd  *exec.Cmd
	out  *output
	addr string // host:port
	end  func() // ends it, and waits for that
}

func start(t *testing.T, env ...string) *process {
	t.Helper()
	bin, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{T: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), bin), out: &output{grown: make(chan struct{})}}
	p.cmd.Env = append([]string{"BOT_ADDR=127.0.0.1:0", "BOT_LOG_FORMAT=json"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.end = sync.OnceFunc(p.stop)
	t.Cleanup(p.end)
	line := p.until("listening")
	p.addr = strings.TrimSuffix(strings.TrimPrefix(line["url"].(string), "http://"), "/api/messages")
	return p
}

// stop ends the process as an orchestrator does. It has to end well.
func (p *process) stop() {
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // else it has ended, which Wait tells
	select {
	case err := <-ended:
		if err != nil {
			p.Errorf("the bot ended with %v", err)
		}
	case <-time.After(startsWithin):
		p.Error("the bot does not end")
		_ = p.cmd.Process.Kill()
		p.Log(<-ended)
	}
	if text, _ := p.out.seen(); p.Failed() {
		p.Logf("the bot's log ends with:\n%s", text[max(0, len(text)-4000):])
	}
}

// until waits for a line of the log with that message.
func (p *process) until(message string) object {
	p.Helper()
	late := time.After(startsWithin)
	for {
		text, more := p.out.seen()
		for line := range strings.Lines(text) {
			var said object
			if json.Unmarshal([]byte(line), &said) == nil && said["message"] == message {
				return said
			}
		}
		select {
		case <-more:
		case <-late:
			p.Fatalf("the bot did not say %q:\n%s", message, text)
		}
	}
}
