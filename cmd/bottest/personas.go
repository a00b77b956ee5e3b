package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"
)

// arePersonas reports whether a YAML file has personas, not utterances to plan for.
func arePersonas(text []byte) bool { return regexp.MustCompile(`(?m)^personas:`).Match(text) }

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

// Complete is for [models.Model].
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
