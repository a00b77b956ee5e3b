//go:build unix && !linux

package knowledge

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// apart gives a child a group of its own, so that what it starts can be ended with it.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killAll ends what a child has left behind.
func killAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// limit does nothing here: the look at the child is all there is.
func limit(int, int64) {}

func tookAllTime(*os.ProcessState) bool { return false }

// memoryOf is how much memory a process has.
func memoryOf(pid int) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	said, _ := exec.CommandContext(ctx, "/bin/ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec // a number
	kilobytes, _ := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64)
	return kilobytes << 10
}

func memoryLeft() (left int64, limited bool) { return 0, false }
