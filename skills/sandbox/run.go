//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

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
	if s.kind == kindBubblewrap {
		s.prepare, err = newBubblewrap(s.cfg)
	} else {
		s.prepare, err = newLandlock(s.cfg)
	}
	if err != nil {
		return err
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
	stdin  []byte
	limits Limits

	// What a sandbox's prepare adds:
	cmd     *exec.Cmd
	overuse func() (limit string) // a limit that only the sandbox can see exceeded; nil: there is none
	keeper  io.Closer             // what the keeper reads the end of; nil: there is none
}

func newJob(limits Limits) (*job, error) {
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
	stdout := &output{max: j.limits.OutputBytes, full: func() { cancel(exceeded("output")) }}
	stderr := &output{max: j.limits.OutputBytes, full: stdout.full}
	j.cmd = exec.CommandContext(ctx, "") // prepare says what
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr = bytes.NewReader(j.stdin), stdout, stderr
	j.cmd.Env = []string{} // not nil, which would be ours
	j.cmd.WaitDelay = 2 * time.Second
	err := s.prepare(j)
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

	result := Result{
		ExitCode: exitCode(j.cmd.ProcessState), Stdout: stdout.String(), Stderr: stderr.String(),
		Truncated: stdout.dropped()+stderr.dropped() > 0,
	}
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
func limited(prlimit string, l Limits, others int, argv []string) []string {
	cpu := int((l.CPU+time.Second-1)/time.Second) + 1
	return append([]string{
		prlimit,
		"--data=" + strconv.FormatInt(l.MemoryBytes, 10),
		fmt.Sprintf("--cpu=%d:%d", cpu, cpu+1), // first the signal that says why
		"--fsize=" + strconv.FormatInt(l.FileBytes, 10),
		"--nproc=" + strconv.Itoa(l.Processes+others),
		"--nofile=" + strconv.Itoa(l.OpenFiles),
		"--core=0",
		"--",
	}, argv...)
}

// findPrlimit finds the program that sets limits.
func findPrlimit() (string, error) {
	if program := installed("prlimit"); program != "" {
		return program, nil
	}
	return "", errors.New("the program prlimit of the package util-linux is not installed")
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
	max     int // bytes kept
	written int
	head    []byte
	tail    []byte
	full    func() // called with each write beyond maxPrinted
}

func (o *output) Write(p []byte) (int, error) {
	o.written += len(p)
	n := min(len(p), o.max-o.max/2-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if over := len(o.tail) - o.max/2; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	if o.written > maxPrinted {
		o.full()
	}
	return len(p), nil
}

func (o *output) dropped() int { return o.written - len(o.head) - len(o.tail) }

// String is what was kept, as text that is safe to show.
func (o *output) String() string {
	if n := o.dropped(); n > 0 {
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
