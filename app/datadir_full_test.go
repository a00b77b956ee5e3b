//go:build linux

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/testing/ci"
)

// TestDataDirOnAFullDisk: while the disk of the data folder is full, messages get 503, so that the
// channel brings them again. What was acknowledged before is answered once there is room, and is
// there after a kill -9 of the server.
func TestDataDirOnAFullDisk(t *testing.T) {
	ci.Only(t, "fills a disk for ten seconds")
	t.Parallel()
	server := 0
	t.Cleanup(func() { // after the bot's end
		if t.Failed() && server != 0 {
			_ = syscall.Kill(server, syscall.SIGKILL) // it outlives a killed bot
		}
	})
	folder, bot := startOnDisk(t, "1m")
	disk := fmt.Sprintf("/proc/%d/root%s", bot.cmd.Process.Pid, folder) // as the bot sees it
	server = serverOf(t, disk)
	connector := newConnector(t)
	var at struct{ URL string }
	if err := json.Unmarshal([]byte(bot.listening), &at); err != nil {
		t.Fatal(err)
	}
	post := func(n int) int {
		body := fmt.Sprintf(`{"type":"message","id":"%d","channelId":"emulator","serviceUrl":%q,"from":{"id":"u"},"recipient":{"id":"b"},`+
			`"conversation":{"id":"c"},"text":"add item-%d to groceries"}`, n, connector.URL, n)
		return statusOf(t, http.MethodPost, at.URL, body)
	}
	heard := "" // what waited is answered together
	answered := func(n int) {
		for want := fmt.Sprintf("item-%d", n); !strings.Contains(heard, want); {
			heard += connector.next(t)
		}
	}

	if status := post(0); status != http.StatusOK {
		t.Fatalf("the first message got %d", status)
	}
	answered(0)
	filler, err := os.Create(filepath.Join(disk, "filler")) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(filler, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = filler.Close()
	n, status := 1, http.StatusOK
	for ; status == http.StatusOK && n < 1000; n++ {
		status = post(n)
	}
	refused := n - 1
	if status != http.StatusServiceUnavailable {
		t.Fatalf("on a full disk message %d got %d", refused, status)
	}
	ready := strings.TrimSuffix(at.URL, "/api/messages") + "/readyz"
	if status := statusOf(t, http.MethodGet, ready, ""); status != http.StatusServiceUnavailable {
		t.Errorf("on a full disk /readyz is %d", status)
	}

	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	for ctx := withPatience(t); statusOf(t, http.MethodGet, ready, "") != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("with room on the disk it does not get ready")
		}
	}
	for n := 1; n < refused; n++ {
		answered(n)
	}
	if status := post(refused); status != http.StatusOK {
		t.Errorf("with room on the disk the refused message got %d", status)
	}
	answered(refused)

	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	bot.until("server of the data folder started")
	said := bot.asked(1001, "what is on our lists?")
	for n := range refused + 1 {
		if item := fmt.Sprintf(`- item-%d\b`, n); len(regexp.MustCompile(item).FindAllString(said, -1)) != 1 {
			t.Errorf("after a kill of the server item-%d is not there once: %s", n, said)
		}
	}
	server = serverOf(t, disk)
	bot.stop()
}

// startOnDisk starts a bot whose data folder is a file system of that size, which only the bot and
// its server see, and in which it works. It needs a namespace for mounts: as root, or with namespaces of users.
func startOnDisk(t *testing.T, size string) (folder string, bot *process) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no redis-server")
	}
	folder, err := os.MkdirTemp("", "d") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	within := func(ctx context.Context, script string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `mount -t tmpfs -o size="$0" tmpfs "$1" && ` + script, size, folder}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		return cmd
	}
	if out, err := within(t.Context(), "true").CombinedOutput(); err != nil {
		t.Skipf("no file system of its own can be mounted here (%v): %s", err, out)
	}
	cmd := within(context.WithoutCancel(t.Context()), `cd "$1" && shift && exec "$@"`, os.Args[0])
	cmd.Env = []string{asBot + "=1", "BOT_DATA_DIR=" + folder, "PATH=" + os.Getenv("PATH"), "PORT=0", "BOT_LOG_FORMAT=json"}
	return folder, startProcess(t, cmd)
}

// statusOf is the status that answers a request.
func statusOf(t *testing.T, method, url, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(withPatience(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
