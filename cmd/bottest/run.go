package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/junit"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

type runCmd struct {
	Files []string `arg:"" optional:"" name:"file" help:"scenarios as JSON or YAML: files, folders whose *.json, *.yaml and *.yml are played, or - for standard input; without one the tests of bot.yaml (--file)"`
	actionsFlag
	Only    string `name:"run" placeholder:"REGEXP" help:"only the scenarios with such a name"`
	JUnit   string `name:"junit" type:"path" placeholder:"FILE" help:"also write the results as JUnit's XML"`
	JSON    bool   `help:"print a JSON object; the last line then goes to standard error"`
	Verbose bool   `short:"v" help:"also show what passed, and what happened in it"`
	Update  bool   `help:"accept changed prompts: rewrite the cassettes of recordings if everything else is right"`

	welcome string // of the bot in a file
	planner string // of the bot; "": sequence, with which scenarios are played
}

func (runCmd) Help() string {
	return "Plays conversations that are written down, with a model that says what is written there. " +
		"With --actions the actions do what the scenarios say, else they are those of Planbot's own bot, and real, " +
		"with the prompts of BOT_PROMPTS_DIR and the skills of BOT_SKILLS_DIR. " +
		"With --file the bot is the one in that file, with its connections to real services. " +
		"Beside a recording NAME.scenario.yaml, prompts are compared with those in NAME.cassette.yaml. " +
		"The exit code is 1 when anything failed, or nothing was played."
}

// Run plays the scenarios and fails when one of them does, or cannot be read. The last
// line counts them, whatever comes between.
func (c runCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return cli.Usage(fmt.Errorf("--run: %w", err))
	}
	if len(c.Files) == 0 {
		return cli.Usage(errors.New("expected \"<file> ...\", or --file with a bot.yaml that has tests"))
	}
	var all []record.Scenario
	cfg, end, err := c.bot(cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx), s)
	defer end()
	if err == nil {
		all = c.read(std.In, only)
	} else {
		all = faultOf(cmp.Or(c.Actions, "settings"), err) // with it nothing can be played
	}
	for _, s := range all {
		for _, fault := range s.Faults {
			fmt.Fprintln(std.Err, fault)
		}
	}
	var came results
	for i := 0; i < len(all) && ctx.Err() == nil; i++ {
		result := play(&all[i], c.withPrompts(cfg, &all[i], std.Err))
		if all[i].Faults == nil && !c.JSON { // else it was told, or is below
			result.writeText(std.Out, c.Verbose)
		}
		came = append(came, result)
	}
	return c.end(ctx, std, came)
}

// end writes all results where they are wanted, what went wrong with that and, last, the
// line that sums them up.
func (c runCmd) end(ctx context.Context, std *cli.Streams, came results) error {
	var wrong []error
	last := std.Out
	if c.JSON {
		last = std.Err
		wrong = append(wrong, came.writeJSON(std.Out))
	}
	if c.JUnit != "" {
		var report bytes.Buffer
		err := errors.Join(came.writeJUnit(&report), os.WriteFile(c.JUnit, report.Bytes(), 0o644)) //nolint:gosec // CI reads it
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--junit: %w", err))
		}
	}
	if ctx.Err() != nil {
		wrong = append(wrong, errors.New("interrupted"))
	}
	err := errors.Join(wrong...)
	if err != nil {
		fmt.Fprintln(std.Err, "bottest:", err)
	}
	fmt.Fprintln(last, came)
	if err != nil || came.failed() > 0 {
		return cli.SilentError{Code: cli.ExitFailed}
	}
	return nil
}

// read reads the files, and leaves the scenarios that are asked for. A test of nothing has a
// fault: it would pass for ever.
func (c runCmd) read(stdin io.Reader, only *regexp.Regexp) (all []record.Scenario) {
	for _, name := range c.Files {
		files, err := []string{name}, error(nil)
		if info, fault := os.Stat(name); fault == nil && info.IsDir() {
			if files, err = c.filesIn(name); err != nil {
				all = append(all, faultOf(name, err)...)
			}
		}
		for _, file := range files {
			name, text, err := input(stdin, file)
			list, _ := record.Read(name, text) // they have the faults, too
			if err == nil && len(list) == 0 {
				err = errors.New("there are no scenarios in it")
			}
			if err != nil {
				list = faultOf(name, err)
			}
			for _, s := range list {
				if s.Faults != nil || only.MatchString(s.Name) {
					all = append(all, s)
				}
			}
		}
	}
	if len(all) == 0 {
		all = faultOf("--run "+c.Only, errors.New("no scenario has such a name"))
	}
	return all
}

// faultOf is why a file cannot be played, as a scenario that fails.
func faultOf(name string, err error) []record.Scenario {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // the name is told anyway
	}
	return []record.Scenario{{File: name, Name: name, Faults: []string{name + ": " + strings.TrimPrefix(err.Error(), name+": ")}}}
}

func (c runCmd) filesIn(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if name := filepath.Join(folder, entry.Name()); !entry.IsDir() && c.hasScenarios(name) {
			names = append(names, name)
		}
	}
	if err == nil && len(names) == 0 {
		err = errors.New("there is no file of scenarios in this folder")
	}
	return names, err
}

