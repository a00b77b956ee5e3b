package app

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/planbot-go/planbot/examples"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/testing/ci"
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

func TestNew(t *testing.T) {
	ci.Only(t, "compiles modules, one with the race detector")
	t.Parallel()
	t.Run("First", newFirst)
	t.Run("Workflow", newWorkflow)
	t.Run("FromEach", newFromEach)
}

// newFirst makes a bot that builds, whose tests pass, and whose app package is right.
func newFirst(t *testing.T) {
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
	wantDeployment(t, dir)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".planbot-new-*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// wantDeployment checks what runs the bot elsewhere.
func wantDeployment(t *testing.T, dir string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	_, path, found := strings.Cut(read("go.mod"), "replace "+"github.com/planbot-go/planbot"+" => ")
	path = strings.Trim(strings.TrimSpace(path), `"`)
	if mod, err := os.ReadFile(filepath.Join(dir, path, "go.mod")); !found || filepath.IsAbs(path) || err != nil || !strings.HasPrefix(string(mod), "module "+"github.com/planbot-go/planbot"+"\n") {
		t.Errorf("go.mod replaces Planbot by %q: %v", path, err)
	}
	const runtime = "# With --target minimal:"
	_, want, _ := strings.Cut(read(filepath.Join(path, "Dockerfile")), runtime)
	_, got, _ := strings.Cut(read("Dockerfile"), runtime)
	if got != want || want == "" {
		t.Errorf("the image runs as another one than that of Planbot:\n%s", got)
	}
	for _, name := range []string{"Dockerfile", "compose.yaml", ".github/workflows/test.yml", "deploy/my-bot.yaml", "deploy/secret.example.yaml", ".dockerignore"} {
		if text := read(name); strings.Contains(text, "#checkout#") || strings.Contains(text, "{own}") || strings.Contains(text, "planbot.yaml") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if text := read("deploy/my-bot.yaml"); !strings.Contains(text, "image: registry.example.com/my-bot:") || strings.Contains(text, "name: planbot") {
		t.Errorf("deploy/my-bot.yaml:\n%s", text)
	}
	var compose struct {
		Services map[string]struct {
			Build struct {
				Contexts map[string]string `yaml:"additional_contexts"`
			}
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(read("compose.yaml")), &compose); err != nil || compose.Services["bot"].Build.Contexts["planbot"] != path {
		t.Errorf("compose.yaml: %v, %+v", err, compose)
	}
	for name := range compose.Services["bot"].Environment {
		if !strings.Contains(read(filepath.Join(path, "docs/settings.md")), "| `"+name+"` |") {
			t.Errorf("compose.yaml sets %s, which is no setting", name)
		}
	}
}

// newWorkflow runs the commands of the workflow that bot new writes in a fresh clone beside
// Planbot, as GitHub does, and checks that nothing is left for go mod tidy to do. The clone takes the place of
// what was written: then Planbot is where other tests have compiled it.
func newWorkflow(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "planbot") // without capitals: the workflow's path has none
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	dir := filepath.Join(temp, "my-bot")
	if code, _, errs := execute(t, "", "new", dir, "--replace", mustAbs(t, "..")); code != 0 {
		t.Fatal(errs)
	}
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		cmd.Dir = filepath.Dir(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", dir)
	git("-C", dir, "add", ".")
	git("-C", dir, "commit", "-q", "-m", "first")
	text, err := os.ReadFile(filepath.Join(dir, ".github/workflows/test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Defaults struct {
			Run struct {
				Dir string `yaml:"working-directory"`
			}
		}
		Jobs map[string]struct {
			Steps []struct {
				Uses, Run string
				With      map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	origin := dir + ".origin"
	if err := os.Rename(dir, origin); err != nil {
		t.Fatal(err)
	}
	planbot, ran := mustAbs(t, ".."), 0
	var workspace string
	for _, step := range workflow.Jobs["test"].Steps {
		if step.With["repository"] != "" {
			workspace = cmp.Or(strings.TrimSuffix(planbot, "/"+step.With["path"]), "/")
		}
	}
	for _, step := range workflow.Jobs["test"].Steps {
		place := filepath.Join(workspace, step.With["path"])
		switch {
		case step.Uses == "":
			ran++
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", step.Run)
			cmd.Dir, cmd.Env = filepath.Join(workspace, workflow.Defaults.Run.Dir), goEnvironment(t)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", step.Run, err, out)
			}
		case strings.HasPrefix(step.Uses, "actions/setup-go@"):
			for _, file := range []string{"go-version-file", "cache-dependency-path"} {
				if _, err := os.Stat(filepath.Join(workspace, step.With[file])); err != nil {
					t.Error(err)
				}
			}
		case step.With["repository"] == "" && place == dir:
			git("clone", "-q", origin, place)
		case place != planbot:
			t.Errorf("Planbot is at %s, not at %s", planbot, place)
		}
	}
	if ran < 3 {
		t.Errorf("ran %d commands", ran)
	}
	before, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	doc := exec.CommandContext(t.Context(), "go", "doc", "github.com/planbot-go/planbot/bottest.Kit")
	doc.Dir, doc.Env = dir, goEnvironment(t, "GOFLAGS=")
	if out, err := doc.CombinedOutput(); err != nil {
		t.Errorf("go doc: %v\n%s", err, out)
	}
	inModule(t, dir, "mod", "tidy", "-e")
	if after, err := os.ReadFile(filepath.Join(dir, "go.mod")); err != nil || string(before) != string(after) {
		t.Errorf("go.mod is not tidy, %v:\n%s", err, after)
	}
}

// newFromEach makes a bot of each example, without faults that the go command sees.
func newFromEach(t *testing.T) {
	t.Parallel()
	entries, err := examples.Files.ReadDir(".")
	if err != nil || len(entries) < 10 {
		t.Errorf("%d examples, %v", len(entries), err)
	}
	for _, e := range entries {
		name := e.Name()
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
		"not published":       {[]string{filepath.Join(full, "new")}, "clone https://github.com/planbot-go/planbot and name the folder with --replace"},
		"no checkout":         {[]string{filepath.Join(full, "new"), "--replace", other}, "is no checkout of"},
		"no folder":           {nil, "expected DIR"},
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
