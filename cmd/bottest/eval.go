package main

import (
	"cmp"
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
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/retrieval"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/models"
)

// Exit codes of an evaluation that was stopped: by its limit, and by whoever ran it.
const (
	exitLimited     = 3
	exitInterrupted = 130
)

type evalCmd struct {
	File string `arg:"" optional:"" placeholder:"FILE" help:"utterances with what should be planned for them, as YAML, - for standard input; see examples/eval; without it the examples of the actions. Or questions with the passages that answer them; see examples/handbook. Or personas who talk to the bot; see examples/eval/personas.yaml"`
	actionsFlag
	Against     []string `sep:"none" placeholder:"NAME=VALUE" help:"compare with other settings of models, prompts or planner: a variable as in the environment, with its own key for another server; repeatable"`
	Only        string   `name:"run" placeholder:"REGEXP" help:"only cases whose name matches"`
	Times       int      `default:"1" help:"how often each case is asked"`
	Concurrency int      `default:"1" help:"how many cases are asked at once"`
	LimitTokens *int     `name:"limit-tokens" placeholder:"N" help:"stop before the next model call once this many tokens were used, in and out; exit code 3"`
	LimitCost   *float64 `name:"limit-cost" placeholder:"MONEY" help:"the same in money; needs BOT_MODEL_PRICE"`
	Min         float64  `placeholder:"SHARE" help:"exit with code 1 if less than this share of the plans is right, or of the questions finds its passage, such as 0.9; with --against, on either side"`
	JSON        bool     `name:"json" help:"print JSON"`
}

// Run asks, and prints what came of it. The score makes it fail only with --min.
func (c evalCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	if err := cli.Check(s); err != nil {
		return err
	}
	text, err := os.ReadFile(c.File)
	switch {
	case err != nil: // it is told below
	case retrieval.IsSet(text):
		return c.questions(ctx, s, std, text)
	case regexp.MustCompile(`(?m)^personas:`).Match(text):
		return c.personas(ctx, s, std, text)
	}
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	sides := []*settings.Settings{s}
	if len(c.Against) > 0 {
		other, err := s.Against(c.Against)
		if err != nil {
			return err
		}
		sides = append(sides, other)
	}
	run, err := c.config(context.WithoutCancel(ctx), sides, std) // is soon done; then there is a report
	if err != nil {
		return err
	}
	const clearLine = "\r\x1b[K"
	progress := io.Discard
	if cli.IsTerminal(std.Err) {
		progress = std.Err
	}
	run.Progress = func(done, all int) { fmt.Fprintf(progress, "%s%d of %d", clearLine, done, all) }
	report, err := eval.Run(cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx), run)
	fmt.Fprint(progress, clearLine)
	if report == nil {
		return cli.Usage(err)
	}
	return errors.Join(c.print(std, report), c.verdict(report, err))
}

// questions measures how well documents answer questions.
func (c evalCmd) questions(ctx context.Context, s *settings.Settings, std *cli.Streams, text []byte) error {
	if len(c.Against) > 0 || c.Times > 1 || c.Only != "" || c.LimitTokens != nil || c.LimitCost != nil {
		return cli.Usage(errors.New("--against, --run, --times, --limit-tokens and --limit-cost are for utterances, these are questions"))
	}
	set, err := retrieval.Read(c.File, text)
	if err != nil {
		return cli.Usage(err)
	}
	model, about, err := s.NewModel(settings.Watch{})
	if err != nil {
		return err
	}
	var embedder knowledge.Embedder
	if s.Text("BOT_EMBEDDING_MODEL") != "" {
		if embedder, err = s.Embedder(); err != nil {
			return cli.Usage(err)
		}
	}
	report, err := retrieval.Run(cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx), set, model, embedder, s.Text("BOT_KNOWLEDGE_HYBRID") == "true")
	if err != nil {
		return err
	}
	if c.JSON {
		err = cli.PrintJSON(std.Out, report)
	} else {
		fmt.Fprintf(std.Out, "%s; found by %s\n%s", about, cmp.Or(s.Text("BOT_EMBEDDING_MODEL"), "words"), report)
	}
	if err == nil && report.All.Recall < c.Min {
		err = cli.SilentError{Code: cli.ExitFailed}
	}
	return err
}

// check finds what the command line cannot mean.
func (c evalCmd) check() error {
	var faults []error
	fault := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, errors.New(text))
		}
	}
	fault(c.Times < 1, "--times: has to be at least 1")
	fault(c.Concurrency < 1, "--concurrency: has to be at least 1")
	fault(c.LimitTokens != nil && *c.LimitTokens < 1, "--limit-tokens: has to be at least 1; without it there is no limit")
	fault(c.LimitCost != nil && !(*c.LimitCost > 0), "--limit-cost: has to be above 0; without it there is no limit")
	fault(!(c.Min >= 0 && c.Min <= 1), "--min: is no share from 0 to 1")
	if _, err := regexp.Compile(c.Only); err != nil {
		faults = append(faults, fmt.Errorf("--run: %w", err))
	}
	return errors.Join(faults...)
}

