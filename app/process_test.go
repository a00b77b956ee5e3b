package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/internal/cli"
)

// asBot makes the test binary the bot itself, for tests that need a process.
const asBot = "PLANBOT_TEST_AS_BOT"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "_read-file" || os.Getenv(asBot) != "" {
		b := defaultBot()
		Main(b, b.features...)
	}
	os.Exit(m.Run())
}

// botProcess is the command with nothing in its environment but what is given.
func botProcess(ctx context.Context, environment []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append([]string{asBot + "=1"}, environment...)
	return cmd
}

func TestWrongUseIsJSONWhereLogsAre(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	cmd := botProcess(t.Context(), []string{"BOT_LOG_FORMAT=json\n"}, "--bogus")
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitUsage {
		t.Errorf("got %v, want exit code %d", err, cli.ExitUsage)
	}
	var line struct {
		Level    string
		Time     time.Time
		Mistakes []string
	}
	if err := json.Unmarshal([]byte(stderr.String()), &line); err != nil {
		t.Fatalf("%q: %v", stderr.String(), err)
	}
	if line.Level != "error" || line.Time.IsZero() || len(line.Mistakes) != 1 || !strings.Contains(line.Mistakes[0], "--bogus") {
		t.Errorf("%s", stderr.String())
	}
}

// hangingModel is a server that answers nothing until the test ends; each call
// is told.
func hangingModel(t *testing.T) (url string, called <-chan struct{}) {
	t.Helper()
	calls, over := make(chan struct{}, 9), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		calls <- struct{}{}
		<-over
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(over) })
	return srv.URL, calls
}

// say posts a message; the answer comes when the turn is over or the bot gone.
func say(ctx context.Context, url, serviceURL string) {
	body := `{"type":"message","id":"1","channelId":"emulator","serviceUrl":"` + serviceURL + `","from":{"id":"u"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"hello"}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// logLine is one line of the bot's log.
type logLine struct{ Level, Message, URL, Identity string }

// until reads log lines up to the one with that message, and returns them.
func until(t *testing.T, logs *bufio.Scanner, message string) []logLine {
	t.Helper()
	var lines []logLine
	for logs.Scan() {
		var line logLine
		if err := json.Unmarshal(logs.Bytes(), &line); err != nil {
			t.Fatalf("log line %q: %v", logs.Text(), err)
		}
		lines = append(lines, line)
		if line.Message == message {
			return lines
		}
	}
	t.Fatalf("no log line says %q: %+v", message, lines)
	return nil
}

func TestASecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	model, called := hangingModel(t)
	ctx, cancel := context.WithTimeout(t.Context(), processPatience)
	defer cancel()
	bot := botProcess(ctx, []string{"PORT=0", "BOT_LOG_FORMAT=json", "BOT_DRAIN_TIMEOUT=1h", "BOT_DANGEROUSLY_NO_AUTH=true", "OPENAI_BASE_URL=" + model})
	bot.Stdout = io.Discard
	stderr, err := bot.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bot.Start(); err != nil {
		t.Fatal(err)
	}
	logs := bufio.NewScanner(stderr)
	lines := until(t, logs, "listening")
	if lines[0].Level != "warn" || !strings.Contains(lines[0].Message, "BOT_DANGEROUSLY_NO_AUTH") {
		t.Errorf("the first line does not warn: %+v", lines)
	}
	listening := lines[len(lines)-1]
	if !strings.Contains(listening.Identity, "BOT_DANGEROUSLY_NO_AUTH") || strings.Contains(listening.Identity, "local mode") {
		t.Errorf("identity %q", listening.Identity)
	}
	go say(ctx, listening.URL, newConnector(t).URL)
	<-called
	if err := bot.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, logs, "draining")
	ended := make(chan error, 1)
	go func() {
		for logs.Scan() { // Wait may only be called once all is read
		}
		ended <- bot.Wait()
	}()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("ended with %v", err)
			}
			tick.Stop()
			return
		case <-tick.C:
			_ = bot.Process.Signal(syscall.SIGTERM) // fails once it is gone
		}
	}
}

func TestDrainKeepsToItsTime(t *testing.T) {
	t.Parallel()
	const total = 400 * time.Millisecond
	for name, keepBusy := range map[string]func(t *testing.T, addr string, called <-chan struct{}){
		"a turn that hangs": func(t *testing.T, addr string, called <-chan struct{}) {
			t.Helper()
			go say(t.Context(), "http://"+addr+"/api/messages", newConnector(t).URL)
			<-called
		},
		"a request that hangs": func(t *testing.T, addr string, _ <-chan struct{}) {
			t.Helper()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "POST /api/messages HTTP/1.1\r\nHost: "+addr+"\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
				t.Fatalf("%q, %v", line, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, called := hangingModel(t)
			read, write := io.Pipe()
			a := assembled(t, env{"port": "0", "openai-base-url": model, "bot-drain-timeout": total.String()}, write)
			listener, err := local.Listen(t.Context(), a.Listen(), "BOT_ADDR, PORT")
			if err != nil {
				t.Fatal(err)
			}
			logged := make(chan string, 1)
			go func() {
				all, _ := io.ReadAll(read)
				logged <- string(all)
			}()
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- a.serve(ctx, listener) }()
			keepBusy(t, listener.Addr().String(), called)
			start := time.Now()
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			took := time.Since(start)
			_ = write.Close()
			// Without the bound it would not end at all; the rest is for a slow machine.
			if log := <-logged; took > total+5*time.Second || !strings.Contains(log, "cut off") {
				t.Errorf("took %s:\n%s", took, log)
			}
		})
	}
}

// TestVariablesOfTwoSpellings may not differ, and the end of a line that a variable was
// filled with does not count.
func TestVariablesOfTwoSpellings(t *testing.T) {
	t.Parallel()
	same := []string{
		"MICROSOFT_APP_ID=" + guid + "\n", "MicrosoftAppId=" + guid, "MICROSOFT_APP_PASSWORD= p\r\n", "MICROSOFT_APP_TENANT_ID=" + guid, "BOT_LOG_FORMAT=json\n", "BOT_MAX_TURNS=0",
		"OTEL_EXPORTER_OTLP_TIMEOUT=5", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=6",
	}
	for name, c := range map[string]struct{ more, want string }{
		"the same": {"MicrosoftAppPassword=p", `"BOT_MAX_TURNS: `},
		"another":  {"MicrosoftAppPassword=q", `"MICROSOFT_APP_PASSWORD: and MicrosoftAppPassword differ, and both are spellings of one setting","BOT_MAX_TURNS: `},
	} {
		var stderr strings.Builder
		cmd := botProcess(t.Context(), append(slices.Clone(same), c.more), "serve")
		cmd.Stderr = &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitUsage || !strings.Contains(stderr.String(), `"these settings have to be changed:",`+c.want) {
			t.Errorf("%s: %v, %s", name, err, stderr.String())
		}
	}
}

// standIn is a connector that takes what the bot says.
type standIn struct {
	URL  string
	said chan string
}

func newConnector(t *testing.T) *standIn {
	t.Helper()
	c := &standIn{said: make(chan string, 16)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a activity.Activity
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		if a.Type == activity.Message {
			c.said <- a.Text
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"1"}`)
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL + "/"
	return c
}

// next waits for the next message.
func (c *standIn) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-c.said:
		return text
	case <-time.After(processPatience):
		t.Fatal("the bot said nothing")
		return ""
	}
}
