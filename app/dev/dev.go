// Package dev has the command that serves a bot while it is written: it builds the bot anew whenever its files
// change, and keeps the port and the state.
package dev

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state"
)

// Feature adds the command dev.
func Feature() app.Feature {
	return app.Feature{Name: "dev", Commands: &struct {
		Dev command `help:"Serve the bot of a Go package, and rebuild it whenever its files change."`
	}{}}
}

type command struct {
	Package string `arg:"" optional:"" default:"." placeholder:"PACKAGE" help:"Go package of the bot; without it the one of this folder, or with --file that file"`
	Open    bool   `help:"open the bot's page in a browser once it answers"`
}

func (command) Help() string {
	return "Keeps the port and the state, and runs the bot beside: conversations, and turns that wait for somebody, outlive each build. " +
		"A build that fails is shown, and the last good bot goes on."
}

// EnvFile is what bot dev reads without --env-file, if it is there.
func (command) EnvFile() string { return ".env" }

const (
	devPoll = 500 * time.Millisecond // how often files are looked at
	// devStart limits how long a new bot may take until it is ready, and devBuild how long its build.
	devStart     = 30 * time.Second
	devBuild     = 10 * time.Minute
	devStop      = 5 * time.Second // how much longer than BOT_DRAIN_TIMEOUT an old one may take to end
	closeTimeout = 2 * time.Second // limits how long what people have open may take to end
	maxWatched   = 20_000          // limits the files that are looked at
)

// Run serves until the process is told to stop, and then drains the bot.
func (c command) Run(ctx context.Context, p *app.Program) error {
	s := p.Settings()
	var own error
	if s.DataDir != "" {
		own = errors.New("BOT_DATA_DIR: bot dev keeps state itself, until it ends; set REDIS_URL to keep it for longer")
	}
	if s.NoAuth {
		own = errors.Join(own, errors.New("BOT_DANGEROUSLY_NO_AUTH: bot dev is for this machine only"))
	}
	for _, port := range []string{"BOT_METRICS_ADDR", "BOT_VIEWER_ADDR"} {
		if p.Text(port) != "" {
			own = errors.Join(own, fmt.Errorf("%s: bot dev starts the next bot while the last one still has that port", port))
		}
	}
	if s.RedisURL == "" {
		s.State = "embedded" // bot dev keeps it
	}
	if err := p.Check(own); err != nil {
		return err
	}
	listener, err := local.Listen(ctx, s.Listen(), "BOT_ADDR, PORT")
	if err != nil {
		return err
	}
	d := &developer{Settings: s, file: p.Text("BOT_FILE"), std: p.Streams(), addr: listener.Addr().String(), open: c.Open}
	if d.dir, err = os.MkdirTemp("", "planbot-dev"); err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { _ = os.RemoveAll(d.dir) }() // in the temporary folder, which the system empties
	if err := os.Mkdir(d.pages(), 0o700); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := d.source(ctx, c.Package); err != nil {
		return errors.Join(err, listener.Close())
	}
	return d.run(ctx, listener)
}

// developer is the parent of the bot that is developed.
type developer struct {
	*settings.Settings
	std  *cli.Streams
	addr string // where people reach the bot
	open bool
	file string // that describes the bot; "": none
	dir  string // for programs
	pkg  string // "": the program is this one
	root string // of its module

	redisURL string
	target   atomic.Pointer[url.URL] // of the bot that answers; nil: there is none
	now      *child                  // nil: none
	sum      [sha256.Size]byte       // of its program
	built    int
}

