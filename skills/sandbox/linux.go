//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// try selects the kind of s if it contains the canary.
func try(ctx context.Context, s *Sandbox) (err error) {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return fmt.Errorf("the kernel does not list the children of processes: %w", err)
	}
	if err := closeOnExec(); err != nil {
		return err
	}
	s.prlimit = installed("prlimit")
	if s.prlimit == "" {
		return errors.New("the program prlimit of the package util-linux is not installed")
	}
	switch {
	case s.kind == kindLandlock:
		if abi, err := llsys.LandlockGetABIVersion(); err != nil || abi < minABI {
			return fmt.Errorf("the kernel has Landlock version %d, and %d (Linux 6.12) is needed", max(abi, 0), minABI)
		}
	case s.cfg.Bubblewrap == "":
		if s.cfg.Bubblewrap, err = exec.LookPath("bwrap"); err != nil {
			return fmt.Errorf("the program bwrap of the package bubblewrap is not installed: %w", err)
		}
	}
	return runCanary(ctx, s)
}

// closeOnExec keeps files that this program inherited at start from reaching scripts. Go already
// opens its own files close-on-exec.
func closeOnExec() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep open files from scripts: %w", err)
	}
	return nil
}

// job is one run.
type job struct {
	dir    string // for this run only; removed at the end
	skill  string // the skill's copy, in dir
	argv   []string
	limits Config

	// What the kind of sandbox adds:
	cmd     *exec.Cmd
	overuse func() (limit string) // reports a limit that only the sandbox can see exceeded; nil: none
	keeper  io.Closer             // closing it tells the keeper to stop; nil: no keeper
}

func newJob(limits Config) (*job, error) {
	dir, err := os.MkdirTemp("", folderPrefix)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(dir, nobody, nobody)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for the run: %w", err)
	}
	return &job{dir: dir, skill: filepath.Join(dir, "skill"), limits: limits}, nil
}

// start runs the job under its time limits.
func start(ctx context.Context, s *Sandbox, j *job) (Result, error) {
	// The kernel kills the child when the thread that started it exits. A locked thread does not
	// exit.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &output{full: func() { cancel(exceeded("output")) }}
	stderr := &output{full: stdout.full}
	j.cmd = exec.CommandContext(ctx, "") // the sandbox fills in the command
	j.cmd.Stdout, j.cmd.Stderr = stdout, stderr
	j.cmd.Env = []string{} // nil would pass our own
	j.cmd.WaitDelay = 2 * time.Second
	prepare := bubblewrap
	if s.kind == kindLandlock {
		prepare = landlock
	}
	err := prepare(s, j)
	if err == nil {
		err = j.cmd.Start()
	}
	for _, file := range j.cmd.ExtraFiles {
		_ = file.Close() // the child has its own copy
	}
	if j.keeper != nil {
		defer j.keeper.Close() //nolint:errcheck // nothing is written to it
	}
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", s.kind, err)
	}
	wall := time.AfterFunc(j.limits.Wall, func() { cancel(exceeded("wall time")) })
	defer wall.Stop()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { j.watch(ended, cancel) })
	err = j.cmd.Wait()
	close(ended)
	watching.Wait()

	result := Result{ExitCode: exitCode(j.cmd.ProcessState), Stdout: stdout.String(), Stderr: stderr.String()}
	var limit exceeded
	var exit *exec.ExitError
	switch cause := context.Cause(ctx); {
	case err == nil: // it exited by itself
	case errors.As(cause, &limit):
		result.Exceeded = string(limit)
	case cause != nil:
		return Result{}, cause
	case !errors.As(err, &exit):
		return Result{}, fmt.Errorf("wait for its end: %w", err)
	default:
		result.Exceeded = exceededBy[result.ExitCode]
	}
	return result, nil
}

// Exit codes that say which limit ended a script. Only the keeper exits with codeSockets.
const (
	codeCPU     = 128 + int(unix.SIGXCPU)
	codeDisk    = 128 + int(unix.SIGXFSZ)
	codeSockets = 128 + int(unix.SIGSTKFLT)
)

