package skills

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// Runner runs scripts that are files. It is safe for concurrent use.
type Runner interface {
	// Digest names what a run of the skill's scripts would see; it is what an approval is
	// bound to. The error is that of reading the skill's folder.
	Digest(ctx context.Context, s *Skill) (string, error)
	// Run runs a script of the skill. arguments is nil, or a JSON value as encoding/json
	// makes it with UseNumber; digest is what was approved, or "" for whatever is there. The
	// result is what the model is told; it has failed when the script did or may not run as
	// asked. The error says why it could not be tried, or wraps that of ctx.
	Run(ctx context.Context, s *Skill, script Script, arguments any, digest string) (actions.Result, error)
}

// Refuser is a [Runner] that can say beforehand what it will not run. Nobody is asked to
// approve that, and models are not told of scripts that it refuses whatever the arguments.
type Refuser interface {
	// Refuses says in words for the model why a script that is a file cannot be run with the
	// arguments, which are those of Run; "": it can be tried.
	Refuses(script Script, arguments any) string
}

// disabled is what is told of a script where none may run.
const disabled = "script execution is disabled: no sandbox available."

// Sandboxed runs scripts in box, under its limits. With nil it refuses each.
//
// A script gets its arguments in two forms. As JSON they are on its stdin. As a command line
// an array is a list of arguments; of an object each value follows its name, {"unit": "mile"}
// being --unit mile, where true is the name alone, false and null are left out, and an array
// repeats the name; anything else is one argument. What is no string there stands as JSON. A
// string that holds a JSON array or object is taken for that: some models send it so.
func Sandboxed(box *sandbox.Sandbox) Runner { return sandboxed{box} }

type sandboxed struct{ box *sandbox.Sandbox }

var _ Refuser = sandboxed{}

// Refuses knows the interpreters and what command lines can hold.
func (r sandboxed) Refuses(script Script, arguments any) string {
	_, why := r.command(script, arguments)
	return why
}

// command is what the sandbox gets to run, without the folder, or why it cannot be run.
func (r sandboxed) command(script Script, arguments any) (c sandbox.Command, why string) {
	if r.box == nil {
		return c, disabled
	}
	args, stdin, err := commandLine(arguments)
	if err != nil {
		return c, fmt.Sprintf("Script '%s' cannot take these arguments: %s.", inLine(script.Name), err)
	}
	c = sandbox.Command{Script: script.Name, Args: args, Stdin: stdin}
	if err := r.box.Check(c); err != nil {
		return c, fmt.Sprintf("Script '%s' was not run: %s.", inLine(script.Name), err)
	}
	return c, ""
}

func (r sandboxed) Digest(ctx context.Context, s *Skill) (string, error) {
	if err := ctx.Err(); err != nil || r.box == nil {
		return "", err
	}
	dir, err := s.open()
	if err != nil {
		return "", fmt.Errorf("open skill %q: %w", s.Name, err)
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	digest, err := r.box.Digest(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("digest of skill %q: %w", s.Name, err)
	}
	return digest, nil
}

func (r sandboxed) Run(ctx context.Context, s *Skill, script Script, arguments any, digest string) (actions.Result, error) {
	if s.Dir == "" || script.Action != nil {
		return actions.Result{}, fmt.Errorf("run script %q of skill %q: it is a Go function", script.Name, s.Name)
	}
	command, why := r.command(script, arguments)
	if why != "" {
		return fail("%s", why), nil
	}
	dir, err := s.open()
	if err != nil {
		return actions.Result{}, fmt.Errorf("open skill %q: %w", s.Name, err)
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	command.Dir, command.Digest = dir, digest
	got, err := r.box.Run(ctx, command)
	var refused *sandbox.RefusedError
	switch {
	case errors.Is(err, sandbox.ErrChanged):
		return fail("Script '%s' was not run: the skill '%s' has changed since this was approved.", script.Name, s.Name), nil
	case errors.As(err, &refused):
		return fail("Script '%s' was not run: %s.", script.Name, refused.Reason), nil
	case err != nil:
		return actions.Result{}, fmt.Errorf("skill %q: %w", s.Name, err)
	}
	return r.report(script.Name, got), nil
}

// report is what the model is told of a run.
func (r sandboxed) report(script string, got sandbox.Result) actions.Result {
	var text strings.Builder
	out, errs := share(got)
	text.WriteString(out)
	if errs != "" {
		text.WriteString("\nStderr:\n" + errs)
	}
	switch {
	case got.Exceeded == sandbox.WallTime:
		said := strings.TrimSpace(text.String())
		if said != "" {
			said = "\n" + said
		}
		return fail("Script '%s' timed out after %s.%s", script, seconds(r.box.Limits().Wall), said)
	case got.Exceeded != "":
		return fail("Script '%s' was ended: it went beyond its limit of %s.\n%s", script, got.Exceeded, orNone(text.String()))
	case got.ExitCode != 0:
		fmt.Fprintf(&text, "\nScript exited with code %d", got.ExitCode)
		return actions.Fail("%s", strings.TrimSpace(text.String()))
	}
	return actions.ObserveUnsaved(orNone(text.String()))
}

// shownBytes is how much of what a script printed is told: what a bot tells of any result,
// less some room for what is said about it.
const shownBytes = 64<<10 + 512

// share cuts out of the middles of stdout and stderr what is too much for both: the half is
// sure to each, and more where the other leaves room.
func share(got sandbox.Result) (out, errs string) {
	got.Stdout, got.Stderr = unframed(got.Stdout), unframed(got.Stderr)
	return middleOut(got.Stdout, max(shownBytes/2, shownBytes-len(got.Stderr)), got.Truncated),
		middleOut(got.Stderr, max(shownBytes/2, shownBytes-len(got.Stdout)), got.Truncated)
}

func middleOut(text string, most int, already bool) string {
	if len(text) <= most {
		return text
	}
	head, tail := strings.ToValidUTF8(text[:most/2-32], ""), strings.ToValidUTF8(text[len(text)-most/2+32:], "")
	more := "" // what was left out before was in the middle, too
	if already {
		more = " or more"
	}
	return fmt.Sprintf("%s\n[truncated %d bytes%s]\n%s", head, len(text)-len(head)-len(tail), more, tail)
}

func orNone(text string) string {
	if text = strings.TrimSpace(text); text != "" {
		return text
	}
	return "(no output)"
}

func seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) + " seconds"
}
