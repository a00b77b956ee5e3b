package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/examples"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/manifest"
)

type newCmd struct {
	Dir     string `arg:"" type:"path" placeholder:"DIR" help:"new folder, or an empty one"`
	From    string `default:"first" placeholder:"EXAMPLE" help:"example to begin with"`
	Replace string `type:"path" placeholder:"CHECKOUT" help:"build with this checkout of Planbot, not with a published version"`
}

// Help lists the examples.
func (newCmd) Help() string {
	return "Writes a Go module with a bot, its tests, its app package and a CI workflow. The examples are " + strings.Join(exampleNames(), ", ") + ". " +
		"With --replace it builds and its tests run at once, without a network."
}

// planbotModule is the path of this module.
const planbotModule = "github.com/planbot-go/planbot"

// Run writes all files, or none.
func (c newCmd) Run(std *cli.Streams) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	mod, sum, err := c.module()
	if err != nil {
		return cli.Usage(err)
	}
	if err := os.MkdirAll(filepath.Dir(c.Dir), 0o755); err != nil { //nolint:gosec // a folder like others
		return err
	}
	draft, err := os.MkdirTemp(filepath.Dir(c.Dir), ".planbot-new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(draft) }() // nothing is left there after the move
	files := map[string]string{
		"go.mod": mod, "go.sum": sum, ".gitignore": newIgnore, ".github/workflows/test.yml": newWorkflow,
	}
	if err := c.example(files); err != nil {
		return err
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		name = filepath.Join(draft, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)) //nolint:gosec // sources, which have no secrets
		if err != nil {
			return err
		}
	}
	if err := manifest.Init(filepath.Join(draft, "manifest"), manifest.Config{Name: botName(files["main.go"])}); err != nil {
		return fmt.Errorf("write the app package: %w", err)
	}
	if err := c.move(draft); err != nil {
		return err
	}
	first := "go test ./..."
	if c.Replace == "" {
		first = "go mod tidy"
	}
	_, err = fmt.Fprintf(std.Out, "Wrote a bot like the example %s to %s. Now type:\n  cd %s && %s\n  go run . dev\n", c.From, c.Dir, shellWord(c.Dir), first)
	return err
}

// check says what is wrong with the flags and the folder.
func (c newCmd) check() error {
	names := exampleNames()
	if !slices.Contains(names, c.From) {
		if meant := spelling.Meant(c.From, names); meant != "" {
			return fmt.Errorf("--from: there is no example %q; did you mean %s?", c.From, meant)
		}
		return fmt.Errorf("--from: there is no example %q: they are %s", c.From, strings.Join(names, ", "))
	}
	entries, err := os.ReadDir(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s has files, such as %s: name a new folder", c.Dir, entries[0].Name())
	}
	return nil
}

// module returns go.mod and go.sum.
func (c newCmd) module() (mod, sum string, err error) {
	head := "module example.com/" + moduleName(filepath.Base(c.Dir)) + "\n\n"
	if c.Replace == "" {
		version := publishedVersion()
		if version == "" {
			return "", "", errors.New("this program was not built from a published version of Planbot: name a checkout with --replace")
		}
		return head + "go 1.26.0\n\nrequire " + planbotModule + " " + version + "\n", "", nil
	}
	own, err := os.ReadFile(filepath.Join(c.Replace, "go.mod"))
	if err == nil && !strings.HasPrefix(string(own), "module "+planbotModule+"\n") {
		err = fmt.Errorf("%s is no checkout of %s", c.Replace, planbotModule)
	}
	if err != nil {
		return "", "", fmt.Errorf("--replace: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(c.Replace, "go.sum"))
	if err != nil {
		return "", "", fmt.Errorf("--replace: %w", err)
	}
	mod = head + goLine.FindString(string(own)) + "\n\nrequire " + planbotModule + " v0.0.0\n\n"
	for _, block := range requireBlock.FindAllString(string(own), -1) {
		mod += block + "\n\n"
	}
	return mod + "replace " + planbotModule + " => " + modPath(c.Replace) + "\n", string(sums), nil
}

var (
	goLine       = regexp.MustCompile(`(?m)^go .*$`)
	requireBlock = regexp.MustCompile(`(?ms)^require \(\n.*?^\)$`)
	released     = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)*$`)
	pseudo       = regexp.MustCompile(`\d{14}-[0-9a-f]{12}$`)
	nameLine     = regexp.MustCompile(`app\.Bot\{\s*Name:\s*"([^"]+)"`)
	unfit        = regexp.MustCompile(`[^a-z0-9._-]+`)
)

// publishedVersion is the version of Planbot that others can get, "": this program has another one.
func publishedVersion() string {
	candidates := []string{version}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == planbotModule {
			candidates = append(candidates, info.Main.Version)
		}
		for _, dep := range info.Deps {
			if dep.Path == planbotModule && dep.Replace == nil {
				candidates = append([]string{dep.Version}, candidates...) // version is that of another bot
			}
		}
	}
	for _, v := range candidates {
		if released.MatchString(v) && !pseudo.MatchString(v) {
			return v
		}
	}
	return ""
}

// modPath writes a path as go.mod has it.
func modPath(path string) string {
	path = filepath.ToSlash(path)
	if strings.ContainsAny(path, " \t()[]{},\"'`") {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// moduleName makes an element of a module's path of a folder's name.
func moduleName(dir string) string {
	return cmp.Or(strings.Trim(unfit.ReplaceAllString(strings.ToLower(dir), "-"), "-._"), "bot")
}

// shellWord quotes a path for a shell if it has to be.
func shellWord(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return strings.ContainsRune(" \t'\"\\$&|;<>()*?[]#~`!", r) }) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

func exampleNames() (names []string) {
	entries, _ := examples.Files.ReadDir(".") // it is in the program
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// example adds the files of the example, whose paths are those of a module of its own.
func (c newCmd) example(files map[string]string) error {
	here := strings.NewReplacer(
		"./examples/"+c.From, ".", "examples/"+c.From+"/", "",
		"./cmd/bottest", planbotModule+"/cmd/bottest",
		"](../../", "](https://"+planbotModule+"/blob/main/",
	)
	return fs.WalkDir(examples.Files, c.From, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := examples.Files.ReadFile(name)
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(name, c.From+"/")] = string(text)
		if ext := path.Ext(name); ext == ".md" || path.Base(name) == "main.go" {
			files[strings.TrimPrefix(name, c.From+"/")] = here.Replace(string(text))
		}
		return nil
	})
}

// botName is the name of the bot in a main.go.
func botName(source string) string {
	if found := nameLine.FindStringSubmatch(source); found != nil {
		return found[1]
	}
	return "Bot"
}

// move makes the draft the folder, or moves what is in it into the empty folder that exists.
func (c newCmd) move(draft string) error {
	if _, err := os.Stat(c.Dir); errors.Is(err, fs.ErrNotExist) {
		return errors.Join(os.Chmod(draft, 0o755), os.Rename(draft, c.Dir)) //nolint:gosec // a folder like others
	}
	entries, err := os.ReadDir(draft)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil { // somebody may have been faster
		return cli.Usage(err)
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(draft, e.Name()), filepath.Join(c.Dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

const newIgnore = `/app.zip
/bin/
*.test
*.out
.env
`

const newWorkflow = `name: test
on: [push, pull_request]
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-go@v5
        with:
          go-version-file: go.mod
      - run: go vet ./...
      - run: go test -race -shuffle=on ./...
      - run: go run . manifest validate manifest
`
