package app

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

// commands is the command line.
type commands struct {
	Serve  serveCmd  `default:"true" help:"Serve the bot (the default)."`
	Chat   chatCmd   `help:"Talk with the bot in this terminal."`
	Turns  turnsCmd  `help:"Show, retry or drop dead letters; needs REDIS_URL or BOT_DATA_DIR."`
	Doctor doctorCmd `help:"Check and explain the settings."`

	Healthcheck healthcheckCmd `help:"Ask the running bot whether it is ready; for containers."`
	Version     versionCmd     `help:"Print the version."`
}

// commandsOf returns the command line for that bot.
func commandsOf(own *Bot) *commands {
	var c commands
	c.Serve.own = own
	c.Chat.own = own
	c.Doctor.own = own
	return &c
}

// Main runs the command line for that bot with these features, and exits. Settings come from the
// environment or from flags. The exit code is 1 for failures, and 2 for wrong usage and wrong settings.
func Main(b Bot, features ...Feature) {
	b.addFeatures(features)
	for _, f := range b.features {
		if f.Main == nil {
			continue
		}
		if exit, done := f.Main(os.Args[1:]); done {
			os.Exit(exit)
		}
	}
	tuneGC()
	cli.Main(func(ctx context.Context, args []string, std *cli.Streams) int { return run(ctx, b, args, std) })
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, bot Bot, args []string, std *cli.Streams) int {
	s := settingsOf(bot)
	var more []any
	for _, f := range bot.features {
		if f.Commands != nil {
			more = append(more, f.Commands)
		}
	}
	return cli.Program{
		Name:     "bot",
		About:    "An AI bot for Microsoft Teams. Settings come from the environment or from flags, which each command lists.",
		Commands: commandsOf(&bot),
		More:     more,
		Adapt: func(of any) cli.Runner {
			if c, ok := of.(Command); ok {
				return ranCommand{Command: c, own: &bot}
			}
			return nil
		},
		Settings: s,
		Before:   func() error { return bot.describe(s) },
	}.Run(ctx, args, std)
}

// describe lets features change the bot by settings.
func (b *Bot) describe(s *settings.Settings) error {
	for _, f := range b.features {
		if f.Describe == nil {
			continue
		}
		if err := f.Describe(&Program{Values: Values{s}, p: &program{Settings: s, own: *b}}, b); err != nil {
			return cli.Usage(err)
		}
	}
	s.Bot = settings.BotOf(*b)
	for name, wanted := range map[string]bool{"services": b.Connections != nil || len(b.Services) > 0, "memory": b.Memory} {
		if wanted && !slices.ContainsFunc(b.features, func(f Feature) bool { return f.Name == name }) {
			return cli.Usage(fmt.Errorf("this bot has no %s: it needs the feature of package app/%[1]s, in Features of app.Bot or of Main", name))
		}
	}
	return nil
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
func (c versionCmd) Run(_ context.Context, _ *settings.Settings, std *cli.Streams) error {
	v := about{Version: Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
func (healthcheckCmd) Run(ctx context.Context, s *settings.Settings, _ *cli.Streams) error {
	if err := cli.Check(s); err != nil {
		return err
	}
	if _, err := local.Get(ctx, s.Listen(), "/readyz"); err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	return nil
}
