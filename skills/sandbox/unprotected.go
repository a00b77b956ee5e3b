package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Unprotected runs scripts as ordinary programs of this user. It is for development on systems without a sandbox, such
// as Windows and macOS, with skills that you have read. A script can read, change and delete what you can, reach the
// network, and leave programs behind. Only these are kept from it: the folder of the skill, of which it gets a copy,
// this program's environment but for PATH and what the system needs, and more time than Wall.
//
// The zero value has no interpreter, so it runs nothing. It is safe for concurrent use.
type Unprotected struct {
	// Interpreters are the commands that run scripts, by extension: {".py": {"python3"}}. They are looked up on PATH.
	Interpreters map[string][]string
	WallTime     time.Duration // of each run; 0: 30 s
}

// String says what the log and doctor say of it.
func (u Unprotected) String() string {
	return "ordinary programs of this user, without any protection: they can read, change and send away what the user can"
}

// Wall is the time limit of a run.
func (u Unprotected) Wall() time.Duration { return cmp.Or(u.WallTime, 30*time.Second) }

// Check is as [Sandbox.Check].
func (u Unprotected) Check(c Command) (refused string) {
	return (&Sandbox{interpreters: u.Interpreters}).Check(c)
}

// Digest is as [Sandbox.Digest].
func (u Unprotected) Digest(ctx context.Context, dir *os.Root) (string, error) {
	return copyFolder(ctx, dir, "")
}

// Run runs a script and waits for its end, as [Sandbox.Run], but for the protection.
func (u Unprotected) Run(ctx context.Context, c Command) (Result, error) {
	if c.Dir == nil {
		return Result{}, errors.New("no folder")
	}
	if why := u.Check(c); why != "" {
		return Result{Refused: why}, nil
	}
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return Result{}, fmt.Errorf("make a folder for the run: %w", err)
	}
	defer removeFolder(dir)
	skill := filepath.Join(dir, "skill")
	digest, err := copyFolder(ctx, c.Dir, skill)
	if why := refusal(""); errors.As(err, &why) {
		return Result{Refused: string(why)}, nil
	}
	switch {
	case err != nil:
		return Result{}, err
	case c.Digest != "" && c.Digest != digest:
		return Result{Refused: "the skill has changed since this was approved"}, nil
	}
	result, err := u.start(ctx, c, skill, dir)
	if err != nil {
		return Result{}, fmt.Errorf("run script %q: %w", c.Script, err)
	}
	return result, nil
}

// start runs the script of a skill's copy, with a folder for its own files.
func (u Unprotected) start(ctx context.Context, c Command, skill, scratch string) (Result, error) {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wall := time.AfterFunc(u.Wall(), func() { cancel(exceeded("wall time")) })
	defer wall.Stop()
	stdout := &output{full: func() { cancel(exceeded("output")) }}
	stderr := &output{full: stdout.full}
	interpreter := u.Interpreters[strings.ToLower(filepath.Ext(c.Script))]
	argv := slices.Concat(interpreter, []string{filepath.FromSlash(c.Script)}, c.Args)
	cmd := exec.CommandContext(running, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = skill, stdout, stderr
	cmd.WaitDelay = 2 * time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch, "LANG=C.UTF-8"}
	if root := os.Getenv("SystemRoot"); root != "" { // no program starts without it in Windows
		cmd.Env = append(cmd.Env, "SystemRoot="+root, "TEMP="+scratch, "TMP="+scratch)
	}
	err := cmd.Run()
	limit, over := errors.AsType[exceeded](context.Cause(running))
	if cmd.ProcessState == nil && !over {
		return Result{}, err
	}
	result := Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	switch {
	case over:
		result.Exceeded = string(limit)
	case ctx.Err() != nil:
		return Result{}, context.Cause(ctx)
	}
	return result, nil
}
