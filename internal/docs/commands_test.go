package docs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/internal/builtbot"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

var (
	theBot     = builtbot.New(root)
	theBottest = sync.OnceValues(func() (string, error) { return builtbot.Build(root, "bottest") })
)

// notRun says which commands of the pages this test does not run, by how they begin, and why.
var notRun = []struct{ begin, why string }{
	{"az ", needsAccount},
	{"APP_ID=$(az ", needsAccount},
	{"SECRET=$(az ", needsAccount},
	{"TENANT=$(az ", needsAccount},
	{"devtunnel ", needsAccount},
	{"teams ", needsAccount},
	{"ngrok ", needsAccount},
	{"cloudflared ", "needs the network; the page says that it was not tried"},
	{"npx ", "e2e/run-api.mjs and e2e/run-browser.mjs run the Playground"},
	{"docker ", "needs a registry; .ci/run builds the minimal image with buildah"},
	{"CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' ", ".ci/run builds so"},
	{"bench/small-model/run.sh", "builds a model's server for a quarter of an hour: by hand"},
	{"go run ./examples/", playsItself},
	{"OPENAI_API_KEY=sk-... go run ./examples/", playsItself},
	{"DESK_TOKEN=demo go run ", playsItself},
	{"SMTP_ADDR=127.0.0.1:1025 go run ./examples/", playsItself},
	{"MICROSOFT_APP_ID=... MICROSOFT_APP_PASSWORD=... STAFF_URL=", playsItself},
	{".ci/run", "runs these tests"},
	{"golangci-lint ", ciRuns},
	{"npm install -g @microsoft/teams.cli", needsAccount},
	{"npm ", ciRuns},
	{"node e2e/", ciRuns},
	{"internal/rediscluster/start.sh ", ciRuns},
	{"redis-cli ", "needs a server; TestMoreWorlds/RestoredBackup in e2e/chaos does the same"},
	{"redis-server ", "needs a server; TestMoreWorlds/RestoredBackup in e2e/chaos does the same"},
	{"git clone ", "needs the network; TestBeginOfTheTestingPage does the rest of the block"},
	{"mkdir coffee ", begins},
	{"cp -r ", begins},
	{"go mod ", begins},
	{"bot new", "TestNew in app makes one, and runs its tests"},
	{"go run ./cmd/bot new ", "TestNew in app makes one, and runs its tests"},
	{"bot dev", "serves until a signal; TestDev in app plays it"},
	{"BOT_ADDR=127.0.0.1:3978 go run ./cmd/bot dev ", "serves until a signal; TestDev in app plays it"},
	{"bot turns find ", "TestATurnIsFound in app plays it"},
}

const (
	needsAccount = "needs an account; the page says that it was not tried"
	begins       = "TestBeginOfTheTestingPage runs it"
	playsItself  = "the example's own test plays it"
	ciRuns       = ".ci/run does it"
)

// TestCommands runs the commands of README.md, CONTRIBUTING.md, docs/ and the READMEs of deploy,
// bench and examples as they stand there, those of a page one after another in one folder: commands in blocks of sh, and those in a text that begin
// with a program that is known here. Of go test it checks that there is something to run.
func TestCommands(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md", "deploy/*.md", "deploy/*/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	found, used := 0, map[string]bool{}
	for _, file := range pages {
		page, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, command := range commandsIn(read(t, page)) {
			at := slices.IndexFunc(notRun, func(n struct{ begin, why string }) bool { return strings.HasPrefix(command, n.begin) })
			switch {
			case at >= 0:
				used[notRun[at].begin] = true
			case goTest.MatchString(command):
				checkGoTest(t, page, command)
			default:
				list = append(list, command)
			}
		}
		found += len(list)
		if len(list) > 0 {
			t.Run(page, func(t *testing.T) {
				t.Parallel()
				r := newReader(t, page)
				for _, command := range list {
					began := time.Now()
					r.runs(command)
					t.Logf("%6.2f s  %s", time.Since(began).Seconds(), command)
				}
			})
		}
	}
	if found < 30 {
		t.Errorf("found only %d commands to run", found)
	}
	for _, n := range notRun {
		if !used[n.begin] {
			t.Errorf("no page has a command that begins with %q", n.begin)
		}
	}
}