var exceededBy = map[int]string{codeCPU: "CPU time", codeDisk: "scratch folder", codeSockets: "memory"}

// exitCode follows the shell's convention.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// limited puts a command under the kernel's per-process limits. others is how many other tasks of
// the same user count against RLIMIT_NPROC. Memory is RLIMIT_DATA: runtimes such as node reserve
// far more address space than they use and would not start under RLIMIT_AS. The kernel kills a
// process one second after the watch should have.
func limited(prlimit string, l Config, others int, argv []string) []string {
	cpu := int((l.CPU+time.Second-1)/time.Second) + 1
	return append([]string{
		prlimit,
		"--data=" + strconv.FormatInt(l.MemoryBytes, 10),
		fmt.Sprintf("--cpu=%d:%d", cpu, cpu+1), // the soft limit's signal says why
		"--fsize=" + strconv.Itoa(maxFileBytes),
		"--nproc=" + strconv.Itoa(maxProcesses+others),
		"--nofile=" + strconv.Itoa(maxOpenFiles),
		"--sigpending=" + strconv.Itoa(maxPending),
		"--core=0",
		"--",
	}, argv...)
}

// environment is a script's whole environment.
func environment(scratch string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + scratch, "TMPDIR=" + scratch}
}

func existing(paths ...string) (there []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}

// systemFolders hold programs and libraries outside /usr; on most systems they link into /usr.
// systemFiles are the files in /etc that programs read at start; none is secret.
func systemFolders() []string { return existing("/bin", "/sbin", "/lib", "/lib32", "/lib64") }

func systemFiles() []string {
	return existing("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/openssl.cnf", "/etc/localtime")
}

// Paths inside bubblewrap.
const (
	skillInside   = "/skill"
	scratchInside = "/tmp"
	sharedBytes   = 16 << 20 // of /dev/shm
)

// bubblewrap prepares a job of s with new namespaces of every kind: an empty network, its own processes,
// and a file system with the system's programs, a copy of the skill and empty in-memory folders.
func bubblewrap(s *Sandbox, j *job) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	j.cmd.ExtraFiles = []*os.File{read}
	err = binary.Write(write, binary.NativeEndian, seccompFilter(deniedAlways())) // fits in the pipe's buffer
	if err := errors.Join(err, write.Close()); err != nil {
		return err
	}
	j.cmd.Path = s.cfg.Bubblewrap
	// RLIMIT_NPROC inside counts this sandbox only.
	j.cmd.Args = append(bubblewrapArgs(j, s.cfg.ReadOnly), limited(s.prlimit, j.limits, 0, j.argv)...)
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		j.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	// The namespace's first process dies with bwrap and takes all the others with it.
	j.cmd.Cancel = func() error { return syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) }
	j.overuse = func() string { return overuseInside(j.cmd.Process.Pid, j.limits) }
	return nil
}

// bubblewrapArgs is the command line up to the inner command. Order matters: --size applies to the
// next --tmpfs, and a folder becomes read-only only after it is filled.
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
		"--proc", "/proc", "--remount-ro", "/proc", // a writable /proc lets a process get others killed first
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

// overuseInside detects too many sockets, and too many files in an in-memory folder, whose size
// limit covers only file contents. It counts sockets in the network namespace, not among open
// files: data sent to a script's own server outlives the sender's socket, and sockets can be in
// transit inside other sockets.
func overuseInside(bwrap int, l Config) (limit string) {
	for _, pid := range children(strconv.Itoa(bwrap)) {
		sockets := 0
		stat, _ := os.ReadFile("/proc/" + pid + "/net/sockstat") // missing: it has exited
		_, _ = fmt.Sscanf(string(stat), "sockets: used %d", &sockets)
		if sockets > maxSockets {
			return "memory" // in socket buffers
		}
		for _, dir := range []string{scratchInside, "/dev/shm"} {
			var stat unix.Statfs_t
			err := unix.Statfs("/proc/"+pid+"/root"+dir, &stat)
			// Until the mount exists, we see the outside folder of the same name.
			ours := stat.Type == unix.TMPFS_MAGIC && int64(stat.Blocks)*stat.Bsize < max(l.ScratchBytes, sharedBytes)+stat.Bsize //nolint:gosec // a size
			if err == nil && ours && stat.Files-stat.Ffree > maxEntries {
				return "scratch folder"
			}
		}
	}
	return ""
}

