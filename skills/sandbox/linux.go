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
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// try takes s.kind into use if it holds the canary.
func (s *Sandbox) try(ctx context.Context) (err error) {
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
	return s.runCanary(ctx)
}

// closeOnExec keeps the files that this program was started with from scripts. Those that it
// opens itself do not reach them anyway, as everywhere in Go.
func closeOnExec() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep open files from scripts: %w", err)
	}
	return nil
}

// job is one run.
type job struct {
	dir    string // of this run alone, removed at its end
	skill  string // the copy of the skill, in dir
	argv   []string
	limits Config

	// What the kind of sandbox adds:
	cmd     *exec.Cmd
	overuse func() (limit string) // a limit that only the sandbox can see exceeded; nil: there is none
	keeper  io.Closer             // what the keeper reads the end of; nil: there is none
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

// exceeded is the cause of the end of a run that went over a limit.
type exceeded string

func (e exceeded) Error() string { return "the script exceeded its limit of " + string(e) }

// start runs the job under its limits of time.
func (s *Sandbox) start(ctx context.Context, j *job) (Result, error) {
	// The kernel ends the child when the thread that started it ends. Locked, it cannot.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &output{full: func() { cancel(exceeded("output")) }}
	stderr := &output{full: stdout.full}
	j.cmd = exec.CommandContext(ctx, "") // the sandbox says what
	j.cmd.Stdout, j.cmd.Stderr = stdout, stderr
	j.cmd.Env = []string{} // not nil, which would be ours
	j.cmd.WaitDelay = 2 * time.Second
	prepare := s.bubblewrap
	if s.kind == kindLandlock {
		prepare = s.landlock
	}
	err := prepare(j)
	if err == nil {
		err = j.cmd.Start()
	}
	for _, file := range j.cmd.ExtraFiles {
		_ = file.Close() // the child has it
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
	case err == nil: // it had ended by itself
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

// Exit codes that say which limit ended a script. Nothing but the keeper ends with the last.
const (
	codeCPU     = 128 + int(unix.SIGXCPU)
	codeDisk    = 128 + int(unix.SIGXFSZ)
	codeSockets = 128 + int(unix.SIGSTKFLT)
)

var exceededBy = map[int]string{codeCPU: "CPU time", codeDisk: "scratch folder", codeSockets: "memory"}

// exitCode is that of a shell.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// limited puts a command under the limits that the kernel sets for each process. others are
// the tasks of the same user that count as the script's. Memory is RLIMIT_DATA: runtimes such as
// node's reserve far more addresses than they use, and would not start under RLIMIT_AS. The kernel
// ends a process a second after the watch should have.
func limited(prlimit string, l Config, others int, argv []string) []string {
	cpu := int((l.CPU+time.Second-1)/time.Second) + 1
	return append([]string{
		prlimit,
		"--data=" + strconv.FormatInt(l.MemoryBytes, 10),
		fmt.Sprintf("--cpu=%d:%d", cpu, cpu+1), // first the signal that says why
		"--fsize=" + strconv.Itoa(maxFileBytes),
		"--nproc=" + strconv.Itoa(maxProcesses+others),
		"--nofile=" + strconv.Itoa(maxOpenFiles),
		"--core=0",
		"--",
	}, argv...)
}

// environment is all that a script gets of one.
func environment(scratch string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + scratch, "TMPDIR=" + scratch}
}

// existing are those of the paths that are there.
func existing(paths ...string) (there []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}

// systemFolders are those beside /usr with programs and libraries, on most systems links into
// /usr. systemFiles are what programs read of /etc to start; none of it is secret.
func systemFolders() []string { return existing("/bin", "/sbin", "/lib", "/lib32", "/lib64") }

func systemFiles() []string {
	return existing("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/openssl.cnf", "/etc/localtime")
}

// maxPrinted bytes, kept or not, end a program that prints more.
const maxPrinted = 64 << 20

// output keeps the beginning and the end of what is written to it.
type output struct {
	written int
	head    []byte
	tail    []byte
	full    func() // called with each write beyond maxPrinted
}

func (o *output) Write(p []byte) (int, error) {
	o.written += len(p)
	n := min(len(p), maxOutput/2-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if over := len(o.tail) - maxOutput/2; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	if o.written > maxPrinted {
		o.full()
	}
	return len(p), nil
}

// String is what was kept, as text that is safe to show.
func (o *output) String() string {
	if n := o.written - len(o.head) - len(o.tail); n > 0 {
		return clean(string(o.head)) + fmt.Sprintf("\n[truncated %d bytes]\n", n) + clean(string(o.tail))
	}
	return clean(string(o.head) + string(o.tail))
}

// escapes are the sequences that steer terminals: ECMA-48's CSI and OSC, and the short ones.
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[ -/]*[0-~])")

// clean keeps what people and models can see of a text. A joiner is part of words and emoji,
// but not between letters of ASCII, where it could only hide something.
func clean(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\r\n", "\n"), string(unicode.ReplacementChar))
	s = escapes.ReplaceAllString(s, "")
	before := ' '
	return strings.Map(func(r rune) rune {
		joins := (r == '\u200c' || r == '\u200d') && before > unicode.MaxASCII && !unicode.Is(unicode.Cf, before)
		before = r
		switch {
		case r == '\n', r == '\t', joins:
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), 0xe0000 <= r && r <= 0xe0fff: // tags and variations among these
			return -1
		}
		return r
	}, s)
}

// Where things are inside of bubblewrap.
const (
	skillInside   = "/skill"
	scratchInside = "/tmp"
	sharedBytes   = 16 << 20 // of /dev/shm
)

// bubblewrap prepares a job that gets new namespaces of every kind: its own empty network, its own
// processes, and a file system of the system's programs, a copy of the skill and empty folders in
// memory.
func (s *Sandbox) bubblewrap(j *job) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	j.cmd.ExtraFiles = []*os.File{read}
	err = binary.Write(write, binary.NativeEndian, seccompFilter(deniedAlways())) // a pipe holds more than that
	if err := errors.Join(err, write.Close()); err != nil {
		return err
	}
	j.cmd.Path = s.cfg.Bubblewrap
	// Inside, RLIMIT_NPROC counts this sandbox alone.
	j.cmd.Args = append(bubblewrapArgs(j, s.cfg.ReadOnly), limited(s.prlimit, j.limits, 0, j.argv)...)
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		j.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	// The first process of the namespace dies with bwrap, and all the others with it.
	j.cmd.Cancel = func() error { return syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) }
	j.overuse = func() string { return overuseInside(j.cmd.Process.Pid, j.limits) }
	return nil
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
func overuseInside(bwrap int, l Config) (limit string) {
	for _, pid := range children(strconv.Itoa(bwrap)) {
		sockets := 0
		stat, _ := os.ReadFile("/proc/" + pid + "/net/sockstat") // not there: it has ended
		_, _ = fmt.Sscanf(string(stat), "sockets: used %d", &sockets)
		if sockets > maxSockets {
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
	Limits  Config
	Prlimit string
}

func (s *Sandbox) landlock(j *job) error {
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
	j.cmd.Cancel = write.Close // the keeper sees it, as it sees the end of this program
	return nil
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
	filter := seccompFilter(deniedWithoutNamespaces())
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
		if int(info.Sys().(*syscall.Stat_t).Uid) == user {
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

const (
	// watchEvery is how long processes can together exceed what the kernel allows each of them.
	watchEvery = 25 * time.Millisecond
	// maxEntries bounds the files in a scratch folder: how long a look at it takes, and what the
	// kernel has to remember of it.
	maxEntries = 5000
)

// maxSockets bounds the sockets of all processes together. What was sent and not yet received is
// the kernel's memory, which no limit counts: up to 0.4 MB for each socket. Programs need few. The
// most hungry one known is node, which has six for each child that it talks to.
const maxSockets = 8 * maxProcesses

// watch ends the job when its processes together exceed a limit; those of the kernel know
// single processes and files only.
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
		cpu, memory := all.look(j.cmd.Process.Pid) // that itself, bwrap or the keeper, is not the script's
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

// processes has the time that each process took by itself when it was last seen, by its id and
// when it began, and the sum.
type processes struct {
	own map[string]time.Duration
	sum time.Duration
}

// look returns what the descendants of a process take. Of their time it knows two figures that
// may both be too low: what those that are there took with the children that they waited for, and
// what all that were ever seen took. Whoever ignores SIGCHLD waits for none.
func (p *processes) look(pid int) (cpu time.Duration, memory int64) {
	for _, child := range descendants(strconv.Itoa(pid)) {
		cpu += p.time(child)
		memory += memoryOf(child)
	}
	return max(cpu, p.sum), memory
}

// descendants lists what a process started or adopted, and so on. What has ended meanwhile is
// left out.
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

// time reads what proc(5) says of one process and the children that it waited for.
func (p *processes) time(pid string) time.Duration {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // after the name, which may hold anything
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
	if !known { // let the kernel end it first when the machine has no memory left
		_ = os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("1000"), 0)
	}
	p.own[key] = own
	p.sum += own - before
	return own + ticks[2] + ticks[3]
}

// memoryOf is what one process has, its page tables included, which can be most of it.
func memoryOf(pid string) int64 {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status") // the first one may have ended
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

// diskWatch looks whether the descendants of this process use more disk or sockets than they
// may. The keeper does it, being the same user as the script, which the bot may not be.
type diskWatch struct {
	scratch string
	limits  Config
	hidden  int // looks in a row at which some files were hidden
}

// maxHidden looks may find files hidden: those of a process are for a moment when it becomes
// another.
const maxHidden = 3

// exceeded returns the code to end with, 0 as long as nothing is exceeded.
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

// overfull says whether a folder holds more than size bytes or too many files, or hides what it
// holds.
func overfull(dir string, size int64) bool {
	entries := 0
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		} else if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size -= info.Sys().(*syscall.Stat_t).Blocks * 512 // what it takes of the disk
		}
		if entries++; entries > maxEntries || size < 0 {
			return errTooLarge
		}
		return nil
	})
	return err != nil
}