var (
	shBlock  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	anyBlock = regexp.MustCompile("(?ms)^```.*?^```")
	inPage   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```|`((?:[A-Z_]+=\\S* )*(?:go run|go tool \\w+|go test|echo|az) [^`\n]+)`")
	stepRuns = regexp.MustCompile(`(?m)^ +- run: (.*)$`)
	comment  = regexp.MustCompile(`(^|\s+)# .*`)
)

// commandsIn are the commands that a page shows, in order and without comments.
func commandsIn(page string) (list []string) {
	for _, found := range inPage.FindAllStringSubmatch(page, -1) {
		if found[3] != "" {
			list = append(list, found[3])
		}
		if found[1] == "yaml" && strings.Contains(found[2], "runs-on:") { // a workflow
			for _, run := range stepRuns.FindAllStringSubmatch(found[2], -1) {
				list = append(list, run[1])
			}
		}
		if found[1] != "sh" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(found[2], "\\\n", " ")) {
			if line = strings.TrimSpace(comment.ReplaceAllString(strings.TrimSpace(line), "")); line != "" {
				list = append(list, line)
			}
		}
	}
	return list
}

var goTest = regexp.MustCompile(`^(\S+=\S* )*go test `)

// checkGoTest checks that the packages exist, and that they have the tests and benchmarks that
// the command names.
func checkGoTest(t *testing.T, page, command string) {
	t.Helper()
	words, folder := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(command)), root
	if page == testingPage {
		folder = filepath.Join(root, "examples/coffee")
	}
	wanted := map[string]string{} // a regular expression, by what it has to match
	var source string
	if at := slices.Index(words, "-args"); at >= 0 {
		words = words[:at]
	}
	for i, word := range words {
		switch before := words[max(i-1, 0)]; {
		case before == "-run" && word != "^$":
			wanted["Test"] = word
		case before == "-bench":
			wanted["Benchmark"], _, _ = strings.Cut(word, "/")
		case word == "." || strings.HasPrefix(word, "./"):
			within, all := strings.CutSuffix(word, "...")
			files, _ := filepath.Glob(filepath.Join(folder, within, "*_test.go"))
			if _, err := os.Stat(filepath.Join(folder, within)); err != nil || len(files) == 0 && !all {
				t.Errorf("%s: %s: no tests in %s", page, command, word)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				source += string(text)
			}
		}
	}
	for kind, expression := range wanted {
		matches := false
		for _, name := range regexp.MustCompile(`(?m)^func (`+kind+`\w+)\(`).FindAllStringSubmatch(source, -1) {
			matches = matches || regexp.MustCompile(expression).MatchString(name[1])
		}
		if !matches {
			t.Errorf("%s: %s: there is no %s that matches %s", page, command, kind, expression)
		}
	}
}

const testingPage = "docs/testing.md"

// reader does what a page says, in a folder of its own.
type reader struct {
	*testing.T
	dir, path, exports string
	redis              *miniredis.Miniredis
	letters            int
}

func newReader(t *testing.T, page string) *reader {
	t.Helper()
	folder := t.TempDir()
	r := &reader{T: t, dir: filepath.Join(folder, "here"), redis: miniredis.RunT(t)}
	bot, err := theBot.Path()
	r.must(err)
	bottest, err := theBottest()
	r.must(err)
	whole, err := filepath.Abs(root)
	r.must(err)
	// A checkout beside the folder, and in it what the page speaks of.
	r.must(os.MkdirAll(filepath.Join(r.dir, "dir"), 0o700))
	r.must(os.Symlink(whole, filepath.Join(folder, "planbot")))
	r.must(os.Symlink(filepath.Join(whole, "examples"), filepath.Join(r.dir, "examples")))
	r.must(os.Symlink(filepath.Join(whole, "examples/skills"), filepath.Join(r.dir, "my-skills")))
	r.must(os.Symlink(filepath.Join(whole, "examples/handbook/documents/en"), filepath.Join(r.dir, "handbook")))
	if page == testingPage {
		r.must(os.CopyFS(r.dir, os.DirFS(filepath.Join(whole, "examples/coffee"))))
	} else {
		r.write("scenarios.yaml", `{name: hello, steps: [{event: {type: message, conversation: c1, from: mia, text: hi}, model: [Hello.], expect: {replies: [Hello.]}}]}`)
	}
	r.must(os.Mkdir(filepath.Join(r.dir, "dir/hello"), 0o700))
	r.write("dir/hello/prompt.txt", "Greet {{$name}}.")
	r.write("dir/hello/config.json", `{"description": "Greets", "input": {"parameters": [{"name": "name"}]}}`)
	r.write("answer.txt", `{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`)
	r.write("plan.xml", `<plan><function.addItem list="groceries" item="milk"/></plan>`)
	// The programs, in place of what the go command would build each time.
	r.path = t.TempDir()
	r.must(os.Symlink(bot, filepath.Join(r.path, "bot")))
	r.must(os.WriteFile(filepath.Join(r.path, "go"), []byte(`#!/bin/sh
case "$1 $2" in
"run ./cmd/bot" | "run ." | "tool bot") shift 2; exec '`+bot+`' "$@" ;;
"run ./cmd/bottest" | "tool bottest") shift 2; exec '`+bottest+`' "$@" ;;
esac
echo "not here: go $*" >&2
exit 1
`), 0o700)) //nolint:gosec // it has to run
	return r
}