// Under Landlock the program starts a copy of itself as the keeper, which starts a second copy. The
// second copy drops its rights and becomes the script. The keeper kills everything the script
// leaves behind.
const (
	childName = "planbot-sandbox"
	self      = "/proc/self/exe"

	stageKeeper = "keeper"
	stageScript = "script"
	stageCanary = "canary"
)

const exitBroken = 125 // the exit code of a copy that could not do its job

// minABI is the first Landlock ABI that confines signals. Without it a script running as the same
// user could kill this program, and the keeper could not kill all of a script.
const minABI = 6

// cell is what this program tells its copies, as JSON.
type cell struct {
	Skill   string
	Scratch string
	Read    []string
	Limits  Config
	Prlimit string
}

func landlock(s *Sandbox, j *job) error {
	c := cell{Skill: j.skill, Scratch: filepath.Join(j.dir, "scratch"), Limits: j.limits, Prlimit: s.prlimit}
	c.Read = slices.Concat([]string{"/usr"}, systemFolders(), systemFiles(), s.cfg.ReadOnly)
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
	j.cmd.Cancel = write.Close // the keeper sees EOF, as when this program dies
	return nil
}

// init runs the job of a copy that this package started, and never returns in one. It is an init
// and not a function for main to call because a large program does much before main. Packages with
// few imports initialize first, so scripts start in less than half the time.
func init() {
	if filepath.Base(os.Args[0]) != childName || len(os.Args) < 3 {
		return
	}
	runtime.LockOSThread() // seccomp and more apply per thread
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
	syscall.Exit(code) // skips exit work, such as the second that race builds wait in os.Exit
}

// keep starts the script. When the script or the parent program ends, it kills every remaining
// process. The keeper adopts orphans and may signal only its own descendants, so a signal to
// everybody reaches all of them at once and nobody else.
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
	cmd := exec.CommandContext(context.Background(), self) // ended below, not by a context
	cmd.Args = slices.Concat([]string{childName, stageScript, told}, argv)
	cmd.Env = []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return exitBroken, err
	}
	end := make(chan int, 2)
	go func() {
		if _ = cmd.Wait(); cmd.ProcessState != nil { // nil: the loop below reaped it
			end <- exitCode(cmd.ProcessState)
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "the program that wanted it"))
		end <- exitBroken
	}()
	// Landlock lets only the thread that started the script inspect or kill it, so this thread does
	// all of that.
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

// becomeScript drops everything that the script does not need, then becomes the script.
func becomeScript(told string, argv []string) error {
	var c cell
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		return err
	}
	if err := os.Chdir(c.Skill); err != nil {
		return err
	}
	// RLIMIT_NPROC counts all of the user's tasks, so add those already running, and room for what the user
	// starts meanwhile: the script must not fail because the machine is busy.
	others := tasksOf(os.Getuid())
	argv = limited(c.Prlimit, c.Limits, others+others/2+maxProcesses, argv)
	if err := c.restrict(); err != nil {
		return err
	}
	filter := seccompFilter(deniedWithoutNamespaces())
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))} //nolint:gosec // below 65536
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, environment(c.Scratch)))
}

// tasksOf counts a user's processes and threads.
func tasksOf(user int) (tasks int) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		info, err := os.Stat(process)
		if err != nil {
			continue // it has exited
		}
		if int(info.Sys().(*syscall.Stat_t).Uid) == user {
			threads, _ := os.ReadDir(filepath.Join(process, "task"))
			tasks += len(threads)
		}
	}
	return tasks
}