// heldFiles are the sizes of the files that are deleted and in use, and the sockets, by inode.
type heldFiles struct {
	deleted map[uint64]int64
	sockets map[uint64]bool
	hidden  bool // a process did not let its files be seen
}

func (h *heldFiles) add(pid string) {
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*") // a thread can have files of its own
	for _, task := range tasks {
		files, err := os.ReadDir(task + "/fd")
		if errors.Is(err, fs.ErrPermission) && memoryIn(task+"/status") > 0 { // else it has ended and has none
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
					h.deleted[inode] = maxFileBytes // as the kernel does not tell its size
				}
			}
		}
		if len(maps) > 0 { // else it was the first thread, and has ended
			break
		}
	}
}

// addFile takes in what an open file is, if it is deleted or a socket.
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

// canaryHeld is what a canary prints that could not get out.
const canaryHeld = "held"

// runCanary runs a copy of this program as if it were a script. It tries what the sandbox has
// to prevent.
func (s *Sandbox) runCanary(ctx context.Context) error {
	limits := s.cfg
	limits.Wall = 10 * time.Second // it takes some milliseconds; on a loaded machine more
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
	// An abstract socket: no file could be out of reach.
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", "@planbot-"+rand.Text())
	if err != nil {
		return fmt.Errorf("listen for the canary: %w", err)
	}
	defer listener.Close() //nolint:errcheck // nobody is meant to come
	j.argv = []string{"./" + childName, stageCanary, secret, listener.Addr().String()}
	result, err := s.start(ctx, j)
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

// copySelf puts this program where the script would be.
func copySelf(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer from.Close() //nolint:errcheck // it was only read from
	to, err := os.Create(filepath.Join(dir, childName))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(0o555), to.Close(), os.Chmod(dir, 0o755))
}

// tryToGetOut is what the canary does. Each attempt that succeeds is a breach.
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