// source finds the package, or decides that this program is the one that runs.
func (d *developer) source(ctx context.Context, pkg string) error {
	if d.file != "" && pkg == "." {
		d.root = filepath.Dir(d.file)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, devStart)
	defer cancel()
	list := exec.CommandContext(ctx, "go", "list", "-e", "-f", "{{.Name}}\n{{if .Module}}{{.Module.Dir}}{{end}}\n{{.Dir}}\n{{if .Error}}{{.Error}}{{end}}", "--", pkg) //nolint:gosec // a package that the person named
	var out, faults bytes.Buffer
	list.Stdout, list.Stderr = &out, &faults
	if err := list.Run(); err != nil {
		return cli.Usage(fmt.Errorf("look for the package %s with the go command: %w: %s", pkg, err, cli.OneLine(faults.String())))
	}
	lines := strings.SplitN(out.String(), "\n", 4)
	if _, err := os.Stat(lines[2]); lines[2] == "" || err != nil {
		return cli.Usage(fmt.Errorf("there is no package %s: %s", pkg, cli.OneLine(lines[3])))
	}
	if lines[0] != "" && lines[0] != "main" { // "": its files cannot be read yet
		return cli.Usage(fmt.Errorf("the package %s is not a program: its name is %s", pkg, lines[0]))
	}
	d.pkg, d.root = pkg, cmp.Or(lines[1], lines[2])
	return nil
}

// run answers at the listener until ctx ends, by the bot that was built last.
func (d *developer) run(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	failed := make(chan error, 2)
	stateCtx, forget := context.WithCancel(context.WithoutCancel(ctx)) // state outlives the bot
	defer forget()
	if d.redisURL = d.RedisURL; d.redisURL == "" {
		l, err := local.Listen(ctx, "127.0.0.1:0", "state")
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		password := crand.Text()
		d.redisURL = "redis://:" + password + "@" + l.Addr().String() + "/0"
		work.Go(func() {
			if err := state.Serve(stateCtx, l, password); err != nil {
				failed <- err
			}
		})
	}
	server := &http.Server{Handler: d.proxy(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	work.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
	d.say("%s: building %s, at http://%s", d.Bot.Name, cmp.Or(d.pkg, d.file), d.addr)
	if d.EnvFile != "" {
		d.say("settings also from %s", d.EnvFile)
	}
	d.say("%s", tunnelHint(d.Settings, d.addr, exec.LookPath))
	err := d.watch(ctx, failed)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	d.stop(d.now)
	if server.Shutdown(closing) != nil {
		_ = server.Close() // streams do not end by themselves
	}
	forget()
	return err
}

func (d *developer) say(format string, args ...any) {
	fmt.Fprintf(d.std.Err, "bot dev: "+format+"\n", args...)
}

// watch builds and runs the bot, and again after each change.
func (d *developer) watch(ctx context.Context, failed <-chan error) error {
	tick := time.NewTicker(devPoll)
	defer tick.Stop()
	seen, err := d.files()
	if err != nil {
		return err
	}
	d.renew(ctx, true)
	for dirty := false; ; {
		var ended <-chan struct{}
		if d.now != nil {
			ended = d.now.ended
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-ended:
			code, err := d.now.cmd.ProcessState.ExitCode(), d.now.err
			d.target.Store(nil)
			d.now, d.sum = nil, [sha256.Size]byte{}
			if code == page.ExitCrashed {
				d.say("the bot has crashed on purpose, and starts again")
				d.renew(ctx, false)
				continue
			}
			d.say("the bot has ended (%v); it starts again when a file changes", err)
		case <-tick.C:
			files, err := d.files()
			if err != nil {
				return err
			}
			if !maps.Equal(files, seen) {
				seen, dirty = files, true // more may be on its way
				continue
			}
			if dirty {
				dirty = false
				d.renew(ctx, false)
			}
		}
	}
}

// stamp is what a change of a file changes.
type stamp struct{ size, at int64 }

// watchedKinds are the ends of the names of files that a bot may be made of.
var watchedKinds = []string{".go", ".mod", ".sum", ".txt", ".json", ".yaml", ".yml", ".md", ".tmpl", ".lock"}

// files looks at what the bot may be made of: the files of its module, and the folders and files
// that settings name.
func (d *developer) files() (map[string]stamp, error) { return stampsOf(append(d.read(), d.root)) }

func stampsOf(roots []string) (map[string]stamp, error) {
	all := map[string]stamp{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it went away meanwhile, or does not exist yet
			}
			name := entry.Name()
			if entry.IsDir() {
				if path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "vendor" || name == "testdata") {
					return fs.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(name, "_test.go") || !slices.Contains(watchedKinds, filepath.Ext(name)) && path != root {
				return nil
			}
			if info, err := entry.Info(); err == nil {
				all[path] = stamp{info.Size(), info.ModTime().UnixNano()}
			}
			if len(all) > maxWatched {
				return fmt.Errorf("%s has more than %d files to look at: start bot dev in the folder of the bot's own module", root, maxWatched)
			}
			return nil
		})
		if err != nil {
			return nil, cli.Usage(err)
		}
	}
	return all, nil
}