// restrict drops all rights to files, the network and signals, except those listed.
func (c cell) restrict() error {
	const readWrite, ownNever = llsys.AccessFSReadFile | llsys.AccessFSWriteFile,
		llsys.AccessFSMakeChar | llsys.AccessFSMakeBlock | llsys.AccessFSMakeSock | llsys.AccessFSIoctlDev
	rules := []ll.Rule{
		ll.PathAccess(readWrite, "/dev/null", "/dev/random", "/dev/urandom"),
		ll.ROFiles("/dev/zero"), // write access allows sharing memory that nothing counts
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

const (
	// watchEvery is how long processes can together exceed what the kernel allows each of them.
	watchEvery = 25 * time.Millisecond
	// maxEntries bounds the files in a scratch folder, and so the time to walk it and the kernel
	// memory it takes.
	maxEntries = 5000
)

// maxSockets bounds the sockets of all processes together. Data sent but not yet received is kernel
// memory that no limit counts: up to 0.4 MB per socket. Programs need few. The hungriest known is
// node, with six per child process it talks to.
const maxSockets = 8 * maxProcesses

// watch ends the job when its processes together exceed a limit. The kernel's limits cover only
// single processes and files.
func (j *job) watch(ended <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	all := processes{own: map[string]time.Duration{}}
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		cpu, memory := all.look(j.cmd.Process.Pid) // bwrap or the keeper itself does not count
		switch {
		case memory > j.limits.MemoryBytes:
			cancel(exceeded("memory"))
		case cpu > j.limits.CPU:
			cancel(exceeded("CPU time"))
		case j.overuse != nil:
			if limit := j.overuse(); limit != "" {
				cancel(exceeded(limit))
			}
		}
	}
}

// processes records each process's own CPU time as last seen, keyed by id and start time, and the
// sum.
type processes struct {
	own map[string]time.Duration
	sum time.Duration
}

// look returns the CPU time and memory of a process's descendants. It takes the larger of two CPU
// figures, as either may be too low: what live processes used with the children they waited for,
// and what all processes ever seen used. A process that ignores SIGCHLD waits for no child.
func (p *processes) look(pid int) (cpu time.Duration, memory int64) {
	for _, child := range descendants(strconv.Itoa(pid)) {
		cpu += p.time(child)
		memory += memoryOf(child)
	}
	return max(cpu, p.sum), memory
}

// descendants lists all processes that a process started or adopted, directly or not. It skips
// processes that have exited.
func descendants(pid string) (pids []string) {
	for _, child := range children(pid) {
		pids = append(append(pids, child), descendants(child)...)
	}
	return pids
}

func children(pid string) (pids []string) {
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		pids = append(pids, strings.Fields(string(children))...)
	}
	return pids
}

// time returns the CPU time, per proc(5), of a process and the children it waited for.
func (p *processes) time(pid string) time.Duration {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // skip the name, which may contain anything
	if len(fields) < 20 {
		return 0
	}
	var ticks [4]time.Duration // utime, stime, cutime, cstime, in 1/100 s
	for i := range ticks {
		n, _ := strconv.ParseInt(fields[11+i], 10, 64)
		ticks[i] = time.Duration(n) * 10 * time.Millisecond
	}
	key, own := pid+" "+fields[19], ticks[0]+ticks[1]
	before, known := p.own[key]
	if !known { // when memory runs out, the kernel kills it first
		_ = os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("1000"), 0)
	}
	p.own[key] = own
	p.sum += own - before
	return own + ticks[2] + ticks[3]
}

// memoryOf is a process's memory with its page tables, which can be most of it.
func memoryOf(pid string) int64 {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status") // the first thread may have exited
	for _, thread := range threads {
		if bytes := memoryIn(thread); bytes > 0 {
			return bytes
		}
	}
	return 0
}

func memoryIn(file string) (total int64) {
	status, _ := os.ReadFile(file)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap", "VmPTE", "HugetlbPages":
			var kilobytes int64
			_, _ = fmt.Sscan(value, &kilobytes)
			total += kilobytes << 10
		}
	}
	return total
}

// diskWatch checks whether this process's descendants use too much disk or too many sockets. The
// keeper runs it because it runs as the script's user; the bot may not.
type diskWatch struct {
	scratch string
	limits  Config
	hidden  int // consecutive looks that found hidden files
}

