package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/state"
)

// tinyBot is a program that bot dev takes for a bot: it says who it is, and what it was told.
const tinyBot = `package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

const version = "one"

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() { <-ended; fmt.Println("drained", version); os.Exit(0) }()
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) { os.Exit(86) })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, version, os.Args[1], r.Host, os.Getenv("BOT_PAGE_ADDR"), os.Getenv("REDIS_URL"), len(r.Header["X-Forwarded-For"]), r.Header.Get("X-Forwarded-For"), r.URL.RawQuery)
	})
	panic(http.ListenAndServe(os.Getenv("BOT_ADDR"), nil))
}
`

// goEnvironment is what the go command needs, with no network.
func goEnvironment(t *testing.T, more ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Split(string(out), "\n")
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCACHE=" + at[0], "GOMODCACHE=" + at[1], "GOPATH=" + at[2],
		"GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local",
	}, more...)
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestDev: the bot is built again after a change, and state and port stay; after a build that
// fails, the last good bot goes on.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{"go.mod": "module tiny\n\ngo 1.26\n", "main.go": tinyBot})
	addr := freeAddr(t)
	opened := filepath.Join(dir, "opened")
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" > "+opened+"\n"), 0o700); err != nil { //nolint:gosec // it has to run
		t.Fatal(err)
	}
	cmd := botProcess(context.WithoutCancel(t.Context()), goEnvironment(t, "BOT_ADDR="+addr, "BROWSER="+browser), "dev", "--open")
	cmd.Dir = dir
	said := &heard{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func() error { // once
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			return err
		case <-time.After(processPatience):
			return errors.Join(errors.New("it does not end"), cmd.Process.Kill())
		}
	}
	first := answerOf(t, addr, "one serve "+addr+" "+addr+" redis://:")
	url := strings.Fields(first)[4]
	if !strings.Contains(first, " 0  a=%zz;b") { // no header was added, and the query is as it was
		t.Errorf("answered %q", first)
	}
	store, err := state.Open(t.Context(), url, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	key := state.BotKey().Under("test", "kept")
	if err := store.Join(t.Context(), key, "kept"); err != nil {
		t.Fatal(err)
	}
	stranger, err := state.Open(t.Context(), "redis://:wrong@"+url[strings.LastIndex(url, "@")+1:], state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	if err := stranger.Ping(t.Context()); err == nil {
		t.Error("Redis answers without its password")
	}

	change := func(old, other string) {
		t.Helper()
		name := filepath.Join(dir, "main.go")
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, []byte(strings.Replace(string(text), old, other, 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(`"one"`, `"two"`)
	if second := answerOf(t, addr, "two serve "); strings.Fields(second)[4] != url {
		t.Errorf("answered %q", second)
	}
	kept := 0
	if err := store.Members(t.Context(), key, func(members []string) error { kept += len(members); return nil }); err != nil || kept != 1 {
		t.Errorf("%d members are kept, %v", kept, err)
	}
	change(`"two"`, `two`)
	said.until(t, "undefined: two")
	said.until(t, "the last good bot goes on")
	if again := answerOf(t, addr, "two serve "); strings.Fields(again)[4] != url {
		t.Errorf("answered %q", again)
	}
	change(`= two`, `= "three"`)
	answerOf(t, addr, "three serve ")
	crash, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/crash", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(crash); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusBadGateway {
		t.Fatalf("a crash was answered %+v, %v", resp, err)
	}
	said.until(t, "crashed on purpose")
	answerOf(t, addr, "three serve ")
	if err := stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, want := range []string{"no tunnel: without MICROSOFT_APP_ID", "drained one", "drained two", "drained three", "ready after"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it did not say %q:\n%s", want, said.String())
		}
	}
	if page, err := os.ReadFile(opened); err != nil || string(page) != "http://"+addr+"/\n" {
		t.Errorf("opened %q, %v", page, err)
	}
}

// TestDevOfAFile: what bot.yaml names counts as the bot, and its settings are those of a bot of its own.
func TestDevOfAFile(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{
		"bot.yaml": "version: 1\nname: Desk\ninstructions: {file: instructions.md}\nsettings: {BOT_STATE: embedded}\n", "instructions.md": "Be kind.",
	})
	cmd := botProcess(context.WithoutCancel(t.Context()), []string{"BOT_ADDR=127.0.0.1:0"}, "dev", "--file", filepath.Join(dir, "bot.yaml"))
	said := &heard{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Signal(os.Interrupt) }()
	said.until(t, "ready after")
	if err := os.Remove(filepath.Join(dir, "instructions.md")); err != nil {
		t.Fatal(err)
	}
	said.until(t, "the last good bot goes on")
	if !strings.Contains(said.String(), `"instructions.md" is not beside this file`) {
		t.Error(said)
	}
}

// heard is what processes have said so far.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// until waits until they have said that.
func (h *heard) until(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx := withPatience(t); !strings.Contains(h.String(), want); <-tick.C {
		if ctx.Err() != nil {
			t.Fatalf("nobody said %q:\n%s", want, h)
		}
	}
}

// answerOf waits for an answer that begins like that.
func answerOf(t *testing.T, addr, want string) (got string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx := withPatience(t); ; <-tick.C {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/?a=%zz;b", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if got = string(body); strings.HasPrefix(got, want) {
				return got
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("answered %q, want %q", got, want)
		}
	}
}

// TestDevRefuses what it cannot build or must not serve.
func TestDevRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		err  string
	}{
		"no such package": {[]string{"./nowhere"}, "there is no package ./nowhere"},
		"no program":      {[]string{"../state"}, "is not a program: its name is state"},
		"another Redis":   {[]string{"--bot-data-dir=" + t.TempDir()}, "bot dev keeps state itself"},
		"for others":      {[]string{"--bot-dangerously-no-auth"}, "bot dev is for this machine only"},
		"a fixed port":    {[]string{"--bot-metrics-addr=127.0.0.1:9464"}, "BOT_METRICS_ADDR: bot dev starts the next bot while"},
		"a wrong setting": {[]string{"--bot-page-addr=nowhere"}, "BOT_PAGE_ADDR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, errs := execute(t, "", append([]string{"dev", "--port=0"}, c.args...)...)
			if code != cli.ExitUsage || !strings.Contains(errs, c.err) {
				t.Errorf("code %d: %s", code, errs)
			}
		})
	}
}

// TestDevAddsNoProxy: a request that a tunnel passed on still looks like one.
func TestDevAddsNoProxy(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{"go.mod": "module tiny\n\ngo 1.26\n", "main.go": tinyBot})
	addr := freeAddr(t)
	cmd := botProcess(context.WithoutCancel(t.Context()), goEnvironment(t, "BOT_ADDR="+addr), "dev", ".")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // as TestDev sees
	}()
	answerOf(t, addr, "one ")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "192.0.2.1")
	req.Host = "evil.example"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "evil.example") || !strings.Contains(string(body), " 1 192.0.2.1") {
		t.Errorf("answered %q", body)
	}
}
