//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Where things are inside of bubblewrap.
const (
	skillInside   = "/skill"
	scratchInside = "/tmp"
	sharedBytes   = 16 << 20 // of /dev/shm
)

// newBubblewrap prepares jobs that get new namespaces of every kind: their own empty network,
// their own processes, and a file system of the system's programs, a copy of the skill and empty
// folders in memory.
func newBubblewrap(cfg Config) (prepare func(*job) error, err error) {
	bwrap := cfg.Bubblewrap
	if bwrap == "" {
		if bwrap, err = exec.LookPath("bwrap"); err != nil {
			return nil, fmt.Errorf("the program bwrap of the package bubblewrap is not installed: %w", err)
		}
	}
	prlimit, err := findPrlimit()
	if err != nil {
		return nil, err
	}
	filter, err := seccompFilter(deniedAlways())
	if err != nil {
		return nil, err
	}
	return func(j *job) error {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		j.cmd.ExtraFiles = []*os.File{read}
		_, err = write.Write(filterBytes(filter)) // a pipe holds more than a filter has
		if err := errors.Join(err, write.Close()); err != nil {
			return err
		}
		j.cmd.Path = bwrap
		// Inside, RLIMIT_NPROC counts this sandbox alone.
		j.cmd.Args = append(bubblewrapArgs(j, cfg.ReadOnly), limited(prlimit, j.limits, 0, j.argv)...)
		j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() == 0 {
			j.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		}
		// The first process of the namespace dies with bwrap, and all the others with it.
		j.cmd.Cancel = func() error { return syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) }
		j.overuse = func() string { return overuseInside(j.cmd.Process.Pid, j.limits) }
		return nil
	}, nil
}

// bubblewrapArgs is the command line up to the command inside. The order matters: --size is for
// the --tmpfs after it, and folders become read-only once everything in them is there.
func bubblewrapArgs(j *job, readOnly []string) []string {
	args := []string{
		"bwrap",
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL", "--hostname", "skill", "--seccomp", "3",
		"--ro-bind", "/usr", "/usr",
	}
	for _, dir := range systemFolders() {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", filepath.Clean(target), dir)
		} else {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	for _, path := range append(systemFiles(), readOnly...) {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args,
		"--proc", "/proc", "--remount-ro", "/proc", // where a process could have others ended before it
		"--dev", "/dev", "--dev-bind", "/dev/full", "/dev/zero", // reads the same, but cannot share memory
		"--size", strconv.Itoa(sharedBytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", strconv.FormatInt(j.limits.ScratchBytes, 10), "--tmpfs", scratchInside,
		"--ro-bind", j.skill, skillInside, "--chdir", skillInside, "--remount-ro", "/",
		"--clearenv")
	for _, variable := range environment(scratchInside) {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	return append(args, "--")
}

// overuseInside finds too many sockets, which it counts in the network namespace and not among
// open files: what a script sent to one of its own servers stays after the sender has closed its
// socket, and sockets can be on their way through others. And too many files in a folder in
// memory, whose size bounds only what is in them.
func overuseInside(bwrap int, l Limits) (limit string) {
	for _, pid := range children(strconv.Itoa(bwrap)) {
		sockets := 0
		stat, _ := os.ReadFile("/proc/" + pid + "/net/sockstat") // not there: it has ended
		_, _ = fmt.Sscanf(string(stat), "sockets: used %d", &sockets)
		if sockets > l.maxSockets() {
			return "memory" // in their buffers
		}
		for _, dir := range []string{scratchInside, "/dev/shm"} {
			var stat unix.Statfs_t
			err := unix.Statfs("/proc/"+pid+"/root"+dir, &stat)
			// Until it is there, the folder of the same name outside is seen.
			ours := stat.Type == unix.TMPFS_MAGIC && int64(stat.Blocks)*stat.Bsize < max(l.ScratchBytes, sharedBytes)+stat.Bsize //nolint:gosec // a size
			if err == nil && ours && stat.Files-stat.Ffree > maxEntries {
				return "scratch folder"
			}
		}
	}
	return ""
}