// config wires a planner for each set of settings and reads the cases.
func (c evalCmd) config(ctx context.Context, sides []*settings.Settings, std *cli.Streams) (eval.Config, error) {
	run := eval.Config{Times: c.Times, Concurrency: c.Concurrency, Timeout: sides[0].TurnTimeout}
	if c.LimitTokens != nil {
		run.Limit.Tokens = *c.LimitTokens
	}
	if c.LimitCost != nil {
		run.Limit.Cost = *c.LimitCost
	}
	var registries []*actions.Registry
	for i, s := range sides {
		if c.LimitCost != nil && s.ModelPrice == nil {
			return run, cli.Usage(fmt.Errorf("--limit-cost: needs %sBOT_MODEL_PRICE to know what a call costs", []string{"", "--against "}[i]))
		}
		s.Frozen = true            // what is judged stays as it is meanwhile
		acts, err := c.registry(s) // one for each side, which may add actions of its own
		if err != nil {
			return run, err
		}
		maker, err := s.NewPlanner(cli.Logger(std.Err, s, zerolog.WarnLevel).WithContext(ctx), acts, settings.Watch{})
		if err != nil {
			return run, err
		}
		about := fmt.Sprintf("%s; planner %s", maker.AboutModel, s.Planner)
		if i > 0 {
			about += " (" + strings.Join(shown(c.Against), ", ") + ")"
		}
		run.Sides = append(run.Sides, eval.Side{Name: string(rune('a' + i)), About: about, Planner: maker, Actions: maker.Actions})
		registries = append(registries, maker.Actions)
	}
	name := "the examples"
	all, err := eval.Examples(registries[0])
	if c.File != "" {
		var text []byte
		if name, text, err = input(std.In, c.File); err == nil {
			all, err = eval.Read(name, text, registries...)
		}
	}
	if err != nil {
		return run, cli.Usage(err)
	}
	only := regexp.MustCompile(c.Only) // was checked
	for _, one := range all {
		if only.MatchString(one.Name) {
			run.Cases = append(run.Cases, one)
		}
	}
	if len(run.Cases) == 0 {
		return run, cli.Usage(fmt.Errorf("--run: no case of %s has a name like %q", name, c.Only))
	}
	return run, nil
}

// shown are settings without the secrets in them.
func shown(assignments []string) []string {
	shown := slices.Clone(assignments)
	for i, each := range shown {
		if name, _, _ := strings.Cut(each, "="); strings.HasSuffix(name, "_KEY") {
			shown[i] = name + "=…"
		}
	}
	return shown
}

// print prints the report and, last, how many of the plans were all right.
func (c evalCmd) print(std *cli.Streams, report *eval.Report) error {
	last := std.Out
	var err error
	if c.JSON {
		last = std.Err
		err = cli.PrintJSON(std.Out, report)
	} else {
		err = report.Print(std.Out)
	}
	passed := 0
	for _, side := range report.Sides {
		for _, one := range side.Results {
			if one.Entities {
				passed++
			}
		}
	}
	fmt.Fprintf(last, "%d passed, %d failed\n", passed, report.Asked-passed)
	return err
}

// verdict is the end of the command: why it was stopped, else the score.
func (c evalCmd) verdict(report *eval.Report, err error) error {
	switch {
	case err != nil:
		return err
	case report.Stop == "limit":
		return cli.SilentError{Code: exitLimited}
	case report.Stop == "interrupted":
		return cli.SilentError{Code: exitInterrupted}
	}
	var faults []error
	for _, side := range report.Sides {
		switch all := side.All; {
		case all.Asked > 0 && all.NoAnswer == all.Asked:
			return fmt.Errorf("%s: the model gave no answer at all: %s", side.Name, side.Results[0].Fault)
		case all.Entities < c.Min: // with all digits, which may be what differs
			faults = append(faults, fmt.Errorf("%s: %v of the plans are all right, less than --min=%v", side.Name, all.Entities, c.Min))
		}
	}
	return errors.Join(faults...)
}

