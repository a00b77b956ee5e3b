// Package sandbox runs scripts where they can do little harm: on a read-only copy of their folder,
// with a private scratch folder, no network, none of the program's environment, no privileges, and
// limits on time, memory, processes and disk.
//
// There are two kinds. bubblewrap gives a script its own namespaces. Where it does not work, the
// program restricts a copy of itself with Landlock, seccomp and resource limits, and that copy
// becomes the script. Neither is trusted blindly: [New] first runs a canary that tries to get out.
// If no kind contains it, no script runs.
//
// Importing the package adds an init function. In a copy of the program that was started as part of
// a sandbox, it does that copy's job and never reaches main.
package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// ErrNoSandbox says that scripts cannot run on this machine. The error that wraps it says why each
// kind of sandbox does not work.
var ErrNoSandbox = errors.New("no sandbox for scripts")

// The kinds of sandbox, best first.
const (
	kindBubblewrap = "bubblewrap"
	kindLandlock   = "landlock"
)

// Config says how scripts run. The zero value works.
type Config struct {
	// Kinds are the kinds to try, in order: "bubblewrap", which needs the program bwrap, and
	// "landlock", which needs Linux 6.12. nil: both. Under Landlock scripts can see which files
	// exist, and cannot change modes, times, owners or attributes. Changes of modes and times
	// pretend to succeed, because programs that copy files would otherwise give up.
	Kinds      []string
	Bubblewrap string   // path of bwrap; "": found on PATH
	ReadOnly   []string // more files and folders that scripts may read; absolute, with no sockets in them

	// Limits of each run; each comment names the default for 0.
	Wall         time.Duration // 30 s; at most an hour
	CPU          time.Duration // of all processes together; 10 s
	MemoryBytes  int64         // of all processes together; 512 MiB
	ScratchBytes int64         // in the scratch folder; 64 MiB
}

// Fixed limits.
const (
	maxSkillBytes = 64 << 20
	maxSkillFiles = 2000 // and folders, including the skill's own
	maxDepth      = 32   // levels of nested folders
	maxArgs       = 64 << 10
	maxWall       = time.Hour
	maxConcurrent = 4        // scripts at the same time
	maxFileBytes  = 32 << 20 // in one file of the scratch folder
	maxProcesses  = 32       // counting threads
	maxOpenFiles  = 64       // per process
	maxPending    = 1024     // signals that wait, and timers; counts what else the user runs
	maxOutput     = 64 << 10 // bytes kept of each of stdout and stderr
	nobody        = 65534    // user and group that scripts run as when this program is root
)

// Command is one run of a script.
type Command struct {
	Dir    *os.Root // the skill's open folder, so nobody can swap it; the script works in a copy
	Script string   // its path in the folder, with slashes; the extension chooses the interpreter
	Args   []string // up to 64 KiB in all
	Digest string   // if set, must match [Sandbox.Digest] of the folder
}

// Result is the outcome of a script that ran to its end. A script that fails is not an error.
type Result struct {
	// Refused tells the caller why the script was not run; "": it ran.
	Refused string

	ExitCode int    // 128+n: killed by signal n
	Stdout   string // valid UTF-8 without control characters; if too long, the middle is cut
	Stderr   string
	// Exceeded is the limit that ended the script: "wall time", "CPU time", "memory", "scratch
	// folder" or "output"; "": none.
	Exceeded string
}

// Sandbox runs scripts. It is safe for concurrent use.
type Sandbox struct {
	cfg          Config
	interpreters map[string][]string // commands by extension, such as .py
	slots        chan struct{}
	kind         string
	prlimit      string // the program that sets limits
	refused      []error
}