// read are the files and folders that the bot reads when it starts.
func (d *developer) read() (all []string) {
	for _, path := range append(filepath.SplitList(d.Text("BOT_SKILLS_DIR")), d.PromptsDir, d.InstructionsFile, d.file) {
		if path != "" {
			all = append(all, path)
		}
	}
	return all
}

// renew builds the bot, starts it and lets it answer in the place of the last one. If that is not
// possible, the last one goes on.
func (d *developer) renew(ctx context.Context, first bool) {
	began := time.Now()
	program, sum, err := d.build(ctx)
	if err == nil && d.now != nil && sum == d.sum {
		d.tellPage(nil) // what broke the build is undone
		return
	}
	var next *child
	if err == nil {
		next, err = d.start(ctx, program)
	}
	if ctx.Err() != nil {
		d.stop(next)
		return
	}
	d.tellPage(err)
	if err != nil {
		goesOn := "there is no bot until a change repairs it"
		if d.now != nil {
			goesOn = "the last good bot goes on"
		}
		d.say("%v\nbot dev: %s", err, goesOn)
		return
	}
	old := d.now
	d.now, d.sum = next, sum
	d.target.Store(next.url)
	d.say("ready after %s: http://%s", time.Since(began).Round(10*time.Millisecond), d.addr)
	d.stop(old)
	if first && d.open {
		if err := openBrowser(ctx, "http://"+d.addr+"/"); err != nil {
			d.say("cannot open a browser: %v", err)
		}
	}
}

// pages is the folder for what the pages of the bots keep.
func (d *developer) pages() string { return filepath.Join(d.dir, "page") }

// tellPage says on the page why the last build failed. nil: it did not.
func (d *developer) tellPage(fault error) {
	name, text := filepath.Join(d.pages(), page.BuildFault), ""
	if fault != nil {
		text = fault.Error()
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		d.say("the page cannot say whether the build failed: %v", err)
	}
}

// build builds the program. sum also covers what the program reads when it starts.
func (d *developer) build(ctx context.Context) (program string, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	if d.pkg == "" {
		if program, err = os.Executable(); err != nil {
			return "", sum, err
		}
	} else {
		d.built++
		program = filepath.Join(d.dir, fmt.Sprintf("bot%d", d.built%2)) // the other one runs
		if runtime.GOOS == "windows" {
			program += ".exe"
		}
		ctx, cancel := context.WithTimeout(ctx, devBuild)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "--", d.pkg) //nolint:gosec // a package that the person named
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", sum, fmt.Errorf("cannot build %s: %w\n%s", d.pkg, err, bytes.TrimSpace(out))
		}
		if err := addFile(hash, program); err != nil {
			return "", sum, err
		}
	}
	files := d.read
	if d.pkg == "" { // any file beside bot.yaml may be one that it names
		files = func() []string { return append(d.read(), d.root) }
	}
	read, err := stampsOf(files())
	if err != nil {
		return "", sum, err
	}
	fmt.Fprintln(hash, read) // sorted
	return program, [sha256.Size]byte(hash.Sum(nil)), nil
}

func addFile(to io.Writer, name string) error {
	file, err := os.Open(name) //nolint:gosec // our own
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read only
	_, err = io.Copy(to, file)
	return err
}

// child is a running bot.
type child struct {
	url   *url.URL
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // of its end; read it once ended is closed
}

