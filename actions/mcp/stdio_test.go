package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp"
)

// serveStdio is a server on stdin and stdout.
func serveStdio(kind string) {
	switch kind {
	case "chatty", "deaf", "flood", "wide", "storm", "fork":
		serveByHand(kind)
		return
	case "broken":
		fmt.Fprintln(os.Stderr, "Traceback (most recent call last):")
		fmt.Fprintln(os.Stderr, "ModuleNotFoundError: No module named 'httpx'")
		os.Exit(1)
	case "silent":
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
		return
	case "noise":
		fmt.Println("Welcome to the \u202e server! " + strings.Repeat("x", 1000))
	case "stubborn", "parent": // the one does not end when its stdin does, the other leaves its child behind
		child := exec.Command("sleep", "600")
		if child.Start() == nil {
			_ = os.WriteFile("pids", fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid), 0o600)
		}
	}
	fmt.Fprintln(os.Stderr, "listening on stdio\u001b[31m")
	server := sdk.NewServer(&sdk.Implementation{Name: "stdio", Version: "1"}, nil)
	type in struct {
		To string `json:"to,omitempty"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "send", Description: "Sends"}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		switch in.To {
		case "environment":
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(os.Environ(), "\n")}}}, nil, nil
		case "die":
			os.Exit(1)
		case "sleep":
			select {} // it does not answer the cancellation either
		case "much":
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", 9<<20)}}}, nil, nil
		}
		dir, _ := os.Getwd()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok in " + dir}}}, nil, nil
	})
	_ = server.Run(context.Background(), &sdk.StdioTransport{})
	if kind == "stubborn" {
		time.Sleep(time.Hour)
	}
}

func onStdio(t *testing.T, kind string, change ...func(*mcp.Config)) (*mcp.Connection, *logs, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, log := connectTo(t, "", append(change, func(cfg *mcp.Config) {
		cfg.URL, cfg.Command, cfg.Dir, cfg.Log = "", []string{os.Args[0]}, dir, cfg.Log.Level(zerolog.DebugLevel)
		cfg.Env = map[string]string{"STDIO_SERVER": kind, "OWN": "mine"}
	})...)
	return c, log, dir
}

// It sets variables, so it is not parallel.
func TestAServerOnStdioGetsNoSecrets(t *testing.T) { //nolint:paralleltest // see above
	t.Setenv("OPENAI_API_KEY", "s3cret-one")
	t.Setenv("MICROSOFT_APP_PASSWORD", "s3cret-two")
	t.Setenv("LANG", "xx_YY")
	c, _, _ := onStdio(t, "plain")
	offered(t, c)
	result, err := run(t.Context(), t, c, "svc_send", map[string]any{"to": "environment"})
	if err != nil || strings.Contains(result.Text(), "s3cret") || strings.Contains(result.Text(), "OPENAI_API_KEY") || strings.Contains(result.Text(), "MICROSOFT_APP_PASSWORD") {
		t.Errorf("got %s, %v", result.Text(), err)
	}
	if !strings.Contains(result.Text(), "OWN=mine") || !strings.Contains(result.Text(), "LANG=xx_YY") || !strings.Contains(result.Text(), "PATH=") {
		t.Errorf("got only %s", result.Text())
	}
}

func TestAServerOnStdio(t *testing.T) {
	t.Parallel()
	c, log, dir := onStdio(t, "noise")
	if names := offered(t, c); !slices.Equal(names, []string{"svc_send"}) {
		t.Fatalf("offered %v", names)
	}
	if result, err := run(t.Context(), t, c, "svc_send", nil); err != nil || result.Text() != "ok in "+dir {
		t.Errorf("got %+v, %v", result, err)
	}
	if text := log.String(); !strings.Contains(text, `"line":"Welcome to the server! xxx`) || !strings.Contains(text, "no message") || strings.Contains(text, strings.Repeat("x", 200)) {
		t.Errorf("the log has %s", text)
	}
	eventually(t, "stderr is in the log", func() bool {
		return strings.Contains(log.String(), `"line":"listening on stdio [31m","message":"an MCP server wrote to stderr"`)
	})
}

