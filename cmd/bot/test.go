package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/planbot-go/planbot/bottest/scenario"
)

type testCmd struct {
	Files []string `arg:"" name:"file" help:"files of scenarios, JSON or YAML"`
	registryFlag
	Only    string `name:"run" placeholder:"REGEXP" help:"only the scenarios with such a name"`
	JUnit   string `name:"junit" type:"path" placeholder:"FILE" help:"also write the results as JUnit's XML"`
	JSON    bool   `help:"print a JSON object; the last line then goes to standard error"`
	Verbose bool   `short:"v" help:"show also what passed, and what happened in it"`
}

// Help says what the registry is for.
func (testCmd) Help() string {
	return "Plays conversations that are written down, with a model that says what is written there. " +
		"With --actions the actions do what the scenarios say, else they are those of this bot, and real."
}

// Run plays the scenarios and fails when one of them does.
func (c testCmd) Run(ctx context.Context, std *streams) error {
	registry, err := c.registry()
	if err != nil {
		return err
	}
	all, faults, err := c.read(func(name string) bool { _, ok := registry.Lookup(name); return ok })
	if err != nil {
		return err
	}
	results := faults.Results()
	if len(faults) > 0 {
		fmt.Fprintln(std.err, faults)
	}
	for i := 0; i < len(all) && ctx.Err() == nil; i++ {
		result := scenario.Run(&all[i], scenario.Config{Actions: registry, Scripted: c.Actions != ""})
		c.tell(std.out, &result)
		results = append(results, result)
	}
	if err := c.write(std, results); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if results.Failed() > 0 {
		return silentError{exitFailed}
	}
	return nil
}

// read reads the files, and leaves the scenarios that are asked for and have no faults.
func (c testCmd) read(known func(action string) bool) (all []scenario.Scenario, faults scenario.Faults, err error) {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--run: %w", err)}
	}
	for _, name := range c.Files {
		list, err := scenario.ReadFile(name)
		wrong, ok := errors.AsType[scenario.Faults](err)
		if err != nil && !ok {
			return nil, nil, usageError{err}
		}
		faults = append(faults, wrong...)
		for _, s := range list {
			if only.MatchString(s.Name) {
				all = append(all, s)
			}
		}
	}
	unknown := scenario.Check(all, known)
	faults, all = append(faults, unknown...), unknown.Without(all)
	if len(all) == 0 && len(faults) == 0 {
		return nil, nil, usageError{errors.New("there is no scenario to play")}
	}
	return all, faults, nil
}

// tell shows a result as soon as it is there.
func (c testCmd) tell(out io.Writer, r *scenario.Result) {
	if !c.JSON {
		r.WriteText(out, c.Verbose)
	}
}

// write writes all results where they are wanted, and the line that sums them up.
func (c testCmd) write(std *streams, results scenario.Results) error {
	last := std.out
	if c.JSON {
		last = std.err
		if err := results.WriteJSON(std.out); err != nil {
			return err
		}
	}
	if c.JUnit != "" {
		if err := writeFile(c.JUnit, results.WriteJUnit); err != nil {
			return err
		}
	}
	fmt.Fprintln(last, results)
	return nil
}

// writeFile makes the file of what write writes.
func writeFile(name string, write func(io.Writer) error) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}

// goFlags lets -run be written as go test has it.
func goFlags(args []string) []string {
	if len(args) == 0 || args[0] != "test" {
		return args
	}
	out := append([]string(nil), args...)
	for i, arg := range out {
		if arg == "-run" || len(arg) > 5 && arg[:5] == "-run=" {
			out[i] = "-" + arg
		}
	}
	return out
}
