package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// secret is in the environment of the program that runs the scripts.
const secret = "sesame-open"

func TestMain(m *testing.M) {
	if err := os.Setenv("OPENAI_API_KEY", secret); err != nil {
		panic(err)
	}
	flag.Parse()
	// The limit of processes counts all scripts of a user: more of them at once leave each other too few.
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// lacking is what New says where the machine or its kernel has no sandbox of a kind. One
// that is there and leaks, or that we have broken, is no reason to skip a test.
var lacking = regexp.MustCompile(`the kernel|is not installed|works on Linux only|bwrap: .*([Nn]amespace|uid map|RTM_NEWADDR)`)

// patience is how long a script may take that no test ends, however busy the machine is.
const patience = 10 * time.Minute

// open returns the sandbox of a kind, or skips where there is none.
func open(t testing.TB, kind string, cfg sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	cfg.Kinds, cfg.Wall = []string{kind}, patience
	s, err := sandbox.New(t.Context(), cfg)
	if errors.Is(err, sandbox.ErrNoSandbox) && lacking.MatchString(err.Error()) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lacks says why this machine lacks a kind of sandbox; nil: it does not.
var lacks = map[string]func() error{"bubblewrap": lack("bubblewrap"), "landlock": lack("landlock")}

func lack(kind string) func() error {
	return sync.OnceValue(func() error {
		_, err := sandbox.New(context.Background(), sandbox.Config{Kinds: []string{kind}, Wall: patience})
		if errors.Is(err, sandbox.ErrNoSandbox) && lacking.MatchString(err.Error()) {
			return err
		}
		return nil
	})
}

// TestKinds says once which kinds this machine lacks: the other tests leave them out.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, why := range lacks {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if err := why(); err != nil {
				t.Skip(err)
			}
		})
	}
}

// kinds are those that the machine has.
func kinds() (all []string) {
	for kind, why := range lacks {
		if why() == nil {
			all = append(all, kind)
		}
	}
	return all
}

// each runs a test in each kind of sandbox that the machine has.
func each(t *testing.T, test func(t *testing.T, s *sandbox.Sandbox)) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, kind, sandbox.Config{}))
		})
	}
}

