//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How a copy of this program knows what it is.
const (
	childName = "planbot-sandbox"
	self      = "/proc/self/exe"

	stageKeeper = "keeper"
	stageScript = "script"
	stageCanary = "canary"
)

// exitBroken is the exit code of a copy that could not do its part.
const exitBroken = 125

// init does the part of a copy that this package started, which then does not return. It
// is no function for main to call because much happens before main in a large program:
// packages that need few others come first, and scripts start in less than half the time.
func init() {
	if filepath.Base(os.Args[0]) != childName || len(os.Args) < 3 {
		return
	}
	var part func() (int, error)
	switch args := os.Args[2:]; os.Args[1] {
	case stageKeeper:
		part = func() (int, error) { return keep(args[0], args[1:]) }
	case stageScript:
		part = func() (int, error) { return exitBroken, becomeScript(args[0], args[1:]) }
	case stageCanary:
		part = func() (int, error) { return tryToGetOut(args) }
	default:
		return
	}
	runtime.LockOSThread() // Landlock, seccomp and the rest are of a thread
	code, err := exitBroken, keepFilesIn()
	if err == nil {
		code, err = part()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, childName+":", err)
	}
	syscall.Exit(code) // nothing is to be done before, such as the second that race builds wait in os.Exit
}

// keep starts the script and, when it ends or the program that wanted it does, kills all
// that is left of it: the keeper adopts what loses its parent, and may signal only what
// it started, so that a signal to everybody reaches each of those at once, and nobody else.
func keep(told string, argv []string) (int, error) {
	var c cell
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		return exitBroken, err
	}
	if err := becomeUser(c.UID); err != nil {
		return exitBroken, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return exitBroken, fmt.Errorf("adopt processes: %w", err)
	}
	if err := scopeSignals(); err != nil {
		return exitBroken, err
	}
	cmd := exec.CommandContext(context.Background(), self) // its end comes from below
	cmd.Args = slices.Concat([]string{childName, stageScript, told}, argv)
	cmd.Env = []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return exitBroken, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "the program that wanted it"))
		_ = cmd.Process.Kill()
	}()
	var full atomic.Int32
	go func() {
		full.Store(int32(c.awaitFull())) //nolint:gosec // an exit code
		_ = cmd.Process.Kill()
	}()
	_ = cmd.Wait() // its state says it all
	killRest()
	if code := full.Load(); code != 0 {
		return int(code), nil
	}
	return exitCode(cmd.ProcessState), nil
}

// killRest kills and reaps until nothing is left.
func killRest() {
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return
		}
	}
}

func becomeUser(id int) error {
	if id == 0 {
		return nil
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(id, id, id), syscall.Setresuid(id, id, id)); err != nil {
		return fmt.Errorf("become user %d: %w", id, err)
	}
	return nil
}

// becomeScript gives up everything but what the script needs, and becomes it.
func becomeScript(told string, argv []string) error {
	var c cell
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		return err
	}
	if err := os.Chdir(c.Skill); err != nil {
		return err
	}
	filter, err := seccompFilter(deniedWithoutNamespaces())
	if err != nil {
		return err
	}
	if err := c.limit(); err != nil {
		return err
	}
	if err := c.restrict(); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))} //nolint:gosec // below 65536
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return fmt.Errorf("run %s: %w", argv[0], c.execute(argv))
}

// execute becomes the program, which the limit of memory is for: this copy of ours has
// more than that mapped, in a race build by far, and could not allocate under it.
func (c cell) execute(argv []string) error {
	path, err := syscall.BytePtrFromString(argv[0])
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(environment(c.Scratch))
	if err != nil {
		return err
	}
	memory := uint64(c.Limits.MemoryBytes) //nolint:gosec // checked: not negative
	return limitAndExecute(&syscall.Rlimit{Cur: memory, Max: memory}, path, &args[0], &env[0])
}

// limitAndExecute allocates nothing, and the race detector nothing for it.
//
//go:norace
func limitAndExecute(memory *syscall.Rlimit, path *byte, args, env **byte) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, uintptr(unsafe.Pointer(memory)), 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE,
			uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(args)), uintptr(unsafe.Pointer(env)))
	}
	return errno
}

// limit sets the limits but that of memory. RLIMIT_NPROC counts all of a user's tasks, so
// what is there already comes on top.
func (c cell) limit() error {
	tasks, err := tasksOf(os.Getuid())
	if err != nil {
		return err
	}
	l := c.Limits
	for resource, n := range map[int]uint64{
		unix.RLIMIT_CPU:    l.cpuSeconds(),
		unix.RLIMIT_FSIZE:  uint64(l.FileBytes),         //nolint:gosec // checked: none is negative
		unix.RLIMIT_NPROC:  tasks + uint64(l.Processes), //nolint:gosec // as above
		unix.RLIMIT_NOFILE: uint64(l.OpenFiles),         //nolint:gosec // as above
		unix.RLIMIT_CORE:   0,
	} {
		limit := syscall.Rlimit{Cur: n, Max: n}
		if resource == unix.RLIMIT_CPU {
			limit.Max++ // first the signal that says why
		}
		if err := syscall.Setrlimit(resource, &limit); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", resource, n, err)
		}
	}
	return nil
}

// tasksOf counts the processes and threads of a user.
func tasksOf(uid int) (tasks uint64, err error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, process := range processes {
		info, err := os.Stat(process)
		if err != nil {
			continue // ended meanwhile
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != uid {
			continue
		}
		threads, _ := os.ReadDir(filepath.Join(process, "task"))
		tasks += uint64(len(threads))
	}
	return tasks, nil
}

// expected says whether a variable is one that scripts get; bwrap adds PWD.
func expected(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"PATH", "LANG", "HOME", "TMPDIR", "PWD"}, name)
}