// New finds a sandbox that works here: in each kind it runs a copy of this program that tries to
// get out. It also removes what killed programs left in the temporary folder. The error lists every
// mistake in cfg, or wraps [ErrNoSandbox].
func New(ctx context.Context, cfg Config) (*Sandbox, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("sandbox config: %w", err)
	}
	if cfg.Kinds == nil {
		cfg.Kinds = []string{kindBubblewrap, kindLandlock}
	}
	cfg.Wall = cmp.Or(cfg.Wall, 30*time.Second)
	cfg.CPU = cmp.Or(cfg.CPU, 10*time.Second)
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, 512<<20)
	cfg.ScratchBytes = cmp.Or(cfg.ScratchBytes, 64<<20)
	sweep(os.TempDir())
	s := &Sandbox{cfg: cfg, interpreters: interpreters(), slots: make(chan struct{}, maxConcurrent)}
	for _, s.kind = range cfg.Kinds {
		err := try(ctx, s)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look for a sandbox: %w", context.Cause(ctx))
		}
		s.refused = append(s.refused, fmt.Errorf("%s: %w", s.kind, err))
	}
	return nil, fmt.Errorf("%w: %w", ErrNoSandbox, errors.Join(s.refused...))
}

func (c Config) check() error {
	var errs []error
	if min(int64(c.Wall), int64(c.CPU), c.MemoryBytes, c.ScratchBytes) < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	if c.Wall > maxWall {
		errs = append(errs, fmt.Errorf("a wall time of %v is over %v", c.Wall, maxWall))
	}
	for _, kind := range c.Kinds {
		if kind != kindBubblewrap && kind != kindLandlock {
			errs = append(errs, fmt.Errorf("Kinds: there is no %q", kind))
		}
	}
	for _, path := range c.ReadOnly {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("%q is not an absolute path", path))
		}
	}
	return errors.Join(errs...)
}

// interpreters returns those installed in the system's folders.
func interpreters() map[string][]string {
	found := map[string][]string{}
	for _, candidate := range [][]string{
		{".py", "python3", "-B"},
		{".sh", "sh"},
		{".sh", "bash"},
		{".js", "node"},
		{".ps1", "pwsh", "-NoProfile", "-NonInteractive", "-File"},
	} {
		if program := installed(candidate[1]); program != "" {
			found[candidate[0]] = append([]string{program}, candidate[2:]...)
		}
	}
	return found
}

