// Package app is the whole program around a bot: its settings, logs, health, metrics and
// traces, and its commands. [Main] is all that a main function needs.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
)

// Bot is what a program is made around. Name and Register are required.
type Bot struct {
	Name     string                  // what people call it
	Register func(*actions.Registry) // adds its actions; may be called more than once
	Examples []string                // what people may say, shown by its help
}

// registry has the actions of the bot.
func (b *Bot) registry() *actions.Registry {
	registry := actions.New()
	if b.Register != nil {
		b.Register(registry)
	}
	return registry
}

// Exit codes: 1 for what failed, 2 for wrong use and wrong settings.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake of whoever typed the command or set it up.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// commands is the command line.
type commands struct {
	settings `group:"settings"`

	Serve serveCmd `cmd:"" default:"1" help:"Serve the bot (the default)."`
	Chat  chatCmd  `cmd:"" help:"Talk with the bot in this terminal."`

	Plan     planCmd     `cmd:"" help:"Show what the model is asked and plans, or decode what a model wrote."`
	Skills   skillsCmd   `cmd:"" help:"Check, list or show skills: folders with a SKILL.md."`
	Manifest manifestCmd `cmd:"" help:"Build or validate the Teams app package."`
	Test     testCmd     `cmd:"" help:"Play scenarios: conversations that are written down, with what the model says and the bot has to do."`
	Turns    turnsCmd    `cmd:"" help:"Look at turns that were parked, retry or drop them; needs REDIS_URL."`
	Eval     evalCmd     `cmd:"" help:"Measure how well the model plans, alone or beside another set of settings; run nothing."`
	Doctor   doctorCmd   `cmd:"" help:"Check and explain the settings."`

	Healthcheck healthcheckCmd `cmd:"" help:"Ask the running bot whether it is ready; for containers."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// streams are where a command reads and writes.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// gcPercent lets a heap grow to three times of what is live: turns leave little behind, and
// collecting it often costs more than the memory does. GOGC in the environment wins.
const gcPercent = 200

// Main runs the command of the process's command line, for that bot, and exits. Settings come
// from the environment or from flags; the exit code is 1 for what failed, and 2 for wrong use
// and wrong settings.
func Main(bot Bot) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process at once
	code := execute(ctx, bot, os.Args[1:], &streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, bot Bot, args []string, std *streams) int {
	var cli commands
	done := -1
	args = goFlags(args)
	parser, err := kong.New(&cli,
		kong.Name("bot"),
		kong.Description("An AI bot for Microsoft Teams and the Bot Framework. Settings come from the environment or from flags."),
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { done = code }),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{FlagsLast: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "settings", Title: "Settings of the bot, for every command:"}}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
	if err != nil {
		fmt.Fprintln(std.err, "bot: command line:", err)
		return exitFailed
	}
	dropEmptyEnvironment(parser.Model)
	cli.twice, cli.bot = spelledTwice(parser.Model), bot
	command, err := parser.Parse(args)
	cli.trim()
	if done >= 0 {
		return done // --help was asked for and answered
	}
	if err == nil {
		err = command.Run(&cli.settings)
	} else {
		err = usageError{err}
	}
	return report(std.err, cmp.Or(cli.LogFormat, formatIn(args), os.Getenv("BOT_LOG_FORMAT")), err)
}

// formatIn finds the format of logs in a command line that cannot be parsed, which has
// set nothing, or not yet.
func formatIn(args []string) (format string) {
	const flag = "--bot-log-format"
	for i, arg := range args {
		if value, is := strings.CutPrefix(arg, flag+"="); is {
			format = value
		} else if arg == flag && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format
}

// report prints the error, one mistake a line or as a JSON object where logs
// are JSON, and returns the exit code.
func report(w io.Writer, format string, err error) int {
	var silent silentError
	var usage usageError
	code := exitFailed
	switch {
	case err == nil:
		return 0
	case errors.As(err, &silent):
		return silent.code
	case errors.As(err, &usage):
		code = exitUsage
	}
	if strings.EqualFold(strings.TrimSpace(format), "json") {
		log := zerolog.New(w).With().Timestamp().Logger()
		log.Error().Strs("mistakes", strings.Split(err.Error(), "\n")).Msg("bot failed")
		return code
	}
	fmt.Fprintln(w, "bot:", err)
	return code
}

// silentError ends the command with a code when all is said already.
type silentError struct{ code int }

func (e silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// checked reads the settings for a command.
func (s *settings) checked() (config, error) {
	c, err := s.check()
	if err != nil {
		return c, usageError{fmt.Errorf("these settings have to be mended:\n%w", err)}
	}
	return c, nil
}
