package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// askPrompts makes the actions that are prompts, and renders the prompt of the
// planner as it will. Where the folder has faults it goes on with what could be
// read. It returns all actions that there are.
func (c *config) askPrompts(f *faults) *actions.Registry {
	registry := c.bot.registry()
	if c.PromptsDir == "" || f.has("BOT_PROMPTS_DIR") {
		return registry
	}
	library, err := prompts.Load(c.PromptsDir)
	if library == nil {
		f.ask("BOT_PROMPTS_DIR", err)
		return registry
	}
	cfg := planner.SequenceConfig{
		Model: models.Offline{}, Prompts: library, Actions: registry,
		Named: func(string) (models.Model, error) { return models.Offline{}, nil },
	}
	if !f.has("BOT_RESPONSE_FORMAT") {
		cfg.ResponseFormat = planner.ResponseFormat(c.ResponseFormat)
	}
	faulty := addPromptActions(cfg)
	_, misfit := newPlanner(context.Background(), c.Planner, cfg)
	f.ask("BOT_PROMPTS_DIR", errors.Join(err, unused(library), faulty, misfit))
	return registry
}

// unused finds prompts that this bot would never use: more often than not their
// names are misspelt.
func unused(library *prompts.Library) error {
	var faults []error
	for _, name := range library.Unused(planners()...) {
		meant := ""
		for _, known := range planners() {
			if spelling.Edits(strings.ToLower(name), known) <= 2 {
				meant = "; did you mean " + known + "?"
				break
			}
		}
		faults = append(faults, fmt.Errorf("prompt %s: nothing uses it, as it is neither %s nor an action (config.json without input.parameters)%s",
			name, strings.Join(planners(), ", "), meant))
	}
	return errors.Join(faults...)
}

// warnOfPrompts tells the log of what is no fault, but rarely meant: prompts of
// planners that are not at work, and one that shows the model no actions.
func warnOfPrompts(ctx context.Context, c config, library *prompts.Library) {
	log := zerolog.Ctx(ctx)
	for _, name := range planners() {
		if info, err := os.Stat(filepath.Join(c.PromptsDir, name)); c.PromptsDir != "" && name != c.Planner && err == nil && info.IsDir() {
			log.Warn().Str("prompt", name).Str("planner", c.Planner).Msg("the prompt is for another planner, and not used")
		}
	}
	prompt, err := library.Prompt(c.Planner)
	if err != nil || c.Planner == toolsPlanner || prompt.Actions != nil && len(prompt.Actions) == 0 {
		return
	}
	lists := func(function string) bool { return function == "actions" || function == "manual" }
	if !slices.ContainsFunc(prompt.Functions(), lists) {
		log.Warn().Str("prompt", c.Planner).
			Msg("the prompt has neither {{actions}} nor {{manual}}: unless it lists them in words, the model knows of no actions")
	}
}
