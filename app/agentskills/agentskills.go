// Package agentskills is a feature of a program: the bot has Agent Skills, which are folders with a SKILL.md, and
// commands that check and show them.
package agentskills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// Config is what a bot says of its skills besides its settings.
type Config struct {
	// Sandbox runs scripts in place of what BOT_SKILLS_SANDBOX says: a container, a service, or on systems
	// without a sandbox [sandbox.Unprotected], which protects nothing. nil: the setting decides.
	Sandbox skills.Sandbox
}

// Feature is the feature, for one program.
func Feature(cfg Config) app.Feature {
	return app.Feature{
		Name: "skills", Settings: &own{shared: &shared{cfg: cfg}}, Check: check, Extend: extend, Wire: wire, Commands: &struct {
			Skills commands `help:"Check, list or show skills: folders with a SKILL.md."`
		}{},
		Doctor: map[string]func(context.Context, *app.Program) app.Check{
			"skills": func(ctx context.Context, p *app.Program) app.Check {
				return of(p.Settings()).examine(ctx, p.Settings())
			},
			"scripts": func(ctx context.Context, p *app.Program) app.Check { return of(p.Settings()).examineScripts(ctx) },
		},
	}
}

// own are the settings.
type own struct {
	Dir      string   `env:"BOT_SKILLS_DIR" else:"no skills" help:"folders of skills, separated as in PATH"`
	Lenient  bool     `env:"BOT_SKILLS_LENIENT" needs:"BOT_SKILLS_DIR" help:"true: use skills with small faults"`
	Links    bool     `env:"BOT_SKILLS_LINKS" needs:"BOT_SKILLS_DIR" help:"true: follow symbolic links that lead to one of the folders, as in a ConfigMap"`
	Reload   bool     `env:"BOT_SKILLS_RELOAD" needs:"BOT_SKILLS_DIR" help:"true: reload in each turn"`
	Approval []string `env:"BOT_SKILLS_APPROVAL" else:"run" needs:"BOT_SKILLS_DIR" help:"which uses of skills need approval: load, read, run, comma separated, or all or none"`
	Kind     string   `env:"BOT_SKILLS_SANDBOX" oneof:"auto,bubblewrap,landlock,none" default:"auto" help:"what scripts of skills run in: auto, bubblewrap, landlock, or none to refuse them"`

	*shared
}

// The values of BOT_SKILLS_SANDBOX besides a kind.
const (
	auto = "auto"
	none = "none"
)

// shared is what copies of the settings have in common.
type shared struct {
	cfg Config

	mu      sync.Mutex
	kind    string         // of BOT_SKILLS_SANDBOX, of which box is; "": none is open
	box     skills.Sandbox // nil: scripts are refused
	scripts string         // what they run in, or why they are refused
	found   string         // the names of the skills that were found last
}

func of(s *settings.Settings) *own { return settings.Own[own](s) }

