package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

type skillsPromptCmd struct {
	Name string   `arg:"" optional:"" help:"name of a skill, to see what the model is told when it is loaded"`
	Dirs []string `name:"dir" sep:"none" help:"a folder of skills; may be repeated (BOT_SKILLS_DIR)"`
	skillsIn
}

// Run prints what a model sees of the skills: their list and the tools, or one of them. It
// fails when there is nothing to see. Scripts for which nothing is installed here are left out.
func (c skillsPromptCmd) Run(ctx context.Context, s *settings, std *streams) error {
	cfg, err := c.config(s, c.Dirs)
	if err != nil {
		return err
	}
	found, err := skills.Discover(ctx, cfg)
	if err != nil {
		return err
	}
	printFaults(std.err, found.Faults)
	if len(found.Skills) == 0 {
		return errors.New("found no skill that can be used")
	}
	box, err := sandbox.New(ctx, sandbox.Config{})
	if err != nil && !errors.Is(err, sandbox.ErrNoSandbox) {
		return err
	}
	provider, err := skills.NewProvider(skills.ProviderConfig{Source: skills.Memory(found.Skills...), Runner: skills.Sandboxed(box)})
	if err != nil {
		return err
	}
	if err := provider.Register(actions.New()); err != nil {
		return err
	}
	text, err := provider.Prompt(ctx, nil, c.Name)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(std.out, printable(strings.ReplaceAll(line, "\t", "    ")))
	}
	return nil
}