// skill makes a skill's folder with the files, path and content in turn.
func skill(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		file := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// folder opens a skill's folder for the test.
func folder(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// crowd is locked by a script that uses up the processes of the user, who may be that of all scripts.
var crowd sync.RWMutex

func run(t testing.TB, s *sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	t.Helper()
	crowd.RLock()
	defer crowd.RUnlock()
	return runAmong(t, s, c)
}

func runAmong(t testing.TB, s *sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := s.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// A machine that has no sandbox skips the tests; where changes are judged it must not.
func TestThereIsASandbox(t *testing.T) {
	t.Parallel()
	s, err := sandbox.New(t.Context(), sandbox.Config{})
	switch {
	case err == nil:
		t.Log(s.Kind(), s.Refused())
	case os.Getenv("CI") == "true" || !errors.Is(err, sandbox.ErrNoSandbox):
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// Root's scripts run as nobody, everybody else's as the same user: both have to hold, so root
// runs all tests of this package once more as nobody. It does so before the parallel ones start,
// whose scripts would count among nobody's processes.
func TestAsNobody(t *testing.T) {
	ci.Only(t, "runs all of these tests once more as nobody")
	if os.Geteuid() != 0 {
		t.Skip("this is not root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	home := t.TempDir()
	for dir := home; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.v", "-test.timeout=290s")
	cmd.Env = append(os.Environ(), "TMPDIR="+home, "HOME="+home)
	cmd.Dir = home
	leak, err := os.Create(filepath.Join(home, "leak"))
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := leak.WriteString(secret); err != nil {
		t.Fatal(err)
	}
	if _, err := leak.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{leak, leak, leak} // as if whoever started it had left them open
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- SKIP") {
			t.Log(strings.TrimSpace(line))
		}
	}
	passed := strings.Count(string(out), "--- PASS")
	t.Logf("%d tests passed as nobody", passed)
	if err != nil || passed == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range []string{"bubblewrap", "landlock"} {
		_, err := sandbox.New(t.Context(), sandbox.Config{Kinds: []string{kind}})
		if err == nil && !strings.Contains(string(out), "--- PASS: TestScripts/"+kind) {
			t.Errorf("nothing ran under %s, which root has", kind)
		}
	}
}

func TestScripts(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		dir := skill(t, "scripts/say.sh", "read -r line\nprintf '%s|' \"$line\" \"$@\" \"$(cat references/x)\"\necho warned >&2\nexit 7\n",
			"references/x", "beside it")
		got := run(t, s, sandbox.Command{
			Dir: folder(t, dir), Script: "scripts/say.sh", Args: []string{"two words", "--x", "$HOME", ""},
		})
		if got.Stdout != "|two words|--x|$HOME||beside it|" || got.Stderr != "warned\n" || got.ExitCode != 7 {
			t.Errorf("%+v", got)
		}
		if got.Exceeded != "" {
			t.Errorf("%+v", got)
		}
	})
}

func TestInterpreters(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		scripts := map[string]string{
			".py":  "import helper, sys, json\nprint(helper.twice(sys.argv[1]))",
			".js":  "console.log(process.argv[2].repeat(2))",
			".sh":  `echo "$1$1"`,
			".ps1": `Write-Output ($args[0] * 2)`,
		}
		dir := skill(t, "scripts/helper.py", "def twice(s): return s + s")
		for ext := range s.Interpreters() {
			t.Run(ext, func(t *testing.T) {
				t.Parallel()
				name := "scripts/-double" + strings.ToUpper(ext)
				mine := skill(t, name, scripts[ext])
				if err := os.CopyFS(mine, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				got := run(t, s, sandbox.Command{Dir: folder(t, mine), Script: name, Args: []string{"ab"}})
				if strings.TrimSpace(got.Stdout) != "abab" || got.ExitCode != 0 {
					t.Errorf("%+v", got)
				}
			})
		}
	})
}

func TestDigest(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		dir := skill(t, "a.sh", "echo fine", "lib/b.sh", "exit")
		digest, err := s.Digest(t.Context(), folder(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		c := sandbox.Command{Dir: folder(t, dir), Script: "a.sh", Digest: digest}
		if got := run(t, s, c); got.Stdout != "fine\n" {
			t.Errorf("%+v", got)
		}
		if err := os.WriteFile(filepath.Join(dir, "lib/b.sh"), []byte("exit 1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Run(t.Context(), c); err != nil || !strings.HasPrefix(got.Refused, "the skill has changed") {
			t.Errorf("the skill was changed: %+v, %v", got, err)
		}
	})
}

// TestFoldersOfManyFolders are refused after a look at a few of them, and when nobody waits
// for the digest any more it ends.
func TestFoldersOfManyFolders(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		deep, wide := skill(t, "a.sh", "true"), skill(t, "a.sh", "true")
		if err := os.MkdirAll(filepath.Join(deep, strings.Repeat("d/", 1000)), 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			if err := os.Mkdir(filepath.Join(wide, fmt.Sprint(i)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for dir, want := range map[string]string{deep: "it has folders nested deeper than 32", wide: "it has more than 2000 files and folders"} {
			_, err := s.Digest(t.Context(), folder(t, dir))
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := s.Digest(ended, folder(t, skill(t, "a.sh", "true"))); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody waits: %v", err)
		}
	})
}

func TestRefusals(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		dir := skill(t, "a.sh", "true", "folder.sh/x", "")
		if err := os.Symlink("/usr/bin/true", filepath.Join(dir, "link.sh")); err != nil {
			t.Fatal(err)
		}
		large := skill(t, "a.sh", "true", "large", "")
		if err := os.Truncate(filepath.Join(large, "large"), 1<<30); err != nil {
			t.Fatal(err)
		}
		many := skill(t, "a.sh", "true")
		for i := range 2000 {
			if err := os.Mkdir(filepath.Join(many, fmt.Sprint(i)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]sandbox.Command{
			"no path in the skill's folder": {Dir: folder(t, dir), Script: "../a.sh"},
			`is no path`:                    {Dir: folder(t, dir), Script: "/usr/bin/x.sh"},
			`no interpreter for ".exe"`:     {Dir: folder(t, dir), Script: "a.exe"},
			"no such file":                  {Dir: folder(t, dir), Script: "b.sh"},
			"has no such file":              {Dir: folder(t, dir), Script: "folder.sh"},
			"skill has no such file":        {Dir: folder(t, dir), Script: "link.sh"},
			"no folder":                     {Script: "a.sh"},
			"zero byte":                     {Dir: folder(t, dir), Script: "a.sh", Args: []string{"a\x00b"}},
			"bytes of arguments":            {Dir: folder(t, dir), Script: "a.sh", Args: []string{strings.Repeat("x", 64<<10)}},
			"MiB of files":                  {Dir: folder(t, large), Script: "a.sh"},
			"files and folders":             {Dir: folder(t, many), Script: "a.sh"},
		} {
			got, err := s.Run(t.Context(), c)
			theirs := name == "no folder" || name == "negative" // the program's mistake, not the script's
			if theirs {
				got.Refused = fmt.Sprint(err)
			}
			if (err != nil) != theirs || !strings.Contains(got.Refused, name) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sandbox.Config{
		"gvisor":             {Kinds: []string{"gvisor"}},
		"is not an absolute": {ReadOnly: []string{"opt"}},
		"is over 1h":         {Wall: 2 * time.Hour},
		"limit is negative":  {CPU: -1},
	} {
		_, err := sandbox.New(t.Context(), cfg)
		if err == nil || errors.Is(err, sandbox.ErrNoSandbox) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := sandbox.Config{Kinds: []string{"bubblewrap"}, Bubblewrap: "/nonexistent/bwrap"}
	if _, err := sandbox.New(t.Context(), none); !errors.Is(err, sandbox.ErrNoSandbox) || !strings.Contains(err.Error(), "bubblewrap: ") {
		t.Errorf("no bwrap: %v", err)
	}
}

// A program in bwrap's place that just runs its command holds nothing back: the canary sees it.
func TestCanarySeesThroughAFalseSandbox(t *testing.T) {
	t.Parallel()
	fake := filepath.Join(t.TempDir(), "bwrap")
	script := "#!/bin/sh\nwhile [ \"$1\" != --chdir ]; do [ \"$1\" = --ro-bind ] && skill=$2; shift; done\n" +
		"cd \"$skill\"; export TMPDIR=/tmp; while [ \"$1\" != --core=0 ]; do shift; done; shift 2; exec \"$@\"\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(fake); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755)
	}
	_, err := sandbox.New(t.Context(), sandbox.Config{Kinds: []string{"bubblewrap"}, Bubblewrap: fake})
	if !errors.Is(err, sandbox.ErrNoSandbox) {
		t.Fatalf("it was believed: %v", err)
	}
	for _, breach := range []string{"bait", "make a socket of AF_INET", "reach the socket", "no resource limit"} {
		if !strings.Contains(err.Error(), breach) {
			t.Errorf("not seen: %s in %v", breach, err)
		}
	}
}

func TestWaitsForAPlace(t *testing.T) {
	each(t, func(t *testing.T, s *sandbox.Sandbox) {
		s = s.OneByOne()
		dir := skill(t, "wait.sh", "sleep 50", "a.sh", "true")
		long, end := context.WithCancelCause(t.Context())
		began, done := make(chan struct{}), make(chan error)
		go func() {
			close(began)
			_, err := s.With(sandbox.Config{Wall: time.Minute}).Run(long, sandbox.Command{Dir: folder(t, dir), Script: "wait.sh"})
			done <- err
		}()
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for { // until the other one is in
			short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
			_, err := s.Run(short, sandbox.Command{Dir: folder(t, dir), Script: "a.sh"})
			stop()
			if errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "wait for other scripts") {
				break
			}
			if ctx.Err() != nil {
				t.Fatal("two scripts ran where one may")
			}
		}
		gone := errors.New("the turn is over")
		end(gone)
		if err := <-done; !errors.Is(err, gone) {
			t.Errorf("a cancelled run ended with %v", err)
		}
		if got := run(t, s, sandbox.Command{Dir: folder(t, dir), Script: "a.sh"}); got.ExitCode != 0 {
			t.Errorf("%+v", got)
		}
	})
}
