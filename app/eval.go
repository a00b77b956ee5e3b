package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest/eval"
)

// Exit codes of an evaluation that was stopped: by its limit, and by whoever ran it.
const (
	exitLimited     = 3
	exitInterrupted = 130
)

// maxEvalBytes is more than what [eval.Read] takes.
const maxEvalBytes = 5 << 20

type evalCmd struct {
	File string `arg:"" placeholder:"FILE" help:"utterances with what should be planned for them, as YAML, - for standard input; see examples/eval"`
	registryFlag
	Against     []string `sep:"none" placeholder:"NAME=VALUE" help:"compare with other settings of models, prompts or planner: a variable as in the environment, with its own key for another server; repeatable"`
	Only        string   `name:"run" placeholder:"REGEXP" help:"only cases whose name matches"`
	Times       int      `default:"1" help:"how often each case is asked"`
	Concurrency int      `default:"1" help:"how many cases are asked at once"`
	LimitTokens *int     `placeholder:"N" help:"stop before the next call of a model once so many tokens were used, in and out; exit code 3"`
	LimitCost   *float64 `placeholder:"MONEY" help:"the same in money; needs BOT_MODEL_PRICE"`
	Min         float64  `placeholder:"SHARE" help:"fail, with exit code 1, when less than this share of the plans is all right, such as 0.9, of either side with --against"`
	JSON        bool     `name:"json" help:"print JSON"`
}

// Run asks, and prints what came of it. The score makes it fail only with --min.
func (c evalCmd) Run(ctx context.Context, s *settings, std *streams) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	first, err := s.checked()
	if err != nil {
		return err
	}
	configs := []config{first}
	if len(c.Against) > 0 {
		other, err := s.with(c.Against)
		if err != nil {
			return err
		}
		configs = append(configs, other)
	}
	run, err := c.config(context.WithoutCancel(ctx), configs, std) // is soon done; then there is a report
	if err != nil {
		return err
	}
	bar := newProgress(std.err)
	run.Progress = bar.show
	report, err := eval.Run(evalLog(first, std.err, zerolog.ErrorLevel).WithContext(ctx), run)
	bar.clear()
	if report == nil {
		return usageError{err}
	}
	return errors.Join(c.print(std.out, report), c.verdict(report, err))
}

// check finds what the command line cannot mean.
func (c evalCmd) check() error {
	var faults []error
	for _, f := range []struct {
		wrong bool
		text  string
	}{
		{c.Times < 1, "--times: has to be at least 1"},
		{c.Concurrency < 1, "--concurrency: has to be at least 1"},
		{c.LimitTokens != nil && *c.LimitTokens < 1, "--limit-tokens: has to be at least 1; without it there is no limit"},
		{c.LimitCost != nil && !(*c.LimitCost > 0), "--limit-cost: has to be above 0; without it there is no limit"},
		{!(c.Min >= 0 && c.Min <= 1), "--min: is no share from 0 to 1"},
	} {
		if f.wrong {
			faults = append(faults, errors.New(f.text))
		}
	}
	if _, err := regexp.Compile(c.Only); err != nil {
		faults = append(faults, fmt.Errorf("--run: %w", err))
	}
	return errors.Join(faults...)
}

// config wires a side for each set of settings and reads the cases.
func (c evalCmd) config(ctx context.Context, configs []config, std *streams) (eval.Config, error) {
	run := eval.Config{
		Times: c.Times, Concurrency: c.Concurrency, Timeout: configs[0].turnTimeout,
	}
	if c.LimitTokens != nil {
		run.Limit.Tokens = *c.LimitTokens
	}
	if c.LimitCost != nil {
		run.Limit.Cost = *c.LimitCost
	}
	var registries []*actions.Registry
	for i, cfg := range configs {
		if c.LimitCost != nil && cfg.ModelPrice == "" {
			return run, usageError{fmt.Errorf("--limit-cost: needs %sBOT_MODEL_PRICE to know what a call costs", []string{"", "--against "}[i])}
		}
		cfg.reload, cfg.skills.reload = false, false // what is judged stays as it is meanwhile
		acts, err := c.registry(&cfg.settings)       // one for each side, which may add actions of its own
		if err != nil {
			return run, err
		}
		parts, err := newParts(evalLog(cfg, std.err, zerolog.WarnLevel).WithContext(ctx), cfg, acts, nil)
		if err != nil {
			return run, err
		}
		about := fmt.Sprintf("%s; planner %s", parts.aboutModel, cfg.Planner)
		if i > 0 {
			about += " (" + strings.Join(shown(c.Against), ", ") + ")"
		}
		run.Sides = append(run.Sides, eval.Side{Name: string(rune('a' + i)), About: about, Planner: parts.planner, Actions: parts.actions})
		registries = append(registries, parts.actions)
	}
	var err error
	run.Cases, err = c.cases(std.in, registries)
	return run, err
}

// evalLog leaves out what is below that level, such as what the report tells anyway, unless
// another level was asked for.
func evalLog(c config, w io.Writer, level zerolog.Level) zerolog.Logger {
	log := logger(w, c)
	if c.LogLevel == "" {
		return log.Level(level)
	}
	return log
}

// cases reads those of the file that are to be asked.
func (c evalCmd) cases(stdin io.Reader, registries []*actions.Registry) ([]eval.Case, error) {
	if c.File == "-" {
		c.File = "stdin"
	} else {
		file, err := os.Open(c.File)
		if err != nil {
			return nil, usageError{err}
		}
		defer func() { _ = file.Close() }() // read only
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxEvalBytes))
	if err != nil {
		return nil, usageError{err}
	}
	all, err := eval.Read(c.File, text, registries...)
	if err != nil {
		return nil, usageError{err}
	}
	only := regexp.MustCompile(c.Only) // was checked
	all = slices.DeleteFunc(all, func(one eval.Case) bool { return !only.MatchString(one.Name) })
	if len(all) == 0 {
		return nil, usageError{fmt.Errorf("--run: no case of %s is called like %q", c.File, c.Only)}
	}
	return all, nil
}

func (c evalCmd) print(out io.Writer, report *eval.Report) error {
	if c.JSON {
		return printJSON(out, report)
	}
	return report.Print(out)
}

// verdict is the end of the command: why it was stopped, else the score.
func (c evalCmd) verdict(report *eval.Report, err error) error {
	switch {
	case err != nil:
		return err
	case report.Stop == eval.StoppedByLimit:
		return silentError{exitLimited}
	case report.Stop == eval.Interrupted:
		return silentError{exitInterrupted}
	}
	for i := range report.Sides {
		if side := &report.Sides[i]; side.Silent() {
			return fmt.Errorf("%s: the model gave no answer at all: %s", side.Name, side.Results[0].Fault)
		}
	}
	var faults []error
	for i := range report.Sides {
		if side := &report.Sides[i]; side.Score() < c.Min {
			faults = append(faults, fmt.Errorf("%s: %v of the plans are all right, less than --min=%v", side.Name, side.Score(), c.Min)) // with all digits, which may be what differs
		}
	}
	return errors.Join(faults...)
}