func (r *reader) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *reader) write(name, text string) {
	r.Helper()
	r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// What the pages leave to the reader to fill in.
var (
	anID    = regexp.MustCompile(`\bID\b`)
	aName   = regexp.MustCompile(`\bNAME\b`)
	aFolder = regexp.MustCompile(`\bDIR\b`)
	aHost   = regexp.MustCompile(`\bHOST\b`)
	serves  = regexp.MustCompile(`^(\S+=\S* )*(go run \.(/cmd/bot)?|go tool bot)( serve( --record \S+)?)?$`)
)

const here = "http://127.0.0.1:3978"

// runs runs a command, which has to succeed.
func (r *reader) runs(command string) {
	r.Helper()
	began := command
	if strings.HasPrefix(command, "export ") {
		r.exports += command + "\n"
		return
	}
	if anID.MatchString(command) {
		r.letters++
		id := fmt.Sprintf("turn%d", r.letters)
		r.bury(id)
		command = anID.ReplaceAllString(command, id)
	}
	command = aName.ReplaceAllString(aFolder.ReplaceAllString(aHost.ReplaceAllString(command, "bot.example.com"), "dir"), "unit-converter")
	command = strings.Replace(command, "turns drop ", "turns drop --yes ", 1) // it asks at a terminal
	switch {
	case serves.MatchString(command):
		stop := r.serve(strings.ReplaceAll(command, "127.0.0.1:3978", "127.0.0.1:0"))
		if strings.Contains(command, "--record") {
			r.talk(stop.url)
		}
		stop.now()
	case strings.Contains(command, here):
		stop := r.serve("bot serve")
		r.run(began, "hello\n", strings.ReplaceAll(command, here, stop.url))
		stop.now()
	case strings.HasSuffix(command, " chat"):
		r.run(began, "what is on my lists?\n", command)
	default:
		r.run(began, "", command)
	}
}

// run runs a command line that stands for one of the page.
func (r *reader) run(began, stdin, command string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	cmd := r.command(ctx, command)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Errorf("%s\n%v, as %s\n%s", began, err, command, out)
	}
}

