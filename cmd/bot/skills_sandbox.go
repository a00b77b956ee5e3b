package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/internal/doctor"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// What BOT_SKILLS_SANDBOX may be beside the name of a kind.
const (
	autoSandbox = "auto"
	noSandbox   = "none"
)

// sandboxes are the values of BOT_SKILLS_SANDBOX.
func sandboxes() []string {
	return []string{autoSandbox, "bubblewrap", "landlock", noSandbox}
}

// sandbox opens what scripts of skills run in, and says it in words. Without one they are
// refused; that is an error only where a kind is set by name.
func (c *config) sandbox(ctx context.Context) (box *sandbox.Sandbox, about string, err error) {
	if c.SkillsSandbox == noSandbox {
		return nil, "scripts of skills are refused: BOT_SKILLS_SANDBOX is none", nil
	}
	box, err = c.openSandbox(ctx)
	switch {
	case err == nil:
		return box, "scripts of skills run in " + box.Kind(), nil
	case c.SkillsSandbox == autoSandbox && errors.Is(err, sandbox.ErrNoSandbox):
		return nil, "scripts of skills are refused: " + strings.ReplaceAll(err.Error(), "\n", "; "), nil
	}
	return nil, "", usageError{fmt.Errorf("BOT_SKILLS_SANDBOX: %w", err)}
}

// openSandbox opens the best that works, or the one that is set.
func (c *config) openSandbox(ctx context.Context) (*sandbox.Sandbox, error) {
	var cfg sandbox.Config
	if c.SkillsSandbox != autoSandbox {
		cfg.Kinds = []string{c.SkillsSandbox}
	}
	return sandbox.New(ctx, cfg)
}

// scriptsProbe checks that scripts of skills can run.
func (c *config) scriptsProbe() doctor.Probe {
	if c.SkillsSandbox == noSandbox {
		return doctor.Scripts(doctor.ScriptSettings{})
	}
	return doctor.Scripts(doctor.ScriptSettings{
		Required: c.SkillsSandbox != autoSandbox,
		Open: func(ctx context.Context) (doctor.ScriptSandbox, error) {
			box, err := c.openSandbox(ctx)
			if err != nil {
				return doctor.ScriptSandbox{}, err
			}
			return doctor.ScriptSandbox{Kind: box.Kind(), Refused: box.Refused(), Interpreters: box.Interpreters()}, nil
		},
	})
}
