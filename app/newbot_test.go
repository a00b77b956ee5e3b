package app

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

// newBot makes a bot of an example, with this checkout.
func newBot(t *testing.T, from string) (dir, said string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "My Bot")
	code, said, errs := execute(t, "", "new", dir, "--from", from, "--replace", mustAbs(t, ".."))
	if code != 0 {
		t.Fatal(errs)
	}
	return dir, said
}

// inModule runs the go command there, without a network.
func inModule(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, goEnvironment(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestNew makes a bot that builds, whose tests pass, and whose app package is right.
func TestNew(t *testing.T) {
	t.Parallel()
	dir, said := newBot(t, "first")
	if !strings.HasSuffix(said, "  cd '"+dir+"' && go test ./...\n  go run . dev\n") {
		t.Errorf("said %q", said)
	}
	inModule(t, dir, "test", "-vet=all", "./...")
	if code, out, errs := execute(t, "", "manifest", "validate", filepath.Join(dir, "manifest")); code != 0 {
		t.Errorf("%s%s", out, errs)
	}
	for name, want := range map[string]string{
		"go.mod": "module example.com/my-bot\n\ngo 1.26.0\n", "main.go": "go run .\n", "main_test.go": "RunScenarios(t, dicebot", "scenarios.yaml": "scenarios:",
		"manifest/manifest.json": `"Dicebot"`, ".gitignore": "/app.zip", ".github/workflows/test.yml": "go test -race", "testdata/prompts.txt": "rollDice",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "examples/first") {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".planbot-new-*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestNewFromEach example makes a bot without faults that the go command sees.
func TestNewFromEach(t *testing.T) {
	t.Parallel()
	if n := len(exampleNames()); n < 10 {
		t.Errorf("%d examples", n)
	}
	for _, name := range exampleNames() {
		dir, _ := newBot(t, name)
		for _, file := range []string{"main_test.go", "scenarios.yaml", "manifest/manifest.json", ".github/workflows/test.yml"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		inModule(t, dir, "vet", "./...")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	full := filesIn(t, map[string]string{"mine.txt": "mine"})
	other := filesIn(t, map[string]string{"go.mod": "module example.com/other\n"})
	for name, c := range map[string]struct {
		args []string
		err  string
	}{
		"a folder with files": {[]string{full, "--replace=.."}, "has files, such as mine.txt"},
		"a file":              {[]string{filepath.Join(full, "mine.txt"), "--replace=.."}, "mine.txt"},
		"no such example":     {[]string{"x", "--from=frist"}, "did you mean first?"},
		"nothing like it":     {[]string{"x", "--from=../../etc"}, "they are coffee, email, first"},
		"not published":       {[]string{filepath.Join(full, "new")}, "name a checkout with --replace"},
		"no checkout":         {[]string{filepath.Join(full, "new"), "--replace", other}, "is no checkout of"},
		"no folder":           {nil, "<dir>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, "", append([]string{"new"}, c.args...)...)
			if code != cli.ExitUsage || out != "" || !strings.Contains(errs, c.err) {
				t.Errorf("code %d: %s%s", code, out, errs)
			}
		})
	}
	t.Cleanup(func() {
		if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}

// TestNewInAnEmptyFolder writes there.
func TestNewInAnEmptyFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := botProcess(context.WithoutCancel(t.Context()), nil, "new", ".", "--replace", mustAbs(t, ".."))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "main_test.go")); err != nil {
		t.Error(err)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
