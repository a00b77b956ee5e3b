package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bottest/scenario"
)

type testCmd struct {
	Files []string `arg:"" name:"file" help:"scenarios as JSON or YAML: files, folders whose *.json, *.yaml and *.yml are played, or - for standard input"`
	registryFlag
	Only    string `name:"run" placeholder:"REGEXP" help:"only the scenarios with such a name"`
	JUnit   string `name:"junit" type:"path" placeholder:"FILE" help:"also write the results as JUnit's XML"`
	JSON    bool   `help:"print a JSON object; the last line then goes to standard error"`
	Verbose bool   `short:"v" help:"show also what passed, and what happened in it"`
	Update  bool   `help:"take changed prompts: write the cassettes of recordings anew, where all else is right"`
}

// Help says what the registry is for.
func (testCmd) Help() string {
	return "Plays conversations that are written down, with a model that says what is written there. " +
		"With --actions the actions do what the scenarios say, else they are those of this bot, and real, " +
		"with the prompts of BOT_PROMPTS_DIR and the skills of BOT_SKILLS_DIR. " +
		"Beside a recording NAME.scenario.yaml, prompts are compared with those in NAME.cassette.yaml. " +
		"The exit code is 1 when anything failed, or nothing was played."
}

// Run plays the scenarios and fails when one of them does, or cannot be read. The last
// line counts them, whatever comes between.
func (c testCmd) Run(ctx context.Context, s *settings, std *streams) error {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return usageError{fmt.Errorf("--run: %w", err)}
	}
	var all []scenario.Scenario
	var faults scenario.Faults
	cfg, err := c.bot(evalLog(config{settings: *s}, std.err, zerolog.ErrorLevel).WithContext(ctx), s)
	if err == nil {
		all, faults = c.read(std.in, only, cfg.Actions)
	} else {
		faults = scenario.Faults{faultOf(cmp.Or(c.Actions, "settings"), err)} // with it nothing can be played
	}
	if len(faults) > 0 {
		fmt.Fprintln(std.err, faults)
	}
	results := faults.Results()
	for i := 0; i < len(all) && ctx.Err() == nil; i++ {
		result := scenario.Run(&all[i], c.withPrompts(cfg, &all[i], std.err))
		c.tell(std.out, &result)
		results = append(results, result)
	}
	return c.end(ctx, std, results)
}

// tell shows a result as soon as it is there.
func (c testCmd) tell(out io.Writer, r *scenario.Result) {
	if !c.JSON {
		r.WriteText(out, c.Verbose)
	}
}

// end writes all results where they are wanted, what went wrong with that and, last, the
// line that sums them up.
func (c testCmd) end(ctx context.Context, std *streams, results scenario.Results) error {
	var wrong []error
	last := std.out
	if c.JSON {
		last = std.err
		wrong = append(wrong, results.WriteJSON(std.out))
	}
	if c.JUnit != "" {
		if err := writeWhole(c.JUnit, results.WriteJUnit); err != nil {
			wrong = append(wrong, fmt.Errorf("--junit: %w", err))
		}
	}
	if ctx.Err() != nil {
		wrong = append(wrong, errors.New("interrupted"))
	}
	err := errors.Join(wrong...)
	if err != nil {
		fmt.Fprintln(std.err, "bot:", err)
	}
	fmt.Fprintln(last, results)
	if err != nil || results.Failed() > 0 {
		return silentError{exitFailed}
	}
	return nil
}

// writeWhole makes the file of what write writes, all of it or nothing. What is no plain
// file, such as /dev/stdout or a link, is not replaced but written to.
func writeWhole(name string, write func(io.Writer) error) (err error) {
	target := name
	if info, err := os.Lstat(name); err != nil || info.Mode().IsRegular() {
		name += ".part"
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Close())
	if name == target {
		return err
	}
	if err == nil {
		err = os.Rename(name, target)
	}
	if err != nil {
		_ = os.Remove(name) // nobody reads it
	}
	return err
}

// goFlags lets the flags of test and eval be written with one dash, as go test has them.
func goFlags(args []string) []string {
	if len(args) == 0 || args[0] != "test" && args[0] != "eval" {
		return args
	}
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

// goFlag is a flag of more than one letter behind one dash.
var goFlag = regexp.MustCompile(`^-[a-z]{2}`)
