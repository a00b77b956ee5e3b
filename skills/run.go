package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// runner runs script files: a sandboxed, or a test's fake.
type runner interface {
	// Refuses tells the model why a script cannot run with the arguments, which are those of Run;
	// "": it can be tried. Refused calls need no approval, and models are not told about scripts
	// that are refused without arguments.
	Refuses(script Script, arguments any) string
	// Digest identifies what a run of the skill's scripts would see; approvals are bound to it. It
	// fails if the skill's folder cannot be read.
	Digest(ctx context.Context, s *Skill) (string, error)
	// Run runs a script of the skill. arguments is nil, or a JSON value decoded by encoding/json
	// with UseNumber. digest is what was approved, or "" for whatever is there. The result is what
	// the model sees; it is marked failed if the script failed or may not run as asked. The error
	// says why the script could not be tried, or wraps that of ctx.
	Run(ctx context.Context, s *Skill, script Script, arguments any, digest string) (actions.Result, error)
}

// Sandbox runs script files. [sandbox.Sandbox] is one; another may be a container or a service elsewhere, and
// [sandbox.Unprotected] is for development. It must be safe for concurrent use.
type Sandbox interface {
	// Check says why Run would refuse c, as far as that can be told without the folder; "": it would not. c has no Dir.
	Check(c sandbox.Command) (refused string)
	// Digest identifies what scripts in the folder would see. Approvals are bound to it.
	Digest(ctx context.Context, dir *os.Root) (string, error)
	// Run runs a script to its end, on a copy of the folder, if the folder still has c.Digest. A script that fails is a
	// result. The error says why it could not be started, or wraps that of ctx.
	Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error)
	// Wall is the time limit of a run, which people read; 0: unknown.
	Wall() time.Duration
}

// sandboxed runs scripts in a sandbox, under its limits. Without a sandbox it refuses every script.
//
// An array is a list of arguments. An object becomes names and values: {"unit": "mile"} is --unit
// mile. There, true is the name alone, false and null are omitted, and an array repeats the name.
// Anything else is one argument. Values other than strings are written as JSON. A string that
// contains a JSON array or object counts as that array or object, because some models send it so.
type sandboxed struct{ box Sandbox }

func (r sandboxed) Refuses(script Script, arguments any) string {
	_, why := r.command(script, arguments)
	return why
}

// command returns what the sandbox should run, without the folder, or why it cannot run.
func (r sandboxed) command(script Script, arguments any) (c sandbox.Command, why string) {
	if r.box == nil {
		return c, "script execution is disabled: no sandbox available."
	}
	c.Script = script.Name
	if c.Args, why = commandLine(arguments); why != "" {
		return c, fmt.Sprintf("Script '%s' cannot take these arguments: %s.", inLine(script.Name), why)
	}
	if refused := r.box.Check(c); refused != "" {
		return c, fmt.Sprintf("Script '%s' was not run: %s.", inLine(script.Name), refused)
	}
	return c, ""
}

func (r sandboxed) Digest(ctx context.Context, s *Skill) (string, error) {
	if err := ctx.Err(); err != nil || r.box == nil {
		return "", err
	}
	dir, done, err := s.open(ctx)
	if err != nil {
		return "", fmt.Errorf("open skill %q: %w", s.Name, err)
	}
	defer done()
	digest, err := r.box.Digest(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("digest of skill %q: %w", s.Name, err)
	}
	return digest, nil
}

func (r sandboxed) Run(ctx context.Context, s *Skill, script Script, arguments any, digest string) (actions.Result, error) {
	command, why := r.command(script, arguments)
	if why != "" {
		return actions.Fail("Error: %s", why), nil
	}
	dir, done, err := s.open(ctx)
	if err != nil {
		return actions.Result{}, fmt.Errorf("open skill %q: %w", s.Name, err)
	}
	defer done()
	command.Dir, command.Digest = dir, digest
	got, err := r.box.Run(ctx, command)
	if err != nil {
		return actions.Result{}, fmt.Errorf("skill %q: %w", s.Name, err)
	}

	var text strings.Builder
	out, errs := unframed(got.Stdout), unframed(got.Stderr)
	text.WriteString(middleOut(out, shownBytes-len(errs)))
	if errs != "" {
		text.WriteString("\nStderr:\n" + middleOut(errs, shownBytes-len(out)))
	}
	said := strings.TrimSpace(text.String())
	switch {
	case got.Refused != "":
		return actions.Fail("Error: Script '%s' was not run: %s.", script.Name, got.Refused), nil
	case got.Exceeded == "wall time":
		after := ""
		if wall := r.box.Wall(); wall > 0 {
			after = fmt.Sprintf(" after %g seconds", wall.Seconds())
		}
		return actions.Fail("%s", strings.TrimSpace(fmt.Sprintf("Error: Script '%s' timed out%s.\n%s", script.Name, after, said))), nil
	case got.Exceeded != "":
		return actions.Fail("Error: Script '%s' was ended: it went beyond its limit of %s.\n%s", script.Name, got.Exceeded, cmp.Or(said, "(no output)")), nil
	case got.ExitCode != 0:
		return actions.Fail("%s", strings.TrimSpace(fmt.Sprintf("%s\nScript exited with code %d", text.String(), got.ExitCode))), nil
	}
	return actions.Observe(cmp.Or(said, "(no output)")).UnlessSaved(), nil
}

// shownBytes is how much of a script's output the model sees: the bot's limit for any result, less
// some room for remarks. stdout and stderr get at least half each.
const shownBytes = 64<<10 + 512

// middleOut cuts the excess out of the middle of a text.
func middleOut(text string, most int) string {
	most = max(most, shownBytes/2)
	if len(text) <= most {
		return text
	}
	head, tail := strings.ToValidUTF8(text[:most/2-32], ""), strings.ToValidUTF8(text[len(text)-most/2+32:], "")
	return fmt.Sprintf("%s\n[truncated %d bytes or more]\n%s", head, len(text)-len(head)-len(tail), tail)
}

// commandLine returns a script's arguments, as [sandboxed] describes, or why there are none.
func commandLine(arguments any) (args []string, why string) {
	if text, ok := arguments.(string); ok {
		arguments = unpacked(text)
	}
	switch value := arguments.(type) {
	case nil:
	case []any:
		for _, element := range value {
			args = append(args, argument(element))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) { // maps have no order
			flag := "--" + strings.TrimLeft(name, "-") // some models write the dashes too
			if flag == "--" {
				return nil, "one has no name"
			}
			values, repeated := value[name].([]any)
			if !repeated {
				values = []any{value[name]}
			}
			for _, value := range values {
				switch value {
				case nil, false:
				case true:
					args = append(args, flag)
				default:
					args = append(args, flag, argument(value))
				}
			}
		}
	default:
		args = []string{argument(value)}
	}
	return args, ""
}

// unpacked returns the array or object in a string, nil for a blank string, otherwise the string
// itself.
func unpacked(text string) any {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed == "null" {
		return nil
	}
	if trimmed[0] != '[' && trimmed[0] != '{' || !json.Valid([]byte(trimmed)) {
		return text
	}
	decoder := json.NewDecoder(strings.NewReader(trimmed))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text
	}
	return value
}

// argument returns a string as is, and anything else as JSON.
func argument(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return plainjson.Text(value)
}