// maxHidden is how many looks in a row may find hidden files. A process's files are hidden briefly
// during exec.
const maxHidden = 3

// exceeded returns the exit code of the exceeded limit, or 0.
func (w *diskWatch) exceeded() (code int) {
	held := heldFiles{deleted: map[uint64]int64{}, sockets: map[uint64]bool{}}
	for _, pid := range descendants(strconv.Itoa(os.Getpid())) {
		held.add(pid)
	}
	if w.hidden++; !held.hidden {
		w.hidden = 0
	}
	if len(held.sockets) > maxSockets {
		return codeSockets
	}
	left := w.limits.ScratchBytes
	for _, size := range held.deleted {
		left -= size
	}
	if w.hidden == maxHidden || overfull(w.scratch, left) {
		return codeDisk
	}
	return 0
}

// overfull reports whether a folder holds more than size bytes or too many files, or hides its
// contents.
func overfull(dir string, size int64) bool {
	entries := 0
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		} else if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size -= info.Sys().(*syscall.Stat_t).Blocks * 512 // disk blocks it occupies
		}
		if entries++; entries > maxEntries || size < 0 {
			return errTooLarge
		}
		return nil
	})
	return err != nil
}

// heldFiles records the sizes of deleted but open files, and the sockets, by inode.
type heldFiles struct {
	deleted map[uint64]int64
	sockets map[uint64]bool
	hidden  bool // a process hid its files
}

func (h *heldFiles) add(pid string) {
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*") // a thread can have its own files
	for _, task := range tasks {
		files, err := os.ReadDir(task + "/fd")
		if errors.Is(err, fs.ErrPermission) && memoryIn(task+"/status") > 0 { // otherwise it has exited and has none
			h.hidden = true
		}
		h.addFile(task + "/exe")
		for _, file := range files {
			h.addFile(task + "/fd/" + file.Name())
		}
	}
	for _, task := range tasks {
		maps, _ := os.ReadFile(task + "/maps")
		for line := range strings.Lines(string(maps)) {
			if fields := strings.Fields(line); len(fields) > 5 && strings.HasSuffix(line, " (deleted)\n") {
				inode, _ := strconv.ParseUint(fields[4], 10, 64)
				if _, open := h.deleted[inode]; !open {
					h.deleted[inode] = maxFileBytes // the kernel does not tell its size
				}
			}
		}
		if len(maps) > 0 { // otherwise it was the first thread, and has exited
			break
		}
	}
}

// addFile records an open file if it is deleted or a socket.
func (h *heldFiles) addFile(link string) {
	info, err := os.Stat(link)
	if err != nil {
		return
	}
	switch stat := info.Sys().(*syscall.Stat_t); {
	case info.Mode()&fs.ModeSocket != 0:
		h.sockets[stat.Ino] = true // the same one may be open several times
	case info.Mode().IsRegular() && stat.Nlink == 0:
		h.deleted[stat.Ino] = stat.Blocks * 512
	}
}

const canaryHeld = "held" // what a contained canary prints

// runCanary runs a copy of this program as if it were a script. The copy tries what the sandbox
// must prevent.
func runCanary(ctx context.Context, s *Sandbox) error {
	limits := s.cfg
	limits.Wall = 10 * time.Second // takes milliseconds, more on a loaded machine
	j, err := newJob(limits)
	if err != nil {
		return err
	}
	defer removeFolder(j.dir)
	if err := copySelf(j.skill); err != nil {
		return err
	}
	secret := filepath.Join(j.dir, "bait")
	if err := os.WriteFile(secret, []byte("bait"), 0o644); err != nil { //nolint:gosec // only the sandbox is in the way
		return err
	}
	// An abstract socket: file permissions cannot protect it.
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", "@planbot-"+rand.Text())
	if err != nil {
		return fmt.Errorf("listen for the canary: %w", err)
	}
	defer listener.Close() //nolint:errcheck // nobody is meant to come
	j.argv = []string{"./" + childName, stageCanary, secret, listener.Addr().String()}
	result, err := start(ctx, s, j)
	switch {
	case err != nil:
		return err
	case result.Exceeded != "":
		return fmt.Errorf("the canary exceeded its limit of %s", result.Exceeded)
	case strings.Contains(strings.ToLower(result.Stderr), "./"+childName+": permission denied"):
		return fmt.Errorf("programs in the folder for temporary files have to be executable (no noexec): %s", result.Stderr)
	case result.Stdout != canaryHeld || result.ExitCode != 0:
		return fmt.Errorf("the canary ended with code %d: %s", result.ExitCode, strings.TrimSpace(result.Stderr))
	}
	return nil
}