// personas has simulated people talk to the bot. A model plays them if there is one, else they say what their file has.
func (c evalCmd) personas(ctx context.Context, s *settings.Settings, std *cli.Streams, text []byte) error {
	if c.LimitTokens != nil || c.LimitCost != nil || c.Concurrency > 1 {
		return cli.Usage(errors.New("--concurrency, --limit-tokens and --limit-cost are for utterances, these are personas"))
	}
	all, err := bottest.ReadPersonas(c.File, text)
	if err != nil {
		return cli.Usage(err)
	}
	sides := []*settings.Settings{s}
	if len(c.Against) > 0 {
		other, err := s.Against(c.Against)
		if err != nil {
			return err
		}
		sides = append(sides, other)
	}
	only := regexp.MustCompile(c.Only) // was checked
	var talks [][]bottest.Talk
	for _, side := range sides {
		one, err := c.talk(cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx), s, side, all, only)
		if err != nil {
			return err
		}
		talks = append(talks, one)
	}
	return c.printTalks(std, talks)
}

// talk has the personas talk to the bot of a side. The model of s plays them.
func (c evalCmd) talk(
	ctx context.Context, s, side *settings.Settings, all []bottest.Persona, only *regexp.Regexp,
) (talks []bottest.Talk, err error) {
	model, _, err := side.NewModel(settings.Watch{})
	if err != nil {
		return nil, err
	}
	player, _, err := s.NewModel(settings.Watch{})
	if err != nil {
		return nil, err
	}
	cfg, end, err := runCmd{actionsFlag: c.actionsFlag, planner: side.Planner}.bot(ctx, side)
	defer end()
	if err == nil && cfg.New == nil {
		err = cli.Usage(errors.New("--actions: only real actions do what a persona wants"))
	}
	if err != nil {
		return nil, err
	}
	out := newOutside()
	defer out.close()
	wire := cfg.New
	cfg.New = func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		parts.Model = modelOutside{model, out}
		parts.Named = func(name string) (models.Model, error) {
			named := *side
			named.OpenAIModel, named.AzureDeployment = name, name
			model, _, err := named.NewModel(settings.Watch{})
			return modelOutside{model, out}, err
		}
		return wire(ctx, parts)
	}
	for _, p := range all {
		if !only.MatchString(p.Name) {
			continue
		}
		for range c.Times {
			play := playedBy(modelOutside{player, out}, p)
			if _, offline := player.(models.Offline); offline || p.Goal == "" {
				play = nil
			}
			one, err := bottest.Simulate(ctx, p, cfg, play)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			talks = append(talks, one)
		}
	}
	if len(talks) == 0 {
		return nil, cli.Usage(fmt.Errorf("--run: no persona has a name like %q", c.Only))
	}
	return talks, nil
}

// modelOutside is asked outside of the bubble in which a bot runs.
type modelOutside struct {
	models.Model
	out *outside
}

func (m modelOutside) Complete(ctx context.Context, r *models.Request) (answer *models.Response, err error) {
	m.out.do(ctx, func(ctx context.Context) { answer, err = m.Model.Complete(ctx, r) })
	return answer, err
}

// playedBy has a model play a persona.
func playedBy(model models.Model, p bottest.Persona) bottest.Player {
	const over = "OVER"
	return func(ctx context.Context, said []string) (string, bool, error) {
		answer, err := model.Complete(ctx, &models.Request{Messages: []models.Message{
			{Role: "system", Text: "You play " + p.Name + ", a person who writes to a bot. What they want: " + p.Goal +
				"\nAnswer with the next message that they write to the bot, short, as people write, and nothing else. " +
				"Answer " + over + " once they have what they want, or see that they will not get it."},
			{Role: "user", Text: "So far:\n" + strings.Join(said, "\n")},
		}})
		if err != nil {
			return "", false, err
		}
		text := strings.TrimSpace(answer.Text)
		return text, text == "" || strings.Contains(text, over), nil
	}
}

// printTalks prints the talks of each side and, last, how many went well.
func (c evalCmd) printTalks(std *cli.Streams, sides [][]bottest.Talk) error {
	last, passed, asked := std.Out, 0, 0
	var err error
	if c.JSON {
		last = std.Err
		err = cli.PrintJSON(std.Out, map[string]any{"sides": sides})
	}
	worst := 1.0
	for i, talks := range sides {
		good := 0
		for _, t := range talks {
			word := "FAIL"
			if len(t.Faults) == 0 {
				good++
				word = "ok  "
			}
			if c.JSON {
				continue
			}
			fmt.Fprintf(std.Out, "%c %s  %s (%d turns)\n", 'a'+i, word, cli.Printable(t.Persona), t.Turns)
			for _, fault := range t.Faults {
				fmt.Fprint(std.Out, inset(cli.Printable(fault)))
			}
			if len(t.Faults) > 0 {
				fmt.Fprint(std.Out, inset(cli.Printable(strings.Join(t.Said, "\n"))))
			}
		}
		worst = min(worst, float64(good)/float64(len(talks)))
		passed, asked = passed+good, asked+len(talks)
	}
	fmt.Fprintf(last, "%d passed, %d failed\n", passed, asked-passed)
	if err == nil && worst < c.Min {
		err = cli.SilentError{Code: cli.ExitFailed}
	}
	return err
}
