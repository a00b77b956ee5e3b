// Package newbot has the command that writes a bot of one's own: a Go module that builds, with its tests and
// what deploys it.
package newbot

import (
	"cmp"
	"context"
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

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/deploy"
	"github.com/planbot-go/planbot/examples"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/manifest/pack"
)

// Feature adds the command new.
func Feature() app.Feature {
	return app.Feature{Name: "newbot", Commands: &struct {
		New command `help:"Write your own bot to a new folder."`
	}{}}
}

type command struct {
	Dir     string `arg:"" type:"path" placeholder:"DIR" help:"new folder, or an empty one"`
	From    string `default:"first" placeholder:"EXAMPLE" help:"example to begin with"`
	Replace string `type:"path" placeholder:"CHECKOUT" help:"build with this checkout of Planbot, not with a published version"`
}

func (command) Help() string {
	return "Writes a Go module with a bot, its tests, its app package, a CI workflow, and a Dockerfile and recipes to deploy it. The examples are " + strings.Join(exampleNames(), ", ") + ". " +
		"With --replace it builds and its tests run at once, without a network."
}

const planbotModule = "github.com/planbot-go/planbot" // the path of this module

func (c command) Run(_ context.Context, p *app.Program) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	files := map[string]string{".gitignore": newIgnore}
	if err := c.example(files); err != nil {
		return err
	}
	if err := c.module(files); err != nil {
		return cli.Usage(err)
	}
	c.deployment(files)
	if err := os.MkdirAll(filepath.Dir(c.Dir), 0o755); err != nil { //nolint:gosec // a folder like others
		return err
	}
	draft, err := os.MkdirTemp(filepath.Dir(c.Dir), ".planbot-new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(draft) }() // nothing is left there after the move
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
	if err := pack.Init(filepath.Join(draft, "manifest"), manifest.Config{Name: botName(files["main.go"])}); err != nil {
		return fmt.Errorf("write the app package: %w", err)
	}
	if err := c.move(draft); err != nil {
		return err
	}
	if c.Replace != "" && filepath.IsAbs(c.checkout()) {
		fmt.Fprintf(p.Err(), "warning: no relative path leads from %s to %s, so the workflow and the Dockerfile do not find Planbot\n", c.Dir, c.Replace)
	}
	first := "go test ./..."
	if c.Replace == "" {
		first = "go mod tidy"
	}
	_, err = fmt.Fprintf(p.Out(), "Wrote a bot like the example %s to %s. Now type:\n  cd %s && %s\n  go run . dev\n", c.From, c.Dir, cli.ShellWord(c.Dir), first)
	return err
}

