package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// bot is what scenarios are played on: actions that do what these say or, without them, the
// bot of the settings, as far as its prompts and actions go.
func (c testCmd) bot(ctx context.Context, s *settings) (scenario.Config, error) {
	registry, err := c.registry(s)
	if err != nil || c.Actions != "" {
		return scenario.Config{Actions: registry, Scripted: true}, err
	}
	cfg, err := s.checked()
	if err != nil {
		return scenario.Config{}, err
	}
	cfg.reload, cfg.skills.reload = false, false // what is tested stays as it is meanwhile
	if cfg.Planner != sequencePlanner {
		cfg.ResponseFormat = "" // scenarios have plans as JSON, whatever plans otherwise
	}
	runner, _, err := cfg.scriptRunner(ctx)
	if err != nil {
		return scenario.Config{}, err
	}
	offline := func(string) (models.Model, error) { return models.Offline{}, nil }
	all := planner.SequenceConfig{Model: models.Offline{}, Named: offline, Actions: registry}
	if _, err = cfg.complete(ctx, &all, runner); err != nil {
		return scenario.Config{}, err
	}
	return scenario.Config{Actions: registry, Wire: func(ctx context.Context, of *planner.SequenceConfig, b *bot.Config) error {
		of.Actions = s.bot.registry()
		set, err := cfg.complete(ctx, of, runner)
		if set.provider != nil {
			b.Skills = set.provider
		}
		b.Actions = of.Actions
		return err
	}}, nil
}

// The endings of what a recording writes of a conversation.
const (
	scenarioFile = ".scenario.yaml"
	cassetteFile = ".cassette.yaml"
)

// withPrompts has the prompts of a recording compared with those in its cassette. Where that
// makes no sense it says so on out.
func (c testCmd) withPrompts(cfg scenario.Config, s *scenario.Scenario, out io.Writer) scenario.Config {
	base, recorded := strings.CutSuffix(s.File, scenarioFile)
	if !recorded || cfg.Scripted {
		return cfg
	}
	name := base + cassetteFile
	calls, err := cassette.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cfg
	case err != nil: // it is told when it is compared with
	case slices.ContainsFunc(calls, func(c cassette.Call) bool { return c.Planner != "" }):
		fmt.Fprintf(out, "bot: prompts are not compared with %s: scenarios are played with the planner %s\n", name, sequencePlanner)
		return cfg
	case slices.ContainsFunc(calls, func(c cassette.Call) bool { return c.Foreign }):
		fmt.Fprintf(out, "bot: prompts are not compared with %s: they may have what is not in the scenario\n", name)
		return cfg
	case !c.Update && !sameAnswers(s, calls):
		fmt.Fprintf(out, "bot: prompts are not compared with %s: the answers in it are not those of the scenario\n", name)
		return cfg
	}
	cfg.Cassette, cfg.Update = name, c.Update
	return cfg
}

// sameAnswers reports whether the model writes in the scenario what it wrote in the calls, else
// the one was changed.
func sameAnswers(s *scenario.Scenario, calls []cassette.Call) bool {
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
