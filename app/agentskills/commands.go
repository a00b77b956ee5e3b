package agentskills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

type commands struct {
	Validate validateCommand `help:"Check skills against the open specification."`
	List     listCommand     `help:"List the skills in folders, and say what is wrong with the others."`
	Show     showCommand     `help:"Show one skill: what it says of itself, its files, its instructions."`
	Prompt   promptCommand   `help:"Show what the model sees: the skills and the tools, or one loaded skill."`
}

// folders says where and how to look for skills.
type folders struct {
	Lenient bool `help:"accept skills with small faults"`
	Links   bool `help:"follow symbolic links that lead to one of the folders"`
}

// find looks in the folders or, without any, in BOT_SKILLS_DIR, and prints the faults. Finding no
// skill is an error.
func (c folders) find(ctx context.Context, p *app.Program, dirs []string) ([]*skills.Skill, error) {
	found, faults, err := c.discover(ctx, p, skills.Config{Roots: dirs})
	if err != nil {
		return found, err
	}
	printFaults(p.Err(), faults)
	if len(found) == 0 {
		err = errors.New("found no skill that can be used")
	}
	return found, err
}

func (c folders) discover(ctx context.Context, p *app.Program, cfg skills.Config) ([]*skills.Skill, []skills.Fault, error) {
	if len(cfg.Roots) == 0 {
		cfg.Roots = of(p.Settings()).dirs()
	}
	if len(cfg.Roots) == 0 {
		return nil, nil, app.Usage(errors.New("name a folder of skills, or set BOT_SKILLS_DIR"))
	}
	cfg.Lenient, cfg.FollowLinks = c.Lenient, c.Links
	return cfg.Discover(ctx)
}

func printFaults(out io.Writer, faults []skills.Fault) {
	for _, fault := range faults {
		fmt.Fprintln(out, fault)
	}
}

type validateCommand struct {
	Dirs []string `arg:"" optional:"" name:"dir" help:"a skill, or a folder of skills (BOT_SKILLS_DIR)"`
	JSON bool     `help:"print a JSON object"`
	folders
}

// Run prints every fault and fails if there is one.
func (c validateCommand) Run(ctx context.Context, p *app.Program) error {
	found, faults, err := c.discover(ctx, p, skills.Config{Roots: c.Dirs, Validate: true})
	if err != nil {
		return err
	}
	n := len(found)
	sound := !slices.ContainsFunc(faults, func(f skills.Fault) bool { return !f.Warning })
	if c.JSON {
		err = cli.PrintJSON(p.Out(), map[string]any{"valid": sound, "skills": n, "faults": append([]skills.Fault{}, faults...)})
	} else {
		printFaults(p.Out(), faults)
	}
	switch {
	case err != nil:
		return err
	case !sound:
		return cli.SilentError{Code: cli.ExitFailed}
	case c.JSON:
	case n == 1:
		fmt.Fprintln(p.Out(), "1 skill is fine")
	default:
		fmt.Fprintln(p.Out(), n, "skills are fine")
	}
	return nil
}

type listCommand struct {
	Dirs []string `arg:"" optional:"" name:"dir" help:"folders of skills (BOT_SKILLS_DIR)"`
	folders
}

// Run prints one line for each skill that would be used, and the faults separately.
func (c listCommand) Run(ctx context.Context, p *app.Program) error {
	found, err := c.find(ctx, p, c.Dirs)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(p.Out(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SKILL\tRESOURCES\tSCRIPTS\tDESCRIPTION")
	for _, s := range found {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", cli.Printable(s.Name), len(s.Resources), len(s.Scripts), cli.OneLine(s.Description))
	}
	return table.Flush()
}

type showCommand struct {
	Name string   `arg:"" help:"name of the skill"`
	Dirs []string `arg:"" optional:"" name:"dir" help:"folders of skills (BOT_SKILLS_DIR)"`
	folders
}

// Run prints the skill with that name, in any case or with a leading ./.
func (c showCommand) Run(ctx context.Context, p *app.Program) error {
	found, err := c.find(ctx, p, c.Dirs)
	if err != nil {
		return err
	}
	var names []string
	for _, skill := range found {
		if strings.EqualFold(skill.Name, strings.TrimPrefix(c.Name, "./")) {
			return printSkill(ctx, p.Out(), skill)
		}
		names = append(names, skill.Name)
	}
	return fmt.Errorf("no skill %q, there are: %s", c.Name, cli.Printable(strings.Join(names, ", ")))
}

// printSkill prints what is known about a skill, and then its instructions.
func printSkill(ctx context.Context, out io.Writer, s *skills.Skill) error {
	rows := [][2]string{
		{"name", s.Name},
		{"description", s.Description},
		{"license", s.License},
		{"compatibility", s.Compatibility},
		{"allowed tools", strings.Join(s.AllowedTools, " ")},
	}
	if s.DisableModelInvocation {
		rows = append(rows, [2]string{"loaded by", "people alone, with /skill " + s.Name})
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
		rows = append(rows, [2]string{"metadata", key + ": " + s.Metadata[key]})
	}
	rows = append(rows, [2]string{"folder", s.Dir})
	for _, r := range s.Resources {
		data, err := r.Read(ctx)
		kind := "text"
		if data.Binary {
			kind = "binary"
		}
		about := fmt.Sprintf("%s (%s, %d bytes, %s)", r.Name, kind, len(data.Bytes), data.MediaType)
		if err != nil {
			about = err.Error()
		}
		rows = append(rows, [2]string{"resource", about})
	}
	for _, script := range s.Scripts {
		rows = append(rows, [2]string{"script", script.Name})
	}
	if err := cli.PrintFields(out, rows); err != nil {
		return err
	}
	fmt.Fprintln(out)
	printText(out, s.Instructions)
	return nil
}

// printText prints a text without control sequences for a terminal.
func printText(out io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(out, cli.Printable(strings.ReplaceAll(line, "\t", "    ")))
	}
}

type promptCommand struct {
	Name string   `arg:"" optional:"" help:"name of a skill, to see what the model is told when it is loaded"`
	Dirs []string `name:"dir" sep:"none" help:"a folder of skills; may be repeated (BOT_SKILLS_DIR)"`
	folders
}

// Run prints what a model sees of the skills: their list and the tools, or one of them. It leaves
// out scripts whose interpreter is not installed here.
func (c promptCommand) Run(ctx context.Context, p *app.Program) error {
	found, err := c.find(ctx, p, c.Dirs)
	if err != nil {
		return err
	}
	cfg := skills.ProviderConfig{Skills: found}
	box, err := sandbox.New(ctx, sandbox.Config{})
	switch {
	case err == nil:
		cfg.Sandbox = box
	case !errors.Is(err, sandbox.ErrNoSandbox):
		return err
	}
	provider, err := skills.NewProvider(cfg)
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
	printText(p.Out(), text)
	return nil
}
