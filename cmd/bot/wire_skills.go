package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/skills"
)

// skillSet is the bot's Agent Skills; its zero value is none.
type skillSet struct {
	provider *skills.Provider
	about    string
}

// newSkills finds the skills of BOT_SKILLS_DIR. What is wrong with any is logged now, and
// not in the first turn.
func newSkills(ctx context.Context, c *skillSettings, runner skills.Runner) (set skillSet, err error) {
	if len(c.dirs) == 0 {
		return set, nil
	}
	source, err := skills.Files(c.config())
	if err != nil {
		return set, usageError{fmt.Errorf("BOT_SKILLS_DIR: %w", err)}
	}
	found, err := source(ctx, nil)
	if err != nil {
		return set, fmt.Errorf("BOT_SKILLS_DIR: %w", err)
	}
	names := make([]string, len(found))
	for i, skill := range found {
		names[i] = skill.Name
	}
	set.about = cmp.Or(strings.Join(names, ", "), "none that can be used")
	set.provider, err = skills.NewProvider(skills.ProviderConfig{Source: source, Runner: runner, Approve: c.approve})
	return set, err
}

// scriptRunner runs the scripts of skills, and says how. Without a sandbox they are
// refused, and the reasons are logged.
func (c *config) scriptRunner(ctx context.Context) (runner skills.Runner, about string, err error) {
	if len(c.skills.dirs) == 0 {
		return nil, "", nil
	}
	box, about, err := c.sandbox(ctx)
	if err != nil {
		return nil, "", err
	}
	if box == nil {
		zerolog.Ctx(ctx).Warn().Str("about", about).Msg("there is no sandbox")
	}
	return skills.Sandboxed(box), about, nil
}

func (c *skillSettings) config() skills.Config {
	return skills.Config{Roots: c.dirs, Lenient: c.lenient, FollowLinks: c.links, Reload: c.reload}
}

// find tells the doctor which skills the bot would use, and what is wrong.
func (c *skillSettings) find(ctx context.Context) (names, faults []string, err error) {
	found, err := skills.Discover(ctx, c.config())
	if err != nil {
		return nil, nil, err
	}
	for _, s := range found.Skills {
		names = append(names, s.Name)
	}
	for _, f := range found.Faults {
		faults = append(faults, f.String())
	}
	return names, faults, nil
}
