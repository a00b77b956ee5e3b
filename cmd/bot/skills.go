package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/planbot-go/planbot/skills"
)

type skillsCmd struct {
	Validate skillsValidateCmd `cmd:"" help:"Check skills against the open specification."`
	List     skillsListCmd     `cmd:"" help:"List the skills in folders, and say what is wrong with the others."`
	Show     skillsShowCmd     `cmd:"" help:"Show one skill: what it says of itself, its files, its instructions."`
	Prompt   skillsPromptCmd   `cmd:"" help:"Show what the model would see: the list of skills and the tools, or one skill as it is loaded."`
}

// skillsIn says where skills are looked for, and how.
type skillsIn struct {
	Lenient bool `help:"live with faults that can be lived with"`
	Links   bool `help:"follow symbolic links that lead to one of the folders"`
}

// config looks in the folders, or else in BOT_SKILLS_DIR.
func (c skillsIn) config(s *settings, dirs []string) (skills.Config, error) {
	if len(dirs) == 0 {
		dirs = skillDirs(s.SkillsDir)
	}
	if len(dirs) == 0 {
		return skills.Config{}, usageError{errors.New("name a folder of skills, or set BOT_SKILLS_DIR")}
	}
	return skills.Config{Roots: dirs, Lenient: c.Lenient, FollowLinks: c.Links}, nil
}

func (c skillsIn) discover(ctx context.Context, s *settings, dirs []string) (skills.Found, error) {
	cfg, err := c.config(s, dirs)
	if err != nil {
		return skills.Found{}, err
	}
	return skills.Discover(ctx, cfg)
}

type skillsValidateCmd struct {
	Dirs []string `arg:"" optional:"" name:"dir" help:"a skill, or a folder of skills (BOT_SKILLS_DIR)"`
	JSON bool     `help:"print a JSON object"`
	skillsIn
}

// Run prints every fault and fails when there is one.
func (c skillsValidateCmd) Run(ctx context.Context, s *settings, std *streams) error {
	cfg, err := c.config(s, c.Dirs)
	if err != nil {
		return err
	}
	cfg.Validate = true
	found, err := skills.Discover(ctx, cfg)
	if err != nil {
		return err
	}
	if err := c.print(std.out, found); err != nil {
		return err
	}
	if !found.Sound() {
		return silentError{exitFailed}
	}
	return nil
}

func (c skillsValidateCmd) print(out io.Writer, found skills.Found) error {
	if c.JSON {
		return printJSON(out, map[string]any{
			"valid": found.Sound(), "skills": len(found.Skills), "faults": append([]skills.Fault{}, found.Faults...),
		})
	}
	printFaults(out, found.Faults)
	if found.Sound() {
		fmt.Fprintln(out, countSkills(len(found.Skills)), "fine")
	}
	return nil
}

type skillsListCmd struct {
	Dirs []string `arg:"" optional:"" name:"dir" help:"folders of skills (BOT_SKILLS_DIR)"`
	skillsIn
}

// Run prints a line for each skill that would be used, and the faults apart from them. It
// fails when it found no skill.
func (c skillsListCmd) Run(ctx context.Context, s *settings, std *streams) error {
	found, err := c.discover(ctx, s, c.Dirs)
	if err != nil {
		return err
	}
	printFaults(std.err, found.Faults)
	if len(found.Skills) == 0 {
		return errors.New("found no skill that can be used")
	}
	return printSkills(std.out, found.Skills)
}

type skillsShowCmd struct {
	Name string   `arg:"" help:"name of the skill"`
	Dirs []string `arg:"" optional:"" name:"dir" help:"folders of skills (BOT_SKILLS_DIR)"`
	skillsIn
}

// Run prints the skill that the name means, as models mean them.
func (c skillsShowCmd) Run(ctx context.Context, s *settings, std *streams) error {
	found, err := c.discover(ctx, s, c.Dirs)
	if err != nil {
		return err
	}
	if skill, ok := found.Skill(c.Name); ok {
		return printSkill(ctx, std.out, skill)
	}
	var names []string
	for _, skill := range found.Skills {
		names = append(names, skill.Name)
	}
	printFaults(std.err, found.Faults)
	if len(names) == 0 {
		return fmt.Errorf("no skill %q: found none that can be used", c.Name)
	}
	return fmt.Errorf("no skill %q, there are: %s", c.Name, printable(strings.Join(names, ", ")))
}