// hasScenarios tells by the name of a file in a folder whether scenarios are in it. A registry
// of actions is not, nor are the cassettes that recordings have beside each of theirs.
func (c runCmd) hasScenarios(name string) bool {
	base := strings.ToLower(filepath.Base(name))
	ext := filepath.Ext(base)
	if abs, err := filepath.Abs(name); base == "actions.json" || err == nil && abs == c.Actions {
		return false
	}
	return slices.Contains([]string{".json", ".yaml", ".yml"}, ext) && base[0] != '.' && filepath.Ext(strings.TrimSuffix(base, ext)) != ".cassette"
}

// bot is what scenarios are played on: actions that do what these say or, without them, the
// bot of the settings, as far as its prompts and actions go. Call end when all are played.
func (c runCmd) bot(ctx context.Context, s *settings.Settings) (_ bottest.Config, end func(), err error) {
	end = func() {}
	registry, err := c.registry(s)
	if err != nil || c.Actions != "" {
		return bottest.Config{Actions: registry, Scripted: true}, end, err
	}
	if err := cli.Check(s); err != nil {
		return bottest.Config{}, end, err
	}
	s.Frozen = true // what is tested stays as it is meanwhile
	if s.Planner != settings.Sequence && c.planner == "" {
		s.ResponseFormat = "" // scenarios have plans as JSON, whatever plans otherwise
	}
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return bottest.Config{}, end, err
	}
	out := newOutside()
	end = func() {
		closeAll()
		out.close()
	}
	s.Connected = slices.Clone(s.Connected)
	for i, connection := range s.Connected {
		connection.Offer(ctx, settings.Turn("")) // so that what it has is known before the first scenario
		s.Connected[i] = &outsider{Connection: connection, out: out}
	}
	offline := func(string) (models.Model, error) { return models.Offline{}, nil }
	all := planner.Config{Model: models.Offline{}, Named: offline, Actions: registry}
	if err = s.Complete(ctx, &all); err != nil {
		return bottest.Config{}, end, err
	}
	return bottest.Config{Name: c.name(s), New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		of, cfg := planner.Config{Model: parts.Model, Named: parts.Named, Actions: s.Actions()}, parts.Bot
		if err := s.Complete(ctx, &of); err != nil {
			return nil, err
		}
		cfg.Skills = settings.Find[bot.Skills](of.Extensions)
		if s.File != "" {
			cfg.Name, cfg.Examples, cfg.Texts, cfg.Welcome = s.Bot.Name, s.Bot.Examples, s.Bot.Texts, c.welcome
			cfg.Policy = settings.Policy(s.ApprovalActions, cfg.Policy)
		}
		cfg.Actions, cfg.Memory = of.Actions, settings.Find[bot.Memory](of.Extensions)
		if cfg.Planner, err = parts.Planner(ctx, cmp.Or(c.planner, settings.Sequence), of); err != nil {
			return nil, err
		}
		return bot.New(cfg)
	}}, end, nil
}

// name is how people mention the bot in a file; "": that of scenarios.
func (c runCmd) name(s *settings.Settings) string {
	if s.File == "" {
		return ""
	}
	return s.Bot.Name
}

// The endings of what a recording writes of a conversation.
const (
	scenarioFile = ".scenario.yaml"
	cassetteFile = ".cassette.yaml"
)

// withPrompts has the prompts of a recording compared with those in its cassette. Where that
// makes no sense it says so on out.
func (c runCmd) withPrompts(cfg bottest.Config, s *record.Scenario, out io.Writer) bottest.Config {
	base, recorded := strings.CutSuffix(s.File, scenarioFile)
	if !recorded || cfg.Scripted {
		return cfg
	}
	name := base + cassetteFile
	calls, err := cassette.Read(name)
	why := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cfg
	case err != nil: // it is told when it is compared with
	case slices.ContainsFunc(calls, func(c cassette.Call) bool { return c.Planner != "" }):
		why = "scenarios are played with the planner " + settings.Sequence
	case slices.ContainsFunc(calls, func(c cassette.Call) bool { return c.Foreign }):
		why = "they may have what is not in the scenario"
	case !sameAnswers(s, calls):
		why = "the answers in it are not those of the scenario"
	}
	if why != "" {
		fmt.Fprintf(out, "bottest: prompts are not compared with %s: %s\n", name, why)
		return cfg
	}
	cfg.Cassette, cfg.Update = name, c.Update
	return cfg
}

// sameAnswers reports whether the model writes in the scenario what it wrote in the calls, else
// the one was changed.
func sameAnswers(s *record.Scenario, calls []cassette.Call) bool {
	var played, recorded []string
	for i := range s.Steps {
		for _, a := range s.Steps[i].Model {
			if a.Text != nil && *a.Text != "" {
				played = append(played, *a.Text)
			}
		}
	}
	for i := range calls {
		if a := calls[i].Answer; a != nil && a.Text != "" {
			recorded = append(recorded, a.Text)
		}
	}
	return slices.Equal(played, recorded)
}

