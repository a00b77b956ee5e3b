package skills

import (
	"context"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// Names of the tools.
const (
	LoadSkill    = loadSkill
	ReadResource = readResource
	RunScript    = runScript
)

// CommandLine is how scripts get their arguments.
var CommandLine = commandLine

// Skills are those that a person may use in the turn.
func (p *Provider) Skills(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
	c, err := p.catalogue(ctx, turn, true)
	if err != nil {
		return nil, err
	}
	return c.skills, nil
}

// Lines lists skills in so many characters.
func Lines(ctx context.Context, budget int, list []*Skill) string {
	return (&catalogue{skills: list}).lines(ctx, budget)
}

// Describe says what bytes are.
var Describe = describe

// Parse reads a SKILL.md.
func Parse(text []byte, folder string, lenient bool) (Skill, []Fault) {
	p := parsing{path: fileName, lenient: lenient}
	return p.parse(text, folder), p.faults
}

// Head is what SKILL.md says of itself.
func (s Skill) Head() Skill {
	s.Instructions, s.Text, s.Dir, s.Resources, s.Scripts, s.at = "", "", "", nil, nil, place{}
	return s
}

// Found is what was found.
type Found struct {
	Skills []*Skill
	Faults []Fault
}

// Sound says that there are no faults but warnings.
func (f Found) Sound() bool { return sound(f.Faults) }

// Discover looks for skills.
func Discover(ctx context.Context, cfg Config) (Found, error) {
	list, faults, err := cfg.Discover(ctx)
	return Found{list, faults}, err
}

// Runner runs scripts in place of a sandbox.
type Runner = runner

// RunBy gives scripts to a runner.
func RunBy(r Runner, cfg ProviderConfig) ProviderConfig {
	cfg.runner = r
	return cfg
}

// Sandboxed runs scripts in a sandbox.
func Sandboxed(box *sandbox.Sandbox) Runner {
	if box == nil {
		return sandboxed{}
	}
	return sandboxed{box}
}

// Digest identifies parts of a skill.
var Digest = digest
