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

func (r sandboxed) Digest(ctx context.Context, s *Skill) (string, error) {
	if err := ctx.Err(); err != nil || r.box == nil {
		return "", err
	}
	digest, err := r.box.Digest(s.Dir)
	if err != nil {
		return "", fmt.Errorf("digest of skill %q: %w", s.Name, err)
	}
	return digest, nil
}

func (r sandboxed) Run(ctx context.Context, s *Skill, script Script, arguments any, digest string) (actions.Result, error) {
	if r.box == nil {
		return actions.Fail(disabled), nil
	}
	if s.Dir == "" || script.Action != nil {
		return actions.Result{}, fmt.Errorf("run script %q of skill %q: it is a Go function", script.Name, s.Name)
	}
	args, stdin, err := commandLine(arguments)
	if err != nil {
		return actions.Fail("Script '%s' cannot take these arguments: %s.", script.Name, err), nil
	}
	got, err := r.box.Run(ctx, sandbox.Command{Dir: s.Dir, Script: script.Name, Args: args, Stdin: stdin, Digest: digest})
	var refused *sandbox.RefusedError
	switch {
	case errors.Is(err, sandbox.ErrChanged):
		return actions.Fail("Script '%s' was not run: the skill '%s' has changed since this was approved.", script.Name, s.Name), nil
	case errors.As(err, &refused):
		return actions.Fail("Script '%s' was not run: %s.", script.Name, refused.Reason), nil
	case err != nil:
		return actions.Result{}, fmt.Errorf("skill %q: %w", s.Name, err)
	}
	return r.report(script.Name, got), nil
}

// report is what the model is told of a run.
func (r sandboxed) report(script string, got sandbox.Result) actions.Result {
	var text strings.Builder
	text.WriteString(got.Stdout)
	if got.Stderr != "" {
		text.WriteString("\nStderr:\n" + got.Stderr)
	}
	switch {
	case got.Exceeded == sandbox.WallTime:
		return actions.Fail("Script '%s' timed out after %s.", script, seconds(r.box.Limits().Wall))
	case got.Exceeded != "":
		return actions.Fail("Script '%s' was ended: it went beyond its limit of %s.\n%s", script, got.Exceeded, orNone(text.String()))
	case got.ExitCode != 0:
		fmt.Fprintf(&text, "\nScript exited with code %d", got.ExitCode)
		return actions.Fail("%s", strings.TrimSpace(text.String()))
	}
	return actions.ObserveUnsaved(orNone(text.String()))
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
