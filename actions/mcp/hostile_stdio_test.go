package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions/mcp"
)

// serveByHand is a server on stdin and stdout that does not behave.
func serveByHand(kind string) {
	in := bufio.NewReader(os.Stdin)
	listed := tool("send")
	switch kind {
	case "wide":
		listed = tool("send", `,"_meta":"`+strings.Repeat("x", 3<<20)+`"`)
	case "storm":
		for i := range 20_000 {
			fmt.Println("loading module", i)
		}
	case "fork":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "600")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it leaves the group, and keeps the pipes
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if child.Start() == nil {
			_ = os.WriteFile("pids", fmt.Appendf(nil, "%d", child.Process.Pid), 0o600)
		}
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if kind == "fork" {
				time.Sleep(time.Hour)
			}
			return
		}
		var m message
		_ = json.Unmarshal(line, &m)
		if kind == "chatty" {
			fmt.Print("[INFO] ", m.Method, "\n", `{"level":"info","msg":"request"}`, "\n{\n[\n[1]\n{}\nnull\n\n")
		}
		switch m.Method {
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`+"\n", m.ID, modern)
		case "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`+"\n", m.ID, listed)
			for i := 0; kind == "flood"; i++ {
				fmt.Printf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`+"\n", i)
			}
			if kind == "deaf" {
				time.Sleep(time.Hour)
			}
		case "tools/call":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`+"\n", m.ID)
		}
	}
}

// What looks like JSON is not always a message.
func TestAServerOnStdioThatLogsToStdout(t *testing.T) {
	t.Parallel()
	c, log, _ := onStdio(t, "chatty")
	if names := offered(t, c); !slices.Equal(names, []string{"svc_send"}) {
		t.Fatalf("offered %v", names)
	}
	for range 3 {
		if result, err := run(t.Context(), t, c, "svc_send", nil); err != nil || result.Text() != "ok" {
			t.Fatalf("got %+v, %v", result, err)
		}
	}
	if !strings.Contains(log.String(), `"line":"[INFO] `) {
		t.Errorf("the log has %s", log.String())
	}
}

func TestAServerOnStdioThatNeverStopsLogging(t *testing.T) {
	t.Parallel()
	c, log, _ := onStdio(t, "storm")
	if names := offered(t, c); !slices.Equal(names, []string{"svc_send"}) {
		t.Fatalf("offered %v", names)
	}
	if n := strings.Count(log.String(), "is no message"); n == 0 || n > 1000 {
		t.Errorf("%d lines in the log", n)
	}
}

// A server that does not read takes no call in: the pipe is full, of what we send or of answers to it.
func TestAServerOnStdioThatDoesNotRead(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deaf", "flood"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			doesNotRead(t, kind)
		})
	}
}

func doesNotRead(t *testing.T, kind string) {
	t.Helper()
	c, _, _ := onStdio(t, kind, func(cfg *mcp.Config) { cfg.CallTimeout = time.Second })
	offered(t, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err := run(t.Context(), t, c, "svc_send", map[string]any{"to": strings.Repeat("x", 1<<20)})
		if err == nil && !result.Failed() {
			t.Errorf("got %+v", result)
		}
		c.Close()
	}()
	select {
	case <-done:
	case <-time.After(4 * time.Minute):
		t.Error("the call goes on")
		c.Close()
		<-done
	}
}

func TestAPageOnStdioThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c, _, _ := onStdio(t, "wide")
	if names := offered(t, c); len(names) != 0 {
		t.Errorf("offered %v", names)
	}
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 2097152 bytes") {
		t.Errorf("got %v", err)
	}
}

// A child that has left the group keeps the pipes open. Closing does not wait for it.
func TestAServerOnStdioThatForks(t *testing.T) {
	t.Parallel()
	c, _, dir := onStdio(t, "fork")
	offered(t, c)
	raw, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if result, err := run(t.Context(), t, c, "svc_send", nil); err != nil || result.Text() != "ok" {
		t.Fatalf("got %+v, %v", result, err)
	}
	began := time.Now()
	c.Close()
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it took %s", took)
	}
}
