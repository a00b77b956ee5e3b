package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
)

type crashCmd struct {
	Files []string `arg:"" name:"file" help:"scenarios, as for run"`
	actionsFlag
	Only   string        `name:"run" placeholder:"REGEXP" help:"only the scenarios with such a name"`
	Budget time.Duration `default:"1m" help:"time for all of them; what it does not reach is not covered"`
}

// Help explains the outcome.
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
