// Command bottest tests bots from the command line: run plays scenarios without a model, and
// eval measures how well a model plans. The last line of both counts what passed and failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/botfile"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/app/tokens"
	"github.com/planbot-go/planbot/bottest"
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

type crashCmd struct {
	Files []string `arg:"" name:"file" help:"scenarios, as for run"`
	actionsFlag
	Only   string        `name:"run" placeholder:"REGEXP" help:"only the scenarios with such a name"`
	Budget time.Duration `default:"1m" help:"time for all of them; what it does not reach is not covered"`
}

func (crashCmd) Help() string {
	return "Plays each scenario on two replicas again and again, and kills the process that makes a save, " +
		"before it or after it, each time another one. What the bot does and says afterwards has to be what it does and says " +
		"without that: a message may come twice, and the bot may say that it could not finish. The bot is that of run. " +
		"Services of a bot.yaml are called each time. A bot in Go has bottest.CrashScenarios, which also sees what its " +
		"actions do outside. The exit code is 1 when anything was found."
}

// Run plays the scenarios, and prints what went wrong and how many places were covered.
func (c crashCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	only, err := regexp.Compile(c.Only)
	if err != nil || c.Budget <= 0 {
		return cli.Usage(errors.Join(err, errors.New("--run has to be a regular expression, and --budget above 0")))
	}
	run := runCmd{Files: c.Files, actionsFlag: c.actionsFlag}
	cfg, end, err := run.bot(cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx), s)
	defer end()
	if err != nil {
		return err
	}
	all := run.read(std.In, only)
	slices.SortStableFunc(all, func(a, b record.Scenario) int { return len(a.Steps) - len(b.Steps) }) // what they leave, the longer ones get
	var sum bottest.Crashes
	ends := time.Now().Add(c.Budget)
	for i := range all {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		each := max(time.Until(ends)/time.Duration(len(all)-i), time.Nanosecond)
		one := bottest.PlayCrashes(&all[i], each, func(*bottest.Outside) bottest.Config { return cfg })
		fmt.Fprintf(std.Out, "%s: %s\n", cli.Printable(all[i].Name), one)
		for _, f := range one.Faults {
			fmt.Fprintf(std.Out, "%s%s", inset(f.Text), inset(f.Place+"\n"+f.Story))
		}
		sum.Places += one.Places
		sum.Covered += one.Covered
		sum.Faults = append(sum.Faults, one.Faults...)
	}
	fmt.Fprintln(std.Out, sum)
	if len(sum.Faults) > 0 {
		return cli.SilentError{Code: cli.ExitFailed}
	}
	return nil
}
