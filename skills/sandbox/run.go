package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Run runs a script and waits for its end, and for that of all that it started. It first
// waits for a free place, which does not count against the wall time. The error is a
// [*RefusedError], wraps [ErrChanged], says why the script could not be started, or is the
// cause of ctx's end.
func (s *Sandbox) Run(ctx context.Context, c Command) (Result, error) {
	interpreter, err := s.check(c)
	if err != nil {
		return Result{}, fmt.Errorf("run script %q: %w", c.Script, err)
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("run script %s: %w", c.Script, err)
	}
	defer leave()
	result, err := s.run(ctx, c, interpreter)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause) // it ended before it began
	}
	if err != nil {
		return Result{}, fmt.Errorf("run script %s: %w", c.Script, err)
	}
	return result, nil
}

func (s *Sandbox) run(ctx context.Context, c Command, interpreter []string) (Result, error) {
	if c.Dir == nil {
		return Result{}, errors.New("no folder")
	}
	j, err := s.newJob(c.Limits.or(s.cfg.Limits))
	if err != nil {
		return Result{}, err
	}
	defer j.remove()
	digest, err := s.copySkill(ctx, c.Dir, j.skill)
	if err != nil {
		return Result{}, err
	}
	if c.Digest != "" && c.Digest != digest {
		return Result{}, ErrChanged
	}
	if info, err := os.Lstat(filepath.Join(j.skill, c.Script)); err != nil || !info.Mode().IsRegular() {
		return Result{}, refusal("the skill has no such file")
	}
	j.argv = slices.Concat(interpreter, []string{"./" + c.Script}, c.Args)
	j.stdin = c.Stdin
	return s.start(ctx, j)
}

// job is a run that is being made ready, and then at work.
type job struct {
	dir    string    // of this run alone; what it holds goes with it
	claim  io.Closer // keeps others from sweeping dir away
	skill  string    // the copy of the skill, in dir
	argv   []string
	stdin  []byte
	limits Limits

	// What the backend's prepare adds:
	cmd     *exec.Cmd
	stop    func() error // ends the script and all that it started
	full    func() bool  // whether the scratch folder holds too much, as far as the kernel does not see to it
	sockets func() int   // how many sockets there are, as far as the bot is the one to look
	lent    []io.Closer  // the child's ends, closed once it has them
	kept    []io.Closer  // ours, closed at the end

	seen usage
}

func (s *Sandbox) newJob(limits Limits) (*job, error) {
	dir, err := os.MkdirTemp(s.cfg.TempDir, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the run: %w", err)
	}
	claim, err := claimFolder(dir)
	if err == nil {
		err = s.own(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the folder for the run ready: %w", err), os.RemoveAll(dir))
	}
	return &job{dir: dir, claim: claim, skill: filepath.Join(dir, "skill"), limits: limits}, nil
}

// own gives a folder to the user that scripts run as.
func (s *Sandbox) own(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, s.cfg.UID, s.cfg.UID)
}

// remove removes what is left of a run.
func (j *job) remove() {
	removeFolder(j.dir)
	_ = j.claim.Close()
}

func closeAll(closers []io.Closer) {
	for _, c := range closers {
		_ = c.Close()
	}
}

// exceeded is the cause of a run's end when it went beyond a limit.
type exceeded Limit

func (e exceeded) Error() string { return "the script went beyond its limit of " + string(e) }

// start runs the job under its limits of time.
func (s *Sandbox) start(ctx context.Context, j *job) (Result, error) {
	// The kernel ends the child when the thread that started it ends. Locked, it cannot.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() { closeAll(j.kept) }()

	stdout := &output{max: j.limits.OutputBytes, full: func() { cancel(exceeded(Output)) }}
	stderr := &output{max: j.limits.OutputBytes, full: stdout.full}
	j.cmd = exec.CommandContext(ctx, "") // prepare says what
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr = bytes.NewReader(j.stdin), stdout, stderr
	j.cmd.WaitDelay = 2 * time.Second
	err := s.backend.prepare(j)
	if err == nil {
		j.cmd.Cancel = j.stop
		err = j.cmd.Start()
	}
	closeAll(j.lent)
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", s.backend.kind(), err)
	}
	began := time.Now()
	err = j.wait(ctx, cancel)
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Truncated: stdout.dropped()+stderr.dropped() > 0}
	result.Usage = Usage{Wall: time.Since(began), CPU: j.seen.cpu, MemoryBytes: j.seen.memory}
	return j.outcome(ctx, result, err)
}

// wait waits for the end, and sees to the limits meanwhile.
func (j *job) wait(ctx context.Context, cancel context.CancelCauseFunc) error {
	wall := time.AfterFunc(j.limits.Wall, func() { cancel(exceeded(WallTime)) })
	defer wall.Stop()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { j.watch(ended, cancel) })
	err := j.cmd.Wait()
	close(ended)
	watching.Wait()
	state := j.cmd.ProcessState
	j.seen.cpu = max(j.seen.cpu, state.UserTime()+state.SystemTime())
	return err
}

// outcome completes the result, or says why there is none.
func (j *job) outcome(ctx context.Context, result Result, err error) (Result, error) {
	result.ExitCode = exitCode(j.cmd.ProcessState)
	var limit exceeded
	var exit *exec.ExitError
	switch cause := context.Cause(ctx); {
	case err == nil: // it had ended by itself
	case errors.As(cause, &limit):
		result.Exceeded = Limit(limit)
	case cause != nil:
		return Result{}, cause
	case !errors.As(err, &exit):
		return Result{}, fmt.Errorf("wait for its end: %w", err)
	case result.ExitCode == overCPU:
		result.Exceeded = CPUTime
	case result.ExitCode == overDisk:
		result.Exceeded = Scratch
	case result.ExitCode == overSockets:
		result.Exceeded = Memory
	}
	return result, nil
}