func TestAServerOnStdioThatDies(t *testing.T) {
	t.Parallel()
	c, _, _ := onStdio(t, "plain")
	offered(t, c)
	result, err := run(t.Context(), t, c, "svc_send", map[string]any{"to": "die"})
	if !errors.Is(err, actions.ErrUncertain) {
		t.Errorf("got %+v, %v", result, err)
	}
	if result, err = run(t.Context(), t, c, "svc_send", nil); err != nil || !strings.HasPrefix(result.Text(), "ok") {
		t.Errorf("the next call: %+v, %v", result, err)
	}
	result, err = run(t.Context(), t, c, "svc_send", map[string]any{"to": "much"})
	if !errors.Is(err, actions.ErrUncertain) {
		t.Errorf("got %.100q, %v", result.Text(), err)
	}
}

func TestACallOnStdioThatTakesTooLong(t *testing.T) {
	t.Parallel()
	c, _, _ := onStdio(t, "plain", func(cfg *mcp.Config) { cfg.CallTimeout = 500 * time.Millisecond })
	offered(t, c)
	result, err := run(t.Context(), t, c, "svc_send", map[string]any{"to": "sleep"})
	if !errors.Is(err, actions.ErrUncertain) {
		t.Errorf("got %+v, %v", result, err)
	}
	if result, err := run(t.Context(), t, c, "svc_send", nil); err != nil || !strings.HasPrefix(result.Text(), "ok") {
		t.Errorf("the next call: %+v, %v", result, err)
	}
}

func TestAServerOnStdioThatSaysNothing(t *testing.T) {
	t.Parallel()
	c, _, _ := onStdio(t, "silent")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	names, note := c.Offer(ctx, turnOf(t, "ada"))
	if len(names) != 0 || !strings.Contains(note, "away") {
		t.Errorf("offered %v, said %q", names, note)
	}
	began := time.Now()
	c.Close()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s to end it", took)
	}
	missing, _ := connectTo(t, "", func(cfg *mcp.Config) { cfg.Command = []string{"/no/such/program"} })
	if _, err := missing.List(t.Context()); err == nil || !strings.Contains(err.Error(), "start the server") {
		t.Errorf("got %v", err)
	}
}

func TestAProcessAndItsChildrenEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stubborn", "parent"} {
		ends(t, kind)
	}
}

// ends runs a server, closes its connection and looks for what it left behind.
func ends(t *testing.T, kind string) {
	t.Helper()
	c, _, dir := onStdio(t, kind)
	offered(t, c)
	raw, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, text := range strings.Fields(string(raw)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the process ends", func() bool {
			if syscall.Kill(pid, 0) != nil {
				return true
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // nobody may have waited for it
			return err == nil && strings.Contains(string(stat), ") Z ")
		})
	}
}

// The server of the protocol's own library, over HTTP, with each kind of session.
func TestTheLibrarysOwnServer(t *testing.T) {
	t.Parallel()
	type out struct {
		Twice int `json:"twice"`
	}
	for _, stateless := range []bool{false, true} {
		for _, asJSON := range []bool{false, true} {
			server := sdk.NewServer(&sdk.Implementation{Name: "own", Version: "1"}, nil)
			sdk.AddTool(server, &sdk.Tool{Name: "twice", Description: "Doubles"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
				N int `json:"n"`
			},
			) (*sdk.CallToolResult, out, error) {
				if in.N == 0 {
					return nil, out{}, errors.New("nothing to double")
				}
				return nil, out{2 * in.N}, nil
			})
			c, _ := connectTo(t, serveSDK(t, server, stateless, asJSON))
			if names := offered(t, c); !slices.Equal(names, []string{"svc_twice"}) {
				t.Fatalf("offered %v", names)
			}
			result, err := run(t.Context(), t, c, "svc_twice", map[string]any{"n": json.Number("21")})
			if err != nil || result.Text() != `{"twice":42}` {
				t.Errorf("got %+v, %v", result, err)
			}
			if result, err = run(t.Context(), t, c, "svc_twice", map[string]any{"n": json.Number("0")}); err != nil || !result.Failed() || result.Text() != "nothing to double" {
				t.Errorf("got %+v, %v", result, err)
			}
			sdk.AddTool(server, &sdk.Tool{Name: "more"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{}, nil, nil
			})
			if !stateless {
				eventually(t, "a new tool is seen", func() bool { return len(offered(t, c)) == 2 })
			}
		}
	}
}

// serveSDK serves a server of the library over HTTP and returns its address.
func serveSDK(t *testing.T, server *sdk.Server, stateless, asJSON bool) string {
	t.Helper()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless, JSONResponse: asJSON})
	s := serve(handler)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}
