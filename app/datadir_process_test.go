//go:build unix

package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/settings"
)

// asked says the text to the bot and returns what it replies.
func (p *process) asked(id int, text string) string {
	p.Helper()
	var line struct{ URL string }
	if err := json.Unmarshal([]byte(p.listening), &line); err != nil {
		p.Fatal(err)
	}
	body := fmt.Sprintf(`{"type":"message","id":"%d","channelId":"emulator","serviceUrl":"http://127.0.0.1:1","from":{"id":"u"},"recipient":{"id":"b"},`+
		`"conversation":{"id":"c"},"deliveryMode":"expectReplies","text":%q}`, id, text)
	r, err := http.NewRequestWithContext(withPatience(p.T), http.MethodPost, line.URL, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.Fatalf("%s (%v): %s", resp.Status, err, said)
	}
	return string(said)
}

// TestDataDirSurvives: what people said is there after a kill -9 of the bot, whose server the next
// bot adopts, after a kill -9 of the server, and after both were stopped. One bot owns the folder.
func TestDataDirSurvives(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no redis-server")
	}
	short, err := os.MkdirTemp("", "d") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	folder := filepath.Join(short, "data")
	environment := []string{"BOT_DATA_DIR=" + folder, "PATH=" + os.Getenv("PATH"), "PORT=0"}

	doctor := func() string {
		out, _ := botProcess(t.Context(), environment, "doctor").CombinedOutput()
		return string(out)
	}
	if out := doctor(); !strings.Contains(out, "no bot runs in "+folder+" now") || !strings.Contains(out, "All is well.") {
		t.Errorf("before the start doctor says %s", out)
	}
	bot := startBot(t, environment...)
	bot.asked(1, "add milk to groceries")
	if out := doctor(); !strings.Contains(out, "it writes everything to disk (AOF)") || !strings.Contains(out, "All is well.") {
		t.Errorf("beside a bot doctor says %s", out)
	}
	for _, command := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve"}, 2, "another bot uses the folder"},
		{[]string{"serve", "--bot-max-steps=0"}, 2, "BOT_MAX_STEPS: \"0\" is not a whole number from 1 to 2147483647\nBOT_DATA_DIR: another bot uses the folder " + folder},
		{[]string{"turns", "list"}, 0, "0 dead letters"},
		{[]string{"serve", "--redis-url", "redis://127.0.0.1:1"}, 2, "BOT_DATA_DIR: contradicts REDIS_URL"},
	} {
		cmd := botProcess(t.Context(), environment, command.args...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != command.code || !strings.Contains(string(out), command.want) {
			t.Errorf("%v ends with %v: %s", command.args, cmd.ProcessState, out)
		}
	}

	_ = bot.cmd.Process.Kill()
	<-bot.ended
	bot = startBot(t, environment...)
	if strings.Contains(bot.logged(), "server of the data folder started") {
		t.Error("the server was not adopted")
	}
	if got := bot.asked(2, "what is on our lists?"); !strings.Contains(got, "milk") {
		t.Errorf("after the kill of the bot it says %s", got)
	}

	if err := syscall.Kill(serverOf(t, folder), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	bot.until("server of the data folder started")
	if got := bot.asked(3, "what is on our lists?"); !strings.Contains(got, "milk") {
		t.Errorf("after the kill of the server it says %s", got)
	}

	bot.stop()
	if conn, err := dialDataDir(t.Context(), folder); err == nil {
		_ = conn.Close()
		t.Error("the server outlives the bot's orderly end")
	}
	if out, _ := botProcess(t.Context(), environment, "turns", "list").CombinedOutput(); !strings.Contains(string(out), "no bot runs with BOT_DATA_DIR") {
		t.Errorf("turns says %s", out)
	}
	bot = startBot(t, environment...)
	if got := bot.asked(4, "what is on our lists?"); !strings.Contains(got, "milk") {
		t.Errorf("after the next start it says %s", got)
	}
	bot.stop()
}

// serverOf is the process id of the folder's server.
func serverOf(t *testing.T, folder string) (pid int) {
	t.Helper()
	conn, err := dialDataDir(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(processPatience))
	if _, err := io.WriteString(conn, "INFO server\r\n"); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 4096)
	n, err := conn.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text[:n]), "process_id:")
	if _, err := fmt.Sscan(after, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestDataDirIsAdoptedOnAFullDisk, so that the bot takes messages as soon as there is room.
func TestDataDirIsAdoptedOnAFullDisk(t *testing.T) {
	t.Parallel()
	short, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	listener, err := net.Listen("unix", filepath.Join(short, settings.DataSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for _, answer := range []string{"-LOADING Redis is loading the dataset in memory", "-MISCONF Errors writing to the AOF file: No space left on device"} {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, answer+"\r\n")
			if strings.HasPrefix(answer, "-LOADING") {
				_ = conn.Close()
			}
		}
	}()
	d := &dataDir{path: short}
	if _, err := d.ready(withPatience(t)); err == nil {
		t.Error("a server that ended while it loaded counts as ready")
	}
	conn, err := d.ready(withPatience(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestDataDirOfAnotherVersion: the refusal has the server's own reason.
func TestDataDirOfAnotherVersion(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server")
	}
	short, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	files := filepath.Join(short, "appendonlydir")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"appendonly.aof.manifest":   "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
		"appendonly.aof.1.base.rdb": "REDIS9999",
		"appendonly.aof.1.incr.aof": "",
	} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := botProcess(t.Context(), []string{"BOT_DATA_DIR=" + short, "PATH=" + os.Getenv("PATH"), "PORT=0"}, "serve").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "BOT_DATA_DIR: the server in "+short+" ended at its start") || !strings.Contains(string(out), "9999") {
		t.Errorf("%v: %s", err, out)
	}
}
