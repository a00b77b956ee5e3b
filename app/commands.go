package app

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/planbot-go/planbot/app/botfile"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

// commands is the command line.
type commands struct {
	settings.Settings `group:"settings" prefix:"settings-"`

	Serve     serveCmd     `cmd:"" default:"1" help:"Serve the bot (the default)."`
	Dev       devCmd       `cmd:"" help:"Serve the bot of a Go package, and rebuild it whenever its files change."`
	New       newCmd       `cmd:"" help:"Write your own bot to a new folder."`
	Chat      chatCmd      `cmd:"" help:"Talk with the bot in this terminal."`
	Plan      planCmd      `cmd:"" help:"Show what the model is asked and what it plans, or decode what a model wrote."`
	Skills    skillsCmd    `cmd:"" help:"Check, list or show skills: folders with a SKILL.md."`
	Knowledge knowledgeCmd `cmd:"" help:"Add, list, remove or search documents that the bot answers from."`
	Actions   actionsCmd   `cmd:"" help:"List the actions of the bot; with --json for bottest."`
	Manifest  manifestCmd  `cmd:"" help:"Write, build or validate the Teams app package."`
	Turns     turnsCmd     `cmd:"" help:"Show, retry or drop dead letters; needs REDIS_URL or BOT_DATA_DIR."`
	Audit     auditCmd     `cmd:"" help:"List approvals and action calls with effects; needs BOT_AUDIT_KEEP, and REDIS_URL or BOT_DATA_DIR."`
	Doctor    doctorCmd    `cmd:"" help:"Check and explain the settings."`

	Healthcheck healthcheckCmd `cmd:"" help:"Ask the running bot whether it is ready; for containers."`
	Completion  completionCmd  `cmd:"" help:"Print a completion script for your shell."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// AfterApply makes the bot that BOT_FILE describes the one that the command is about.
func (c *commands) AfterApply(k *kong.Context, own Bot) error {
	if c.File == "" {
		return nil
	}
	f, err := botfile.Read(c.File)
	if err == nil {
		err = f.Apply(&c.Settings)
	}
	if err != nil {
		return cli.Usage(err)
	}
	for field, value := range reflect.ValueOf(c.Bot).Fields() {
		reflect.ValueOf(&own).Elem().FieldByName(field.Name).Set(value)
	}
	own.Welcome, own.Manifest, own.Services = f.Welcome(), f.Manifest(), f.Services()
	k.Bind(own)
	return nil
}

// Main runs the command line for that bot, and exits. Settings come from the environment or from
// flags. The exit code is 1 for failures, and 2 for wrong usage and wrong settings.
func Main(b Bot) {
	tuneGC()
	cli.Main(func(ctx context.Context, args []string, std *cli.Streams) int { return run(ctx, b, args, std) })
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, bot Bot, args []string, std *cli.Streams) int {
	var all commands
	all.Bot = settings.BotOf(bot)
	const about = "An AI bot for Microsoft Teams. Settings come from the environment or from flags, which each command lists."
	return cli.Run(ctx, "bot", about, args, std, &all, &all.Settings, bot)
}

type versionCmd struct {
	JSON bool `name:"json" help:"print JSON"`
}

// about is a build of the program. Commit is "" if it is not known; Modified says that there were
// changes beside it.
type about struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the versions of the program and of what it was built with.
func (c versionCmd) Run(std *cli.Streams) error {
	v := about{Version: versionText(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !c.JSON {
		fmt.Fprintln(std.Out, "bot", v.Version, v.Go, v.Platform)
		return nil
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return cli.PrintJSON(std.Out, v)
}

type healthcheckCmd struct{}

// Run queries /readyz of the bot that runs with the same settings.
func (healthcheckCmd) Run(ctx context.Context, s *settings.Settings) error {
	if err := cli.Check(s); err != nil {
		return err
	}
	if _, err := getLocal(ctx, s.Listen(), "/readyz"); err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	return nil
}