// installed finds a system program. It ignores PATH, which anyone may set.
func installed(name string) string {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/bin"} {
		program := filepath.Join(dir, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	return ""
}

// Kind is "bubblewrap" or "landlock".
func (s *Sandbox) Kind() string { return s.kind }

// Wall is the time limit of a run.
func (s *Sandbox) Wall() time.Duration { return s.cfg.Wall }

// Interpreters are the commands that run scripts, by extension.
func (s *Sandbox) Interpreters() map[string][]string { return maps.Clone(s.interpreters) }

// Refused says why the kinds tried before this one do not work here.
func (s *Sandbox) Refused() []error { return s.refused }

// Check says why Run would refuse c, as far as it can tell without the folder; "": it would not.
func (s *Sandbox) Check(c Command) (refused string) {
	if !fs.ValidPath(c.Script) || c.Script == "." {
		return fmt.Sprintf("%q is no path in the skill's folder", c.Script)
	}
	args := strings.Join(c.Args, " ")
	if strings.ContainsRune(args, 0) {
		return "an argument contains a zero byte"
	}
	if size := len(args) + 1; size > maxArgs {
		return fmt.Sprintf("%d bytes of arguments, more than %d", size, maxArgs)
	}
	if ext := strings.ToLower(path.Ext(c.Script)); s.interpreters[ext] == nil {
		known := slices.Sorted(maps.Keys(s.interpreters))
		return fmt.Sprintf("no interpreter for %q here, only for %s", ext, strings.Join(known, " "))
	}
	return ""
}

// Digest identifies what scripts in the folder would see: paths, contents and which files are
// executable. It is an error if Run would refuse to copy the folder.
func (s *Sandbox) Digest(ctx context.Context, dir *os.Root) (string, error) {
	return copyFolder(ctx, dir, "")
}

// Run runs a script and waits until it and everything it started have ended. It first waits for a
// free slot, which does not count against the wall time. The error says why the script could not
// start, or is the cause of ctx's end.
func (s *Sandbox) Run(ctx context.Context, c Command) (Result, error) {
	result, err := s.run(ctx, c)
	if why := refusal(""); errors.As(err, &why) {
		return Result{Refused: string(why)}, nil
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if err != nil {
		return Result{}, fmt.Errorf("run script %q: %w", c.Script, err)
	}
	return result, nil
}

// refusal is the error of a run that would fail on every try.
type refusal string

func (r refusal) Error() string { return string(r) }

func (s *Sandbox) run(ctx context.Context, c Command) (Result, error) {
	if c.Dir == nil {
		return Result{}, errors.New("no folder")
	}
	if why := s.Check(c); why != "" {
		return Result{}, refusal(why)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return Result{}, fmt.Errorf("wait for other scripts: %w", context.Cause(ctx))
	}
	j, err := newJob(s.cfg)
	if err != nil {
		return Result{}, err
	}
	defer removeFolder(j.dir)
	digest, err := copyFolder(ctx, c.Dir, j.skill)
	if err != nil {
		return Result{}, err
	}
	if c.Digest != "" && c.Digest != digest {
		return Result{}, refusal("the skill has changed since this was approved")
	}
	if info, err := os.Lstat(filepath.Join(j.skill, c.Script)); err != nil || !info.Mode().IsRegular() {
		return Result{}, refusal("the skill has no such file")
	}
	interpreter := s.interpreters[strings.ToLower(path.Ext(c.Script))]
	j.argv = slices.Concat(interpreter, []string{"./" + c.Script}, c.Args)
	return start(ctx, s, j)
}

// Run folders.
const (
	folderPrefix = "planbot-skill-"
	sweepAfter   = 2 * maxWall // longer than any run can last
)

// sweep removes run folders left behind by killed programs. In the temporary folder only the owner
// of a folder or root can remove it.
func sweep(temp string) {
	entries, _ := os.ReadDir(temp)
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), folderPrefix) && time.Since(info.ModTime()) > sweepAfter {
			removeFolder(filepath.Join(temp, entry.Name()))
		}
	}
}

// removeFolder removes a folder even if a script took away its own rights to folders inside.
func removeFolder(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	if root, err := os.OpenRoot(dir); err == nil {
		_ = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, _ error) error {
			if entry != nil && entry.IsDir() {
				return root.Chmod(path, 0o700)
			}
			return nil
		})
		_ = root.Close()
	}
	_ = os.RemoveAll(dir)
}

// settling is how long a file must be unchanged before its link count is trusted. It is longer than
// a tick of a file system's clock.
const settling = 50 * time.Millisecond

// OpenFile opens a file in a folder that strangers can write to. A link, symbolic or hard, is an
// error: it may lead to a file elsewhere that its author may not read. So is anything but a regular
// file, and a file that is swapped meanwhile. OpenFile waits a moment for a file that has just
// changed: while another of its names is being removed, the link count may be one too low.
func OpenFile(dir *os.Root, name string) (*os.File, error) {
	seen, err := dir.Lstat(name)
	for tries := 0; err == nil && settles(seen) && tries < 3; tries++ {
		time.Sleep(settling)
		seen, err = dir.Lstat(name)
	}
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link", name)
	case !seen.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case hardLinked(seen):
		return nil, refusal(name + " is a hard link, and may be a file from elsewhere")
	case settles(seen):
		return nil, fmt.Errorf("%s keeps changing", name)
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe swapped in meanwhile must not block
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err != nil || !os.SameFile(seen, opened) || !changedAt(seen).Equal(changedAt(opened)) || hardLinked(opened) {
		return nil, errors.Join(fmt.Errorf("%s was exchanged while it was opened", name), file.Close())
	}
	return file, nil
}

// settles reports whether a file has just changed.
func settles(info fs.FileInfo) bool {
	ago := time.Since(changedAt(info))
	return info.Mode().IsRegular() && !hardLinked(info) && ago >= 0 && ago <= settling // negative: the clock was set back
}

