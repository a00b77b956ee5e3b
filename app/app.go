// Package app is the whole program around a bot: settings, logs, health, metrics and traces,
// and the commands that serve it, talk to it and look after it. [Main] is all that a main
// function needs.
package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

// Bot is what a program is made around. Name and Register are required.
type Bot struct {
	Name     string                  // what people call it
	Register func(*actions.Registry) // adds its actions; it is called more than once
	Examples []string                // what people may say, for its help
}

// commands is the command line.
type commands struct {
	settings.Settings `group:"settings" prefix:"settings-"`

	Serve    serveCmd    `cmd:"" default:"1" help:"Serve the bot (the default)."`
	Chat     chatCmd     `cmd:"" help:"Talk with the bot in this terminal."`
	Plan     planCmd     `cmd:"" help:"Show what the model is asked and plans, or decode what a model wrote."`
	Skills   skillsCmd   `cmd:"" help:"Check, list or show skills: folders with a SKILL.md."`
	Actions  actionsCmd  `cmd:"" help:"List the actions of the bot; with --json for bottest."`
	Manifest manifestCmd `cmd:"" help:"Build or validate the Teams app package."`
	Turns    turnsCmd    `cmd:"" help:"Look at dead letters, retry or drop them; needs REDIS_URL."`
	Doctor   doctorCmd   `cmd:"" help:"Check and explain the settings."`

	Healthcheck healthcheckCmd `cmd:"" help:"Ask the running bot whether it is ready; for containers."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// gcPercent lets a heap grow to three times of what is live: turns leave little behind, and
// collecting it often costs more than the memory does. GOGC in the environment wins.
const gcPercent = 200

// Main runs the process's command line for that bot, and exits. Settings come from the
// environment or from flags; the exit code is 1 for what failed, and 2 for wrong use and wrong
// settings.
func Main(bot Bot) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	cli.Main(func(ctx context.Context, args []string, std *cli.Streams) int { return run(ctx, bot, args, std) })
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, bot Bot, args []string, std *cli.Streams) int {
	var all commands
	all.Register = bot.Register
	const about = "An AI bot for Microsoft Teams and the Bot Framework. Settings come from the environment or from flags, which each command lists."
	return cli.Run(ctx, "bot", about, args, std, &all, &all.Settings, &bot)
}

// version is set at link time; without it the build's own record counts.
var version string

type versionCmd struct{}

// Run prints the version of the program and of what it was built with.
func (versionCmd) Run(std *cli.Streams) error {
	fmt.Fprintln(std.Out, "bot", versionText(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	return nil
}

func versionText() string {
	revision := ""
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value[:min(12, len(s.Value))]
		}
	}
	main := strings.Trim(info.Main.Version, "()") // "(devel)" where nothing is known
	return cmp.Or(version, revision, main, "devel")
}

const healthTimeout = 3 * time.Second

type healthcheckCmd struct{}

// Run asks /readyz of the bot that runs with the same settings.
func (healthcheckCmd) Run(ctx context.Context, s *settings.Settings) error {
	if err := cli.Check(s); err != nil {
		return err
	}
	resp, err := get(ctx, s.Listen(), "/readyz")
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s", resp.Status)
	}
	return nil
}

// get asks a bot on this machine, by the address that it listens on, for one of its pages.
func get(ctx context.Context, addr, path string) (*http.Response, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: healthTimeout}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}