// start starts the program at a port of its own, and waits until it is ready.
func (d *developer) start(ctx context.Context, program string) (*child, error) {
	l, err := local.Listen(ctx, "127.0.0.1:0", "the bot's own port")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil { // for the bot
		return nil, err
	}
	c := &child{url: &url.URL{Scheme: "http", Host: addr}, ended: make(chan struct{})}
	c.cmd = exec.Command(program, "serve") //nolint:gosec,noctx // built here; stop ends it
	c.cmd.Env = append(append(os.Environ(), d.Environ()...), "BOT_ADDR="+addr, "BOT_PAGE_ADDR="+d.addr, "BOT_PAGE_KEEP="+d.pages(), "REDIS_URL="+d.redisURL, "BOT_STATE=")
	c.cmd.Stdout, c.cmd.Stderr = d.std.Out, d.std.Err
	c.cmd.SysProcAttr = apart()
	started := make(chan error, 1)
	go func() { // ends with the process, which ends with this thread where the system can do that
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			if c.err == nil {
				c.err = errors.New("exit status 0")
			}
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the bot: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, devStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return nil, fmt.Errorf("the bot exited at start: %w", c.err)
		case <-ctx.Done():
			d.stop(c)
			return nil, fmt.Errorf("the bot is not ready after %s", devStart)
		case <-tick.C:
			if _, err := local.Get(ctx, addr, "/readyz"); err == nil {
				return c, nil
			}
		}
	}
}

// stop drains the bot and waits for its end. nil: nothing to do.
func (d *developer) stop(c *child) {
	if c == nil {
		return
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = c.cmd.Process.Kill() // it may have ended
	}
	timer := time.NewTimer(d.DrainTimeout + devStop)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.ended
	}
}

// forwarded are headers of programs that pass requests on, which a proxy of Go's takes away. The bot
// without an app id refuses requests that have one.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// proxy passes requests on to the bot as they came.
func (d *developer) proxy() http.Handler {
	by := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Context().Value(targetKey{}).(*url.URL).Host
			r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
			for _, name := range forwarded {
				if values := r.In.Header.Values(name); len(values) > 0 {
					r.Out.Header[name] = values
				}
			}
		},
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the bot does not answer; bot dev says why in its terminal", http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := d.target.Load()
		if target == nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "there is no bot that could be built and started; bot dev says why in its terminal", http.StatusServiceUnavailable)
			return
		}
		by.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, target)))
	})
}

// targetKey is where a request's context has the address of the bot.
type targetKey struct{}

// tunnelHint says how channels reach the bot from outside, or why they must not.
func tunnelHint(s *settings.Settings, addr string, look func(string) (string, error)) string {
	if s.AppID == "" {
		return "no tunnel: without MICROSOFT_APP_ID the bot checks nobody, so it must not be reachable from outside"
	}
	_, port, _ := net.SplitHostPort(addr)
	for _, t := range [][2]string{
		{"devtunnel", "devtunnel host --port-numbers %s --allow-anonymous"},
		{"cloudflared", "cloudflared tunnel --url http://127.0.0.1:%s"},
		{"ngrok", "ngrok http %s"},
	} {
		if _, err := look(t[0]); err == nil {
			return fmt.Sprintf("tunnel: "+t[1]+", and make https://THE_HOST_IT_NAMES/api/messages the messaging endpoint of the Azure Bot", port)
		}
	}
	return "tunnel: install devtunnel, cloudflared or ngrok, so that the Azure Bot reaches this machine"
}

func openBrowser(ctx context.Context, address string) error {
	command := []string{"xdg-open"}
	switch {
	case os.Getenv("BROWSER") != "":
		command = []string{os.Getenv("BROWSER")}
	case runtime.GOOS == "darwin":
		command = []string{"open"}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	ctx, cancel := context.WithTimeout(ctx, devStart)
	defer cancel()
	return exec.CommandContext(ctx, command[0], append(command[1:], address)...).Run() //nolint:gosec // what the person's machine opens pages with
}
