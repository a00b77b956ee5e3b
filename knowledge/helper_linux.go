package knowledge

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart gives a child a group of its own, so that what it starts can be ended with it. It ends if the
// parent is killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killAll ends what a child has left behind.
func killAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// limit limits a child's memory and time, and keeps it from writing files. Where a limit cannot be set,
// the look at the child is left.
func limit(pid int, memory int64) {
	seconds := uint64(maxFileTime.Seconds()) + 1
	for resource, most := range map[int]uint64{
		unix.RLIMIT_DATA: uint64(memory), unix.RLIMIT_CPU: seconds, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CORE: 0, //nolint:gosec // not negative
	} {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0)
}

// tookAllTime reports whether the kernel ended a child because of its CPU time.
func tookAllTime(ended *os.ProcessState) bool {
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// memoryOf is how much memory a process has of its own.
func memoryOf(pid int) int64 {
	pages, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(pages)
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}

const spareMemory = 32 << 20 // what a bot may need meanwhile

// memoryLeft is how much memory the control groups of this process leave to others in them, if they limit
// it. When there is none left, the kernel may kill all processes of a container.
func memoryLeft() (left int64, limited bool) {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return memoryLeftIn("/sys/fs/cgroup", string(groups))
}

// memoryLeftIn is memoryLeft for the groups that a file such as /proc/self/cgroup lists.
func memoryLeftIn(root, groups string) (left int64, limited bool) {
	left = math.MaxInt64
	look := func(most, used, stat, reclaimable string) {
		limit, ok := numberIn(most)
		if !ok || limit > 1<<50 { // the old way to say that there is none
			return
		}
		have, _ := numberIn(used)
		facts, _ := os.ReadFile(stat)
		for line := range strings.Lines(string(facts)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if files, err := strconv.ParseInt(value, 10, 64); err == nil && name == reclaimable {
				have -= min(files, have) // the kernel drops these first
			}
		}
		left, limited = min(left, max(limit-have-spareMemory, 0)), true
	}
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[0] == "0" && fields[1] == "":
			for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
				dir := path.Join(root, group)
				look(dir+"/memory.max", dir+"/memory.current", dir+"/memory.stat", "inactive_file")
				if group == "/" {
					break
				}
			}
		case strings.Contains(","+fields[1]+",", ",memory,"):
			for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
				dir := path.Join(root, "memory", group)
				look(dir+"/memory.limit_in_bytes", dir+"/memory.usage_in_bytes", dir+"/memory.stat", "total_inactive_file")
				if group == "/" {
					break
				}
			}
		}
	}
	return left, limited
}

func numberIn(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max": no limit
	return n, err == nil
}
