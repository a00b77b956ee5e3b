package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrChanged says that a skill is not what its digest stands for.
var ErrChanged = errors.New("the skill has changed")

// RefusedError says why a [Command] cannot be run, however often it is tried, in words for
// whoever asked for it.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refusal(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// Command is one run of a script.
type Command struct {
	Dir    *os.Root // the skill's folder, open, so that nobody can put another in its place; the script gets a copy as its working folder
	Script string   // its path in the folder, with slashes; the extension chooses the interpreter
	Args   []string // its arguments, up to 64 KiB in all
	Stdin  []byte   // up to 1 MiB
	Digest string   // when not "": what [Sandbox.Digest] said of the folder, else [ErrChanged]
	Limits Limits
}

// Result is what a script left when it ended. That it ended badly is no error.
type Result struct {
	ExitCode int    // 128 and more: killed by the signal of that number less 128
	Stdout   string // valid UTF-8 without control characters; the middle is left out where it is too long
	Stderr   string
	// Truncated is true when something is missing in Stdout or Stderr.
	Truncated bool
	// Exceeded is the limit that ended the script, else "".
	Exceeded Limit
	Usage    Usage
}

// Limit names what a script used too much of.
type Limit string

// The limits that end a script. The others make its calls fail.
const (
	WallTime Limit = "wall time"
	CPUTime  Limit = "CPU time"
	Memory   Limit = "memory"
	Scratch  Limit = "scratch folder" // or one file, for a program that this ends
	Output   Limit = "output"
)

// Usage is what a run took.
type Usage struct {
	Wall        time.Duration
	CPU         time.Duration // as far as was seen, at least: a look each 25 ms, and what the kernel says at the end
	MemoryBytes int64         // the most that all processes had together at any such look
}

// Interpreters returns the interpreters of scripts that are installed on this machine in
// the system's folders: .py, .sh, .js and .ps1.
func Interpreters() map[string][]string {
	candidates := map[string][][]string{
		".py":  {{"python3", "-B"}},
		".sh":  {{"bash"}, {"sh"}},
		".js":  {{"node"}},
		".ps1": {{"pwsh", "-NoProfile", "-NonInteractive", "-File"}},
	}
	found := map[string][]string{}
	for ext, commands := range candidates {
		for _, command := range commands {
			if program := installed(command[0]); program != "" {
				found[ext] = append([]string{program}, command[1:]...)
				break
			}
		}
	}
	return found
}

// installed finds a program of the system, not of whoever set PATH.
func installed(name string) string {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/bin"} {
		program := filepath.Join(dir, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	return ""
}

func checkInterpreters(interpreters map[string][]string) error {
	var errs []error
	for ext, command := range interpreters {
		if !strings.HasPrefix(ext, ".") || ext != strings.ToLower(ext) {
			errs = append(errs, fmt.Errorf("interpreter for %q: the extension has to begin with a dot, in lower case", ext))
		}
		if len(command) == 0 || !filepath.IsAbs(command[0]) {
			errs = append(errs, fmt.Errorf("interpreter for %s: %q does not begin with an absolute path", ext, command))
		}
	}
	return errors.Join(errs...)
}

// Check says what Run would refuse of c, wherever its folder is: the error is a
// [*RefusedError], or of its limits.
func (s *Sandbox) Check(c Command) error {
	_, err := s.check(c)
	return err
}

// check says what is wrong with c and which interpreter runs it.
func (s *Sandbox) check(c Command) (interpreter []string, err error) {
	if !fs.ValidPath(c.Script) || c.Script == "." {
		return nil, refusal("%q is no path in the skill's folder", c.Script)
	}
	size := 0
	for _, arg := range c.Args {
		size += len(arg) + 1
		if strings.ContainsRune(arg, 0) {
			return nil, refusal("an argument contains a zero byte")
		}
	}
	if size > maxArgs || len(c.Stdin) > maxInput {
		return nil, refusal("%d bytes of arguments and %d of stdin, more than %d and %d", size, len(c.Stdin), maxArgs, maxInput)
	}
	if err := c.Limits.check(); err != nil {
		return nil, err
	}
	ext := strings.ToLower(path.Ext(c.Script))
	interpreter, ok := s.cfg.Interpreters[ext]
	if !ok {
		known := slices.Sorted(maps.Keys(s.cfg.Interpreters))
		return nil, refusal("no interpreter for %q here, only for %s", ext, strings.Join(known, " "))
	}
	return interpreter, nil
}
