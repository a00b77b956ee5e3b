// Command bottest tests bots from the command line: run plays scenarios without a model, and
// eval measures how well a model plans. The last line of both counts what passed and failed.
package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/botfile"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/app/tokens"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

// commands is the command line.
type commands struct {
	Run   runCmd   `help:"Play scenarios: conversations that are written down, with what the model says and the bot has to do."`
	Crash crashCmd `help:"Play scenarios in which processes die, and say what is done or said twice, wrongly or not at all."`
	Eval  evalCmd  `help:"Measure how well the model plans, alone or beside another set of settings; run nothing."`
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit code. Without a file of actions it tests the
// bot of cmd/bot.
func run(ctx context.Context, args []string, std *cli.Streams) int {
	s := app.Settings(app.Bot{Name: "Planbot", Counter: tokens.Count, Register: func(r *actions.Registry) {
		lists.Register(r)
		reminders.Register(r)
	}}, full.Features()...)
	var all commands
	return cli.Program{
		Name:     "bottest",
		About:    "Tests bots: without a model by scenarios, or how well a model plans. Each command lists the settings that it takes.",
		Commands: &all,
		Settings: s,
		Before:   func() error { return all.readFile(s) },
	}.Run(ctx, goFlags(args), std)
}

// readFile makes the bot that BOT_FILE describes the one that is tested.
func (c *commands) readFile(s *settings.Settings) error {
	file := s.Text("BOT_FILE")
	if file == "" {
		return nil
	}
	f, err := botfile.Read(file, s)
	if err == nil {
		err = f.Apply(s)
	}
	if err != nil {
		return cli.Usage(err)
	}
	c.Run.welcome = f.Welcome()
	if len(c.Run.Files) == 0 {
		c.Run.Files = f.Tests()
	}
	return nil
}

// goFlags lets flags of more than one letter be written with one dash, as go test has them.
func goFlags(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if goFlag.MatchString(arg) {
			out[i] = "-" + arg
		}
	}
	return out
}

var goFlag = regexp.MustCompile(`^-[a-z]{2}`)

// actionsFlag says which actions are tested.
type actionsFlag struct {
	Actions string `type:"path" placeholder:"FILE" help:"what bot actions --json wrote, or a registry in the form of Teams AI's actions.json; without it the actions of Planbot's own bot"`
}

func (f actionsFlag) registry(s *settings.Settings) (*actions.Registry, error) {
	if f.Actions == "" {
		return s.Actions(), nil
	}
	return s.ReadActions(f.Actions)
}

// input is what a file has, or standard input for -, with its name.
func input(stdin io.Reader, file string) (name string, text []byte, err error) {
	if file == "-" {
		text, err = io.ReadAll(stdin)
		return "stdin", text, err
	}
	text, err = os.ReadFile(file)
	return file, text, err
}