// check says what is wrong with the flags and the folder.
func (c command) check() error {
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

// tools are the lines of go.mod for "go tool bot" and "go tool bottest".
const tools = "tool (\n\t" + planbotModule + "/cmd/bot\n\t" + planbotModule + "/cmd/bottest\n)\n"

// module adds go.mod, as go mod tidy writes it, and the go.sum of Planbot.
func (c command) module(files map[string]string) error {
	head := "module example.com/" + c.name() + "\n\n"
	if c.Replace == "" {
		version := publishedVersion()
		if version == "" {
			return errors.New("there is no published version of Planbot yet: clone https://" + planbotModule + " and name the folder with --replace")
		}
		files["go.mod"] = head + "go 1.26.0\n\nrequire " + planbotModule + " " + version + "\n\n" + tools
		return nil
	}
	own, err := os.ReadFile(filepath.Join(c.Replace, "go.mod"))
	if err == nil && !strings.HasPrefix(string(own), "module "+planbotModule+"\n") {
		err = fmt.Errorf("%s is no checkout of %s", c.Replace, planbotModule)
	}
	if err != nil {
		return fmt.Errorf("--replace: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(c.Replace, "go.sum"))
	if err != nil {
		return fmt.Errorf("--replace: %w", err)
	}
	direct, indirect := []string{planbotModule + " v0.0.0"}, []string{}
	for _, line := range requireLine.FindAllStringSubmatch(string(own), -1) {
		switch module, version := line[1], line[2]; {
		case onlyTests(module):
		case imports(files, module):
			direct = append(direct, module+" "+version)
		default:
			indirect = append(indirect, module+" "+version+" // indirect")
		}
	}
	files["go.mod"] = head + goLine.FindString(string(own)) + "\n\n" + requireBlock(direct) + requireBlock(indirect) +
		tools + "\nreplace " + planbotModule + " => " + modPath(c.checkout()) + "\n"
	files["go.sum"] = string(sums) // go doc and go list ask for all of it
	return nil
}

// onlyTests reports whether Planbot needs the module for nothing but its own tests, so that other
// modules do not.
func onlyTests(module string) bool {
	first, _, _ := strings.Cut(module, "/")
	return first == "k8s.io" || first == "sigs.k8s.io" || slices.Contains([]string{
		"github.com/fxamacker/cbor/v2", "github.com/json-iterator/go", "github.com/modern-go/concurrent", "github.com/modern-go/reflect2",
		"github.com/x448/float16", "go.uber.org/goleak", "go.yaml.in/yaml/v2", "golang.org/x/mod", "golang.org/x/tools", "gopkg.in/inf.v0",
		"github.com/google/go-cmp", "pgregory.net/rapid",
	}, module)
}

// imports reports whether a Go file imports a package of the module.
func imports(files map[string]string, module string) bool {
	for name, text := range files {
		if path.Ext(name) == ".go" && (strings.Contains(text, `"`+module+`"`) || strings.Contains(text, `"`+module+`/`)) {
			return true
		}
	}
	return false
}

// requireBlock writes requirements as go mod tidy does.
func requireBlock(lines []string) string {
	slices.Sort(lines)
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return "require " + lines[0] + "\n\n"
	}
	return "require (\n\t" + strings.Join(lines, "\n\t") + "\n)\n\n"
}

// checkout returns the path from the new folder to the checkout, as it is where both are copied to
// another machine. It is absolute if a relative one would lead elsewhere, because of symbolic links.
func (c command) checkout() string {
	relative, err := filepath.Rel(c.Dir, c.Replace)
	if err != nil {
		return c.Replace // another drive
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(c.Dir))
	if err == nil {
		var there, here fs.FileInfo
		there, err = os.Stat(c.Replace)
		if err == nil {
			here, err = os.Stat(filepath.Join(parent, filepath.Base(c.Dir), relative))
		}
		if err == nil && !os.SameFile(there, here) {
			return c.Replace
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.Replace
	}
	if !strings.HasPrefix(relative, "..") {
		relative = "." + string(filepath.Separator) + relative
	}
	return relative
}

// name is what the module, the image and the deployment are called.
func (c command) name() string { return moduleName(filepath.Base(c.Dir)) }

// places returns where the bot and Planbot are below a common folder, so that go.mod's path leads
// from one to the other. planbot is "" without a checkout.
func (c command) places() (own, planbot string) {
	if c.Replace == "" {
		return ".", ""
	}
	relative := filepath.ToSlash(c.checkout())
	planbot = strings.TrimPrefix(relative, "./")
	dir := c.Dir
	for strings.HasPrefix(planbot, "../") {
		own = path.Join(moduleName(filepath.Base(dir)), own)
		dir = filepath.Dir(dir)
		planbot = strings.TrimPrefix(planbot, "../")
	}
	if first, _, _ := strings.Cut(planbot, "/"); own == first || strings.HasPrefix(own, first+"/") {
		own = "bot-" + own
	}
	return cmp.Or(own, "."), planbot
}

// deployment adds what runs the bot elsewhere: a workflow, an image, and recipes.
func (c command) deployment(files map[string]string) {
	own, planbot := c.places()
	checkout := filepath.ToSlash(c.checkout())
	label := strings.Trim(strings.NewReplacer(".", "-", "_", "-").Replace(c.name()), "-") // of DNS
	fill := strings.NewReplacer(" #checkout#", "", "{own}", own, "{planbot}", planbot, "{name}", label, "{checkout}", checkout, "{shell}", cli.ShellWord(checkout),
		"{repository}", strings.TrimPrefix(planbotModule, "github.com/"))
	for name, text := range map[string]string{
		".github/workflows/test.yml": newWorkflow, "Dockerfile": newDockerfile, "compose.yaml": newCompose, ".dockerignore": newDockerignore,
	} {
		if c.Replace == "" {
			text = withCheckout.ReplaceAllString(text, "")
		}
		files[name] = fill.Replace(text)
	}
	for _, name := range []string{"planbot", "secret.example"} {
		text, _ := deploy.Kubernetes.ReadFile("kubernetes/" + name + ".yaml") // it is in the program
		files["deploy/"+strings.ReplaceAll(name, "planbot", label)+".yaml"] = strings.ReplaceAll(string(text), "planbot", label)
	}
}

var (
	goLine       = regexp.MustCompile(`(?m)^go .*$`)
	requireLine  = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`)
	withCheckout = regexp.MustCompile(`(?m)^.*#checkout#.*\n`)
	released     = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)*$`)
	pseudo       = regexp.MustCompile(`\d{14}-[0-9a-f]{12}$`)
	nameLine     = regexp.MustCompile(`app\.Bot\{\s*Name:\s*"([^"]+)"`)
	unfit        = regexp.MustCompile(`[^a-z0-9._-]+`)
)

// publishedVersion is the version of Planbot that others can get, "": this program has another one.
func publishedVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var candidates []string
	if info.Main.Path == planbotModule {
		candidates = append(candidates, app.Version())
	}
	for _, dep := range info.Deps {
		if dep.Path == planbotModule && dep.Replace == nil {
			candidates = append(candidates, dep.Version)
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

func exampleNames() (names []string) {
	entries, _ := examples.Files.ReadDir(".") // it is in the program
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// example adds the files of the example, whose paths are those of a module of its own.
func (c command) example(files map[string]string) error {
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
			files[strings.TrimPrefix(name, c.From+"/")] = withFeatures(here.Replace(string(text)))
		}
		return nil
	})
}

// withFeatures adds all features to a main.go that names none: its author goes on with the commands dev and manifest.
func withFeatures(source string) string {
	const ours = "\t\"" + planbotModule + "/app\"\n"
	if strings.Contains(source, planbotModule+"/app/") || !strings.Contains(source, ours) {
		return source
	}
	source = strings.Replace(source, ours, ours+"\t\""+planbotModule+"/app/full\"\n", 1)
	return mainCall.ReplaceAllString(source, "app.Main($1, full.Features()...)")
}

// mainCall is what runs a bot without features.
var mainCall = regexp.MustCompile(`app\.Main\((\w+)\)`)

// botName is the name of the bot in a main.go.
func botName(source string) string {
	if found := nameLine.FindStringSubmatch(source); found != nil {
		return found[1]
	}
	return "Bot"
}

// move makes the draft the folder, or moves what is in it into the empty folder that exists.
func (c command) move(draft string) error {
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
/said/
*.kept.json
/deploy/secret.yaml
*.test
*.out
.env
`

// In the texts below, a line with #checkout# is only for a bot that is built with a checkout of Planbot.
// {own} and {planbot} are the places of both, {checkout} is the way from one to the other.

const newWorkflow = `name: test
on: [push, pull_request]
permissions:
  contents: read
defaults:
  run:
    working-directory: {own}
jobs:
  test:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v7
        with:
          path: {own}
      - uses: actions/checkout@v7 #checkout#
        with: #checkout#
          repository: {repository} #checkout#
          path: "{planbot}" #checkout#
      - uses: actions/setup-go@v7
        with:
          go-version-file: {own}/go.mod
          cache-dependency-path: {own}/go.sum
      - run: go vet ./...
      - run: go test -race -shuffle=on ./...
      - run: go run . manifest validate manifest
`

const newDockerignore = `# Neither secrets nor what the build does not read.
.env
.git
.github
bin
deploy
manifest
*.zip
Dockerfile
compose.yaml
`

const newDockerfile = `# syntax=docker/dockerfile:1

# docker build --build-context planbot={shell} -t {name} . #checkout#
# #checkout#
# Runs on the builder's platform and cross-compiles: Go needs no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
COPY --from=planbot [".", "/src/{planbot}"] #checkout#
WORKDIR /src/{own}
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
# For the command version, such as --build-arg VERSION=$(git describe --tags --always).
ARG VERSION=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X github.com/planbot-go/planbot/app.version=$VERSION" -o /out/bot .

# With --target minimal: the binary, certificates and time zones. No shell, no package manager, no
# base image. Scripts of skills find no interpreter there.
FROM scratch AS minimal
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/share/zoneinfo /usr/share/zoneinfo
COPY --from=build /out/bot /bot
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 3978
# /readyz of the bot, asked with the settings of the container: Redis is reachable, the bot is not draining.
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/bot", "healthcheck"]
# Docker's SIGTERM lets running turns finish: allow more time than BOT_DRAIN_TIMEOUT (20s).
ENTRYPOINT ["/bot"]

# The default: the same with what scripts of skills need, python3 and a sandbox. Under Docker's default
# seccomp profile bubblewrap cannot make namespaces. There scripts run under Landlock (Linux 6.12 or
# later on the host) or not at all. ` + "`/bot doctor`" + ` says which, once BOT_SKILLS_DIR is set.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates python3 tzdata \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/bot /bot
USER 65532:65532
EXPOSE 3978
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/bot", "healthcheck"]
ENTRYPOINT ["/bot"]
`

const newCompose = `# Two replicas of the bot on one Redis: docker compose up --build, then talk to either,
# http://127.0.0.1:3978/api/messages or http://127.0.0.1:3979/api/messages. They share all state.
#
# Values come from your shell or from a file .env beside this one. For Teams put there what
# teams app create --env .env writes, and a line BOT_DANGEROUSLY_NO_AUTH= with nothing after it; and
# put an HTTPS proxy in front.
name: {name}

services:
  bot:
    build:
      context: .
      additional_contexts: #checkout#
        planbot: "{checkout}" #checkout#
    deploy:
      replicas: 2
    ports:
      # One host port for each replica, on loopback only: by default there is no authentication.
      - "127.0.0.1:3978-3979:3978"
    environment:
      BOT_ADDR: "0.0.0.0:3978"
      BOT_LOG_FORMAT: "json"
      REDIS_URL: "redis://redis:6379/0"
      # Without an app id, everybody who reaches the port may talk to the bot. That is safe on this
      # file's own network and the loopback ports above, and nowhere else.
      BOT_DANGEROUSLY_NO_AUTH: "${BOT_DANGEROUSLY_NO_AUTH-true}"
      MICROSOFT_APP_ID: "${MICROSOFT_APP_ID:-${CLIENT_ID:-}}"
      MICROSOFT_APP_PASSWORD: "${MICROSOFT_APP_PASSWORD:-${CLIENT_SECRET:-}}"
      MICROSOFT_APP_TENANT_ID: "${MICROSOFT_APP_TENANT_ID:-${TENANT_ID:-}}"
      # The model; without one the offline model answers. With an app id, BOT_MODEL=offline says that this is meant.
      BOT_MODEL: "${BOT_MODEL:-}"
      OPENAI_API_KEY: "${OPENAI_API_KEY:-}"
      OPENAI_BASE_URL: "${OPENAI_BASE_URL:-}"
      OPENAI_MODEL: "${OPENAI_MODEL:-}"
      AZURE_OPENAI_ENDPOINT: "${AZURE_OPENAI_ENDPOINT:-}"
      AZURE_OPENAI_API_KEY: "${AZURE_OPENAI_API_KEY:-}"
      AZURE_OPENAI_DEPLOYMENT: "${AZURE_OPENAI_DEPLOYMENT:-}"
    depends_on:
      redis:
        condition: service_healthy
    restart: unless-stopped
    stop_grace_period: 30s # more than BOT_DRAIN_TIMEOUT
    read_only: true
    tmpfs: ["/tmp:exec,size=512m"] # scripts of skills run from copies there
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]

  redis:
    image: redis:7-bookworm
    # Every write is on disk within a second. A full Redis refuses writes instead of forgetting state.
    command: ["redis-server", "--appendonly", "yes", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
    volumes:
      - redis:/data
    healthcheck:
      test: ["CMD", "redis-cli", "ping"]
      interval: 5s
      timeout: 3s
      retries: 10
    restart: unless-stopped

volumes:
  redis:
`
