//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	nonblock = syscall.O_NONBLOCK
	overCPU  = 128 + int(unix.SIGXCPU)
	overDisk = 128 + int(unix.SIGXFSZ)
	// What only the keeper ends with: nothing sends this signal.
	overSockets = 128 + int(unix.SIGSTKFLT)
)

func newBackend(kind Kind, cfg Config) (backend, error) {
	if err := errors.Join(canWatch(), keepFilesIn()); err != nil {
		return nil, err
	}
	if kind == Bubblewrap {
		return newBubblewrap(cfg)
	}
	return newLandlock(cfg)
}

// canWatch says whether the kernel tells which processes a process has started.
func canWatch() error {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return fmt.Errorf("the kernel does not list the children of processes: %w", err)
	}
	return nil
}

// keepFilesIn sees to it that no file which this program was started with goes on to
// scripts; those that it opens itself do not, as everywhere in Go.
func keepFilesIn() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep open files from scripts: %w", err)
	}
	return nil
}

// claimFolder keeps other programs from removing the folder of a run, for as long as this
// one lives.
func claimFolder(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// owns says whether a folder in TempDir can be that of a run.
func (c Config) owns(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	return ok && (int(stat.Uid) == me || me == 0 && int(stat.Uid) == c.UID)
}

// exitCode is that of a shell.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// endFirst lets the kernel end a process first when the machine has no memory left.
func endFirst(pid string) {
	// It may have ended; then there is nothing to be done.
	_ = os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("1000"), 0)
}

// stored is how much of the disk a file takes.
func stored(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// environment is all that a script gets of one.
func environment(scratch string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + scratch, "TMPDIR=" + scratch}
}

// systemFolders are those beside /usr where programs and their libraries lie. On most
// systems they are links into /usr.
func systemFolders() []string {
	var folders []string
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if _, err := os.Lstat(dir); err == nil {
			folders = append(folders, dir)
		}
	}
	return folders
}

// systemFiles are what programs read of /etc to start; none of it is secret.
func systemFiles() []string {
	var files []string
	for _, file := range []string{"/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/openssl.cnf", "/etc/localtime"} {
		if _, err := os.Stat(file); err == nil {
			files = append(files, file)
		}
	}
	return files
}

// linkInto returns where a link of the root folder leads, "" for a folder.
func linkInto(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return filepath.Clean(target)
}