// Of says where the bot of a program looks for skills, what runs their scripts, and that in words. Without skills, or
// this feature, it is nothing.
func Of(p *app.Program) (where skills.Config, box skills.Sandbox, about string) {
	o := of(p.Settings())
	if o == nil || len(o.dirs()) == 0 {
		return skills.Config{}, nil, ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.config(p.Settings()), o.box, o.scripts
}

func (o *own) dirs() []string {
	return slices.DeleteFunc(filepath.SplitList(o.Dir), func(dir string) bool { return strings.TrimSpace(dir) == "" })
}

func (o *own) config(s *settings.Settings) skills.Config {
	return skills.Config{Roots: o.dirs(), Lenient: o.Lenient, FollowLinks: o.Links, Reload: o.Reload && !s.Frozen}
}

// tools are the words of BOT_SKILLS_APPROVAL, with the actions of which every call needs a person's approval.
var tools = map[string][]string{
	"load": {"load_skill"}, "read": {"read_skill_resource"}, "run": {"run_skill_script"},
	"all": {"load_skill", "read_skill_resource", "run_skill_script"}, "none": {},
}

func (o *own) approved() []string {
	if o.Approval == nil {
		return tools["run"]
	}
	all := []string{}
	for _, word := range o.Approval {
		all = append(all, tools[strings.ToLower(word)]...)
	}
	return all
}

func check(v app.Values) error {
	o := of(v.Settings())
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, word := range o.Approval {
		switch _, ok := tools[strings.ToLower(word)]; {
		case !ok:
			fault("BOT_SKILLS_APPROVAL: %q is none of load, read, run, all and none", word)
		case len(o.Approval) > 1 && (strings.EqualFold(word, "all") || strings.EqualFold(word, "none")):
			fault("BOT_SKILLS_APPROVAL: %s says it for all three, so it stands alone", word)
		}
	}
	for _, dir := range o.dirs() {
		if info, err := os.Stat(dir); err != nil && !o.Reload || err == nil && !info.IsDir() {
			fault("BOT_SKILLS_DIR: %q is not a folder", dir)
		}
	}
	return errors.Join(faults...)
}

// extend finds the skills. It logs their faults now rather than in the first turn.
func extend(ctx context.Context, v app.Values, cfg *planner.Config) error {
	o := of(v.Settings())
	if len(o.dirs()) == 0 {
		return nil
	}
	source := o.config(v.Settings()).Source()
	found, err := source(ctx, nil)
	if err != nil {
		return fmt.Errorf("BOT_SKILLS_DIR: %w", err)
	}
	box, err := o.sandbox(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(found))
	for i, skill := range found {
		names[i] = skill.Name
	}
	o.mu.Lock()
	o.found = cmp.Or(strings.Join(names, ", "), "none that can be used")
	o.mu.Unlock()
	p, err := skills.NewProvider(skills.ProviderConfig{Sources: []skills.Source{source}, Sandbox: box, Approve: o.approved()})
	if err != nil {
		return err
	}
	cfg.Extensions = append(cfg.Extensions, p)
	return p.Register(cfg.Actions)
}

// sandbox returns what runs scripts; nil: they are refused, because of BOT_SKILLS_SANDBOX or as nothing works, which
// is an error only if the setting names a kind.
func (o *own) sandbox(ctx context.Context) (skills.Sandbox, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kind == o.Kind {
		return o.box, nil
	}
	switch {
	case o.cfg.Sandbox != nil:
		o.box, o.scripts = o.cfg.Sandbox, fmt.Sprintf("scripts of skills run in %v", o.cfg.Sandbox)
	case o.Kind == none:
		o.box, o.scripts = nil, "scripts of skills are refused: BOT_SKILLS_SANDBOX is none"
	default:
		box, err := o.open(ctx)
		switch {
		case err == nil:
			o.box, o.scripts = box, "scripts of skills run in "+box.Kind()
		case o.Kind == auto && errors.Is(err, sandbox.ErrNoSandbox):
			o.box, o.scripts = nil, "scripts of skills are refused: "+strings.ReplaceAll(err.Error(), "\n", "; ")
		default:
			return nil, settings.Fault{Err: fmt.Errorf("BOT_SKILLS_SANDBOX: %w", err)}
		}
	}
	o.kind = o.Kind
	if o.box == nil {
		zerolog.Ctx(ctx).Warn().Str("about", o.scripts).Msg("there is no sandbox")
	}
	return o.box, nil
}

// open opens the sandbox that BOT_SKILLS_SANDBOX names, or the best one that works.
func (o *own) open(ctx context.Context) (*sandbox.Sandbox, error) {
	var cfg sandbox.Config
	if o.Kind != auto {
		cfg.Kinds = []string{o.Kind}
	}
	return sandbox.New(ctx, cfg)
}

func wire(_ context.Context, p *app.Program, _ *bot.Config) error {
	o := of(p.Settings())
	p.Announce("skills", o.found)
	p.Announce("scripts", o.scripts)
	return nil
}

// examine finds the skills that would be used, and the faults of others.
func (o *own) examine(ctx context.Context, s *settings.Settings) app.Check {
	if o.Dir == "" {
		return app.Check{}
	}
	found, faults, err := o.config(s).Discover(ctx)
	if err != nil {
		return app.Check{Status: "fail", Detail: err.Error(), Hint: "BOT_SKILLS_DIR names folders of skills, separated as in PATH"}
	}
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	c := app.Check{Status: "ok", Detail: strings.TrimSuffix(fmt.Sprintf("%d used: %s", len(names), strings.Join(names, ", ")), ": ")}
	for _, fault := range faults {
		c.Detail += "\n" + fault.String()
	}
	if len(faults) > 0 || len(names) == 0 {
		c.Status, c.Hint = "warn", "bot skills validate checks a folder; docs/skills.md explains SKILL.md"
	}
	return c
}

// examineScripts looks whether scripts can run.
func (o *own) examineScripts(ctx context.Context) app.Check {
	const install = "install the package bubblewrap, and interpreters such as python3; " +
		"in a container, whose default profile forbids bubblewrap, Linux 6.12 or later does without: docs/security.md"
	switch {
	case o.Dir == "":
		return app.Check{}
	case o.cfg.Sandbox != nil:
		return app.Check{Status: "ok", Detail: fmt.Sprintf("scripts of skills run in %v", o.cfg.Sandbox)}
	case o.Kind == none:
		return app.Check{Status: "ok", Detail: "scripts of skills are refused, as BOT_SKILLS_SANDBOX says"}
	}
	box, err := o.open(ctx)
	if err != nil && o.Kind != auto {
		return app.Check{Status: "fail", Detail: err.Error(), Hint: install + "; or set BOT_SKILLS_SANDBOX to auto"}
	}
	if err != nil {
		return app.Check{
			Status: "warn", Detail: "scripts of skills are refused: " + err.Error(),
			Hint: install + "; or set BOT_SKILLS_SANDBOX to none",
		}
	}
	commands := box.Interpreters()
	if len(commands) == 0 {
		return app.Check{Status: "warn", Detail: "there is " + box.Kind() + " for scripts of skills, but no interpreter", Hint: install}
	}
	var all []string // such as ".py by /usr/bin/python3"
	for _, ext := range slices.Sorted(maps.Keys(commands)) {
		all = append(all, ext+" by "+commands[ext][0])
	}
	detail := "scripts of skills run in " + box.Kind() + ": " + strings.Join(all, ", ")
	if refused := box.Refused(); len(refused) > 0 {
		detail += "\nnot in " + errors.Join(refused...).Error()
	}
	return app.Check{Status: "ok", Detail: detail}
}

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
