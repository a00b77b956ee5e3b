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
	"syscall"
	"time"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Under Landlock the program starts a copy of itself as a keeper, which starts another one. That
// gives up its rights and becomes the script; the keeper ends what is left of it.
const (
	childName = "planbot-sandbox"
	self      = "/proc/self/exe"

	stageKeeper = "keeper"
	stageScript = "script"
	stageCanary = "canary"
)

// exitBroken is the exit code of a copy that could not do its part.
const exitBroken = 125

// minABI is the Landlock that keeps signals in: without that a script could end this program
// when both are the same user, and the keeper could not end all of a script.
const minABI = 6

// cell is what the copies of this program are told.
type cell struct {
	Skill   string
	Scratch string
	Read    []string
	Limits  Limits
	Prlimit string
}

func newLandlock(cfg Config) (prepare func(*job) error, err error) {
	if abi, err := llsys.LandlockGetABIVersion(); err != nil || abi < minABI {
		return nil, fmt.Errorf("the kernel has Landlock version %d, and %d (Linux 6.12) is needed", max(abi, 0), minABI)
	}
	prlimit, err := findPrlimit()
	if err != nil {
		return nil, err
	}
	return func(j *job) error {
		c := cell{Skill: j.skill, Scratch: filepath.Join(j.dir, "scratch"), Limits: j.limits, Prlimit: prlimit}
		c.Read = slices.Concat([]string{"/usr"}, systemFolders(), systemFiles(), cfg.ReadOnly)
		err := os.Mkdir(c.Scratch, 0o700)
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(c.Scratch, nobody, nobody)
		}
		if err != nil {
			return err
		}
		told, err := json.Marshal(c)
		if err != nil {
			return err
		}
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		j.keeper = write
		j.cmd.Path = self
		j.cmd.Args = append([]string{childName, stageKeeper, string(told)}, j.argv...)
		j.cmd.ExtraFiles = []*os.File{read}
		j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		j.cmd.Cancel = write.Close // the keeper sees it, as it sees the end of this program
		return nil
	}, nil
}

// init does the part of a copy that this package started, which then does not return. It is no
// function for main to call because much happens before main in a large program: packages that
// need few others come first, and scripts start in less than half the time.
func init() {
	if filepath.Base(os.Args[0]) != childName || len(os.Args) < 3 {
		return
	}
	runtime.LockOSThread() // seccomp and much else belongs to a thread
	args := os.Args[2:]
	code, err := exitBroken, closeOnExec()
	switch {
	case err != nil:
	case os.Args[1] == stageKeeper:
		code, err = keep(args[0], args[1:])
	case os.Args[1] == stageScript:
		err = becomeScript(args[0], args[1:])
	case os.Args[1] == stageCanary:
		code, err = tryToGetOut(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, childName+":", err)
	}
	syscall.Exit(code) // nothing is left to do, such as the second that race builds wait in os.Exit
}

// keep starts the script and, when it ends or the program that wanted it does, kills all that
// is left of it. The keeper adopts what loses its parent, and may signal only what it started, so
// that a signal to everybody reaches each of those at once, and nobody else.
func keep(told string, argv []string) (code int, err error) {
	var c cell
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		return exitBroken, err
	}
	if os.Geteuid() == 0 {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setresgid(nobody, nobody, nobody), syscall.Setresuid(nobody, nobody, nobody))
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err == nil {
		err = ll.MustConfig(ll.ScopedSet(llsys.ScopeSignal)).RestrictScoped()
	}
	if err != nil {
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
	end := make(chan int, 2)
	go func() {
		if _ = cmd.Wait(); cmd.ProcessState != nil { // else it was killed below
			end <- exitCode(cmd.ProcessState)
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "the program that wanted it"))
		end <- exitBroken
	}()
	// All that looks at the script or ends it is done by this thread, which started it: Landlock
	// lets no other one.
	for files, ended := (diskWatch{scratch: c.Scratch, limits: c.Limits}), false; !ended; {
		select {
		case code = <-end:
			ended = true
		case <-time.After(4 * watchEvery):
			code = files.exceeded()
			ended = code != 0
		}
	}
	for err := error(nil); !errors.Is(err, unix.ECHILD); _, err = unix.Wait4(-1, nil, 0, nil) {
		_ = unix.Kill(-1, unix.SIGKILL)
	}
	return code, nil
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
	// RLIMIT_NPROC counts all of a user's tasks, so those that run already come on top.
	argv = limited(c.Prlimit, c.Limits, tasksOf(os.Getuid()), argv)
	if err := c.restrict(); err != nil {
		return err
	}
	filter, err := seccompFilter(deniedWithoutNamespaces())
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))} //nolint:gosec // below 65536
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, environment(c.Scratch)))
}

// tasksOf counts the processes and threads of a user.
func tasksOf(user int) (tasks int) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		info, err := os.Stat(process)
		if err != nil {
			continue // ended meanwhile
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == user {
			threads, _ := os.ReadDir(filepath.Join(process, "task"))
			tasks += len(threads)
		}
	}
	return tasks
}

// restrict gives up the rights to files, the network and signals, but for these.
func (c cell) restrict() error {
	const readWrite, ownNever = llsys.AccessFSReadFile | llsys.AccessFSWriteFile,
		llsys.AccessFSMakeChar | llsys.AccessFSMakeBlock | llsys.AccessFSMakeSock | llsys.AccessFSIoctlDev
	rules := []ll.Rule{
		ll.PathAccess(readWrite, "/dev/null", "/dev/random", "/dev/urandom"),
		ll.ROFiles("/dev/zero"), // who can write can share memory by it that nobody counts
		ll.PathAccess(ll.V6.HandledAccessFS&^ownNever, c.Scratch),
	}
	for _, path := range append(c.Read, c.Skill) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			rules = append(rules, ll.RODirs(path))
		default:
			rules = append(rules, ll.ROFiles(path))
		}
	}
	return ll.V6.Restrict(rules...)
}