// copyFolder copies the files of a folder to the folder to and returns their digest. Scripts run in
// such a copy. So what was checked against the digest is what runs, even if the original changes,
// and a user who may not read the original can read the copy. It skips links, devices and the like.
// With to == "" it only reads.
func copyFolder(ctx context.Context, root *os.Root, to string) (string, error) {
	c := copier{root: root, to: to, digest: sha256.New(), bytes: maxSkillBytes, files: maxSkillFiles - 1}
	if err := c.folder(ctx, ".", 0); err != nil {
		return "", fmt.Errorf("copy skill: %w", err)
	}
	return hex.EncodeToString(c.digest.Sum(nil)), nil
}

var (
	errTooLarge = refusal(fmt.Sprintf("it has more than %d MiB of files", maxSkillBytes>>20))
	errTooMany  = refusal(fmt.Sprintf("it has more than %d files and folders", maxSkillFiles))
	errTooDeep  = refusal(fmt.Sprintf("it has folders nested deeper than %d", maxDepth))
)

type copier struct {
	root   *os.Root
	to     string
	digest hash.Hash
	bytes  int64 // still allowed
	files  int
}

// folder copies a folder's entries in name order. It reads at most one entry more than is still
// allowed.
func (c *copier) folder(ctx context.Context, name string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if c.to != "" {
		target := filepath.Join(c.to, name)
		if err := errors.Join(os.MkdirAll(target, 0o755), os.Chmod(target, 0o755)); err != nil { // whatever the umask
			return err
		}
	}
	dir, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have been swapped
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it was only read from
	entries, err := dir.ReadDir(c.files + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.files -= len(entries); c.files < 0 {
		return errTooMany
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		inner, err := path.Join(name, entry.Name()), error(nil)
		if entry.IsDir() {
			err = c.folder(ctx, inner, depth+1)
		} else if entry.Type().IsRegular() {
			err = c.file(inner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) file(name string) error {
	from, err := OpenFile(c.root, name)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read from
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if info.Size() > c.bytes {
		return errTooLarge
	}
	mode := fs.FileMode(0o444)
	if info.Mode()&0o111 != 0 {
		mode = 0o555
	}
	sum := sha256.New()
	var n int64
	if c.to == "" {
		n, err = io.Copy(sum, io.LimitReader(from, c.bytes+1))
	} else if to, failed := os.OpenFile(filepath.Join(c.to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); failed != nil {
		err = failed
	} else {
		n, err = io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, c.bytes+1))
		err = errors.Join(err, to.Chmod(mode), to.Close())
	}
	if c.bytes -= n; err == nil && c.bytes < 0 {
		err = errTooLarge
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.digest, "%q %o %x\n", name, mode, sum.Sum(nil))
	return nil
}

// exceeded is the cancel cause of a run that went over a limit.
type exceeded string

func (e exceeded) Error() string { return "the script exceeded its limit of " + string(e) }

const maxPrinted = 64 << 20 // how many bytes a program may print, kept or not, before it is killed

// output keeps the start and the end of what is written to it.
type output struct {
	written int
	head    []byte
	tail    []byte
	full    func() // called on each write beyond maxPrinted
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

// String returns the kept output as text that is safe to show.
func (o *output) String() string {
	if n := o.written - len(o.head) - len(o.tail); n > 0 {
		return clean(string(o.head)) + fmt.Sprintf("\n[truncated %d bytes]\n", n) + clean(string(o.tail))
	}
	return clean(string(o.head) + string(o.tail))
}

// escapes matches terminal escape sequences: ECMA-48's CSI and OSC, and the short ones.
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[ -/]*[0-~])")

// clean keeps only what people and models can see. A joiner is part of words and emoji, but between
// ASCII letters it could only hide something.
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
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), 0xe0000 <= r && r <= 0xe0fff: // includes tags and variation selectors
			return -1
		}
		return r
	}, s)
}
