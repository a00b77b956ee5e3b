package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/internal/local"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/console"
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

type chatCmd struct {
	URL    string `name:"url" placeholder:"URL" help:"talk to the bot that runs at http://127.0.0.1:3978 or elsewhere"`
	Locale string `name:"locale" placeholder:"TAG" help:"your language, such as de or pt-BR"`
	own    *Bot
}

// Run talks to the bot as a channel does: to the one at URL, or else to one that it serves on its
// own port. That bot logs only warnings unless a level is set.
func (c chatCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	cfg := console.Config{
		In: std.In, Out: std.Out, BotName: s.Bot.Name, Locale: c.Locale, Dumb: os.Getenv("TERM") == "dumb", NoColor: os.Getenv("NO_COLOR") != "",
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" {
			return cli.Usage(fmt.Errorf("--url: %q is not an address such as http://127.0.0.1:3978", c.URL))
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/api/messages"
		}
		cfg.BotURL, cfg.AcksAtOnce = u.String(), true
		return console.Run(ctx, cfg)
	}
	own := *s
	own.Addr = "127.0.0.1:0"
	if own.AppID != "" {
		return cli.Usage(errors.New("chat is for the bot without an app id: unset MICROSOFT_APP_ID"))
	}
	if err := cli.Check(&own); err != nil {
		return err
	}
	own.DrainTimeout = time.Second // after leaving, no turn is worth waiting for
	cfg.Timeout = own.TurnTimeout + time.Minute
	cfg.Logs = &console.Logs{Out: std.Err}
	p := &program{Settings: &own, own: *c.own, log: cli.Logger(cfg.Logs, &own, zerolog.WarnLevel), ackTimeout: cfg.Timeout} // the console waits for each turn
	defer p.close()
	address, end, err := p.background(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "%s, model: %s.\n", s.Bot.Name, p.aboutModel)
	cfg.BotURL = address
	err = console.Run(ctx, cfg)
	cfg.Logs.Mute() // a turn cut off here needs no log
	return errors.Join(err, end())
}

const (
	// gcPercent lets a small heap grow to five times its live size: turns leave little behind, and
	// collecting it often costs more than the memory.
	gcPercent   = 400
	ampleMemory = 64 << 20 // what the Go runtime may use before garbage is collected more often
	otherMemory = 8 << 20  // roughly what the runtime needs beside heap and stacks
)

// tuneGC lets the heap grow fast while it is small, and slowly when it is large: with hundreds of
// running turns, most of it would be garbage. GOGC or GOMEMLIMIT in the environment take
// precedence.
func tuneGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	limit := int64(ampleMemory)
	debug.SetMemoryLimit(limit)
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	afterEachGC(func() {
		metrics.Read(samples)
		next := memoryLimit(samples[0].Value.Uint64() + samples[1].Value.Uint64())
		if max(next-limit, limit-next) > limit/16 { // setting it stops the world briefly
			limit = next
			debug.SetMemoryLimit(limit)
		}
	})
}

// memoryLimit leaves room for half as much garbage as there is live data in heap and stacks. A
// fixed limit would be a trap: a heap that outgrows it is collected without end.
func memoryLimit(live uint64) int64 {
	return max(ampleMemory, int64(min(live, 1<<50))*3/2+otherMemory)
}

// afterEachGC calls f after each collection, when the collector finds the sentinel unreachable.
func afterEachGC(f func()) {
	sentinel := new([64]byte) // large enough not to share its block with others
	runtime.AddCleanup(sentinel, func(f func()) {
		f()
		afterEachGC(f)
	}, f)
}