// copySelf copies this program to where the script would be.
func copySelf(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer from.Close() //nolint:errcheck // it was only read from
	// A child that another goroutine starts just now would keep the file open for writing, so that nobody could run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	to, err := os.Create(filepath.Join(dir, childName))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(0o555), to.Close(), os.Chmod(dir, 0o755))
}

// tryToGetOut is the canary's job. Each attempt that succeeds is a breach.
func tryToGetOut(args []string) (code int, err error) {
	attempts := map[string]error{}
	_, attempts["read "+args[0]] = os.ReadFile(args[0])
	_, attempts["read /etc/shadow"] = os.ReadFile("/etc/shadow")
	attempts["write to the skill"] = os.WriteFile("written", nil, 0o600)
	attempts["remove a file of the skill"] = os.Remove(childName)
	_, attempts["reach the socket "+args[1]] = net.DialTimeout("unix", args[1], time.Second) //nolint:noctx // the whole canary has a deadline
	_, attempts["make a socket of AF_VSOCK"] = unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	_, attempts["make a socket of AF_INET"] = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	_, attempts["make a socket of AF_INET6"] = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	_, attempts["make a pair of datagram sockets"] = unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	_, attempts["make a file of memory"] = unix.MemfdCreate("", 0)
	_, attempts["watch a folder"] = unix.InotifyInit1(unix.IN_CLOEXEC)
	attempts["make a user namespace"] = unix.Unshare(unix.CLONE_NEWUSER)

	var breaches []error
	for attempt, err := range attempts {
		if err == nil {
			breaches = append(breaches, errors.New("it could "+attempt))
		}
	}
	if os.Geteuid() == 0 {
		breaches = append(breaches, errors.New("it was root"))
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"PATH", "LANG", "HOME", "TMPDIR", "PWD"}, name) { // bwrap adds PWD
			breaches = append(breaches, fmt.Errorf("it had the variable %.40q", variable))
		}
	}
	for _, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE, unix.RLIMIT_DATA, unix.RLIMIT_CPU} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil || limit.Max > 1<<40 {
			breaches = append(breaches, fmt.Errorf("it had no resource limit %d", resource))
		}
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), "written"), nil, 0o600); err != nil {
		breaches = append(breaches, fmt.Errorf("it could not use its scratch folder: %w", err))
	}
	if len(breaches) > 0 {
		return 1, errors.Join(breaches...)
	}
	fmt.Print(canaryHeld)
	return 0, nil
}

// Confine takes from this process, for good, what a parser of strangers' files does not need: opening and
// changing files, the network, other processes and new programs. Files that are open stay open. An error
// says that the system cannot do that.
func Confine() error {
	filter := seccompFilter(deniedToParsers())
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))} //nolint:gosec // below 65536
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	// For all threads, which Go has started some of.
	thread, _, errno := unix.Syscall(
		unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)), //nolint:gosec // that is how it is called
	)
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has another filter", thread)
	}
	return nil
}

// deniedToParsers is also what scripts may do: to open files, to start programs and to send signals. New
// threads stay possible, new processes do not.
func deniedToParsers() []denial {
	return slices.Concat(deniedWithoutNamespaces(), refuse(unix.EPERM,
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
		unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
		unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_CHDIR, unix.SYS_FCHDIR,
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL,
		unix.SYS_SOCKETPAIR, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_LISTEN, unix.SYS_SENDTO,
	), refuse(unix.EPERM, oldFiles()...),
		[]denial{{unix.SYS_CLONE, unix.EPERM, &condition{mask: unix.CLONE_THREAD, is: []uint32{0}}}})
}