func (r *reader) command(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-ec", r.exports+command)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"PATH=" + r.path + ":" + os.Getenv("PATH"), "HOME=" + r.dir, "PORT=0", "GITHUB_STEP_SUMMARY=" + filepath.Join(r.dir, "summary.md"), "BOT_LOG_FORMAT=json",
		"APP_ID=7a7b7c7d-1111-2222-3333-444455556666", "SECRET=secret", "TENANT=7a7b7c7d-1111-2222-3333-444455556667",
	}
	if r.exports != "" { // nothing of a bot with an app id leaves this machine
		cmd.Env = append(cmd.Env, "BOT_LOGIN_URL=http://127.0.0.1:1", "BOT_OPENID_METADATA_URL=http://127.0.0.1:1")
	}
	if strings.Contains(command, " turns") || strings.Contains(command, "upgrade-check") || strings.Contains(command, "bot audit") || strings.Contains(command, "bot knowledge") {
		cmd.Env = append(cmd.Env, "REDIS_URL=redis://"+r.redis.Addr())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// serving is a bot that serves.
type serving struct {
	url string
	now func() // ends it
}

// serve starts a bot and waits until it is healthy.
func (r *reader) serve(command string) serving {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	r.Cleanup(cancel)
	cmd := r.command(ctx, "exec env "+command)
	stderr, err := cmd.StderrPipe()
	r.must(err)
	r.must(cmd.Start())
	var said strings.Builder
	var s serving
	for lines := bufio.NewScanner(io.TeeReader(stderr, &said)); s.url == "" && lines.Scan(); {
		var line struct{ Message, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
			s.url = strings.TrimSuffix(line.URL, "/api/messages")
		}
	}
	if s.url == "" {
		r.Fatalf("%s\ndoes not listen:\n%s", command, said.String())
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // until the process ends
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/healthz", nil)
	r.must(err)
	resp, err := http.DefaultClient.Do(req)
	r.must(err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r.Errorf("%s\n/healthz answers %d", command, resp.StatusCode)
	}
	s.now = func() {
		r.Helper()
		r.must(cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			r.Errorf("%s\nends with %v", command, err)
		}
	}
	return s
}

// talk says something to the bot and waits for the reply.
func (r *reader) talk(url string) {
	r.Helper()
	replied := make(chan struct{}, 9)
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		if text, _ := io.ReadAll(in.Body); strings.Contains(string(text), `"type":"message"`) {
			replied <- struct{}{}
		}
		_, _ = io.WriteString(w, `{"id":"1"}`)
	}))
	defer channel.Close()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/messages", strings.NewReader(`{"type":"message","id":"1","channelId":"emulator",
		"from":{"id":"mia","name":"Mia"},"recipient":{"id":"bot"},"conversation":{"id":"c1"},"text":"create a list Home","serviceUrl":"`+channel.URL+`"}`))
	r.must(err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	r.must(err)
	_ = resp.Body.Close()
	select {
	case <-replied:
	case <-ctx.Done():
		r.Fatalf("no reply; the request got %s", resp.Status)
	}
}

// deadLetter is a turn in the middle of its plan.
const deadLetter = `{"v":1,"id":"ID","accepted":"2026-01-02T03:04:05Z","activity":{"type":"message","id":"1","channelId":"console","from":{"id":"u","name":"Mia"},` +
	`"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"a list, please"},"phase":"waiting","wait":{"for":"operator","then":"running","reason":"three processes were lost"},` +
	`"run":{"progress":{"plan":{"commands":[{"type":"DO","action":"createList","entities":{"list":"Home"}},{"type":"SAY","response":"There it is."}]},"next":0,"variables":null},"usage":{}}}`

// bury leaves a dead letter as a bot does that gives a turn up.
func (r *reader) bury(id string) {
	r.Helper()
	store, err := state.Open(r.Context(), "redis://"+r.redis.Addr(), state.Config{})
	r.must(err)
	defer func() { _ = store.Close() }()
	in, err := inbox.Open(store, inbox.Config{})
	r.must(err)
	defer in.Close()
	receipt, err := in.Accept(r.Context(), inbox.Entry{
		Queue: state.ConversationKey("console", "b", "c"+id), ID: id, Record: []byte(strings.ReplaceAll(deadLetter, "ID", id)), Take: true,
	})
	r.must(err)
	_, err = receipt.Lease.Wait(r.Context(), nil, inbox.Wait{Operator: true, About: []byte(`{"for":"operator","reason":"three processes were lost"}`)}, nil)
	r.must(err)
}

// TestBeginOfTheTestingPage makes a module as docs/testing.md says, with this checkout in place of
// a clone. In place of go mod tidy, which asks for modules that this checkout does not need, it takes
// what the checkout requires: a machine that built these tests has that. It compiles a whole module,
// so go test leaves it to .ci/run.
func TestBeginOfTheTestingPage(t *testing.T) {
	ci.Only(t, "compiles a module")
	t.Parallel()
	folder := t.TempDir()
	whole, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	block := shBlock.FindStringSubmatch(read(t, testingPage))[1]
	clone, rest, _ := strings.Cut(block, "\n")
	if !strings.HasPrefix(clone, "git clone ") || !strings.HasSuffix(block, "go test ./...\n") {
		t.Fatalf("another block than expected:\n%s", block)
	}
	if err := os.Symlink(whole, filepath.Join(folder, "planbot")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// With its own path, the module's packages are those that other tests have compiled.
	script := strings.NewReplacer("=../planbot", "='"+whole+"'", "go mod tidy\n", `go mod edit -go=$(sed -n 's/^go //p' ../planbot/go.mod) -require=github.com/planbot-go/planbot@v0.0.0
sed -n '/^require (/,/^)/p' ../planbot/go.mod >>go.mod
cp ../planbot/go.sum .
`).Replace(rest) + "go tool bot version\n"
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ok  \texample.com/coffee") || !strings.Contains(string(out), "bot ") {
		t.Errorf("%v\n%s", err, out)
	}
}