// result is the outcome of a scenario.
type result struct {
	File     string   `json:"file,omitempty"`
	Name     string   `json:"name"`
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
	Story    string   `json:"story,omitempty"` // what happened, as text
	Seconds  float64  `json:"seconds"`
}

func play(s *record.Scenario, cfg bottest.Config) result {
	began := time.Now()
	failures, story := bottest.Play(s, cfg)
	return result{s.File, s.Name, len(failures) == 0, failures, story, time.Since(began).Seconds()}
}

// results are those of several scenarios, in order.
type results []result

func (r results) failed() int {
	n := 0
	for _, one := range r {
		if !one.Passed {
			n++
		}
	}
	return n
}

func (r results) String() string {
	return fmt.Sprintf("%d passed, %d failed", len(r)-r.failed(), r.failed())
}

// writeText writes a result for people: one line if it passed and verbose is set, otherwise its
// failures and what happened.
func (r *result) writeText(w io.Writer, verbose bool) {
	if r.Passed {
		if verbose {
			fmt.Fprintf(w, "ok    %s (%.2fs)\n%s", r.Name, r.Seconds, inset(r.Story))
		}
		return
	}
	fmt.Fprintf(w, "FAIL  %s (%.2fs)  %s\n", r.Name, r.Seconds, r.File)
	for _, failure := range r.Failures {
		fmt.Fprint(w, inset(failure))
	}
	fmt.Fprint(w, inset(r.Story))
}

// inset is a text below a line that names it.
func inset(text string) string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}

// writeJSON writes all results as one JSON object, with the story of those that failed.
func (r results) writeJSON(w io.Writer) error {
	list := append(results{}, r...)
	for i := range list {
		if list[i].Passed {
			list[i].Story = ""
		}
	}
	return cli.PrintJSON(w, struct {
		Passed    int     `json:"passed"`
		Failed    int     `json:"failed"`
		Scenarios results `json:"scenarios"`
	}{len(r) - r.failed(), r.failed(), list})
}

// writeJUnit writes all results as JUnit XML for CI systems: one suite per file.
func (r results) writeJUnit(w io.Writer) error {
	var cases []junit.Case
	for _, one := range r {
		c := junit.Case{Suite: one.File, Name: one.Name, Took: time.Duration(one.Seconds * float64(time.Second))}
		if !one.Passed {
			c.Failure = one.Failures[0]
			c.Details = strings.Join(one.Failures, "\n") + "\n\n" + strings.TrimSpace(one.Story)
		}
		cases = append(cases, c)
	}
	return junit.Write(w, cases)
}

// outside runs functions outside of the bubbles that scenarios are played in. In a bubble time is not
// real, and nothing of a connection to a real service may be left behind. Close ends it.
type outside struct {
	idle    chan *worker
	workers sync.WaitGroup
}

type worker struct {
	job  chan func()
	done chan struct{}
}

const mostOutside = 8 // how many functions run at the same time

func newOutside() *outside {
	o := &outside{idle: make(chan *worker, mostOutside)}
	for range mostOutside {
		w := &worker{make(chan func()), make(chan struct{})}
		o.idle <- w
		o.workers.Go(func() {
			for f := range w.job {
				f()
				w.done <- struct{}{}
			}
		})
	}
	return o
}

// close waits for the workers. No function may be running.
func (o *outside) close() {
	for range mostOutside {
		close((<-o.idle).job)
	}
	o.workers.Wait()
}

// do runs f outside. Its context has the values of ctx, but no deadline: that of a bubble is in another
// time.
func (o *outside) do(ctx context.Context, f func(context.Context)) {
	w := <-o.idle
	w.job <- func() { f(context.WithoutCancel(ctx)) }
	<-w.done
	o.idle <- w
}

// outsider is a connection that does its work outside.
type outsider struct {
	actions.Connection
	out *outside

	mu         sync.Mutex
	from, made *actions.Registry // made of from
}

// Offer asks outside.
func (c *outsider) Offer(ctx context.Context, turn *actions.Turn) (names []string, note string) {
	c.out.do(ctx, func(ctx context.Context) { names, note = c.Connection.Offer(ctx, turn) })
	return names, note
}

// Actions are those of the connection, called outside.
func (c *outsider) Actions() *actions.Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.Connection.Actions()
	if from == c.from {
		return c.made
	}
	made := actions.New()
	for _, a := range from.All() {
		call := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (result actions.Result, err error) {
			c.out.do(ctx, func(ctx context.Context) { result, err = a.Call(ctx, turn, entities) })
			return result, err
		}
		added, err := actions.AddSchema(made, a.Name, a.Description, a.Schema, call, actions.Title(a.Title), actions.Example(a.Examples...))
		if err != nil {
			continue // it was fine there
		}
		added.Detail, added.Doing, added.Told, added.Returns = a.Detail, a.Doing, a.Told, a.Returns
		added.Destructive, added.Approval, added.Connection, added.ReturnsData = a.Destructive, a.Approval, a.Connection, a.ReturnsData
		added.Parallel, added.StateOnly, added.Source = a.Parallel, a.StateOnly, a.Source
	}
	c.from, c.made = from, made
	return made
}
