//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bubblewrap gives each script new namespaces of every kind: its own empty network, its
// own processes, and a file system of the system's programs, a copy of the skill and
// empty folders in memory.
type bubblewrap struct {
	cfg     Config
	bwrap   string
	prlimit string // sets limits inside: there RLIMIT_NPROC counts this sandbox alone
	filter  []byte
}

// Where things are inside.
const (
	skillInside   = "/skill"
	scratchInside = "/tmp"
	sharedBytes   = 16 << 20 // of /dev/shm
)

func newBubblewrap(cfg Config) (*bubblewrap, error) {
	bwrap := cfg.Bubblewrap
	if bwrap == "" {
		found, err := exec.LookPath("bwrap")
		if err != nil {
			return nil, fmt.Errorf("the program bwrap of the package bubblewrap is not installed: %w", err)
		}
		bwrap = found
	}
	prlimit := installed("prlimit")
	if prlimit == "" {
		return nil, errors.New("the program prlimit of the package util-linux is not installed")
	}
	filter, err := seccompFilter(deniedAlways())
	if err != nil {
		return nil, err
	}
	return &bubblewrap{cfg: cfg, bwrap: bwrap, prlimit: prlimit, filter: filterBytes(filter)}, nil
}

func (b *bubblewrap) kind() Kind { return Bubblewrap }

func (b *bubblewrap) prepare(j *job) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	j.lent = append(j.lent, read, write)
	if _, err := write.Write(b.filter); err != nil { // a pipe holds more than a filter has
		return err
	}
	j.cmd.Path, j.cmd.Args = b.bwrap, b.args(j)
	j.cmd.Env = []string{} // not nil, which would be ours
	j.cmd.ExtraFiles = []*os.File{read}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		id := uint32(b.cfg.UID) //nolint:gosec // not negative: checked
		j.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	j.full = func() bool { return crowded(j.cmd.Process.Pid, j.limits.ScratchBytes) }
	j.sockets = func() int { return socketsOf(j.cmd.Process.Pid) }
	// The first process of the namespace dies with bwrap, and all the others with it.
	j.stop = func() error { return syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) }
	return nil
}

// args is the command line. The order matters: --size is for the --tmpfs behind it, and
// folders become read-only once all in them is there.
func (b *bubblewrap) args(j *job) []string {
	args := []string{
		b.bwrap,
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL", "--hostname", "skill", "--seccomp", "3",
		"--ro-bind", "/usr", "/usr",
	}
	for _, dir := range systemFolders() {
		if target := linkInto(dir); target != "" {
			args = append(args, "--symlink", target, dir)
		} else {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	for _, path := range append(systemFiles(), b.cfg.ReadOnly...) {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args,
		"--proc", "/proc", "--remount-ro", "/proc", // where a process could say that others be ended before it
		"--dev", "/dev", "--dev-bind", "/dev/full", "/dev/zero", // reads the same, but cannot share memory
		"--size", strconv.Itoa(sharedBytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", decimal(j.limits.ScratchBytes), "--tmpfs", scratchInside,
		"--ro-bind", j.skill, skillInside, "--chdir", skillInside, "--remount-ro", "/",
		"--clearenv")
	for _, variable := range environment(scratchInside) {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, "--")
	args = append(args, b.limits(j.limits)...)
	return append(args, j.argv...)
}

// limits is the beginning of the command inside. Memory is RLIMIT_DATA: runtimes such as
// node's reserve far more addresses than they use, and would not start under RLIMIT_AS.
func (b *bubblewrap) limits(l Limits) []string {
	return []string{
		b.prlimit,
		"--data=" + decimal(l.MemoryBytes),
		"--cpu=" + strconv.FormatUint(l.cpuSeconds(), 10) + ":" + strconv.FormatUint(l.cpuSeconds()+1, 10),
		"--fsize=" + decimal(l.FileBytes),
		"--nproc=" + strconv.Itoa(l.Processes),
		"--nofile=" + strconv.Itoa(l.OpenFiles),
		"--core=0",
		"--",
	}
}

// crowded says whether a folder in memory holds too many files: its size bounds only what
// is in them.
func crowded(bwrap int, size int64) bool {
	for _, pid := range children(strconv.Itoa(bwrap)) {
		for _, dir := range []string{scratchInside, "/dev/shm"} {
			var stat unix.Statfs_t
			err := unix.Statfs("/proc/"+pid+"/root"+dir, &stat)
			// Before it is there, the folder of the same name outside is seen.
			ours := stat.Type == unix.TMPFS_MAGIC && int64(stat.Blocks)*stat.Bsize < max(size, sharedBytes)+stat.Bsize //nolint:gosec // a size
			if err == nil && ours && stat.Files-stat.Ffree > maxEntries {
				return true
			}
		}
	}
	return false
}

// socketsOf counts the sockets in a sandbox's network namespace. It asks the kernel and does not
// go through open files: what a script sent to one of its own servers stays after the sender
// has closed its socket, and sockets can be on their way through others.
func socketsOf(bwrap int) (sockets int) {
	for _, pid := range children(strconv.Itoa(bwrap)) {
		stat, _ := os.ReadFile("/proc/" + pid + "/net/sockstat") // not there: it has ended
		_, _ = fmt.Sscanf(string(stat), "sockets: used %d", &sockets)
	}
	return sockets
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
